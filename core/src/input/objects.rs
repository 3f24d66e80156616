//! Wire structs with their sources: what a text, a snapshot or an API server gives before it becomes a model.

use super::wire::admin_network_policy::AdminNetworkPolicy;
use super::wire::baseline_admin_network_policy::BaselineAdminNetworkPolicy;
use super::wire::cluster_network_policy::ClusterNetworkPolicy;
use super::wire::core_v1::{Namespace, Node, Pod};
use super::wire::endpoints::Endpoints;
use super::wire::network_policy::NetworkPolicy;
use super::wire::service::{EndpointSlice, Service};
use super::wire::workload::{CronJob, Workload};
use crate::model::source::Source;

/// An object and where it was written.
#[derive(Clone, Debug, Default)]
pub struct Sourced<T> {
    /// The object.
    pub object: T,
    /// Where it came from.
    pub source: Source,
}

/// Objects by kind, in any order, repeats included.
#[derive(Clone, Debug, Default)]
pub struct Objects {
    /// Namespaces.
    pub namespaces: Vec<Sourced<Namespace>>,
    /// Pods.
    pub pods: Vec<Sourced<Pod>>,
    /// Nodes.
    pub nodes: Vec<Sourced<Node>>,
    /// Services.
    pub services: Vec<Sourced<Service>>,
    /// Endpoint slices.
    pub endpoint_slices: Vec<Sourced<EndpointSlice>>,
    /// Endpoints.
    pub endpoints: Vec<Sourced<Endpoints>>,
    /// Workloads that stamp pods.
    pub workloads: Vec<Sourced<Workload>>,
    /// Cron jobs.
    pub cron_jobs: Vec<Sourced<CronJob>>,
    /// Network policies.
    pub network_policies: Vec<Sourced<NetworkPolicy>>,
    /// Admin network policies.
    pub admin_network_policies: Vec<Sourced<AdminNetworkPolicy>>,
    /// Baseline admin network policies: one, if all is well.
    pub baseline_admin_network_policies: Vec<Sourced<BaselineAdminNetworkPolicy>>,
    /// Cluster network policies.
    pub cluster_network_policies: Vec<Sourced<ClusterNetworkPolicy>>,
}
