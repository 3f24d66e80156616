//! glibc's stub resolver: `resolv/res_query.c` (which names), `resolv/res_send.c` (which servers, how, how long) and
//! `resolv/nss_dns/dns-host.c` with `getaddrinfo` (what comes out).
//!
//! Invariant: one lookup is one thread of events, so only `rotate`, which begins at random, makes more than one run.
//! A fall back to one query at a time is remembered for the rest of the lookup, as glibc remembers it.

use std::collections::VecDeque;
use std::net::IpAddr;

use super::texts::{self, AGAIN, NODATA, NONAME};
use super::trace::{Then, Trace};
use super::{Family, Libc, Lookup, Millis, Outcome, Run, name};
use crate::answers::{Answer, Answers, Qtype, Transport};
use crate::resolv_conf::{Options, ResolvConf};
use crate::version::Version;

/// `single-request` no longer waits for an answer to a query that it did not send (bug 30081): made for 2.41, and since
/// then part of the maintained branches of all releases from 2.34 on, as Debian's 2.36 shows.
const NO_WAIT_FOR_NOTHING: Version = Version::new(2, 34, 0);
/// `EAI_NODATA` is told of IPv4 alone, too (bug 21922).
const NODATA_OF_INET: Version = Version::new(2, 28, 0);
/// Names that are no host names are not asked for (bug 24112).
const HOST_NAMES_ONLY: Version = Version::new(2, 29, 0);

/// The order for a name that does not exist.
pub(super) fn candidates(lookup: &str, conf: &ResolvConf) -> Vec<String> {
    let as_is = name::absolute(lookup);
    if lookup.ends_with('.') {
        return vec![as_is];
    }
    let suffixed = conf.search.iter().map(|suffix| with_suffix(lookup, suffix));
    let first = name::dots(lookup) >= conf.options.ndots as usize;
    let root = conf.search.iter().any(|suffix| is_root(suffix));
    let never = conf.options.no_tld_query && name::dots(lookup) == 0 && !conf.search.is_empty();
    let last = !(first || root || never);
    let mut names: Vec<String> = first.then(|| as_is.clone()).into_iter().chain(suffixed).collect();
    names.extend(last.then_some(as_is));
    names
}

/// A dot in front of a suffix is skipped, so that `.` is the root.
fn with_suffix(lookup: &str, suffix: &str) -> String {
    let suffix = suffix.strip_prefix('.').unwrap_or(suffix);
    if suffix.is_empty() { format!("{lookup}.") } else { name::absolute(&format!("{lookup}.{suffix}")) }
}

fn is_root(suffix: &str) -> bool {
    suffix == "."
}

/// Every run: one, or one for each server with which a rotation can begin.
pub(super) fn runs(
    lookup: &Lookup,
    conf: &ResolvConf,
    servers: &[IpAddr],
    version: Version,
    answers: &dyn Answers,
) -> Vec<Run> {
    let libc = Libc::Glibc(version);
    let beginnings = if conf.options.rotate && servers.len() > 1 { servers.len() } else { 1 };
    (0..beginnings)
        .map(|beginning| {
            let when = (beginnings > 1)
                .then(|| servers.get(beginning))
                .flatten()
                .map(|server| format!("the rotation begins with {server}"));
            let mut stub = Stub {
                trace: Trace::new(answers, servers),
                options: conf.options,
                version,
                offset: beginning,
                single: false,
                reopen: false,
                header: Answer::NoData,
                heard: false,
                refused: false,
                unanswered: false,
                resolved: None,
            };
            let end = if version >= HOST_NAMES_ONLY && !name::is_host_name(&lookup.name) {
                Ok(Err(HErrno::HostNotFound))
            } else {
                stub.search(lookup, &conf.search)
            };
            let (rc, millis, text) = match end {
                Ok(Ok(())) => {
                    // An answer whose owner is no host name is thrown away, and the search is over by then.
                    let rc =
                        if stub.resolved.as_deref().is_some_and(name::is_host_name) { 0 } else { NONAME };
                    if rc != 0 {
                        stub.resolved = None;
                        stub.trace.amend(
                            Then::Stop,
                            "its addresses are not taken: the name has letters that no host name has",
                        );
                    }
                    (Some(rc), Some(stub.trace.now), texts::of(libc, rc))
                }
                Ok(Err(error)) => {
                    let rc = stub.rc(error, lookup.family);
                    (Some(rc), Some(stub.trace.now), texts::of(libc, rc))
                }
                Err(endless) => (None, None, endless.text().to_owned()),
            };
            let outcome = Outcome { rc, millis, text, when };
            Run {
                outcome,
                resolved: stub.resolved,
                queries: stub.trace.queries,
                lost: stub.trace.lost,
                steps: stub.trace.steps,
            }
        })
        .collect()
}

const FOUND: &str = "one address is enough";

/// `h_errno`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HErrno {
    HostNotFound,
    TryAgain,
    NoRecovery,
    NoData,
}

impl HErrno {
    /// What `getaddrinfo` makes of it.
    const fn rc(self) -> i32 {
        match self {
            Self::TryAgain => AGAIN,
            Self::NoData => NODATA,
            Self::HostNotFound | Self::NoRecovery => NONAME,
        }
    }
}

/// Why a lookup has no end.
enum Endless {
    /// A read without a timeout that nothing will end.
    Read,
    /// More names than are planned.
    Asking,
}

impl Endless {
    const fn text(&self) -> &'static str {
        match self {
            Self::Read => "never returns: glibc has no timeout for an answer over TCP",
            Self::Asking => super::trace::FULL,
        }
    }
}

/// The answers in the order in which they came: the caller's first and second buffer.
#[derive(Clone, Copy)]
struct Answered(Option<Answer>, Option<Answer>);

/// How `res_send` fails.
enum Failed {
    /// `ECONNREFUSED`.
    Refused,
    /// Any other errno.
    Other,
}

/// How one try of one server over UDP ends.
enum Datagram {
    NextServer,
    OverTcp,
    Answered(Answered),
}

struct Stub<'a> {
    trace: Trace<'a>,
    options: Options,
    version: Version,
    /// Counts up with each name, `rotate` or not.
    offset: usize,
    /// `RES_SNGLKUP` and `RES_SNGLKUPREOP`, set by a timeout.
    single: bool,
    reopen: bool,
    /// What stands in the header of the first buffer, however old.
    header: Answer,
    /// Whether the first buffer has an answer to the last name.
    heard: bool,
    /// `errno == ECONNREFUSED` after the last name.
    refused: bool,
    /// `errno` says so after the last name, or `ETIMEDOUT`.
    unanswered: bool,
    resolved: Option<String>,
}

impl Stub<'_> {
    /// What `getaddrinfo` makes of the error. For IPv4 alone it takes the way of `gethostbyname2_r`, which does not hear
    /// of "try again" unless the last name of all went unanswered.
    fn rc(&self, error: HErrno, family: Family) -> i32 {
        match (error, family) {
            (HErrno::TryAgain, Family::Inet) if !self.unanswered => NONAME,
            (HErrno::NoData, Family::Inet) if self.version < NODATA_OF_INET => NONAME,
            _ => error.rc(),
        }
    }

    /// `__res_context_search`.
    fn search(&mut self, lookup: &Lookup, suffixes: &[String]) -> Result<Result<(), HErrno>, Endless> {
        let types: &[Qtype] = match lookup.family {
            Family::Unspec if self.options.no_aaaa => &[Qtype::A],
            Family::Unspec => &[Qtype::A, Qtype::Aaaa],
            Family::Inet => &[Qtype::A],
            Family::Inet6 => &[Qtype::Aaaa],
        };
        let dots = name::dots(&lookup.name);
        let rooted = lookup.name.ends_with('.');
        let never = dots == 0 && self.options.no_tld_query && !suffixes.is_empty();
        let mut first_error = None;
        let mut last_error = HErrno::HostNotFound;
        let (mut no_data, mut failed, mut root) = (false, false, false);
        if rooted || dots >= self.options.ndots as usize {
            let mark = self.trace.mark();
            let result = self.query(&lookup.name, types)?;
            let (then, why) = match result {
                Ok(()) => (Then::Found, FOUND),
                Err(_) if rooted => {
                    (Then::Stop, "a name that ends with a dot is tried as it is, and nothing else")
                }
                Err(_) if suffixes.is_empty() => (Then::Stop, "there is no suffix to try"),
                Err(_) => (
                    Then::Next,
                    "whatever is wrong, the suffixes are tried, and this error is the one reported",
                ),
            };
            self.trace.step(mark, &lookup.name, then, why);
            match result {
                Ok(()) => return Ok(Ok(())),
                Err(error) if rooted => return Ok(Err(error)),
                Err(error) => first_error = Some(error),
            }
        }
        for suffix in suffixes {
            root |= is_root(suffix);
            let candidate = with_suffix(&lookup.name, suffix);
            let mark = self.trace.mark();
            let result = self.query(&candidate, types)?;
            let after = if first_error.is_none() && !root && !never { Then::AsIs } else { Then::Stop };
            let (then, why) = match result {
                Ok(()) => (Then::Found, FOUND),
                Err(_) if self.refused => {
                    (Then::Stop, "nobody listens at any server: glibc gives up at once")
                }
                Err(HErrno::HostNotFound) => (Then::Next, "the name does not exist"),
                Err(HErrno::NoData) => (Then::Next, "the name has no address"),
                Err(HErrno::TryAgain) if self.header == Answer::ServFail => {
                    (Then::Next, "SERVFAIL, which glibc remembers")
                }
                Err(HErrno::TryAgain) => (after, "no server gave a usable answer: no other suffix is tried"),
                Err(HErrno::NoRecovery) => (after, "such an answer is final: no other suffix is tried"),
            };
            self.trace.step(mark, &candidate, then, why);
            let Err(error) = result else { return Ok(Ok(())) };
            if self.refused {
                return Ok(Err(HErrno::TryAgain));
            }
            last_error = error;
            no_data |= error == HErrno::NoData;
            failed |= error == HErrno::TryAgain && then == Then::Next;
            if then != Then::Next {
                break;
            }
        }
        if first_error.is_none() && !root && !never {
            let mark = self.trace.mark();
            let result = self.query(&lookup.name, types)?;
            let (then, why) = match result {
                Ok(()) => (Then::Found, FOUND),
                Err(_) if no_data => {
                    (Then::Stop, "the last name; what is reported is that an earlier one had no address")
                }
                Err(_) if failed => {
                    (Then::Stop, "the last name; what is reported is the SERVFAIL of an earlier one")
                }
                Err(_) => (Then::Stop, "the last name"),
            };
            self.trace.step(mark, &lookup.name, then, why);
            match result {
                Ok(()) => return Ok(Ok(())),
                Err(error) => last_error = error,
            }
        }
        Ok(Err(match first_error {
            Some(error) => error,
            None if no_data => HErrno::NoData,
            None if failed => HErrno::TryAgain,
            None => last_error,
        }))
    }

    /// `__res_context_query`: one name, its types, and what the two answers amount to.
    fn query(&mut self, qname: &str, types: &[Qtype]) -> Result<Result<(), HErrno>, Endless> {
        self.header = Answer::NoData;
        if !name::fits_a_query(qname) {
            (self.refused, self.unanswered) = (false, false);
            return Ok(Err(HErrno::NoRecovery));
        }
        if self.trace.is_full() {
            return Err(Endless::Asking);
        }
        self.heard = false;
        // With `no-aaaa` A is asked in the place of AAAA, to learn whether the name exists; its addresses are taken out.
        let instead = types == [Qtype::Aaaa] && self.options.no_aaaa;
        let sent = self.send(qname, if instead { &[Qtype::A] } else { types })?;
        self.refused = matches!(sent, Err(Failed::Refused));
        self.unanswered = sent.is_err();
        if instead {
            return Ok(Err(match sent {
                Ok(Answered(Some(Answer::NxDomain), _)) => HErrno::HostNotFound,
                Ok(Answered(Some(Answer::FormErr | Answer::NotImp | Answer::Refused), _)) => {
                    HErrno::NoRecovery
                }
                Ok(Answered(Some(Answer::ServFail), _)) => HErrno::TryAgain,
                // A failure without any answer is overlooked, and an empty buffer looks like an empty answer.
                Err(_) if self.heard => HErrno::TryAgain,
                _ => HErrno::NoData,
            }));
        }
        let Ok(Answered(first, second)) = sent else { return Ok(Err(HErrno::TryAgain)) };
        let (Some(first), Some(second)) = (first.or(second), second.or(first)) else {
            return Ok(Err(HErrno::TryAgain));
        };
        if first == Answer::Addresses || second == Answer::Addresses {
            self.resolved = Some(name::absolute(qname));
            return Ok(Ok(()));
        }
        let no_error = |answer| matches!(answer, Answer::NoData | Answer::Lame | Answer::Truncated);
        Ok(Err(match if no_error(first) { second } else { first } {
            Answer::NxDomain => HErrno::HostNotFound,
            Answer::ServFail => HErrno::TryAgain,
            answer if no_error(answer) => HErrno::NoData,
            _ => HErrno::NoRecovery,
        }))
    }

    /// `__res_context_send`: tries times servers, and TCP once it has come to that.
    fn send(&mut self, name: &str, types: &[Qtype]) -> Result<Result<Answered, Failed>, Endless> {
        let servers = self.trace.servers();
        let mut over_tcp = self.options.use_vc;
        let mut somewhere = false;
        let mut error = Failed::Other;
        let offset = if self.options.rotate { self.offset } else { 0 };
        self.offset += 1;
        let mut tries = 0;
        while tries < self.options.attempts {
            tries += 1;
            for shift in 0..servers.len() {
                let index = (shift + offset) % servers.len();
                let Some(server) = servers.get(index).copied() else { continue };
                if !over_tcp {
                    match self.datagram(index, server, name, types, &mut somewhere) {
                        Datagram::NextServer => continue,
                        Datagram::OverTcp => over_tcp = true,
                        Datagram::Answered(answered) => return Ok(Ok(answered)),
                    }
                }
                // A connection is tried once for each server that is left.
                tries = self.options.attempts;
                match self.stream(server, name, types)? {
                    Some(answered) => return Ok(Ok(answered)),
                    None => error = Failed::Refused,
                }
            }
        }
        Ok(Err(if over_tcp {
            error
        } else if somewhere {
            Failed::Other
        } else {
            Failed::Refused
        }))
    }

    /// The wait for one server: the timeout, doubled for each server before it and shared among all.
    fn wait(&self, index: usize) -> Millis {
        let shift = u32::try_from(index).unwrap_or(0);
        let mut wait = self.options.timeout.checked_shl(shift).unwrap_or(0);
        if index > 0 {
            wait /= i64::try_from(self.trace.servers().len()).unwrap_or(1);
        }
        Millis::try_from(wait.max(1)).unwrap_or(1) * 1000
    }

    /// `send_dg`.
    fn datagram(
        &mut self,
        index: usize,
        server: IpAddr,
        name: &str,
        types: &[Qtype],
        somewhere: &mut bool,
    ) -> Datagram {
        let [first_type, others @ ..] = types else { return Datagram::NextServer };
        let second_type = others.first().copied();
        let two = second_type.is_some();
        let mut reopen = self.options.single_request_reopen || self.reopen;
        let mut single = self.options.single_request || self.single || reopen;
        let before = *somewhere;
        let mut buffers = Answered(None, None);
        loop {
            let finish = self.trace.now + self.wait(index);
            let mut got = (false, false);
            let mut coming: VecDeque<(bool, Answer)> = VecDeque::new();
            coming.push_back((true, self.trace.ask(server, Transport::Udp, name, *first_type)));
            if let Some(qtype) = second_type.filter(|_| !single) {
                coming.push_back((false, self.trace.ask(server, Transport::Udp, name, qtype)));
            }
            buffers.1 = None;
            while let Some((is_first, answer)) = coming.pop_front() {
                match answer {
                    Answer::Silence => continue,
                    Answer::Unreachable => return Datagram::NextServer,
                    _ => {}
                }
                *somewhere = true;
                let other_came = got.0 || got.1;
                if other_came {
                    buffers.1 = Some(answer);
                } else {
                    buffers.0 = Some(answer);
                    self.header = answer;
                    self.heard = true;
                }
                let useless =
                    matches!(answer, Answer::ServFail | Answer::NotImp | Answer::Refused | Answer::Lame);
                if useless {
                    if !self.options.strict_error && other_came {
                        return match buffers.0 {
                            Some(_) => Datagram::Answered(Answered(buffers.0, None)),
                            None => Datagram::NextServer,
                        };
                    }
                    let waits = !single || self.version < NO_WAIT_FOR_NOTHING;
                    if self.options.strict_error || !two || !waits {
                        return Datagram::NextServer;
                    }
                    buffers.0 = None;
                } else if answer == Answer::Truncated {
                    return Datagram::OverTcp;
                }
                if is_first {
                    got.0 = true;
                } else {
                    got.1 = true;
                }
                if !two || (got.0 && got.1) {
                    return Datagram::Answered(buffers);
                }
                if single
                    && !useless
                    && let Some(qtype) = second_type
                {
                    coming.push_back((false, self.trace.ask(server, Transport::Udp, name, qtype)));
                }
            }
            self.trace.now = finish;
            if buffers.0.is_none() || !(got.0 || got.1) {
                *somewhere = true;
                return Datagram::NextServer;
            }
            *somewhere = before;
            if !single {
                (self.single, single) = (true, true);
            } else if !reopen {
                (self.reopen, reopen) = (true, true);
            } else {
                return Datagram::Answered(Answered(buffers.0, None));
            }
        }
    }

    /// `send_vc`: both questions on one connection, and no timeout. `None` when nobody listens.
    fn stream(&mut self, server: IpAddr, name: &str, types: &[Qtype]) -> Result<Option<Answered>, Endless> {
        let answers: Vec<Answer> =
            types.iter().map(|qtype| self.trace.ask(server, Transport::Tcp, name, *qtype)).collect();
        if answers.contains(&Answer::Unreachable) {
            return Ok(None);
        }
        if answers.contains(&Answer::Silence) {
            return Err(Endless::Read);
        }
        let answered = Answered(answers.first().copied(), answers.get(1).copied());
        self.header = answered.0.unwrap_or(Answer::NoData);
        self.heard = true;
        Ok(Some(answered))
    }
}
