//! What a server does instead of answering as it should: rules that are asked before its zones.
//!
//! Invariant: plain data. The first rule that fits a question acts; delays act and let the next rule decide.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

/// Over what a question came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Transport {
    /// In a datagram.
    Udp,
    /// On a connection.
    Tcp,
}

/// Which names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Names {
    /// All.
    All,
    /// This one.
    Exactly(String),
    /// This one and those below it.
    Below(String),
    /// Those outside of the server's own zones.
    Outside,
}

/// A rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rule {
    /// For these names.
    pub names: Names,
    /// For this type alone.
    #[serde(default)]
    pub kind: Option<String>,
    /// Over this transport alone.
    #[serde(default)]
    pub transport: Option<Transport>,
    /// At this server alone, by its address.
    #[serde(default)]
    pub server: Option<IpAddr>,
    /// What is done.
    pub act: Act,
}

/// What a rule does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Act {
    /// An error, by its number (RFC 1035 section 4.1.1): 1 FORMERR, 2 SERVFAIL, 3 NXDOMAIN, 4 NOTIMP, 5 REFUSED.
    Rcode(u16),
    /// "Not there", from a cache: the time for which it is still believed.
    NotThereFor(u32),
    /// The name is there, but has no such record.
    NoData,
    /// Nothing comes back.
    Silence,
    /// Nothing comes back to the first of each question.
    SilenceOnce,
    /// Later, by so many milliseconds; then the next rule decides.
    Later(u32),
    /// Over UDP an empty answer that says "ask over TCP".
    Truncate,
    /// So many records of the type, and never "ask over TCP", however many bytes they take.
    Oversize(u8),
    /// This address.
    Address(IpAddr),
    /// Another name, and nothing of that one.
    Alias(String),
    /// At most so many questions a second are answered; nothing comes back to the others.
    AtMost(u32),
    /// The same with REFUSED for the others.
    RefuseAbove(u32),
}

/// A question as rules see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Question<'a> {
    pub(super) name: &'a str,
    pub(super) kind: &'a str,
    pub(super) transport: Transport,
    /// The server that is asked.
    pub(super) server: IpAddr,
    /// Outside of its zones.
    pub(super) outside: bool,
}

impl Rule {
    /// For names, whatever the type, the transport and the server.
    pub fn new(names: Names, act: Act) -> Self {
        Self { names, kind: None, transport: None, server: None, act }
    }

    /// For this type alone.
    #[must_use]
    pub fn of_type(mut self, kind: &str) -> Self {
        self.kind = Some(kind.to_owned());
        self
    }

    /// Over this transport alone.
    #[must_use]
    pub const fn over(mut self, transport: Transport) -> Self {
        self.transport = Some(transport);
        self
    }

    /// At this server alone.
    #[must_use]
    pub const fn at(mut self, server: IpAddr) -> Self {
        self.server = Some(server);
        self
    }

    pub(super) fn fits(&self, question: &Question<'_>) -> bool {
        let named = match &self.names {
            Names::All => true,
            Names::Exactly(name) => question.name == name,
            Names::Below(zone) => question.name == zone || question.name.ends_with(&format!(".{zone}")),
            Names::Outside => question.outside,
        };
        named
            && self.kind.as_deref().is_none_or(|kind| kind == question.kind)
            && self.transport.is_none_or(|transport| transport == question.transport)
            && self.server.is_none_or(|server| server == question.server)
    }
}
