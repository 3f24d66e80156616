//! Near misses: for a default deny, how close each rule of the isolating policies came.
//!
//! Invariant: a near miss names the first clause of a rule that failed, in the order peer (namespace, then pod,
//! then address), protocol and port; nothing is listed that matched. The closest come first: rules whose peers
//! matched, then peers with the fewest failing requirements, then the author's order.

use std::net::IpAddr;

use netlab_ebpf::abi::Direction;
use serde::Serialize;

use super::frame::Tuple;
use super::provenance::RuleRef;
use super::query::{End, policed_pod};
use crate::model::cluster::{Cluster, Labels, ObjectKey};
use crate::model::policy::{NamespaceScope, Peer, PeerMatch, PodSelector, Policy, Rule};
use crate::model::port::{PortMatch, PortRange};
use crate::model::selector::{Requirement, Selector};

/// A rule that nearly matched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NearMiss {
    /// The peer or port element that failed.
    #[serde(flatten)]
    pub rule: RuleRef,
    /// The clause, in words: `wants app=api; shop/web has app=web`.
    pub reason: String,
}

/// How many are worth showing.
const MOST: usize = 3;

/// The nearest misses of a packet among the rules of the policies that isolate.
pub(super) fn near_misses(
    cluster: &Cluster,
    policies: &[&Policy],
    direction: Direction,
    peer: &End,
    subject: &End,
    tuple: &Tuple,
) -> Vec<NearMiss> {
    let peer_address = match direction {
        Direction::Ingress => tuple.source,
        Direction::Egress => tuple.destination,
    };
    let destination = match direction {
        Direction::Ingress => subject,
        Direction::Egress => peer,
    };
    let view = View { cluster, peer: policed_pod(cluster, peer), address: peer_address, destination, tuple };
    let mut misses: Vec<(usize, NearMiss)> = Vec::new();
    for policy in policies {
        let rules = match direction {
            Direction::Ingress => policy.ingress.as_deref(),
            Direction::Egress => policy.egress.as_deref(),
        };
        for rule in rules.unwrap_or_default() {
            misses.extend(view.rule(policy, rule));
        }
    }
    misses.sort_by_key(|(distance, _)| *distance);
    misses.into_iter().take(MOST).map(|(_, miss)| miss).collect()
}

struct View<'a> {
    cluster: &'a Cluster,
    peer: Option<ObjectKey>,
    address: IpAddr,
    destination: &'a End,
    tuple: &'a Tuple,
}

impl View<'_> {
    /// The misses of one rule: its ports when a peer matched, else each of its peers.
    fn rule(&self, policy: &Policy, rule: &Rule) -> Vec<(usize, NearMiss)> {
        let mut failing = Vec::new();
        for peer in rule.peers.iter().flatten() {
            match self.peer(peer) {
                None => {
                    failing.clear();
                    break;
                }
                Some((distance, reason)) => {
                    let rule = RuleRef::new(policy, rule, &peer.path, None);
                    failing.push((distance, NearMiss { rule, reason }));
                }
            }
        }
        if !failing.is_empty() {
            return failing;
        }
        let Some(reason) = self.ports(rule) else { return Vec::new() };
        let path = format!("{}.ports", rule.path);
        vec![(0, NearMiss { rule: RuleRef::new(policy, rule, &path, None), reason })]
    }

    /// Why a peer does not match, with how far off it is; `None` when it matches.
    fn peer(&self, peer: &Peer) -> Option<(usize, String)> {
        match &peer.matches {
            PeerMatch::Block(block) if block.contains(self.address) => None,
            PeerMatch::Block(block) => {
                let except = block.except.iter().find(|except| except.contains(&self.address));
                Some(match except {
                    Some(except) => (1, format!("{} is in except {except}", self.address)),
                    None => (3, format!("{} is outside {}", self.address, block.cidr)),
                })
            }
            PeerMatch::Pods(selector) => self.pods(selector),
            PeerMatch::Nodes(selector) => {
                let mut nodes = self.cluster.nodes.values();
                let matches = nodes
                    .any(|node| node.addresses.contains(&self.address) && selector.matches(&node.labels));
                (!matches).then(|| (4, format!("wants a node with {selector}; {} is none", self.address)))
            }
            PeerMatch::DomainNames(_) => Some((4, "wants domain names, which are not modelled".to_owned())),
        }
    }

    fn pods(&self, selector: &PodSelector) -> Option<(usize, String)> {
        let Some(key) = &self.peer else {
            return Some((4, format!("wants a pod; {} is none that policies can select", self.address)));
        };
        let pod = self.cluster.pods.get(key)?;
        let no_labels = Labels::new();
        let namespace = self.cluster.namespaces.get(&key.namespace).map_or(&no_labels, |found| &found.labels);
        let failing_pod = failing(&selector.pods, &pod.labels);
        match &selector.namespaces {
            NamespaceScope::Own(own) if *own != key.namespace => {
                Some((2 + failing_pod.len(), format!("wants namespace {own}; {key} is in {}", key.namespace)))
            }
            NamespaceScope::Matching(wanted) if !wanted.matches(namespace) => {
                let missing = failing(wanted, namespace);
                let has = has(&missing, namespace);
                let wants = list(&missing);
                Some((
                    1 + missing.len() + failing_pod.len(),
                    format!("wants a namespace with {wants}; {} has {has}", key.namespace),
                ))
            }
            _ if failing_pod.is_empty() => None,
            _ => {
                let has = has(&failing_pod, &pod.labels);
                Some((failing_pod.len(), format!("wants {}; {key} has {has}", list(&failing_pod))))
            }
        }
    }

    /// Why the rule's ports do not match; `None` when they do.
    fn ports(&self, rule: &Rule) -> Option<String> {
        let ports = rule.ports.as_ref()?;
        let matches = ports.iter().any(|port| match &port.matches {
            PortMatch::Range { protocol, range } => {
                protocol.number() == self.tuple.protocol && range.contains(self.tuple.destination_port)
            }
            PortMatch::Named { protocol, name } => {
                protocol.number() == self.tuple.protocol
                    && self.numbers(name, *protocol).contains(&self.tuple.destination_port)
            }
        });
        if matches {
            return None;
        }
        let admits: Vec<String> = ports.iter().map(|port| self.port(&port.matches)).collect();
        Some(format!("admits {}, not {}", admits.join(", "), asked(self.tuple)))
    }

    fn port(&self, port: &PortMatch) -> String {
        match port {
            PortMatch::Range { protocol, range } if *range == PortRange::ALL => format!("any {protocol}"),
            PortMatch::Range { protocol, range } => format!("{protocol} {range}"),
            PortMatch::Named { protocol, name } => {
                let numbers = self.numbers(name, *protocol);
                if numbers.is_empty() {
                    format!("{protocol} `{name}` (which {} does not have)", self.destination)
                } else {
                    let numbers: Vec<String> = numbers.iter().map(ToString::to_string).collect();
                    format!("{protocol} `{name}` ({})", numbers.join(", "))
                }
            }
        }
    }

    fn numbers(&self, name: &str, protocol: crate::model::port::Protocol) -> Vec<u16> {
        policed_pod(self.cluster, self.destination)
            .and_then(|key| self.cluster.pods.get(&key))
            .map(|pod| {
                pod.ports
                    .iter()
                    .filter(|port| port.protocol == protocol && port.name.as_deref() == Some(name))
                    .map(|port| port.number)
                    .collect()
            })
            .unwrap_or_default()
    }
}

pub(super) fn failing<'a>(selector: &'a Selector, labels: &Labels) -> Vec<&'a Requirement> {
    selector.requirements().iter().filter(|requirement| !requirement.matches(labels)).collect()
}

pub(super) fn list(requirements: &[&Requirement]) -> String {
    requirements.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// What the labels have in place of what was wanted.
pub(super) fn has(requirements: &[&Requirement], labels: &Labels) -> String {
    requirements
        .iter()
        .map(|requirement| match labels.get(&requirement.key) {
            Some(value) => format!("{}={value}", requirement.key),
            None => format!("no {}", requirement.key),
        })
        .collect::<Vec<_>>()
        .join(", ")
}

fn asked(tuple: &Tuple) -> String {
    match tuple.protocol {
        6 => format!("TCP {}", tuple.destination_port),
        17 => format!("UDP {}", tuple.destination_port),
        132 => format!("SCTP {}", tuple.destination_port),
        1 => "ICMP".to_owned(),
        58 => "ICMPv6".to_owned(),
        other => format!("protocol {other}"),
    }
}
