//! One raw question to a DNS server, for people.
//!
//! Invariant: the first word is what came back: a return code of DNS, an error's name, or `SILENCE`.

use std::fmt::Write;

use netlab_dnsdiag::probe::{Answer, Observation, Outcome, Probe, Record, Refusal, Transport};

use super::layout::{WIDTH, wrap};

/// The answer, its flags and records, or what was met instead.
pub(crate) fn render(probe: &Probe, seen: &Observation) -> String {
    let over = match probe.transport {
        Transport::Udp | Transport::UdpFromAny => "UDP",
        Transport::Tcp | Transport::Connect => "TCP",
    };
    let took = format!("{:.1} ms", Duration(seen.microseconds).milliseconds());
    let asked = format!("{} {}", probe.name, probe.record);
    let server = probe.server;
    let mut text = match &seen.outcome {
        Outcome::Answered { answer } => {
            format!("{}  {asked} from {server} over {over} in {took}\n", answer.rcode)
        }
        Outcome::Silent => {
            format!("SILENCE  {asked}: nothing came back from {server} over {over} in {took}\n")
        }
        Outcome::Unsent { errno } => format!("{errno}  {asked}: not sent to {server} over {over}\n"),
        Outcome::Refused { errno } => format!("{errno}  {asked}: {server} over {over}, after {took}\n"),
        Outcome::Connected => format!("CONNECTED  {server} over {over} in {took}\n"),
        Outcome::Closed => {
            format!("CLOSED  {asked}: {server} took the connection and closed it, after {took}\n")
        }
        Outcome::Garbled { reason } => format!("GARBLED  {asked}: {server} over {over} sent {reason}\n"),
    };
    text.push('\n');
    if let Outcome::Answered { answer } = &seen.outcome {
        text += &said(answer);
    }
    for refusal in &seen.refusals {
        text += &labelled("icmp", &told(refusal));
    }
    if let Some(from) = seen.from.filter(|from| *from != server) {
        text +=
            &labelled("from", &format!("{from}, which was not asked: a connected socket does not hear it"));
    }
    if seen.strays > 0 {
        text += &labelled("strays", &format!("{} messages that answer another question", seen.strays));
    }
    if let Some(local) = seen.local {
        text += &labelled("local", &local.to_string());
    }
    if let Some(why) = hint(&seen.outcome) {
        text += &labelled("means", why);
    }
    text
}

/// Microseconds.
struct Duration(u64);

impl Duration {
    #[expect(clippy::cast_precision_loss, reason = "a time to a tenth of a millisecond")]
    fn milliseconds(&self) -> f64 {
        self.0 as f64 / 1_000.0
    }
}

fn said(answer: &Answer) -> String {
    let mut text = String::new();
    for (label, records) in [("answer", &answer.answers), ("authority", &answer.authorities)] {
        for record in records {
            text += &labelled(label, &line(record));
        }
    }
    if answer.answers.is_empty() {
        text += &labelled("answer", "no records");
    }
    let flags = [
        (answer.authoritative, "AA"),
        (answer.truncated, "TC"),
        (answer.recursion_available, "RA"),
        (answer.authentic_data, "AD"),
    ];
    let flags: Vec<&str> = flags.into_iter().filter_map(|(set, name)| set.then_some(name)).collect();
    let mut shape = if flags.is_empty() { "none".to_owned() } else { flags.join(" ") };
    let _ = write!(shape, "; {} bytes", answer.bytes);
    match answer.edns {
        Some(size) => _ = write!(shape, "; EDNS {size}"),
        None => shape += "; no EDNS",
    }
    text += &labelled("flags", &shape);
    if answer.truncated {
        text += &labelled("means", "there is more than fitted: ask again with --tcp");
    }
    text
}

fn line(record: &Record) -> String {
    format!("{} {} {} {}", record.name, record.ttl, record.kind, record.data)
}

fn told(refusal: &Refusal) -> String {
    let offender =
        refusal.offender.map_or_else(|| "an unknown hop".to_owned(), |address| address.to_string());
    format!("{}/{} ({}) from {offender}", refusal.icmp_type, refusal.icmp_code, refusal.errno)
}

/// What such an end usually means, and no more than that.
fn hint(outcome: &Outcome) -> Option<&'static str> {
    Some(match outcome {
        Outcome::Silent => {
            "dropped on the way there or back, or answered by nobody; routers send few ICMP errors, so their absence \
             proves nothing"
        }
        Outcome::Unsent { errno } if errno == "EPERM" => {
            "a filter of the sender's own network namespace dropped it"
        }
        Outcome::Unsent { errno } if errno == "ENETUNREACH" => {
            "this network namespace has no route to the server"
        }
        Outcome::Refused { errno } if errno == "ECONNREFUSED" => {
            "nothing listens there, or a rule rejects: who sent the ICMP message tells which"
        }
        _ => return None,
    })
}

fn labelled(label: &str, text: &str) -> String {
    let mut lines = wrap(text, WIDTH.saturating_sub(13)).into_iter();
    let mut out = format!("  {label:<10} {}\n", lines.next().unwrap_or_default());
    for line in lines {
        let _ = writeln!(out, "  {:<10} {line}", "");
    }
    out
}
