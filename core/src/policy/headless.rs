//! A Service as it is asked for, headless or not: which port of which ends a client's packets have.
//!
//! A headless Service (`clusterIP: None`) translates nothing: its name leads to the addresses of its ready endpoints, and a
//! client sends to the port that it was told. So a number means that port of the pods, whatever `targetPort` says, and
//! whether the Service has it or not; a port's name means what its SRV record names, which is the endpoint's own port
//! (Kubernetes DNS specification, 2.4). Without a port the only one that the Service has is meant, by its number.
//! Invariant: eval, prove and connections ask through here, so that they cannot differ.

use std::collections::BTreeSet;

use super::backends::{Backend, ServiceError, backends, end, service, service_port};
use super::query::End;
use crate::endpoint_ref::{PortName, PortRef};
use crate::model::cluster::{Cluster, ObjectKey};
use crate::model::port::Protocol;
use crate::model::service::{EndpointSlice, Service, ServicePort};
use crate::service::slices::{self, ENDPOINTS_PER_SLICE};

/// What is behind one port of a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Behind {
    /// The port that the client was told.
    pub port: u16,
    /// The protocol.
    pub protocol: Protocol,
    /// Where packets arrive, sorted.
    pub backends: Vec<Backend>,
    /// What a headless Service's port hides, in words.
    pub note: Option<String>,
}

/// What is behind the port of a Service that is meant.
///
/// # Errors
/// [`ServiceError`] when it is not one, or leads nowhere that could be asked about.
pub fn behind(cluster: &Cluster, key: &ObjectKey, wanted: Option<&PortRef>) -> Result<Behind, ServiceError> {
    let of = service(cluster, key)?;
    let number = match wanted.map(|wanted| (&wanted.port, wanted.protocol)) {
        Some((PortName::Number(number), protocol)) if of.headless => (*number, protocol),
        None if of.headless => {
            let only = service_port(cluster, key, None)?;
            (only.port, Some(only.protocol))
        }
        _ => {
            let port = service_port(cluster, key, wanted)?;
            return Ok(if of.headless {
                by_name(cluster, key, of, port)
            } else {
                translated(cluster, key, port)
            });
        }
    };
    Ok(by_number(cluster, key, of, number))
}

/// The ends that a headless Service's name leads to.
#[must_use]
pub fn named_ends(cluster: &Cluster, key: &ObjectKey, service: &Service) -> BTreeSet<End> {
    let found = published(cluster, key, service, Protocol::default(), |_| vec![0]);
    found.into_iter().map(|backend| backend.end).collect()
}

fn translated(cluster: &Cluster, key: &ObjectKey, port: &ServicePort) -> Behind {
    let backends = backends(cluster, key, port);
    Behind { port: port.port, protocol: port.protocol, backends, note: None }
}

fn by_name(cluster: &Cluster, key: &ObjectKey, service: &Service, port: &ServicePort) -> Behind {
    let backends = published(cluster, key, service, port.protocol, |slice| targets(slice, port));
    let listening = numbers(&backends);
    let note = (!listening.iter().eq([&port.port])).then(|| {
        format!(
            "svc/{key} is headless: asked is port {} of its pods, which the SRV records of its port {} name; nothing \
             translates its number {}",
            listed(&listening),
            port.name.as_deref().unwrap_or_default(),
            port.port
        )
    });
    Behind { port: port.port, protocol: port.protocol, note: nobody(key, &backends).or(note), backends }
}

fn by_number(
    cluster: &Cluster,
    key: &ObjectKey,
    service: &Service,
    (number, protocol): (u16, Option<Protocol>),
) -> Behind {
    let own = || service.ports.iter().filter(|port| port.port == number);
    let of_own: BTreeSet<Protocol> = own().map(|port| port.protocol).collect();
    let only = of_own.first().copied().filter(|_| of_own.len() == 1);
    let protocol = protocol.or(only).unwrap_or_default();
    let backends = published(cluster, key, service, protocol, |_| vec![number]);
    let listening = |port: &ServicePort| {
        numbers(&published(cluster, key, service, protocol, |slice| targets(slice, port)))
    };
    let note = if let Some(port) = own().find(|port| port.protocol == protocol) {
        let there = listening(port);
        (!there.iter().eq([&number])).then(|| {
                format!(
                    "svc/{key} is headless: nothing translates its port {number}, so asked is port {number} of its pods; its \
                     targetPort is {}, where a client that knows the Service by SRV records goes",
                    listed(&there)
                )
            })
    } else {
        let mut others = service.ports.iter().filter(|port| port.protocol == protocol);
        let target = others.find(|port| listening(port).contains(&number));
        let target = target
            .map_or_else(String::new, |port| format!(", which is the targetPort of its port {}", port.port));
        Some(format!(
            "svc/{key} has no port {number}/{}; it is headless, so its name leads to its pods and asked is port \
                 {number} of them{target}",
            protocol.lower()
        ))
    };
    Behind { port: number, protocol, note: nobody(key, &backends).or(note), backends }
}

fn nobody(key: &ObjectKey, backends: &[Backend]) -> Option<String> {
    backends.is_empty().then(|| {
        format!("svc/{key} is headless and has no ready endpoint: its name leads to no address, and nothing is sent")
    })
}

/// The numbers that a slice has for a port of the Service.
fn targets(slice: &EndpointSlice, port: &ServicePort) -> Vec<u16> {
    let name = port.name.as_deref().unwrap_or_default();
    let is_it = |found: &&crate::model::service::EndpointPort| {
        found.name.as_deref().unwrap_or_default() == name && found.protocol == port.protocol
    };
    slice.ports.iter().filter(is_it).filter_map(|found| found.port.filter(|number| *number != 0)).collect()
}

/// The addresses of ready endpoints, all of which DNS gives, with ports of their slice.
fn published(
    cluster: &Cluster,
    key: &ObjectKey,
    service: &Service,
    protocol: Protocol,
    ports: impl Fn(&EndpointSlice) -> Vec<u16>,
) -> Vec<Backend> {
    let slices = slices::of(cluster, key, service, ENDPOINTS_PER_SLICE);
    let mut found = Vec::new();
    for slice in slices.slices.values() {
        for port in ports(slice) {
            for endpoint in slice.endpoints.iter().filter(|endpoint| endpoint.ready) {
                let pod = endpoint.pod.as_deref();
                found.extend(endpoint.addresses.iter().map(|address| Backend {
                    end: end(cluster, &key.namespace, *address, pod),
                    address: *address,
                    protocol,
                    port,
                }));
            }
        }
    }
    found.sort();
    found.dedup();
    found
}

fn numbers(backends: &[Backend]) -> BTreeSet<u16> {
    backends.iter().map(|backend| backend.port).collect()
}

fn listed(numbers: &BTreeSet<u16>) -> String {
    if numbers.is_empty() {
        return "none that any of them has".to_owned();
    }
    numbers.iter().map(u16::to_string).collect::<Vec<_>>().join(" or ")
}
