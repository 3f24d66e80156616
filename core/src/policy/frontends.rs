//! The addresses of Services as a node's pods meet them: what its proxy translates, and to which peer classes.
//!
//! A pod's packet to a Service is judged before it is translated, so the policy map must know where it may come out.
//! Invariant: the endpoints are those that the proxy of this node programs ([`crate::service::expected`]), or more where
//! it is not known what the proxy takes for a pod; what it does not translate (no endpoints, other ports, other
//! protocols, headless Services) is not listed and stays an ordinary address. The proxy and the caller may see a change
//! of endpoints seconds apart: the destination's own policies hold in any case.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;

use super::change::{Change, Frontend, FrontendTarget, PeerPrefix};
use crate::model::cluster::{Cluster, ObjectKey};
use crate::model::port::Protocol;
use crate::model::service::{AddressType, Service};
use crate::service::RouteKind;
use crate::service::expected::{ExpectedFrontend, ExpectedPort, expected, expected_of};

/// A node as Services depend on it.
#[derive(Clone, Copy, Debug)]
pub struct Site<'a> {
    /// The Services, their endpoints and the nodes.
    pub cluster: &'a Cluster,
    /// The node.
    pub node: &'a str,
    /// Addresses that the node has beside those of its object: node ports are reached by them too.
    pub addresses: &'a [IpAddr],
    /// See [`Change::wires`].
    pub wires: &'a [String],
}

impl Change {
    /// Adds the Services that the node's proxy translates. To be called once the pods and classes are there.
    #[must_use]
    pub fn serving(mut self, site: Site<'_>) -> Self {
        let classes = PeerClasses::new(&self.peers);
        let claimed: BTreeSet<IpAddr> = self.pods.iter().flat_map(|pod| pod.addresses.clone()).collect();
        let own = own_addresses(site);
        let on_node: BTreeSet<IpAddr> = site
            .cluster
            .pods
            .values()
            .filter(|pod| pod.node.as_deref() == Some(site.node))
            .flat_map(|pod| pod.addresses.iter().copied())
            .collect();
        // Behind a pod's own interface, or off the node by a known one.
        let has_hook = |address: &IpAddr| {
            claimed.contains(address)
                || !site.wires.is_empty() && !own.contains(address) && !on_node.contains(address)
        };
        self.services = translated(site)
            .into_iter()
            .map(|(key, translation)| {
                let deferrable = translation.endpoints.keys().all(|endpoint| has_hook(&endpoint.ip()));
                translation.frontend(key, deferrable, |address| classes.of(address))
            })
            .collect();
        self.wires = site.wires.to_vec();
        self
    }

    /// The peer class of an address; 0 only when a family's root is missing.
    pub fn class_of(&self, address: IpAddr) -> u32 {
        PeerClasses::new(&self.peers).of(address)
    }
}

/// The addresses of a node.
pub(super) fn own_addresses(site: Site<'_>) -> BTreeSet<IpAddr> {
    let of_object = site.cluster.nodes.get(site.node).into_iter().flat_map(|node| &node.addresses);
    of_object.chain(site.addresses).copied().collect()
}

/// What a packet is addressed to.
pub type Key = (IpAddr, u16, Protocol);

/// What a node's proxy makes of packets of its pods to one address and port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Translation {
    /// Whose the address is, as `namespace/name:port`: of several whose endpoints there are.
    pub service: String,
    /// Where they may come out, and of which Service that is.
    pub endpoints: BTreeMap<SocketAddr, String>,
    /// True when the endpoint sees an address of the node in place of the pod's.
    pub masquerades: bool,
}

impl Translation {
    fn add(&mut self, port: &ExpectedPort, frontend: &ExpectedFrontend) {
        // Which of two Services with one address is asked is chance ([`super::clash`]): either may be.
        let name = port.name.to_string();
        if self.service.is_empty() {
            self.service.clone_from(&name);
        }
        for endpoint in endpoints(port, frontend) {
            self.endpoints.entry(endpoint).or_insert_with(|| name.clone());
        }
        self.masquerades |= frontend.kind != RouteKind::ClusterIp && !port.policy.external_local;
    }

    /// As a row for backends.
    pub(super) fn frontend(
        self,
        (address, port, protocol): Key,
        deferrable: bool,
        class_of: impl Fn(IpAddr) -> u32,
    ) -> Frontend {
        let mut targets: BTreeMap<(u32, u16), Vec<IpAddr>> = BTreeMap::new();
        for endpoint in self.endpoints.keys() {
            targets.entry((class_of(endpoint.ip()), endpoint.port())).or_default().push(endpoint.ip());
        }
        let targets = targets
            .into_iter()
            .map(|((peer_class, port), endpoints)| FrontendTarget { peer_class, port, endpoints })
            .collect();
        Frontend { address, port, protocol, service: self.service, targets, deferrable }
    }
}

/// Everything that the node's proxy translates.
fn translated(site: Site<'_>) -> BTreeMap<Key, Translation> {
    let own = own_addresses(site);
    let mut found: BTreeMap<Key, Translation> = BTreeMap::new();
    for family in [AddressType::Ipv4, AddressType::Ipv6] {
        for port in expected(site.cluster, site.node, family) {
            for frontend in port.frontends.iter().filter(|frontend| !endpoints(&port, frontend).is_empty()) {
                let addresses: Vec<IpAddr> = match frontend.key.address {
                    Some(address) => vec![address],
                    None => own.iter().filter(|ip| AddressType::of(**ip) == family).copied().collect(),
                };
                for address in addresses {
                    let key = (address, frontend.key.port, frontend.key.protocol);
                    found.entry(key).or_default().add(&port, frontend);
                }
            }
        }
    }
    found
}

/// What the proxy of a site makes of one address and port; `None` when it leaves packets as they are.
pub fn translation(site: Site<'_>, address: IpAddr, port: u16, protocol: Protocol) -> Option<Translation> {
    let is_own = own_addresses(site).contains(&address);
    let may_be = |service: &Service| service.port_at((address, is_own), port, protocol).is_some();
    let mut found = Translation::default();
    for (key, _) in site.cluster.services.iter().filter(|(_, service)| may_be(service)) {
        for expected in expected_of(site.cluster, key, site.node, AddressType::of(address)) {
            let is_it = |frontend: &&ExpectedFrontend| {
                frontend.key.port == port
                    && frontend.key.protocol == protocol
                    && frontend.key.address.map_or(is_own, |ip| ip == address)
            };
            for frontend in expected.frontends.iter().filter(is_it) {
                if !endpoints(&expected, frontend).is_empty() {
                    found.add(&expected, frontend);
                }
            }
        }
    }
    (!found.endpoints.is_empty()).then_some(found)
}

/// The Service that every node's proxy serves at this port of its own; without a protocol, at any.
pub fn node_port(cluster: &Cluster, port: u16, protocol: Option<Protocol>) -> Option<&ObjectKey> {
    let has_it = |service: &Service| {
        let mut ports = service.ports.iter().filter(|one| one.node_port == Some(port));
        ports.any(|one| protocol.is_none_or(|wanted| wanted == one.protocol))
    };
    cluster.services.iter().find(|(_, service)| has_it(service)).map(|(key, _)| key)
}

/// The Service whose balancer ends connections to this address itself, and opens others to the Service.
pub(super) fn proxying_balancer(
    cluster: &Cluster,
    address: IpAddr,
    port: u16,
    protocol: Protocol,
) -> Option<&ObjectKey> {
    let has_it = |service: &Service| {
        service.proxying_balancer_ips.contains(&address) && service.has_port(port, protocol)
    };
    cluster.services.iter().find(|(_, service)| has_it(service)).map(|(key, _)| key)
}

/// Where pods of the node come out that ask by this address.
fn endpoints(port: &ExpectedPort, frontend: &ExpectedFrontend) -> BTreeSet<SocketAddr> {
    if frontend.kind == RouteKind::ClusterIp {
        return port.endpoints(frontend.action).iter().copied().collect();
    }
    // Pods are spread over the endpoints of the cluster whatever the policy, if the proxy was told whose addresses are
    // pods'; else they are treated as clients outside.
    port.cluster.iter().chain(&port.local).copied().collect()
}

/// The peer classes of a change, by address.
struct PeerClasses {
    exact: BTreeMap<IpAddr, u32>,
    /// The longest first.
    prefixes: Vec<(IpNet, u32)>,
}

impl PeerClasses {
    fn new(peers: &[PeerPrefix]) -> Self {
        let mut classes = Self { exact: BTreeMap::new(), prefixes: Vec::new() };
        for peer in peers {
            match IpNet::new(peer.address, peer.length) {
                Ok(net) if net.prefix_len() == net.max_prefix_len() => {
                    classes.exact.insert(peer.address, peer.class);
                }
                Ok(net) => classes.prefixes.push((net, peer.class)),
                Err(_) => {}
            }
        }
        classes.prefixes.sort_by_key(|(net, _)| std::cmp::Reverse(net.prefix_len()));
        classes
    }

    /// 0, which is nobody's, only when a family's root is missing.
    fn of(&self, address: IpAddr) -> u32 {
        self.exact.get(&address).copied().unwrap_or_else(|| {
            let longest = self.prefixes.iter().find(|(net, _)| net.contains(&address));
            longest.map_or(0, |(_, class)| *class)
        })
    }
}
