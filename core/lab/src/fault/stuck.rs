//! A client that keeps one port, and the entry in conntrack that leads it astray.
//!
//! The entry is made as it comes about in clusters: the flow begins while the rules say something else, and every packet of
//! it refreshes what the kernel remembers (`nf_conntrack_udp_timeout`, 30 s). Invariant: the rules that lead astray are gone
//! when [`StuckFlow::begin`] returns; without packets the entry times out by itself.

use std::net::{SocketAddr, UdpSocket};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde::{Deserialize, Serialize};

use super::rules;
use crate::error::LabError;
use crate::place::Place;
use crate::topology::Lab;

/// How often the client sends.
const EVERY: Duration = Duration::from_secs(2);
/// A question that any server understands: `.` NS.
const QUESTION: [u8; 17] = [0x6e, 0x6c, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 1];

/// A flow that leads astray.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StuckFlow {
    /// The client.
    pub at: Place,
    /// Its node, which remembers.
    pub node: Place,
    /// The port that it sends from.
    pub port: u16,
    /// Whom it asks.
    pub to: SocketAddr,
    /// Where that led when the flow began; the same as `to` when no rule was there yet.
    pub leads_to: SocketAddr,
}

/// A client that sends until this is dropped.
#[derive(Debug)]
pub struct Stuck {
    stop: Option<UnixStream>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Drop for Stuck {
    fn drop(&mut self) {
        self.stop = None;
        let _ = self.thread.take().map(thread::JoinHandle::join);
    }
}

impl StuckFlow {
    /// Begins the flow, and goes on with it.
    pub fn begin(&self, lab: &Lab) -> Result<Stuck, LabError> {
        const TABLE: &str = "netlab-fault-begin";
        let socket = |source: std::io::Error| LabError::Socket {
            place: self.at.clone(),
            action: format!("send from port {}", self.port),
            source,
        };
        let family = if self.to.is_ipv4() { "ip" } else { "ip6" };
        rules::run(
            lab,
            &self.node,
            &format!(
                "table inet {TABLE} {{\n  chain prerouting {{\n    type nat hook prerouting priority dstnat - 20; policy accept;\n    \
                 {family} daddr {} udp dport {} udp sport {} dnat {family} to {}\n  }}\n}}\n",
                self.to.ip(),
                self.to.port(),
                self.port,
                self.leads_to
            ),
        )?;
        let open = || -> std::io::Result<UdpSocket> {
            let any: SocketAddr =
                if self.to.is_ipv4() { ([0; 4], self.port).into() } else { ([0_u16; 8], self.port).into() };
            let client = UdpSocket::bind(any)?;
            client.set_nonblocking(true)?;
            client.send_to(&QUESTION, self.to)?;
            Ok(client)
        };
        let client = lab
            .netns(&self.at)?
            .run(open)
            .map_err(|source| LabError::Enter { place: self.at.clone(), source })
            .and_then(|client| client.map_err(socket));
        rules::run(lab, &self.node, &format!("delete table inet {TABLE}\n"))?;
        let client = client?;
        let (stop, stopped) = UnixStream::pair().map_err(socket)?;
        let to = self.to;
        let go_on = move || {
            use std::os::fd::AsFd;
            loop {
                let mut descriptors = [PollFd::new(stopped.as_fd(), PollFlags::POLLIN)];
                let timeout = PollTimeout::try_from(EVERY.as_millis()).unwrap_or(PollTimeout::MAX);
                match poll(&mut descriptors, timeout) {
                    Ok(0) | Err(nix::errno::Errno::EINTR) => {}
                    _ => return,
                }
                let _ = client.send_to(&QUESTION, to);
                while client.recv(&mut [0; 512]).is_ok() {}
            }
        };
        let thread = thread::Builder::new().name("stuck".to_owned()).spawn(go_on).map_err(socket)?;
        Ok(Stuck { stop: Some(stop), thread: Some(thread) })
    }
}
