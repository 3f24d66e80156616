//! One packet through the lab, and what became of it.
//!
//! A [`Flow`] opens sockets at both ends, sends exactly one packet, and waits for what comes of it: TCP by
//! `connect`, UDP by a datagram that the other end echoes, SCTP by an INIT built by hand (so that it needs no
//! SCTP in the kernel), ICMP by an echo request, any other protocol by a short payload. A raw socket at the
//! destination sees the packet arrive whatever a listener there does, so *reached* and *answered* are two facts.
//!
//! Invariant: one [`Flow::send`] is one packet on the wire for at least a second (TCP would send its SYN again
//! after that): whether to repeat is the caller's business. Knows nothing of verdicts.

mod flow;
mod observer;
mod socket;
mod wire;

use std::io;
use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use std::time::Duration;

pub use flow::Flow;
pub use socket::IcmpError;

use crate::error::LabError;
use crate::place::Place;
use crate::topology::Lab;

/// IP protocol numbers (IANA).
pub mod protocol {
    /// ICMP.
    pub const ICMP: u8 = 1;
    /// TCP.
    pub const TCP: u8 = 6;
    /// UDP.
    pub const UDP: u8 = 17;
    /// ICMPv6.
    pub const ICMPV6: u8 = 58;
    /// SCTP.
    pub const SCTP: u8 = 132;
}

/// A packet to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Where it starts.
    pub from: Place,
    /// Where it should arrive.
    pub to: Place,
    /// Its source address. One that `from` does not bear is forged.
    pub source: IpAddr,
    /// Its destination address.
    pub destination: IpAddr,
    /// Its IP protocol number.
    pub protocol: u8,
    /// Its destination port; 0 where the protocol has none.
    pub port: u16,
    /// Its source port (the identifier of an ICMP echo); `None` lets one be chosen.
    pub source_port: Option<u16>,
}

/// How long to wait, and for what else.
#[derive(Clone, Copy, Debug)]
pub struct Wait<'fd> {
    /// At most this long.
    pub timeout: Duration,
    /// Return as soon as this becomes readable: a ring buffer that reports drops, for instance.
    pub wake: Option<BorrowedFd<'fd>>,
}

impl Wait<'static> {
    /// For so long, and for nothing else.
    pub const fn for_at_most(timeout: Duration) -> Self {
        Self { timeout, wake: None }
    }
}

impl<'fd> Wait<'fd> {
    /// Until this becomes readable, too.
    #[must_use]
    pub const fn or_until_readable(self, wake: BorrowedFd<'fd>) -> Self {
        Self { timeout: self.timeout, wake: Some(wake) }
    }
}

/// What the sender got back.
#[derive(Debug)]
#[non_exhaustive]
pub enum Outcome {
    /// Nothing, so far.
    Silent,
    /// The answer that the protocol has for "yes": SYN-ACK, echo, INIT ACK, echo reply.
    Answered,
    /// A TCP reset, or an SCTP ABORT.
    Refused,
    /// An ICMP error.
    Unreachable(IcmpError),
    /// The packet never left: the sender's own kernel said no.
    NotSent(io::Error),
}

/// What became of a packet.
#[derive(Debug)]
pub struct Sent {
    /// The destination's namespace received it.
    pub reached: bool,
    /// What the sender got back.
    pub outcome: Outcome,
    /// From sending to the answer, whatever the answer.
    pub rtt: Option<Duration>,
    /// The wait ended because `wake` became readable, not because of an outcome or the timeout.
    pub woken: bool,
    /// The source port or ICMP identifier that was used; 0 where the protocol has none.
    pub source_port: u16,
}

impl Sent {
    /// The sender got the answer that means "yes".
    pub const fn answered(&self) -> bool {
        matches!(self.outcome, Outcome::Answered)
    }

    /// There is an outcome: waiting longer changes nothing.
    pub const fn is_final(&self) -> bool {
        !matches!(self.outcome, Outcome::Silent)
    }
}

impl std::fmt::Display for Sent {
    /// One phrase for people: `reached, answered in 0.2 ms`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.reached { "reached, " } else { "not seen there, " })?;
        match &self.outcome {
            Outcome::Silent => f.write_str("no answer"),
            Outcome::Answered => f.write_str("answered"),
            Outcome::Refused => f.write_str("refused"),
            Outcome::Unreachable(error) => write!(f, "{error}"),
            Outcome::NotSent(error) => write!(f, "not sent: {error}"),
        }?;
        match self.rtt {
            Some(rtt) if self.is_final() => write!(f, " in {:.1} ms", rtt.as_secs_f64() * 1e3),
            _ => Ok(()),
        }
    }
}

/// Sends one packet and waits for what becomes of it.
pub fn send(lab: &Lab, packet: &Packet, wait: &Wait<'_>) -> Result<Sent, LabError> {
    let mut flow = Flow::open(lab, packet)?;
    flow.send()?;
    flow.wait(wait)
}
