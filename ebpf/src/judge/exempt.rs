//! What is decided before any policy: whose packet it is, and what every pod must or must never say.
//!
//! Invariant: a packet passes here without a row of policy only when no policy could speak about it (the pod itself,
//! neighbours on the link, group membership), and an exemption is told by what cannot be forged from further away:
//! the hop limit, the family, the address asked about. A pod that no policy selects is held to its own addresses
//! and kept from being a router, and else not read.

use super::{Decision, Hook, Scratch, Tables, Walk};
use crate::abi::{Address, Device, Direction, ipv4_of, is_ipv4, words};
use crate::packet::{Bytes, ETHERNET, Frame, ICMP, ICMPV6, IGMP, Packet, Part, SCTP, TCP, UDP, View};
use crate::reason::Reason;

/// Octets of a solicitation or an advertisement with the one option that Ethernet needs, and a nonce (RFC 7527).
const DISCOVERY: u32 = 24 + 8 + 8;

impl<T: Tables> Walk<'_, T> {
    /// A pod that no policy selects: decides at once about what comes to it, and about what it plainly sends as itself.
    /// True for what must be read further.
    #[inline(always)]
    pub(super) fn must_read(&self, bytes: &impl Bytes, scratch: &mut Scratch) -> bool {
        if self.direction == Direction::Ingress {
            scratch.decided(Decision::built_in(Reason::NotIsolatedIngress));
            return false;
        }
        let plain = match bytes.at::<14>(0).map(|ethernet| ethernet.short(12)) {
            Some(0x0800) => bytes
                .at::<20>(ETHERNET)
                .is_some_and(|ip| ip.bytes4(12) == self.device.ipv4 && ip.byte(9) != ICMP),
            Some(0x86dd) => bytes.at::<40>(ETHERNET).is_some_and(|ip| {
                matches!(ip.byte(6), TCP | UDP | SCTP) && words(&ip.address(8)) == words(&self.device.ipv6)
            }),
            Some(0x0806 | 0x8100 | 0x88a8) => false,
            _ => true,
        };
        if plain {
            scratch.decided(Decision::built_in(Reason::NotIsolatedEgress));
        }
        !plain
    }

    /// A frame of a pod that no policy selects, once read.
    #[inline(always)]
    pub(super) fn open_pod(&self, scratch: &mut Scratch) {
        match self.refused(scratch) {
            Some(reason) => {
                scratch.fixed(reason);
                self.finish(scratch);
            }
            None => scratch.decided(Decision::built_in(Reason::NotIsolatedEgress)),
        }
    }

    /// Why a frame does not leave a pod that is not isolated for egress.
    #[inline(always)]
    pub(super) fn refused(&self, scratch: &Scratch) -> Option<Reason> {
        let packet = &scratch.packet;
        if self.direction == Direction::Ingress {
            return None;
        }
        match scratch.frame {
            Frame::Arp if !self.is_own_sender(&packet.source) => Some(Reason::Spoof),
            Frame::Ip if !self.is_own(packet) => Some(Reason::Spoof),
            Frame::Ip if is_router(packet) => Some(Reason::Router),
            Frame::Martian if is_ipv4(&packet.source) && !self.any_source() => Some(Reason::Spoof),
            // Whoever takes the tags off finds a packet whose source nobody compared.
            Frame::Tagged if !self.any_source() => Some(Reason::Frame),
            _ => None,
        }
    }

    /// What is decided about an IP packet before any policy.
    #[inline(always)]
    pub(super) fn exempt<B: Bytes>(&self, bytes: &B, packet: &Packet, hook: Hook) -> Option<Reason> {
        let egress = self.direction == Direction::Egress;
        if egress && !self.is_own(packet) {
            return Some(Reason::Spoof);
        }
        if egress && is_router(packet) {
            return Some(Reason::Router);
        }
        // RFC 6980: in pieces it is no neighbour discovery.
        if packet.protocol == ICMPV6 && packet.part == Part::Whole {
            // RFC 4861: it is valid only with hop limit 255, which no router lets through.
            match (packet.icmp_type, packet.hop_limit) {
                (133..=137, 255) if !egress => return Some(Reason::Neighbour),
                (133, 255) if is_on_link(&packet.destination) => return Some(Reason::Neighbour),
                (135 | 136, 255) => {
                    let reason = self.discovery(bytes, packet);
                    if reason.is_some() {
                        return reason;
                    }
                }
                (130..=132 | 143, 1) => return Some(Reason::MulticastControl),
                _ => {}
            }
        }
        if packet.protocol == IGMP
            && packet.hop_limit == 1
            && is_ipv4(&packet.destination)
            && ipv4_of(&packet.destination)[0] & 0xf0 == 0xe0
        {
            return Some(Reason::MulticastControl);
        }
        if egress && self.is_own_destination(&packet.destination) {
            return Some(Reason::Itself);
        }
        if !egress && hook.ingress_ifindex == hook.ifindex && self.is_own_destination(&packet.source) {
            return Some(Reason::Itself);
        }
        None
    }

    /// A neighbour solicitation or advertisement that the pod sends. It may advertise its own addresses only, as with
    /// ARP. To an address that may be off the link it must be short and, as a solicitation, ask for that address:
    /// routers pass it on, and it must not be a way around policy. What is neither is judged as any ICMP.
    #[inline(never)]
    fn discovery<B: Bytes>(&self, bytes: &B, packet: &Packet) -> Option<Reason> {
        let target = bytes.read_address(packet.transport_offset + 8)?;
        let advertises = packet.icmp_type == 136;
        if advertises && !self.any_source() && !self.is_own_ipv6(&target) {
            return Some(Reason::Spoof);
        }
        let short = bytes.len() <= packet.transport_offset + DISCOVERY;
        let about_its_end = advertises || words(&target) == words(&packet.destination);
        (is_on_link(&packet.destination) || short && about_its_end).then_some(Reason::Neighbour)
    }

    /// True for a packet from the pod's own address. No address at all (RFC 1122, RFC 4291) may only speak to many: DHCP,
    /// group membership, duplicate address detection. Link-local addresses are nobody's in particular.
    #[inline(always)]
    fn is_own(&self, packet: &Packet) -> bool {
        let Packet { source, destination, .. } = packet;
        self.any_source()
            || if is_ipv4(source) {
                let source = ipv4_of(source);
                if source == [0; 4] { ipv4_of(destination)[0] >= 224 } else { source == self.device.ipv4 }
            } else if words(source) == [0; 2] {
                destination[0] == 0xff
            } else {
                self.is_own_ipv6(source)
            }
    }

    /// True for the sender of an ARP message: also 0.0.0.0, which asks whether an address is free (RFC 5227).
    #[inline(always)]
    pub(super) fn is_own_sender(&self, sender: &Address) -> bool {
        let sender = ipv4_of(sender);
        sender == self.device.ipv4 || sender == [0; 4] || self.any_source()
    }

    #[inline(always)]
    fn is_own_ipv6(&self, address: &Address) -> bool {
        words(address) == words(&self.device.ipv6) || is_link_local(address)
    }

    #[inline(always)]
    fn any_source(&self) -> bool {
        self.device.flags & Device::ANY_SOURCE != 0
    }

    #[inline(always)]
    fn is_own_destination(&self, address: &Address) -> bool {
        if is_ipv4(address) {
            self.device.ipv4 != [0; 4] && ipv4_of(address) == self.device.ipv4
        } else {
            let own = words(&self.device.ipv6);
            own != [0; 2] && words(address) == own
        }
    }
}

/// True for what only a router says, in one piece or as the first of several: redirects and router advertisements.
#[inline(always)]
const fn is_router(packet: &Packet) -> bool {
    match packet.protocol {
        ICMP => matches!(packet.icmp_type, 5 | 9),
        ICMPV6 => matches!(packet.icmp_type, 134 | 137),
        _ => false,
    }
}

/// True for an IPv6 destination that no router passes on.
#[inline(always)]
const fn is_on_link(destination: &Address) -> bool {
    // Scopes 1 and 2 of RFC 4291: the interface and the link.
    destination[0] == 0xff && matches!(destination[1] & 0x0f, 1 | 2) || is_link_local(destination)
}

/// RFC 4291: `fe80::/10`.
#[inline(always)]
const fn is_link_local(address: &Address) -> bool {
    words(address)[0] & 0xc0ff == 0x80fe
}
