//! From the tables in force to the next ones, in the order in which no packet is ever judged by half of each.
//!
//! 1. Rows, port tables and rulesets are written that nobody reads yet.
//! 2. Addresses get their new peer classes ([`labels`]); no live ruleset decides otherwise for it. Services get their
//!    next endpoints beside those of before: each pod goes by those of its own generation ([`services`]).
//! 3. One grace period: no packet still holds what it read before.
//! 4. New pods are claimed, each pod's word is switched by one store, and pods that are not wanted are let go.
//! 5. Another grace period; former endpoints and transitional classes go, then what only the former tables had.
//!
//! Invariant: each decision (one hook, one packet) is the old or the new policy's for that pod and the peer's old or
//! new class. Two hooks of one packet and two pods are not switched at one instant. Whatever fails before step 4
//! is undone, and the former tables are in force; after it the new ones are, even if something stale could not be
//! removed (the audit shows it). Every step may be done again from the first one on, wherever it was broken off: rows
//! are written before labels that lead to them, and each label gives an address the decision that it has at that time.
//! The first change of all needs no grace: nothing is claimed yet.

pub mod labels;
pub mod services;
pub mod slots;
pub mod step;
pub mod tables;

use std::collections::BTreeMap;

use netlab_core::policy::change::Change;
use netlab_ebpf::abi::{CidrKey, PolicyKey, PolicyValue, PortPage, RulesetPorts, ServiceKey, ServiceValue};

use self::labels::{Relabelling, relabel};
use self::step::{Step, Steps};
use self::tables::{Labels, Tables, peer_value};
use crate::bpf;
use crate::error::EnforceError;
use crate::maps::pod::{Pod, bytes_of, from_bytes};
use crate::maps::{MapError, PolicyMaps, StateMaps, Table};

/// A change with its tables.
#[derive(Clone, Copy, Debug)]
pub struct Placed<'a> {
    /// As it was asked for.
    pub change: &'a Change,
    /// As the kernel holds it.
    pub tables: &'a Tables,
}

/// The way from what is in force to a change.
#[derive(Debug)]
pub struct Update<'a> {
    maps: &'a PolicyMaps,
    state: &'a StateMaps,
    former: Option<Placed<'a>>,
    next: &'a Tables,
    relabelling: Relabelling,
    /// Rows that are written in step 1: new ones and transitional ones.
    rows: BTreeMap<PolicyKey, PolicyValue>,
    /// Services as they are while pods are switched: those that change.
    services: BTreeMap<ServiceKey, ServiceValue>,
    steps: &'a Steps,
}

impl<'a> Update<'a> {
    /// Works out every step. Nothing is written yet.
    ///
    /// # Errors
    /// [`EnforceError`] when both tables do not fit into the maps at once, or disagree.
    pub fn plan(
        maps: &'a PolicyMaps,
        state: &'a StateMaps,
        former: Option<Placed<'a>>,
        next: Placed<'a>,
        steps: &'a Steps,
    ) -> Result<Self, EnforceError> {
        Self::plan_above(0, maps, state, former, next, steps)
    }

    /// The same with no transitional class of `floor` or below: for a change that was broken off, whose transitional
    /// classes addresses may still have.
    ///
    /// # Errors
    /// See [`Update::plan`].
    pub fn plan_above(
        floor: u32,
        maps: &'a PolicyMaps,
        state: &'a StateMaps,
        former: Option<Placed<'a>>,
        next: Placed<'a>,
        steps: &'a Steps,
    ) -> Result<Self, EnforceError> {
        let relabelling = match former {
            Some(former) => relabel(former, next, floor),
            None => Relabelling {
                refine: next.tables.labels.iter().rev().map(|(key, class)| (*key, *class)).collect(),
                ..Relabelling::default()
            },
        };
        next.tables.fit(former.map(|former| former.tables), relabelling.rows.len(), maps)?;
        let is_new = |key: &PolicyKey| former.is_none_or(|former| !former.tables.policy.contains_key(key));
        let mut rows = relabelling.rows.clone();
        rows.extend(next.tables.policy.iter().map(|(key, value)| (*key, *value)));
        rows.retain(|key, _| is_new(key));
        let services = match former {
            Some(former) => {
                services::both(&former.tables.services, &next.tables.services, next.change.generation)
            }
            None => next.tables.services.clone(),
        };
        Ok(Self { maps, state, former, next: next.tables, relabelling, rows, services, steps })
    }

    /// Steps 1 to 3. After an error they are to be undone.
    ///
    /// # Errors
    /// [`EnforceError`] when a map could not be written, or the kernel does not wait for its readers.
    pub fn prepare(&self) -> Result<(), EnforceError> {
        self.write()?;
        self.grace()?;
        self.steps.done(Step::Waited);
        Ok(())
    }

    fn write(&self) -> Result<(), EnforceError> {
        let former = self.former.map(|former| former.tables);
        let maps = self.maps;
        // Packets that another entry of that number counted are long gone, but their count is not.
        let reused = former.map(|former| self.next.slots.entries.reused(&former.slots.entries));
        self.state.counters.forget(reused.into_iter().flatten())?;
        maps.policy.set_all(self.rows.iter().map(|(key, value)| (*key, *value)))?;
        self.steps.done(Step::Rows);
        let added = missing(&self.next.port_classes, former.map(|former| &former.port_classes));
        maps.port_classes.set_all(added.map(|(key, value): (&u32, &PortPage)| (*key, *value)))?;
        let added = missing(&self.next.port_pages, former.map(|former| &former.port_pages));
        maps.port_pages.set_all(added.map(|(key, value)| (*key, *value)))?;
        let added = missing(&self.next.rulesets, former.map(|former| &former.rulesets));
        maps.rulesets.set_all(added.map(|(key, value): (&u32, &RulesetPorts)| (*key, *value)))?;
        self.steps.done(Step::Ports);
        self.label(&self.relabelling.refine, Step::Refined)?;
        maps.services.set_all(self.services.iter().map(|(key, value)| (*key, *value)))?;
        self.steps.done(Step::Served);
        Ok(())
    }

    /// Single addresses come first and are most; between them the order does not matter.
    fn label(&self, labels: &[(CidrKey, u32)], step: Step) -> Result<(), EnforceError> {
        write_labels(self.maps, labels, || self.steps.done(step))?;
        Ok(())
    }

    /// Takes steps 1 to 3 back, as far as they came. What cannot be removed is not read by anybody.
    pub fn undo(&self) {
        let none = BTreeMap::new();
        let served = self.former.map_or(&none, |former| &former.tables.services);
        let _ = self.settle(served);
        let empty = Labels::new();
        let old = self.former.map_or(&empty, |former| &former.tables.labels);
        let back = self.relabelling.refine.iter().filter_map(|(key, _)| Some((*key, *old.get(key)?)));
        let _ = write_labels(self.maps, &back.collect::<Vec<_>>(), || {});
        // The reverse of longest first.
        let added = self.relabelling.refine.iter().rev().map(|(key, _)| *key);
        for key in added.filter(|key| !old.contains_key(key)) {
            let _ = self.unlabel(&key);
        }
        let _ = self.grace();
        for key in self.rows.keys() {
            let _ = self.maps.policy.remove(key);
        }
    }

    /// Step 5, after the pods were switched.
    ///
    /// # Errors
    /// [`EnforceError`] when something stale stayed; the change is in force nevertheless.
    pub fn finish(&self) -> Result<(), EnforceError> {
        let Some(former) = self.former else { return Ok(()) };
        self.grace()?;
        self.steps.done(Step::WaitedAgain);
        self.settle(&self.next.services)?;
        self.steps.done(Step::Settled);
        self.label(&self.relabelling.coarsen, Step::Coarsened)?;
        for key in &self.relabelling.remove {
            self.unlabel(key)?;
            self.steps.done(Step::Unlabelled);
        }
        if !self.relabelling.rows.is_empty() || !self.services.is_empty() {
            self.grace()?;
        }
        let stale = former.tables.policy.keys().chain(self.relabelling.rows.keys());
        for key in stale.filter(|key| !self.next.policy.contains_key(key)) {
            self.maps.policy.remove(key)?;
            self.steps.done(Step::Removed);
        }
        // Elements of arrays stay, but nothing of the former content may be taken for something in force.
        let gone = missing(&former.tables.rulesets, Some(&self.next.rulesets));
        self.maps.rulesets.set_all(gone.map(|(key, _)| (*key, RulesetPorts::default())))?;
        let gone = missing(&former.tables.port_pages, Some(&self.next.port_pages));
        self.maps.port_pages.set_all(gone.map(|(key, _)| (*key, 0)))?;
        let gone = missing(&former.tables.port_classes, Some(&self.next.port_classes));
        self.maps.port_classes.set_all(gone.map(|(key, _)| (*key, [0; 256])))?;
        self.steps.done(Step::Blanked);
        Ok(())
    }

    /// Leaves of the Services that change what they are in `wanted`.
    fn settle(&self, wanted: &BTreeMap<ServiceKey, ServiceValue>) -> Result<(), MapError> {
        let last = self.services.keys().filter_map(|key| Some((*key, *wanted.get(key)?)));
        self.maps.services.set_all(last.collect::<Vec<_>>())?;
        for key in self.services.keys().filter(|key| !wanted.contains_key(key)) {
            self.maps.services.remove(key)?;
        }
        Ok(())
    }

    fn unlabel(&self, key: &CidrKey) -> Result<(), MapError> {
        if key.prefix == 128 {
            self.maps.peers.remove(&key.address)?;
        } else {
            self.maps.cidrs.remove(key)?;
        }
        Ok(())
    }

    fn grace(&self) -> Result<(), EnforceError> {
        if self.former.is_none() {
            return Ok(());
        }
        bpf::wait_for_readers().map_err(EnforceError::Grace)
    }
}

/// Writes every element again and removes what is not the tables', where nothing reads the maps yet.
///
/// # Errors
/// [`EnforceError`] when a map cannot be read or written.
pub fn restore(maps: &PolicyMaps, tables: &Tables) -> Result<(), EnforceError> {
    write_again(maps, tables)?;
    remove_others(maps, tables)
}

/// The same while packets read the maps, where somebody else changed them or an update could not be finished: no
/// packet that found one of our rows before finds none now.
///
/// # Errors
/// [`EnforceError`] when a map cannot be read or written, or the kernel does not wait for its readers.
pub fn mend(maps: &PolicyMaps, tables: &Tables) -> Result<(), EnforceError> {
    write_again(maps, tables)?;
    // Labels that go were read by packets that still look for their rows.
    bpf::wait_for_readers().map_err(EnforceError::Grace)?;
    remove_others(maps, tables)
}

/// Writes every element, then removes the labels that are not ours.
fn write_again(maps: &PolicyMaps, tables: &Tables) -> Result<(), EnforceError> {
    maps.policy.set_all(tables.policy.iter().map(|(key, value)| (*key, *value)))?;
    maps.port_classes.set_all(tables.port_classes.iter().map(|(key, value)| (*key, *value)))?;
    maps.port_pages.set_all(tables.port_pages.iter().map(|(key, value)| (*key, *value)))?;
    maps.rulesets.set_all(tables.rulesets.iter().map(|(key, value)| (*key, *value)))?;
    maps.services.set_all(tables.services.iter().map(|(key, value)| (*key, *value)))?;
    let labels: Vec<(CidrKey, u32)> = tables.labels.iter().rev().map(|(key, class)| (*key, *class)).collect();
    write_labels(maps, &labels, || {})?;
    for key in maps.services.keys()?.into_iter().filter(|key| !tables.services.contains_key(key)) {
        maps.services.remove(&key)?;
    }
    for key in maps.peers.keys()? {
        if !tables.labels.contains_key(&CidrKey { prefix: 128, address: key }) {
            maps.peers.remove(&key)?;
        }
    }
    let mut prefixes = maps.cidrs.keys()?;
    prefixes.sort_unstable();
    for key in prefixes.into_iter().filter(|key| !tables.labels.contains_key(key)) {
        maps.cidrs.remove(&key)?;
    }
    Ok(())
}

/// Removes rows that are not ours, and blanks the elements of arrays.
fn remove_others(maps: &PolicyMaps, tables: &Tables) -> Result<(), EnforceError> {
    for key in maps.policy.keys()?.into_iter().filter(|key| !tables.policy.contains_key(key)) {
        maps.policy.remove(&key)?;
    }
    blank(&maps.rulesets, &tables.rulesets)?;
    blank(&maps.port_pages, &tables.port_pages)?;
    Ok(blank(&maps.port_classes, &tables.port_classes)?)
}

/// Zeroes what an array holds beside `wanted`.
fn blank<V: Pod>(array: &Table<u32, V>, wanted: &BTreeMap<u32, V>) -> Result<(), MapError> {
    let zero = vec![0; size_of::<V>()];
    let Some(blank) = from_bytes::<V>(&zero) else { return Ok(()) };
    let others = array.elements()?.into_iter();
    let others = others.filter(|(key, value)| !wanted.contains_key(key) && bytes_of(value) != zero);
    array.set_all(others.map(|(key, _)| (key, blank)).collect::<Vec<_>>())
}

/// Single addresses come first and are most; between them the order does not matter. `written` is told of parts.
fn write_labels(maps: &PolicyMaps, labels: &[(CidrKey, u32)], written: impl Fn()) -> Result<(), MapError> {
    let exact: Vec<_> = labels.iter().filter(|(key, _)| key.prefix == 128).collect();
    // Few are told of one by one; many go to the kernel together.
    for part in exact.chunks(if exact.len() < 64 { 1 } else { exact.len() }) {
        let part = part.iter().map(|(key, class)| (key.address, peer_value(&key.address, *class)));
        maps.peers.set_all(part)?;
        written();
    }
    for (key, class) in labels.iter().filter(|(key, _)| key.prefix < 128) {
        maps.cidrs.set(key, &peer_value(&key.address, *class))?;
        written();
    }
    Ok(())
}

/// What is in `wanted` and not in `present`.
fn missing<'m, K: Ord, V>(
    wanted: &'m BTreeMap<K, V>,
    present: Option<&'m BTreeMap<K, V>>,
) -> impl Iterator<Item = (&'m K, &'m V)> {
    wanted.iter().filter(move |(key, _)| present.is_none_or(|present| !present.contains_key(key)))
}
