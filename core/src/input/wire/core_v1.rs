//! `v1` Namespace, Pod and Node, as far as policies can see them.

use serde::{Deserialize, Serialize};

use super::meta::{ObjectMeta, Unknown};

/// `v1 Namespace`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Namespace {
    /// `metadata`.
    pub metadata: ObjectMeta,
    /// Everything else.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// `v1 Pod`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Pod {
    /// `metadata`.
    pub metadata: ObjectMeta,
    /// `spec`.
    pub spec: Option<PodSpec>,
    /// `status`.
    pub status: Option<PodStatus>,
    /// Everything else.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// `PodSpec`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSpec {
    /// `nodeName`.
    pub node_name: Option<String>,
    /// `hostNetwork`.
    pub host_network: Option<bool>,
    /// `hostname`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    /// `subdomain`: with `hostname`, a name below the Service of that name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subdomain: Option<String>,
    /// `dnsPolicy`: `ClusterFirst` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dns_policy: Option<String>,
    /// `dnsConfig`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dns_config: Option<PodDnsConfig>,
    /// `hostAliases`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_aliases: Option<Vec<HostAlias>>,
    /// `containers`.
    pub containers: Option<Vec<Container>>,
    /// `initContainers`: those with `restartPolicy: Always` run beside the others, as sidecars.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub init_containers: Option<Vec<Container>>,
    /// Everything else.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// `PodDNSConfig`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodDnsConfig {
    /// `nameservers`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nameservers: Option<Vec<String>>,
    /// `searches`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub searches: Option<Vec<String>>,
    /// `options`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub options: Option<Vec<PodDnsConfigOption>>,
    /// Everything else.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// `PodDNSConfigOption`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PodDnsConfigOption {
    /// `name`.
    pub name: String,
    /// `value`: absent for options without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Everything else.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// `HostAlias`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HostAlias {
    /// `ip`.
    pub ip: String,
    /// `hostnames`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hostnames: Option<Vec<String>>,
    /// Everything else.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// `Container`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Container {
    /// `name`.
    pub name: String,
    /// `ports`.
    pub ports: Option<Vec<ContainerPort>>,
    /// `restartPolicy`: of containers among `initContainers` alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restart_policy: Option<String>,
    /// Everything else.
    #[serde(flatten)]
    pub unknown: Unknown,
}

impl Container {
    /// True for a container of `initContainers` that runs as long as the pod does (KEP-753).
    #[must_use]
    pub fn is_sidecar(&self) -> bool {
        self.restart_policy.as_deref() == Some("Always")
    }
}

/// `ContainerPort`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerPort {
    /// `name`.
    pub name: Option<String>,
    /// `containerPort`.
    pub container_port: i64,
    /// `protocol`: TCP when absent.
    pub protocol: Option<String>,
    /// Everything else.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// `PodStatus`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodStatus {
    /// `phase`.
    pub phase: Option<String>,
    /// `podIP`.
    #[serde(rename = "podIP")]
    pub pod_ip: Option<String>,
    /// `podIPs`.
    #[serde(rename = "podIPs")]
    pub pod_ips: Option<Vec<PodIp>>,
    /// `conditions`.
    pub conditions: Option<Vec<PodCondition>>,
    /// Everything else.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// `PodCondition`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PodCondition {
    /// `type`: `Ready` is the one that Services ask for.
    #[serde(rename = "type")]
    pub condition_type: String,
    /// `status`: True, False or Unknown.
    pub status: String,
    /// Everything else.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// `PodIP`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PodIp {
    /// `ip`.
    pub ip: String,
}

/// `v1 Node`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Node {
    /// `metadata`.
    pub metadata: ObjectMeta,
    /// `spec`.
    pub spec: Option<NodeSpec>,
    /// `status`.
    pub status: Option<NodeStatus>,
    /// Everything else.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// `NodeSpec`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeSpec {
    /// `podCIDR`.
    #[serde(rename = "podCIDR")]
    pub pod_cidr: Option<String>,
    /// `podCIDRs`.
    #[serde(rename = "podCIDRs")]
    pub pod_cidrs: Option<Vec<String>>,
    /// Everything else.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// `NodeStatus`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeStatus {
    /// `addresses`.
    pub addresses: Option<Vec<NodeAddress>>,
    /// Everything else.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// `NodeAddress`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeAddress {
    /// `type`: InternalIP, ExternalIP, Hostname, …
    #[serde(rename = "type")]
    pub address_type: String,
    /// `address`.
    pub address: String,
}
