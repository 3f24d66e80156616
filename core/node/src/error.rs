//! What can go wrong when a node is read or changed.
//!
//! Invariant: every variant names the thing at fault (a path, an action, a value) and keeps the kernel's errno.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// Why a look at, or a change of, this node failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum NodeError {
    /// A namespace could not be made.
    #[error("cannot make a network namespace")]
    CreateNamespace {
        /// The kernel's answer to `unshare(CLONE_NEWNET)`.
        #[source]
        source: io::Error,
    },
    /// A namespace could not be opened.
    #[error("cannot open the network namespace at {path}")]
    OpenNamespace {
        /// What was opened.
        path: PathBuf,
        /// The kernel's answer.
        #[source]
        source: io::Error,
    },
    /// A thread could not join a namespace.
    #[error("cannot enter the network namespace {inode}")]
    EnterNamespace {
        /// Its inode number, as in `net:[…]`.
        inode: u64,
        /// The kernel's answer to `setns`.
        #[source]
        source: io::Error,
    },
    /// A file of a container, or its root, could not be opened.
    #[error("cannot read {path} of process {pid}")]
    OpenContainer {
        /// The process.
        pid: u32,
        /// The file, as the container names it.
        path: PathBuf,
        /// The kernel's answer.
        #[source]
        source: io::Error,
    },
    /// A dump of the node could not be had.
    #[error("cannot read `{what}`{}", if said.is_empty() { String::new() } else { format!(" ({said})") })]
    Dump {
        /// The file, or the command.
        what: String,
        /// What the command said.
        said: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// No thread could be started to work in a namespace.
    #[error("cannot start a thread for a network namespace")]
    Thread {
        /// The kernel's answer.
        #[source]
        source: io::Error,
    },
    /// A netlink socket failed.
    #[error("netlink: cannot {action}")]
    NetlinkSocket {
        /// What was being done.
        action: &'static str,
        /// The kernel's answer.
        #[source]
        source: io::Error,
    },
    /// The kernel refused one request of a batch.
    #[error("netlink: cannot {action}{}", message.as_deref().map(|text| format!(" ({text})")).unwrap_or_default())]
    Refused {
        /// The request in words, as `ip` would be told.
        action: String,
        /// The kernel's own explanation (extended acknowledgement), if it gave one.
        message: Option<String>,
        /// The kernel's errno.
        #[source]
        source: io::Error,
    },
    /// A message from the kernel could not be read.
    #[error("netlink: cannot read what the kernel answered to `{action}`: {reason}")]
    Malformed {
        /// The request in words.
        action: String,
        /// What is wrong with the answer.
        reason: String,
    },
    /// A sysctl could not be written.
    #[error("cannot set {name} = {value}")]
    Sysctl {
        /// The dotted or slashed name below `net`.
        name: String,
        /// The value.
        value: String,
        /// The kernel's answer.
        #[source]
        source: io::Error,
    },
    /// A command that lists something failed.
    #[error("`{command}`: {said}")]
    Command {
        /// The command with its arguments.
        command: String,
        /// The first line of what it said.
        said: String,
        /// The kernel's answer, or what it comes to.
        #[source]
        source: io::Error,
    },
    /// A user namespace could not be entered.
    #[error("cannot enter a user namespace: {step}")]
    UserNamespace {
        /// Which step failed.
        step: &'static str,
        /// The kernel's answer.
        #[source]
        source: io::Error,
    },
}

/// Who has to act.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blame {
    /// What the user gave.
    Input,
    /// The machine: kernel, privilege, limits.
    Kernel,
    /// This program.
    Bug,
}

impl NodeError {
    /// Who has to act.
    pub fn blame(&self) -> Blame {
        match self {
            Self::Malformed { .. } => Blame::Bug,
            Self::OpenNamespace { .. } | Self::OpenContainer { .. } => Blame::Input,
            _ => Blame::Kernel,
        }
    }

    /// True when the same call may succeed later without anybody changing anything.
    pub fn retry(&self) -> bool {
        let source = match self {
            Self::CreateNamespace { source }
            | Self::OpenNamespace { source, .. }
            | Self::OpenContainer { source, .. }
            | Self::Dump { source, .. }
            | Self::EnterNamespace { source, .. }
            | Self::Thread { source }
            | Self::NetlinkSocket { source, .. }
            | Self::Refused { source, .. }
            | Self::Sysctl { source, .. }
            | Self::Command { source, .. }
            | Self::UserNamespace { source, .. } => source,
            Self::Malformed { .. } => return false,
        };
        matches!(
            source.kind(),
            io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted | io::ErrorKind::OutOfMemory
        ) || source.raw_os_error() == Some(libc::ENOBUFS)
    }

    /// True when the kernel said that the caller lacks a privilege.
    pub fn is_permission(&self) -> bool {
        match self {
            Self::CreateNamespace { source }
            | Self::OpenNamespace { source, .. }
            | Self::OpenContainer { source, .. }
            | Self::Dump { source, .. }
            | Self::EnterNamespace { source, .. }
            | Self::Thread { source }
            | Self::NetlinkSocket { source, .. }
            | Self::Refused { source, .. }
            | Self::Sysctl { source, .. }
            | Self::Command { source, .. }
            | Self::UserNamespace { source, .. } => {
                matches!(source.raw_os_error(), Some(libc::EPERM | libc::EACCES))
            }
            Self::Malformed { .. } => false,
        }
    }
}
