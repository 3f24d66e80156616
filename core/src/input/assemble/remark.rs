//! Remarks on policies that are valid but meet nothing, or not all of what belongs together.
//!
//! Invariant: a remark never leaves a policy out.

use std::collections::{BTreeMap, BTreeSet};

use crate::diagnostic::{Diagnostic, ObjectRef, code};
use crate::model::cluster::{Cluster, Labels, Node, ObjectKey, Pod, WorkloadRef};
use crate::model::policy::{NamespaceScope, PeerMatch, PodSelector, Policy};
use crate::model::port::PortMatch;

/// Labels that controllers set on each pod alone: that these differ between pods of one owner is what they are for.
const OF_ONE_POD: [&str; 5] = [
    "apps.kubernetes.io/pod-index",
    "batch.kubernetes.io/job-completion-index",
    "controller-revision-hash",
    "pod-template-hash",
    "statefulset.kubernetes.io/pod-name",
];

/// Says what is to be said about all of them.
pub(super) fn about(policies: &[Policy], cluster: &Cluster, diagnostics: &mut Vec<Diagnostic>) {
    let policed = || cluster.pods.values().filter(|pod| pod.is_policed());
    let names: BTreeSet<&str> =
        policed().flat_map(|pod| &pod.ports).filter_map(|port| port.name.as_deref()).collect();
    for policy in policies {
        let object = object_of(policy);
        let mut say = |diagnostic: Diagnostic, path: &str| {
            diagnostics.push(diagnostic.about(&object).at_path(&policy.source, path));
        };
        if policy.id.kind.is_ordered() {
            unmatched_names(policy, &names, &mut say);
            unmatched_nodes(policy, cluster, &mut say);
        }
    }
    diagnostics.extend(owner_splits(policies, cluster));
}

/// Says where policies tell pods of one owner apart.
pub fn owner_splits(policies: &[Policy], cluster: &Cluster) -> Vec<Diagnostic> {
    let split = split_owners(cluster);
    let mut found = Vec::new();
    for policy in policies {
        let object = object_of(policy);
        let mut say = |diagnostic: Diagnostic, path: &str| {
            found.push(diagnostic.about(&object).at_path(&policy.source, path));
        };
        split_by(policy, cluster, &split, &mut say);
    }
    found
}

fn object_of(policy: &Policy) -> ObjectRef {
    ObjectRef {
        kind: policy.id.kind.as_str().to_owned(),
        namespace: policy.id.namespace.clone(),
        name: policy.id.name.clone(),
    }
}

type Say<'a> = dyn FnMut(Diagnostic, &str) + 'a;

fn unmatched_names(policy: &Policy, names: &BTreeSet<&str>, say: &mut Say<'_>) {
    let rules = policy.ingress.iter().chain(&policy.egress).flatten();
    let mut last = None;
    for port in rules.flat_map(|rule| rule.ports.iter().flatten()) {
        // A name stands here once per protocol.
        if let PortMatch::Named { name, .. } = &port.matches
            && !names.contains(&**name)
            && last != Some(&port.path)
        {
            let message = format!("no pod has a port called `{name}`: this matches nothing");
            let hint = "is it a name of `ports` in some container?";
            say(Diagnostic::warning(code::PORT_NAME_UNMATCHED, message).with_hint(hint), &port.path);
            last = Some(&port.path);
        }
    }
}

fn unmatched_nodes(policy: &Policy, cluster: &Cluster, say: &mut Say<'_>) {
    // A node that was made up has no place where it is written.
    let given = cluster.nodes.values().any(is_given);
    for peer in policy.egress.iter().flatten().flat_map(|rule| rule.peers.iter().flatten()) {
        let PeerMatch::Nodes(selector) = &peer.matches else { continue };
        if cluster.nodes.values().any(|node| selector.matches(&node.labels)) {
            continue;
        }
        let message = format!("no node matches {selector}: this peer is nobody");
        let hint =
            if given { "compare with the labels of the nodes" } else { "no Node object was given: add them" };
        let path = format!("{}.nodes", peer.path);
        say(Diagnostic::warning(code::NODES_UNMATCHED, message).with_hint(hint), &path);
    }
}

fn is_given(node: &Node) -> bool {
    node.source.file.is_some() || !node.labels.is_empty()
}

/// Pods of one controller whose own labels differ.
type Split<'a> = BTreeMap<(&'a str, &'a WorkloadRef), Vec<(&'a ObjectKey, &'a Pod)>>;

fn split_owners(cluster: &Cluster) -> Split<'_> {
    let mut owners: Split<'_> = BTreeMap::new();
    for (key, pod) in cluster.pods.iter().filter(|(_, pod)| pod.is_policed()) {
        if let Some(controller) = &pod.controller {
            owners.entry((&key.namespace, controller)).or_default().push((key, pod));
        }
    }
    owners.retain(|_, pods| pods.iter().any(|(_, pod)| shared(&pod.labels) != shared(&pods[0].1.labels)));
    owners
}

fn shared(labels: &Labels) -> BTreeMap<&String, &String> {
    labels.iter().filter(|(key, _)| !OF_ONE_POD.contains(&key.as_str())).collect()
}

/// Policies that select some of an owner's pods and not others: answers about the owner differ by pod.
fn split_by(policy: &Policy, cluster: &Cluster, split: &Split<'_>, say: &mut Say<'_>) {
    if split.is_empty() {
        return;
    }
    let rules = policy.ingress.iter().chain(&policy.egress).flatten();
    let peers = rules.flat_map(|rule| rule.peers.iter().flatten()).filter_map(|peer| match &peer.matches {
        PeerMatch::Pods(selector) => Some((&*peer.path, selector)),
        PeerMatch::Block(_) | PeerMatch::Nodes(_) | PeerMatch::DomainNames(_) => None,
    });
    let subject = if policy.id.kind.is_ordered() { "spec.subject" } else { "spec.podSelector" };
    for (path, selector) in std::iter::once((subject, &policy.subject)).chain(peers) {
        for ((namespace, owner), pods) in split {
            let (in_it, out): (Vec<_>, Vec<_>) =
                pods.iter().partition(|(key, pod)| selects(selector, cluster, key, pod));
            if let (Some((inside, _)), Some((outside, _))) = (in_it.first(), out.first()) {
                let message = format!(
                    "selects {inside} and not {outside}, though both belong to {namespace}/{}",
                    owner.name
                );
                let hint = "pods of one owner usually have the same labels; what holds for one does not for the other";
                say(Diagnostic::warning(code::OWNER_SPLIT, message).with_hint(hint), path);
            }
        }
    }
}

fn selects(selector: &PodSelector, cluster: &Cluster, key: &ObjectKey, pod: &Pod) -> bool {
    let in_scope = match &selector.namespaces {
        NamespaceScope::Own(name) => *name == key.namespace,
        NamespaceScope::Matching(labels) => {
            cluster.namespaces.get(&key.namespace).is_some_and(|namespace| labels.matches(&namespace.labels))
        }
    };
    in_scope && selector.pods.matches(&pod.labels)
}
