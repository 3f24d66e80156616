//! `cargo xtask bench connections`: who may talk to whom, over the cluster of `netlab_core::testing::scale`.
//!
//! The class table is measured in this process, the model being in memory; the rows are those of the command, from the
//! first byte that it writes to the last.

use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, bail};
use netlab_core::input::wire::meta::OwnerReference;
use netlab_core::model::cluster::WorkloadRef;
use netlab_core::policy::connections::{Focus, HostNetwork, as_if_running, connections};
use netlab_core::policy::{Limits, Numbers, Scope, compile_with};
use netlab_core::testing::manifest;
use netlab_core::testing::scale::Scale;

use super::figure::{Figure, milliseconds};

const SCALE: Scale = Scale { pods: 10_000, policies: 1_000 };
/// The label that a workload has alone, and what owns its pods: the generator says it of neither.
const WORKLOAD: &str = "app";
const KIND: &str = "ReplicaSet";
/// What the class table may take.
const MILLISECONDS: f64 = 1_000.0;
/// What the command may need at most, in MiB.
const MEBIBYTES: f64 = 500.0;

/// The class table, then the rows in each form that streams.
pub(crate) fn all() -> anyhow::Result<Vec<Figure>> {
    let part = format!("connections {} pods x {} policies", SCALE.pods, SCALE.policies);
    let (mut cluster, policies) = SCALE.model();
    for pod in cluster.pods.values_mut() {
        pod.controller =
            pod.labels.get(WORKLOAD).map(|name| WorkloadRef { kind: KIND.to_owned(), name: name.clone() });
    }
    let times = milliseconds(5, || {
        let running = as_if_running(&cluster, &policies, HostNetwork::AsPods);
        let limits = Limits::layout_only();
        let compiled = compile_with(&running, &policies, &Scope::Cluster, &Numbers::default(), &limits);
        connections(&running, &compiled.rulesets, &Focus::default()).list.len()
    });
    let mut figures = vec![Figure::median(&part, "class table", times, "ms").at_most(MILLISECONDS)];
    drop((cluster, policies));
    let netlab = super::prove::release()?;
    let directory = std::env::temp_dir().join(format!("netlab-bench-{}", std::process::id()));
    std::fs::create_dir_all(&directory).context("cannot make a directory")?;
    let mut objects = SCALE.objects();
    for pod in &mut objects.pods {
        let workload = pod.metadata.labels.as_ref().and_then(|labels| labels.get(WORKLOAD)).cloned();
        let owner = |name| OwnerReference {
            kind: KIND.to_owned(),
            name,
            controller: Some(true),
            ..OwnerReference::default()
        };
        pod.metadata.owner_references = workload.map(|name| vec![owner(name)]);
    }
    let written = std::fs::write(directory.join("scale.yaml"), manifest::write(&objects));
    drop(objects);
    let rows = written.context("cannot write manifests").and_then(|()| {
        ["csv", "json", "wide"]
            .into_iter()
            .map(|format| rows(&netlab, &directory, format, &part))
            .collect::<anyhow::Result<Vec<_>>>()
    });
    std::fs::remove_dir_all(&directory).context("cannot remove the directory")?;
    figures.extend(rows?.into_iter().flatten());
    Ok(figures)
}

/// How fast the rows of one form come, and the peak of memory.
fn rows(netlab: &Path, input: &Path, format: &str, part: &str) -> anyhow::Result<Vec<Figure>> {
    let mut child = Command::new(netlab)
        .args(["policy", "connections", "-o", format, "-f"])
        .arg(input)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .context("netlab does not start")?;
    let mut pipe = child.stdout.take().context("no pipe")?;
    let mut buffer = vec![0_u8; 1 << 20];
    let mut bytes = pipe.read(&mut buffer).context("netlab wrote nothing")?;
    let (first, mut peak) = (Instant::now(), 0.0_f64);
    let status = format!("/proc/{}/status", child.id());
    loop {
        // While it still writes it is still there.
        if let Some(now) =
            std::fs::read_to_string(&status).ok().and_then(|text| super::compile::line(&text, "VmHWM"))
        {
            peak = peak.max(now);
        }
        match pipe.read(&mut buffer).context("netlab stopped writing")? {
            0 => break,
            count => bytes += count,
        }
    }
    let seconds = first.elapsed().as_secs_f64();
    let ended = child.wait().context("netlab does not end")?;
    if ended.code() != Some(0) {
        bail!("netlab ended with {ended}");
    }
    #[expect(clippy::cast_precision_loss, reason = "megabytes, to three digits")]
    let megabytes = bytes as f64 / 1e6;
    Ok(vec![
        Figure::count(part, format!("rows, {format}"), megabytes, "MB"),
        Figure::count(part, format!("rate, {format} (at least 50)"), megabytes / seconds, "MB/s"),
        Figure::count(part, format!("peak of resident memory, {format}"), peak, "MiB").at_most(MEBIBYTES),
    ])
}
