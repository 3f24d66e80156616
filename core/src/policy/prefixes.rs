//! The prefixes that rules name, as a tree: which is the longest that contains an address.
//!
//! Invariant: both family roots are always there, first IPv4 then IPv6; prefixes are canonical and sorted by
//! family, address and length, so a prefix comes after every prefix that contains it. An IPv4 address is never
//! inside an IPv6 prefix.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use super::groups::number;
use crate::model::address::AddressBlock;

/// Index of a prefix.
pub(super) type PrefixIndex = u32;

/// All prefixes.
#[derive(Debug)]
pub(super) struct Prefixes {
    pub(super) list: Vec<IpNet>,
}

impl Prefixes {
    /// The tree of the blocks' CIDRs and exceptions, and the roots.
    pub(super) fn new<'a>(blocks: impl Iterator<Item = &'a AddressBlock>) -> Self {
        let mut set: BTreeSet<IpNet> = BTreeSet::from([
            IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::UNSPECIFIED, 0)),
            IpNet::V6(Ipv6Net::new_assert(Ipv6Addr::UNSPECIFIED, 0)),
        ]);
        for block in blocks {
            set.insert(block.cidr.trunc());
            set.extend(block.except.iter().map(IpNet::trunc));
        }
        Self { list: set.into_iter().collect() }
    }

    /// The longest prefix of each address, for many addresses at once. `addresses` must be sorted.
    pub(super) fn longest(&self, addresses: &[IpAddr]) -> Vec<PrefixIndex> {
        let mut open: Vec<usize> = Vec::new();
        let mut next = 0;
        let mut result = Vec::with_capacity(addresses.len());
        for address in addresses {
            while next < self.list.len() && self.list[next].network() <= *address {
                let prefix = self.list[next];
                while open.last().is_some_and(|last| !self.list[*last].contains(&prefix)) {
                    open.pop();
                }
                open.push(next);
                next += 1;
            }
            while open.last().is_some_and(|last| !self.list[*last].contains(address)) {
                open.pop();
            }
            // A root of the address's family is always open: it was pushed first and contains everything.
            result.push(number(open.last().copied().unwrap_or(0)));
        }
        result
    }

    /// The prefixes whose own addresses (those for which they are the longest) lie in a block, ascending.
    pub(super) fn inside(&self, block: &AddressBlock) -> Vec<PrefixIndex> {
        let cidr = block.cidr.trunc();
        let start = self.list.partition_point(|prefix| *prefix < cidr);
        // Of exceptions that hold each other the outer one says it all; the others are apart, so only the last one
        // that is not behind a prefix can hold it.
        let mut except: Vec<IpNet> = block.except.iter().map(IpNet::trunc).collect();
        except.sort_unstable();
        except.dedup_by(|inner, outer| outer.contains(&*inner));
        let excepted = |prefix: &IpNet| {
            let behind = except.partition_point(|except| except <= prefix);
            behind.checked_sub(1).is_some_and(|last| except[last].contains(prefix))
        };
        self.list[start..]
            .iter()
            .take_while(|prefix| cidr.contains(*prefix))
            .enumerate()
            .filter(|(_, prefix)| !excepted(prefix))
            .map(|(index, _)| number(start + index))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(cidr: &str, except: &[&str]) -> AddressBlock {
        AddressBlock {
            cidr: cidr.parse().expect("cidr"),
            except: except.iter().map(|text| text.parse().expect("cidr")).collect(),
        }
    }

    #[test]
    fn the_sweep_finds_what_a_scan_finds() {
        let blocks = [
            block("10.0.0.0/8", &["10.1.0.0/16", "10.1.2.0/24"]),
            block("10.1.2.3/32", &[]),
            block("fd00::/8", &["fd00:1::/32"]),
            block("192.168.0.0/16", &[]),
        ];
        let prefixes = Prefixes::new(blocks.iter());
        let mut addresses: Vec<IpAddr> = [
            "9.255.255.255",
            "10.0.0.0",
            "10.0.255.255",
            "10.1.0.0",
            "10.1.1.255",
            "10.1.2.0",
            "10.1.2.2",
            "10.1.2.3",
            "10.1.2.4",
            "10.1.3.0",
            "10.2.0.0",
            "11.0.0.0",
            "192.168.1.1",
            "::",
            "::ffff:10.1.2.3",
            "fcff::1",
            "fd00::",
            "fd00:1::1",
            "fd00:2::",
            "fe00::",
        ]
        .iter()
        .map(|text| text.parse().expect("address"))
        .collect();
        addresses.sort();
        let found = prefixes.longest(&addresses);
        for (address, index) in addresses.iter().zip(found) {
            let scan = prefixes
                .list
                .iter()
                .enumerate()
                .filter(|(_, prefix)| prefix.contains(address))
                .max_by_key(|(_, prefix)| prefix.prefix_len())
                .map(|(index, _)| number(index));
            assert_eq!(Some(index), scan, "{address}");
            for block in &blocks {
                assert_eq!(
                    prefixes.inside(block).contains(&index),
                    block.contains(*address),
                    "{block} {address}"
                );
            }
        }
    }
}
