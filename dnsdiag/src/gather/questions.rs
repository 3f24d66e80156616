//! Which questions tell where a pod's DNS fails: the matrix of the method's step S7.
//!
//! Invariant: pure, and in the order of what each is worth, so that a small budget loses the least. Every nameserver and every
//! endpoint is asked over UDP and TCP, from the pod and from its node; names that nobody has are asked to see who answers.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use netlab_plugin::evidence::{Position, Transport};

use super::Budget;
use super::follow::EDNS;
use crate::answers::{Answer, Answers};
use crate::resolv_conf::Dialect;
use crate::resolver::{Family, Libc, Lookup, plan};
use crate::view::{View, is_below};

/// Endpoints that are asked at most, for each address family: the first of those that are ready.
const ENDPOINTS: usize = 6;
/// Names of the application that are asked at most.
const NAMES: usize = 4;
/// Of those, names outside the cluster for which the servers outside are looked at.
const NAMES_OUTSIDE: usize = 2;
/// How often a name outside is asked for: limits and servers that differ show only then.
const AGAIN: u32 = 6;
/// Servers outside that are asked at most, for each name.
const UPSTREAMS: usize = 3;

/// A question to be asked, once or several times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// From where.
    pub from: Position,
    /// Whom.
    pub server: SocketAddr,
    /// Over what.
    pub transport: Transport,
    /// The EDNS size to offer.
    pub edns: Option<u16>,
    /// The name, with its last dot.
    pub name: String,
    /// The record type.
    pub record: &'static str,
    /// How often, each from a socket of its own.
    pub times: u32,
    /// The socket that it shares with the question for the name's other address type, by a number; `None` for one of its own.
    pub socket: Option<u32>,
}

/// The questions for what the view knows, and what is left out of them, in words.
#[must_use]
pub fn questions(
    view: &View<'_>,
    positions: &[Position],
    budget: &Budget,
    random: u64,
) -> (Vec<Question>, Vec<String>) {
    let domain = view.domain().unwrap_or_else(|| "cluster.local".to_owned());
    let known = format!("kubernetes.default.svc.{domain}.");
    let nobody = format!("netlab-{random:08x}.{domain}.", random = random & 0xffff_ffff);
    let mut left_out = Vec::new();
    let mut plan = Plan {
        asked: Vec::new(),
        positions,
        pairs: view.asks_from_one_socket(),
        over_tcp: view.conf().is_some_and(|conf| conf.options.use_vc),
        sockets: 0,
    };
    let servers = servers(view);
    if servers.is_empty() {
        left_out.push("probes: no nameserver and no DNS Service is known".to_owned());
    }
    let (udp, tcp) = (Transport::Udp, Transport::Tcp);
    let own = view.nameservers().len().min(servers.len());
    // Only the first server is asked for the names: glibc and Go ask the next one only when the first fails, and then what else
    // it is asked tells. musl asks all at once.
    let of_names = if view.is_musl() == Some(true) { own.max(1) } else { 1 };
    let paired = if view.target.names.is_empty() { 0 } else { of_names };
    for (place, server) in servers.iter().enumerate() {
        // Where no name is asked for by two questions from one socket, this one is.
        if place < paired || !plan.pairs {
            plan.ask(Position::Pod, *server, udp, &known, "A", 2);
        } else {
            plan.ask(Position::Pod, *server, udp, &known, "A", 1);
            plan.ask_both(*server, &known);
        }
        plan.ask(Position::Pod, *server, tcp, &known, "A", 1);
    }
    let endpoints = |transport| -> Vec<SocketAddr> { view.ready_dns_addresses(transport) };
    let few = |all: Vec<SocketAddr>| -> Vec<SocketAddr> {
        let (v4, v6): (Vec<_>, Vec<_>) = all.into_iter().partition(SocketAddr::is_ipv4);
        v4.into_iter().take(ENDPOINTS).chain(v6.into_iter().take(ENDPOINTS)).collect()
    };
    let all = endpoints(udp);
    let asked = few(all.clone());
    if asked.len() < all.len() {
        let left = all.len() - asked.len();
        left_out.push(format!("probes: {left} of {} DNS endpoints were not asked", all.len()));
    }
    for endpoint in &asked {
        plan.ask(Position::Pod, *endpoint, udp, &known, "A", 1);
        plan.ask(Position::Node, *endpoint, udp, &known, "A", 1);
    }
    for endpoint in few(endpoints(tcp)) {
        plan.ask(Position::Pod, endpoint, tcp, &known, "A", 1);
    }
    // An OPT record with a small answer: where this comes through, it is the size that matters.
    if let Some(server) = servers.first() {
        plan.ask_with_edns(*server, &known);
    }
    let names = names(view, &mut left_out);
    for server in servers.iter().take(of_names) {
        for name in &names {
            plan.ask_both(*server, name);
        }
    }
    let who = |plan: &mut Plan<'_>, server: SocketAddr| {
        plan.ask(Position::Pod, server, udp, &nobody, "A", 1);
        plan.ask(Position::Pod, server, udp, &format!("dns-version.{domain}."), "TXT", 1);
    };
    if let Some(server) = servers.first() {
        who(&mut plan, *server);
        outside(view, &mut plan, *server, &domain, &nobody);
    }
    for endpoint in &asked {
        plan.ask(Position::DnsPod, *endpoint, udp, &known, "A", 1);
        // What is meant, not the first that is tried: that is seldom the one that should be there.
        if let Some(name) = view.target.names.first() {
            let full = format!("{}.", view.intended(name).trim_end_matches('.'));
            plan.ask(Position::Pod, *endpoint, udp, &full, "A", 1);
        }
    }
    for server in servers.iter().skip(1) {
        who(&mut plan, *server);
    }
    for server in &servers {
        plan.ask(Position::Node, *server, udp, &known, "A", 1);
    }
    (within(plan.asked, budget, &mut left_out), left_out)
}

/// What tells of servers outside: the names of theirs that are asked for, again and again, from the pod and at those servers
/// themselves; and names that nobody has below search domains of theirs.
fn outside(view: &View<'_>, plan: &mut Plan<'_>, server: SocketAddr, domain: &str, nobody: &str) {
    let udp = Transport::Udp;
    let wanted =
        view.target.names.iter().map(|name| format!("{}.", view.intended(name).trim_end_matches('.')));
    let names: Vec<String> = wanted.filter(|name| !is_below(name, domain)).take(NAMES_OUTSIDE).collect();
    // Once each was asked for already.
    let again = if plan.pairs { AGAIN - 1 } else { AGAIN };
    for name in &names {
        plan.ask(Position::Pod, server, udp, name, "A", again);
    }
    let label = nobody.split('.').next().unwrap_or_default();
    let suffixes = view.conf().map(|conf| conf.search).unwrap_or_default();
    let foreign = suffixes.iter().map(|suffix| suffix.trim_end_matches('.'));
    for suffix in foreign.filter(|suffix| !suffix.is_empty() && !is_below(suffix, domain)).take(NAMES_OUTSIDE)
    {
        plan.ask(Position::Pod, server, udp, &format!("{label}.{suffix}."), "A", 1);
    }
    for name in &names {
        for upstream in view.upstreams_of(name).into_iter().take(UPSTREAMS) {
            plan.ask(Position::Node, upstream, udp, name, "A", 1);
        }
    }
}

struct Plan<'p> {
    asked: Vec<Question>,
    positions: &'p [Position],
    /// A and AAAA leave one socket.
    pairs: bool,
    /// They are asked over TCP: glibc and Go with `use-vc`.
    over_tcp: bool,
    sockets: u32,
}

impl Plan<'_> {
    fn ask_with_edns(&mut self, server: SocketAddr, name: &str) {
        if self.positions.contains(&Position::Pod) {
            self.asked.push(Question {
                from: Position::Pod,
                server,
                transport: Transport::Udp,
                edns: Some(EDNS),
                name: name.to_owned(),
                record: "A",
                times: 1,
                socket: None,
            });
        }
    }

    /// A and AAAA as the pod's resolver asks for them.
    fn ask_both(&mut self, server: SocketAddr, name: &str) {
        if self.over_tcp {
            self.ask(Position::Pod, server, Transport::Tcp, name, "A", 1);
            self.ask(Position::Pod, server, Transport::Tcp, name, "AAAA", 1);
        } else if !self.pairs {
            self.ask(Position::Pod, server, Transport::Udp, name, "A", 1);
            self.ask(Position::Pod, server, Transport::Udp, name, "AAAA", 1);
        } else if self.positions.contains(&Position::Pod) {
            self.sockets += 1;
            self.asked.extend(["A", "AAAA"].map(|record| Question {
                from: Position::Pod,
                server,
                transport: Transport::Udp,
                edns: None,
                name: name.to_owned(),
                record,
                times: 1,
                socket: Some(self.sockets),
            }));
        }
    }

    /// From where nobody can ask nothing is asked: that the position is missing is told once, by whoever asks.
    fn ask(
        &mut self,
        from: Position,
        server: SocketAddr,
        transport: Transport,
        name: &str,
        record: &'static str,
        times: u32,
    ) {
        if self.positions.contains(&from) {
            let name = name.to_owned();
            let question =
                Question { from, server, transport, edns: None, name, record, times, socket: None };
            let same = |one: &&mut Question| Question { times, ..(**one).clone() } == question;
            match self.asked.iter_mut().find(same) {
                Some(known) => known.times = known.times.max(times),
                None => self.asked.push(question),
            }
        }
    }
}

/// The pod's nameservers, then the addresses of the DNS Service that are not among them.
fn servers(view: &View<'_>) -> Vec<SocketAddr> {
    let own = view.nameservers();
    let service = view.dns_service().map(|dns| dns.service.cluster_ips.clone()).unwrap_or_default();
    let mut seen = BTreeSet::new();
    let all = own.into_iter().chain(service).filter(|address: &IpAddr| seen.insert(*address));
    all.map(|address| SocketAddr::new(address, 53)).collect()
}

/// What the application's names become by the search list: each candidate, in the order in which they are tried.
fn names(view: &View<'_>, left_out: &mut Vec<String>) -> Vec<String> {
    let wanted = &view.target.names;
    if wanted.len() > NAMES {
        left_out.push(format!("probes: only the first {NAMES} of {} names were asked", wanted.len()));
    }
    let mut names = Vec::new();
    for name in wanted.iter().take(NAMES) {
        for candidate in candidates(view, name) {
            if !names.contains(&candidate) {
                names.push(candidate);
            }
        }
    }
    names
}

fn candidates(view: &View<'_>, name: &str) -> Vec<String> {
    let whole = || vec![format!("{}.", name.trim_end_matches('.'))];
    let Some(conf) = view.conf() else { return whole() };
    let libc = match conf.dialect {
        Dialect::Musl(version) => Libc::Musl(version),
        Dialect::Go(version) => Libc::Go(version),
        Dialect::Glibc(version) => Libc::Glibc(version),
        Dialect::Kubelet => return whole(),
    };
    let lookup = Lookup { name: name.to_owned(), family: Family::Unspec };
    plan(&lookup, &conf, libc, &Nothing).candidates
}

/// A world in which no name exists, so that every candidate is tried.
struct Nothing;

impl Answers for Nothing {
    fn answer(&self, _: &crate::answers::Question<'_>) -> Answer {
        Answer::NxDomain
    }
}

/// The first of them that the budget has room for, with room for one retry of each segment that may be silent.
fn within(asked: Vec<Question>, budget: &Budget, left_out: &mut Vec<String>) -> Vec<Question> {
    let mut room = budget.questions.saturating_mul(4) / 5;
    let mut kept = Vec::new();
    let mut dropped = 0;
    for question in asked {
        if question.times <= room {
            room -= question.times;
            kept.push(question);
        } else {
            dropped += 1;
        }
    }
    // One whose twin was dropped leaves alone.
    let sockets: Vec<Option<u32>> = kept.iter().map(|question| question.socket).collect();
    for question in &mut kept {
        if sockets.iter().filter(|socket| **socket == question.socket).count() < 2 {
            question.socket = None;
        }
    }
    if dropped > 0 {
        left_out.push(format!(
            "probes: {dropped} questions were not asked: a run sends {} at most",
            budget.questions
        ));
    }
    kept
}
