//! The tables' rows as sets of ports, and their meeting at two ends.
//!
//! Invariant: each row of each table is decided once, for whole port classes; a pair of ends costs two look-ups
//! and one remembered intersection.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use netlab_ebpf::abi::Direction;

use super::allowed::{Allowed, Sets};
use super::external::Area;
use super::workloads::{Profile, Workload, Workloads};
use crate::model::port::{PortRange, Protocol};
use crate::policy::change::{ProtocolRange, Verdict};
use crate::policy::classes::ClassIndex;
use crate::policy::ruleset::{Rulesets, Table};

/// Answers for pairs, with what was computed before.
#[derive(Debug)]
pub(super) struct Matrix<'a> {
    rulesets: &'a Rulesets,
    pub(super) sets: Sets,
    /// By (ruleset, egress), then by row; [`UNKNOWN`] is not decided yet.
    rows: Vec<[Vec<u32>; 2]>,
    /// By (source, destination) profile.
    pairs: Pairs,
    /// Policies that the API does not order, and the ports on which that decides: by ruleset, direction (true for egress)
    /// and row. Rows without are not here.
    pub(super) tied: HashMap<(u32, bool, u32), Vec<Tie>>,
}

/// Policies that the API does not order, and the set of ports on which that decides.
type Tie = (Vec<u32>, u32);

/// No number of a set.
const UNKNOWN: u32 = u32::MAX;

/// More profiles than these make a table of all pairs too large: 64 MiB.
const MOST_DENSE: usize = 4096;

/// What is known of pairs of profiles: in a table while that is small, for looking up is what most of the time is for.
#[derive(Debug)]
enum Pairs {
    Dense(usize, Vec<u32>),
    Sparse(HashMap<(u32, u32), u32>),
}

impl Pairs {
    fn new(profiles: usize) -> Self {
        if profiles <= MOST_DENSE {
            Self::Dense(profiles, vec![UNKNOWN; profiles * profiles])
        } else {
            Self::Sparse(HashMap::new())
        }
    }

    fn get(&self, from: u32, to: u32) -> Option<u32> {
        match self {
            Self::Dense(width, known) => {
                known.get(from as usize * width + to as usize).copied().filter(|set| *set != UNKNOWN)
            }
            Self::Sparse(known) => known.get(&(from, to)).copied(),
        }
    }

    fn insert(&mut self, from: u32, to: u32, set: u32) {
        match self {
            Self::Dense(width, known) => {
                if let Some(place) = known.get_mut(from as usize * *width + to as usize) {
                    *place = set;
                }
            }
            Self::Sparse(known) => _ = known.insert((from, to), set),
        }
    }
}

impl<'a> Matrix<'a> {
    /// For this many profiles.
    pub(super) fn new(rulesets: &'a Rulesets, profiles: usize) -> Self {
        Self {
            rulesets,
            sets: Sets::new(),
            rows: vec![[const { Vec::new() }; 2]; rulesets.list.len()],
            pairs: Pairs::new(profiles),
            tied: HashMap::new(),
        }
    }

    /// What one side allows towards or from a class of addresses.
    pub(super) fn side(&mut self, profile: &Profile, direction: Direction, peer: ClassIndex) -> u32 {
        let Some(index) = profile.ruleset else { return Sets::EVERYTHING };
        let Some(table) = self.rulesets.list[index as usize].table(direction) else {
            return Sets::EVERYTHING;
        };
        self.row(index, table, direction, table.row(peer))
    }

    /// What a row of a table allows.
    fn row(&mut self, index: u32, table: &Table, direction: Direction, row: u32) -> u32 {
        let known = &mut self.rows[index as usize][usize::from(direction == Direction::Egress)];
        if known.is_empty() {
            known.resize(table.rows.len(), UNKNOWN);
        }
        let known = &mut known[row as usize];
        if *known == UNKNOWN {
            let (allowed, ties) = decided(table, row);
            *known = self.sets.intern(allowed);
            if !ties.is_empty() {
                let ties = ties.into_iter().map(|(tie, ports)| (tie, self.sets.intern(ports))).collect();
                self.tied.insert((index, direction == Direction::Egress, row), ties);
            }
        }
        *known
    }

    /// The ties of the row that [`Matrix::side`] decides by.
    pub(super) fn ties_of(
        &self,
        profile: &Profile,
        direction: Direction,
        peer: ClassIndex,
    ) -> Vec<(Vec<u32>, u32)> {
        let found = profile.ruleset.and_then(|index| {
            let table = self.rulesets.list[index as usize].table(direction)?;
            self.tied.get(&(index, direction == Direction::Egress, table.row(peer)))
        });
        found.cloned().unwrap_or_default()
    }

    /// What each workload allows from and to each of these areas of addresses: ingress, then egress.
    ///
    /// A table says something of few areas in particular, so it is gone through once instead of being asked of each.
    pub(super) fn externals(&mut self, workloads: &Workloads, areas: &[Area]) -> Vec<[Rc<[u32]>; 2]> {
        let mut place: HashMap<ClassIndex, usize> = HashMap::new();
        place.extend(areas.iter().enumerate().map(|(index, area)| (area.class, index)));
        let everything: Rc<[u32]> = vec![Sets::EVERYTHING; areas.len()].into();
        let mut known: HashMap<(u32, bool), Rc<[u32]>> = HashMap::new();
        let mut all = Vec::with_capacity(workloads.list.len());
        for workload in &workloads.list {
            let sides = [Direction::Ingress, Direction::Egress].map(|direction| {
                let of_profile = |matrix: &mut Self, known: &mut HashMap<_, Rc<[u32]>>, profile: &Profile| {
                    let Some(index) = profile.ruleset else { return Rc::clone(&everything) };
                    let rulesets = matrix.rulesets;
                    let Some(table) = rulesets.list[index as usize].table(direction) else {
                        return Rc::clone(&everything);
                    };
                    let key = (index, direction == Direction::Egress);
                    if let Some(sides) = known.get(&key) {
                        return Rc::clone(sides);
                    }
                    let mut sides = vec![matrix.row(index, table, direction, 0); areas.len()];
                    for (class, row) in &table.row_of {
                        if let Some(area) = place.get(class) {
                            sides[*area] = matrix.row(index, table, direction, *row);
                        }
                    }
                    let sides: Rc<[u32]> = sides.into();
                    known.insert(key, Rc::clone(&sides));
                    sides
                };
                let profiles: Vec<&Profile> =
                    workload.profiles.iter().map(|index| &workloads.profiles[*index as usize]).collect();
                if let [only] = profiles.as_slice()
                    && [true, false].iter().all(|ipv4| only.has_family(*ipv4))
                {
                    return of_profile(self, &mut known, only);
                }
                let mut sides = vec![Sets::NOTHING; areas.len()];
                for profile in profiles {
                    let own = of_profile(self, &mut known, profile);
                    for ((side, own), area) in sides.iter_mut().zip(own.iter()).zip(areas) {
                        if profile.has_family(area.ipv4) {
                            *side = self.sets.or(*side, *own);
                        }
                    }
                }
                sides.into()
            });
            all.push(sides);
        }
        all
    }

    /// What pods of one profile may open to pods of another.
    fn profiles(&mut self, workloads: &Workloads, from: u32, to: u32) -> u32 {
        if let Some(known) = self.pairs.get(from, to) {
            return known;
        }
        let (source, destination) = (&workloads.profiles[from as usize], &workloads.profiles[to as usize]);
        let mut allowed = Sets::NOTHING;
        for (from, to) in source.classes.iter().zip(&destination.classes) {
            let (Some(from), Some(to)) = (from, to) else { continue };
            let egress = self.side(source, Direction::Egress, *to);
            let ingress = self.side(destination, Direction::Ingress, *from);
            let both = self.sets.and(egress, ingress);
            allowed = self.sets.or(allowed, both);
        }
        self.pairs.insert(from, to, allowed);
        allowed
    }

    /// What some pod of one workload may open to some pod of another.
    pub(super) fn workloads(&mut self, workloads: &Workloads, from: &Workload, to: &Workload) -> u32 {
        // What a node sends to its own pods always arrives, and nothing polices what it sends.
        if !from.is_nodes.is_disjoint(&to.on_nodes) {
            return Sets::EVERYTHING;
        }
        let mut allowed = Sets::NOTHING;
        for source in &from.profiles {
            for destination in &to.profiles {
                let pair = self.profiles(workloads, *source, *destination);
                allowed = self.sets.or(allowed, pair);
            }
        }
        allowed
    }

    /// What some pod of a workload may open to addresses of a class, or be opened by them.
    pub(super) fn external(
        &mut self,
        workloads: &Workloads,
        workload: &Workload,
        direction: Direction,
        (ipv4, class): (bool, ClassIndex),
    ) -> u32 {
        let mut allowed = Sets::NOTHING;
        for profile in &workload.profiles {
            let profile = &workloads.profiles[*profile as usize];
            if profile.has_family(ipv4) {
                let side = self.side(profile, direction, class);
                allowed = self.sets.or(allowed, side);
            }
        }
        allowed
    }
}

/// The ports that a row allows, and those that a tie decides.
fn decided(table: &Table, row: u32) -> (Allowed, BTreeMap<Vec<u32>, Allowed>) {
    let row = &table.rows[row as usize];
    let mut allowed = Vec::new();
    let mut tied: BTreeMap<Vec<u32>, Vec<(Protocol, PortRange)>> = BTreeMap::new();
    for (index, class) in table.ports.list.iter().enumerate().filter(|(_, class)| !class.ranges.is_empty()) {
        let decision = table.decide(row, index);
        let ranges = || {
            let range =
                |range: &ProtocolRange| (range.protocol, PortRange { start: range.start, end: range.end });
            class.ranges.iter().map(range)
        };
        if decision.verdict == Verdict::Allow {
            allowed.extend(ranges());
        }
        if !decision.tied.is_empty() {
            tied.entry(decision.tied).or_default().extend(ranges());
        }
    }
    let tied = tied.into_iter().map(|(tie, ranges)| (tie, Allowed::from_ranges(ranges)));
    (Allowed::from_ranges(allowed), tied.collect())
}
