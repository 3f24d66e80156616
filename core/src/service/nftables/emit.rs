//! The rules that kube-proxy's nftables mode writes, as `nft -f` takes them.
//!
//! Invariant: what is written here is what [`super::faults`] finds no fault with; it is in the shape of kube-proxy's
//! table (`pkg/proxy/nftables/proxier.go`), in either of its two layouts: since 1.36 a chain of a service port holds
//! one rule that translates through a map, before it jumped to a chain for each endpoint. Written from the
//! description of the rules, for labs and for comparison; it is not kube-proxy.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use super::{Layout, chain};
use crate::model::service::AddressType;
use crate::service::RouteKind;
use crate::service::expected::{Action, ExpectedFrontend, ExpectedPort};
use crate::service::iptables::{ProxyOptions, WRITTEN_BY};

/// The name of the table, in each family.
pub const TABLE: &str = "kube-proxy";

/// The parts of the table that Services fill.
#[derive(Default)]
struct Table {
    cluster_ips: BTreeSet<String>,
    service_ips: BTreeMap<String, String>,
    node_ports: BTreeMap<String, String>,
    ends: BTreeMap<String, String>,
    node_port_ends: BTreeMap<String, String>,
    firewalls: BTreeMap<String, String>,
    hairpins: BTreeSet<String>,
    affinity: BTreeMap<String, u32>,
    chains: BTreeMap<String, Vec<String>>,
}

/// Writes the table of one family; a table that is there is replaced at once.
#[must_use]
pub fn emit(ports: &[ExpectedPort], family: AddressType, layout: Layout, options: &ProxyOptions) -> String {
    let mut table = Table::default();
    for port in ports {
        for frontend in &port.frontends {
            table.entry(port, frontend);
        }
        table.chains(port, layout, options);
    }
    table.finish(family, options)
}

/// `ip` or `ip6`.
const fn ip(family: AddressType) -> &'static str {
    match family {
        AddressType::Ipv6 => "ip6",
        AddressType::Ipv4 | AddressType::Fqdn => "ip",
    }
}

impl Table {
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
            let element = (key.clone(), format!("goto {target}"));
            let map =
                if frontend.key.address.is_none() { &mut self.node_ports } else { &mut self.service_ips };
            map.extend([element]);
            if frontend.kind == RouteKind::LoadBalancer && !port.source_ranges.is_empty() {
                self.firewalls.insert(key.clone(), format!("goto {}", chain::firewall(name)));
            }
        }
        let end = match frontend.action {
            Action::Refuse => "goto reject-chain",
            Action::Drop => "drop",
            Action::Cluster | Action::Local => return,
        };
        let ends = if frontend.key.address.is_none() { &mut self.node_port_ends } else { &mut self.ends };
        ends.insert(format!("{key} comment \"{name}\""), end.to_owned());
    }

    fn chains(&mut self, port: &ExpectedPort, layout: Layout, options: &ProxyOptions) {
        let name = &port.name;
        let family = ip(port.family);
        for (chain, endpoints) in [(chain::cluster(name), &port.cluster), (chain::local(name), &port.local)] {
            if !endpoints.is_empty() {
                let rules = self.balance(port, endpoints, layout);
                self.chains.insert(chain, rules);
            }
        }
        let is_external = port.frontends.iter().any(|frontend| frontend.kind != RouteKind::ClusterIp);
        if is_external && port.has_endpoints() {
            let mark = format!("mark set mark or {:#x}", options.mark);
            let mut rules = Vec::new();
            if port.policy.external_local {
                if let Some(pods) = options.pod_cidr {
                    rules.push(format!("{family} saddr {pods} goto {}", chain::cluster(name)));
                }
                rules.push(format!("fib saddr type local {mark}"));
                rules.push(format!("fib saddr type local goto {}", chain::cluster(name)));
                if !port.local.is_empty() {
                    rules.push(format!("goto {}", chain::local(name)));
                }
            } else {
                rules.push(mark);
                rules.push(format!("goto {}", chain::cluster(name)));
            }
            self.chains.insert(chain::external(name), rules);
        }
        if !port.source_ranges.is_empty() {
            let ranges: Vec<String> = port.source_ranges.iter().map(ToString::to_string).collect();
            let rule = format!("{family} saddr != {{ {} }} drop", ranges.join(", "));
            self.chains.insert(chain::firewall(name), vec![rule]);
        }
        for endpoint in &port.on_node {
            let (address, number) = (endpoint.ip(), endpoint.port());
            let protocol = name.protocol.lower();
            self.hairpins.insert(format!("{address} . {address} . {protocol} . {number}"));
        }
    }

    fn balance(&mut self, port: &ExpectedPort, endpoints: &[SocketAddr], layout: Layout) -> Vec<String> {
        let (name, family) = (&port.name, ip(port.family));
        let protocol = name.protocol.lower();
        let count = endpoints.len();
        if layout == Layout::Maps && port.affinity.is_none() {
            let elements: Vec<String> = endpoints
                .iter()
                .enumerate()
                .map(|(index, endpoint)| format!("{index} : {} . {}", endpoint.ip(), endpoint.port()))
                .collect();
            return vec![format!(
                "meta l4proto {protocol} dnat {family} to numgen random mod {count} map {{ {} }}",
                elements.join(", ")
            )];
        }
        let mut rules = Vec::new();
        for endpoint in endpoints {
            let chain = chain::endpoint(name, *endpoint);
            let mut own = Vec::new();
            if let Some(seconds) = port.affinity {
                let set = chain::affinity(name, *endpoint);
                rules.push(format!("{family} saddr @{set} goto {chain}"));
                own.push(format!("update @{set} {{ {family} saddr }}"));
                self.affinity.insert(set, seconds);
            }
            own.push(format!("meta l4proto {protocol} dnat to {endpoint}"));
            self.chains.insert(chain, own);
        }
        let elements: Vec<String> = endpoints
            .iter()
            .enumerate()
            .map(|(index, endpoint)| format!("{index} : goto {}", chain::endpoint(name, *endpoint)))
            .collect();
        rules.push(format!("numgen random mod {count} vmap {{ {} }}", elements.join(", ")));
        rules
    }

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
        let elements = |map: &BTreeMap<String, String>| {
            list(&map.iter().map(|(key, value)| format!("{key} : {value}")).collect::<Vec<_>>())
        };
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
        for (name, rules) in order(&self.chains) {
            text += &format!("chain {name} {{\n{}\n}}\n", rules.join("\n"));
        }
        text += &format!(
            "map service-ips {{ type {key} : verdict; {} }}\n\
             map service-nodeports {{ type inet_proto . inet_service : verdict; {} }}\n\
             map no-endpoint-services {{ type {key} : verdict; {} }}\n\
             map no-endpoint-nodeports {{ type inet_proto . inet_service : verdict; {} }}\n\
             map firewall-ips {{ type {key} : verdict; {} }}\n",
            elements(&self.service_ips),
            elements(&self.node_ports),
            elements(&self.ends),
            elements(&self.node_port_ends),
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
fn order(chains: &BTreeMap<String, Vec<String>>) -> Vec<(&String, &Vec<String>)> {
    let rank = |name: &str| {
        ["endpoint-", "service-", "local-", "external-", "firewall-"]
            .iter()
            .position(|prefix| name.starts_with(prefix))
    };
    let mut ordered: Vec<(&String, &Vec<String>)> = chains.iter().collect();
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
