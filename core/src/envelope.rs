//! The envelope of every JSON answer: what it is, and whether anything was left out.
//!
//! Invariant: `complete` is false exactly when `notExamined` is not empty. Whoever computes an answer owns the
//! type inside.

use serde::Serialize;

/// `apiVersion` of every answer.
pub const API_VERSION: &str = "netlab.dev/v1";

/// An answer with its envelope.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Envelope<T> {
    /// [`API_VERSION`].
    pub api_version: &'static str,
    /// The answer's kind, `Evaluation` or `Proof` for instance.
    pub kind: &'static str,
    /// False when something could not be examined.
    pub complete: bool,
    /// What was not examined, in words.
    pub not_examined: Vec<String>,
    /// The answer's own fields, beside the others.
    #[serde(flatten)]
    pub answer: T,
}

impl<T> Envelope<T> {
    /// Wraps an answer.
    pub fn new(kind: &'static str, answer: T, not_examined: Vec<String>) -> Self {
        Self { api_version: API_VERSION, kind, complete: not_examined.is_empty(), not_examined, answer }
    }
}
