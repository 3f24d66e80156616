//! The compiler: from a cluster and its policies to rulesets.
//!
//! Invariant: deterministic and free of environment; the same input gives the same rulesets, numbers included.
//! It never fails: a policy that would cross a limit is refused by name, the others stay in force.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use netlab_ebpf::abi::Direction;

use super::classes::{ClassIndex, Classes, NameKey, names_of};
use super::groups::{GroupIndex, Groups, number};
use super::limits::Limits;
use super::numbers::{DigestBuilder, Numbers};
use super::ports::{Atom, PortClasses};
use super::ruleset::{CompiledPod, Row, Ruleset, Rulesets, Table, TablePort, TableRule};
use super::scope::Scope;
use crate::diagnostic::Diagnostic;
use crate::model::address::AddressBlock;
use crate::model::cluster::Cluster;
use crate::model::policy::{PeerMatch, PodSelector, Policies, Policy, PolicyTier, Rule};
use crate::model::port::{PortMatch, PortRange};
use crate::model::selector::Selector;

/// The outcome of a compilation.
#[derive(Debug)]
pub struct Compiled {
    /// The rulesets of the pods in scope.
    pub rulesets: Rulesets,
    /// Policies that were refused for crossing a limit.
    pub diagnostics: Vec<Diagnostic>,
}

/// Compiles with the default limits and fresh numbers.
pub fn compile(cluster: &Cluster, policies: &Policies, scope: &Scope) -> Compiled {
    compile_with(cluster, policies, scope, &Numbers::default(), &Limits::default())
}

/// Compiles on top of the numbers of an earlier compilation.
pub fn compile_with(
    cluster: &Cluster,
    policies: &Policies,
    scope: &Scope,
    numbers: &Numbers,
    limits: &Limits,
) -> Compiled {
    let accepted = Arc::new(policies.clone());
    let rulesets = build(cluster, &accepted, scope, numbers.clone());
    if limits.allow(&rulesets) {
        return Compiled { rulesets, diagnostics: Vec::new() };
    }
    limits.refuse(policies, |accepted| build(cluster, &Arc::new(accepted), scope, numbers.clone()))
}

fn build(cluster: &Cluster, policies: &Arc<Policies>, scope: &Scope, mut numbers: Numbers) -> Rulesets {
    let names = port_names(policies);
    let groups = Groups::new(cluster, &names);
    let in_scope: Vec<GroupIndex> = (0..number(groups.list.len()))
        .filter(|group| {
            groups.list[*group as usize].members.iter().any(|member| {
                let (key, pod) = groups.pods[*member as usize];
                scope.contains(key, pod)
            })
        })
        .collect();
    let subjects = Subjects::new(&groups, policies, &in_scope);
    let peers = Peers::new(policies, &subjects.active);
    let classes = Classes::new(
        cluster,
        &groups,
        &peers.selectors,
        &peers.node_selectors,
        &peers.blocks,
        &peers.egress_names,
    );
    let class_numbers = number_classes(&classes, &peers, &mut numbers);

    let builder = TableBuilder { policies, peers: &peers, classes: &classes, class_numbers: &class_numbers };
    let mut list: Vec<Ruleset> = Vec::new();
    let mut tables = Vec::new();
    let mut ruleset_of_group: BTreeMap<GroupIndex, u32> = BTreeMap::new();
    for (key, members) in &subjects.classes {
        let build = |direction, selected: &[u32], numbers: &mut Numbers| {
            (!selected.is_empty()).then(|| builder.table(direction, selected, &key.own_names, numbers))
        };
        let (ingress, ingress_digest) = build(Direction::Ingress, &key.ingress, &mut numbers).unzip();
        let (egress, egress_digest) = build(Direction::Egress, &key.egress, &mut numbers).unzip();
        let mut digest = DigestBuilder::default();
        digest.field(ingress_digest.unwrap_or_default());
        digest.field(egress_digest.unwrap_or_default());
        let position = number(list.len());
        for table in [&ingress, &egress].into_iter().flatten() {
            tables.push((table.first_entry, position, table.direction));
        }
        list.push(Ruleset { id: numbers.ruleset(digest.finish()), ingress, egress });
        ruleset_of_group.extend(members.iter().map(|group| (*group, position)));
    }
    tables.sort_unstable_by_key(|(first, ..)| *first);

    let mut members: Vec<(u32, u32)> = Vec::new();
    for (group, ruleset) in &ruleset_of_group {
        members.extend(groups.list[*group as usize].members.iter().map(|member| (*member, *ruleset)));
    }
    members.sort_unstable();
    let in_scope = members.into_iter().map(|(member, ruleset)| (groups.pods[member as usize], ruleset));
    let pods = in_scope
        .filter(|((key, pod), _)| scope.contains(key, pod))
        .map(|((key, pod), ruleset)| {
            let identity = format!("{key} {}", pod.source.uid.as_deref().unwrap_or_default());
            let id = numbers.pod(identity);
            (key.clone(), CompiledPod { id, addresses: pod.addresses.clone(), ruleset })
        })
        .collect();
    Rulesets { policies: Arc::clone(policies), classes, class_numbers, list, pods, tables, numbers }
}

/// Every port name that some rule uses.
fn port_names(policies: &Policies) -> BTreeSet<&str> {
    policies
        .list
        .iter()
        .flat_map(|policy| policy.ingress.iter().chain(&policy.egress).flatten())
        .flat_map(|rule| rule.ports.iter().flatten())
        .filter_map(|port| match &port.matches {
            PortMatch::Named { name, .. } => Some(&**name),
            PortMatch::Range { .. } => None,
        })
        .collect()
}

fn rules(policy: &Policy, direction: Direction) -> Option<&[Rule]> {
    match direction {
        Direction::Ingress => policy.ingress.as_deref(),
        Direction::Egress => policy.egress.as_deref(),
    }
}

/// What decides which ruleset a pod has.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct SubjectKey {
    ingress: Vec<u32>,
    egress: Vec<u32>,
    /// What the names that the ingress rules use resolve to on the pod itself.
    own_names: Vec<(NameKey, Vec<u16>)>,
}

/// The subject classes of the pods in scope.
struct Subjects {
    /// Policies that act on some pod in scope, per direction (ingress, egress).
    active: [BTreeSet<u32>; 2],
    classes: BTreeMap<SubjectKey, Vec<GroupIndex>>,
}

impl Subjects {
    fn new(groups: &Groups<'_>, policies: &Policies, in_scope: &[GroupIndex]) -> Self {
        let mut selecting: Vec<Vec<u32>> = vec![Vec::new(); groups.list.len()];
        for (index, policy) in policies.list.iter().enumerate() {
            for group in groups.select(&policy.subject) {
                selecting[group as usize].push(number(index));
            }
        }
        let mut active = [BTreeSet::new(), BTreeSet::new()];
        let mut classes: BTreeMap<SubjectKey, Vec<GroupIndex>> = BTreeMap::new();
        for group in in_scope {
            let acting = |direction| -> Vec<u32> {
                selecting[*group as usize]
                    .iter()
                    .copied()
                    .filter(|index| rules(&policies.list[*index as usize], direction).is_some())
                    .collect()
            };
            let (ingress, egress) = (acting(Direction::Ingress), acting(Direction::Egress));
            active[0].extend(&ingress);
            active[1].extend(&egress);
            let used = names_used(policies, &ingress, Direction::Ingress);
            let own_names = names_of(&groups.list[*group as usize].named_ports, &used);
            classes.entry(SubjectKey { ingress, egress, own_names }).or_default().push(*group);
        }
        Self { active, classes }
    }
}

/// The port names that these policies' rules use in a direction, sorted.
fn names_used<'a>(
    policies: &Policies,
    selected: impl IntoIterator<Item = &'a u32>,
    direction: Direction,
) -> Vec<NameKey> {
    let names: BTreeSet<NameKey> = selected
        .into_iter()
        .filter_map(|index| rules(&policies.list[*index as usize], direction))
        .flatten()
        .flat_map(|rule| rule.ports.iter().flatten())
        .filter_map(|port| match &port.matches {
            PortMatch::Named { protocol, name } => Some((Arc::clone(name), *protocol)),
            PortMatch::Range { .. } => None,
        })
        .collect();
    names.into_iter().collect()
}

/// The peers that the active policies name.
struct Peers<'a> {
    selectors: Vec<&'a PodSelector>,
    selector_index: HashMap<&'a PodSelector, u32>,
    node_selectors: Vec<&'a Selector>,
    blocks: Vec<&'a AddressBlock>,
    egress_names: Vec<NameKey>,
}

impl<'a> Peers<'a> {
    fn new(policies: &'a Policies, active: &[BTreeSet<u32>; 2]) -> Self {
        let mut selectors: BTreeSet<&PodSelector> = BTreeSet::new();
        let mut node_selectors: BTreeSet<&Selector> = BTreeSet::new();
        let mut blocks: BTreeSet<&AddressBlock> = BTreeSet::new();
        for (direction, active) in [Direction::Ingress, Direction::Egress].into_iter().zip(active) {
            let rules =
                active.iter().filter_map(|index| rules(&policies.list[*index as usize], direction)).flatten();
            for peer in rules.flat_map(|rule| rule.peers.iter().flatten()) {
                match &peer.matches {
                    PeerMatch::Pods(selector) => _ = selectors.insert(selector),
                    PeerMatch::Block(block) => _ = blocks.insert(block),
                    PeerMatch::Nodes(selector) => _ = node_selectors.insert(selector),
                    PeerMatch::DomainNames(_) => {}
                }
            }
        }
        let selectors: Vec<_> = selectors.into_iter().collect();
        let selector_index =
            selectors.iter().enumerate().map(|(index, selector)| (*selector, number(index))).collect();
        Self {
            selectors,
            selector_index,
            node_selectors: node_selectors.into_iter().collect(),
            blocks: blocks.into_iter().collect(),
            egress_names: names_used(policies, &active[1], Direction::Egress),
        }
    }
}

fn number_classes(classes: &Classes, peers: &Peers<'_>, numbers: &mut Numbers) -> Vec<u32> {
    let selectors: Vec<String> = peers
        .selectors
        .iter()
        .map(|selector| {
            let mut digest = DigestBuilder::default();
            digest.field(format!("{selector:?}"));
            digest.finish()
        })
        .collect();
    classes
        .list
        .iter()
        .map(|class| {
            let mut digest = DigestBuilder::default();
            digest.field(classes.prefixes.list[class.prefix as usize].to_string());
            if let Some(pod) = &class.pod {
                digest.field("pod");
                for selector in &pod.selectors {
                    digest.field(&selectors[*selector as usize]);
                }
                for ((name, protocol), ports) in &pod.names {
                    digest.field(format!("{name} {protocol} {ports:?}"));
                }
            }
            for selector in &class.nodes {
                digest.field(format!("node {:?}", peers.node_selectors[*selector as usize]));
            }
            numbers.class(digest.finish())
        })
        .collect()
}

struct TableBuilder<'a> {
    policies: &'a Policies,
    peers: &'a Peers<'a>,
    classes: &'a Classes,
    class_numbers: &'a [u32],
}

impl TableBuilder<'_> {
    fn table(
        &self,
        direction: Direction,
        selected: &[u32],
        own_names: &[(NameKey, Vec<u16>)],
        numbers: &mut Numbers,
    ) -> (Table, String) {
        let (own_names, names) = match direction {
            Direction::Ingress => (own_names, Vec::new()),
            Direction::Egress => (&[][..], names_used(self.policies, selected, direction)),
        };
        let sources: Vec<(u32, u32, &Rule)> = self
            .in_order(selected)
            .into_iter()
            .flat_map(|policy| {
                let rules = rules(&self.policies.list[policy as usize], direction).unwrap_or_default();
                rules.iter().enumerate().map(move |(rule, source)| (policy, number(rule), source))
            })
            .collect();
        let atoms = self.atoms(&sources, own_names, &names);
        let rules = sources
            .iter()
            .map(|(policy, rule, source)| TableRule {
                policy: *policy,
                rule: *rule,
                tier: self.policies.list[*policy as usize].tier,
                priority: self.policies.list[*policy as usize].priority,
                action: source.action,
                ports: source.ports.as_ref().map(|ports| {
                    ports
                        .iter()
                        .map(|port| table_port(&port.matches, direction, own_names, &names, &atoms))
                        .collect()
                }),
            })
            .collect();
        let mut table = Table {
            direction,
            first_entry: 0,
            acting: selected.to_vec(),
            isolated_by: selected.iter().copied().filter(|policy| self.isolates(*policy)).collect(),
            rules,
            ports: PortClasses::new(&atoms),
            rows: Vec::new(),
            row_of: Vec::new(),
        };
        self.fill_rows(&mut table, &sources, &names, &atoms);
        let digest = self.digest(&table);
        let count = number(table.rows.len() * table.ports.list.len());
        table.first_entry = numbers.entries(digest.clone(), count);
        (table, digest)
    }

    /// Policies in the order in which they are asked; those that the API does not order, by name.
    fn in_order(&self, selected: &[u32]) -> Vec<u32> {
        let mut order = selected.to_vec();
        order.sort_by_key(|index| {
            let policy = &self.policies.list[*index as usize];
            (policy.tier, policy.priority.is_none(), policy.priority, *index)
        });
        order
    }

    fn isolates(&self, policy: u32) -> bool {
        self.policies.list[policy as usize].tier == PolicyTier::NetworkPolicy
    }

    /// Every range that a rule names and every number that one of its port names may stand for; sorted.
    fn atoms(
        &self,
        sources: &[(u32, u32, &Rule)],
        own_names: &[(NameKey, Vec<u16>)],
        peer_names: &[NameKey],
    ) -> Vec<Atom> {
        let mut atoms: BTreeSet<Atom> = BTreeSet::new();
        for port in sources.iter().flat_map(|(_, _, rule)| rule.ports.iter().flatten()) {
            if let PortMatch::Range { protocol, range } = port.matches {
                atoms.insert((protocol, range));
            }
        }
        for name in peer_names {
            atoms.extend(self.classes.numbers_of(name).map(|port| (name.1, PortRange::single(port))));
        }
        for ((_, protocol), ports) in own_names {
            atoms.extend(ports.iter().map(|port| (*protocol, PortRange::single(*port))));
        }
        atoms.into_iter().collect()
    }

    /// Partitions the classes by the (rule, peer) pairs that match them, one pair at a time: a pair moves each of
    /// its classes from the part where it is to that part's successor. The cost is the sum of the pairs' sizes.
    fn fill_rows(&self, table: &mut Table, sources: &[(u32, u32, &Rule)], names: &[NameKey], atoms: &[Atom]) {
        let mut everywhere: Vec<(u32, Option<u32>)> = Vec::new();
        let mut parts: Vec<Part> = vec![Part::default()];
        let mut part_of: Vec<u32> = vec![0; self.classes.list.len()];
        let mut moved: Vec<ClassIndex> = Vec::new();
        for (index, (_, _, rule)) in sources.iter().enumerate() {
            let Some(peers) = &rule.peers else {
                everywhere.push((number(index), None));
                continue;
            };
            for (position, peer) in peers.iter().enumerate() {
                let of_block;
                let classes = match &peer.matches {
                    PeerMatch::Pods(selector) => {
                        self.classes.of_selector(self.peers.selector_index[selector])
                    }
                    PeerMatch::Nodes(selector) => {
                        let index = self.peers.node_selectors.binary_search(&selector);
                        index.map_or(&[][..], |index| self.classes.of_nodes(number(index)))
                    }
                    PeerMatch::Block(block) => {
                        of_block = self.classes.of_block(block);
                        &of_block
                    }
                    PeerMatch::DomainNames(_) => &[],
                };
                let pair = (number(index), Some(number(position)));
                let mut successor: Vec<Option<u32>> = vec![None; parts.len()];
                for class in classes {
                    let part = &mut part_of[*class as usize];
                    if *part == 0 {
                        moved.push(*class);
                    }
                    *part = *successor[*part as usize].get_or_insert_with(|| {
                        parts.push(Part { before: *part, pair });
                        number(parts.len() - 1)
                    });
                }
            }
        }
        let rows = RowBuilder { table, everywhere, parts };
        if rows.depend_on_every_class() {
            moved = (0..number(self.classes.list.len())).collect();
        }
        moved.sort_unstable();
        let moved = moved.into_iter().map(|class| (class, part_of[class as usize]));
        rows.finish(moved, |class, name| self.resolved(class, name, names, atoms));
    }

    /// The atoms of the numbers behind one of the table's names, on the pods of a class.
    fn resolved(
        &self,
        class: ClassIndex,
        name: u32,
        names: &[NameKey],
        atoms: &[Atom],
    ) -> Option<(u32, Vec<u32>)> {
        let key = &names[name as usize];
        let pod = self.classes.list[class as usize].pod.as_ref()?;
        let (_, ports) = pod.names.iter().find(|(known, _)| known == key)?;
        Some((name, singles(key, ports, atoms)))
    }

    /// Over everything that the table's answers and citations depend on.
    fn digest(&self, table: &Table) -> String {
        let mut digest = DigestBuilder::default();
        digest.number(table.direction as u32);
        digest.number(number(table.acting.len()));
        for policy in &table.acting {
            digest.field(self.policies.list[*policy as usize].id.to_string());
        }
        digest.number(number(table.rules.len()));
        for rule in &table.rules {
            digest.field(self.policies.list[rule.policy as usize].id.to_string());
            digest.number(rule.rule);
            digest.field(format!("{:?} {:?} {:?}", rule.tier, rule.priority, rule.action));
            digest.field(format!("{:?}", rule.ports));
        }
        digest.number(number(table.ports.list.len()));
        for class in &table.ports.list {
            digest.number(class.class.into());
            digest.number(number(class.ranges.len()));
            for range in &class.ranges {
                digest.number(range.protocol.number().into());
                digest.number(u32::from(range.start) << 16 | u32::from(range.end));
            }
        }
        digest.number(number(table.rows.len()));
        for row in &table.rows {
            digest.number(number(row.matches.len()));
            for (rule, peer) in &row.matches {
                digest.number(*rule);
                digest.number(peer.map_or(0, |peer| peer + 1));
            }
            digest.number(number(row.names.len()));
            for (name, atoms) in &row.names {
                digest.number(*name);
                digest.numbers(atoms);
            }
        }
        // Classes of the default row are left out: a class that appears later adds rows and changes none.
        let mut members: Vec<(u32, u32)> =
            table.row_of.iter().map(|(class, row)| (self.class_numbers[*class as usize], *row)).collect();
        members.sort_unstable();
        for (class, row) in members {
            digest.number(class);
            digest.number(row);
        }
        digest.finish()
    }
}

/// A set of classes that the same (rule, peer) pairs match: those of the part before it, and one more. The first part
/// has none.
#[derive(Clone, Copy, Default)]
struct Part {
    before: u32,
    pair: (u32, Option<u32>),
}

/// The atoms of the numbers behind each of a row's names.
type ResolvedNames = Vec<(u32, Vec<u32>)>;

/// What the rows of a part have in common.
struct PartRow {
    matches: Vec<(u32, Option<u32>)>,
    /// The names that its rules use, ascending.
    names: Vec<u32>,
    /// Its row by what the names stand for.
    rows: HashMap<ResolvedNames, u32>,
}

/// Turns the parts of a partition into the rows of a table.
struct RowBuilder<'a> {
    table: &'a mut Table,
    everywhere: Vec<(u32, Option<u32>)>,
    parts: Vec<Part>,
}

impl RowBuilder<'_> {
    /// True when a rule without peers uses a name: what it stands for differs even among classes that no peer names.
    fn depend_on_every_class(&self) -> bool {
        !self.names_used(&self.everywhere).is_empty()
    }

    /// Numbers the rows in the order of their first class; row 0 is what no peer of the table names. `classes` are
    /// ascending, with their parts; those left out have that row.
    fn finish(
        self,
        classes: impl Iterator<Item = (ClassIndex, u32)>,
        resolve: impl Fn(ClassIndex, u32) -> Option<(u32, Vec<u32>)>,
    ) {
        let mut rows = vec![Row { matches: self.everywhere.clone(), names: Vec::new() }];
        let mut row_of = Vec::new();
        // No two parts match alike, so a row is a part and what its names stand for.
        let mut known: Vec<Option<PartRow>> = Vec::new();
        known.resize_with(self.parts.len(), || None);
        for (class, part) in classes {
            let of_part = known[part as usize].get_or_insert_with(|| self.part_row(part));
            let names: ResolvedNames =
                of_part.names.iter().filter_map(|name| resolve(class, *name)).collect();
            let position = if let Some(position) = of_part.rows.get(&names) {
                *position
            } else {
                let position = number(rows.len());
                rows.push(Row { matches: of_part.matches.clone(), names: names.clone() });
                of_part.rows.insert(names, position);
                position
            };
            if position != 0 {
                row_of.push((class, position));
            }
        }
        self.table.rows = rows;
        self.table.row_of = row_of;
    }

    fn part_row(&self, part: u32) -> PartRow {
        let mut matches = self.everywhere.clone();
        let mut next = part;
        while next != 0 {
            let Part { before, pair } = self.parts[next as usize];
            matches.push(pair);
            next = before;
        }
        matches.sort_unstable();
        let names = self.names_used(&matches);
        // Classes that no peer names, and on whose pods no name stands for anything, have the default row.
        let rows = if part == 0 { HashMap::from([(Vec::new(), 0)]) } else { HashMap::new() };
        PartRow { matches, names, rows }
    }

    /// The names that the rules of some matches use, ascending.
    fn names_used(&self, matches: &[(u32, Option<u32>)]) -> Vec<u32> {
        let used: BTreeSet<u32> = matches
            .iter()
            .flat_map(|(rule, _)| self.table.rules[*rule as usize].ports.iter().flatten())
            .filter_map(|port| match port {
                TablePort::PeerName(name) => Some(*name),
                TablePort::Atoms(_) => None,
            })
            .collect();
        used.into_iter().collect()
    }
}

fn table_port(
    port: &PortMatch,
    direction: Direction,
    own_names: &[(NameKey, Vec<u16>)],
    peer_names: &[NameKey],
    atoms: &[Atom],
) -> TablePort {
    match port {
        PortMatch::Range { protocol, range } => {
            TablePort::Atoms(atoms.binary_search(&(*protocol, *range)).map(number).into_iter().collect())
        }
        PortMatch::Named { protocol, name } => {
            let key = (Arc::clone(name), *protocol);
            match direction {
                Direction::Egress => {
                    TablePort::PeerName(number(peer_names.binary_search(&key).unwrap_or(usize::MAX)))
                }
                Direction::Ingress => {
                    let own = own_names.iter().find(|(known, _)| *known == key);
                    TablePort::Atoms(own.map(|(_, ports)| singles(&key, ports, atoms)).unwrap_or_default())
                }
            }
        }
    }
}

/// The atoms of single ports.
fn singles((_, protocol): &NameKey, ports: &[u16], atoms: &[Atom]) -> Vec<u32> {
    ports
        .iter()
        .filter_map(|port| atoms.binary_search(&(*protocol, PortRange::single(*port))).ok().map(number))
        .collect()
}
