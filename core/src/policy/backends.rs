//! A Service as policies see it: the pods and addresses behind it, each with the port that it really listens on.
//!
//! A packet to a Service is translated before policies of the destination see it, so a rule about a Service's own
//! port never matches (`NetworkPolicyPort.port`: "the port on the given protocol" of the pod). Invariant: where the
//! input has `EndpointSlice`s of a Service they alone decide; else its selector does, as the endpoint controller reads
//! it. It does not know which endpoint a node prefers, nor readiness where there are no slices.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use thiserror::Error;

use super::frontends::{Site, translation};
use super::query::{End, addresses as addresses_of, node_of, outside_of_ranges, owner};
use crate::endpoint_ref::{PortName, PortRef};
use crate::model::cluster::{Cluster, ObjectKey};
use crate::model::port::Protocol;
use crate::model::service::{AddressType, Service, ServicePort, ServiceType, TargetPort};
use crate::service::slices::{self, ENDPOINTS_PER_SLICE};
use crate::service::{backends as endpoints_of, select};

/// One place to which a Service's port leads.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Backend {
    /// The pod, node or stranger that has the address.
    pub end: End,
    /// The address.
    pub address: IpAddr,
    /// The protocol.
    pub protocol: Protocol,
    /// The port there.
    pub port: u16,
}

/// Why a Service leads nowhere that could be asked about.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ServiceError {
    /// Not in the cluster.
    #[error("there is no Service {service}")]
    NotThere {
        /// Which.
        service: ObjectKey,
    },
    /// `type: ExternalName`.
    #[error(
        "Service {service} is an alias: DNS answers with {name}, and policies judge what that name leads to; ask about {}",
        .leads_to.as_ref().map_or_else(|| "one of its addresses".to_owned(), |key| format!("svc/{key}"))
    )]
    ExternalName {
        /// Which.
        service: ObjectKey,
        /// `spec.externalName`.
        name: String,
        /// The Service of the cluster whose name that is.
        leads_to: Option<ObjectKey>,
    },
    /// It has several ports, or none.
    #[error("Service {service} has {}: say which port", listed(.ports))]
    WhichPort {
        /// Which.
        service: ObjectKey,
        /// Its ports as they can be typed.
        ports: Vec<String>,
    },
    /// It has no such port.
    #[error("Service {service} has no port {wanted}; it has {}", listed(.ports))]
    NoSuchPort {
        /// Which.
        service: ObjectKey,
        /// What was asked for.
        wanted: String,
        /// Its ports as they can be typed.
        ports: Vec<String>,
        /// The Service's port whose pods listen on the one that was asked for.
        leads_there: Option<String>,
    },
}

fn listed(ports: &[String]) -> String {
    if ports.is_empty() { "no port".to_owned() } else { ports.join(", ") }
}

fn typed(port: &ServicePort) -> String {
    let number = format!("{}/{}", port.port, port.protocol.lower());
    port.name.as_ref().map_or(number.clone(), |name| format!("{number} ({name})"))
}

/// The one port of a Service that is meant; without a word, the only one that it has.
///
/// # Errors
/// [`ServiceError`] when it is not one.
pub fn service_port<'c>(
    cluster: &'c Cluster,
    key: &ObjectKey,
    wanted: Option<&PortRef>,
) -> Result<&'c ServicePort, ServiceError> {
    let service = service(cluster, key)?;
    let ports = || service.ports.iter().map(typed).collect();
    let Some(wanted) = wanted else {
        return match service.ports.as_slice() {
            [only] => Ok(only),
            _ => Err(ServiceError::WhichPort { service: key.clone(), ports: ports() }),
        };
    };
    let is_it = |port: &&ServicePort| match &wanted.port {
        PortName::Number(number) => port.port == *number,
        PortName::Name(name) => port.name.as_ref() == Some(name),
    };
    let mut found: Vec<_> = service.ports.iter().filter(is_it).collect();
    // One number under two protocols is TCP where nothing is said, as everywhere else.
    let protocol = wanted.protocol.or_else(|| (found.len() > 1).then(Protocol::default));
    found.retain(|port| protocol.is_none_or(|protocol| port.protocol == protocol));
    found.into_iter().next().ok_or_else(|| {
        let leads_there = service.ports.iter().find(|port| match (&port.target, &wanted.port) {
            (TargetPort::Number(target), PortName::Number(number)) => target == number,
            (TargetPort::Name(target), PortName::Name(name)) => target == name,
            _ => false,
        });
        ServiceError::NoSuchPort {
            service: key.clone(),
            wanted: wanted.to_string(),
            ports: ports(),
            leads_there: leads_there.map(|port| format!("{}/{}", port.port, port.protocol.lower())),
        }
    })
}

/// All ports of a Service.
///
/// # Errors
/// [`ServiceError`] when it is not there or leads outside.
pub fn service<'c>(cluster: &'c Cluster, key: &ObjectKey) -> Result<&'c Service, ServiceError> {
    let service = cluster.services.get(key).ok_or_else(|| ServiceError::NotThere { service: key.clone() })?;
    if service.service_type == ServiceType::ExternalName {
        let name = service.external_name.clone().unwrap_or_default();
        return Err(ServiceError::ExternalName {
            service: key.clone(),
            leads_to: service_of_name(cluster, &name),
            name,
        });
    }
    Ok(service)
}

/// The Service whose DNS name this is: `NAME.NAMESPACE.svc` and a domain of the cluster, whatever that is.
fn service_of_name(cluster: &Cluster, name: &str) -> Option<ObjectKey> {
    let mut labels = name.trim_end_matches('.').split('.');
    let (service, namespace) = (labels.next()?, labels.next()?);
    let key = ObjectKey::new(namespace, service);
    (labels.next() == Some("svc") && cluster.services.contains_key(&key)).then_some(key)
}

/// Where one port of a Service leads, sorted: to what is ready, or, where nothing is, to what is ending and still
/// answers. Which of that one node prefers is not asked.
pub fn backends(cluster: &Cluster, key: &ObjectKey, port: &ServicePort) -> Vec<Backend> {
    let Some(service) = cluster.services.get(key) else { return Vec::new() };
    let slices = slices::of(cluster, key, service, ENDPOINTS_PER_SLICE);
    let mut found = Vec::new();
    for family in [AddressType::Ipv4, AddressType::Ipv6] {
        let (endpoints, _) = endpoints_of(&slices, port, family);
        let any_ready = endpoints.iter().any(|endpoint| endpoint.ready);
        let used = |endpoint: &&select::Backend| {
            if any_ready { endpoint.ready } else { endpoint.is_usable_while_ending() }
        };
        found.extend(endpoints.iter().filter(used).map(|endpoint| Backend {
            end: end(cluster, &key.namespace, endpoint.address.ip(), endpoint.pod.as_deref()),
            address: endpoint.address.ip(),
            protocol: port.protocol,
            port: endpoint.address.port(),
        }));
    }
    found.sort();
    found
}

/// A port of a Service asked at an address, and where a node's proxy leads to.
type Way<'a> = (IpAddr, &'a ServicePort, BTreeSet<End>);

/// To which ends each pod is led that asks a Service by one of these addresses: those that its own node's proxy uses, none
/// where a balancer's ranges do not admit it. `None` when all pods are led to all that [`backends`] names.
pub fn led(
    cluster: &Cluster,
    key: &ObjectKey,
    ports: &[&ServicePort],
    addresses: &[IpAddr],
) -> Option<BTreeMap<ObjectKey, BTreeSet<End>>> {
    let mut all: BTreeMap<(IpAddr, Protocol, u16), End> = BTreeMap::new();
    for backend in ports.iter().flat_map(|port| backends(cluster, key, port)) {
        all.insert((backend.address, backend.protocol, backend.port), backend.end);
    }
    let everything: BTreeSet<&End> = all.values().collect();
    let asked = || addresses.iter().flat_map(|address| ports.iter().map(move |port| (*address, *port)));
    // Nodes are fewer than pods.
    let mut by_node: BTreeMap<String, Vec<Way<'_>>> = BTreeMap::new();
    let mut led = BTreeMap::new();
    for pod in cluster.pods.keys() {
        let node = node_of(cluster, pod);
        let ways = by_node.entry(node).or_insert_with_key(|node| {
            let site = Site { cluster, node, addresses: &[], wires: &[] };
            let way = |(address, port): (IpAddr, &ServicePort)| {
                let found = translation(site, address, port.port, port.protocol)?;
                let end = |to: &SocketAddr| all.get(&(to.ip(), port.protocol, to.port())).cloned();
                Some(found.endpoints.keys().filter_map(end).collect::<BTreeSet<End>>())
            };
            asked().map(|(address, port)| (address, port, way((address, port)).unwrap_or_default())).collect()
        });
        let sources = addresses_of(cluster, &End::Pod(pod.clone()));
        let mut ends = BTreeSet::new();
        for (address, port, to) in &*ways {
            let mut same = sources.iter().filter(|source| source.is_ipv4() == address.is_ipv4());
            let asks = |source: &IpAddr| {
                let from = End::Pod(pod.clone());
                outside_of_ranges(cluster, (&from, *source), (*address, port.port, port.protocol)).is_none()
            };
            if same.any(asks) {
                ends.extend(to.iter().cloned());
            }
        }
        led.insert(pod.clone(), ends);
    }
    let is_led_everywhere = |ends: &BTreeSet<End>| everything.iter().all(|end| ends.contains(*end));
    (!addresses.is_empty() && !led.values().all(is_led_everywhere)).then_some(led)
}

/// The pod that the slice names, if that has the address; else whoever has it.
pub(super) fn end(cluster: &Cluster, namespace: &str, address: IpAddr, pod: Option<&str>) -> End {
    let named = pod.map(|name| ObjectKey::new(namespace, name));
    let has_it = |key: &ObjectKey| cluster.pods.get(key).is_some_and(|pod| pod.addresses.contains(&address));
    named.filter(has_it).map_or_else(|| owner(cluster, address), End::Pod)
}
