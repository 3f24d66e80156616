//! The address families that a Service has: those of its cluster IPs, or those that the API server would give it.
//!
//! Invariant: at least one, in the order of `spec.ipFamilies`; a cluster IP or family that is written is believed, and
//! what is not written is `SingleStack`, as the API server fills it in
//! (`pkg/registry/core/service/storage/alloc.go`). Does not know the API server's own ranges: that a cluster has a
//! family is concluded from the addresses in the input.

use std::net::IpAddr;

use crate::model::cluster::Cluster;
use crate::model::service::{AddressType, IpFamilyPolicy, Service};

/// The families of a Service.
#[must_use]
pub fn families(cluster: &Cluster, service: &Service) -> Vec<AddressType> {
    let mut families: Vec<AddressType> = Vec::new();
    let mut add = |family: AddressType| {
        if !families.contains(&family) {
            families.push(family);
        }
    };
    service.cluster_ips.iter().for_each(|ip| add(AddressType::of(*ip)));
    service.ip_families.iter().copied().for_each(&mut add);
    if service.cluster_ips.is_empty() && service.ip_families.is_empty() {
        add(primary(cluster));
    }
    let both = [AddressType::Ipv4, AddressType::Ipv6];
    match service.ip_family_policy {
        IpFamilyPolicy::RequireDualStack => both.into_iter().for_each(&mut add),
        // Where a cluster IP is written the API server has chosen already.
        IpFamilyPolicy::PreferDualStack if service.cluster_ips.is_empty() => {
            both.into_iter().filter(|family| has(cluster, *family)).for_each(&mut add);
        }
        IpFamilyPolicy::PreferDualStack | IpFamilyPolicy::SingleStack => {}
    }
    families
}

/// The family that a Service gets that asks for none: IPv4, but on a cluster that has none of it.
fn primary(cluster: &Cluster) -> AddressType {
    if has(cluster, AddressType::Ipv6) && !has(cluster, AddressType::Ipv4) {
        AddressType::Ipv6
    } else {
        AddressType::Ipv4
    }
}

fn has(cluster: &Cluster, family: AddressType) -> bool {
    let of = |address: &IpAddr| AddressType::of(*address) == family;
    cluster.services.values().flat_map(|service| &service.cluster_ips).any(of)
        || cluster.pods.values().filter(|pod| !pod.host_network).flat_map(|pod| &pod.addresses).any(of)
        || cluster.nodes.values().flat_map(|node| &node.pod_cidrs).any(|net| of(&net.addr()))
}
