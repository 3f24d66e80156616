//! The peers of two states side by side.
//!
//! Invariant: workloads are sorted by namespace, name and kind as in each state; a block's addresses have one class in
//! each state, and every workload has the same change with all of them.

use std::collections::{BTreeMap, BTreeSet};

use super::World;
use crate::model::cluster::ObjectKey;
use crate::policy::classes::ClassIndex;
use crate::policy::connections::workloads::WorkloadKey;
use crate::policy::connections::{Peer, external};
use crate::policy::prefixes::Prefixes;

/// A family and a class of addresses that are no pods'.
pub(super) type Area = (bool, ClassIndex);

/// One end of a pair in one state.
#[derive(Clone, Copy, Debug)]
pub(super) enum End {
    /// A position among the state's workloads; `None` where the state lacks it.
    Workload(Option<usize>),
    /// Addresses outside.
    Outside(Area),
}

/// All workloads: the position of each in either state.
#[derive(Debug)]
pub(super) struct Joint {
    pub(super) list: Vec<[Option<usize>; 2]>,
}

impl Joint {
    pub(super) fn new(worlds: &[World<'_>; 2]) -> Self {
        let mut by_key: BTreeMap<WorkloadKey, [Option<usize>; 2]> = BTreeMap::new();
        for (side, world) in worlds.iter().enumerate() {
            for (index, workload) in world.workloads.list.iter().enumerate() {
                by_key.entry(key(&workload.peer)).or_default()[side] = Some(index);
            }
        }
        Self { list: by_key.into_values().collect() }
    }

    pub(super) fn end(&self, position: usize, side: usize) -> End {
        End::Workload(self.list[position][side])
    }

    /// Each workload, as the later state has it.
    pub(super) fn peers(&self, worlds: &[World<'_>; 2]) -> Vec<Peer> {
        let peer = |side: usize, index: &Option<usize>| {
            index.map(|index| worlds[side].workloads.list[index].peer.clone())
        };
        self.list.iter().filter_map(|[before, after]| peer(1, after).or_else(|| peer(0, before))).collect()
    }

    /// In words, when a position is a workload of one state only.
    pub(super) fn novelty(&self, worlds: &[World<'_>; 2], position: usize) -> Option<String> {
        let (side, index, what) = match self.list.get(position)? {
            [None, Some(index)] => (1, index, "is new"),
            [Some(index), None] => (0, index, "is gone"),
            _ => return None,
        };
        Some(format!("{} {what}", worlds[side].workloads.list[*index].peer.id))
    }

    /// The positions of the workloads that have one of these pods in either state.
    pub(super) fn positions(&self, worlds: &[World<'_>; 2], pods: &BTreeSet<ObjectKey>) -> BTreeSet<usize> {
        let of = |side: usize| -> BTreeSet<usize> {
            let of_pod = &worlds[side].workloads.of_pod;
            pods.iter().filter_map(|pod| of_pod.get(pod).map(|index| *index as usize)).collect()
        };
        let wanted = [of(0), of(1)];
        let has =
            |side: usize, index: Option<usize>| index.is_some_and(|index| wanted[side].contains(&index));
        let positions = self.list.iter().enumerate();
        positions.filter(|(_, [a, b])| has(0, *a) || has(1, *b)).map(|(position, _)| position).collect()
    }
}

fn key(peer: &Peer) -> WorkloadKey {
    let part = |part: &Option<String>| part.clone().unwrap_or_default();
    (part(&peer.namespace), peer.name.clone(), part(&peer.workload_kind))
}

/// Gives the sets of the one state to the other.
pub(super) fn hand_over(worlds: &mut [World<'_>; 2]) {
    let [a, b] = worlds;
    std::mem::swap(&mut a.matrix.sets, &mut b.matrix.sets);
}

/// Before and after, of ingress and of egress.
type Sides = [[u32; 2]; 2];

/// The workloads with a change, and theirs.
type Changes = Vec<(usize, Sides)>;

/// Addresses outside with which some workload has a change.
pub(super) struct Block {
    pub(super) peer: Peer,
    /// What they are in each state: any of the areas that were joined.
    pub(super) areas: [Area; 2],
    /// By workload.
    pub(super) changes: Changes,
}

/// The blocks with a change.
pub(super) fn blocks(
    worlds: &mut [World<'_>; 2],
    joint: &Joint,
    shown: impl Fn(usize) -> bool,
) -> Vec<Block> {
    let prefixes = |side: usize| &worlds[side].state.rulesets.classes.prefixes;
    let list: BTreeSet<_> = prefixes(0).list.iter().chain(&prefixes(1).list).copied().collect();
    let both = Prefixes { list: list.into_iter().collect() };
    let areas = external::areas(&both);
    // Of the addresses of an area the same prefix is the longest in either state.
    let classes: Vec<[Area; 2]> = areas
        .iter()
        .map(|area| {
            [0, 1].map(|side| {
                let longest = prefixes(side).longest(&[area.first()]);
                (area.ipv4, longest.first().copied().unwrap_or(0))
            })
        })
        .collect();
    let positions: Vec<usize> = (0..joint.list.len()).filter(|position| shown(*position)).collect();
    let mut sides: Vec<Vec<Sides>> = vec![vec![[[0; 2]; 2]; positions.len()]; areas.len()];
    for side in 0..2 {
        for (sides, classes) in sides.iter_mut().zip(&classes) {
            for (position, sides) in positions.iter().zip(sides) {
                let (end, outside) = (joint.end(*position, side), End::Outside(classes[side]));
                sides[0][side] = worlds[side].allowed(outside, end);
                sides[1][side] = worlds[side].allowed(end, outside);
            }
        }
        hand_over(worlds);
    }
    let mut alike: BTreeMap<(bool, Changes), Vec<usize>> = BTreeMap::new();
    for (index, sides) in sides.into_iter().enumerate() {
        let mut changes: Changes = positions.iter().copied().zip(sides).collect();
        changes.retain(|(_, sides)| sides.iter().any(|[before, after]| before != after));
        for (_, sides) in &mut changes {
            // What did not change makes no difference.
            for side in sides.iter_mut().filter(|[before, after]| before == after) {
                *side = [0; 2];
            }
        }
        if !changes.is_empty() {
            alike.entry((areas[index].ipv4, changes)).or_default().push(index);
        }
    }
    let mut blocks: Vec<Block> = alike
        .into_iter()
        .filter_map(|((_, changes), indices)| {
            let joined: Vec<&external::Area> = indices.iter().map(|index| &areas[*index]).collect();
            let classes = classes[*indices.first()?];
            Some(Block { peer: external::block(&both, &joined)?, areas: classes, changes })
        })
        .collect();
    blocks.sort_by(|a, b| a.peer.cidrs.cmp(&b.peer.cidrs));
    external::number_long_names(blocks.iter_mut().map(|block| &mut block.peer));
    blocks
}
