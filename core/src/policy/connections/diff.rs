//! What traffic two sets of policies, or two states of a cluster, leave different, and which rule made it so.
//!
//! Invariant: a pair is listed exactly when its ports differ, once; workloads are the same when namespace, name and
//! kind are. Addresses outside are cut by the blocks of both sides and joined where every workload has the same
//! change with them. Each change has at least one cause.

mod blame;
mod cause;
mod joint;

use std::collections::BTreeMap;

use netlab_ebpf::abi::Direction;
use serde::ser::{Serialize, SerializeStruct, Serializer};

pub use cause::{Cause, Trend};

use self::cause::{Candidate, Finder};
use self::joint::{Block, End, Joint, blocks};
use super::allowed::{Allowed, Sets};
use super::fold::{Folded, Row, fold};
use super::matrix::Matrix;
use super::workloads::Workloads;
use super::{Focus, Peer};
use crate::model::cluster::Cluster;
use crate::policy::groups::number;
use crate::policy::ruleset::Rulesets;

/// One of the two states: a cluster as `as_if_running` gives it, and its compilation with every pod in scope.
#[derive(Clone, Copy, Debug)]
pub struct State<'a> {
    /// The cluster.
    pub cluster: &'a Cluster,
    /// Its compilation.
    pub rulesets: &'a Rulesets,
}

/// How a pair changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Nothing was allowed, something is.
    Added,
    /// Something was allowed, nothing is.
    Removed,
    /// Other ports.
    Changed,
}

/// A pair whose ports differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PairChange {
    /// Who opens: a position among the peers.
    pub from: usize,
    /// To whom.
    pub to: usize,
    change: u32,
}

/// What is different of a pair; many pairs share one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Change {
    /// What was allowed.
    pub before: Allowed,
    /// What is allowed.
    pub after: Allowed,
    /// Why it changed: per direction and cause the ports gained or lost.
    pub because: Vec<Cause>,
}

impl Change {
    /// How the pair changed.
    pub fn kind(&self) -> Kind {
        match (self.before.is_empty(), self.after.is_empty()) {
            (true, _) => Kind::Added,
            (_, true) => Kind::Removed,
            _ => Kind::Changed,
        }
    }

    /// What is allowed now and was not.
    pub fn gained(&self) -> Allowed {
        self.after.without(&self.before)
    }

    /// What was allowed and is not any more.
    pub fn lost(&self) -> Allowed {
        self.before.without(&self.after)
    }
}

/// All differences in numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Summary {
    /// How many pairs differ.
    pub pairs: usize,
    /// Of these, [`Kind::Added`].
    pub added: usize,
    /// [`Kind::Removed`].
    pub removed: usize,
    /// [`Kind::Changed`].
    pub changed: usize,
}

/// All differences.
#[derive(Debug)]
pub struct ConnectionsDiff {
    /// The workloads of both states by name, then blocks with a change by address.
    pub peers: Vec<Peer>,
    /// Sorted by source and destination.
    pub list: Vec<PairChange>,
    changes: Vec<Change>,
}

impl ConnectionsDiff {
    /// What is different of a pair.
    pub fn change(&self, pair: &PairChange) -> &Change {
        &self.changes[pair.change as usize]
    }

    /// What is different of every pair of a row.
    pub fn change_of(&self, row: &Row<'_>) -> &Change {
        &self.changes[row.value as usize]
    }

    /// The pairs in few rows, as a list of connections folds.
    pub fn fold(&self) -> Folded {
        fold(&self.peers, self.list.iter().map(|pair| (pair.from, pair.to, pair.change)))
    }

    /// How many pairs changed this way.
    pub fn count(&self, kind: Kind) -> usize {
        self.list.iter().filter(|pair| self.change(pair).kind() == kind).count()
    }

    /// All of them in numbers.
    pub fn summary(&self) -> Summary {
        Summary {
            pairs: self.list.len(),
            added: self.count(Kind::Added),
            removed: self.count(Kind::Removed),
            changed: self.count(Kind::Changed),
        }
    }

    /// True when something is allowed that was not.
    pub fn gains(&self) -> bool {
        self.list.iter().any(|pair| !self.change(pair).gained().is_empty())
    }

    /// True when something was allowed that is not any more.
    pub fn loses(&self) -> bool {
        self.list.iter().any(|pair| !self.change(pair).lost().is_empty())
    }
}

/// `{summary, peers, added, removed, changed}`.
impl Serialize for ConnectionsDiff {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(serde::Serialize)]
        struct Line<'a> {
            from: &'a str,
            to: &'a str,
            before: &'a Allowed,
            after: &'a Allowed,
            because: &'a [Cause],
        }
        struct Lines<'a>(&'a ConnectionsDiff, Kind);
        impl Serialize for Lines<'_> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let Self(all, kind) = self;
                let changes = all.list.iter().map(|pair| (pair, all.change(pair)));
                serializer.collect_seq(changes.filter(|(_, change)| change.kind() == *kind).map(
                    |(pair, change)| Line {
                        from: &all.peers[pair.from].id,
                        to: &all.peers[pair.to].id,
                        before: &change.before,
                        after: &change.after,
                        because: &change.because,
                    },
                ))
            }
        }
        let mut answer = serializer.serialize_struct("ConnectionsDiff", 5)?;
        answer.serialize_field("summary", &self.summary())?;
        answer.serialize_field("peers", &self.peers)?;
        answer.serialize_field("added", &Lines(self, Kind::Added))?;
        answer.serialize_field("removed", &Lines(self, Kind::Removed))?;
        answer.serialize_field("changed", &Lines(self, Kind::Changed))?;
        answer.end()
    }
}

/// A state with what is computed on it.
struct World<'a> {
    state: State<'a>,
    workloads: Workloads,
    matrix: Matrix<'a>,
}

impl<'a> World<'a> {
    fn new(state: State<'a>) -> Self {
        let workloads = Workloads::new(state.cluster, state.rulesets);
        let matrix = Matrix::new(state.rulesets, workloads.profiles.len());
        Self { state, workloads, matrix }
    }

    /// What one end may open to the other; nothing where one of them is not in this state.
    fn allowed(&mut self, from: End, to: End) -> u32 {
        let workload = |end: Option<usize>| end.map(|index| &self.workloads.list[index]);
        match (from, to) {
            (End::Workload(from), End::Workload(to)) => match (workload(from), workload(to)) {
                (Some(from), Some(to)) => self.matrix.workloads(&self.workloads, from, to),
                _ => Sets::NOTHING,
            },
            (End::Workload(from), End::Outside(area)) => workload(from).map_or(Sets::NOTHING, |from| {
                self.matrix.external(&self.workloads, from, Direction::Egress, area)
            }),
            (End::Outside(area), End::Workload(to)) => workload(to).map_or(Sets::NOTHING, |to| {
                self.matrix.external(&self.workloads, to, Direction::Ingress, area)
            }),
            (End::Outside(_), End::Outside(_)) => Sets::NOTHING,
        }
    }

    /// The concrete cases that a pair stands for.
    fn candidates(&self, from: End, to: End) -> Vec<Candidate> {
        let profiles = |end: Option<usize>| {
            let profiles = end.map_or(&[][..], |index| &self.workloads.list[index].profiles);
            profiles.iter().map(|profile| &self.workloads.profiles[*profile as usize])
        };
        let mut candidates = Vec::new();
        match (from, to) {
            (End::Workload(from), End::Workload(to)) => {
                for source in profiles(from) {
                    for destination in profiles(to) {
                        for (from, to) in source.classes.iter().zip(&destination.classes) {
                            let (Some(from), Some(to)) = (from, to) else { continue };
                            candidates.push(Candidate {
                                egress: source.ruleset.map(|ruleset| (ruleset, *to)),
                                ingress: destination.ruleset.map(|ruleset| (ruleset, *from)),
                            });
                        }
                    }
                }
            }
            (End::Workload(from), End::Outside((ipv4, class))) => {
                candidates.extend(profiles(from).filter(|pod| pod.has_family(ipv4)).map(|source| {
                    Candidate { egress: source.ruleset.map(|ruleset| (ruleset, class)), ingress: None }
                }));
            }
            (End::Outside((ipv4, class)), End::Workload(to)) => {
                candidates.extend(profiles(to).filter(|pod| pod.has_family(ipv4)).map(|destination| {
                    Candidate { egress: None, ingress: destination.ruleset.map(|ruleset| (ruleset, class)) }
                }));
            }
            (End::Outside(_), End::Outside(_)) => {}
        }
        candidates
    }
}

/// Compares two states.
///
/// Of the focus, `from` and `to` are not looked at.
pub fn diff(before: State<'_>, after: State<'_>, focus: &Focus) -> ConnectionsDiff {
    let mut worlds = [World::new(before), World::new(after)];
    let joint = Joint::new(&worlds);
    let about = focus.about.as_ref().map(|pods| joint.positions(&worlds, pods));
    let shown = |position: usize| about.as_ref().is_none_or(|set| set.contains(&position));
    // Numbers of sets mean the same in both states: each borrows the sets in turn.
    let mut pairs: Vec<(usize, usize, [u32; 2])> = Vec::new();
    let count = joint.list.len();
    for from in 0..count {
        let mut allowed = vec![[Sets::NOTHING; 2]; count];
        for side in 0..2 {
            let world = &mut worlds[side];
            for (to, allowed) in allowed.iter_mut().enumerate().filter(|(to, _)| *to != from) {
                if shown(from) || shown(to) {
                    allowed[side] = world.allowed(joint.end(from, side), joint.end(to, side));
                }
            }
            joint::hand_over(&mut worlds);
        }
        let differing = allowed.into_iter().enumerate().filter(|(_, [before, after])| before != after);
        pairs.extend(differing.map(|(to, allowed)| (from, to, allowed)));
    }
    let blocks = if focus.workloads_only { Vec::new() } else { blocks(&mut worlds, &joint, shown) };
    let mut peers = joint.peers(&worlds);
    for (index, block) in blocks.iter().enumerate() {
        for (workload, sides) in &block.changes {
            let [ingress, egress] = *sides;
            let mut add = |from, to, [before, after]: [u32; 2]| {
                if before != after {
                    pairs.push((from, to, [before, after]));
                }
            };
            add(count + index, *workload, ingress);
            add(*workload, count + index, egress);
        }
    }
    peers.extend(blocks.iter().map(|block| block.peer.clone()));
    pairs.sort_unstable();
    let sets = std::mem::replace(&mut worlds[0].matrix.sets, Sets::new()).list;
    let (list, changes) = explain(&worlds, &joint, &blocks, &sets, pairs);
    ConnectionsDiff { peers, list, changes }
}

/// Finds the causes, once for pairs that policies cannot tell apart.
fn explain(
    worlds: &[World<'_>; 2],
    joint: &Joint,
    blocks: &[Block],
    sets: &[Allowed],
    pairs: Vec<(usize, usize, [u32; 2])>,
) -> (Vec<PairChange>, Vec<Change>) {
    /// The cases in both states, the sets, and what is new.
    type Key = ([Vec<Candidate>; 2], [u32; 2], Option<String>);
    let mut known: BTreeMap<Key, u32> = BTreeMap::new();
    let mut interned: BTreeMap<Change, u32> = BTreeMap::new();
    let mut changes: Vec<Change> = Vec::new();
    let count = joint.list.len();
    let finder = Finder { states: [worlds[0].state, worlds[1].state] };
    let list = pairs.into_iter().map(|(from, to, allowed)| {
        let end = |position: usize, side: usize| match position.checked_sub(count) {
            None => joint.end(position, side),
            Some(block) => End::Outside(blocks[block].areas[side]),
        };
        let candidates = [0, 1].map(|side| worlds[side].candidates(end(from, side), end(to, side)));
        let novelty = joint.novelty(worlds, from).or_else(|| joint.novelty(worlds, to));
        let key = (candidates, allowed, novelty);
        let change = *known.entry(key).or_insert_with_key(|(candidates, allowed, novelty)| {
            let [before, after] = allowed.map(|set| sets[set as usize].clone());
            let because = match novelty {
                Some(reason) => Finder::of_novelty(&before, &after, reason),
                None => finder.causes(candidates, &before, &after),
            };
            let change = Change { before, after, because };
            *interned.entry(change.clone()).or_insert_with(|| {
                changes.push(change);
                number(changes.len() - 1)
            })
        });
        PairChange { from, to, change }
    });
    let list = list.collect();
    (list, changes)
}
