//! From wire structs to the model: defaults, derived objects, addresses, and the same world for the oracle.
//!
//! Invariant: the result depends on the objects alone, not on the order they came in. Whatever the model has that
//! nobody wrote (namespaces, nodes, pods of workloads, addresses) is in [`WireObjects`] too.

mod address;
mod mirror;
mod node;
mod note;
mod owner;
mod pod;
mod policies;
mod remark;
mod service;
mod tie;
mod unique;

use std::collections::{BTreeMap, BTreeSet};

use super::objects::{Objects, Sourced};
use super::wire;
use super::{Loaded, WireObjects};
use crate::model::cluster::{Cluster, Namespace};
pub use remark::owner_splits;
use unique::{cluster_scoped, namespaced};

/// The label that the API server sets on every namespace.
const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";

/// Builds the model from objects, wherever they came from.
pub fn assemble(objects: Objects) -> Loaded {
    let mut diagnostics = Vec::new();
    let namespaces = cluster_scoped("Namespace", objects.namespaces, &mut diagnostics);
    let nodes = cluster_scoped("Node", objects.nodes, &mut diagnostics);
    let pods = namespaced("Pod", objects.pods, &mut diagnostics);
    let services = namespaced("Service", objects.services, &mut diagnostics);
    let slices = namespaced("EndpointSlice", objects.endpoint_slices, &mut diagnostics);
    let endpoints = namespaced("Endpoints", objects.endpoints, &mut diagnostics);
    let policies = policies::Found {
        admin: cluster_scoped("AdminNetworkPolicy", objects.admin_network_policies, &mut diagnostics),
        baseline: cluster_scoped(
            "BaselineAdminNetworkPolicy",
            objects.baseline_admin_network_policies,
            &mut diagnostics,
        ),
        cluster: cluster_scoped("ClusterNetworkPolicy", objects.cluster_network_policies, &mut diagnostics),
        network: namespaced("NetworkPolicy", objects.network_policies, &mut diagnostics),
    };
    let of_policies: Vec<String> = policies.network.keys().map(|key| key.namespace.clone()).collect();
    let policies = policies::Understood::new(policies, &mut diagnostics);
    let workloads = owner::Workloads::new(objects.workloads, objects.cron_jobs, &mut diagnostics);

    let mut names: BTreeSet<String> = pods.keys().map(|key| key.namespace.clone()).collect();
    names.extend(workloads.namespaces().map(str::to_owned));
    names.extend(services.keys().chain(slices.keys()).map(|key| key.namespace.clone()));
    names.extend(of_policies);
    let (namespaces, wire_namespaces) = self::namespaces(namespaces, names);

    let services = service::services(services, &mut diagnostics);
    let mut endpoint_slices = service::endpoint_slices(slices, &mut diagnostics);
    mirror::mirror(endpoints, &services, &mut endpoint_slices, &mut diagnostics);
    let mut read = pod::read(pods, &workloads, &mut diagnostics);
    pod::stamp(&mut read, &workloads, &mut diagnostics);

    let mut taken = address::Taken::default();
    taken.extend(services.values().flat_map(|service| service.cluster_ips.iter().copied()));
    let endpoints = endpoint_slices.values().flat_map(|slice| &slice.endpoints);
    taken.extend(endpoints.flat_map(|endpoint| endpoint.addresses.iter().copied()));
    taken.extend(read.values().flat_map(|pod| pod.model.addresses.iter().copied()));
    let (nodes, wire_nodes) = node::nodes(nodes, &mut read, &mut taken, &mut diagnostics);
    address::assign(&mut read, &nodes, &policies.blocks().collect::<Vec<_>>(), &mut taken);
    note::shared_addresses(&read, &mut diagnostics);

    let (mut pods, mut wire_pods) = (BTreeMap::new(), Vec::with_capacity(read.len()));
    for (key, pod) in read {
        pods.insert(key, pod.model);
        wire_pods.push(pod.wire);
    }
    let cluster = Cluster { namespaces, pods, nodes, services, endpoint_slices };
    let read = policies::read(policies, &cluster, &mut diagnostics);
    Loaded {
        cluster,
        policies: read.model,
        wire: WireObjects { namespaces: wire_namespaces, pods: wire_pods, nodes: wire_nodes, ..read.wire },
        diagnostics,
        ..Loaded::default()
    }
}

type WireNamespaces = Vec<wire::core_v1::Namespace>;

fn namespaces(
    declared: BTreeMap<String, Sourced<wire::core_v1::Namespace>>,
    mentioned: BTreeSet<String>,
) -> (BTreeMap<String, Namespace>, WireNamespaces) {
    let mut all: BTreeMap<String, (bool, Sourced<wire::core_v1::Namespace>)> =
        declared.into_iter().map(|(name, namespace)| (name, (true, namespace))).collect();
    for name in mentioned {
        all.entry(name).or_default();
    }
    let (mut model, mut wire) = (BTreeMap::new(), Vec::with_capacity(all.len()));
    for (name, (declared, Sourced { mut object, source })) in all {
        object.metadata.name = Some(name.clone());
        let labels = object.metadata.labels.get_or_insert_default();
        labels.insert(NAMESPACE_NAME.to_owned(), name.clone());
        model.insert(name, Namespace { labels: labels.clone(), declared, source });
        wire.push(object);
    }
    (model, wire)
}
