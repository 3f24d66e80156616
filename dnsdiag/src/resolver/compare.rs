//! Plans side by side, and why one library resolves what another does not.

use serde::Serialize;

use super::QueryPlan;

/// Several plans for the same name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Comparison {
    /// One for each library.
    pub plans: Vec<QueryPlan>,
    /// What makes the difference, in words; empty when there is none.
    pub because: Vec<String>,
}

/// Compares.
pub fn compare(plans: Vec<QueryPlan>) -> Comparison {
    Comparison { because: Vec::new(), plans }
}
