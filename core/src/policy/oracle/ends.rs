//! Who the ends of a connection are: pods that policies can see, their nodes, and everything else.
//!
//! Invariant: a pod is *policed* (can be a subject, and a peer of selectors) iff it has an address, does not use
//! the host's network and is not done.

use std::net::IpAddr;

use super::{End, NotPoliced, Oracle, Question};
use crate::input::wire::core_v1::{Node, Pod};

/// `metadata.namespace`; an object of a namespaced kind without one is in `default`.
pub(super) fn namespace_of(namespace: Option<&String>) -> &str {
    match namespace {
        Some(namespace) if !namespace.is_empty() => namespace,
        _ => "default",
    }
}

/// `metadata.name`.
pub(super) fn name_of(name: Option<&String>) -> &str {
    name.map_or("", String::as_str)
}

/// `PodSpec.hostNetwork`, false when absent.
fn is_host_network(pod: &Pod) -> bool {
    pod.spec.as_ref().and_then(|spec| spec.host_network).unwrap_or(false)
}

/// `PodSpec.nodeName`; absent or empty before the pod is scheduled.
fn node_name(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref().filter(|name| !name.is_empty())
}

/// `PodStatus.phase`.
fn phase(pod: &Pod) -> Option<&str> {
    pod.status.as_ref()?.phase.as_deref()
}

/// `PodStatus.phase` Succeeded and Failed: no container runs any more, and the address may already be another
/// pod's.
fn is_terminal(pod: &Pod) -> bool {
    matches!(phase(pod), Some("Succeeded" | "Failed"))
}

/// `PodStatus.podIPs` and `PodStatus.podIP`, which repeats the first of them.
fn addresses(pod: &Pod) -> Vec<IpAddr> {
    let mut found = Vec::new();
    let Some(status) = &pod.status else { return found };
    let listed = status.pod_ips.iter().flatten().map(|entry| entry.ip.as_str());
    for text in listed.chain(status.pod_ip.as_deref()) {
        if let Ok(address) = text.parse::<IpAddr>()
            && !found.contains(&address)
        {
            found.push(address);
        }
    }
    found
}

/// `NodeStatus.addresses` of the types `InternalIP` and `ExternalIP`; the others are names.
pub(super) fn node_addresses(node: &Node) -> Vec<IpAddr> {
    let listed = node.status.iter().flat_map(|status| status.addresses.iter().flatten());
    let listed = listed.filter(|entry| ["InternalIP", "ExternalIP"].contains(&entry.address_type.as_str()));
    listed.filter_map(|entry| entry.address.parse().ok()).collect()
}

/// Why a pod is not policed; `None` when it is.
///
/// hostNetwork: of the two behaviours that the concept page leaves open this is the common one, in which such a
/// pod cannot be told from its node.
fn not_policed(pod: &Pod) -> Option<NotPoliced> {
    if is_host_network(pod) {
        Some(NotPoliced::HostNetwork)
    } else if is_terminal(pod) {
        Some(NotPoliced::Terminal)
    } else if addresses(pod).is_empty() {
        Some(NotPoliced::NoAddress)
    } else {
        None
    }
}

impl<'a> Oracle<'a> {
    /// The pod object of an end, policed or not.
    fn pod_object(&self, end: &End) -> Option<&'a Pod> {
        let End::Pod { namespace, name, .. } = end else { return None };
        self.objects.pods.iter().find(|pod| {
            namespace_of(pod.metadata.namespace.as_ref()) == namespace
                && name_of(pod.metadata.name.as_ref()) == name
        })
    }

    /// The end as a subject of policies.
    pub(super) fn subject(&self, end: &End) -> Result<&'a Pod, NotPoliced> {
        let pod = self.pod_object(end).ok_or(NotPoliced::NotAPod)?;
        not_policed(pod).map_or(Ok(pod), Err)
    }

    /// The end as a pod that selectors and port names can find: policed, and seen by an address of its own.
    pub(super) fn peer_pod(&self, end: &End) -> Option<&'a Pod> {
        let pod = self.subject(end).ok()?;
        addresses(pod).contains(&end.address()).then_some(pod)
    }

    /// The node that an end is: a node, or a pod on the host's network.
    fn node_of<'e>(&self, end: &'e End) -> Option<&'e str>
    where
        'a: 'e,
    {
        match end {
            End::Node { name, .. } => Some(name),
            End::Pod { .. } => self.pod_object(end).filter(|pod| is_host_network(pod)).and_then(node_name),
            End::External(_) => None,
        }
    }

    /// True when the end is the node on which the pod runs.
    pub(super) fn is_own_node(&self, pod: &Pod, end: &End) -> bool {
        match (node_name(pod), self.node_of(end)) {
            (Some(own), Some(other)) => own == other,
            _ => false,
        }
    }

    /// True when both ends are the same pod.
    pub(super) fn is_itself(&self, question: &Question) -> bool {
        match (self.pod_object(&question.source), self.pod_object(&question.destination)) {
            (Some(source), Some(destination)) => std::ptr::eq(source, destination),
            _ => false,
        }
    }

    /// Who has an address: the policed pod (one that is Running before one that is not, then by name), else the
    /// node or the hostNetwork pod's node, else something outside.
    pub fn end_of_address(&self, address: IpAddr) -> End {
        let mut pods: Vec<&Pod> = self
            .objects
            .pods
            .iter()
            .filter(|pod| not_policed(pod).is_none() && addresses(pod).contains(&address))
            .collect();
        let rank = |pod: &Pod| {
            let key = (namespace_of(pod.metadata.namespace.as_ref()), name_of(pod.metadata.name.as_ref()));
            (phase(pod) != Some("Running"), key.0.to_owned(), key.1.to_owned())
        };
        pods.sort_by_key(|pod| rank(pod));
        if let Some(pod) = pods.first() {
            let (_, namespace, name) = rank(pod);
            return End::Pod { namespace, name, address };
        }
        if let Some(node) = self.objects.nodes.iter().find(|node| node_addresses(node).contains(&address)) {
            return End::Node { name: name_of(node.metadata.name.as_ref()).to_owned(), address };
        }
        let host_pod = self
            .objects
            .pods
            .iter()
            .find(|pod| is_host_network(pod) && !is_terminal(pod) && addresses(pod).contains(&address));
        match host_pod.and_then(node_name) {
            Some(name) => End::Node { name: name.to_owned(), address },
            None => End::External(address),
        }
    }
}
