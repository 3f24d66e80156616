//! What came or went at a side that admits in one state and denies in the other.
//!
//! Suspects are the rules that decided in either state, and the `Pass` rules on the way. The first that the other state
//! lacks, or has otherwise, is the cause; if all are as they were, isolation or the pods' labels are.
//!
//! Invariant: what is blamed acts in the state from which it is cited.

use super::State;
use super::cause::{Decided, Trend};
use crate::model::policy::{Peer, Policies, Policy, PolicyTier, Port, Rule};
use crate::policy::decide::Decision;
use crate::policy::provenance::{PolicyRef, RuleRef, policy_ref};
use crate::policy::ruleset::{Matched, Rulesets, Table};

/// How a policy or a rule of one state stands in the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// There is no such policy.
    NoPolicy,
    /// The policy has no rule in that place.
    NoRule,
    /// The policy or the rule reads differently.
    Changed,
    /// It is there unchanged.
    Same,
}

/// What to blame at a side that admits in one state and denies in the other.
pub(super) struct Blame<'a> {
    pub(super) states: [State<'a>; 2],
    pub(super) change: Trend,
    pub(super) admitting: usize,
    pub(super) denying: usize,
}

/// The rule or the policies, and what they do.
pub(super) type Found = (Option<RuleRef>, Vec<PolicyRef>, String);

/// A rule that acts in one state: which, its table, itself, and what it does with gained and with lost ports.
type Suspect<'a> = (usize, &'a Table, Matched, [&'static str; 2]);

/// For a policy that is in both states as it was.
const MATCHES: &str = "what its selectors match was changed";

impl Blame<'_> {
    pub(super) fn find(&self, open: &Decided<'_>, denial_table: &Table, denial: &Decision) -> Found {
        let denied = self.rulesets(self.denying);
        if !denial.tied.is_empty() {
            let tied = denial.tied.iter().map(|index| policy_ref(&denied.policies.list[*index as usize]));
            let reason = match self.change {
                Trend::Gained => "had an order that the API leaves open, so netlab denied it",
                Trend::Lost => "have an order that the API leaves open, so netlab denies it",
            };
            return (None, tied.collect(), reason.to_owned());
        }
        let closed = &(denial_table, denial);
        let opened = open.by.as_ref().map(|(table, decision)| (*table, decision));
        let tier = |(table, _): &(&Table, &Decision), one: &Matched| table.rules[one.rule as usize].tier;
        let isolated = |of: &(&Table, &Decision)| !of.0.isolated_by.is_empty();
        let mut suspects: Vec<Suspect<'_>> = Vec::new();
        if let Some(open) = &opened {
            let winner = open.1.winner.filter(|winner| match &denial.winner {
                // A rule behind the denial would not have been asked.
                Some(deny) => tier(open, winner) <= tier(closed, deny),
                None => tier(open, winner) == PolicyTier::Admin || isolated(open),
            });
            suspects.extend(winner.map(|one| (self.admitting, open.0, one, ["admits it", "admitted it"])));
            let passed = open.1.passed.iter();
            suspects
                .extend(passed.map(|one| (self.admitting, open.0, *one, ["passes it on", "passed it on"])));
        }
        suspects
            .extend(denial.winner.map(|one| (self.denying, denial_table, one, ["denied it", "denies it"])));
        let passed = denial.passed.iter();
        suspects
            .extend(passed.map(|one| (self.denying, denial_table, *one, ["passed it on", "passes it on"])));
        let changed = |suspect: &&Suspect<'_>| self.standing(suspect) != Standing::Same;
        let isolation_came_or_went = denial.winner.is_none() && !opened.as_ref().is_some_and(isolated);
        match suspects.iter().find(changed) {
            Some(suspect) => self.cite(suspect),
            None if isolation_came_or_went => self.isolation(denial_table),
            None => suspects.first().map_or_else(|| self.isolation(denial_table), |first| self.cite(first)),
        }
    }

    /// What a rule does or did, and how it stands in the other state.
    fn cite(&self, suspect: &Suspect<'_>) -> Found {
        let (side, table, one, [gained, lost]) = *suspect;
        let verb = if self.change == Trend::Gained { gained } else { lost };
        let words = match (self.standing(suspect), side) {
            (Standing::NoPolicy, 1) => "the policy is new",
            (Standing::NoPolicy, _) => "the policy is gone",
            (Standing::NoRule, 1) => "the rule is new",
            (Standing::NoRule, _) => "the rule is gone",
            (Standing::Changed, _) => "the policy was changed",
            (Standing::Same, _) => MATCHES,
        };
        (Some(self.rulesets(side).rule_ref(table, one)), Vec::new(), format!("{verb}; {words}"))
    }

    fn rulesets(&self, side: usize) -> &Rulesets {
        self.states[side].rulesets
    }

    /// The policies that isolate where it is denied, those first of all that the other state does not have.
    fn isolation(&self, table: &Table) -> Found {
        let denied = self.rulesets(self.denying);
        let isolating = || table.isolated_by.iter().map(|index| &denied.policies.list[*index as usize]);
        let other = &self.rulesets(self.admitting).policies;
        let only_here: Vec<&Policy> = isolating()
            .filter(|policy| same(other, policy).is_none_or(|same| differs(same, policy)))
            .collect();
        let all_same = only_here.is_empty();
        let blamed: Vec<&Policy> = if all_same { isolating().collect() } else { only_here };
        let standing = match blamed.first() {
            _ if all_same => Standing::Same,
            Some(policy) if same(other, policy).is_some() => Standing::Changed,
            _ => Standing::NoPolicy,
        };
        let verb = match self.change {
            Trend::Gained => "isolated it",
            Trend::Lost => "isolates it and admits nothing of this",
        };
        let words = match (standing, self.change) {
            (Standing::NoPolicy, Trend::Gained) => "the policy is gone",
            (Standing::NoPolicy, Trend::Lost) => "the policy is new",
            (Standing::NoRule | Standing::Changed, _) => "the policy was changed",
            (Standing::Same, _) => MATCHES,
        };
        (None, blamed.into_iter().map(policy_ref).collect(), format!("{verb}; {words}"))
    }

    /// How a rule of one state stands in the other.
    fn standing(&self, (side, table, one, _): &Suspect<'_>) -> Standing {
        let (policy, rule) = self.rulesets(*side).rule(table, one.rule);
        let Some(same) = same(&self.rulesets(1 - side).policies, policy) else { return Standing::NoPolicy };
        let rules = || same.ingress.iter().chain(&same.egress).flatten();
        let like_policy =
            same.subject == policy.subject && (same.tier, same.priority) == (policy.tier, policy.priority);
        if like_policy && rules().any(|other| text(other) == text(rule)) {
            Standing::Same
        } else if like_policy && rules().all(|other| other.path != rule.path) {
            Standing::NoRule
        } else {
            Standing::Changed
        }
    }
}

/// A rule as it is compared: nothing of it says where it was read.
fn text(rule: &Rule) -> String {
    let peers =
        |peers: &Vec<Peer>| peers.iter().map(|peer| format!("{:?}", peer.matches)).collect::<Vec<_>>();
    let ports =
        |ports: &Vec<Port>| ports.iter().map(|port| format!("{:?}", port.matches)).collect::<Vec<_>>();
    format!("{:?} {:?} {:?}", rule.action, rule.peers.as_ref().map(peers), rule.ports.as_ref().map(ports))
}

fn same<'a>(policies: &'a Policies, policy: &Policy) -> Option<&'a Policy> {
    let position = policies.list.binary_search_by(|known| known.id.cmp(&policy.id)).ok()?;
    policies.list.get(position)
}

fn differs(a: &Policy, b: &Policy) -> bool {
    let isolates = |policy: &Policy| (policy.ingress.is_some(), policy.egress.is_some());
    a.subject != b.subject || isolates(a) != isolates(b)
}
