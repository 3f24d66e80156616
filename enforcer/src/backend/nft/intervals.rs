//! Longest-prefix tables flattened into disjoint intervals.
//!
//! Invariant: the intervals of a family are sorted, disjoint and cover it from the first address to the last,
//! and each carries what the longest prefix that contains its addresses says. nftables' interval maps refuse
//! overlaps, so the nesting has to be resolved here; nothing here knows what the values mean.

use std::net::IpAddr;

use netlab_core::policy::change::PeerPrefix;

/// From `start` to `end`, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Interval<T> {
    /// First.
    pub(super) start: u128,
    /// Last.
    pub(super) end: u128,
    /// What holds there.
    pub(super) value: T,
}

/// An address family, for what differs between the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Family {
    V4,
    V6,
}

impl Family {
    pub(super) const BOTH: [Self; 2] = [Self::V4, Self::V6];

    const fn bits(self) -> u32 {
        match self {
            Self::V4 => 32,
            Self::V6 => 128,
        }
    }

    /// The highest address.
    pub(super) const fn last(self) -> u128 {
        u128::MAX >> (128 - self.bits())
    }

    /// The host bits of a prefix of this length.
    pub(super) fn hosts(self, length: u32) -> u128 {
        self.last().checked_shr(length).unwrap_or(0)
    }

    /// The number of an address of this family.
    pub(super) fn number(self, address: IpAddr) -> Option<u128> {
        match (self, address) {
            (Self::V4, IpAddr::V4(address)) => Some(u128::from(address.to_bits())),
            (Self::V6, IpAddr::V6(address)) => Some(address.to_bits()),
            _ => None,
        }
    }

    /// The address with this number.
    pub(super) fn address(self, number: u128) -> IpAddr {
        match self {
            Self::V4 => IpAddr::V4(std::net::Ipv4Addr::from_bits(u32::try_from(number).unwrap_or(u32::MAX))),
            Self::V6 => IpAddr::V6(std::net::Ipv6Addr::from_bits(number)),
        }
    }
}

/// The classes of one family. Intervals between which `value` makes no difference are one.
pub(super) fn flatten<T: Copy + PartialEq>(
    peers: &[PeerPrefix],
    family: Family,
    value: impl Fn(u32) -> T,
) -> Vec<Interval<T>> {
    let mut prefixes: Vec<Interval<T>> = peers
        .iter()
        .filter_map(|peer| {
            let start = family.number(peer.address)?;
            let end = start | family.hosts(u32::from(peer.length));
            Some(Interval { start, end, value: value(peer.class) })
        })
        .collect();
    // A prefix comes before those inside it.
    prefixes.sort_by(|a, b| a.start.cmp(&b.start).then(b.end.cmp(&a.end)));

    let mut flat = Flat { intervals: Vec::new(), next: Some(0) };
    let mut open: Vec<Interval<T>> = Vec::new();
    for prefix in prefixes {
        while open.last().is_some_and(|outer| outer.end < prefix.start) {
            flat.close(&mut open);
        }
        if let (Some(outer), Some(before)) = (open.last(), prefix.start.checked_sub(1)) {
            flat.until(before, outer.value);
        }
        open.push(prefix);
    }
    while !open.is_empty() {
        flat.close(&mut open);
    }
    flat.intervals
}

struct Flat<T> {
    intervals: Vec<Interval<T>>,
    /// The first address that no interval covers yet; `None` after the last one.
    next: Option<u128>,
}

impl<T: Copy + PartialEq> Flat<T> {
    /// Ends the innermost open prefix.
    fn close(&mut self, open: &mut Vec<Interval<T>>) {
        if let Some(inner) = open.pop() {
            self.until(inner.end, inner.value);
        }
    }

    /// Covers everything up to `end`, which is included.
    fn until(&mut self, end: u128, value: T) {
        let Some(start) = self.next.filter(|start| *start <= end) else { return };
        self.next = end.checked_add(1);
        match self.intervals.last_mut() {
            Some(last) if last.value == value => last.end = end,
            _ => self.intervals.push(Interval { start, end, value }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Family, flatten};
    use netlab_core::policy::change::PeerPrefix;
    use std::net::IpAddr;

    fn peer(text: &str, class: u32) -> PeerPrefix {
        let (address, length) = text.split_once('/').expect("prefix");
        PeerPrefix {
            address: address.parse().expect("address"),
            length: length.parse().expect("length"),
            class,
        }
    }

    fn flat(peers: &[PeerPrefix], family: Family) -> Vec<(String, String, u32)> {
        flatten(peers, family, |class| class)
            .into_iter()
            .map(|i| (family.address(i.start).to_string(), family.address(i.end).to_string(), i.value))
            .collect()
    }

    fn owned(list: &[(&str, &str, u32)]) -> Vec<(String, String, u32)> {
        list.iter().map(|(a, b, class)| ((*a).to_owned(), (*b).to_owned(), *class)).collect()
    }

    #[test]
    fn nested_prefixes_at_both_ends_of_the_family() {
        let peers = [
            peer("0.0.0.0/0", 1),
            peer("0.0.0.0/32", 2),
            peer("10.0.0.0/8", 3),
            peer("10.0.0.0/24", 4),
            peer("10.0.0.255/32", 5),
            peer("255.255.255.255/32", 6),
            peer("::/0", 7),
            peer("ffff::/16", 8),
        ];
        let expected = [
            ("0.0.0.0", "0.0.0.0", 2),
            ("0.0.0.1", "9.255.255.255", 1),
            ("10.0.0.0", "10.0.0.254", 4),
            ("10.0.0.255", "10.0.0.255", 5),
            ("10.0.1.0", "10.255.255.255", 3),
            ("11.0.0.0", "255.255.255.254", 1),
            ("255.255.255.255", "255.255.255.255", 6),
        ];
        assert_eq!(flat(&peers, Family::V4), owned(&expected));
        let expected = [
            ("::", "fffe:ffff:ffff:ffff:ffff:ffff:ffff:ffff", 7),
            ("ffff::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", 8),
        ];
        assert_eq!(flat(&peers, Family::V6), owned(&expected));
    }

    #[test]
    fn equal_neighbours_are_one_interval() {
        let peers = [peer("0.0.0.0/0", 1), peer("10.0.0.0/9", 1), peer("10.0.0.1/32", 1)];
        assert_eq!(flat(&peers, Family::V4), owned(&[("0.0.0.0", "255.255.255.255", 1)]));
    }

    /// Against the definition: the longest prefix that contains the address.
    #[test]
    fn random_tables_agree_with_the_longest_prefix() {
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..300 {
            let mut peers = vec![peer("0.0.0.0/0", 1)];
            for _ in 0..random.usize(0..24) {
                // Few distinct bits, so that prefixes nest and touch.
                let length = random.u8(1..=32);
                let address = (random.u32(..) & 0xc000_0003) | (random.u32(..) & 0x00f0_0000);
                let network = address & (u32::MAX << (32 - u32::from(length)));
                let prefix =
                    PeerPrefix { address: IpAddr::V4(network.into()), length, class: random.u32(1..5) };
                if !peers.iter().any(|p| (p.address, p.length) == (prefix.address, prefix.length)) {
                    peers.push(prefix);
                }
            }
            let flat = flatten(&peers, Family::V4, |class| class);
            assert_eq!(flat.first().map(|i| i.start), Some(0));
            assert_eq!(flat.last().map(|i| i.end), Some(Family::V4.last()));
            for pair in flat.windows(2) {
                assert_eq!(pair[0].end + 1, pair[1].start, "gap or overlap in {flat:?}");
                assert_ne!(pair[0].value, pair[1].value, "not merged: {flat:?}");
            }
            for interval in &flat {
                for number in [interval.start, interval.end, interval.start.midpoint(interval.end)] {
                    let longest = peers
                        .iter()
                        .filter(|p| {
                            let shift = 32 - u32::from(p.length);
                            let base = Family::V4.number(p.address).unwrap_or_default();
                            base.checked_shr(shift) == number.checked_shr(shift)
                        })
                        .max_by_key(|p| p.length);
                    assert_eq!(longest.map(|p| p.class), Some(interval.value), "{number:#x} in {peers:?}");
                }
            }
        }
    }
}
