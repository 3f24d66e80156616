//! The kernel's maps, programs and hooks, read back and compared with what they should be.
//!
//! Invariant: values are compared as bytes, and every element of every policy map is accounted for: missing, different
//! or not ours; of arrays, what nothing refers to must be zero. What was compared is counted, so that an audit that
//! looked at nothing shows. Nothing is mended here.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

use netlab_ebpf::abi::{Address, CidrKey, Device, PolicyKey, PolicyValue, ipv4_of, is_ipv4};

use crate::maps::pod::{Pod, bytes_of, from_bytes};
use crate::maps::{MapError, PolicyMaps, Table};
use crate::update::tables::{SlotsOf, Tables, peer_value};

/// Most differences that an observation tells.
const SHOWN: usize = 20;

/// What was compared, and what differs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Audit {
    /// In the order in which it was.
    pub compared: Vec<Compared>,
    /// In the same order.
    pub differences: Vec<Difference>,
}

/// Something that was compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compared {
    /// `POLICY`, `from_pod`, `hooks`, …
    pub object: String,
    /// The kernel's id, when it is a map or a program.
    pub id: Option<u32>,
    /// How many rows it should have.
    pub rows: u64,
    /// How many bytes of the kernel's were compared.
    pub bytes: u64,
}

/// Something that is not as it should be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Difference {
    /// As in [`Compared`].
    pub object: String,
    /// The kernel's id of it.
    pub id: Option<u32>,
    /// Which row or hook, in words.
    pub element: String,
    /// The row's key.
    pub key: Vec<u8>,
    /// What it should hold; `None` when it should not be.
    pub expected: Option<Vec<u8>>,
    /// What the kernel holds; `None` when it is not there.
    pub found: Option<Vec<u8>>,
    /// The change's number of the entry that the row is to cite.
    pub entry: Option<u32>,
    /// What is wrong, to be read after the element.
    pub what: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} {}", self.object, self.element, self.what)
    }
}

impl Audit {
    /// One line for each of the first differences.
    pub fn lines(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.differences.iter().take(SHOWN).map(ToString::to_string).collect();
        if let Some(more) = self.differences.len().checked_sub(SHOWN).filter(|more| *more > 0) {
            lines.push(format!("and {more} more differences"));
        }
        lines
    }

    /// Counts something as compared.
    pub(crate) fn compared(&mut self, object: &str, id: Option<u32>, rows: usize, bytes: usize) {
        let (rows, bytes) = (rows as u64, bytes as u64);
        self.compared.push(Compared { object: object.to_owned(), id, rows, bytes });
    }

    /// Tells that something that has no bytes is not as it should be.
    pub(crate) fn differs(&mut self, object: &str, element: impl Into<String>, what: impl Into<String>) {
        let (element, what) = (element.into(), what.into());
        self.differences.push(Difference {
            object: object.to_owned(),
            element,
            what,
            ..Difference::default()
        });
    }

    /// Compares one value of the kernel's with what it should be.
    pub(crate) fn bytes(&mut self, object: &str, element: &str, expected: &[u8], found: &[u8]) {
        if expected != found {
            self.differences.push(Difference {
                object: object.to_owned(),
                element: element.to_owned(),
                expected: Some(expected.to_owned()),
                found: Some(found.to_owned()),
                what: OTHER.to_owned(),
                ..Difference::default()
            });
        }
    }

    /// Compares every policy map with `tables`, and `DEVICES` with `devices`.
    pub(crate) fn maps(
        &mut self,
        maps: &PolicyMaps,
        tables: &Tables,
        devices: &BTreeMap<u32, Device>,
    ) -> Result<(), MapError> {
        let before = self.differences.len();
        self.hash(&maps.policy, &tables.policy, describe_policy)?;
        for difference in self.differences.iter_mut().skip(before) {
            difference.entry = cited(difference, &tables.slots);
        }
        let mut peers = BTreeMap::new();
        let mut cidrs = BTreeMap::new();
        for (key, class) in &tables.labels {
            let value = peer_value(&key.address, *class);
            if key.prefix == 128 {
                peers.insert(key.address, value);
            } else {
                cidrs.insert(*key, value);
            }
        }
        self.hash(&maps.peers, &peers, describe_address)?;
        self.hash(&maps.cidrs, &cidrs, |key| format!("{}/{}", describe_address(&key.address), length(key)))?;
        self.hash(&maps.services, &tables.services, |key| {
            format!("{} port {} protocol {}", describe_address(&key.address), key.port, key.protocol)
        })?;
        self.array(&maps.rulesets, &tables.rulesets, |slot| format!("ruleset {slot}"))?;
        self.array(&maps.port_pages, &tables.port_pages, |index| {
            format!("page {} of port table {}", index % 768, index / 768)
        })?;
        self.array(&maps.port_classes, &tables.port_classes, |page| format!("page {page}"))?;
        self.array(maps.devices.table(), devices, |ifindex| format!("interface {ifindex}"))
    }

    /// The map must hold exactly these.
    fn hash<K: Pod + Ord, V: Pod>(
        &mut self,
        map: &Table<K, V>,
        wanted: &BTreeMap<K, V>,
        describe: impl Fn(&K) -> String,
    ) -> Result<(), MapError> {
        let mut extra = map.keys()?;
        self.compared(
            map.name(),
            Some(map.id()),
            wanted.len(),
            extra.len() * (size_of::<K>() + size_of::<V>()),
        );
        extra.retain(|key| !wanted.contains_key(key));
        extra.sort_unstable();
        for (key, value) in wanted {
            match map.get_bytes(key)? {
                None => self.tell(map, key, &describe, (Some(bytes_of(value)), None), "is missing"),
                Some(bytes) if bytes != bytes_of(value) => {
                    self.tell(map, key, &describe, (Some(bytes_of(value)), Some(&bytes)), OTHER);
                }
                Some(_) => {}
            }
        }
        for key in extra {
            if let Some(bytes) = map.get_bytes(&key)? {
                self.tell(map, &key, &describe, (None, Some(&bytes)), EXTRA);
            }
        }
        Ok(())
    }

    /// The array must hold these and nothing else.
    fn array<V: Pod>(
        &mut self,
        map: &Table<u32, V>,
        wanted: &BTreeMap<u32, V>,
        describe: impl Fn(&u32) -> String,
    ) -> Result<(), MapError> {
        let elements = map.elements()?;
        self.compared(map.name(), Some(map.id()), wanted.len(), elements.len() * size_of::<V>());
        let blank = vec![0; size_of::<V>()];
        for (index, value) in &elements {
            let (found, expected) = (bytes_of(value), wanted.get(index).map(bytes_of));
            if found == expected.unwrap_or(&blank) {
                continue;
            }
            let what = if expected.is_some() { OTHER } else { EXTRA };
            self.tell(map, index, &describe, (expected, Some(found)), what);
        }
        for (index, value) in wanted.iter().filter(|(index, _)| **index >= map.max_entries()) {
            self.tell(map, index, &describe, (Some(bytes_of(value)), None), "is missing");
        }
        Ok(())
    }

    fn tell<K: Pod, V: Pod>(
        &mut self,
        map: &Table<K, V>,
        key: &K,
        describe: &impl Fn(&K) -> String,
        (expected, found): (Option<&[u8]>, Option<&[u8]>),
        what: &str,
    ) {
        self.differences.push(Difference {
            object: map.name().to_owned(),
            id: Some(map.id()),
            element: describe(key),
            key: bytes_of(key).to_owned(),
            expected: expected.map(<[u8]>::to_owned),
            found: found.map(<[u8]>::to_owned),
            entry: None,
            what: what.to_owned(),
        });
    }
}

const OTHER: &str = "holds other bytes than asked for";
const EXTRA: &str = "is there, though nothing asked for it";

/// The entry that a row of `POLICY` should cite, or cites though it should not be.
fn cited(difference: &Difference, slots: &SlotsOf) -> Option<u32> {
    let value = difference.expected.as_ref().or(difference.found.as_ref())?;
    slots.entry(from_bytes::<PolicyValue>(value)?.entry, u32::MAX)
}

fn describe_policy(key: &PolicyKey) -> String {
    let direction = if key.direction == 1 { "ingress" } else { "egress" };
    if key.ruleset == PolicyKey::FIXED {
        return format!("the row of built-in reason {} {direction}", key.port_class);
    }
    format!(
        "the row of ruleset {} {direction}, peer class {}, port class {}",
        key.ruleset, key.peer_class, key.port_class
    )
}

fn describe_address(address: &Address) -> String {
    if is_ipv4(address) {
        Ipv4Addr::from(ipv4_of(address)).to_string()
    } else {
        Ipv6Addr::from(*address).to_string()
    }
}

/// A prefix's length in its own family.
fn length(key: &CidrKey) -> u32 {
    if is_ipv4(&key.address) && key.prefix >= 96 { key.prefix - 96 } else { key.prefix }
}
