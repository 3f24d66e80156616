//! From a question to what is said: rules first, then zones, then the servers above.
//!
//! Invariant: what takes time is never done while the book is locked. Servers above are asked as `CoreDNS` does it
//! (plugin `forward`): one by chance, two seconds for each try, five for all, and then SERVFAIL.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use netlab_node::Netns;
use serde::{Deserialize, Serialize};

use super::log::Log;
use super::message::{self, Asked, Said};
use super::script::{Act, Question, Rule, Transport};
use super::zone::{Found, Text, Zone};

const TRY: Duration = Duration::from_secs(2);
const ALL_TRIES: Duration = Duration::from_secs(5);
/// How many seconds `CoreDNS` gives for what came from above, at most: `cache 30`, as kubeadm writes it.
const KEPT: u32 = 30;

/// What the servers of one kind know.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Book {
    /// Asked before the zones, in order.
    pub rules: Vec<Rule>,
    /// The zones.
    pub zones: Vec<Zone>,
    /// Who is asked what is in no zone; nobody for REFUSED.
    pub above: Vec<SocketAddr>,
    /// What rules have counted.
    #[serde(skip)]
    pub(super) memory: Memory,
}

impl Book {
    /// Zones, and who is asked what is in none of them.
    #[must_use]
    pub fn new(zones: Vec<Zone>, above: Vec<SocketAddr>) -> Self {
        Self { zones, above, ..Self::default() }
    }
}

/// What rules that count have seen. Two books with the same rules are the same whatever they have seen.
#[derive(Clone, Debug, Default)]
pub(super) struct Memory {
    seen: BTreeMap<(String, String, IpAddr), u32>,
    window: Option<Instant>,
    in_window: u32,
    turn: usize,
}

impl PartialEq for Memory {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Memory {}

/// What is said, or what has to be waited for.
pub(super) enum Ready {
    /// `None`: nothing.
    Now(Option<Said>),
    Later(Wait),
}

/// Something that takes time.
pub(super) struct Wait {
    first: Duration,
    then: Then,
}

enum Then {
    Say(Option<Said>),
    Forward(Forward),
}

struct Forward {
    name: String,
    kind: String,
    above: Vec<SocketAddr>,
    /// What is known already: an alias that leads out of the zone.
    begun: Vec<Text>,
}

impl Ready {
    /// Waits, inside this namespace if others are to be asked.
    pub(super) fn wait(self, netns: &Netns, log: &Log) -> Option<Said> {
        match self {
            Self::Now(said) => said,
            Self::Later(wait) => {
                thread::sleep(wait.first);
                match wait.then {
                    Then::Say(said) => said,
                    Then::Forward(forward) => Some(forward.ask(netns, log)),
                }
            }
        }
    }
}

pub(super) fn decide(
    book: &mut Book,
    asked: &Asked,
    transport: Transport,
    server: IpAddr,
    log: &Log,
) -> Ready {
    let zone = |book: &Book| {
        let holding = book.zones.iter().enumerate().filter(|(_, zone)| zone.holds(&asked.name));
        holding.max_by_key(|(_, zone)| zone.origin.len()).map(|(index, _)| index)
    };
    let at = zone(book);
    let outside = at.and_then(|at| book.zones.get(at)).is_none_or(|zone| zone.falls_through);
    let question = Question { name: &asked.name, kind: &asked.kind, transport, server, outside };
    let mut first = Duration::ZERO;
    let mut said = None;
    let Book { rules, memory, .. } = book;
    for rule in rules.iter().filter(|rule| rule.fits(&question)) {
        match act(&rule.act, &question, memory) {
            Deed::Wait(time) => first += time,
            Deed::Say(what) => {
                if let Act::RefuseAbove(rate) = &rule.act {
                    // plugin/forward/forward.go, `ErrLimitExceeded`.
                    let why = format!("concurrent queries exceeded maximum {rate}");
                    log.failed(&asked.name, &asked.kind, &why);
                }
                said = Some(what);
                break;
            }
            Deed::Pass => {}
        }
    }
    let then = match said {
        Some(said) => Then::Say(said),
        None => regular(book, at, asked),
    };
    match then {
        Then::Say(said) if first.is_zero() => Ready::Now(said),
        then => Ready::Later(Wait { first, then }),
    }
}

enum Deed {
    Wait(Duration),
    Say(Option<Said>),
    Pass,
}

fn act(act: &Act, question: &Question<'_>, memory: &mut Memory) -> Deed {
    let text = |data: String, kind: &str| Text {
        name: question.name.to_owned(),
        kind: kind.to_owned(),
        ttl: 5,
        data,
    };
    let say = |said| Deed::Say(Some(said));
    match act {
        Act::Rcode(rcode) => say(Said::rcode(*rcode)),
        Act::NotThereFor(seconds) => {
            let zone = Zone { origin: question.name.to_owned(), negative_ttl: *seconds, ..Zone::default() };
            say(Said { rcode: 3, authority: Some(zone.authority()), ..Said::default() })
        }
        Act::NoData => say(Said { authoritative: true, ..Said::default() }),
        Act::Silence => Deed::Say(None),
        Act::SilenceOnce => {
            let key = (question.name.to_owned(), question.kind.to_owned(), question.server);
            let seen = memory.seen.entry(key).or_default();
            *seen += 1;
            if *seen == 1 { Deed::Say(None) } else { Deed::Pass }
        }
        Act::Later(milliseconds) => Deed::Wait(Duration::from_millis((*milliseconds).into())),
        Act::Truncate if question.transport == Transport::Udp => {
            say(Said { truncate: true, ..Said::default() })
        }
        Act::Truncate => Deed::Pass,
        Act::Oversize(count) => {
            let answers = (1..=*count).filter_map(|number| match question.kind {
                "A" => Some(text(format!("198.51.100.{number}"), "A")),
                "AAAA" => Some(text(format!("2001:db8:64::{number:x}"), "AAAA")),
                _ => None,
            });
            say(Said { answers: answers.collect(), oversize: true, ..Said::default() })
        }
        Act::Address(address) => {
            let kind = if address.is_ipv4() { "A" } else { "AAAA" };
            let answers =
                if kind == question.kind { vec![text(address.to_string(), kind)] } else { Vec::new() };
            say(Said { answers, ..Said::default() })
        }
        Act::Alias(target) => say(Said { answers: vec![text(target.clone(), "CNAME")], ..Said::default() }),
        Act::AtMost(rate) => {
            if memory.above(*rate) {
                Deed::Say(None)
            } else {
                Deed::Pass
            }
        }
        Act::RefuseAbove(rate) => {
            if memory.above(*rate) {
                say(Said::rcode(5))
            } else {
                Deed::Pass
            }
        }
    }
}

impl Memory {
    /// Counts a question; true when this second has had so many already.
    fn above(&mut self, rate: u32) -> bool {
        if self.window.is_none_or(|start| start.elapsed() >= Duration::from_secs(1)) {
            (self.window, self.in_window) = (Some(Instant::now()), 0);
        }
        self.in_window += 1;
        self.in_window > rate
    }
}

/// What is said without rules.
fn regular(book: &mut Book, at: Option<usize>, asked: &Asked) -> Then {
    let mut begun = Vec::new();
    let mut name = asked.name.clone();
    if matches!(asked.kind.as_str(), "AXFR" | "IXFR") {
        return Then::Say(Some(Said::rcode(5)));
    }
    if let Some(zone) = at.and_then(|at| book.zones.get(at)) {
        let own = Said { authoritative: zone.kubernetes, recursive: !zone.kubernetes, ..Said::default() };
        let negative = |rcode| Said { rcode, authority: Some(zone.authority()), ..own.clone() };
        match zone.find(&asked.name, &asked.kind) {
            Found::Records(records) => {
                let leads_out = records.last().filter(|last| last.kind == "CNAME" && asked.kind != "CNAME");
                match leads_out.map(|last| last.data.clone()).filter(|target| !zone.holds(target)) {
                    // Followed outside, if there is somebody to ask.
                    Some(target) if !book.above.is_empty() => (begun, name) = (records, target),
                    _ => {
                        let additional = zone.additional(&records);
                        return Then::Say(Some(Said { answers: records, additional, ..own }));
                    }
                }
            }
            Found::NoData => return Then::Say(Some(negative(0))),
            Found::NoName if !zone.falls_through || book.above.is_empty() => {
                return Then::Say(Some(negative(3)));
            }
            Found::NoName => {}
        }
    }
    if book.above.is_empty() {
        return Then::Say(Some(Said::rcode(5)));
    }
    // By turns, where `CoreDNS` throws dice: the same over many questions.
    let mut above = book.above.clone();
    let first = book.memory.turn % above.len();
    book.memory.turn = book.memory.turn.wrapping_add(1);
    above.rotate_left(first);
    Then::Forward(Forward { name, kind: asked.kind.clone(), above, begun })
}

impl Forward {
    fn ask(self, netns: &Netns, log: &Log) -> Said {
        let deadline = Instant::now() + ALL_TRIES;
        let mut why = "no upstream".to_owned();
        for (id, server) in (1_u16..).zip(self.above.iter().cycle()).take(self.above.len().max(1) * 2) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            match netns.run(|| self.ask_one(id, *server, left.min(TRY))) {
                Ok(Ok(mut said)) => {
                    for text in said.answers.iter_mut().chain(&mut said.authority) {
                        text.ttl = text.ttl.min(KEPT);
                    }
                    return self.completed(said);
                }
                Ok(Err(error)) => why = error,
                Err(error) => why = error.to_string(),
            }
        }
        log.failed(&self.name, &self.kind, &why);
        self.completed(Said::rcode(2))
    }

    /// What is said in the end: behind an alias of the zone, whatever was heard is an answer of the zone.
    fn completed(self, mut said: Said) -> Said {
        if self.begun.is_empty() {
            return said;
        }
        let answers = [self.begun, std::mem::take(&mut said.answers)].concat();
        Said { answers, authoritative: true, ..Said::default() }
    }

    /// Runs inside the server's namespace. The error is in the words of Go's `net` package, as `CoreDNS` logs it.
    fn ask_one(&self, id: u16, server: SocketAddr, patience: Duration) -> Result<Said, String> {
        let any: SocketAddr = if server.is_ipv4() { ([0; 4], 0).into() } else { ([0_u16; 8], 0).into() };
        let open = || -> std::io::Result<UdpSocket> {
            let socket = UdpSocket::bind(any)?;
            socket.connect(server)?;
            socket.set_read_timeout(Some(patience))?;
            Ok(socket)
        };
        let socket = open().map_err(|error| format!("dial udp {server}: connect: {}", in_go(&error)))?;
        let own = socket.local_addr().unwrap_or(any);
        let failed = |error: &std::io::Error| format!("read udp {own}->{server}: read: {}", in_go(error));
        let question = message::ask(id, &self.name, &self.kind).ok_or("the name cannot be asked")?;
        socket.send(&question).map_err(|error| failed(&error))?;
        let mut buffer = [0; 4096];
        let deadline = Instant::now() + patience;
        while Instant::now() < deadline {
            match socket.recv(&mut buffer) {
                Ok(length) => {
                    if let Some(said) = buffer.get(..length).and_then(|bytes| message::heard(id, bytes)) {
                        return Ok(said);
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => break,
                Err(error) => return Err(failed(&error)),
            }
        }
        Err(format!("read udp {own}->{server}: i/o timeout"))
    }
}

/// An error as Go says it.
fn in_go(error: &std::io::Error) -> String {
    match error.kind() {
        ErrorKind::ConnectionRefused => "connection refused".to_owned(),
        ErrorKind::HostUnreachable => "no route to host".to_owned(),
        ErrorKind::NetworkUnreachable => "network is unreachable".to_owned(),
        ErrorKind::PermissionDenied => "operation not permitted".to_owned(),
        _ => error.to_string(),
    }
}
