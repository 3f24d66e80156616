//! What every lint looks at: the cluster as read, its pods in groups, the policies, and their compiled tables.
//!
//! Invariant: each selector of the policies is matched once, over groups of like pods. Pods here are all that were
//! given: also those that no policy can select, as a selector that means them is no selector that means nobody.

use std::collections::{BTreeMap, BTreeSet};

use netlab_ebpf::abi::Direction;

use crate::model::cluster::{Cluster, ObjectKey, Pod};
use crate::model::policy::{NamespaceScope, Peer, PeerMatch, PodSelector, Policies, Policy, Rule};
use crate::policy::groups::{Group, GroupIndex, Groups};
use crate::policy::ruleset::{Rulesets, Table};

/// Most names that a message lists.
const MOST_NAMES: usize = 3;

/// The material.
pub(super) struct Ground<'a> {
    pub(super) cluster: &'a Cluster,
    pub(super) policies: &'a Policies,
    pub(super) rulesets: &'a Rulesets,
    groups: Groups<'a>,
    selected: BTreeMap<&'a PodSelector, Vec<GroupIndex>>,
    /// Namespaces with pods.
    staffed: BTreeSet<&'a str>,
    /// The pods of each ruleset.
    members: Vec<Vec<&'a ObjectKey>>,
}

/// Both directions, with the field that holds their rules and the one that holds their peers.
pub(super) const DIRECTIONS: [(Direction, &str, &str); 2] =
    [(Direction::Ingress, "ingress", "from"), (Direction::Egress, "egress", "to")];

impl<'a> Ground<'a> {
    pub(super) fn new(cluster: &'a Cluster, policies: &'a Policies, rulesets: &'a Rulesets) -> Self {
        let groups = Groups::of_all(cluster);
        let peers = policies.list.iter().flat_map(all_rules).flat_map(|rule| rule.peers.iter().flatten());
        let of_peers = peers.filter_map(|peer| match &peer.matches {
            PeerMatch::Pods(selector) => Some(selector),
            PeerMatch::Block(_) | PeerMatch::Nodes(_) | PeerMatch::DomainNames(_) => None,
        });
        let all: BTreeSet<&PodSelector> =
            policies.list.iter().map(|policy| &policy.subject).chain(of_peers).collect();
        let selected = all.into_iter().map(|selector| (selector, groups.select(selector))).collect();
        let mut members = vec![Vec::new(); rulesets.list.len()];
        for (key, pod) in &rulesets.pods {
            members[pod.ruleset as usize].push(key);
        }
        let staffed = groups.list.iter().map(|group| group.namespace).collect();
        Self { cluster, policies, rulesets, groups, selected, staffed, members }
    }

    /// The groups that a selector of some policy selects, ascending.
    pub(super) fn select(&self, selector: &PodSelector) -> &[GroupIndex] {
        self.selected.get(selector).map_or(&[], Vec::as_slice)
    }

    /// The groups that a selector selects which stands in no policy.
    pub(super) fn select_other(&self, selector: &PodSelector) -> Vec<GroupIndex> {
        self.groups.select(selector)
    }

    /// A group.
    pub(super) fn group(&self, index: GroupIndex) -> &Group<'a> {
        &self.groups.list[index as usize]
    }

    /// Every group.
    pub(super) fn groups(&self) -> impl Iterator<Item = (GroupIndex, &Group<'a>)> {
        (0..).zip(&self.groups.list)
    }

    /// The pods of groups.
    pub(super) fn pods<'s>(
        &'s self,
        groups: impl IntoIterator<Item = &'s GroupIndex>,
    ) -> impl Iterator<Item = (&'a ObjectKey, &'a Pod)> {
        let members = groups.into_iter().flat_map(|index| &self.groups.list[*index as usize].members);
        members.map(|member| self.groups.pods[*member as usize])
    }

    /// Those of them that policies select, or will once they run.
    pub(super) fn subjects<'s>(
        &'s self,
        groups: impl IntoIterator<Item = &'s GroupIndex>,
    ) -> impl Iterator<Item = (&'a ObjectKey, &'a Pod)> {
        self.pods(groups).filter(|(_, pod)| !pod.host_network && !pod.terminal)
    }

    /// The one pod that a policy is about, if it is one: what it sends to itself is no policy's business.
    pub(super) fn only_subject(&self, policy: &Policy) -> Option<&'a ObjectKey> {
        let mut subjects = self.subjects(self.select(&policy.subject)).map(|(key, _)| key);
        subjects.next().filter(|_| subjects.next().is_none())
    }

    /// The compiled tables of a direction, each with the pods that it is for.
    pub(super) fn tables(&self, direction: Direction) -> impl Iterator<Item = (&'a Table, &[&'a ObjectKey])> {
        let rulesets: &'a Rulesets = self.rulesets;
        let list = rulesets.list.iter().zip(&self.members);
        list.filter_map(move |(ruleset, pods)| Some((ruleset.table(direction)?, pods.as_slice())))
    }

    /// True when a namespace has pods in the input.
    pub(super) fn has_pods(&self, namespace: &str) -> bool {
        self.staffed.contains(namespace)
    }

    /// True when nothing is known about any pod, so that nothing can be said about whom selectors mean.
    pub(super) fn has_no_pods(&self) -> bool {
        self.groups.list.is_empty()
    }

    pub(super) fn not_examined(&self) -> Vec<String> {
        if self.has_no_pods() && !self.policies.list.is_empty() {
            return vec!["whom the selectors mean: there is no Pod and no workload in the input".to_owned()];
        }
        Vec::new()
    }
}

/// The rules of a policy in one direction; none when it does not act there.
pub(super) fn rules(policy: &Policy, direction: Direction) -> &[Rule] {
    match direction {
        Direction::Ingress => policy.ingress.as_deref(),
        Direction::Egress => policy.egress.as_deref(),
    }
    .unwrap_or_default()
}

/// The rules of a policy, ingress first.
pub(super) fn all_rules(policy: &Policy) -> impl Iterator<Item = &Rule> {
    policy.ingress.iter().chain(&policy.egress).flatten()
}

/// True when the text of the policy has this field.
pub(super) fn is_written(policy: &Policy, path: &str) -> bool {
    policy.source.spans.contains_key(path)
}

/// The path of a peer's pod selector and namespace selector, whichever the kind writes them in.
pub(super) fn selector_paths(policy: &Policy, peer: &Peer) -> (String, String) {
    selector_fields(policy, &peer.path)
}

/// The same of a policy's subject.
pub(super) fn subject_paths(policy: &Policy) -> (String, String) {
    if policy.id.kind.is_ordered() {
        return selector_fields(policy, "spec.subject");
    }
    ("spec.podSelector".to_owned(), "metadata.namespace".to_owned())
}

fn selector_fields(policy: &Policy, path: &str) -> (String, String) {
    let field = |names: [&str; 3]| {
        let mut paths = names.into_iter().map(|name| format!("{path}.{name}"));
        paths.find(|path| is_written(policy, path)).unwrap_or_else(|| path.to_owned())
    };
    (
        field(["podSelector", "pods.podSelector", "namespaces"]),
        field(["namespaceSelector", "namespaces", "pods.namespaceSelector"]),
    )
}

/// What pods are called: by their top-most controller, each once, cut after a few.
pub(super) fn names<'a>(pods: impl IntoIterator<Item = (&'a ObjectKey, &'a Pod)>) -> String {
    let all: BTreeSet<String> = pods
        .into_iter()
        .map(|(key, pod)| {
            let name = pod.owner.as_ref().map_or(&key.name, |owner| &owner.name);
            format!("{}/{name}", key.namespace)
        })
        .collect();
    let shown = all.iter().take(MOST_NAMES).cloned().collect::<Vec<_>>().join(", ");
    match all.len().saturating_sub(MOST_NAMES) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// The namespaces that a scope means.
pub(super) fn namespaces<'c>(cluster: &'c Cluster, scope: &'c NamespaceScope) -> Vec<&'c str> {
    match scope {
        NamespaceScope::Own(name) => vec![name.as_str()],
        NamespaceScope::Matching(selector) => {
            let all = cluster.namespaces.iter().filter(|(_, namespace)| selector.matches(&namespace.labels));
            all.map(|(name, _)| name.as_str()).collect()
        }
    }
}
