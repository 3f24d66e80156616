//! Enforcement by the eBPF programs at tc: the maps written in the safe order of [`crate::update`], the programs
//! on both hooks of every pod's interface.
//!
//! Invariant: without pins everything hangs on descriptors of this process, so nothing is left when it ends; with pins
//! ([`crate::pins`]) everything stays in force when it ends, and the next process takes it over. An interface that a
//! change no longer names is let go. Does not know what the tables mean.

mod claims;
mod recovery;

use std::collections::BTreeMap;

use netlab_core::policy::change::Change;
use netlab_core::policy::image::Image;
use netlab_ebpf::abi::{Device, Direction};
use netlab_ebpf::reason::Reason;
use netlab_node::Netns;
use netlab_plugin::admission::{Admission, Admitted, applied};
use netlab_plugin::contract::{Applied, Backend, BackendError, Capabilities, Leftover, Observation};
use serde_json::Value;

use self::claims::{Found, find, find_present};
use crate::attach::{Attached, Link, Wire};
use crate::audit::Audit;
use crate::error::EnforceError;
use crate::instance::{Datapath, LoadOptions};
use crate::maps::{PolicyMaps, StateMaps};
use crate::pins::journal::{Journal, Saved};
use crate::pins::{Links, PinPlace, Pins};
use crate::update::step::{Step, Steps};
use crate::update::tables::{Room, Tables};
use crate::update::{Placed, Update, mend, restore};

/// Enforcement at tc in one network namespace.
#[derive(Debug)]
pub struct TcBackend {
    netns: Netns,
    admission: Admission,
    loaded: Loaded,
    /// What the change in force and the next one are noted with.
    notes: [Value; 2],
}

/// What is in the kernel.
#[derive(Debug)]
struct Loaded {
    datapath: Datapath,
    /// `None` until the first change is in force.
    tables: Option<Tables>,
    /// The last update left something behind under numbers that the next may use.
    stale: bool,
    claims: BTreeMap<u32, Claim>,
    /// Devices by which packets leave the node.
    wires: Vec<Wire>,
    pinned: Option<Pinned>,
    steps: Steps,
}

/// What outlives us.
#[derive(Debug)]
struct Pinned {
    pins: Pins,
    journal: Journal,
    /// Links that were found and that nobody claims.
    spare: Links,
}

/// A claimed interface and its record.
#[derive(Debug)]
struct Claim {
    attached: Attached,
    device: Device,
}

impl TcBackend {
    /// Loads the object; nothing is claimed yet. Pods' interfaces are looked for in `netns`, the node's.
    ///
    /// # Errors
    /// [`BackendError`] when the kernel does not take the programs, or the right to load them is missing.
    pub fn load(netns: Netns, options: &LoadOptions) -> Result<Self, BackendError> {
        let datapath = Datapath::load(options).map_err(EnforceError::from)?;
        Ok(Self::with(netns, datapath, None, Steps::default()))
    }

    /// Takes over what is in force under `place`, or begins there with nothing. What is in force then outlives this
    /// value: only [`Backend::teardown`] takes it off.
    ///
    /// The programs are loaded anew and put in the place of the old ones, link by link; the maps stay, whatever sizes
    /// `options` asks for. A change that an earlier process could not complete is completed. Links under another layout
    /// version stay as they are until the first change, which takes them over.
    ///
    /// # Errors
    /// [`BackendError`] when somebody else writes there, when the pins are of another layout or another namespace, or
    /// when the kernel refuses. What is in force stays so.
    pub fn open(netns: Netns, place: &PinPlace, options: &LoadOptions) -> Result<Self, BackendError> {
        Self::open_followed(netns, place, options, Steps::default())
    }

    /// The same, followed step by step from the beginning on.
    ///
    /// # Errors
    /// See [`TcBackend::open`].
    pub fn open_followed(
        netns: Netns,
        place: &PinPlace,
        options: &LoadOptions,
        steps: Steps,
    ) -> Result<Self, BackendError> {
        Ok(Self::take_over(netns, place, options, steps)?)
    }

    fn with(netns: Netns, datapath: Datapath, pinned: Option<Pinned>, steps: Steps) -> Self {
        let (claims, tables) = (BTreeMap::new(), None);
        let loaded = Loaded { datapath, tables, stale: false, claims, wires: Vec::new(), pinned, steps };
        Self { netns, admission: Admission::new(), loaded, notes: [Value::Null, Value::Null] }
    }

    /// Tells of every step of every change from now on.
    pub fn follow(&mut self, steps: Steps) {
        self.loaded.steps = steps;
    }

    /// What is to be kept with the next change, so that whoever takes it over can speak of it: its provenance, the
    /// compiler's numbers. It is on disk before the kernel's maps change; without pins it is kept in memory.
    pub fn set_note(&mut self, note: Value) {
        self.notes[1] = note;
    }

    /// What was kept with the change in force; null when nothing was.
    pub const fn note(&self) -> &Value {
        &self.notes[0]
    }

    /// The change in force.
    pub const fn change(&self) -> Option<&Change> {
        self.admission.in_force()
    }

    /// The loaded programs and maps: for citing, test runs and second instances.
    pub const fn datapath(&self) -> &Datapath {
        &self.loaded.datapath
    }

    /// The same, for reading events.
    pub const fn datapath_mut(&mut self) -> &mut Datapath {
        &mut self.loaded.datapath
    }

    /// What the policy maps should hold; `None` when nothing is in force.
    pub const fn tables(&self) -> Option<&Tables> {
        self.loaded.tables.as_ref()
    }

    /// The claimed interfaces by number.
    pub fn attached(&self) -> impl Iterator<Item = &Attached> {
        self.loaded.claims.values().map(|claim| &claim.attached)
    }

    /// Packets by entry, without looking at anything else.
    ///
    /// # Errors
    /// [`EnforceError`] when the kernel cannot be read.
    pub fn counters(&self) -> Result<BTreeMap<u32, u64>, EnforceError> {
        let loaded = &self.loaded;
        let counters = &loaded.datapath.state().counters;
        let mut counted = counters.read(Reason::FIXED.map(Reason::entry))?;
        let entries = loaded.tables.iter().flat_map(|tables| tables.slots.entries.places());
        for (entry, place) in entries {
            let count = counters.get(place.slot)?;
            if count != 0 {
                counted.insert(*entry, count);
            }
        }
        Ok(counted)
    }

    /// The change's number of an entry that an event or a map told of, in the generation of which it told. The kernel
    /// reuses numbers; `None` when this one has been too often since.
    pub fn entry(&self, told: u32, generation: u32) -> Option<u32> {
        let slots = self.loaded.tables.as_ref().map(|tables| &tables.slots);
        slots.map_or(Some(told), |slots| slots.entry(told, generation))
    }

    fn program(&mut self, change: &Change) -> Result<(), EnforceError> {
        let image = Image::from_change(change)?;
        let (maps, state) = (self.loaded.datapath.policy().clone(), self.loaded.datapath.state().clone());
        let tables = Tables::place(&image, self.loaded.tables.as_ref(), Room::of(&maps, &state))?;
        let found = find(&self.netns, change, &image, &tables)?;
        let steps = self.loaded.steps.clone();
        self.loaded.forget_lost_claims(&self.netns, &found)?;
        let former_tables = self.loaded.tables.take();
        let former = self.admission.in_force().zip(former_tables.as_ref());
        let former = former.map(|(change, tables)| Placed { change, tables });
        let next = Placed { change, tables: &tables };
        let carried = carry_out(
            &mut self.loaded,
            &self.netns,
            &maps,
            &state,
            former,
            next,
            &found,
            &self.notes[1],
            &steps,
        );
        if let Err(error) = carried {
            self.loaded.tables = former_tables;
            return Err(error);
        }
        self.loaded.tables = Some(tables);
        self.notes[0] = self.notes[1].clone();
        self.admission.record(change);
        steps.done(Step::Finished);
        Ok(())
    }

    /// Notes that a saved change is in force.
    fn in_force(&mut self, saved: &Saved) {
        self.admission.record(&saved.change);
        self.loaded.tables = Some(saved.tables.clone());
        self.notes = [saved.note.clone(), saved.note.clone()];
    }

    /// Puts back what somebody else changed.
    fn mend(&mut self, change: &Change) -> Result<(), EnforceError> {
        let image = Image::from_change(change)?;
        let Some(tables) = &self.loaded.tables else { return Ok(()) };
        let found = find(&self.netns, change, &image, tables)?;
        mend(self.loaded.datapath.policy(), tables)?;
        let loaded = &mut self.loaded;
        loaded.stale = false;
        loaded.forget_lost_claims(&self.netns, &found)?;
        loaded.claim_wires(&self.netns, &change.wires)?;
        let mut fresh = loaded.claim_new(&self.netns, &found)?;
        loaded.claims.append(&mut fresh);
        let devices = &loaded.datapath.policy().devices;
        for found in &found {
            if let Some(claim) = loaded.claims.get_mut(&found.ifindex) {
                claim.device = found.beside(claim);
                if devices.get(found.ifindex)? != Some(claim.device) {
                    devices.set(found.ifindex, &claim.device)?;
                }
            }
        }
        Ok(())
    }

    /// Reads everything back that packets meet, and compares it with the change in force: every byte of every policy
    /// map, the programs and their constants, and who is on the hooks.
    ///
    /// # Errors
    /// [`EnforceError`] when the kernel cannot be read.
    pub fn audit(&self) -> Result<Audit, EnforceError> {
        let mut audit = self.audit_maps()?;
        self.loaded.datapath.audit_programs(&mut audit)?;
        Ok(audit)
    }

    /// The same without the programs, which takes the verifier.
    fn audit_maps(&self) -> Result<Audit, EnforceError> {
        let mut audit = Audit::default();
        let (Some(change), Some(tables)) = (self.admission.in_force(), &self.loaded.tables) else {
            return Ok(audit);
        };
        // From the change, not from what was written.
        let image = Image::from_change(change)?;
        let found = find_present(&self.netns, change, &image, tables)?;
        let record = |found: &Found<'_>| match self.loaded.claims.get(&found.ifindex) {
            Some(claim) => (found.ifindex, found.beside(claim)),
            None => (found.ifindex, found.device),
        };
        let devices = found.iter().map(record).collect();
        audit.maps(self.loaded.datapath.policy(), tables, &devices)?;
        audit.compared("hooks", None, 2 * change.pods.len() + change.wires.len(), 0);
        let there = in_netns(&self.netns, || {
            let there = self.loaded.wires.iter().filter(|wire| wire.is_there());
            Ok(there.map(|wire| wire.interface().to_owned()).collect::<Vec<_>>())
        })?;
        for wire in change.wires.iter().filter(|wire| !there.contains(wire)) {
            let what = "has no program of ours: what was deferred leaves the node by it unjudged";
            audit.differs("hooks", format!("device {wire}"), what);
        }
        for pod in &change.pods {
            let name = format!("{}/{}", pod.namespace, pod.name);
            let hook = format!("interface {} of pod {name}", pod.interface);
            if !found.iter().any(|found| found.pod == pod) {
                audit.differs("hooks", hook, "is not there");
                continue;
            }
            if !self.attached().any(|attached| attached.interface() == pod.interface) {
                audit.differs("hooks", hook, "has no program of ours: the pod is open");
            }
        }
        self.audit_hooks(&mut audit)?;
        Ok(audit)
    }

    /// Whether the programs are still where they were put, and first.
    fn audit_hooks(&self, audit: &mut Audit) -> Result<(), EnforceError> {
        let directions = [Direction::Egress, Direction::Ingress];
        let look = || {
            let seen = self.attached().flat_map(|attached| {
                directions.map(|direction| (attached.interface(), direction, attached.before_us(direction)))
            });
            Ok(seen.collect::<Vec<_>>())
        };
        for (interface, direction, before) in in_netns(&self.netns, look)? {
            let hook = format!("interface {interface}");
            match before {
                Ok(before) => {
                    for other in before {
                        let what =
                            format!("has program {} ({}) before ours ({direction:?})", other.id, other.name);
                        audit.differs("hooks", &hook, what);
                    }
                }
                Err(error) => audit.differs("hooks", &hook, format!("cannot be vouched for: {error}")),
            }
        }
        Ok(())
    }
}

/// Steps from what is in force to what is next. On error the former is in force.
#[expect(
    clippy::too_many_arguments,
    reason = "one call; what is lent apart would have to be copied together"
)]
fn carry_out(
    loaded: &mut Loaded,
    netns: &Netns,
    maps: &PolicyMaps,
    state: &StateMaps,
    former: Option<Placed<'_>>,
    next: Placed<'_>,
    found: &[Found<'_>],
    note: &Value,
    steps: &Steps,
) -> Result<(), EnforceError> {
    if let Some(former) = former.filter(|_| loaded.stale) {
        mend(maps, former.tables)?;
        loaded.stale = false;
    }
    let update = Update::plan(maps, state, former, next, steps)?;
    loaded.record(next, note)?;
    steps.done(Step::Recorded);
    let prepared = update
        .prepare()
        .and_then(|()| loaded.claim_wires(netns, &next.change.wires))
        .and_then(|()| loaded.claim_new(netns, found));
    let mut fresh = match prepared {
        Ok(fresh) => fresh,
        Err(error) => {
            update.undo();
            if let Some(pinned) = &mut loaded.pinned {
                // Should this fail too, whoever takes over completes the change: its rows are good.
                let _ = pinned.journal.undo();
            }
            return Err(error);
        }
    };
    // From here on the change is in force: the pods are switched, and these are stores into memory.
    loaded.switch(found);
    loaded.claims.append(&mut fresh);
    // Before their rows go.
    loaded.let_go(found);
    // What is stale shows in the audit and goes before the next change; the change itself is in force.
    loaded.stale = update.finish().is_err();
    // When no packet of before is under way to them.
    loaded.let_wires_go(&next.change.wires);
    // A change that is not noted as finished is finished again by whoever takes over, which changes nothing.
    let _ = loaded.note_finished();
    Ok(())
}

impl Loaded {
    /// Has the change on disk before the kernel sees anything of it.
    fn record(&mut self, next: Placed<'_>, note: &Value) -> Result<(), EnforceError> {
        let Some(Pinned { pins, journal, .. }) = &mut self.pinned else { return Ok(()) };
        if pins.maps()?.is_none() {
            // They were taken down.
            *journal = Journal::create(pins.state(), journal.netns())?;
            pins.make_set(&self.datapath)?;
        }
        Ok(journal.begin(next.change, next.tables, note)?)
    }

    fn note_finished(&mut self) -> Result<(), EnforceError> {
        let Some(Pinned { pins, journal, spare }) = &mut self.pinned else { return Ok(()) };
        journal.finish()?;
        Ok(pins.remove_other_sets(spare)?)
    }

    /// Empties the maps, once nothing is claimed any more: what comes next may use the same numbers anew.
    fn clear(&self, tables: &Tables) -> Result<(), EnforceError> {
        let (maps, state) = (self.datapath.policy(), self.datapath.state());
        restore(maps, &Tables::default())?;
        state.forget_flows()?;
        Ok(state.counters.forget(tables.slots.entries.places().values().map(|place| place.slot))?)
    }

    /// Takes the pins away, once nothing is claimed any more.
    fn unpin(&mut self) -> Result<(), EnforceError> {
        let Some(Pinned { pins, spare, .. }) = &mut self.pinned else { return Ok(()) };
        std::mem::take(spare).into_values().for_each(Link::release);
        pins.remove_other_sets(spare)?;
        Ok(pins.remove()?)
    }
}

/// Runs on a thread in a namespace.
fn in_netns<T: Send>(
    netns: &Netns,
    work: impl FnOnce() -> Result<T, EnforceError> + Send,
) -> Result<T, EnforceError> {
    netns.run(work)?
}

impl Backend for TcBackend {
    fn probe(&self) -> Capabilities {
        let mut missing = Vec::new();
        if let Err(error) = crate::bpf::wait_for_readers() {
            missing.push(EnforceError::Grace(error).to_string());
        }
        Capabilities {
            name: "tc".to_owned(),
            enforces: missing.is_empty(),
            missing,
            max_rows: Some(u64::from(self.loaded.datapath.policy().policy.max_entries())),
        }
    }

    fn apply(&mut self, change: &Change) -> Result<Applied, BackendError> {
        match self.admission.admit(change)? {
            Admitted::New => self.program(change)?,
            Admitted::Again => self.mend(change)?,
        }
        Ok(applied(change))
    }

    fn observe(&mut self) -> Result<Observation, BackendError> {
        let loaded = &self.loaded;
        if loaded.tables.is_none() {
            return Ok(Observation::default());
        }
        let drift = self.audit_maps()?.lines();
        // What the pods' words say, not what was asked for; a node without pods has none.
        let mut generation = 0;
        for ifindex in loaded.claims.keys() {
            let word = loaded.datapath.policy().devices.word(*ifindex).map_err(EnforceError::from)?;
            generation = generation.max(word.generation());
        }
        if loaded.claims.is_empty() {
            generation = self.admission.generation();
        }
        Ok(Observation { generation, counters: self.counters()?, drift })
    }

    fn teardown(&mut self) -> Vec<Leftover> {
        self.admission.clear();
        self.loaded.let_all_go();
        let cleared = match self.loaded.tables.take() {
            Some(tables) => self.loaded.clear(&tables),
            None => Ok(()),
        };
        let unpinned = self.loaded.unpin();
        [("rows in unused maps", cleared), ("pins", unpinned)]
            .into_iter()
            .filter_map(|(what, result)| {
                Some(Leftover { what: what.to_owned(), why: result.err()?.to_string() })
            })
            .collect()
    }
}
