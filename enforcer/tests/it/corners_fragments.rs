//! Datagrams in pieces, of both families: the first piece is judged, the rest follows it or is dropped, and no later
//! piece can rewrite what was judged.

use netlab_ebpf::abi::Direction::{Egress, Ingress};
use netlab_ebpf::reason::Reason;

use super::bpf_frames::{V4, extension, fragment_header, icmp, sctp, tcp, udp, v4};
use super::bpf_world::{POD, pod6};
use super::corners_rig::{
    FRIEND, FRIENDS, OPEN, OWN, Rig, STRANGER, STRANGER6, STRANGERS, built_in, from_friend6, port, v6,
};

const SYN: u8 = 2;
const MORE: u16 = 0x2000;

/// A fragment from the friend: `field` is flags and offset.
fn piece(protocol: u8, id: u16, field: u16, payload: &[u8]) -> Vec<u8> {
    V4 { id, fragment: field, ..v4(POD[FRIEND].octets(), POD[OWN].octets(), protocol) }.frame(payload)
}

/// The same in IPv6; `offset` in units of eight bytes.
fn piece6(next: u8, id: u32, offset: u16, more: bool, payload: &[u8]) -> Vec<u8> {
    from_friend6(44, &[fragment_header(next, offset, more, id), payload.to_vec()].concat())
}

#[test]
fn the_rest_of_a_datagram_follows_what_allowed_its_first_fragment() {
    Rig::run("corners_fragments", |rig| {
        let follows = |rig: &mut Rig, first: &[u8], rest: &[u8], class: u16| {
            assert_eq!(rig.gets(rest), built_in(Reason::FragmentUnknown), "before the first");
            let row = rig.row(Ingress, FRIENDS, class);
            assert_eq!(rig.gets(first), row);
            let said = rig.gets(rest);
            assert_eq!((said.allow, said.reason, said.entry), (true, Reason::Fragment, row.entry));
            assert_eq!(rig.sends(first).reason, Reason::Spoof, "it is the friend's");
        };
        follows(rig, &piece(17, 1, MORE, &udp(40_000, 53)), &piece(17, 1, 3, &[0; 24]), port::UDP_53);
        follows(rig, &piece(6, 2, MORE, &tcp(40_000, 5432, SYN)), &piece(6, 2, 3, &[0; 24]), port::TCP_5432);
        follows(
            rig,
            &piece6(17, 3, 0, true, &udp(40_000, 53)),
            &piece6(17, 3, 2, false, &[0; 24]),
            port::UDP_53,
        );
        // At this hook only: the other direction has not seen the datagram.
        let mut own = V4 { id: 1, fragment: 3, ..v4(POD[OWN].octets(), POD[FRIEND].octets(), 17) };
        assert_eq!(rig.sends(&own.frame(&[0; 24])), built_in(Reason::FragmentUnknown));
        own.id = 9;
        assert_eq!(rig.sends(&own.frame(&[0; 24])), built_in(Reason::FragmentUnknown));
    });
}

#[test]
fn the_rest_of_a_datagram_whose_first_fragment_was_denied_is_dropped() {
    Rig::run("corners_fragments", |rig| {
        // Its bytes are ports that are allowed.
        let lookalike = [tcp(40_000, 5432, SYN), vec![0; 4]].concat();
        for (id, protocol, first) in [(1, 17, udp(40_000, 99)), (2, 6, tcp(40_000, 22, SYN))] {
            let row = rig.row(Ingress, FRIENDS, port::REST);
            assert_eq!(rig.gets(&piece(protocol, id, MORE, &first)), row);
            assert_eq!(rig.gets(&piece(protocol, id, 3, &lookalike)), built_in(Reason::FragmentUnknown));
            let (next, id) = (protocol, u32::from(id));
            assert_eq!(rig.gets(&piece6(next, id, 0, true, &first)), row);
            assert_eq!(rig.gets(&piece6(next, id, 3, false, &lookalike)), built_in(Reason::FragmentUnknown));
        }
        // From somebody else, and of another datagram.
        assert!(rig.gets(&piece(17, 7, MORE, &udp(40_000, 53))).allow);
        assert_eq!(rig.gets(&piece(17, 8, 3, &lookalike)), built_in(Reason::FragmentUnknown));
        let stranger = V4 { id: 7, fragment: 3, ..v4(STRANGER, POD[OWN].octets(), 17) };
        assert_eq!(rig.gets(&stranger.frame(&lookalike)), built_in(Reason::FragmentUnknown));
    });
}

#[test]
fn each_first_fragment_is_judged_by_itself() {
    Rig::run("corners_fragments", |rig| {
        assert!(rig.gets(&piece(17, 1, MORE, &udp(40_000, 53))).allow);
        let row = rig.row(Ingress, FRIENDS, port::REST);
        assert_eq!(rig.gets(&piece(17, 1, MORE, &udp(40_000, 99))), row, "under the same identification");
        // Of a stranger: his class, not the friend's.
        let stranger = V4 { id: 1, fragment: MORE, ..v4(STRANGER, POD[OWN].octets(), 17) };
        assert_eq!(rig.gets(&stranger.frame(&udp(40_000, 53))), rig.row(Ingress, STRANGERS, port::UDP_53));
    });
}

#[test]
fn a_first_fragment_holds_all_that_is_judged() {
    Rig::run("corners_fragments", |rig| {
        // RFC 3128's tiny fragment: ports, but no flags.
        for length in [8, 12, 16] {
            let frame = piece(6, 1, MORE, &tcp(40_000, 5432, SYN)[..length]);
            assert_eq!(rig.gets(&frame), built_in(Reason::Malformed), "{length} bytes of TCP");
            let frame = piece6(6, 1, 0, true, &tcp(40_000, 5432, SYN)[..length]);
            assert_eq!(rig.gets(&frame), built_in(Reason::Malformed), "{length} bytes of TCP in IPv6");
        }
        assert_eq!(rig.gets(&piece(132, 1, MORE, &sctp(1, 9, 1)[..8])), built_in(Reason::Malformed));
        // In IPv6 the headers before it too (RFC 7112): here they end the fragment.
        let options = extension(6, [1, 4, 0, 0, 0, 0]);
        assert_eq!(rig.gets(&piece6(60, 2, 0, true, &options)), built_in(Reason::Malformed));
        let rest = [options, tcp(40_000, 5432, SYN)].concat();
        assert_eq!(rig.gets(&piece6(60, 2, 1, false, &rest)), built_in(Reason::Malformed));
    });
}

#[test]
fn no_later_fragment_rewrites_what_was_judged() {
    Rig::run("corners_fragments", |rig| {
        // RFC 3128: offset 1 of TCP holds the flags; that of SCTP the type of the first chunk.
        assert!(rig.gets(&piece(6, 1, MORE, &tcp(40_000, 5432, SYN))).allow);
        for field in [1, MORE | 1] {
            assert_eq!(rig.gets(&piece(6, 1, field, &[0; 24])), built_in(Reason::Malformed));
        }
        assert!(rig.gets(&piece(6, 1, 2, &[0; 24])).allow, "behind the flags");
        assert!(rig.gets(&piece(132, 2, MORE, &sctp(40_000, 9, 1))).allow);
        assert_eq!(rig.gets(&piece(132, 2, 1, &[1; 24])), built_in(Reason::Malformed));
        assert!(rig.gets(&piece6(6, 3, 0, true, &tcp(40_000, 5432, SYN))).allow);
        assert_eq!(rig.gets(&piece6(6, 3, 1, false, &[0; 24])), built_in(Reason::Malformed));
        // Behind an extension header, offset 1 is the whole TCP header; the first kilobyte is the first fragment's.
        let first = [extension(6, [1, 4, 0, 0, 0, 0]), tcp(40_000, 5432, SYN)].concat();
        assert!(rig.gets(&piece6(60, 4, 0, true, &first)).allow);
        for offset in [1, 2, 3, 127] {
            let rest = tcp(40_000, 22, SYN);
            assert_eq!(
                rig.gets(&piece6(60, 4, offset, false, &rest)),
                built_in(Reason::Malformed),
                "{offset}"
            );
        }
        assert_eq!(rig.gets(&piece6(60, 4, 128, false, &[0; 24])).reason, Reason::Fragment);
        // Headers that reach beyond that kilobyte have no first fragment that could be trusted.
        let mut long = vec![6, 126, 1, 4];
        long.resize(127 * 8, 0);
        let frame = piece6(60, 5, 0, true, &[long, tcp(40_000, 5432, SYN)].concat());
        assert_eq!(rig.gets(&frame), built_in(Reason::Malformed));
    });
}

#[test]
fn whole_packets_with_a_fragment_header_are_ordinary_and_nesting_is_refused() {
    Rig::run("corners_fragments", |rig| {
        let frame = piece6(6, 1, 0, false, &tcp(40_000, 5432, SYN));
        assert_eq!(rig.gets(&frame), rig.row(Ingress, FRIENDS, port::TCP_5432), "RFC 6946's atomic fragment");
        let frame = piece6(6, 1, 0, false, &tcp(40_000, 22, SYN));
        assert_eq!(rig.gets(&frame), rig.row(Ingress, FRIENDS, port::REST));
        let inner = [fragment_header(6, 0, false, 2), tcp(40_000, 5432, SYN)].concat();
        assert_eq!(rig.gets(&piece6(44, 1, 0, true, &inner)), built_in(Reason::Malformed));
        // An atomic one in front lends a later one nothing.
        let inner = [fragment_header(6, 3, false, 2), tcp(40_000, 5432, SYN)].concat();
        assert_eq!(rig.gets(&piece6(44, 1, 0, false, &inner)), built_in(Reason::FragmentUnknown));
    });
}

#[test]
fn fragments_are_forgotten_with_their_policy() {
    Rig::run("corners_fragments", |rig| {
        assert!(rig.gets(&piece(17, 1, MORE, &udp(40_000, 53))).allow);
        assert!(rig.gets(&piece(17, 1, 3, &[0; 24])).allow);
        rig.flip(OWN, 2);
        assert_eq!(rig.gets(&piece(17, 1, 3, &[0; 24])), built_in(Reason::FragmentUnknown));
    });
}

#[test]
fn errors_and_router_advertisements_in_pieces_get_no_exemption() {
    Rig::run("corners_fragments", |rig| {
        // A flow, and the error about it that would pass whole.
        assert!(rig.gets(&piece(17, 1, 0, &udp(40_000, 53))).allow);
        let sent = v4(POD[FRIEND].octets(), POD[OWN].octets(), 17).packet(&udp(40_000, 53));
        let error = icmp(3, 3, 0, &sent);
        let mut own = v4(POD[OWN].octets(), POD[FRIEND].octets(), 1);
        assert_eq!(rig.sends(&own.frame(&error)), built_in(Reason::Related));
        own.fragment = MORE;
        assert_eq!(rig.sends(&own.frame(&error)), built_in(Reason::Unrelated));
        // RFC 6980: neighbour discovery is never in pieces; a router's voice is refused in pieces too.
        let all = [0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
        for (pod, kind, expected) in [
            (OWN, 134, Some(Reason::Router)),
            (FRIEND, 137, Some(Reason::Router)),
            (OPEN, 134, Some(Reason::Router)),
            (OWN, 135, None),
        ] {
            let payload = [fragment_header(58, 0, true, 9), icmp(kind, 0, 0, &[0; 24])].concat();
            let own = rig.interfaces[pod];
            let said = rig.judge(pod, Egress, own, &v6(pod6(pod).octets(), all, 44, 255, &payload));
            match expected {
                Some(reason) => assert_eq!(said, built_in(reason), "type {kind} of pod {pod}"),
                None => assert_eq!((said.allow, said.reason), (false, Reason::Row), "type {kind}"),
            }
        }
    });
}

#[test]
fn a_pod_without_policy_sends_pieces_as_itself_only() {
    Rig::run("corners_fragments", |rig| {
        let own = rig.interfaces[OPEN];
        let rest = [fragment_header(6, 3, false, 9), vec![0; 24]].concat();
        let frame = v6(pod6(OPEN).octets(), STRANGER6, 44, 64, &rest);
        assert_eq!(rig.judge(OPEN, Egress, own, &frame), built_in(Reason::NotIsolatedEgress));
        let frame = v6(pod6(OWN).octets(), STRANGER6, 44, 64, &rest);
        assert_eq!(rig.judge(OPEN, Egress, own, &frame), built_in(Reason::Spoof));
    });
}
