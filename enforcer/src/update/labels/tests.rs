//! Every single write of a relabelling, checked against what packets may see then.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use fastrand::Rng;
use netlab_core::model::port::Protocol;
use netlab_core::policy::change::{
    Cell, Change, DirectionTable, PeerPrefix, PeerRow, PortClass, ProtocolRange, RulesetTable, Verdict,
};
use netlab_ebpf::abi::{Address, CidrKey, Direction, PolicyKey, PolicyValue, mapped};

use super::{longest, relabel};
use crate::update::Placed;
use crate::update::tables::{Labels, SlotsOf, Tables};

/// A table whose cell for a class depends on the ruleset's number and the class alone, as with interned content.
fn table(ruleset: u32, classes: &BTreeSet<u32>) -> DirectionTable {
    let all = |protocol| ProtocolRange { protocol, start: 0, end: u16::MAX };
    DirectionTable {
        port_classes: vec![
            PortClass { class: 0, ranges: vec![] },
            PortClass { class: 1, ranges: vec![] },
            PortClass { class: 2, ranges: Protocol::ALL.map(all).to_vec() },
        ],
        rows: classes
            .iter()
            .map(|class| {
                // Rulesets group classes: some tell two apart and some do not.
                let entry = 64 + ruleset * 100 + (class * 7 + ruleset * 13) % 3;
                let verdict = if entry.is_multiple_of(2) { Verdict::Allow } else { Verdict::Deny };
                PeerRow { peer_classes: vec![*class], cells: vec![Cell { verdict, tier: 2, entry }; 3] }
            })
            .collect(),
    }
}

/// A change over the last four bits of 10.0.0.0/28 and some of `::/0`.
fn change(rng: &mut Rng, generation: u32, rulesets: &[u32], classes: std::ops::Range<u32>) -> Change {
    let mut peers = BTreeMap::new();
    let mut class = || rng.u32(classes.clone());
    peers.insert((IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0), class());
    peers.insert((IpAddr::V6(Ipv6Addr::UNSPECIFIED), 0), class());
    for _ in 0..rng.usize(0..10) {
        let length = rng.u8(28..=32);
        let mask = u32::MAX << (32 - u32::from(length));
        let address = (0x0a00_0000 | rng.u32(0..16)) & mask;
        peers.insert((IpAddr::V4(address.into()), length), rng.u32(classes.clone()));
    }
    let peers: Vec<PeerPrefix> =
        peers.into_iter().map(|((address, length), class)| PeerPrefix { address, length, class }).collect();
    let used: BTreeSet<u32> = peers.iter().map(|peer| peer.class).collect();
    let rulesets = rulesets
        .iter()
        .map(|id| RulesetTable { id: *id, ingress: Some(table(*id, &used)), egress: None })
        .collect();
    Change { generation, rulesets, peers, ..Change::default() }
}

/// The labels and rows of a change, without the port tables that an image takes long to make. Every number is its
/// own slot.
fn tables(change: &Change) -> Tables {
    let label = |peer: &PeerPrefix| match peer.address {
        IpAddr::V4(address) => {
            (CidrKey { prefix: u32::from(peer.length) + 96, address: mapped(address.octets()) }, peer.class)
        }
        IpAddr::V6(address) => {
            (CidrKey { prefix: u32::from(peer.length), address: address.octets() }, peer.class)
        }
    };
    let labels: Labels = change.peers.iter().map(label).collect();
    let mut policy = BTreeMap::new();
    let rows = super::rows(change);
    for class in labels.values() {
        super::copy(&mut policy, (&rows, &SlotsOf::default()), *class, *class);
    }
    Tables { policy, labels, ..Tables::default() }
}

/// The world outside the prefixes too.
fn addresses() -> Vec<Address> {
    let mut addresses: Vec<Address> =
        (0..18_u32).map(|last| mapped((0x0a00_0000 + last).to_be_bytes())).collect();
    addresses.push(mapped([192, 0, 2, 1]));
    addresses.push(Ipv6Addr::LOCALHOST.octets());
    addresses
}

fn class(labels: &Labels, address: &Address) -> u32 {
    longest(labels, &CidrKey { prefix: 128, address: *address }).expect("a root")
}

fn row(rows: &BTreeMap<PolicyKey, PolicyValue>, ruleset: u32, class: u32) -> Option<(u8, u32)> {
    let value = rows.get(&PolicyKey::new(ruleset, Direction::Ingress, 2, class))?;
    Some((value.verdict, value.entry))
}

#[test]
fn no_single_write_lets_a_packet_meet_another_decision_than_the_old_or_the_new_one() {
    let (mut transitional, mut direct, mut removed) = (0, 0, 0);
    for seed in 0..1000 {
        let mut rng = Rng::with_seed(seed);
        // Rulesets 1 and 2 leave, 3 stays, 4 and 5 come. Classes are kept, new, or both.
        let former = change(&mut rng, 1, &[1, 2, 3], 1..6);
        let first = rng.u32(1..7);
        let next = change(&mut rng, 2, &[3, 4, 5], first..first + 5);
        let (old, new) = (tables(&former), tables(&next));
        let steps =
            relabel(Placed { change: &former, tables: &old }, Placed { change: &next, tables: &new }, 0);
        transitional += usize::from(!steps.coarsen.is_empty());
        direct += usize::from(!steps.refine.is_empty() && steps.coarsen.is_empty());
        removed += usize::from(!steps.remove.is_empty());

        let mut rows = old.policy.clone();
        rows.extend(new.policy.clone());
        rows.extend(steps.rows.clone());
        let mut labels = old.labels.clone();
        let before_flip = |labels: &Labels| {
            for address in addresses() {
                let (was, will, is) =
                    (class(&old.labels, &address), class(&new.labels, &address), class(labels, &address));
                for ruleset in [1, 2] {
                    let decision = row(&rows, ruleset, is);
                    let allowed = [row(&old.policy, ruleset, was), row(&old.policy, ruleset, will)];
                    assert!(decision.is_some(), "seed {seed}: no row for class {is}");
                    assert!(
                        decision == allowed[0] || (is == will && decision == allowed[1]),
                        "seed {seed}: ruleset {ruleset} decides {decision:?} for {address:?}, was {allowed:?}"
                    );
                }
                let decision = row(&rows, 3, is);
                let allowed = [row(&old.policy, 3, was), row(&new.policy, 3, will)];
                assert!(
                    decision.is_some() && allowed.contains(&decision),
                    "seed {seed}: the ruleset that stays"
                );
            }
        };
        before_flip(&labels);
        for (key, label) in &steps.refine {
            labels.insert(*key, *label);
            before_flip(&labels);
        }
        // Now the pods are switched: only the new rulesets are asked.
        let after_flip = |labels: &Labels| {
            for address in addresses() {
                let (will, is) = (class(&new.labels, &address), class(labels, &address));
                for ruleset in [3, 4, 5] {
                    assert_eq!(
                        row(&rows, ruleset, is),
                        row(&new.policy, ruleset, will),
                        "seed {seed}: {address:?}"
                    );
                    assert!(row(&rows, ruleset, is).is_some(), "seed {seed}");
                }
            }
        };
        after_flip(&labels);
        for (key, label) in &steps.coarsen {
            labels.insert(*key, *label);
            after_flip(&labels);
        }
        for key in &steps.remove {
            labels.remove(key);
            after_flip(&labels);
        }
        assert_eq!(labels, new.labels, "seed {seed}: what is left is what was asked for");
        assert!(
            !steps.rows.keys().any(|key| new.policy.contains_key(key)),
            "seed {seed}: transitional and wanted"
        );
    }
    // The random worlds reach every kind of step.
    assert!(transitional > 125 && direct > 10 && removed > 250, "{transitional} {direct} {removed}");
}

#[test]
fn nothing_changes_nothing() {
    let change = change(&mut Rng::with_seed(1), 1, &[1], 1..4);
    let placed = Placed { change: &change, tables: &tables(&change) };
    assert_eq!(relabel(placed, placed, 0), super::Relabelling::default());
}

#[test]
fn an_undone_refinement_passes_through_the_same_states() {
    // Undoing writes the old labels back longest first and removes added ones shortest first; with the old
    // rulesets in force that is a relabelling from the refined labels to the old ones.
    for seed in 0..500 {
        let mut rng = Rng::with_seed(seed);
        let former = change(&mut rng, 1, &[1, 2, 3], 1..6);
        let next = change(&mut rng, 2, &[3, 4, 5], 3..8);
        let (old, new) = (tables(&former), tables(&next));
        let steps =
            relabel(Placed { change: &former, tables: &old }, Placed { change: &next, tables: &new }, 0);
        let mut rows = old.policy.clone();
        rows.extend(new.policy.clone());
        rows.extend(steps.rows.clone());
        let mut labels = old.labels.clone();
        labels.extend(steps.refine.iter().copied());
        let check = |labels: &Labels| {
            for address in addresses() {
                let is = class(labels, &address);
                for ruleset in [1, 2] {
                    assert!(row(&rows, ruleset, is).is_some(), "seed {seed}: no row for class {is}");
                }
            }
        };
        for (key, _) in &steps.refine {
            if let Some(class) = old.labels.get(key) {
                labels.insert(*key, *class);
                check(&labels);
            }
        }
        for (key, _) in steps.refine.iter().rev().filter(|(key, _)| !old.labels.contains_key(key)) {
            labels.remove(key);
            check(&labels);
        }
        assert_eq!(labels, old.labels, "seed {seed}");
    }
}
