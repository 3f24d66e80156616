//! `cargo xtask bench compile`: what compiling costs, on the clusters of `netlab_core::testing::scale`.
//!
//! Each size runs in a process of its own, so that the peak of memory is that of one size: the model that was made, and
//! everything that compiling it needs.

use anyhow::Context as _;
use netlab_core::policy::{Limits, Numbers, Scope, compile_with};
use netlab_core::testing::scale::{Scale, node_name};

use super::figure::{Figure, processor_milliseconds};

/// Pods, policies, and what is promised: milliseconds and mebibytes.
const SIZES: [(u32, u32, f64, Option<f64>); 2] =
    [(10_000, 1_000, 150.0, None), (150_000, 5_000, 3_000.0, Some(1_024.0))];

/// All sizes.
pub(crate) fn all() -> anyhow::Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for (pods, policies, ..) in SIZES {
        figures.extend(super::apart(["compile-here", &pods.to_string(), &policies.to_string()])?);
    }
    Ok(figures)
}

/// One size, in this process.
pub(crate) fn here(pods: u32, policies: u32) -> anyhow::Result<Vec<Figure>> {
    let part = format!("compile {pods} pods x {policies} policies");
    let target = SIZES.iter().find(|size| (size.0, size.1) == (pods, policies));
    let (cluster, list) = Scale { pods, policies }.model();
    let model = mebibytes("VmRSS")?;
    let compile = |scope: &Scope| {
        compile_with(&cluster, &list, scope, &Numbers::default(), &Limits::layout_only()).rulesets
    };
    let runs = if pods > 50_000 { 3 } else { 7 };
    let times = processor_milliseconds(runs, || compile(&Scope::Cluster))?;
    let peak = mebibytes("VmHWM")?;
    let whole = compile(&Scope::Cluster).size();
    let node = Scope::Node(node_name(0));
    let one_node = processor_milliseconds(7, || compile(&node))?;
    let of_node = compile(&node).size();
    let whole_cluster = Figure::median(&part, "whole cluster", times, "ms");
    let memory = Figure::count(&part, "peak of resident memory, with the model", peak, "MiB");
    let mut figures = vec![
        target.iter().fold(whole_cluster, |figure, target| figure.at_most(target.2)),
        target.iter().filter_map(|target| target.3).fold(memory, Figure::at_most),
        Figure::count(&part, "of that, the model", model, "MiB"),
    ];
    for (what, size) in [("whole cluster", whole), ("one node", of_node)] {
        for (name, count) in [
            ("rulesets", size.rulesets),
            ("peer classes", size.peer_classes),
            ("entries", size.entries),
            ("policy-map rows", size.rows),
        ] {
            figures.push(Figure::count(&part, format!("{what}: {name}"), exact(count), ""));
        }
        if what == "whole cluster" {
            figures.push(Figure::median(&part, "one node of 110 pods", one_node.clone(), "ms"));
        }
    }
    Ok(figures)
}

/// Counts of things in memory are far below 2^53.
#[expect(clippy::cast_precision_loss, reason = "smaller than 2^53")]
fn exact(count: usize) -> f64 {
    count as f64
}

/// A line of `/proc/self/status`: `VmHWM` is the peak of resident memory.
fn mebibytes(name: &str) -> anyhow::Result<f64> {
    let status = std::fs::read_to_string("/proc/self/status").context("cannot read /proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let kibibytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u32>().ok());
    Ok(f64::from(kibibytes.with_context(|| format!("no {name} in /proc/self/status"))?) / 1024.0)
}
