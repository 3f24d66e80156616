//! Reading a frame: Ethernet to the ports, bounds-checked at every step.
//!
//! Invariant: nothing is taken for a port, a flag or an address that is not proven to be one. IPv4 options and
//! IPv6 extension headers move the transport header; later fragments have none; a header that is cut short is
//! [`Frame::Malformed`], never a guess. VLAN tags are not looked into: they are [`Frame::Tagged`].

use crate::abi::{Address, is_ipv4, mapped};

/// Read access to a frame.
pub trait Bytes {
    /// Bytes that are known to be there.
    type View: View;

    /// Length of the whole frame in bytes.
    fn len(&self) -> u32;

    /// `N` bytes at an offset that is a constant once inlined: in the kernel this is direct packet access.
    fn at<const N: usize>(&self, offset: u32) -> Option<Self::View>;

    /// `N` bytes at any offset: in the kernel this is a helper call, for the rare headers that move.
    fn read<const N: usize>(&self, offset: u32) -> Option<[u8; N]>;

    /// An address at any offset, as [`Bytes::read`].
    fn read_address(&self, offset: u32) -> Option<Address> {
        self.read::<16>(offset)
    }

    /// Walks the extension headers of a packet, see [`extension_headers`]. In the kernel this is a function that the
    /// verifier knows by itself, as those of [`crate::judge::Apart`].
    #[inline(always)]
    fn extension_headers(&self, packet: &mut Packet, end: u32) -> Frame
    where
        Self: Sized,
    {
        extension_headers(self, packet, end)
    }

    /// True for a frame without a byte.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A piece of a frame, read by fields. An offset past the piece reads as zero (on the host) or is refused by
/// the verifier (in the kernel): neither is ever asked for.
pub trait View {
    /// One byte.
    fn byte(&self, offset: usize) -> u8;
    /// Two bytes in network order.
    fn short(&self, offset: usize) -> u16;
    /// Four bytes as they are.
    fn bytes4(&self, offset: usize) -> [u8; 4];
    /// Sixteen bytes as they are.
    fn address(&self, offset: usize) -> Address;
}

impl<'a> Bytes for &'a [u8] {
    type View = &'a [u8];

    fn len(&self) -> u32 {
        u32::try_from(<[u8]>::len(self)).unwrap_or(u32::MAX)
    }

    fn at<const N: usize>(&self, offset: u32) -> Option<&'a [u8]> {
        let start = usize::try_from(offset).ok()?;
        self.get(start..start.checked_add(N)?)
    }

    fn read<const N: usize>(&self, offset: u32) -> Option<[u8; N]> {
        self.at::<N>(offset)?.try_into().ok()
    }
}

impl View for &[u8] {
    fn byte(&self, offset: usize) -> u8 {
        self.get(offset).copied().unwrap_or_default()
    }

    fn short(&self, offset: usize) -> u16 {
        u16::from_be_bytes([self.byte(offset), self.byte(offset + 1)])
    }

    fn bytes4(&self, offset: usize) -> [u8; 4] {
        self.get(offset..).and_then(|rest| rest.first_chunk().copied()).unwrap_or_default()
    }

    fn address(&self, offset: usize) -> Address {
        self.get(offset..).and_then(|rest| rest.first_chunk().copied()).unwrap_or_default()
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(8))]
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

impl Default for Packet {
    fn default() -> Self {
        Self::CLEAN
    }
}

impl Packet {
    /// Nothing read yet.
    pub const CLEAN: Self = Self {
        source: [0; 16],
        destination: [0; 16],
        protocol: 0,
        source_port: 0,
        destination_port: 0,
        flags: 0,
        icmp_type: 0,
        hop_limit: 0,
        part: Part::Whole,
        fragment_id: 0,
        fragment_protocol: 0,
        transport_offset: 0,
    };

    /// True for an ICMP or ICMPv6 echo request or reply.
    #[inline(always)]
    #[must_use]
    pub const fn is_echo(&self) -> bool {
        is_echo(self.protocol, self.icmp_type)
    }

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
#[repr(u8)]
pub enum Frame {
    /// An IP packet.
    Ip,
    /// ARP; the packet's source is the sender's protocol address.
    Arp,
    /// A VLAN tag stands in the frame: what follows it was not read.
    Tagged,
    /// Another `EtherType`, or ARP of other addresses than IPv4's.
    Unknown,
    /// Headers that end early or contradict themselves.
    Malformed,
    /// IPv6 with a v4-mapped source or destination.
    Martian,
}

impl Frame {
    /// The frame with this number; one that no frame has is none that can be read.
    #[inline(always)]
    #[must_use]
    pub const fn of(number: u32) -> Self {
        match number {
            0 => Self::Ip,
            1 => Self::Arp,
            2 => Self::Tagged,
            3 => Self::Unknown,
            5 => Self::Martian,
            _ => Self::Malformed,
        }
    }
}

/// Reads a frame that starts with an Ethernet header. The headers go to `packet`, which must be the default; of
/// a frame that is not [`Frame::Ip`] it holds what was read before that was known.
#[inline(always)]
pub fn parse(bytes: &impl Bytes, packet: &mut Packet) -> Frame {
    let Some(ethernet) = bytes.at::<14>(0) else { return Frame::Malformed };
    match ethernet.short(12) {
        0x0800 => ipv4(bytes, packet),
        0x86dd => ipv6(bytes, packet),
        0x0806 => arp(bytes, packet),
        0x8100 | 0x88a8 => Frame::Tagged,
        _ => Frame::Unknown,
    }
}

/// RFC 826. Of other addresses than IPv4 over six-byte ones the sender cannot be read: unknown.
#[inline(always)]
fn arp(bytes: &impl Bytes, packet: &mut Packet) -> Frame {
    let Some(arp) = bytes.at::<28>(ETHERNET) else { return Frame::Malformed };
    if arp.short(2) != 0x0800 || arp.short(4) != 0x0604 {
        return Frame::Unknown;
    }
    packet.source = mapped(arp.bytes4(14));
    Frame::Arp
}

/// RFC 791. A total length of zero is a segmentation-offload packet larger than 64 KiB: the frame bounds it.
#[inline(always)]
fn ipv4(bytes: &impl Bytes, packet: &mut Packet) -> Frame {
    let Some(header) = bytes.at::<20>(ETHERNET) else { return Frame::Malformed };
    packet.source = mapped(header.bytes4(12));
    packet.destination = mapped(header.bytes4(16));
    packet.protocol = header.byte(9);
    packet.fragment_protocol = header.byte(9);
    packet.hop_limit = header.byte(8);
    let header_length = u32::from(header.byte(0) & 0x0f) * 4;
    if header.byte(0) >> 4 != 4 || header_length < 20 {
        return Frame::Malformed;
    }
    let available = bytes.len().wrapping_sub(ETHERNET);
    let total = match u32::from(header.short(2)) {
        0 => available,
        total => total,
    };
    if total > available || total < header_length {
        return Frame::Malformed;
    }
    let fragment = header.short(6);
    packet.fragment_id = u32::from(header.short(4));
    packet.part = part(fragment & 0x1fff, fragment & 0x2000 != 0);
    packet.transport_offset = ETHERNET + header_length;
    if packet.part == Part::Later {
        return later(packet.fragment_protocol, fragment & 0x1fff);
    }
    if header_length == 20 {
        transport::<true, ICMP>(bytes, packet, ETHERNET + 20, total - header_length)
    } else {
        transport::<false, ICMP>(bytes, packet, ETHERNET + header_length, total - header_length)
    }
}

/// RFC 8200. A payload length of zero is a jumbogram or an offload packet: the frame bounds it.
#[inline(always)]
fn ipv6(bytes: &impl Bytes, packet: &mut Packet) -> Frame {
    let Some(header) = bytes.at::<40>(ETHERNET) else { return Frame::Malformed };
    packet.source = header.address(8);
    packet.destination = header.address(24);
    packet.protocol = header.byte(6);
    packet.hop_limit = header.byte(7);
    if header.byte(0) >> 4 != 6 {
        return Frame::Malformed;
    }
    let available = bytes.len().wrapping_sub(ETHERNET + 40);
    let payload = match u32::from(header.short(4)) {
        0 => available,
        payload => payload,
    };
    if payload > available {
        return Frame::Malformed;
    }
    if is_ipv4(&packet.source) || is_ipv4(&packet.destination) {
        return Frame::Martian;
    }
    if !is_extension_header(packet.protocol) {
        packet.transport_offset = ETHERNET + 40;
        return transport::<true, ICMPV6>(bytes, packet, ETHERNET + 40, payload);
    }
    bytes.extension_headers(packet, ETHERNET + 40 + payload)
}

/// Walks the extension headers of a packet that ends at byte `end` of the frame, and reads the transport header.
///
/// What it learns goes to the packet at once: the verifier follows every combination of what is in registers, but not
/// of what is there.
#[inline(always)]
pub fn extension_headers<B: Bytes>(bytes: &B, packet: &mut Packet, end: u32) -> Frame {
    packet.transport_offset = ETHERNET + 40;
    for _ in 0..MAX_EXTENSION_HEADERS {
        if !is_extension_header(packet.protocol) {
            break;
        }
        let Some(header) = bytes.read::<8>(packet.transport_offset) else { return Frame::Malformed };
        let length = match packet.protocol {
            FRAGMENT_HEADER => 8,
            AUTHENTICATION_HEADER => (u32::from(header[1]) + 2) * 4,
            _ => (u32::from(header[1]) + 1) * 8,
        };
        let next = packet.transport_offset + length;
        if next > end {
            return Frame::Malformed;
        }
        packet.transport_offset = next;
        // RFC 8200 §4.4: with segments left, the destination is not where the packet ends.
        if packet.protocol == ROUTING && header[3] != 0 {
            return Frame::Malformed;
        }
        if packet.protocol == FRAGMENT_HEADER {
            // A second fragment header must not undo the first.
            if packet.part != Part::Whole {
                return Frame::Malformed;
            }
            let fragment = u16::from_be_bytes([header[2], header[3]]);
            packet.part = part(fragment >> 3, fragment & 1 != 0);
            packet.fragment_id = u32::from_be_bytes([header[4], header[5], header[6], header[7]]);
            packet.fragment_protocol = header[0];
            packet.protocol = header[0];
            if packet.part == Part::Later {
                return later(header[0], fragment >> 3);
            }
        }
        packet.protocol = header[0];
    }
    if is_extension_header(packet.protocol) {
        return Frame::Malformed;
    }
    if packet.part == Part::First && packet.transport_offset > LAST_TRANSPORT {
        return Frame::Malformed;
    }
    let offset = packet.transport_offset;
    transport::<false, ICMPV6>(bytes, packet, offset, end.wrapping_sub(offset))
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

/// Bytes of a fragmented datagram that belong to its first fragment alone, when it begins with extension headers
/// (RFC 7112 wants them all there). Whoever fragments at the least MTU of IPv6 sends 1232 at once.
const FIRST_FRAGMENT: u32 = 1_024;
/// The last place in the frame of a first fragment where what is judged of the transport header still lies there.
const LAST_TRANSPORT: u32 = ETHERNET + 40 + FIRST_FRAGMENT - 20;

/// RFC 3128: a TCP fragment at offset 1 (8 bytes) can only be there to rewrite the flags that were judged. So can
/// one of SCTP its chunk's type, and any that overlaps extension headers the whole transport header.
#[inline(always)]
fn later(protocol: u8, offset: u16) -> Frame {
    let judged = match protocol {
        TCP | SCTP => 16,
        protocol if is_extension_header(protocol) => FIRST_FRAGMENT,
        _ => 8,
    };
    if u32::from(offset) * 8 < judged { Frame::Malformed } else { Frame::Ip }
}

/// The beginning of a transport header, as far as it is needed.
#[derive(Clone, Copy)]
struct Start {
    first: u16,
    second: u16,
    third: u16,
    icmp_type: u8,
}

/// Reads what is needed of the transport header. `length` is the payload's, from `offset` on. Malformed when the
/// protocol's header does not fit: 20 bytes for TCP (the flags must be in the first fragment too), 12 for
/// SCTP, 8 for UDP and ICMP. `CONTROL` is the family's own ICMP: the other one's number says nothing here.
#[inline(always)]
fn transport<const FIXED: bool, const CONTROL: u8>(
    bytes: &impl Bytes,
    packet: &mut Packet,
    offset: u32,
    length: u32,
) -> Frame {
    let shortest = match packet.protocol {
        TCP => 20,
        SCTP => 12,
        UDP => 8,
        protocol if protocol == CONTROL => 8,
        _ => return Frame::Ip,
    };
    if length < shortest {
        return Frame::Malformed;
    }
    let start = if FIXED {
        let Some(header) = bytes.at::<8>(offset) else { return Frame::Malformed };
        Start {
            first: header.short(0),
            second: header.short(2),
            third: header.short(4),
            icmp_type: header.byte(0),
        }
    } else {
        let Some(header) = bytes.read::<8>(offset) else { return Frame::Malformed };
        Start {
            first: u16::from_be_bytes([header[0], header[1]]),
            second: u16::from_be_bytes([header[2], header[3]]),
            third: u16::from_be_bytes([header[4], header[5]]),
            icmp_type: header[0],
        }
    };
    // The one byte that TCP and SCTP have further on: the flags, the type of the first chunk.
    let further = match packet.protocol {
        TCP => Some(13),
        SCTP if length > 12 => Some(12),
        _ => None,
    };
    if let Some(further) = further {
        let byte = if FIXED {
            bytes.at::<1>(offset + further).map(|byte| byte.byte(0))
        } else {
            bytes.read::<1>(offset + further).map(|byte| byte[0])
        };
        let Some(byte) = byte else { return Frame::Malformed };
        packet.flags = byte;
    }
    if packet.protocol == CONTROL {
        packet.icmp_type = start.icmp_type;
        if is_echo(packet.protocol, start.icmp_type) {
            (packet.source_port, packet.destination_port) = (start.third, start.third);
        }
    } else {
        (packet.source_port, packet.destination_port) = (start.first, start.second);
    }
    Frame::Ip
}

/// True for an echo request or reply.
#[inline(always)]
#[must_use]
const fn is_echo(protocol: u8, icmp_type: u8) -> bool {
    match protocol {
        ICMP => matches!(icmp_type, 0 | 8),
        ICMPV6 => matches!(icmp_type, 128 | 129),
        _ => false,
    }
}

/// What an ICMP error quotes of the packet that it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quoted {
    /// Source, IPv4 mapped.
    pub source: Address,
    /// Destination, IPv4 mapped.
    pub destination: Address,
    /// Upper-layer protocol.
    pub protocol: u8,
    /// As in [`Packet`].
    pub source_port: u16,
    /// As in [`Packet`].
    pub destination_port: u16,
}

/// The packet that an ICMP error (`protocol` ICMP or ICMPv6, its header at `transport_offset`) is about, as far
/// as it is quoted. `None` when it is a later fragment, cut before the ports, or no packet that could have been.
#[inline(always)]
pub fn quoted(bytes: &impl Bytes, protocol: u8, transport_offset: u32) -> Option<Quoted> {
    let start = transport_offset + 8;
    let header = bytes.read::<12>(start)?;
    let mut quoted =
        Quoted { source: [0; 16], destination: [0; 16], protocol: 0, source_port: 0, destination_port: 0 };
    let next = if protocol == ICMP {
        let fragment = u16::from_be_bytes([header[6], header[7]]);
        if header[0] >> 4 != 4 || header[0] & 0x0f < 5 || fragment & 0x1fff != 0 {
            return None;
        }
        quoted.source = mapped(bytes.read::<4>(start + 12)?);
        quoted.destination = mapped(bytes.read::<4>(start + 16)?);
        quoted.protocol = header[9];
        start + u32::from(header[0] & 0x0f) * 4
    } else {
        if header[0] >> 4 != 6 {
            return None;
        }
        quoted.source = bytes.read_address(start + 8)?;
        quoted.destination = bytes.read_address(start + 24)?;
        quoted.protocol = header[6];
        // No packet has such an address; as the key of a flow it would name one of the other family.
        if is_ipv4(&quoted.source) || is_ipv4(&quoted.destination) {
            return None;
        }
        if quoted.protocol == FRAGMENT_HEADER {
            let fragment = bytes.read::<8>(start + 40)?;
            if u16::from_be_bytes([fragment[2], fragment[3]]) >> 3 != 0 {
                return None;
            }
            quoted.protocol = fragment[0];
            start + 48
        } else {
            start + 40
        }
    };
    let header = bytes.read::<8>(next)?;
    match quoted.protocol {
        TCP | UDP | SCTP => {
            quoted.source_port = u16::from_be_bytes([header[0], header[1]]);
            quoted.destination_port = u16::from_be_bytes([header[2], header[3]]);
        }
        protocol if is_echo(protocol, header[0]) => {
            let id = u16::from_be_bytes([header[4], header[5]]);
            (quoted.source_port, quoted.destination_port) = (id, id);
        }
        _ => {}
    }
    Some(quoted)
}
