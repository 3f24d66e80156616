//! A cluster to build: two nodes, pods on both, one of them on the host network, one with an odd address.

use std::net::IpAddr;

use netlab_core::model::cluster::{Cluster, Node, ObjectKey, Pod};
use netlab_lab::{Lab, Place, Plan, Selection};

/// An address outside of the cluster.
pub(crate) const OUTSIDE_V4: &str = "203.0.113.9";
pub(crate) const OUTSIDE_V6: &str = "2001:db8:ffff::9";

/// Which addresses the objects have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Families {
    V4,
    V6,
    Both,
}

impl Families {
    fn pick(self, v4: &str, v6: &str) -> Vec<IpAddr> {
        match self {
            Self::V4 => vec![ip(v4)],
            Self::V6 => vec![ip(v6)],
            Self::Both => vec![ip(v4), ip(v6)],
        }
    }
}

pub(crate) fn ip(text: &str) -> IpAddr {
    text.parse().expect("address")
}

pub(crate) fn key(name: &str) -> ObjectKey {
    ObjectKey::new("shop", name)
}

pub(crate) fn pod(name: &str) -> Place {
    Place::Pod(key(name))
}

pub(crate) fn node(name: &str) -> Place {
    Place::Node(name.to_owned())
}

pub(crate) fn cluster(families: Families) -> Cluster {
    let mut cluster = Cluster::default();
    for (name, v4, v6) in [("node-1", "172.18.0.2", "fc00:18::2"), ("node-2", "172.18.0.3", "fc00:18::3")] {
        let addresses = families.pick(v4, v6);
        cluster.nodes.insert(name.to_owned(), Node { addresses, ..Node::default() });
    }
    for (name, node, v4, v6) in [
        ("web", "node-1", "10.244.1.5", "fd00:1::5"),
        ("api", "node-1", "10.244.1.6", "fd00:1::6"),
        ("db", "node-2", "10.244.2.7", "fd00:2::7"),
        // A public resolver's address, as some manifests have it.
        ("odd", "node-2", "8.8.8.8", "2001:4860:4860::8888"),
    ] {
        let addresses = families.pick(v4, v6);
        let pod = Pod { addresses, node: Some(node.to_owned()), ..Pod::default() };
        cluster.pods.insert(key(name), pod);
    }
    let host = Pod {
        addresses: families.pick("172.18.0.3", "fc00:18::3"),
        node: Some("node-2".to_owned()),
        host_network: true,
        ..Pod::default()
    };
    cluster.pods.insert(key("agent"), host);
    cluster
}

pub(crate) fn plan(families: Families) -> Plan {
    let mut selection = Selection::everything();
    for address in families.pick(OUTSIDE_V4, OUTSIDE_V6) {
        selection = selection.and_external(address);
    }
    Plan::new(&cluster(families), &selection).expect("plan")
}

pub(crate) fn lab(families: Families) -> Lab {
    Lab::build(&plan(families)).expect("build")
}

/// The address of a place in a family.
pub(crate) fn address(lab: &Lab, place: &Place, ipv6: bool) -> IpAddr {
    *lab.plan()
        .addresses_of(place)
        .iter()
        .find(|address| address.is_ipv6() == ipv6)
        .unwrap_or_else(|| panic!("{place} has no such address"))
}
