//! Diagnostics as data: what is wrong, with which object and field, and what to do.
//!
//! Invariant: every code has a page in [`catalog`]; rendering happens elsewhere. A diagnostic of severity
//! [`Severity::Error`] means that its object was left out, so the run is incomplete.

pub mod catalog;

use std::sync::Arc;

use serde::Serialize;

use crate::model::source::Position;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The object was left out.
    Error,
    /// The object stands, but probably does not mean what was intended.
    Warning,
    /// Worth knowing.
    Note,
}

/// Which object a diagnostic is about, as far as it could be read.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct ObjectRef {
    /// `kind`.
    pub kind: String,
    /// `metadata.namespace`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// `metadata.name`.
    pub name: String,
}

impl std::fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{} {namespace}/{}", self.kind, self.name),
            None => write!(f, "{} {}", self.kind, self.name),
        }
    }
}

/// One finding about the input.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Diagnostic {
    /// The file, as the user named it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<Arc<str>>,
    /// Where in the file.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub position: Option<Position>,
    /// `NL0101`; see [`catalog`].
    pub code: &'static str,
    /// How bad.
    pub severity: Severity,
    /// Which object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<ObjectRef>,
    /// Field path, `spec.ingress[0].from[1]`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// What is wrong, one line, no full stop.
    pub message: String,
    /// What to do, one line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}
