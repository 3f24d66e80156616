//! Policies that leave everything as it would be without them.
//!
//! Invariant: of a NetworkPolicy it is told only where nothing else acts on its pods in the directions that it isolates,
//! so that its deletion changes no verdict.

use netlab_ebpf::abi::Direction;

use super::finding::{Finding, count};
use super::ground::{DIRECTIONS, Ground, all_rules, rules};
use crate::diagnostic::{Diagnostic, code};
use crate::model::policy::{Policy, PolicyKind, PolicyTier};

pub(super) fn find(ground: &Ground<'_>, findings: &mut Vec<Finding>) {
    let admits_everything: Vec<(u32, &Policy)> =
        (0..).zip(&ground.policies.list).filter(|(_, policy)| admits_everything(policy)).collect();
    for policy in ground.policies.list.iter().filter(|policy| policy.id.kind.is_ordered()) {
        if all_rules(policy).next().is_none() {
            let message = "a policy without rules changes nothing: this kind denies nothing by default";
            let hint = "write its rules, or delete it";
            let diagnostic = Diagnostic::warning(code::POLICY_VACUOUS, message).with_hint(hint);
            findings.push(Finding::at(policy, "spec", diagnostic));
        }
    }
    for (index, policy) in admits_everything {
        let (mut pods, mut alone) = (0, true);
        for (direction, ..) in DIRECTIONS {
            for (table, members) in ground.tables(direction) {
                if table.isolated_by.contains(&index) {
                    pods = pods.max(members.len());
                    let tier = |policy: &u32| ground.policies.list[*policy as usize].tier;
                    let others = table.acting.iter().filter(|other| **other != index);
                    alone &= others.map(tier).all(|tier| tier == PolicyTier::Admin);
                }
            }
        }
        if pods > 0 && alone {
            let pods = ground.subjects(ground.select(&policy.subject)).count();
            let message = format!(
                "admits everything, and no other policy isolates its {}: they are as open as without it",
                count(pods, "pod")
            );
            let hint = "delete it, or say what may pass";
            let diagnostic = Diagnostic::note(code::POLICY_VACUOUS, message).with_hint(hint);
            findings.push(Finding::at(policy, "spec", diagnostic).pods(pods));
        }
    }
}

/// True when a NetworkPolicy admits everything in every direction in which it isolates.
fn admits_everything(policy: &Policy) -> bool {
    let open = |direction: Direction, acts: bool| {
        let mut rules = rules(policy, direction).iter();
        !acts || rules.any(|rule| rule.peers.is_none() && rule.ports.is_none())
    };
    policy.id.kind == PolicyKind::NetworkPolicy
        && open(Direction::Ingress, policy.ingress.is_some())
        && open(Direction::Egress, policy.egress.is_some())
}
