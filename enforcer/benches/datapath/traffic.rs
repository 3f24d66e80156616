//! Whole packets: UDP datagrams from `web` to `db` through the node, under each way to hold the same policy.
//!
//! The sender's processor time per datagram is measured; the kernel forwards a datagram and delivers or drops it
//! within the sender's call. So the difference to "no policy" is what the policy costs, for one established flow; and
//! denied datagrams show the search itself, since no flow is kept of them. The plain rules are what people write: one
//! rule for each peer, `web`'s in the middle, behind `ct state established,related accept`.

use std::fmt::Write as _;
use std::io::Write as _;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::process::{Command, Stdio};
use std::time::Duration;

use netlab_enforcer::backend::nft::NftBackend;
use netlab_enforcer::backend::tc::TcBackend;
use netlab_plugin::contract::Backend;
use nix::time::{ClockId, clock_gettime};

use crate::figure::{Failure, Row};
use crate::site::{CLOSED, DB, OPEN, OPTIONS, Site, peer};

const RUNS: usize = 7;
const DATAGRAMS: u32 = 20_000;
/// For an answer between two pods of one node.
const PATIENCE: Duration = Duration::from_secs(5);
/// Beyond that plain rules take minutes.
const PEERS: [u32; 2] = [100, 1_000];

/// Who holds the policy.
#[derive(Clone, Copy)]
enum Holder {
    Nobody,
    Tc,
    Nft,
    Plain,
}

impl Holder {
    const ALL: [Self; 4] = [Self::Nobody, Self::Tc, Self::Nft, Self::Plain];

    const fn name(self) -> &'static str {
        match self {
            Self::Nobody => "no policy",
            Self::Tc => "netlab, tc backend",
            Self::Nft => "netlab, nft backend",
            Self::Plain => "plain nftables rules",
        }
    }
}

/// A datagram of one established flow, and one that is denied, under each holder.
pub(crate) fn rows() -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    for peers in PEERS {
        let part = format!("one UDP datagram from pod to pod, {peers} peers");
        for holder in Holder::ALL {
            let site = Site::new()?;
            let _held = hold(holder, &site, peers)?;
            let receiver = site.pod("db")?.run(|| UdpSocket::bind(SocketAddr::new(DB.0.into(), OPEN)))??;
            let row = |what: &str, runs| Row {
                part: part.clone(),
                what: format!("{what}, {}", holder.name()),
                unit: "ns",
                runs,
                target: None,
            };
            rows.push(row("established flow", send(&site, OPEN, Some(&receiver))?));
            if !matches!(holder, Holder::Nobody) {
                rows.push(row("denied", send(&site, CLOSED, None)?));
            }
            drop(receiver);
        }
    }
    Ok(rows)
}

/// Processor nanoseconds per datagram. A receiver answers the first one: only then is a flow established for netfilter.
fn send(site: &Site, port: u16, receiver: Option<&UdpSocket>) -> Result<Vec<f64>, Failure> {
    site.pod("web")?.run(|| {
        let socket = UdpSocket::bind("0.0.0.0:0")?;
        socket.connect(SocketAddr::new(IpAddr::from(DB.0), port))?;
        if let Some(receiver) = receiver {
            for waiting in [&socket, receiver] {
                waiting.set_read_timeout(Some(PATIENCE))?;
            }
            socket.send(&[0; 32])?;
            let (_, sender) = receiver.recv_from(&mut [0; 64])?;
            receiver.send_to(&[0; 32], sender)?;
            socket.recv(&mut [0; 64])?;
        }
        let now = || clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map(Duration::from);
        let mut runs = Vec::new();
        for run in 0..=RUNS {
            let start = now()?;
            for _ in 0..DATAGRAMS {
                // A refusal may come back for an earlier datagram; this one is sent by asking again.
                if socket.send(&[0; 32]).is_err() {
                    socket.send(&[0; 32])?;
                }
            }
            let took = now()?.saturating_sub(start).as_secs_f64() * 1e9 / f64::from(DATAGRAMS);
            // The first run resolves neighbours and fills caches.
            if run > 0 {
                runs.push(took);
            }
        }
        Ok(runs)
    })?
}

/// Puts the policy in force until the value is dropped with its namespaces.
fn hold(holder: Holder, site: &Site, peers: u32) -> Result<Option<Box<dyn Backend>>, Failure> {
    let node = site.node()?;
    let mut backend: Box<dyn Backend> = match holder {
        Holder::Nobody => return Ok(None),
        Holder::Plain => {
            node.run(|| nft(&plain(peers)))??;
            return Ok(None);
        }
        Holder::Tc => Box::new(TcBackend::load(node.try_clone()?, &OPTIONS).map_err(|error| error.message)?),
        Holder::Nft => Box::new(NftBackend::inside(node.try_clone()?)),
    };
    backend.apply(&site.change(peers)?).map_err(|error| error.message)?;
    Ok(Some(backend))
}

/// The policy as people write it.
fn plain(peers: u32) -> String {
    let mut script = format!(
        "table inet plain {{\n chain forward {{ type filter hook forward priority 0; policy accept;\n  ct state established,related accept\n  ip daddr {} jump db\n }}\n chain db {{\n",
        DB.0
    );
    let rule = |script: &mut String, index| {
        // Writing into a String cannot fail.
        let _ = writeln!(script, "  ip saddr {} udp dport {OPEN} accept", peer(index).0);
    };
    for index in 1..=peers / 2 {
        rule(&mut script, index);
    }
    rule(&mut script, 0);
    for index in peers / 2 + 1..peers {
        rule(&mut script, index);
    }
    script + "  drop\n }\n}\n"
}

fn nft(script: &str) -> Result<(), Failure> {
    let mut child = Command::new("nft").args(["-f", "-"]).stdin(Stdio::piped()).spawn()?;
    child.stdin.take().ok_or("nft takes no input")?.write_all(script.as_bytes())?;
    let status = child.wait()?;
    if status.success() { Ok(()) } else { Err(format!("nft ended with {status}").into()) }
}
