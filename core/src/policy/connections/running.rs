//! The cluster as a list of workloads wants it: each with a running pod at an address that says nothing.
//!
//! Invariant: pods that run at known addresses, or in their node's range for pods, stay as they are. An address that is
//! chosen here is nobody's, in the ranges of the pod's node where those are known, and else, where the policies leave any
//! such address, in no block narrower than everything: a block then never matches a pod by accident. One that the input chose so already stays, so that single questions
//! have the same answers. Where a block around everything excepts the cluster's own networks, as the input has chosen
//! them, a pod keeps its address in those: what is open to the world alone is not open to it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::IpNet;

use super::external::Free;
use super::workloads::{WorkloadKey, workload_key, workload_of};
use crate::model::address::AddressBlock;
use crate::model::cluster::{Cluster, ObjectKey, Pod};
use crate::model::policy::{Policies, Policy};
use crate::policy::prefixes::Prefixes;

/// How to read policies about pods with `hostNetwork: true`, which the API leaves open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HostNetwork {
    /// As about any other pod: what the policies' author meant, and what the peer tools list.
    #[default]
    AsPods,
    /// Such a pod is its node, neither subject nor selected: what most network plugins do.
    AsNodes,
}

/// Pods that have finished.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Finished {
    /// Those that nothing will follow: of a Job, or of nobody. [`leave_out_finished`] leaves them out.
    pub over: Vec<ObjectKey>,
    /// Workloads whose pods have all finished and whose next ones are listed as if they ran: of a CronJob, say.
    pub between: Vec<String>,
}

/// Which pods have finished where their workload has no other.
pub fn finished(cluster: &Cluster) -> Finished {
    let alive = alive(cluster);
    let is_left = |(key, pod): &(&ObjectKey, &Pod)| pod.terminal && !alive.contains(&workload_key(key, pod));
    let (over, between): (Vec<_>, Vec<_>) =
        cluster.pods.iter().filter(is_left).partition(|(_, pod)| is_over(pod));
    let between: BTreeSet<String> = between.into_iter().map(|(key, pod)| workload_of(key, pod)).collect();
    Finished {
        over: over.into_iter().map(|(key, _)| key.clone()).collect(),
        between: between.into_iter().collect(),
    }
}

/// The workloads with a pod that has not finished.
fn alive(cluster: &Cluster) -> BTreeSet<WorkloadKey> {
    let running = cluster.pods.iter().filter(|(_, pod)| !pod.terminal);
    running.map(|(key, pod)| workload_key(key, pod)).collect()
}

/// True of a finished pod that nothing replaces: every other controller starts the next one.
fn is_over(pod: &Pod) -> bool {
    pod.owner.as_ref().is_none_or(|owner| owner.kind == "Job")
}

/// Leaves out the pods that have finished and that nothing will follow: policies are not about them.
pub fn leave_out_finished(cluster: &mut Cluster) {
    for key in finished(cluster).over {
        cluster.pods.remove(&key);
    }
}

/// Takes pods out of their workloads, to list each by itself.
pub fn alone<'k>(cluster: &mut Cluster, pods: impl IntoIterator<Item = &'k ObjectKey>) {
    for key in pods {
        if let Some(pod) = cluster.pods.get_mut(key) {
            (pod.owner, pod.controller) = (None, None);
        }
    }
}

/// The cluster as it is once each workload has a running pod.
///
/// Pods that are done are left out where their workload has others, else they count as if they ran; see [`finished`]. Pods whose address is not known get one.
#[must_use]
pub fn as_if_running(cluster: &Cluster, policies: &Policies, host_network: HostNetwork) -> Cluster {
    let mut running = cluster.clone();
    let alive = alive(cluster);
    running.pods.retain(|key, pod| !pod.terminal || !alive.contains(&workload_key(key, pod)));

    let keeps = |pod: &Pod| !pod.host_network && !pod.terminal && !pod.synthetic_addresses;
    let mut taken: BTreeSet<IpAddr> = running
        .pods
        .values()
        .filter(|pod| !pod.host_network && !pod.terminal)
        .flat_map(|pod| &pod.addresses)
        .chain(running.nodes.values().flat_map(|node| &node.addresses))
        .copied()
        .collect();
    let has = |ipv4: bool| {
        let mut kept = running.pods.values().filter(|pod| keeps(pod)).flat_map(|pod| &pod.addresses);
        kept.any(|address| address.is_ipv4() == ipv4)
    };
    // The families of the pods whose addresses are known; every family where there are none.
    let families = [true, false].map(|ipv4| has(ipv4) || !has(!ipv4));
    let blocks: Vec<&AddressBlock> = policies.list.iter().flat_map(Policy::blocks).collect();
    let prefixes = Prefixes::new(blocks.iter().copied());
    let matched = |address: IpAddr| blocks.iter().filter(|block| block.contains(address)).count();
    let mut free = [true, false].map(|ipv4| Free::new(&prefixes, ipv4, matched));
    let nodes = &running.nodes;
    let mut of_ranges: BTreeMap<IpNet, Free> = BTreeMap::new();
    for pod in running.pods.values_mut() {
        let of_node =
            pod.node.as_ref().and_then(|name| nodes.get(name)).map_or(&[][..], |node| &node.pod_cidrs);
        let in_range = |address: &IpAddr| of_node.iter().any(|range| range.contains(address));
        let has_its_own = keeps(pod) || (!pod.host_network && pod.addresses.iter().all(in_range));
        if has_its_own && !pod.terminal && !pod.addresses.is_empty() {
            continue;
        }
        if pod.host_network {
            if host_network == HostNetwork::AsNodes {
                continue;
            }
            pod.host_network = false;
            // Several may have the address of one node; the first is as good a pod as any.
            pod.synthetic_addresses |= !pod.addresses.iter().all(|address| taken.insert(*address));
        }
        let known = !pod.terminal && !pod.addresses.is_empty();
        if !known || pod.synthetic_addresses {
            let before = if known { pod.addresses.clone() } else { Vec::new() };
            // A pod that has its node gets an address of that node's ranges, whichever.
            let ranges = if known || pod.terminal { &[][..] } else { of_node };
            let in_ranges: Vec<IpAddr> = ranges
                .iter()
                .filter_map(|range| {
                    let all = &free[usize::from(range.addr().is_ipv6())];
                    of_ranges.entry(*range).or_insert_with(|| all.within(*range)).next(&mut taken)
                })
                .collect();
            if !in_ranges.is_empty() {
                pod.addresses = in_ranges;
                pod.synthetic_addresses = true;
                continue;
            }
            pod.addresses = free
                .iter_mut()
                .filter_map(|free| {
                    let old = before.iter().find(|address| address.is_ipv4() == free.ipv4).copied();
                    let missing = before.is_empty() && families[usize::from(!free.ipv4)];
                    let wanted = missing || old.is_some();
                    let says_no_more =
                        |old: &IpAddr| free.any().is_none_or(|any| matched(*old) <= matched(any));
                    old.filter(says_no_more)
                        .or_else(|| wanted.then(|| free.next(&mut taken).or(old)).flatten())
                })
                .collect();
            pod.synthetic_addresses = true;
        }
        pod.terminal = false;
    }
    running
}

/// Pods that use the host's network and that some reading makes different, by name.
pub fn on_host_network(cluster: &Cluster) -> BTreeMap<&ObjectKey, &Pod> {
    cluster.pods.iter().filter(|(_, pod)| pod.host_network && !pod.terminal).collect()
}
