//! Findings that somebody has looked at and accepted: `CODE=Kind/namespace/name`.
//!
//! Invariant: a suppression that matches nothing is told, so that lists of them do not outlive their reasons.

use std::str::FromStr;

use super::Finding;
use crate::diagnostic::ObjectRef;
use crate::diagnostic::catalog;

/// One code on one object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Suppression {
    /// `NL0301`.
    pub code: &'static str,
    /// Which object.
    pub object: ObjectRef,
}

/// Why a text is no suppression.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SuppressionError {
    /// Not of the form.
    #[error("`{written}` is not CODE=Kind/namespace/name, nor CODE=Kind/name for kinds without a namespace")]
    Form {
        /// As written.
        written: String,
    },
    /// No such code.
    #[error("there is no code `{code}`; `netlab explain` lists all")]
    Code {
        /// As written.
        code: String,
    },
}

impl FromStr for Suppression {
    type Err = SuppressionError;

    fn from_str(written: &str) -> Result<Self, Self::Err> {
        let form = || SuppressionError::Form { written: written.to_owned() };
        let (code, object) = written.split_once('=').ok_or_else(form)?;
        let page = catalog::page(code).ok_or_else(|| SuppressionError::Code { code: code.to_owned() })?;
        let parts: Vec<&str> = object.split('/').collect();
        if parts.iter().any(|part| part.is_empty()) {
            return Err(form());
        }
        let (kind, namespace, name) = match parts.as_slice() {
            [kind, namespace, name] => (kind, Some((*namespace).to_owned()), name),
            [kind, name] => (kind, None, name),
            _ => return Err(form()),
        };
        let object = ObjectRef { kind: (*kind).to_owned(), namespace, name: (*name).to_owned() };
        Ok(Self { code: page.code, object })
    }
}

impl std::fmt::Display for Suppression {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ObjectRef { kind, namespace, name } = &self.object;
        match namespace {
            Some(namespace) => write!(f, "{}={kind}/{namespace}/{name}", self.code),
            None => write!(f, "{}={kind}/{name}", self.code),
        }
    }
}

impl Suppression {
    fn matches(&self, finding: &Finding) -> bool {
        finding.diagnostic.code == self.code && finding.diagnostic.object.as_ref() == Some(&self.object)
    }
}

/// Takes the suppressed findings out: how many they were, and the suppressions that matched nothing.
pub fn suppress(findings: &mut Vec<Finding>, suppressions: &[Suppression]) -> (usize, Vec<Suppression>) {
    let unused = suppressions.iter().filter(|one| !findings.iter().any(|finding| one.matches(finding)));
    let unused: Vec<Suppression> = unused.cloned().collect();
    let before = findings.len();
    findings.retain(|finding| !suppressions.iter().any(|one| one.matches(finding)));
    (before - findings.len(), unused)
}
