//! From an entry back to who put it there: the rule, what else matched, the policies that isolate.
//!
//! Invariant: every entry id that a compilation gave out can be cited, and so can every built-in one. A default
//! deny has no rule to cite, so it cites the whole set of policies that isolate.

use std::sync::Arc;

use netlab_ebpf::abi::Direction;
use netlab_ebpf::reason::{Reason, Tier};
use serde::Serialize;

use super::change::Verdict;
use super::ruleset::{Matched, Rulesets, Table};
use crate::model::policy::Policy;

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

    pub(super) fn new(policy: &Policy, path: &str, port_path: Option<String>) -> Self {
        Self {
            kind: policy.id.kind.as_str(),
            namespace: policy.id.namespace.clone(),
            name: policy.id.name.clone(),
            path: path.to_owned(),
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
    /// Other rules that matched too.
    pub losers: Vec<RuleRef>,
    /// The policies that isolate in this direction.
    pub isolated_by: Vec<PolicyRef>,
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
        Some(Citation {
            entry,
            reason: Reason::Row,
            direction: Some(*direction),
            verdict: decision.verdict,
            tier: decision.tier,
            rule: decision.winner.map(|matched| self.rule_ref(table, matched)),
            losers: decision.losers.into_iter().map(|matched| self.rule_ref(table, matched)).collect(),
            isolated_by: table
                .isolated_by
                .iter()
                .map(|index| policy_ref(&self.policies.list[*index as usize]))
                .collect(),
        })
    }

    fn rule_ref(&self, table: &Table, matched: Matched) -> RuleRef {
        let (policy, rule) = self.rule(table, matched.rule);
        let peer = matched.peer.and_then(|index| rule.peers.as_ref()?.get(index as usize));
        let port = matched.port.and_then(|index| rule.ports.as_ref()?.get(index as usize));
        let path = peer.map_or(&rule.path, |peer| &peer.path);
        RuleRef::new(policy, path, port.map(|port| port.path.to_string()))
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
        losers: Vec::new(),
        isolated_by: Vec::new(),
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
