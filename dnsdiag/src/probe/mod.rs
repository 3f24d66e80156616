//! One raw question to one server, and everything that can be seen of what became of it.
//!
//! Invariant: a probe is sent once, from the network namespace of the calling thread, and reads no file, no
//! environment and no resolver configuration of this process. A probe never fails: what goes wrong is what was
//! observed. It does not know what the answer should have been.

mod error_queue;
mod message;
mod tcp;
mod udp;

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use thiserror::Error;

pub use error_queue::Refusal;
pub use message::{Answer, Record};

/// How a question travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Transport {
    /// A connected UDP socket, as the C libraries and Go use: errors of the path are told, replies of strangers not.
    Udp,
    /// An unconnected UDP socket, which hears replies from any address.
    UdpFromAny,
    /// A TCP connection for this question alone.
    Tcp,
    /// A TCP connection on which nothing is asked: what an application does with the address that it got.
    Connect,
}

/// A question, and how to ask it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// The whole name; it is asked as it is, with or without its last dot.
    pub name: String,
    /// A record type as DNS spells it: `A`, `AAAA`, `SRV`, `TXT`.
    pub record: String,
    /// Who is asked.
    pub server: SocketAddr,
    /// How.
    pub transport: Transport,
    /// The message's number: random in use (RFC 5452), given in tests.
    pub id: u16,
    /// The answer size that EDNS offers (RFC 6891); without it none is sent and 512 bytes is the limit.
    pub edns: Option<u16>,
    /// The local port; the kernel chooses when there is none.
    pub source_port: Option<u16>,
    /// How long to wait for each step.
    pub patience: Duration,
}

/// Why a question cannot be put into a message.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum QuestionError {
    /// No such name can be.
    #[error("`{name}` is no DNS name: {reason}")]
    Name {
        /// As it was given.
        name: String,
        /// Which rule it breaks.
        reason: String,
    },
    /// No such record type is known.
    #[error("`{record}` is no record type; A, AAAA, CNAME, PTR, SRV, TXT, SOA and NS are")]
    Record {
        /// As it was given.
        record: String,
    },
}

/// How several questions leave one socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// All at once, without a wait between them: as glibc and musl ask for A and AAAA.
    AtOnce,
    /// Each after the one before is answered or given up: glibc with `single-request`.
    OneByOne,
}

/// What became of the question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "outcome")]
pub enum Outcome {
    /// A DNS message with the right number and question came back.
    Answered {
        /// What it says.
        answer: Answer,
    },
    /// Nothing came back in time.
    Silent,
    /// The kernel did not let the question out (`EPERM`, `ENETUNREACH`).
    Unsent {
        /// The error's name.
        errno: String,
    },
    /// The question went out, and an error came back: an ICMP message or a reset.
    Refused {
        /// The error's name (`ECONNREFUSED`, `EHOSTUNREACH`).
        errno: String,
    },
    /// The TCP connection was made, and nothing was to be asked.
    Connected,
    /// The TCP connection was made, and closed or reset before a whole answer had come.
    Closed,
    /// What came back is no answer to the question.
    Garbled {
        /// What is wrong with it.
        reason: String,
    },
}

/// Everything that was seen of one probe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Observation {
    /// The socket's own address, where it got one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local: Option<SocketAddr>,
    /// Who answered; with [`Transport::UdpFromAny`] it may be another than was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<SocketAddr>,
    /// What became of it.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// ICMP errors that came for the socket, with who sent them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refusals: Vec<Refusal>,
    /// Messages that were not for this question: late answers, forgeries.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub strays: u32,
    /// From just before the first system call to the outcome.
    pub microseconds: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
const fn is_zero(count: &u32) -> bool {
    *count == 0
}

impl Probe {
    /// Asks, from the network namespace of the calling thread, and waits for what becomes of it.
    ///
    /// # Errors
    /// Only what cannot be put into a message; nothing has been sent then.
    pub fn send(&self) -> Result<Observation, QuestionError> {
        if self.transport == Transport::Connect {
            return Ok(tcp::connect_only(self));
        }
        let query = message::query(self)?;
        Ok(match self.transport {
            Transport::Udp => udp::connected(self, &query),
            Transport::UdpFromAny => udp::from_any(self, &query),
            Transport::Tcp | Transport::Connect => tcp::ask(self, &query),
        })
    }

    /// Asks several questions of one server over UDP from one socket, from the network namespace of the calling thread. What
    /// becomes of each is in their order; the first says from where and for how long.
    ///
    /// # Errors
    /// Only what cannot be put into a message; nothing has been sent then.
    pub fn send_together(probes: &[Self], order: Order) -> Result<Vec<Observation>, QuestionError> {
        let queries = probes.iter().map(message::query).collect::<Result<Vec<_>, _>>()?;
        Ok(udp::together(probes, &queries, order))
    }

    /// The address to bind: any, of the server's family.
    fn source(&self) -> SocketAddr {
        let port = self.source_port.unwrap_or(0);
        if self.server.is_ipv4() {
            (Ipv4Addr::UNSPECIFIED, port).into()
        } else {
            (Ipv6Addr::UNSPECIFIED, port).into()
        }
    }
}

/// The name of an error, as manuals have it.
fn errno(error: &std::io::Error) -> String {
    error.raw_os_error().map_or_else(
        || error.kind().to_string(),
        |number| format!("{:?}", nix::errno::Errno::from_raw(number)),
    )
}
