//! Headers as a pod may forge them: nothing that is not a port is taken for one, and what cannot be read is dropped
//! under an entry of its own.

use netlab_ebpf::abi::Direction::{Egress, Ingress};
use netlab_ebpf::reason::Reason;

use super::bpf_frames::{V4, ethernet, extension, fragment_header, icmp, sctp, tcp, udp, v4};
use super::bpf_world::{POD, pod6};
use super::corners_rig::{
    FRIEND, FRIENDS, OPEN, OWN, Rig, STRANGER6, STRANGERS6, built_in, from_friend, from_friend6, port,
    to_friend, to_friend6, v6,
};

const SYN: u8 = 2;

/// IPv4 between the friend and the pod, in pieces to vary.
fn friend4(protocol: u8) -> V4<'static> {
    v4(POD[FRIEND].octets(), POD[OWN].octets(), protocol)
}

#[test]
fn options_are_not_taken_for_ports() {
    Rig::run("corners_headers", |rig| {
        // Where the ports would be without options stands 5432; the real destination is 22.
        let options = [0x94, 4, 0x15, 0x38, 0x15, 0x38, 0, 0];
        let frame = V4 { options: &options, ..friend4(6) }.frame(&tcp(40_000, 22, SYN));
        assert_eq!(rig.gets(&frame), rig.row(Ingress, FRIENDS, port::REST));
        let frame = V4 { options: &options, ..friend4(6) }.frame(&tcp(40_000, 5432, SYN));
        assert_eq!(rig.gets(&frame), rig.row(Ingress, FRIENDS, port::TCP_5432));
        // As many as there can be, and fewer bytes after them than the protocol's header has.
        let frame = V4 { options: &[1; 40], ..friend4(17) }.frame(&udp(40_000, 53));
        assert_eq!(rig.gets(&frame), rig.row(Ingress, FRIENDS, port::UDP_53));
        let frame = V4 { options: &[1; 40], ..friend4(17) }.frame(&udp(40_000, 53)[..7]);
        assert_eq!(rig.gets(&frame), built_in(Reason::Malformed));
    });
}

#[test]
fn a_header_length_that_lies_is_dropped() {
    Rig::run("corners_headers", |rig| {
        for (what, byte, value) in [
            ("a header shorter than 20 bytes", 14, 0x44),
            ("a header longer than the packet", 14, 0x4f),
            ("another version", 14, 0x65),
            ("a total beyond the frame", 16, 0x7f),
            ("a total below the header", 17, 19),
            ("a total that ends inside of the TCP header", 17, 39),
        ] {
            for (frame, sends) in
                [(from_friend(6, &tcp(40_000, 5432, SYN)), false), (to_friend(6, &tcp(1, 443, SYN)), true)]
            {
                let mut frame = frame;
                frame[byte] = value;
                let said = if sends { rig.sends(&frame) } else { rig.gets(&frame) };
                assert_eq!(said, built_in(Reason::Malformed), "{what}");
            }
        }
        for (what, byte, value) in [
            ("another version", 14, 0x45),
            ("a payload beyond the frame", 18, 0x7f),
            ("a payload that ends inside of the TCP header", 19, 19),
        ] {
            let mut frame = from_friend6(6, &tcp(40_000, 5432, SYN));
            frame[byte] = value;
            assert_eq!(rig.gets(&frame), built_in(Reason::Malformed), "IPv6: {what}");
        }
    });
}

#[test]
fn a_transport_header_that_is_cut_short_is_dropped_also_from_an_unlisted_peer() {
    Rig::run("corners_headers", |rig| {
        let cut = [
            (6, tcp(40_000, 5432, SYN), 19),
            (17, udp(40_000, 53), 7),
            (132, sctp(40_000, 9, 1), 11),
            (1, icmp(8, 0, 1, &[]), 7),
        ];
        for (protocol, header, length) in cut {
            for keep in [0, 3, 4, length] {
                let frame = from_friend(protocol, &header[..keep]);
                assert_eq!(rig.gets(&frame), built_in(Reason::Malformed), "{protocol}, {keep} bytes");
                let stranger = v4([192, 0, 2, 9], POD[OWN].octets(), protocol).frame(&header[..keep]);
                assert_eq!(rig.gets(&stranger), built_in(Reason::Malformed), "{protocol}, {keep} bytes");
            }
        }
        for keep in [0, 8, 19] {
            let frame = from_friend6(6, &tcp(40_000, 5432, SYN)[..keep]);
            assert_eq!(rig.gets(&frame), built_in(Reason::Malformed), "IPv6, {keep} bytes");
        }
    });
}

#[test]
fn padding_behind_a_packet_is_not_part_of_it() {
    Rig::run("corners_headers", |rig| {
        let mut frame = from_friend(6, &tcp(40_000, 5432, SYN));
        frame.extend([0; 30]);
        assert_eq!(rig.gets(&frame), rig.row(Ingress, FRIENDS, port::TCP_5432));
        // The UDP header would be complete only with the padding.
        let mut frame = from_friend(17, &udp(40_000, 53)[..4]);
        frame.extend(&udp(40_000, 53)[4..]);
        assert_eq!(rig.gets(&frame), built_in(Reason::Malformed));
    });
}

#[test]
fn protocol_0_and_all_without_ports_are_a_class_of_their_own() {
    Rig::run("corners_headers", |rig| {
        // Bytes that would be allowed ports in TCP or UDP.
        let lookalike = [tcp(40_000, 5432, SYN), vec![0; 8]].concat();
        for protocol in [0, 4, 41, 43, 44, 47, 50, 51, 60, 89, 103, 135, 136, 139, 253, 254, 255] {
            assert_eq!(
                rig.gets(&from_friend(protocol, &lookalike)),
                rig.row(Ingress, FRIENDS, port::OTHER),
                "protocol {protocol}"
            );
        }
        for next in [4, 41, 47, 50, 59, 135, 253, 254, 255] {
            let frame = from_friend6(next, &lookalike);
            assert_eq!(rig.gets(&frame), rig.row(Ingress, FRIENDS, port::OTHER), "next header {next}");
        }
        // And only a rule for every port opens it.
        rig.set(Ingress, FRIENDS, port::OTHER, true);
        assert_eq!(rig.gets(&from_friend(0, &lookalike)), rig.row(Ingress, FRIENDS, port::OTHER));
        assert!(rig.row(Ingress, FRIENDS, port::OTHER).allow);
    });
}

#[test]
fn extension_headers_are_walked_and_never_hide_the_ports() {
    Rig::run("corners_headers", |rig| {
        let options = extension(6, [1, 4, 0, 0, 0, 0]);
        let authentication = [vec![6, 1], vec![0; 10]].concat();
        let routing = extension(6, [0, 0, 0, 0, 0, 0]);
        for (next, header) in [(0, &options), (60, &options), (51, &authentication), (43, &routing)] {
            for (destination, class) in [(5432, port::TCP_5432), (22, port::REST)] {
                let frame = from_friend6(next, &[header.clone(), tcp(40_000, destination, SYN)].concat());
                assert_eq!(rig.gets(&frame), rig.row(Ingress, FRIENDS, class), "{next}, port {destination}");
            }
        }
        let chain = |count: usize| {
            let mut bytes = Vec::new();
            for index in 0..count {
                bytes.extend(extension(if index + 1 == count { 6 } else { 60 }, [1, 4, 0, 0, 0, 0]));
            }
            from_friend6(60, &[bytes, tcp(40_000, 5432, SYN)].concat())
        };
        assert_eq!(rig.gets(&chain(8)), rig.row(Ingress, FRIENDS, port::TCP_5432));
        assert_eq!(rig.gets(&chain(9)), built_in(Reason::Malformed), "one more than is walked");
        // A length that leads out of the packet, and one that leads to half a TCP header.
        let beyond = [vec![6, 200, 1, 4, 0, 0, 0, 0], tcp(40_000, 5432, SYN)].concat();
        assert_eq!(rig.gets(&from_friend6(60, &beyond)), built_in(Reason::Malformed));
        let inside = [vec![6, 1, 1, 12, 0, 0, 0, 0], tcp(40_000, 5432, SYN)].concat();
        assert_eq!(rig.gets(&from_friend6(60, &inside)), built_in(Reason::Malformed));
        assert_eq!(rig.sends(&to_friend6(60, &beyond)), built_in(Reason::Malformed));
    });
}

#[test]
fn a_routing_header_that_is_not_done_is_dropped() {
    Rig::run("corners_headers", |rig| {
        for kind in [0, 2, 4] {
            let mut header = vec![6, 2, kind, 1, 0, 0, 0, 0];
            header.extend(STRANGER6);
            let frame = to_friend6(43, &[header.clone(), tcp(40_000, 443, SYN)].concat());
            assert_eq!(rig.sends(&frame), built_in(Reason::Malformed), "type {kind}: it goes on from there");
            header[3] = 0;
            let frame = to_friend6(43, &[header, tcp(40_000, 443, SYN)].concat());
            assert_eq!(
                rig.sends(&frame),
                rig.row(Egress, FRIENDS, port::TCP_443),
                "type {kind}: it is there"
            );
        }
    });
}

#[test]
fn addresses_of_the_other_family_are_no_way_in() {
    Rig::run("corners_headers", |rig| {
        let mut friend = [0; 16];
        friend[10..12].fill(0xff);
        friend[12..].copy_from_slice(&POD[FRIEND].octets());
        let own = pod6(OWN).octets();
        for (source, destination) in [(friend, own), (own, friend)] {
            let frame = v6(source, destination, 6, 64, &tcp(40_000, 5432, SYN));
            assert_eq!(rig.gets(&frame), built_in(Reason::Martian));
            assert_eq!(rig.sends(&frame), built_in(Reason::Martian));
        }
        let egress = rig.interfaces[OPEN];
        let frame = v6(friend, pod6(FRIEND).octets(), 6, 64, &tcp(40_000, 5432, SYN));
        assert_eq!(
            rig.judge(OPEN, Egress, egress, &frame),
            built_in(Reason::Spoof),
            "nor out of an open pod"
        );
        // A rule for all of IPv6 says nothing about IPv4.
        for port in [port::TCP_5432, port::REST] {
            rig.set(Ingress, STRANGERS6, port, true);
        }
        let frame = v6(STRANGER6, own, 6, 64, &tcp(40_000, 5432, SYN));
        assert!(rig.gets(&frame).allow);
        let frame = v4([192, 0, 2, 9], POD[OWN].octets(), 6).frame(&tcp(40_000, 5432, SYN));
        assert!(!rig.gets(&frame).allow);
    });
}

#[test]
fn control_messages_of_the_other_family_are_no_exemption() {
    Rig::run("corners_headers", |rig| {
        // To IPv6 these are neighbour discovery and listener reports; in IPv4 the number means nothing.
        for (kind, ttl) in [(133, 255), (135, 255), (136, 255), (143, 1), (131, 1), (1, 64), (128, 64)] {
            let frame = V4 { ttl, ..v4(POD[OWN].octets(), [192, 0, 2, 9], 58) };
            let said = rig.sends(&frame.frame(&icmp(kind, 0, 0, &[0; 24])));
            assert_eq!((said.allow, said.reason), (false, Reason::Row), "type {kind} in IPv4");
            let frame = V4 { ttl, ..friend4(58) }.frame(&icmp(kind, 0, 0, &[0; 24]));
            assert_eq!(rig.gets(&frame), rig.row(Ingress, FRIENDS, port::ICMP), "type {kind} in IPv4");
        }
        // IGMP in IPv6, to an address that ends like a group's.
        let mut group = STRANGER6;
        group[12..].copy_from_slice(&[224, 0, 0, 1]);
        let frame = v6(pod6(OWN).octets(), group, 2, 1, &[0x11, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(rig.sends(&frame), rig.row(Egress, STRANGERS6, port::OTHER));
        // ICMP in IPv6.
        for kind in [0, 3, 8] {
            let frame = from_friend6(1, &icmp(kind, 0, 0, &[0; 40]));
            assert_eq!(rig.gets(&frame), rig.row(Ingress, FRIENDS, port::ICMP), "type {kind} in IPv6");
        }
    });
}

#[test]
fn tags_and_unknown_frames_do_not_leave_an_isolated_pod() {
    Rig::run("corners_headers", |rig| {
        let inner = v4(POD[OWN].octets(), POD[FRIEND].octets(), 6).packet(&tcp(40_000, 443, SYN));
        let tagged = [vec![0, 5, 8, 0], inner].concat();
        // VLAN, provider VLAN, MPLS, LLDP, PPPoE, RARP, a length in place of a type (LLC).
        for kind in [0x8100, 0x88a8, 0x8847, 0x88cc, 0x8864, 0x8035, 0x0026] {
            let frame = ethernet(kind, &tagged);
            assert_eq!(rig.sends(&frame), built_in(Reason::Frame), "{kind:#x}");
            assert_eq!(rig.gets(&frame), built_in(Reason::Frame), "{kind:#x}");
        }
        // Where no policy isolates, what no rule can speak about passes, but for tags: under them nobody compares
        // the source, and the kernel takes those of VLAN 0 off.
        for pod in [FRIEND, OPEN] {
            let own = rig.interfaces[pod];
            let expected = rig.judge(pod, Egress, own, &ethernet(0x88cc, &[0; 40]));
            assert!(expected.allow, "LLDP of pod {pod}");
            for kind in [0x8100, 0x88a8] {
                let frame = ethernet(kind, &tagged);
                assert_eq!(rig.judge(pod, Egress, own, &frame), built_in(Reason::Frame), "{kind:#x}");
            }
        }
        rig.any_source(OPEN);
        let own = rig.interfaces[OPEN];
        let said = rig.judge(OPEN, Egress, own, &ethernet(0x8100, &tagged));
        assert_eq!(said, built_in(Reason::NotIsolatedEgress), "a pod that may send from any address");
    });
}

#[test]
fn a_frame_without_its_packet_is_dropped() {
    Rig::run("corners_headers", |rig| {
        assert_eq!(rig.sends(&ethernet(0x0806, &[])), built_in(Reason::Malformed));
        assert_eq!(rig.gets(&ethernet(0x0806, &[0, 1, 8, 0, 6, 4])), built_in(Reason::Malformed));
        // IPv4 of 20 bytes that says it is whole, with nothing behind it.
        assert_eq!(rig.gets(&from_friend(6, &[])), built_in(Reason::Malformed));
        assert_eq!(
            rig.gets(&from_friend6(44, &fragment_header(6, 0, false, 1))),
            built_in(Reason::Malformed)
        );
    });
}
