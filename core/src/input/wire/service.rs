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
    /// `selector`: absent means that endpoints are made by hand.
    pub selector: Option<BTreeMap<String, String>>,
    /// `ports`.
    pub ports: Option<Vec<ServicePort>>,
    /// Everything else.
    #[serde(flatten)]
    pub unknown: Unknown,
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
    /// `nodeName`.
    pub node_name: Option<String>,
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
    /// `serving`: absent means as ready.
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
