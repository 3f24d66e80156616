//! A scripted DNS server on plain sockets, written apart from everything that it is used to test.
//!
//! Invariant: what it logs is what arrived, in the order of arrival at each server. It binds in the namespace of the
//! thread that starts it.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use netlab_dnsdiag::answers::{Answer, Qtype, Transport};
use netlab_dnsdiag::script::Script;
use nix::time::{ClockId, clock_gettime};

/// Nanoseconds of `CLOCK_MONOTONIC`, the helper's clock, too.
pub(crate) fn monotonic() -> i64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("a clock");
    now.tv_sec() * 1_000_000_000 + now.tv_nsec()
}

/// A query that arrived.
#[derive(Clone, Debug)]
pub(crate) struct Arrived {
    pub(crate) at: i64,
    pub(crate) what: String,
}

struct Shared {
    script: Script,
    log: Mutex<Vec<Arrived>>,
    asked: Mutex<BTreeMap<(IpAddr, String, Qtype), u32>>,
    stop: AtomicBool,
}

/// All servers of a script.
pub(crate) struct Servers {
    shared: Arc<Shared>,
    wake: Vec<(Transport, SocketAddr)>,
    threads: Vec<JoinHandle<()>>,
}

impl Servers {
    /// Binds and answers.
    pub(crate) fn start(script: &Script) -> std::io::Result<Self> {
        let shared = Arc::new(Shared {
            script: script.clone(),
            log: Mutex::default(),
            asked: Mutex::default(),
            stop: AtomicBool::new(false),
        });
        let (mut wake, mut threads) = (Vec::new(), Vec::new());
        for server in script.servers.keys().copied() {
            let address = SocketAddr::new(server, 53);
            if script.listens(server, Transport::Udp) {
                let socket = UdpSocket::bind(address)?;
                let shared = Arc::clone(&shared);
                wake.push((Transport::Udp, address));
                threads.push(std::thread::spawn(move || udp(&shared, server, &socket)));
            }
            if script.listens(server, Transport::Tcp) {
                let listener = TcpListener::bind(address)?;
                let shared = Arc::clone(&shared);
                wake.push((Transport::Tcp, address));
                threads.push(std::thread::spawn(move || tcp(&shared, server, &listener)));
            }
        }
        Ok(Self { shared, wake, threads })
    }

    /// Ends the servers, and tells what arrived. To be called in their namespace.
    pub(crate) fn stop(self) -> Vec<Arrived> {
        self.shared.stop.store(true, Ordering::SeqCst);
        for (transport, address) in self.wake {
            match transport {
                Transport::Udp => {
                    let any = SocketAddr::new(address.ip(), 0);
                    let _ = UdpSocket::bind(any).and_then(|socket| socket.send_to(b"", address));
                }
                Transport::Tcp => drop(TcpStream::connect(address)),
            }
        }
        for thread in self.threads {
            thread.join().expect("a server thread");
        }
        std::mem::take(&mut *self.shared.log.lock().expect("the log"))
    }
}

fn udp(shared: &Shared, server: IpAddr, socket: &UdpSocket) {
    let mut buffer = [0; 4096];
    while let Ok((length, from)) = socket.recv_from(&mut buffer) {
        // What came before the end of the servers is logged, however late.
        if length == 0 && shared.stop.load(Ordering::SeqCst) {
            return;
        }
        if let Some(reply) = shared.reply(server, Transport::Udp, &buffer[..length]) {
            let _ = socket.send_to(&reply, from);
        }
    }
}

fn tcp(shared: &Arc<Shared>, server: IpAddr, listener: &TcpListener) {
    let mut connections = Vec::new();
    // After the end what is waiting is taken, and no more.
    while let Ok((stream, _)) = listener.accept() {
        if shared.stop.load(Ordering::SeqCst) {
            listener.set_nonblocking(true).expect("a listener");
            stream.set_nonblocking(false).expect("a stream");
        }
        let shared = Arc::clone(shared);
        // It ends when the client closes, and every client ends before its servers.
        connections.push(std::thread::spawn(move || connection(&shared, server, stream)));
    }
    for connection in connections {
        connection.join().expect("a connection");
    }
}

fn connection(shared: &Shared, server: IpAddr, mut stream: TcpStream) {
    let _ = stream.set_nodelay(true);
    loop {
        let mut length = [0; 2];
        if stream.read_exact(&mut length).is_err() {
            return;
        }
        let mut message = vec![0; usize::from(u16::from_be_bytes(length))];
        if stream.read_exact(&mut message).is_err() {
            return;
        }
        if let Some(reply) = shared.reply(server, Transport::Tcp, &message) {
            let length = u16::try_from(reply.len()).expect("a short reply").to_be_bytes();
            if stream.write_all(&[&length[..], &reply].concat()).is_err() {
                return;
            }
        }
    }
}

impl Shared {
    fn reply(&self, server: IpAddr, transport: Transport, message: &[u8]) -> Option<Vec<u8>> {
        let at = monotonic();
        let (name, qtype, question) = question(message)?;
        self.log
            .lock()
            .expect("the log")
            .push(Arrived { at, what: format!("{server} {transport} {name} {qtype}") });
        let asked_before = {
            let mut asked = self.asked.lock().expect("the counts");
            let count = asked.entry((server, name.to_ascii_lowercase(), qtype)).or_default();
            *count += 1;
            *count - 1
        };
        let answer = self.script.mode(server, &name, qtype).answer(transport, asked_before);
        // (rcode, authoritative, recursion available, truncated, an answer)
        let (rcode, aa, ra, tc, found) = match answer {
            Answer::Addresses => (0, true, true, false, true),
            Answer::NoData => (0, true, true, false, false),
            Answer::NxDomain => (3, true, true, false, false),
            Answer::ServFail => (2, false, true, false, false),
            Answer::Refused => (5, false, true, false, false),
            Answer::FormErr => (1, false, true, false, false),
            Answer::NotImp => (4, false, true, false, false),
            Answer::Lame => (0, false, false, false, false),
            Answer::Truncated => (0, false, true, true, false),
            _ => return None,
        };
        let flags = [0x81 | u8::from(aa) << 2 | u8::from(tc) << 1, u8::from(ra) << 7 | rcode];
        let negative = matches!(answer, Answer::NoData | Answer::NxDomain);
        let counts = [0, 1, 0, u8::from(found), 0, u8::from(negative), 0, 0];
        let mut reply = [&message[..2], &flags, &counts, question].concat();
        let data: &[u8] = match qtype {
            _ if negative => &[
                // SOA: root, root, and five numbers.
                0, 0, 0, 0, 0, 1, 0, 0, 0, 5, 0, 0, 0, 5, 0, 0, 0, 5, 0, 0, 0, 5,
            ],
            Qtype::A => &[10, 0, 0, 1],
            Qtype::Aaaa => &[0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1],
        };
        if found || negative {
            let code = match qtype {
                _ if negative => 6,
                Qtype::A => 1,
                Qtype::Aaaa => 28,
            };
            // The owner is the question's name; class IN, TTL 5.
            reply.extend([0xc0, 12, 0, code, 0, 1, 0, 0, 0, 5, 0, u8::try_from(data.len()).expect("short")]);
            reply.extend(data);
        }
        Some(reply)
    }
}

/// Name, type and bytes of the one question; `None` of what is none.
pub(crate) fn question(message: &[u8]) -> Option<(String, Qtype, &[u8])> {
    let query = message.len() >= 12 && message[2] & 0xf8 == 0 && message[4..6] == [0, 1];
    let mut name = String::new();
    let mut at = 12;
    if !query {
        return None;
    }
    loop {
        let length = usize::from(*message.get(at)?);
        at += 1;
        if length == 0 {
            let qtype = match message.get(at..at + 4)? {
                [0, 1, 0, 1] => Qtype::A,
                [0, 28, 0, 1] => Qtype::Aaaa,
                _ => return None,
            };
            let name = if name.is_empty() { ".".to_owned() } else { name };
            return Some((name, qtype, message.get(12..at + 4)?));
        }
        if length > 63 {
            return None;
        }
        name.push_str(std::str::from_utf8(message.get(at..at + length)?).ok()?);
        name.push('.');
        at += length;
    }
}
