//! The servers themselves: sockets inside namespaces, and a thread for each server.
//!
//! Invariant: sockets are bound to one address each, so an answer comes from the address that was asked. A server ends
//! when its [`Running`] is dropped; questions that wait for something then end within [`PATIENCE`].

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use netlab_node::Netns;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::sockopt::ReuseAddr;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrStorage, bind, setsockopt, socket};

use super::answer::{Book, Ready, decide};
use super::log::{Answered, Log};
use super::message::{self, Asked, Reading};
use super::script::Transport;
use super::{Counts, Server};
use crate::error::LabError;

/// How long a connection may be silent.
const PATIENCE: Duration = Duration::from_secs(10);
/// Questions that wait at the same time, at most; more get no answer.
const MOST_WAITING: usize = 256;

/// A server that runs.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) server: Server,
    counted: Arc<Counted>,
    /// The thread ends when this is closed.
    stop: Option<UnixStream>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop = None;
        // The next server of this address needs its port.
        let _ = self.thread.take().map(thread::JoinHandle::join);
    }
}

#[derive(Debug, Default)]
struct Counted {
    asked: AtomicU64,
    answered: AtomicU64,
    waiting: AtomicUsize,
}

/// What a thread needs to answer.
#[derive(Clone)]
struct Desk {
    address: IpAddr,
    book: Arc<Mutex<Book>>,
    netns: Arc<Netns>,
    counted: Arc<Counted>,
    log: Log,
}

impl Running {
    pub(super) fn start(
        server: &Server,
        netns: &Netns,
        book: &Arc<Mutex<Book>>,
        log: &Log,
    ) -> Result<Self, LabError> {
        let socket = |source: std::io::Error| LabError::Socket {
            place: server.place.clone(),
            action: format!("serve DNS on port {}", server.port),
            source,
        };
        let enter = |source| LabError::Enter { place: server.place.clone(), source };
        let (udp, tcp) = netns.run(|| open(server)).map_err(enter)?.map_err(socket)?;
        let (stop, stopped) = UnixStream::pair().map_err(socket)?;
        let counted = Arc::new(Counted::default());
        let netns = Arc::new(netns.try_clone().map_err(enter)?);
        let (book, count, log) = (Arc::clone(book), Arc::clone(&counted), log.clone());
        let work = move || {
            let desk = |address| Desk {
                address,
                book: Arc::clone(&book),
                netns: Arc::clone(&netns),
                counted: Arc::clone(&count),
                log: log.now(),
            };
            serve(&udp, &tcp, &stopped, &desk);
        };
        let thread = thread::Builder::new().name("dns".to_owned()).spawn(work).map_err(socket)?;
        Ok(Self { server: server.clone(), counted, stop: Some(stop), thread: Some(thread) })
    }

    pub(super) fn counts(&self) -> Counts {
        Counts {
            asked: self.counted.asked.load(Ordering::Relaxed),
            answered: self.counted.answered.load(Ordering::Relaxed),
        }
    }
}

type Bound<T> = Vec<(IpAddr, T)>;

fn open(server: &Server) -> std::io::Result<(Bound<UdpSocket>, Bound<TcpListener>)> {
    let (mut udp, mut tcp) = (Vec::new(), Vec::new());
    for address in &server.addresses {
        if server.udp {
            udp.push((*address, datagrams(SocketAddr::new(*address, server.port))?));
        }
        if server.tcp {
            let listener = TcpListener::bind((*address, server.port))?;
            listener.set_nonblocking(true)?;
            tcp.push((*address, listener));
        }
    }
    Ok((udp, tcp))
}

/// A socket that may follow one of the same address on which an answer is still to be sent.
fn datagrams(address: SocketAddr) -> std::io::Result<UdpSocket> {
    let family = if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let socket = socket(family, SockType::Datagram, flags, None)?;
    setsockopt(&socket, ReuseAddr, &true)?;
    bind(socket.as_raw_fd(), &SockaddrStorage::from(address))?;
    Ok(socket.into())
}

fn serve(
    udp: &[(IpAddr, UdpSocket)],
    tcp: &[(IpAddr, TcpListener)],
    stopped: &UnixStream,
    desk: &dyn Fn(IpAddr) -> Desk,
) {
    loop {
        let mut descriptors = vec![PollFd::new(stopped.as_fd(), PollFlags::POLLIN)];
        descriptors.extend(udp.iter().map(|(_, socket)| PollFd::new(socket.as_fd(), PollFlags::POLLIN)));
        descriptors.extend(tcp.iter().map(|(_, socket)| PollFd::new(socket.as_fd(), PollFlags::POLLIN)));
        match poll(&mut descriptors, PollTimeout::NONE) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(_) => return,
        }
        if descriptors.first().and_then(PollFd::any).unwrap_or(true) {
            return;
        }
        for (address, socket) in udp {
            take_datagrams(socket, &desk(*address));
        }
        for (address, listener) in tcp {
            while let Ok((stream, _)) = listener.accept() {
                let desk = desk(*address);
                // Without a thread the connection closes, which the asker understands.
                let _ =
                    thread::Builder::new().name("dns-tcp".to_owned()).spawn(move || converse(stream, &desk));
            }
        }
    }
}

fn take_datagrams(socket: &UdpSocket, desk: &Desk) {
    let mut buffer = [0; 4096];
    loop {
        let (length, from) = match socket.recv_from(&mut buffer) {
            Ok(received) => received,
            // An ICMP error of an earlier answer.
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => continue,
            Err(_) => return,
        };
        let asked = match message::read(buffer.get(..length).unwrap_or_default()) {
            Reading::Asked(asked) => asked,
            Reading::Refused(bytes) => {
                let _ = socket.send_to(&bytes, from);
                continue;
            }
            Reading::Nothing => continue,
        };
        desk.counted.asked.fetch_add(1, Ordering::Relaxed);
        let came = Instant::now();
        match desk.decide(&asked, Transport::Udp) {
            Ready::Now(said) => desk.send(socket, from, &asked, said.as_ref(), came),
            later @ Ready::Later(_) => {
                let Ok(socket) = socket.try_clone() else { continue };
                if desk.counted.waiting.fetch_add(1, Ordering::Relaxed) >= MOST_WAITING {
                    desk.counted.waiting.fetch_sub(1, Ordering::Relaxed);
                    continue;
                }
                let desk = desk.clone();
                let wait = move || {
                    let said = later.wait(&desk.netns, &desk.log);
                    desk.send(&socket, from, &asked, said.as_ref(), came);
                    desk.counted.waiting.fetch_sub(1, Ordering::Relaxed);
                };
                let _ = thread::Builder::new().name("dns-wait".to_owned()).spawn(wait);
            }
        }
    }
}

impl Desk {
    fn decide(&self, asked: &Asked, transport: Transport) -> Ready {
        let mut book = self.book.lock().unwrap_or_else(PoisonError::into_inner);
        decide(&mut book, asked, transport, self.address, &self.log)
    }

    fn send(
        &self,
        socket: &UdpSocket,
        to: SocketAddr,
        asked: &Asked,
        said: Option<&message::Said>,
        came: Instant,
    ) {
        let Some(said) = said else { return };
        let Some(bytes) = message::write(asked, said, Transport::Udp, self.address) else { return };
        self.note(to, asked, said, Transport::Udp, bytes.len(), came);
        if socket.send_to(&bytes, to).is_ok() {
            self.counted.answered.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn note(
        &self,
        client: SocketAddr,
        asked: &Asked,
        said: &message::Said,
        transport: Transport,
        bytes: usize,
        came: Instant,
    ) {
        self.log.answered(&Answered { client, asked, said, transport, bytes, took: came.elapsed() });
    }
}

fn converse(mut stream: TcpStream, desk: &Desk) {
    let prepared = stream
        .set_nonblocking(false)
        .and_then(|()| stream.set_read_timeout(Some(PATIENCE)))
        .and_then(|()| stream.set_write_timeout(Some(PATIENCE)));
    if prepared.is_err() {
        return;
    }
    loop {
        let mut length = [0; 2];
        if stream.read_exact(&mut length).is_err() {
            return;
        }
        let mut bytes = vec![0; usize::from(u16::from_be_bytes(length))];
        if stream.read_exact(&mut bytes).is_err() {
            return;
        }
        let asked = match message::read(&bytes) {
            Reading::Asked(asked) => asked,
            Reading::Refused(bytes) => {
                if stream.write_all(&[&[0, 12], &bytes[..]].concat()).is_err() {
                    return;
                }
                continue;
            }
            Reading::Nothing => return,
        };
        desk.counted.asked.fetch_add(1, Ordering::Relaxed);
        let came = Instant::now();
        let Some(said) = desk.decide(&asked, Transport::Tcp).wait(&desk.netns, &desk.log) else { continue };
        let Some(bytes) = message::write(&asked, &said, Transport::Tcp, desk.address) else { continue };
        if let Ok(client) = stream.peer_addr() {
            desk.note(client, &asked, &said, Transport::Tcp, bytes.len(), came);
        }
        let Ok(length) = u16::try_from(bytes.len()) else { return };
        let whole = [length.to_be_bytes().as_slice(), &bytes].concat();
        if stream.write_all(&whole).is_err() {
            return;
        }
        desk.counted.answered.fetch_add(1, Ordering::Relaxed);
    }
}
