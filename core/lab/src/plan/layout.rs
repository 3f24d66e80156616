//! From a cluster to a plan.
//!
//! Invariant: every address has one bearer; a family that nobody uses is switched off (IPv6) or left without an
//! address (IPv4), so that no stray packet of it appears.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use netlab_core::model::cluster::{Cluster, ObjectKey, Pod};
use netlab_node::netlink::{Mac, Scope};
use netlab_node::sysctl::Sysctl;

use super::naming::{self, LinkAddresses, LinkNames};
use super::{
    AddressPlan, EndPlan, NamespacePlan, NeighbourPlan, Plan, PlanError, RoutePlan, Selection, VethPlan,
};
use crate::place::Place;

/// The name of a pod's and a node's own link.
const UPLINK: &str = "eth0";
/// The node of pods that name none, where the cluster has no node either.
const INVENTED_NODE: &str = "node-1";
/// First addresses of nodes that no Node object describes; the ranges are those of local cluster tools.
const SPARE_NODE_V4: IpAddr = IpAddr::V4(Ipv4Addr::new(172, 18, 0, 2));
const SPARE_NODE_V6: IpAddr = IpAddr::V6(Ipv6Addr::new(0xfc00, 0xf853, 0xccd, 0xe793, 0, 0, 0, 2));

pub(super) fn lay_out(cluster: &Cluster, selection: &Selection) -> Result<Plan, PlanError> {
    let cast = Cast::new(cluster, selection)?;
    let mut builder = Builder::new(&cast);
    for (name, addresses) in &cast.nodes {
        builder.node(name, addresses);
    }
    for (key, (node, addresses)) in &cast.pods {
        builder.pod(key, node, addresses, cast.nodes.get(node).map_or(&[], Vec::as_slice));
    }
    Ok(builder.finish(&cast))
}

/// Who takes part.
struct Cast {
    nodes: BTreeMap<String, Vec<IpAddr>>,
    pods: BTreeMap<ObjectKey, (String, Vec<IpAddr>)>,
    host_network: BTreeMap<ObjectKey, String>,
    external: Vec<IpAddr>,
    used: BTreeSet<IpAddr>,
    has_ipv6: bool,
}

impl Cast {
    fn new(cluster: &Cluster, selection: &Selection) -> Result<Self, PlanError> {
        let mut cast = Self {
            nodes: BTreeMap::new(),
            pods: BTreeMap::new(),
            host_network: BTreeMap::new(),
            external: Vec::new(),
            used: BTreeSet::new(),
            has_ipv6: false,
        };
        let mut wanted_nodes: BTreeSet<String> = match &selection.nodes {
            Some(nodes) => nodes.clone(),
            None => cluster.nodes.keys().cloned().collect(),
        };
        for (key, pod) in select_pods(cluster, selection)? {
            let node = pod
                .node
                .clone()
                .or_else(|| cluster.nodes.keys().next().cloned())
                .unwrap_or_else(|| INVENTED_NODE.to_owned());
            wanted_nodes.insert(node.clone());
            if pod.host_network {
                cast.host_network.insert(key.clone(), node);
            } else {
                cast.pods.insert(key.clone(), (node, unique(&pod.addresses)));
            }
        }
        let invented: BTreeSet<&str> = cluster
            .pods
            .values()
            .filter_map(|pod| pod.node.as_deref())
            .chain([INVENTED_NODE])
            .filter(|name| !cluster.nodes.contains_key(*name))
            .collect();
        let mut owners: BTreeMap<IpAddr, Place> = BTreeMap::new();
        for name in wanted_nodes {
            let addresses = match cluster.nodes.get(&name) {
                Some(node) => unique(&node.addresses),
                None if invented.contains(name.as_str()) => Vec::new(),
                None => return Err(PlanError::UnknownNode { node: name }),
            };
            claim(&mut owners, &addresses, &Place::Node(name.clone()))?;
            cast.nodes.insert(name, addresses);
        }
        for (key, (_, addresses)) in &cast.pods {
            claim(&mut owners, addresses, &Place::Pod(key.clone()))?;
        }
        for address in &selection.external {
            // What somebody in the lab bears is not outside of it.
            if !owners.contains_key(address) {
                claim(&mut owners, &[*address], &Place::Fabric)?;
                cast.external.push(*address);
            }
        }
        cast.used = owners.into_keys().collect();
        cast.used.extend(cluster.pods.values().flat_map(|pod| pod.addresses.iter().copied()));
        cast.used.extend(cluster.nodes.values().flat_map(|node| node.addresses.iter().copied()));
        cast.give_addresses_to_invented_nodes(cluster);
        cast.has_ipv6 = cast
            .nodes
            .values()
            .chain(cast.pods.values().map(|(_, addresses)| addresses))
            .flatten()
            .chain(&cast.external)
            .any(IpAddr::is_ipv6);
        Ok(cast)
    }

    fn give_addresses_to_invented_nodes(&mut self, cluster: &Cluster) {
        let mut v4 = naming::spare(&self.used, SPARE_NODE_V4);
        let mut v6 = naming::spare(&self.used, SPARE_NODE_V6);
        let mut given = Vec::new();
        for (name, addresses) in &mut self.nodes {
            if !cluster.nodes.contains_key(name) {
                addresses.extend(v4.next());
                addresses.extend(v6.next());
                given.extend(addresses.iter().copied());
            }
        }
        drop((v4, v6));
        self.used.extend(given);
    }
}

fn select_pods<'a>(
    cluster: &'a Cluster,
    selection: &Selection,
) -> Result<Vec<(&'a ObjectKey, &'a Pod)>, PlanError> {
    let obstacle = |pod: &Pod| {
        if pod.terminal {
            Some("it has run to its end (status.phase)")
        } else if pod.addresses.is_empty() && !pod.host_network {
            Some("it has no address (status.podIPs)")
        } else {
            None
        }
    };
    let Some(wanted) = &selection.pods else {
        return Ok(cluster.pods.iter().filter(|(_, pod)| obstacle(pod).is_none()).collect());
    };
    wanted
        .iter()
        .map(|key| {
            let (key, pod) =
                cluster.pods.get_key_value(key).ok_or_else(|| PlanError::UnknownPod { pod: key.clone() })?;
            match obstacle(pod) {
                Some(reason) => Err(PlanError::NotRunning { pod: key.clone(), reason }),
                None => Ok((key, pod)),
            }
        })
        .collect()
}

fn unique(addresses: &[IpAddr]) -> Vec<IpAddr> {
    let mut seen = BTreeSet::new();
    addresses.iter().copied().filter(|address| seen.insert(*address)).collect()
}

fn claim(owners: &mut BTreeMap<IpAddr, Place>, addresses: &[IpAddr], place: &Place) -> Result<(), PlanError> {
    for &address in addresses {
        if let Some(kind) = unusable(address) {
            return Err(PlanError::UnusableAddress { address, place: place.clone(), kind });
        }
        if let Some(first) = owners.insert(address, place.clone()) {
            return Err(PlanError::AddressTaken { address, first, second: place.clone() });
        }
    }
    Ok(())
}

/// Addresses that the kernel gives to no interface, or treats as martian on the wire.
fn unusable(address: IpAddr) -> Option<&'static str> {
    match address {
        _ if address.is_unspecified() => Some("the unspecified address"),
        _ if address.is_loopback() => Some("a loopback address"),
        _ if address.is_multicast() => Some("a multicast address"),
        IpAddr::V4(v4) if v4.is_broadcast() => Some("the broadcast address"),
        IpAddr::V4(v4) if v4.octets()[0] == 0 => Some("in 0.0.0.0/8"),
        IpAddr::V6(v6) if v6.is_unicast_link_local() => Some("a link-local address"),
        IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some() => Some("an IPv4-mapped address"),
        _ => None,
    }
}

struct Builder {
    links: LinkAddresses,
    names: LinkNames,
    has_ipv6: bool,
    namespaces: BTreeMap<Place, NamespacePlan>,
    veths: Vec<VethPlan>,
    uplinks: BTreeMap<String, VethPlan>,
}

impl Builder {
    fn new(cast: &Cast) -> Self {
        let mut builder = Self {
            links: LinkAddresses::clear_of(&cast.used),
            names: LinkNames::default(),
            has_ipv6: cast.has_ipv6,
            namespaces: BTreeMap::new(),
            veths: Vec::new(),
            uplinks: BTreeMap::new(),
        };
        let fabric = builder.namespace(Place::Fabric, true);
        fabric.addresses.extend(cast.external.iter().map(|address| AddressPlan {
            interface: "lo".to_owned(),
            address: (*address).into(),
            scope: Scope::Global,
        }));
        builder
    }

    fn node(&mut self, name: &str, addresses: &[IpAddr]) {
        let place = Place::Node(name.to_owned());
        let veth = self.veth(Place::Fabric, place.clone());
        let (near, far) = (self.families(self.links.fabric), self.families(self.links.node));

        let node = self.namespace(place, true);
        for address in addresses {
            node.address(UPLINK, *address, Scope::Global);
        }
        for address in &far {
            node.address(UPLINK, *address, Scope::Link);
        }
        for gateway in &near {
            node.neighbour(UPLINK, *gateway, veth.here.mac);
            node.default_route(*gateway, addresses);
        }

        let fabric = self.namespace(Place::Fabric, true);
        for address in &near {
            fabric.address(&veth.here.name, *address, Scope::Link);
        }
        for address in addresses.iter().chain(&far) {
            fabric.neighbour(&veth.here.name, *address, veth.there.mac);
        }
        for address in addresses {
            fabric.route(&veth.here.name, *address, None, None);
        }
        self.uplinks.insert(name.to_owned(), veth.clone());
        self.veths.push(veth);
    }

    fn pod(&mut self, key: &ObjectKey, node: &str, addresses: &[IpAddr], node_addresses: &[IpAddr]) {
        let place = Place::Pod(key.clone());
        let node_place = Place::Node(node.to_owned());
        let veth = self.veth(node_place.clone(), place.clone());
        let near: Vec<IpAddr> = self
            .families(self.links.gateway)
            .into_iter()
            .filter(|gateway| addresses.iter().any(|address| same_family(*address, *gateway)))
            .collect();

        let pod = self.namespace(place, false);
        for address in addresses {
            pod.address(UPLINK, *address, Scope::Global);
        }
        for gateway in &near {
            pod.neighbour(UPLINK, *gateway, veth.here.mac);
            pod.default_route(*gateway, addresses);
        }

        let host = self.namespace(node_place, true);
        for address in &near {
            host.address(&veth.here.name, *address, Scope::Link);
        }
        for address in addresses {
            host.neighbour(&veth.here.name, *address, veth.there.mac);
            let source = node_addresses.iter().copied().find(|source| same_family(*source, *address));
            host.route(&veth.here.name, *address, None, source);
        }

        let far = self.links.node;
        if let Some(uplink) = self.uplinks.get(node).map(|uplink| uplink.here.name.clone()) {
            let fabric = self.namespace(Place::Fabric, true);
            for address in addresses {
                let via = far.into_iter().find(|hop| same_family(*hop, *address));
                fabric.route(&uplink, *address, via, None);
            }
        }
        self.veths.push(veth);
    }

    fn finish(self, cast: &Cast) -> Plan {
        let mut addresses = vec![(Place::Fabric, cast.external.clone())];
        addresses.extend(cast.nodes.iter().map(|(name, own)| (Place::Node(name.clone()), own.clone())));
        let mut pods: BTreeMap<&ObjectKey, Vec<IpAddr>> =
            cast.pods.iter().map(|(key, (_, own))| (key, own.clone())).collect();
        for (key, node) in &cast.host_network {
            pods.insert(key, cast.nodes.get(node).cloned().unwrap_or_default());
        }
        addresses.extend(pods.into_iter().map(|(key, own)| (Place::Pod(key.clone()), own)));
        Plan {
            namespaces: self.namespaces.into_values().collect(),
            veths: self.veths,
            host_network: cast
                .host_network
                .iter()
                .map(|(key, node)| (Place::Pod(key.clone()), Place::Node(node.clone())))
                .collect(),
            addresses,
        }
    }

    fn veth(&mut self, near: Place, far: Place) -> VethPlan {
        let name = self.names.towards(&far);
        let (here, there) = (naming::mac(&far, "near"), naming::mac(&far, "far"));
        VethPlan {
            here: EndPlan { place: near, name, mac: here },
            there: EndPlan { place: far, name: UPLINK.to_owned(), mac: there },
        }
    }

    /// Of a pair of addresses, those whose family is in use.
    fn families(&self, [v4, v6]: [IpAddr; 2]) -> Vec<IpAddr> {
        if self.has_ipv6 { vec![v4, v6] } else { vec![v4] }
    }

    fn namespace(&mut self, place: Place, forwards: bool) -> &mut NamespacePlan {
        let has_ipv6 = self.has_ipv6;
        self.namespaces.entry(place).or_insert_with_key(|place| NamespacePlan {
            place: place.clone(),
            name: naming::namespace(place),
            sysctls: sysctls(forwards, has_ipv6),
            addresses: Vec::new(),
            neighbours: Vec::new(),
            routes: Vec::new(),
        })
    }
}

impl NamespacePlan {
    fn address(&mut self, interface: &str, address: IpAddr, scope: Scope) {
        // A link-local IPv6 address needs its /64, or nothing on the link is reachable through it.
        let address = match address {
            IpAddr::V6(v6) if v6.is_unicast_link_local() => {
                IpNet::new(address, 64).unwrap_or_else(|_| address.into())
            }
            _ => address.into(),
        };
        self.addresses.push(AddressPlan { interface: interface.to_owned(), address, scope });
    }

    fn neighbour(&mut self, interface: &str, address: IpAddr, mac: Mac) {
        self.neighbours.push(NeighbourPlan { interface: interface.to_owned(), address, mac });
    }

    fn route(&mut self, interface: &str, to: IpAddr, via: Option<IpAddr>, source: Option<IpAddr>) {
        let interface = interface.to_owned();
        self.routes.push(RoutePlan { interface, destination: to.into(), via, source });
    }

    fn default_route(&mut self, via: IpAddr, own: &[IpAddr]) {
        let any = match via {
            IpAddr::V4(_) => IpNet::from(IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
            IpAddr::V6(_) => IpNet::from(IpAddr::V6(Ipv6Addr::UNSPECIFIED)),
        };
        let destination = IpNet::new(any.addr(), 0).unwrap_or(any);
        let source = own.iter().copied().find(|source| same_family(*source, via));
        self.routes.push(RoutePlan { interface: UPLINK.to_owned(), destination, via: Some(via), source });
    }
}

fn same_family(one: IpAddr, other: IpAddr) -> bool {
    one.is_ipv4() == other.is_ipv4()
}

/// What a namespace needs so that one packet sent is one packet seen: no reverse-path filter, no rate limit on
/// ICMP errors (by mask: a limit of 0 makes the kernel forget the tokens that errors for routes cost, and it then
/// drops one in a hundred; those stay at five and then one a second, `net.ipv4.route.error_*`), and IPv6 without duplicate detection and router solicitation, which take seconds.
fn sysctls(forwards: bool, has_ipv6: bool) -> Vec<Sysctl> {
    let mut list = vec![
        ("ipv4/conf/all/rp_filter", "0"),
        ("ipv4/conf/default/rp_filter", "0"),
        ("ipv4/icmp_ratemask", "0"),
    ];
    if forwards {
        list.push(("ipv4/ip_forward", "1"));
    }
    if has_ipv6 {
        list.extend([
            ("ipv6/conf/all/accept_dad", "0"),
            ("ipv6/conf/default/accept_dad", "0"),
            ("ipv6/conf/default/accept_ra", "0"),
            ("ipv6/conf/default/router_solicitations", "0"),
            ("ipv6/icmp/ratelimit", "0"),
        ]);
        if forwards {
            list.push(("ipv6/conf/all/forwarding", "1"));
        }
    } else {
        list.extend([("ipv6/conf/all/disable_ipv6", "1"), ("ipv6/conf/default/disable_ipv6", "1")]);
    }
    list.into_iter().map(|(name, value)| Sysctl::new(name, value)).collect()
}
