//! The place of a proof: the part of the cluster that a packet crosses, as namespaces.
//!
//! Invariant: a place is held by file descriptors alone; dropping it, or the end of the process by whatever
//! signal, removes everything. It knows who is where, not what is allowed.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use netlab_core::model::cluster::{Cluster, ObjectKey};
use netlab_core::policy::Rulesets;
use netlab_core::policy::change::Change;
use netlab_core::policy::frontends::Site;
use netlab_core::policy::query::{End, Pair, policed_pod};
use netlab_ebpf::abi::Direction;
use netlab_lab::proxy::{self, ProxyMode};
use netlab_lab::{Lab, Place as LabPlace, Plan, Selection};

use super::error::ProveError;

/// The namespaces for some pairs.
pub(super) fn build(cluster: &Cluster, pairs: &[Pair]) -> Result<Lab, ProveError> {
    let mut pods: BTreeSet<ObjectKey> = BTreeSet::new();
    let mut nodes: BTreeSet<String> = BTreeSet::new();
    let mut external: BTreeSet<IpAddr> = BTreeSet::new();
    for pair in pairs {
        for (end, address) in [(&pair.from, pair.tuple.source), (&pair.to, pair.tuple.destination)] {
            match who(cluster, end, address) {
                Who::Pod(key) => _ = pods.insert(key),
                Who::Node(name) => _ = nodes.insert(name),
                Who::External => _ = external.insert(address),
            }
        }
    }
    for via in pairs.iter().filter_map(|pair| pair.via.as_ref()) {
        nodes.extend(cluster.nodes.contains_key(&via.node).then(|| via.node.clone()));
    }
    let selection = Selection { pods: Some(pods), nodes: Some(nodes), external };
    let plan = Plan::new(cluster, &selection).map_err(netlab_lab::LabError::from)?;
    Ok(Lab::build(&plan)?)
}

/// Where an end is in the lab.
pub(super) fn place_of(cluster: &Cluster, end: &End, address: IpAddr) -> LabPlace {
    match who(cluster, end, address) {
        Who::Pod(key) => LabPlace::Pod(key),
        Who::Node(name) => LabPlace::Node(name),
        Who::External => LabPlace::Fabric,
    }
}

enum Who {
    Pod(ObjectKey),
    Node(String),
    External,
}

fn who(cluster: &Cluster, end: &End, address: IpAddr) -> Who {
    if let Some(key) = policed_pod(cluster, end) {
        return Who::Pod(key);
    }
    match end {
        End::Pod(key) => match cluster.pods.get(key).and_then(|pod| pod.node.clone()) {
            Some(node) => Who::Node(node),
            None => Who::External,
        },
        End::Node(name) => Who::Node(name.clone()),
        End::Address(_) => cluster
            .nodes
            .iter()
            .find(|(_, node)| node.addresses.contains(&address))
            .map_or(Who::External, |(name, _)| Who::Node(name.clone())),
    }
}

/// One hook on a pair's way: the pod, its node, and how the packet comes to it.
#[derive(Clone, Debug)]
pub(super) struct HookSite {
    pub(super) direction: Direction,
    pub(super) pod: ObjectKey,
    pub(super) node: String,
    pub(super) ifindex: u32,
    /// The interface by which the packet entered the node; 0 when the node sent it.
    pub(super) ingress_ifindex: u32,
    /// The interface at which a deferred verdict falls.
    pub(super) deferred_ifindex: u32,
}

/// The hooks of a pair: source egress, destination ingress.
pub(super) fn hooks(cluster: &Cluster, lab: &Lab, pair: &Pair) -> Result<[Option<HookSite>; 2], ProveError> {
    let from = policed_pod(cluster, &pair.from);
    let to = policed_pod(cluster, &pair.to);
    if from.is_some() && from == to && pair.via.is_none() {
        return Ok([None, None]);
    }
    let egress = match &from {
        Some(key) => {
            let interface = lab.host_interface(key)?;
            let same_node = match &to {
                Some(to) => Some(lab.host_interface(to)?).filter(|there| there.node == interface.node),
                None => None,
            };
            let deferred_ifindex = match same_node {
                Some(there) => there.index,
                None => lab.uplink(&interface.node)?,
            };
            Some(HookSite {
                deferred_ifindex,
                direction: Direction::Egress,
                pod: key.clone(),
                node: interface.node.clone(),
                ifindex: interface.index,
                ingress_ifindex: interface.index,
            })
        }
        None => None,
    };
    let ingress = match &to {
        Some(key) => {
            let interface = lab.host_interface(key)?;
            let node = interface.node.clone();
            let source = place_of(cluster, &pair.from, pair.tuple.source);
            let ingress_ifindex = match (&egress, lab.plan().node_of(&source)) {
                (Some(egress), Some(source_node)) if source_node == node => egress.ifindex,
                (None, Some(source_node)) if source_node == node => 0,
                _ => lab.uplink(&node)?,
            };
            Some(HookSite {
                deferred_ifindex: interface.index,
                direction: Direction::Ingress,
                pod: key.clone(),
                node,
                ifindex: interface.index,
                ingress_ifindex,
            })
        }
        None => None,
    };
    Ok([egress, ingress])
}

/// The change for a node of the lab: its pods, and what its proxy translates for them.
pub(super) fn change(
    cluster: &Cluster,
    lab: &Lab,
    rulesets: &Rulesets,
    node: &str,
    interfaces: &BTreeMap<ObjectKey, String>,
) -> Change {
    let change = rulesets.change(1, |key| interfaces.get(key).cloned());
    let place = LabPlace::Node(node.to_owned());
    let addresses = lab.plan().own_addresses(&place);
    let wires = lab.plan().wires(node);
    change.serving(Site { cluster, node, addresses: &addresses, wires: &wires })
}

/// Has a node's proxy lead the Service of a pair to the pair's endpoint, and to no other: which it chooses is chance.
pub(super) fn lead(cluster: &Cluster, lab: &Lab, pair: &Pair, mode: ProxyMode) -> Result<(), ProveError> {
    let Some(via) = &pair.via else { return Ok(()) };
    let endpoint = SocketAddr::new(pair.tuple.destination, pair.tuple.destination_port);
    let only = proxy::Only { service: &via.service, endpoint, asked: SocketAddr::new(via.address, via.port) };
    Ok(proxy::program_node(lab, cluster, &via.node, mode, Some(only))?)
}

/// The interfaces of each node's pods, by node.
pub(super) fn interfaces(lab: &Lab) -> BTreeMap<String, BTreeMap<ObjectKey, String>> {
    let mut by_node: BTreeMap<String, BTreeMap<ObjectKey, String>> = BTreeMap::new();
    for (key, interface) in lab.host_interfaces() {
        by_node.entry(interface.node.clone()).or_default().insert(key.clone(), interface.name.clone());
    }
    by_node
}
