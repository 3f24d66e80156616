//! A Service as policies see it: the pods and addresses behind it, each with the port that it really listens on.
//!
//! A packet to a Service is translated before policies of the destination see it, so a rule about a Service's own
//! port never matches (`NetworkPolicyPort.port`: "the port on the given protocol" of the pod). Invariant: where the
//! input has `EndpointSlice`s of a Service they alone decide; else its selector does, as the endpoint controller reads
//! it. It does not know which endpoint a node prefers, nor readiness where there are no slices.

use std::net::IpAddr;

use thiserror::Error;

use super::query::{End, addresses, owner};
use crate::endpoint_ref::{PortName, PortRef};
use crate::model::cluster::{Cluster, ObjectKey};
use crate::model::port::Protocol;
use crate::model::service::{EndpointSlice, Service, ServicePort, ServiceType, TargetPort};

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
    #[error("Service {service} is a name for something outside: it has no endpoints")]
    ExternalName {
        /// Which.
        service: ObjectKey,
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
        return Err(ServiceError::ExternalName { service: key.clone() });
    }
    Ok(service)
}

/// Where one port of a Service leads, sorted.
pub fn backends(cluster: &Cluster, key: &ObjectKey, port: &ServicePort) -> Vec<Backend> {
    let Some(service) = cluster.services.get(key) else { return Vec::new() };
    let slices: Vec<&EndpointSlice> = cluster
        .endpoint_slices
        .range(ObjectKey::new(&key.namespace, "")..)
        .take_while(|(slice, _)| slice.namespace == key.namespace)
        .filter(|(_, slice)| slice.service.as_deref() == Some(&key.name))
        .map(|(_, slice)| slice)
        .collect();
    let mut found = if slices.is_empty() {
        selected(cluster, key, service, port)
    } else {
        sliced(cluster, &slices, port)
    };
    found.sort();
    found.dedup();
    found
}

/// By the Service's selector: running pods of its namespace. A pod without a port of the target's name is none.
fn selected(cluster: &Cluster, key: &ObjectKey, service: &Service, port: &ServicePort) -> Vec<Backend> {
    let Some(selector) = &service.selector else { return Vec::new() };
    let families = |address: &IpAddr| {
        let same = |ip: &IpAddr| ip.is_ipv4() == address.is_ipv4();
        service.cluster_ips.is_empty() || service.cluster_ips.iter().any(same)
    };
    let mut found = Vec::new();
    let pods = cluster.pods.range(ObjectKey::new(&key.namespace, "")..);
    for (pod_key, pod) in pods.take_while(|(pod, _)| pod.namespace == key.namespace) {
        let matches = selector.iter().all(|(label, value)| pod.labels.get(label) == Some(value));
        if !matches || pod.terminal {
            continue;
        }
        let number = match &port.target {
            TargetPort::Number(number) => Some(*number),
            TargetPort::Name(name) => pod
                .ports
                .iter()
                .find(|own| own.protocol == port.protocol && own.name.as_deref() == Some(name))
                .map(|own| own.number),
        };
        let Some(number) = number else { continue };
        let end = End::Pod(pod_key.clone());
        let addresses = addresses(cluster, &end).into_iter().filter(families);
        found.extend(addresses.map(|address| Backend {
            end: end.clone(),
            address,
            protocol: port.protocol,
            port: number,
        }));
    }
    found
}

/// By its slices: the ready endpoints, or those that still serve while they end where none is ready.
fn sliced(cluster: &Cluster, slices: &[&EndpointSlice], port: &ServicePort) -> Vec<Backend> {
    let endpoints = || slices.iter().flat_map(|slice| slice.endpoints.iter().map(move |one| (*slice, one)));
    let any_ready = endpoints().any(|(_, endpoint)| endpoint.ready);
    let used =
        endpoints().filter(|(_, one)| if any_ready { one.ready } else { one.serving && one.terminating });
    let mut found = Vec::new();
    for (slice, endpoint) in used {
        let same = |own: &&crate::model::service::EndpointPort| {
            own.protocol == port.protocol && own.name == port.name
        };
        for own in slice.ports.iter().filter(same) {
            found.extend(endpoint.addresses.iter().map(|address| Backend {
                end: owner(cluster, *address),
                address: *address,
                protocol: port.protocol,
                port: own.port.unwrap_or(port.port),
            }));
        }
    }
    found
}
