//! What a lab is made of beyond namespaces and policies: names, and what was broken.
//!
//! [`names`] is computed here, because the lab knows no Services and the diagnosis no labs: records, servers and files go to
//! the lab as plain data. Invariant: a lab's state follows from its manifests and its faults alone, so what is taken away
//! again leaves no trace.

pub(crate) mod inside;
pub(crate) mod names;
mod objects;
pub(crate) mod paths;
mod renew;
mod scene;
mod state;

use serde::{Deserialize, Serialize};

pub(crate) use inside::supervise;

/// The operations of a lab, besides those of its enforcer.
pub(crate) mod operation {
    /// The lab's manifests as they are with its faults: [`super::Manifests`] out.
    pub(crate) const MANIFESTS: &str = "manifests";
    /// How names are made: [`super::names::Naming`] out; null without DNS.
    pub(crate) const NAMES: &str = "names";
    /// What the DNS servers have written, a text out.
    pub(crate) const LOG: &str = "dns.log";
    /// Put a fault in: [`super::ToBreak`] in, a `Broken` out.
    pub(crate) const BREAK: &str = "fault.break";
    /// Take faults out: their names in, none for all; those that were taken out, out.
    pub(crate) const MEND: &str = "fault.mend";
    /// The faults that are in.
    pub(crate) const FAULTS: &str = "fault.list";
    /// Try the four ways: [`super::paths::Walked`] out.
    pub(crate) const PATHS: &str = "paths";
}

/// A fault to put in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ToBreak {
    /// Its name.
    pub(crate) fault: String,
    /// The pod that it is to be about, as namespace and name.
    pub(crate) pod: Option<(String, String)>,
}

/// What a lab is made of: texts, and texts of objects that stand for others of their name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Manifests {
    /// (name, text) of each.
    pub(crate) documents: Vec<(String, String)>,
    /// The same of what is put in.
    pub(crate) with: Vec<(String, String)>,
    /// What is left out, as `Kind/namespace/name`.
    pub(crate) without: Vec<String>,
}
