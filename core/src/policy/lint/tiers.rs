//! The tiers: ties that decide verdicts, rules that an administrator's Deny makes void, and what
//! becomes of v1alpha1 policies in v1alpha2.
//!
//! Invariant: a tie is told only where some packet of a present pod has another verdict with the other order; a rule is
//! void only when the Admin tier denies everything that it admits to present pods.

use std::collections::{BTreeMap, BTreeSet};

use netlab_ebpf::abi::Direction;
use netlab_ebpf::reason::Tier;

use super::finding::{Finding, count};
use super::ground::{DIRECTIONS, Ground, rules};
use super::tables::{ports, word};
use crate::diagnostic::{Diagnostic, code};
use crate::model::policy::{Policy, PolicyKind, PolicyTier, Rule};
use crate::policy::change::Verdict;
use crate::policy::ruleset::Table;

/// The longest lists of v1alpha2: rules, peers and protocols.
const MOST_V1ALPHA2: usize = 25;

pub(super) fn find(ground: &Ground<'_>, findings: &mut Vec<Finding>) {
    for policy in &ground.policies.list {
        findings.extend(too_long(policy));
    }
    if !ground.policies.list.iter().any(|policy| policy.id.kind.is_ordered()) {
        return;
    }
    let mut ties: BTreeMap<(Vec<u32>, &str), Tie> = BTreeMap::new();
    let mut voids: BTreeMap<(u32, &str, u32), Void> = BTreeMap::new();
    for (direction, ..) in DIRECTIONS {
        for (table, pods) in ground.tables(direction) {
            let (can_tie, can_void) = (can_tie(table), can_void(table));
            if !can_void {
                // No administrator speaks here, so whatever a NetworkPolicy says to these pods counts.
                for rule in table.rules.iter().filter(|rule| rule.tier == PolicyTier::NetworkPolicy) {
                    voids.entry((rule.policy, word(direction), rule.rule)).or_default().has_effect = true;
                }
            }
            if !can_tie && !can_void {
                continue;
            }
            for row in &table.rows {
                for index in 0..table.ports.list.len() {
                    let decision = table.decide(row, index);
                    if !decision.tied.is_empty() {
                        let tie = ties.entry((decision.tied.clone(), word(direction))).or_default();
                        tie.add(&table.ports.list[index].ranges, pods);
                    }
                    if !can_void {
                        continue;
                    }
                    let denied = decision.tied.is_empty()
                        && decision.tier == Tier::Admin
                        && decision.verdict == Verdict::Deny;
                    for one in table.matched(row, index) {
                        let rule = &table.rules[one.rule as usize];
                        if rule.tier == PolicyTier::NetworkPolicy {
                            let void = voids.entry((rule.policy, word(direction), rule.rule)).or_default();
                            void.has_effect |= !denied;
                            void.by.extend(
                                decision.winner.map(|winner| table.rules[winner.rule as usize].policy),
                            );
                        }
                    }
                }
            }
        }
    }
    findings.extend(ties.into_iter().filter_map(|((tied, side), tie)| tie.finding(ground, &tied, side)));
    findings.extend(voids.into_iter().filter_map(|(rule, void)| void.finding(ground, rule)));
}

/// True when two policies of a table have no order.
fn can_tie(table: &Table) -> bool {
    let ordered = table.rules.iter().filter(|rule| rule.tier != PolicyTier::NetworkPolicy);
    let places: BTreeSet<_> = ordered.map(|rule| (rule.tier, rule.priority, rule.policy)).collect();
    let places: Vec<_> = places.into_iter().collect();
    places.windows(2).any(|pair| {
        let [one, two] = pair else { return false };
        one.0 == two.0 && one.2 != two.2 && (one.1 == two.1 || one.1.is_none() || two.1.is_none())
    })
}

fn can_void(table: &Table) -> bool {
    let has = |tier| table.rules.iter().any(|rule| rule.tier == tier);
    has(PolicyTier::Admin) && has(PolicyTier::NetworkPolicy)
}

/// Where an open order decides.
#[derive(Default)]
struct Tie {
    ranges: Vec<crate::policy::change::ProtocolRange>,
    pods: BTreeSet<String>,
}

impl Tie {
    fn add(
        &mut self,
        ranges: &[crate::policy::change::ProtocolRange],
        pods: &[&crate::model::cluster::ObjectKey],
    ) {
        for range in ranges {
            if !self.ranges.contains(range) {
                self.ranges.push(*range);
            }
        }
        self.pods.extend(pods.iter().map(ToString::to_string));
    }

    fn finding(self, ground: &Ground<'_>, tied: &[u32], side: &str) -> Option<Finding> {
        let policies: Vec<&Policy> =
            tied.iter().map(|index| &ground.policies.list[*index as usize]).collect();
        let (policy, others) = policies.split_last()?;
        let others: Vec<String> = others.iter().map(|other| other.id.to_string()).collect();
        let class = crate::policy::change::PortClass { class: 0, ranges: self.ranges };
        let same = match policy.priority {
            Some(priority) if policies.iter().all(|one| one.priority == Some(priority)) => {
                format!("has priority {priority} too")
            }
            _ => "is in the same tier without an order".to_owned(),
        };
        let message = format!(
            "{} {same} and disagrees: {side} of {}, {}, is undefined",
            others.join(" and "),
            count(self.pods.len(), "pod"),
            ports([&class])
        );
        let hint = "give one of them another priority; until then enforcers differ, and netlab's tables deny";
        let diagnostic = Diagnostic::warning(code::TIE_CONFLICTS, message).with_hint(hint);
        let path = if policy.priority.is_some() { "spec.priority" } else { "" };
        Some(Finding::at(policy, path, diagnostic).pods(self.pods.len()))
    }
}

/// Whether a NetworkPolicy's rule still means anything after the Admin tier.
#[derive(Default)]
struct Void {
    has_effect: bool,
    by: BTreeSet<u32>,
}

impl Void {
    fn finding(self, ground: &Ground<'_>, (policy, side, rule): (u32, &str, u32)) -> Option<Finding> {
        if self.has_effect {
            return None;
        }
        let policy = &ground.policies.list[policy as usize];
        let direction = if side == "ingress" { Direction::Ingress } else { Direction::Egress };
        let rule = rules(policy, direction).get(rule as usize)?;
        let by: Vec<String> =
            self.by.iter().map(|index| ground.policies.list[*index as usize].id.to_string()).collect();
        let verb = if by.len() == 1 { "denies" } else { "deny" };
        let message = format!(
            "this rule never takes effect: {} {verb} all that it admits, and the Admin tier comes first",
            by.join(", ")
        );
        let hint = "ask who administers that policy, or delete the rule";
        let diagnostic = Diagnostic::warning(code::RULE_SHADOWED, message).with_hint(hint);
        let pods = ground.subjects(ground.select(&policy.subject)).count();
        Some(Finding::at(policy, &rule.path, diagnostic).pods(pods))
    }
}

/// Lists of v1alpha1 that v1alpha2 does not take.
fn too_long(policy: &Policy) -> Option<Finding> {
    let of_v1alpha1 =
        matches!(policy.id.kind, PolicyKind::AdminNetworkPolicy | PolicyKind::BaselineAdminNetworkPolicy);
    if !of_v1alpha1 {
        return None;
    }
    for (direction, field, peers) in DIRECTIONS {
        let all = rules(policy, direction);
        let mut lists =
            std::iter::once((format!("spec.{field}"), all.len())).chain(all.iter().flat_map(|rule| {
                [
                    (format!("{}.{peers}", rule.path), elements(rule, true)),
                    (format!("{}.ports", rule.path), elements(rule, false)),
                ]
            }));
        if let Some((path, length)) = lists.find(|(_, length)| *length > MOST_V1ALPHA2) {
            let message = format!("{length} elements, and v1alpha2 takes {MOST_V1ALPHA2}");
            let hint = "a ClusterNetworkPolicy made from this one has to be split";
            let diagnostic = Diagnostic::note(code::TOO_LONG_FOR_V1ALPHA2, message).with_hint(hint);
            return Some(Finding::at(policy, &path, diagnostic));
        }
    }
    None
}

/// How many elements a list was written with: networks and protocols are several here and one there.
fn elements(rule: &Rule, peers: bool) -> usize {
    let paths: BTreeSet<&str> = if peers {
        let peers = rule.peers.iter().flatten();
        peers.map(|peer| peer.path.split(".networks[").next().unwrap_or_default()).collect()
    } else {
        rule.ports.iter().flatten().map(|port| &*port.path).collect()
    };
    paths.len()
}
