//! Who is behind a decision, as one process tells the other and as JSON says it.
//!
//! Invariant: the fields are those of a *side* and a *rule* in `docs/json.md`; everything comes from a citation.

use netlab_core::policy::Rulesets;
use netlab_core::policy::evaluate::TierName;
use netlab_core::policy::near_miss::NearMiss;
use netlab_core::policy::provenance::{PolicyRef, RuleRef};
use netlab_ebpf::reason::Reason;
use serde::{Deserialize, Serialize};

/// The rules and policies behind a decision.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Cause {
    /// `admin`, `networkPolicy`, `baseline`, `default` or `exempt`; empty when nobody knows the entry any more.
    pub(crate) tier: String,
    /// The rule that decided, if one did.
    pub(crate) rule: Option<Rule>,
    /// The rules that handed on, in order.
    pub(crate) passed: Vec<Rule>,
    /// The policies that isolate.
    pub(crate) isolated_by: Vec<Policy>,
    /// For a last drop by default deny: the rules that came closest.
    pub(crate) near_misses: Vec<Rule>,
    /// Policies whose order the API leaves open.
    pub(crate) tied: Vec<Policy>,
    /// The same on one line.
    #[serde(skip)]
    pub(super) because: String,
}

/// A rule, and where it is written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Rule {
    /// `NetworkPolicy`.
    pub(crate) kind: String,
    /// `metadata.namespace`.
    pub(crate) namespace: Option<String>,
    /// `metadata.name`.
    pub(crate) name: String,
    /// `spec.ingress[0].from[1]`.
    pub(crate) path: String,
    /// The rule's own name.
    #[serde(rename = "ruleName")]
    pub(crate) title: Option<String>,
    /// What it does, where rules say so.
    pub(crate) action: Option<String>,
    /// The port element that matched.
    pub(crate) port_path: Option<String>,
    /// The file.
    pub(crate) file: Option<String>,
    /// The line.
    pub(crate) line: Option<u32>,
    /// What kept it from matching, for a near miss.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
}

/// A policy, and where it is written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Policy {
    /// `NetworkPolicy`.
    pub(crate) kind: String,
    /// `metadata.namespace`.
    pub(crate) namespace: Option<String>,
    /// `metadata.name`.
    pub(crate) name: String,
    /// The file.
    pub(crate) file: Option<String>,
    /// The line.
    pub(crate) line: Option<u32>,
}

impl Cause {
    /// Of an entry.
    pub(super) fn cited(rulesets: &Rulesets, entry: u32) -> Self {
        let Some(citation) = rulesets.cite(entry) else { return Self::default() };
        Self {
            tier: tier(citation.tier.into()).to_owned(),
            rule: citation.rule.as_ref().map(Rule::of),
            passed: citation.passed.iter().map(Rule::of).collect(),
            isolated_by: citation.isolated_by.iter().map(Policy::of).collect(),
            near_misses: Vec::new(),
            tied: citation.tied.iter().map(Policy::of).collect(),
            // A reason that is built in says it all by its name.
            because: if citation.reason == Reason::Row { citation.because() } else { String::new() },
        }
    }

    /// With what came close.
    pub(super) fn with_near_misses(mut self, near_misses: &[NearMiss]) -> Self {
        let near = |near: &NearMiss| Rule { reason: Some(near.reason.clone()), ..Rule::of(&near.rule) };
        self.near_misses = near_misses.iter().map(near).collect();
        self
    }
}

const fn tier(name: TierName) -> &'static str {
    match name {
        TierName::Admin => "admin",
        TierName::NetworkPolicy => "networkPolicy",
        TierName::Baseline => "baseline",
        TierName::Default => "default",
        TierName::Exempt => "exempt",
    }
}

fn text(text: &str) -> String {
    text.to_owned()
}

impl Rule {
    fn of(rule: &RuleRef) -> Self {
        Self {
            kind: rule.kind.to_owned(),
            namespace: rule.namespace.clone(),
            name: rule.name.clone(),
            path: rule.path.clone(),
            title: rule.rule_name.as_deref().map(text),
            action: rule.action.map(text),
            port_path: rule.port_path.clone(),
            file: rule.file.as_deref().map(text),
            line: rule.line,
            reason: None,
        }
    }

    /// `NetworkPolicy shop/db spec.ingress[0].from[1]`, with the action and the rule's own name where it has them.
    pub(crate) fn words(&self) -> String {
        let mut words =
            format!("{} {} {}", self.kind, qualified(self.namespace.as_deref(), &self.name), self.path);
        if let Some(action) = &self.action {
            words.push_str(&format!(" {action}"));
        }
        if let Some(name) = &self.title {
            words.push_str(&format!(" \"{name}\""));
        }
        words
    }
}

impl Policy {
    fn of(policy: &PolicyRef) -> Self {
        Self {
            kind: policy.kind.to_owned(),
            namespace: policy.namespace.clone(),
            name: policy.name.clone(),
            file: policy.file.as_deref().map(text),
            line: policy.line,
        }
    }

    /// `NetworkPolicy shop/db`.
    pub(crate) fn words(&self) -> String {
        format!("{} {}", self.kind, qualified(self.namespace.as_deref(), &self.name))
    }
}

fn qualified(namespace: Option<&str>, name: &str) -> String {
    namespace.map_or_else(|| name.to_owned(), |namespace| format!("{namespace}/{name}"))
}
