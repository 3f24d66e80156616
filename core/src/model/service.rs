//! Services and their endpoint slices, as far as the API objects go.
//!
//! Invariant: nothing is selected or expanded here: which endpoints a node uses is a question to the service
//! model, not a property of these objects.

use std::net::IpAddr;

use super::cluster::Labels;
use super::port::Protocol;
use super::source::Source;

/// A Service.
#[derive(Clone, Debug, Default)]
pub struct Service {
    /// `spec.clusterIPs`; empty for headless Services.
    pub cluster_ips: Vec<IpAddr>,
    /// True for `clusterIP: None`.
    pub headless: bool,
    /// `spec.type`.
    pub service_type: String,
    /// `spec.selector`; `None` when absent.
    pub selector: Option<Labels>,
    /// `spec.ports`.
    pub ports: Vec<ServicePort>,
    /// Where it was written.
    pub source: Source,
}

/// `Service.spec.ports[]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServicePort {
    /// `name`.
    pub name: Option<String>,
    /// `protocol`.
    pub protocol: Protocol,
    /// `port`.
    pub port: u16,
    /// `targetPort`; the port itself when absent.
    pub target: TargetPort,
}

/// `targetPort`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetPort {
    /// A number on every endpoint.
    Number(u16),
    /// A container port's name, resolved per pod.
    Name(String),
}

/// An EndpointSlice.
#[derive(Clone, Debug, Default)]
pub struct EndpointSlice {
    /// The label `kubernetes.io/service-name`.
    pub service: Option<String>,
    /// `ports`.
    pub ports: Vec<EndpointPort>,
    /// `endpoints`.
    pub endpoints: Vec<Endpoint>,
    /// Where it was written.
    pub source: Source,
}

/// `EndpointSlice.ports[]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointPort {
    /// `name`.
    pub name: Option<String>,
    /// `protocol`.
    pub protocol: Protocol,
    /// `port`; absent means all.
    pub port: Option<u16>,
}

/// `EndpointSlice.endpoints[]`.
#[derive(Clone, Debug, Default)]
pub struct Endpoint {
    /// `addresses`.
    pub addresses: Vec<IpAddr>,
    /// `conditions.ready`; absent means ready.
    pub ready: bool,
    /// `conditions.serving`; absent means as ready.
    pub serving: bool,
    /// `conditions.terminating`.
    pub terminating: bool,
    /// `nodeName`.
    pub node: Option<String>,
}
