//! DNS: egress isolation that leaves no way to it, and servers that do not admit who asks.
//!
//! Sources: resolvers ask over UDP and repeat over TCP what did not fit (RFC 7766); a policy sees the DNS pods and their
//! port, not the Service; where a cache runs on each node, pods ask an address of their node. Invariant: asked of the compiled
//! tables, once per ruleset. Where the input has no DNS servers, egress is told as closed only if it is closed towards
//! everybody on every port that DNS servers are known to use, and no rule could mean them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};

use netlab_ebpf::abi::Direction;

use super::finding::{Finding, count};
use super::ground::{Ground, is_written, names, rules};
use super::service_ports::{pods_of, targets};
use super::tables::{allows_somebody, verdict};
use crate::diagnostic::{Diagnostic, code};
use crate::model::cluster::{ObjectKey, Pod};
use crate::model::policy::{Action, NamespaceScope, Peer, PeerMatch, Policy, PolicyTier, Port};
use crate::model::port::{PortMatch, Protocol};
use crate::policy::change::Verdict;
use crate::policy::classes::ClassIndex;
use crate::policy::ruleset::Table;

/// The port of DNS.
const DNS: u16 = 53;

/// Ports on which DNS pods listen: the usual one, and the one that `OpenShift` has.
const POD_PORTS: [u16; 2] = [DNS, 5353];

/// Services of DNS, as the usual installations call them.
const SERVICES: [(&str, &str); 4] = [
    ("kube-system", "kube-dns"),
    ("kube-system", "coredns"),
    ("kube-system", "rke2-coredns-rke2-coredns"),
    ("openshift-dns", "dns-default"),
];

/// Labels of DNS pods, where no Service was given.
const LABELS: [(&str, &str, &str); 2] = [
    ("kube-system", "k8s-app", "kube-dns"),
    ("openshift-dns", "dns.operator.openshift.io/daemonset-dns", "default"),
];

/// The label of the pods of a cache on each node, and the address that it has everywhere.
const NODE_CACHE: (&str, &str) = ("k8s-app", "node-local-dns");
const NODE_CACHE_ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::new(169, 254, 20, 10));

/// The two protocols of DNS.
const BOTH: [Protocol; 2] = [Protocol::Udp, Protocol::Tcp];

pub(super) fn find(ground: &Ground<'_>, findings: &mut Vec<Finding>) {
    let servers = Servers::of(ground);
    let mut closed = Closed::default();
    let mut isolated: BTreeSet<&ObjectKey> = BTreeSet::new();
    for (table, pods) in ground.tables(Direction::Egress) {
        let asking: Vec<&ObjectKey> =
            pods.iter().copied().filter(|key| !servers.pods.contains(key)).collect();
        if table.isolated_by.is_empty() || asking.is_empty() {
            continue;
        }
        isolated.extend(&asking);
        match servers.way(ground, table) {
            Some(way) => closed.add(way, table, &asking),
            None => closed.able.extend(asking.iter().map(|key| key.namespace.as_str())),
        }
    }
    let free = ground.rulesets.pods.keys().filter(|key| !isolated.contains(key));
    closed.able.extend(free.map(|key| key.namespace.as_str()));
    findings.extend(closed.findings(ground, &servers));
    findings.extend(server_side(ground, &servers));
}

/// What is wrong with the way to DNS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Way {
    /// Neither protocol passes, though other traffic does.
    Closed,
    /// No rule admits anything at all.
    EverythingClosed,
    /// One protocol does not pass.
    Without(Protocol),
    /// The node's cache is not reached.
    PastTheCache,
}

/// Where DNS is answered.
struct Servers<'a> {
    pods: BTreeSet<&'a ObjectKey>,
    /// Class of each address, and the port there, per protocol (UDP, TCP).
    targets: [BTreeSet<(ClassIndex, u16)>; 2],
    /// The addresses of the Services.
    service_addresses: Vec<IpAddr>,
    node_cache: bool,
}

impl<'a> Servers<'a> {
    fn of(ground: &Ground<'a>) -> Self {
        let cluster = ground.cluster;
        let mut servers = Self {
            pods: BTreeSet::new(),
            targets: [BTreeSet::new(), BTreeSet::new()],
            service_addresses: Vec::new(),
            node_cache: cluster.pods.values().any(|pod| {
                pod.labels.get(NODE_CACHE.0).is_some_and(|value| value == NODE_CACHE.1) && !pod.terminal
            }),
        };
        for (namespace, name) in SERVICES {
            let Some((key, service)) = cluster.services.get_key_value(&ObjectKey::new(namespace, name))
            else {
                continue;
            };
            servers.service_addresses.extend(&service.cluster_ips);
            let groups = pods_of(ground, key, service);
            let pods: Vec<(&'a ObjectKey, &'a Pod)> = ground.subjects(&groups).collect();
            for port in service.ports.iter().filter(|port| port.port == DNS) {
                for number in targets(&port.target, port.protocol, pods.iter().map(|(_, pod)| *pod)) {
                    servers.add(ground, &pods, port.protocol, number);
                }
            }
        }
        if servers.pods.is_empty() {
            let labelled = |key: &ObjectKey, pod: &Pod| {
                LABELS.iter().any(|(namespace, label, value)| {
                    key.namespace == *namespace && pod.labels.get(*label).is_some_and(|found| found == value)
                })
            };
            let pods: Vec<(&'a ObjectKey, &'a Pod)> = cluster
                .pods
                .iter()
                .filter(|(key, pod)| labelled(key, pod) && !pod.host_network && !pod.terminal)
                .collect();
            for (key, pod) in pods {
                for protocol in BOTH {
                    let listens = |number: &u16| {
                        pod.ports.iter().any(|port| port.protocol == protocol && port.number == *number)
                    };
                    let number = POD_PORTS.into_iter().find(listens).unwrap_or(DNS);
                    servers.add(ground, &[(key, pod)], protocol, number);
                }
            }
        }
        servers
    }

    fn add(&mut self, ground: &Ground<'a>, pods: &[(&'a ObjectKey, &'a Pod)], protocol: Protocol, port: u16) {
        let Some(index) = BOTH.iter().position(|known| *known == protocol) else { return };
        for (key, _) in pods {
            let Some(compiled) = ground.rulesets.pods.get(*key) else { continue };
            self.pods.insert(key);
            for address in &compiled.addresses {
                self.targets[index].insert((ground.rulesets.classes.of_address(*address), port));
            }
        }
    }

    /// What is wrong with the way from the pods of a table; `None` when nothing is, or that cannot be told.
    fn way(&self, ground: &Ground<'_>, table: &Table) -> Option<Way> {
        let open = if self.node_cache {
            // The cache listens on its own address and, with kube-proxy's iptables mode, on the Service's.
            let addresses = std::iter::once(&NODE_CACHE_ADDRESS).chain(&self.service_addresses);
            let classes: BTreeSet<(ClassIndex, u16)> =
                addresses.map(|address| (ground.rulesets.classes.of_address(*address), DNS)).collect();
            BOTH.map(|protocol| is_open(table, &classes, protocol))
        } else if self.targets.iter().all(BTreeSet::is_empty) {
            BOTH.map(|protocol| {
                let open = |port: &u16| {
                    allows_somebody(table, protocol, *port) || may_admit_dns(ground, table, protocol, *port)
                };
                POD_PORTS.iter().any(open)
            })
        } else {
            // No target: the servers do not speak this protocol, which is no policy's fault.
            [0, 1].map(|index| {
                self.targets[index].is_empty() || is_open(table, &self.targets[index], BOTH[index])
            })
        };
        let says_nothing = table.rules.iter().all(|rule| rule.tier != PolicyTier::NetworkPolicy);
        match open {
            [true, true] => None,
            [false, false] if says_nothing => Some(Way::EverythingClosed),
            [false, false] if self.node_cache && is_open(table, &self.targets[0], Protocol::Udp) => {
                Some(Way::PastTheCache)
            }
            [false, false] => Some(Way::Closed),
            [true, false] => Some(Way::Without(Protocol::Tcp)),
            [false, true] => Some(Way::Without(Protocol::Udp)),
        }
    }

    /// What a policy has to admit, in words.
    fn wanted(&self, ground: &Ground<'_>) -> String {
        if self.pods.is_empty() {
            return "UDP and TCP 53 to the DNS pods (of kube-system, k8s-app=kube-dns)".to_owned();
        }
        let ports: BTreeSet<String> =
            self.targets.iter().flatten().map(|(_, port)| port.to_string()).collect();
        let ports = ports.into_iter().collect::<Vec<_>>().join(", ");
        format!("UDP and TCP {ports} to {}", self.names(ground))
    }

    fn names(&self, ground: &Ground<'_>) -> String {
        names(self.pods.iter().filter_map(|key| ground.cluster.pods.get_key_value(*key)))
    }
}

/// True when some rule admits the port to peers that DNS servers could be, were they in the input.
fn may_admit_dns(ground: &Ground<'_>, table: &Table, protocol: Protocol, port: u16) -> bool {
    let could_be = |peer: &Peer| match &peer.matches {
        PeerMatch::Pods(selector) => match &selector.namespaces {
            NamespaceScope::Own(name) => SERVICES.iter().any(|(namespace, _)| namespace == name),
            NamespaceScope::Matching(_) => true,
        },
        PeerMatch::Block(_) | PeerMatch::Nodes(_) | PeerMatch::DomainNames(_) => true,
    };
    let holds = |one: &Port| match &one.matches {
        PortMatch::Range { protocol: of, range } => *of == protocol && range.contains(port),
        // Whatever the servers call it.
        PortMatch::Named { protocol: of, .. } => *of == protocol,
    };
    table.rules.iter().filter(|rule| rule.action == Action::Accept).any(|rule| {
        let policy = &ground.policies.list[rule.policy as usize];
        let Some(rule) = rules(policy, Direction::Egress).get(rule.rule as usize) else { return false };
        rule.peers.as_ref().is_none_or(|peers| peers.iter().any(could_be))
            && rule.ports.as_ref().is_none_or(|ports| ports.iter().any(holds))
    })
}

/// True when one of the targets is allowed: several servers do the same, in each address family.
fn is_open(table: &Table, targets: &BTreeSet<(ClassIndex, u16)>, protocol: Protocol) -> bool {
    targets.iter().any(|(class, port)| verdict(table, *class, protocol, *port) == Verdict::Allow)
}

/// The policies that isolate some pods, and the pods.
type Isolated<'a> = (&'a [u32], Vec<&'a ObjectKey>);

/// Pods without a whole way to DNS, by what is wrong and by who isolates them.
#[derive(Default)]
struct Closed<'a> {
    of: BTreeMap<Way, Vec<Isolated<'a>>>,
    /// Namespaces in which some pod reaches DNS.
    able: BTreeSet<&'a str>,
}

impl<'a> Closed<'a> {
    fn add(&mut self, way: Way, table: &'a Table, pods: &[&'a ObjectKey]) {
        if matches!(way, Way::Without(_)) {
            self.able.extend(pods.iter().map(|key| key.namespace.as_str()));
        }
        self.of.entry(way).or_default().push((&table.isolated_by, pods.to_vec()));
    }

    /// As few findings as policies explain them all: each time the one that isolates most of the pods that are left.
    fn findings(self, ground: &Ground<'_>, servers: &Servers<'_>) -> Vec<Finding> {
        let mut found = Vec::new();
        for (way, mut left) in self.of {
            while !left.is_empty() {
                let mut weight: BTreeMap<u32, usize> = BTreeMap::new();
                for (policies, pods) in &left {
                    for policy in *policies {
                        *weight.entry(*policy).or_default() += pods.len();
                    }
                }
                let most =
                    weight.into_iter().max_by_key(|(policy, pods)| (*pods, std::cmp::Reverse(*policy)));
                let Some((culprit, _)) = most else { break };
                let (its, rest): (Vec<_>, Vec<_>) =
                    left.into_iter().partition(|(policies, _)| policies.contains(&culprit));
                left = rest;
                let pods: Vec<&ObjectKey> = its.into_iter().flat_map(|(_, pods)| pods).collect();
                // Where others of the namespace have a way to DNS, somebody thought of it: these need no names.
                let meant = way == Way::EverythingClosed
                    && pods.iter().any(|key| self.able.contains(key.namespace.as_str()));
                if !meant {
                    let policy = &ground.policies.list[culprit as usize];
                    found.push(finding(ground, servers, policy, way, &pods));
                }
            }
        }
        found
    }
}

fn finding(
    ground: &Ground<'_>,
    servers: &Servers<'_>,
    policy: &Policy,
    way: Way,
    pods: &[&ObjectKey],
) -> Finding {
    let number = count(pods.len(), "pod");
    let who = names(pods.iter().filter_map(|key| ground.cluster.pods.get_key_value(*key)));
    let wanted = servers.wanted(ground);
    let diagnostic = match way {
        Way::Closed => Diagnostic::warning(
            code::DNS_BLOCKED,
            format!("egress isolation without a way to DNS: {number} cannot resolve any name ({who})"),
        )
        .with_hint(format!("admit {wanted}")),
        Way::EverythingClosed => Diagnostic::warning(
            code::DNS_BLOCKED,
            format!("all egress is denied, and DNS with it: {number} cannot resolve any name ({who})"),
        )
        .with_hint(format!("admit {wanted}; nothing is wrong if these pods need no names")),
        Way::Without(protocol) => {
            let other = if protocol == Protocol::Tcp { Protocol::Udp } else { Protocol::Tcp };
            let follows = if protocol == Protocol::Tcp {
                "answers that do not fit into a datagram are lost"
            } else {
                "resolvers ask over UDP first"
            };
            let message =
                format!("{number} may ask DNS over {other} and not over {protocol}: {follows} ({who})");
            Diagnostic::warning(code::DNS_ONE_PROTOCOL, message).with_hint(format!("admit {wanted}"))
        }
        Way::PastTheCache => {
            let message = format!(
                "{number} may ask the DNS pods, but names are asked of the node's cache, {NODE_CACHE_ADDRESS} ({who})"
            );
            Diagnostic::warning(code::DNS_NODE_CACHE, message).with_hint(format!(
                "admit UDP and TCP 53 to `ipBlock: {{cidr: {NODE_CACHE_ADDRESS}/32}}` as well"
            ))
        }
    };
    let path = if is_written(policy, "spec.egress") { "spec.egress" } else { "spec" };
    Finding::at(policy, path, diagnostic).pods(pods.len())
}

/// DNS pods whose own ingress policies do not admit some of those who ask.
fn server_side(ground: &Ground<'_>, servers: &Servers<'_>) -> Vec<Finding> {
    let rulesets = ground.rulesets;
    let mut askers: BTreeMap<ClassIndex, BTreeSet<&ObjectKey>> = BTreeMap::new();
    for (key, pod) in rulesets.pods.iter().filter(|(key, _)| !servers.pods.contains(key)) {
        // One address is enough: DNS goes over one family.
        for address in pod.addresses.iter().take(1) {
            askers.entry(rulesets.classes.of_address(*address)).or_default().insert(key);
        }
    }
    let mut found = Vec::new();
    for (table, pods) in ground.tables(Direction::Ingress) {
        let mine: Vec<&&ObjectKey> = pods.iter().filter(|key| servers.pods.contains(**key)).collect();
        let Some(first) = mine.first().filter(|_| !table.isolated_by.is_empty()) else { continue };
        let Some(compiled) = rulesets.pods.get(**first) else { continue };
        let classes: BTreeSet<ClassIndex> =
            compiled.addresses.iter().map(|address| rulesets.classes.of_address(*address)).collect();
        let mut refused: BTreeSet<&ObjectKey> = BTreeSet::new();
        let mut protocols: BTreeSet<Protocol> = BTreeSet::new();
        for (protocol, targets) in BOTH.iter().zip(&servers.targets) {
            let ports: BTreeSet<u16> =
                targets.iter().filter(|(class, _)| classes.contains(class)).map(|(_, port)| *port).collect();
            for (class, askers) in &askers {
                let denied = |port: &u16| verdict(table, *class, *protocol, *port) == Verdict::Deny;
                if ports.iter().any(denied) {
                    refused.extend(askers);
                    protocols.insert(*protocol);
                }
            }
        }
        if refused.is_empty() {
            continue;
        }
        let speaks = table.isolated_by.iter().find(|policy| {
            ground.policies.list[**policy as usize].ingress.as_ref().is_some_and(|rules| !rules.is_empty())
        });
        let Some(policy) = speaks.or(table.isolated_by.first()) else { continue };
        let policy = &ground.policies.list[*policy as usize];
        let protocols: Vec<&str> = protocols.iter().map(|protocol| protocol.as_str()).collect();
        let message = format!(
            "the DNS pods {} do not admit {} over {}",
            servers.names(ground),
            count(refused.len(), "pod"),
            protocols.join(" and ")
        );
        let hint = "admit UDP and TCP 53 `from: [{namespaceSelector: {}}]`";
        let diagnostic = Diagnostic::warning(code::DNS_SERVER_CLOSED, message).with_hint(hint);
        let path = if is_written(policy, "spec.ingress") { "spec.ingress" } else { "spec" };
        found.push(Finding::at(policy, path, diagnostic).pods(refused.len()));
    }
    found
}
