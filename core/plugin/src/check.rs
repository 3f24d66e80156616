//! `Check`: one step of a DNS diagnosis, evidence in, an outcome out.
//!
//! Invariant: a check is pure. The same target and evidence give the same outcome anywhere; what is not in the
//! evidence was not examined, and a check says so instead of passing. Probing is somebody else's work.

use serde::{Deserialize, Serialize};

use crate::evidence::Evidence;

/// Something that examines evidence about one pod's DNS.
pub trait Check: Send + Sync {
    /// What it is, what it needs and what gathering that costs.
    fn describe(&self) -> CheckInfo;

    /// Examines the evidence.
    fn run(&self, target: &Target, evidence: &Evidence) -> CheckOutcome;
}

/// What a check is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CheckInfo {
    /// Its id: `S6`, or a name with a dot in it for a check from elsewhere.
    pub id: String,
    /// One word, as it stands in the answer: `policy`.
    pub name: String,
    /// What it finds out, one line.
    pub summary: String,
    /// The facts that it reads, by the file of a bundle: `pod/resolv.conf`.
    pub needs: Vec<String>,
    /// What gathering those costs: queries sent, privilege.
    pub costs: String,
}

/// Whose DNS, and which names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Target {
    /// The pod's namespace.
    pub namespace: String,
    /// The pod.
    pub pod: String,
    /// The container whose files were read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
    /// The container's resolver: `glibc:2.36`, `musl:1.2.5`, `go`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub libc: Option<String>,
    /// The names that are asked about, as the application writes them.
    #[serde(default)]
    pub names: Vec<String>,
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.namespace, self.pod)
    }
}

/// What a check came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum CheckStatus {
    /// What it needs was there, and nothing is wrong with it.
    Ok,
    /// Not wrong by itself, but worth knowing.
    Warning,
    /// Something is wrong.
    Fault,
    /// It had nothing to judge; never to be taken for healthy.
    #[default]
    NotExamined,
}

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CheckOutcome {
    /// What it came to.
    pub status: CheckStatus,
    /// What it saw, short enough for the rest of a line.
    pub line: String,
    /// The ids of the facts behind it.
    #[serde(default)]
    pub evidence: Vec<String>,
    /// What it could not look at, and why; one line each.
    #[serde(default)]
    pub not_examined: Vec<String>,
}

impl CheckOutcome {
    /// Nothing wrong.
    pub fn ok(line: impl Into<String>) -> Self {
        Self::new(CheckStatus::Ok, line)
    }

    /// Worth knowing.
    pub fn warning(line: impl Into<String>) -> Self {
        Self::new(CheckStatus::Warning, line)
    }

    /// Something is wrong.
    pub fn fault(line: impl Into<String>) -> Self {
        Self::new(CheckStatus::Fault, line)
    }

    /// Nothing to judge; `why` names what was missing.
    pub fn not_examined(why: impl Into<String>) -> Self {
        let why = why.into();
        Self { not_examined: vec![why.clone()], ..Self::new(CheckStatus::NotExamined, why) }
    }

    /// With the facts behind it.
    #[must_use]
    pub fn citing<I: IntoIterator<Item = S>, S: Into<String>>(mut self, evidence: I) -> Self {
        for id in evidence {
            let id = id.into();
            if !self.evidence.contains(&id) {
                self.evidence.push(id);
            }
        }
        self
    }

    /// With something that could not be looked at.
    #[must_use]
    pub fn without(mut self, what: impl Into<String>) -> Self {
        self.not_examined.push(what.into());
        self
    }

    fn new(status: CheckStatus, line: impl Into<String>) -> Self {
        Self { status, line: line.into(), evidence: Vec::new(), not_examined: Vec::new() }
    }
}
