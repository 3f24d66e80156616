//! A real kube-proxy's table of nftables mode with one rule changed: in another order, with another mark, other conditions,
//! other affinity. None of these is ok, and the rule that is at fault is named.

use netlab_core::model::service::AddressType;
use netlab_core::service::expected::expected;
use netlab_core::service::fault::{Difference, Fault, Kind};
use netlab_core::service::nftables::dump;
use netlab_core::service::trace::{Rules, ServiceTrace, Status, trace};
use serde_json::{Value, json};

use crate::service_world::cluster;

const WORLD: &str = include_str!("../kube-proxy/world.yaml");
const WEB: &str = "service-RNBVDMZH-t/web/tcp/http";
const WEB_ENDPOINT: &str = "endpoint-65JJDNJF-t/web/tcp/http__10.244.2.1/8080";
const STICKY: &str = "service-TXMKE3AT-t/balanced/udp/dns";
const STICKY_ENDPOINT: &str = "endpoint-BXF5E73N-t/balanced/udp/dns__10.244.1.5/5353";
const OTHER_ENDPOINT: &str = "endpoint-KS57FGZ6-t/balanced/udp/dns__10.244.2.5/5353";
const SET: &str = "affinity-BXF5E73N-t/balanced/udp/dns__10.244.1.5/5353";
const NODE_PORT: &str = "external-NMAL6UB6-t/node-port/tcp/";
const LOCAL: &str = "external-FELGPIL4-t/outside/tcp/";

/// A table that can be changed.
struct Table(Value);

impl Table {
    /// In place (1.36.3), or with a chain that marks (1.34.4).
    fn maps() -> Self {
        Self(serde_json::from_str(include_str!("../kube-proxy/nft-ip-1.36.3.json")).expect("JSON"))
    }

    fn chains() -> Self {
        Self(serde_json::from_str(include_str!("../kube-proxy/nft-ip-1.34.4.json")).expect("JSON"))
    }

    fn both() -> [Self; 2] {
        [Self::maps(), Self::chains()]
    }

    fn items(&mut self) -> &mut Vec<Value> {
        self.0["nftables"].as_array_mut().expect("a list")
    }

    /// The chain's rules in another order.
    fn ordered(mut self, chain: &str, order: &[usize]) -> Self {
        let is_of = |item: &Value| item["rule"]["chain"] == chain;
        let items = self.items();
        let places: Vec<usize> = (0..items.len()).filter(|at| is_of(&items[*at])).collect();
        let rules: Vec<Value> = places.iter().map(|at| items[*at].clone()).collect();
        assert_eq!(rules.len(), order.len(), "{chain}");
        for (place, from) in places.iter().zip(order) {
            items[*place] = rules[*from].clone();
        }
        self
    }

    /// The last of the chain's rules first.
    fn last_first(self, chain: &str) -> Self {
        let count = self.0["nftables"]
            .as_array()
            .expect("a list")
            .iter()
            .filter(|item| item["rule"]["chain"] == chain)
            .count();
        let order: Vec<usize> = std::iter::once(count - 1).chain(0..count - 1).collect();
        self.ordered(chain, &order)
    }

    /// With something else at a place in a rule's statements.
    fn with(mut self, chain: &str, rule: usize, at: &str, value: Value) -> Self {
        let mut of_chain = self.items().iter_mut().filter(|item| item["rule"]["chain"] == chain);
        let statements = &mut of_chain.nth(rule).expect("the rule")["rule"]["expr"];
        let place = statements.pointer_mut(at).unwrap_or_else(|| panic!("nothing at {at} of {chain}"));
        assert_ne!(*place, value);
        *place = value;
        self
    }

    /// With something else in an object of this name.
    fn object(mut self, kind: &str, name: &str, field: &str, value: Value) -> Self {
        let mut named = self.items().iter_mut().filter(|item| item[kind]["name"] == name);
        named.next().expect("the object")[kind][field] = value;
        self
    }

    fn trace(&self) -> ServiceTrace {
        let ports = expected(&cluster(WORLD), "worker", AddressType::Ipv4);
        trace(&Rules::Nftables(dump::parse(&self.0.to_string()).expect("well formed")), &ports, "worker")
    }
}

/// Broken for this Service, by a fault of this kind, in this chain; all of its faults are there.
#[track_caller]
fn is_told(name: &str, table: &Table, service: &str, kind: Kind, chain: &str, words: &str) {
    let trace = table.trace();
    let port = trace.ports.iter().find(|port| port.service == service).expect("it is there");
    let mut faults: Vec<Fault> = port.faults().cloned().collect();
    faults.extend(trace.shared.iter().map(|shared| shared.fault.clone()));
    assert_eq!(port.status, Status::Broken, "{name}");
    let is_it = |fault: &Fault| {
        fault.kind == kind
            && fault.place.chain == chain
            && fault.detail.contains(words)
            && fault.difference != Difference::Extra
            && !fault.object.is_empty()
    };
    assert!(faults.iter().any(is_it), "{name}: {faults:#?}");
}

#[test]
fn a_rule_that_stands_too_late() {
    for table in Table::both() {
        is_told(
            "affinity",
            &table.last_first(STICKY),
            "t/balanced",
            Kind::Affinity,
            STICKY,
            "no packet comes",
        );
    }
    for table in Table::both() {
        is_told(
            "kept",
            &table.last_first(STICKY_ENDPOINT),
            "t/balanced",
            Kind::Affinity,
            STICKY_ENDPOINT,
            "no packet comes",
        );
    }
    for table in Table::both() {
        let table = table.ordered(NODE_PORT, &[1, 0]);
        is_told("mark from outside", &table, "t/node-port", Kind::Masquerade, NODE_PORT, "keep their source");
    }
    for table in Table::both() {
        let table = table.ordered(LOCAL, &[3, 0, 1, 2]);
        is_told("short circuit", &table, "t/outside", Kind::Backend, LOCAL, "only endpoints of the node");
        is_told("mark", &table, "t/outside", Kind::Masquerade, LOCAL, "no packet comes");
    }
    for table in Table::both() {
        let table = table.ordered(LOCAL, &[0, 2, 1, 3]);
        is_told("node's mark", &table, "t/outside", Kind::Masquerade, LOCAL, "no packet comes");
    }
    for table in Table::both() {
        let table = table.ordered("cluster-ips-check", &[1, 0]);
        is_told("refusal", &table, "t/web", Kind::End, "cluster-ips-check", "times out");
    }
    let table = Table::maps().ordered("services", &[1, 0, 2]);
    is_told("mark after lookup", &table, "t/web", Kind::Masquerade, "services", "rule 1 stands before it");
    let table = Table::chains().ordered(WEB, &[1, 0]);
    is_told("mark after choice", &table, "t/web", Kind::Masquerade, WEB, "no packet comes");
    let table = Table::chains().ordered(WEB_ENDPOINT, &[1, 0]);
    is_told("hairpin after translation", &table, "t/web", Kind::Masquerade, WEB_ENDPOINT, "no packet comes");
    let table = Table::chains().ordered("masquerading", &[2, 0, 1]);
    is_told("all masqueraded", &table, "t/web", Kind::Masquerade, "masquerading", "all packets that leave");
    let table = Table::chains().ordered("masquerading", &[1, 0, 2]);
    is_told("changed before", &table, "t/web", Kind::Masquerade, "masquerading", "rule 1 stands before it");
}

#[test]
fn marks_that_do_not_fit() {
    const NO_WAY: &str = "mark set mark or 0x4000` there";
    const OTHERS: &str = "and the proxy writes";
    let masquerading =
        |rule: usize, at: &str, value: Value| Table::maps().with("masquerading", rule, at, value);
    let services = |at: &str, value: Value| Table::maps().with("services", 0, at, value);
    for (name, table, service, chain, words) in [
        ("bit", masquerading(0, "/0/match/left/&/1", json!(32768)), "t/web", "masquerading", OTHERS),
        ("operator", masquerading(0, "/0/match/op", json!("==")), "t/web", "masquerading", OTHERS),
        ("set", masquerading(1, "/1/match/right", json!("@cluster-ips")), "t/web", "masquerading", OTHERS),
        ("snat", masquerading(1, "/0/match/right", json!("snat")), "t/web", "masquerading", OTHERS),
        ("other bit", services("/2/mangle/value/|/1", json!(32768)), "t/web", "services", NO_WAY),
        ("pods", services("/1/match/op", json!("==")), "t/web", "services", OTHERS),
        ("other set", services("/0/match/right", json!("@nothing")), "t/web", "services", OTHERS),
        (
            "other pods",
            services("/1/match/right/prefix/addr", json!("10.245.0.0")),
            "t/web",
            "services",
            OTHERS,
        ),
        (
            "a port's",
            Table::maps().with(NODE_PORT, 0, "/0/mangle/value/|/1", json!(1)),
            "t/node-port",
            NODE_PORT,
            NO_WAY,
        ),
        (
            "the return's",
            Table::chains().with("masquerading", 0, "/0/match/left/&/1", json!(32768)),
            "t/web",
            "masquerading",
            "mark and 0x4000 0 return",
        ),
        (
            "another endpoint's",
            Table::chains().with(WEB_ENDPOINT, 0, "/0/match/right", json!("10.244.2.9")),
            "t/web",
            WEB_ENDPOINT,
            "gets no answer",
        ),
        ("pods", Table::chains().with(WEB, 0, "/1/match/op", json!("==")), "t/web", WEB, OTHERS),
        (
            "other pods",
            Table::chains().with(WEB, 0, "/1/match/right/prefix/addr", json!("10.245.0.0")),
            "t/web",
            WEB,
            OTHERS,
        ),
        (
            "another address",
            Table::chains().with(WEB, 0, "/0/match/right", json!("10.96.0.9")),
            "t/web",
            WEB,
            OTHERS,
        ),
    ] {
        is_told(name, &table, service, Kind::Masquerade, chain, words);
    }
    for table in Table::both() {
        let table = table.with(LOCAL, 0, "/0/match/right/prefix/addr", json!("10.245.0.0"));
        is_told("pods from outside", &table, "t/outside", Kind::Backend, LOCAL, "only endpoints of the node");
    }
}

/// `--masquerade-all` marks everybody's packets; and any bit will do, if all rules have the same.
#[test]
fn other_flags_of_masquerading_are_no_fault() {
    let all = |table: Table, chain: &str| {
        let mut table = table;
        for item in table.items() {
            let is_it = item["rule"]["chain"].as_str().is_some_and(|name| name.starts_with(chain));
            if is_it
                && item["rule"]["expr"][1]["match"]["op"] == "!="
                && item["rule"]["expr"].to_string().contains("mark")
            {
                item["rule"]["expr"].as_array_mut().expect("statements").remove(1);
            }
        }
        table
    };
    let bit = |table: &Table| {
        let text = table.0.to_string();
        assert!(text.contains("16384"));
        Table(serde_json::from_str(&text.replace("16384", "32768")).expect("JSON"))
    };
    for (name, table) in [
        ("all", all(Table::maps(), "services")),
        ("all, by a chain", all(all(Table::chains(), "service-"), "local-")),
        ("another bit", bit(&Table::maps())),
        ("another bit, by a chain", bit(&Table::chains())),
    ] {
        let trace = table.trace();
        assert_eq!(trace.shared, [], "{name}");
        for port in &trace.ports {
            assert_eq!(port.status, Status::Ok, "{name}: {:?}", port.faults().collect::<Vec<_>>());
        }
    }
}

#[test]
fn affinity_that_does_not_hold() {
    for [first, second] in [Table::maps, Table::chains].map(|table| [table(), table()]) {
        let rules = first.0["nftables"].as_array().expect("a list").iter();
        let of_chain = rules.filter(|item| item["rule"]["chain"] == STICKY_ENDPOINT);
        let keeps = of_chain
            .map(|item| &item["rule"]["expr"][0])
            .position(|first| first.get("set").is_some())
            .expect("it is there");
        let field = json!({"payload": {"protocol": "ip", "field": "daddr"}});
        let table = first.with(STICKY_ENDPOINT, keeps, "/0/set/elem", field);
        is_told("daddr", &table, "t/balanced", Kind::Affinity, STICKY_ENDPOINT, "{ ip daddr }");
        let table = second.with(STICKY_ENDPOINT, keeps, "/0/set/op", json!("add"));
        is_told("add", &table, "t/balanced", Kind::Affinity, STICKY_ENDPOINT, "reads `add @");
    }
    let to_other = Table::maps().with(STICKY, 0, "/1/goto/target", json!(OTHER_ENDPOINT));
    is_told("cross", &to_other, "t/balanced", Kind::Affinity, STICKY, "clients do not stay");
    for table in Table::both() {
        let table = table.object("set", SET, "timeout", Value::Null);
        is_told("no timeout", &table, "t/balanced", Kind::Affinity, SET, "for ever");
    }
}

#[test]
fn chains_that_are_asked_at_the_wrong_time() {
    for (chain, priority, kind, words) in [
        ("filter-prerouting-pre-dnat", -90, Kind::SourceRange, "everybody may come"),
        ("filter-output-pre-dnat", -100, Kind::SourceRange, "everybody may come"),
        ("filter-output", -110, Kind::End, "before translation"),
        ("nat-prerouting", -90, Kind::Jump, "another priority"),
    ] {
        for table in Table::both() {
            let table = table.object("chain", chain, "prio", json!(priority));
            is_told(chain, &table, "t/balanced", kind, chain, words);
        }
    }
}
