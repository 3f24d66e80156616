//! What the policy maps must hold under one change: the change's image, at its places in the kernel.
//!
//! Invariant: rulesets, entries, port tables and pages keep their numbers in the kernel from one change to the next as
//! long as they are wanted, and a number is not given to anything else while the former change can still be read. So
//! tables of two successive changes never disagree about an element that both have. The numbers of the change itself
//! are never reused and would outgrow the kernel's arrays: [`Slots`] are the kernel's.

use std::collections::{BTreeMap, BTreeSet};

use netlab_core::policy::image::Image;
use netlab_ebpf::abi::{
    Address, CidrKey, Device, PeerValue, PolicyKey, PolicyValue, PortPage, RulesetPorts, ServiceKey,
    ServiceValue, Transport, Word, echo_address,
};
use netlab_ebpf::reason::FIRST_COMPILED_ENTRY;

use super::slots::{NoSlot, Slots};
use crate::error::EnforceError;
use crate::maps::{PolicyMaps, StateMaps};

/// Pages of one port table: 256 for each transport.
const PAGES: u32 = 256 * Transport::COUNT;

/// Peer classes by prefix; a single address is a prefix of 128 bits. In order, shorter prefixes come first.
pub type Labels = BTreeMap<CidrKey, u32>;

/// The elements of all policy maps but `DEVICES`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tables {
    /// `POLICY`.
    pub policy: BTreeMap<PolicyKey, PolicyValue>,
    /// `PEERS` and `CIDRS`.
    pub labels: Labels,
    /// `SERVICES`.
    pub services: BTreeMap<ServiceKey, ServiceValue>,
    /// `RULESETS`.
    pub rulesets: BTreeMap<u32, RulesetPorts>,
    /// `PORT_PAGES`.
    pub port_pages: BTreeMap<u32, u32>,
    /// `PORT_CLASSES`.
    pub port_classes: BTreeMap<u32, PortPage>,
    /// The kernel's numbers of the change's rulesets and entries.
    pub slots: SlotsOf,
}

/// The kernel's numbers of what a change numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SlotsOf {
    /// Rulesets: they index `RULESETS`.
    pub rulesets: Slots,
    /// Entries: they index `COUNTERS`. Those of built-in reasons are not among them and are what they are.
    pub entries: Slots,
}

/// How many numbers the kernel's arrays have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Elements of `RULESETS`.
    pub rulesets: u32,
    /// Elements of `COUNTERS`.
    pub entries: u32,
}

impl Room {
    /// Of a loaded object.
    pub fn of(maps: &PolicyMaps, state: &StateMaps) -> Self {
        Self { rulesets: maps.rulesets.max_entries(), entries: state.counters.len() }
    }
}

impl SlotsOf {
    fn next(&self, image: &Image, room: Room) -> Result<Self, EnforceError> {
        let rulesets: BTreeSet<u32> = image.ruleset_ports.keys().copied().collect();
        let entries = image.policy.values().map(|value| value.entry);
        let entries: BTreeSet<u32> = entries.filter(|entry| *entry >= FIRST_COMPILED_ENTRY).collect();
        let none = |map| move |NoSlot { needed, room }| EnforceError::Room { map, needed, room };
        let generation = image.generation;
        Ok(Self {
            rulesets: self
                .rulesets
                .next(&rulesets, generation, 1..room.rulesets)
                .map_err(none("RULESETS"))?,
            entries: self
                .entries
                .next(&entries, generation, FIRST_COMPILED_ENTRY..room.entries)
                .map_err(none("COUNTERS"))?,
        })
    }

    /// A row of the image or of one of its rulesets, as the kernel has it. What has no slot stays what it is.
    pub fn row(&self, key: &PolicyKey, value: &PolicyValue) -> (PolicyKey, PolicyValue) {
        let ruleset = self.rulesets.slot(key.ruleset).unwrap_or(key.ruleset);
        let entry = self.entries.slot(value.entry).unwrap_or(value.entry);
        let key = PolicyKey { ruleset, ..*key };
        (key, PolicyValue { entry, echo: key.echo(), ..*value })
    }

    /// A record of the image, as the kernel has it.
    pub fn device(&self, device: &Device) -> Device {
        use netlab_ebpf::abi::Direction::{Egress, Ingress};
        let word = device.word;
        let ruleset = self.rulesets.slot(word.ruleset()).unwrap_or(word.ruleset());
        let word = Word::new(ruleset, word.isolated(Ingress), word.isolated(Egress), word.generation());
        Device { word, ..*device }
    }

    /// The change's number of an entry that the kernel told of, in the generation of which it told; `None` when that
    /// is too long ago.
    pub fn entry(&self, slot: u32, generation: u32) -> Option<u32> {
        if slot < FIRST_COMPILED_ENTRY { Some(slot) } else { self.entries.number(slot, generation) }
    }
}

impl Tables {
    /// Places an image beside what is in force.
    ///
    /// # Errors
    /// [`EnforceError::Room`] when the kernel's arrays have too few numbers for both.
    pub fn place(image: &Image, former: Option<&Self>, room: Room) -> Result<Self, EnforceError> {
        let slots = former.map_or_else(SlotsOf::default, |former| former.slots.clone()).next(image, room)?;
        let policy = image.policy.iter().map(|(key, value)| slots.row(key, value)).collect();
        let (labels, services) = (labels(image), image.services.clone());
        let mut tables = Self { policy, labels, services, slots, ..Self::default() };
        let mut places = Places::new(former);
        for (ruleset, ports) in &image.ruleset_ports {
            let mut place = |table: u32| {
                if table == 0 { 0 } else { places.table(&pages(image, table), &mut tables) }
            };
            let ports = RulesetPorts { ingress: place(ports.ingress), egress: place(ports.egress) };
            let slot = tables.slots.rulesets.slot(*ruleset).unwrap_or(*ruleset);
            tables.rulesets.insert(slot, ports);
        }
        Ok(tables)
    }

    /// Places an image where it was placed before.
    pub fn placed(image: &Image, slots: SlotsOf, numbers: &PortNumbers) -> Self {
        let policy = image.policy.iter().map(|(key, value)| slots.row(key, value)).collect();
        let (labels, services) = (labels(image), image.services.clone());
        let mut tables = Self { policy, labels, services, slots, ..Self::default() };
        for (ruleset, of_image) in &image.ruleset_ports {
            let slot = tables.slots.rulesets.slot(*ruleset).unwrap_or(*ruleset);
            let ports = numbers.tables.get(&slot).copied().unwrap_or_default();
            tables.rulesets.insert(slot, ports);
            for (number, table) in [(ports.ingress, of_image.ingress), (ports.egress, of_image.egress)] {
                if number == 0 || tables.port_pages.contains_key(&(number * PAGES)) {
                    continue;
                }
                let mut runs = numbers.pages.get(&number).into_iter().flatten().peekable();
                let mut page = 0;
                for (offset, content) in (0..).zip(pages(image, table)) {
                    if let Some([_, next]) = runs.next_if(|[start, _]| *start == offset) {
                        page = *next;
                    }
                    tables.port_pages.insert(number * PAGES + offset, page);
                    tables.port_classes.insert(page, content);
                }
            }
        }
        tables
    }

    /// Where the port tables are placed.
    pub fn port_numbers(&self) -> PortNumbers {
        let mut pages: BTreeMap<u32, Vec<[u32; 2]>> = BTreeMap::new();
        for (index, page) in &self.port_pages {
            let runs = pages.entry(index / PAGES).or_default();
            if runs.last().is_none_or(|[_, last]| last != page) {
                runs.push([index % PAGES, *page]);
            }
        }
        PortNumbers { tables: self.rulesets.clone(), pages }
    }

    /// Refuses tables that do not fit beside the former ones and the `transitional` rows.
    ///
    /// # Errors
    /// [`EnforceError::Room`] or [`EnforceError::Number`] with the map that is too small, and
    /// [`EnforceError::Conflict`] when the two disagree.
    pub fn fit(
        &self,
        former: Option<&Self>,
        transitional: usize,
        maps: &PolicyMaps,
    ) -> Result<(), EnforceError> {
        let empty = Self::default();
        let former = former.unwrap_or(&empty);
        room(
            "POLICY",
            both(&self.policy, &former.policy, "POLICY")? + transitional,
            maps.policy.max_entries(),
        )?;
        let exact =
            |labels: &Labels| labels.keys().filter(|key| key.prefix == 128).copied().collect::<BTreeSet<_>>();
        let prefixes =
            |labels: &Labels| labels.keys().filter(|key| key.prefix < 128).copied().collect::<BTreeSet<_>>();
        let peers = exact(&self.labels).union(&exact(&former.labels)).count();
        room("PEERS", peers, maps.peers.max_entries())?;
        let cidrs = prefixes(&self.labels).union(&prefixes(&former.labels)).count();
        room("CIDRS", cidrs, maps.cidrs.max_entries())?;
        let added = self.services.keys().filter(|key| !former.services.contains_key(*key)).count();
        room("SERVICES", former.services.len() + added, maps.services.max_entries())?;
        both(&self.rulesets, &former.rulesets, "RULESETS")?;
        both(&self.port_pages, &former.port_pages, "PORT_PAGES")?;
        both(&self.port_classes, &former.port_classes, "PORT_CLASSES")?;
        last(
            "port table's page",
            "PORT_PAGES",
            self.port_pages.keys().next_back(),
            maps.port_pages.max_entries(),
        )?;
        last(
            "port page",
            "PORT_CLASSES",
            self.port_classes.keys().next_back(),
            maps.port_classes.max_entries(),
        )
    }
}

/// The kernel's numbers of port tables and pages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortNumbers {
    /// The tables of each ruleset, by its slot.
    pub tables: BTreeMap<u32, RulesetPorts>,
    /// The pages of each table, in order; each with the index from which on it is the page.
    pub pages: BTreeMap<u32, Vec<[u32; 2]>>,
}

fn labels(image: &Image) -> Labels {
    let exact = image.peers.iter();
    let exact = exact.map(|(address, value)| (CidrKey { prefix: 128, address: *address }, value.class));
    exact.chain(image.cidrs.iter().map(|(key, value)| (*key, value.class))).collect()
}

/// The value of a `PEERS` or `CIDRS` element.
pub fn peer_value(address: &Address, class: u32) -> PeerValue {
    PeerValue { class, echo: echo_address(address) }
}

fn room(map: &'static str, needed: usize, room: u32) -> Result<(), EnforceError> {
    let needed = needed as u64;
    if needed > u64::from(room) {
        Err(EnforceError::Room { map, needed, room: u64::from(room) })
    } else {
        Ok(())
    }
}

fn last(what: &'static str, map: &'static str, number: Option<&u32>, limit: u32) -> Result<(), EnforceError> {
    match number {
        Some(number) if *number >= limit => Err(EnforceError::Number { what, number: *number, map, limit }),
        _ => Ok(()),
    }
}

/// How many keys two maps have together, if they agree about those that both have.
fn both<K: Ord + std::fmt::Debug, V: PartialEq>(
    new: &BTreeMap<K, V>,
    old: &BTreeMap<K, V>,
    map: &'static str,
) -> Result<usize, EnforceError> {
    let mut count = old.len();
    for (key, value) in new {
        match old.get(key) {
            Some(former) if former != value => {
                return Err(EnforceError::Conflict { map, key: format!("{key:?}") });
            }
            Some(_) => {}
            None => count += 1,
        }
    }
    Ok(count)
}

/// The pages of a table of the image, in order.
fn pages(image: &Image, table: u32) -> Vec<PortPage> {
    (table * PAGES..(table + 1) * PAGES)
        .map(|index| {
            let page = image.port_pages.get(&index).and_then(|page| image.port_classes.get(page));
            page.copied().unwrap_or([0; 256])
        })
        .collect()
}

/// Numbers of port tables and pages, by content.
struct Places {
    tables: BTreeMap<Vec<u32>, u32>,
    pages: BTreeMap<PortPage, u32>,
    used_tables: BTreeSet<u32>,
    used_pages: BTreeSet<u32>,
}

impl Places {
    fn new(former: Option<&Tables>) -> Self {
        // Number 0 of either means none.
        let mut places = Self {
            tables: BTreeMap::new(),
            pages: BTreeMap::new(),
            used_tables: BTreeSet::from([0]),
            used_pages: BTreeSet::from([0]),
        };
        let Some(former) = former else { return places };
        for (number, page) in &former.port_classes {
            places.pages.insert(*page, *number);
            places.used_pages.insert(*number);
        }
        for table in former.rulesets.values().flat_map(|ports| [ports.ingress, ports.egress]) {
            if places.used_tables.insert(table) {
                let pages = former.port_pages.range(table * PAGES..(table + 1) * PAGES);
                places.tables.insert(pages.map(|(_, page)| *page).collect(), table);
            }
        }
        places
    }

    fn table(&mut self, contents: &[PortPage], tables: &mut Tables) -> u32 {
        let mut numbers = Vec::with_capacity(contents.len());
        for page in contents {
            let number = *self.pages.entry(*page).or_insert_with(|| take_free(&mut self.used_pages));
            tables.port_classes.insert(number, *page);
            numbers.push(number);
        }
        let table = *self.tables.entry(numbers.clone()).or_insert_with(|| take_free(&mut self.used_tables));
        tables.port_pages.extend((table * PAGES..).zip(numbers));
        table
    }
}

fn take_free(used: &mut BTreeSet<u32>) -> u32 {
    let free = (1..u32::MAX).find(|number| !used.contains(number)).unwrap_or(u32::MAX);
    used.insert(free);
    free
}
