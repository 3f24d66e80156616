//! Services and endpoint slices.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::pod::protocol;
use crate::diagnostic::{Diagnostic, ObjectRef, code};
use crate::input::objects::Sourced;
use crate::input::wire::network_policy::IntOrString;
use crate::input::wire::service as wire;
use crate::model::cluster::ObjectKey;
use crate::model::service::{Endpoint, EndpointPort, EndpointSlice, Service, ServicePort, TargetPort};

/// The label that ties a slice to its Service.
const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// A value that cannot be read, and where.
struct Bad {
    message: String,
    path: String,
}

fn bad(message: String, path: impl Into<String>) -> Bad {
    Bad { message, path: path.into() }
}

/// Reads all Services.
pub(super) fn services(
    found: BTreeMap<ObjectKey, Sourced<wire::Service>>,
    diagnostics: &mut Vec<Diagnostic>,
) -> BTreeMap<ObjectKey, Service> {
    each("Service", found, service, |service, source| service.source = source, diagnostics)
}

/// Reads all endpoint slices.
pub(super) fn endpoint_slices(
    found: BTreeMap<ObjectKey, Sourced<wire::EndpointSlice>>,
    diagnostics: &mut Vec<Diagnostic>,
) -> BTreeMap<ObjectKey, EndpointSlice> {
    each("EndpointSlice", found, endpoint_slice, |slice, source| slice.source = source, diagnostics)
}

fn each<W, M>(
    kind: &str,
    found: BTreeMap<ObjectKey, Sourced<W>>,
    read: fn(&W) -> Result<M, Bad>,
    set_source: fn(&mut M, crate::model::source::Source),
    diagnostics: &mut Vec<Diagnostic>,
) -> BTreeMap<ObjectKey, M> {
    let mut all = BTreeMap::new();
    for (key, Sourced { object, source }) in found {
        match read(&object) {
            Ok(mut model) => {
                set_source(&mut model, source);
                all.insert(key, model);
            }
            Err(Bad { message, path }) => {
                let object =
                    ObjectRef { kind: kind.to_owned(), namespace: Some(key.namespace), name: key.name };
                let diagnostic = Diagnostic::error(code::INVALID_ADDRESS, message)
                    .with_hint(format!("the {kind} is left out"))
                    .about(&object)
                    .at_path(&source, path);
                diagnostics.push(diagnostic);
            }
        }
    }
    all
}

fn service(wire: &wire::Service) -> Result<Service, Bad> {
    let none = wire::ServiceSpec::default();
    let spec = wire.spec.as_ref().unwrap_or(&none);
    let mut written: Vec<(String, &String)> = spec
        .cluster_ips
        .iter()
        .flatten()
        .enumerate()
        .map(|(index, ip)| (format!("spec.clusterIPs[{index}]"), ip))
        .collect();
    if written.is_empty() {
        written.extend(spec.cluster_ip.iter().map(|ip| ("spec.clusterIP".to_owned(), ip)));
    }
    let headless = written.iter().any(|(_, ip)| *ip == "None");
    let mut cluster_ips: Vec<IpAddr> = Vec::new();
    for (path, ip) in written.into_iter().filter(|(_, ip)| !ip.is_empty() && *ip != "None") {
        cluster_ips.push(ip.parse().map_err(|_| bad(format!("`{ip}` is no IP address"), path))?);
    }
    let mut ports = Vec::new();
    for (index, port) in spec.ports.iter().flatten().enumerate() {
        let path = |field: &str| format!("spec.ports[{index}].{field}");
        let published = number(port.port).ok_or_else(|| not_a_port(port.port, path("port")))?;
        let target = match &port.target_port {
            // 0 and the empty name are what Go's zero value looks like: not given.
            None | Some(IntOrString::Int(0)) => TargetPort::Number(published),
            Some(IntOrString::String(name)) if name.is_empty() => TargetPort::Number(published),
            Some(IntOrString::Int(target)) => {
                TargetPort::Number(number(*target).ok_or_else(|| not_a_port(*target, path("targetPort")))?)
            }
            Some(IntOrString::String(name)) => TargetPort::Name(name.clone()),
        };
        ports.push(ServicePort {
            name: port.name.clone().filter(|name| !name.is_empty()),
            protocol: protocol(port.protocol.as_deref())
                .ok_or_else(|| bad("no protocol of a Service".to_owned(), path("protocol")))?,
            port: published,
            target,
        });
    }
    let service_type = spec.service_type.clone().filter(|written| !written.is_empty());
    Ok(Service {
        cluster_ips,
        headless,
        service_type: service_type.unwrap_or_else(|| "ClusterIP".to_owned()),
        selector: spec.selector.clone().filter(|selector| !selector.is_empty()),
        ports,
        ..Service::default()
    })
}

fn endpoint_slice(wire: &wire::EndpointSlice) -> Result<EndpointSlice, Bad> {
    let mut ports = Vec::new();
    for (index, port) in wire.ports.iter().flatten().enumerate() {
        let path = |field: &str| format!("ports[{index}].{field}");
        ports.push(EndpointPort {
            name: port.name.clone().filter(|name| !name.is_empty()),
            protocol: protocol(port.protocol.as_deref())
                .ok_or_else(|| bad("no protocol of a Service".to_owned(), path("protocol")))?,
            port: match port.port {
                None => None,
                Some(written) => Some(number(written).ok_or_else(|| not_a_port(written, path("port")))?),
            },
        });
    }
    let mut endpoints = Vec::new();
    // Names instead of addresses: for external Services, never for pods.
    let named = wire.address_type == "FQDN";
    for (index, endpoint) in wire.endpoints.iter().flatten().enumerate().filter(|_| !named) {
        let mut addresses = Vec::new();
        for (number, written) in endpoint.addresses.iter().enumerate() {
            let path = format!("endpoints[{index}].addresses[{number}]");
            addresses.push(written.parse().map_err(|_| bad(format!("`{written}` is no IP address"), path))?);
        }
        let conditions = endpoint.conditions.clone().unwrap_or_default();
        let ready = conditions.ready.unwrap_or(true);
        endpoints.push(Endpoint {
            addresses,
            ready,
            serving: conditions.serving.unwrap_or(ready),
            terminating: conditions.terminating.unwrap_or(false),
            node: endpoint.node_name.clone(),
        });
    }
    let service = wire.metadata.labels.as_ref().and_then(|labels| labels.get(SERVICE_NAME)).cloned();
    Ok(EndpointSlice { service, ports, endpoints, ..EndpointSlice::default() })
}

fn number(written: i64) -> Option<u16> {
    u16::try_from(written).ok().filter(|port| *port != 0)
}

fn not_a_port(written: i64, path: String) -> Bad {
    bad(format!("`{written}` is no port number"), path)
}
