//! Go's own resolver: `net/dnsclient_unix.go`.
//!
//! Invariant: A and AAAA of a name are asked side by side, each on sockets of its own and each from server to server by
//! itself; a name is done when both are. Of two errors that come at the same moment either can be the one that is
//! reported. The rotation of a fresh process begins with the first server.

use std::net::IpAddr;

use super::texts::{self, AGAIN, NONAME};
use super::trace::{FULL, Query, Then, Trace};
use super::{Family, Libc, Lookup, Millis, Outcome, Run, name};
use crate::answers::{Answer, Answers, Qtype, Transport};
use crate::resolv_conf::{Dialect, Options, ResolvConf};
use crate::version::Version;

/// Courses that differ only in which server a rotation gave to which type are not followed beyond so many.
const PATHS: usize = 64;

/// The order for a name that does not exist; `.onion` is never asked for (RFC 7686).
pub(super) fn candidates(lookup: &str, conf: &ResolvConf) -> Vec<String> {
    let as_is = name::absolute(lookup);
    let hidden = |name: &str| name.to_ascii_lowercase().ends_with(".onion.");
    let whole = (!hidden(&as_is)).then(|| as_is.clone());
    if lookup.ends_with('.') {
        return whole.into_iter().collect();
    }
    let first = name::dots(lookup) >= conf.options.ndots as usize;
    let suffixed = conf
        .search
        .iter()
        .map(|suffix| format!("{as_is}{suffix}"))
        .filter(|name| !hidden(name) && name.len() <= 254);
    let (before, after) = if first { (whole, None) } else { (None, whole) };
    before.into_iter().chain(suffixed).chain(after).collect()
}

/// Every run.
pub(super) fn runs(
    lookup: &Lookup,
    conf: &ResolvConf,
    servers: &[IpAddr],
    answers: &dyn Answers,
) -> Vec<Run> {
    let libc = match conf.dialect {
        Dialect::Go(version) => Libc::Go(version),
        _ => Libc::Go(Version::new(1, 26, 0)),
    };
    let types: &[Qtype] = match lookup.family {
        Family::Unspec => &[Qtype::A, Qtype::Aaaa],
        Family::Inet => &[Qtype::A],
        Family::Inet6 => &[Qtype::Aaaa],
    };
    let begin = Path { trace: Trace::new(answers, servers), error: None, rotation: 0, when: Vec::new() };
    if !name::is_go_domain_name(&lookup.name) {
        return vec![begin.end(libc, None)];
    }
    // A name that ends with a dot never equals this, and then the first error is the one that stays.
    let as_is = format!("{}.", lookup.name);
    let mut paths = vec![begin];
    let mut runs: Vec<Run> = Vec::new();
    for candidate in candidates(&lookup.name, conf) {
        let mut next: Vec<Path<'_>> = Vec::new();
        for path in paths {
            let mark = path.trace.mark();
            for (mut path, found) in one_name(&path, &candidate, candidate == as_is, types, &conf.options) {
                let (then, why) = if found {
                    (Then::Found, "one address is enough")
                } else {
                    (Then::Next, "Go tries the next name after any error")
                };
                path.trace.step(mark, &candidate, then, why);
                if found {
                    push(&mut runs, path.end(libc, Some(candidate.clone())));
                } else if next.len() < PATHS && !next.iter().any(|known| known.same(&path)) {
                    next.push(path);
                }
            }
        }
        paths = next;
    }
    for path in paths {
        push(&mut runs, path.end(libc, None));
    }
    runs
}

fn push(runs: &mut Vec<Run>, run: Run) {
    let same = |known: &Run| {
        (known.outcome.rc, known.outcome.millis, &known.outcome.text, &known.queries)
            == (run.outcome.rc, run.outcome.millis, &run.outcome.text, &run.queries)
    };
    if !runs.iter().any(same) {
        runs.push(run);
    }
}

/// Why one type of one name gave nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failure {
    NoSuchHost,
    Misbehaving,
    Lame,
    Timeout,
    CannotMarshal,
    Unreachable(Transport),
}

impl Failure {
    const fn rc(self) -> i32 {
        match self {
            Self::NoSuchHost => NONAME,
            _ => AGAIN,
        }
    }

    fn text(self) -> String {
        match self {
            Self::NoSuchHost => "no such host".to_owned(),
            Self::Misbehaving => "server misbehaving".to_owned(),
            Self::Lame => "lame referral".to_owned(),
            Self::Timeout => "i/o timeout".to_owned(),
            Self::CannotMarshal => "cannot marshal DNS message".to_owned(),
            Self::Unreachable(transport) => format!("connection refused ({transport})"),
        }
    }
}

/// A run that has come so far.
#[derive(Clone)]
struct Path<'a> {
    trace: Trace<'a>,
    error: Option<Failure>,
    rotation: usize,
    when: Vec<String>,
}

impl Path<'_> {
    fn same(&self, other: &Self) -> bool {
        (self.trace.now, self.error, &self.trace.queries)
            == (other.trace.now, other.error, &other.trace.queries)
    }

    fn end(self, libc: Libc, resolved: Option<String>) -> Run {
        let (rc, text) = match (&resolved, self.error) {
            (Some(_), _) => (0, texts::of(libc, 0)),
            (None, Some(error)) => (error.rc(), error.text()),
            (None, None) => (NONAME, texts::of(libc, NONAME)),
        };
        let when = (!self.when.is_empty()).then(|| self.when.join(", "));
        let endless = resolved.is_none() && self.trace.is_full();
        let outcome = Outcome {
            rc: (!endless).then_some(rc),
            millis: (!endless).then_some(self.trace.now),
            text: if endless { FULL.to_owned() } else { text },
            when,
        };
        Run { outcome, resolved, queries: self.trace.queries, lost: self.trace.lost, steps: self.trace.steps }
    }
}

/// One candidate: every way in which it can go, and whether it gave addresses.
fn one_name<'a>(
    path: &Path<'a>,
    candidate: &str,
    is_as_is: bool,
    types: &[Qtype],
    options: &Options,
) -> Vec<(Path<'a>, bool)> {
    let orders: Vec<Vec<Qtype>> = match types {
        // Whose goroutine comes first takes the next server of the rotation.
        [one, other] if options.rotate && !options.single_request && path.trace.servers().len() > 1 => {
            vec![vec![*one, *other], vec![*other, *one]]
        }
        _ => vec![types.to_vec()],
    };
    let mut ways = Vec::new();
    for (index, order) in orders.iter().enumerate() {
        let mut path = path.clone();
        if orders.len() > 1 {
            let (one, other) = if index == 0 { ("A", "AAAA") } else { ("AAAA", "A") };
            path.when.push(format!("{one} of {candidate} is asked before {other}"));
        }
        let begin = path.trace.now;
        let mut ends: Vec<(Millis, Result<(), Failure>)> = Vec::new();
        let mark = path.trace.queries.len();
        for qtype in order {
            if !options.single_request {
                path.trace.now = begin;
            }
            let offset = if options.rotate { path.rotation } else { 0 };
            path.rotation += usize::from(options.rotate);
            let result = one_type(&mut path.trace, candidate, *qtype, offset, options);
            ends.push((path.trace.now, result));
        }
        in_order(&mut path.trace.queries, mark);
        path.trace.now = ends.iter().map(|(at, _)| *at).max().unwrap_or(begin);
        let found = ends.iter().any(|(_, result)| result.is_ok());
        // Answers are taken as they come; the earlier of two at the same moment is anybody's guess.
        if !options.single_request {
            ends.sort_by_key(|(at, _)| *at);
        }
        let errors: Vec<(Millis, Failure)> =
            ends.iter().filter_map(|(at, result)| result.err().map(|failure| (*at, failure))).collect();
        let race = matches!(errors.as_slice(), [(at, one), (other_at, other)]
            if at == other_at && one != other && !options.single_request);
        let sequences: Vec<Vec<Failure>> = match errors.as_slice() {
            [(_, one), (_, other)] if race => vec![vec![*one, *other], vec![*other, *one]],
            _ => vec![errors.iter().map(|(_, failure)| *failure).collect()],
        };
        for sequence in sequences {
            let mut path = path.clone();
            for failure in &sequence {
                if path.error.is_none() || is_as_is {
                    path.error = Some(*failure);
                }
            }
            if race && let Some(last) = sequence.last() {
                path.when.push(format!("\"{}\" comes last for {candidate}", last.text()));
            }
            ways.push((path, found));
        }
    }
    ways
}

/// What the two goroutines send, in the order of time.
fn in_order(queries: &mut [Query], mark: usize) {
    if let Some(mine) = queries.get_mut(mark..) {
        mine.sort_by_key(|query| query.at);
        for (query, n) in mine.iter_mut().zip(mark + 1..) {
            query.n = n;
        }
    }
}

/// `tryOneName`.
fn one_type(
    trace: &mut Trace<'_>,
    candidate: &str,
    qtype: Qtype,
    offset: usize,
    options: &Options,
) -> Result<(), Failure> {
    let servers = trace.servers();
    let mut last = Failure::NoSuchHost;
    for _ in 0..options.attempts {
        for index in 0..servers.len() {
            let Some(server) = servers.get((index + offset) % servers.len()) else { continue };
            if trace.is_full() {
                return Err(last);
            }
            match exchange(trace, *server, candidate, qtype, options) {
                Ok(Answer::Addresses) => return Ok(()),
                Ok(Answer::NxDomain | Answer::NoData) => return Err(Failure::NoSuchHost),
                Ok(Answer::Lame) => last = Failure::Lame,
                Ok(_) => last = Failure::Misbehaving,
                Err(failure) => last = failure,
            }
        }
    }
    Err(last)
}

/// `exchange`: one server over UDP and, when truncated, over TCP; each has the whole timeout.
fn exchange(
    trace: &mut Trace<'_>,
    server: IpAddr,
    candidate: &str,
    qtype: Qtype,
    options: &Options,
) -> Result<Answer, Failure> {
    if !name::fits_a_query(candidate) {
        return Err(Failure::CannotMarshal);
    }
    let wait = Millis::try_from(options.timeout).unwrap_or(1) * 1000;
    let transports: &[Transport] =
        if options.use_vc { &[Transport::Tcp] } else { &[Transport::Udp, Transport::Tcp] };
    let mut answer = Answer::Truncated;
    for transport in transports {
        answer = trace.ask(server, *transport, candidate, qtype);
        match answer {
            Answer::Silence => {
                trace.now += wait;
                return Err(Failure::Timeout);
            }
            Answer::Unreachable => return Err(Failure::Unreachable(*transport)),
            Answer::Truncated if *transport == Transport::Udp => {}
            _ => return Ok(answer),
        }
    }
    Ok(answer)
}
