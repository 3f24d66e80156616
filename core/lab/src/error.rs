//! What can go wrong with a lab.
//!
//! Invariant: a lab that could not be built leaves nothing behind, and the error names the place at fault.

use std::io;
use std::path::PathBuf;

use netlab_node::NodeError;
use netlab_node::error::Blame;
use thiserror::Error;

use crate::place::Place;
use crate::plan::PlanError;

/// Why a lab, or something in it, failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LabError {
    /// The cluster cannot be laid out.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A namespace could not be made or furnished.
    #[error("cannot build {place}")]
    Build {
        /// The place at fault.
        place: Place,
        /// What failed there.
        #[source]
        source: NodeError,
    },
    /// A link did not come up in time.
    #[error("the links of {place} did not come up within {milliseconds} ms")]
    LinkDown {
        /// The place at fault.
        place: Place,
        /// How long was waited.
        milliseconds: u64,
    },
    /// The lab has no such place.
    #[error("this lab has no {place}")]
    NoSuchPlace {
        /// What was asked for.
        place: Place,
    },
    /// The namespace of a place could not be entered.
    #[error("cannot enter {place}")]
    Enter {
        /// The place.
        place: Place,
        /// Why.
        #[source]
        source: NodeError,
    },
    /// A node's proxy rules could not be written or read.
    #[error("`{command}` at {place} failed: {said}")]
    Proxy {
        /// Where.
        place: Place,
        /// The command.
        command: &'static str,
        /// What it said.
        said: String,
    },
    /// A socket in the lab failed before a packet was sent.
    #[error("cannot {action} at {place}")]
    Socket {
        /// Where.
        place: Place,
        /// What was being done.
        action: String,
        /// The kernel's answer.
        #[source]
        source: io::Error,
    },
    /// A packet that makes no sense.
    #[error("cannot send such a packet: {reason}")]
    Packet {
        /// Why.
        reason: String,
    },
    /// A file or directory of the named labs failed.
    #[error("cannot {action} {path}")]
    State {
        /// What was being done.
        action: &'static str,
        /// To what.
        path: PathBuf,
        /// The kernel's answer.
        #[source]
        source: io::Error,
    },
    /// A name that cannot name a lab.
    #[error("`{name}` cannot name a lab: use 1 to 40 of a-z, 0-9 and -")]
    BadName {
        /// The name.
        name: String,
    },
    /// A lab of that name is up already.
    #[error("lab `{name}` is up already (pid {pid})")]
    AlreadyUp {
        /// The name.
        name: String,
        /// Its supervisor.
        pid: u32,
    },
    /// No lab of that name is up.
    #[error("no lab `{name}` is up")]
    NotUp {
        /// The name.
        name: String,
    },
    /// The supervisor said no, or died.
    #[error("lab `{name}`: {reason}")]
    Supervisor {
        /// The lab.
        name: String,
        /// What it said.
        reason: String,
    },
}

impl LabError {
    /// Who has to act.
    pub fn blame(&self) -> Blame {
        match self {
            Self::Plan(_)
            | Self::NoSuchPlace { .. }
            | Self::Packet { .. }
            | Self::BadName { .. }
            | Self::AlreadyUp { .. }
            | Self::NotUp { .. } => Blame::Input,
            Self::Build { source, .. } | Self::Enter { source, .. } => source.blame(),
            Self::LinkDown { .. }
            | Self::Proxy { .. }
            | Self::Socket { .. }
            | Self::State { .. }
            | Self::Supervisor { .. } => Blame::Kernel,
        }
    }

    /// True when the same call may succeed later without anybody changing anything.
    pub fn retry(&self) -> bool {
        match self {
            Self::Build { source, .. } | Self::Enter { source, .. } => source.retry(),
            Self::LinkDown { .. } => true,
            _ => false,
        }
    }

    /// True when the kernel said that the caller lacks a privilege.
    pub fn is_permission(&self) -> bool {
        match self {
            Self::Build { source, .. } | Self::Enter { source, .. } => source.is_permission(),
            Self::Socket { source, .. } | Self::State { source, .. } => {
                source.kind() == io::ErrorKind::PermissionDenied
            }
            _ => false,
        }
    }
}
