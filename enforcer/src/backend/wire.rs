//! Real packets into a namespace, and the entries that counted them: how a backend's verdicts are compared with
//! those of the tables.
//!
//! Invariant: a packet is the first one of a connection, exactly as [`opening`] builds it, so that a host that
//! judges the same frame judges the same packet; it is sent by the namespace's own routing, from any source
//! address. Whoever sends two packets with one tuple asks about a flow, not about a verdict.

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use netlab_core::policy::frame::{Tuple, opening};
use netlab_ebpf::packet::ETHERNET;
use netlab_node::{Netns, NodeError};
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrIn, SockaddrIn6, sendto, socket,
};

/// How long a packet may be on its way.
const PATIENCE: Duration = Duration::from_secs(2);

/// Why no packet was sent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// The namespace cannot be entered.
    #[error("cannot send from a namespace")]
    Namespace(#[from] NodeError),
    /// No raw socket: `CAP_NET_RAW` is missing.
    #[error("cannot open a raw socket: {0}")]
    Socket(nix::Error),
    /// Source and destination are of two families.
    #[error("{source_address} and {destination} have no family in common")]
    Families {
        /// From.
        source_address: IpAddr,
        /// To.
        destination: IpAddr,
    },
    /// The namespace's own stack refused.
    #[error("cannot send a packet to {destination}: {source}")]
    Send {
        /// To.
        destination: IpAddr,
        /// Why.
        source: nix::Error,
    },
}

/// Sends opening packets out of one namespace.
#[derive(Debug)]
pub struct Sender {
    ipv4: OwnedFd,
    ipv6: Option<OwnedFd>,
}

impl Sender {
    /// A sender in a namespace; needs `CAP_NET_RAW` there.
    ///
    /// # Errors
    /// [`WireError`] when that is missing.
    pub fn open(netns: &Netns) -> Result<Self, WireError> {
        // IPPROTO_RAW: the packet brings its own IP header, in both families.
        let open = |family| socket(family, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::Raw);
        let (ipv4, ipv6) = netns.run(|| (open(AddressFamily::Inet), open(AddressFamily::Inet6).ok()))?;
        Ok(Self { ipv4: ipv4.map_err(WireError::Socket)?, ipv6 })
    }

    /// Sends the first packet of a connection.
    ///
    /// # Errors
    /// [`WireError`] when the namespace has no way to the destination.
    pub fn send(&self, tuple: &Tuple) -> Result<(), WireError> {
        let families =
            || WireError::Families { source_address: tuple.source, destination: tuple.destination };
        let frame = opening(tuple).ok_or_else(families)?;
        let packet = usize::try_from(ETHERNET).ok().and_then(|start| frame.get(start..)).unwrap_or_default();
        let sent = match (tuple.destination, &self.ipv6) {
            (IpAddr::V4(destination), _) => {
                let to = SockaddrIn::from(std::net::SocketAddrV4::new(destination, 0));
                sendto(self.ipv4.as_raw_fd(), packet, &to, MsgFlags::empty())
            }
            (IpAddr::V6(destination), Some(socket)) => {
                let to = SockaddrIn6::from(std::net::SocketAddrV6::new(destination, 0, 0, 0));
                sendto(socket.as_raw_fd(), packet, &to, MsgFlags::empty())
            }
            (IpAddr::V6(_), None) => Err(nix::Error::EAFNOSUPPORT),
        };
        sent.map(drop).map_err(|source| WireError::Send { destination: tuple.destination, source })
    }
}

/// What moved between two readings.
pub fn moved(before: &BTreeMap<u32, u64>, after: &BTreeMap<u32, u64>) -> BTreeMap<u32, u64> {
    after
        .iter()
        .map(|(entry, packets)| (*entry, packets.saturating_sub(before.get(entry).copied().unwrap_or(0))))
        .filter(|(_, packets)| *packets > 0)
        .collect()
}

/// Runs `send` and gives the entries that counted a packet, once `enough` of them have and nothing moves any
/// more. What has moved after two seconds is the answer in any case.
///
/// # Errors
/// Those of `send` and of `counters`.
pub fn count<E>(
    counters: &mut dyn FnMut() -> Result<BTreeMap<u32, u64>, E>,
    enough: impl Fn(&BTreeMap<u32, u64>) -> bool,
    send: impl FnOnce() -> Result<(), E>,
) -> Result<BTreeMap<u32, u64>, E> {
    let before = counters()?;
    send()?;
    let deadline = Instant::now() + PATIENCE;
    let mut last = counters()?;
    loop {
        let now = counters()?;
        let deltas = moved(&before, &now);
        if (now == last && enough(&deltas)) || Instant::now() > deadline {
            return Ok(deltas);
        }
        last = now;
        std::thread::sleep(Duration::from_millis(1));
    }
}

impl From<WireError> for io::Error {
    fn from(error: WireError) -> Self {
        Self::other(error)
    }
}
