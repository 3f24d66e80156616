//! Addresses for what has none: manifests carry no status, but a packet needs a source and a destination.
//!
//! Invariant: an address that netlab chose is nobody else's, is marked as chosen, and is the same for the same
//! objects. As far as there is a choice, it is in no block of addresses that a policy names: a block then never
//! matches a pod by accident.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use super::pod::Pods;
use crate::input::wire::core_v1 as wire;
use crate::model::address::AddressBlock;
use crate::model::cluster::Node;

/// What kubeadm, kind and flannel give pods, and what to fall back on where policies have blocks there: private
/// ranges first, then those for carriers (RFC 6598) and for measurements (RFC 2544, RFC 5180), which are nobody's.
const IPV4_POOLS: [IpNet; 5] = [
    IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(10, 244, 0, 0), 14)),
    IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(172, 20, 0, 0), 14)),
    IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(192, 168, 0, 0), 16)),
    IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(100, 64, 0, 0), 10)),
    IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(198, 18, 0, 0), 15)),
];

/// The same: a unique local range of the same spelling, those for measurements and for documentation.
const IPV6_POOLS: [IpNet; 3] = [
    IpNet::V6(Ipv6Net::new_assert(Ipv6Addr::new(0xfd00, 0x10, 0x244, 0, 0, 0, 0, 0), 64)),
    IpNet::V6(Ipv6Net::new_assert(Ipv6Addr::new(0x2001, 0x2, 0, 0x244, 0, 0, 0, 0), 64)),
    IpNet::V6(Ipv6Net::new_assert(Ipv6Addr::new(0x2001, 0xdb8, 0x10, 0x244, 0, 0, 0, 0), 64)),
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

/// The first address of a range is the network's, the second a router's by custom.
const FIRST: u128 = 2;

/// A range that addresses are taken from, upwards.
#[derive(Clone, Debug)]
pub(super) struct Pool {
    net: IpNet,
    next: u128,
    /// Parts of it that are left out while there are others.
    avoided: Vec<IpNet>,
}

impl Pool {
    /// Over what is outside of the blocks, while there is any.
    fn outside(net: IpNet, blocks: &[&AddressBlock]) -> Self {
        let inside = |cidr: &IpNet| net.contains(cidr) && *cidr != net;
        let mut avoided: Vec<IpNet> = blocks.iter().map(|block| block.cidr).filter(inside).collect();
        avoided.sort_unstable();
        avoided.dedup_by(|inner, outer| outer.contains(&*inner));
        Self { avoided, ..Taken::pool(net) }
    }

    /// The last address of the avoided part around an address.
    fn around(&self, address: IpAddr) -> Option<IpAddr> {
        let behind = self.avoided.partition_point(|part| part.network() <= address);
        let part = self.avoided[..behind].last()?;
        part.contains(&address).then(|| part.broadcast())
    }
}

/// The first of some ranges that the fewest blocks meet.
fn least_met(ranges: &[IpNet], blocks: &[&AddressBlock]) -> IpNet {
    let meets = |range: &IpNet, block: &AddressBlock| {
        (block.cidr.contains(range) || range.contains(&block.cidr))
            && !block.except.iter().any(|except| except.contains(range))
    };
    let met = |range: &&IpNet| blocks.iter().filter(|block| meets(range, block)).count();
    ranges.iter().min_by_key(met).copied().unwrap_or_default()
}

impl Taken {
    pub(super) fn extend(&mut self, addresses: impl IntoIterator<Item = IpAddr>) {
        self.addresses.extend(addresses);
    }

    /// A pool over a range.
    pub(super) fn pool(net: IpNet) -> Pool {
        Pool { net, next: FIRST, avoided: Vec::new() }
    }

    /// The next address of a pool that is nobody's.
    pub(super) fn next(&mut self, pool: &mut Pool) -> Option<IpAddr> {
        let (base, bits) = match pool.net {
            IpNet::V4(net) => (u128::from(u32::from(net.network())), 32 - net.prefix_len()),
            IpNet::V6(net) => (u128::from(net.network()), 128 - net.prefix_len()),
        };
        // The last address of an IPv4 range is its broadcast address.
        let size = 1_u128.checked_shl(u32::from(bits)).unwrap_or(u128::MAX) - 1;
        let address = |number: u128| match pool.net {
            IpNet::V4(_) => u32::try_from(number).ok().map(|number| IpAddr::V4(Ipv4Addr::from(number))),
            IpNet::V6(_) => Some(IpAddr::V6(Ipv6Addr::from(number))),
        };
        loop {
            while pool.next < size {
                let address = address(base + pool.next)?;
                if let Some(last) = pool.around(address) {
                    pool.next = bits_of(last) - base + 1;
                    continue;
                }
                pool.next += 1;
                if self.addresses.insert(address) {
                    return Some(address);
                }
            }
            if pool.avoided.is_empty() {
                return None;
            }
            (pool.next, pool.avoided) = (FIRST, Vec::new());
        }
    }
}

fn bits_of(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_bits().into(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

/// Gives every running pod without an address one per family: of its node's ranges where those are known.
pub(super) fn assign(
    pods: &mut Pods,
    nodes: &BTreeMap<String, Node>,
    blocks: &[&AddressBlock],
    taken: &mut Taken,
) {
    let mut shared =
        [&IPV4_POOLS[..], &IPV6_POOLS].map(|ranges| Pool::outside(least_met(ranges, blocks), blocks));
    let mut of_node: BTreeMap<&String, Vec<Pool>> = nodes
        .iter()
        .map(|(name, node)| {
            (name, node.pod_cidrs.iter().map(|range| Pool::outside(*range, blocks)).collect())
        })
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
