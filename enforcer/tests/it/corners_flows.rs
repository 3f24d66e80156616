//! Connections: who opened one, what it lets pass, and what a packet that only looks like part of one does not.

use netlab_ebpf::abi::Direction::{Egress, Ingress};
use netlab_ebpf::abi::{PeerValue, PolicyKey, PolicyValue, mapped};
use netlab_ebpf::conntrack::NODE;
use netlab_ebpf::reason::Reason;

use super::bpf_frames::{icmp, sctp, tcp, udp, v4};
use super::bpf_world::POD;
use super::corners_rig::{
    FRIEND, FRIENDS, OPEN, OWN, Rig, STRANGER, STRANGERS, Said, built_in, from_friend, port, to_friend,
};

const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;

fn flow() -> Said {
    built_in(Reason::Flow)
}

/// How many flows the kernel remembers, and the openers' directions.
fn openers(rig: &Rig) -> Vec<u8> {
    let flows = rig.kernel().state().conntrack4.entries().expect("flows");
    flows.into_iter().map(|(_, flow)| flow.opener).collect()
}

#[test]
fn a_flow_answers_for_its_tuple_and_for_no_other() {
    Rig::run("corners_flows", |rig| {
        assert_eq!(
            rig.gets(&from_friend(6, &tcp(40_000, 5432, SYN))),
            rig.row(Ingress, FRIENDS, port::TCP_5432)
        );
        assert_eq!(rig.sends(&to_friend(6, &tcp(5432, 40_000, SYN | ACK))), flow());
        assert_eq!(rig.gets(&from_friend(6, &tcp(40_000, 5432, ACK))), flow());
        let denied = rig.row(Egress, FRIENDS, port::REST);
        assert_eq!(rig.sends(&to_friend(6, &tcp(5432, 40_001, SYN | ACK))), denied);
        assert_eq!(rig.sends(&to_friend(17, &udp(5432, 40_000))), denied, "another protocol");
        let stranger = v4(POD[OWN].octets(), STRANGER, 6).frame(&tcp(5432, 40_000, ACK));
        assert_eq!(rig.sends(&stranger), rig.row(Egress, STRANGERS, port::REST));
        // The same tuple at another pod's hook is another flow (two pods of one node, one connection).
        let interface = rig.interfaces[FRIEND];
        let said =
            rig.judge(FRIEND, Ingress, rig.interfaces[OWN], &to_friend(6, &tcp(5432, 40_000, SYN | ACK)));
        assert_eq!((said.allow, said.reason), (false, Reason::Row));
        let said = rig.judge(FRIEND, Egress, interface, &from_friend(6, &tcp(40_000, 5432, ACK)));
        assert_eq!(said, rig.not_isolated(FRIEND, Egress));
    });
}

#[test]
fn every_bare_syn_is_judged_whatever_is_remembered() {
    Rig::run("corners_flows", |rig| {
        assert!(rig.gets(&from_friend(6, &tcp(40_000, 5432, SYN))).allow);
        assert_eq!(rig.sends(&to_friend(6, &tcp(5432, 40_000, ACK))), flow());
        let denied = rig.row(Egress, FRIENDS, port::REST);
        for extra in [0, 8, 0x20, 0x40, 0x80, 0xc8] {
            let back = to_friend(6, &tcp(5432, 40_000, SYN | extra));
            assert_eq!(rig.sends(&back), denied, "a connection of its own, flags {extra:#x}");
        }
        // Flags that no stack of today opens with, but some did.
        for flags in [SYN | FIN, SYN | RST, SYN | FIN | RST] {
            assert_eq!(rig.sends(&to_friend(6, &tcp(5432, 40_000, flags))), denied, "flags {flags:#x}");
        }
        // The tuple used again by the side that may: judged, allowed, a flow as before.
        let again = from_friend(6, &tcp(40_000, 5432, SYN));
        assert_eq!(rig.gets(&again), rig.row(Ingress, FRIENDS, port::TCP_5432));
        rig.set(Ingress, FRIENDS, port::TCP_5432, false);
        rig.flip(OWN, 2);
        assert_eq!(rig.gets(&again), rig.row(Ingress, FRIENDS, port::TCP_5432), "and denied when it is now");
    });
}

#[test]
fn both_ends_may_open_at_once_and_each_opening_is_judged() {
    Rig::run("corners_flows", |rig| {
        // The pod may open to 443; what the friend opens from there is denied.
        assert!(rig.sends(&to_friend(6, &tcp(5432, 443, SYN))).allow);
        rig.set(Ingress, FRIENDS, port::TCP_5432, false);
        assert_eq!(
            rig.gets(&from_friend(6, &tcp(443, 5432, SYN))),
            rig.row(Ingress, FRIENDS, port::TCP_5432)
        );
        // The friend answers the pod's SYN instead: that is the pod's connection.
        assert_eq!(rig.gets(&from_friend(6, &tcp(443, 5432, SYN | ACK))), flow());
        // With both allowed, both pass, and there is one flow.
        rig.set(Ingress, FRIENDS, port::TCP_5432, true);
        assert_eq!(
            rig.gets(&from_friend(6, &tcp(443, 5432, SYN))),
            rig.row(Ingress, FRIENDS, port::TCP_5432)
        );
        assert_eq!(rig.sends(&to_friend(6, &tcp(5432, 443, SYN | ACK))), flow());
        assert_eq!(rig.gets(&from_friend(6, &tcp(443, 5432, SYN | ACK))), flow());
        assert_eq!(openers(rig).len(), 1);
    });
}

#[test]
fn a_segment_that_opens_nothing_lets_nobody_in() {
    Rig::run("corners_flows", |rig| {
        for flags in [ACK, SYN | ACK, FIN | ACK, RST, 0, 0x29, SYN | RST, SYN | FIN] {
            let said = rig.gets(&from_friend(6, &tcp(40_000, 5432, flags)));
            assert_eq!(said, rig.row(Ingress, FRIENDS, port::TCP_5432), "its own row, flags {flags:#x}");
            assert!(openers(rig).is_empty(), "flags {flags:#x}");
            assert_eq!(
                rig.sends(&to_friend(6, &tcp(5432, 40_000, ACK))),
                rig.row(Egress, FRIENDS, port::REST)
            );
        }
        // An ACK that its own row denies is not a reply because the inverse is allowed: no socket, no connection.
        assert_eq!(rig.gets(&from_friend(6, &tcp(443, 40_000, ACK))), rig.row(Ingress, FRIENDS, port::REST));
    });
}

#[test]
fn a_datagram_that_looks_like_a_reply_is_judged_by_itself() {
    Rig::run("corners_flows", |rig| {
        // The pod may ask the friend on 53; nobody asked.
        assert_eq!(rig.gets(&from_friend(17, &udp(53, 40_000))), rig.row(Ingress, FRIENDS, port::REST));
        assert_eq!(rig.gets(&from_friend(1, &icmp(0, 0, 9, &[]))), rig.row(Ingress, FRIENDS, port::ICMP));
        assert_eq!(rig.gets(&from_friend(132, &sctp(9, 40_000, 2))), rig.row(Ingress, FRIENDS, port::REST));
        // Asked, and answered; by the one that was asked only, and to the port that asked.
        assert_eq!(rig.sends(&to_friend(17, &udp(40_000, 53))), rig.row(Egress, FRIENDS, port::UDP_53));
        assert_eq!(rig.gets(&from_friend(17, &udp(53, 40_000))), flow());
        assert_eq!(rig.gets(&from_friend(17, &udp(53, 40_001))), rig.row(Ingress, FRIENDS, port::REST));
        let other = v4(STRANGER, POD[OWN].octets(), 17).frame(&udp(53, 40_000));
        assert_eq!(rig.gets(&other), rig.row(Ingress, STRANGERS, port::REST));
    });
}

#[test]
fn every_sctp_init_is_judged_and_the_rest_follows_its_flow() {
    Rig::run("corners_flows", |rig| {
        assert_eq!(rig.gets(&from_friend(132, &sctp(40_000, 9, 1))), rig.row(Ingress, FRIENDS, port::SCTP_9));
        for chunk in [2, 11, 0, 3, 14] {
            assert_eq!(rig.sends(&to_friend(132, &sctp(9, 40_000, chunk))), flow(), "chunk {chunk}");
        }
        let denied = rig.row(Egress, FRIENDS, port::REST);
        assert_eq!(rig.sends(&to_friend(132, &sctp(9, 40_000, 1))), denied, "an INIT of its own");
        assert_eq!(rig.gets(&from_friend(132, &sctp(40_000, 10, 1))), rig.row(Ingress, FRIENDS, port::REST));
        // SCTP is no TCP and no UDP: their rules say nothing about it.
        assert_eq!(
            rig.gets(&from_friend(132, &sctp(40_000, 5432, 1))),
            rig.row(Ingress, FRIENDS, port::REST)
        );
        assert_eq!(rig.gets(&from_friend(6, &tcp(40_000, 9, SYN))), rig.row(Ingress, FRIENDS, port::REST));
    });
}

#[test]
fn a_deny_cuts_a_flow_at_its_next_packet_from_either_side() {
    for responder_first in [false, true] {
        Rig::run("corners_flows", |rig| {
            let (opener, answer) =
                (from_friend(6, &tcp(40_000, 5432, ACK)), to_friend(6, &tcp(5432, 40_000, ACK)));
            assert!(rig.gets(&from_friend(6, &tcp(40_000, 5432, SYN))).allow);
            assert_eq!((rig.sends(&answer), rig.gets(&opener)), (flow(), flow()));
            rig.flip(OWN, 2);
            assert_eq!(rig.sends(&answer), flow(), "a change that still allows it loses nothing");
            rig.set(Ingress, FRIENDS, port::TCP_5432, false);
            rig.flip(OWN, 3);
            // Cited is the row of the direction in which it was opened, also when only the answering side sends.
            let denied = rig.row(Ingress, FRIENDS, port::TCP_5432);
            if responder_first {
                assert_eq!((rig.sends(&answer), rig.sends(&answer)), (denied, denied));
            }
            assert_eq!((rig.gets(&opener), rig.sends(&answer)), (denied, denied));
            rig.set(Ingress, FRIENDS, port::TCP_5432, true);
            rig.flip(OWN, 4);
            assert_eq!((rig.sends(&answer), rig.gets(&opener)), (flow(), flow()), "allowed again");
        });
    }
}

#[test]
fn what_the_node_opened_is_answered_and_what_it_answers_frees_nothing() {
    Rig::run("corners_flows", |rig| {
        assert_eq!(rig.gets_from_node(&from_friend(6, &tcp(40_000, 99, SYN))), built_in(Reason::Node));
        assert_eq!(rig.sends(&to_friend(6, &tcp(99, 40_000, SYN | ACK))), flow());
        let flows = rig.kernel().state().conntrack4.entries().expect("flows");
        assert_ne!(flows[0].1.state & NODE, 0);
        rig.flip(OWN, 2);
        assert_eq!(rig.sends(&to_friend(6, &tcp(99, 40_000, ACK))), flow(), "whatever the policy is now");
        assert!(!rig.sends(&to_friend(6, &tcp(99, 40_000, SYN))).allow, "but no connection of its own");
        // The same packets by an interface are nobody's but the friend's.
        assert_eq!(rig.gets(&from_friend(6, &tcp(40_001, 99, SYN))), rig.row(Ingress, FRIENDS, port::REST));
        // The pod's own flow to the node stays under policy although the node's answers pass in any case.
        assert!(rig.sends(&to_friend(6, &tcp(40_000, 443, SYN))).allow);
        rig.set(Egress, FRIENDS, port::TCP_443, false);
        rig.flip(OWN, 3);
        assert_eq!(rig.gets_from_node(&from_friend(6, &tcp(443, 40_000, ACK))), built_in(Reason::Node));
        assert_eq!(rig.sends(&to_friend(6, &tcp(40_000, 443, ACK))), rig.row(Egress, FRIENDS, port::TCP_443));
    });
}

#[test]
fn a_pod_without_policy_and_the_pod_itself_leave_no_trace() {
    Rig::run("corners_flows", |rig| {
        let own = rig.interfaces[OPEN];
        let frame = v4(POD[OPEN].octets(), STRANGER, 6).frame(&tcp(1, 2, SYN));
        assert_eq!(rig.judge(OPEN, Egress, own, &frame), built_in(Reason::NotIsolatedEgress));
        assert_eq!(rig.judge(OPEN, Ingress, own, &[0xff; 60]), built_in(Reason::NotIsolatedIngress));
        let itself = v4(POD[OWN].octets(), POD[OWN].octets(), 6).frame(&tcp(1, 2, SYN));
        assert_eq!(rig.sends(&itself), built_in(Reason::Itself));
        let interface = rig.interfaces[OWN];
        assert_eq!(rig.judge(OWN, Ingress, interface, &itself), built_in(Reason::Itself));
        assert_eq!(rig.gets(&itself).reason, Reason::Row, "its address by another interface is a forgery");
        assert!(openers(rig).is_empty());
    });
}

#[test]
fn a_new_pod_with_the_address_of_another_inherits_nothing() {
    Rig::run("corners_flows", |rig| {
        assert!(rig.gets(&from_friend(6, &tcp(40_000, 5432, SYN))).allow);
        assert!(rig.gets(&from_friend(17, &udp(40_000, 53))).allow);
        let (answer, datagram) = (to_friend(6, &tcp(5432, 40_000, ACK)), to_friend(17, &udp(53, 40_000)));
        assert_eq!((rig.sends(&answer), rig.sends(&datagram)), (flow(), flow()));
        // The same interface, address and ruleset; another pod's number, which is never used again.
        rig.replace(OWN);
        let denied = rig.row(Egress, FRIENDS, port::REST);
        assert_eq!((rig.sends(&answer), rig.sends(&datagram)), (denied, denied));
    });
}

#[test]
fn elements_recycled_under_the_reader_are_told_by_their_echo() {
    Rig::run("corners_flows", |rig| {
        let syn = from_friend(6, &tcp(40_000, 5432, SYN));
        let policy = rig.kernel().policy().clone();
        // A flow that is another key's is none.
        assert!(rig.gets(&syn).allow);
        let flows = &rig.kernel().state().conntrack4;
        let (key, value) = flows.entries().expect("flows")[0];
        flows.set(&key, &netlab_ebpf::abi::Flow { echo: value.echo ^ 1, ..value }).expect("written");
        assert_eq!(rig.sends(&to_friend(6, &tcp(5432, 40_000, ACK))), rig.row(Egress, FRIENDS, port::REST));
        // A peer that is another address's is looked for among the prefixes.
        let friend = mapped(POD[FRIEND].octets());
        let peer = policy.peers.get(&friend).expect("readable").expect("a peer");
        policy.peers.set(&friend, &PeerValue { echo: peer.echo ^ 1, ..peer }).expect("written");
        assert_eq!(rig.gets(&syn), rig.row(Ingress, STRANGERS, port::TCP_5432));
        policy.peers.set(&friend, &peer).expect("written");
        // A row that is another key's, and one that says neither, are no rows.
        let key = PolicyKey::new(1, Ingress, port::TCP_5432, FRIENDS);
        let row = policy.policy.get(&key).expect("readable").expect("a row");
        for lie in [PolicyValue { echo: row.echo ^ 1, ..row }, PolicyValue { verdict: 0, ..row }] {
            policy.policy.set(&key, &lie).expect("written");
            assert_eq!(rig.gets(&syn), built_in(Reason::NoEntry));
        }
    });
}
