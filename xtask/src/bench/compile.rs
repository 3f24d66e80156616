//! `cargo xtask bench compile`: what compiling costs, on the clusters of `netlab_core::testing::scale`.
//!
//! Each size runs in a process of its own, so that the peak of memory is that of one size: the model that was made, and
//! everything that compiling it needs.

use anyhow::Context as _;
use netlab_core::model::cluster::Cluster;
use netlab_core::model::policy::Policies;
use netlab_core::policy::{Limits, Numbers, Scope, compile_with};
use netlab_core::testing::scale::{Scale, node_name};

use super::figure::{Figure, processor_milliseconds};

/// Pods, policies, and what is promised: milliseconds and mebibytes.
const SIZES: [(u32, u32, f64, Option<f64>); 2] =
    [(10_000, 1_000, 150.0, None), (150_000, 5_000, 3_000.0, Some(1_024.0))];

/// What is promised for one pod's change, and for one policy's until it is in force (9 ms of that are the kernel's).
const POD_CHANGE: f64 = 0.1;
const POLICY_CHANGE: f64 = 20.0;

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
    let rulesets = compile(&node);
    let of_node = rulesets.size();
    // There is no shorter way than a whole compilation of the node on top of the numbers of the last one.
    let numbers = rulesets.numbers;
    let again = |cluster: &Cluster, list: &Policies| {
        processor_milliseconds(7, || compile_with(cluster, list, &node, &numbers, &Limits::default()))
    };
    let mut other_cluster = cluster.clone();
    if let Some(pod) = other_cluster.pods.values_mut().find(|pod| pod.node.as_ref() == Some(&node_name(0))) {
        pod.labels.insert("tier".to_owned(), "tier-none".to_owned());
    }
    let one_pod = again(&other_cluster, &list)?;
    drop(other_cluster);
    let mut other_list = list.clone();
    if let Some(policy) = other_list.list.first_mut() {
        policy.ingress.get_or_insert_default().pop();
    }
    let one_policy = again(&cluster, &other_list)?;
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
            figures.extend([
                Figure::median(&part, "one node of 110 pods", one_node.clone(), "ms"),
                Figure::median(&part, "one node: a pod changes", one_pod.clone(), "ms").at_most(POD_CHANGE),
                Figure::median(&part, "one node: a policy changes", one_policy.clone(), "ms")
                    .at_most(POLICY_CHANGE),
            ]);
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
    line(&status, name).with_context(|| format!("no {name} in /proc/self/status"))
}

/// A line of a process's status, in MiB.
pub(super) fn line(status: &str, name: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    let kibibytes = line.trim().strip_suffix(" kB")?.parse::<u32>().ok()?;
    Some(f64::from(kibibytes) / 1024.0)
}
