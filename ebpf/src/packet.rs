//! Reading a frame: Ethernet to the ports, bounds-checked at every step.
//!
//! Invariant: nothing is taken for a port, a flag or an address that is not proven to be one. IPv4 options and
//! IPv6 extension headers move the transport header; later fragments have none; a header that is cut short is
//! [`Frame::Malformed`], never a guess. VLAN tags are not looked into: they are [`Frame::Unknown`].

use crate::abi::{Address, is_ipv4, mapped};

/// Read access to a frame.
pub trait Bytes {
    /// Length of the whole frame in bytes.
    fn len(&self) -> u32;

    /// `N` bytes at an offset that is a constant once inlined: in the kernel this is direct packet access.
    fn at<const N: usize>(&self, offset: u32) -> Option<[u8; N]>;

    /// `N` bytes at any offset: in the kernel this is a helper call, for the rare headers that move.
    fn read<const N: usize>(&self, offset: u32) -> Option<[u8; N]>;

    /// True for a frame without a byte.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Bytes for &[u8] {
    fn len(&self) -> u32 {
        u32::try_from(<[u8]>::len(self)).unwrap_or(u32::MAX)
    }

    fn at<const N: usize>(&self, offset: u32) -> Option<[u8; N]> {
        let start = usize::try_from(offset).ok()?;
        self.get(start..start.checked_add(N)?)?.try_into().ok()
    }

    fn read<const N: usize>(&self, offset: u32) -> Option<[u8; N]> {
        self.at(offset)
    }
}

/// Internet Control Message Protocol.
pub const ICMP: u8 = 1;
/// Internet Group Management Protocol.
pub const IGMP: u8 = 2;
/// Transmission Control Protocol.
pub const TCP: u8 = 6;
/// User Datagram Protocol.
pub const UDP: u8 = 17;
/// ICMP for IPv6.
pub const ICMPV6: u8 = 58;
/// Stream Control Transmission Protocol.
pub const SCTP: u8 = 132;

/// Bytes before the network header.
pub const ETHERNET: u32 = 14;
/// Extension headers that are walked before the packet is refused.
pub const MAX_EXTENSION_HEADERS: usize = 8;

/// What part of a datagram a packet is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Part {
    /// All of it (IPv6 atomic fragments included).
    #[default]
    Whole,
    /// The first fragment, with the transport header.
    First,
    /// A later one, without.
    Later,
}

/// The headers of an IP packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Packet {
    /// Source, IPv4 mapped.
    pub source: Address,
    /// Destination, IPv4 mapped.
    pub destination: Address,
    /// Upper-layer protocol.
    pub protocol: u8,
    /// Source port in host order; for ICMP echo the identifier; 0 when the protocol has none.
    pub source_port: u16,
    /// Destination port in host order; for ICMP echo the identifier; 0 when the protocol has none.
    pub destination_port: u16,
    /// TCP flags; for SCTP the type of the first chunk.
    pub flags: u8,
    /// ICMP type.
    pub icmp_type: u8,
    /// TTL or hop limit.
    pub hop_limit: u8,
    /// Whole or a fragment.
    pub part: Part,
    /// Fragment identification, host order.
    pub fragment_id: u32,
    /// Protocol by which all fragments of the datagram are known.
    pub fragment_protocol: u8,
    /// Where the transport header starts in the frame, in bytes.
    pub transport_offset: u32,
}

impl Packet {
    /// True for an ICMP or ICMPv6 error, that is a message about another packet. Redirects are none.
    #[inline(always)]
    #[must_use]
    pub const fn is_icmp_error(&self) -> bool {
        match self.protocol {
            ICMP => matches!(self.icmp_type, 3 | 11 | 12),
            ICMPV6 => matches!(self.icmp_type, 1..=4),
            _ => false,
        }
    }
}

/// What a frame turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame {
    /// An IP packet.
    Ip(Packet),
    /// ARP, with the sender's protocol address.
    Arp([u8; 4]),
    /// VLAN or an `EtherType` that is neither IP nor ARP.
    Unknown,
    /// Headers that end early or contradict themselves.
    Malformed,
    /// IPv6 with a v4-mapped source or destination.
    Martian,
}

/// Reads a frame that starts with an Ethernet header.
#[inline(always)]
pub fn parse(bytes: &impl Bytes) -> Frame {
    let Some(ether_type) = bytes.at::<2>(12) else { return Frame::Malformed };
    match u16::from_be_bytes(ether_type) {
        0x0800 => ipv4(bytes),
        0x86dd => ipv6(bytes),
        0x0806 => match bytes.at::<28>(ETHERNET) {
            Some(arp) => Frame::Arp([arp[14], arp[15], arp[16], arp[17]]),
            None => Frame::Malformed,
        },
        _ => Frame::Unknown,
    }
}

/// RFC 791. A total length of zero is a segmentation-offload packet larger than 64 KiB: the frame bounds it.
#[inline(always)]
fn ipv4(bytes: &impl Bytes) -> Frame {
    let Some(header) = bytes.at::<20>(ETHERNET) else { return Frame::Malformed };
    let header_length = u32::from(header[0] & 0x0f) * 4;
    if header[0] >> 4 != 4 || header_length < 20 {
        return Frame::Malformed;
    }
    let available = bytes.len() - ETHERNET;
    let total = match u32::from(u16::from_be_bytes([header[2], header[3]])) {
        0 => available,
        total => total,
    };
    if total > available || total < header_length {
        return Frame::Malformed;
    }
    let fragment = u16::from_be_bytes([header[6], header[7]]);
    let (offset, more) = (fragment & 0x1fff, fragment & 0x2000 != 0);
    let mut packet = Packet {
        source: mapped([header[12], header[13], header[14], header[15]]),
        destination: mapped([header[16], header[17], header[18], header[19]]),
        protocol: header[9],
        hop_limit: header[8],
        fragment_id: u32::from(u16::from_be_bytes([header[4], header[5]])),
        fragment_protocol: header[9],
        part: part(offset, more),
        transport_offset: ETHERNET + header_length,
        ..Packet::default()
    };
    if packet.part == Part::Later {
        return later(packet, offset);
    }
    let length = total - header_length;
    let complete = if header_length == 20 {
        transport::<true>(bytes, &mut packet, ETHERNET + 20, length)
    } else {
        transport::<false>(bytes, &mut packet, ETHERNET + header_length, length)
    };
    if complete { Frame::Ip(packet) } else { Frame::Malformed }
}

/// RFC 8200. A payload length of zero is a jumbogram or an offload packet: the frame bounds it.
#[inline(always)]
fn ipv6(bytes: &impl Bytes) -> Frame {
    let Some(header) = bytes.at::<40>(ETHERNET) else { return Frame::Malformed };
    if header[0] >> 4 != 6 {
        return Frame::Malformed;
    }
    let available = bytes.len() - ETHERNET - 40;
    let payload = match u32::from(u16::from_be_bytes([header[4], header[5]])) {
        0 => available,
        payload => payload,
    };
    if payload > available {
        return Frame::Malformed;
    }
    let mut packet = Packet {
        source: address(&header, 8),
        destination: address(&header, 24),
        protocol: header[6],
        hop_limit: header[7],
        transport_offset: ETHERNET + 40,
        ..Packet::default()
    };
    if is_ipv4(&packet.source) || is_ipv4(&packet.destination) {
        return Frame::Martian;
    }
    if !is_extension_header(packet.protocol) {
        let complete = transport::<true>(bytes, &mut packet, ETHERNET + 40, payload);
        return if complete { Frame::Ip(packet) } else { Frame::Malformed };
    }
    extension_headers(bytes, packet, ETHERNET + 40 + payload)
}

/// Walks the extension headers of a packet that ends at byte `end` of the frame.
#[inline(always)]
fn extension_headers(bytes: &impl Bytes, mut packet: Packet, end: u32) -> Frame {
    let mut offset = ETHERNET + 40;
    for _ in 0..MAX_EXTENSION_HEADERS {
        if !is_extension_header(packet.protocol) {
            break;
        }
        let Some(header) = bytes.read::<8>(offset) else { return Frame::Malformed };
        let length = match packet.protocol {
            FRAGMENT_HEADER => {
                let fragment = u16::from_be_bytes([header[2], header[3]]);
                let (position, more) = (fragment >> 3, fragment & 1 != 0);
                packet.fragment_id = u32::from_be_bytes([header[4], header[5], header[6], header[7]]);
                packet.fragment_protocol = header[0];
                // A second fragment header must not undo the first.
                if packet.part == Part::Whole {
                    packet.part = part(position, more);
                } else {
                    return Frame::Malformed;
                }
                if packet.part == Part::Later {
                    packet.protocol = header[0];
                    return later(packet, position);
                }
                8
            }
            AUTHENTICATION_HEADER => (u32::from(header[1]) + 2) * 4,
            _ => (u32::from(header[1]) + 1) * 8,
        };
        packet.protocol = header[0];
        offset += length;
        if offset > end {
            return Frame::Malformed;
        }
    }
    if is_extension_header(packet.protocol) {
        return Frame::Malformed;
    }
    packet.transport_offset = offset;
    let complete = transport::<false>(bytes, &mut packet, offset, end - offset);
    if complete { Frame::Ip(packet) } else { Frame::Malformed }
}

const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT_HEADER: u8 = 44;
const AUTHENTICATION_HEADER: u8 = 51;
const DESTINATION_OPTIONS: u8 = 60;

#[inline(always)]
const fn is_extension_header(protocol: u8) -> bool {
    matches!(protocol, HOP_BY_HOP | ROUTING | FRAGMENT_HEADER | AUTHENTICATION_HEADER | DESTINATION_OPTIONS)
}

#[inline(always)]
const fn part(offset: u16, more: bool) -> Part {
    match (offset, more) {
        (0, false) => Part::Whole,
        (0, true) => Part::First,
        _ => Part::Later,
    }
}

/// RFC 3128: a TCP fragment at offset 1 (8 bytes) can only be there to rewrite the flags that were judged.
#[inline(always)]
fn later(packet: Packet, offset: u16) -> Frame {
    if packet.fragment_protocol == TCP && offset == 1 { Frame::Malformed } else { Frame::Ip(packet) }
}

#[inline(always)]
fn address(header: &[u8; 40], start: usize) -> Address {
    let mut address = [0; 16];
    address.copy_from_slice(&header[start..start + 16]);
    address
}

/// Reads what is needed of the transport header. `length` is the payload's, from `offset` on. False when the
/// protocol's header does not fit: 20 bytes for TCP (the flags must be in the first fragment too), 12 for
/// SCTP, 8 for UDP and ICMP.
#[inline(always)]
fn transport<const FIXED: bool>(bytes: &impl Bytes, packet: &mut Packet, offset: u32, length: u32) -> bool {
    let shortest = match packet.protocol {
        TCP => 20,
        SCTP => 12,
        UDP | ICMP | ICMPV6 => 8,
        _ => return true,
    };
    if length < shortest {
        return false;
    }
    let header = if FIXED { bytes.at::<8>(offset) } else { bytes.read::<8>(offset) };
    let Some(header) = header else { return false };
    let first = u16::from_be_bytes([header[0], header[1]]);
    let second = u16::from_be_bytes([header[2], header[3]]);
    match packet.protocol {
        TCP => {
            let flags = if FIXED { bytes.at::<1>(offset + 13) } else { bytes.read::<1>(offset + 13) };
            let Some(flags) = flags else { return false };
            (packet.source_port, packet.destination_port, packet.flags) = (first, second, flags[0]);
        }
        SCTP => {
            (packet.source_port, packet.destination_port) = (first, second);
            if length > 12 {
                let chunk = if FIXED { bytes.at::<1>(offset + 12) } else { bytes.read::<1>(offset + 12) };
                let Some(chunk) = chunk else { return false };
                packet.flags = chunk[0];
            }
        }
        UDP => (packet.source_port, packet.destination_port) = (first, second),
        _ => {
            packet.icmp_type = header[0];
            let echo = match packet.protocol {
                ICMP => matches!(header[0], 0 | 8),
                _ => matches!(header[0], 128 | 129),
            };
            if echo {
                let id = u16::from_be_bytes([header[4], header[5]]);
                (packet.source_port, packet.destination_port) = (id, id);
            }
        }
    }
    true
}

/// The packet that an ICMP error is about, as far as it is quoted: source, destination, protocol, ports.
/// `None` when it is a later fragment or cut before the ports.
#[inline(always)]
pub fn quoted(bytes: &impl Bytes, error: &Packet) -> Option<Packet> {
    let start = error.transport_offset + 8;
    if error.protocol == ICMP { quoted_ipv4(bytes, start) } else { quoted_ipv6(bytes, start) }
}

#[inline(always)]
fn quoted_ipv4(bytes: &impl Bytes, start: u32) -> Option<Packet> {
    let header = bytes.read::<20>(start)?;
    let fragment = u16::from_be_bytes([header[6], header[7]]);
    if header[0] >> 4 != 4 || fragment & 0x1fff != 0 {
        return None;
    }
    let packet = Packet {
        source: mapped([header[12], header[13], header[14], header[15]]),
        destination: mapped([header[16], header[17], header[18], header[19]]),
        protocol: header[9],
        ..Packet::default()
    };
    quoted_ports(bytes, packet, start + u32::from(header[0] & 0x0f) * 4)
}

#[inline(always)]
fn quoted_ipv6(bytes: &impl Bytes, start: u32) -> Option<Packet> {
    let header = bytes.read::<40>(start)?;
    if header[0] >> 4 != 6 {
        return None;
    }
    let packet = Packet {
        source: address(&header, 8),
        destination: address(&header, 24),
        protocol: header[6],
        ..Packet::default()
    };
    quoted_ports(bytes, packet, start + 40)
}

#[inline(always)]
fn quoted_ports(bytes: &impl Bytes, mut packet: Packet, offset: u32) -> Option<Packet> {
    let header = bytes.read::<8>(offset)?;
    match packet.protocol {
        TCP | UDP | SCTP => {
            packet.source_port = u16::from_be_bytes([header[0], header[1]]);
            packet.destination_port = u16::from_be_bytes([header[2], header[3]]);
        }
        ICMP | ICMPV6 => {
            packet.icmp_type = header[0];
            if matches!(header[0], 0 | 8 | 128 | 129) {
                let id = u16::from_be_bytes([header[4], header[5]]);
                (packet.source_port, packet.destination_port) = (id, id);
            }
        }
        _ => {}
    }
    Some(packet)
}
