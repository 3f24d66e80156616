//! The ties that decide something in a list: policies without an order, on ports and pairs that were asked about.
//!
//! Invariant: a tie is told exactly when for some pair that was looked at, on some port of the focus, the verdict is
//! the tie's: the other side does not deny it anyway.

use std::collections::{BTreeMap, BTreeSet};

use netlab_ebpf::abi::Direction;

use super::Chosen;
use super::allowed::Sets;
use super::external::Area;
use super::matrix::Matrix;
use super::workloads::{Profile, Workload, Workloads};
use crate::policy::classes::ClassIndex;

/// Looks for them, once the list is made and all rows are decided.
pub(super) struct Ties<'m, 'a> {
    pub(super) workloads: &'m Workloads,
    pub(super) chosen: &'m Chosen,
    pub(super) matrix: &'m mut Matrix<'a>,
    /// The set of ports that are asked about.
    pub(super) ports: u32,
    /// Fewer of some destinations.
    pub(super) of_end: &'m BTreeMap<usize, u32>,
    pub(super) found: BTreeSet<Vec<u32>>,
}

impl Ties<'_, '_> {
    /// Between workloads, and with these areas; `block_of` says in which peer an area is.
    pub(super) fn find(
        mut self,
        areas: &[Area],
        block_of: &BTreeMap<ClassIndex, usize>,
    ) -> BTreeSet<Vec<u32>> {
        if self.matrix.tied.is_empty() {
            return self.found;
        }
        for (from, source) in self.workloads.list.iter().enumerate() {
            for (to, destination) in self.workloads.list.iter().enumerate() {
                if from != to && self.chosen.has(from, to) {
                    self.pair(to, source, destination);
                }
            }
            for area in areas {
                // What nobody allows is in no block, and an end that was asked for may be in it.
                let block = block_of.get(&area.class).copied();
                if self.chosen.has_area(from, block, Direction::Egress) {
                    self.area(block, source, Direction::Egress, area);
                }
                if self.chosen.has_area(from, block, Direction::Ingress) {
                    self.area(Some(from), source, Direction::Ingress, area);
                }
            }
        }
        self.found
    }

    fn pair(&mut self, to: usize, source: &Workload, destination: &Workload) {
        if !source.is_nodes.is_disjoint(&destination.on_nodes) {
            return;
        }
        for from_profile in &source.profiles {
            for to_profile in &destination.profiles {
                let [one, other] =
                    [from_profile, to_profile].map(|index| &self.workloads.profiles[*index as usize]);
                for (from_class, to_class) in one.classes.iter().zip(&other.classes) {
                    let (Some(from_class), Some(to_class)) = (*from_class, *to_class) else { continue };
                    let egress = self.at_most(one, Direction::Egress, to_class);
                    let ingress = self.at_most(other, Direction::Ingress, from_class);
                    self.side(to, one, Direction::Egress, to_class, ingress);
                    self.side(to, other, Direction::Ingress, from_class, egress);
                }
            }
        }
    }

    fn area(&mut self, to: Option<usize>, workload: &Workload, direction: Direction, area: &Area) {
        for index in &workload.profiles {
            let profile = &self.workloads.profiles[*index as usize];
            if profile.has_family(area.ipv4) {
                let to = to.unwrap_or(usize::MAX);
                self.side(to, profile, direction, area.class, Sets::EVERYTHING);
            }
        }
    }

    /// What a side allows, ties taken for allowed.
    fn at_most(&mut self, profile: &Profile, direction: Direction, peer: ClassIndex) -> u32 {
        let mut allowed = self.matrix.side(profile, direction, peer);
        for (_, ports) in self.matrix.ties_of(profile, direction, peer) {
            allowed = self.matrix.sets.or(allowed, ports);
        }
        allowed
    }

    /// Takes down the ties of one side that the other side, and the focus, leave.
    fn side(
        &mut self,
        to: usize,
        profile: &Profile,
        direction: Direction,
        peer: ClassIndex,
        other_side: u32,
    ) {
        for (tie, ports) in self.matrix.ties_of(profile, direction, peer) {
            let mut left = self.matrix.sets.and(ports, other_side);
            left = self.matrix.sets.and(left, self.ports);
            if let Some(ports) = self.of_end.get(&to) {
                left = self.matrix.sets.and(left, *ports);
            }
            if left != Sets::NOTHING {
                self.found.insert(tie);
            }
        }
    }
}
