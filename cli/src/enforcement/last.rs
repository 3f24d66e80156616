//! The supervisor's side of `enforce trace --last`: what was dropped last, of one pod.
//!
//! Invariant: a drop is cited by the policies that were in force when it fell. A hook remembers its last drop alone: of
//! what the pod sent and another pod's hook dropped, nothing is known once that hook has dropped something else.

use netlab_core::model::cluster::{Cluster, ObjectKey};
use netlab_core::policy::change::Verdict;
use netlab_core::policy::evaluate::side;
use netlab_core::policy::frame::Tuple;
use netlab_core::policy::query::{End, Pair, owner};
use netlab_core::policy::trial::HopVerdict;
use netlab_ebpf::abi::{Direction, Event, last_drop_index};
use netlab_ebpf::reason::Reason;
use netlab_lab::Lab;

use super::decision::ip;
use super::inside::{Compiled, Enforcer, chain};
use super::{Cause, Decision, LastDrop, LastDrops, hex};

impl Enforcer {
    /// The last drops that a pod has to do with, the newest first.
    pub(super) fn last_drops(&self, lab: &Lab, pod: &str) -> Result<LastDrops, String> {
        let state = self.state();
        let generation = state.history.generation();
        let mut drops = Vec::new();
        for (key, at) in lab.host_interfaces() {
            let Some(backend) = state.nodes.get(&at.node) else { continue };
            let datapath = backend.datapath();
            let Some(device) = datapath.policy().devices.get(at.index).map_err(|error| chain(&error))? else {
                continue;
            };
            let last_drops = &datapath.state().last_drops;
            for direction in [Direction::Egress, Direction::Ingress] {
                let last =
                    last_drops.get(device.drops, at.index, direction).map_err(|error| chain(&error))?;
                for dropped in last {
                    let then = state.history.compiled(dropped.event.word.generation());
                    let entry = backend.entry(dropped.event.entry, dropped.event.word.generation());
                    let event = Event { entry: entry.unwrap_or(dropped.event.entry), ..dropped.event };
                    let ends = then.map(|then| ends(&then.cluster, &event)).unwrap_or_default();
                    let concerns = ends.iter().flatten().any(|end| end.to_string() == pod);
                    if key.to_string() != pod && !concerns {
                        continue;
                    }
                    let cause = match then {
                        Some(then) if entry.is_some() => cause(then, key, direction, &event),
                        _ => Cause::default(),
                    };
                    let [from, to] = ends.map(|end| end.map(|end| end.to_string()));
                    drops.push(LastDrop {
                        seconds_ago: dropped.age().as_secs_f64(),
                        number: dropped.number,
                        generation: event.word.generation(),
                        from,
                        to,
                        decision: Decision::new(&at.node, Some(&key.to_string()), &event, cause),
                        map_id: last_drops.id(),
                        key_hex: hex(&last_drop_index(device.drops, direction).to_ne_bytes()),
                    });
                }
            }
        }
        drops.sort_by(|a, b| a.seconds_ago.total_cmp(&b.seconds_ago));
        Ok(LastDrops { pod: pod.to_owned(), generation, drops })
    }
}

/// Who sent and who was to receive.
fn ends(cluster: &Cluster, event: &Event) -> [Option<End>; 2] {
    [&event.source, &event.destination].map(|address| ip(address).map(|address| owner(cluster, address)))
}

/// Why, with the rules that came closest.
fn cause(then: &Compiled, pod: &ObjectKey, direction: Direction, event: &Event) -> Cause {
    let (Some(source), Some(destination)) = (ip(&event.source), ip(&event.destination)) else {
        return Cause::cited(&then.rulesets, event.entry);
    };
    let [mut from, mut to] = [source, destination].map(|address| owner(&then.cluster, address));
    // The hook's pod is the subject, whatever the addresses say.
    match direction {
        Direction::Egress => from = End::Pod(pod.clone()),
        Direction::Ingress => to = End::Pod(pod.clone()),
    }
    let tuple = Tuple {
        source,
        destination,
        protocol: event.protocol,
        source_port: event.source_port,
        destination_port: event.destination_port,
    };
    let hop = HopVerdict {
        direction,
        verdict: Verdict::Deny,
        entry: event.entry,
        reason: Reason::from_u8(event.reason).unwrap_or(Reason::Row),
        peer_class: event.peer_class,
        port_class: event.port_class,
        deferred: false,
    };
    let side = side(&then.cluster, &then.rulesets, &Pair::direct(from, to, tuple), hop);
    Cause::cited(&then.rulesets, event.entry).with_near_misses(&side.near_misses)
}
