//! Pods that no selector and no port name can tell apart, and fast answers to "which of them match".
//!
//! Invariant: two pods are in one group exactly when they agree in namespace, labels and the container ports
//! whose names some rule uses. [`Groups::new`] holds the pods that policies can select (see `Pod::is_policed`),
//! [`Groups::of_all`] every other pod too. Groups are ordered by their first pod, so the order depends on names alone.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

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
    namespaces: Namespaces<'a>,
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
        let mut last = 0;
        for (index, (key, pod)) in pods.iter().enumerate() {
            let mut named: Vec<_> = pod
                .ports
                .iter()
                .filter(|port| port.name.as_deref().is_some_and(|name| names.contains(name)))
                .collect();
            named.sort();
            named.dedup();
            // The pods of a workload stand together: most are like the one before them.
            let like_last = |group: &&mut Group<'_>| {
                group.namespace == key.namespace && group.named_ports == named && *group.labels == pod.labels
            };
            if let Some(group) = list.get_mut(last as usize).filter(like_last) {
                group.members.push(number(index));
                continue;
            }
            let next = number(list.len());
            last = *known.entry((&key.namespace, &pod.labels, named.clone())).or_insert(next);
            if last == next {
                list.push(Group {
                    namespace: &key.namespace,
                    labels: &pod.labels,
                    named_ports: named,
                    members: Vec::new(),
                });
            }
            list[last as usize].members.push(number(index));
        }
        let mut by_label: HashMap<(&str, &str), Vec<GroupIndex>> = HashMap::new();
        for (index, group) in list.iter().enumerate() {
            for (key, value) in group.labels {
                by_label.entry((key, value)).or_default().push(number(index));
            }
        }
        let namespaces = Namespaces::new(cluster, &list);
        Self { pods, list, namespaces, by_label }
    }

    /// The groups that a selector selects, ascending.
    pub(super) fn select(&self, selector: &PodSelector) -> Vec<GroupIndex> {
        let inside = self.namespaces.select(&selector.namespaces);
        let in_namespaces: usize = inside.iter().map(|namespace| namespace.groups.len()).sum();
        let narrowest = selector
            .pods
            .requirements()
            .iter()
            .filter_map(|requirement| named_values(requirement))
            .map(|(key, values)| {
                let groups = values.iter().filter_map(move |value| self.by_label.get(&(key, value.as_str())));
                (groups.clone().map(Vec::len).sum::<usize>(), groups)
            })
            .min_by_key(|(count, _)| *count)
            .filter(|(count, _)| *count < in_namespaces);
        let matches = |index: &GroupIndex| selector.pods.matches(self.list[*index as usize].labels);
        let Some((_, candidates)) = narrowest else {
            return inside.iter().flat_map(|namespace| namespace.groups.clone()).filter(matches).collect();
        };
        let mut selected: Vec<_> = candidates
            .flatten()
            .copied()
            .filter(|index| {
                let after = inside.partition_point(|namespace| namespace.groups.end <= *index);
                inside.get(after).is_some_and(|namespace| namespace.groups.contains(index))
            })
            .filter(matches)
            .collect();
        selected.sort_unstable();
        selected
    }
}

/// The values that a requirement looks up, with their key; `None` when it names none.
fn named_values(requirement: &Requirement) -> Option<(&str, &BTreeSet<String>)> {
    match &requirement.operator {
        Operator::In(values) => Some((requirement.key.as_str(), values)),
        _ => None,
    }
}

/// A namespace and the groups in it: they stand together, because pods are in order of namespace.
#[derive(Debug)]
struct Place<'a> {
    name: &'a str,
    /// `None` for a namespace that the cluster does not have: no selector matches it.
    labels: Option<&'a Labels>,
    groups: Range<GroupIndex>,
}

/// The namespaces with groups, by name, and a way to find them by label.
#[derive(Debug)]
struct Namespaces<'a> {
    list: Vec<Place<'a>>,
    by_label: HashMap<(&'a str, &'a str), Vec<u32>>,
}

impl<'a> Namespaces<'a> {
    fn new(cluster: &'a Cluster, groups: &[Group<'a>]) -> Self {
        let mut list: Vec<Place<'a>> = Vec::new();
        for (index, group) in (0..).zip(groups) {
            match list.last_mut() {
                Some(place) if place.name == group.namespace => place.groups.end = index + 1,
                _ => list.push(Place {
                    name: group.namespace,
                    labels: cluster.namespaces.get(group.namespace).map(|namespace| &namespace.labels),
                    groups: index..index + 1,
                }),
            }
        }
        let mut by_label: HashMap<(&str, &str), Vec<u32>> = HashMap::new();
        for (index, place) in list.iter().enumerate() {
            for (key, value) in place.labels.into_iter().flatten() {
                by_label.entry((key, value)).or_default().push(number(index));
            }
        }
        Self { list, by_label }
    }

    /// The namespaces of a scope that have groups, by name.
    fn select(&self, scope: &NamespaceScope) -> Vec<&Place<'a>> {
        let selector = match scope {
            NamespaceScope::Own(name) => {
                let found = self.list.binary_search_by_key(&name.as_str(), |place| place.name);
                return found.ok().map(|index| &self.list[index]).into_iter().collect();
            }
            NamespaceScope::Matching(selector) => selector,
        };
        let matches = |place: &&Place<'_>| place.labels.is_some_and(|labels| selector.matches(labels));
        let one_value =
            selector.requirements().iter().filter_map(named_values).find(|(_, values)| values.len() == 1);
        let Some((key, values)) = one_value else { return self.list.iter().filter(matches).collect() };
        let candidates = values.first().and_then(|value| self.by_label.get(&(key, value.as_str())));
        candidates.into_iter().flatten().map(|index| &self.list[*index as usize]).filter(matches).collect()
    }
}

/// A count as an index; more than 2^32 things of one kind cannot be in memory.
pub(super) fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
