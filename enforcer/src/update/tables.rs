//! What the policy maps must hold under one change: the change's image, at its places in the kernel.
//!
//! Invariant: port tables and pages keep their numbers from one change to the next as long as their content is
//! wanted, and a number is not given to another content while the former change can still be read. So tables of
//! two successive changes never disagree about an element that both have.

use std::collections::{BTreeMap, BTreeSet};

use netlab_core::policy::image::Image;
use netlab_ebpf::abi::{
    Address, CidrKey, PeerValue, PolicyKey, PolicyValue, PortPage, RulesetPorts, Transport, echo_address,
};

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
    /// `RULESETS`.
    pub rulesets: BTreeMap<u32, RulesetPorts>,
    /// `PORT_PAGES`.
    pub port_pages: BTreeMap<u32, u32>,
    /// `PORT_CLASSES`.
    pub port_classes: BTreeMap<u32, PortPage>,
}

impl Tables {
    /// Places an image beside what is in force.
    pub fn place(image: &Image, former: Option<&Self>) -> Self {
        let mut labels = Labels::new();
        for (address, value) in &image.peers {
            labels.insert(CidrKey { prefix: 128, address: *address }, value.class);
        }
        labels.extend(image.cidrs.iter().map(|(key, value)| (*key, value.class)));
        let mut tables = Self { policy: image.policy.clone(), labels, ..Self::default() };
        let mut places = Places::new(former);
        for (ruleset, ports) in &image.ruleset_ports {
            let mut place = |table: u32| {
                if table == 0 { 0 } else { places.table(&pages(image, table), &mut tables) }
            };
            let ports = RulesetPorts { ingress: place(ports.ingress), egress: place(ports.egress) };
            tables.rulesets.insert(*ruleset, ports);
        }
        tables
    }

    /// Every entry that can be counted.
    pub fn entries(&self) -> BTreeSet<u32> {
        self.policy.values().map(|value| value.entry).collect()
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
        state: &StateMaps,
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
        both(&self.rulesets, &former.rulesets, "RULESETS")?;
        both(&self.port_pages, &former.port_pages, "PORT_PAGES")?;
        both(&self.port_classes, &former.port_classes, "PORT_CLASSES")?;
        last("ruleset", "RULESETS", self.rulesets.keys().next_back(), maps.rulesets.max_entries())?;
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
        )?;
        last("entry", "COUNTERS", self.entries().last(), state.counters.len())
    }
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
