//! The command line as clap types: what may be typed, and its help.
//!
//! Invariant: no logic. Every leaf command's help has an `Examples:` block; a test runs each example.

pub(crate) mod dns;
pub(crate) mod dns_lint;
pub(crate) mod enforce;
pub(crate) mod findings;
pub(crate) mod globals;
pub(crate) mod lab;
pub(crate) mod packet;
pub(crate) mod policy;
pub(crate) mod selector;
pub(crate) mod service;
pub(crate) mod timeout;
pub(crate) mod what_if;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;

/// Prove what Kubernetes network policy does to a packet, in the real kernel
#[derive(Debug, Parser)]
#[command(name = "netlab", version, propagate_version = false, after_help = AFTER_HELP, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) globals: globals::Globals,
    #[command(subcommand)]
    pub(crate) command: Command,
}

const AFTER_HELP: &str = "\
Exit codes: 0 yes, 1 no, 2 cannot read the question, 3 cannot tell, 4 not allowed here, 130 interrupted

Examples:
  netlab policy eval -f examples/shop --from shop/web --to shop/db --port 5432
  netlab explain
";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Ask what the policies do
    Policy(policy::PolicyArgs),
    /// Put compiled policies into force in a lab, and look at them
    #[command(subcommand)]
    Enforce(enforce::Enforce),
    /// Ask whether it was DNS
    #[command(subcommand)]
    Dns(dns::Dns),
    /// Ask what the nodes' proxies do with a Service
    #[command(subcommand)]
    Service(service::Service),
    /// Build clusters as network namespaces
    #[command(subcommand)]
    Lab(lab::Lab),
    /// Hold a lab; started by `lab up`
    #[command(hide = true)]
    SuperviseLab,
    /// Tell what this machine can do, or whether an object would load
    ///
    /// Exit 0: a packet can be proven here, with one backend or the other; 4: it cannot. With `--object` exit 0: nothing
    /// speaks against loading it; 1: a CO-RE relocation has no target, or the map layout is another one.
    #[command(after_help = "Examples:
  netlab check
  netlab check -o json
  netlab check --object
  netlab check --object enforcer/tests/data/drill.o --btf enforcer/tests/data/drill.o")]
    Check(Check),
    /// Explain a diagnostic code, or list them all
    #[command(
        after_help = "Examples:\n  netlab explain\n  netlab explain NL0202\n  netlab explain nl0202 -o json"
    )]
    Explain(Explain),
    /// Print a shell's completion script
    #[command(after_help = "Examples:\n  netlab completions bash\n  netlab completions zsh")]
    Completions(Completions),
    /// Print the version
    #[command(after_help = "Examples:\n  netlab version\n  netlab version -o json")]
    Version,
}

#[derive(Debug, Args)]
pub(crate) struct Check {
    /// Check this BPF object, or without a file the one inside netlab, against a kernel's types
    #[arg(long, value_name = "FILE", num_args = 0..=1)]
    #[expect(clippy::option_option, reason = "a flag that may have a value")]
    pub(crate) object: Option<Option<PathBuf>>,
    /// The kernel's types: BTF, or an ELF file with it; those of the running kernel when absent
    #[arg(long, value_name = "FILE", requires = "object")]
    pub(crate) btf: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Explain {
    /// A code such as NL0202; all codes when absent
    #[arg(value_name = "CODE")]
    pub(crate) code: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// The shell
    #[arg(value_name = "SHELL")]
    pub(crate) shell: Shell,
}
