//! What a real kube-proxy wrote, read back: it is what the model predicts, name for name, and no line of it can be taken
//! out unnoticed. `kube-proxy/README.md` says how the dumps were made; `cargo xtask peers` makes them anew.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use netlab_core::model::cluster::Cluster;
use netlab_core::model::service::AddressType;
use netlab_core::service::expected::{ExpectedPort, expected};
use netlab_core::service::follow::Symptom;
use netlab_core::service::iptables::{self, ProxyOptions};
use netlab_core::service::nftables::{self, Layout};
use netlab_core::service::trace::{Rules, Status, trace};

use crate::service_world::cluster;

/// The versions whose table was dumped, with the layout that they have.
const TABLES: [(&str, Layout); 2] = [("1.34.4", Layout::Chains), ("1.36.3", Layout::Maps)];
const FAMILIES: [(AddressType, &str, &str); 2] =
    [(AddressType::Ipv4, "iptables", "ip"), (AddressType::Ipv6, "ip6tables", "ip6")];

fn file(name: &str) -> String {
    // Dumps that were just made take the place of those that are kept.
    let kept = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/kube-proxy");
    let directory = std::env::var_os("NETLAB_PEERS").map_or_else(kept, PathBuf::from);
    let path = directory.join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn world() -> Cluster {
    let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/kube-proxy");
    cluster(&std::fs::read_to_string(directory.join("world.yaml")).expect("it is kept"))
}

struct Peer {
    name: String,
    rules: Rules,
    text: String,
    ports: Vec<ExpectedPort>,
    options: ProxyOptions,
}

fn peers() -> Vec<Peer> {
    let cluster = world();
    let mut peers = Vec::new();
    for (family, save, table) in FAMILIES {
        let ports = expected(&cluster, "worker", family);
        let mut peer = |name: String, read: &dyn Fn(&str) -> Rules| {
            let text = file(&name);
            let (ports, options) = (ports.clone(), ProxyOptions::of(&cluster, family));
            peers.push(Peer { name, rules: read(&text), text, ports, options });
        };
        let iptables = |text: &str| Rules::Iptables(iptables::dump::parse(text).expect("well formed"));
        peer(format!("{save}-1.36.3.save"), &iptables);
        for (version, _) in TABLES {
            let nftables = |text: &str| Rules::Nftables(nftables::dump::parse(text).expect("well formed"));
            peer(format!("nft-{table}-{version}.json"), &nftables);
        }
    }
    peers
}

#[test]
fn what_a_real_kube_proxy_wrote_has_no_fault() {
    for Peer { name, rules, ports, .. } in peers() {
        assert!(ports.len() >= 5, "{name}: {}", ports.len());
        assert_eq!(rules.family(), ports[0].family, "{name}");
        let trace = trace(&rules, &ports, "worker");
        assert_eq!(trace.shared, [], "{name}");
        for port in &trace.ports {
            let faults: Vec<_> = port.faults().collect();
            assert!(faults.is_empty(), "{name} {}: {faults:?}", port.service);
            assert_eq!((port.status, port.symptom), (Status::Ok, Symptom::default()), "{name} {port:?}");
        }
    }
}

/// Names of chains of Services.
fn of_services<'a>(names: impl Iterator<Item = &'a String>) -> BTreeSet<String> {
    let prefixes = ["KUBE-SVC-", "KUBE-SVL-", "KUBE-EXT-", "KUBE-FW-", "KUBE-SEP-"];
    names
        .filter(|name| name.contains('/') || prefixes.iter().any(|prefix| name.starts_with(prefix)))
        .cloned()
        .collect()
}

/// The rules of a chain by what they mean: comments, places and handles aside.
fn meaning(dump: &iptables::dump::Dump, chain: &str) -> Vec<iptables::dump::Rule> {
    let plain = |rule: &iptables::dump::Rule| {
        // Probabilities come back as 31 bits of what was written.
        let probability = rule.probability.map(|share| (share * 1e8).round() / 1e8);
        iptables::dump::Rule { line: 0, position: 0, comment: None, probability, ..rule.clone() }
    };
    dump.rules("nat", chain).iter().map(plain).collect()
}

#[test]
fn its_names_and_rules_are_those_that_are_predicted() {
    for Peer { name, rules, ports, options, .. } in peers() {
        match &rules {
            Rules::Iptables(found) => {
                let written = iptables::dump::parse(&iptables::emit(&ports, &options)).expect("well formed");
                let chains = |dump: &iptables::dump::Dump| of_services(dump.tables["nat"].chains.keys());
                assert_eq!(chains(found), chains(&written), "{name}");
                for chain in chains(found) {
                    assert_eq!(meaning(found, &chain), meaning(&written, &chain), "{name} {chain}");
                }
            }
            Rules::Nftables(found) => {
                let (_, layout) =
                    TABLES.into_iter().find(|(version, _)| name.contains(version)).expect("known");
                assert_eq!(nftables::layout(found), Some(layout), "{name}");
                let listing = nftables::listing(&ports, found.family, layout, &options);
                let written = nftables::dump::read(&listing).expect("well formed");
                assert_eq!(of_services(found.chains.keys()), of_services(written.chains.keys()), "{name}");
                assert_eq!(found.maps, written.maps, "{name}");
                for set in ["cluster-ips", "hairpin-connections"] {
                    let sets = |dump: &nftables::dump::Dump| dump.sets.get(set).cloned();
                    // Before 1.35 endpoints' chains marked packets to themselves, and there was no such set.
                    if set == "cluster-ips" || found.sets.contains_key(set) {
                        assert_eq!(sets(found), sets(&written), "{name} {set}");
                    }
                }
                let affinity = |dump: &nftables::dump::Dump| of_services(dump.sets.keys());
                assert_eq!(affinity(found), affinity(&written), "{name}");
            }
            Rules::Cilium(_) => unreachable!("no peer of Cilium"),
        }
    }
}

/// What is told when a dump lacks something: by name of the object.
fn told(rules: &Rules, ports: &[ExpectedPort]) -> usize {
    trace(rules, ports, "worker").faults()
}

/// Lines whose loss takes nothing from packets to Services: what accepts them, what drops invalid ones, what answers
/// balancers' health checks, kubelet's own chain, and a comment that is a rule.
const BESIDE: [&str; 4] =
    ["KUBE-FORWARD", "KUBE-FIREWALL", "health check", "will be dropped by KUBE-PROXY-FIREWALL"];

#[test]
fn no_rule_of_a_real_iptables_save_can_be_taken_out_unnoticed() {
    let mut unnoticed: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for Peer { name, text, ports, .. } in
        peers().iter().filter(|peer| matches!(peer.rules, Rules::Iptables(_)))
    {
        let lines: Vec<&str> = text.lines().collect();
        for (index, line) in lines.iter().enumerate() {
            if !line.starts_with("-A ") || BESIDE.iter().any(|beside| line.contains(beside)) {
                continue;
            }
            let without: Vec<&str> =
                lines.iter().enumerate().filter(|(at, _)| *at != index).map(|(_, line)| *line).collect();
            let dump = iptables::dump::parse(&(without.join("\n") + "\n")).expect("well formed");
            if told(&Rules::Iptables(dump), ports) == 0 {
                unnoticed.entry(name.clone()).or_default().push((*line).to_owned());
            }
        }
    }
    assert!(unnoticed.is_empty(), "{unnoticed:#?}");
}

#[test]
fn no_rule_or_element_of_a_real_table_can_be_taken_out_unnoticed() {
    let mut unnoticed: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for Peer { name, text, ports, .. } in
        peers().iter().filter(|peer| matches!(peer.rules, Rules::Nftables(_)))
    {
        let whole: serde_json::Value = serde_json::from_str(text).expect("JSON");
        let items = whole["nftables"].as_array().expect("a list");
        let mut try_without = |changed: Vec<serde_json::Value>, what: String| {
            let dump = nftables::dump::read(&serde_json::json!({"nftables": changed})).expect("well formed");
            if told(&Rules::Nftables(dump), ports) == 0 {
                unnoticed.entry(name.clone()).or_default().push(what);
            }
        };
        for (index, item) in items.iter().enumerate() {
            // The last rule drops what goes to addresses of Services that nobody has: those networks are not known here.
            let unallocated = item["rule"]["comment"] == "Drop traffic to unallocated ClusterIPs";
            if item.get("rule").is_some() && !unallocated {
                let mut changed = items.clone();
                changed.remove(index);
                try_without(changed, item["rule"].to_string());
            }
            for kind in ["map", "set"] {
                for element in 0..item[kind]["elem"].as_array().map_or(0, Vec::len) {
                    let mut changed = items.clone();
                    changed[index][kind]["elem"].as_array_mut().expect("elements").remove(element);
                    try_without(changed, format!("{} {}", item[kind]["name"], item[kind]["elem"][element]));
                }
            }
        }
    }
    assert!(unnoticed.is_empty(), "{unnoticed:#?}");
}
