//! DNS: egress that leaves no way to it, and servers that do not admit who asks.
//!
//! Sources: resolvers ask over UDP and repeat over TCP what did not fit (RFC 7766); a policy sees the DNS pods and their
//! port, not the Service; where a cache runs on each node, pods ask an address of their node. Invariant: asked of the compiled
//! tables, once per ruleset, and told of who decides there: the rule that denies, of whatever tier, or the policies that isolate.

mod egress;
mod ingress;
mod servers;

use std::collections::BTreeSet;

use super::finding::Finding;
use super::ground::{Ground, is_written, rules};
use super::tables::decision;
use crate::diagnostic::Diagnostic;
use crate::model::port::Protocol;
use crate::policy::change::Verdict;
use crate::policy::classes::ClassIndex;
use crate::policy::decide::Decision;
use crate::policy::ruleset::Table;

pub(super) fn find(ground: &Ground<'_>, findings: &mut Vec<Finding>) {
    let servers = servers::Servers::of(ground);
    egress::find(ground, &servers, findings);
    ingress::find(ground, &servers, findings);
}

/// Why packets are denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Cause {
    /// A rule says so.
    Rule { policy: u32, rule: u32 },
    /// This policy isolates, and no rule admits.
    Isolation { policy: u32 },
}

impl Cause {
    /// The causes of a decision; none where it allows, and none where a tie leaves it open, which is told elsewhere.
    fn of(table: &Table, decision: &Decision) -> BTreeSet<Self> {
        match decision.winner.map(|winner| &table.rules[winner.rule as usize]) {
            _ if is_open(decision) => BTreeSet::new(),
            Some(rule) => BTreeSet::from([Self::Rule { policy: rule.policy, rule: rule.rule }]),
            None => table.isolated_by.iter().map(|policy| Self::Isolation { policy: *policy }).collect(),
        }
    }

    const fn policy(self) -> u32 {
        match self {
            Self::Rule { policy, .. } | Self::Isolation { policy } => policy,
        }
    }

    /// A finding at the field that is the cause; `side` is the field with the policy's rules.
    fn finding(self, ground: &Ground<'_>, table: &Table, side: &str, diagnostic: Diagnostic) -> Finding {
        let policy = &ground.policies.list[self.policy() as usize];
        let path = match self {
            Self::Rule { rule, .. } => {
                rules(policy, table.direction).get(rule as usize).map(|rule| rule.path.to_string())
            }
            Self::Isolation { .. } => None,
        };
        let path = path.unwrap_or_else(|| format!("spec.{side}"));
        Finding::at(policy, if is_written(policy, &path) { &path } else { "spec" }, diagnostic)
    }
}

/// True when packets pass, or when the order of policies that tie decides whether they do.
fn is_open(decision: &Decision) -> bool {
    decision.verdict == Verdict::Allow || !decision.tied.is_empty()
}

/// What a table says of a port of an address class; `None` for a protocol that it does not tell apart.
fn of_target(table: &Table, (class, port): (ClassIndex, u16), protocol: Protocol) -> Option<Decision> {
    decision(table, &table.rows[table.row(class) as usize], protocol, port)
}
