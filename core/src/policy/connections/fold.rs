//! Connections in few rows: `*` and `namespace/*` where all members agree.
//!
//! Invariant: a row stands for every pair of its two sides except a workload with itself, and the rows stand for
//! exactly the list's pairs. `*` is every workload of the list, never an address; a star stands for two or more.

use std::collections::{BTreeMap, BTreeSet};

use super::{Connections, Peer};

/// One side of a row.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// Every workload.
    All,
    /// Every workload of a namespace.
    Namespace(String),
    /// One peer: a position among the peers.
    Peer(usize),
}

/// A row: sources, destinations, and what all of these pairs have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row<'a> {
    /// Who opens.
    pub from: &'a Side,
    /// To whom.
    pub to: &'a Side,
    /// The number of what they have in common: of the set of ports, in a list of connections.
    pub(super) value: u32,
}

/// Rows, and what they borrow from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folded {
    rows: Vec<(Side, Side, u32)>,
}

impl Folded {
    /// The rows.
    pub fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        self.rows.iter().map(|(from, to, value)| Row { from, to, value: *value })
    }
}

impl Connections {
    /// What a row allows.
    pub fn allowed_by(&self, row: &Row<'_>) -> &super::Allowed {
        &self.sets[row.value as usize]
    }

    /// The list in few rows.
    pub fn fold(&self) -> Folded {
        fold(&self.peers, self.list.iter().map(|pair| (pair.from(), pair.to(), pair.allowed)))
    }
}

/// Pairs of peers with a value each, in few rows.
pub(super) fn fold(peers: &[Peer], pairs: impl Iterator<Item = (usize, usize, u32)>) -> Folded {
    let sizes = Sizes::of(peers);
    let mut sources: BTreeMap<(usize, u32), BTreeSet<usize>> = BTreeMap::new();
    for (from, to, value) in pairs {
        sources.entry((to, value)).or_default().insert(from);
    }
    let mut destinations: BTreeMap<(Side, u32), BTreeSet<usize>> = BTreeMap::new();
    for ((to, value), from) in sources {
        for side in sizes.sides(&from, Some(to)) {
            destinations.entry((side, value)).or_default().insert(to);
        }
    }
    let mut rows = Vec::new();
    for ((from, value), to) in destinations {
        let itself = match from {
            Side::Peer(position) => Some(position),
            Side::All | Side::Namespace(_) => None,
        };
        rows.extend(sizes.sides(&to, itself).into_iter().map(|to| (from.clone(), to, value)));
    }
    rows.sort();
    Folded { rows }
}

/// The peers, and how many workloads there are, in all and by namespace.
struct Sizes<'a> {
    peers: &'a [Peer],
    all: usize,
    namespaces: BTreeMap<&'a str, usize>,
}

impl<'a> Sizes<'a> {
    fn of(peers: &'a [Peer]) -> Self {
        let mut sizes = Self { peers, all: 0, namespaces: BTreeMap::new() };
        for workload in peers.iter().filter(|peer| peer.namespace.is_some()) {
            sizes.all += 1;
            *sizes.namespaces.entry(workload.namespace.as_deref().unwrap_or_default()).or_default() += 1;
        }
        sizes
    }

    /// The fewest sides for a set of peers. `itself` is not among them and a star need not cover it.
    fn sides(&self, members: &BTreeSet<usize>, itself: Option<usize>) -> Vec<Side> {
        let mut by_namespace: BTreeMap<Option<&str>, Vec<usize>> = BTreeMap::new();
        for position in members {
            by_namespace.entry(self.peers[*position].namespace.as_deref()).or_default().push(*position);
        }
        let own = itself.and_then(|position| self.peers[position].namespace.as_deref());
        let covered = |found: usize, size: usize, holds_itself: bool| {
            found > 1 && found + usize::from(holds_itself) == size
        };
        // Blocks and pods that do not exist yet have none.
        let blocks = by_namespace.remove(&None).unwrap_or_default();
        let found = by_namespace.values().map(Vec::len).sum();
        let mut sides = Vec::new();
        if covered(found, self.all, own.is_some()) {
            sides.push(Side::All);
        } else {
            for (namespace, positions) in by_namespace {
                let Some(namespace) = namespace else { continue };
                let size = self.namespaces.get(namespace).copied().unwrap_or_default();
                if covered(positions.len(), size, own == Some(namespace)) {
                    sides.push(Side::Namespace(namespace.to_owned()));
                } else {
                    sides.extend(positions.into_iter().map(Side::Peer));
                }
            }
        }
        sides.extend(blocks.into_iter().map(Side::Peer));
        sides
    }
}
