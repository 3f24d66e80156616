//! Questions over UDP.
//!
//! Invariant: one datagram is sent for each question; the wait ends with an answer to each, an error, or the patience.

use std::io::{self, ErrorKind, IoSlice};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{ControlMessage, MsgFlags, MultiHeaders, SockaddrStorage, sendmmsg};

use super::message::{Reading, read};
use super::{Observation, Order, Outcome, Probe, errno, error_queue};

/// The largest datagram.
const LARGEST: usize = 65_535;

/// Once one of several questions from a socket is refused, the others wait so long: their errors come with it, or are kept back
/// (`icmp_ratelimit`).
const AFTER_A_REFUSAL: Duration = Duration::from_millis(300);

/// As a C library asks: the kernel drops what others send, and tells of errors on the way.
pub(super) fn connected(probe: &Probe, query: &[u8]) -> Observation {
    ask(std::slice::from_ref(probe), &[query], Order::AtOnce, true).pop().unwrap_or_else(never)
}

/// On a socket that hears anybody.
pub(super) fn from_any(probe: &Probe, query: &[u8]) -> Observation {
    ask(std::slice::from_ref(probe), &[query], Order::AtOnce, false).pop().unwrap_or_else(never)
}

/// Several questions from one connected socket.
pub(super) fn together(probes: &[Probe], queries: &[Vec<u8>], order: Order) -> Vec<Observation> {
    ask(probes, &queries.iter().map(Vec::as_slice).collect::<Vec<_>>(), order, true)
}

/// What is seen of a question that nobody asked.
const fn never() -> Observation {
    Observation {
        local: None,
        from: None,
        outcome: Outcome::Silent,
        refusals: Vec::new(),
        strays: 0,
        microseconds: 0,
    }
}

fn ask(probes: &[Probe], queries: &[&[u8]], order: Order, connect: bool) -> Vec<Observation> {
    let Some(first) = probes.first() else { return Vec::new() };
    let mut open: Vec<Open<'_>> = probes
        .iter()
        .zip(queries)
        .map(|(probe, query)| Open { probe, query, start: Instant::now(), outcome: None, seen: never() })
        .collect();
    match socket(first, connect) {
        Ok(socket) => {
            let local = socket.local_addr().ok();
            for one in &mut open {
                one.seen.local = local;
            }
            match order {
                Order::AtOnce => exchange(&socket, connect, first.patience, &mut open),
                Order::OneByOne => {
                    for one in &mut open {
                        exchange(&socket, connect, first.patience, std::slice::from_mut(one));
                    }
                }
            }
        }
        Err(error) => {
            for one in &mut open {
                one.outcome = Some(Outcome::Unsent { errno: errno(&error) });
            }
        }
    }
    open.into_iter().map(Open::closed).collect()
}

/// A question that is being asked.
struct Open<'p> {
    probe: &'p Probe,
    query: &'p [u8],
    start: Instant,
    outcome: Option<Outcome>,
    seen: Observation,
}

impl Open<'_> {
    fn end(&mut self, outcome: Outcome) {
        self.outcome = Some(outcome);
        self.seen.microseconds = u64::try_from(self.start.elapsed().as_micros()).unwrap_or(u64::MAX);
    }

    fn closed(mut self) -> Observation {
        if self.seen.microseconds == 0 {
            self.seen.microseconds = u64::try_from(self.start.elapsed().as_micros()).unwrap_or(u64::MAX);
        }
        self.seen.outcome = self.outcome.unwrap_or(Outcome::Silent);
        self.seen
    }
}

/// A socket, from which nothing has been sent.
fn socket(probe: &Probe, connect: bool) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind(probe.source())?;
    socket.set_nonblocking(true)?;
    error_queue::keep(&socket, probe.server.is_ipv4())?;
    if connect {
        socket.connect(probe.server)?;
    }
    Ok(socket)
}

/// Sends the questions one after the other, and waits for what becomes of each.
fn exchange(socket: &UdpSocket, connect: bool, patience: Duration, open: &mut [Open<'_>]) {
    let send = |one: &Open<'_>| {
        if connect { socket.send(one.query) } else { socket.send_to(one.query, one.probe.server) }
    };
    let mut refused = None;
    for one in &mut *open {
        one.start = Instant::now();
    }
    let gone = if connect && open.len() > 1 { in_one_call(socket, open) } else { 0 };
    for one in open.iter_mut().skip(gone) {
        one.start = Instant::now();
        let mut sent = send(one);
        // An error that waits at the socket is of an earlier question, and is told by whatever call comes first.
        if let Err(error) = &sent
            && let queue = error_queue::take(socket)
            && !queue.is_empty()
        {
            refused = Some(errno(error));
            one.seen.refusals.extend(queue.into_iter().map(|(refusal, _)| refusal));
            sent = send(one);
        }
        if let Err(error) = sent {
            one.end(Outcome::Unsent { errno: errno(&error) });
        }
    }
    wait(socket, Instant::now() + patience, refused, open);
}

/// Sends all by one system call, as glibc does (`sendmmsg(2)`): between two calls an answer to the first may come, and then the
/// second is no new flow any more. How many went.
fn in_one_call(socket: &UdpSocket, open: &[Open<'_>]) -> usize {
    let slices: Vec<[IoSlice<'_>; 1]> = open.iter().map(|one| [IoSlice::new(one.query)]).collect();
    let addresses: Vec<Option<SockaddrStorage>> = open.iter().map(|_| None).collect();
    let mut headers = MultiHeaders::<SockaddrStorage>::preallocate(open.len(), None);
    let nothing: &[ControlMessage<'_>] = &[];
    let sent = sendmmsg(socket.as_raw_fd(), &mut headers, &slices, &addresses, nothing, MsgFlags::empty());
    sent.map_or(0, Iterator::count)
}

fn wait(socket: &UdpSocket, mut end: Instant, mut refused: Option<String>, open: &mut [Open<'_>]) {
    let mut bytes = vec![0u8; LARGEST];
    while open.iter().any(|one| one.outcome.is_none()) {
        match socket.recv_from(&mut bytes) {
            Ok((length, from)) => heard(bytes.get(..length).unwrap_or_default(), from, open),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                let left = end.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    break;
                }
                if let Err(error) = ready(socket, left) {
                    refused = Some(errno(&error));
                    break;
                }
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => {
                let name = errno(&error);
                let queue = error_queue::take(socket);
                let told: Vec<Option<u16>> = queue.iter().map(|(_, id)| *id).collect();
                keep(queue, open);
                for one in open.iter_mut().filter(|one| one.outcome.is_none()) {
                    if told.contains(&Some(one.probe.id)) || told.iter().all(Option::is_none) {
                        one.end(Outcome::Refused { errno: name.clone() });
                    }
                }
                refused = Some(name);
                end = end.min(Instant::now() + AFTER_A_REFUSAL);
            }
        }
    }
    for one in open.iter_mut().filter(|one| one.outcome.is_none()) {
        one.end(refused.clone().map_or(Outcome::Silent, |errno| Outcome::Refused { errno }));
    }
    keep(error_queue::take(socket), open);
}

/// A message that came.
fn heard(bytes: &[u8], from: SocketAddr, open: &mut [Open<'_>]) {
    let mut garbled = None;
    for one in open.iter_mut().filter(|one| one.outcome.is_none()) {
        match read(one.probe, bytes) {
            Reading::Answer(answer) => {
                one.seen.from = Some(from);
                one.end(Outcome::Answered { answer });
                return;
            }
            Reading::Stray => {}
            Reading::Garbled(reason) => garbled = Some(reason),
        }
    }
    let id = bytes.first_chunk().map(|id| u16::from_be_bytes(*id));
    let is_it = |one: &&mut Open<'_>| one.outcome.is_none() && Some(one.probe.id) == id;
    let mut waiting: Vec<&mut Open<'_>> = open.iter_mut().filter(|one| one.outcome.is_none()).collect();
    let place = waiting.iter().position(is_it).unwrap_or(0);
    let Some(one) = waiting.get_mut(place) else { return };
    match garbled {
        Some(reason) => {
            one.seen.from = Some(from);
            one.end(Outcome::Garbled { reason });
        }
        None => one.seen.strays += 1,
    }
}

/// Keeps each error with the question that it is about; one of which that is not known, with the first.
fn keep(queue: Vec<(error_queue::Refusal, Option<u16>)>, open: &mut [Open<'_>]) {
    for (refusal, id) in queue {
        let place = open.iter().position(|one| Some(one.probe.id) == id).unwrap_or(0);
        if let Some(one) = open.get_mut(place) {
            one.seen.refusals.push(refusal);
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
