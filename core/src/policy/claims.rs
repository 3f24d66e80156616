//! Claims: what somebody expects policies to do, written down to be tried again.
//!
//! Read from netlab's own form and from the two that `netassert` has. Invariant: every element of a file becomes a
//! claim or a diagnostic with its place; nothing that was not understood is skipped. Whether a claim holds is for
//! others to find out.

mod file;
mod netassert;
mod record;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use thiserror::Error;

pub use record::{Draft, Point, apart, points};

use crate::diagnostic::{Diagnostic, code};
use crate::endpoint_ref::{EndpointRef, PortRef, ProtocolRef};
use crate::input::node::{Node, Value};
use crate::input::{Budget, Document, yaml};
use crate::model::cluster::Cluster;
use crate::policy::change::Verdict;
use crate::policy::provenance::{PolicyRef, RuleRef};

/// An expectation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Its name, if it has one.
    pub name: Option<String>,
    /// Who opens.
    pub from: EndpointRef,
    /// To whom.
    pub to: EndpointRef,
    /// Which port.
    pub port: Option<PortRef>,
    /// Which protocol, where the port does not say.
    pub protocol: Option<ProtocolRef>,
    /// What is expected.
    pub expect: Verdict,
    /// Who is to decide it, if that matters.
    pub by: Option<Decider>,
    /// The file.
    pub file: Arc<str>,
    /// The line in it, from 1.
    pub line: u32,
    /// The column, from 1.
    pub column: u32,
}

/// A policy, and perhaps one of its rules: `NetworkPolicy shop/db spec.ingress[0]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decider {
    kind: String,
    namespace: Option<String>,
    name: String,
    path: String,
}

/// A text that names no policy.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{text}` names no policy: write `NetworkPolicy shop/db`, or with a path `… spec.ingress[0]`")]
pub struct NotADecider {
    text: String,
}

impl FromStr for Decider {
    type Err = NotADecider;

    fn from_str(text: &str) -> Result<Self, NotADecider> {
        let wrong = || NotADecider { text: text.to_owned() };
        let mut words = text.split_whitespace();
        let first = words.next().ok_or_else(wrong)?;
        // `NetworkPolicy/shop/db` is what `--without` takes, `NetworkPolicy shop/db` what answers print.
        let (kind, name) = match first.split_once('/') {
            Some((kind, name)) => (kind, name),
            None => (first, words.next().ok_or_else(wrong)?),
        };
        let path = words.next().unwrap_or_default().to_owned();
        let is_path = path.is_empty() || path.starts_with("spec");
        if words.next().is_some() || !is_path || !kind.ends_with("NetworkPolicy") {
            return Err(wrong());
        }
        let (namespace, name) = match name.split_once('/') {
            Some((namespace, name)) => (Some(namespace.to_owned()), name),
            None => (None, name),
        };
        Ok(Self { kind: kind.to_owned(), namespace, name: name.to_owned(), path })
    }
}

impl fmt::Display for Decider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.kind)?;
        if let Some(namespace) = &self.namespace {
            write!(f, "{namespace}/")?;
        }
        f.write_str(&self.name)?;
        if self.path.is_empty() { Ok(()) } else { write!(f, " {}", self.path) }
    }
}

impl Decider {
    /// True when the rule is the one that is meant, or a part of it.
    pub fn is_rule(&self, rule: &RuleRef) -> bool {
        let below = rule.path.strip_prefix(&self.path);
        self.is(rule.kind, rule.namespace.as_deref(), &rule.name)
            && below
                .is_some_and(|rest| rest.is_empty() || self.path.is_empty() || rest.starts_with(['.', '[']))
    }

    /// True when the policy is the one that is meant, and no rule of it is.
    pub fn is_policy(&self, policy: &PolicyRef) -> bool {
        self.path.is_empty() && self.is(policy.kind, policy.namespace.as_deref(), &policy.name)
    }

    fn is(&self, kind: &str, namespace: Option<&str>, name: &str) -> bool {
        self.kind == kind && self.name == name && self.namespace.as_deref() == namespace
    }
}

/// What a file of claims holds.
#[derive(Debug, Default)]
pub struct Claims {
    /// The claims, in the file's order.
    pub list: Vec<Claim>,
    /// What could not be read, and what is not supported.
    pub diagnostics: Vec<Diagnostic>,
}

/// Reads claims. The cluster tells names of Services from names of the world.
pub fn read(document: &Document, cluster: &Cluster, budget: &Budget) -> Claims {
    let mut claims = Claims::default();
    for parsed in yaml::read(&document.text, budget) {
        let mut reader = Reader { file: &document.name, cluster, claims: &mut claims };
        match parsed {
            Err(problem) => reader.complain(*problem),
            Ok(parsed) if !parsed.faults.is_empty() => {
                parsed.faults.into_iter().for_each(|fault| reader.complain(fault));
            }
            Ok(parsed) => reader.document(&parsed.root),
        }
    }
    claims
}

/// Takes a document apart.
struct Reader<'a> {
    file: &'a Arc<str>,
    cluster: &'a Cluster,
    claims: &'a mut Claims,
}

impl Reader<'_> {
    fn document(&mut self, root: &Node<'_>) {
        match &root.value {
            Value::Null => {}
            Value::Sequence(items) => self.list(items),
            Value::Mapping(_) if root.get("k8s").is_some() || root.get("host").is_some() => {
                self.netassert_1(root);
            }
            Value::Mapping(entries) if root.get("claims").is_some() => self.own_file(entries),
            _ => self.refuse(
                root,
                format!("{}, where claims should be", root.describe()),
                "write `claims:` and a list of `from`, `to`, `port`, `expect`",
            ),
        }
    }

    fn list(&mut self, items: &[Node<'_>]) {
        for item in items {
            if ["src", "dst", "exitCode", "targetPort"].iter().any(|key| item.get(key).is_some()) {
                self.netassert_2(item);
            } else {
                self.own(item);
            }
        }
    }

    fn complain(&mut self, diagnostic: Diagnostic) {
        self.claims.diagnostics.push(diagnostic.in_file(self.file));
    }

    /// This is no claim.
    fn refuse(&mut self, node: &Node<'_>, message: impl Into<String>, hint: impl Into<String>) {
        self.complain(Diagnostic::error(code::CLAIM_INVALID, message).at(node.position).with_hint(hint));
    }

    /// This is a part of another tool's file that netlab cannot try.
    fn unsupported(&mut self, node: &Node<'_>, message: impl Into<String>, hint: impl Into<String>) {
        self.complain(
            Diagnostic::error(code::CLAIM_NOT_SUPPORTED, message).at(node.position).with_hint(hint),
        );
    }
}

/// A scalar as it was written.
fn scalar(node: &Node<'_>) -> Option<String> {
    match &node.value {
        Value::String(text) | Value::Int { text, .. } => Some(text.to_string()),
        _ => None,
    }
}
