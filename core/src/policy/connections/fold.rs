//! Connections in few rows: `*` and `namespace/*` where all members agree.
//!
//! Invariant: a row stands for every pair of its two sides except a workload with itself, and the rows stand for
//! exactly the list's pairs. `*` is every workload of the list, never an address; a star stands for two or more.

use std::collections::{BTreeMap, BTreeSet};

use super::Connections;

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

/// A row: sources, destinations, and the connection whose ports all of them have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row<'a> {
    /// Who opens.
    pub from: &'a Side,
    /// To whom.
    pub to: &'a Side,
    /// The number of the set of ports.
    allowed: u32,
}

/// Rows, and what they borrow from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folded {
    rows: Vec<(Side, Side, u32)>,
}

impl Folded {
    /// The rows.
    pub fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        self.rows.iter().map(|(from, to, allowed)| Row { from, to, allowed: *allowed })
    }
}

impl Connections {
    /// What a row allows.
    pub fn allowed_by(&self, row: &Row<'_>) -> &super::Allowed {
        &self.sets[row.allowed as usize]
    }

    /// The list in few rows.
    pub fn fold(&self) -> Folded {
        let sizes = Sizes::of(self);
        let mut sources: BTreeMap<(usize, u32), BTreeSet<usize>> = BTreeMap::new();
        for connection in &self.list {
            sources.entry((connection.to, connection.allowed)).or_default().insert(connection.from);
        }
        let mut destinations: BTreeMap<(Side, u32), BTreeSet<usize>> = BTreeMap::new();
        for ((to, allowed), from) in sources {
            for side in self.sides(&sizes, &from, Some(to)) {
                destinations.entry((side, allowed)).or_default().insert(to);
            }
        }
        let mut rows = Vec::new();
        for ((from, allowed), to) in destinations {
            let itself = match from {
                Side::Peer(position) => Some(position),
                Side::All | Side::Namespace(_) => None,
            };
            rows.extend(self.sides(&sizes, &to, itself).into_iter().map(|to| (from.clone(), to, allowed)));
        }
        rows.sort();
        Folded { rows }
    }

    /// The fewest sides for a set of peers. `itself` is not among them and a star need not cover it.
    fn sides(&self, sizes: &Sizes<'_>, members: &BTreeSet<usize>, itself: Option<usize>) -> Vec<Side> {
        let mut by_namespace: BTreeMap<Option<&str>, Vec<usize>> = BTreeMap::new();
        for position in members {
            by_namespace.entry(self.peers[*position].namespace.as_deref()).or_default().push(*position);
        }
        let own = itself.and_then(|position| self.peers[position].namespace.as_deref());
        let covered = |found: usize, size: usize, holds_itself: bool| {
            found > 1 && found + usize::from(holds_itself) == size
        };
        // Only blocks have no namespace.
        let blocks = by_namespace.remove(&None).unwrap_or_default();
        let found = by_namespace.values().map(Vec::len).sum();
        let mut sides = Vec::new();
        if covered(found, sizes.all, own.is_some()) {
            sides.push(Side::All);
        } else {
            for (namespace, positions) in by_namespace {
                let Some(namespace) = namespace else { continue };
                let size = sizes.namespaces.get(namespace).copied().unwrap_or_default();
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

/// How many workloads there are, in all and by namespace.
struct Sizes<'a> {
    all: usize,
    namespaces: BTreeMap<&'a str, usize>,
}

impl<'a> Sizes<'a> {
    fn of(connections: &'a Connections) -> Self {
        let mut namespaces = BTreeMap::new();
        for workload in connections.workloads() {
            *namespaces.entry(workload.namespace.as_deref().unwrap_or_default()).or_default() += 1;
        }
        Self { all: connections.workloads().len(), namespaces }
    }
}
