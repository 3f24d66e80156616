//! A real kube-proxy's table of nftables mode with one thing in it changed, whatever it is: each statement, each scalar,
//! each rule, element and declaration. No mutant is ok but those that mean the same, and what was changed is named.

use std::collections::BTreeMap;
use std::net::IpAddr;

use netlab_core::model::service::AddressType;
use netlab_core::service::expected::{ExpectedPort, expected};
use netlab_core::service::nftables::dump;
use netlab_core::service::trace::{PortTrace, Rules, Status, trace};
use serde_json::{Value, json};

use crate::service_world::cluster;

const WORLD: &str = include_str!("../kube-proxy/world.yaml");

/// A changed table.
struct Mutant {
    name: String,
    /// The chain, map or set that was changed.
    of: String,
    edit: Edit,
    /// Why it means the same.
    same: Option<&'static str>,
}

/// What is done to the list.
enum Edit {
    /// Other items at these places; null for none.
    Items(Vec<(usize, Value)>),
    /// One more.
    More(usize, Value),
}

impl Edit {
    fn item(at: usize, item: Value) -> Self {
        Self::Items(vec![(at, item)])
    }
}

struct Table {
    items: Vec<Value>,
    ports: Vec<ExpectedPort>,
    /// Names of chains, sets and maps, by what they have in common.
    names: BTreeMap<String, Vec<String>>,
}

impl Table {
    fn of(text: &str, family: AddressType) -> Self {
        let table: Value = serde_json::from_str(text).expect("JSON");
        let items = table["nftables"].as_array().expect("a list").clone();
        let mut names: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for item in &items {
            for kind in ["chain", "set", "map"] {
                if let Some(name) = item[kind]["name"].as_str() {
                    names.entry(kind_of(kind, name)).or_default().push(name.to_owned());
                }
            }
        }
        Self { items, ports: expected(&cluster(WORLD), "worker", family), names }
    }

    /// Another of the kind: of the same Service where there is one.
    fn others(&self, kind: &str, name: &str) -> Vec<String> {
        let all = self.names.get(&kind_of(kind, name)).into_iter().flatten();
        let all: Vec<&String> = all.filter(|other| *other != name).collect();
        let port = |name: &str| {
            name.split_once('-')
                .and_then(|(_, rest)| Some(rest.split_once('/')?.1.split("__").next()?.to_owned()))
        };
        let twin = all.iter().find(|other| port(other) == port(name) && port(name).is_some());
        let mut found: Vec<String> =
            twin.into_iter().chain(all.first()).map(|name| (*name).clone()).collect();
        found.dedup();
        found
    }

    /// Whether anything is told of a changed list, and the faults' places.
    fn told(&self, list: &mut Value, edit: Edit) -> (bool, Vec<String>) {
        let items = list["nftables"].as_array_mut().expect("a list");
        let places = match edit {
            Edit::Items(changed) => {
                let places: Vec<usize> = changed.iter().map(|(at, _)| *at).collect();
                for (at, item) in changed {
                    items[at] = item;
                }
                places
            }
            Edit::More(at, item) => {
                items.insert(at, item);
                (at..items.len()).collect()
            }
        };
        let told = self.faults(list);
        let items = list["nftables"].as_array_mut().expect("a list");
        for at in places.into_iter().filter(|at| *at < self.items.len()) {
            items[at] = self.items[at].clone();
        }
        items.truncate(self.items.len());
        told
    }

    fn faults(&self, list: &Value) -> (bool, Vec<String>) {
        let Ok(dump) = dump::read(list) else { return (true, Vec::new()) };
        let trace = trace(&Rules::Nftables(dump), &self.ports, "worker");
        let shared = trace.shared.iter().map(|shared| &shared.fault);
        let faults = trace.ports.iter().flat_map(PortTrace::faults).chain(shared);
        let places = faults.map(|fault| fault.place.chain.clone()).collect();
        (trace.ports.iter().any(|port| port.status == Status::Broken), places)
    }
}

fn kind_of(kind: &str, name: &str) -> String {
    let start = name.split_once('-').map_or(name, |(start, _)| start);
    let own = ["service", "local", "external", "firewall", "endpoint", "affinity"];
    let kind = if name.contains('/') && own.contains(&start) { start } else { kind };
    kind.to_owned()
}

/// Each place in a value, with what could as well stand there.
fn changes(table: &Table, value: &Value, path: &str, key: &str, found: &mut Vec<(String, Value)>) {
    match value {
        Value::Object(object) => {
            for (key, inner) in object {
                changes(
                    table,
                    inner,
                    &format!("{path}/{}", key.replace('~', "~0").replace('/', "~1")),
                    key,
                    found,
                );
            }
            let (word, body) = object.iter().next().expect("a word");
            let others: &[&str] = match word.as_str() {
                "goto" => &["jump"],
                "jump" => &["goto"],
                "drop" => &["accept", "return"],
                "return" => &["accept", "drop"],
                "reject" => &["drop", "accept"],
                "|" => &["^", "&"],
                "^" | "&" => &["|"],
                _ => &[],
            };
            for other in others {
                let body = if matches!(*other, "drop" | "accept" | "return") { &Value::Null } else { body };
                found.push((path.to_owned(), json!({*other: body})));
            }
        }
        Value::Array(list) => {
            for (index, inner) in list.iter().enumerate() {
                changes(table, inner, &format!("{path}/{index}"), key, found);
            }
        }
        Value::String(text) => {
            found.extend(words(table, text, key).into_iter().map(|other| (path.to_owned(), json!(other))));
        }
        Value::Number(number) => {
            let number = number.as_u64().expect("a small number");
            let mut others = vec![number + 1];
            if number > 1 {
                others.push(number - 1);
            }
            if number == 16384 {
                others.extend([0, 32768]);
            }
            found.extend(others.into_iter().map(|other| (path.to_owned(), json!(other))));
        }
        Value::Null | Value::Bool(_) => {}
    }
}

fn words(table: &Table, text: &str, key: &str) -> Vec<String> {
    if let Ok(address) = text.parse::<IpAddr>() {
        let next = match address {
            IpAddr::V4(ip) => IpAddr::from((u32::from(ip) ^ 0x0100_0001).to_be_bytes()),
            IpAddr::V6(ip) => IpAddr::from((u128::from(ip) ^ (1 | 1 << 112)).to_be_bytes()),
        };
        let near = match address {
            IpAddr::V4(ip) => IpAddr::from((u32::from(ip) + 1).to_be_bytes()),
            IpAddr::V6(ip) => IpAddr::from((u128::from(ip) + 1).to_be_bytes()),
        };
        return if key == "prefix" || text.ends_with(".0") || text.ends_with("::") {
            vec![next.to_string()]
        } else {
            vec![near.to_string(), next.to_string()]
        };
    }
    if let Some(name) = text.strip_prefix('@') {
        let is_map = table.names["map"].iter().any(|map| map == name);
        let others = table.others(if is_map { "map" } else { "set" }, name);
        return others.into_iter().map(|name| format!("@{name}")).collect();
    }
    if key == "target" {
        return table.others("chain", text);
    }
    let others: &[&str] = match text {
        "==" => &["!="],
        "!=" => &["=="],
        "in" => &["!=", "=="],
        "saddr" => &["daddr"],
        "daddr" => &["saddr"],
        "dport" => &["sport"],
        "tcp" => &["udp", "sctp"],
        "udp" | "sctp" => &["tcp"],
        "th" => &["tcp", "udp"],
        "ip" => &["ip6"],
        "ip6" => &["ip"],
        "new" => &["established", "invalid"],
        "local" => &["unicast"],
        "dnat" => &["snat"],
        "state" => &["status"],
        "status" => &["state"],
        "type" => &["oif"],
        "l4proto" => &["nfproto"],
        "mark" => &["priority"],
        "random" => &["inc"],
        "fully-random" => &["persistent"],
        "icmp" | "icmpv6" => &["tcp reset"],
        "port-unreachable" => &["host-unreachable", "admin-prohibited"],
        "update" => &["add", "delete"],
        _ => &["other"],
    };
    others.iter().map(|&other| other.to_owned()).collect()
}

/// The rule about addresses that no Service has.
fn is_of_range(rule: &Value) -> bool {
    rule["chain"] == "cluster-ips-check" && rule["expr"].to_string().contains("drop")
}

fn same(rule: &Value, path: &str, to: &Value) -> Option<&'static str> {
    let statement = &rule["expr"][path.split('/').nth(1).unwrap_or_default().parse::<usize>().unwrap_or(99)];
    if path.ends_with("match/op") && *to == "==" && statement.to_string().contains("\"state\"") {
        return Some("a connection has one state: `in` and `==` are the same");
    }
    if is_of_range(rule) && path.ends_with("/len") {
        return Some("how large the range of Services is, is in no input; it holds their addresses");
    }
    None
}

fn without(statements: &Value, at: usize) -> Value {
    let mut statements = statements.clone();
    statements.as_array_mut().expect("statements").remove(at);
    statements
}

fn of_rules(table: &Table) -> Vec<Mutant> {
    let mut mutants = Vec::new();
    for (at, rule) in table.items.iter().enumerate().filter_map(|(at, item)| Some((at, item.get("rule")?))) {
        let of = rule["chain"].as_str().expect("a chain").to_owned();
        let name = |what: &str| format!("{of} {}: {what}", rule["handle"]);
        let with = |expression: Value| {
            let mut rule = rule.clone();
            rule["expr"] = expression;
            json!({"rule": rule})
        };
        let mut add = |what: String, edit: Edit, same: Option<&'static str>| {
            mutants.push(Mutant { name: name(&what), of: of.clone(), edit, same });
        };
        let range =
            is_of_range(rule).then_some("a proxy that was told no range of Services has no such rule");
        add("removed".to_owned(), Edit::item(at, Value::Null), range);
        let statements = rule["expr"].as_array().expect("statements");
        for index in 0..statements.len() {
            let all = (of == "services" && index == 1 && statements[2].get("mangle").is_some())
                .then_some("so it reads with --masquerade-all");
            add(
                format!("without statement {index}"),
                Edit::item(at, with(without(&rule["expr"], index))),
                all,
            );
        }
        let mut found = Vec::new();
        changes(table, &rule["expr"], "", "", &mut found);
        for (path, to) in &found {
            let mut changed = rule["expr"].clone();
            *changed.pointer_mut(path).expect("its place") = to.clone();
            let expression = with(changed);
            add(format!("{path} is {to}"), Edit::item(at, expression), same(rule, path, to));
        }
        if let Some((path, to)) = found.iter().find(|(path, to)| same(rule, path, to).is_none()) {
            let mut changed = rule["expr"].clone();
            *changed.pointer_mut(path).expect("its place") = to.clone();
            for (word, place) in [("before", at), ("after", at + 1)] {
                let more = Edit::More(place, with(changed.clone()));
                add(format!("another {word} it: {path} is {to}"), more, None);
            }
        }
        let mates: Vec<usize> =
            (0..table.items.len()).filter(|at| table.items[*at]["rule"]["chain"] == *of).collect();
        let place = mates.iter().position(|mate| *mate == at).expect("itself");
        let mut places = vec![0, mates.len() - 1, place + 1];
        places.sort_unstable();
        places.dedup();
        for to in places.into_iter().filter(|to| *to != place && *to < mates.len()) {
            let mut rules: Vec<Value> = mates.iter().map(|mate| table.items[*mate].clone()).collect();
            let moved = rules.remove(place);
            rules.insert(to, moved);
            let edit = Edit::Items(mates.iter().copied().zip(rules).collect());
            let passed = &mates[place.min(to)..=place.max(to)];
            let are = |word: &str| {
                passed.iter().all(|mate| table.items[*mate]["rule"]["expr"].to_string().contains(word))
            };
            let free = if are("-endpoints-check\"") && are("\"ct\"") {
                Some("one is about node ports, the other about addresses")
            } else if are("@affinity-") {
                Some("each asks for clients of its own endpoint")
            } else {
                None
            };
            add(format!("moved to {to}"), edit, free);
        }
    }
    mutants
}

fn of_elements(table: &Table) -> Vec<Mutant> {
    let mut mutants = Vec::new();
    for (at, item) in table.items.iter().enumerate() {
        for kind in ["set", "map"] {
            let Some(elements) = item[kind]["elem"].as_array() else { continue };
            let of = item[kind]["name"].as_str().expect("a name").to_owned();
            let with = |elements: Vec<Value>| {
                let mut item = item.clone();
                item[kind]["elem"] = json!(elements);
                Edit::item(at, item)
            };
            let mut add = |name: String, elements: Vec<Value>| {
                let name = format!("{of} {name}");
                mutants.push(Mutant { name, of: of.clone(), edit: with(elements), same: None });
            };
            for (index, element) in elements.iter().enumerate() {
                let mut removed = elements.clone();
                removed.remove(index);
                add(format!("without {element}"), removed);
                let mut found = Vec::new();
                changes(table, element, "", "", &mut found);
                for (path, to) in found.iter().filter(|(path, _)| !path.contains("comment")) {
                    let mut changed = elements.clone();
                    *changed[index].pointer_mut(path).expect("its place") = to.clone();
                    add(format!("{element} {path} is {to}"), changed);
                }
            }
        }
    }
    mutants
}

/// Elements that the proxy has none of.
fn of_more_elements(table: &Table, additions: &[(&str, Value)]) -> Vec<Mutant> {
    let addition = |(of, element): &(&str, Value)| {
        let is_it = |item: &Value| item["map"]["name"] == *of || item["set"]["name"] == *of;
        let at = table.items.iter().position(is_it).expect("the map");
        let mut item = table.items[at].clone();
        let kind = if item.get("map").is_some() { "map" } else { "set" };
        item[kind]["elem"].as_array_mut().expect("elements").push(element.clone());
        let edit = Edit::item(at, item);
        Mutant { name: format!("{of} with {element}"), of: (*of).to_owned(), edit, same: None }
    };
    additions.iter().map(addition).collect()
}

fn of_declarations(table: &Table) -> Vec<Mutant> {
    let mut mutants = Vec::new();
    for (at, item) in table.items.iter().enumerate() {
        let (kind, object) = item.as_object().and_then(|item| item.iter().next()).expect("an object");
        if !matches!(kind.as_str(), "chain" | "set" | "map") {
            continue;
        }
        let of = object["name"].as_str().expect("a name").to_owned();
        let mut add = |name: String, item: Value| {
            let edit = Edit::item(at, item);
            mutants.push(Mutant { name: format!("{of}: {name}"), of: of.clone(), edit, same: None });
        };
        // Chains are where their rules are, in any list of a kernel.
        if object.get("hook").is_some() || kind != "chain" {
            add("not declared".to_owned(), Value::Null);
        }
        let others: &[(&str, Value)] = match kind.as_str() {
            "chain" => &[
                ("hook", json!("input")),
                ("hook", json!("forward")),
                ("prio", json!(-90)),
                ("prio", json!(-110)),
                ("prio", json!(-300)),
                ("prio", json!(101)),
                ("policy", json!("drop")),
                ("type", json!("filter")),
                ("type", json!("nat")),
            ],
            "set" => &[
                ("type", json!("ether_addr")),
                ("flags", json!(["constant"])),
                ("timeout", json!(7)),
                ("size", json!(1)),
            ],
            _ => &[
                ("type", json!(["inet_proto"])),
                ("map", json!("mark")),
                ("flags", json!(["timeout"])),
                ("timeout", json!(7)),
            ],
        };
        for (field, to) in others.iter().filter(|(field, to)| {
            (kind != "chain" || object.get("hook").is_some()) && object.get(*field) != Some(to)
        }) {
            let mut item = item.clone();
            item[kind][*field] = to.clone();
            add(format!("{field} is {to}"), item);
        }
        for field in ["timeout", "flags"] {
            if object.get(field).is_some() {
                let mut item = item.clone();
                item[kind].as_object_mut().expect("an object").remove(field);
                add(format!("without {field}"), item);
            }
        }
    }
    mutants
}

/// One in so many is tried, beside what is in no chain of a Service: a chain of one Service is as that of another.
fn is_tried(index: usize, mutant: &Mutant, one_in: usize) -> bool {
    !mutant.of.contains('/') || index.is_multiple_of(one_in)
}

/// Of IPv6 two rules of the newer layout tell pods by their network: nothing says which of both is wrong.
fn is_one_of_two(table: &Table, (name, of): (&str, &str)) -> bool {
    table.ports[0].family == AddressType::Ipv6
        && name.contains("match/right/prefix")
        && (of == "services" || of.starts_with("external-"))
}

fn check(table: &Table, mutants: Vec<Mutant>, one_in: usize, least: usize) {
    let mut list = json!({"nftables": table.items});
    let (well, places) = table.faults(&list);
    assert!(!well && places.is_empty(), "{places:?}");
    let mut tried = 0;
    let mut wrong = Vec::new();
    for (index, mutant) in mutants.into_iter().enumerate() {
        if !is_tried(index, &mutant, one_in) {
            continue;
        }
        tried += 1;
        let (is_told, places) = table.told(&mut list, mutant.edit);
        match mutant.same {
            Some(why) if is_told => wrong.push(format!("{}: told, though {why}: {places:?}", mutant.name)),
            None if !is_told => wrong.push(format!("{}: ok", mutant.name)),
            None if !places.iter().any(|place| place.starts_with(&mutant.of))
                && !is_one_of_two(table, (&mutant.name, &mutant.of)) =>
            {
                wrong.push(format!("{}: told elsewhere: {places:?}", mutant.name));
            }
            _ => {}
        }
    }
    assert!(wrong.is_empty(), "{} of {tried}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(tried >= least, "{tried}");
}

const MAPS: &str = include_str!("../kube-proxy/nft-ip-1.36.3.json");
const CHAINS: &str = include_str!("../kube-proxy/nft-ip-1.34.4.json");
const MAPS6: &str = include_str!("../kube-proxy/nft-ip6-1.36.3.json");
const CHAINS6: &str = include_str!("../kube-proxy/nft-ip6-1.34.4.json");

#[test]
fn no_scalar_of_a_rule_that_translates_by_maps_is_passed_over() {
    let table = Table::of(MAPS, AddressType::Ipv4);
    check(&table, of_rules(&table), 1, 600);
}

#[test]
fn no_scalar_of_a_rule_that_translates_by_chains_is_passed_over() {
    let table = Table::of(CHAINS, AddressType::Ipv4);
    check(&table, of_rules(&table), 2, 900);
}

#[test]
fn no_scalar_of_a_rule_of_the_other_family_is_passed_over() {
    for text in [MAPS6, CHAINS6] {
        let table = Table::of(text, AddressType::Ipv6);
        check(&table, of_rules(&table), 1, 200);
    }
}

#[test]
fn no_element_is_passed_over() {
    for text in [MAPS, CHAINS] {
        let table = Table::of(text, AddressType::Ipv4);
        check(&table, of_elements(&table), 1, 200);
    }
}

#[test]
fn no_element_too_much_is_passed_over() {
    let to = |chain: &str| json!({"goto": {"target": chain}});
    let key = |address: &str, protocol: &str, port: u16| json!({"concat": [address, protocol, port]});
    let node = |protocol: &str, port: u16| json!({"concat": [protocol, port]});
    let (web, outside) = ("service-RNBVDMZH-t/web/tcp/http", "external-FELGPIL4-t/outside/tcp/");
    let additions = [
        ("service-ips", json!([key("10.96.0.1", "tcp", 81), to(web)])),
        ("service-ips", json!([key("10.96.0.1", "udp", 80), to(web)])),
        ("service-ips", json!([key("10.96.0.8", "tcp", 80), to(web)])),
        ("service-nodeports", json!([node("tcp", 30082), to(outside)])),
        ("no-endpoint-services", json!([key("10.96.0.1", "tcp", 80), {"drop": null}])),
        ("no-endpoint-services", json!([key("198.51.100.9", "tcp", 80), to("reject-chain")])),
        ("no-endpoint-nodeports", json!([node("tcp", 30081), {"drop": null}])),
        ("firewall-ips", json!([key("10.96.0.1", "tcp", 80), to("firewall-TXMKE3AT-t/balanced/udp/dns")])),
        ("firewall-ips", json!([key("198.51.100.9", "tcp", 80), to("firewall-TXMKE3AT-t/balanced/udp/dns")])),
        ("cluster-ips", json!("198.51.100.9")),
    ];
    for text in [MAPS, CHAINS] {
        let table = Table::of(text, AddressType::Ipv4);
        check(&table, of_more_elements(&table, &additions), 1, additions.len());
    }
}

#[test]
fn no_declaration_is_passed_over() {
    for text in [MAPS, CHAINS] {
        let table = Table::of(text, AddressType::Ipv4);
        check(&table, of_declarations(&table), 1, 60);
    }
}
