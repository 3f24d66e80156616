//! Services and their endpoint slices, as far as the API objects go.
//!
//! Invariant: nothing is selected or expanded here: which endpoints a node uses is a question to the service
//! model, not a property of these objects.

use std::net::IpAddr;

use ipnet::IpNet;

use super::cluster::Labels;
use super::port::Protocol;
use super::source::Source;

/// A Service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Service {
    /// `spec.clusterIPs`; empty for headless Services.
    pub cluster_ips: Vec<IpAddr>,
    /// `spec.ipFamilies`, in order; empty when absent.
    pub ip_families: Vec<AddressType>,
    /// `spec.ipFamilyPolicy`.
    pub ip_family_policy: IpFamilyPolicy,
    /// Ports without a `nodePort` will have one: the API server allocates it for types `NodePort` and `LoadBalancer`, there
    /// unless `allocateLoadBalancerNodePorts` is false.
    pub gets_node_ports: bool,
    /// True for `clusterIP: None`.
    pub headless: bool,
    /// `spec.type`.
    pub service_type: ServiceType,
    /// `spec.externalName`, for that type.
    pub external_name: Option<String>,
    /// `spec.externalIPs`.
    pub external_ips: Vec<IpAddr>,
    /// `status.loadBalancer.ingress[].ip`, but for those that nodes do not see (`ipMode: Proxy`).
    pub load_balancer_ips: Vec<IpAddr>,
    /// The others: addresses of balancers that end connections themselves (`ipMode: Proxy`).
    pub proxying_balancer_ips: Vec<IpAddr>,
    /// `spec.loadBalancerSourceRanges`, as written; see [`Service::source_ranges_of`].
    pub source_ranges: Vec<IpNet>,
    /// `spec.internalTrafficPolicy` is Local.
    pub internal_local: bool,
    /// `spec.externalTrafficPolicy` is Local.
    pub external_local: bool,
    /// `spec.healthCheckNodePort`.
    pub health_check_node_port: Option<u16>,
    /// Seconds for which a client stays with an endpoint (`sessionAffinity: ClientIP`).
    pub affinity: Option<u32>,
    /// `spec.publishNotReadyAddresses`.
    pub publish_not_ready: bool,
    /// `spec.trafficDistribution`.
    pub distribution: Option<Distribution>,
    /// The annotation `service.kubernetes.io/topology-mode` (or its older form) is `Auto`.
    pub topology_auto: bool,
    /// The label `service.kubernetes.io/service-proxy-name`: another proxy's Service.
    pub proxy_name: Option<String>,
    /// `spec.selector`; `None` when absent.
    pub selector: Option<Labels>,
    /// `spec.ports`.
    pub ports: Vec<ServicePort>,
    /// Where it was written.
    pub source: Source,
}

/// `Service.spec.type`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum ServiceType {
    /// An address inside the cluster.
    #[default]
    ClusterIp,
    /// The same, and a port on every node.
    NodePort,
    /// The same, and a balancer outside.
    LoadBalancer,
    /// A name outside; nothing is proxied.
    ExternalName,
}

/// `Service.spec.ipFamilyPolicy`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IpFamilyPolicy {
    /// One family: also what is meant when nothing is said.
    #[default]
    SingleStack,
    /// Both, where the cluster has both.
    PreferDualStack,
    /// Both.
    RequireDualStack,
}

/// `Service.spec.trafficDistribution`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Distribution {
    /// `PreferSameZone`, and `PreferClose`, its older name.
    SameZone,
    /// `PreferSameNode`.
    SameNode,
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
    /// `nodePort`.
    pub node_port: Option<u16>,
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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EndpointSlice {
    /// The label `kubernetes.io/service-name`.
    pub service: Option<String>,
    /// `addressType`.
    pub address_type: AddressType,
    /// The label `endpointslice.kubernetes.io/managed-by`.
    pub managed_by: Option<String>,
    /// The label `service.kubernetes.io/headless`: proxies do not look at it.
    pub headless: bool,
    /// The label `service.kubernetes.io/service-proxy-name`: another proxy's slice.
    pub proxy_name: Option<String>,
    /// `ports`.
    pub ports: Vec<EndpointPort>,
    /// `endpoints`.
    pub endpoints: Vec<Endpoint>,
    /// True when the input has an Endpoints object instead, and this is what the `EndpointSliceMirroring` controller makes of it.
    pub mirrored: bool,
    /// Where it was written.
    pub source: Source,
}

/// `EndpointSlice.addressType`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum AddressType {
    /// IPv4 addresses.
    #[default]
    Ipv4,
    /// IPv6 addresses.
    Ipv6,
    /// Names; no proxy uses them.
    Fqdn,
}

impl Service {
    /// True for one that the API server gives a cluster IP and that has none yet, as in manifests before they are applied.
    #[must_use]
    pub fn awaits_cluster_ip(&self) -> bool {
        !self.headless && self.service_type != ServiceType::ExternalName && self.cluster_ips.is_empty()
    }

    /// Whether it has a port of this number.
    #[must_use]
    pub fn has_port(&self, port: u16, protocol: Protocol) -> bool {
        self.ports.iter().any(|one| (one.port, one.protocol) == (port, protocol))
    }

    /// The addresses of its own at which nodes lead on: cluster IPs, external ones and those of balancers.
    pub fn addresses(&self) -> impl Iterator<Item = &IpAddr> {
        self.cluster_ips.iter().chain(&self.external_ips).chain(&self.load_balancer_ips)
    }

    /// Whether an address is one of those.
    #[must_use]
    pub fn has_address(&self, address: IpAddr) -> bool {
        self.addresses().any(|own| *own == address)
    }

    /// The port that packets to an address are for; one of a node (`is_node`) has the node ports, too.
    #[must_use]
    pub fn port_at(
        &self,
        (address, is_node): (IpAddr, bool),
        port: u16,
        protocol: Protocol,
    ) -> Option<&ServicePort> {
        let is_own = self.has_address(address);
        self.ports.iter().find(|one| {
            one.protocol == protocol && (is_own && one.port == port || is_node && one.node_port == Some(port))
        })
    }

    /// Who may come to a balancer's address in a family; empty for all. A proxy takes the ranges of its own family, and
    /// one of all its addresses is the same as none (`pkg/proxy/serviceport.go`, `IsZeroCIDR`).
    #[must_use]
    pub fn source_ranges_of(&self, family: AddressType) -> Vec<IpNet> {
        let own = self.source_ranges.iter().filter(|range| AddressType::of(range.addr()) == family);
        let ranges: Vec<IpNet> = own.copied().collect();
        if ranges.iter().any(|range| range.prefix_len() == 0) { Vec::new() } else { ranges }
    }
}

impl AddressType {
    /// The type whose slices hold an address.
    #[must_use]
    pub const fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(_) => Self::Ipv4,
            IpAddr::V6(_) => Self::Ipv6,
        }
    }

    /// As the API writes it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ipv4 => "IPv4",
            Self::Ipv6 => "IPv6",
            Self::Fqdn => "FQDN",
        }
    }
}

/// `EndpointSlice.ports[]`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EndpointPort {
    /// `name`; the empty name is a name too: an unnamed Service port's.
    pub name: Option<String>,
    /// `protocol`.
    pub protocol: Protocol,
    /// `port`; absent means all.
    pub port: Option<u16>,
}

/// `EndpointSlice.endpoints[]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Endpoint {
    /// `addresses`.
    pub addresses: Vec<IpAddr>,
    /// `conditions.ready`; absent means ready.
    pub ready: bool,
    /// `conditions.serving`; absent means serving, whatever `ready` says: so kube-proxy reads it.
    pub serving: bool,
    /// `conditions.terminating`.
    pub terminating: bool,
    /// `hostname`: a name of its own below the Service's.
    pub hostname: Option<String>,
    /// `nodeName`.
    pub node: Option<String>,
    /// `zone`.
    pub zone: Option<String>,
    /// `hints.forZones`.
    pub zone_hints: Vec<String>,
    /// `hints.forNodes`.
    pub node_hints: Vec<String>,
    /// `targetRef.name`, when it names a pod.
    pub pod: Option<String>,
}
