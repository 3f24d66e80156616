//! What the API server refuses of Services and endpoint slices, where it would leave open what a proxy does.
//!
//! Source of the rules: `ValidateService` of `pkg/apis/core/validation` and `ValidateEndpointSlice` of
//! `pkg/apis/discovery/validation` of Kubernetes.
//!
//! Does not know what follows for addresses, numbers and words that cannot be read (those are found where they are read),
//! nor what the API server fills in.

use std::collections::BTreeSet;

use super::Report;
use crate::diagnostic::code;
use crate::input::wire::service::{EndpointSlice, Service, ServicePort, ServiceSpec};

fn refuse(report: &mut Report<'_>, path: &str, message: String, hint: &str) {
    report.error(code::INVALID_SERVICE, path, message, hint);
}

/// True when a Service is not to be left out. One of whose ports some have no names is read, as what it would do is plain
/// where the numbers differ.
pub(in super::super) fn service(report: &mut Report<'_>, wire: &Service) -> bool {
    let none = ServiceSpec::default();
    let spec = wire.spec.as_ref().unwrap_or(&none);
    let service_type = spec.service_type.as_deref().unwrap_or("ClusterIP");
    let external_name = spec.external_name.as_deref().unwrap_or_default();
    if service_type == "ExternalName" && external_name.is_empty() {
        let message = "a Service of type ExternalName without `externalName`".to_owned();
        refuse(report, "spec", message, "write the name that DNS is to answer with");
    }
    let written = |ip: &&String| !ip.is_empty();
    let listed: Vec<&String> = spec.cluster_ips.iter().flatten().filter(written).collect();
    let first = spec.cluster_ip.as_ref().filter(written);
    if let (Some(one), Some(other)) = (first, listed.first())
        && one != *other
    {
        let message = format!("`clusterIP` {one} is not the first of `clusterIPs`, {other}");
        refuse(report, "spec.clusterIP", message, "write the same");
    }
    let is_headless = first.into_iter().chain(listed.iter().copied()).any(|ip| ip == "None");
    if is_headless && matches!(service_type, "NodePort" | "LoadBalancer") {
        let message = format!("a headless Service of type {service_type}");
        refuse(report, "spec.clusterIP", message, "it has no address that node ports could stand for");
    }
    let is_of_one_family = |a: &str, b: &str| a.contains(':') == b.contains(':');
    match listed.as_slice() {
        [a, b] if is_of_one_family(a, b) => {
            let message = format!("{a} and {b} are of one family");
            refuse(report, "spec.clusterIPs", message, "a Service has one cluster IP of each family");
        }
        [_, _, _, ..] => {
            let message = format!("{} cluster IPs", listed.len());
            refuse(report, "spec.clusterIPs", message, "a Service has one cluster IP of each family");
        }
        _ => {}
    }
    ports(report, spec.ports.as_deref().unwrap_or_default());
    report.is_good()
}

fn ports(report: &mut Report<'_>, ports: &[ServicePort]) {
    let (mut names, mut numbers) = (BTreeSet::new(), BTreeSet::new());
    for (index, port) in ports.iter().enumerate() {
        let path = |field: &str| format!("spec.ports[{index}]{field}");
        let name = port.name.as_deref().unwrap_or_default();
        if name.is_empty() && ports.len() > 1 {
            let message = "a port without a name beside others: the API server refuses that";
            let hint = "endpoints are found by the names of ports: give each one";
            report.warning(code::INVALID_SERVICE, &path(""), message, hint);
        } else if !name.is_empty() && !names.insert(name) {
            refuse(report, &path(".name"), format!("two ports are named `{name}`"), "give each its own name");
        }
        let protocol = port.protocol.as_deref().unwrap_or("TCP");
        if !numbers.insert((protocol, port.port)) {
            let message = format!("two ports are {protocol} {}", port.port);
            refuse(report, &path(".port"), message, "which one a packet is for cannot be told");
        }
    }
}

/// True when nothing of a slice would be refused.
pub(in super::super) fn endpoint_slice(report: &mut Report<'_>, wire: &EndpointSlice) -> bool {
    for (index, endpoint) in wire.endpoints.iter().flatten().enumerate() {
        for (number, address) in endpoint.addresses.iter().enumerate() {
            // What is no address at all is told where it is read.
            let family =
                address.parse().map(|ip: std::net::IpAddr| if ip.is_ipv4() { "IPv4" } else { "IPv6" });
            if let Ok(family) = family
                && matches!(wire.address_type.as_str(), "IPv4" | "IPv6")
                && family != wire.address_type
            {
                let message = format!("{address} is no {} address", wire.address_type);
                let path = format!("endpoints[{index}].addresses[{number}]");
                refuse(report, &path, message, &format!("write a slice of `addressType: {family}` for it"));
            }
        }
    }
    let mut names = BTreeSet::new();
    for (index, port) in wire.ports.iter().flatten().enumerate() {
        let name = port.name.as_deref().unwrap_or_default();
        if !names.insert(name) {
            let path = format!("ports[{index}]");
            let message = match name {
                "" => "two ports without a name".to_owned(),
                name => format!("two ports are named `{name}`"),
            };
            refuse(report, &path, message, "a Service's port finds its endpoints by the name");
        }
    }
    report.is_good()
}
