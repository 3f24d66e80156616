//! Pods that may send, and have no whole way to DNS.
//!
//! Invariant: where the input has no DNS servers, egress is told as closed only if it is closed towards everybody on every
//! port that DNS servers are known to use, and no rule could mean them.

use std::collections::{BTreeMap, BTreeSet};

use netlab_ebpf::abi::Direction;

use super::super::finding::{Finding, count};
use super::super::ground::{Ground, names, rules as rules_of};
use super::super::tables::{allows_somebody, decision, rows};
use super::servers::{BOTH, DNS, NODE_CACHE_ADDRESS, POD_PORTS, SERVICES, Servers};
use super::{Cause, is_open, of_target};
use crate::diagnostic::{Diagnostic, code};
use crate::model::cluster::ObjectKey;
use crate::model::policy::{Action, NamespaceScope, Peer, PeerMatch, PolicyTier, Port};
use crate::model::port::{PortMatch, Protocol};
use crate::policy::classes::ClassIndex;
use crate::policy::ruleset::Table;

pub(super) fn find(ground: &Ground<'_>, servers: &Servers<'_>, findings: &mut Vec<Finding>) {
    let mut closed = Closed::default();
    let mut restricted: BTreeSet<&ObjectKey> = BTreeSet::new();
    for (table, pods) in ground.tables(Direction::Egress) {
        let asking: Vec<&ObjectKey> =
            pods.iter().copied().filter(|key| !servers.pods.contains(key)).collect();
        restricted.extend(&asking);
        match way(ground, servers, table) {
            Some((way, causes)) if !asking.is_empty() => {
                closed.add(way, CutOff { table, causes, pods: asking });
            }
            _ => closed.able.extend(asking.iter().map(|key| key.namespace.as_str())),
        }
    }
    let free = ground.rulesets.pods.keys().filter(|key| !restricted.contains(key));
    closed.able.extend(free.map(|key| key.namespace.as_str()));
    findings.extend(closed.findings(ground, servers));
}

/// What is wrong with the way to DNS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Way {
    /// Neither protocol passes, though other traffic does.
    Closed,
    /// Nothing passes at all.
    EverythingClosed,
    /// One protocol does not pass.
    Without(Protocol),
    /// The node's cache is not reached.
    PastTheCache,
}

/// Whether a protocol of DNS passes, and what keeps it back.
#[derive(Default)]
struct Look {
    is_open: bool,
    causes: BTreeSet<Cause>,
}

impl Look {
    /// Several servers do the same, in each address family: one that is reached is enough. No target: the servers do not
    /// speak this protocol, which is no policy's fault.
    fn at(table: &Table, targets: &BTreeSet<(ClassIndex, u16)>, protocol: Protocol) -> Self {
        let mut look = Self { is_open: targets.is_empty(), causes: BTreeSet::new() };
        for decision in targets.iter().filter_map(|target| of_target(table, *target, protocol)) {
            look.is_open |= is_open(&decision);
            look.causes.extend(Cause::of(table, &decision));
        }
        look
    }

    /// At servers that the input does not have.
    fn at_large(ground: &Ground<'_>, table: &Table, protocol: Protocol) -> Self {
        let open = |port: &u16| {
            allows_somebody(ground, table, protocol, *port) || may_admit_dns(ground, table, protocol, *port)
        };
        let decided = rows(ground, table).filter_map(|row| decision(table, row, protocol, DNS));
        let causes = decided.flat_map(|decision| Cause::of(table, &decision)).collect();
        Self { is_open: POD_PORTS.iter().any(open), causes }
    }
}

/// What is wrong with the way from the pods of a table, and why; `None` when nothing is, or that cannot be told.
fn way(ground: &Ground<'_>, servers: &Servers<'_>, table: &Table) -> Option<(Way, BTreeSet<Cause>)> {
    let looks = if servers.node_cache {
        // The cache listens on its own address and, with kube-proxy's iptables mode, on the Service's.
        let addresses = std::iter::once(&NODE_CACHE_ADDRESS).chain(&servers.service_addresses);
        let targets: BTreeSet<(ClassIndex, u16)> =
            addresses.map(|address| (ground.rulesets.classes.of_address(*address), DNS)).collect();
        BOTH.map(|protocol| Look::at(table, &targets, protocol))
    } else if servers.targets.iter().all(BTreeSet::is_empty) {
        BOTH.map(|protocol| Look::at_large(ground, table, protocol))
    } else {
        [0, 1].map(|index| Look::at(table, &servers.targets[index], BOTH[index]))
    };
    let [udp, tcp] = looks;
    let (is_open, causes) = match (udp.is_open, tcp.is_open) {
        (true, true) => return None,
        (true, false) => return Some((Way::Without(Protocol::Tcp), tcp.causes)),
        (false, true) => return Some((Way::Without(Protocol::Udp), udp.causes)),
        (false, false) => {
            let past = servers.node_cache && !servers.targets[0].is_empty();
            (past && Look::at(table, &servers.targets[0], Protocol::Udp).is_open, &udp.causes | &tcp.causes)
        }
    };
    let way = match is_open {
        _ if closes_everything(ground, table, &causes) => Way::EverythingClosed,
        true => Way::PastTheCache,
        false => Way::Closed,
    };
    Some((way, causes))
}

/// True when no policy of the table's pods says what they may send, or a rule denies all of it.
fn closes_everything(ground: &Ground<'_>, table: &Table, causes: &BTreeSet<Cause>) -> bool {
    if causes.iter().any(|cause| matches!(cause, Cause::Rule { .. })) {
        let mut cells =
            rows(ground, table).flat_map(|row| (0..table.ports.list.len()).map(move |port| (row, port)));
        return !cells.any(|(row, port)| is_open(&table.decide(row, port)));
    }
    table.rules.iter().all(|rule| rule.tier != PolicyTier::NetworkPolicy)
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
        let Some(rule) = rules_of(policy, Direction::Egress).get(rule.rule as usize) else { return false };
        rule.peers.as_ref().is_none_or(|peers| peers.iter().any(could_be))
            && rule.ports.as_ref().is_none_or(|ports| ports.iter().any(holds))
    })
}

/// Pods of a table, and why they have no whole way.
struct CutOff<'a> {
    table: &'a Table,
    causes: BTreeSet<Cause>,
    pods: Vec<&'a ObjectKey>,
}

/// Pods without a whole way to DNS, by what is wrong.
#[derive(Default)]
struct Closed<'a> {
    of: BTreeMap<Way, Vec<CutOff<'a>>>,
    /// Namespaces in which some pod reaches DNS.
    able: BTreeSet<&'a str>,
}

impl<'a> Closed<'a> {
    fn add(&mut self, way: Way, cut_off: CutOff<'a>) {
        if matches!(way, Way::Without(_)) {
            self.able.extend(cut_off.pods.iter().map(|key| key.namespace.as_str()));
        }
        self.of.entry(way).or_default().push(cut_off);
    }

    /// As few findings as causes explain them all: each time the one of most of the pods that are left.
    fn findings(self, ground: &Ground<'_>, servers: &Servers<'_>) -> Vec<Finding> {
        let mut found = Vec::new();
        for (way, mut left) in self.of {
            loop {
                let mut weight: BTreeMap<Cause, usize> = BTreeMap::new();
                for cut_off in &left {
                    for cause in &cut_off.causes {
                        *weight.entry(*cause).or_default() += cut_off.pods.len();
                    }
                }
                let most = weight.into_iter().max_by_key(|(cause, pods)| (*pods, std::cmp::Reverse(*cause)));
                let Some((cause, _)) = most else { break };
                let (its, rest): (Vec<_>, Vec<_>) =
                    left.into_iter().partition(|cut_off| cut_off.causes.contains(&cause));
                left = rest;
                let Some(table) = its.first().map(|cut_off| cut_off.table) else { break };
                let pods: Vec<&ObjectKey> = its.into_iter().flat_map(|cut_off| cut_off.pods).collect();
                // Where others of the namespace have a way to DNS, somebody thought of it: these need no names.
                let meant = way == Way::EverythingClosed
                    && pods.iter().any(|key| self.able.contains(key.namespace.as_str()));
                if !meant {
                    let diagnostic = diagnostic(ground, servers, way, cause, &pods);
                    found.push(cause.finding(ground, table, "egress", diagnostic).pods(pods.len()));
                }
            }
        }
        found
    }
}

fn diagnostic(
    ground: &Ground<'_>,
    servers: &Servers<'_>,
    way: Way,
    cause: Cause,
    pods: &[&ObjectKey],
) -> Diagnostic {
    let number = count(pods.len(), "pod");
    let who = names(pods.iter().filter_map(|key| ground.cluster.pods.get_key_value(*key)));
    let wanted = servers.wanted(ground);
    let admit = match cause {
        Cause::Rule { .. } => format!("allow {wanted} before it"),
        Cause::Isolation { .. } => format!("admit {wanted}"),
    };
    match way {
        Way::Closed => {
            let what = match cause {
                Cause::Rule { .. } => "a rule denies the way to DNS",
                Cause::Isolation { .. } => "egress isolation without a way to DNS",
            };
            let message = format!("{what}: {number} cannot resolve any name ({who})");
            Diagnostic::warning(code::DNS_BLOCKED, message).with_hint(admit)
        }
        Way::EverythingClosed => {
            let message =
                format!("all egress is denied, and DNS with it: {number} cannot resolve any name ({who})");
            Diagnostic::warning(code::DNS_BLOCKED, message)
                .with_hint(format!("{admit}; nothing is wrong if these pods need no names"))
        }
        Way::Without(protocol) => {
            let other = if protocol == Protocol::Tcp { Protocol::Udp } else { Protocol::Tcp };
            let follows = if protocol == Protocol::Tcp {
                "answers that do not fit into a datagram are lost"
            } else {
                "resolvers ask over UDP first"
            };
            let message =
                format!("{number} may ask DNS over {other} and not over {protocol}: {follows} ({who})");
            Diagnostic::warning(code::DNS_ONE_PROTOCOL, message).with_hint(admit)
        }
        Way::PastTheCache => {
            let message = format!(
                "{number} may ask the DNS pods, but names are asked of the node's cache, {NODE_CACHE_ADDRESS} ({who})"
            );
            let verb = if matches!(cause, Cause::Rule { .. }) { "allow" } else { "admit" };
            Diagnostic::warning(code::DNS_NODE_CACHE, message).with_hint(format!(
                "{verb} UDP and TCP 53 to `ipBlock: {{cidr: {NODE_CACHE_ADDRESS}/32}}` as well"
            ))
        }
    }
}
