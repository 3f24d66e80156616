//! What became of the packet, in words: shared by the datapaths.
//!
//! Invariant: a packet that was neither seen to arrive nor seen to be dropped has no verdict.

use std::collections::BTreeMap;

use netlab_core::model::cluster::Cluster;
use netlab_core::policy::change::Verdict;
use netlab_core::policy::frame::Tuple;
use netlab_core::policy::query::Pair;
use netlab_ebpf::reason::Reason;
use netlab_lab::traffic::{Flow, Outcome, Packet, Sent};
use netlab_lab::{Lab, LabError};

use super::place;
use super::proof::{CounterDelta, Witness};
use super::witness::witness;

/// The packet of a pair, with sockets at both ends. A Service leads to the endpoint of the pair and to no other.
pub(super) fn open(lab: &Lab, cluster: &Cluster, pair: &Pair, arriving: Tuple) -> Result<Flow, LabError> {
    let packet = |tuple: Tuple| Packet {
        from: place::place_of(cluster, &pair.from, pair.tuple.source),
        to: place::place_of(cluster, &pair.to, pair.tuple.destination),
        source: tuple.source,
        destination: tuple.destination,
        protocol: tuple.protocol,
        port: tuple.destination_port,
        source_port: Some(tuple.source_port),
    };
    Flow::open_translated(lab, &packet(pair.sent()), &packet(arriving))
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
            reason: Reason::from_entry(*entry).map(Reason::describe),
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
