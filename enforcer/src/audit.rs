//! The kernel's maps, read back and compared with what they should hold.
//!
//! Invariant: values are compared as bytes, and every element of a hash or prefix map is accounted for: missing,
//! different or not ours. Of arrays only the elements that something refers to are read; the others cannot be
//! reached by a packet. Nothing is mended here.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};

use netlab_ebpf::abi::{Address, CidrKey, Device, PolicyKey, ipv4_of, is_ipv4};

use crate::maps::pod::{Pod, bytes_of};
use crate::maps::{MapError, PolicyMaps, Table};
use crate::update::tables::{Tables, peer_value};

/// Most differences that are told.
const SHOWN: usize = 20;

/// Compares every policy map with `tables`, and `DEVICES` at the interfaces of `devices`. One line per difference.
///
/// # Errors
/// [`MapError`] when the kernel cannot be read.
pub fn audit(
    maps: &PolicyMaps,
    tables: &Tables,
    devices: &BTreeMap<u32, Device>,
) -> Result<Vec<String>, MapError> {
    let mut drift = Drift::default();
    drift.all(&maps.policy, &tables.policy, describe_policy)?;
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
    drift.all(&maps.peers, &peers, describe_address)?;
    drift.all(&maps.cidrs, &cidrs, |key| format!("{}/{}", describe_address(&key.address), length(key)))?;
    drift.some(&maps.rulesets, &tables.rulesets, ToString::to_string)?;
    drift.some(&maps.port_pages, &tables.port_pages, ToString::to_string)?;
    drift.some(&maps.port_classes, &tables.port_classes, ToString::to_string)?;
    drift.some(maps.devices.table(), devices, |ifindex| format!("interface {ifindex}"))?;
    Ok(drift.told())
}

#[derive(Default)]
struct Drift {
    lines: Vec<String>,
    more: usize,
}

impl Drift {
    fn tell(&mut self, line: String) {
        if self.lines.len() < SHOWN {
            self.lines.push(line);
        } else {
            self.more += 1;
        }
    }

    fn told(mut self) -> Vec<String> {
        if self.more > 0 {
            self.lines.push(format!("and {} more differences", self.more));
        }
        self.lines
    }

    /// The map must hold exactly these.
    fn all<K: Pod + Ord, V: Pod>(
        &mut self,
        map: &Table<K, V>,
        wanted: &BTreeMap<K, V>,
        describe: impl Fn(&K) -> String,
    ) -> Result<(), MapError> {
        let mut extra = map.keys()?;
        extra.retain(|key| !wanted.contains_key(key));
        extra.sort_unstable();
        self.some(map, wanted, &describe)?;
        for key in extra {
            self.tell(format!("{}: {} is there, though nothing asked for it", map.name(), describe(&key)));
        }
        Ok(())
    }

    /// The map must hold these, whatever else it holds.
    fn some<K: Pod + Ord, V: Pod>(
        &mut self,
        map: &Table<K, V>,
        wanted: &BTreeMap<K, V>,
        describe: impl Fn(&K) -> String,
    ) -> Result<(), MapError> {
        for (key, value) in wanted {
            match map.get_bytes(key)? {
                None => self.tell(format!("{}: {} is missing", map.name(), describe(key))),
                Some(bytes) if bytes != bytes_of(value) => {
                    self.tell(format!("{}: {} holds other bytes than asked for", map.name(), describe(key)));
                }
                Some(_) => {}
            }
        }
        Ok(())
    }
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
