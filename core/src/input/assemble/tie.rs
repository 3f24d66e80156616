//! Policies of one tier that the API does not order: equal priorities, or a baseline of each version.
//!
//! Invariant: a pair is named only where it can matter: some pod is a subject of both, they act on one direction,
//! and some of their rules there differ in what they do. Administrators share priorities between bands of
//! policies that never meet, and that is no fault.

use std::collections::{BTreeMap, BTreeSet};

use crate::diagnostic::{Diagnostic, ObjectRef, code};
use crate::model::cluster::{Cluster, Labels};
use crate::model::policy::{Action, NamespaceScope, Policy, PolicyTier, Rule};

/// Names each policy that may tie with an earlier one, once.
pub(super) fn find(policies: &[Policy], cluster: &Cluster, diagnostics: &mut Vec<Diagnostic>) {
    let ordered: Vec<&Policy> = policies.iter().filter(|policy| policy.id.kind.is_ordered()).collect();
    if ordered.len() < 2 {
        return;
    }
    let likes = Likes::of(cluster);
    // Per tier and priority, the policies so far that select a like; a policy without a priority is beside all.
    let mut met: BTreeMap<PolicyTier, BTreeMap<Option<u16>, OfLike<'_>>> = BTreeMap::new();
    for policy in ordered {
        let subjects = likes.selected_by(policy, cluster);
        let tier = met.entry(policy.tier).or_default();
        let beside = tier
            .iter()
            .filter(|(priority, _)| {
                policy.priority.is_none() || priority.is_none() || **priority == policy.priority
            })
            .flat_map(|(_, of_like)| subjects.iter().filter_map(|like| of_like.get(like)).flatten());
        if let Some(other) = beside.copied().find(|other| conflict(policy, other)) {
            diagnostics.push(diagnostic(policy, other));
        }
        let of_like = tier.entry(policy.priority).or_default();
        for like in subjects {
            of_like.entry(like).or_default().push(policy);
        }
    }
}

fn conflict(one: &Policy, other: &Policy) -> bool {
    let differ = |one: &Option<Vec<Rule>>, other: &Option<Vec<Rule>>| {
        let actions = |rules: &Option<Vec<Rule>>| -> BTreeSet<Action> {
            rules.iter().flatten().map(|rule| rule.action).collect()
        };
        let (one, other) = (actions(one), actions(other));
        !one.is_empty() && !other.is_empty() && (one != other || one.len() > 1)
    };
    differ(&one.ingress, &other.ingress) || differ(&one.egress, &other.egress)
}

fn diagnostic(policy: &Policy, other: &Policy) -> Diagnostic {
    let object =
        ObjectRef { kind: policy.id.kind.as_str().to_owned(), namespace: None, name: policy.id.name.clone() };
    let (message, remedy) = match policy.priority {
        Some(priority) if other.priority.is_some() => (
            format!("{} has priority {priority} too, and some pods are subjects of both", other.id),
            "give one of them another priority",
        ),
        _ => (
            format!("{} is in the same tier, and the API orders the two kinds in no way", other.id),
            "use one kind alone in this tier",
        ),
    };
    let hint =
        format!("where their rules disagree the verdict is undefined, and netlab's tables deny: {remedy}");
    let diagnostic = Diagnostic::warning(code::TIED_POLICIES, message).with_hint(hint);
    diagnostic.about(&object).at_path(&policy.source, "spec.priority")
}

/// The policies that select a like, by its index.
type OfLike<'a> = BTreeMap<usize, Vec<&'a Policy>>;

/// Pods that no selector tells apart.
struct Likes<'a> {
    list: Vec<(&'a str, &'a Labels)>,
}

impl<'a> Likes<'a> {
    fn of(cluster: &'a Cluster) -> Self {
        let policed = cluster.pods.iter().filter(|(_, pod)| pod.is_policed());
        let set: BTreeSet<_> = policed.map(|(key, pod)| (key.namespace.as_str(), &pod.labels)).collect();
        Self { list: set.into_iter().collect() }
    }

    fn selected_by(&self, policy: &Policy, cluster: &Cluster) -> Vec<usize> {
        let NamespaceScope::Matching(namespaces) = &policy.subject.namespaces else { return Vec::new() };
        let selected: BTreeSet<&str> = cluster
            .namespaces
            .iter()
            .filter(|(_, namespace)| namespaces.matches(&namespace.labels))
            .map(|(name, _)| name.as_str())
            .collect();
        let is_selected = |(namespace, labels): &(&str, &Labels)| {
            selected.contains(namespace) && policy.subject.pods.matches(labels)
        };
        self.list.iter().enumerate().filter(|(_, like)| is_selected(like)).map(|(index, _)| index).collect()
    }
}
