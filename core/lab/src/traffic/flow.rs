//! One packet from open sockets to its outcome.
//!
//! Invariant: [`Flow::open`] sends nothing; [`Flow::send`] sends one packet; [`Flow::wait`] may be called again
//! as long as there is no outcome. Sockets close with the flow; an established TCP connection is then reset
//! rather than closed, which costs one segment instead of four.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{MsgFlags, SockaddrStorage};

use super::observer::Observer;
use super::{Outcome, Packet, Sent, Wait, protocol, socket, wire};
use crate::error::LabError;
use crate::place::Place;
use crate::topology::Lab;

/// A packet with its sockets.
#[derive(Debug)]
pub struct Flow {
    packet: Packet,
    /// The same when it arrives.
    arriving: Packet,
    sender: OwnedFd,
    observer: Observer,
    source_port: u16,
    sent_at: Option<Instant>,
    answered_after: Option<Duration>,
    reached: bool,
    outcome: Outcome,
}

impl Flow {
    /// Opens the sockets of both ends.
    pub fn open(lab: &Lab, packet: &Packet) -> Result<Self, LabError> {
        Self::open_with(lab, packet, packet, true)
    }

    /// The same for a packet that the nodes on its way translate: `arriving` is what becomes of it. Its source port may
    /// be any when its source is another.
    pub fn open_translated(lab: &Lab, packet: &Packet, arriving: &Packet) -> Result<Self, LabError> {
        check(arriving)?;
        Self::open_with(lab, packet, arriving, true)
    }

    /// Opens the sender's socket and the raw one that sees the packet arrive, but no listener: the destination's
    /// port is closed, unless somebody else listens there.
    pub fn open_to_closed_port(lab: &Lab, packet: &Packet) -> Result<Self, LabError> {
        Self::open_with(lab, packet, packet, false)
    }

    fn open_with(lab: &Lab, packet: &Packet, arriving: &Packet, listens: bool) -> Result<Self, LabError> {
        check(packet)?;
        let observer = inside(lab, &arriving.to, "listen", || Observer::open(arriving, listens))?;
        let action = format!("open a socket on {}", packet.source);
        let (sender, source_port) = inside(lab, &packet.from, &action, || open_sender(packet))?;
        Ok(Self {
            packet: packet.clone(),
            arriving: arriving.clone(),
            sender,
            observer,
            source_port,
            sent_at: None,
            answered_after: None,
            reached: false,
            outcome: Outcome::Silent,
        })
    }

    /// The source port or ICMP identifier that the packet will have; 0 where the protocol has none.
    pub const fn source_port(&self) -> u16 {
        self.source_port
    }

    /// Sends the packet: one. A refusal by the sender's own kernel is an outcome, not an error. Again on the same
    /// flow means another packet with the same ports; a TCP flow opens one connection only.
    pub fn send(&mut self) -> Result<(), LabError> {
        self.outcome = Outcome::Silent;
        self.reached = false;
        self.answered_after = None;
        self.sent_at = Some(Instant::now());
        if let Err(errno) = self.emit() {
            // An ICMP error may be quicker than we are.
            self.outcome = match socket::next_error(self.sender.as_fd()) {
                Some((icmp, _)) => Outcome::Unreachable(icmp),
                None if errno == Errno::ECONNREFUSED => Outcome::Refused,
                None => Outcome::NotSent(errno.into()),
            };
        }
        Ok(())
    }

    /// Fixing the peer lets ICMP errors find the socket, and strangers not; for TCP it is the SYN itself.
    fn emit(&self) -> Result<(), Errno> {
        let has_port = matches!(self.packet.protocol, protocol::TCP | protocol::UDP);
        let port = if has_port { self.packet.port } else { 0 };
        let to = SockaddrStorage::from(SocketAddr::new(self.packet.destination, port));
        match nix::sys::socket::connect(self.sender.as_raw_fd(), &to) {
            Ok(()) | Err(Errno::EINPROGRESS) => {}
            Err(errno) => return Err(errno),
        }
        if self.packet.protocol == protocol::TCP {
            return Ok(());
        }
        let bytes = payload(&self.packet, self.source_port);
        nix::sys::socket::send(self.sender.as_raw_fd(), &bytes, MsgFlags::empty()).map(|_| ())
    }

    /// Waits for the outcome, the wake-up or the end of the time, whichever comes first.
    pub fn wait(&mut self, wait: &Wait<'_>) -> Result<Sent, LabError> {
        let deadline = Instant::now() + wait.timeout;
        let mut woken = false;
        loop {
            self.take_in();
            let left = deadline.saturating_duration_since(Instant::now());
            if !matches!(self.outcome, Outcome::Silent) || woken || left.is_zero() {
                return Ok(self.report(woken));
            }
            let mut descriptors = vec![PollFd::new(self.sender.as_fd(), self.sender_events())];
            descriptors.extend(wait.wake.map(|wake| PollFd::new(wake, PollFlags::POLLIN)));
            descriptors.extend(self.observer.descriptors().map(|fd| PollFd::new(fd, PollFlags::POLLIN)));
            // Rounded up, or the last millisecond would be a busy loop.
            let timeout =
                PollTimeout::try_from(left.as_millis().saturating_add(1)).unwrap_or(PollTimeout::MAX);
            match poll(&mut descriptors, timeout) {
                Ok(_) | Err(Errno::EINTR) => {}
                Err(errno) => {
                    return Err(LabError::Socket {
                        place: self.packet.from.clone(),
                        action: "wait for an answer".to_owned(),
                        source: errno.into(),
                    });
                }
            }
            woken = wait.wake.is_some() && descriptors.get(1).and_then(PollFd::any).unwrap_or(false);
        }
    }

    /// Sends a byte along an established TCP connection, from the sender or back to it, and waits for it to
    /// arrive at the other end. False when it did not, or when there is no connection.
    pub fn relay(&mut self, backwards: bool, timeout: Duration) -> bool {
        self.take_in();
        let Some(accepted) = self.observer.connection() else { return false };
        let (near, far) = if backwards { (accepted, &self.sender) } else { (&self.sender, accepted) };
        if nix::sys::socket::send(near.as_raw_fd(), b"n", MsgFlags::MSG_NOSIGNAL).is_err() {
            return false;
        }
        let mut descriptors = [PollFd::new(far.as_fd(), PollFlags::POLLIN)];
        let timeout = PollTimeout::try_from(timeout.as_millis()).unwrap_or(PollTimeout::MAX);
        let ready = poll(&mut descriptors, timeout).is_ok_and(|count| count > 0);
        ready && socket::receive(far, &mut [0; 16]).is_some_and(|(length, _)| length > 0)
    }

    fn sender_events(&self) -> PollFlags {
        if self.packet.protocol == protocol::TCP { PollFlags::POLLOUT } else { PollFlags::POLLIN }
    }

    /// Looks at every socket without waiting. The observer goes last: what was answered has arrived before.
    fn take_in(&mut self) {
        if self.has_arrived() {
            self.reached = true;
        }
        if !matches!(self.outcome, Outcome::Silent) {
            return;
        }
        let seen = if self.packet.protocol == protocol::TCP { self.connected() } else { self.replied() };
        if let Some(outcome) = seen {
            self.answered_after = self.sent_at.map(|at| at.elapsed());
            self.outcome = outcome;
            if self.has_arrived() {
                self.reached = true;
            }
        }
    }

    fn has_arrived(&mut self) -> bool {
        let keeps_its_source = self.arriving.source == self.packet.source;
        self.observer.drain(&self.arriving, keeps_its_source.then_some(self.source_port))
    }

    fn connected(&self) -> Option<Outcome> {
        self.sent_at?;
        let mut descriptors = [PollFd::new(self.sender.as_fd(), PollFlags::POLLOUT)];
        if !poll(&mut descriptors, PollTimeout::ZERO).is_ok_and(|count| count > 0) {
            return None;
        }
        if let Some((icmp, _)) = socket::next_error(self.sender.as_fd()) {
            return Some(Outcome::Unreachable(icmp));
        }
        match nix::sys::socket::getsockopt(&self.sender, nix::sys::socket::sockopt::SocketError) {
            Ok(0) => Some(Outcome::Answered),
            Ok(libc::ECONNREFUSED) => Some(Outcome::Refused),
            // The kernel gave up: nobody answered.
            Ok(libc::ETIMEDOUT) => None,
            Ok(errno) => Some(Outcome::NotSent(io::Error::from_raw_os_error(errno))),
            Err(errno) => Some(Outcome::NotSent(errno.into())),
        }
    }

    fn replied(&self) -> Option<Outcome> {
        self.sent_at?;
        let mut buffer = [0; 2048];
        while let Some((length, from)) = socket::receive(&self.sender, &mut buffer) {
            let bytes = buffer.get(..length).unwrap_or_default();
            if self.is_reply(bytes, from) {
                return Some(Outcome::Answered);
            }
        }
        socket::next_error(self.sender.as_fd()).map(|(icmp, _)| Outcome::Unreachable(icmp))
    }

    fn is_reply(&self, bytes: &[u8], from: Option<SocketAddr>) -> bool {
        if self.packet.protocol == protocol::UDP {
            return true;
        }
        let ipv6 = self.packet.destination.is_ipv6();
        let payload = if ipv6 { Some(bytes) } else { wire::ipv4_payload(bytes) };
        let Some(payload) = payload else { return false };
        let from_there = from.is_none_or(|from| from.ip() == self.packet.destination);
        from_there
            && match self.packet.protocol {
                protocol::SCTP => wire::read_sctp(payload).is_some_and(|chunk| {
                    !chunk.is_init
                        && (chunk.source, chunk.destination) == (self.packet.port, self.source_port)
                }),
                protocol::ICMP | protocol::ICMPV6 => {
                    wire::read_echo(ipv6, payload) == Some((false, self.source_port))
                }
                _ => payload.starts_with(wire::PONG),
            }
    }

    fn report(&mut self, woken: bool) -> Sent {
        let outcome = match &self.outcome {
            Outcome::Silent => Outcome::Silent,
            Outcome::Answered => Outcome::Answered,
            Outcome::Refused => Outcome::Refused,
            Outcome::Unreachable(icmp) => Outcome::Unreachable(icmp.clone()),
            Outcome::NotSent(error) => Outcome::NotSent(error.raw_os_error().map_or_else(
                || io::Error::new(error.kind(), error.to_string()),
                io::Error::from_raw_os_error,
            )),
        };
        Sent {
            reached: self.reached,
            outcome,
            rtt: self.answered_after,
            woken,
            source_port: self.source_port,
        }
    }
}

fn inside<T: Send>(
    lab: &Lab,
    place: &Place,
    action: &str,
    work: impl FnOnce() -> io::Result<T> + Send,
) -> Result<T, LabError> {
    let outcome =
        lab.netns(place)?.run(work).map_err(|source| LabError::Enter { place: place.clone(), source })?;
    outcome.map_err(|source| LabError::Socket { place: place.clone(), action: action.to_owned(), source })
}

fn check(packet: &Packet) -> Result<(), LabError> {
    let reason = if packet.source.is_ipv4() != packet.destination.is_ipv4() {
        format!("{} and {} are of different families", packet.source, packet.destination)
    } else if packet.port == 0 && matches!(packet.protocol, protocol::TCP | protocol::UDP | protocol::SCTP) {
        "TCP, UDP and SCTP need a destination port".to_owned()
    } else if packet.protocol == protocol::ICMP && packet.destination.is_ipv6() {
        "protocol 1 is ICMP of IPv4; IPv6 has ICMPv6, protocol 58".to_owned()
    } else if packet.protocol == protocol::ICMPV6 && packet.destination.is_ipv4() {
        "protocol 58 is ICMPv6; IPv4 has ICMP, protocol 1".to_owned()
    } else {
        return Ok(());
    };
    Err(LabError::Packet { reason })
}

/// Opens the sender's socket. Runs inside the source's namespace.
fn open_sender(packet: &Packet) -> io::Result<(OwnedFd, u16)> {
    let wanted = packet.source_port.unwrap_or_default();
    let kind = match packet.protocol {
        protocol::TCP => libc::SOCK_STREAM,
        protocol::UDP => libc::SOCK_DGRAM,
        _ => libc::SOCK_RAW,
    };
    let sender = socket::open(packet.source, kind, packet.protocol)?;
    socket::report_errors(&sender, packet.source)?;
    if kind == libc::SOCK_RAW {
        socket::bind_source(&sender, SocketAddr::new(packet.source, 0))?;
        let port = match packet.protocol {
            protocol::SCTP | protocol::ICMP | protocol::ICMPV6 => {
                packet.source_port.unwrap_or_else(fresh_port)
            }
            _ => 0,
        };
        return Ok((sender, port));
    }
    if kind == libc::SOCK_STREAM {
        // One retransmission is the fewest the kernel allows; it comes after a second.
        socket::set(&sender, libc::IPPROTO_TCP, libc::TCP_SYNCNT, 1)?;
        let reset = libc::linger { l_onoff: 1, l_linger: 0 };
        nix::sys::socket::setsockopt(&sender, nix::sys::socket::sockopt::Linger, &reset)?;
        if wanted != 0 {
            socket::set(&sender, libc::SOL_SOCKET, libc::SO_REUSEADDR, 1)?;
        }
    }
    socket::bind_source(&sender, SocketAddr::new(packet.source, wanted))?;
    let port = socket::local_port(&sender)?;
    Ok((sender, port))
}

fn payload(packet: &Packet, source_port: u16) -> Vec<u8> {
    match packet.protocol {
        protocol::SCTP => wire::sctp(source_port, packet.port, u32::from(source_port) + 1, None),
        protocol::ICMP | protocol::ICMPV6 => wire::echo_request(packet.destination.is_ipv6(), source_port),
        _ => wire::PING.to_vec(),
    }
}

/// A port above those that kernels give out by themselves (32768–60999), different for each call.
fn fresh_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.subsec_micros());
    let _ = NEXT.compare_exchange(0, now | 1, Ordering::Relaxed, Ordering::Relaxed);
    let number = NEXT.fetch_add(1, Ordering::Relaxed) % 4000;
    61_000 + u16::try_from(number).unwrap_or_default()
}
