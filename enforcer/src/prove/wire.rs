//! What became of the packet, in words: shared by the datapaths.
//!
//! Invariant: a packet that was neither seen to arrive nor seen to be dropped has no verdict.

use std::collections::BTreeMap;

use netlab_core::model::cluster::Cluster;
use netlab_core::policy::change::Verdict;
use netlab_core::policy::query::Pair;
use netlab_lab::traffic::{Outcome, Packet, Sent};

use super::place;
use super::proof::{CounterDelta, Witness};
use super::witness::witness;

/// The packet of a pair.
pub(super) fn packet(cluster: &Cluster, pair: &Pair) -> Packet {
    Packet {
        from: place::place_of(cluster, &pair.from, pair.tuple.source),
        to: place::place_of(cluster, &pair.to, pair.tuple.destination),
        source: pair.tuple.source,
        destination: pair.tuple.destination,
        protocol: pair.tuple.protocol,
        port: pair.tuple.destination_port,
        source_port: Some(pair.tuple.source_port),
    }
}

/// The wire's word. `dropped` says where it was seen to be dropped.
pub(super) fn verdict(sent: &Sent, pair: &Pair, dropped: Option<String>) -> Witness {
    let what = opening_word(pair.tuple.protocol);
    match (&sent.outcome, sent.reached, dropped) {
        (_, true, _) => {
            witness("wire", Some(Verdict::Allow), format!("{what} reached {}{}", pair.to, answer(sent)))
        }
        (_, false, Some(dropped)) => witness("wire", Some(Verdict::Deny), format!("{what} dropped{dropped}")),
        (Outcome::NotSent(error), ..) => witness("wire", None, format!("the {what} was not sent: {error}")),
        (outcome, false, None) => {
            let answer = match outcome {
                Outcome::Unreachable(error) => format!("; {error}"),
                _ => String::new(),
            };
            witness("wire", None, format!("the {what} neither arrived nor was dropped by policy{answer}"))
        }
    }
}

/// Counters that moved between two readings.
pub(super) fn moved(before: &BTreeMap<u32, u64>, after: &BTreeMap<u32, u64>) -> Vec<CounterDelta> {
    after
        .iter()
        .map(|(entry, count)| CounterDelta {
            entry: *entry,
            before: before.get(entry).copied().unwrap_or(0),
            after: *count,
        })
        .filter(|delta| delta.before != delta.after)
        .collect()
}

/// What a packet that opens a connection is called.
fn opening_word(protocol: u8) -> &'static str {
    match protocol {
        6 => "SYN",
        132 => "INIT",
        1 | 58 => "echo request",
        17 => "datagram",
        _ => "packet",
    }
}

fn answer(sent: &Sent) -> String {
    let time = sent.rtt.map(|rtt| format!(" in {:.1} ms", rtt.as_secs_f64() * 1e3)).unwrap_or_default();
    match &sent.outcome {
        Outcome::Answered => format!(", answered{time}"),
        Outcome::Refused => format!(", refused{time}"),
        _ => String::new(),
    }
}
