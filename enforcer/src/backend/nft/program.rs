//! Running the `nft` program in a network namespace.
//!
//! Invariant: one run is one transaction; the program's input is passed on standard input, never through a
//! shell or a file. The namespace is the backend's own place; the caller's is never changed.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use netlab_node::{Netns, NodeError};
use netlab_plugin::contract::{BackendError, Blame};

/// Looked into after `PATH`: distributions keep `nft` out of an ordinary user's.
const SYSTEM_DIRECTORIES: [&str; 3] = ["/usr/sbin", "/sbin", "/usr/local/sbin"];

/// Why `nft` did not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NftError {
    /// There is no such program.
    #[error("the program `nft` is not installed")]
    Missing,
    /// It could not be started or spoken to.
    #[error("cannot run {}", program.display())]
    Run {
        /// Its path.
        program: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Its network namespace could not be entered.
    #[error("cannot run nft in its network namespace")]
    Namespace {
        /// Why.
        source: NodeError,
    },
    /// It, or the kernel, refused.
    #[error("nft refused: {message}")]
    Refused {
        /// The first lines of what it said.
        message: String,
    },
    /// Its answer is not what its documentation (`libnftables-json(5)`) says.
    #[error("cannot read what nft lists: {why}")]
    Listing {
        /// What is wrong with it.
        why: String,
    },
}

impl NftError {
    /// True when the right to do it is missing.
    pub fn is_permission(&self) -> bool {
        match self {
            Self::Refused { message } => message.contains("Operation not permitted"),
            Self::Run { source, .. } => source.kind() == io::ErrorKind::PermissionDenied,
            Self::Namespace { source } => source.is_permission(),
            Self::Missing | Self::Listing { .. } => false,
        }
    }
}

impl From<NftError> for BackendError {
    fn from(error: NftError) -> Self {
        let hint = if error.is_permission() {
            Some("nft needs CAP_NET_ADMIN over its network namespace: run as root, or in a user namespace")
        } else {
            match &error {
                NftError::Missing => Some("install the package nftables (nft 1.0 or later)"),
                NftError::Refused { .. } => {
                    Some("the kernel needs nf_tables, conntrack and their inet family; `netlab check` tells")
                }
                _ => None,
            }
        };
        let mut message = error.to_string();
        let mut cause = std::error::Error::source(&error);
        while let Some(next) = cause {
            message = format!("{message}: {next}");
            cause = next.source();
        }
        Self { message, hint: hint.map(str::to_owned), blame: Blame::Kernel, retry: false }
    }
}

/// The program, and the namespace that it works in.
#[derive(Debug)]
pub(super) struct Nft {
    netns: Option<Netns>,
}

impl Nft {
    /// `None` is the namespace of the calling thread.
    pub(super) const fn new(netns: Option<Netns>) -> Self {
        Self { netns }
    }

    /// Runs a script as one transaction.
    pub(super) fn commit(&self, script: &str) -> Result<(), NftError> {
        self.run(&["-f", "-"], script).map(drop)
    }

    /// Asks the kernel whether it would take a script, without doing it.
    pub(super) fn check(&self, script: &str) -> Result<(), NftError> {
        self.run(&["-c", "-f", "-"], script).map(drop)
    }

    /// A table as `libnftables-json(5)` lists it; `None` when there is no such table.
    pub(super) fn list(&self, table: &str) -> Result<Option<String>, NftError> {
        self.listed(&["-j", "-n", "list", "table", "inet", table])
    }

    /// A table's named counters alone, which is much less to read.
    pub(super) fn list_counters(&self, table: &str) -> Result<Option<String>, NftError> {
        self.listed(&["-j", "list", "counters", "table", "inet", table])
    }

    fn listed(&self, arguments: &[&str]) -> Result<Option<String>, NftError> {
        match self.run(arguments, "") {
            Ok(text) => Ok(Some(text)),
            Err(NftError::Refused { message }) if message.contains("No such file or directory") => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn run(&self, arguments: &[&str], input: &str) -> Result<String, NftError> {
        let program = find().ok_or(NftError::Missing)?;
        let work = || execute(&program, arguments, input);
        let output = match &self.netns {
            Some(netns) => netns.run(work).map_err(|source| NftError::Namespace { source })?,
            None => work(),
        };
        let output = output.map_err(|source| NftError::Run { program, source })?;
        if output.status.success() {
            return String::from_utf8(output.stdout)
                .map_err(|error| NftError::Listing { why: error.to_string() });
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let lines: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).take(3).collect();
        let message =
            if lines.is_empty() { format!("it ended with {}", output.status) } else { lines.join(" ") };
        Err(NftError::Refused { message })
    }
}

fn execute(program: &Path, arguments: &[&str], input: &str) -> io::Result<Output> {
    let mut child = Command::new(program)
        .args(arguments)
        .env("LC_ALL", "C")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let stdin = child.stdin.take();
    std::thread::scope(|scope| {
        let writer = scope.spawn(move || match stdin {
            // A program that refuses early closes its input; what it says matters then.
            Some(mut stdin) => match stdin.write_all(input.as_bytes()) {
                Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
                _ => Ok(()),
            },
            None => Ok(()),
        });
        let output = child.wait_with_output()?;
        writer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        Ok(output)
    })
}

/// The first `nft` on the way, as a shell would find it.
pub(super) fn find() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(SYSTEM_DIRECTORIES.map(PathBuf::from))
        .map(|directory| directory.join("nft"))
        .find(|candidate| candidate.is_file())
}
