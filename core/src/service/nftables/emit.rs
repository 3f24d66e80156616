//! The rules that kube-proxy's nftables mode writes, as `nft -f` takes them.
//!
//! Invariant: what is written here is what [`super::faults`] finds no fault with; it is in the shape of kube-proxy's
//! table (`pkg/proxy/nftables/proxier.go`), in either of its two layouts: since 1.36 a chain of a service port holds
//! one rule that translates through a map, before it jumped to a chain for each endpoint. Written from the
//! description of the rules, for labs and for comparison; it is not kube-proxy.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;

use super::dump::{Act, Marking, Rule, Verdict};
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
    Table::of(ports, layout, options).finish(family, options)
}

/// `ip` or `ip6`.
const fn ip(family: AddressType) -> &'static str {
    match family {
        AddressType::Ipv6 => "ip6",
        AddressType::Ipv4 | AddressType::Fqdn => "ip",
    }
}

impl Table {
    pub(super) fn of(ports: &[ExpectedPort], layout: Layout, options: &ProxyOptions) -> Self {
        let mut table = Self::default();
        for port in ports {
            for frontend in &port.frontends {
                table.entry(port, frontend);
            }
            table.chains(port, layout, options);
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
            if frontend.kind == RouteKind::LoadBalancer && !port.source_ranges.is_empty() {
                self.firewalls.insert(key.clone(), Verdict::Goto(chain::firewall(name)));
            }
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

    fn chains(&mut self, port: &ExpectedPort, layout: Layout, options: &ProxyOptions) {
        let name = &port.name;
        for (chain, endpoints) in [(chain::cluster(name), &port.cluster), (chain::local(name), &port.local)] {
            if !endpoints.is_empty() {
                let rules = self.balance(port, endpoints, layout);
                self.chain(chain, port, rules);
            }
        }
        let mark = Act::Mark(Marking::Or(u64::from(options.mark)));
        let is_external = port.frontends.iter().any(|frontend| frontend.kind != RouteKind::ClusterIp);
        let to = |chain: String| Rule::always(Act::Verdict(Verdict::Goto(chain)));
        if is_external && port.has_endpoints() {
            let mut rules = Vec::new();
            if port.policy.external_local {
                if let Some(pods) = options.pod_cidr {
                    rules.push(Rule { source: Some((false, pods)), ..to(chain::cluster(name)) });
                }
                rules.push(Rule { from_node: true, ..Rule::always(mark.clone()) });
                rules.push(Rule { from_node: true, ..to(chain::cluster(name)) });
                if !port.local.is_empty() {
                    rules.push(to(chain::local(name)));
                }
            } else {
                rules.push(Rule::always(mark));
                rules.push(to(chain::cluster(name)));
            }
            self.chain(chain::external(name), port, rules);
        }
        if !port.source_ranges.is_empty() {
            let drop = Rule::always(Act::Verdict(Verdict::Drop));
            let mut not_from = port.source_ranges.clone();
            if port.admits_balancers() == Some(true) {
                let is_within = |ip: &IpAddr| port.source_ranges.iter().any(|range| range.contains(ip));
                not_from.extend(port.balancers().filter(|ip| !is_within(ip)).map(IpNet::from));
            }
            let rule = Rule { not_from, ..drop };
            self.chain(chain::firewall(name), port, vec![rule]);
        }
        for endpoint in &port.on_node {
            let (address, number) = (endpoint.ip(), endpoint.port());
            let protocol = name.protocol.lower();
            self.hairpins.insert(format!("{address} . {address} . {protocol} . {number}"));
        }
    }

    fn chain(&mut self, name: String, port: &ExpectedPort, rules: Vec<Rule>) {
        self.chains.insert(name, Chain { protocol: port.name.protocol, rules });
    }

    fn balance(&mut self, port: &ExpectedPort, endpoints: &[SocketAddr], layout: Layout) -> Vec<Rule> {
        let name = &port.name;
        let numbered = || (0_u64..).zip(endpoints.iter().copied());
        let divisor = u64::try_from(endpoints.len()).unwrap_or(u64::MAX);
        if layout == Layout::Maps && port.affinity.is_none() {
            return vec![Rule::always(Act::Spread(divisor, numbered().collect()))];
        }
        let mut rules = Vec::new();
        for endpoint in endpoints {
            let chain = chain::endpoint(name, *endpoint);
            let mut own = Vec::new();
            if let Some(seconds) = port.affinity {
                let set = chain::affinity(name, *endpoint);
                let known = Rule::always(Act::Verdict(Verdict::Goto(chain.clone())));
                rules.push(Rule { known_client: Some(set.clone()), ..known });
                own.push(Rule::always(Act::Remember(set.clone())));
                self.affinity.insert(set, seconds);
            }
            own.push(Rule::always(Act::Translate(*endpoint)));
            self.chain(chain, port, own);
        }
        let choices =
            numbered().map(|(number, endpoint)| (number, Verdict::Goto(chain::endpoint(name, endpoint))));
        rules.push(Rule::always(Act::Choose(divisor, choices.collect())));
        rules
    }
}

/// A rule in the language of `nft`.
fn rule_text(rule: &Rule, ip: &str, protocol: Protocol, mark: u32) -> String {
    let protocol = protocol.lower();
    let mut words: Vec<String> = Vec::new();
    if rule.from_node {
        words.push("fib saddr type local".to_owned());
    }
    if let Some((not, net)) = &rule.source {
        words.push(format!("{ip} saddr {}{net}", if *not { "!= " } else { "" }));
    }
    if !rule.not_from.is_empty() {
        let nets: Vec<String> = rule.not_from.iter().map(ToString::to_string).collect();
        words.push(format!("{ip} saddr != {{ {} }}", nets.join(", ")));
    }
    if let Some(set) = &rule.known_client {
        words.push(format!("{ip} saddr @{set}"));
    }
    words.push(match &rule.act {
        Act::Verdict(verdict) => verdict_text(verdict),
        Act::Choose(divisor, choices) => {
            let elements = choices.iter().map(|(number, to)| format!("{number} : {}", verdict_text(to)));
            format!("numgen random mod {divisor} vmap {{ {} }}", elements.collect::<Vec<_>>().join(", "))
        }
        Act::Spread(divisor, to) => {
            let elements = to.iter().map(|(number, to)| format!("{number} : {} . {}", to.ip(), to.port()));
            let elements = elements.collect::<Vec<_>>().join(", ");
            format!("meta l4proto {protocol} dnat {ip} to numgen random mod {divisor} map {{ {elements} }}")
        }
        Act::Translate(to) => format!("meta l4proto {protocol} dnat to {to}"),
        Act::Lookup(map) => format!("vmap @{map}"),
        Act::Mark(_) => format!("mark set mark or {mark:#x}"),
        Act::Masquerade => "masquerade".to_owned(),
        Act::Remember(set) => format!("update @{set} {{ {ip} saddr }}"),
        Act::Keep(..) | Act::Unknown => String::new(),
    });
    words.join(" ")
}

fn verdict_text(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Goto(chain) => format!("goto {chain}"),
        Verdict::Jump(chain) => format!("jump {chain}"),
        Verdict::Drop => "drop".to_owned(),
        Verdict::Reject => "reject".to_owned(),
        Verdict::Other(word) => word.clone(),
    }
}

impl Table {
    fn finish(self, family: AddressType, options: &ProxyOptions) -> String {
        let ip = ip(family);
        let address = if family == AddressType::Ipv6 { "ipv6_addr" } else { "ipv4_addr" };
        let loopback = if family == AddressType::Ipv6 { "::1" } else { "127.0.0.0/8" };
        let key = format!("{address} . inet_proto . inet_service");
        let masquerade = match options.pod_cidr {
            Some(pods) => {
                format!("{ip} daddr @cluster-ips {ip} saddr != {pods} mark set mark or {:#x}", options.mark)
            }
            None => String::new(),
        };
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
             set hairpin-connections {{ type {address} . {address} . inet_proto . inet_service; {} }}\n",
            set(self.cluster_ips),
            set(self.hairpins)
        );
        for (name, seconds) in &self.affinity {
            text += &format!("set {name} {{ type {address}; flags dynamic,timeout; timeout {seconds}s; }}\n");
        }
        // A chain must be there before an element goes to it.
        text += "chain reject-chain { reject; }\n";
        for (name, chain) in order(&self.chains) {
            let rules = chain.rules.iter().map(|rule| rule_text(rule, ip, chain.protocol, options.mark));
            text += &format!("chain {name} {{\n{}\n}}\n", rules.collect::<Vec<_>>().join("\n"));
        }
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
        let port = "meta l4proto . th dport";
        text += &format!(
            "chain services {{\n{masquerade}\n{ip} daddr . {port} vmap @service-ips\n\
             fib daddr type local {ip} daddr != {loopback} {port} vmap @service-nodeports\n}}\n\
             chain cluster-ips-check {{ {ip} daddr @cluster-ips reject comment \"Reject traffic to invalid ports of ClusterIPs\"; }}\n\
             chain service-endpoints-check {{ {ip} daddr . {port} vmap @no-endpoint-services; }}\n\
             chain nodeport-endpoints-check {{ fib daddr type local {ip} daddr != {loopback} {port} vmap @no-endpoint-nodeports; }}\n\
             chain firewall-check {{ {ip} daddr . {port} vmap @firewall-ips; }}\n\
             chain masquerading {{\n\
             mark and {mark:#x} != 0 mark set mark xor {mark:#x} masquerade fully-random\n\
             ct status dnat {ip} saddr . {ip} daddr . meta l4proto . th dport @hairpin-connections masquerade\n}}\n\
             chain filter-prerouting-pre-dnat {{ type filter hook prerouting priority -110; ct state new jump firewall-check; }}\n\
             chain filter-output-pre-dnat {{ type filter hook output priority -110; ct state new jump firewall-check; }}\n\
             chain filter-input {{ type filter hook input priority 0; ct state new jump nodeport-endpoints-check; ct state new jump service-endpoints-check; }}\n\
             chain filter-forward {{ type filter hook forward priority 0; ct state new jump service-endpoints-check; ct state new jump cluster-ips-check; }}\n\
             chain filter-output {{ type filter hook output priority 0; ct state new jump service-endpoints-check; ct state new jump cluster-ips-check; }}\n\
             chain nat-prerouting {{ type nat hook prerouting priority -100; jump services; }}\n\
             chain nat-output {{ type nat hook output priority -100; jump services; }}\n\
             chain nat-postrouting {{ type nat hook postrouting priority 100; jump masquerading; }}\n}}\n",
            mark = options.mark
        );
        text
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
