//! The other end: a raw socket that sees the packet arrive, and a listener that answers it.
//!
//! Invariant: the raw socket is open before anything is sent, and tells *this* packet from others by addresses
//! and ports. A listener is best effort: where the port is taken, whoever has it answers or does not.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use nix::sys::socket::{Backlog, MsgFlags, SockFlag, SockaddrStorage};

use super::{Packet, protocol, socket, wire};

/// The initiate tag of an INIT ACK; any but 0.
const ANSWERING_TAG: u32 = 0x6e65_746c;

/// Both sockets at the destination.
#[derive(Debug)]
pub(super) struct Observer {
    raw: OwnedFd,
    listener: Option<OwnedFd>,
    listens: bool,
    accepted: Vec<OwnedFd>,
}

impl Observer {
    /// Opens them. Runs inside the destination's namespace.
    pub(super) fn open(packet: &Packet, listens: bool) -> io::Result<Self> {
        let raw = socket::open(packet.destination, libc::SOCK_RAW, packet.protocol)?;
        socket::bind_destination(&raw, SocketAddr::new(packet.destination, 0))?;
        let listener = if listens { listen(packet)? } else { None };
        Ok(Self { raw, listener, listens, accepted: Vec::new() })
    }

    /// What to poll for reading.
    pub(super) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        std::iter::once(self.raw.as_fd()).chain(self.listener.as_ref().map(AsFd::as_fd))
    }

    /// Takes in whatever has arrived and answers it. True once the packet was among it. Without a source port any will
    /// do.
    pub(super) fn drain(&mut self, packet: &Packet, source_port: Option<u16>) -> bool {
        let mut seen = false;
        let mut buffer = [0; 2048];
        while let Some((length, Some(from))) = socket::receive(&self.raw, &mut buffer) {
            let bytes = buffer.get(..length).unwrap_or_default();
            // IPv4 raw sockets deliver the IP header too, IPv6 ones never do (raw(7), RFC 3542 §3).
            let payload = if from.is_ipv4() { wire::ipv4_payload(bytes) } else { Some(bytes) };
            if from.ip() == packet.source
                && let Some(payload) = payload
                && let Some(source_port) =
                    source_port.or_else(|| wire::read_ports(payload).map(|(port, _)| port))
                && is_it(packet, source_port, payload)
            {
                seen = true;
                self.answer(packet, source_port, payload);
            }
        }
        self.serve(packet);
        seen
    }

    /// Raw protocols are answered on the raw socket; the kernel answers ICMP echoes itself.
    fn answer(&self, packet: &Packet, source_port: u16, payload: &[u8]) {
        if !self.listens {
            return;
        }
        let bytes = match packet.protocol {
            protocol::TCP | protocol::UDP | protocol::ICMP | protocol::ICMPV6 => return,
            protocol::SCTP => {
                let tag = wire::read_sctp(payload).map(|init| init.initiate_tag);
                wire::sctp(packet.port, source_port, ANSWERING_TAG, tag)
            }
            _ => wire::PONG.to_vec(),
        };
        let to = SockaddrStorage::from(SocketAddr::new(packet.source, 0));
        // A reply that cannot be sent is a reply that does not arrive: the sender will tell.
        let _ = nix::sys::socket::sendto(self.raw.as_raw_fd(), &bytes, &to, MsgFlags::empty());
    }

    /// Accepts connections and echoes datagrams.
    fn serve(&mut self, packet: &Packet) {
        let Some(listener) = &self.listener else { return };
        if packet.protocol == protocol::UDP {
            let mut buffer = [0; 2048];
            while let Some((length, Some(from))) = socket::receive(listener, &mut buffer) {
                let bytes = buffer.get(..length).unwrap_or_default();
                let to = SockaddrStorage::from(from);
                let _ = nix::sys::socket::sendto(listener.as_raw_fd(), bytes, &to, MsgFlags::empty());
            }
            return;
        }
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        while let Ok(connection) = nix::sys::socket::accept4(listener, flags) {
            self.accepted.push(connection);
        }
    }

    /// The connection that the listener accepted last.
    pub(super) fn connection(&self) -> Option<&OwnedFd> {
        self.accepted.last()
    }
}

/// A listener on the destination's port, or `None` where the protocol has none or the port is taken.
fn listen(packet: &Packet) -> io::Result<Option<OwnedFd>> {
    let kind = match packet.protocol {
        protocol::TCP => libc::SOCK_STREAM,
        protocol::UDP => libc::SOCK_DGRAM,
        _ => return Ok(None),
    };
    let listener = socket::open(packet.destination, kind, packet.protocol)?;
    if packet.protocol == protocol::TCP {
        // Connections of earlier packets may still linger on the port.
        socket::set(&listener, libc::SOL_SOCKET, libc::SO_REUSEADDR, 1)?;
    }
    if packet.destination.is_ipv6() {
        socket::set(&listener, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, 1)?;
    }
    let outcome = socket::bind_destination(&listener, SocketAddr::new(packet.destination, packet.port))
        .and_then(|()| {
            if packet.protocol == protocol::TCP {
                let backlog = Backlog::new(16).unwrap_or(Backlog::MAXCONN);
                nix::sys::socket::listen(&listener, backlog)?;
            }
            Ok(())
        });
    match outcome {
        Ok(()) => Ok(Some(listener)),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => Ok(None),
        Err(error) => Err(error),
    }
}

fn is_it(packet: &Packet, source_port: u16, payload: &[u8]) -> bool {
    let ports = (source_port, packet.port);
    match packet.protocol {
        protocol::TCP => wire::read_ports(payload) == Some(ports) && wire::is_bare_syn(payload),
        protocol::UDP => wire::read_ports(payload) == Some(ports),
        protocol::SCTP => wire::read_sctp(payload)
            .is_some_and(|init| init.is_init && (init.source, init.destination) == ports),
        protocol::ICMP | protocol::ICMPV6 => {
            let ipv6 = matches!(packet.destination, IpAddr::V6(_));
            wire::read_echo(ipv6, payload) == Some((true, source_port))
        }
        _ => payload.starts_with(wire::PING),
    }
}
