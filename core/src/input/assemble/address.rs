//! Addresses for what has none: manifests carry no status, but a packet needs a source and a destination.
//!
//! Invariant: an address that netlab chose is nobody else's, is marked as chosen, and is the same for the same
//! objects.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use super::pod::Pods;
use crate::input::wire::core_v1 as wire;
use crate::model::cluster::Node;

/// What kubeadm, kind and flannel give pods; the second is a unique local range of the same spelling.
const POD_POOLS: [IpNet; 2] = [
    IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(10, 244, 0, 0), 14)),
    IpNet::V6(Ipv6Net::new_assert(Ipv6Addr::new(0xfd00, 0x10, 0x244, 0, 0, 0, 0, 0), 64)),
];

/// Node addresses, in ranges apart from those of pods.
pub(super) const NODE_POOLS: [IpNet; 2] = [
    IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(172, 18, 0, 0), 16)),
    IpNet::V6(Ipv6Net::new_assert(Ipv6Addr::new(0xfd00, 0x172, 0x18, 0, 0, 0, 0, 0), 64)),
];

/// Every address that is somebody's.
#[derive(Debug, Default)]
pub(super) struct Taken {
    addresses: BTreeSet<IpAddr>,
}

/// A range that addresses are taken from, upwards.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pool {
    net: IpNet,
    next: u128,
}

impl Taken {
    pub(super) fn extend(&mut self, addresses: impl IntoIterator<Item = IpAddr>) {
        self.addresses.extend(addresses);
    }

    /// A pool over a range; its first address is the network's, the second a router's by custom.
    pub(super) fn pool(net: IpNet) -> Pool {
        Pool { net, next: 2 }
    }

    /// The next address of a pool that is nobody's.
    pub(super) fn next(&mut self, pool: &mut Pool) -> Option<IpAddr> {
        let (base, bits) = match pool.net {
            IpNet::V4(net) => (u128::from(u32::from(net.network())), 32 - net.prefix_len()),
            IpNet::V6(net) => (u128::from(net.network()), 128 - net.prefix_len()),
        };
        // The last address of an IPv4 range is its broadcast address.
        let size = 1_u128.checked_shl(u32::from(bits)).unwrap_or(u128::MAX) - 1;
        while pool.next < size {
            let number = base + pool.next;
            pool.next += 1;
            let address = match pool.net {
                IpNet::V4(_) => IpAddr::V4(Ipv4Addr::from(u32::try_from(number).ok()?)),
                IpNet::V6(_) => IpAddr::V6(Ipv6Addr::from(number)),
            };
            if self.addresses.insert(address) {
                return Some(address);
            }
        }
        None
    }
}

/// Gives every running pod without an address one per family: of its node's ranges where those are known.
pub(super) fn assign(pods: &mut Pods, nodes: &BTreeMap<String, Node>, taken: &mut Taken) {
    let mut shared = POD_POOLS.map(Taken::pool);
    let mut of_node: BTreeMap<&String, Vec<Pool>> = nodes
        .iter()
        .map(|(name, node)| (name, node.pod_cidrs.iter().copied().map(Taken::pool).collect()))
        .collect();
    for pod in pods.values_mut() {
        if !pod.model.addresses.is_empty() || pod.unstarted {
            continue;
        }
        let node = pod.model.node.as_ref();
        pod.model.synthetic_addresses = true;
        if pod.model.host_network {
            let addresses = node.and_then(|name| nodes.get(name)).map_or(&[][..], |node| &node.addresses);
            for address in addresses {
                if !pod.model.addresses.iter().any(|known| known.is_ipv4() == address.is_ipv4()) {
                    pod.model.addresses.push(*address);
                }
            }
        } else {
            let own = node.and_then(|name| of_node.get_mut(name)).filter(|pools| !pools.is_empty());
            let single = own.as_ref().and_then(|pools| {
                let v4 = pools.first()?.net.addr().is_ipv4();
                pools.iter().all(|pool| pool.net.addr().is_ipv4() == v4).then_some(v4)
            });
            let mut chosen: Vec<IpAddr> = Vec::new();
            // A node's range can be full; the shared one then serves the family.
            for pool in own.into_iter().flatten().chain(&mut shared) {
                let v4 = pool.net.addr().is_ipv4();
                if single.is_none_or(|single| single == v4)
                    && !chosen.iter().any(|address| address.is_ipv4() == v4)
                {
                    chosen.extend(taken.next(pool));
                }
            }
            pod.model.addresses = chosen;
        }
        let status = pod.wire.status.get_or_insert_default();
        status.pod_ip = pod.model.addresses.first().map(ToString::to_string);
        let listed = pod.model.addresses.iter().map(|address| wire::PodIp { ip: address.to_string() });
        status.pod_ips = Some(listed.collect());
    }
}
