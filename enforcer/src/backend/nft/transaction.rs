//! From one change's chains to the next one's, in transactions that packets cannot see halves of.
//!
//! A transaction of nftables is atomic for what a packet has not begun. But one that is on its way through the rules
//! goes on with the rules of its generation while maps already answer for the next (`nft_do_chain` reads the
//! generation once, lookups read it each time; tried: with everything in one transaction a few packets in 10,000
//! found empty maps or empty chains). So a change is three: *build* makes chains and maps that nothing leads to;
//! *flip* changes nothing but the elements by which an interface finds its pod's chain; *clean* deletes what the
//! former change had. Between them one waits for packets on their way.
//!
//! Invariant: after any of them, and after a failure, exactly one change is in force; what is left over is on the
//! other side and goes when that side is built again.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::listing::Listing;
use super::render::{Script, Side, generation_chain};

/// Everything in one transaction, for a table in which nothing is in force (or nothing that may be kept): whatever is
/// there goes, but counters that are still wanted go on counting.
pub(super) fn whole(table: &str, generation: u32, script: &Script, present: Option<&Listing>) -> String {
    let mut text = format!("add table inet {table}\n");
    if let Some(present) = present {
        let _ = writeln!(text, "flush table inet {table}");
        delete(&mut text, table, present.map_names(), present.plain_chains());
        // Chains at hooks may have been made by somebody else at another priority.
        delete(&mut text, table, std::iter::empty(), present.hooked_chains());
        stale_counters(&mut text, table, script, present);
    }
    block(&mut text, table, &counters(script, present), &[&script.body, &script.frame]);
    let _ = writeln!(text, "add chain inet {table} {}", generation_chain(generation));
    elements(&mut text, table, script);
    text
}

/// The chains and maps of a side, with nothing leading to them.
pub(super) fn build(table: &str, side: Side, script: &Script, present: &Listing) -> String {
    let mut text = String::new();
    remove_side(&mut text, table, side, present);
    block(&mut text, table, &counters(script, Some(present)), &[&script.body]);
    text
}

/// Leads every pod's interface to its new chain, in one transaction.
pub(super) fn flip(table: &str, generation: u32, script: &Script, present: &Listing) -> String {
    let mut text = String::new();
    for map in script.dispatch.keys() {
        for interface in present.dispatched(map).keys() {
            let _ = writeln!(text, "delete element inet {table} {map} {{ \"{interface}\" }}");
        }
    }
    elements(&mut text, table, script);
    let generation = generation_chain(generation);
    for chain in present.generation_chains().filter(|chain| **chain != generation) {
        let _ = writeln!(text, "delete chain inet {table} {chain}");
    }
    let _ = writeln!(text, "add chain inet {table} {generation}");
    text
}

/// Deletes a side that nothing leads to, and counters that no rule uses.
pub(super) fn clean(table: &str, side: Side, script: &Script, present: &Listing) -> String {
    let mut text = String::new();
    remove_side(&mut text, table, side, present);
    stale_counters(&mut text, table, script, present);
    text
}

/// Deletes the chains and maps of a side.
pub(super) fn remove_side(text: &mut String, table: &str, side: Side, present: &Listing) {
    let chains: Vec<&String> = present.plain_chains().filter(|name| side.owns(name)).collect();
    for chain in &chains {
        let _ = writeln!(text, "flush chain inet {table} {chain}");
    }
    delete(text, table, present.map_names().filter(|name| side.owns(name)), chains.into_iter());
}

/// Maps lead to chains, so they go first.
fn delete<'a>(
    text: &mut String,
    table: &str,
    maps: impl Iterator<Item = &'a String>,
    chains: impl Iterator<Item = &'a String>,
) {
    for name in maps {
        let _ = writeln!(text, "delete map inet {table} {name}");
    }
    for name in chains {
        let _ = writeln!(text, "delete chain inet {table} {name}");
    }
}

fn stale_counters(text: &mut String, table: &str, script: &Script, present: &Listing) {
    for name in present.counter_names().difference(&script.counters) {
        let _ = writeln!(text, "delete counter inet {table} {name}");
    }
}

/// Counters that are not there yet; the others go on counting.
fn counters(script: &Script, present: Option<&Listing>) -> BTreeSet<String> {
    let empty = BTreeSet::new();
    let there = present.map_or(&empty, Listing::counter_names);
    script.counters.difference(there).cloned().collect()
}

fn block(text: &mut String, table: &str, counters: &BTreeSet<String>, parts: &[&str]) {
    let _ = writeln!(text, "table inet {table} {{");
    for name in counters {
        let _ = writeln!(text, "counter {name} {{\n}}");
    }
    for part in parts {
        text.push_str(part);
    }
    text.push_str("}\n");
}

fn elements(text: &mut String, table: &str, script: &Script) {
    for (map, dispatch) in &script.dispatch {
        for (interface, chain) in dispatch {
            let _ = writeln!(text, "add element inet {table} {map} {{ \"{interface}\" : goto {chain} }}");
        }
    }
}
