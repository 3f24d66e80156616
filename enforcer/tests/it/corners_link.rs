//! What neighbours on a link say to each other, and who may say it: ARP, neighbour discovery, listener reports,
//! router advertisements; and the addresses that a pod may send from.

use netlab_ebpf::abi::Direction::{Egress, Ingress};
use netlab_ebpf::reason::Reason;

use super::bpf_frames::{V4, ethernet, extension, icmp, tcp, udp, v4};
use super::bpf_world::{POD, pod6};
use super::corners_rig::{
    FRIEND, FRIENDS, OPEN, OWN, Rig, STRANGER, STRANGER6, STRANGERS6, built_in, from_friend6, port, v6,
};

const SYN: u8 = 2;
/// All nodes, and the node's address on the link.
const ALL: [u8; 16] = [0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
const GATEWAY: [u8; 16] = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];

fn arp(operation: u8, sender: [u8; 4], target: [u8; 4]) -> Vec<u8> {
    let mut arp = vec![0, 1, 8, 0, 6, 4, 0, operation, 2, 0, 0, 0, 0, 1];
    arp.extend(sender);
    arp.extend([0; 6]);
    arp.extend(target);
    ethernet(0x0806, &arp)
}

/// A solicitation or an advertisement about `target`, with an option of `option` octets.
fn discovery(kind: u8, target: [u8; 16], option: usize) -> Vec<u8> {
    let mut message = icmp(kind, 0, 0, &target);
    message[4..8].fill(0);
    message.extend(vec![1; option]);
    message
}

#[test]
fn arp_passes_and_a_foreign_sender_does_not() {
    Rig::run("corners_link", |rig| {
        for pod in [OWN, FRIEND, OPEN] {
            let own = rig.interfaces[pod];
            let pass = if pod == OPEN { Reason::NotIsolatedEgress } else { Reason::Neighbour };
            for (operation, sender, expected) in [
                (1, POD[pod].octets(), pass),
                (2, POD[pod].octets(), pass),
                (1, [0; 4], pass),
                (1, POD[(pod + 1) % 3].octets(), Reason::Spoof),
                (2, [10, 0, 0, 254], Reason::Spoof),
            ] {
                let said = rig.judge(pod, Egress, own, &arp(operation, sender, [10, 0, 0, 254]));
                assert_eq!(said, built_in(expected), "pod {pod}: {operation} from {sender:?}");
            }
        }
        assert_eq!(rig.gets(&arp(1, [10, 0, 0, 254], POD[OWN].octets())), built_in(Reason::Neighbour));
        // Of other addresses than IPv4's the sender cannot be read.
        for (byte, value) in [(16, 0x86), (18, 8), (19, 16)] {
            let mut frame = arp(1, POD[OWN].octets(), [10, 0, 0, 254]);
            frame[byte] = value;
            assert_eq!(rig.sends(&frame), built_in(Reason::Frame));
        }
    });
}

#[test]
fn neighbour_discovery_passes_with_hop_limit_255_only() {
    Rig::run("corners_link", |rig| {
        let own = pod6(OWN).octets();
        for (kind, target) in [(133, [0; 16]), (135, GATEWAY), (136, own)] {
            let message = discovery(kind, target, 8);
            for (hops, expected) in [(255, Some(Reason::Neighbour)), (254, None), (64, None), (1, None)] {
                let sent = rig.sends(&v6(own, GATEWAY, 58, hops, &message));
                let got = rig.gets(&v6(GATEWAY, own, 58, hops, &discovery(kind, target, 8)));
                for said in [sent, got] {
                    match expected {
                        Some(reason) => assert_eq!(said, built_in(reason), "type {kind}, hop limit {hops}"),
                        None => assert_eq!((said.allow, said.reason), (false, Reason::Row), "type {kind}"),
                    }
                }
            }
        }
        // Before it has an address: duplicate address detection, and looking for routers.
        assert_eq!(
            rig.sends(&v6([0; 16], ALL, 58, 255, &discovery(135, own, 0))),
            built_in(Reason::Neighbour)
        );
        assert_eq!(
            rig.sends(&v6([0; 16], ALL, 58, 255, &discovery(133, [0; 16], 0))),
            built_in(Reason::Neighbour)
        );
        // Behind extension headers too.
        let behind = [extension(58, [1, 4, 0, 0, 0, 0]), discovery(135, GATEWAY, 8)].concat();
        assert_eq!(rig.sends(&v6(own, ALL, 60, 255, &behind)), built_in(Reason::Neighbour));
    });
}

#[test]
fn a_pod_advertises_its_own_addresses_only() {
    Rig::run("corners_link", |rig| {
        let own = pod6(OWN).octets();
        for (target, expected) in
            [(own, Reason::Neighbour), (pod6(FRIEND).octets(), Reason::Spoof), (STRANGER6, Reason::Spoof)]
        {
            let frame = v6(own, ALL, 58, 255, &discovery(136, target, 8));
            assert_eq!(rig.sends(&frame), built_in(expected));
        }
        rig.any_source(OWN);
        let frame = v6(own, ALL, 58, 255, &discovery(136, STRANGER6, 8));
        assert_eq!(rig.sends(&frame), built_in(Reason::Neighbour), "a pod that may send from any address");
    });
}

#[test]
fn neighbour_discovery_is_no_way_out_of_the_link() {
    Rig::run("corners_link", |rig| {
        let own = pod6(OWN).octets();
        let denied = rig.row(Egress, STRANGERS6, port::ICMP);
        // A neighbour may be asked whether it is there, and told where the pod is.
        for (kind, target) in [(135, STRANGER6), (136, own)] {
            let frame = v6(own, STRANGER6, 58, 255, &discovery(kind, target, 8));
            assert_eq!(rig.sends(&frame), built_in(Reason::Neighbour), "type {kind}");
            let long = v6(own, STRANGER6, 58, 255, &discovery(kind, target, 40));
            assert_eq!(rig.sends(&long), denied, "type {kind} with room for a message");
        }
        // A question about another address, a search for routers: not to a neighbour.
        for (kind, target) in [(135, pod6(FRIEND).octets()), (133, [0; 16])] {
            assert_eq!(rig.sends(&v6(own, STRANGER6, 58, 255, &discovery(kind, target, 8))), denied);
        }
        // Multicast that routers may pass on.
        let mut global = ALL;
        global[1] = 0x0e;
        assert_eq!(rig.sends(&v6(own, global, 58, 255, &discovery(133, [0; 16], 8))), denied);
    });
}

#[test]
fn no_pod_is_a_router() {
    Rig::run("corners_link", |rig| {
        for pod in [OWN, FRIEND, OPEN] {
            let (own, interface) = (pod6(pod).octets(), rig.interfaces[pod]);
            for source in [own, GATEWAY] {
                for (kind, hops) in [(134, 255), (134, 64), (137, 255), (137, 1)] {
                    let frame = v6(source, ALL, 58, hops, &discovery(kind, STRANGER6, 8));
                    assert_eq!(rig.judge(pod, Egress, interface, &frame), built_in(Reason::Router), "{kind}");
                    // RFC 7113: hidden behind an extension header.
                    let behind = [extension(58, [1, 4, 0, 0, 0, 0]), icmp(kind, 0, 0, &[0; 16])].concat();
                    let frame = v6(source, ALL, 0, hops, &behind);
                    assert_eq!(rig.judge(pod, Egress, interface, &frame), built_in(Reason::Router), "{kind}");
                }
            }
            for kind in [5, 9] {
                let frame = v4(POD[pod].octets(), STRANGER, 1).frame(&icmp(kind, 1, 0, &[0; 28]));
                assert_eq!(
                    rig.judge(pod, Egress, interface, &frame),
                    built_in(Reason::Router),
                    "IPv4 {kind}"
                );
            }
        }
        // The pod hears its router, and what the router says of a better way.
        for kind in [134, 137] {
            let frame = v6(GATEWAY, pod6(OWN).octets(), 58, 255, &discovery(kind, STRANGER6, 8));
            assert_eq!(rig.gets(&frame), built_in(Reason::Neighbour), "type {kind}");
        }
    });
}

#[test]
fn group_membership_passes_on_the_link_only() {
    Rig::run("corners_link", |rig| {
        let own = pod6(OWN).octets();
        let mut routers = ALL;
        routers[15] = 0x16;
        for kind in [130, 131, 132, 143] {
            let report = [extension(58, [5, 2, 0, 0, 0, 0]), icmp(kind, 0, 0, &[0; 16])].concat();
            for source in [own, [0; 16]] {
                let frame = v6(source, routers, 0, 1, &report);
                assert_eq!(rig.sends(&frame), built_in(Reason::MulticastControl), "type {kind}");
            }
            let frame = v6(own, STRANGER6, 0, 64, &report);
            assert_eq!(
                rig.sends(&frame),
                rig.row(Egress, STRANGERS6, port::ICMP),
                "type {kind} further away"
            );
            let frame = v6(GATEWAY, ALL, 0, 1, &report);
            assert_eq!(rig.gets(&frame), built_in(Reason::MulticastControl), "type {kind}");
        }
        let igmp = |ttl, destination| {
            V4 { ttl, ..v4(POD[OWN].octets(), destination, 2) }.frame(&[0x22, 0, 0, 0, 0, 0, 0, 0])
        };
        assert_eq!(rig.sends(&igmp(1, [224, 0, 0, 22])), built_in(Reason::MulticastControl));
        for (ttl, destination) in [(64, [224, 0, 0, 22]), (1, STRANGER)] {
            let said = rig.sends(&igmp(ttl, destination));
            assert_eq!((said.allow, said.reason), (false, Reason::Row));
        }
    });
}

#[test]
fn a_pod_sends_from_its_own_addresses_only() {
    Rig::run("corners_link", |rig| {
        for pod in [OWN, FRIEND, OPEN] {
            let interface = rig.interfaces[pod];
            for source in [POD[(pod + 1) % 3].octets(), STRANGER, [127, 0, 0, 1]] {
                let frame = v4(source, [10, 1, 2, 3], 17).frame(&udp(40_000, 53));
                assert_eq!(rig.judge(pod, Egress, interface, &frame), built_in(Reason::Spoof), "{source:?}");
            }
            for source in [pod6((pod + 1) % 3).octets(), STRANGER6] {
                let frame = v6(source, STRANGER6, 17, 64, &udp(40_000, 53));
                assert_eq!(rig.judge(pod, Egress, interface, &frame), built_in(Reason::Spoof), "{source:?}");
            }
            // No address at all speaks to many (DHCP), never to one.
            let unspecified = |destination| v4([0; 4], destination, 17).frame(&udp(68, 67));
            let said = rig.judge(pod, Egress, interface, &unspecified([255; 4]));
            assert_ne!(said.reason, Reason::Spoof, "DHCP of pod {pod}");
            let said = rig.judge(pod, Egress, interface, &unspecified(POD[(pod + 1) % 3].octets()));
            assert_eq!(said, built_in(Reason::Spoof), "pod {pod}");
            let frame = v6([0; 16], pod6((pod + 1) % 3).octets(), 17, 64, &udp(40_000, 53));
            assert_eq!(rig.judge(pod, Egress, interface, &frame), built_in(Reason::Spoof), "pod {pod}");
        }
        let forged = v4(STRANGER, POD[FRIEND].octets(), 6).frame(&tcp(40_000, 443, SYN));
        rig.any_source(OWN);
        assert_eq!(rig.sends(&forged), rig.row(Egress, FRIENDS, port::TCP_443), "the opt-out");
    });
}

#[test]
fn an_echo_is_judged_as_everything_without_ports() {
    Rig::run("corners_link", |rig| {
        let ping = from_friend6(58, &icmp(128, 0, 5, &[0; 8]));
        assert_eq!(rig.gets(&ping), rig.row(Ingress, FRIENDS, port::ICMP), "ICMPv6 is no exemption");
        rig.set(Ingress, FRIENDS, port::ICMP, true);
        assert_eq!(rig.gets(&ping), rig.row(Ingress, FRIENDS, port::ICMP));
        let pong = v6(pod6(OWN).octets(), pod6(FRIEND).octets(), 58, 64, &icmp(129, 0, 5, &[0; 8]));
        assert_eq!(rig.sends(&pong), built_in(Reason::Flow));
        let other = v6(pod6(OWN).octets(), pod6(FRIEND).octets(), 58, 64, &icmp(129, 0, 6, &[0; 8]));
        assert_eq!(rig.sends(&other), rig.row(Egress, FRIENDS, port::ICMP), "an answer to nothing");
    });
}
