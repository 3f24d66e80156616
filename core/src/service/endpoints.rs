//! The answer of `netlab service endpoints`: what a node's proxy does with each port of a Service.
//!
//! Invariant: one entry per service port and address family; addresses are texts as the proxy sorts them; what was
//! assumed or left out is said in words, and nothing is concluded that [`super::select`] does not say.

use std::collections::BTreeSet;

use serde::Serialize;

use super::select::{Mode, NodeTopology, Outcome, Reason, Selection, TrafficPolicy, select};
use super::slices::{self, Slices, ZONE};
use super::{ServicePortName, backends, families};
use crate::model::cluster::{Cluster, ObjectKey};
use crate::model::service::{AddressType, IpFamilyPolicy, Service, ServicePort, ServiceType};

/// What of a Service is asked.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The Service.
    pub key: &'a ObjectKey,
    /// The same.
    pub service: &'a Service,
    /// `--max-endpoints-per-slice`, for slices that are predicted.
    pub per_slice: usize,
}

/// What the proxy of one node, or of each, does with a Service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceEndpoints {
    /// `namespace/name`.
    pub service: String,
    /// The slices that were read, or predicted.
    pub slices: Vec<String>,
    /// True when the input has no slice and these are what the controller would write.
    pub predicted: bool,
    /// What had to be assumed, in words.
    pub assumed: Vec<String>,
    /// Why proxies do nothing for it at all; null when they do.
    pub not_proxied: Option<String>,
    /// By node.
    pub nodes: Vec<NodeEndpoints>,
    /// What would have to be in the input for these answers to be final, in words.
    #[serde(skip)]
    pub not_examined: Vec<String>,
}

/// What one node's proxy does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeEndpoints {
    /// The node.
    pub node: String,
    /// Its zone.
    pub zone: Option<String>,
    /// By service port and family.
    pub ports: Vec<PortEndpoints>,
}

/// What one node's proxy does with one service port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PortEndpoints {
    /// `namespace/name`.
    pub service: String,
    /// The port's name; empty when it has none.
    pub port: String,
    /// TCP, UDP or SCTP.
    pub protocol: &'static str,
    /// IPv4 or IPv6.
    pub family: &'static str,
    /// For traffic that may go anywhere.
    pub cluster: Vec<String>,
    /// For traffic that must stay on the node; null when there is none such.
    pub local: Option<Vec<String>>,
    /// All that the node's rules hold.
    pub reachable: Vec<String>,
    /// How `cluster` was narrowed: all, zone or node; null when no traffic may go anywhere.
    pub mode: Option<Mode>,
    /// Why.
    pub reason: String,
    /// What becomes of packets to each kind of address.
    pub routes: Vec<Route>,
}

/// What becomes of packets to one kind of address of a service port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Route {
    /// Which kind.
    pub to: RouteKind,
    /// `address:port`; for node ports the port.
    pub address: String,
    /// spread, refused or dropped.
    pub outcome: &'static str,
    /// Over which, when spread.
    pub endpoints: Vec<String>,
    /// True when the endpoint sees the client's own address.
    pub keeps_client_address: bool,
    /// The only sources that may come by this address (`loadBalancerSourceRanges`): others are dropped, pods and nodes too;
    /// null when all may.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_ranges: Option<Vec<String>>,
}

/// The kinds of addresses of a service port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum RouteKind {
    /// The cluster IP.
    ClusterIp,
    /// A port of the node, from outside.
    NodePort,
    /// A balancer's address, from outside.
    LoadBalancer,
    /// An external IP, from outside.
    ExternalIp,
    /// Any of those from outside, asked by a pod of this node or the node itself, when that makes a difference.
    FromThisNode,
}

impl RouteKind {
    /// In words.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ClusterIp => "cluster IP",
            Self::NodePort => "node port",
            Self::LoadBalancer => "balancer",
            Self::ExternalIp => "external IP",
            Self::FromThisNode => "from here",
        }
    }
}

/// What decides which sets are wanted. A proxy keeps the external addresses of its own family alone
/// (`pkg/proxy/serviceport.go` `newBaseServiceInfo`).
pub(super) fn traffic_policy(
    service: &Service,
    node_port: Option<u16>,
    family: AddressType,
) -> TrafficPolicy {
    let any = |addresses: &[std::net::IpAddr]| addresses.iter().any(|ip| AddressType::of(*ip) == family);
    TrafficPolicy {
        internal_local: service.internal_local,
        // This asks for the type, and whether there are external IPs of any family (`ExternalPolicyLocal`).
        external_local: service.external_local
            && (service.service_type > ServiceType::ClusterIp || !service.external_ips.is_empty()),
        external: node_port.is_some()
            || service.gets_node_ports
            || any(&service.load_balancer_ips)
            || any(&service.external_ips),
    }
}

/// Why the cluster's proxies do nothing for a Service (`pkg/proxy/util/utils.go` `ShouldSkipService`).
#[must_use]
pub fn not_proxied(service: &Service) -> Option<String> {
    if service.service_type == ServiceType::ExternalName {
        let name = service.external_name.as_deref().unwrap_or("a name outside");
        Some(format!("it is of type ExternalName: DNS answers with {name}, and clients connect there"))
    } else if service.headless {
        Some(
            "it is headless: DNS answers with its endpoints, and clients connect to them directly".to_owned(),
        )
    } else {
        service.proxy_name.as_ref().map(|proxy| {
            format!("its label service.kubernetes.io/service-proxy-name gives it to another proxy, {proxy}")
        })
    }
}

/// The zone of a node.
pub(super) fn topology(cluster: &Cluster, node: &str) -> NodeTopology {
    let labels = cluster.nodes.get(node).map(|node| &node.labels);
    let zone = labels.and_then(|labels| labels.get(ZONE)).filter(|zone| !zone.is_empty()).cloned();
    NodeTopology { name: node.to_owned(), zone }
}

/// Asks for these nodes.
#[must_use]
pub fn endpoints(cluster: &Cluster, asked: Asked<'_>, nodes: &[String]) -> ServiceEndpoints {
    let Asked { key, service, per_slice } = asked;
    let slices = slices::of(cluster, key, service, per_slice).for_proxy();
    let mut assumed = slices.assumed.clone();
    let not_proxied = not_proxied(service);
    let families = families(cluster, service);
    let mut answers: Vec<NodeEndpoints> = Vec::new();
    for node in nodes.iter().filter(|_| not_proxied.is_none()) {
        let topology = topology(cluster, node);
        let mut ports = Vec::new();
        for family in &families {
            let family = *family;
            for port in &service.ports {
                let (backends, disputed) = backends(&slices, port, family);
                if !disputed.is_empty() && answers.is_empty() {
                    let name = ServicePortName::new(key, port);
                    assumed.push(format!(
                        "slices disagree about {} of {name}; the last slice by name was believed",
                        words(&disputed).join(", ")
                    ));
                }
                let policy = traffic_policy(service, port.node_port, family);
                let selection = select(policy, &backends, &topology);
                ports.push(PortEndpoints {
                    service: key.to_string(),
                    port: port.name.clone().unwrap_or_default(),
                    protocol: port.protocol.as_str(),
                    family: family.as_str(),
                    cluster: words(&selection.cluster),
                    local: policy.uses_local().then(|| words(&selection.local)),
                    reachable: words(&selection.reachable),
                    mode: policy.uses_cluster().then_some(selection.mode),
                    reason: reason((policy, &selection), &slices, port, family),
                    routes: routes(service, port, family, policy, &selection),
                });
            }
        }
        answers.push(NodeEndpoints { node: node.clone(), zone: topology.zone, ports });
    }
    if not_proxied.is_none() {
        let given =
            |family: &&AddressType| service.cluster_ips.iter().any(|ip| AddressType::of(*ip) == **family);
        let missing: Vec<&str> =
            families.iter().filter(|family| !given(family)).map(|family| family.as_str()).collect();
        if !missing.is_empty() {
            let chosen =
                service.ip_families.is_empty() && service.ip_family_policy == IpFamilyPolicy::SingleStack;
            let why = if chosen { " (ipFamilyPolicy SingleStack)" } else { "" };
            assumed.push(format!(
                "it has no {} cluster IP in the input; one was assumed{why}",
                missing.join(" and no ")
            ));
        }
    }
    if not_proxied.is_none() && service.selector.is_none() && slices.slices.is_empty() && has_slices(cluster)
    {
        let what =
            "it has no selector, and none of the slices in the input is its own: nobody has written one";
        assumed.push(what.to_owned());
    }
    ServiceEndpoints {
        service: key.to_string(),
        slices: slices.slices.keys().cloned().collect(),
        predicted: slices.predicted,
        assumed,
        not_proxied,
        nodes: answers,
        not_examined: unknown_slices(cluster, key, service)
            .into_iter()
            .chain(unknown_hints(cluster, key, service))
            .collect(),
    }
}

/// What has to be in the input for anything to be said of a Service, in words: no controller writes the slices of one
/// without a selector, so none can be predicted; `None` when nothing is missing.
#[must_use]
pub fn unknown_slices(cluster: &Cluster, key: &ObjectKey, service: &Service) -> Option<String> {
    // An input with slices of others would have its slices too.
    let unknown = service.selector.is_none()
        && not_proxied(service).is_none()
        && !has_slices(cluster)
        && slices::of(cluster, key, service, slices::ENDPOINTS_PER_SLICE).slices.is_empty();
    unknown.then(|| {
        format!(
            "endpoint slices of {key}: it has no selector, so not the controller but somebody else writes them, and \
             the input has none"
        )
    })
}

/// That hints which the controller writes in proportion to CPUs are not predicted, in words; `None` where the slices are
/// given, and where it writes none: for fewer than two zones or endpoints (`topologycache/topologycache.go`).
#[must_use]
pub fn unknown_hints(cluster: &Cluster, key: &ObjectKey, service: &Service) -> Option<String> {
    if !service.topology_auto || not_proxied(service).is_some() {
        return None;
    }
    let slices = slices::of(cluster, key, service, slices::ENDPOINTS_PER_SLICE);
    let ready = |family| {
        let of_family = slices.slices.values().filter(move |slice| slice.address_type == family);
        of_family.flat_map(|slice| &slice.endpoints).filter(|endpoint| endpoint.ready).count()
    };
    let nodes = || cluster.nodes.values().filter(|node| node.declared);
    let zones: BTreeSet<&String> = nodes().filter_map(|node| node.labels.get(ZONE)).collect();
    let may_have = slices.predicted
        && [AddressType::Ipv4, AddressType::Ipv6].into_iter().any(|family| ready(family) > 1)
        && (zones.len() > 1 || nodes().next().is_none());
    may_have.then(|| {
        format!(
            "hints of svc/{key} in proportion to CPUs (topology-mode: Auto), which are not predicted: with them nodes use \
             only some of its endpoints"
        )
    })
}

/// Which pods are no endpoints of a Service since the input does not have their Nodes, in words.
#[must_use]
pub fn left_out(cluster: &Cluster, key: &ObjectKey, service: &Service) -> Vec<String> {
    let slices = slices::of(cluster, key, service, slices::ENDPOINTS_PER_SLICE);
    slices.left_out.iter().map(|what| format!("endpoints of svc/{key}: {what}")).collect()
}

/// Whether the input has slices of any Service, as a dump has; those that are only mirrored do not tell.
fn has_slices(cluster: &Cluster) -> bool {
    cluster.endpoint_slices.values().any(|slice| !slice.mirrored)
}

/// Why, with what a reader would else look for: endpoints that are ending, and a port of the slices that is nearly this.
fn reason(
    (policy, selection): (TrafficPolicy, &Selection),
    slices: &Slices<'_>,
    port: &ServicePort,
    family: AddressType,
) -> String {
    let mut text = selection.reason.to_string();
    if selection.local_terminating {
        text +=
            "; of the node's own endpoints none is ready: those that are ending and still answer are used";
    }
    if selection.reason == Reason::LocalOnly {
        match selection.internal(policy) {
            Outcome::Refused => {
                text += "; none is ready, here or elsewhere, and none that is ending still answers";
            }
            Outcome::Dropped => text += "; none of them answers, and others do elsewhere",
            Outcome::Spread(_) => {}
        }
    }
    if selection.reason == Reason::NoEndpoints
        && let Some(nearly) = nearly(slices, port, family)
    {
        text += &format!(": {nearly}");
    }
    text
}

/// The port of a slice with endpoints that a proxy does not take for this one.
fn nearly(slices: &Slices<'_>, port: &ServicePort, family: AddressType) -> Option<String> {
    let name = |name: &Option<String>| name.clone().filter(|name| !name.is_empty());
    let shown =
        |name: Option<String>| name.map_or_else(|| "no name".to_owned(), |name| format!("the name {name}"));
    let wanted = name(&port.name);
    let filled =
        slices.slices.iter().filter(|(_, slice)| slice.address_type == family && !slice.endpoints.is_empty());
    let mut other_name = None;
    for (slice, found) in filled.flat_map(|(key, slice)| slice.ports.iter().map(move |found| (key, found))) {
        if name(&found.name) == wanted && found.protocol != port.protocol {
            let (is, wants) = (found.protocol, port.protocol);
            return Some(format!("the port of this name in slice {slice} is {is}, not {wants}"));
        }
        if found.protocol == port.protocol && name(&found.name) != wanted {
            other_name.get_or_insert_with(|| {
                format!("proxies go by a port's name, and slice {slice} has {}", shown(name(&found.name)))
            });
        }
    }
    // A Service of several ports has slices with the names of the others.
    other_name.filter(|_| slices.slices.values().all(|slice| slice.ports.len() <= 1))
}

fn routes(
    service: &Service,
    port: &ServicePort,
    family: AddressType,
    policy: TrafficPolicy,
    selection: &Selection,
) -> Vec<Route> {
    let ranges: Vec<String> = service.source_ranges_of(family).iter().map(ToString::to_string).collect();
    let ranges = Some(ranges).filter(|ranges| !ranges.is_empty());
    let route = |to: RouteKind, address: String, outcome: Outcome<'_>, keeps_client_address: bool| {
        let (outcome, endpoints) = match outcome {
            Outcome::Spread(set) => ("spread", words(set)),
            Outcome::Refused => ("refused", Vec::new()),
            Outcome::Dropped => ("dropped", Vec::new()),
        };
        let source_ranges = ranges.clone().filter(|_| to == RouteKind::LoadBalancer && outcome == "spread");
        Route { to, address, outcome, endpoints, keeps_client_address, source_ranges }
    };
    let of = |address: &&std::net::IpAddr| AddressType::of(**address) == family;
    let at = |address: &std::net::IpAddr| std::net::SocketAddr::new(*address, port.port).to_string();
    let mut routes: Vec<Route> = service
        .cluster_ips
        .iter()
        .filter(of)
        .map(|ip| route(RouteKind::ClusterIp, at(ip), selection.internal(policy), true))
        .collect();
    if routes.is_empty() {
        routes.push(route(RouteKind::ClusterIp, port.port.to_string(), selection.internal(policy), true));
    }
    let outside = |to, address| route(to, address, selection.external(policy), policy.external_local);
    let before = routes.len();
    routes.extend(port.node_port.map(|number| outside(RouteKind::NodePort, number.to_string())));
    routes.extend(
        service.load_balancer_ips.iter().filter(of).map(|ip| outside(RouteKind::LoadBalancer, at(ip))),
    );
    routes.extend(service.external_ips.iter().filter(of).map(|ip| outside(RouteKind::ExternalIp, at(ip))));
    if routes.len() > before && policy.external_local {
        let address = routes.get(before).map(|route| route.address.clone()).unwrap_or_default();
        routes.push(route(RouteKind::FromThisNode, address, selection.short_circuit(), false));
    }
    routes
}

fn words(addresses: &[std::net::SocketAddr]) -> Vec<String> {
    addresses.iter().map(ToString::to_string).collect()
}
