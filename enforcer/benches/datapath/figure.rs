//! What is handed to `cargo xtask bench`.

use serde::Serialize;

/// Anything that ends a measurement.
pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;

/// One figure with all of its runs.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Row {
    /// Which table it belongs to.
    pub(crate) part: String,
    /// What was measured.
    pub(crate) what: String,
    /// Of all numbers here.
    pub(crate) unit: &'static str,
    /// Every run.
    pub(crate) runs: Vec<f64>,
    /// At most this was promised.
    pub(crate) target: Option<f64>,
}

impl Row {
    /// The median of the runs.
    pub(crate) fn median(&self) -> f64 {
        median(self.runs.clone())
    }
}

/// The middle of some numbers; 0 of none.
pub(crate) fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers.get(numbers.len() / 2).copied().unwrap_or_default()
}
