//! A question over TCP (RFC 7766): a connection, a length of two bytes, the message.
//!
//! Invariant: connecting and answering each wait for the patience at most.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::Instant;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::sockopt::{ReuseAddr, SocketError};
use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrStorage, bind, connect, getsockopt, setsockopt, socket,
};

use super::message::{Reading, read};
use super::{Observation, Outcome, Probe, errno};

pub(super) fn ask(probe: &Probe, query: &[u8]) -> Observation {
    over(probe, |stream| exchange(probe, stream, query))
}

/// Connects and closes again.
pub(super) fn connect_only(probe: &Probe) -> Observation {
    over(probe, |_| Outcome::Connected)
}

fn over(probe: &Probe, then: impl FnOnce(&mut TcpStream) -> Outcome) -> Observation {
    let start = Instant::now();
    let (local, outcome) = match open(probe) {
        Err(Unopened::Unsent(error)) => (None, Outcome::Unsent { errno: errno(&error) }),
        Err(Unopened::Refused(error)) => (None, Outcome::Refused { errno: errno(&error) }),
        Err(Unopened::Silent) => (None, Outcome::Silent),
        Ok(mut stream) => (stream.local_addr().ok(), then(&mut stream)),
    };
    let answered = matches!(outcome, Outcome::Answered { .. } | Outcome::Garbled { .. });
    Observation {
        local,
        from: answered.then_some(probe.server),
        outcome,
        refusals: Vec::new(),
        strays: 0,
        microseconds: u64::try_from(start.elapsed().as_micros()).unwrap_or(u64::MAX),
    }
}

enum Unopened {
    Unsent(io::Error),
    Refused(io::Error),
    Silent,
}

impl From<Errno> for Unopened {
    fn from(errno: Errno) -> Self {
        Self::Unsent(errno.into())
    }
}

/// Connects without blocking, so that an error at once (no route, a filter of our own) is told from one that came
/// back.
fn open(probe: &Probe) -> Result<TcpStream, Unopened> {
    let family = if probe.server.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let socket = socket(family, SockType::Stream, flags, None)?;
    if probe.source_port.is_some() {
        setsockopt(&socket, ReuseAddr, &true)?;
        bind(socket.as_raw_fd(), &SockaddrStorage::from(probe.source()))?;
    }
    match connect(socket.as_raw_fd(), &SockaddrStorage::from(probe.server)) {
        Ok(()) => {}
        Err(Errno::EINPROGRESS) => connected(probe, &socket)?,
        Err(errno) => return Err(errno.into()),
    }
    let stream = TcpStream::from(socket);
    stream.set_nonblocking(false).map_err(Unopened::Unsent)?;
    Ok(stream)
}

fn connected(probe: &Probe, socket: &OwnedFd) -> Result<(), Unopened> {
    let end = Instant::now() + probe.patience;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let milliseconds = u16::try_from(left.as_millis() + 1).unwrap_or(u16::MAX);
        match poll(&mut [PollFd::new(socket.as_fd(), PollFlags::POLLOUT)], PollTimeout::from(milliseconds)) {
            Ok(0) if left.is_zero() => return Err(Unopened::Silent),
            Ok(0) | Err(Errno::EINTR) => {}
            Ok(_) => break,
            Err(errno) => return Err(Unopened::Refused(errno.into())),
        }
    }
    match getsockopt(socket, SocketError)? {
        0 => Ok(()),
        number if number == Errno::ETIMEDOUT as i32 => Err(Unopened::Silent),
        number => Err(Unopened::Refused(io::Error::from_raw_os_error(number))),
    }
}

fn exchange(probe: &Probe, stream: &mut TcpStream, query: &[u8]) -> Outcome {
    let end = Instant::now() + probe.patience;
    let length = u16::try_from(query.len()).unwrap_or(u16::MAX).to_be_bytes();
    // One write: a server may take a lone length for a slow client.
    let framed: Vec<u8> = length.into_iter().chain(query.iter().copied()).collect();
    let mut read_all = || -> io::Result<Vec<u8>> {
        stream.set_write_timeout(Some(probe.patience))?;
        stream.write_all(&framed)?;
        let mut length = [0u8; 2];
        fill(stream, &mut length, end)?;
        let mut message = vec![0u8; usize::from(u16::from_be_bytes(length))];
        fill(stream, &mut message, end)?;
        Ok(message)
    };
    match read_all() {
        Ok(bytes) => match read(probe, &bytes) {
            Reading::Answer(answer) => Outcome::Answered { answer },
            Reading::Stray => Outcome::Garbled { reason: "an answer to another question".to_owned() },
            Reading::Garbled(reason) => Outcome::Garbled { reason },
        },
        Err(error) => match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => Outcome::Silent,
            ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => Outcome::Closed,
            _ => Outcome::Refused { errno: errno(&error) },
        },
    }
}

/// Reads to the end of `buffer`, however slowly it comes, until `end`.
fn fill(stream: &mut TcpStream, buffer: &mut [u8], end: Instant) -> io::Result<()> {
    let mut filled = 0;
    while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(rest) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(length) => filled += length,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
