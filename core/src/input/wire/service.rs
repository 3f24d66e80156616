//! `v1 Service` and `discovery.k8s.io/v1 EndpointSlice`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::meta::{ObjectMeta, Unknown};
use super::network_policy::IntOrString;

/// `v1 Service`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Service {
    /// `metadata`.
    pub metadata: ObjectMeta,
    /// `spec`.
    pub spec: Option<ServiceSpec>,
    /// `status`.
    pub status: Option<ServiceStatus>,
    /// Everything else.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// `ServiceStatus`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceStatus {
    /// `loadBalancer`.
    pub load_balancer: Option<LoadBalancerStatus>,
    /// Everything else.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// `LoadBalancerStatus`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LoadBalancerStatus {
    /// `ingress`.
    pub ingress: Option<Vec<LoadBalancerIngress>>,
}

/// `LoadBalancerIngress`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LoadBalancerIngress {
    /// `ip`: absent for balancers that are known by name.
    pub ip: Option<String>,
    /// `ipMode`: `VIP` when absent; with `Proxy` the node does not see the address.
    pub ip_mode: Option<String>,
    /// Everything else.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// `ServiceSpec`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceSpec {
    /// `type`: ClusterIP when absent.
    #[serde(rename = "type")]
    pub service_type: Option<String>,
    /// `clusterIP`: an address, `None` for headless, absent or empty before the API server chose one.
    #[serde(rename = "clusterIP")]
    pub cluster_ip: Option<String>,
    /// `clusterIPs`.
    #[serde(rename = "clusterIPs")]
    pub cluster_ips: Option<Vec<String>>,
    /// `ipFamilies`: IPv4, IPv6 or both, in order; chosen by the API server when absent.
    pub ip_families: Option<Vec<String>>,
    /// `ipFamilyPolicy`: `SingleStack` when absent.
    pub ip_family_policy: Option<String>,
    /// `selector`: absent means that endpoints are made by hand.
    pub selector: Option<BTreeMap<String, String>>,
    /// `ports`.
    pub ports: Option<Vec<ServicePort>>,
    /// `externalName`: for the type of that name.
    pub external_name: Option<String>,
    /// `externalIPs`.
    #[serde(rename = "externalIPs")]
    pub external_ips: Option<Vec<String>>,
    /// `internalTrafficPolicy`: Cluster when absent.
    pub internal_traffic_policy: Option<String>,
    /// `externalTrafficPolicy`: Cluster when absent.
    pub external_traffic_policy: Option<String>,
    /// `allocateLoadBalancerNodePorts`.
    pub allocate_load_balancer_node_ports: Option<bool>,
    /// `loadBalancerSourceRanges`.
    pub load_balancer_source_ranges: Option<Vec<String>>,
    /// `healthCheckNodePort`.
    pub health_check_node_port: Option<i64>,
    /// `publishNotReadyAddresses`.
    pub publish_not_ready_addresses: Option<bool>,
    /// `sessionAffinity`: None when absent.
    pub session_affinity: Option<String>,
    /// `sessionAffinityConfig`.
    pub session_affinity_config: Option<SessionAffinityConfig>,
    /// `trafficDistribution`.
    pub traffic_distribution: Option<String>,
    /// Everything else.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// `SessionAffinityConfig`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SessionAffinityConfig {
    /// `clientIP`.
    #[serde(rename = "clientIP")]
    pub client_ip: Option<ClientIpConfig>,
}

/// `ClientIPConfig`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClientIpConfig {
    /// `timeoutSeconds`: 10800 when absent.
    pub timeout_seconds: Option<i64>,
}

/// `ServicePort`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServicePort {
    /// `name`.
    pub name: Option<String>,
    /// `protocol`: TCP when absent.
    pub protocol: Option<String>,
    /// `port`.
    pub port: i64,
    /// `targetPort`: the port itself when absent.
    pub target_port: Option<IntOrString>,
    /// `nodePort`.
    pub node_port: Option<i64>,
    /// Everything else.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// `discovery.k8s.io/v1 EndpointSlice`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EndpointSlice {
    /// `metadata`.
    pub metadata: ObjectMeta,
    /// `addressType`: IPv4, IPv6 or FQDN.
    pub address_type: String,
    /// `endpoints`.
    pub endpoints: Option<Vec<Endpoint>>,
    /// `ports`.
    pub ports: Option<Vec<EndpointPort>>,
    /// Everything else.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// `Endpoint`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Endpoint {
    /// `addresses`.
    pub addresses: Vec<String>,
    /// `conditions`.
    pub conditions: Option<EndpointConditions>,
    /// `hostname`: a name of its own below the Service's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    /// `nodeName`.
    pub node_name: Option<String>,
    /// `zone`.
    pub zone: Option<String>,
    /// `hints`.
    pub hints: Option<EndpointHints>,
    /// `targetRef`.
    pub target_ref: Option<TargetRef>,
    /// Everything else.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// `EndpointHints`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EndpointHints {
    /// `forZones`.
    pub for_zones: Option<Vec<Hint>>,
    /// `forNodes`.
    pub for_nodes: Option<Vec<Hint>>,
}

/// `ForZone` and `ForNode`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Hint {
    /// `name`.
    pub name: String,
}

/// `ObjectReference`, as far as it names a pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TargetRef {
    /// `kind`.
    pub kind: String,
    /// `name`.
    pub name: String,
    /// Everything else.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// `EndpointConditions`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EndpointConditions {
    /// `ready`: absent means ready.
    pub ready: Option<bool>,
    /// `serving`: absent means serving, as kube-proxy reads it.
    pub serving: Option<bool>,
    /// `terminating`: absent means no.
    pub terminating: Option<bool>,
}

/// `EndpointPort`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EndpointPort {
    /// `name`.
    pub name: Option<String>,
    /// `protocol`: TCP when absent.
    pub protocol: Option<String>,
    /// `port`: absent means all.
    pub port: Option<i64>,
    /// Everything else.
    #[serde(flatten)]
    pub unknown: Unknown,
}
