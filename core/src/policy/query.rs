//! A question: may this end open a connection to that one?
//!
//! Invariant: a [`Query`] names ends as users do; a [`Pair`] is one concrete packet of it, with addresses of one
//! family. One query has as many pairs as it has (source, destination, family) combinations. Where a pod asks by an
//! address that its node's proxy translates, there is a pair for each endpoint that this proxy may choose.

use std::net::{IpAddr, SocketAddr};

use super::backends::Backend;
use super::clash::claimants;
use super::frame::Tuple;
use super::frontends::{Site, translation};
use super::outside::Rewriting;
use crate::model::cluster::{Cluster, ObjectKey, Pod};
use crate::model::port::Protocol;
use crate::model::service::{AddressType, Service as ServiceObject};

/// One end of a question.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum End {
    /// A pod.
    Pod(ObjectKey),
    /// A node itself.
    Node(String),
    /// An address: whoever has it.
    Address(IpAddr),
}

impl std::fmt::Display for End {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Pod(key) => write!(f, "{key}"),
            Self::Node(name) => write!(f, "node/{name}"),
            Self::Address(address) => write!(f, "{address}"),
        }
    }
}

/// What is asked to be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Service {
    /// A port by number.
    Port {
        /// IP protocol: 6, 17 or 132.
        protocol: u8,
        /// Number on the destination.
        port: u16,
    },
    /// A container port's name, as each destination pod has it.
    Name {
        /// IP protocol: 6, 17 or 132.
        protocol: u8,
        /// The name.
        name: String,
    },
    /// Where a Kubernetes Service leads: each destination has its own port.
    Backends {
        /// Everything behind it.
        all: Vec<Backend>,
        /// The addresses by which it is asked, in whose families alone it answers; none for a headless one.
        addresses: Vec<IpAddr>,
        /// The Service, where it will have a cluster IP that the input does not have.
        unaddressed: Option<ObjectKey>,
        /// Its own port.
        port: u16,
    },
    /// An echo request of the right ICMP.
    Icmp,
    /// Another IP protocol.
    Other(u8),
}

/// A question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    /// Who opens.
    pub from: Vec<End>,
    /// To whom.
    pub to: Vec<End>,
    /// What.
    pub service: Service,
}

/// One concrete packet of a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    /// Who opens.
    pub from: End,
    /// To whom.
    pub to: End,
    /// The packet, as the destination gets it, but for what the node may put in place of the source.
    pub tuple: Tuple,
    /// By which address the source asks, if its node translates that.
    pub via: Option<Via>,
    /// The Service, with the reason, on whose way nodes put an address of their own in place of the source's, which is
    /// outside: they do for a cluster IP, and for a balancer's or external address under `externalTrafficPolicy: Cluster`.
    pub rewritten_for: Option<String>,
}

impl Pair {
    /// A packet that is sent to the address where it arrives.
    pub const fn direct(from: End, to: End, tuple: Tuple) -> Self {
        Self { from, to, tuple, via: None, rewritten_for: None }
    }

    /// The packet as the source sends it.
    pub fn sent(&self) -> Tuple {
        match &self.via {
            Some(via) => Tuple { destination: via.address, destination_port: via.port, ..self.tuple },
            None => self.tuple,
        }
    }
}

/// An address of a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Via {
    /// Whose it is, as `namespace/name:port`.
    pub service: String,
    /// The address.
    pub address: IpAddr,
    /// The Service's port.
    pub port: u16,
    /// The node whose proxy translates.
    pub node: String,
    /// True when the destination sees an address of the node in place of the source's.
    pub masquerades: bool,
}

/// The source port of every question: any would do, and answers should repeat.
pub const SOURCE_PORT: u16 = 40_000;
/// How many different ones are used, where they must differ.
const SOURCE_PORTS: usize = 20_000;

/// The pairs of a question, and in words what could not be asked.
pub fn pairs(cluster: &Cluster, query: &Query) -> (Vec<Pair>, Vec<String>) {
    let mut pairs = Vec::new();
    let mut not_asked = Vec::new();
    // Endpoints that a Service leads other clients to: told only when it leads this one nowhere.
    let mut not_led = Vec::new();
    for from in &query.from {
        for to in &query.to {
            let sources = addresses(cluster, from);
            let destinations = match &query.service {
                Service::Backends { all, .. } => addresses_behind(all, to),
                _ => addresses(cluster, to),
            };
            // Whose it is depends on who asks: it never leaves the network namespace of the source (RFC 1122, 3.2.1.3).
            let to = match to {
                End::Address(address) if is_loopback(*address) => from,
                _ => to,
            };
            let ports = ports(cluster, to, &query.service);
            if ports.is_empty() {
                not_asked.push(format!("{to} has no port of that name"));
            }
            let leads = |destination: IpAddr, port: u16| match &query.service {
                Service::Backends { all, addresses, .. } => {
                    // A proxy never leads from one family to the other.
                    let same = |address: &IpAddr| address.is_ipv4() == destination.is_ipv4();
                    (addresses.is_empty() || addresses.iter().any(same))
                        && all
                            .iter()
                            .any(|one| one.end == *to && one.address == destination && one.port == port)
                }
                _ => true,
            };
            let before = pairs.len();
            for (source, destination) in sources
                .iter()
                .flat_map(|source| destinations.iter().map(move |destination| (*source, *destination)))
                .filter(|(source, destination)| source.is_ipv4() == destination.is_ipv4())
            {
                for port in ports.iter().filter(|port| leads(destination, **port)) {
                    let protocol = match &query.service {
                        Service::Port { protocol, .. }
                        | Service::Name { protocol, .. }
                        | Service::Other(protocol) => *protocol,
                        Service::Backends { all, .. } => all.first().map_or(0, |one| one.protocol.number()),
                        Service::Icmp if source.is_ipv4() => 1,
                        Service::Icmp => 58,
                    };
                    let tuple = Tuple {
                        source,
                        destination,
                        protocol,
                        source_port: SOURCE_PORT,
                        destination_port: *port,
                    };
                    let direct = Pair::direct(from.clone(), to.clone(), tuple);
                    match translated(cluster, query, &direct, pairs.len()) {
                        Asked::Direct => {
                            let rewritten_for = rewritten_for(cluster, query, &direct);
                            pairs.push(Pair { rewritten_for, ..direct });
                        }
                        Asked::Translated(all) => {
                            let new = |pair: &Pair| pair.via.is_some() || !pairs.contains(pair);
                            let all: Vec<Pair> = all.into_iter().filter(new).collect();
                            pairs.extend(all);
                        }
                        Asked::Not(why) => not_led.push(why),
                        Asked::Dropped(why) => {
                            if !not_asked.contains(&why) {
                                not_asked.push(why);
                            }
                        }
                    }
                }
            }
            if pairs.len() == before && not_led.is_empty() && not_asked.is_empty() && !ports.is_empty() {
                let homeless = [(from, &sources), (to, &destinations)]
                    .into_iter()
                    .find(|(_, addresses)| addresses.is_empty());
                not_asked.push(match homeless {
                    Some((end, _)) => format!("{end} has no IP address in the input"),
                    None => format!("{from} and {to} have no address family in common"),
                });
            }
        }
    }
    if pairs.is_empty() {
        not_asked.extend(not_led);
        not_asked.dedup();
    }
    (pairs, not_asked)
}

/// An address by which everybody means himself; Linux takes the unspecified one for the loopback's.
pub(super) fn is_loopback(address: IpAddr) -> bool {
    let address = address.to_canonical();
    address.is_loopback() || address.is_unspecified()
}

/// How a packet is asked about.
enum Asked {
    /// As it is.
    Direct,
    /// As what the node makes of it: one of these; as what it was sent to, where the node leads it nowhere.
    Translated(Vec<Pair>),
    /// Not at all, for this reason.
    Not(String),
    /// Not at all: proxies drop it, or may, before any policy is asked.
    Dropped(String),
}

/// What the proxy of the source's node makes of a packet. Only pods' packets are judged before that.
fn translated(cluster: &Cluster, query: &Query, direct: &Pair, before: usize) -> Asked {
    let tuple = direct.tuple;
    let Some(protocol) = Protocol::ALL.into_iter().find(|one| one.number() == tuple.protocol) else {
        return Asked::Direct;
    };
    let (address, port, endpoint) = match &query.service {
        Service::Backends { addresses, port, .. } => {
            let same = |address: &&IpAddr| address.is_ipv4() == tuple.destination.is_ipv4();
            let endpoint = SocketAddr::new(tuple.destination, tuple.destination_port);
            match addresses.iter().find(same) {
                Some(address) => (*address, *port, Some(endpoint)),
                None => return Asked::Direct,
            }
        }
        _ => (tuple.destination, tuple.destination_port, None),
    };
    if let Some(why) = outside_of_ranges(cluster, (&direct.from, tuple.source), (address, port, protocol)) {
        return Asked::Dropped(why);
    }
    let policed = policed_pod(cluster, &direct.from);
    let Some(node) =
        policed.as_ref().map(|pod| node_of(cluster, pod)).or_else(|| node_behind(cluster, &direct.from))
    else {
        return Asked::Direct;
    };
    let site = Site { cluster, node: &node, addresses: &[], wires: &[] };
    let Some(found) = translation(site, address, port, protocol) else {
        return match endpoint {
            None => Asked::Direct,
            // To policies of the source it is then an ordinary address.
            Some(_) if !claimants(cluster, (address, port, protocol)).is_empty() => {
                let sent = Tuple { destination: address, destination_port: port, ..tuple };
                Asked::Translated(vec![Pair::direct(direct.from.clone(), End::Address(address), sent)])
            }
            Some(_) => Asked::Not(format!("the proxy of node {node} leads {address}:{port} to no endpoint")),
        };
    };
    if policed.is_none() {
        // A node's own packets are judged where they arrive alone; which endpoints it is led to, its proxy decides.
        return match endpoint {
            Some(endpoint) if !found.endpoints.contains_key(&endpoint) => {
                Asked::Not(format!("the proxy of node {node} does not use endpoint {endpoint}"))
            }
            _ => Asked::Direct,
        };
    }
    // Each has its own source port: the node leads a connection that it knows to where it led it before.
    let pair = |to: End, (at, service): (SocketAddr, &String), number: usize| Pair {
        from: direct.from.clone(),
        to,
        tuple: Tuple {
            destination: at.ip(),
            destination_port: at.port(),
            source_port: SOURCE_PORT + u16::try_from((before + number) % SOURCE_PORTS).unwrap_or_default(),
            ..tuple
        },
        rewritten_for: None,
        via: Some(Via {
            service: service.clone(),
            address,
            port,
            node: node.clone(),
            // Else the pod would answer itself past the node.
            masquerades: found.masquerades || at.ip() == tuple.source,
        }),
    };
    match endpoint.map(|endpoint| (endpoint, found.endpoints.get(&endpoint))) {
        Some((endpoint, Some(service))) => {
            Asked::Translated(vec![pair(direct.to.clone(), (endpoint, service), 0)])
        }
        Some((endpoint, None)) => {
            Asked::Not(format!("the proxy of node {node} does not use endpoint {endpoint}"))
        }
        None => {
            let numbered = found.endpoints.iter().enumerate();
            let to = |endpoint: &SocketAddr| owner(cluster, endpoint.ip());
            let pairs = numbered.map(|(number, (at, service))| pair(to(at), (*at, service), number));
            Asked::Translated(pairs.collect())
        }
    }
}

/// See [`Pair::rewritten_for`].
fn rewritten_for(cluster: &Cluster, query: &Query, direct: &Pair) -> Option<String> {
    let (Service::Backends { all, addresses, port, unaddressed }, End::Address(_)) =
        (&query.service, &direct.from)
    else {
        return None;
    };
    let of_cluster_ip = |key: &ObjectKey| {
        // Whom a proxy was told of as a pod keeps its address, and a node has its own anyway
        // (`pkg/proxy/iptables/proxier.go`, the rules to KUBE-MARK-MASQ of a Service's chain).
        is_outside(cluster, direct.tuple.source)
            .then(|| format!("the cluster IP of svc/{key} (the client is no pod)"))
    };
    if let Some(key) = unaddressed {
        return of_cluster_ip(key);
    }
    let protocol = all.first()?.protocol;
    let address = addresses.iter().find(|one| one.is_ipv4() == direct.tuple.destination.is_ipv4())?;
    let mut services = cluster
        .services
        .iter()
        .filter(|(_, service)| service.has_address(*address) && service.has_port(*port, protocol));
    services.find_map(|(key, service)| match Rewriting::at(service, *address)? {
        Rewriting::ClusterIp => of_cluster_ip(key),
        Rewriting::TrafficPolicy => Some(format!("svc/{key} (externalTrafficPolicy Cluster)")),
    })
}

/// Whether an address is neither a pod's, known or not, nor a node's.
fn is_outside(cluster: &Cluster, address: IpAddr) -> bool {
    let mut nets = cluster.nodes.values().flat_map(|node| &node.pod_cidrs);
    let is_of_pods = nets.any(|net| net.contains(&address))
        || cluster.pods.values().any(|pod| pod.addresses.contains(&address));
    !is_of_pods && matches!(owner(cluster, address), End::Address(_))
}

/// Why proxies drop a packet to a balancer's address, or may: its source is in none of `loadBalancerSourceRanges`, or is not
/// known. They ask for the address that they see, of pods and nodes too (`pkg/proxy/iptables/proxier.go`, `KUBE-FW-…`;
/// `pkg/proxy/nftables/proxier.go`, `firewall-…`), and for ranges of the packet's family alone.
pub(super) fn outside_of_ranges(
    cluster: &Cluster,
    (from, source): (&End, IpAddr),
    (address, port, protocol): (IpAddr, u16, Protocol),
) -> Option<String> {
    let mut services = cluster.services.iter().filter(|(_, service)| {
        service.load_balancer_ips.contains(&address) && service.has_port(port, protocol)
    });
    services.find_map(|named| outside_of_ranges_of(cluster, named, (from, source), address))
}

fn outside_of_ranges_of(
    cluster: &Cluster,
    (key, service): (&ObjectKey, &ServiceObject),
    (from, source): (&End, IpAddr),
    address: IpAddr,
) -> Option<String> {
    let ranges = service.source_ranges_of(AddressType::of(address));
    if ranges.is_empty() {
        return None;
    }
    let words = ranges.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let admits = format!("svc/{key} admits only {words} at {address} (loadBalancerSourceRanges)");
    if !has_known_address(cluster, from) {
        return Some(format!("{admits}, and the address of {from} is not in the input"));
    }
    let is_admitted = ranges.iter().any(|range| range.contains(&source));
    (!is_admitted).then(|| format!("{admits}: proxies drop what comes from {source}"))
}

/// Whether the addresses of an end are those of the input, and not chosen.
fn has_known_address(cluster: &Cluster, end: &End) -> bool {
    let node = |name: &String| cluster.nodes.get(name).is_some_and(|node| !node.synthetic_addresses);
    match end {
        End::Pod(key) => cluster.pods.get(key).is_some_and(|pod| {
            if pod.host_network { pod.node.as_ref().is_some_and(node) } else { !pod.synthetic_addresses }
        }),
        End::Node(name) => node(name),
        End::Address(_) => true,
    }
}

/// The node of a pod; where it names none, one that it may get.
pub fn node_of(cluster: &Cluster, pod: &ObjectKey) -> String {
    let own = cluster.pods.get(pod).and_then(|pod| pod.node.as_ref());
    own.or_else(|| cluster.nodes.keys().next()).cloned().unwrap_or_else(|| ANY_NODE.to_owned())
}

/// The node of pods that name none, where the cluster has no node either.
const ANY_NODE: &str = "node-1";

/// The end that really has an address: a policed pod, a node, or the address itself.
pub fn owner(cluster: &Cluster, address: IpAddr) -> End {
    let pod = cluster.pods.iter().find(|(_, pod)| pod.is_policed() && pod.addresses.contains(&address));
    if let Some((key, _)) = pod {
        return End::Pod(key.clone());
    }
    match cluster.nodes.iter().find(|(_, node)| node.addresses.contains(&address)) {
        Some((name, _)) => End::Node(name.clone()),
        None => End::Address(address),
    }
}

/// The node that policies see behind an end: itself, or that of a pod with the host's network.
pub(super) fn node_behind(cluster: &Cluster, end: &End) -> Option<String> {
    match end {
        End::Node(name) => Some(name.clone()),
        End::Pod(key) => {
            let pod = cluster.pods.get(key).filter(|pod| pod.host_network)?;
            pod.node.clone()
        }
        End::Address(address) => match owner(cluster, *address) {
            End::Node(name) => Some(name),
            End::Pod(_) | End::Address(_) => None,
        },
    }
}

/// The pod that policies see behind an end: by name, or by an address that it has.
pub fn policed_pod(cluster: &Cluster, end: &End) -> Option<ObjectKey> {
    let key = match end {
        End::Pod(key) => key.clone(),
        End::Node(_) => return None,
        End::Address(address) => match owner(cluster, *address) {
            End::Pod(key) => key,
            End::Node(_) | End::Address(_) => return None,
        },
    };
    cluster.pods.get(&key).is_some_and(Pod::is_policed).then_some(key)
}

/// The addresses of an end, at most one per family.
pub(super) fn addresses(cluster: &Cluster, end: &End) -> Vec<IpAddr> {
    match end {
        End::Pod(key) => cluster.pods.get(key).map(|pod| {
            let node =
                pod.node.as_ref().filter(|_| pod.host_network).and_then(|node| cluster.nodes.get(node));
            node.map_or_else(|| pod.addresses.clone(), |node| first_of_each_family(&node.addresses))
        }),
        End::Node(name) => cluster.nodes.get(name).map(|node| first_of_each_family(&node.addresses)),
        End::Address(address) => Some(vec![*address]),
    }
    .unwrap_or_default()
}

/// The addresses of an end to which a Service leads.
fn addresses_behind(all: &[Backend], to: &End) -> Vec<IpAddr> {
    let mut found: Vec<IpAddr> = all.iter().filter(|one| one.end == *to).map(|one| one.address).collect();
    found.sort_unstable();
    found.dedup();
    found
}

fn first_of_each_family(addresses: &[IpAddr]) -> Vec<IpAddr> {
    let of = |ipv4: bool| addresses.iter().find(|address| address.is_ipv4() == ipv4).copied();
    [of(true), of(false)].into_iter().flatten().collect()
}

fn ports(cluster: &Cluster, to: &End, service: &Service) -> Vec<u16> {
    match service {
        Service::Port { port, .. } => vec![*port],
        Service::Icmp | Service::Other(_) => vec![0],
        Service::Backends { all, .. } => {
            let mut ports: Vec<u16> = all.iter().filter(|one| one.end == *to).map(|one| one.port).collect();
            ports.sort_unstable();
            ports.dedup();
            ports
        }
        Service::Name { protocol, name } => {
            let End::Pod(key) = to else { return Vec::new() };
            let Some(pod) = cluster.pods.get(key) else { return Vec::new() };
            let mut ports: Vec<u16> = pod
                .ports
                .iter()
                .filter(|port| port.protocol.number() == *protocol && port.name.as_deref() == Some(name))
                .map(|port| port.number)
                .collect();
            ports.sort_unstable();
            ports.dedup();
            ports
        }
    }
}
