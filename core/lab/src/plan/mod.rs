//! What a lab will hold, worked out before anything is touched.
//!
//! A star: the *fabric* namespace joins the nodes, each node joins its pods. Every pod has its addresses as /32
//! and /128 and one default route to a link-local gateway on its node's end of the veth, as routed CNIs do it, so
//! any address that a manifest gives works, whatever range it is in. Neighbours are permanent: no ARP and no
//! neighbour discovery delays or multiplies a packet.
//!
//! Invariant: the plan is a pure function of cluster and selection (names and hardware addresses come from
//! hashes), and it is the only source of both [`crate::Lab::build`] and [`mod@crate::print`].

mod layout;
pub(crate) mod naming;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::IpNet;
use netlab_core::model::cluster::{Cluster, ObjectKey};
use netlab_node::netlink::{Mac, Scope};
use netlab_node::sysctl::Sysctl;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::place::Place;

/// Which part of a cluster takes part.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// These pods; `None` means every pod that has an address and still runs.
    pub pods: Option<BTreeSet<ObjectKey>>,
    /// These nodes beside those of the pods; `None` means every node.
    pub nodes: Option<BTreeSet<String>>,
    /// Addresses outside the cluster, which the fabric bears.
    pub external: BTreeSet<IpAddr>,
}

impl Selection {
    /// The whole cluster.
    pub fn everything() -> Self {
        Self::default()
    }

    /// These pods, and the nodes that they need.
    pub fn pods(pods: impl IntoIterator<Item = ObjectKey>) -> Self {
        Self {
            pods: Some(pods.into_iter().collect()),
            nodes: Some(BTreeSet::new()),
            external: BTreeSet::new(),
        }
    }

    /// This node too.
    #[must_use]
    pub fn and_node(mut self, name: impl Into<String>) -> Self {
        self.nodes.get_or_insert_default().insert(name.into());
        self
    }

    /// This address too, outside the cluster.
    #[must_use]
    pub fn and_external(mut self, address: IpAddr) -> Self {
        self.external.insert(address);
        self
    }
}

/// A lab on paper.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Every namespace: the fabric first, then nodes, then pods, each sorted.
    pub namespaces: Vec<NamespacePlan>,
    /// Every veth pair. `here` is the end nearer to the fabric.
    pub veths: Vec<VethPlan>,
    /// hostNetwork pods and the node whose namespace they share.
    pub host_network: Vec<(Place, Place)>,
    /// The addresses of each place, those of the node for a hostNetwork pod, the preferred one first.
    pub addresses: Vec<(Place, Vec<IpAddr>)>,
}

/// One namespace and what is configured in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamespacePlan {
    /// Whose it is.
    pub place: Place,
    /// How [`mod@crate::print`] names it.
    pub name: String,
    /// Values below `/proc/sys/net`, in the order in which they are written, before any link is there.
    pub sysctls: Vec<Sysctl>,
    /// Addresses, after the links are up.
    pub addresses: Vec<AddressPlan>,
    /// Permanent neighbours.
    pub neighbours: Vec<NeighbourPlan>,
    /// Routes, last.
    pub routes: Vec<RoutePlan>,
}

/// An address on a link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddressPlan {
    /// The link's name.
    pub interface: String,
    /// Address and prefix length.
    pub address: IpNet,
    /// Its scope.
    pub scope: Scope,
}

/// A permanent neighbour.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NeighbourPlan {
    /// The link's name.
    pub interface: String,
    /// Its address.
    pub address: IpAddr,
    /// Its hardware address.
    pub mac: Mac,
}

/// A route of the main table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoutePlan {
    /// The outgoing link's name.
    pub interface: String,
    /// The destination.
    pub destination: IpNet,
    /// The next hop, which is always on the link.
    pub via: Option<IpAddr>,
    /// The preferred source.
    pub source: Option<IpAddr>,
}

/// A veth pair.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VethPlan {
    /// The end nearer to the fabric: the node's end of a pod's link.
    pub here: EndPlan,
    /// The other end, always named `eth0`.
    pub there: EndPlan,
}

/// One end of a veth pair.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndPlan {
    /// In which namespace.
    pub place: Place,
    /// The link's name.
    pub name: String,
    /// Its hardware address.
    pub mac: Mac,
}

/// Why a cluster cannot be laid out.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PlanError {
    /// The cluster has no such pod.
    #[error("the cluster has no pod {pod}")]
    UnknownPod {
        /// Which.
        pod: ObjectKey,
    },
    /// The cluster has no such node.
    #[error("the cluster has no node {node}")]
    UnknownNode {
        /// Which.
        node: String,
    },
    /// A pod without an address, or one that is done, has no place in a network.
    #[error("pod {pod} cannot take part: {reason}")]
    NotRunning {
        /// Which.
        pod: ObjectKey,
        /// Why not.
        reason: &'static str,
    },
    /// Two places claim one address.
    #[error("{address} belongs to both {first} and {second}; give one of them another address")]
    AddressTaken {
        /// The address.
        address: IpAddr,
        /// Who had it.
        first: Place,
        /// Who wants it too.
        second: Place,
    },
    /// An address that no interface can bear.
    #[error("{place} cannot have the address {address}: it is {kind}")]
    UnusableAddress {
        /// The address.
        address: IpAddr,
        /// Who wants it.
        place: Place,
        /// What kind of address it is.
        kind: &'static str,
    },
}

impl Plan {
    /// Lays out the selected part of a cluster.
    pub fn new(cluster: &Cluster, selection: &Selection) -> Result<Self, PlanError> {
        layout::lay_out(cluster, selection)
    }

    /// The place whose namespace holds a place: itself, or the node of a hostNetwork pod.
    pub fn home<'a>(&'a self, place: &'a Place) -> &'a Place {
        self.host_network.iter().find(|(pod, _)| pod == place).map_or(place, |(_, node)| node)
    }

    /// The addresses of a place, the preferred one first.
    pub fn addresses_of(&self, place: &Place) -> &[IpAddr] {
        self.addresses.iter().find(|(owner, _)| owner == place).map_or(&[], |(_, addresses)| addresses)
    }

    /// Every address on the links of a place, those of its gateways included.
    pub fn own_addresses(&self, place: &Place) -> Vec<IpAddr> {
        let home = self.home(place);
        let own = self.namespaces.iter().filter(|namespace| namespace.place == *home);
        own.flat_map(|namespace| &namespace.addresses).map(|plan| plan.address.addr()).collect()
    }

    /// The links of a node that lead to no pod.
    pub fn wires(&self, node: &str) -> Vec<String> {
        let node = Place::Node(node.to_owned());
        let ends = self.veths.iter().flat_map(|veth| [(&veth.here, &veth.there), (&veth.there, &veth.here)]);
        let leading = ends.filter(|(near, far)| near.place == node && !matches!(far.place, Place::Pod(_)));
        leading.map(|(near, _)| near.name.clone()).collect()
    }

    /// The place that bears an address.
    pub fn place_of(&self, address: IpAddr) -> Option<&Place> {
        self.addresses
            .iter()
            .find(|(place, addresses)| addresses.contains(&address) && self.home(place) == place)
            .map(|(place, _)| place)
    }

    /// The node on which a pod runs, or the node itself.
    pub fn node_of<'a>(&'a self, place: &'a Place) -> Option<&'a str> {
        match self.home(place) {
            Place::Node(name) => Some(name),
            Place::Fabric => None,
            pod @ Place::Pod(_) => self.veths.iter().find(|veth| veth.there.place == *pod).and_then(|veth| {
                match &veth.here.place {
                    Place::Node(name) => Some(name.as_str()),
                    _ => None,
                }
            }),
        }
    }

    /// Every pod and node that can be a place in this lab, hostNetwork pods included, and the fabric.
    pub fn places(&self) -> BTreeMap<&Place, &[IpAddr]> {
        self.addresses.iter().map(|(place, addresses)| (place, addresses.as_slice())).collect()
    }
}
