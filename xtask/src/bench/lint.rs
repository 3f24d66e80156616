//! `cargo xtask bench lint`: what reading a policy set like an expert costs, compilation included.

use netlab_core::policy::lint::lint;
use netlab_core::testing::scale::Scale;

use super::figure::{Figure, processor_milliseconds};

/// What is promised, in milliseconds.
const MOST: f64 = 2_000.0;

/// Clusters of one size, and of ten times its pods.
pub(crate) fn all() -> anyhow::Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for (pods, policies, most) in [(1_000, 1_000, None), (10_000, 1_000, Some(MOST))] {
        let part = format!("lint {pods} pods x {policies} policies");
        let (cluster, list) = Scale { pods, policies }.model();
        let times = processor_milliseconds(5, || lint(&cluster, &list, Vec::new()))?;
        let figure = Figure::median(&part, "everything", times, "ms");
        figures.push(most.into_iter().fold(figure, Figure::at_most));
        let findings = lint(&cluster, &list, Vec::new()).findings.len();
        let findings = f64::from(u32::try_from(findings).unwrap_or(u32::MAX));
        figures.push(Figure::count(&part, "findings", findings, ""));
    }
    Ok(figures)
}
