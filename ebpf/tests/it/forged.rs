//! What a pod may forge to pass as what is exempt: held here without a kernel, and in the enforcer's `corners_*` with one.

use netlab_ebpf::abi::Direction::{Egress, Ingress};
use netlab_ebpf::abi::{Address, Word, mapped};
use netlab_ebpf::judge::{Hook, judge};
use netlab_ebpf::packet::{Frame, Packet, parse, quoted};
use netlab_ebpf::reason::Reason;

use super::tables::{
    FRIEND, Host, OTHER_INTERFACE, POD, POD_INTERFACE, POD6, STRANGER, fragment, ipv4, tcp, udp,
};

const SYN: u8 = 2;
const FAR: Address = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
const ALL: Address = [0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];

fn ipv6(source: Address, destination: Address, next: u8, hops: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; 12];
    frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
    frame.extend(u16::try_from(payload.len()).expect("short").to_be_bytes());
    frame.extend([next, hops]);
    frame.extend(source);
    frame.extend(destination);
    frame.extend(payload);
    frame
}

/// A neighbour discovery message about an address, with the option that Ethernet needs.
fn discovery(kind: u8, target: Address) -> Vec<u8> {
    [&[kind, 0, 0, 0, 0, 0, 0, 0][..], &target, &[1; 8]].concat()
}

fn kind(frame: &[u8]) -> Frame {
    parse(&frame, &mut Packet::default())
}

#[test]
fn numbers_of_the_other_family_are_no_exemption() {
    let host = Host::new();
    let mut in_ipv4 = ipv4(POD, STRANGER, 58, &discovery(136, POD6));
    in_ipv4[22] = 255;
    assert_eq!(host.judge(Egress, &in_ipv4).reason, Reason::Row);
    let mut group = FAR;
    group[12..].copy_from_slice(&[224, 0, 0, 1]);
    assert_eq!(host.judge(Egress, &ipv6(POD6, group, 2, 1, &[0x11; 8])).reason, Reason::Row);
}

#[test]
fn a_neighbour_speaks_for_itself_and_to_the_link() {
    let host = Host::new();
    let said = |frame: &[u8]| host.judge(Egress, frame).reason;
    assert_eq!(said(&ipv6(POD6, ALL, 58, 255, &discovery(136, POD6))), Reason::Neighbour);
    assert_eq!(said(&ipv6(POD6, ALL, 58, 255, &discovery(136, FAR))), Reason::Spoof);
    assert_eq!(said(&ipv6(POD6, FAR, 58, 255, &discovery(135, FAR))), Reason::Neighbour);
    assert_eq!(said(&ipv6(POD6, FAR, 58, 255, &discovery(135, ALL))), Reason::Row);
    let long = [discovery(135, FAR), vec![0; 32]].concat();
    assert_eq!(said(&ipv6(POD6, FAR, 58, 255, &long)), Reason::Row);
}

#[test]
fn no_pod_speaks_as_a_router_even_without_policy() {
    let mut host = Host::new();
    for word in [Word::new(1, true, true, 1), Word::new(1, false, false, 1)] {
        host.device.word = word;
        let advertisement = ipv6(POD6, ALL, 58, 255, &discovery(134, FAR));
        assert_eq!(host.judge(Egress, &advertisement).reason, Reason::Router);
        let redirect = ipv4(POD, STRANGER, 1, &[5; 16]);
        assert_eq!(host.judge(Egress, &redirect).reason, Reason::Router);
    }
}

#[test]
fn no_address_at_all_speaks_to_many_only() {
    let mut host = Host::new();
    for word in [Word::new(1, true, true, 1), Word::new(1, false, false, 1)] {
        host.device.word = word;
        let to = |destination| host.judge(Egress, &ipv4([0; 4], destination, 17, &udp(68, 67))).reason;
        assert_ne!(to([255; 4]), Reason::Spoof);
        assert_eq!(to(FRIEND), Reason::Spoof);
        assert_eq!(host.judge(Egress, &ipv6([0; 16], FAR, 17, 64, &udp(1, 2))).reason, Reason::Spoof);
    }
}

#[test]
fn a_tag_does_not_hide_the_source() {
    let mut host = Host::new();
    // Isolated for ingress only, then not at all: what leaves is not judged, but compared.
    for word in [Word::new(1, true, false, 1), Word::new(1, false, false, 1)] {
        host.device.word = word;
        let mut tagged = ipv4(FRIEND, STRANGER, 17, &udp(1, 2));
        let hook = Hook {
            direction: Egress,
            ifindex: POD_INTERFACE,
            ingress_ifindex: OTHER_INTERFACE,
            socket: false,
            vlan: true,
        };
        let judgement = judge(&tagged.as_slice(), hook, &host).expect("in range");
        assert_eq!(judgement.reason, Reason::Spoof, "taken off by the kernel");
        tagged.splice(12..12, [0x81, 0, 0, 0]);
        assert_eq!(host.judge(Egress, &tagged).reason, Reason::Frame, "still there");
    }
}

#[test]
fn a_syn_with_fin_or_rst_is_nobodys_reply_and_opens_nothing() {
    let host = Host::new();
    assert!(host.judge(Ingress, &ipv4(FRIEND, POD, 6, &tcp(40_000, 5432, SYN))).allow);
    for flags in [SYN | 1, SYN | 4] {
        assert!(!host.judge(Egress, &ipv4(POD, FRIEND, 6, &tcp(5432, 40_000, flags))).allow, "{flags}");
        assert!(host.judge(Ingress, &ipv4(FRIEND, POD, 6, &tcp(40_001, 5432, flags))).allow, "its own row");
    }
    assert_eq!(host.flows.borrow().len(), 1);
}

#[test]
fn what_was_judged_is_not_overlapped() {
    for protocol in [6, 132] {
        assert_eq!(kind(&fragment(FRIEND, POD, protocol, 1, &[0; 24])), Frame::Malformed, "{protocol}");
        assert_eq!(kind(&fragment(FRIEND, POD, protocol, 2, &[0; 24])), Frame::Ip, "{protocol}");
    }
    let behind_options = |offset: u16| {
        let header = [&[60, 0][..], &(offset << 3).to_be_bytes(), &[0, 0, 0, 9]].concat();
        ipv6(FAR, POD6, 44, 64, &[header, vec![0; 24]].concat())
    };
    assert_eq!(kind(&behind_options(1)), Frame::Malformed);
    assert_eq!(kind(&behind_options(127)), Frame::Malformed);
    assert_eq!(kind(&behind_options(128)), Frame::Ip);
}

#[test]
fn a_source_route_that_is_not_done_is_malformed() {
    let routed =
        |left| ipv6(FAR, POD6, 43, 64, &[&[6, 0, 4, left, 0, 0, 0, 0][..], &tcp(1, 2, SYN)].concat());
    assert_eq!((kind(&routed(0)), kind(&routed(1))), (Frame::Ip, Frame::Malformed));
}

#[test]
fn what_could_not_have_been_sent_is_not_quoted() {
    let read = |quoted_packet: &[u8], family: u8| {
        let error = [&[3, 0, 0, 0, 0, 0, 0, 0][..], quoted_packet].concat();
        quoted(&error.as_slice(), family, 0)
    };
    let mut short = ipv4(POD, FRIEND, 6, &tcp(1, 2, SYN))[14..].to_vec();
    assert!(read(&short, 1).is_some());
    short[0] = 0x44;
    assert!(read(&short, 1).is_none());
    let other = ipv6(FAR, mapped(POD), 6, 64, &tcp(1, 2, SYN))[14..].to_vec();
    assert!(read(&other, 58).is_none(), "it would be looked up as an IPv4 flow");
    let piece = |offset: u16| {
        let header = [&[6, 0][..], &(offset << 3 | 1).to_be_bytes(), &[0, 0, 0, 9]].concat();
        ipv6(FAR, POD6, 44, 64, &[header, tcp(1, 2, SYN)].concat())[14..].to_vec()
    };
    assert_eq!(read(&piece(0), 58).map(|quoted| quoted.destination_port), Some(2));
    assert!(read(&piece(3), 58).is_none());
}

#[test]
fn an_error_in_pieces_is_related_to_nothing() {
    let host = Host::new();
    assert!(host.judge(Egress, &ipv4(POD, FRIEND, 6, &tcp(40_000, 80, SYN))).allow);
    let quoted = ipv4(POD, FRIEND, 6, &tcp(40_000, 80, SYN))[14..].to_vec();
    let error = [&[3, 4, 0, 0, 0, 0, 5, 0][..], &quoted].concat();
    assert_eq!(host.judge(Ingress, &ipv4(STRANGER, POD, 1, &error)).reason, Reason::Related);
    let piece = fragment(STRANGER, POD, 1, 0x2000, &error);
    assert_eq!(host.judge(Ingress, &piece).reason, Reason::Unrelated);
}
