//! Pods whose addresses no input gives: where those may be, and what that leaves open of a block.
//!
//! Invariant: what is not open is certain wherever the pods will be within the ranges named here: those that the nodes
//! have for pods (`Node.spec.podCIDRs`), or, where no node says any, the private ones (RFC 1918, RFC 4193). Blocks
//! narrower than what a node has for its pods are written for something else, or for one pod, and leave nothing open.

use std::net::{Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use super::address::AddressBlock;
use super::cluster::{Cluster, Pod};

/// Where pods are as a rule, where nobody says more.
const PRIVATE: [IpNet; 4] = [
    IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(10, 0, 0, 0), 8)),
    IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(172, 16, 0, 0), 12)),
    IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(192, 168, 0, 0), 16)),
    IpNet::V6(Ipv6Net::new_assert(Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0), 7)),
];

/// What a node has for its pods, by kubeadm's defaults: /24 and /64.
const fn longest(net: &IpNet) -> u8 {
    match net {
        IpNet::V4(_) => 24,
        IpNet::V6(_) => 64,
    }
}

/// How much of a range a block holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Share {
    Nothing,
    Part,
    All,
}

fn share(block: &AddressBlock, range: &IpNet) -> Share {
    let meets = |net: &IpNet| net.contains(range) || range.contains(net);
    if !meets(&block.cidr) || block.except.iter().any(|except| except.contains(range)) {
        return Share::Nothing;
    }
    let is_wide = |net: &IpNet| net.prefix_len() <= longest(net);
    if !block.cidr.contains(range) {
        return if is_wide(&block.cidr) { Share::Part } else { Share::Nothing };
    }
    let in_part = block.except.iter().any(|except| is_wide(except) && meets(except));
    if in_part { Share::Part } else { Share::All }
}

impl Cluster {
    /// True when no input says whether the block holds the pod.
    pub fn leaves_open(&self, block: &AddressBlock, pod: &Pod) -> bool {
        let ipv4 = block.cidr.addr().is_ipv4();
        let of_family = |range: &&IpNet| range.addr().is_ipv4() == ipv4;
        if !pod.synthetic_addresses || !pod.addresses.iter().any(|address| address.is_ipv4() == ipv4) {
            return false;
        }
        let mut shares = self.nodes.values().flat_map(|node| &node.pod_cidrs).filter(of_family).peekable();
        if shares.peek().is_some() {
            return is_open(block, shares);
        }
        is_open(block, PRIVATE.iter().filter(of_family))
    }
}

fn is_open<'a>(block: &AddressBlock, ranges: impl Iterator<Item = &'a IpNet>) -> bool {
    let mut shares = ranges.map(|range| share(block, range));
    let Some(first) = shares.next() else { return false };
    first == Share::Part || shares.any(|share| share != first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::cluster::Node;

    fn open(cidr: &str, except: &[&str], ranges: &[&str]) -> bool {
        let read = |text: &&str| text.parse().expect("a CIDR");
        let block = AddressBlock { cidr: read(&cidr), except: except.iter().map(read).collect() };
        let mut cluster = Cluster::default();
        for (index, range) in ranges.iter().enumerate() {
            let node = Node { pod_cidrs: vec![read(range)], ..Node::default() };
            cluster.nodes.insert(format!("node-{index}"), node);
        }
        let addresses = ["10.244.0.2", "fd00::2"].map(|text| text.parse().expect("an address")).to_vec();
        cluster.leaves_open(&block, &Pod { addresses, synthetic_addresses: true, ..Pod::default() })
    }

    #[test]
    fn a_block_leaves_open_what_depends_on_where_the_pods_will_be() {
        assert!(open("10.0.0.0/8", &[], &[]));
        assert!(open("192.168.7.0/24", &[], &[]));
        assert!(open("fd00::/8", &[], &[]));
        assert!(open("0.0.0.0/0", &["10.0.0.0/8"], &[]));
        assert!(!open("0.0.0.0/0", &[], &[]));
        assert!(!open("0.0.0.0/0", &["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"], &[]));
        assert!(!open("203.0.113.0/24", &[], &[]));
        assert!(!open("10.9.8.7/32", &[], &[]));
    }

    #[test]
    fn what_nodes_have_for_pods_settles_it() {
        assert!(!open("10.0.0.0/8", &[], &["10.1.0.0/24", "10.1.1.0/24"]));
        assert!(!open("192.168.0.0/16", &[], &["10.1.0.0/24"]));
        assert!(open("10.1.0.0/24", &[], &["10.1.0.0/24", "10.1.1.0/24"]));
        assert!(open("0.0.0.0/0", &["10.1.0.0/25", "10.1.0.0/24"], &["10.1.0.0/23"]));
    }
}
