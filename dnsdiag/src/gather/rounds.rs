//! Asking: all questions at once, then what stayed silent again.
//!
//! Invariant: the first round lasts as long as its slowest question, at most the patience for connecting and again for an answer;
//! the second at most the last patience. Rows are in the order of the questions, whatever came first.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, mpsc::RecvTimeoutError};
use std::time::Duration;

use netlab_plugin::evidence::{Flag, Icmp, Outcome, Position, Probe as Row, Transport};

use super::{Budget, Prober, Question};
use crate::probe::{self, Observation, Probe, Record};

/// Between the sends of one question: their losses tell nothing new when they leave together.
const STAGGER: Duration = Duration::from_millis(40);
/// How often somebody who waits looks whether to stop.
const TICK: Duration = Duration::from_millis(20);

pub(super) struct Answered {
    pub(super) rows: Vec<Row>,
    pub(super) sent: u32,
    pub(super) failed: Vec<String>,
    pub(super) interrupted: bool,
}

/// One send of a question.
struct Send {
    question: usize,
    wait: Duration,
    from: Position,
    probe: Probe,
}

pub(super) fn ask(
    questions: &[Question],
    prober: &Arc<dyn Prober>,
    budget: &Budget,
    random: u64,
    stop: &Arc<AtomicBool>,
) -> Answered {
    let mut ids = Ids(random);
    let mut answered = Answered { rows: Vec::new(), sent: 0, failed: Vec::new(), interrupted: false };
    let mut first = Vec::new();
    for (index, question) in questions.iter().enumerate() {
        for time in 0..question.times {
            let transport = match question.transport {
                Transport::Udp => probe::Transport::Udp,
                Transport::Tcp => probe::Transport::Tcp,
            };
            let probe = message(question, transport, budget.patience, ids.next());
            first.push(Send { question: index, wait: STAGGER * time, from: question.from.clone(), probe });
        }
    }
    answered.sent += u32::try_from(first.len()).unwrap_or(u32::MAX);
    let mut seen = send(first, prober, stop, &mut answered);
    let silent: Vec<usize> = silent(questions, &seen);
    // A socket that hears anybody, and waits for as long as an unanswered ARP takes to be told.
    let room = usize::try_from(budget.questions.saturating_sub(answered.sent)).unwrap_or(0);
    let again: Vec<Send> = silent
        .iter()
        .take(room)
        .filter_map(|index| {
            let question = questions.get(*index)?;
            let probe = message(question, probe::Transport::UdpFromAny, budget.last_patience, ids.next());
            Some(Send { question: *index, wait: Duration::ZERO, from: question.from.clone(), probe })
        })
        .collect();
    if !again.is_empty() && !answered.interrupted {
        answered.sent += u32::try_from(again.len()).unwrap_or(u32::MAX);
        seen.extend(send(again, prober, stop, &mut answered));
    }
    for (index, question) in questions.iter().enumerate() {
        let own: Vec<&Observation> =
            seen.iter().filter(|(asked, _)| *asked == index).map(|(_, observation)| observation).collect();
        answered.rows.extend(row(question, &own));
    }
    answered
}

fn message(question: &Question, transport: probe::Transport, patience: Duration, id: u16) -> Probe {
    Probe {
        name: question.name.clone(),
        record: question.record.to_owned(),
        server: question.server,
        transport,
        id,
        edns: question.edns,
        source_port: None,
        patience,
    }
}

/// UDP questions that nothing at all came back for, one for each segment. The node's own are there to be compared with the
/// pod's: where that gets answers, they are not worth the wait.
fn silent(questions: &[Question], seen: &[(usize, Observation)]) -> Vec<usize> {
    let mut segments = Vec::new();
    let mut silent = Vec::new();
    let nothing_for_the_pod = |server: SocketAddr| {
        let of_pod = |index: usize| {
            questions.get(index).is_some_and(|one| one.from == Position::Pod && one.server == server)
        };
        let mut answers = seen.iter().filter(|(asked, _)| of_pod(*asked));
        !answers.any(|(_, one)| matches!(one.outcome, probe::Outcome::Answered { .. }))
    };
    for (index, question) in questions.iter().enumerate() {
        if question.from == Position::Node && !nothing_for_the_pod(question.server) {
            continue;
        }
        let mut own = seen.iter().filter(|(asked, _)| *asked == index).peekable();
        let nothing =
            own.peek().is_some() && own.all(|(_, observation)| observation.outcome == probe::Outcome::Silent);
        let segment = (question.from.clone(), question.server);
        if question.transport == Transport::Udp && nothing && !segments.contains(&segment) {
            segments.push(segment);
            silent.push(index);
        }
    }
    silent
}

/// Sends each on a thread of its own and collects what comes back, until all have or somebody says stop.
fn send(
    sends: Vec<Send>,
    prober: &Arc<dyn Prober>,
    stop: &Arc<AtomicBool>,
    answered: &mut Answered,
) -> Vec<(usize, Observation)> {
    let (results, collected) = mpsc::channel();
    let mut waiting = 0usize;
    for Send { question, wait, from, probe } in sends {
        let (results, prober) = (results.clone(), Arc::clone(prober));
        let work = move || {
            std::thread::sleep(wait);
            // Nobody listens any more after a stop.
            let _ = results.send((question, prober.ask(&from, &probe)));
        };
        match std::thread::Builder::new().name("probe".to_owned()).spawn(work) {
            Ok(_) => waiting += 1,
            Err(error) => answered.failed.push(format!("probes: no thread for a question: {error}")),
        }
    }
    drop(results);
    let mut seen = Vec::new();
    while waiting > 0 {
        match collected.recv_timeout(TICK) {
            Ok((question, Ok(observation))) => {
                seen.push((question, observation));
                waiting -= 1;
            }
            Ok((_, Err(why))) => {
                let why = format!("probes: {why}");
                if !answered.failed.contains(&why) {
                    answered.failed.push(why);
                }
                waiting -= 1;
            }
            Err(RecvTimeoutError::Timeout) if stop.load(Ordering::Relaxed) => {
                answered.interrupted = true;
                break;
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    seen.sort_by_key(|(question, observation)| (*question, observation.microseconds));
    seen
}

/// One row of what was seen of all sends of a question; none when nothing was.
fn row(question: &Question, seen: &[&Observation]) -> Option<Row> {
    // An answer says more than silence, and an error more than silence too.
    let telling = seen.iter().max_by_key(|one| match one.outcome {
        probe::Outcome::Answered { .. } => 3,
        probe::Outcome::Garbled { .. } => 2,
        probe::Outcome::Silent => 0,
        _ => 1,
    })?;
    let answered = seen.iter().filter(|one| is_answer(question, one)).count();
    let sent = u32::try_from(seen.len()).unwrap_or(u32::MAX);
    let mut row = Row {
        from: question.from.clone(),
        server: question.server.ip(),
        port: question.server.port(),
        transport: question.transport,
        edns: question.edns,
        source_port: None,
        name: question.name.clone(),
        qtype: question.record.to_owned(),
        sent,
        answered: None,
        result: outcome(question, telling),
        answers: Vec::new(),
        soa: None,
        flags: Vec::new(),
        ttl: None,
        bytes: None,
        ms: None,
        replied_from: None,
        icmp: None,
    };
    let answered = u32::try_from(answered).unwrap_or(u32::MAX);
    if answered > 0 && answered < sent {
        row.answered = Some(answered);
    }
    if let probe::Outcome::Answered { answer } = &telling.outcome {
        row.answers = answer.answers.iter().filter_map(text).collect();
        row.soa = answer.authorities.iter().find(|one| one.kind == "SOA").map(|one| one.name.clone());
        row.flags = [
            (answer.authoritative, Flag::Aa),
            (answer.truncated, Flag::Tc),
            (answer.recursion_available, Flag::Ra),
            (answer.authentic_data, Flag::Ad),
        ]
        .into_iter()
        .filter_map(|(set, flag)| set.then_some(flag))
        .collect();
        let records = if answer.answers.is_empty() { &answer.authorities } else { &answer.answers };
        row.ttl = records.iter().map(|one| one.ttl).min();
        row.bytes = u32::try_from(answer.bytes).ok();
        let slowest = seen.iter().filter(|one| is_answer(question, one)).map(|one| one.microseconds).max();
        row.ms = slowest.map(milliseconds);
        row.replied_from = telling.from.map(|from| from.ip()).filter(|from| *from != question.server.ip());
    }
    let refusal = seen.iter().flat_map(|one| &one.refusals).find_map(|one| {
        let from: IpAddr = one.offender?;
        Some(Icmp { icmp_type: one.icmp_type, code: one.icmp_code, from })
    });
    row.icmp = refusal;
    Some(row)
}

/// An answer that a resolver would have taken: from whom it asked.
fn is_answer(question: &Question, seen: &Observation) -> bool {
    matches!(seen.outcome, probe::Outcome::Answered { .. })
        && seen.from.is_none_or(|from| from.ip() == question.server.ip())
}

#[expect(clippy::cast_precision_loss, reason = "a time to a hundredth of a millisecond")]
fn milliseconds(microseconds: u64) -> f64 {
    (microseconds / 10) as f64 / 100.0
}

fn outcome(question: &Question, seen: &Observation) -> Outcome {
    match &seen.outcome {
        probe::Outcome::Answered { .. } if !is_answer(question, seen) => Outcome::UnexpectedSource,
        probe::Outcome::Answered { answer } => match answer.rcode.as_str() {
            "NOERROR" => Outcome::Noerror,
            "NXDOMAIN" => Outcome::Nxdomain,
            "SERVFAIL" => Outcome::Servfail,
            "REFUSED" => Outcome::Refused,
            "FORMERR" => Outcome::Formerr,
            "NOTIMP" => Outcome::Notimp,
            _ => Outcome::Malformed,
        },
        probe::Outcome::Garbled { .. } => Outcome::Malformed,
        // Taken and closed before an answer: nobody serves there, whoever took it.
        probe::Outcome::Closed => Outcome::ConnectionRefused,
        probe::Outcome::Silent => Outcome::Silent,
        probe::Outcome::Unsent { errno } | probe::Outcome::Refused { errno } => match errno.as_str() {
            "ECONNREFUSED" => Outcome::ConnectionRefused,
            "EPERM" => Outcome::NotPermitted,
            "ENETUNREACH" | "EADDRNOTAVAIL" | "EAFNOSUPPORT" => Outcome::NetworkUnreachable,
            // ICMPv6 "administratively prohibited" is EACCES, ICMP's is EHOSTUNREACH.
            "EHOSTUNREACH" | "EACCES" => Outcome::HostUnreachable,
            _ => Outcome::Silent,
        },
    }
}

/// A record as bundles have it.
fn text(record: &Record) -> Option<String> {
    match record.kind.as_str() {
        "A" | "AAAA" => Some(record.data.clone()),
        "CNAME" | "SRV" | "PTR" => Some(format!("{} {}", record.kind, record.data)),
        "TXT" => Some(format!("TXT {}", record.data.trim_matches('"'))),
        _ => None,
    }
}

/// Message numbers that nobody outside can guess as long as the first is random (`SplitMix64`).
struct Ids(u64);

impl Ids {
    fn next(&mut self) -> u16 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        u16::try_from((mixed ^ (mixed >> 31)) >> 48).unwrap_or(0)
    }
}
