//! Rules that no proxy writes, in the way of a Service's packets: never `ok`, and what clients see of them. The symptoms
//! are those of the same rules in a kernel.

use netlab_core::model::service::AddressType;
use netlab_core::service::expected::ExpectedPort;
use netlab_core::service::fault::{Fault, Kind};
use netlab_core::service::follow::Symptom;
use netlab_core::service::iptables::dump::parse;
use netlab_core::service::iptables::emit;
use netlab_core::service::nftables::{Layout, dump, listing};
use netlab_core::service::trace::{PortTrace, Rules, ServiceTrace, Status, trace};
use serde_json::{Value, json};

use crate::service_world::{HALF_BROKEN, all_kinds, options, ports};

const SERVICE: &str = "KUBE-SVC-GT4NHM5PDAGWYSIU";
const ENDPOINT: &str = "KUBE-SEP-442MEYXHNLSPQS4C";
const VIP: &str = "10.96.0.50";
const OUT: Symptom = Symptom { timeout_share: 1.0, refused_share: 0.0 };
const HALF: Symptom = Symptom { timeout_share: 0.5, refused_share: 0.0 };
const REFUSED: Symptom = Symptom { timeout_share: 0.0, refused_share: 1.0 };
const NONE: Symptom = Symptom { timeout_share: 0.0, refused_share: 0.0 };

fn of_save(text: &str, ports: &[ExpectedPort]) -> ServiceTrace {
    trace(&Rules::Iptables(parse(text).expect("well formed")), ports, "worker")
}

/// The text with a rule before the first of its chain.
fn first(text: &str, rule: &str) -> String {
    let chain = rule.split(' ').nth(1).expect("a chain");
    let (nat, filter) = text.split_once("COMMIT\n").expect("two tables");
    let start = format!("-A {chain} ");
    let at = nat.lines().position(|line| line.starts_with(&start)).unwrap_or(nat.lines().count());
    let mut lines: Vec<&str> = nat.lines().collect();
    lines.insert(at, rule);
    format!("{}\nCOMMIT\n{filter}", lines.join("\n"))
}

fn replaced(text: &str, from: &str, to: &str) -> String {
    assert!(text.contains(from), "nothing reads {from}");
    text.replacen(from, to, 1)
}

fn web(trace: &ServiceTrace) -> &PortTrace {
    let is_web = |port: &&PortTrace| port.address.starts_with(VIP) && port.port == "http";
    trace.ports.iter().find(is_web).expect("the port")
}

/// Broken, with this symptom, and a fault that says where.
#[track_caller]
fn is_broken(name: &str, trace: &ServiceTrace, symptom: Symptom) {
    let port = web(trace);
    assert_eq!((port.status, port.symptom), (Status::Broken, symptom), "{name}: {port:#?}");
    let mut faults: Vec<Fault> = port.faults().cloned().collect();
    faults.extend(trace.shared.iter().map(|shared| shared.fault.clone()));
    let is_placed = |fault: &Fault| {
        let place = &fault.place;
        matches!(
            fault.kind,
            Kind::Foreign | Kind::Unread | Kind::Jump | Kind::Backend | Kind::Frontend | Kind::SourceRange
        ) && !place.chain.is_empty()
    };
    assert!(faults.iter().any(is_placed), "{name}: {faults:#?}");
}

#[test]
fn strangers_among_the_rules_of_iptables_mode() {
    let ports = ports(HALF_BROKEN);
    let good = emit(&ports, &options());
    assert_eq!(web(&of_save(&good, &ports)).status, Status::Ok);
    let frontend = format!("-A KUBE-SERVICES -d {VIP}/32 -p tcp");
    for (name, rules, symptom) in [
        ("RETURN in the Service", first(&good, &format!("-A {SERVICE} -j RETURN")), OUT),
        ("ACCEPT in the Service", first(&good, &format!("-A {SERVICE} -j ACCEPT")), OUT),
        ("one protocol's", first(&good, &format!("-A {SERVICE} -p tcp -j RETURN")), OUT),
        (
            "half of them",
            first(&good, &format!("-A {SERVICE} -m statistic --mode random --probability 0.5 -j RETURN")),
            HALF,
        ),
        ("RETURN in the last endpoint", first(&good, &format!("-A {ENDPOINT} -j RETURN")), HALF),
        ("ACCEPT in the last endpoint", first(&good, &format!("-A {ENDPOINT} -j ACCEPT")), HALF),
        ("RETURN of the address", first(&good, &format!("-A KUBE-SERVICES -d {VIP}/32 -j RETURN")), OUT),
        ("ACCEPT of all", first(&good, "-A KUBE-SERVICES -j ACCEPT"), OUT),
        ("a chain that does not come back", first(&good, &format!("-A {SERVICE} -g {ENDPOINT}")), NONE),
        ("another interface's", replaced(&good, "-A PREROUTING -j", "-A PREROUTING -i eth9 -j"), OUT),
        ("another source's", replaced(&good, "-A PREROUTING -j", "-A PREROUTING -s 10.9.0.0/16 -j"), OUT),
        ("ACCEPT before", first(&good, "-A PREROUTING -j ACCEPT"), OUT),
        (
            "ACCEPT before, elsewhere",
            {
                let jump = first(&good, "-A PREROUTING -j OTHER");
                first(&jump, &format!("-A OTHER -d {VIP}/32 -j ACCEPT"))
            },
            OUT,
        ),
        (
            "not tracked",
            format!(
                "*raw\n:PREROUTING ACCEPT [0:0]\n-A PREROUTING -d {VIP}/32 -j CT --notrack\nCOMMIT\n{good}"
            ),
            OUT,
        ),
        (
            "perhaps not tracked",
            format!(
                "*raw\n:PREROUTING ACCEPT [0:0]\n-A PREROUTING -i eth9 -d {VIP}/32 -j CT --notrack\nCOMMIT\n{good}"
            ),
            NONE,
        ),
        ("a mark", replaced(&good, &frontend, &format!("{frontend} -m mark --mark 0x1")), OUT),
        ("a source", replaced(&good, &frontend, &format!("{frontend} -s 10.9.0.0/16")), OUT),
        (
            "only old ones",
            replaced(&good, &frontend, &format!("{frontend} -m conntrack --ctstate ESTABLISHED")),
            OUT,
        ),
        ("one source's RETURN", first(&good, &format!("-A {SERVICE} -s 10.9.0.0/16 -j RETURN")), NONE),
        (
            "a drop on the way",
            replaced(&good, "-A KUBE-FORWARD ", "-A KUBE-FORWARD -j DROP\n-A KUBE-FORWARD "),
            OUT,
        ),
        ("a redirection", first(&good, &format!("-A {SERVICE} -p tcp -j REDIRECT")), NONE),
    ] {
        is_broken(name, &of_save(&rules, &ports), symptom);
    }
}

#[test]
fn strangers_where_node_ports_come_in() {
    let ports = ports(&all_kinds());
    let good = emit(&ports, &options());
    let status = |rules: &str| {
        let trace = of_save(rules, &ports);
        let port = trace.ports.iter().find(|port| port.service == "t/outside").expect("it is there").clone();
        let node =
            port.addresses.iter().find(|found| found.address == "node port 30080").expect("its node port");
        (port.status, node.symptom)
    };
    assert_eq!(status(&good), (Status::Ok, NONE));
    let external = good.lines().find_map(|line| {
        let rest = line.strip_prefix("-A KUBE-NODEPORTS ")?;
        rest.contains("--dport 30080 ").then(|| rest.rsplit(' ').next().unwrap_or_default().to_owned())
    });
    let external = external.expect("a rule for the node port");
    for rule in ["-A KUBE-NODEPORTS -j RETURN".to_owned(), format!("-A {external} -j RETURN")] {
        // Nobody listens at the node port itself.
        assert_eq!(status(&first(&good, &rule)), (Status::Broken, REFUSED), "{rule}");
    }
}

fn of_nft(listing: &Value, ports: &[ExpectedPort]) -> ServiceTrace {
    trace(&Rules::Nftables(dump::parse(&listing.to_string()).expect("well formed")), ports, "worker")
}

/// The listing with a rule before the first of a chain.
fn insert(listing: &Value, chain: &str, expression: &Value) -> Value {
    let mut listing = listing.clone();
    let items = listing["nftables"].as_array_mut().expect("a list");
    let at = items.iter().position(|item| item["rule"]["chain"] == chain).expect("a rule of the chain");
    let rule =
        json!({"family": "ip", "table": "kube-proxy", "chain": chain, "handle": 900, "expr": expression});
    items.insert(at, json!({"rule": rule}));
    listing
}

/// The listing with something else in the first item that has this word.
fn edited(listing: &Value, is: impl Fn(&Value) -> bool, edit: impl Fn(&mut Value)) -> Value {
    let mut listing = listing.clone();
    let items = listing["nftables"].as_array_mut().expect("a list");
    edit(items.iter_mut().find(|item| is(item)).expect("such an item"));
    listing
}

fn with_foreign(listing: &Value, kind: &str, priority: i64, policy: &str, expression: &Value) -> Value {
    let mut listing = listing.clone();
    listing["nftables"].as_array_mut().expect("a list").extend([
        json!({"table": {"family": "ip", "name": "x", "handle": 1}}),
        json!({"chain": {"family": "ip", "table": "x", "name": "p", "handle": 1, "type": kind, "hook": "prerouting",
                         "prio": priority, "policy": policy}}),
        json!({"rule": {"family": "ip", "table": "x", "chain": "p", "handle": 2, "expr": expression}}),
    ]);
    listing
}

#[test]
fn strangers_in_the_table_of_nftables_mode() {
    let ports = ports(HALF_BROKEN);
    let to = json!({"match": {"op": "==", "left": {"payload": {"protocol": "ip", "field": "daddr"}}, "right": VIP}});
    let to_any = |right: Value| json!({"match": {"op": "==", "left": {"payload": {"protocol": "ip", "field": "daddr"}}, "right": right}});
    let (among, named) = (to_any(json!({"set": ["192.0.2.1", VIP]})), to_any(json!("@some")));
    let from = json!({"match": {"op": "==", "left": {"payload": {"protocol": "ip", "field": "saddr"}},
                                "right": {"prefix": {"addr": "10.9.0.0", "len": 16}}}});
    let eth9 = json!({"match": {"op": "==", "left": {"meta": {"key": "iifname"}}, "right": "eth9"}});
    let verdict = |word: &str| json!({word: null});
    for layout in [Layout::Maps, Layout::Chains] {
        let good = listing(&ports, AddressType::Ipv4, layout, &options());
        assert_eq!(web(&of_nft(&good, &ports)).status, Status::Ok, "{layout:?}");
        let items = good["nftables"].as_array().expect("a list");
        let service = items.iter().find_map(|item| {
            let name = item["chain"]["name"].as_str()?;
            (name.starts_with("service-") && name.contains("mynet/web/tcp/http")).then_some(name)
        });
        let service = service.expect("the Service's chain");
        let rule_of = |chain: &'static str| move |item: &Value| item["rule"]["chain"] == chain;
        let condition = |extra: &Value| {
            let extra = extra.clone();
            move |item: &mut Value| {
                item["rule"]["expr"].as_array_mut().expect("statements").insert(0, extra.clone());
            }
        };
        let looks_up = |item: &Value| item["rule"].to_string().contains("@service-ips");
        for (name, rules, symptom) in [
            ("return in the Service", insert(&good, service, &json!([verdict("return")])), REFUSED),
            ("accept in the Service", insert(&good, service, &json!([verdict("accept")])), REFUSED),
            ("drop in the Service", insert(&good, service, &json!([verdict("drop")])), OUT),
            ("one source's return", insert(&good, service, &json!([from, verdict("return")])), NONE),
            ("drop in services", insert(&good, "services", &json!([to, verdict("drop")])), OUT),
            ("return in services", insert(&good, "services", &json!([to, verdict("return")])), REFUSED),
            ("accept in services", insert(&good, "services", &json!([verdict("accept")])), REFUSED),
            ("accept before", insert(&good, "nat-prerouting", &json!([verdict("accept")])), REFUSED),
            ("drop before", insert(&good, "nat-prerouting", &json!([to, verdict("drop")])), OUT),
            (
                "drop before all",
                insert(&good, "filter-prerouting-pre-dnat", &json!([to, verdict("drop")])),
                OUT,
            ),
            ("drop on the way", insert(&good, "filter-forward", &json!([verdict("drop")])), OUT),
            ("drop of the ends", insert(&good, "service-endpoints-check", &json!([verdict("drop")])), OUT),
            // Half of what the node's endpoint asks of its own Service, and of what comes from outside of the cluster.
            (
                "a return",
                insert(&good, "masquerading", &json!([verdict("return")])),
                Symptom { timeout_share: 0.5, refused_share: 0.0 },
            ),
            ("another source's lookup", edited(&good, looks_up, condition(&from)), REFUSED),
            ("another interface's", edited(&good, rule_of("nat-prerouting"), condition(&eth9)), REFUSED),
            (
                "another field",
                edited(&good, looks_up, |item| {
                    let text = item.to_string().replace("dport", "sport");
                    *item = serde_json::from_str(&text).expect("JSON");
                }),
                REFUSED,
            ),
            (
                "policy drop",
                edited(
                    &good,
                    |item| item["chain"]["name"] == "filter-forward",
                    |item| {
                        item["chain"]["policy"] = json!("drop");
                    },
                ),
                OUT,
            ),
            (
                "an element of the firewall",
                edited(
                    &good,
                    |item| item["map"]["name"] == "firewall-ips",
                    |item| {
                        item["map"]["elem"] = json!([[{"concat": [VIP, "tcp", 80]}, {"drop": null}]]);
                    },
                ),
                OUT,
            ),
            (
                "another offset",
                edited(
                    &good,
                    |item| item["rule"]["chain"] == service && item.to_string().contains("numgen"),
                    |item| {
                        let text = item.to_string().replace("\"offset\":0", "\"offset\":1");
                        *item = serde_json::from_str(&text).expect("JSON");
                    },
                ),
                Symptom { timeout_share: 0.0, refused_share: 0.5 },
            ),
            (
                "translated before",
                with_foreign(&good, "nat", -150, "accept", &json!([to, {"dnat": {"addr": "1.1.1.1"}}])),
                OUT,
            ),
            (
                "translated before, with a port",
                with_foreign(
                    &good,
                    "nat",
                    -150,
                    "accept",
                    &json!([to, {"dnat": {"addr": "1.1.1.1", "port": 8}}]),
                ),
                OUT,
            ),
            (
                "one interface's",
                with_foreign(&good, "nat", -150, "accept", &json!([eth9, to, {"dnat": {"addr": "1.1.1.1"}}])),
                NONE,
            ),
            (
                "not tracked",
                with_foreign(&good, "filter", -300, "accept", &json!([to, verdict("notrack")])),
                // The proxy asks for new connections where it refuses, and this is none.
                OUT,
            ),
            (
                "not tracked, among others",
                with_foreign(&good, "filter", -300, "accept", &json!([among, verdict("notrack")])),
                OUT,
            ),
            (
                "not tracked, by a set",
                {
                    let mut rules =
                        with_foreign(&good, "filter", -300, "accept", &json!([named, verdict("notrack")]));
                    rules["nftables"].as_array_mut().expect("a list").push(json!({"set": {"family": "ip",
                        "table": "x", "name": "some", "type": "ipv4_addr", "handle": 9, "elem": ["192.0.2.1", VIP]}}));
                    rules
                },
                OUT,
            ),
            (
                "all dropped",
                with_foreign(&good, "filter", -300, "drop", &json!([from, verdict("drop")])),
                OUT,
            ),
        ] {
            is_broken(&format!("{layout:?}: {name}"), &of_nft(&rules, &ports), symptom);
        }
        // All is let through before the policy is asked.
        let open = with_foreign(&good, "filter", -300, "drop", &json!([verdict("accept")]));
        assert_eq!(web(&of_nft(&open, &ports)).status, Status::Ok);
        // Where connections are tracked already it is too late to take that off.
        let late = with_foreign(&good, "filter", -150, "accept", &json!([to, verdict("notrack")]));
        assert_eq!(web(&of_nft(&late, &ports)).status, Status::Ok);
    }
}
