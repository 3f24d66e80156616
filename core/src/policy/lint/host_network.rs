//! Pods on their node's network, which no selector means on most plugins.
//!
//! Source: the concepts page on network policies: behaviour for `hostNetwork` pods is undefined, and one of two: as other
//! pods, or as their node, neither subject nor selected. Invariant: a selector that happens to meet such pods beside many
//! others (`{}`, every namespace) is no finding.

use super::finding::{Finding, count};
use super::ground::{Ground, all_rules, names, selector_paths, subject_paths};
use crate::diagnostic::{Diagnostic, code};
use crate::model::cluster::{ObjectKey, Pod};
use crate::model::policy::{NamespaceScope, PeerMatch, PodSelector, Policy};

pub(super) fn find(ground: &Ground<'_>, findings: &mut Vec<Finding>) {
    if !ground.cluster.pods.values().any(|pod| pod.host_network && !pod.terminal) {
        return;
    }
    for policy in &ground.policies.list {
        findings.extend(judge(ground, policy, &policy.subject, None));
        for peer in all_rules(policy).flat_map(|rule| rule.peers.iter().flatten()) {
            if let PeerMatch::Pods(selector) = &peer.matches {
                findings.extend(judge(ground, policy, selector, Some(selector_paths(policy, peer).0)));
            }
        }
    }
}

fn judge(
    ground: &Ground<'_>,
    policy: &Policy,
    selector: &PodSelector,
    peer: Option<String>,
) -> Option<Finding> {
    let alive = ground.pods(ground.select(selector)).filter(|(_, pod)| !pod.terminal);
    let (on_host, others): (Vec<(&ObjectKey, &Pod)>, Vec<_>) = alive.partition(|(_, pod)| pod.host_network);
    if on_host.is_empty() {
        return None;
    }
    let number = on_host.len();
    let who = names(on_host);
    let is_subject = peer.is_none();
    let path = peer.unwrap_or_else(|| subject_paths(policy).0);
    if others.is_empty() {
        let uses = if number == 1 { "uses its node's network" } else { "use their nodes' network" };
        let (message, hint) = if is_subject {
            (
                format!(
                    "this policy protects nobody: {who} {uses}, and most plugins let no policy select such pods"
                ),
                "close the port on the node, or take `hostNetwork` away",
            )
        } else {
            (
                format!("this peer is nobody on most plugins: {who} {uses}, and traffic is the node's"),
                "name the nodes' addresses with an `ipBlock`",
            )
        };
        let diagnostic = Diagnostic::warning(code::HOST_NETWORK_ONLY, message).with_hint(hint);
        return Some(Finding::at(policy, &path, diagnostic).pods(number));
    }
    let everywhere = match &selector.namespaces {
        NamespaceScope::Matching(scope) => scope.is_empty(),
        NamespaceScope::Own(_) => true,
    };
    if selector.pods.is_empty() && (everywhere || is_subject) {
        return None;
    }
    let message = format!(
        "{} of those selected {} the host's network ({who}): most plugins take them for their node",
        count(number, "pod"),
        if number == 1 { "uses" } else { "use" }
    );
    let hint = if is_subject {
        "the policy does not protect them there"
    } else {
        "there the peer does not match them; OVN-Kubernetes matches them if a `podSelector` stands beside"
    };
    let diagnostic = Diagnostic::note(code::HOST_NETWORK_TOO, message).with_hint(hint);
    Some(Finding::at(policy, &path, diagnostic).pods(number))
}
