//! The cluster's DNS Service and what stands behind it.
//!
//! Invariant: found by what makes it the DNS Service (port 53 and the label or a known name), never by its address: an address
//! that should be the Service's and is not is one of the ways to fail.

use std::net::{IpAddr, SocketAddr};

use netlab_core::model::cluster::{ObjectKey, Pod};
use netlab_core::model::port::Protocol;
use netlab_core::model::service::{EndpointSlice, Service};

use netlab_plugin::evidence::Transport;

use super::View;
use crate::bundle::layout;
use crate::cluster_dns;

/// The DNS Service.
#[derive(Clone, Debug)]
pub struct DnsService<'v> {
    /// Its key.
    pub key: ObjectKey,
    /// The Service.
    pub service: &'v Service,
}

/// One address behind the DNS Service, for one protocol.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DnsEndpoint {
    /// The address.
    pub address: IpAddr,
    /// The port on it.
    pub port: u16,
    /// UDP or TCP.
    pub protocol: Protocol,
    /// `conditions.ready`.
    pub ready: bool,
    /// `nodeName`.
    pub node: Option<String>,
    /// `targetRef.name`.
    pub pod: Option<String>,
}

impl View<'_> {
    /// The DNS Service; `None` when Services were not recorded or none of them is it.
    #[must_use]
    pub fn dns_service(&self) -> Option<DnsService<'_>> {
        if !self.knows(layout::SERVICES) {
            return None;
        }
        let (key, service) = cluster_dns::service(&self.loaded.cluster)?;
        Some(DnsService { key: key.clone(), service })
    }

    /// The Service that owns an address.
    #[must_use]
    pub fn service_at(&self, address: IpAddr) -> Option<(&ObjectKey, &Service)> {
        self.loaded.cluster.services.iter().find(|(_, service)| service.cluster_ips.contains(&address))
    }

    /// The slices of a Service.
    pub fn slices_of<'v>(
        &'v self,
        service: &ObjectKey,
    ) -> impl Iterator<Item = (&'v ObjectKey, &'v EndpointSlice)> {
        let service = service.clone();
        self.loaded.cluster.endpoint_slices.iter().filter(move |(key, slice)| {
            key.namespace == service.namespace && slice.service.as_deref() == Some(&*service.name)
        })
    }

    /// Everything behind the DNS Service, ready or not; empty when slices were not recorded.
    #[must_use]
    pub fn dns_endpoints(&self) -> Vec<DnsEndpoint> {
        let Some(dns) = self.dns_service() else { return Vec::new() };
        if !self.knows(layout::SLICES) {
            return Vec::new();
        }
        let port_names: Vec<Option<&str>> = dns
            .service
            .ports
            .iter()
            .filter(|port| port.port == 53)
            .map(|port| port.name.as_deref())
            .collect();
        let mut found = Vec::new();
        for (_, slice) in self.slices_of(&dns.key) {
            let ports = slice.ports.iter().filter(|port| {
                port_names
                    .iter()
                    .any(|name| name.unwrap_or_default() == port.name.as_deref().unwrap_or_default())
            });
            for port in ports {
                let Some(number) = port.port else { continue };
                for endpoint in &slice.endpoints {
                    let addresses = endpoint.addresses.iter().filter(|address| self.is_about(**address));
                    found.extend(addresses.map(|address| DnsEndpoint {
                        address: *address,
                        port: number,
                        protocol: port.protocol,
                        ready: endpoint.ready,
                        node: endpoint.node.clone(),
                        pod: endpoint.pod.clone(),
                    }));
                }
            }
        }
        found.sort();
        found.dedup();
        found
    }

    /// Where questions over one transport may go: the addresses of ready endpoints.
    #[must_use]
    pub fn ready_dns_addresses(&self, transport: Transport) -> Vec<SocketAddr> {
        let protocol = match transport {
            Transport::Udp => Protocol::Udp,
            Transport::Tcp => Protocol::Tcp,
        };
        let endpoints = self.dns_endpoints().into_iter();
        let mut found: Vec<SocketAddr> = endpoints
            .filter(|endpoint| endpoint.ready && endpoint.protocol == protocol)
            .map(|endpoint| SocketAddr::new(endpoint.address, endpoint.port))
            .collect();
        found.dedup();
        found
    }

    /// The pods that the DNS Service selects, with their keys; empty when it selects none or pods were not recorded.
    #[must_use]
    pub fn dns_pods(&self) -> Vec<(&ObjectKey, &Pod)> {
        let Some(dns) = self.dns_service() else { return Vec::new() };
        let Some(selector) = dns.service.selector.as_ref().filter(|selector| !selector.is_empty()) else {
            return Vec::new();
        };
        let pods = self.loaded.cluster.pods.iter().filter(|(key, pod)| {
            key.namespace == dns.key.namespace
                && selector.iter().all(|(label, value)| pod.labels.get(label) == Some(value))
        });
        pods.collect()
    }
}
