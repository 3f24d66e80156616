//! The cluster: namespaces, pods and nodes, sorted by name.
//!
//! Invariant: names are unique per kind and namespace; a pod's addresses hold at most one per family; a
//! namespace that only pods or policies mention is there too, with its `kubernetes.io/metadata.name` label.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;

use super::pod_dns::PodDns;
use super::port::Protocol;
use super::service::{EndpointSlice, Service};
use super::source::Source;

/// Labels of an object.
pub type Labels = BTreeMap<String, String>;

/// The key of a namespaced object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    /// `metadata.namespace`.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
}

impl ObjectKey {
    /// A key from its parts.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
}

impl std::fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// Everything of a cluster that policies can speak about.
#[derive(Clone, Debug, Default)]
pub struct Cluster {
    /// By name.
    pub namespaces: BTreeMap<String, Namespace>,
    /// By namespace and name.
    pub pods: BTreeMap<ObjectKey, Pod>,
    /// By name.
    pub nodes: BTreeMap<String, Node>,
    /// By namespace and name.
    pub services: BTreeMap<ObjectKey, Service>,
    /// By namespace and name.
    pub endpoint_slices: BTreeMap<ObjectKey, EndpointSlice>,
}

/// A Namespace.
#[derive(Clone, Debug, Default)]
pub struct Namespace {
    /// `metadata.labels`, with `kubernetes.io/metadata.name` as the API server sets it.
    pub labels: Labels,
    /// False when no Namespace object was given and the labels are therefore not known.
    pub declared: bool,
    /// Where it was written.
    pub source: Source,
}

/// A Pod, or one that a workload would stamp.
#[derive(Clone, Debug, Default)]
pub struct Pod {
    /// `metadata.labels`.
    pub labels: Labels,
    /// `status.podIPs`, at most one per family; see [`Pod::synthetic_addresses`].
    pub addresses: Vec<IpAddr>,
    /// True when no address was given and the ones here were chosen by netlab.
    pub synthetic_addresses: bool,
    /// `spec.nodeName`.
    pub node: Option<String>,
    /// `spec.hostNetwork`: the pod is its node for every policy.
    pub host_network: bool,
    /// `status.phase` is Succeeded or Failed: neither subject nor peer any more.
    pub terminal: bool,
    /// The `Ready` condition; `None` when the status has none, as in manifests.
    pub ready: Option<bool>,
    /// `metadata.deletionTimestamp` is set: it is being ended.
    pub terminating: bool,
    /// `spec.containers[].ports` in order, then those of sidecars: `spec.initContainers[]` with `restartPolicy: Always`.
    pub ports: Vec<ContainerPort>,
    /// How it resolves names and what it is called; `None` when the spec says nothing of that.
    pub dns: Option<Box<PodDns>>,
    /// The top-most workload that stamped it.
    pub owner: Option<WorkloadRef>,
    /// The controller that its `ownerReferences` name: a Deployment's ReplicaSet, a CronJob's Job.
    pub controller: Option<WorkloadRef>,
    /// Where it (or the workload that stamps it) was written.
    pub source: Source,
}

impl Pod {
    /// True when policies can select the pod: it has an address of its own and is not done.
    pub fn is_policed(&self) -> bool {
        !self.host_network && !self.terminal && !self.addresses.is_empty()
    }
}

/// `spec.containers[].ports[]`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContainerPort {
    /// `name`.
    pub name: Option<Arc<str>>,
    /// `protocol`, TCP when absent.
    pub protocol: Protocol,
    /// `containerPort`.
    pub number: u16,
}

/// The workload that a pod belongs to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WorkloadRef {
    /// `Deployment`, `StatefulSet`, …
    pub kind: String,
    /// `metadata.name`.
    pub name: String,
}

/// A Node.
#[derive(Clone, Debug, Default)]
pub struct Node {
    /// True when the input has the object; false when only pods name it.
    pub declared: bool,
    /// `metadata.labels`.
    pub labels: Labels,
    /// `status.addresses` of types InternalIP and then ExternalIP: of each family the first is the primary one.
    pub addresses: Vec<IpAddr>,
    /// True when no address was given and the ones here were chosen by netlab.
    pub synthetic_addresses: bool,
    /// `spec.podCIDRs`.
    pub pod_cidrs: Vec<IpNet>,
    /// Where it was written.
    pub source: Source,
}
