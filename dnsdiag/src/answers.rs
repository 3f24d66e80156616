//! What name servers would say, as a model asks them.
//!
//! Invariant: answers are a pure function of the question and of how often it was asked before, so a plan is the same
//! every time. Time, loss and order are the resolver's side; see [`crate::resolver`].

use std::fmt;
use std::net::IpAddr;

use serde::Serialize;

/// How a query travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// In one datagram.
    Udp,
    /// On a connection.
    Tcp,
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Udp => "udp",
            Self::Tcp => "tcp",
        })
    }
}

/// The types that address lookups ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Qtype {
    /// IPv4 address.
    A,
    /// IPv6 address.
    #[serde(rename = "AAAA")]
    Aaaa,
}

impl fmt::Display for Qtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::A => "A",
            Self::Aaaa => "AAAA",
        })
    }
}

/// One question to one server.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// The server.
    pub nameserver: IpAddr,
    /// How it is asked.
    pub transport: Transport,
    /// The name, with its final dot.
    pub name: &'a str,
    /// The type.
    pub qtype: Qtype,
    /// How often this server was asked this in the same lookup before.
    pub asked_before: u32,
}

/// What becomes of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Answer {
    /// NOERROR with addresses of the type.
    Addresses,
    /// NOERROR, authoritative or recursive, without an address.
    NoData,
    /// NXDOMAIN.
    NxDomain,
    /// SERVFAIL.
    ServFail,
    /// REFUSED.
    Refused,
    /// FORMERR.
    FormErr,
    /// NOTIMP.
    NotImp,
    /// NOERROR without answer from a server that is neither authoritative nor recursive.
    Lame,
    /// Truncated and empty: ask over TCP.
    Truncated,
    /// Nothing comes back.
    Silence,
    /// Nobody listens: ICMP port unreachable, or a reset.
    Unreachable,
}

impl Answer {
    /// For people.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Addresses => "addresses",
            Self::NoData => "no address",
            Self::NxDomain => "NXDOMAIN",
            Self::ServFail => "SERVFAIL",
            Self::Refused => "REFUSED",
            Self::FormErr => "FORMERR",
            Self::NotImp => "NOTIMP",
            Self::Lame => "lame",
            Self::Truncated => "truncated",
            Self::Silence => "no answer",
            Self::Unreachable => "nobody listens",
        }
    }
}

/// Something that answers.
pub trait Answers {
    /// The answer.
    fn answer(&self, question: &Question<'_>) -> Answer;
}
