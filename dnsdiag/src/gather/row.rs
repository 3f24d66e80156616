//! Rows of evidence, from what was seen of a question.
//!
//! Invariant: an answer counts only when it comes from whom was asked, as a resolver takes it; different answers to the same
//! question are different rows.

use std::collections::BTreeSet;
use std::net::IpAddr;

use netlab_plugin::evidence::{Flag, Icmp, Outcome, Probe as Row};

use super::Question;
use crate::probe::{self, Observation, Record};

/// A row for each thing that was said to a question; what was not answered is told with the first.
pub(super) fn rows(question: &Question, seen: &[&Observation]) -> Vec<Row> {
    let said = |one: &Observation| match &one.outcome {
        probe::Outcome::Answered { answer } if is_answer(question, one) => {
            Some((answer.rcode.clone(), answer.answers.is_empty()))
        }
        _ => None,
    };
    let different: BTreeSet<_> = seen.iter().filter_map(|one| said(one)).collect();
    let mut groups: Vec<Vec<&Observation>> = different
        .iter()
        .map(|what| seen.iter().copied().filter(|one| said(one).as_ref() == Some(what)).collect())
        .collect();
    let rest = seen.iter().copied().filter(|one| said(one).is_none());
    match groups.first_mut() {
        Some(first) => first.extend(rest),
        None => groups.push(rest.collect()),
    }
    groups.iter().filter_map(|group| row(question, group)).collect()
}

/// One row of what was seen of sends of a question; none when nothing was.
fn row(question: &Question, seen: &[&Observation]) -> Option<Row> {
    // An answer says more than silence, and an error more than silence too.
    let telling = seen.iter().max_by_key(|one| match one.outcome {
        probe::Outcome::Answered { .. } | probe::Outcome::Connected => 3,
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
        together: question.socket.is_some(),
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
        probe::Outcome::Connected => Outcome::Noerror,
        probe::Outcome::Garbled { .. } => Outcome::Malformed,
        // Taken and closed before an answer: nobody serves there, whoever took it.
        probe::Outcome::Closed => Outcome::ConnectionRefused,
        probe::Outcome::Silent => Outcome::Silent,
        // By the sender's own tables: no route, or one that leads nowhere (`unreachable`, `prohibit`, `blackhole`).
        probe::Outcome::Unsent { errno } => match errno.as_str() {
            "EPERM" => Outcome::NotPermitted,
            "ENETUNREACH" | "EADDRNOTAVAIL" | "EAFNOSUPPORT" | "EHOSTUNREACH" | "EACCES" | "EINVAL"
            | "ENETDOWN" => Outcome::NetworkUnreachable,
            "ECONNREFUSED" => Outcome::ConnectionRefused,
            _ => Outcome::Silent,
        },
        // By somebody on the way, whatever he says: the sender has a route.
        probe::Outcome::Refused { errno } => match errno.as_str() {
            "ECONNREFUSED" => Outcome::ConnectionRefused,
            // ICMPv6 "administratively prohibited" is EACCES, ICMP's is EHOSTUNREACH.
            "EHOSTUNREACH" | "EACCES" | "ENETUNREACH" => Outcome::HostUnreachable,
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
