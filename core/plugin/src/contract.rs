//! `Backend`, and the payloads of version 1.
//!
//! Invariants that the contract tests hold every backend to: `apply` is all or nothing (after an error the
//! former state is still in force); an older generation is refused; `observe` reads what is really programmed,
//! never what was asked for; `teardown` finishes whatever goes wrong and lists what it had to leave.

use std::collections::BTreeMap;

pub use netlab_core::policy::change::Change;
use serde::{Deserialize, Serialize};

/// `apiVersion` of every payload.
pub const PAYLOAD_VERSION: &str = "plugin.netlab.dev/v1";

/// Something that enforces compiled tables on one node.
pub trait Backend: Send {
    /// What this backend can do here, without changing anything.
    fn probe(&self) -> Capabilities;

    /// Makes `change` the state in force.
    ///
    /// # Errors
    /// [`BackendError`] when it could not; the state before is then still in force.
    fn apply(&mut self, change: &Change) -> Result<Applied, BackendError>;

    /// Reads back what is in force.
    ///
    /// # Errors
    /// [`BackendError`] when the kernel could not be read.
    fn observe(&mut self) -> Result<Observation, BackendError>;

    /// Removes everything that this backend made.
    fn teardown(&mut self) -> Vec<Leftover>;
}

/// What a backend can do on this machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Capabilities {
    /// `tc`, `nft`, `dry-run`, …
    pub name: String,
    /// True when packets really meet the tables.
    pub enforces: bool,
    /// Why it cannot work here; empty when it can.
    pub missing: Vec<String>,
    /// Most policy rows that one change may have, if there is a limit.
    pub max_rows: Option<u64>,
}

/// The answer to a successful `apply`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Applied {
    /// The generation now in force.
    pub generation: u32,
    /// Policy rows written, built-in ones not counted.
    pub rows: u64,
    /// Pods under a ruleset.
    pub pods: u64,
}

/// What is in force, read back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Observation {
    /// The generation in force; 0 when nothing was applied.
    pub generation: u32,
    /// Packets by entry id; entries that never matched may be absent.
    pub counters: BTreeMap<u32, u64>,
    /// Differences between what was applied and what is programmed; empty when there are none.
    pub drift: Vec<String>,
}

/// Something that `teardown` could not remove.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Leftover {
    /// What it is, and where.
    pub what: String,
    /// Why it stayed.
    pub why: String,
}

/// Who can do something about an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Blame {
    /// What was asked for.
    Input,
    /// The kernel or the machine.
    Kernel,
    /// netlab.
    Bug,
}

/// Why a backend could not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("{message}")]
#[serde(rename_all = "camelCase")]
pub struct BackendError {
    /// One line: what, on which object.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
    /// Whose it is.
    pub blame: Blame,
    /// True when the same call may succeed later.
    pub retry: bool,
}
