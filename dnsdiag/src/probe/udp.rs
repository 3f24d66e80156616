//! A question over UDP.
//!
//! Invariant: one datagram is sent; the wait ends with an answer to it, an error, or the patience.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::message::{Reading, read};
use super::{Observation, Outcome, Probe, errno, error_queue};

/// The largest datagram.
const LARGEST: usize = 65_535;

/// As a C library asks: the kernel drops what others send, and tells of errors on the way.
pub(super) fn connected(probe: &Probe, query: &[u8]) -> Observation {
    ask(probe, query, true)
}

/// On a socket that hears anybody.
pub(super) fn from_any(probe: &Probe, query: &[u8]) -> Observation {
    ask(probe, query, false)
}

fn ask(probe: &Probe, query: &[u8], connect: bool) -> Observation {
    let start = Instant::now();
    let mut seen = Seen { local: None, from: None, refusals: Vec::new(), strays: 0 };
    let outcome = match open(probe, query, connect) {
        Ok(socket) => {
            seen.local = socket.local_addr().ok();
            let outcome = wait(probe, &socket, start + probe.patience, &mut seen);
            seen.refusals.extend(error_queue::take(&socket));
            outcome
        }
        Err(error) => Outcome::Unsent { errno: errno(&error) },
    };
    Observation {
        local: seen.local,
        from: seen.from,
        outcome,
        refusals: seen.refusals,
        strays: seen.strays,
        microseconds: u64::try_from(start.elapsed().as_micros()).unwrap_or(u64::MAX),
    }
}

struct Seen {
    local: Option<SocketAddr>,
    from: Option<SocketAddr>,
    refusals: Vec<error_queue::Refusal>,
    strays: u32,
}

/// A socket from which the question has been sent.
fn open(probe: &Probe, query: &[u8], connect: bool) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind(probe.source())?;
    socket.set_nonblocking(true)?;
    error_queue::keep(&socket, probe.server.is_ipv4())?;
    if connect {
        socket.connect(probe.server)?;
        socket.send(query)?;
    } else {
        socket.send_to(query, probe.server)?;
    }
    Ok(socket)
}

fn wait(probe: &Probe, socket: &UdpSocket, end: Instant, seen: &mut Seen) -> Outcome {
    let mut bytes = vec![0u8; LARGEST];
    loop {
        match socket.recv_from(&mut bytes) {
            Ok((length, from)) => match read(probe, bytes.get(..length).unwrap_or_default()) {
                Reading::Answer(answer) => {
                    seen.from = Some(from);
                    return Outcome::Answered { answer };
                }
                Reading::Stray => seen.strays += 1,
                Reading::Garbled(reason) => {
                    seen.from = Some(from);
                    return Outcome::Garbled { reason };
                }
            },
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                let left = end.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return Outcome::Silent;
                }
                if let Err(error) = ready(socket, left) {
                    return Outcome::Refused { errno: errno(&error) };
                }
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Outcome::Refused { errno: errno(&error) },
        }
    }
}

/// Waits until something came or the time is over; which of them, the next read tells. The queue of errors is left
/// alone until then: taking an error from it also takes it from that read.
fn ready(socket: &UdpSocket, left: Duration) -> io::Result<()> {
    // Rounded up: a wait of nothing would turn the last millisecond into a busy loop.
    let milliseconds = u16::try_from(left.as_millis() + 1).unwrap_or(u16::MAX);
    match poll(&mut [PollFd::new(socket.as_fd(), PollFlags::POLLIN)], PollTimeout::from(milliseconds)) {
        Ok(_) | Err(Errno::EINTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
