//! What is wrong with a proxy's rules: expected minus found.
//!
//! Invariant: a fault names one object of the proxy (a rule, a chain, an element of a map) and says whether it is
//! missing, too much or wrong. What clients see of it is not concluded from faults: see [`super::follow`].

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

impl Place {
    /// Somewhere in a chain, map or set.
    pub(super) fn within(table: &str, chain: &str) -> Self {
        Self { table: table.to_owned(), chain: chain.to_owned(), ..Self::default() }
    }
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
    /// Translated packets are not let through where the node drops what nobody accepts.
    Forward,
    /// A balancer's checks of the node are not let in where the node drops what nobody accepts.
    HealthCheck,
    /// Who may come to a balancer's address.
    SourceRange,
    /// Clients do not stay with their endpoint.
    Affinity,
    /// A rule of somebody else that takes packets before the proxy's.
    Foreign,
    /// Another mode's rules that a proxy left behind.
    Leftover,
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
