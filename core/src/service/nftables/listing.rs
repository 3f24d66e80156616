//! The table of nftables mode as it should be, as `nft -j list table ip kube-proxy` would print it.
//!
//! Invariant: it says the same as what [`super::emit()`] writes, so that a prediction, and tests without a kernel, can be
//! read as a dump is. Handles are counted up and are not the kernel's.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use ipnet::Ipv4Net;
use serde_json::{Value, json};

use super::Layout;
use super::emit::{Chain, TABLE, Table};
use super::reading::{Act, Marking, Rule, Verdict};
use super::written::Style;
use crate::model::port::Protocol;
use crate::model::service::AddressType;
use crate::service::expected::ExpectedPort;
use crate::service::iptables::ProxyOptions;

/// Writes the listing of one family.
#[must_use]
pub fn listing(ports: &[ExpectedPort], family: AddressType, layout: Layout, options: &ProxyOptions) -> Value {
    let style = Style::own(family, layout, options);
    let (ip, address) = (style.ip(), style.address());
    let table = Table::of(ports, &style);
    let mut listing = Listing { ip, items: vec![json!({"metainfo": {"json_schema_version": 1}})], handle: 0 };
    listing.items.push(json!({"table": {"family": ip, "name": TABLE, "handle": 1}}));
    listing.set("cluster-ips", &json!(address), table.cluster_ips.iter().map(|ip| json!(ip)));
    let flow = json!([address, address, "inet_proto", "inet_service"]);
    listing.set("hairpin-connections", &flow, table.hairpins.iter().map(|key| concat(key)));
    for (set, seconds) in &table.affinity {
        listing.push("set", json!({"name": set, "type": address, "flags": ["timeout"], "timeout": seconds}));
    }
    let none = BTreeMap::new();
    for (name, map, comments) in [
        ("service-ips", &table.service_ips, &none),
        ("service-nodeports", &table.node_ports, &none),
        ("no-endpoint-services", &table.ends, &table.comments),
        ("no-endpoint-nodeports", &table.node_port_ends, &table.comments),
        ("firewall-ips", &table.firewalls, &none),
    ] {
        listing.map(name, map, comments);
    }
    listing.fixed(options);
    for (name, Chain { protocol, rules }) in &table.chains {
        listing.chain(name, None);
        for rule in rules {
            listing.rule(name, &expression(rule, ip, *protocol));
        }
    }
    json!({"nftables": listing.items})
}

const LOOPBACK: Ipv4Net = Ipv4Net::new_assert(Ipv4Addr::new(127, 0, 0, 0), 8);

struct Listing {
    ip: &'static str,
    items: Vec<Value>,
    handle: u64,
}

impl Listing {
    fn push(&mut self, kind: &str, mut object: Value) {
        self.handle += 1;
        if let Some(object) = object.as_object_mut() {
            object.insert("family".to_owned(), json!(self.ip));
            object.insert("table".to_owned(), json!(TABLE));
            object.insert("handle".to_owned(), json!(self.handle));
        }
        self.items.push(json!({kind: object}));
    }

    fn set(&mut self, name: &str, kind: &Value, elements: impl Iterator<Item = Value>) {
        self.push("set", json!({"name": name, "type": kind, "elem": elements.collect::<Vec<_>>()}));
    }

    fn map(&mut self, name: &str, map: &BTreeMap<String, Verdict>, comments: &BTreeMap<String, String>) {
        let element = |(key, to): (&String, &Verdict)| match comments.get(key) {
            Some(comment) => json!([{"elem": {"val": concat(key), "comment": comment}}, verdict(to)]),
            None => json!([concat(key), verdict(to)]),
        };
        let elements: Vec<Value> = map.iter().map(element).collect();
        let mut kind = vec!["inet_proto", "inet_service"];
        if !name.ends_with("nodeports") {
            kind.insert(0, if self.ip == "ip6" { "ipv6_addr" } else { "ipv4_addr" });
        }
        self.push("map", json!({"name": name, "type": kind, "map": "verdict", "elem": elements}));
    }

    fn chain(&mut self, name: &str, hook: Option<(&str, &str, i64)>) {
        let object = match hook {
            Some((kind, hook, priority)) => {
                json!({"name": name, "type": kind, "hook": hook, "prio": priority, "policy": "accept"})
            }
            None => json!({"name": name}),
        };
        self.push("chain", object);
    }

    fn rule(&mut self, chain: &str, expression: &[Value]) {
        self.push("rule", json!({"chain": chain, "expr": expression}));
    }

    /// The chains that every table has.
    fn fixed(&mut self, options: &ProxyOptions) {
        let ip = self.ip;
        let new = json!({"match": {"op": "in", "left": {"ct": {"key": "state"}}, "right": "new"}});
        let jump = |to: &str| json!({"jump": {"target": to}});
        for (name, kind, hook, priority, checks) in [
            ("filter-prerouting-pre-dnat", "filter", "prerouting", -110, &["firewall-check"][..]),
            ("filter-output-pre-dnat", "filter", "output", -110, &["firewall-check"]),
            ("filter-input", "filter", "input", 0, &["nodeport-endpoints-check", "service-endpoints-check"]),
            ("filter-forward", "filter", "forward", 0, &["service-endpoints-check", "cluster-ips-check"]),
            ("filter-output", "filter", "output", 0, &["service-endpoints-check", "cluster-ips-check"]),
        ] {
            self.chain(name, Some((kind, hook, priority)));
            for check in checks {
                self.rule(name, &[new.clone(), jump(check)]);
            }
        }
        for (name, hook, priority, to) in [
            ("nat-prerouting", "prerouting", -100, "services"),
            ("nat-output", "output", -100, "services"),
            ("nat-postrouting", "postrouting", 100, "masquerading"),
        ] {
            self.chain(name, Some(("nat", hook, priority)));
            self.rule(name, &[jump(to)]);
        }
        let destination = json!({"payload": {"protocol": ip, "field": "daddr"}});
        let port =
            [json!({"meta": {"key": "l4proto"}}), json!({"payload": {"protocol": "th", "field": "dport"}})];
        let whole = [std::slice::from_ref(&destination), &port].concat();
        let lookup =
            |key: &[Value], map: &str| json!({"vmap": {"key": {"concat": key}, "data": format!("@{map}")}});
        let here = json!({"match": {"op": "==", "left": {"fib": {"result": "type", "flags": ["daddr"]}}, "right": "local"}});
        let loopback = if ip == "ip6" { json!("::1") } else { net(ipnet::IpNet::from(LOOPBACK)) };
        let elsewhere = json!({"match": {"op": "!=", "left": destination, "right": loopback}});
        let bits = options.mark;
        let of_mark = json!({"meta": {"key": "mark"}});
        let with_mark =
            |operator: &str| json!({"mangle": {"key": of_mark, "value": {operator: [of_mark, bits]}}});
        let mark = with_mark("|");
        let is_marked = json!({"match": {"op": "!=", "left": {"&": [of_mark, bits]}, "right": 0}});
        let of_service = json!({"match": {"op": "==", "left": destination, "right": "@cluster-ips"}});
        self.chain("services", None);
        if let Some(pods) = options.pod_cidr {
            let source = json!({"payload": {"protocol": ip, "field": "saddr"}});
            let right = json!({"prefix": {"addr": pods.network().to_string(), "len": pods.prefix_len()}});
            let outside = json!({"match": {"op": "!=", "left": source, "right": right}});
            self.rule("services", &[of_service.clone(), outside, mark.clone()]);
        }
        self.rule("services", &[lookup(&whole, "service-ips")]);
        self.rule("services", &[here, elsewhere.clone(), lookup(&port, "service-nodeports")]);
        for (name, expression) in [
            ("service-endpoints-check", vec![lookup(&whole, "no-endpoint-services")]),
            ("nodeport-endpoints-check", vec![elsewhere, lookup(&port, "no-endpoint-nodeports")]),
            ("firewall-check", vec![lookup(&whole, "firewall-ips")]),
            ("cluster-ips-check", vec![of_service, json!({"reject": null})]),
            ("reject-chain", vec![json!({"reject": null})]),
            (
                "masquerading",
                vec![is_marked, with_mark("^"), json!({"masquerade": {"flags": "fully-random"}})],
            ),
        ] {
            self.chain(name, None);
            self.rule(name, &expression);
        }
        let translated = json!({"match": {"op": "in", "left": {"ct": {"key": "status"}}, "right": "dnat"}});
        let source = json!({"payload": {"protocol": ip, "field": "saddr"}});
        let flow = [&[source, destination][..], &port].concat();
        let flow = json!({"concat": flow});
        let hairpin = json!({"match": {"op": "==", "left": flow, "right": "@hairpin-connections"}});
        self.rule("masquerading", &[translated, hairpin, json!({"masquerade": {"flags": "fully-random"}})]);
    }
}

/// `a . b . c` as a concatenation.
fn concat(key: &str) -> Value {
    let part = |part: &str| part.parse::<u64>().map_or_else(|_| json!(part), |number| json!(number));
    json!({"concat": key.split(" . ").map(part).collect::<Vec<_>>()})
}

fn verdict(verdict: &Verdict) -> Value {
    match verdict {
        Verdict::Goto(chain) => json!({"goto": {"target": chain}}),
        Verdict::Jump(chain) => json!({"jump": {"target": chain}}),
        Verdict::Drop => json!({"drop": null}),
        Verdict::Reject => json!({"reject": null}),
        Verdict::Other(word) => json!({word.as_str(): null}),
    }
}

fn net(net: ipnet::IpNet) -> Value {
    if net.prefix_len() == net.max_prefix_len() {
        json!(net.addr().to_string())
    } else {
        json!({"prefix": {"addr": net.network().to_string(), "len": net.prefix_len()}})
    }
}

fn expression(rule: &Rule, ip: &str, protocol: Protocol) -> Vec<Value> {
    let source = json!({"payload": {"protocol": ip, "field": "saddr"}});
    let is =
        |op: &str, left: &Value, right: Value| json!({"match": {"op": op, "left": left, "right": right}});
    let mut statements = Vec::new();
    if rule.from_node {
        let left = json!({"fib": {"result": "type", "flags": ["saddr"]}});
        statements.push(is("==", &left, json!("local")));
    }
    if let Some((not, from)) = rule.source {
        statements.push(is(if not { "!=" } else { "==" }, &source, net(from)));
    }
    if !rule.not_from.is_empty() {
        let nets: Vec<Value> = rule.not_from.iter().map(|from| net(*from)).collect();
        statements.push(is("!=", &source, json!({"set": nets})));
    }
    if let Some(set) = &rule.known_client {
        statements.push(is("==", &source, json!(format!("@{set}"))));
    }
    if matches!(rule.act, Act::Spread(..) | Act::Translate(_)) {
        statements.push(is("==", &json!({"meta": {"key": "l4proto"}}), json!(protocol.lower())));
    }
    let numbered = |divisor: u64, elements: Vec<Value>| {
        let number = json!({"numgen": {"mode": "random", "mod": divisor, "offset": 0}});
        json!({"key": number, "data": {"set": elements}})
    };
    match &rule.act {
        Act::Verdict(to) => statements.push(verdict(to)),
        Act::Choose(divisor, choices) => {
            let elements = choices.iter().map(|(number, to)| json!([number, verdict(to)])).collect();
            statements.push(json!({"vmap": numbered(*divisor, elements)}));
        }
        Act::Spread(divisor, to) => {
            let element = |(number, to): (&u64, &std::net::SocketAddr)| json!([number, {"concat": [to.ip().to_string(), to.port()]}]);
            let map = numbered(*divisor, to.iter().map(element).collect());
            statements.push(json!({"dnat": {"family": ip, "addr": {"map": map}}}));
        }
        Act::Translate(to) => {
            statements.push(json!({"dnat": {"addr": to.ip().to_string(), "port": to.port()}}));
        }
        Act::Lookup(map) => statements.push(json!({"vmap": {"data": format!("@{map}")}})),
        Act::Mark(Marking::Or(bits)) => {
            let mark = json!({"meta": {"key": "mark"}});
            statements.push(json!({"mangle": {"key": mark, "value": {"|": [mark, bits]}}}));
        }
        Act::Masquerade => statements.push(json!({"masquerade": null})),
        Act::Remember(set) => {
            statements.push(json!({"set": {"op": "update", "elem": source, "set": format!("@{set}")}}));
        }
        Act::Mark(_) | Act::Keep(..) | Act::Unknown => {}
    }
    statements
}
