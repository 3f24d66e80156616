//! What is wrong with a proxy's rules: expected minus found, and what clients see of it.
//!
//! Invariant: a fault names one object of the proxy (a rule, a chain, an element of a map) and says whether it is
//! missing, too much or wrong; the symptom is computed from the rules that were found, not from the faults, so that
//! a fault without consequence is told as one.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use serde::Serialize;

/// Where an object of a proxy is.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Place {
    /// Table.
    pub table: String,
    /// Chain, map or set.
    pub chain: String,
    /// The rule's position in its chain, counted from 1.
    pub position: Option<usize>,
    /// The rule's handle.
    pub handle: Option<u64>,
    /// The line of the dump.
    pub line: Option<usize>,
}

/// How an object differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Difference {
    /// It should be there.
    Missing,
    /// It should not.
    Extra,
    /// It is there and says something else.
    Wrong,
}

/// The kinds of faults: the taxonomy, one for each row that a dump can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// No rule or element leads from the Service's address to its endpoints.
    Frontend,
    /// The address leads to another chain than its own.
    FrontendTarget,
    /// An endpoint is not among those that the address is spread over.
    Backend,
    /// An endpoint's chain is not jumped to.
    Orphan,
    /// An endpoint's chain does not translate.
    Empty,
    /// An endpoint's chain translates to something else.
    BackendTarget,
    /// An endpoint that the Service does not have.
    Stale,
    /// Endpoints do not get equal shares.
    Shares,
    /// The end of a Service without endpoints: refused or dropped.
    End,
    /// Replies, or packets to oneself, find no way back.
    Masquerade,
    /// The kernel's chains do not lead to the proxy's.
    Jump,
    /// Who may come to a balancer's address.
    SourceRange,
    /// Clients do not stay with their endpoint.
    Affinity,
    /// A rule with words that are not understood.
    Unread,
}

/// One object that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Fault {
    /// How it differs.
    pub difference: Difference,
    /// What kind of object.
    pub kind: Kind,
    /// The object's name: a chain, or a map and its key.
    pub object: String,
    /// Where it is, or the chain where it should be.
    pub place: Place,
    /// The endpoint that it is about.
    pub endpoint: Option<String>,
    /// In words.
    pub detail: String,
}

/// One step of a packet through the rules.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Hop {
    /// Where.
    pub place: Place,
    /// What it does: the chain that is entered, or the address that is written.
    pub to: String,
    /// The number of this choice and of all, when the packet takes one of several.
    pub choice: Option<(usize, usize)>,
    /// How deep in the walk.
    pub depth: usize,
    /// True when it is as it should be.
    pub ok: bool,
}

/// What becomes of first packets, as shares of 1.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Shares {
    /// Translated to these.
    pub to: BTreeMap<SocketAddr, f64>,
    /// Answered with a refusal.
    pub refused: f64,
    /// Dropped, or sent on to an address that nobody has.
    pub silent: f64,
}

impl Shares {
    /// What clients see when these endpoints answer and nobody else does.
    #[must_use]
    pub fn symptom(&self, answering: &[SocketAddr]) -> Symptom {
        let lost: f64 =
            self.to.iter().filter(|(to, _)| !answering.contains(to)).map(|(_, share)| share).sum();
        Symptom { timeout_share: round(self.silent + lost), refused_share: round(self.refused) }
    }
}

/// Shares of new connections that fail, 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Symptom {
    /// That time out.
    pub timeout_share: f64,
    /// That are refused.
    pub refused_share: f64,
}

impl Symptom {
    /// True when no connection fails.
    #[must_use]
    pub fn is_none(self) -> bool {
        self.timeout_share == 0.0 && self.refused_share == 0.0
    }

    /// How much fails, to find the worst.
    #[must_use]
    pub fn failing(self) -> f64 {
        self.timeout_share + self.refused_share
    }
}

impl std::fmt::Display for Symptom {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let part = |share: f64, what: &str| match share {
            share if share <= 0.0 => None,
            share if share >= 0.9995 => Some(format!(
                "every new connection {}",
                if what == "times out" { what } else { "is refused" }
            )),
            share => {
                let verb = if what == "times out" { "time out" } else { "are refused" };
                Some(format!("about {:.0}% of new connections {verb}", share * 100.0))
            }
        };
        let parts: Vec<String> =
            [part(self.timeout_share, "times out"), part(self.refused_share, "is refused")]
                .into_iter()
                .flatten()
                .collect();
        if parts.is_empty() { f.write_str("no connection fails") } else { f.write_str(&parts.join(", ")) }
    }
}

/// Probabilities are stored in 31 bits; what is smaller than that is nothing.
fn round(share: f64) -> f64 {
    (share * 1e6).round() / 1e6
}
