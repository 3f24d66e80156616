//! The cluster's DNS Service, and the pods behind it.
//!
//! Invariant: found by what makes it the DNS Service (port 53 and the label or a known name), never by its address: an
//! address that should be the Service's and is not is one of the ways to fail.

use netlab_core::model::cluster::{Cluster, ObjectKey, Pod};
use netlab_core::model::service::Service;

/// Names under which distributions ship it; the last is the one behind a cache on each node.
const NAMES: [&str; 5] =
    ["kube-dns", "coredns", "rke2-coredns-rke2-coredns", "dns-default", "kube-dns-upstream"];
/// The namespace in which a Service of such a name is it, whatever its ports.
const NAMESPACE: &str = "kube-system";

/// Labels of the pods that it selects.
fn selects_dns(label: &str, value: &str) -> bool {
    (label == "k8s-app" && value == "kube-dns")
        || label == "dns.operator.openshift.io/daemonset-dns"
        || (label == "app.kubernetes.io/name" && value == "coredns")
}

/// The DNS Service, if one of the Services is it.
#[must_use]
pub fn service(cluster: &Cluster) -> Option<(&ObjectKey, &Service)> {
    let rank = |key: &ObjectKey, service: &Service| {
        let named = NAMES.iter().position(|name| *name == key.name);
        let labelled = service.selector.iter().flatten().any(|(label, value)| selects_dns(label, value));
        let serves = service.ports.iter().any(|port| port.port == 53);
        match named {
            Some(place) if serves || key.namespace == NAMESPACE => Some(place),
            _ if labelled && serves => Some(NAMES.len()),
            _ => None,
        }
    };
    let ranked =
        cluster.services.iter().filter_map(|(key, service)| Some((rank(key, service)?, key, service)));
    ranked.min_by_key(|(rank, ..)| *rank).map(|(_, key, service)| (key, service))
}

/// The pods that a Service selects.
pub fn pods<'a>(
    cluster: &'a Cluster,
    key: &'a ObjectKey,
    service: &'a Service,
) -> impl Iterator<Item = (&'a ObjectKey, &'a Pod)> {
    cluster.pods.iter().filter(move |(pod, object)| {
        pod.namespace == key.namespace
            && !object.terminal
            && service.selector.as_ref().is_some_and(|selector| {
                selector.iter().all(|(label, value)| object.labels.get(label) == Some(value))
            })
    })
}
