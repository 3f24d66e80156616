//! Labs with names, which outlive the command that made them.
//!
//! A *supervisor* process holds the lab's descriptors ([`supervisor::supervise`]); [`up`] starts one, [`Client`]
//! talks to it over a unix socket, [`down`] ends it. The lab lives exactly as long as its supervisor: SIGKILL
//! included, the kernel takes everything down with it.
//!
//! Invariant: a state file is true while somebody holds its lock. The lock goes with the supervisor, so a file
//! that can be locked is stale, and whoever finds it removes it.

mod client;
mod files;
mod protocol;
mod state;
pub mod supervisor;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use client::{Client, Down, Entry, down, up};
pub use files::{File, Files};
pub use state::{Process, RunDir, State};
pub use supervisor::{Handler, Nothing, Reply, supervise, supervise_on_stdin};

use crate::error::LabError;
use crate::plan::Plan;

/// The operation by which a handler tells the lab's DNS servers, as [`Client::dns`] wants it.
pub const DNS: &str = "dns";

/// What a supervisor is told to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Spec {
    /// The lab's name.
    pub name: String,
    /// Where state file and socket go.
    pub run_dir: RunDir,
    /// What to build.
    pub plan: Plan,
    /// Build it in a user namespace of its own.
    pub rootless: bool,
    /// What the supervisor's own code wants to know; nothing of it is read here.
    pub payload: Value,
}

/// Names become file names, so they are kept simple.
fn check_name(name: &str) -> Result<(), LabError> {
    let is_fine = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if (1..=40).contains(&name.len()) && name.chars().all(is_fine) && !name.starts_with('-') {
        return Ok(());
    }
    Err(LabError::BadName { name: name.to_owned() })
}
