//! `policyTypes` against the rules, and lists that are written and empty.
//!
//! Source: `pkg/apis/networking/v1/defaults.go` (absent `policyTypes` are Ingress, and Egress only where `egress` has an
//! element) and `NetworkPolicyIngressRule` (an empty `from` or `ports` is everybody and everything). Invariant: needs the
//! text; what an API server has filled in cannot be wrong in these ways any more.

use netlab_ebpf::abi::Direction;

use super::finding::{Finding, count};
use super::ground::{DIRECTIONS, Ground, is_written, rules};
use crate::diagnostic::{Diagnostic, code};
use crate::model::policy::{Policy, PolicyKind};

pub(super) fn find(ground: &Ground<'_>, findings: &mut Vec<Finding>) {
    let policies = ground.policies.list.iter().filter(|policy| policy.id.kind == PolicyKind::NetworkPolicy);
    for policy in policies {
        for (direction, field, peers) in DIRECTIONS {
            findings.extend(inert(ground, policy, direction, field));
            findings.extend(empty_lists(policy, direction, peers));
        }
        findings.extend(ingress_too(ground, policy));
    }
}

/// Rules of a direction in which the policy does not act.
fn inert(ground: &Ground<'_>, policy: &Policy, direction: Direction, field: &str) -> Option<Finding> {
    let acts = match direction {
        Direction::Ingress => policy.ingress.is_some(),
        Direction::Egress => policy.egress.is_some(),
    };
    let path = format!("spec.{field}");
    if acts || !is_written(policy, &path) {
        return None;
    }
    let word = if direction == Direction::Ingress { "Ingress" } else { "Egress" };
    let subjects = ground.subjects(ground.select(&policy.subject)).count();
    let mut number = 0_usize;
    while is_written(policy, &format!("{path}[{number}]")) {
        number += 1;
    }
    let has_types = is_written(policy, "spec.policyTypes[0]");
    let (code, message) = match (has_types, number) {
        (true, 0) => {
            let message = format!("an empty `{field}` that isolates nothing: `policyTypes` lacks `{word}`");
            (code::RULES_INERT, message)
        }
        (true, _) => {
            let verb = if number == 1 { "does" } else { "do" };
            let message = format!(
                "{} that {verb} nothing: `policyTypes` lacks `{word}`",
                count(number, &format!("{field} rule"))
            );
            (code::RULES_INERT, message)
        }
        (false, _) => {
            let message =
                format!("an empty `{field}` isolates nothing: without `policyTypes` only a rule does");
            (code::EGRESS_NOT_ISOLATED, message)
        }
    };
    let hint = if has_types {
        format!(
            "add `{word}` to `policyTypes` (which also isolates the pods for {field}), or delete `{field}`"
        )
    } else {
        "write `policyTypes: [Ingress, Egress]` (or `[Egress]`) to deny all egress".to_owned()
    };
    Some(Finding::at(policy, &path, Diagnostic::warning(code, message).with_hint(hint)).pods(subjects))
}

/// An egress policy without `policyTypes` isolates for ingress too.
fn ingress_too(ground: &Ground<'_>, policy: &Policy) -> Option<Finding> {
    let says_nothing = !is_written(policy, "spec.policyTypes[0]") && !is_written(policy, "spec.ingress");
    if !says_nothing || !is_written(policy, "spec.egress[0]") || policy.ingress.is_none() {
        return None;
    }
    // Where another policy isolates the same pods for ingress, this changes nothing.
    let subjects = ground.subjects(ground.select(&policy.subject));
    let alone = subjects.filter(|(key, _)| {
        let isolating = ground.rulesets.isolating(key, Direction::Ingress);
        !isolating.is_empty() && isolating.iter().all(|one| one.id == policy.id)
    });
    let number = alone.count();
    if number == 0 {
        return None;
    }
    let message = format!(
        "only egress rules, yet it denies all ingress of {} too: absent `policyTypes` always mean Ingress",
        count(number, "pod")
    );
    let hint = "write `policyTypes: [Egress]`, or both if that is meant";
    let diagnostic = Diagnostic::warning(code::INGRESS_ISOLATED_TOO, message).with_hint(hint);
    Some(Finding::at(policy, "spec.egress", diagnostic).pods(number))
}

/// `from: []` reads as nobody and is everybody.
fn empty_lists(policy: &Policy, direction: Direction, peers: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for rule in rules(policy, direction) {
        let mut say = |path: String, message: String, hint: String| {
            let diagnostic = Diagnostic::warning(code::LIST_EMPTY, message).with_hint(hint);
            findings.push(Finding::at(policy, &path, diagnostic));
        };
        let path = format!("{}.{peers}", rule.path);
        if rule.peers.is_none() && is_written(policy, &path) {
            say(
                path,
                format!("an empty `{peers}` is everybody, in the cluster and outside, not nobody"),
                format!("to admit nobody delete the rule; if everybody is meant, leave `{peers}` away"),
            );
        }
        let path = format!("{}.ports", rule.path);
        if rule.ports.is_none() && is_written(policy, &path) {
            say(
                path,
                "an empty `ports` is every port of every protocol, not none".to_owned(),
                "to admit nothing delete the rule; if every port is meant, leave `ports` away".to_owned(),
            );
        }
    }
    findings
}
