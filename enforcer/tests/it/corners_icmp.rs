//! ICMP errors: one passes when the packet it quotes belongs to a flow of the pod, and for no other reason.

use netlab_ebpf::abi::Direction::{Egress, Ingress};
use netlab_ebpf::abi::{FlowKey, echo_address, mapped};
use netlab_ebpf::reason::Reason;

use super::bpf_frames::{V4, extension, fragment_header, icmp, tcp, udp, v4, v6_packet};
use super::bpf_world::{POD, pod6};
use super::corners_rig::{
    FRIEND, FRIENDS, OWN, Rig, STRANGER, STRANGER6, built_in, from_friend, from_friend6, port, to_friend, v6,
};

const SYN: u8 = 2;
const ROUTER: [u8; 4] = [10, 99, 0, 1];

fn own() -> [u8; 4] {
    POD[OWN].octets()
}

fn friend() -> [u8; 4] {
    POD[FRIEND].octets()
}

/// An IPv4 error to the pod from a router on the way.
fn error(kind: u8, code: u8, quoted: &[u8]) -> Vec<u8> {
    v4(ROUTER, own(), 1).frame(&icmp(kind, code, 0, quoted))
}

/// An ICMPv6 error to the pod.
fn error6(kind: u8, quoted: &[u8]) -> Vec<u8> {
    v6(STRANGER6, pod6(OWN).octets(), 58, 64, &icmp(kind, 0, 0, quoted))
}

#[test]
fn an_error_about_a_tracked_flow_passes_from_anybody_on_the_way() {
    Rig::run("corners_icmp", |rig| {
        assert!(rig.sends(&to_friend(6, &tcp(40_000, 443, SYN))).allow);
        assert!(
            rig.sends(&v6(pod6(OWN).octets(), pod6(FRIEND).octets(), 6, 64, &tcp(40_000, 443, SYN))).allow
        );
        let quoted = v4(own(), friend(), 6).packet(&tcp(40_000, 443, SYN));
        // Unreachable and "fragmentation needed", time exceeded, parameter problem: with eight bytes quoted, and with all.
        for (kind, code) in [(3, 1), (3, 4), (11, 0), (12, 0)] {
            assert_eq!(rig.gets(&error(kind, code, &quoted[..28])), built_in(Reason::Related));
            assert_eq!(rig.gets(&error(kind, code, &quoted)), built_in(Reason::Related));
        }
        let quoted = v6_packet(pod6(OWN).octets(), pod6(FRIEND).octets(), 6, 64, &tcp(40_000, 443, SYN));
        for kind in 1..=4 {
            assert_eq!(rig.gets(&error6(kind, &quoted)), built_in(Reason::Related), "ICMPv6 {kind}");
        }
        // The other way: the pod says so about what it was sent.
        assert!(rig.gets(&from_friend(17, &udp(40_000, 53))).allow);
        let quoted = v4(friend(), own(), 17).packet(&udp(40_000, 53));
        assert_eq!(rig.sends(&to_friend(1, &icmp(3, 3, 0, &quoted))), built_in(Reason::Related));
    });
}

#[test]
fn an_error_about_anything_else_is_dropped() {
    Rig::run("corners_icmp", |rig| {
        assert!(rig.sends(&to_friend(6, &tcp(40_000, 443, SYN))).allow);
        let sent =
            |source, destination, protocol, payload: &[u8]| v4(source, destination, protocol).packet(payload);
        let good = tcp(40_000, 443, SYN);
        for (what, quoted) in [
            ("another port", sent(own(), friend(), 6, &tcp(40_001, 443, SYN))),
            ("another peer", sent(own(), STRANGER, 6, &good)),
            ("another protocol", sent(own(), friend(), 17, &good)),
            ("what somebody else sent", sent(STRANGER, friend(), 6, &good)),
            ("what the pod was sent, not what it sent", sent(friend(), own(), 6, &tcp(443, 40_000, SYN))),
            ("a later fragment", V4 { fragment: 5, ..v4(own(), friend(), 6) }.packet(&good)),
            ("another version", [vec![0x65], sent(own(), friend(), 6, &good)[1..].to_vec()].concat()),
            ("a header below 20 bytes", [vec![0x44], sent(own(), friend(), 6, &good)[1..].to_vec()].concat()),
            ("a packet cut before the ports", sent(own(), friend(), 6, &good)[..22].to_vec()),
            ("nothing", vec![]),
        ] {
            assert_eq!(rig.gets(&error(3, 4, &quoted)), built_in(Reason::Unrelated), "{what}");
        }
        let good = v6_packet(pod6(OWN).octets(), pod6(FRIEND).octets(), 6, 64, &good);
        assert_eq!(rig.gets(&error6(2, &good)), built_in(Reason::Unrelated), "no flow in IPv6");
        assert_eq!(rig.gets(&error6(2, &good[..44])), built_in(Reason::Unrelated), "cut");
    });
}

#[test]
fn what_is_no_error_is_judged_even_when_it_quotes_a_flow() {
    Rig::run("corners_icmp", |rig| {
        assert!(rig.sends(&to_friend(6, &tcp(40_000, 443, SYN))).allow);
        let quoted = v4(own(), friend(), 6).packet(&tcp(40_000, 443, SYN));
        // Redirect, source quench, timestamp: never by what they quote.
        for kind in [5, 4, 13] {
            let said = rig.gets(&from_friend(1, &icmp(kind, 1, 0, &quoted)));
            assert_eq!(said, rig.row(Ingress, FRIENDS, port::ICMP), "type {kind}");
        }
        for kind in [0, 5, 100, 127] {
            let said = rig.gets(&from_friend6(58, &icmp(kind, 0, 0, &quoted)));
            assert_eq!(said, rig.row(Ingress, FRIENDS, port::ICMP), "ICMPv6 {kind}");
        }
        // Nor does one that passed open a way back.
        rig.set(Egress, FRIENDS, port::ICMP, true);
        assert!(rig.sends(&to_friend(1, &icmp(13, 0, 7, &[0; 12]))).allow);
        assert!(!rig.gets(&from_friend(1, &icmp(14, 0, 7, &[0; 12]))).allow);
    });
}

#[test]
fn an_error_goes_with_its_flow_when_policy_changes() {
    Rig::run("corners_icmp", |rig| {
        assert!(rig.sends(&to_friend(6, &tcp(40_000, 443, SYN))).allow);
        let too_big = error(3, 4, &v4(own(), friend(), 6).packet(&tcp(40_000, 443, SYN)));
        assert_eq!(rig.gets(&too_big), built_in(Reason::Related));
        rig.set(Egress, FRIENDS, port::TCP_443, false);
        rig.flip(OWN, 2);
        assert_eq!(rig.gets(&too_big), built_in(Reason::Unrelated), "not judged again yet");
        assert!(!rig.sends(&to_friend(6, &tcp(40_000, 443, 0x10))).allow, "denied now");
        assert_eq!(rig.gets(&too_big), built_in(Reason::Unrelated));
        rig.set(Egress, FRIENDS, port::TCP_443, true);
        rig.flip(OWN, 3);
        assert!(rig.sends(&to_friend(6, &tcp(40_000, 443, 0x10))).allow);
        assert_eq!(rig.gets(&too_big), built_in(Reason::Related));
    });
}

#[test]
fn an_error_about_the_first_fragment_of_a_datagram_passes() {
    Rig::run("corners_icmp", |rig| {
        let first = [fragment_header(17, 0, true, 9), udp(40_000, 53)].concat();
        let (own, friend) = (pod6(OWN).octets(), pod6(FRIEND).octets());
        assert_eq!(rig.sends(&v6(own, friend, 44, 64, &first)), rig.row(Egress, FRIENDS, port::UDP_53));
        let quoted = v6_packet(own, friend, 44, 64, &first);
        assert_eq!(rig.gets(&error6(2, &quoted)), built_in(Reason::Related), "packet too big");
        let later = [fragment_header(17, 9, false, 9), udp(40_000, 53)].concat();
        let quoted = v6_packet(own, friend, 44, 64, &later);
        assert_eq!(rig.gets(&error6(2, &quoted)), built_in(Reason::Unrelated));
        // What was quoted with other headers in front of the ports is not looked for.
        let behind = [extension(17, [1, 4, 0, 0, 0, 0]), udp(40_000, 53)].concat();
        let quoted = v6_packet(own, friend, 60, 64, &behind);
        assert_eq!(rig.gets(&error6(2, &quoted)), built_in(Reason::Unrelated));
    });
}

#[test]
fn a_quoted_address_of_the_other_family_finds_no_flow() {
    Rig::run("corners_icmp", |rig| {
        // A flow of the pod in IPv4, and an IPv6 address that ends like its peer's and has the same echo: whoever
        // owns a prefix can choose one.
        let key = FlowKey {
            pod: 101,
            local: mapped(own()),
            remote: mapped(friend()),
            local_port: 40_000,
            remote_port: 443,
            protocol: 6,
            zero: [0; 3],
        };
        assert!(rig.sends(&to_friend(6, &tcp(40_000, 443, SYN))).allow);
        let flows = rig.kernel().state().conntrack4.entries().expect("flows");
        assert_eq!(flows[0].0, key.narrow());
        let twin = twin_of(friend());
        let mut quoted = v6_packet(twin, mapped(own()), 6, 64, &tcp(443, 40_000, SYN));
        quoted.truncate(48);
        let frame = v6(pod6(OWN).octets(), twin, 58, 64, &icmp(1, 0, 0, &quoted));
        assert_eq!(rig.sends(&frame), built_in(Reason::Unrelated));
    });
}

/// An address of `2001:db8::/64` whose echo is that of an IPv4 address, and whose end is.
fn twin_of(ipv4: [u8; 4]) -> [u8; 16] {
    let wanted = echo_address(&mapped(ipv4));
    let mut address = STRANGER6;
    address[12..].copy_from_slice(&ipv4);
    // The fold is linear: what bytes 4..8 and 8..12 contribute can be set bit by bit.
    for bit in (0..32).map(|bit| (8 + bit / 8, 1_u8 << (bit % 8))) {
        let difference = echo_address(&address) ^ wanted;
        let mut other = address;
        other[bit.0] ^= bit.1;
        if (echo_address(&other) ^ wanted).count_ones() < difference.count_ones() {
            address = other;
        }
    }
    assert_eq!(echo_address(&address), wanted, "{address:02x?}");
    address
}

#[test]
fn an_error_about_a_flow_that_the_node_opened_passes_whatever_the_generation() {
    Rig::run("corners_icmp", |rig| {
        assert_eq!(rig.gets_from_node(&from_friend(17, &udp(40_000, 99))), built_in(Reason::Node));
        rig.flip(OWN, 2);
        let quoted = v4(friend(), own(), 17).packet(&udp(40_000, 99));
        assert_eq!(rig.sends(&to_friend(1, &icmp(3, 3, 0, &quoted))), built_in(Reason::Related));
    });
}
