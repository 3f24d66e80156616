//! What a verdict owes to addresses that no input gives: the rules' blocks that may hold such a pod.
//!
//! Invariant: a block is named when a rule that could decide names it, the pod's address is not known, and the other
//! side does not settle the verdict by itself.

use std::collections::BTreeSet;

use netlab_ebpf::abi::Direction;

use super::change::Verdict;
use super::evaluate::PairEvaluation;
use super::query::{End, Pair};
use super::ruleset::Rulesets;
use crate::model::cluster::{Cluster, Pod};
use crate::model::policy::{PeerMatch, Policy, PolicyKind, Rule};
use crate::model::port::PortMatch;

/// One line each.
pub(super) fn notes(
    cluster: &Cluster,
    rulesets: &Rulesets,
    asked: &[(&Pair, &PairEvaluation)],
) -> BTreeSet<String> {
    let mut notes = BTreeSet::new();
    for (pair, answer) in asked {
        let sides = [
            (Direction::Egress, &pair.from, &pair.to, &answer.egress, &answer.ingress),
            (Direction::Ingress, &pair.to, &pair.from, &answer.ingress, &answer.egress),
        ];
        for (direction, subject, peer, side, other) in sides {
            let (End::Pod(subject), End::Pod(peer)) = (subject, peer) else { continue };
            let pod = |key| cluster.pods.get(key);
            let Some(found) = pod(peer).filter(|pod| pod.synthetic_addresses && !pod.host_network) else {
                continue;
            };
            // A rule admits it wherever it is; or the other side denies, and who this is changes nothing of it.
            let admitted = side.rule.as_ref().is_some_and(|rule| {
                rule.kind == PolicyKind::NetworkPolicy.as_str() && side.verdict == Verdict::Allow
            });
            let is_known = pod(subject).is_none_or(|pod| !pod.synthetic_addresses);
            if subject == peer || admitted || (other.verdict == Verdict::Deny && is_known) {
                continue;
            }
            for policy in rulesets.acting(subject, direction) {
                let rules = match direction {
                    Direction::Ingress => &policy.ingress,
                    Direction::Egress => &policy.egress,
                };
                for rule in rules.iter().flatten().filter(|rule| is_about(rule, pair)) {
                    notes.extend(of_rule(cluster, policy, rule, found, pair, &peer.to_string()));
                }
            }
        }
    }
    notes
}

/// True when the rule is about the packet's port.
fn is_about(rule: &Rule, pair: &Pair) -> bool {
    rule.ports.iter().all(|ports| {
        ports.iter().any(|port| match &port.matches {
            PortMatch::Range { protocol, range } => {
                protocol.number() == pair.tuple.protocol && range.contains(pair.tuple.destination_port)
            }
            PortMatch::Named { protocol, .. } => protocol.number() == pair.tuple.protocol,
        })
    })
}

fn of_rule(
    cluster: &Cluster,
    policy: &Policy,
    rule: &Rule,
    pod: &Pod,
    pair: &Pair,
    name: &str,
) -> Vec<String> {
    let ipv4 = pair.tuple.source.is_ipv4();
    let open = rule.peers.iter().flatten().filter_map(|peer| match &peer.matches {
        PeerMatch::Block(block) if block.cidr.addr().is_ipv4() == ipv4 => Some((peer, block)),
        _ => None,
    });
    open.filter(|(_, block)| cluster.leaves_open(block, pod))
        .filter_map(|(peer, block)| {
            let address = pod.addresses.iter().find(|address| address.is_ipv4() == ipv4)?;
            let place = if block.contains(*address) { "inside" } else { "outside of" };
            Some(format!(
                "no input gives the address of {name}: netlab chose {address}, {place} {block}, which {} {} names",
                policy.id, peer.path
            ))
        })
        .collect()
}
