//! Addresses outside the cluster, as few blocks as the policies leave different.
//!
//! Invariant: the blocks of a family are disjoint; two addresses are in one block exactly when every workload may
//! talk with both on the same ports, in both directions. Node and pod addresses are not cut out.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, IpSubnets, Ipv4Subnets, Ipv6Subnets};

use super::{Peer, PeerKind};
use crate::policy::classes::ClassIndex;
use crate::policy::prefixes::Prefixes;

/// Longer names of blocks are not repeated in every line.
const LONGEST_ID: usize = 120;

/// First and last address, as numbers.
type Range = (u128, u128);

/// The addresses for which a prefix is the longest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Area {
    pub(super) ipv4: bool,
    /// The class of these addresses, as far as they are no pods'.
    pub(super) class: ClassIndex,
    ranges: Vec<Range>,
}

impl Area {
    /// Its first address.
    pub(super) fn first(&self) -> IpAddr {
        address(self.ranges.first().map_or(0, |(start, _)| *start), self.ipv4)
    }
}

/// The areas of all prefixes that have addresses of their own.
pub(super) fn areas(prefixes: &Prefixes) -> Vec<Area> {
    let mut areas = Vec::new();
    for ipv4 in [true, false] {
        let mut starts: BTreeSet<u128> = BTreeSet::new();
        for prefix in prefixes.list.iter().filter(|prefix| prefix.addr().is_ipv4() == ipv4) {
            starts.insert(bits(prefix.network()));
            starts.extend(bits(prefix.broadcast()).checked_add(1).filter(|next| *next <= last(ipv4)));
        }
        let starts: Vec<u128> = starts.into_iter().collect();
        let addresses: Vec<IpAddr> = starts.iter().map(|start| address(*start, ipv4)).collect();
        let mut ranges: BTreeMap<ClassIndex, Vec<Range>> = BTreeMap::new();
        for (index, prefix) in prefixes.longest(&addresses).into_iter().enumerate() {
            let end = starts.get(index + 1).map_or(last(ipv4), |next| next - 1);
            ranges.entry(prefix).or_default().push((starts[index], end));
        }
        // The classes of bare prefixes have the prefixes' own indices.
        areas.extend(ranges.into_iter().map(|(class, ranges)| Area { ipv4, class, ranges }));
    }
    areas
}

/// Addresses of a family: those in no block that is narrower than everything, then those that the fewest blocks hold.
#[derive(Debug)]
pub(super) struct Free {
    pub(super) ipv4: bool,
    /// What is left, the last range first.
    left: Vec<Range>,
}

impl Free {
    /// Every address of the family. `held` says how many blocks hold one.
    pub(super) fn new(prefixes: &Prefixes, ipv4: bool, held: impl Fn(IpAddr) -> usize) -> Self {
        let mut areas: Vec<Area> = areas(prefixes).into_iter().filter(|area| area.ipv4 == ipv4).collect();
        let is_root = |area: &Area| prefixes.list[area.class as usize].prefix_len() == 0;
        areas.sort_by_cached_key(|area| (!is_root(area), held(area.first()), area.first()));
        let mut left: Vec<Range> = areas.into_iter().flat_map(|area| area.ranges).collect();
        left.reverse();
        Self { ipv4, left }
    }

    /// Those of them within a range for pods: the first is the network's, the second a router's by custom, and the last of
    /// an IPv4 range is its broadcast address.
    pub(super) fn within(&self, net: IpNet) -> Self {
        let first = bits(net.network()).saturating_add(2);
        let end = bits(net.broadcast()).saturating_sub(u128::from(self.ipv4));
        let part = |(start, last): &Range| {
            let (start, last) = ((*start).max(first), (*last).min(end));
            (start <= last).then_some((start, last))
        };
        Self { ipv4: self.ipv4, left: self.left.iter().filter_map(part).collect() }
    }

    /// The next of them, taken or not: none is in fewer blocks.
    pub(super) fn any(&self) -> Option<IpAddr> {
        self.left.last().map(|(start, _)| address(*start, self.ipv4))
    }

    /// The next that is nobody's.
    pub(super) fn next(&mut self, taken: &mut BTreeSet<IpAddr>) -> Option<IpAddr> {
        while let Some((start, end)) = self.left.pop() {
            self.left.extend(start.checked_add(1).filter(|next| *next <= end).map(|next| (next, end)));
            // The first of a family means "no address".
            let address = address(start, self.ipv4);
            if !address.is_unspecified() && taken.insert(address) {
                return Some(address);
            }
        }
        None
    }
}

/// The block that some areas of one family make up.
pub(super) fn block(prefixes: &Prefixes, areas: &[&Area]) -> Option<Peer> {
    let ipv4 = areas.first()?.ipv4;
    let mut ranges: Vec<Range> = areas.iter().flat_map(|area| area.ranges.iter().copied()).collect();
    ranges.sort_unstable();
    let cidrs = cidrs(&joined(&ranges), ipv4);
    let name = match cidrs.as_slice() {
        [cidr] => cidr.to_string(),
        _ => name(prefixes, areas),
    };
    Some(Peer {
        id: name.clone(),
        kind: PeerKind::IpBlock,
        workload_kind: None,
        namespace: None,
        name,
        cidrs,
        owner: None,
    })
}

/// Leaves of a block what is within some nets; false when that is nothing.
pub(super) fn narrow(block: &mut Peer, nets: &[IpNet]) -> bool {
    let common = |one: &IpNet, other: &IpNet| {
        let narrower = if one.prefix_len() >= other.prefix_len() { (one, other) } else { (other, one) };
        narrower.1.contains(narrower.0).then_some(*narrower.0)
    };
    let both = block.cidrs.iter().flat_map(|cidr| nets.iter().filter_map(move |net| common(cidr, net)));
    let left = IpNet::aggregate(&both.collect());
    if left != block.cidrs {
        let words = left.iter().map(ToString::to_string).collect::<Vec<_>>().join(" + ");
        block.name.clone_from(&words);
        block.id = words;
        block.cidrs = left;
    }
    !block.cidrs.is_empty()
}

/// Gives blocks with long names, in their order, short ones: a name of many prefixes is no handle.
pub(super) fn number_long_names<'a>(blocks: impl Iterator<Item = &'a mut Peer>) {
    for (index, peer) in (1..).zip(blocks) {
        if peer.name.len() > LONGEST_ID {
            peer.id = format!("block-{index}");
        }
    }
}

/// In the policies' own prefixes: `10.0.0.0/8 except 10.1.0.0/16 + 192.0.2.0/24`.
fn name(prefixes: &Prefixes, areas: &[&Area]) -> String {
    let inside: BTreeSet<ClassIndex> = areas.iter().map(|area| area.class).collect();
    let mut parts: Vec<(IpNet, Vec<IpNet>)> = Vec::new();
    let mut open: Vec<(IpNet, bool)> = Vec::new();
    for (class, prefix) in (0..).zip(&prefixes.list) {
        while open.last().is_some_and(|(last, _)| !last.contains(prefix)) {
            open.pop();
        }
        let (around, is_in) = (open.last().is_some_and(|(_, is_in)| *is_in), inside.contains(&class));
        match (around, is_in) {
            (false, true) => parts.push((*prefix, Vec::new())),
            (true, false) => {
                if let Some((_, except)) = parts.iter_mut().rev().find(|(part, _)| part.contains(prefix)) {
                    except.push(*prefix);
                }
            }
            _ => {}
        }
        open.push((*prefix, is_in));
    }
    let parts = parts.into_iter().map(|(prefix, except)| {
        let except: Vec<String> = except.iter().map(ToString::to_string).collect();
        if except.is_empty() { prefix.to_string() } else { format!("{prefix} except {}", except.join(", ")) }
    });
    parts.collect::<Vec<_>>().join(" + ")
}

fn joined(ranges: &[Range]) -> Vec<Range> {
    let mut joined: Vec<Range> = Vec::new();
    for (start, end) in ranges {
        match joined.last_mut() {
            Some(before) if before.1.checked_add(1) == Some(*start) => before.1 = *end,
            _ => joined.push((*start, *end)),
        }
    }
    joined
}

fn cidrs(ranges: &[Range], ipv4: bool) -> Vec<IpNet> {
    ranges
        .iter()
        .flat_map(|(start, end)| match (address(*start, ipv4), address(*end, ipv4)) {
            (IpAddr::V4(start), IpAddr::V4(end)) => IpSubnets::V4(Ipv4Subnets::new(start, end, 0)),
            (IpAddr::V6(start), IpAddr::V6(end)) => IpSubnets::V6(Ipv6Subnets::new(start, end, 0)),
            // `address` gives one family for one family.
            (start, _) => single(start),
        })
        .collect()
}

fn single(address: IpAddr) -> IpSubnets {
    match address {
        IpAddr::V4(address) => IpSubnets::V4(Ipv4Subnets::new(address, address, 0)),
        IpAddr::V6(address) => IpSubnets::V6(Ipv6Subnets::new(address, address, 0)),
    }
}

fn last(ipv4: bool) -> u128 {
    if ipv4 { u32::MAX.into() } else { u128::MAX }
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_bits().into(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

fn address(bits: u128, ipv4: bool) -> IpAddr {
    match u32::try_from(bits) {
        Ok(bits) if ipv4 => Ipv4Addr::from_bits(bits).into(),
        _ => Ipv6Addr::from_bits(bits).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::address::AddressBlock;

    fn named(wanted: &[&str], blocks: &[(&str, &[&str])]) -> String {
        let blocks: Vec<AddressBlock> = blocks
            .iter()
            .map(|(cidr, except)| AddressBlock {
                cidr: cidr.parse().expect("a CIDR"),
                except: except.iter().map(|cidr| cidr.parse().expect("a CIDR")).collect(),
            })
            .collect();
        let prefixes = Prefixes::new(blocks.iter());
        let areas = areas(&prefixes);
        let chosen: Vec<&Area> = areas
            .iter()
            .filter(|area| wanted.contains(&prefixes.list[area.class as usize].to_string().as_str()))
            .collect();
        block(&prefixes, &chosen).expect("a block").name
    }

    #[test]
    fn a_block_is_named_as_the_policies_write_it() {
        let blocks: &[(&str, &[&str])] = &[("10.0.0.0/8", &["10.1.0.0/16"]), ("255.255.255.255/32", &[])];
        assert_eq!(named(&["10.1.0.0/16"], blocks), "10.1.0.0/16");
        assert_eq!(named(&["10.0.0.0/8", "10.1.0.0/16"], blocks), "10.0.0.0/8");
        assert_eq!(named(&["0.0.0.0/0"], blocks), "0.0.0.0/0 except 10.0.0.0/8, 255.255.255.255/32");
        assert_eq!(
            named(&["0.0.0.0/0", "10.0.0.0/8", "10.1.0.0/16", "255.255.255.255/32"], blocks),
            "0.0.0.0/0"
        );
        assert_eq!(named(&["10.0.0.0/8"], blocks), "10.0.0.0/8 except 10.1.0.0/16");
        assert_eq!(
            named(&["0.0.0.0/0", "10.1.0.0/16"], blocks),
            "0.0.0.0/0 except 10.0.0.0/8, 255.255.255.255/32 + 10.1.0.0/16"
        );
        assert_eq!(named(&["::/0"], blocks), "::/0");
        assert_eq!(named(&["::/0"], &[("fd00::/8", &[])]), "::/0 except fd00::/8");
    }
}
