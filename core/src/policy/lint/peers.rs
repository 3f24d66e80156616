//! Two elements of `from` or `to` where one was meant: the dash that turns AND into OR.
//!
//! Source: `NetworkPolicyPeer`: both selectors in one element are an AND, two elements are an OR. Invariant: told only
//! where the AND form would match some pod and the OR form matches more, so that both readings make sense.

use std::collections::BTreeSet;

use super::finding::{Finding, count};
use super::ground::{Ground, all_rules, is_written, names};
use crate::diagnostic::{Diagnostic, code};
use crate::model::cluster::ObjectKey;
use crate::model::policy::{NamespaceScope, Peer, PeerMatch, PodSelector, Policy, PolicyKind, Rule};

pub(super) fn find(ground: &Ground<'_>, findings: &mut Vec<Finding>) {
    let policies = ground.policies.list.iter().filter(|policy| policy.id.kind == PolicyKind::NetworkPolicy);
    for policy in policies {
        for rule in all_rules(policy) {
            for pair in rule.peers.as_deref().unwrap_or_default().windows(2) {
                if let [first, second] = pair {
                    findings.extend(ored(ground, policy, first, second));
                }
            }
        }
    }
}

/// True when two neighbours look like one element that was torn apart.
pub(super) fn are_halves(policy: &Policy, first: &Peer, second: &Peer) -> bool {
    halves(policy, first, second).is_some()
}

/// True when a peer of a rule is told as one half of another.
pub(super) fn is_told(ground: &Ground<'_>, policy: &Policy, rule: &Rule, peer: &Peer) -> bool {
    let mut pairs = rule.peers.as_deref().unwrap_or_default().windows(2);
    policy.id.kind == PolicyKind::NetworkPolicy
        && pairs.any(|pair| {
            let [first, second] = pair else { return false };
            [&first.path, &second.path].contains(&&peer.path) && ored(ground, policy, first, second).is_some()
        })
}

/// The namespace half and the pod half, in either order.
fn halves<'p>(
    policy: &Policy,
    first: &'p Peer,
    second: &'p Peer,
) -> Option<(&'p PodSelector, &'p PodSelector)> {
    let of = |peer: &'p Peer| match &peer.matches {
        PeerMatch::Pods(selector) => Some((peer, selector)),
        PeerMatch::Block(_) | PeerMatch::Nodes(_) | PeerMatch::DomainNames(_) => None,
    };
    let is_namespaces = |(peer, selector): &(&Peer, &PodSelector)| {
        matches!(selector.namespaces, NamespaceScope::Matching(_))
            && selector.pods.is_empty()
            // Whoever writes an empty pod selector beside the other knows what one element is.
            && !is_written(policy, &format!("{}.podSelector", peer.path))
    };
    let is_pods = |(_, selector): &(&Peer, &PodSelector)| {
        matches!(selector.namespaces, NamespaceScope::Own(_)) && !selector.pods.is_empty()
    };
    let (first, second) = (of(first)?, of(second)?);
    if is_namespaces(&first) && is_pods(&second) {
        Some((first.1, second.1))
    } else if is_pods(&first) && is_namespaces(&second) {
        Some((second.1, first.1))
    } else {
        None
    }
}

fn ored(ground: &Ground<'_>, policy: &Policy, first: &Peer, second: &Peer) -> Option<Finding> {
    let (namespaces, pods) = halves(policy, first, second)?;
    let one = PodSelector { namespaces: namespaces.namespaces.clone(), pods: pods.pods.clone() };
    let meant = ground.select_other(&one);
    let wanted: BTreeSet<&ObjectKey> = ground.subjects(&meant).map(|(key, _)| key).collect();
    let only_subject = ground.only_subject(policy);
    let either: BTreeSet<_> = [namespaces, pods].into_iter().flat_map(|half| ground.select(half)).collect();
    let extra: Vec<_> = ground
        .subjects(either)
        .filter(|(key, _)| !wanted.contains(key) && only_subject != Some(*key))
        .collect();
    if wanted.is_empty() || extra.is_empty() {
        return None;
    }
    let message = format!("two peers where one seems meant: admits {} too", names(extra.iter().copied()));
    let hint = format!(
        "delete the dash to AND them ({}, not {}); `netlab explain {}`",
        count(wanted.len(), "pod"),
        wanted.len() + extra.len(),
        code::PEERS_ORED
    );
    let diagnostic = Diagnostic::warning(code::PEERS_ORED, message).with_hint(hint);
    Some(Finding::at(policy, &second.path, diagnostic).pods(extra.len()))
}
