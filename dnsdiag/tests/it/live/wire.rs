//! What passes between a client and a real server: everything is led through, unchanged, and every question is noted.
//!
//! Invariant: bytes go on as they came, each datagram from a socket of its own and each connection on a connection of its
//! own, so what servers and clients see of one another is what they would see alone. It lives in the namespace of the
//! thread that starts it, and its threads end with the process.

use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use netlab_dnsdiag::answers::Transport;

use super::server::{Arrived, monotonic, question};

/// A server that says nothing for so long says nothing.
const PATIENCE: Duration = Duration::from_secs(8);

/// What is led from port 53 of an address to a server.
pub(crate) struct Wire {
    log: Arc<Mutex<Vec<Arrived>>>,
}

impl Wire {
    pub(crate) fn lay(at: IpAddr, server: SocketAddr) -> std::io::Result<Self> {
        let log = Arc::new(Mutex::new(Vec::new()));
        let socket = Arc::new(UdpSocket::bind((at, 53))?);
        let noted = Arc::clone(&log);
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok((length, from)) = socket.recv_from(&mut buffer) {
                let message = buffer[..length].to_vec();
                note(&noted, at, Transport::Udp, &message);
                let socket = Arc::clone(&socket);
                std::thread::spawn(move || {
                    if let Ok(reply) = over_udp(server, &message) {
                        let _ = socket.send_to(&reply, from);
                    }
                });
            }
        });
        let listener = TcpListener::bind((at, 53))?;
        let noted = Arc::clone(&log);
        std::thread::spawn(move || {
            while let Ok((client, _)) = listener.accept() {
                let noted = Arc::clone(&noted);
                std::thread::spawn(move || over_tcp(&noted, at, server, client));
            }
        });
        Ok(Self { log })
    }

    /// What came since the last time.
    pub(crate) fn take(&self) -> Vec<Arrived> {
        std::mem::take(&mut *self.log.lock().expect("the log"))
    }
}

fn note(log: &Mutex<Vec<Arrived>>, at: IpAddr, transport: Transport, message: &[u8]) {
    let what = match question(message) {
        Some((name, qtype, _)) => format!("{at} {transport} {name} {qtype}"),
        None => format!("{at} {transport} {message:02x?} ?"),
    };
    log.lock().expect("the log").push(Arrived { at: monotonic(), what });
}

fn over_udp(server: SocketAddr, message: &[u8]) -> std::io::Result<Vec<u8>> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket.connect(server)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.send(message)?;
    let mut reply = vec![0; 65_535];
    let length = socket.recv(&mut reply)?;
    reply.truncate(length);
    Ok(reply)
}

fn over_tcp(log: &Mutex<Vec<Arrived>>, at: IpAddr, server: SocketAddr, mut client: TcpStream) {
    let Ok(mut beyond) = TcpStream::connect(server) else { return };
    let _ = (client.set_nodelay(true), beyond.set_nodelay(true));
    let (Ok(mut replies), Ok(mut back)) = (beyond.try_clone(), client.try_clone()) else { return };
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut replies, &mut back);
        let _ = back.shutdown(Shutdown::Both);
    });
    let mut length = [0; 2];
    while client.read_exact(&mut length).is_ok() {
        let mut message = vec![0; usize::from(u16::from_be_bytes(length))];
        if client.read_exact(&mut message).is_err() {
            break;
        }
        note(log, at, Transport::Tcp, &message);
        if beyond.write_all(&[&length[..], &message].concat()).is_err() {
            break;
        }
    }
    let _ = beyond.shutdown(Shutdown::Write);
}
