//! Pods that no selector and no port name can tell apart, and fast answers to "which of them match".
//!
//! Invariant: two pods are in one group exactly when they agree in namespace, labels and the container ports
//! whose names some rule uses. [`Groups::new`] holds the pods that policies can select (see `Pod::is_policed`),
//! [`Groups::of_all`] every other pod too. Groups are ordered by their first pod, so the order depends on names alone.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::model::cluster::{Cluster, ContainerPort, Labels, ObjectKey, Pod};
use crate::model::policy::{NamespaceScope, PodSelector};
use crate::model::selector::{Operator, Requirement};

/// Index of a group.
pub(super) type GroupIndex = u32;

/// A set of like pods.
#[derive(Debug)]
pub(super) struct Group<'a> {
    pub(super) namespace: &'a str,
    pub(super) labels: &'a Labels,
    /// Sorted, without repeats.
    pub(super) named_ports: Vec<&'a ContainerPort>,
    /// Indices into [`Groups::pods`], ascending.
    pub(super) members: Vec<u32>,
}

/// Pods, grouped.
#[derive(Debug)]
pub(super) struct Groups<'a> {
    pub(super) pods: Vec<(&'a ObjectKey, &'a Pod)>,
    pub(super) list: Vec<Group<'a>>,
    cluster: &'a Cluster,
    by_namespace: BTreeMap<&'a str, Vec<GroupIndex>>,
    by_label: HashMap<(&'a str, &'a str), Vec<GroupIndex>>,
}

impl<'a> Groups<'a> {
    /// Groups the policed pods of a cluster; `names` are the port names that rules use.
    pub(super) fn new(cluster: &'a Cluster, names: &BTreeSet<&str>) -> Self {
        Self::of(cluster, names, Pod::is_policed)
    }

    /// Groups every pod, those included that no policy selects.
    pub(super) fn of_all(cluster: &'a Cluster) -> Self {
        Self::of(cluster, &BTreeSet::new(), |_| true)
    }

    fn of(cluster: &'a Cluster, names: &BTreeSet<&str>, takes: impl Fn(&Pod) -> bool) -> Self {
        let pods: Vec<_> = cluster.pods.iter().filter(|(_, pod)| takes(pod)).collect();
        let mut list: Vec<Group<'a>> = Vec::new();
        let mut known: HashMap<(&str, &Labels, Vec<&ContainerPort>), GroupIndex> = HashMap::new();
        for (index, (key, pod)) in pods.iter().enumerate() {
            let mut named: Vec<_> = pod
                .ports
                .iter()
                .filter(|port| port.name.as_deref().is_some_and(|name| names.contains(name)))
                .collect();
            named.sort();
            named.dedup();
            let next = number(list.len());
            let group = *known.entry((&key.namespace, &pod.labels, named.clone())).or_insert(next);
            if group == next {
                list.push(Group {
                    namespace: &key.namespace,
                    labels: &pod.labels,
                    named_ports: named,
                    members: Vec::new(),
                });
            }
            list[group as usize].members.push(number(index));
        }
        let mut by_namespace: BTreeMap<&str, Vec<GroupIndex>> = BTreeMap::new();
        let mut by_label: HashMap<(&str, &str), Vec<GroupIndex>> = HashMap::new();
        for (index, group) in list.iter().enumerate() {
            by_namespace.entry(group.namespace).or_default().push(number(index));
            for (key, value) in group.labels {
                by_label.entry((key, value)).or_default().push(number(index));
            }
        }
        Self { pods, list, cluster, by_namespace, by_label }
    }

    /// The groups that a selector selects, ascending.
    pub(super) fn select(&self, selector: &PodSelector) -> Vec<GroupIndex> {
        let namespaces: BTreeSet<&str> = match &selector.namespaces {
            NamespaceScope::Own(name) => BTreeSet::from([name.as_str()]),
            NamespaceScope::Matching(labels) => self
                .cluster
                .namespaces
                .iter()
                .filter(|(_, namespace)| labels.matches(&namespace.labels))
                .map(|(name, _)| name.as_str())
                .collect(),
        };
        let in_namespaces =
            || namespaces.iter().filter_map(|name| self.by_namespace.get(name)).flatten().copied();
        let by_namespace = in_namespaces().count();
        let narrowest = selector
            .pods
            .requirements()
            .iter()
            .filter_map(|requirement| self.candidates(requirement))
            .min_by_key(Vec::len)
            .filter(|candidates| candidates.len() < by_namespace);
        let candidates = narrowest.unwrap_or_else(|| in_namespaces().collect());
        let mut selected: Vec<_> = candidates
            .into_iter()
            .filter(|index| {
                let group = &self.list[*index as usize];
                namespaces.contains(group.namespace) && selector.pods.matches(group.labels)
            })
            .collect();
        selected.sort_unstable();
        selected
    }

    /// The groups with one of a requirement's values; `None` when the requirement names no values to look up.
    fn candidates(&self, requirement: &Requirement) -> Option<Vec<GroupIndex>> {
        let Operator::In(values) = &requirement.operator else { return None };
        Some(
            values
                .iter()
                .filter_map(|value| self.by_label.get(&(requirement.key.as_str(), value.as_str())))
                .flatten()
                .copied()
                .collect(),
        )
    }
}

/// A count as an index; more than 2^32 things of one kind cannot be in memory.
pub(super) fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
