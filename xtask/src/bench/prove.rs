//! `cargo xtask bench prove`: a denied TCP packet, proved in an ephemeral lab.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};

use super::figure::{Figure, milliseconds};

/// What the first version promises for the tc backend.
const MILLISECONDS: f64 = 400.0;

/// The optimised command.
pub(super) fn release() -> anyhow::Result<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let built = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--release", "--package", "netlab"])
        .current_dir(&root)
        .status()
        .context("cannot run cargo")?;
    if !built.success() {
        bail!("netlab does not build");
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), Into::into);
    Ok(target.join("release/netlab"))
}

/// The whole command, from start to exit, with each backend.
pub(crate) fn denied_tcp(runs: usize) -> anyhow::Result<Vec<Figure>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let netlab = release()?;
    let question = "policy prove -f examples/shop --from shop/web --to shop/db --port 5432/tcp --expect deny";
    let mut figures = Vec::new();
    for (name, backend) in [("tc", "tc"), ("nft", "nft"), ("no kernel", "none")] {
        let mut failed = None;
        let times = milliseconds(runs, || {
            let status = Command::new(&netlab)
                .args(question.split(' '))
                .args(["--allow-simulated", "--backend", backend])
                .current_dir(&root)
                .stdout(Stdio::null())
                .status();
            match status {
                Ok(status) if status.success() => {}
                Ok(status) => failed = Some(format!("ended with {status}")),
                Err(error) => failed = Some(error.to_string()),
            }
        });
        if let Some(reason) = failed {
            bail!("`netlab {question} --backend {backend}`: {reason}");
        }
        let figure = Figure::median("prove", format!("denied TCP packet, {name}"), times, "ms");
        figures.push(if backend == "tc" { figure.at_most(MILLISECONDS) } else { figure });
    }
    Ok(figures)
}
