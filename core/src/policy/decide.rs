//! What a cell of a table comes to: the tiers in their order, and who decided.
//!
//! Source of the rules: the types of `policy.networking.k8s.io` on `tier`, `priority` and `action`. The Admin tier
//! comes first, lower priorities before higher ones and rules as written; `Accept` and `Deny` are final, `Pass`
//! leaves the tier. Then `NetworkPolicy`, a union without order, final in the direction in which it isolates. Then the
//! Baseline tier, as the first; then everything passes.
//!
//! Invariant: policies of one tier that the API does not order are all tried as the first. Where that changes the
//! verdict, the cell is tied: it names them, and it denies, because what nobody decided should not pass.

use netlab_ebpf::reason::Tier;

use super::change::Verdict;
use super::ruleset::{Matched, Row, Table};
use crate::model::policy::{Action, PolicyTier};

/// A decided cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Decision {
    /// What the tables hold.
    pub(super) verdict: Verdict,
    /// Who decided.
    pub(super) tier: Tier,
    /// The rule that decided, if one did.
    pub(super) winner: Option<Matched>,
    /// The `Pass` rules on the way there, in order.
    pub(super) passed: Vec<Matched>,
    /// Everything else that matched: not needed, outranked, or never asked.
    pub(super) losers: Vec<Matched>,
    /// The policies whose order decides the verdict and is open, ascending; empty when it is defined.
    pub(super) tied: Vec<u32>,
}

/// What the rest of the tiers come to, from some tier on.
#[derive(Clone, Debug)]
struct Outcome {
    verdict: Verdict,
    tier: Tier,
    winner: Option<Matched>,
    passed: Vec<Matched>,
    tied: Vec<u32>,
}

impl Outcome {
    fn new(verdict: Verdict, tier: Tier, winner: Option<Matched>) -> Self {
        Self { verdict, tier, winner, passed: Vec::new(), tied: Vec::new() }
    }

    /// What can be told of it to a user: a tied verdict is neither.
    fn defined(&self) -> Option<Verdict> {
        self.tied.is_empty().then_some(self.verdict)
    }
}

impl Table {
    /// Decides a cell.
    pub(super) fn decide(&self, row: &Row, port_class: usize) -> Decision {
        let matched: Vec<Matched> = self.matched(row, port_class).collect();
        let of = |tier: PolicyTier| {
            let start = matched.partition_point(|one| self.rules[one.rule as usize].tier < tier);
            let end = matched.partition_point(|one| self.rules[one.rule as usize].tier <= tier);
            &matched[start..end]
        };
        let outcome = if self.isolated_by.is_empty() {
            let open = Outcome::new(Verdict::Allow, Tier::Default, None);
            self.ordered(of(PolicyTier::Baseline), Tier::Baseline, open)
        } else {
            let winner = of(PolicyTier::NetworkPolicy).first().copied();
            let verdict = if winner.is_some() { Verdict::Allow } else { Verdict::Deny };
            Outcome::new(verdict, Tier::NetworkPolicy, winner)
        };
        let Outcome { verdict, tier, winner, passed, mut tied } =
            self.ordered(of(PolicyTier::Admin), Tier::Admin, outcome);
        tied.sort_unstable();
        tied.dedup();
        let losers = matched.iter().filter(|one| winner != Some(**one) && !passed.contains(one));
        Decision { verdict, tier, winner, losers: losers.copied().collect(), passed, tied }
    }

    /// A tier whose policies have an order; `rest` is what follows a `Pass`, or no match at all.
    fn ordered(&self, matched: &[Matched], tier: Tier, rest: Outcome) -> Outcome {
        let first = self.may_be_first(matched);
        let mut choices: Vec<Outcome> = first
            .iter()
            .map(|one| match self.rules[one.rule as usize].action {
                Action::Accept => Outcome::new(Verdict::Allow, tier, Some(*one)),
                Action::Deny => Outcome::new(Verdict::Deny, tier, Some(*one)),
                Action::Pass => {
                    let mut rest = rest.clone();
                    rest.passed.insert(0, *one);
                    rest
                }
            })
            .collect();
        let Some(expected) = choices.first().map(Outcome::defined) else { return rest };
        if choices.iter().all(|choice| choice.defined() == expected) {
            return choices.swap_remove(0);
        }
        let mut tied: Vec<u32> = first.iter().map(|one| self.rules[one.rule as usize].policy).collect();
        tied.extend(choices.iter().flat_map(|choice| &choice.tied));
        // They differ, so one of them denies.
        let denies = choices.iter().position(|choice| choice.verdict == Verdict::Deny).unwrap_or(0);
        Outcome { tied, ..choices.swap_remove(denies) }
    }

    /// The first match of each policy before which no other policy of the tier must come. The rules of a policy stand
    /// together, lower priorities before higher ones, and policies without one behind all.
    fn may_be_first(&self, matched: &[Matched]) -> Vec<Matched> {
        let rule = |one: &Matched| &self.rules[one.rule as usize];
        let lowest = matched.first().and_then(|one| rule(one).priority);
        let mut first: Vec<Matched> = Vec::new();
        for one in matched {
            let seen = first.last().is_some_and(|last| rule(last).policy == rule(one).policy);
            if !seen && (rule(one).priority.is_none() || rule(one).priority == lowest) {
                first.push(*one);
            }
        }
        first
    }
}
