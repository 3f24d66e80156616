//! The supervisor's side of `enforce trace`: decisions as they fall, and how many were not told.
//!
//! Invariant: what was decided while somebody listens is told or counted; a number that is told is of this listening
//! alone. The lock is not held while a client is written to.

use std::collections::BTreeMap;
use std::time::Duration;

use netlab_ebpf::abi::Event;
use netlab_lab::Lab;
use netlab_lab::named::Reply;

use super::inside::{Enforcer, chain};
use super::{Cause, Decision, NotShown, Told};

/// How often the ring of decisions is looked at while somebody listens.
const INTERVAL: Duration = Duration::from_millis(10);

impl Enforcer {
    /// Sends decisions as they fall. The ring has one reader, so there is one trace at a time.
    pub(super) fn trace(&self, lab: &Lab, reply: &mut Reply<'_>) -> Result<(), String> {
        let Ok(_alone) = self.tracing.try_lock() else {
            return Err("somebody traces this lab already".to_owned());
        };
        let pods: BTreeMap<(&str, u32), String> = lab
            .host_interfaces()
            .iter()
            .map(|(key, at)| ((at.node.as_str(), at.index), key.to_string()))
            .collect();
        // What fell before somebody listened is not news.
        self.drain();
        let mut not_shown = self.not_shown()?;
        let mut causes: BTreeMap<(u32, u32), Cause> = BTreeMap::new();
        while !reply.is_gone() {
            let mut told: Vec<Told> = {
                let events = self.drain();
                let state = self.state();
                events
                    .iter()
                    .map(|(node, event)| {
                        let pod = pods.get(&(node.as_str(), event.ifindex)).map(String::as_str);
                        let generation = event.word.generation();
                        let cause = causes.entry((generation, event.entry)).or_insert_with(|| {
                            state
                                .history
                                .compiled(generation)
                                .map_or_else(Cause::default, |then| Cause::cited(&then.rulesets, event.entry))
                        });
                        Told::Decision(Box::new(Decision::new(node, pod, event, cause.clone())))
                    })
                    .collect()
            };
            let now = self.not_shown()?;
            told.extend(now.iter().filter_map(|(node, (sampled, lost))| {
                let before = not_shown.get(node).copied().unwrap_or_default();
                let (sampled, lost) = (sampled.saturating_sub(before.0), lost.saturating_sub(before.1));
                (sampled + lost > 0).then(|| Told::NotShown(NotShown { node: node.clone(), sampled, lost }))
            }));
            not_shown = now;
            for told in told {
                let event = serde_json::to_value(told).map_err(|error| error.to_string())?;
                if reply.event(&event).is_err() {
                    return Ok(());
                }
            }
            std::thread::sleep(INTERVAL);
        }
        Ok(())
    }

    /// Every decision that waits, by node.
    fn drain(&self) -> Vec<(String, Event)> {
        let mut state = self.state();
        state
            .nodes
            .iter_mut()
            .flat_map(|(node, backend)| {
                let events = backend.datapath_mut().events().drain();
                let named = |event: Event| Event {
                    entry: backend.entry(event.entry, event.word.generation()).unwrap_or(event.entry),
                    ..event
                };
                events.into_iter().map(|event| (node.clone(), named(event))).collect::<Vec<_>>()
            })
            .collect()
    }

    /// Decisions that were sampled out and that the ring had no room for, by node.
    fn not_shown(&self) -> Result<BTreeMap<String, (u64, u64)>, String> {
        let state = self.state();
        let mut counted = BTreeMap::new();
        for (node, backend) in &state.nodes {
            let state = backend.datapath().state();
            let sampled = state.sampled_out_events().map_err(|error| chain(&error))?;
            let lost = state.lost_events().map_err(|error| chain(&error))?;
            counted.insert(node.clone(), (sampled, lost));
        }
        Ok(counted)
    }
}
