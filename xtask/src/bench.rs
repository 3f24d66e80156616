//! `cargo xtask bench`: figures that the documents promise, measured here and now. Never a test: a slow machine is
//! not a fault.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use clap::{Args, Subcommand};

/// What to measure.
#[derive(Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// A denied TCP packet, proved in an ephemeral lab: the whole command, from start to exit.
    Prove {
        /// How many runs; the median is what counts.
        #[arg(long, default_value_t = 5)]
        runs: usize,
    },
}

/// Measures.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    match arguments.what {
        What::Prove { runs } => prove(runs),
    }
}

#[expect(clippy::print_stdout, reason = "the figures are the product")]
fn prove(runs: usize) -> anyhow::Result<()> {
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
    let netlab = target.join("release/netlab");
    let question = "policy prove -f examples/shop --from shop/web --to shop/db --port 5432/tcp --expect deny";
    for (name, backend) in [("tc", "tc"), ("nft", "nft"), ("no kernel", "none")] {
        let mut times = Vec::new();
        for _ in 0..runs.max(1) {
            let start = Instant::now();
            let status = Command::new(&netlab)
                .args(question.split(' '))
                .args(["--allow-simulated", "--backend", backend])
                .current_dir(&root)
                .stdout(Stdio::null())
                .status()
                .with_context(|| format!("cannot run {}", netlab.display()))?;
            if !status.success() {
                bail!("`netlab {question} --backend {backend}` ended with {status}");
            }
            times.push(start.elapsed());
        }
        println!("prove, denied TCP, {name:<9}  {}", summary(&mut times));
    }
    Ok(())
}

/// Median with the extremes, in milliseconds.
fn summary(times: &mut [Duration]) -> String {
    times.sort_unstable();
    let milliseconds = |time: Option<&Duration>| time.map_or(0.0, |time| time.as_secs_f64() * 1e3);
    format!(
        "median {:4.0} ms  ({:.0} to {:.0}, {} runs)",
        milliseconds(times.get(times.len() / 2)),
        milliseconds(times.first()),
        milliseconds(times.last()),
        times.len()
    )
}
