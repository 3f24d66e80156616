//! Enforcement by the eBPF programs at tc: the maps written in the safe order of [`crate::update`], the programs
//! on both hooks of every pod's interface.
//!
//! Invariant: everything hangs on descriptors of this process (nothing is pinned), so nothing is left when it ends.
//! An interface is claimed only when its record is written, so a new pod never meets a program without its
//! ruleset; an interface that a change no longer names is let go. Does not know what the tables mean.

use std::collections::BTreeMap;

use netlab_core::policy::change::{Change, PodDevice};
use netlab_core::policy::image::Image;
use netlab_ebpf::abi::{Device, Direction};
use netlab_ebpf::reason::Reason;
use netlab_node::{Netlink, Netns};
use netlab_plugin::admission::{Admission, Admitted, applied};
use netlab_plugin::contract::{Applied, Backend, BackendError, Capabilities, Leftover, Observation};

use crate::attach::{AttachError, Attached};
use crate::audit::audit;
use crate::error::EnforceError;
use crate::instance::{Datapath, LoadOptions};
use crate::update::tables::{Room, Tables};
use crate::update::{Placed, Update, mend, restore};

/// Enforcement at tc in one network namespace.
#[derive(Debug)]
pub struct TcBackend {
    netns: Netns,
    admission: Admission,
    loaded: Loaded,
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
}

/// A claimed interface and its record.
#[derive(Debug)]
struct Claim {
    attached: Attached,
    device: Device,
}

/// A pod's interface as it is now.
struct Found<'a> {
    pod: &'a PodDevice,
    ifindex: u32,
    device: Device,
}

impl TcBackend {
    /// Loads the object; nothing is claimed yet. Pods' interfaces are looked for in `netns`, the node's.
    ///
    /// # Errors
    /// [`BackendError`] when the kernel does not take the programs, or the right to load them is missing.
    pub fn load(netns: Netns, options: &LoadOptions) -> Result<Self, BackendError> {
        let datapath = Datapath::load(options).map_err(EnforceError::from)?;
        let loaded = Loaded { datapath, tables: None, stale: false, claims: BTreeMap::new() };
        Ok(Self { netns, admission: Admission::new(), loaded })
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

    /// The pods' interfaces, with their records as the kernel is to have them.
    fn find<'a>(
        &self,
        change: &'a Change,
        image: &Image,
        tables: &Tables,
    ) -> Result<Vec<Found<'a>>, EnforceError> {
        let mut netlink = Netlink::open_in(&self.netns)?;
        change
            .pods
            .iter()
            .map(|pod| {
                let link = netlink.link(&pod.interface)?.ok_or_else(|| EnforceError::NoInterface {
                    pod: format!("{}/{}", pod.namespace, pod.name),
                    interface: pod.interface.clone(),
                })?;
                // Without the id the mid-flow rule is off for the pod, nothing else.
                let device = tables.slots.device(&image.device(pod, link.peer_netns_id.unwrap_or(-1)));
                Ok(Found { pod, ifindex: link.index, device })
            })
            .collect()
    }

    fn program(&mut self, change: &Change) -> Result<(), EnforceError> {
        let image = Image::from_change(change)?;
        let (maps, state) = (self.loaded.datapath.policy(), self.loaded.datapath.state());
        let tables = Tables::place(&image, self.loaded.tables.as_ref(), Room::of(maps, state))?;
        let found = self.find(change, &image, &tables)?;
        let loaded = &mut self.loaded;
        loaded.forget_lost_claims(&self.netns, &found)?;
        let former = self.admission.in_force().zip(loaded.tables.as_ref());
        let former = former.map(|(change, tables)| Placed { change, tables });
        if let Some(former) = former.filter(|_| loaded.stale) {
            mend(loaded.datapath.policy(), former.tables)?;
            loaded.stale = false;
        }
        let (maps, state) = (loaded.datapath.policy(), loaded.datapath.state());
        let update = Update::plan(maps, state, former, Placed { change, tables: &tables })?;
        update.prepare()?;
        let mut fresh = match loaded.claim_new(&self.netns, &found) {
            Ok(fresh) => fresh,
            Err(error) => {
                update.undo();
                return Err(error);
            }
        };
        // From here on the change is in force: the pods are switched, and these are stores into memory.
        for found in &found {
            if let Some(claim) = loaded.claims.get_mut(&found.ifindex) {
                let same_pod = Device { word: claim.device.word, ..found.device } == claim.device;
                // A claimed number is within the map. Should the kernel refuse all the same, the pod is left with a
                // word that lets nothing pass, and the audit tells.
                let _ = if same_pod {
                    maps.devices.set_word(found.ifindex, found.device.word)
                } else {
                    maps.devices.set(found.ifindex, &found.device)
                };
                claim.device = found.device;
            }
        }
        // What is stale shows in the audit and goes before the next change; the change itself is in force.
        loaded.stale = update.finish().is_err();
        loaded.claims.append(&mut fresh);
        loaded.let_go(&found);
        loaded.tables = Some(tables);
        self.admission.record(change);
        Ok(())
    }

    /// Puts back what somebody else changed.
    fn mend(&mut self, change: &Change) -> Result<(), EnforceError> {
        let image = Image::from_change(change)?;
        let Some(tables) = &self.loaded.tables else { return Ok(()) };
        let found = self.find(change, &image, tables)?;
        let loaded = &mut self.loaded;
        let Some(tables) = &loaded.tables else { return Ok(()) };
        mend(loaded.datapath.policy(), tables)?;
        loaded.stale = false;
        loaded.forget_lost_claims(&self.netns, &found)?;
        let mut fresh = loaded.claim_new(&self.netns, &found)?;
        loaded.claims.append(&mut fresh);
        let devices = &loaded.datapath.policy().devices;
        for (ifindex, claim) in &loaded.claims {
            if devices.get(*ifindex)? != Some(claim.device) {
                devices.set(*ifindex, &claim.device)?;
            }
        }
        Ok(())
    }

    /// Whether the programs are still where they were put, and first.
    fn hooks(&self, loaded: &Loaded) -> Vec<String> {
        let look = || {
            let mut lines: Vec<String> = Vec::new();
            for claim in loaded.claims.values() {
                for direction in [Direction::Egress, Direction::Ingress] {
                    match claim.attached.before_us(direction) {
                        Ok(before) => lines.extend(before.into_iter().map(|other| {
                            format!(
                                "program {} ({}) sees packets of {} ({direction:?}) before ours",
                                other.id,
                                other.name,
                                claim.attached.interface()
                            )
                        })),
                        Err(error) => lines.push(error.to_string()),
                    }
                }
            }
            Ok(lines)
        };
        in_netns(&self.netns, look).unwrap_or_else(|error| vec![error.to_string()])
    }
}

impl Loaded {
    /// Drops claims whose programs are gone, because the interface went or somebody detached them.
    fn forget_lost_claims(&mut self, netns: &Netns, found: &[Found<'_>]) -> Result<(), EnforceError> {
        let claims = &self.claims;
        let lost = in_netns(netns, || {
            let lost = |ifindex: &&u32| {
                claims.get(ifindex).is_some_and(|claim| {
                    [Direction::Egress, Direction::Ingress]
                        .iter()
                        .any(|direction| claim.attached.before_us(*direction).is_err())
                })
            };
            Ok(found.iter().map(|found| &found.ifindex).filter(lost).copied().collect::<Vec<u32>>())
        })?;
        for ifindex in lost {
            self.claims.remove(&ifindex);
        }
        Ok(())
    }

    /// Writes the records of pods that are not claimed yet, then claims them. On error none of them is.
    fn claim_new(&self, netns: &Netns, found: &[Found<'_>]) -> Result<BTreeMap<u32, Claim>, EnforceError> {
        let fresh: Vec<&Found<'_>> =
            found.iter().filter(|found| !self.claims.contains_key(&found.ifindex)).collect();
        let devices = &self.datapath.policy().devices;
        let claim_all = || {
            let mut claims = BTreeMap::new();
            for found in &fresh {
                devices.set(found.ifindex, &found.device)?;
                let attached = claim(&self.datapath, found.pod)?;
                claims.insert(found.ifindex, Claim { attached, device: found.device });
            }
            Ok(claims)
        };
        if fresh.is_empty() {
            return Ok(BTreeMap::new());
        }
        let claimed = in_netns(netns, claim_all);
        if claimed.is_err() {
            // All are let go by now; a claimed interface without a record would drop its packets.
            for found in &fresh {
                let _ = devices.set(found.ifindex, &Device::default());
            }
        }
        claimed
    }

    /// Empties the maps, once nothing is claimed any more: what comes next may use the same numbers anew.
    fn clear(&self, tables: &Tables) -> Result<(), EnforceError> {
        let (maps, state) = (self.datapath.policy(), self.datapath.state());
        restore(maps, &Tables::default())?;
        state.forget_flows()?;
        Ok(state.counters.forget(tables.slots.entries.places().values().map(|place| place.slot))?)
    }

    /// Lets go of interfaces that are no longer wanted: first the programs, then the record.
    fn let_go(&mut self, wanted: &[Found<'_>]) {
        let unwanted: Vec<u32> = self
            .claims
            .keys()
            .filter(|ifindex| !wanted.iter().any(|found| found.ifindex == **ifindex))
            .copied()
            .collect();
        for ifindex in unwanted {
            self.claims.remove(&ifindex);
            let _ = self.datapath.policy().devices.set(ifindex, &Device::default());
        }
    }
}

/// Runs on a thread in a namespace.
fn in_netns<T: Send>(
    netns: &Netns,
    work: impl FnOnce() -> Result<T, EnforceError> + Send,
) -> Result<T, EnforceError> {
    netns.run(work)?
}

fn claim(datapath: &Datapath, pod: &PodDevice) -> Result<Attached, EnforceError> {
    datapath.attach(&pod.interface).map_err(|source| match source {
        AttachError::NoInterface { .. } => EnforceError::NoInterface {
            pod: format!("{}/{}", pod.namespace, pod.name),
            interface: pod.interface.clone(),
        },
        source => EnforceError::Claim { pod: format!("{}/{}", pod.namespace, pod.name), source },
    })
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
        let Some(tables) = &loaded.tables else { return Ok(Observation::default()) };
        let devices = loaded.claims.iter().map(|(ifindex, claim)| (*ifindex, claim.device)).collect();
        let mut drift = audit(loaded.datapath.policy(), tables, &devices).map_err(EnforceError::from)?;
        drift.extend(self.hooks(loaded));
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
        // The links are descriptors: dropping them is all, and cannot fail. Programs and maps go with the value.
        self.loaded.claims.clear();
        let cleared = match self.loaded.tables.take() {
            Some(tables) => self.loaded.clear(&tables),
            None => Ok(()),
        };
        match cleared {
            Ok(()) => Vec::new(),
            Err(error) => vec![Leftover { what: "rows in unused maps".to_owned(), why: error.to_string() }],
        }
    }
}
