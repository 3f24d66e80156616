//! Reading frames: what is no port is never taken for one.

use netlab_ebpf::abi::mapped;
use netlab_ebpf::packet::{Frame, Packet, Part, parse, quoted};

use super::tables::{FRIEND, POD, fragment, ipv4, tcp, udp};

fn read(frame: &[u8]) -> (Frame, Packet) {
    let mut packet = Packet::default();
    (parse(&frame, &mut packet), packet)
}

/// An IPv6 frame from `fd00::2` to `fd00::1`.
fn ipv6(next: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; 12];
    frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
    frame.extend(u16::try_from(payload.len()).expect("short").to_be_bytes());
    frame.extend([next, 64]);
    for last in [2, 1] {
        frame.extend([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]);
    }
    frame.extend(payload);
    frame
}

#[test]
fn options_move_the_ports() {
    let mut frame = ipv4(FRIEND, POD, 6, &[0x15, 0x38, 0x15, 0x38, 0, 0, 0, 0]);
    frame.extend(tcp(40_000, 22, 2));
    frame[14] = 0x47;
    frame[16..18].copy_from_slice(&48_u16.to_be_bytes());
    let (kind, packet) = read(&frame);
    assert_eq!((kind, packet.source_port, packet.destination_port), (Frame::Ip, 40_000, 22));
    assert_eq!((packet.source, packet.destination), (mapped(FRIEND), mapped(POD)));
}

#[test]
fn extension_headers_are_walked_to_the_eighth_and_no_further() {
    for (count, expected) in [(1, Frame::Ip), (8, Frame::Ip), (9, Frame::Malformed)] {
        let mut chain = Vec::new();
        for index in 1..=count {
            chain.extend([if index == count { 17 } else { 60 }, 0, 1, 4, 0, 0, 0, 0]);
        }
        chain.extend(udp(40_000, 53));
        let (kind, packet) = read(&ipv6(60, &chain));
        assert_eq!(kind, expected, "{count} headers");
        if kind == Frame::Ip {
            assert_eq!((packet.protocol, packet.destination_port), (17, 53));
        }
    }
}

#[test]
fn lengths_that_lie_are_malformed() {
    let good = ipv4(FRIEND, POD, 6, &tcp(1, 2, 2));
    assert_eq!(read(&good).0, Frame::Ip);
    for (what, byte, value) in [
        ("a header shorter than 20 bytes", 14, 0x44),
        ("a header longer than the packet", 14, 0x4f),
        ("another version", 14, 0x65),
        ("a total beyond the frame", 16, 1),
        ("a total below the header", 17, 19),
    ] {
        let mut frame = good.clone();
        frame[byte] = value;
        assert_eq!(read(&frame).0, Frame::Malformed, "{what}");
    }
    for cut in 14..good.len() {
        assert_eq!(read(&good[..cut]).0, Frame::Malformed, "cut at {cut}");
    }
}

#[test]
fn a_first_fragment_must_hold_what_is_judged() {
    assert_eq!(read(&fragment(FRIEND, POD, 6, 0x2000, &tcp(1, 2, 2)[..13])).0, Frame::Malformed);
    let (kind, packet) = read(&fragment(FRIEND, POD, 6, 0x2000, &tcp(1, 2, 2)));
    assert_eq!((kind, packet.part), (Frame::Ip, Part::First));
    // RFC 3128: it could only rewrite the flags that were judged.
    assert_eq!(read(&fragment(FRIEND, POD, 6, 1, &[0; 8])).0, Frame::Malformed);
    let (kind, packet) = read(&fragment(FRIEND, POD, 6, 3, &[0x15; 16]));
    assert_eq!((kind, packet.part, packet.destination_port), (Frame::Ip, Part::Later, 0));
}

#[test]
fn ipv6_fragments_know_their_protocol_and_may_not_nest() {
    let header = |next: u8, field: u16| [[next, 0], field.to_be_bytes(), [0, 0], [0, 9]].concat();
    let atomic = [header(17, 0), udp(40_000, 53)].concat();
    let (kind, packet) = read(&ipv6(44, &atomic));
    assert_eq!((kind, packet.part, packet.destination_port), (Frame::Ip, Part::Whole, 53));
    let (kind, packet) = read(&ipv6(44, &[header(17, 80), vec![0; 8]].concat()));
    assert_eq!((kind, packet.part, packet.protocol, packet.fragment_id), (Frame::Ip, Part::Later, 17, 9));
    let nested = [header(44, 1), header(17, 1), udp(40_000, 53)].concat();
    assert_eq!(read(&ipv6(44, &nested)).0, Frame::Malformed);
}

#[test]
fn mapped_addresses_in_ipv6_are_martian() {
    let mut frame = ipv6(17, &udp(1, 53));
    frame[22..38].copy_from_slice(&mapped(FRIEND));
    assert_eq!(read(&frame).0, Frame::Martian);
}

#[test]
fn an_error_quotes_the_flow_it_is_about() {
    let inner = ipv4(POD, FRIEND, 6, &tcp(40_000, 80, 2));
    let error = |inner: &[u8]| ipv4(FRIEND, POD, 1, &[vec![3, 1, 0, 0, 0, 0, 0, 0], inner.to_vec()].concat());
    let read_quoted = |frame: Vec<u8>| {
        let (kind, packet) = read(&frame);
        assert_eq!(kind, Frame::Ip);
        assert!(packet.is_icmp_error());
        quoted(&frame.as_slice(), packet.protocol, packet.transport_offset)
    };
    let found = read_quoted(error(&inner[14..42])).expect("all that RFC 792 asks for");
    assert_eq!((found.source, found.source_port, found.destination_port), (mapped(POD), 40_000, 80));
    assert_eq!(read_quoted(error(&inner[14..40])), None, "cut before the ports end");
    let piece = fragment(POD, FRIEND, 6, 9, &tcp(40_000, 80, 2));
    assert_eq!(read_quoted(error(&piece[14..42])), None, "a later fragment has no ports");
}

#[test]
fn no_bytes_make_it_panic() {
    let seeds = [
        ipv4(FRIEND, POD, 6, &tcp(1, 2, 2)),
        ipv6(60, &[44, 0, 0, 0, 0, 0, 0, 0, 17, 0, 0, 1, 0, 0, 0, 1]),
        ipv4(FRIEND, POD, 1, &[3; 40]),
    ];
    // Every byte of each frame with every value, whole and cut there.
    for seed in seeds {
        for index in 0..seed.len() {
            for value in 0..=255 {
                let mut frame = seed.clone();
                frame[index] = value;
                let _ = read(&frame);
                let _ = read(&frame[..index]);
            }
        }
    }
}
