//! The rules that kube-proxy's nftables mode writes, as `nft -f` takes them.
//!
//! Invariant: what is written here is what [`super::faults`] finds no fault with; it is in the shape of kube-proxy's
//! table (`pkg/proxy/nftables/proxier.go`), in either of its two layouts: since 1.36 a chain of a service port holds
//! one rule that translates through a map, before it jumped to a chain for each endpoint. Written from the
//! description of the rules, for labs and for comparison; it is not kube-proxy.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::reading::{Rule, Verdict};
use super::written::{self, BaseChain, HAIRPINS, Style};
use super::{Layout, chain};
use crate::model::port::Protocol;
use crate::model::service::AddressType;
use crate::service::RouteKind;
use crate::service::expected::{Action, ExpectedFrontend, ExpectedPort};
use crate::service::iptables::{ProxyOptions, WRITTEN_BY};

/// The name of the table, in each family.
pub const TABLE: &str = "kube-proxy";

/// The parts of the table that Services fill.
#[derive(Default)]
pub(super) struct Table {
    pub(super) cluster_ips: BTreeSet<String>,
    pub(super) service_ips: BTreeMap<String, Verdict>,
    pub(super) node_ports: BTreeMap<String, Verdict>,
    pub(super) ends: BTreeMap<String, Verdict>,
    pub(super) node_port_ends: BTreeMap<String, Verdict>,
    /// Whose the keys of the two maps above are.
    pub(super) comments: BTreeMap<String, String>,
    pub(super) firewalls: BTreeMap<String, Verdict>,
    pub(super) hairpins: BTreeSet<String>,
    pub(super) affinity: BTreeMap<String, u32>,
    pub(super) chains: BTreeMap<String, Chain>,
}

/// The rules of one chain of a service port.
pub(super) struct Chain {
    /// The port's.
    pub(super) protocol: Protocol,
    /// In order.
    pub(super) rules: Vec<Rule>,
}

/// Writes the table of one family; a table that is there is replaced at once.
#[must_use]
pub fn emit(ports: &[ExpectedPort], family: AddressType, layout: Layout, options: &ProxyOptions) -> String {
    let style = Style::own(family, layout, options);
    Table::of(ports, &style).finish(&style)
}

impl Table {
    pub(super) fn of(ports: &[ExpectedPort], style: &Style) -> Self {
        let mut table = Self::default();
        for port in ports {
            for frontend in &port.frontends {
                table.entry(port, frontend);
            }
            table.chains(port, style);
        }
        table
    }

    fn entry(&mut self, port: &ExpectedPort, frontend: &ExpectedFrontend) {
        let name = &port.name;
        let (protocol, number) = (frontend.key.protocol.lower(), frontend.key.port);
        let key = match frontend.key.address {
            Some(address) => format!("{address} . {protocol} . {number}"),
            None => format!("{protocol} . {number}"),
        };
        if let (RouteKind::ClusterIp, Some(address)) = (frontend.kind, frontend.key.address) {
            self.cluster_ips.insert(address.to_string());
        }
        let goes_on = match frontend.kind {
            RouteKind::ClusterIp => match frontend.action {
                Action::Cluster => Some(chain::cluster(name)),
                Action::Local => Some(chain::local(name)),
                Action::Refuse | Action::Drop => None,
            },
            _ => port.has_endpoints().then(|| chain::external(name)),
        };
        if let Some(target) = goes_on {
            let element = (key.clone(), Verdict::Goto(target));
            let map =
                if frontend.key.address.is_none() { &mut self.node_ports } else { &mut self.service_ips };
            map.extend([element]);
        }
        if frontend.kind == RouteKind::LoadBalancer && !port.source_ranges.is_empty() {
            self.firewalls.insert(key.clone(), Verdict::Goto(chain::firewall(name)));
        }
        let end = match frontend.action {
            Action::Refuse => Verdict::Goto("reject-chain".to_owned()),
            Action::Drop => Verdict::Drop,
            Action::Cluster | Action::Local => return,
        };
        let comment = key.clone();
        let ends = if frontend.key.address.is_none() { &mut self.node_port_ends } else { &mut self.ends };
        ends.insert(key, end);
        self.comments.insert(comment, name.to_string());
    }

    fn chains(&mut self, port: &ExpectedPort, style: &Style) {
        let (name, protocol) = (&port.name, port.name.protocol);
        for (chain, rules) in written::of_port(style, port) {
            let rules = rules.into_iter().map(|rule| rule.rule).collect();
            self.chains.insert(chain, Chain { protocol, rules });
        }
        for endpoint in &port.on_node {
            let (address, number) = (endpoint.ip(), endpoint.port());
            self.hairpins.insert(format!("{address} . {address} . {} . {number}", protocol.lower()));
        }
        let endpoints = port.cluster.iter().chain(&port.local);
        self.affinity.extend(
            endpoints.filter_map(|endpoint| Some((chain::affinity(name, *endpoint), port.affinity?))),
        );
    }
}

impl Table {
    fn finish(self, style: &Style) -> String {
        let (ip, address) = (style.ip(), style.address());
        let verdict_text = written::verdict_text;
        let none = BTreeMap::new();
        let commented = |map: &BTreeMap<String, Verdict>, comments: &BTreeMap<String, String>| {
            let comment = |key: &String| {
                comments.get(key).map(|text| format!(" comment \"{text}\"")).unwrap_or_default()
            };
            let element =
                |(key, to): (&String, &Verdict)| format!("{key}{} : {}", comment(key), verdict_text(to));
            list(&map.iter().map(element).collect::<Vec<_>>())
        };
        let elements = |map: &BTreeMap<String, Verdict>| commented(map, &none);
        let set = |set: BTreeSet<String>| list(&set.into_iter().collect::<Vec<_>>());
        let mut text = format!(
            "table {ip} {TABLE} {{}}\ndelete table {ip} {TABLE}\ntable {ip} {TABLE} {{\n\
             comment \"rules for kube-proxy, {WRITTEN_BY}\"\n\
             set cluster-ips {{ type {address}; {} }}\n\
             set {HAIRPINS} {{ type {address} . {address} . inet_proto . inet_service; {} }}\n",
            set(self.cluster_ips),
            set(self.hairpins)
        );
        for (name, seconds) in &self.affinity {
            text += &format!("set {name} {{ type {address}; flags dynamic,timeout; timeout {seconds}s; }}\n");
        }
        let shared = style.shared();
        let rules_of = |name: &str| {
            let found = shared.iter().filter(|(chain, _)| *chain == name).flat_map(|(_, rules)| rules);
            found.map(|rule| rule.text.as_str()).collect::<Vec<_>>().join("\n")
        };
        // A chain must be there before an element goes to it.
        let ends = "reject-chain";
        text += &format!("chain {ends} {{\n{}\n}}\n", rules_of(ends));
        for (name, chain) in order(&self.chains) {
            let rules = chain.rules.iter().map(|rule| style.rule(rule, chain.protocol));
            text += &format!("chain {name} {{\n{}\n}}\n", rules.collect::<Vec<_>>().join("\n"));
        }
        let key = format!("{address} . inet_proto . inet_service");
        text += &format!(
            "map service-ips {{ type {key} : verdict; {} }}\n\
             map service-nodeports {{ type inet_proto . inet_service : verdict; {} }}\n\
             map no-endpoint-services {{ type {key} : verdict; {} }}\n\
             map no-endpoint-nodeports {{ type inet_proto . inet_service : verdict; {} }}\n\
             map firewall-ips {{ type {key} : verdict; {} }}\n",
            elements(&self.service_ips),
            elements(&self.node_ports),
            commented(&self.ends, &self.comments),
            commented(&self.node_port_ends, &self.comments),
            elements(&self.firewalls)
        );
        let bases = style.bases();
        let is_base = |name: &str| bases.iter().any(|base| base.name == name);
        for (name, _) in shared.iter().filter(|(name, _)| *name != ends && !is_base(name)) {
            text += &format!("chain {name} {{\n{}\n}}\n", rules_of(name));
        }
        for BaseChain { name, kind, hook, priority, .. } in &bases {
            let rules = rules_of(name);
            text += &format!("chain {name} {{ type {kind} hook {hook} priority {priority};\n{rules}\n}}\n");
        }
        text + "}\n"
    }
}

/// Chains that others go to come first: endpoints, then services, then what comes from outside.
fn order(chains: &BTreeMap<String, Chain>) -> Vec<(&String, &Chain)> {
    let rank = |name: &str| {
        ["endpoint-", "service-", "local-", "external-", "firewall-"]
            .iter()
            .position(|prefix| name.starts_with(prefix))
    };
    let mut ordered: Vec<(&String, &Chain)> = chains.iter().collect();
    ordered.sort_by_key(|(name, _)| rank(name));
    ordered
}

fn list(elements: &[String]) -> String {
    if elements.is_empty() { String::new() } else { format!("elements = {{ {} }}", elements.join(", ")) }
}

/// Whether an address is of a family.
pub(super) const fn is_of(address: IpAddr, family: AddressType) -> bool {
    matches!((address, family), (IpAddr::V4(_), AddressType::Ipv4) | (IpAddr::V6(_), AddressType::Ipv6))
}
