//! musl's stub resolver: `src/network/lookup_name.c` (which names, what comes out) and `src/network/res_msend.c` (all
//! servers at once, one budget of time).
//!
//! Invariant: every server gets every question at the same moment, so of several acceptable answers any can be the
//! first. Each combination is a run; runs that cannot be told apart afterwards are one.

use std::collections::VecDeque;
use std::net::IpAddr;

use super::texts::{self, AGAIN, FAIL, MUSL_NODATA, NODATA, NONAME};
use super::trace::{LostBecause, Then, Trace};
use super::{Family, Libc, Lookup, Millis, Outcome, Run, name};
use crate::answers::{Answer, Answers, Qtype, Transport};
use crate::resolv_conf::ResolvConf;
use crate::version::Version;

/// Truncated answers are asked for again over TCP.
const TCP: Version = Version::new(1, 2, 4);
/// A name that makes no query does not exist, rather than ending the search; `..` makes no query.
const CHECKED_NAMES: Version = Version::new(1, 2, 4);
/// One failed half of a pair is a failure of the pair.
const PAIRED: Version = Version::new(1, 2, 1);

/// Courses to the same name that differ only in who is asked over TCP are not followed beyond so many.
const PATHS: usize = 64;

/// The order for a name that does not exist.
pub(super) fn candidates(lookup: &str, conf: &ResolvConf) -> Vec<String> {
    let as_is = lookup.to_owned();
    let searched = !lookup.ends_with('.') && name::dots(lookup) < conf.options.ndots as usize;
    // The joined name has to fit into 256 bytes, its end included.
    let fits = |suffix: &&String| suffix.len() + lookup.len() + 1 < 256;
    let suffixes = conf.search.iter().filter(|_| searched).filter(fits);
    suffixes
        .map(|suffix| format!("{lookup}.{suffix}"))
        .chain(std::iter::once(as_is))
        .map(|name| name::absolute(&name))
        .collect()
}

/// Every run.
pub(super) fn runs(
    lookup: &Lookup,
    conf: &ResolvConf,
    servers: &[IpAddr],
    version: Version,
    answers: &dyn Answers,
) -> Vec<Run> {
    let libc = Libc::Musl(version);
    let stub = Stub {
        types: match lookup.family {
            Family::Unspec => &[Qtype::A, Qtype::Aaaa],
            Family::Inet => &[Qtype::A],
            Family::Inet6 => &[Qtype::Aaaa],
        },
        timeout: millis(conf.options.timeout),
        attempts: millis(conf.options.attempts) / 1000,
        version,
    };
    let begin = Path { trace: Trace::new(answers, servers), when: Vec::new() };
    let legal = (1..255).contains(&lookup.name.len()) && lookup.name != "." && !lookup.name.ends_with("..");
    if !legal {
        return vec![begin.end(libc, Some(NONAME), None)];
    }
    if stub.attempts == 0 {
        let mut run = begin.end(libc, None, None);
        "killed by SIGFPE: musl divides the timeout by attempts, which is 0"
            .clone_into(&mut run.outcome.text);
        return vec![run];
    }
    let mut paths = vec![begin];
    let mut runs: Vec<Run> = Vec::new();
    for candidate in candidates(&lookup.name, conf) {
        let mut next: Vec<Path<'_>> = Vec::new();
        for path in paths {
            let mark = path.trace.mark();
            for (mut path, verdict) in stub.candidate(path, &candidate) {
                path.trace.step(mark, &candidate, verdict.then(), verdict.why());
                match verdict {
                    Verdict::Next if next.len() >= PATHS || next.iter().any(|known| known.same(&path)) => {}
                    Verdict::Next => next.push(path),
                    Verdict::Found => push(&mut runs, path.end(libc, Some(0), Some(candidate.clone()))),
                    Verdict::Stop(rc) => push(&mut runs, path.end(libc, Some(rc), None)),
                }
            }
        }
        paths = next;
    }
    for path in paths {
        push(&mut runs, path.end(libc, Some(NONAME), None));
    }
    runs
}

fn push(runs: &mut Vec<Run>, run: Run) {
    let same = |known: &Run| {
        (known.outcome.rc, known.outcome.millis, &known.resolved, &known.queries)
            == (run.outcome.rc, run.outcome.millis, &run.resolved, &run.queries)
    };
    if !runs.iter().any(same) {
        runs.push(run);
    }
}

fn millis(seconds: i64) -> Millis {
    Millis::try_from(seconds).unwrap_or(0) * 1000
}

/// A run that has come so far.
#[derive(Clone)]
struct Path<'a> {
    trace: Trace<'a>,
    when: Vec<String>,
}

impl Path<'_> {
    fn same(&self, other: &Self) -> bool {
        (self.trace.now, &self.trace.queries) == (other.trace.now, &other.trace.queries)
    }

    fn end(self, libc: Libc, rc: Option<i32>, resolved: Option<String>) -> Run {
        let outcome = Outcome {
            rc,
            millis: Some(self.trace.now),
            text: rc.map_or_else(String::new, |rc| texts::of(libc, rc)),
            when: (!self.when.is_empty()).then(|| self.when.join(", ")),
        };
        Run { outcome, resolved, queries: self.trace.queries, lost: self.trace.lost, steps: self.trace.steps }
    }
}

/// What a candidate comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Found,
    Next,
    Stop(i32),
}

impl Verdict {
    const fn then(self) -> Then {
        match self {
            Self::Found => Then::Found,
            Self::Next => Then::Next,
            Self::Stop(_) => Then::Stop,
        }
    }

    const fn why(self) -> &'static str {
        match self {
            Self::Found => "both halves are well, and one has addresses",
            Self::Next => "NXDOMAIN for one half is NXDOMAIN for the name",
            Self::Stop(AGAIN) => {
                "a half without NOERROR or NXDOMAIN within the timeout ends the whole search, whatever the other half has"
            }
            Self::Stop(_) => "the name exists without an address, which ends the whole search",
        }
    }
}

/// The accepted answer of each type, in the order of the types.
type Accepted = [Option<Answer>; 2];

struct Stub {
    types: &'static [Qtype],
    timeout: Millis,
    attempts: u64,
    version: Version,
}

impl Stub {
    /// `name_from_dns`.
    fn candidate<'a>(&self, path: Path<'a>, candidate: &str) -> Vec<(Path<'a>, Verdict)> {
        let begin = path.trace.now;
        let bare = candidate.strip_suffix('.').unwrap_or(candidate);
        if bare.ends_with('.') && self.version < CHECKED_NAMES {
            return vec![self.malformed(path, candidate)];
        }
        if !name::fits_a_query(candidate) {
            let verdict = if self.version < CHECKED_NAMES { Verdict::Stop(NONAME) } else { Verdict::Next };
            return vec![(path, verdict)];
        }
        let mut ends = Vec::new();
        self.round(path, candidate, begin, 0, [None; 2], &mut ends);
        ends.into_iter().map(|(path, accepted)| (path, self.verdict(accepted))).collect()
    }

    /// A name that ended with two dots gave a packet that no server can read, again and again.
    fn malformed<'a>(&self, mut path: Path<'a>, candidate: &str) -> (Path<'a>, Verdict) {
        let begin = path.trace.now;
        for at in self.moments() {
            path.trace.now = begin + at;
            for qtype in self.types {
                for server in path.trace.servers() {
                    let name = candidate.to_owned();
                    path.trace.lose(*server, Transport::Udp, name, *qtype, LostBecause::Malformed);
                }
            }
        }
        path.trace.now = begin + self.timeout;
        (path, Verdict::Stop(AGAIN))
    }

    /// When what is unanswered is sent, counted from the begin of the candidate.
    fn moments(&self) -> impl Iterator<Item = Millis> {
        let (timeout, interval) = (self.timeout, self.timeout / self.attempts);
        let rounds = if interval == 0 { 0 } else { self.attempts };
        (0..rounds).map(move |round| round * interval).take_while(move |at| *at < timeout)
    }

    /// Where the division leaves a rest, once more so many milliseconds before the end, if every wait was exact.
    fn late_moment(&self) -> Option<Millis> {
        let interval = self.timeout / self.attempts;
        let at = interval * self.attempts;
        (interval > 0 && at < self.timeout).then_some(at)
    }

    /// One round of sending, and whatever can follow it.
    fn round<'a>(
        &self,
        mut path: Path<'a>,
        candidate: &str,
        begin: Millis,
        round: usize,
        accepted: Accepted,
        ends: &mut Vec<(Path<'a>, Accepted)>,
    ) {
        let Some(at) = self.moments().nth(round) else {
            if let Some(at) = self.late_moment() {
                path.trace.now = begin + at;
                for (_, qtype) in self.types.iter().enumerate().filter(|(slot, _)| open(accepted, *slot)) {
                    for server in path.trace.servers() {
                        path.trace.ask_perhaps(*server, Transport::Udp, candidate, *qtype, false);
                    }
                }
            }
            path.trace.now = begin + self.timeout;
            ends.push((path, accepted));
            return;
        };
        path.trace.now = begin + at;
        let asked: Vec<(usize, Qtype)> =
            self.types.iter().copied().enumerate().filter(|(slot, _)| open(accepted, *slot)).collect();
        let coming = ask_all(&mut path.trace, &asked, candidate, self.types.len());
        let mut branches = vec![(path, accepted, Vec::<(IpAddr, usize)>::new())];
        for (slot, qtype) in asked {
            let mut choices: Vec<(IpAddr, Answer)> = Vec::new();
            for (server, _, answer) in coming.iter().filter(|(_, of, _)| *of == slot) {
                // Only a truncated answer makes a difference by its server: that one is asked again.
                let known = |(by, known): &(IpAddr, Answer)| {
                    known == answer && (*answer != Answer::Truncated || by == server)
                };
                if !choices.iter().any(known) {
                    choices.push((*server, *answer));
                }
            }
            if choices.is_empty() {
                continue;
            }
            let mut wider = Vec::new();
            for (path, accepted, by) in branches {
                for (server, answer) in &choices {
                    let (mut path, mut accepted, mut by) = (path.clone(), accepted, by.clone());
                    by.push((*server, slot));
                    if let Some(place) = accepted.get_mut(slot) {
                        *place = Some(*answer);
                    }
                    if choices.len() > 1 {
                        path.when.push(format!("{server} is the first to answer for {qtype} of {candidate}"));
                    }
                    wider.push((path, accepted, by));
                }
            }
            branches = wider;
        }
        for (path, accepted, by) in branches {
            self.over_tcp(path, candidate, begin, round, accepted, &by, ends);
        }
    }

    /// What truncated answers lead to, then the next round if something is open still.
    #[expect(clippy::too_many_arguments, reason = "the state of one branch")]
    fn over_tcp<'a>(
        &self,
        mut path: Path<'a>,
        candidate: &str,
        begin: Millis,
        round: usize,
        mut accepted: Accepted,
        by: &[(IpAddr, usize)],
        ends: &mut Vec<(Path<'a>, Accepted)>,
    ) {
        let mut gave_up = None;
        let mut hanging = false;
        for (server, slot) in by {
            let (Some(place), Some(qtype)) = (accepted.get_mut(*slot), self.types.get(*slot)) else {
                continue;
            };
            if *place != Some(Answer::Truncated) {
                continue;
            }
            if self.version < TCP {
                // The truncated message is taken as it is, and it is empty.
                *place = Some(Answer::NoData);
                continue;
            }
            let answer = path.trace.ask(*server, Transport::Tcp, candidate, *qtype);
            *place = match answer {
                Answer::Addresses | Answer::NoData | Answer::NxDomain | Answer::Lame | Answer::Truncated => {
                    Some(answer)
                }
                Answer::Silence => {
                    hanging = true;
                    None
                }
                _ => {
                    gave_up = Some(*server);
                    None
                }
            };
        }
        if let Some(failed_at) = gave_up {
            // The connection fails at once; what another server was about to say may come too late.
            let mut raced = Vec::new();
            for (server, slot) in by {
                let mut without = accepted;
                if let Some(place) = without.get_mut(*slot)
                    && *server != failed_at
                    && place.take().is_some()
                {
                    let mut path = path.clone();
                    path.when.push(format!("{failed_at} resets the connection before {server} has answered"));
                    ends.push((path, without));
                    raced.push(format!("{server} has answered before {failed_at} resets the connection"));
                }
            }
            path.when.append(&mut raced);
            ends.push((path, accepted));
            return;
        }
        let done = self.types.iter().zip(accepted).all(|(_, answer)| answer.is_some());
        if done {
            ends.push((path, accepted));
        } else if hanging {
            path.trace.now = begin + self.timeout;
            ends.push((path, accepted));
        } else {
            self.round(path, candidate, begin, round + 1, accepted, ends);
        }
    }

    /// The end of `name_from_dns`.
    fn verdict(&self, accepted: Accepted) -> Verdict {
        let answers: Vec<Option<Answer>> =
            self.types.iter().zip(accepted).map(|(_, answer)| answer).collect();
        let found = answers.contains(&Some(Answer::Addresses));
        if self.version < PAIRED && found {
            return Verdict::Found;
        }
        let looked_at = if self.version < PAIRED { 1 } else { answers.len() };
        for answer in answers.iter().take(looked_at) {
            match answer {
                None | Some(Answer::ServFail) => return Verdict::Stop(AGAIN),
                Some(Answer::NxDomain) => return Verdict::Next,
                Some(Answer::Addresses | Answer::NoData | Answer::Lame | Answer::Truncated) => {}
                Some(_) => return Verdict::Stop(FAIL),
            }
        }
        match found {
            true => Verdict::Found,
            false if self.version < MUSL_NODATA => Verdict::Stop(NONAME),
            false => Verdict::Stop(NODATA),
        }
    }
}

/// Whether a type of the lookup has no answer yet.
fn open(accepted: Accepted, slot: usize) -> bool {
    accepted.get(slot).is_some_and(Option::is_none)
}

/// Sends what is open to every server, asks again after SERVFAIL as often as a round allows, and tells the answers
/// that would be accepted, by server and slot.
fn ask_all(
    trace: &mut Trace<'_>,
    open: &[(usize, Qtype)],
    candidate: &str,
    types: usize,
) -> Vec<(IpAddr, usize, Answer)> {
    let servers = trace.servers();
    let mut coming = VecDeque::new();
    for (slot, qtype) in open {
        for server in servers {
            let answer = trace.ask(*server, Transport::Udp, candidate, *qtype);
            coming.push_back((*server, *slot, *qtype, answer));
        }
    }
    let mut acceptable = Vec::new();
    let mut again = 2 * types;
    while let Some((server, slot, qtype, answer)) = coming.pop_front() {
        match answer {
            Answer::Addresses | Answer::NoData | Answer::NxDomain | Answer::Lame | Answer::Truncated => {
                acceptable.push((server, slot, answer));
            }
            Answer::ServFail if again > 0 => {
                again -= 1;
                // Another server's answer may come first, and then this is not sent.
                let certain = servers.len() == 1;
                let answer = trace.ask_perhaps(server, Transport::Udp, candidate, qtype, certain);
                coming.push_back((server, slot, qtype, answer));
            }
            _ => {}
        }
    }
    acceptable
}
