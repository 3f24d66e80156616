//! Frames of every kind that the parser must tell apart, built byte by byte.

use std::net::IpAddr;

use super::bpf_world::{POD, SERVICE, pod6, stored};

/// An IPv4 packet: `options` are a multiple of four bytes, `fragment` is the field with flags and offset.
#[derive(Clone, Copy)]
pub(crate) struct V4<'a> {
    pub(crate) source: [u8; 4],
    pub(crate) destination: [u8; 4],
    pub(crate) protocol: u8,
    pub(crate) ttl: u8,
    pub(crate) id: u16,
    pub(crate) fragment: u16,
    pub(crate) options: &'a [u8],
}

pub(crate) fn v4(source: [u8; 4], destination: [u8; 4], protocol: u8) -> V4<'static> {
    V4 { source, destination, protocol, ttl: 64, id: 7, fragment: 0, options: &[] }
}

impl V4<'_> {
    /// The packet without Ethernet.
    pub(crate) fn packet(&self, payload: &[u8]) -> Vec<u8> {
        let header = 20 + self.options.len();
        let mut bytes = vec![0x40 | u8::try_from(header / 4).expect("short options"), 0];
        bytes.extend(u16::try_from(header + payload.len()).expect("short").to_be_bytes());
        bytes.extend(self.id.to_be_bytes());
        bytes.extend(self.fragment.to_be_bytes());
        bytes.extend([self.ttl, self.protocol, 0, 0]);
        bytes.extend(self.source);
        bytes.extend(self.destination);
        bytes.extend(self.options);
        bytes.extend(payload);
        bytes
    }

    pub(crate) fn frame(&self, payload: &[u8]) -> Vec<u8> {
        ethernet(0x0800, &self.packet(payload))
    }
}

pub(crate) fn v6_packet(
    source: [u8; 16],
    destination: [u8; 16],
    next: u8,
    hops: u8,
    payload: &[u8],
) -> Vec<u8> {
    let mut bytes = vec![0x60, 0, 0, 0];
    bytes.extend(u16::try_from(payload.len()).expect("short").to_be_bytes());
    bytes.extend([next, hops]);
    bytes.extend(source);
    bytes.extend(destination);
    bytes.extend(payload);
    bytes
}

pub(crate) fn ethernet(ether_type: u16, packet: &[u8]) -> Vec<u8> {
    let mut bytes = vec![2, 0, 0, 0, 1, 0, 2, 0, 0, 0, 0, 0];
    bytes.extend(ether_type.to_be_bytes());
    bytes.extend(packet);
    bytes
}

pub(crate) fn tcp(source: u16, destination: u16, flags: u8) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(source.to_be_bytes());
    bytes.extend(destination.to_be_bytes());
    bytes.extend([0, 0, 0, 1, 0, 0, 0, 1, 0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
    bytes
}

pub(crate) fn udp(source: u16, destination: u16) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(source.to_be_bytes());
    bytes.extend(destination.to_be_bytes());
    bytes.extend([0, 12, 0, 0, 1, 2, 3, 4]);
    bytes
}

pub(crate) fn sctp(source: u16, destination: u16, chunk: u8) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(source.to_be_bytes());
    bytes.extend(destination.to_be_bytes());
    bytes.extend([0, 0, 0, 9, 1, 2, 3, 4, chunk, 0, 0, 20, 0, 0, 0, 1, 0, 0, 16, 0]);
    bytes
}

pub(crate) fn icmp(kind: u8, code: u8, id: u16, rest: &[u8]) -> Vec<u8> {
    let mut bytes = vec![kind, code, 0, 0];
    bytes.extend(id.to_be_bytes());
    bytes.extend([0, 1]);
    bytes.extend(rest);
    bytes
}

/// An IPv6 extension header of eight bytes.
pub(crate) fn extension(next: u8, body: [u8; 6]) -> Vec<u8> {
    let mut bytes = vec![next, 0];
    bytes.extend(body);
    bytes
}

/// An IPv6 fragment header.
pub(crate) fn fragment_header(next: u8, offset: u16, more: bool, id: u32) -> Vec<u8> {
    let mut bytes = vec![next, 0];
    bytes.extend((offset << 3 | u16::from(more)).to_be_bytes());
    bytes.extend(id.to_be_bytes());
    bytes
}

fn four(address: IpAddr) -> [u8; 4] {
    match address {
        IpAddr::V4(address) => address.octets(),
        IpAddr::V6(_) => [0; 4],
    }
}

/// Every kind of frame between a pod and a peer of each class: what is sent from `pod` and what is sent to it.
pub(crate) fn corpus(pod: usize) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    let peers4: [IpAddr; 6] = [
        POD[(pod + 1) % 3].into(),
        POD[(pod + 2) % 3].into(),
        IpAddr::from([10, 1, 2, 3]),
        IpAddr::from([192, 0, 2, 9]),
        POD[pod].into(),
        SERVICE[0],
    ];
    for peer in peers4 {
        for (source, destination) in [(POD[pod].into(), peer), (peer, POD[pod].into())] {
            ipv4_frames(four(source), four(destination), &mut frames);
        }
    }
    let own: IpAddr = pod6(pod).into();
    let peers6: [IpAddr; 7] = [
        SERVICE[1],
        pod6((pod + 1) % 3).into(),
        pod6((pod + 2) % 3).into(),
        "fd01::5".parse().expect("address"),
        "2001:db8::1".parse().expect("address"),
        "fe80::1".parse().expect("address"),
        "::ffff:10.0.0.2".parse().expect("address"),
    ];
    for peer in peers6 {
        for (source, destination) in [(own, peer), (peer, own)] {
            ipv6_frames(stored(source), stored(destination), &mut frames);
        }
    }
    for sender in [POD[pod].octets(), [0; 4], [10, 9, 9, 9]] {
        let mut arp = vec![0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 1];
        arp.extend(sender);
        arp.extend([0; 6]);
        arp.extend([10, 0, 0, 2]);
        frames.push(ethernet(0x0806, &arp));
        frames.push(ethernet(0x0806, &arp[..20]));
    }
    // VLAN inside the frame, an unknown kind of frame, nothing but the Ethernet header.
    let inner = v4(POD[pod].octets(), [10, 0, 0, 2], 6).packet(&tcp(1, 5432, 2));
    let mut tagged = vec![0, 5, 8, 0];
    tagged.extend(&inner);
    frames.push(ethernet(0x8100, &tagged));
    frames.push(ethernet(0x88cc, &[0; 30]));
    frames.push(ethernet(0x0806, &[]));
    frames
}

fn ipv4_frames(source: [u8; 4], destination: [u8; 4], frames: &mut Vec<Vec<u8>>) {
    let ip = |protocol| v4(source, destination, protocol);
    for (port, reply) in [(5432, 40_000), (8000, 40_001), (8001, 40_002), (443, 40_003), (22, 40_004)] {
        for flags in [0x02, 0x10, 0x12, 0x18, 0x11, 0x04, 0x00] {
            frames.push(ip(6).frame(&tcp(reply, port, flags)));
            frames.push(ip(6).frame(&tcp(port, reply, flags)));
        }
    }
    for port in [53, 123] {
        frames.push(ip(17).frame(&udp(40_000, port)));
        frames.push(ip(17).frame(&udp(port, 40_000)));
    }
    for chunk in [1, 2, 0] {
        frames.push(ip(132).frame(&sctp(40_000, 9, chunk)));
        frames.push(ip(132).frame(&sctp(9, 40_000, chunk)));
    }
    frames.push(ip(132).frame(&sctp(40_000, 9, 1)[..12]));
    for (kind, code) in [(8, 0), (0, 0), (13, 0), (5, 1)] {
        frames.push(ip(1).frame(&icmp(kind, code, 77, &[1, 2, 3, 4])));
    }
    // Errors about a flow that may be there, one that is not, one in pieces, and one cut short.
    let quoted = v4(destination, source, 6).packet(&tcp(40_000, 5432, 2));
    let other = v4(destination, source, 17).packet(&udp(9, 9));
    let foreign = v4([10, 7, 7, 7], source, 6).packet(&tcp(40_000, 5432, 2));
    let piece = V4 { fragment: 5, ..v4(destination, source, 6) }.packet(&tcp(40_000, 5432, 2));
    for kind in [3, 11, 12, 4] {
        for packet in [&quoted, &other, &foreign, &piece] {
            frames.push(ip(1).frame(&icmp(kind, 1, 0, &packet[..28])));
        }
        frames.push(ip(1).frame(&icmp(kind, 1, 0, &quoted[..22])));
    }
    frames.push(V4 { ttl: 1, ..v4(source, [224, 0, 0, 1], 2) }.frame(&[0x11, 0, 0, 0, 0, 0, 0, 0]));
    frames.push(ip(2).frame(&[0x11, 0, 0, 0, 0, 0, 0, 0]));
    for protocol in [0, 4, 41, 47, 50, 58, 89, 253] {
        frames.push(ip(protocol).frame(&[0; 24]));
    }
    // Options that look like ports; options that are all there is.
    let options = [0x94, 4, 0x15, 0x38, 0x15, 0x38, 0, 0];
    frames.push(V4 { options: &options, ..ip(6) }.frame(&tcp(40_000, 22, 2)));
    frames.push(V4 { options: &options, ..ip(6) }.frame(&tcp(40_000, 5432, 2)));
    frames.push(V4 { options: &[1; 40], ..ip(17) }.frame(&udp(40_000, 53)));
    // Fragments: first, later, the one that would rewrite TCP's flags, a first without the whole header.
    for protocol in [6, 17, 1] {
        let payload = match protocol {
            6 => tcp(40_000, 5432, 2),
            17 => udp(40_000, 53),
            _ => icmp(8, 0, 9, &[0; 16]),
        };
        frames.push(V4 { fragment: 5, id: 900, ..ip(protocol) }.frame(&[0; 24]));
        frames.push(V4 { fragment: 0x2000, id: 900 + u16::from(protocol), ..ip(protocol) }.frame(&payload));
        frames.push(V4 { fragment: 5, id: 900 + u16::from(protocol), ..ip(protocol) }.frame(&[0; 24]));
        frames.push(V4 { fragment: 0x2001, id: 900 + u16::from(protocol), ..ip(protocol) }.frame(&[0; 24]));
    }
    frames.push(V4 { fragment: 0x2000, ..ip(6) }.frame(&tcp(40_000, 5432, 2)[..12]));
    // Headers that are cut, and lengths that lie.
    for length in [0, 4, 7, 8, 12, 19] {
        frames.push(ip(6).frame(&tcp(40_000, 5432, 2)[..length]));
        frames.push(ip(17).frame(&udp(40_000, 53)[..length.min(12)]));
    }
    for (byte, value) in [(14, 0x44), (14, 0x4f), (14, 0x65), (16, 0xff), (17, 10), (17, 0)] {
        let mut frame = ip(6).frame(&tcp(40_000, 5432, 2));
        frame[byte] = value;
        frames.push(frame);
    }
    let mut padded = ip(6).frame(&tcp(40_000, 5432, 2));
    padded.extend([0; 30]);
    frames.push(padded);
    frames.push(ip(17).frame(&[0; 1400]));
}

fn ipv6_frames(source: [u8; 16], destination: [u8; 16], frames: &mut Vec<Vec<u8>>) {
    let frame =
        |next, hops, payload: &[u8]| ethernet(0x86dd, &v6_packet(source, destination, next, hops, payload));
    for flags in [0x02, 0x10, 0x12, 0x11, 0x04] {
        frames.push(frame(6, 64, &tcp(40_000, 5432, flags)));
        frames.push(frame(6, 64, &tcp(5432, 40_000, flags)));
        frames.push(frame(6, 64, &tcp(40_000, 22, flags)));
    }
    frames.push(frame(17, 64, &udp(40_000, 53)));
    frames.push(frame(17, 64, &udp(53, 40_000)));
    frames.push(frame(132, 64, &sctp(40_000, 9, 1)));
    frames.push(frame(132, 64, &sctp(9, 40_000, 2)));
    for kind in [128, 129, 100, 200] {
        frames.push(frame(58, 64, &icmp(kind, 0, 5, &[1, 2, 3, 4])));
    }
    // Neighbour discovery, router messages, listener discovery: with the hop limit that is right, and with another.
    for hops in [255, 64, 1] {
        for kind in [130, 131, 132, 133, 134, 135, 136, 137, 143] {
            frames.push(frame(58, hops, &icmp(kind, 0, 0, &[0; 16])));
        }
        let mut report = extension(58, [5, 2, 0, 0, 0, 0]);
        report.extend(icmp(143, 0, 0, &[0; 16]));
        frames.push(frame(0, hops, &report));
    }
    let quoted = v6_packet(destination, source, 6, 64, &tcp(40_000, 5432, 2));
    let echo = v6_packet(destination, source, 58, 64, &icmp(128, 0, 5, &[]));
    for kind in [1, 2, 3, 4] {
        frames.push(frame(58, 64, &icmp(kind, 0, 0, &quoted)));
        frames.push(frame(58, 64, &icmp(kind, 0, 0, &echo)));
        frames.push(frame(58, 64, &icmp(kind, 0, 0, &quoted[..44])));
    }
    // Chains of extension headers: each kind, the longest allowed, one more, one that ends early.
    for next in [0_u8, 43, 60, 51] {
        let mut chain = extension(6, [1, 4, 0, 0, 0, 0]);
        if next == 51 {
            chain = vec![6, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        }
        chain.extend(tcp(40_000, 5432, 2));
        frames.push(frame(next, 64, &chain));
    }
    for count in [7, 8, 9] {
        let mut chain = Vec::new();
        for index in 0..count {
            chain.extend(extension(if index + 1 == count { 6 } else { 60 }, [1, 4, 0, 0, 0, 0]));
        }
        chain.extend(tcp(40_000, 5432, 2));
        frames.push(frame(60, 64, &chain));
    }
    frames.push(frame(60, 64, &[6, 200, 1, 4, 0, 0, 0, 0]));
    frames.push(frame(60, 64, &[6, 0, 1, 4]));
    // Fragments: atomic, first, later, twice.
    let whole = [fragment_header(6, 0, false, 1), tcp(40_000, 5432, 2)].concat();
    frames.push(frame(44, 64, &whole));
    frames.push(frame(44, 64, &[fragment_header(17, 100, false, 33), vec![0; 16]].concat()));
    frames.push(frame(44, 64, &[fragment_header(17, 0, true, 33), udp(40_000, 53)].concat()));
    frames.push(frame(44, 64, &[fragment_header(17, 100, false, 33), vec![0; 16]].concat()));
    frames.push(frame(44, 64, &[fragment_header(6, 1, true, 34), vec![0; 16]].concat()));
    frames.push(frame(44, 64, &[fragment_header(6, 0, true, 35), tcp(40_000, 5432, 2)].concat()));
    frames.push(frame(44, 64, &[fragment_header(44, 0, true, 36), whole].concat()));
    let mut behind = extension(44, [1, 4, 0, 0, 0, 0]);
    behind.extend(fragment_header(17, 0, true, 37));
    behind.extend(udp(40_000, 53));
    frames.push(frame(60, 64, &behind));
    for length in [0, 8, 19] {
        frames.push(frame(6, 64, &tcp(40_000, 5432, 2)[..length]));
    }
    for next in [59, 4, 41, 50, 1, 2] {
        frames.push(frame(next, 64, &[0; 24]));
    }
    for (byte, value) in [(14, 0x45), (18, 0xff), (19, 5), (19, 0)] {
        let mut cut = frame(6, 64, &tcp(40_000, 5432, 2));
        cut[byte] = value;
        frames.push(cut);
    }
}
