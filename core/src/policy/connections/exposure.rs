//! Exposure: what pods that do not exist yet could open, and what could be opened to them; and who is under no policy.
//!
//! Each peer selector that no present pod matches gets a representative: a pod with just the labels that the selector
//! asks for, in a namespace with just the labels that it asks for. Beside these stands any other pod: one without labels,
//! in a namespace without labels and, where that makes a difference, in each namespace there is. Invariant: a
//! representative is judged like any pod, policies that select it included. It does not know the ports that such a pod
//! will name, nor labels that selectors only forbid.

use std::collections::{BTreeMap, BTreeSet};

use netlab_ebpf::abi::Direction;
use serde::ser::{Serialize, SerializeStruct, Serializer};

use super::workloads::Workloads;
use super::{Connection, Connections, Focus, Peer, PeerKind, connections};
use crate::model::cluster::{Cluster, Labels, Namespace, ObjectKey, Pod};
use crate::model::policy::{NamespaceScope, PeerMatch, PodSelector, Policies};
use crate::model::selector::{Operator, Selector};
use crate::policy::groups::number;
use crate::policy::ruleset::Rulesets;

/// What no namespace of a cluster is called.
const NEW: &str = "netlab-exposure";
/// The label that the API server sets on every namespace.
const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";

/// A cluster with representatives of pods that do not exist yet.
#[derive(Debug)]
pub struct Future {
    /// The cluster, to be compiled as [`super::as_if_running`] gives it.
    pub cluster: Cluster,
    /// The representatives and their words.
    representatives: BTreeMap<ObjectKey, String>,
    /// Those that stand for any other pod of a namespace.
    of_namespaces: BTreeSet<ObjectKey>,
    /// Selectors that no pod can ever match, in words.
    pub impossible: Vec<String>,
}

/// The connections of pods that do not exist yet with those that do.
#[derive(Debug)]
pub struct Exposure {
    /// Workloads by name, then representatives; a pair has one of each.
    pub connections: Connections,
    /// Workloads of which some pod is under no policy, for ingress and for egress.
    pub unprotected: [Vec<String>; 2],
    /// Selectors that no pod can ever match, in words.
    pub impossible: Vec<String>,
}

/// `{representatives, connections, unprotected, impossible}`.
impl Serialize for Exposure {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(serde::Serialize)]
        struct Unprotected<'a> {
            ingress: &'a [String],
            egress: &'a [String],
        }
        #[derive(serde::Serialize)]
        struct Line<'a> {
            from: &'a str,
            to: &'a str,
            allowed: &'a super::Allowed,
        }
        let all = &self.connections;
        let lines: Vec<Line<'_>> = all
            .list
            .iter()
            .map(|pair| Line {
                from: &all.peers[pair.from()].id,
                to: &all.peers[pair.to()].id,
                allowed: all.allowed(pair),
            })
            .collect();
        let representatives: Vec<&str> = all
            .peers
            .iter()
            .filter(|peer| peer.kind == PeerKind::Representative)
            .map(|peer| peer.id.as_str())
            .collect();
        let [ingress, egress] = &self.unprotected;
        let mut answer = serializer.serialize_struct("Exposure", 4)?;
        answer.serialize_field("representatives", &representatives)?;
        answer.serialize_field("connections", &lines)?;
        answer.serialize_field("unprotected", &Unprotected { ingress, egress })?;
        answer.serialize_field("impossible", &self.impossible)?;
        answer.end()
    }
}

impl Future {
    /// Adds the representatives to a cluster.
    pub fn new(cluster: &Cluster, policies: &Policies) -> Self {
        let mut future = Self {
            cluster: cluster.clone(),
            representatives: BTreeMap::new(),
            of_namespaces: BTreeSet::new(),
            impossible: Vec::new(),
        };
        let fresh = future.namespace(&Selector::default()).unwrap_or_default();
        future.add(fresh, Labels::new(), "any other pod".to_owned());
        for name in cluster.namespaces.keys() {
            let key = future.add(name.clone(), Labels::new(), format!("any other pod of {name}"));
            future.of_namespaces.insert(key);
        }
        let rules =
            policies.list.iter().flat_map(|policy| policy.ingress.iter().chain(&policy.egress).flatten());
        let selectors: BTreeSet<&PodSelector> = rules
            .flat_map(|rule| rule.peers.iter().flatten())
            .filter_map(|peer| match &peer.matches {
                PeerMatch::Pods(selector) => Some(selector),
                PeerMatch::Block(_) | PeerMatch::Nodes(_) | PeerMatch::DomainNames(_) => None,
            })
            .collect();
        for selector in selectors {
            if !is_matched(cluster, selector) {
                future.represent(selector);
            }
        }
        future
    }

    /// A pod that a selector would match.
    fn represent(&mut self, selector: &PodSelector) {
        let place = match &selector.namespaces {
            NamespaceScope::Own(name) => Some(name.clone()),
            NamespaceScope::Matching(labels) => self.namespace(labels),
        };
        let words = words(selector);
        match (place, satisfying(&selector.pods)) {
            (Some(place), Some(labels)) => _ = self.add(place, labels, words),
            _ => self.impossible.push(words),
        }
    }

    /// A namespace with just the labels that are asked for; `None` when there can be none.
    fn namespace(&mut self, selector: &Selector) -> Option<String> {
        let mut labels = satisfying(selector)?;
        let name = if let Some(name) = labels.get(NAMESPACE_NAME) {
            name.clone()
        } else {
            // One of so many names is free.
            let mut names = (0..=self.cluster.namespaces.len()).map(|number| format!("{NEW}-{number}"));
            names.find(|name| !self.cluster.namespaces.contains_key(name))?
        };
        if let Some(there) = self.cluster.namespaces.get(&name) {
            return selector.matches(&there.labels).then_some(name);
        }
        labels.insert(NAMESPACE_NAME.to_owned(), name.clone());
        if !selector.matches(&labels) {
            return None;
        }
        self.cluster
            .namespaces
            .insert(name.clone(), Namespace { labels, declared: true, ..Namespace::default() });
        Some(name)
    }

    fn add(&mut self, namespace: String, labels: Labels, words: String) -> ObjectKey {
        let key = ObjectKey::new(namespace, format!("{NEW}-{}", self.representatives.len()));
        self.cluster.pods.insert(key.clone(), Pod { labels, ..Pod::default() });
        self.representatives.insert(key.clone(), words);
        key
    }

    /// What the representatives and the present workloads may open to each other.
    ///
    /// `cluster` is what `as_if_running` gives of [`Future::cluster`], and `rulesets` its compilation.
    pub fn exposure(&self, cluster: &Cluster, rulesets: &Rulesets, focus: &Focus) -> Exposure {
        let focus = Focus { workloads_only: true, ..focus.clone() };
        let mut all = connections(cluster, rulesets, &focus);
        let stands_for = |peer: &Peer| {
            let key = ObjectKey::new(peer.namespace.clone()?, &peer.name);
            self.representatives.get_key_value(&key)
        };
        let is_one: Vec<bool> = all.peers.iter().map(|peer| stands_for(peer).is_some()).collect();
        all.list.retain(|pair| is_one[pair.from()] != is_one[pair.to()]);
        let first = all.peers.iter().position(|peer| {
            stands_for(peer)
                .is_some_and(|(key, words)| words == "any other pod" && !self.of_namespaces.contains(key))
        });
        // A namespace in which any other pod is as it is anywhere needs no line of its own.
        let rows = |position: usize| -> BTreeSet<(bool, usize, u32)> {
            let own = all.list.iter().filter(|pair| pair.from() == position || pair.to() == position);
            own.map(|pair| {
                (
                    pair.from() == position,
                    if pair.from() == position { pair.to() } else { pair.from() },
                    pair.allowed,
                )
            })
            .collect()
        };
        let anywhere = first.map(rows).unwrap_or_default();
        let repeats: BTreeSet<usize> = (0..all.peers.len())
            .filter(|position| {
                let key = stands_for(&all.peers[*position]).map(|(key, _)| key);
                key.is_some_and(|key| self.of_namespaces.contains(key)) && rows(*position) == anywhere
            })
            .collect();
        // Workloads as they were, then the representatives by their words.
        let mut order: Vec<usize> =
            (0..all.peers.len()).filter(|position| !repeats.contains(position)).collect();
        order.sort_by_key(|position| {
            let words = stands_for(&all.peers[*position]).map(|(_, words)| words.clone());
            (words, *position)
        });
        let at: BTreeMap<usize, usize> = order.iter().enumerate().map(|(new, old)| (*old, new)).collect();
        let mut list: Vec<Connection> = all
            .list
            .iter()
            .filter_map(|pair| {
                let place = |old: usize| at.get(&old).copied().map(number);
                Some(Connection { from: place(pair.from())?, to: place(pair.to())?, allowed: pair.allowed })
            })
            .collect();
        list.sort_by_key(|pair| (pair.from, pair.to));
        let peers = order
            .iter()
            .map(|position| match stands_for(&all.peers[*position]) {
                None => all.peers[*position].clone(),
                Some((_, words)) => Peer {
                    id: format!("[{words}]"),
                    kind: PeerKind::Representative,
                    workload_kind: None,
                    namespace: None,
                    name: format!("[{words}]"),
                    cidrs: Vec::new(),
                    owner: None,
                },
            })
            .collect();
        let unprotected = [Direction::Ingress, Direction::Egress]
            .map(|direction| unprotected(cluster, rulesets, direction, &is_one));
        let real = is_one.iter().filter(|one| !**one).count();
        let workload_pairs = 2 * real * (order.len() - real);
        let connections = Connections { peers, list, workload_pairs, ..all };
        Exposure { connections, unprotected, impossible: self.impossible.clone() }
    }
}

/// Workloads with a pod on which no policy of any tier acts.
fn unprotected(
    cluster: &Cluster,
    rulesets: &Rulesets,
    direction: Direction,
    is_representative: &[bool],
) -> Vec<String> {
    let workloads = Workloads::new(cluster, rulesets);
    let is_free = |profile: &u32| {
        let ruleset = workloads.profiles[*profile as usize].ruleset;
        ruleset.is_none_or(|index| rulesets.list[index as usize].table(direction).is_none())
    };
    let present =
        workloads.list.iter().zip(is_representative).filter(|(_, representative)| !**representative);
    present
        .filter(|(workload, _)| workload.profiles.iter().any(is_free))
        .map(|(workload, _)| workload.peer.id.clone())
        .collect()
}

/// True when some present pod is meant.
fn is_matched(cluster: &Cluster, selector: &PodSelector) -> bool {
    cluster.pods.iter().filter(|(_, pod)| !pod.terminal).any(|(key, pod)| {
        let in_scope = match &selector.namespaces {
            NamespaceScope::Own(name) => *name == key.namespace,
            NamespaceScope::Matching(labels) => cluster
                .namespaces
                .get(&key.namespace)
                .is_some_and(|namespace| labels.matches(&namespace.labels)),
        };
        in_scope && selector.pods.matches(&pod.labels)
    })
}

/// The fewest labels that a selector matches; `None` when its requirements contradict each other.
fn satisfying(selector: &Selector) -> Option<Labels> {
    let mut candidates: BTreeMap<&str, Option<BTreeSet<String>>> = BTreeMap::new();
    for requirement in selector.requirements() {
        match &requirement.operator {
            Operator::In(values) => {
                let known = candidates.entry(&requirement.key).or_default();
                *known = Some(match known.take() {
                    Some(before) => before.intersection(values).cloned().collect(),
                    None => values.clone(),
                });
            }
            Operator::Exists => _ = candidates.entry(&requirement.key).or_default(),
            Operator::NotIn(_) | Operator::DoesNotExist => {}
        }
    }
    let forbidden = |key: &str, value: &str| {
        selector.requirements().iter().any(|requirement| {
            requirement.key == key
                && matches!(&requirement.operator, Operator::NotIn(values) if values.contains(value))
        })
    };
    let mut labels = Labels::new();
    for (key, values) in candidates {
        let value = if let Some(values) = values {
            values.into_iter().find(|value| !forbidden(key, value))?
        } else {
            // Any value will do that is not forbidden.
            let count = selector.requirements().iter().map(|requirement| match &requirement.operator {
                Operator::NotIn(values) => values.len(),
                _ => 0,
            });
            let mut values = (0..=count.sum()).map(|number: usize| format!("{NEW}-{number}"));
            values.find(|value| !forbidden(key, value))?
        };
        labels.insert(key.to_owned(), value);
    }
    selector.matches(&labels).then_some(labels)
}

/// `pods with app=x, in namespaces with team=y`.
fn words(selector: &PodSelector) -> String {
    let pods =
        if selector.pods.is_empty() { "any pod".to_owned() } else { format!("pods with {}", selector.pods) };
    match &selector.namespaces {
        NamespaceScope::Own(name) => format!("{pods} of {name}"),
        NamespaceScope::Matching(labels) if labels.is_empty() => format!("{pods} of any namespace"),
        NamespaceScope::Matching(labels) => format!("{pods} of namespaces with {labels}"),
    }
}
