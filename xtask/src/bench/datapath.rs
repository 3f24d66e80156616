//! `cargo xtask bench datapath`: what a packet costs in the kernel. Measured by the benchmark of the enforcer, which
//! knows the programs; shown here.

use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};
use serde::Deserialize;

use super::figure::Figure;

/// A figure as the benchmark prints it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    part: String,
    what: String,
    unit: String,
    runs: Vec<f64>,
    target: Option<f64>,
}

/// Every figure of the datapath. Needs root.
pub(crate) fn all() -> anyhow::Result<Vec<Figure>> {
    let output = Command::new(env!("CARGO"))
        .args(["bench", "--quiet", "--package", "netlab-enforcer", "--bench", "datapath"])
        .stderr(Stdio::inherit())
        .output()
        .context("cannot run cargo")?;
    if !output.status.success() {
        bail!("the benchmark of the datapath ended with {}: it needs root and BPF", output.status);
    }
    let rows: Vec<Row> =
        serde_json::from_slice(&output.stdout).context("the benchmark of the datapath gave no figures")?;
    Ok(rows.into_iter().map(figure).collect())
}

fn figure(row: Row) -> Figure {
    let figure = match row.runs.as_slice() {
        [one] => Figure::count(&row.part, row.what, *one, &row.unit),
        _ => Figure::median(&row.part, row.what, row.runs, &row.unit),
    };
    Figure { target: row.target, ..figure }
}
