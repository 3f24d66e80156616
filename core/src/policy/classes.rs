//! Peer classes: sets of addresses that no rule in scope tells apart.
//!
//! Invariant: two addresses share a class exactly when the same peer selectors select their pods, the same
//! node selectors the nodes that have them, the same prefix is the longest around them, and, where egress rules use
//! port names, their pods resolve those names to the same numbers. A pod's class therefore knows its memberships
//! in every CIDR too. Classes are ordered: prefixes first, then pods and nodes, each by content.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use super::groups::{GroupIndex, Groups, number};
use super::prefixes::{PrefixIndex, Prefixes};
use crate::model::address::AddressBlock;
use crate::model::cluster::{Cluster, ContainerPort};
use crate::model::policy::PodSelector;
use crate::model::port::Protocol;
use crate::model::selector::Selector;

/// Index of a class.
pub(super) type ClassIndex = u32;

/// A port name as an egress rule uses it.
pub(super) type NameKey = (Arc<str>, Protocol);

/// What all addresses of a class have in common.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct ClassContent {
    /// The longest prefix.
    pub(super) prefix: PrefixIndex,
    /// `None` for addresses that are no pod's.
    pub(super) pod: Option<PodContent>,
    /// The node selectors that match a node with the address, ascending indices into the list of them.
    pub(super) nodes: Vec<u32>,
}

/// What all pods of a class have in common.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct PodContent {
    /// The selectors that select them, ascending indices into the list of peer selectors.
    pub(super) selectors: Vec<u32>,
    /// The numbers behind the port names that egress rules use.
    pub(super) names: Vec<(NameKey, Vec<u16>)>,
}

/// All classes, and which of them each peer matches.
#[derive(Debug)]
pub(super) struct Classes {
    pub(super) prefixes: Prefixes,
    pub(super) list: Vec<ClassContent>,
    /// The address of every policed pod, and of every node that a selector matches, with its class; sorted by
    /// address.
    pub(super) addresses: Vec<(IpAddr, ClassIndex)>,
    of_selector: Vec<Vec<ClassIndex>>,
    of_nodes: Vec<Vec<ClassIndex>>,
    of_prefix: Vec<Vec<ClassIndex>>,
    /// Every number that a port name of an egress rule stands for on some pod.
    numbers: BTreeMap<NameKey, BTreeSet<u16>>,
}

impl Classes {
    /// Cuts the classes for these peers. `egress_names` are the names that egress rules use.
    pub(super) fn new(
        cluster: &Cluster,
        groups: &Groups<'_>,
        selectors: &[&PodSelector],
        node_selectors: &[&Selector],
        blocks: &[&AddressBlock],
        egress_names: &[NameKey],
    ) -> Self {
        let prefixes = Prefixes::new(blocks.iter().copied());
        let content = pod_contents(groups, selectors, egress_names);
        let (owners, node_sets) = owners(cluster, groups, &content, node_selectors);
        let sorted: Vec<IpAddr> = owners.iter().map(|(address, _)| *address).collect();
        let keys: Vec<(PrefixIndex, Owner)> =
            prefixes.longest(&sorted).into_iter().zip(owners.into_iter().map(|(_, owner)| owner)).collect();

        let mut contents: Vec<ClassContent> = (0..number(prefixes.list.len()))
            .map(|prefix| ClassContent { prefix, pod: None, nodes: Vec::new() })
            .collect();
        let mut distinct = keys.clone();
        distinct.sort_unstable();
        distinct.dedup();
        let first = contents.len();
        contents.extend(distinct.iter().map(|(prefix, (pod, nodes))| ClassContent {
            prefix: *prefix,
            pod: pod.map(|pod| content.list[pod as usize].clone()),
            nodes: node_sets[*nodes as usize].clone(),
        }));
        // Every key is in the list that was made of them.
        let class_of = |key| first + distinct.binary_search(key).unwrap_or_default();
        let addresses = sorted.into_iter().zip(keys.iter().map(|key| number(class_of(key)))).collect();

        let mut of_selector = vec![Vec::new(); selectors.len()];
        let mut of_nodes = vec![Vec::new(); node_selectors.len()];
        let mut numbers: BTreeMap<NameKey, BTreeSet<u16>> = BTreeMap::new();
        let present: BTreeSet<u32> = distinct.iter().filter_map(|(_, (pod, _))| *pod).collect();
        for (name, ports) in present.into_iter().flat_map(|pod| &content.list[pod as usize].names) {
            numbers.entry(name.clone()).or_default().extend(ports);
        }
        let mut of_prefix = vec![Vec::new(); prefixes.list.len()];
        for (index, class) in contents.iter().enumerate() {
            of_prefix[class.prefix as usize].push(number(index));
            for selector in class.pod.iter().flat_map(|pod| &pod.selectors) {
                of_selector[*selector as usize].push(number(index));
            }
            for selector in &class.nodes {
                of_nodes[*selector as usize].push(number(index));
            }
        }
        Self { prefixes, list: contents, addresses, of_selector, of_nodes, of_prefix, numbers }
    }

    /// The classes that a peer selector matches.
    pub(super) fn of_selector(&self, selector: u32) -> &[ClassIndex] {
        &self.of_selector[selector as usize]
    }

    /// The classes that a node selector matches.
    pub(super) fn of_nodes(&self, selector: u32) -> &[ClassIndex] {
        &self.of_nodes[selector as usize]
    }

    /// The classes that an address block matches.
    pub(super) fn of_block(&self, block: &AddressBlock) -> Vec<ClassIndex> {
        self.prefixes
            .inside(block)
            .into_iter()
            .flat_map(|prefix| self.of_prefix[prefix as usize].iter().copied())
            .collect()
    }

    /// Every number that a port name of an egress rule stands for on some pod, ascending.
    pub(super) fn numbers_of(&self, name: &NameKey) -> impl Iterator<Item = u16> + '_ {
        self.numbers.get(name).into_iter().flatten().copied()
    }

    /// The class of any address.
    pub(super) fn of_address(&self, address: IpAddr) -> ClassIndex {
        match self.addresses.binary_search_by_key(&address, |(address, _)| *address) {
            Ok(index) => self.addresses[index].1,
            // The classes of bare prefixes have the prefixes' own indices.
            Err(_) => self.prefixes.longest(&[address]).first().copied().unwrap_or(0),
        }
    }
}

/// Whose an address is: the content of its pod, and which set of node selectors matches its node. Both by rank, so
/// that owners are ordered as what they stand for.
type Owner = (Option<u32>, u32);

/// Every address with an owner, sorted, and the sets of node selectors; the first is the empty one.
fn owners(
    cluster: &Cluster,
    groups: &Groups<'_>,
    content: &PodContents,
    node_selectors: &[&Selector],
) -> (Vec<(IpAddr, Owner)>, Vec<Vec<u32>>) {
    let mut pods: Vec<(IpAddr, u32, GroupIndex)> = Vec::with_capacity(groups.pods.len());
    for (index, group) in groups.list.iter().enumerate() {
        for member in &group.members {
            let (_, pod) = groups.pods[*member as usize];
            pods.extend(pod.addresses.iter().map(|address| (*address, *member, number(index))));
        }
    }
    pods.sort_unstable();
    // Two policed pods with one address cannot both be right; the input says so, the first by name stands.
    pods.dedup_by_key(|(address, ..)| *address);
    let mut owners: Vec<(IpAddr, Owner)> = pods
        .into_iter()
        .map(|(address, _, group)| (address, (Some(content.of_group[group as usize]), 0)))
        .collect();

    let mut of_nodes: BTreeMap<IpAddr, Vec<u32>> = BTreeMap::new();
    for (index, selector) in node_selectors.iter().enumerate() {
        for node in cluster.nodes.values().filter(|node| selector.matches(&node.labels)) {
            for address in &node.addresses {
                let nodes = of_nodes.entry(*address).or_default();
                if nodes.last() != Some(&number(index)) {
                    nodes.push(number(index));
                }
            }
        }
    }
    let distinct: BTreeSet<Vec<u32>> = of_nodes.values().cloned().chain([Vec::new()]).collect();
    let sets: Vec<Vec<u32>> = distinct.into_iter().collect();
    let of_pods = owners.len();
    for (address, nodes) in of_nodes {
        let set = number(sets.binary_search(&nodes).unwrap_or_default());
        match owners[..of_pods].binary_search_by_key(&address, |(address, _)| *address) {
            Ok(index) => owners[index].1.1 = set,
            Err(_) => owners.push((address, (None, set))),
        }
    }
    owners.sort_unstable();
    (owners, sets)
}

/// The distinct pod contents, and which one each group has.
struct PodContents {
    list: Vec<PodContent>,
    of_group: Vec<u32>,
}

fn pod_contents(groups: &Groups<'_>, selectors: &[&PodSelector], egress_names: &[NameKey]) -> PodContents {
    let mut selected_by: Vec<Vec<u32>> = vec![Vec::new(); groups.list.len()];
    for (index, selector) in selectors.iter().enumerate() {
        for group in groups.select(selector) {
            selected_by[group as usize].push(number(index));
        }
    }
    let all: Vec<PodContent> = groups
        .list
        .iter()
        .zip(selected_by)
        .map(|(group, selectors)| PodContent { selectors, names: names_of(&group.named_ports, egress_names) })
        .collect();
    let order: BTreeSet<&PodContent> = all.iter().collect();
    let rank: HashMap<&PodContent, u32> =
        order.iter().enumerate().map(|(index, content)| (*content, number(index))).collect();
    let of_group = all.iter().map(|content| rank[content]).collect();
    let list = order.into_iter().cloned().collect();
    PodContents { list, of_group }
}

/// What the given port names resolve to on a pod; names that it lacks are left out. A name may give several
/// numbers: containers may repeat it.
pub(super) fn names_of(ports: &[&ContainerPort], names: &[NameKey]) -> Vec<(NameKey, Vec<u16>)> {
    names
        .iter()
        .filter_map(|(name, protocol)| {
            let mut numbers: Vec<u16> = ports
                .iter()
                .filter(|port| port.protocol == *protocol && port.name.as_deref() == Some(name))
                .map(|port| port.number)
                .collect();
            numbers.sort_unstable();
            numbers.dedup();
            (!numbers.is_empty()).then(|| ((Arc::clone(name), *protocol), numbers))
        })
        .collect()
}
