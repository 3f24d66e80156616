//! Real packets, where the state of the kernel matters: tags that it takes off, sockets that a pod holds, tables under
//! pressure, programs of others.

use std::io::{Read, Write};
use std::net::{Ipv6Addr, SocketAddr, TcpListener, TcpStream};

use netlab_ebpf::abi::{Direction, Event, PolicyValue};
use netlab_ebpf::reason::Reason;
use netlab_enforcer::attach::Attached;
use netlab_enforcer::{Datapath, LoadOptions};
use netlab_node::netlink::Netlink;

use super::bpf_frames::{ethernet, icmp, tcp, udp, v4, v6_packet};
use super::bpf_require::datapath;
use super::bpf_wire::{IMPATIENCE, PATIENCE, Wire, address_frame, bound, connect, exchange};
use super::bpf_world::{POD, device, pod6};

/// Puts another pod under enforcement too.
pub(crate) fn claim(wire: &Wire, pod: usize) -> Attached {
    let netns = Netlink::open_in(&wire.site.node).expect("netlink").netns_id(&wire.site.pods[pod]);
    let record = device(pod, 1, netns.expect("netns id"));
    wire.datapath.policy().devices.set(wire.site.interfaces[pod], &record).expect("device");
    let attach = || wire.datapath.attach(&format!("pod{pod}"));
    wire.site.node.run(attach).expect("inside the node").expect("attached")
}

pub(crate) fn counted(wire: &Wire, reason: Reason) -> u64 {
    wire.datapath.state().counters.get(reason.entry()).expect("counter")
}

/// The reason and verdict of an event.
pub(crate) fn told(event: &Event) -> (Reason, bool) {
    (Reason::from_u8(event.reason).expect("a reason"), event.verdict == PolicyValue::ALLOW)
}

/// A frame with VLAN tags of these numbers before its type.
fn tag(frame: &[u8], numbers: &[u16]) -> Vec<u8> {
    let mut tagged = frame[..12].to_vec();
    for number in numbers {
        tagged.extend([0x81, 0]);
        tagged.extend(number.to_be_bytes());
    }
    tagged.extend(&frame[12..]);
    tagged
}

#[test]
fn a_tag_hides_no_forged_source_and_no_router() {
    let Some(mut wire) = Wire::new("corners_wire") else { return };
    // Isolated both ways; for ingress only; not at all.
    let _attached = [claim(&wire, 0), claim(&wire, 1), claim(&wire, 2)];
    let mut port = 20_000;
    for pod in [0, 1, 2] {
        let source = |own: bool| POD[if own { pod } else { (pod + 1) % 3 }].octets();
        let passes = match pod {
            2 => (Reason::NotIsolatedEgress, true),
            1 => (Reason::Row, true),
            // Whatever the row says.
            _ => (Reason::Row, super::bpf_world::allows(Direction::Egress, 6, 7)),
        };
        let spoof = (Reason::Spoof, false);
        let frame = (Reason::Frame, false);
        let in_a_vlan = if pod == 0 { frame } else { passes };
        for (tags, own, expected) in [
            // VLAN 0 is a priority and no VLAN: the kernel takes it off and routes the packet.
            (&[0][..], true, passes),
            (&[0], false, spoof),
            (&[0, 0], true, frame),
            (&[0, 0], false, frame),
            (&[5], true, in_a_vlan),
            (&[5], false, if pod == 0 { frame } else { spoof }),
            (&[5, 5], true, frame),
        ] {
            port += 1;
            let mut sent = v4(source(own), [192, 0, 2, 9], 17).frame(&udp(port, port));
            address_frame(&mut sent, pod);
            wire.send(pod, &tag(&sent, tags));
            let interface = wire.site.interfaces[pod];
            // Tags that stand hide the ports, and what plainly passes an open pod is not read at all.
            let event = wire.event(|event| {
                let here = event.ifindex == interface && event.direction == Direction::Egress as u8;
                here && (event.source_port == port || (event.source_port, event.protocol) == (0, 0))
            });
            assert_eq!(told(&event), expected, "pod {pod}, tags {tags:?}, own source {own}");
        }
        let all = [0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
        let advertisement = v6_packet(pod6(pod).octets(), all, 58, 255, &icmp(134, 0, 0, &[0; 8]));
        let mut sent = ethernet(0x86dd, &advertisement);
        address_frame(&mut sent, pod);
        for tags in [&[][..], &[0]] {
            wire.send(pod, &tag(&sent, tags));
            let event = wire.event(|event| event.reason == Reason::Router as u8);
            assert_eq!(
                (told(&event), event.pod),
                ((Reason::Router, false), 101 + u32::try_from(pod).expect("few"))
            );
        }
    }
}

#[test]
fn connections_older_than_the_program_live_on_in_ipv6_and_through_sockets_of_both_families() {
    let Some(mut wire) = Wire::new("corners_wire") else { return };
    let listen = |address: SocketAddr| bound(&wire.site.pods[0], || TcpListener::bind(address));
    // One socket for both families: to the kernel its IPv4 connections are IPv6 ones with mapped addresses.
    let both = listen(SocketAddr::from((Ipv6Addr::UNSPECIFIED, 5432)));
    let connect6 = |from: usize, to: usize, port: u16| {
        let address = SocketAddr::from((pod6(to), port));
        let stream = wire.site.pods[from].run(|| TcpStream::connect_timeout(&address, PATIENCE));
        stream.expect("inside the pod").expect("not enforced yet")
    };
    let mut four = connect(&wire.site.pods[1], 0, 5432, PATIENCE).expect("not enforced yet");
    let (mut four_accepted, _) = both.accept().expect("accepted");
    let mut six = connect6(1, 0, 5432);
    let (mut six_accepted, _) = both.accept().expect("accepted");
    // And one that is denied in the way it was opened.
    let denied = listen(SocketAddr::from((Ipv6Addr::UNSPECIFIED, 8000)));
    let mut revoked = connect6(1, 0, 8000);
    let (_revoked_accepted, _) = denied.accept().expect("accepted");
    let _attached = wire.attach();
    exchange(&mut four_accepted, &mut four);
    exchange(&mut six_accepted, &mut six);
    assert!(counted(&wire, Reason::Midflow) >= 2);
    let state = wire.datapath.state();
    let opened = |opener: u8| opener == Direction::Ingress as u8;
    assert!(state.conntrack4.entries().expect("flows").iter().any(|(_, flow)| opened(flow.opener)));
    assert!(state.conntrack6.entries().expect("flows").iter().any(|(_, flow)| opened(flow.opener)));
    revoked.write_all(b"x").expect("into the socket");
    let event = wire.event(|event| event.destination_port == 8000);
    assert_eq!(told(&event), (Reason::Row, false));
    // A forged segment of a connection that nobody has, and one to the listener.
    for (source, destination) in [(443, 8001), (40_000, 8000)] {
        let packet = v6_packet(pod6(1).octets(), pod6(0).octets(), 6, 64, &tcp(source, destination, 0x10));
        let mut frame = ethernet(0x86dd, &packet);
        address_frame(&mut frame, 1);
        wire.send(1, &frame);
        let event = wire.event(|event| (event.source_port, event.destination_port) == (source, destination));
        assert_eq!(told(&event), (Reason::Row, false), "{source} {destination}");
    }
}

#[test]
fn a_flood_of_new_flows_costs_an_established_connection_nothing() {
    let Some(mut wire) = Wire::new("corners_wire") else { return };
    let _attached = wire.attach();
    let listener = wire.listen(0, 5432);
    let mut client = connect(&wire.site.pods[1], 0, 5432, PATIENCE).expect("allowed");
    let (mut server, _) = listener.accept().expect("accepted");
    exchange(&mut client, &mut server);
    let port = client.local_addr().expect("bound").port();
    let (to, ingress) = (wire.site.interfaces[0], wire.site.interfaces[1]);
    let remembered = |datapath: &Datapath| {
        let flows = datapath.state().conntrack4.entries().expect("flows");
        flows.iter().any(|(key, _)| key.remote_port == port)
    };
    assert!(remembered(&wire.datapath));
    // The table keeps what is used: each flow of the flood is used once more after it was opened. It also keeps what
    // another CPU wrote last, for as long as that CPU writes nothing more: then we evict it ourselves.
    let Wire { site, datapath } = &mut wire;
    let flood = || {
        for number in (1_024..9_216).filter(|number| *number != port) {
            for flags in [2, 0x10] {
                let frame = v4(POD[1].octets(), POD[0].octets(), 6).frame(&tcp(number, 5432, flags));
                assert!(datapath.test_run(Direction::Ingress, &frame, to, ingress).expect("run").allow);
            }
        }
    };
    site.node.run(flood).expect("inside the node");
    let flows = &wire.datapath.state().conntrack4;
    for (key, _) in flows.entries().expect("flows") {
        if key.remote_port == port {
            flows.remove(&key).expect("removed");
        }
    }
    assert!(!remembered(&wire.datapath));
    let before = counted(&wire, Reason::Midflow);
    // The answering side first: its segments are denied by their own row and found by their socket.
    exchange(&mut server, &mut client);
    assert!(counted(&wire, Reason::Midflow) > before);
    assert!(remembered(&wire.datapath), "and it is remembered again");
}

#[test]
fn neighbours_are_found_by_an_isolated_pod_and_of_it() {
    let Some(wire) = Wire::new("corners_wire") else { return };
    let _attached = wire.attach();
    // Nobody knows anybody's hardware address any more.
    let forget = |dev: &str| {
        let mut command = std::process::Command::new("ip");
        command.args(["neigh", "flush", "nud", "permanent", "dev", dev]).status()
    };
    if !wire.site.node.run(|| forget("pod0")).expect("inside the node").is_ok_and(|status| status.success()) {
        eprintln!("corners_wire: skipped, no ip command");
        return;
    }
    let before = counted(&wire, Reason::Neighbour);
    let listener = wire.listen(0, 8000);
    let _client = connect(&wire.site.node, 0, 8000, PATIENCE).expect("the node asks by ARP");
    drop(listener);
    let listener = bound(&wire.site.pods[0], || TcpListener::bind(SocketAddr::from((pod6(0), 8001))));
    let open = || TcpStream::connect_timeout(&SocketAddr::from((pod6(0), 8001)), PATIENCE);
    wire.site.node.run(open).expect("inside the node").expect("the node asks by solicitation");
    drop(listener);
    assert!(counted(&wire, Reason::Neighbour) >= before + 4, "a question and an answer each");
    assert_eq!(counted(&wire, Reason::Spoof), 0);
}

#[test]
fn an_allowed_packet_goes_on_to_the_programs_of_others() {
    let Some(wire) = Wire::new("corners_wire") else { return };
    let Some(other) = datapath("corners_wire", &LoadOptions::LAB) else { return };
    // Somebody else's program, here another instance that drops everything because it knows no pod; ours comes first.
    let _others = wire.site.node.run(|| other.attach("pod0")).expect("inside the node").expect("attached");
    let _attached = wire.attach();
    let seen = || other.state().counters.get(Reason::NotReady.entry()).expect("counter");
    let _listener = wire.listen(0, 5432);
    let before = seen();
    connect(&wire.site.pods[1], 0, 5432, IMPATIENCE).expect_err("dropped behind us");
    assert!(seen() > before, "what we allow is the others' to judge");
    // What we deny is not: of many frames, next to none is seen behind us (others come by meanwhile).
    let before = seen();
    let mut frame = v4(POD[2].octets(), POD[1].octets(), 17).frame(&udp(40_000, 9_999));
    address_frame(&mut frame, 0);
    let spoofed = counted(&wire, Reason::Spoof);
    for _ in 0..100 {
        wire.send(0, &frame);
    }
    assert_eq!(counted(&wire, Reason::Spoof), spoofed + 100);
    assert!(seen() < before + 50);
}

#[test]
fn what_the_other_side_says_after_a_deny_does_not_arrive() {
    let Some(wire) = Wire::new("corners_wire") else { return };
    let attached = wire.attach();
    let listener = wire.listen(0, 5432);
    let mut client = connect(&wire.site.pods[1], 0, 5432, PATIENCE).expect("allowed");
    let (mut server, _) = listener.accept().expect("accepted");
    exchange(&mut client, &mut server);
    let key = netlab_ebpf::abi::PolicyKey::new(1, Direction::Ingress, 2, 2);
    let policy = &wire.datapath.policy().policy;
    let value = policy.get(&key).expect("readable").expect("a row");
    policy.set(&key, &PolicyValue { verdict: PolicyValue::DENY, ..value }).expect("written");
    wire.datapath.policy().devices.set_word(attached.ifindex(), device(0, 2, -1).word).expect("word");
    client.write_all(b"late").expect("into the socket");
    server.set_read_timeout(Some(IMPATIENCE)).expect("timeout");
    assert!(server.read(&mut [0; 4]).is_err(), "the opener's next packet");
    let denied = wire.datapath.state().counters.get(value.entry).expect("counter");
    assert!(denied > 1, "counted by the row that denies, which had allowed the opening");
}
