//! What a node's proxy should have for each service port, in no proxy's own words.
//!
//! Invariant: it follows from the cluster and the node alone ([`super::select`]); both proxy modes are written from it
//! and compared with it. One family at a time, as a proxy works. Source: `pkg/proxy/iptables/proxier.go`
//! `syncProxyRules`, 1.36.

use std::net::{IpAddr, SocketAddr};

use super::endpoints::{not_proxied, topology, traffic_policy};
use super::select::{NodeTopology, Outcome, Selection, TrafficPolicy, select};
use super::slices::{self, ByService, ENDPOINTS_PER_SLICE, Slices};
use super::{RouteKind, ServicePortName, backends};
use crate::model::cluster::{Cluster, Node, ObjectKey};
use crate::model::port::Protocol;
use crate::model::service::{AddressType, Service, ServicePort, ServiceType};
use ipnet::IpNet;

/// A service port as its node's proxy should have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpectedPort {
    /// The key.
    pub name: ServicePortName,
    /// The family.
    pub family: AddressType,
    /// Endpoints of the whole cluster, as narrowed; empty when no traffic may go there.
    pub cluster: Vec<SocketAddr>,
    /// Endpoints of the node; empty when no traffic must stay there.
    pub local: Vec<SocketAddr>,
    /// Endpoints of the node among all that the rules hold: those that may ask the Service themselves (hairpin).
    pub on_node: Vec<SocketAddr>,
    /// Those of them that listen at an address of the node itself, as pods with its network do.
    pub on_host: Vec<SocketAddr>,
    /// The node's own addresses of the family, as far as the input gives them.
    pub addresses: Vec<IpAddr>,
    /// Endpoints that answer wherever they are, ready or not: connections to others lead nowhere.
    pub answering: Vec<SocketAddr>,
    /// Endpoints whose pods are ending.
    pub ending: Vec<SocketAddr>,
    /// All ports of the Service, in their order.
    pub siblings: Vec<(u16, Protocol)>,
    /// Addresses by which it is asked.
    pub frontends: Vec<ExpectedFrontend>,
    /// Which traffic stays on the node.
    pub policy: TrafficPolicy,
    /// Seconds for which a client stays with an endpoint.
    pub affinity: Option<u32>,
    /// Who may come to a balancer's address, each network once; empty for all.
    pub source_ranges: Vec<IpNet>,
    /// The node's port at which balancers ask whether it has endpoints.
    pub health_check: Option<u16>,
}

/// An address by which a service port is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ExpectedFrontend {
    /// Which kind.
    pub kind: RouteKind,
    /// The key.
    pub key: FrontendKey,
    /// What happens to packets.
    pub action: Action,
}

/// What packets are addressed to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FrontendKey {
    /// The address; `None` for any of the node's own.
    pub address: Option<IpAddr>,
    /// The port.
    pub port: u16,
    /// The protocol.
    pub protocol: Protocol,
}

impl std::fmt::Display for FrontendKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.address {
            Some(address) => write!(f, "{}", SocketAddr::new(address, self.port)),
            None => write!(f, "node port {}", self.port),
        }
    }
}

/// What happens to packets of clients for whom the policy counts: all for a cluster IP, those outside for the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    /// Spread over the endpoints of the cluster.
    Cluster,
    /// Spread over the endpoints of the node.
    Local,
    /// Refused: nothing answers anywhere.
    Refuse,
    /// Dropped: something answers, but not here.
    Drop,
}

impl ExpectedPort {
    /// The endpoints to which an action leads.
    #[must_use]
    pub fn endpoints(&self, action: Action) -> &[SocketAddr] {
        match action {
            Action::Cluster => &self.cluster,
            Action::Local => &self.local,
            Action::Refuse | Action::Drop => &[],
        }
    }

    /// True when the rules hold any endpoint.
    #[must_use]
    pub const fn has_endpoints(&self) -> bool {
        !self.cluster.is_empty() || !self.local.is_empty()
    }

    /// Addresses of balancers, which a proxy also admits as sources where a source range has the node's address: the
    /// node's own packets may come from there (`allowFromNode` in both proxies). `None` where nobody can say: the
    /// node's address is not known, or it has some within the ranges and some outside of them.
    #[must_use]
    pub fn admits_balancers(&self) -> Option<bool> {
        let within = |ip: &IpAddr| self.source_ranges.iter().any(|range| range.contains(ip));
        let count = self.addresses.iter().filter(|ip| within(ip)).count();
        match count {
            _ if self.addresses.is_empty() => None,
            0 => Some(false),
            count if count == self.addresses.len() => Some(true),
            _ => None,
        }
    }

    /// The addresses of balancers.
    pub fn balancers(&self) -> impl Iterator<Item = IpAddr> + '_ {
        let balanced = self.frontends.iter().filter(|frontend| frontend.kind == RouteKind::LoadBalancer);
        balanced.filter_map(|frontend| frontend.key.address)
    }
}

/// What a node's proxy should have in one family, by service port.
#[must_use]
pub fn expected(cluster: &Cluster, node: &str, family: AddressType) -> Vec<ExpectedPort> {
    let (topology, own) = (topology(cluster, node), cluster.nodes.get(node));
    let slices = ByService::new(cluster);
    let proxied = cluster.services.iter().filter(|(_, service)| not_proxied(service).is_none());
    let mut ports: Vec<ExpectedPort> = proxied
        .flat_map(|(key, service)| {
            let slices = || slices.of(key, service, ENDPOINTS_PER_SLICE);
            of_service(slices, key, service, (&topology, own), family)
        })
        .collect();
    ports.sort_by(|a, b| a.name.cmp(&b.name));
    ports
}

/// The same for the ports of one Service; none when the proxies do nothing for it.
#[must_use]
pub fn expected_of(cluster: &Cluster, key: &ObjectKey, node: &str, family: AddressType) -> Vec<ExpectedPort> {
    let proxied = cluster.services.get(key).filter(|service| not_proxied(service).is_none());
    let (topology, own) = (topology(cluster, node), cluster.nodes.get(node));
    let of = |service| {
        let slices = || slices::of(cluster, key, service, ENDPOINTS_PER_SLICE);
        of_service(slices, key, service, (&topology, own), family)
    };
    proxied.map(of).unwrap_or_default()
}

fn of_service<'a>(
    slices: impl FnOnce() -> Slices<'a>,
    key: &ObjectKey,
    service: &Service,
    (node, own): (&NodeTopology, Option<&Node>),
    family: AddressType,
) -> Vec<ExpectedPort> {
    let Some(cluster_ip) = service.cluster_ips.iter().find(|ip| AddressType::of(**ip) == family) else {
        return Vec::new();
    };
    let slices = slices().for_proxy();
    let listens = own.map_or(&[][..], |node| &node.addresses);
    // Addresses that were chosen for a node without any say nothing about its proxy's rules.
    let known = own.filter(|node| !node.synthetic_addresses).map_or(&[][..], |node| &node.addresses);
    let known: Vec<IpAddr> = known.iter().filter(|ip| AddressType::of(**ip) == family).copied().collect();
    let port = |port: &ServicePort| {
        let (backends, _) = backends(&slices, port, family);
        let policy = traffic_policy(service, port.node_port, family);
        let selection = select(policy, &backends, node);
        let here = |address: &&SocketAddr| {
            backends.iter().any(|one| one.address == **address && one.node.as_deref() == Some(&*node.name))
        };
        ExpectedPort {
            name: ServicePortName::new(key, port),
            family,
            on_host: selection.reachable.iter().filter(|to| listens.contains(&to.ip())).copied().collect(),
            addresses: known.clone(),
            on_node: selection.reachable.iter().filter(here).copied().collect(),
            answering: backends
                .iter()
                .filter(|one| one.serving || one.ready)
                .map(|one| one.address)
                .collect(),
            ending: backends.iter().filter(|one| one.terminating).map(|one| one.address).collect(),
            siblings: service.ports.iter().map(|port| (port.port, port.protocol)).collect(),
            frontends: frontends(service, port, *cluster_ip, policy, &selection),
            cluster: selection.cluster,
            local: selection.local,
            policy,
            affinity: service.affinity,
            source_ranges: ranges(service, family),
            // `NeedsHealthCheck` of pkg/api/v1/service.
            health_check: service
                .health_check_node_port
                .filter(|_| service.service_type == ServiceType::LoadBalancer && service.external_local),
        }
    };
    service.ports.iter().map(port).collect()
}

/// A range may be written with bits of a host, and twice: proxies read networks (`pkg/proxy/util` `parseCIDR`).
fn ranges(service: &Service, family: AddressType) -> Vec<IpNet> {
    let mut ranges: Vec<IpNet> = Vec::new();
    for range in service.source_ranges_of(family).iter().map(IpNet::trunc) {
        if !ranges.contains(&range) {
            ranges.push(range);
        }
    }
    ranges
}

fn frontends(
    service: &Service,
    port: &ServicePort,
    cluster_ip: IpAddr,
    policy: TrafficPolicy,
    selection: &Selection,
) -> Vec<ExpectedFrontend> {
    let action = |outcome: Outcome<'_>, local: bool| match outcome {
        Outcome::Spread(_) if local => Action::Local,
        Outcome::Spread(_) => Action::Cluster,
        Outcome::Refused => Action::Refuse,
        Outcome::Dropped => Action::Drop,
    };
    let internal = action(selection.internal(policy), policy.internal_local);
    let external = action(selection.external(policy), policy.external_local);
    let frontend = |kind, address, port_number, action| ExpectedFrontend {
        kind,
        key: FrontendKey { address, port: port_number, protocol: port.protocol },
        action,
    };
    let same = |ip: &&IpAddr| ip.is_ipv4() == cluster_ip.is_ipv4();
    let external_at = |kind: RouteKind| move |ip: &IpAddr| frontend(kind, Some(*ip), port.port, external);
    let mut frontends = vec![frontend(RouteKind::ClusterIp, Some(cluster_ip), port.port, internal)];
    frontends.extend(service.external_ips.iter().filter(same).map(external_at(RouteKind::ExternalIp)));
    frontends.extend(service.load_balancer_ips.iter().filter(same).map(external_at(RouteKind::LoadBalancer)));
    frontends.extend(port.node_port.map(|number| frontend(RouteKind::NodePort, None, number, external)));
    frontends
}
