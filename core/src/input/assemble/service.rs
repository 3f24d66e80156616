//! Services and endpoint slices.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;
use serde_json::Value;

use super::pod::protocol;
use crate::diagnostic::{Diagnostic, ObjectRef, code};
use crate::input::objects::Sourced;
use crate::input::validate::{Report, service as validate};
use crate::input::wire::network_policy::IntOrString;
use crate::input::wire::service as wire;
use crate::model::cluster::ObjectKey;
use crate::model::service::{
    AddressType, Distribution, Endpoint, EndpointPort, EndpointSlice, IpFamilyPolicy, Service, ServicePort,
    ServiceType, TargetPort,
};

/// The label that ties a slice to its Service.
const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// The label that takes a Service or slice away from the cluster's own proxy.
pub(super) const PROXY_NAME: &str = "service.kubernetes.io/service-proxy-name";
/// The label of slices of headless Services.
pub(super) const HEADLESS: &str = "service.kubernetes.io/headless";
/// The label that names a slice's writer.
const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
/// The annotations that ask for hints in proportion to CPUs; the older one wins (`endpointslice/reconciler.go`).
const TOPOLOGY: [&str; 2] =
    ["service.kubernetes.io/topology-aware-hints", "service.kubernetes.io/topology-mode"];
/// `sessionAffinityConfig.clientIP.timeoutSeconds` when absent: three hours.
const AFFINITY_SECONDS: i64 = 10_800;

/// A value that cannot be read, and where.
pub(super) struct Bad {
    pub(super) message: String,
    pub(super) path: String,
}

pub(super) fn bad(message: String, path: impl Into<String>) -> Bad {
    Bad { message, path: path.into() }
}

/// Reads all Services.
pub(super) fn services(
    found: BTreeMap<ObjectKey, Sourced<wire::Service>>,
    diagnostics: &mut Vec<Diagnostic>,
) -> BTreeMap<ObjectKey, Service> {
    let read = (validate::service as Validate<_>, service as Read<_, _>);
    each("Service", found, read, |service, source| service.source = source, diagnostics)
}

/// Reads all endpoint slices.
pub(super) fn endpoint_slices(
    found: BTreeMap<ObjectKey, Sourced<wire::EndpointSlice>>,
    diagnostics: &mut Vec<Diagnostic>,
) -> BTreeMap<ObjectKey, EndpointSlice> {
    let read = (validate::endpoint_slice as Validate<_>, endpoint_slice as Read<_, _>);
    each("EndpointSlice", found, read, |slice, source| slice.source = source, diagnostics)
}

/// Whether the API would take it, with what it says.
type Validate<W> = fn(&mut Report<'_>, &W) -> bool;
type Read<W, M> = fn(&W) -> Result<M, Bad>;

fn each<W, M>(
    kind: &str,
    found: BTreeMap<ObjectKey, Sourced<W>>,
    (validate, read): (Validate<W>, Read<W, M>),
    set_source: fn(&mut M, crate::model::source::Source),
    diagnostics: &mut Vec<Diagnostic>,
) -> BTreeMap<ObjectKey, M> {
    let mut all = BTreeMap::new();
    for (key, Sourced { object, source }) in found {
        let about = ObjectRef {
            kind: kind.to_owned(),
            namespace: Some(key.namespace.clone()),
            name: key.name.clone(),
        };
        if !validate(&mut Report::new(&source, about.clone(), diagnostics), &object) {
            continue;
        }
        match read(&object) {
            Ok(mut model) => {
                set_source(&mut model, source);
                all.insert(key, model);
            }
            Err(Bad { message, path }) => {
                let diagnostic = Diagnostic::error(code::INVALID_ADDRESS, message)
                    .with_hint(format!("the {kind} is left out"))
                    .about(&about)
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
            node_port: match port.node_port {
                None | Some(0) => None,
                Some(written) => Some(number(written).ok_or_else(|| not_a_port(written, path("nodePort")))?),
            },
        });
    }
    let service_type = service_type(spec.service_type.as_deref())?;
    let metadata = &wire.metadata;
    let label = |key: &str| metadata.labels.as_ref().and_then(|labels| labels.get(key)).cloned();
    Ok(Service {
        cluster_ips,
        ip_families: ip_families(spec)?,
        ip_family_policy: ip_family_policy(spec.ip_family_policy.as_deref())?,
        headless,
        service_type,
        external_name: spec.external_name.clone(),
        external_ips: addresses("spec.externalIPs", spec.external_ips.iter().flatten())?,
        gets_node_ports: match service_type {
            ServiceType::NodePort => true,
            ServiceType::LoadBalancer => spec.allocate_load_balancer_node_ports != Some(false),
            ServiceType::ClusterIp | ServiceType::ExternalName => false,
        },
        load_balancer_ips: load_balancer_ips(wire, false)?,
        proxying_balancer_ips: load_balancer_ips(wire, true)?,
        source_ranges: source_ranges(spec)?,
        internal_local: is_local(spec.internal_traffic_policy.as_deref(), "spec.internalTrafficPolicy")?,
        external_local: is_local(spec.external_traffic_policy.as_deref(), "spec.externalTrafficPolicy")?,
        health_check_node_port: match spec.health_check_node_port {
            None | Some(0) => None,
            Some(written) => {
                let port = number(written);
                Some(port.ok_or_else(|| not_a_port(written, "spec.healthCheckNodePort".to_owned()))?)
            }
        },
        affinity: affinity(spec)?,
        publish_not_ready: spec.publish_not_ready_addresses.unwrap_or(false),
        distribution: distribution(spec.traffic_distribution.as_deref())?,
        topology_auto: topology_auto(metadata.unknown.get("annotations")),
        proxy_name: label(PROXY_NAME),
        selector: spec.selector.clone().filter(|selector| !selector.is_empty()),
        ports,
        ..Service::default()
    })
}

fn service_type(written: Option<&str>) -> Result<ServiceType, Bad> {
    Ok(match written {
        None | Some("" | "ClusterIP") => ServiceType::ClusterIp,
        Some("NodePort") => ServiceType::NodePort,
        Some("LoadBalancer") => ServiceType::LoadBalancer,
        Some("ExternalName") => ServiceType::ExternalName,
        Some(written) => return Err(bad(format!("`{written}` is no type of a Service"), "spec.type")),
    })
}

fn ip_families(spec: &wire::ServiceSpec) -> Result<Vec<AddressType>, Bad> {
    let written = spec.ip_families.iter().flatten().enumerate();
    let parsed = written.map(|(index, family)| match family.as_str() {
        "IPv4" => Ok(AddressType::Ipv4),
        "IPv6" => Ok(AddressType::Ipv6),
        _ => Err(bad(
            format!("`{family}` is no family of addresses: IPv4 or IPv6"),
            format!("spec.ipFamilies[{index}]"),
        )),
    });
    parsed.collect()
}

fn ip_family_policy(written: Option<&str>) -> Result<IpFamilyPolicy, Bad> {
    Ok(match written {
        None | Some("" | "SingleStack") => IpFamilyPolicy::SingleStack,
        Some("PreferDualStack") => IpFamilyPolicy::PreferDualStack,
        Some("RequireDualStack") => IpFamilyPolicy::RequireDualStack,
        Some(written) => {
            let what = format!("`{written}` is no policy: SingleStack, PreferDualStack or RequireDualStack");
            return Err(bad(what, "spec.ipFamilyPolicy"));
        }
    })
}

fn is_local(written: Option<&str>, path: &str) -> Result<bool, Bad> {
    match written {
        None | Some("" | "Cluster") => Ok(false),
        Some("Local") => Ok(true),
        Some(written) => Err(bad(format!("`{written}` is no traffic policy: Cluster or Local"), path)),
    }
}

fn addresses<'a>(path: &str, written: impl Iterator<Item = &'a String>) -> Result<Vec<IpAddr>, Bad> {
    let parsed = written.enumerate().map(|(index, ip)| {
        ip.parse().map_err(|_| bad(format!("`{ip}` is no IP address"), format!("{path}[{index}]")))
    });
    parsed.collect()
}

/// Addresses that nodes see, or those of balancers that terminate the connection themselves (`ipMode: Proxy`).
fn load_balancer_ips(wire: &wire::Service, proxying: bool) -> Result<Vec<IpAddr>, Bad> {
    let balancer = wire.status.as_ref().and_then(|status| status.load_balancer.as_ref());
    let ingress = balancer.and_then(|balancer| balancer.ingress.as_ref()).into_iter().flatten();
    let of_kind = ingress.filter(|ingress| (ingress.ip_mode.as_deref() == Some("Proxy")) == proxying);
    addresses("status.loadBalancer.ingress", of_kind.filter_map(|ingress| ingress.ip.as_ref()))
}

/// As they are written: what a range of all addresses means is each family's own.
fn source_ranges(spec: &wire::ServiceSpec) -> Result<Vec<IpNet>, Bad> {
    let mut ranges: Vec<IpNet> = Vec::new();
    for (index, written) in spec.load_balancer_source_ranges.iter().flatten().enumerate() {
        let path = format!("spec.loadBalancerSourceRanges[{index}]");
        ranges.push(written.trim().parse().map_err(|_| bad(format!("`{written}` is no CIDR"), path))?);
    }
    Ok(ranges)
}

fn affinity(spec: &wire::ServiceSpec) -> Result<Option<u32>, Bad> {
    match spec.session_affinity.as_deref() {
        None | Some("" | "None") => return Ok(None),
        Some("ClientIP") => {}
        Some(written) => {
            return Err(bad(
                format!("`{written}` is no session affinity: None or ClientIP"),
                "spec.sessionAffinity",
            ));
        }
    }
    let config = spec.session_affinity_config.as_ref().and_then(|config| config.client_ip.as_ref());
    let seconds = config.and_then(|config| config.timeout_seconds).unwrap_or(AFFINITY_SECONDS);
    let path = "spec.sessionAffinityConfig.clientIP.timeoutSeconds";
    match u32::try_from(seconds) {
        Ok(seconds @ 1..=86_400) => Ok(Some(seconds)),
        _ => Err(bad(format!("`{seconds}` is no time of 1 to 86400 seconds"), path)),
    }
}

fn distribution(written: Option<&str>) -> Result<Option<Distribution>, Bad> {
    Ok(match written {
        None | Some("") => None,
        Some("PreferClose" | "PreferSameZone") => Some(Distribution::SameZone),
        Some("PreferSameNode") => Some(Distribution::SameNode),
        Some(written) => {
            let message = format!("`{written}` is no traffic distribution");
            return Err(bad(message, "spec.trafficDistribution"));
        }
    })
}

fn topology_auto(annotations: Option<&Value>) -> bool {
    let of = |key: &&str| annotations.and_then(|all| all.get(*key)).and_then(Value::as_str);
    TOPOLOGY.iter().find_map(of).is_some_and(|mode| matches!(mode, "Auto" | "auto"))
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
    let address_type = match wire.address_type.as_str() {
        "IPv6" => AddressType::Ipv6,
        // Names instead of addresses: for external Services, never for pods.
        "FQDN" => AddressType::Fqdn,
        "" if wire
            .endpoints
            .iter()
            .flatten()
            .flat_map(|endpoint| &endpoint.addresses)
            .any(|ip| ip.contains(':')) =>
        {
            AddressType::Ipv6
        }
        "" | "IPv4" => AddressType::Ipv4,
        written => {
            return Err(bad(format!("`{written}` is no address type: IPv4, IPv6 or FQDN"), "addressType"));
        }
    };
    let named = address_type == AddressType::Fqdn;
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
            serving: conditions.serving.unwrap_or(true),
            terminating: conditions.terminating.unwrap_or(false),
            hostname: endpoint.hostname.clone().filter(|name| !name.is_empty()),
            node: endpoint.node_name.clone(),
            zone: endpoint.zone.clone().filter(|zone| !zone.is_empty()),
            zone_hints: hints(endpoint, |hints| &hints.for_zones),
            node_hints: hints(endpoint, |hints| &hints.for_nodes),
            pod: endpoint
                .target_ref
                .as_ref()
                .filter(|target| target.kind == "Pod")
                .map(|pod| pod.name.clone()),
        });
    }
    let label = |key: &str| wire.metadata.labels.as_ref().and_then(|labels| labels.get(key)).cloned();
    Ok(EndpointSlice {
        service: label(SERVICE_NAME),
        address_type,
        managed_by: label(MANAGED_BY),
        headless: label(HEADLESS).is_some(),
        proxy_name: label(PROXY_NAME),
        ports,
        endpoints,
        ..EndpointSlice::default()
    })
}

fn hints(
    endpoint: &wire::Endpoint,
    which: fn(&wire::EndpointHints) -> &Option<Vec<wire::Hint>>,
) -> Vec<String> {
    let hints = endpoint.hints.as_ref().and_then(|hints| which(hints).as_ref());
    hints.into_iter().flatten().map(|hint| hint.name.clone()).collect()
}

pub(super) fn number(written: i64) -> Option<u16> {
    u16::try_from(written).ok().filter(|port| *port != 0)
}

pub(super) fn not_a_port(written: i64, path: String) -> Bad {
    bad(format!("`{written}` is no port number"), path)
}
