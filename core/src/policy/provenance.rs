//! From an entry back to who put it there: the rule, what else matched, the policies that isolate.
//!
//! Invariant: every entry id that a compilation gave out can be cited, and so can every built-in one. A default
//! deny has no rule to cite, so it cites the whole set of policies that isolate; a default allow in a table cites
//! the policies that act on the pod and do not match.

use std::sync::Arc;

use netlab_ebpf::abi::Direction;
use netlab_ebpf::reason::{Reason, Tier};
use serde::Serialize;

use super::change::Verdict;
use super::ruleset::{Matched, Rulesets, Table};
use crate::model::policy::{Policy, Rule};

/// A policy, and where it is written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PolicyRef {
    /// `NetworkPolicy`.
    pub kind: &'static str,
    /// `metadata.namespace`.
    pub namespace: Option<String>,
    /// `metadata.name`.
    pub name: String,
    /// The file, if it came from one.
    pub file: Option<Arc<str>>,
    /// The line, from 1.
    pub line: Option<u32>,
}

impl PolicyRef {
    /// `namespace/name`.
    pub fn qualified_name(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("{namespace}/{}", self.name),
            None => self.name.clone(),
        }
    }
}

/// A part of a policy, and where it is written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RuleRef {
    /// `NetworkPolicy`.
    pub kind: &'static str,
    /// `metadata.namespace`.
    pub namespace: Option<String>,
    /// `metadata.name`.
    pub name: String,
    /// The peer that matched, `spec.ingress[0].from[1]`, or the rule when it names no peers.
    pub path: String,
    /// The rule's own name, where its kind has names.
    pub rule_name: Option<Arc<str>>,
    /// What the rule does, in its kind's words, where rules have an action: `Allow`, `Accept`, `Deny` or `Pass`.
    pub action: Option<&'static str>,
    /// The element of `ports` that matched, if the rule has any.
    pub port_path: Option<String>,
    /// The file, if it came from one.
    pub file: Option<Arc<str>>,
    /// The line of `path`, from 1.
    pub line: Option<u32>,
    /// `metadata.uid`, if an API server gave one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<Arc<str>>,
    /// `metadata.resourceVersion`, if an API server gave one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<Arc<str>>,
}

impl RuleRef {
    /// `namespace/name`.
    pub fn qualified_name(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("{namespace}/{}", self.name),
            None => self.name.clone(),
        }
    }

    pub(super) fn new(policy: &Policy, rule: &Rule, path: &str, port_path: Option<String>) -> Self {
        let kind = policy.id.kind;
        Self {
            kind: kind.as_str(),
            namespace: policy.id.namespace.clone(),
            name: policy.id.name.clone(),
            path: path.to_owned(),
            rule_name: rule.name.clone(),
            action: kind.is_ordered().then(|| kind.action_word(rule.action)),
            port_path,
            file: policy.source.file.clone(),
            line: policy.source.locate(path).map(|position| position.line),
            uid: policy.source.uid.clone(),
            resource_version: policy.source.resource_version.clone(),
        }
    }
}

/// What an entry stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Citation {
    /// The entry.
    pub entry: u32,
    /// [`Reason::Row`] for compiled entries, else the built-in reason.
    pub reason: Reason,
    /// The direction, for compiled entries.
    pub direction: Option<Direction>,
    /// What it says.
    pub verdict: Verdict,
    /// Who decided.
    pub tier: Tier,
    /// The rule that won, if one did.
    pub rule: Option<RuleRef>,
    /// The `Pass` rules that led there, in order.
    pub passed: Vec<RuleRef>,
    /// Other rules that matched too: not needed, outranked, or never asked.
    pub losers: Vec<RuleRef>,
    /// The policies that isolate in this direction.
    pub isolated_by: Vec<PolicyRef>,
    /// The policies of every tier that act on the pod in this direction.
    pub acting: Vec<PolicyRef>,
    /// The policies whose order the API leaves open and on which the verdict depends; then the tables deny.
    pub tied: Vec<PolicyRef>,
}

impl Citation {
    /// Who put the entry there, on one line: the policies of a tie, the rule, those that isolate, or what decides where
    /// none of these does.
    pub fn because(&self) -> String {
        if !self.tied.is_empty() {
            return format!("{}: denied", super::evaluate::tie_words(&self.tied));
        }
        match &self.rule {
            Some(rule) => {
                let action = rule.action.map(|action| format!(" {action}")).unwrap_or_default();
                format!("{} {} {}{action}", rule.kind, rule.qualified_name(), rule.path)
            }
            None if self.isolated_by.is_empty() => self.words(),
            None => {
                let names: Vec<String> = self.isolated_by.iter().map(PolicyRef::qualified_name).collect();
                format!("default deny: {}", names.join(", "))
            }
        }
    }

    /// What decided, in words, when it was no rule.
    pub fn words(&self) -> String {
        if self.reason != Reason::Row {
            return self.reason.describe().to_owned();
        }
        if self.verdict == Verdict::Deny {
            return "default deny: isolated, and no rule admits".to_owned();
        }
        let mut kinds: Vec<&'static str> = self.acting.iter().map(|policy| policy.kind).collect();
        kinds.dedup();
        let names = match self.acting.as_slice() {
            few @ ([_] | [_, _] | [_, _, _]) => {
                let names = few.iter().map(|policy| format!("{} {}", policy.kind, policy.qualified_name()));
                names.collect::<Vec<_>>().join(" or ")
            }
            many => format!("{} policies ({})", many.len(), kinds.join(", ")),
        };
        let tiers = if self.passed.is_empty() { "" } else { " finally" };
        format!("no rule of {names} applies{tiers}, and not isolated by NetworkPolicy")
    }
}

impl PolicyRef {
    /// `AdminNetworkPolicy guard`.
    pub fn kind_and_name(&self) -> String {
        format!("{} {}", self.kind, self.qualified_name())
    }
}

impl Rulesets {
    /// Cites an entry; `None` for an id that this compilation did not give out.
    pub fn cite(&self, entry: u32) -> Option<Citation> {
        if let Some(reason) = Reason::from_entry(entry) {
            return Some(built_in(reason));
        }
        let position = self.tables.partition_point(|(first, ..)| *first <= entry);
        let first = self.tables.get(position.checked_sub(1)?)?.0;
        // Rulesets with equal tables share their entries; any of them can be cited.
        let (_, ruleset, direction) = self.tables[..position].iter().find(|(start, ..)| *start == first)?;
        let table = self.list.get(*ruleset as usize)?.table(*direction)?;
        let (row, port_class) = table.cell_of(entry)?;
        let decision = table.decide(row, port_class);
        let rules = |matched: Vec<Matched>| -> Vec<RuleRef> {
            matched.into_iter().map(|matched| self.rule_ref(table, matched)).collect()
        };
        let policies = |indices: &[u32]| -> Vec<PolicyRef> {
            indices.iter().map(|index| policy_ref(&self.policies.list[*index as usize])).collect()
        };
        Some(Citation {
            entry,
            reason: Reason::Row,
            direction: Some(*direction),
            verdict: decision.verdict,
            tier: decision.tier,
            rule: decision.winner.map(|matched| self.rule_ref(table, matched)),
            passed: rules(decision.passed),
            losers: rules(decision.losers),
            isolated_by: policies(&table.isolated_by),
            acting: policies(&table.acting),
            tied: policies(&decision.tied),
        })
    }

    pub(super) fn rule_ref(&self, table: &Table, matched: Matched) -> RuleRef {
        let (policy, rule) = self.rule(table, matched.rule);
        let peer = matched.peer.and_then(|index| rule.peers.as_ref()?.get(index as usize));
        let port = matched.port.and_then(|index| rule.ports.as_ref()?.get(index as usize));
        let path = peer.map_or(&rule.path, |peer| &peer.path);
        RuleRef::new(policy, rule, path, port.map(|port| port.path.to_string()))
    }
}

fn built_in(reason: Reason) -> Citation {
    let verdict =
        if reason.verdict() == netlab_ebpf::abi::PolicyValue::ALLOW { Verdict::Allow } else { Verdict::Deny };
    let tier = match reason {
        Reason::NotIsolatedIngress | Reason::NotIsolatedEgress => Tier::Default,
        _ => Tier::Exempt,
    };
    Citation {
        entry: reason.entry(),
        reason,
        direction: None,
        verdict,
        tier,
        rule: None,
        passed: Vec::new(),
        losers: Vec::new(),
        isolated_by: Vec::new(),
        acting: Vec::new(),
        tied: Vec::new(),
    }
}

/// A policy as cited.
pub(super) fn policy_ref(policy: &Policy) -> PolicyRef {
    PolicyRef {
        kind: policy.id.kind.as_str(),
        namespace: policy.id.namespace.clone(),
        name: policy.id.name.clone(),
        file: policy.source.file.clone(),
        line: policy.source.locate("").map(|position| position.line),
    }
}
