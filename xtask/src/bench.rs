//! `cargo xtask bench`: figures that the documents promise, measured here and now. Never a test: a slow machine is
//! not a fault.
//!
//! One file per part; this one chooses, and starts itself again where a figure needs an optimised program or a
//! process of its own.

use std::ffi::OsStr;
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};
use clap::{Args, Subcommand, ValueEnum};

mod adversarial;
mod compile;
mod connections;
mod datapath;
mod figure;
mod lint;
mod prove;
mod service;

use figure::Figure;

/// What to measure; without a part, everything.
#[derive(Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    part: Option<Part>,
    /// How to show it.
    #[arg(long, short, global = true, value_enum, default_value_t)]
    output: Output,
}

/// How to show figures.
#[derive(Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// Aligned columns.
    #[default]
    Text,
    /// For `docs/performance.md`.
    Md,
    /// For programs.
    Json,
}

#[derive(Clone, Subcommand)]
enum Part {
    /// Compile and recompile: time, peak of memory, classes and entries.
    Compile,
    /// How the cost of policies made to hurt grows with their number.
    Adversarial,
    /// Who may talk to whom: the class table, and how fast its rows come.
    Connections,
    /// What a packet costs in the kernel, beside nftables. Needs root.
    Datapath,
    /// Lint, compilation included.
    Lint,
    /// Dumps of a node's proxy: read, and compared with what should be there.
    Service,
    /// A denied TCP packet, proved in an ephemeral lab: the whole command, from start to exit.
    Prove {
        /// How many runs; the median is what counts.
        #[arg(long, default_value_t = 5)]
        runs: usize,
    },
    /// One size of `compile`, in this process.
    #[command(hide = true)]
    CompileHere {
        /// How many pods.
        pods: u32,
        /// How many policies.
        policies: u32,
    },
}

impl Part {
    fn all() -> Vec<Self> {
        vec![
            Self::Compile,
            Self::Connections,
            Self::Adversarial,
            Self::Datapath,
            Self::Lint,
            Self::Service,
            Self::Prove { runs: 5 },
        ]
    }

    fn measure(&self) -> anyhow::Result<Vec<Figure>> {
        match self {
            Self::Compile => compile::all(),
            Self::Adversarial => adversarial::all(),
            Self::Connections => connections::all(),
            Self::Datapath => datapath::all(),
            Self::Lint => lint::all(),
            Self::Service => service::all(),
            Self::Prove { runs } => prove::denied_tcp(*runs),
            Self::CompileHere { pods, policies } => compile::here(*pods, *policies),
        }
    }
}

/// Measures.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    if cfg!(debug_assertions) {
        return optimised();
    }
    let parts = arguments.part.clone().map_or_else(Part::all, |part| vec![part]);
    let mut figures = Vec::new();
    for part in &parts {
        let measured = part.measure()?;
        if arguments.output == Output::Text {
            figure::show(&measured, Output::Text)?;
        }
        figures.extend(measured);
    }
    if arguments.output == Output::Text { Ok(()) } else { figure::show(&figures, arguments.output) }
}

/// The same question to an optimised build of this program.
fn optimised() -> anyhow::Result<()> {
    let status = Command::new(env!("CARGO"))
        .args(["run", "--quiet", "--release", "--package", "xtask", "--"])
        .args(std::env::args_os().skip(1))
        .status()
        .context("cannot run cargo")?;
    if status.success() { Ok(()) } else { bail!("the optimised program ended with {status}") }
}

/// Figures that another run of this program measures.
fn apart<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> anyhow::Result<Vec<Figure>> {
    let output = Command::new(std::env::current_exe().context("this program has no path")?)
        .args(["bench", "--output", "json"])
        .args(arguments)
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start this program again")?;
    if !output.status.success() {
        bail!("a measurement ended with {}", output.status);
    }
    serde_json::from_slice(&output.stdout).context("a measurement gave no figures")
}
