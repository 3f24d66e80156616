//! Selectors, peers and ports said back in words.
//!
//! Invariant: what is said is what the API means by the element, with AND where one element has two selectors, and
//! nothing is left out that narrows it.

use std::collections::BTreeSet;

use netlab_ebpf::abi::Direction;

use crate::model::cluster::Pod;
use crate::model::policy::{Action, NamespaceScope, PeerMatch, PodSelector, Port, Rule};
use crate::model::port::{PortMatch, PortRange, Protocol};

/// What a rule does.
pub(super) const fn verb(action: Action) -> &'static str {
    match action {
        Action::Accept => "admits",
        Action::Deny => "denies",
        Action::Pass => "passes on",
    }
}

/// `pods of shop with app=api`, `every pod in a namespace with team=shop`, …
pub(super) fn pods(selector: &PodSelector) -> String {
    let pods = &selector.pods;
    match (&selector.namespaces, pods.is_empty()) {
        (NamespaceScope::Own(namespace), true) => format!("every pod of {namespace}"),
        (NamespaceScope::Own(namespace), false) => format!("pods of {namespace} with {pods}"),
        (NamespaceScope::Matching(scope), true) if scope.is_empty() => {
            "every pod of every namespace".to_owned()
        }
        (NamespaceScope::Matching(scope), true) => format!("every pod in a namespace with {scope}"),
        (NamespaceScope::Matching(scope), false) if scope.is_empty() => {
            format!("pods of any namespace with {pods}")
        }
        (NamespaceScope::Matching(scope), false) => {
            format!("pods with {pods} AND in a namespace with {scope}")
        }
    }
}

/// A peer.
pub(super) fn peer(peer: &PeerMatch) -> String {
    match peer {
        PeerMatch::Pods(selector) => pods(selector),
        PeerMatch::Block(block) => format!("addresses in {block}"),
        PeerMatch::Nodes(selector) if selector.is_empty() => "every node".to_owned(),
        PeerMatch::Nodes(selector) => format!("nodes with {selector}"),
        PeerMatch::DomainNames(names) => {
            format!("addresses of {} (domain names are not modelled)", names.join(", "))
        }
    }
}

/// The ports of a rule; names with their numbers, where the described pod is the one that has them.
pub(super) fn ports(rule: &Rule, direction: Direction, pod: &Pod) -> String {
    let Some(ports) = &rule.ports else { return "everything, ICMP too".to_owned() };
    let mut words: Vec<String> = Vec::new();
    for port in ports {
        let word = match &port.matches {
            PortMatch::Range { protocol, range } if *range == PortRange::ALL => {
                format!("every {protocol} port")
            }
            PortMatch::Range { protocol, range } => format!("{protocol} {range}"),
            PortMatch::Named { protocol, name } => {
                // A name that stands for every protocol is one element per protocol here.
                let like = |other: &&Port| other.path == port.path;
                let protocols =
                    if ports.iter().filter(like).count() > 1 { &Protocol::ALL[..] } else { &[*protocol] };
                named(name, protocols, direction, pod)
            }
        };
        if !words.contains(&word) {
            words.push(word);
        }
    }
    if words.is_empty() { "nothing".to_owned() } else { words.join(", ") }
}

/// ``TCP `http` (8080)``; without the protocol where the name stands for every one.
fn named(name: &str, protocols: &[Protocol], direction: Direction, pod: &Pod) -> String {
    let head = match protocols {
        [protocol] => format!("{protocol} `{name}`"),
        _ => format!("`{name}`"),
    };
    if direction == Direction::Egress {
        return format!("{head} (as each destination numbers it)");
    }
    let numbers: BTreeSet<String> = pod
        .ports
        .iter()
        .filter(|port| protocols.contains(&port.protocol) && port.name.as_deref() == Some(name))
        .map(|port| match protocols {
            [_] => port.number.to_string(),
            _ => format!("{} {}", port.protocol, port.number),
        })
        .collect();
    if numbers.is_empty() {
        return format!("{head} (no container has it, so nothing)");
    }
    format!("{head} ({})", numbers.into_iter().collect::<Vec<_>>().join(", "))
}
