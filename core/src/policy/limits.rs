//! Limits: how large tables may grow, and which policy is refused when they would grow larger.
//!
//! Invariant: nothing is programmed beyond a limit, and nothing is dropped silently: the policy whose addition
//! (in order of name) crosses it is named with what it costs, and all others stay in force.

use super::compile::Compiled;
use super::image::MAX_PORT_CLASSES;
use super::ruleset::{Rulesets, Size};
use crate::diagnostic::{Diagnostic, ObjectRef, Severity};
use crate::model::policy::{Policies, Policy};

/// Upper bounds for one node (or one question).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Peer classes.
    pub peer_classes: usize,
    /// Policy-map rows.
    pub rows: usize,
    /// Port classes of one table.
    pub port_classes: usize,
}

impl Default for Limits {
    /// Rows: 128 MiB of kernel memory at about 64 bytes a row.
    fn default() -> Self {
        Self { peer_classes: 65_536, rows: 2_000_000, port_classes: MAX_PORT_CLASSES }
    }
}

impl Limits {
    /// No limit but what the map layout can hold: for analysis, which writes no maps.
    pub fn layout_only() -> Self {
        Self { peer_classes: usize::MAX, rows: usize::MAX, port_classes: MAX_PORT_CLASSES }
    }

    /// True when the compiled tables keep every limit.
    pub(super) fn allow(&self, rulesets: &Rulesets) -> bool {
        self.crossed(rulesets.size()).is_none()
    }

    fn crossed(&self, size: Size) -> Option<String> {
        [
            ("peer classes", size.peer_classes, self.peer_classes),
            ("policy-map rows", size.rows, self.rows),
            ("port classes in one table", size.port_classes, self.port_classes),
        ]
        .into_iter()
        .find(|(_, have, limit)| have > limit)
        .map(|(what, have, limit)| format!("{have} {what}, the limit is {limit}"))
    }

    /// Leaves out, in order of name, each policy whose addition crosses a limit.
    pub(super) fn refuse(&self, policies: &Policies, build: impl Fn(Policies) -> Rulesets) -> Compiled {
        let mut accepted: Vec<Policy> = Vec::new();
        let mut diagnostics = Vec::new();
        let mut rest = policies.list.as_slice();
        loop {
            let with = |count: usize| {
                let list = accepted.iter().chain(&rest[..count]).cloned().collect();
                build(Policies { list })
            };
            // Tables only grow with policies, so the first count that crosses can be found by doubling, then halving.
            // Whoever crosses a limit seldom does so alone: then the next does too, and that costs one small build.
            let (mut fits, mut crosses) = (0, 1.min(rest.len()));
            loop {
                let tables = with(crosses);
                if !self.allow(&tables) && !rest.is_empty() {
                    break;
                }
                if crosses == rest.len() {
                    return Compiled { rulesets: tables, diagnostics };
                }
                fits = crosses;
                crosses = (crosses * 2).min(rest.len());
            }
            while crosses - fits > 1 {
                let middle = fits.midpoint(crosses);
                if self.allow(&with(middle)) { fits = middle } else { crosses = middle }
            }
            let culprit = &rest[fits];
            let reason = self.crossed(with(crosses).size()).unwrap_or_default();
            diagnostics.push(refusal(culprit, &reason));
            accepted.extend_from_slice(&rest[..fits]);
            rest = &rest[crosses..];
        }
    }
}

fn refusal(policy: &Policy, reason: &str) -> Diagnostic {
    Diagnostic {
        file: policy.source.file.clone(),
        position: policy.source.locate(""),
        code: "NL0401",
        severity: Severity::Error,
        object: Some(ObjectRef {
            kind: policy.id.kind.as_str().to_owned(),
            namespace: policy.id.namespace.clone(),
            name: policy.id.name.clone(),
        }),
        path: String::new(),
        message: format!("refused: with this policy the tables would have {reason}"),
        hint: Some("name fewer distinct ports or peers, or merge its rules into ranges".to_owned()),
    }
}
