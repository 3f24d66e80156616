//! A question: may this end open a connection to that one?
//!
//! Invariant: a [`Query`] names ends as users do; a [`Pair`] is one concrete packet of it, with addresses of one
//! family. One query has as many pairs as it has (source, destination, family) combinations.

use std::net::IpAddr;

use crate::model::cluster::{Cluster, ObjectKey, Pod};

use super::backends::Backend;
use super::frame::Tuple;

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
    Backends(Vec<Backend>),
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
    /// The packet.
    pub tuple: Tuple,
}

/// The source port of every question: any would do, and answers should repeat.
pub const SOURCE_PORT: u16 = 40_000;

/// The pairs of a question, and in words what could not be asked.
pub fn pairs(cluster: &Cluster, query: &Query) -> (Vec<Pair>, Vec<String>) {
    let mut pairs = Vec::new();
    let mut not_asked = Vec::new();
    for from in &query.from {
        for to in &query.to {
            let sources = addresses(cluster, from);
            let destinations = match &query.service {
                Service::Backends(all) => addresses_behind(all, to),
                _ => addresses(cluster, to),
            };
            let ports = ports(cluster, to, &query.service);
            if ports.is_empty() {
                not_asked.push(format!("{to} has no port of that name"));
            }
            let leads = |destination: IpAddr, port: u16| match &query.service {
                Service::Backends(all) => {
                    all.iter().any(|one| one.end == *to && one.address == destination && one.port == port)
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
                        Service::Backends(all) => all.first().map_or(0, |one| one.protocol.number()),
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
                    pairs.push(Pair { from: from.clone(), to: to.clone(), tuple });
                }
            }
            if pairs.len() == before && !ports.is_empty() {
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
    (pairs, not_asked)
}

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
        Service::Backends(all) => {
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
