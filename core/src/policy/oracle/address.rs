//! CIDR arithmetic for `IPBlock` and `networks`.
//!
//! Invariant: families never mix; an IPv4-mapped IPv6 address is an IPv6 address.

use std::net::IpAddr;

use crate::input::wire::network_policy::IpBlock;

/// `IPBlock`: the addresses of `cidr` less those of every `except`. Pods' addresses are addresses like any other.
pub(super) fn block_contains(block: &IpBlock, address: IpAddr) -> bool {
    if !block.unknown.is_empty() {
        return false;
    }
    let Some(cidr) = Cidr::parse(&block.cidr) else { return false };
    let mut excepted = false;
    for text in block.except.iter().flatten() {
        let Some(except) = Cidr::parse(text) else { return false };
        excepted |= except.contains(address);
    }
    cidr.contains(address) && !excepted
}

/// One of `networks`.
pub(super) fn cidr_contains(cidr: &str, address: IpAddr) -> bool {
    Cidr::parse(cidr).is_some_and(|cidr| cidr.contains(address))
}

/// A network prefix; bits after the prefix have no meaning (RFC 4632 §3.1).
struct Cidr {
    network: IpAddr,
    length: u32,
}

impl Cidr {
    /// `address/length`. `None` for anything else.
    fn parse(text: &str) -> Option<Self> {
        let (network, length) = text.split_once('/')?;
        if length.is_empty() || !length.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let network: IpAddr = network.parse().ok()?;
        let length: u32 = length.parse().ok()?;
        let longest = if network.is_ipv4() { 32 } else { 128 };
        (length <= longest).then_some(Self { network, length })
    }

    /// True when the address has the family of the prefix and its first `length` bits.
    fn contains(&self, address: IpAddr) -> bool {
        match (self.network, address) {
            (IpAddr::V4(network), IpAddr::V4(address)) => {
                same_first_bits(&network.octets(), &address.octets(), self.length)
            }
            (IpAddr::V6(network), IpAddr::V6(address)) => {
                same_first_bits(&network.octets(), &address.octets(), self.length)
            }
            _ => false,
        }
    }
}

/// Compares bit by bit, most significant first.
fn same_first_bits(left: &[u8], right: &[u8], length: u32) -> bool {
    let bits = |bytes: &[u8]| -> Vec<bool> {
        bytes.iter().flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1 == 1)).collect()
    };
    bits(left).iter().zip(bits(right).iter()).take(length as usize).all(|(left, right)| left == right)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contains(cidr: &str, except: &[&str], address: &str) -> bool {
        let except = (!except.is_empty()).then(|| except.iter().map(|&text| text.to_owned()).collect());
        let block = IpBlock { cidr: cidr.to_owned(), except, ..IpBlock::default() };
        block_contains(&block, address.parse().expect("an address"))
    }

    #[test]
    fn the_edges_of_a_prefix_are_inside_and_their_neighbours_outside() {
        for (cidr, inside, outside) in [
            ("10.1.2.0/24", ["10.1.2.0", "10.1.2.255"], ["10.1.1.255", "10.1.3.0"]),
            ("10.1.2.4/30", ["10.1.2.4", "10.1.2.7"], ["10.1.2.3", "10.1.2.8"]),
            ("10.1.2.7/32", ["10.1.2.7", "10.1.2.7"], ["10.1.2.6", "10.1.2.8"]),
            ("128.0.0.0/1", ["128.0.0.0", "255.255.255.255"], ["127.255.255.255", "0.0.0.0"]),
            (
                "fd00:0:0:8::/61",
                ["fd00:0:0:8::", "fd00:0:0:f:ffff::1"],
                ["fd00:0:0:7:ffff::", "fd00:0:0:10::"],
            ),
            ("fd00::5/128", ["fd00::5", "fd00::5"], ["fd00::4", "fd00::6"]),
        ] {
            for address in inside {
                assert!(contains(cidr, &[], address), "{address} in {cidr}");
            }
            for address in outside {
                assert!(!contains(cidr, &[], address), "{address} not in {cidr}");
            }
        }
    }

    #[test]
    fn host_bits_have_no_meaning() {
        assert!(contains("10.1.2.77/24", &[], "10.1.2.1"));
        assert!(contains("10.1.2.0/24", &["10.1.2.77/28"], "10.1.2.63"));
        assert!(!contains("10.1.2.0/24", &["10.1.2.77/28"], "10.1.2.64"));
    }

    #[test]
    fn families_never_mix() {
        assert!(!contains("::/0", &[], "10.0.0.1"));
        assert!(!contains("0.0.0.0/0", &[], "fd00::1"));
        assert!(!contains("0.0.0.0/0", &[], "::ffff:10.0.0.1"));
        assert!(contains("::/0", &[], "::ffff:10.0.0.1"));
    }

    #[test]
    fn what_is_no_cidr_contains_nothing() {
        for cidr in ["10.0.0.1", "10.0.0.0/33", "10.0.0.0/+8", "10.0.0.0/", "fd00::/129", "010.0.0.0/8", ""] {
            assert!(!contains(cidr, &[], "10.0.0.1"), "{cidr}");
            assert!(!contains(cidr, &[], "fd00::1"), "{cidr}");
        }
        assert!(!contains("10.0.0.0/8", &["nonsense"], "10.0.0.1"));
    }
}
