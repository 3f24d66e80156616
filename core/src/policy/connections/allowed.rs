//! Sets of (protocol, port): what is allowed between two ends.
//!
//! Invariant: ranges are sorted, apart from each other and within 1 to 65535, so equal sets are equal values. Port
//! 0 is left out: no connection can be opened to it.

use std::collections::HashMap;
use std::fmt;

use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};

use crate::model::port::{PortRange, Protocol};

/// The first port that a connection can be opened to.
const FIRST: u16 = 1;

/// Every port of a protocol.
const EVERY_PORT: PortRange = PortRange { start: FIRST, end: u16::MAX };

/// The ports that are allowed, per protocol.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Allowed {
    /// In the order of [`Protocol::ALL`].
    ranges: [Vec<PortRange>; 3],
}

impl Allowed {
    /// Every port of every protocol.
    pub fn everything() -> Self {
        Self { ranges: [const { EVERY_PORT }; 3].map(|range| vec![range]) }
    }

    /// From ranges in any order.
    pub fn from_ranges(ranges: impl IntoIterator<Item = (Protocol, PortRange)>) -> Self {
        let mut sorted: Vec<_> = ranges.into_iter().collect();
        sorted.sort_unstable();
        let mut set = Self::default();
        for (protocol, range) in sorted {
            let range = PortRange { start: range.start.max(FIRST), end: range.end };
            if range.start > range.end {
                continue;
            }
            let list = &mut set.ranges[protocol as usize];
            match list.last_mut() {
                Some(last) if u32::from(range.start) <= u32::from(last.end) + 1 => {
                    last.end = last.end.max(range.end);
                }
                _ => list.push(range),
            }
        }
        set
    }

    /// True when nothing is allowed.
    pub fn is_empty(&self) -> bool {
        self.ranges.iter().all(Vec::is_empty)
    }

    /// True when every port of every protocol is allowed.
    pub fn is_everything(&self) -> bool {
        self.ranges.iter().all(|list| list.as_slice() == [EVERY_PORT])
    }

    /// The ranges of a protocol.
    pub fn of(&self, protocol: Protocol) -> &[PortRange] {
        &self.ranges[protocol as usize]
    }

    /// True when the port is allowed.
    pub fn contains(&self, protocol: Protocol, port: u16) -> bool {
        self.of(protocol).iter().any(|range| range.contains(port))
    }

    /// What both allow.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        let mut both = Self::default();
        for protocol in Protocol::ALL {
            let (mut left, mut right) = (self.of(protocol), other.of(protocol));
            while let ([a, ..], [b, ..]) = (left, right) {
                let (start, end) = (a.start.max(b.start), a.end.min(b.end));
                if start <= end {
                    both.ranges[protocol as usize].push(PortRange { start, end });
                }
                if a.end <= b.end {
                    left = &left[1..];
                } else {
                    right = &right[1..];
                }
            }
        }
        both
    }

    /// What one of the two allows.
    #[must_use]
    pub fn or(&self, other: &Self) -> Self {
        let all = |set: &Self| {
            Protocol::ALL
                .into_iter()
                .flat_map(|protocol| {
                    set.of(protocol).iter().map(move |range| (protocol, *range)).collect::<Vec<_>>()
                })
                .collect::<Vec<_>>()
        };
        Self::from_ranges(all(self).into_iter().chain(all(other)))
    }

    /// What this allows and the other does not.
    #[must_use]
    pub fn without(&self, other: &Self) -> Self {
        self.and(&other.complement())
    }

    fn complement(&self) -> Self {
        let mut rest = Self::default();
        for protocol in Protocol::ALL {
            // The last range ends where no port is any more.
            let mut next = Some(FIRST);
            let mut push = |start: Option<u16>, end: u16| {
                if let Some(start) = start.filter(|start| *start <= end) {
                    rest.ranges[protocol as usize].push(PortRange { start, end });
                }
            };
            for range in self.of(protocol) {
                push(next, range.start - 1);
                next = range.end.checked_add(1);
            }
            push(next, u16::MAX);
        }
        rest
    }

    /// The ranges of a protocol as text: `80,443-445`.
    pub fn ports(&self, protocol: Protocol) -> String {
        self.of(protocol).iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
    }

    /// Protocols of which something is allowed, and their ports as text.
    pub fn by_protocol(&self) -> impl Iterator<Item = (Protocol, String)> {
        Protocol::ALL
            .into_iter()
            .filter(|protocol| !self.of(*protocol).is_empty())
            .map(|protocol| (protocol, self.ports(protocol)))
    }
}

/// `all`, `none`, or as in `TCP 80,443-445, UDP 53`; a whole protocol is its name alone.
impl fmt::Display for Allowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_everything() {
            return f.pad("all");
        }
        let parts: Vec<String> = self
            .by_protocol()
            .map(|(protocol, ports)| match self.of(protocol) {
                [EVERY_PORT] => protocol.to_string(),
                _ => format!("{protocol} {ports}"),
            })
            .collect();
        f.pad(if parts.is_empty() { "none".to_owned() } else { parts.join(", ") }.as_str())
    }
}

/// `[{protocol, ports}]`.
impl Serialize for Allowed {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        struct Element(Protocol, String);
        impl Serialize for Element {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let mut map = serializer.serialize_map(Some(2))?;
                map.serialize_entry("protocol", &self.0)?;
                map.serialize_entry("ports", &self.1)?;
                map.end()
            }
        }
        let mut list = serializer.serialize_seq(None)?;
        for (protocol, ports) in self.by_protocol() {
            list.serialize_element(&Element(protocol, ports))?;
        }
        list.end()
    }
}

/// Sets by number, each once, with the results of set operations remembered.
#[derive(Debug)]
pub(super) struct Sets {
    pub(super) list: Vec<Allowed>,
    index: HashMap<Allowed, u32>,
    both: HashMap<(u32, u32), u32>,
    either: HashMap<(u32, u32), u32>,
}

impl Sets {
    pub(super) const NOTHING: u32 = 0;
    pub(super) const EVERYTHING: u32 = 1;

    pub(super) fn new() -> Self {
        let list = vec![Allowed::default(), Allowed::everything()];
        let index = [(list[0].clone(), Self::NOTHING), (list[1].clone(), Self::EVERYTHING)].into();
        Self { list, index, both: HashMap::new(), either: HashMap::new() }
    }

    /// The number of a set.
    pub(super) fn intern(&mut self, set: Allowed) -> u32 {
        if let Some(known) = self.index.get(&set) {
            return *known;
        }
        let next = super::super::groups::number(self.list.len());
        self.index.insert(set.clone(), next);
        self.list.push(set);
        next
    }

    pub(super) fn and(&mut self, a: u32, b: u32) -> u32 {
        match (a, b) {
            (Self::NOTHING, _) | (_, Self::NOTHING) => Self::NOTHING,
            (Self::EVERYTHING, other) | (other, Self::EVERYTHING) => other,
            _ if a == b => a,
            _ => {
                let key = (a.min(b), a.max(b));
                if let Some(known) = self.both.get(&key) {
                    return *known;
                }
                let set = self.intern(self.list[a as usize].and(&self.list[b as usize]));
                self.both.insert(key, set);
                set
            }
        }
    }

    pub(super) fn or(&mut self, a: u32, b: u32) -> u32 {
        match (a, b) {
            (Self::EVERYTHING, _) | (_, Self::EVERYTHING) => Self::EVERYTHING,
            (Self::NOTHING, other) | (other, Self::NOTHING) => other,
            _ if a == b => a,
            _ => {
                let key = (a.min(b), a.max(b));
                if let Some(known) = self.either.get(&key) {
                    return *known;
                }
                let set = self.intern(self.list[a as usize].or(&self.list[b as usize]));
                self.either.insert(key, set);
                set
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(tcp: &[(u16, u16)], udp: &[(u16, u16)]) -> Allowed {
        let of = |protocol, list: &[(u16, u16)]| {
            list.iter()
                .map(|(start, end)| (protocol, PortRange { start: *start, end: *end }))
                .collect::<Vec<_>>()
        };
        Allowed::from_ranges(of(Protocol::Tcp, tcp).into_iter().chain(of(Protocol::Udp, udp)))
    }

    #[test]
    fn neighbours_become_one_and_port_0_is_nobodys() {
        assert_eq!(set(&[(81, 90), (0, 0), (80, 80), (85, 87)], &[]).to_string(), "TCP 80-90");
        assert!(set(&[(0, 0)], &[]).is_empty());
        assert_eq!(set(&[(0, 65535)], &[(53, 53)]).to_string(), "TCP, UDP 53");
        assert!(Allowed::everything().is_everything());
        assert_eq!(Allowed::everything().to_string(), "all");
    }

    #[test]
    fn operations_are_those_of_sets_of_ports() {
        let a = set(&[(10, 20), (30, 40), (65535, 65535)], &[(1, 5)]);
        let b = set(&[(1, 10), (20, 30), (39, 65535)], &[]);
        let (both, either, less) = (a.and(&b), a.or(&b), a.without(&b));
        for protocol in Protocol::ALL {
            for port in 1..=u16::MAX {
                let (in_a, in_b) = (a.contains(protocol, port), b.contains(protocol, port));
                assert_eq!(both.contains(protocol, port), in_a && in_b, "{protocol} {port}");
                assert_eq!(either.contains(protocol, port), in_a || in_b, "{protocol} {port}");
                assert_eq!(less.contains(protocol, port), in_a && !in_b, "{protocol} {port}");
            }
        }
        assert!(Allowed::everything().without(&Allowed::everything()).is_empty());
        assert_eq!(both.to_string(), "TCP 10,20,30,39-40,65535");
    }
}
