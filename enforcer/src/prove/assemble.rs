//! Putting a proof together: prediction and observation, side by side, and what follows.
//!
//! Invariant: proved means that the specification, the tables, the test-run and the wire were all heard and all
//! agree, that the entry which decided on the wire is the predicted one, that its row reads back as compiled,
//! and that no other verdict's counter moved. One heard witness that disagrees makes it contradicted. Where the API
//! defines no verdict, nothing can be proved of it, whatever the kernel does.

use std::collections::BTreeSet;

use netlab_core::model::cluster::Cluster;
use netlab_core::policy::Rulesets;
use netlab_core::policy::change::Verdict;
use netlab_core::policy::evaluate::{Outcome, Side, ViaRef, side, undefined};
use netlab_core::policy::query::{Pair, policed_pod};
use netlab_core::policy::trial::{HopVerdict, Trial};
use netlab_ebpf::abi::{Direction, PolicyValue};
use netlab_ebpf::reason::Reason;

use super::cite::{RowKey, device_row, policy_row, row_key, value_bytes};
use super::predict::Prediction;
use super::proof::{CounterDelta, EntryRef, Hop, Mode, Proof, ProofOutcome, ProvenQuery, Witness};
use super::witness::{Observation, hop_difference, witness};

/// The proof of a pair; without an observation it is a simulation.
pub(super) fn proof(
    cluster: &Cluster,
    rulesets: &Rulesets,
    trial: &Trial,
    pair: &Pair,
    prediction: &Prediction,
    observation: Option<Observation>,
) -> Proof {
    let mut differences = prediction.differences();
    let mut witnesses = vec![
        Witness {
            name: "spec",
            verdict: Some(prediction.spec),
            detail: "the API text, from the objects as written".to_owned(),
        },
        witness("tables", Some(prediction.tables), "the engine, from the compiled tables"),
    ];
    let mode = if observation.is_some() { Mode::Kernel } else { Mode::Simulated };
    let backend = observation.as_ref().map(|observation| observation.backend);
    let mut hops = hops(cluster, rulesets, trial, pair, prediction, observation.as_ref());
    let (mut observed, mut drop_reason, mut counters, mut not_examined) =
        (None, None, Vec::new(), Vec::new());
    if let Some(observation) = observation {
        differences.extend(disagreements(prediction, &observation));
        witnesses.extend(observation.witnesses);
        observed = observation.observed;
        drop_reason = observation.drop_reason;
        counters = observation.counters;
        not_examined = observation.not_examined;
    } else {
        not_examined.push("the kernel: nothing was sent".to_owned());
    }
    let undefined = undefined(hops.iter().map(|hop| &hop.side));
    let undefined = prediction.left_open.clone().or(undefined);
    if undefined.is_some() != (prediction.spec == Outcome::Undefined) {
        let tables = undefined.as_deref().unwrap_or("no tie");
        differences.push(format!("the spec says {}, the compiled tables hold {tables}", prediction.spec));
    }
    if let Some(why) = &undefined {
        not_examined
            .push(format!("the verdict by the API: undefined({why}); seen is what netlab's tables do"));
    }
    if let [Some(egress), _] = &prediction.hops {
        not_examined.extend(rulesets.by_domain_name(cluster, pair, egress.verdict));
    }
    // A packet that the source's side stops never meets the destination's.
    let stopped = hops.iter().position(|hop| hop.verdict == Verdict::Deny);
    for (index, hop) in hops.iter_mut().enumerate() {
        hop.reached = stopped.is_none_or(|stopped| index <= stopped);
    }
    let outcome = if !differences.is_empty() {
        ProofOutcome::Contradicted
    } else if undefined.is_none()
        && witnesses.iter().all(|witness| witness.verdict.is_some())
        && observed.is_some()
    {
        ProofOutcome::Proved
    } else {
        ProofOutcome::Inconclusive
    };
    let deciding = stopped.map_or(hops.last(), |index| hops.get(index));
    Proof {
        outcome,
        query: query(pair),
        via: pair.via.as_ref().map(ViaRef::from),
        predicted: prediction.spec,
        undefined,
        observed,
        mode,
        backend,
        entry: deciding.map(|hop| hop.entry.clone()),
        rule: deciding.and_then(|hop| hop.rule.clone()),
        isolated_by: deciding.map(|hop| hop.side.isolated_by.clone()).unwrap_or_default(),
        near_misses: deciding.map(|hop| hop.side.near_misses.clone()).unwrap_or_default(),
        passed: deciding.map(|hop| hop.side.passed.clone()).unwrap_or_default(),
        losers: deciding.map(|hop| hop.side.losers.clone()).unwrap_or_default(),
        tied: deciding.map(|hop| hop.side.tied.clone()).unwrap_or_default(),
        hops,
        witnesses,
        drop_reason,
        counters,
        differences,
        not_examined,
    }
}

fn query(pair: &Pair) -> ProvenQuery {
    ProvenQuery {
        from: pair.from.to_string(),
        to: pair.to.to_string(),
        protocol: match pair.tuple.protocol {
            6 => "TCP".to_owned(),
            17 => "UDP".to_owned(),
            132 => "SCTP".to_owned(),
            1 | 58 => "ICMP".to_owned(),
            other => other.to_string(),
        },
        port: pair.tuple.destination_port,
        source: pair.tuple.source,
        destination: pair.tuple.destination,
    }
}

fn hops(
    cluster: &Cluster,
    rulesets: &Rulesets,
    trial: &Trial,
    pair: &Pair,
    prediction: &Prediction,
    observation: Option<&Observation>,
) -> Vec<Hop> {
    let ends = [&pair.from, &pair.to];
    let mut hops = Vec::new();
    for (index, hop) in prediction.hops.iter().enumerate() {
        let Some(hop) = hop else { continue };
        let Some(pod) = policed_pod(cluster, ends[index]) else { continue };
        let side: Side = side(cluster, rulesets, pair, *hop);
        let entry = observation
            .and_then(|observation| observation.rows[index].clone())
            .unwrap_or_else(|| compiled_row(trial, &pod, hop));
        hops.push(Hop {
            hook: match hop.direction {
                Direction::Egress => "from_pod",
                Direction::Ingress => "to_pod",
            },
            direction: match hop.direction {
                Direction::Egress => "egress",
                Direction::Ingress => "ingress",
            },
            pod: pod.to_string(),
            verdict: hop.verdict,
            tier: side.tier,
            entry,
            rule: side.rule.clone(),
            reason: side.reason.clone(),
            reached: true,
            side,
        });
    }
    hops
}

/// The row as compiled, when there is no kernel to read it from.
fn compiled_row(trial: &Trial, pod: &netlab_core::model::cluster::ObjectKey, hop: &HopVerdict) -> EntryRef {
    let device =
        trial.change.pods.iter().find(|device| device.namespace == pod.namespace && device.name == pod.name);
    let word = device.map(|device| trial.image.word(device)).unwrap_or_default();
    match row_key(hop, word) {
        RowKey::Policy(key) => {
            let value = trial.image.policy.get(&key).copied().unwrap_or(PolicyValue::default());
            policy_row(hop.entry, &key, None, value_bytes(&value))
        }
        RowKey::Device => device_row(hop.entry, None, None, &[]),
    }
}

/// Everything in which the kernel's witnesses differ from the prediction.
fn disagreements(prediction: &Prediction, observation: &Observation) -> Vec<String> {
    let mut differences = observation.differences.clone();
    for witness in &observation.witnesses {
        if let Some(verdict) = witness.verdict
            && verdict != prediction.tables.into()
        {
            differences.push(format!(
                "predicted {}, {} says {verdict}: {}",
                prediction.tables, witness.name, witness.detail
            ));
        }
    }
    for (predicted, seen) in prediction.hops.iter().zip(&observation.hops) {
        if let (Some(predicted), Some(seen)) = (predicted, seen) {
            differences.extend(hop_difference(predicted, seen));
        }
    }
    let stray = stray_counters(&prediction.hops, &observation.counters);
    if !stray.is_empty() {
        let list: Vec<String> = stray.iter().map(ToString::to_string).collect();
        differences.push(format!("counters of other verdicts moved too: entry {}", list.join(", ")));
    }
    differences
}

/// What packets that nobody asked for are counted by: discovery of neighbours, group membership, answers, errors. A
/// pod that is open in a direction is not read any further there, so all of these count as packets of its own; what
/// decided about the packet itself is in its event.
const OWN_BUSINESS: [Reason; 6] = [
    Reason::Flow,
    Reason::Neighbour,
    Reason::MulticastControl,
    Reason::Related,
    Reason::NotIsolatedIngress,
    Reason::NotIsolatedEgress,
];

/// Entries that moved and are neither on the packet's way nor part of the network's own business.
fn stray_counters(hops: &[Option<HopVerdict>; 2], counters: &[CounterDelta]) -> Vec<u32> {
    let mut expected: BTreeSet<u32> = hops.iter().flatten().map(|hop| hop.entry).collect();
    if hops.iter().flatten().any(|hop| hop.deferred) {
        expected.insert(Reason::Deferred.entry());
    }
    expected.extend(OWN_BUSINESS.map(Reason::entry));
    // What has no hook may be the pod's own node, and its answers arrive as the node's.
    if hops.iter().any(Option::is_none) {
        expected.insert(Reason::Node.entry());
    }
    counters.iter().map(|delta| delta.entry).filter(|entry| !expected.contains(entry)).collect()
}

#[cfg(test)]
mod tests {
    use netlab_ebpf::reason::FIRST_COMPILED_ENTRY;

    use super::*;

    fn moved(entry: u32) -> CounterDelta {
        CounterDelta { entry, before: 0, after: 1, reason: None }
    }

    #[test]
    fn a_report_of_another_open_pod_contradicts_nothing_and_another_rules_packet_does() {
        let decided = HopVerdict {
            direction: Direction::Egress,
            verdict: Verdict::Deny,
            entry: Reason::ServiceMixed.entry(),
            reason: Reason::ServiceMixed,
            peer_class: 0,
            port_class: 0,
            deferred: false,
        };
        let hops = [Some(decided), None];
        let own = [Reason::NotIsolatedEgress.entry(), Reason::ServiceMixed.entry()].map(moved);
        assert_eq!(stray_counters(&hops, &own), Vec::<u32>::new());
        // What the pod's own node answers is the node's; between two pods nothing is.
        let node = [moved(Reason::Node.entry())];
        assert_eq!(stray_counters(&hops, &node), Vec::<u32>::new());
        assert_eq!(stray_counters(&[Some(decided); 2], &node), [Reason::Node.entry()]);
        let others = [Reason::Spoof.entry(), FIRST_COMPILED_ENTRY];
        assert_eq!(stray_counters(&hops, &others.map(moved)), others);
    }
}
