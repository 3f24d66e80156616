//! Rulesets: the compiled form of the policies of like subjects.
//!
//! Invariant: a table answers for every (peer class, port class), and the answer names what won and what else
//! matched. Cells are decided on demand from the row's matches, so memory follows distinct rows, not classes
//! times ports. Entry ids of a table are consecutive: `first_entry + row * port classes + port class`.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use netlab_ebpf::abi::Direction;

use super::change::{Cell, Change, DirectionTable, PeerPrefix, PeerRow, PodDevice, RulesetTable};
use super::classes::{ClassIndex, Classes};
use super::groups::number;
use super::numbers::Numbers;
use super::ports::PortClasses;
use crate::model::cluster::ObjectKey;
use crate::model::policy::{Action, Policies, Policy, PolicyTier, Rule};

/// Everything that was compiled.
#[derive(Debug)]
pub struct Rulesets {
    pub(super) policies: Arc<Policies>,
    pub(super) classes: Classes,
    /// The numbers of the classes, by index.
    pub(super) class_numbers: Vec<u32>,
    pub(super) list: Vec<Ruleset>,
    pub(super) pods: BTreeMap<ObjectKey, CompiledPod>,
    /// First entry of each table, to find the table of an entry: (first, ruleset index, direction).
    pub(super) tables: Vec<(u32, u32, Direction)>,
    /// What was numbered so far: hand it to the next compilation.
    pub numbers: Numbers,
}

/// A pod in scope.
#[derive(Clone, Debug)]
pub struct CompiledPod {
    /// Its number, never reused.
    pub id: u32,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
    /// Position of its ruleset.
    pub(super) ruleset: u32,
}

/// The tables of one subject class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ruleset {
    /// Its number in every map.
    pub id: u32,
    /// `None` when no policy acts on the subject's ingress.
    pub(super) ingress: Option<Table>,
    /// `None` when no policy acts on the subject's egress.
    pub(super) egress: Option<Table>,
}

impl Ruleset {
    /// The table of a direction.
    pub(super) fn table(&self, direction: Direction) -> Option<&Table> {
        match direction {
            Direction::Ingress => self.ingress.as_ref(),
            Direction::Egress => self.egress.as_ref(),
        }
    }
}

/// One direction of a ruleset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Table {
    pub(super) direction: Direction,
    pub(super) first_entry: u32,
    /// The policies that act on the subjects here, of every tier, ascending.
    pub(super) acting: Vec<u32>,
    /// Those of them that isolate, ascending: the ones of the tier of `NetworkPolicy`.
    pub(super) isolated_by: Vec<u32>,
    /// The rules of all, in the order in which they are asked.
    pub(super) rules: Vec<TableRule>,
    pub(super) ports: PortClasses,
    /// Row 0 is that of every class that `row_of` does not name.
    pub(super) rows: Vec<Row>,
    /// Sorted by class.
    pub(super) row_of: Vec<(ClassIndex, u32)>,
}

/// A rule of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TableRule {
    pub(super) policy: u32,
    pub(super) rule: u32,
    pub(super) tier: PolicyTier,
    pub(super) priority: Option<u16>,
    pub(super) action: Action,
    /// `None`: every protocol and port.
    pub(super) ports: Option<Vec<TablePort>>,
}

/// What an element of `ports` means in a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TablePort {
    /// These atoms, whoever the peer is. Empty when a name resolves to nothing on the subject.
    Atoms(Vec<u32>),
    /// A name that each peer resolves for itself: its position among the table's names.
    PeerName(u32),
}

/// What all peers of a row have in common.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Row {
    /// The (rule, peer) pairs that match; ascending. The peer is `None` when the rule names none.
    pub(super) matches: Vec<(u32, Option<u32>)>,
    /// For each name of the table that a matching rule uses, the atoms of this row's numbers.
    pub(super) names: Vec<(u32, Vec<u32>)>,
}

/// A (rule, peer, port) that matched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Matched {
    pub(super) rule: u32,
    pub(super) peer: Option<u32>,
    pub(super) port: Option<u32>,
}

impl Table {
    /// Every (rule, peer) that matches a cell, in the order in which rules are asked, with the first port of each.
    pub(super) fn matched<'a>(
        &'a self,
        row: &'a Row,
        port_class: usize,
    ) -> impl Iterator<Item = Matched> + use<'a> {
        row.matches.iter().filter_map(move |(rule, peer)| {
            let port = match &self.rules[*rule as usize].ports {
                None => None,
                Some(ports) => Some(self.port_match(row, ports, port_class)?),
            };
            Some(Matched { rule: *rule, peer: *peer, port })
        })
    }

    /// The first of a rule's ports that holds the class.
    fn port_match(&self, row: &Row, ports: &[TablePort], port_class: usize) -> Option<u32> {
        let atoms = self.ports.atoms.get(port_class)?;
        let holds = |wanted: &[u32]| wanted.iter().any(|atom| atoms.binary_search(atom).is_ok());
        let position = ports.iter().position(|port| match port {
            TablePort::Atoms(wanted) => holds(wanted),
            TablePort::PeerName(name) => {
                row.names.iter().any(|(known, wanted)| known == name && holds(wanted))
            }
        })?;
        Some(number(position))
    }

    /// The row of a class.
    pub(super) fn row(&self, class: ClassIndex) -> u32 {
        self.row_of.binary_search_by_key(&class, |(class, _)| *class).map_or(0, |index| self.row_of[index].1)
    }

    /// The entry of a cell.
    pub(super) fn entry(&self, row: u32, port_class: usize) -> u32 {
        self.first_entry + row * number(self.ports.list.len()) + number(port_class)
    }

    /// Row and port class of one of the table's entries.
    pub(super) fn cell_of(&self, entry: u32) -> Option<(&Row, usize)> {
        let offset = entry.checked_sub(self.first_entry)? as usize;
        let row = self.rows.get(offset / self.ports.list.len())?;
        Some((row, offset % self.ports.list.len()))
    }

    fn export(&self, class_numbers: &[u32]) -> DirectionTable {
        let mut members: Vec<Vec<u32>> = vec![Vec::new(); self.rows.len()];
        let mut named = self.row_of.iter().peekable();
        for (class, class_number) in (0..).zip(class_numbers) {
            let row = named.next_if(|(named, _)| *named == class).map_or(0, |(_, row)| *row);
            members[row as usize].push(*class_number);
        }
        let rows = self
            .rows
            .iter()
            .zip(members)
            .enumerate()
            .filter(|(_, (_, members))| !members.is_empty())
            .map(|(index, (row, mut peer_classes))| {
                peer_classes.sort_unstable();
                let cells = (0..self.ports.list.len())
                    .map(|port_class| {
                        let decision = self.decide(row, port_class);
                        Cell {
                            verdict: decision.verdict,
                            tier: decision.tier as u8,
                            entry: self.entry(number(index), port_class),
                        }
                    })
                    .collect();
                PeerRow { peer_classes, cells }
            })
            .collect();
        DirectionTable { port_classes: self.ports.list.clone(), rows }
    }
}

impl Rulesets {
    /// The policies that were compiled.
    pub fn policies(&self) -> &Policies {
        &self.policies
    }

    /// The pods in scope.
    pub fn pods(&self) -> &BTreeMap<ObjectKey, CompiledPod> {
        &self.pods
    }

    /// How many rulesets, peer classes and compiled entries there are.
    pub fn size(&self) -> Size {
        let tables = || self.list.iter().flat_map(|ruleset| [&ruleset.ingress, &ruleset.egress]).flatten();
        Size {
            rulesets: self.list.len(),
            peer_classes: self.class_numbers.len(),
            port_classes: tables().map(|table| table.ports.list.len()).max().unwrap_or(0),
            entries: tables().map(|table| table.rows.len() * table.ports.list.len()).sum(),
            rows: tables().map(|table| table.ports.list.len() * self.class_numbers.len()).sum(),
        }
    }

    /// The ruleset of a pod in scope.
    pub fn ruleset_of(&self, pod: &ObjectKey) -> Option<&Ruleset> {
        self.list.get(self.pods.get(pod)?.ruleset as usize)
    }

    /// The number of the peer class of an address.
    pub fn peer_class_of(&self, address: IpAddr) -> u32 {
        self.class_numbers[self.classes.of_address(address) as usize]
    }

    /// The policies that isolate a pod in a direction; empty when none does.
    pub fn isolating(&self, pod: &ObjectKey, direction: Direction) -> Vec<&Policy> {
        self.ruleset_of(pod)
            .and_then(|ruleset| ruleset.table(direction))
            .map(|table| table.isolated_by.iter().map(|index| &self.policies.list[*index as usize]).collect())
            .unwrap_or_default()
    }

    /// The policies of every tier that act on a pod in a direction.
    pub(super) fn acting(&self, pod: &ObjectKey, direction: Direction) -> impl Iterator<Item = &Policy> {
        let table = self.ruleset_of(pod).and_then(|ruleset| ruleset.table(direction));
        let acting = table.map_or(&[][..], |table| &table.acting);
        acting.iter().map(|index| &self.policies.list[*index as usize])
    }

    /// The complete tables for the pods in scope, for a backend. `interface` names the host-side interface of a
    /// pod; pods for which it gives nothing are not on this node and are left out.
    pub fn change(&self, generation: u32, interface: impl Fn(&ObjectKey) -> Option<String>) -> Change {
        let mut pods = Vec::new();
        let mut wanted: Vec<u32> = Vec::new();
        for (key, pod) in &self.pods {
            let Some(interface) = interface(key) else { continue };
            wanted.push(pod.ruleset);
            pods.push(PodDevice {
                namespace: key.namespace.clone(),
                name: key.name.clone(),
                id: pod.id,
                interface,
                addresses: pod.addresses.clone(),
                ruleset: self.list[pod.ruleset as usize].id,
                any_source: false,
            });
        }
        wanted.sort_unstable();
        wanted.dedup();
        let mut rulesets: Vec<_> = wanted
            .into_iter()
            .map(|index| {
                let ruleset = &self.list[index as usize];
                let export =
                    |table: &Option<Table>| table.as_ref().map(|table| table.export(&self.class_numbers));
                RulesetTable {
                    id: ruleset.id,
                    ingress: export(&ruleset.ingress),
                    egress: export(&ruleset.egress),
                }
            })
            .collect();
        rulesets.sort_by_key(|ruleset| ruleset.id);
        Change { generation, rulesets, peers: self.peers(), pods, services: Vec::new(), wires: Vec::new() }
    }

    fn peers(&self) -> Vec<PeerPrefix> {
        let prefixes = self.classes.prefixes.list.iter().zip(&self.class_numbers).map(|(prefix, class)| {
            PeerPrefix { address: prefix.network(), length: prefix.prefix_len(), class: *class }
        });
        // A pod's address replaces a rule's /32 or /128 of the same address: its class knows of that prefix.
        let mut peers: BTreeMap<(IpAddr, u8), PeerPrefix> =
            prefixes.map(|peer| ((peer.address, peer.length), peer)).collect();
        for (address, class) in &self.classes.addresses {
            let length = IpNet::from(*address).prefix_len();
            let class = self.class_numbers[*class as usize];
            peers.insert((*address, length), PeerPrefix { address: *address, length, class });
        }
        peers.into_values().collect()
    }

    pub(super) fn rule(&self, table: &Table, rule: u32) -> (&Policy, &Rule) {
        let rule = &table.rules[rule as usize];
        let policy = &self.policies.list[rule.policy as usize];
        let rules = match table.direction {
            Direction::Ingress => policy.ingress.as_deref(),
            Direction::Egress => policy.egress.as_deref(),
        };
        (policy, &rules.unwrap_or_default()[rule.rule as usize])
    }
}

/// Figures of a compilation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Size {
    /// Subject classes.
    pub rulesets: usize,
    /// Peer classes.
    pub peer_classes: usize,
    /// Port classes of the largest table.
    pub port_classes: usize,
    /// Distinct entries.
    pub entries: usize,
    /// Policy-map rows when everything is written.
    pub rows: usize,
}
