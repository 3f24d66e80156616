//! Protocols and ports as policies and pods name them.
//!
//! Invariant: a range is never empty and its ends are ordered.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The protocols that policies can name (`NetworkPolicyPort.protocol`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Protocol {
    /// The default where `protocol` is absent.
    #[default]
    Tcp,
    /// User datagrams.
    Udp,
    /// Stream control transmission.
    Sctp,
}

impl Protocol {
    /// All three, in order.
    pub const ALL: [Self; 3] = [Self::Tcp, Self::Udp, Self::Sctp];

    /// The IP protocol number.
    pub const fn number(self) -> u8 {
        match self {
            Self::Tcp => 6,
            Self::Udp => 17,
            Self::Sctp => 132,
        }
    }

    /// As the API spells it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
            Self::Sctp => "SCTP",
        }
    }

    /// As the command line spells it.
    pub const fn lower(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
            Self::Sctp => "sctp",
        }
    }
}

impl std::fmt::Display for Protocol {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An inclusive range of ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PortRange {
    /// First.
    pub start: u16,
    /// Last, included.
    pub end: u16,
}

impl PortRange {
    /// Every port number, 0 included: what a rule without `port` matches.
    pub const ALL: Self = Self { start: 0, end: u16::MAX };

    /// One port.
    pub const fn single(port: u16) -> Self {
        Self { start: port, end: port }
    }

    /// True when the port lies in the range.
    pub const fn contains(self, port: u16) -> bool {
        self.start <= port && port <= self.end
    }
}

impl std::fmt::Display for PortRange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.start == self.end {
            write!(f, "{}", self.start)
        } else {
            write!(f, "{}-{}", self.start, self.end)
        }
    }
}

/// One element of a rule's `ports`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PortMatch {
    /// A protocol and numbers on the destination pod's side.
    Range {
        /// Which protocol.
        protocol: Protocol,
        /// Which numbers; [`PortRange::ALL`] when `port` is absent.
        range: PortRange,
    },
    /// A container port's name, resolved on each destination pod.
    Named {
        /// The protocol that the container port must have too.
        protocol: Protocol,
        /// The name.
        name: Arc<str>,
    },
}
