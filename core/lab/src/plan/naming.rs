//! Names, hardware addresses and spare addresses, derived so that the same cluster always gets the same ones.
//!
//! Invariant: link names are at most 15 bytes (`IFNAMSIZ` less the final zero) and unique within a plan;
//! hardware addresses are unicast and locally administered.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use netlab_node::netlink::Mac;

use crate::place::Place;

/// FNV-1a with a final mix: short, stable, and nobody attacks it (a collision only costs another round).
fn hash(parts: &[&str]) -> u64 {
    let mut state = 0xcbf2_9ce4_8422_2325_u64;
    for part in parts {
        for byte in part.bytes().chain([0]) {
            state = (state ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
    state = (state ^ (state >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    state ^ (state >> 33)
}

/// Names of host-side links, unique within one plan.
#[derive(Debug, Default)]
pub(super) struct LinkNames {
    taken: BTreeSet<String>,
}

impl LinkNames {
    /// `nl` and eight hex digits for the link towards `place`.
    pub(super) fn towards(&mut self, place: &Place) -> String {
        let text = place.to_string();
        for round in 0_u32.. {
            let name = format!("nl{:08x}", hash(&[&text, "link", &round.to_string()]) >> 32);
            if self.taken.insert(name.clone()) {
                return name;
            }
        }
        unreachable!("2^32 rounds without a free name")
    }
}

/// The hardware address of one end of the link towards `place`.
pub(super) fn mac(place: &Place, end: &str) -> Mac {
    let [first, rest @ ..] = hash(&[&place.to_string(), "mac", end]).to_be_bytes();
    let mut bytes = [(first & 0xfc) | 0x02, 0, 0, 0, 0, 0];
    bytes.iter_mut().skip(1).zip(rest).for_each(|(byte, value)| *byte = value);
    Mac(bytes)
}

/// How a namespace is called in printed commands. No Kubernetes name holds `_`, and no namespace's name a dot,
/// so pods, nodes and the fabric cannot be confused.
pub(crate) fn namespace(place: &Place) -> String {
    let name = match place {
        Place::Fabric => "fabric".to_owned(),
        Place::Node(name) => format!("node_{name}"),
        Place::Pod(key) => format!("{}.{}", key.namespace, key.name),
    };
    // A file name holds at most 255 bytes; a namespace and a pod's name together may be longer. Names that no API
    // server would accept must not become paths or words of a shell.
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    if name.len() <= 200 && name.chars().all(is_plain) {
        return name;
    }
    let head: String = name.chars().map(|c| if is_plain(c) { c } else { '_' }).take(180).collect();
    format!("{head}_{:016x}", hash(&[&name]))
}

/// Link-local next hops of both families, clear of every address that the plan uses. No two are equal: the kernel
/// refuses a gateway that is an address of the machine itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct LinkAddresses {
    /// The node's end of its pods' links.
    pub(super) gateway: [IpAddr; 2],
    /// The fabric's end of the nodes' links.
    pub(super) fabric: [IpAddr; 2],
    /// The node's end of its own link.
    pub(super) node: [IpAddr; 2],
}

impl LinkAddresses {
    pub(super) fn clear_of(used: &BTreeSet<IpAddr>) -> Self {
        let mut v4 = spare(used, IpAddr::V4(Ipv4Addr::new(169, 254, 1, 1)));
        let mut v6 = spare(used, IpAddr::V6(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1)));
        let mut next = || {
            [
                v4.next().unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
                v6.next().unwrap_or(IpAddr::V6(Ipv6Addr::UNSPECIFIED)),
            ]
        };
        Self { gateway: next(), fabric: next(), node: next() }
    }
}

/// Addresses from `first` on that nobody uses.
pub(super) fn spare(used: &BTreeSet<IpAddr>, first: IpAddr) -> impl Iterator<Item = IpAddr> {
    std::iter::successors(Some(first), |address| match address {
        IpAddr::V4(address) => address.to_bits().checked_add(1).map(|bits| Ipv4Addr::from_bits(bits).into()),
        IpAddr::V6(address) => address.to_bits().checked_add(1).map(|bits| Ipv6Addr::from_bits(bits).into()),
    })
    .filter(|address| !used.contains(address))
}
