//! What follows from what, whatever pods there are: selectors, blocks, peers and ports inside of others.
//!
//! Invariant: "is within" is never claimed wrongly; it may be missed, as where only several things together hold another.
//! Own namespaces are compared with namespace selectors by the labels that the namespace has now.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::model::address::AddressBlock;
use crate::model::cluster::Cluster;
use crate::model::policy::{NamespaceScope, PeerMatch, PodSelector, Rule};
use crate::model::port::{PortMatch, Protocol};
use crate::model::selector::{Operator, Requirement, Selector};
use crate::policy::connections::Allowed;

/// The label that every namespace has, and only it with this value.
const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";

/// True when whatever the first selects, the second selects.
fn selector(narrow: &Selector, wide: &Selector) -> bool {
    let follows = |wanted: &Requirement| {
        narrow.requirements().iter().filter(|given| given.key == wanted.key).any(|given| {
            match (&given.operator, &wanted.operator) {
                (Operator::In(given), Operator::In(wanted)) => given.is_subset(wanted),
                (Operator::In(given), Operator::NotIn(wanted)) => given.is_disjoint(wanted),
                (Operator::NotIn(given), Operator::NotIn(wanted)) => wanted.is_subset(given),
                (Operator::In(_) | Operator::Exists, Operator::Exists)
                | (Operator::DoesNotExist, Operator::DoesNotExist | Operator::NotIn(_)) => true,
                _ => false,
            }
        })
    };
    wide.requirements().iter().all(follows)
}

/// The same of selectors over pods.
pub(super) fn pods(cluster: &Cluster, narrow: &PodSelector, wide: &PodSelector) -> bool {
    let scope = match (&narrow.namespaces, &wide.namespaces) {
        (NamespaceScope::Own(narrow), NamespaceScope::Own(wide)) => narrow == wide,
        (NamespaceScope::Own(name), NamespaceScope::Matching(wide)) => {
            cluster.namespaces.get(name).is_some_and(|namespace| wide.matches(&namespace.labels))
        }
        (NamespaceScope::Matching(narrow), NamespaceScope::Own(wide)) => {
            let only = |one: &Requirement| match &one.operator {
                Operator::In(names) => one.key == NAMESPACE_NAME && names.len() == 1 && names.contains(wide),
                Operator::NotIn(_) | Operator::Exists | Operator::DoesNotExist => false,
            };
            narrow.requirements().iter().any(only)
        }
        (NamespaceScope::Matching(narrow), NamespaceScope::Matching(wide)) => selector(narrow, wide),
    };
    scope && selector(&narrow.pods, &wide.pods)
}

/// The same of blocks: no exception of the wider cuts into what the narrower leaves.
fn block(narrow: &AddressBlock, wide: &AddressBlock) -> bool {
    let is_cut_away = |hole: &ipnet::IpNet| {
        let apart = !hole.contains(&narrow.cidr) && !narrow.cidr.contains(hole);
        apart || narrow.except.iter().any(|except| except.contains(hole))
    };
    wide.cidr.contains(&narrow.cidr) && wide.except.iter().all(is_cut_away)
}

/// The same of peers.
pub(super) fn peer(cluster: &Cluster, narrow: &PeerMatch, wide: &PeerMatch) -> bool {
    match (narrow, wide) {
        (PeerMatch::Pods(narrow), PeerMatch::Pods(wide)) => pods(cluster, narrow, wide),
        (PeerMatch::Block(narrow), PeerMatch::Block(wide)) => block(narrow, wide),
        (PeerMatch::Nodes(narrow), PeerMatch::Nodes(wide)) => selector(narrow, wide),
        _ => false,
    }
}

/// What the ports of rules come to, names as names.
#[derive(Clone, Debug, Default)]
pub(super) struct Ports {
    /// Every protocol, ICMP too.
    everything: bool,
    ranges: Allowed,
    names: BTreeSet<(Protocol, Arc<str>)>,
}

impl Ports {
    /// Those of a rule.
    pub(super) fn of(rule: &Rule) -> Self {
        let Some(ports) = &rule.ports else { return Self { everything: true, ..Self::default() } };
        let mut set = Self::default();
        for port in ports {
            match &port.matches {
                PortMatch::Range { protocol, range } => {
                    set.ranges = set.ranges.or(&Allowed::from_ranges([(*protocol, *range)]));
                }
                PortMatch::Named { protocol, name } => _ = set.names.insert((*protocol, Arc::clone(name))),
            }
        }
        set
    }

    /// Adds others.
    pub(super) fn add(&mut self, other: &Self) {
        self.everything |= other.everything;
        self.ranges = self.ranges.or(&other.ranges);
        self.names.extend(other.names.iter().cloned());
    }

    /// True when the others hold all of these; a name is held by itself, or by every port of its protocol.
    pub(super) fn are_within(&self, wide: &Self) -> bool {
        if wide.everything {
            return true;
        }
        let whole = Allowed::everything();
        let is_whole = |protocol: Protocol| wide.ranges.of(protocol) == whole.of(protocol);
        !self.everything
            && self.ranges.without(&wide.ranges).is_empty()
            && self.names.iter().all(|name| wide.names.contains(name) || is_whole(name.0))
    }

    /// True when the two have a port in common, as far as that can be told.
    pub(super) fn meet(&self, other: &Self) -> bool {
        self.everything
            || other.everything
            || !self.ranges.and(&other.ranges).is_empty()
            || !self.names.is_empty()
            || !other.names.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requirement(key: &str, operator: Operator) -> Requirement {
        Requirement { key: key.to_owned(), operator }
    }

    fn values(list: &[&str]) -> BTreeSet<String> {
        list.iter().map(|value| (*value).to_owned()).collect()
    }

    #[test]
    fn a_selector_within_another_selects_no_more() {
        let operators = || {
            let sets = [&["a"][..], &["a", "b"], &["c"]];
            let mut all = vec![Operator::Exists, Operator::DoesNotExist];
            all.extend(sets.iter().map(|set| Operator::In(values(set))));
            all.extend(sets.iter().map(|set| Operator::NotIn(values(set))));
            all
        };
        let mut within = 0;
        for narrow in operators() {
            for wide in operators() {
                let narrow = Selector::new([requirement("k", narrow.clone())]);
                let wide = Selector::new([requirement("k", wide)]);
                let worlds = [None, Some("a"), Some("b"), Some("c"), Some("d")];
                let truth = worlds.iter().all(|value| {
                    let labels = value.iter().map(|value| ("k".to_owned(), (*value).to_owned())).collect();
                    !narrow.matches(&labels) || wide.matches(&labels)
                });
                assert_eq!(selector(&narrow, &wide), truth, "{narrow} in {wide}");
                within += usize::from(truth);
            }
        }
        assert!(within > 10);
    }

    #[test]
    fn a_block_within_another_holds_no_more() {
        let block_of = |cidr: &str, except: &[&str]| AddressBlock {
            cidr: cidr.parse().expect("a CIDR"),
            except: except.iter().map(|text| text.parse().expect("a CIDR")).collect(),
        };
        let wide = block_of("10.0.0.0/8", &["10.1.0.0/16"]);
        assert!(block(&block_of("10.2.0.0/16", &[]), &wide));
        assert!(block(&block_of("10.0.0.0/8", &["10.0.0.0/12"]), &wide));
        assert!(!block(&block_of("10.0.0.0/8", &[]), &wide), "the hole is in it");
        assert!(!block(&block_of("10.1.2.0/24", &[]), &wide), "it is in the hole");
        assert!(!block(&block_of("0.0.0.0/0", &[]), &wide));
    }
}
