//! Connections tried in a lab, and what the kernel says about one that does not come about.
//!
//! Invariant: one [`Attempt`] is one connection, or one datagram with its answer, by sockets inside the namespaces of both
//! ends; nothing is changed in the lab. [`evidence`] tries again and tells what moved: it names places and rules, and does
//! not judge.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::error::LabError;
use crate::place::Place;
use crate::topology::Lab;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_millis(1200);

/// A connection to try.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// Who opens it.
    pub from: Place,
    /// To which address.
    pub to: SocketAddr,
    /// Who may take it: places and addresses, on which somebody has to listen.
    pub takers: Vec<(Place, SocketAddr)>,
    /// What is sent instead of opening a connection: a datagram that calls for an answer.
    pub datagram: Option<Vec<u8>>,
}

/// What became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Became {
    /// It came about.
    Answered(Duration),
    /// It did not; in the kernel's words.
    Failed(String),
}

impl Attempt {
    /// Tries it. Whoever is to take it listens already ([`listen`]).
    pub fn run(&self, lab: &Lab) -> Result<Became, LabError> {
        let start = Instant::now();
        let tried = inside(lab, &self.from, || match &self.datagram {
            None => TcpStream::connect_timeout(&self.to, PATIENCE).map(drop),
            Some(bytes) => ask(self.to, bytes),
        })?;
        Ok(match tried {
            Ok(()) => Became::Answered(start.elapsed()),
            Err(error) => Became::Failed(match error.kind() {
                io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => "no answer".to_owned(),
                _ => error.to_string(),
            }),
        })
    }
}

/// Listens on behalf of all who may take one of these, until what is returned is dropped.
pub fn listen<'a>(
    lab: &Lab,
    attempts: impl IntoIterator<Item = &'a Attempt>,
) -> Result<Vec<TcpListener>, LabError> {
    let attempts = attempts.into_iter().filter(|attempt| attempt.datagram.is_none());
    let takers: BTreeSet<&(Place, SocketAddr)> = attempts.flat_map(|attempt| &attempt.takers).collect();
    let mut listeners = Vec::new();
    for (place, address) in takers {
        match inside(lab, place, || TcpListener::bind(*address))? {
            Ok(listener) => listeners.push(listener),
            // Somebody listens there already, which is as good.
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            Err(source) => {
                let action = format!("listen on {address}");
                return Err(LabError::Socket { place: place.clone(), action, source });
            }
        }
    }
    Ok(listeners)
}

fn ask(to: SocketAddr, bytes: &[u8]) -> io::Result<()> {
    let any: SocketAddr = if to.is_ipv4() { ([0; 4], 0).into() } else { ([0_u16; 8], 0).into() };
    let socket = UdpSocket::bind(any)?;
    socket.connect(to)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.send(bytes)?;
    socket.recv(&mut [0; 512]).map(drop)
}

fn inside<T: Send>(lab: &Lab, place: &Place, work: impl FnOnce() -> T + Send) -> Result<T, LabError> {
    lab.netns(place)?.run(work).map_err(|source| LabError::Enter { place: place.clone(), source })
}

/// Something that was seen about a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// `route`, `neighbour` or `dropped`.
    pub what: &'static str,
    /// Where.
    pub place: Place,
    /// In the kernel's words.
    pub said: String,
}

/// Tries again and tells what was seen: by which route each place on the way sends, whether the last of them knows its
/// neighbour, and which rules counted.
pub fn evidence(lab: &Lab, attempt: &Attempt, way: &[(Place, IpAddr)]) -> Vec<Seen> {
    let places: Vec<&Place> = way.iter().map(|(place, _)| place).collect();
    let count = || -> BTreeMap<(Place, String), u64> {
        let all = places.iter().flat_map(|place| rules(lab, place));
        all.collect()
    };
    let before = count();
    // What became of it is known; this is for the counters.
    let _ = attempt.run(lab);
    let after = count();
    let mut seen = Vec::new();
    for ((place, rule), packets) in after {
        let more =
            packets.saturating_sub(before.get(&(place.clone(), rule.clone())).copied().unwrap_or_default());
        if more > 0 {
            seen.push(Seen { what: "dropped", place, said: format!("{rule}  +{more}") });
        }
    }
    for (place, to) in way {
        let to = to.to_string();
        if let Some(said) = said(lab, place, &["ip", "route", "get", &to]) {
            let broken = ["unreachable", "prohibit", "blackhole"].iter().any(|word| said.contains(word));
            if broken || said.is_empty() {
                seen.push(Seen {
                    what: "route",
                    place: place.clone(),
                    said: format!("{to}: {}", said.trim()),
                });
            }
        } else {
            seen.push(Seen { what: "route", place: place.clone(), said: format!("{to}: no route") });
        }
        if let Some(said) = said(lab, place, &["ip", "neigh", "show", &to])
            && ["FAILED", "INCOMPLETE"].iter().any(|state| said.contains(state))
        {
            seen.push(Seen { what: "neighbour", place: place.clone(), said: said.trim().to_owned() });
        }
    }
    seen
}

/// Rules that end a packet's way and count: their text without the numbers, and the packets.
fn rules(lab: &Lab, place: &Place) -> Vec<((Place, String), u64)> {
    let Some(listing) = said(lab, place, &["nft", "list", "ruleset"]) else { return Vec::new() };
    let rule = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let ends = ["drop", "reject", "redirect"].iter().any(|word| words.contains(word));
        let at = words.iter().position(|word| *word == "packets").filter(|_| ends)?;
        let packets = words.get(at + 1)?.parse().ok()?;
        let plain = words.iter().enumerate().filter(|(index, _)| !(at..at + 4).contains(index));
        let text: Vec<&str> = plain.map(|(_, word)| *word).filter(|word| *word != "counter").collect();
        Some(((place.clone(), text.join(" ")), packets))
    };
    listing.lines().filter_map(rule).collect()
}

/// What a command says at a place; `None` when it fails or is not there.
fn said(lab: &Lab, place: &Place, command: &[&str]) -> Option<String> {
    let (program, arguments) = command.split_first()?;
    let run = || Command::new(program).args(arguments).stderr(Stdio::null()).stdin(Stdio::null()).output();
    let output = inside(lab, place, run).ok()?.ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}
