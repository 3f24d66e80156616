//! From the peer classes of one change to those of the next, while packets look addresses up.
//!
//! The class of an address is switched by writing one element, but addresses are switched one after the other, and
//! before the pods are. So a label may only be given to an address if every ruleset that is in use then decides
//! for that label what the old policy decides for the address's old class (or, where the ruleset itself stays,
//! what the new one does for its new class). Where a new class draws addresses from several old ones that some
//! old ruleset tells apart, no such label exists; a *transitional* class per (old class, new class) is made for the
//! time of the change: refine, flip, coarsen.
//!
//! Invariants: at every moment the longest prefix that contains an address gives its old label, its transitional
//! or its new one, never a neighbour's: longer prefixes are written before shorter ones, and removed after them.

use std::collections::{BTreeMap, BTreeSet};

use netlab_core::policy::change::{Cell, Change, PortClass, Verdict};
use netlab_ebpf::abi::{Address, CidrKey, Direction, PolicyKey, PolicyValue};

use super::Placed;
use super::tables::{Labels, SlotsOf};

/// The steps between two sets of labels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Relabelling {
    /// Before the pods are switched, in this order.
    pub refine: Vec<(CidrKey, u32)>,
    /// After they were, in this order.
    pub coarsen: Vec<(CidrKey, u32)>,
    /// Then these prefixes go, in this order.
    pub remove: Vec<CidrKey>,
    /// Rows that are needed until all that is done.
    pub rows: BTreeMap<PolicyKey, PolicyValue>,
}

/// A class table: cells of each peer class, by ruleset and direction.
type Rows<'a> = BTreeMap<(u32, Direction), (&'a [PortClass], BTreeMap<u32, &'a [Cell]>)>;

/// Works out the steps from what `former` labels addresses to what `next` does. Transitional classes are above
/// `floor` and above every class of the two.
pub fn relabel(former: Placed<'_>, next: Placed<'_>, floor: u32) -> Relabelling {
    let (old, new) = (&former.tables.labels, &next.tables.labels);
    let (old_rows, new_rows) = (rows(former.change), rows(next.change));
    let (old_slots, new_slots) = (&former.tables.slots, &next.tables.slots);
    let leaving: Rows<'_> = old_rows
        .iter()
        .filter(|(key, _)| !new_rows.contains_key(*key))
        .map(|(key, rows)| (*key, rows.clone()))
        .collect();
    let old_classes: BTreeSet<u32> = old.values().copied().collect();
    let highest = old.values().chain(new.values()).max().copied().unwrap_or(0).max(floor);
    let mut steps = Relabelling::default();
    let mut copies: BTreeMap<u32, u32> = BTreeMap::new();
    let mut transitional: BTreeMap<(u32, u32), u32> = BTreeMap::new();

    let touched: BTreeSet<CidrKey> = new
        .iter()
        .filter(|(key, class)| old.get(key) != Some(class))
        .map(|(key, _)| *key)
        .chain(old.keys().filter(|key| !new.contains_key(key)).copied())
        .collect();
    for key in touched.iter().rev() {
        let (Some(before), Some(after)) = (longest(old, key), longest(new, key)) else { continue };
        let label = if before == after {
            after
        } else {
            let stands_for =
                if old_classes.contains(&after) { after } else { *copies.entry(after).or_insert(before) };
            if same_everywhere(&leaving, before, stands_for) {
                after
            } else {
                let next = highest
                    .saturating_add(u32::try_from(transitional.len()).unwrap_or(u32::MAX))
                    .saturating_add(1);
                *transitional.entry((before, after)).or_insert(next)
            }
        };
        if old.get(key) != Some(&label) && (new.contains_key(key) || before != after) {
            steps.refine.push((*key, label));
        }
        if new.contains_key(key) && label != after {
            steps.coarsen.push((*key, after));
        }
    }
    steps.remove = old.keys().filter(|key| !new.contains_key(key)).copied().collect();
    for (class, parent) in &copies {
        copy(&mut steps.rows, (&leaving, old_slots), *parent, *class);
    }
    for ((before, after), class) in &transitional {
        copy(&mut steps.rows, (&leaving, old_slots), *before, *class);
        copy(&mut steps.rows, (&new_rows, new_slots), *after, *class);
    }
    steps
}

fn rows(change: &Change) -> Rows<'_> {
    let mut rows = Rows::new();
    for ruleset in &change.rulesets {
        for (direction, table) in
            [(Direction::Ingress, &ruleset.ingress), (Direction::Egress, &ruleset.egress)]
        {
            let Some(table) = table else { continue };
            let cells = table
                .rows
                .iter()
                .flat_map(|row| row.peer_classes.iter().map(|class| (*class, row.cells.as_slice())));
            rows.insert((ruleset.id, direction), (table.port_classes.as_slice(), cells.collect()));
        }
    }
    rows
}

/// True when no ruleset tells two classes apart.
fn same_everywhere(rows: &Rows<'_>, one: u32, other: u32) -> bool {
    one == other || rows.values().all(|(_, cells)| cells.get(&one) == cells.get(&other))
}

/// Gives `class` the rows of `parent` in every table, as the kernel has them.
fn copy(
    into: &mut BTreeMap<PolicyKey, PolicyValue>,
    (rows, slots): (&Rows<'_>, &SlotsOf),
    parent: u32,
    class: u32,
) {
    for ((ruleset, direction), (ports, cells)) in rows {
        for (port, cell) in ports.iter().zip(cells.get(&parent).copied().unwrap_or_default()) {
            let key = PolicyKey::new(*ruleset, *direction, port.class, class);
            let verdict = match cell.verdict {
                Verdict::Allow => PolicyValue::ALLOW,
                Verdict::Deny => PolicyValue::DENY,
            };
            let value =
                PolicyValue { verdict, tier: cell.tier, zero: 0, entry: cell.entry, echo: key.echo() };
            let (key, value) = slots.row(&key, &value);
            into.insert(key, value);
        }
    }
}

/// The class of the longest prefix that contains all of `key`.
fn longest(labels: &Labels, key: &CidrKey) -> Option<u32> {
    (0..=key.prefix)
        .rev()
        .find_map(|prefix| labels.get(&CidrKey { prefix, address: masked(&key.address, prefix) }).copied())
}

fn masked(address: &Address, prefix: u32) -> Address {
    let mask = u128::MAX.checked_shl(128 - prefix.min(128)).unwrap_or(0);
    (u128::from_be_bytes(*address) & mask).to_be_bytes()
}

#[cfg(test)]
mod tests;
