//! Whose connections fail where kube-proxy's nftables mode does not masquerade: who comes from outside, in or out of the
//! cluster, and endpoints that ask their own Service; in both layouts, on what a real kube-proxy wrote.

use netlab_core::model::service::AddressType;
use netlab_core::service::expected::expected;
use netlab_core::service::fault::Kind;
use netlab_core::service::follow::{Client, Symptom};
use netlab_core::service::nftables::dump;
use netlab_core::service::trace::{PortTrace, Rules, ServiceTrace, Status, trace};
use serde_json::{Value, json};

use crate::service_world::cluster;

const WORLD: &str = include_str!("../kube-proxy/world.yaml");
const MAPS: &str = include_str!("../kube-proxy/nft-ip-1.36.3.json");
const CHAINS: &str = include_str!("../kube-proxy/nft-ip-1.34.4.json");
const NODE_PORT: &str = "external-NMAL6UB6-t/node-port/tcp/";
const NONE: f64 = 0.0;

fn table(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}

/// The table without the rules for which `is` says so.
fn without(table: &Value, is: impl Fn(&Value) -> bool) -> Value {
    let items = table["nftables"].as_array().expect("a list");
    let kept: Vec<&Value> = items.iter().filter(|item| !is(&item["rule"])).collect();
    assert!(kept.len() < items.len(), "nothing is taken out");
    json!({"nftables": kept})
}

/// The table with a number in the rules of a chain replaced.
fn with_bit(table: &Value, chain: &str) -> Value {
    let mut table = table.clone();
    let mut changed = 0;
    for item in table["nftables"].as_array_mut().expect("a list") {
        if item["rule"]["chain"] == chain && item.to_string().contains("16384") {
            *item = serde_json::from_str(&item.to_string().replace("16384", "32768")).expect("JSON");
            changed += 1;
        }
    }
    assert!(changed > 0, "{chain}");
    table
}

fn compare(table: &Value) -> ServiceTrace {
    let ports = expected(&cluster(WORLD), "worker", AddressType::Ipv4);
    trace(&Rules::Nftables(dump::parse(&table.to_string()).expect("well formed")), &ports, "worker")
}

fn port<'a>(trace: &'a ServiceTrace, service: &str) -> &'a PortTrace {
    trace.ports.iter().find(|port| port.service == service).expect("the port")
}

const fn out(share: f64) -> Symptom {
    Symptom { timeout_share: share, refused_share: 0.0 }
}

/// What share times out: of node-port from outside at its node port and its external IP, and from outside of the cluster
/// to its cluster IP; of web for its endpoint on the node, and from outside of the cluster.
#[track_caller]
fn check(name: &str, table: &Value, outside: f64, strangers: f64, hairpin: f64) {
    let trace = compare(table);
    let node_port = port(&trace, "t/node-port");
    for address in &node_port.addresses {
        let share = if address.from == Client::Outside { outside } else { 0.0 };
        assert_eq!(address.symptom, out(share), "{name}: {} {:#?}", address.address, address.from);
    }
    let worse = |service: &str, clients: &str| {
        let mut all = port(&trace, service).addresses.iter().flat_map(|address| &address.worse);
        all.find(|worse| worse.clients.contains(clients)).map_or(out(0.0), |worse| worse.symptom)
    };
    assert_eq!(
        worse("t/node-port", "outside of the cluster"),
        out(strangers),
        "{name}: all endpoints elsewhere"
    );
    assert_eq!(worse("t/web", "outside of the cluster"), out(strangers * 0.5), "{name}: half elsewhere");
    assert_eq!(worse("t/web", "10.244.1.1, its own endpoint"), out(hairpin), "{name}");
    let web = port(&trace, "t/web");
    let fails = hairpin > 0.0 || strangers > 0.0;
    assert_eq!(web.failing.is_some(), fails, "{name}: {web:#?}");
    let faults =
        trace.ports.iter().flat_map(PortTrace::faults).chain(trace.shared.iter().map(|one| &one.fault));
    let kinds: Vec<Kind> = faults.map(|fault| fault.kind).collect();
    assert_eq!(kinds.is_empty(), node_port.status == Status::Ok && web.status == Status::Ok, "{name}");
    if outside + strangers + hairpin > 0.0 {
        assert!(kinds.contains(&Kind::Masquerade), "{name}: {kinds:?}");
    }
}

#[test]
fn who_fails_where_packets_keep_their_source() {
    let of = |chain: &'static str| move |rule: &Value| rule["chain"] == chain;
    let all = 1.0;
    for text in [MAPS, CHAINS] {
        let good = table(text);
        check("well", &good, NONE, NONE, NONE);
        let mark = |rule: &Value| rule["chain"] == NODE_PORT && rule.to_string().contains("mark");
        check("no mark of the node port", &without(&good, mark), all, NONE, NONE);
        check("no masquerading chain", &without(&good, of("masquerading")), all, all, 0.5);
        check("nothing leads to masquerading", &without(&good, of("nat-postrouting")), all, all, 0.5);
        let hairpin = if text == CHAINS { 0.5 } else { NONE };
        check("another bit is asked for", &with_bit(&good, "masquerading"), all, all, hairpin);
    }
    let maps = table(MAPS);
    check("another bit is set", &with_bit(&maps, NODE_PORT), all, NONE, NONE);
    let mark = |rule: &Value| rule["chain"] == "services" && rule.to_string().contains("mangle");
    check("no mark of cluster IPs", &without(&maps, mark), NONE, all, NONE);
    let hairpin = |rule: &Value| rule["chain"] == "masquerading" && rule.to_string().contains("hairpin");
    check("no hairpin", &without(&maps, hairpin), NONE, NONE, 0.5);
    let mut less = maps.clone();
    for item in less["nftables"].as_array_mut().expect("a list") {
        if item["set"]["name"] == "hairpin-connections" {
            let elements = item["set"]["elem"].as_array_mut().expect("elements");
            elements
                .retain(|element| *element != json!({"concat": ["10.244.1.1", "10.244.1.1", "tcp", 8080]}));
        }
    }
    check("no element of an endpoint", &less, NONE, NONE, 0.5);
    let chains = table(CHAINS);
    check("the chain that marks is empty", &without(&chains, of("mark-for-masquerade")), all, all, 0.5);
    let own = "endpoint-JNQCVMW3-t/web/tcp/http__10.244.1.1/8080";
    let hairpin = |rule: &Value| rule["chain"] == own && rule.to_string().contains("saddr");
    check("no mark of an endpoint", &without(&chains, hairpin), NONE, NONE, 0.5);
    // What else masquerades at the hook may, and nobody can say.
    let mut others = without(&maps, of("masquerading"));
    others["nftables"].as_array_mut().expect("a list").extend([
        json!({"table": {"family": "ip", "name": "nat", "handle": 1}}),
        json!({"chain": {"family": "ip", "table": "nat", "name": "POSTROUTING", "handle": 1, "type": "nat", "hook": "postrouting", "prio": 100, "policy": "accept"}}),
        json!({"rule": {"family": "ip", "table": "nat", "chain": "POSTROUTING", "handle": 2, "expr": [{"match": {"op": "==", "left": {"meta": {"key": "oifname"}}, "right": "eth0"}}, {"masquerade": null}]}}),
    ]);
    let mut ports = expected(&cluster(WORLD), "worker", AddressType::Ipv4);
    ports.retain(|port| port.name.service.to_string() == "t/web");
    let rules = Rules::Nftables(dump::parse(&others.to_string()).expect("well formed"));
    let open = trace(&rules, &ports, "worker").not_examined;
    assert!(open.iter().any(|words| words.contains("10.244.1.1:8080")), "{open:?}");
    let trace = compare(&others);
    assert!(port(&trace, "t/node-port").addresses.iter().all(|address| address.symptom.is_none()));
}

/// With a chain of somebody else's that has one rule.
fn with_other(table: &Value, hook: &str, priority: i64, expression: &Value) -> Value {
    let mut table = table.clone();
    table["nftables"].as_array_mut().expect("a list").extend([
        json!({"table": {"family": "ip", "name": "x", "handle": 1}}),
        json!({"chain": {"family": "ip", "table": "x", "name": "fw", "handle": 1, "type": "filter", "hook": hook,
                         "prio": priority, "policy": "accept"}}),
        json!({"rule": {"family": "ip", "table": "x", "chain": "fw", "handle": 2, "expr": expression}}),
    ]);
    table
}

/// What becomes of the proxy's mark on the way to where it is asked for.
#[test]
fn a_rule_of_others_that_takes_the_mark_away_is_named() {
    let mark = || json!({"meta": {"key": "mark"}});
    let set = |value: Value| json!({"mangle": {"key": mark(), "value": value}});
    let eth0 = json!({"match": {"op": "==", "left": {"meta": {"key": "iifname"}}, "right": "eth0"}});
    let marked = json!({"match": {"op": "==", "left": {"&": [mark(), 16384]}, "right": 16384}});
    let unmarked = json!({"match": {"op": "!=", "left": {"&": [mark(), 16384]}, "right": 16384}});
    for (text, hairpin) in [(MAPS, None), (CHAINS, Some(out(0.5)))] {
        let good = table(text);
        for (name, hook, priority, expression, taken, examined) in [
            ("cleared", "forward", -150, json!([set(json!(0))]), true, true),
            (
                "one bit cleared",
                "forward",
                -150,
                json!([set(json!({"&": [mark(), 0xffff_bfff_u32]}))]),
                true,
                true,
            ),
            ("turned", "postrouting", 50, json!([set(json!({"^": [mark(), 16384]}))]), true, true),
            ("cleared where it is set", "forward", 0, json!([marked, set(json!(0))]), true, true),
            ("cleared where it is not", "forward", 0, json!([unmarked, set(json!(0))]), false, true),
            ("another bit is set", "forward", 0, json!([set(json!({"|": [mark(), 1]}))]), false, true),
            ("too late", "postrouting", 150, json!([set(json!(0))]), false, true),
            ("of one interface", "forward", 0, json!([eth0, set(json!(0))]), false, false),
            ("what nobody knows", "forward", 0, json!([set(json!({"ct": {"key": "mark"}}))]), false, false),
        ] {
            let trace = compare(&with_other(&good, hook, priority, &expression));
            let node_port = port(&trace, "t/node-port");
            let outside = node_port.addresses.iter().filter(|address| address.from == Client::Outside);
            let symptoms: Vec<Symptom> = outside.map(|address| address.symptom).collect();
            assert!(
                symptoms.iter().all(|symptom| *symptom == out(f64::from(u8::from(taken)))),
                "{name}: {symptoms:?}"
            );
            let faults: Vec<_> = node_port.faults().map(|fault| (fault.kind, &*fault.place.table)).collect();
            assert_eq!(faults, if taken { vec![(Kind::Foreign, "ip x")] } else { vec![] }, "{name}");
            assert_eq!(trace.not_examined.is_empty(), examined, "{name}: {:?}", trace.not_examined);
            let web = port(&trace, "t/web").addresses.iter().flat_map(|address| &address.worse);
            let mut own =
                web.filter(|worse| worse.clients.contains("its own endpoint")).map(|worse| worse.symptom);
            assert_eq!(own.next_back(), hairpin.filter(|_| taken), "{name}");
        }
    }
}
