//! Packets arrive where they should, and what becomes of them is told truly.

use std::io::Write;
use std::net::{IpAddr, TcpListener, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use netlab_lab::traffic::{Flow, Outcome, Packet, Sent, Wait, protocol, send};
use netlab_lab::{Lab, Place};

use crate::cluster::{Families, OUTSIDE_V4, OUTSIDE_V6, address, ip, key, lab, node, plan, pod};
use crate::process::lab_process;
use crate::require;

const SHORT: Duration = Duration::from_millis(150);
const LONG: Duration = Duration::from_secs(5);

fn packet(lab: &Lab, from: &Place, to: &Place, ipv6: bool, protocol: u8) -> Packet {
    let has_port = matches!(protocol, protocol::TCP | protocol::UDP | protocol::SCTP);
    Packet {
        from: from.clone(),
        to: to.clone(),
        source: address(lab, from, ipv6),
        destination: address(lab, to, ipv6),
        protocol,
        port: if has_port { 5432 } else { 0 },
        source_port: None,
    }
}

fn go(lab: &Lab, packet: &Packet, timeout: Duration) -> Sent {
    send(lab, packet, &Wait::for_at_most(timeout)).expect("send")
}

/// Makes a namespace refuse or swallow an address, without any firewall.
fn block(lab: &Lab, place: &Place, kind: &str, address: IpAddr) {
    let output = lab
        .netns(place)
        .expect("netns")
        .run(|| {
            std::process::Command::new("ip")
                .args(["route", "replace", kind, &address.to_string()])
                .output()
                .expect("ip")
        })
        .expect("run");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn everything_reaches_everything_in_both_families() {
    if !require::netns() {
        return;
    }
    let lab = lab(Families::Both);
    let pairs = [
        ("same node", pod("web"), pod("api")),
        ("across nodes", pod("web"), pod("db")),
        ("odd address", pod("web"), pod("odd")),
        ("out", pod("web"), Place::Fabric),
        ("in", Place::Fabric, pod("db")),
        ("own node to pod", node("node-1"), pod("web")),
        ("other node to pod", node("node-2"), pod("web")),
        ("pod to own node", pod("web"), node("node-1")),
        ("pod to other node", pod("web"), node("node-2")),
        ("hostNetwork pod", pod("web"), pod("agent")),
        ("itself", pod("web"), pod("web")),
    ];
    for (name, from, to) in &pairs {
        for ipv6 in [false, true] {
            let icmp = if ipv6 { protocol::ICMPV6 } else { protocol::ICMP };
            for protocol in [protocol::TCP, protocol::UDP, protocol::SCTP, icmp, 253] {
                let sent = go(&lab, &packet(&lab, from, to, ipv6, protocol), LONG);
                assert!(sent.reached && sent.answered(), "{name}, IPv6 {ipv6}, protocol {protocol}: {sent}");
            }
        }
    }
}

#[test]
fn one_family_alone_works() {
    if !require::netns() {
        return;
    }
    for (families, ipv6) in [(Families::V4, false), (Families::V6, true)] {
        let lab = lab(families);
        for (from, to) in [(pod("web"), pod("db")), (node("node-1"), pod("web")), (pod("api"), Place::Fabric)]
        {
            let sent = go(&lab, &packet(&lab, &from, &to, ipv6, protocol::TCP), LONG);
            assert!(sent.reached && sent.answered(), "{families:?} {from} -> {to}: {sent}");
        }
    }
}

#[test]
fn a_silent_destination_is_waited_for_and_no_longer() {
    if !require::netns() {
        return;
    }
    let lab = lab(Families::V4);
    // node-1 swallows what goes to api.
    block(&lab, &node("node-1"), "blackhole", address(&lab, &pod("api"), false));
    for protocol in [protocol::TCP, protocol::UDP, protocol::SCTP, protocol::ICMP] {
        let start = Instant::now();
        let sent = go(&lab, &packet(&lab, &pod("web"), &pod("api"), false, protocol), SHORT);
        assert!(matches!(sent.outcome, Outcome::Silent), "{protocol}: {sent}");
        assert!(!sent.reached && !sent.woken && sent.rtt.is_none(), "{protocol}: {sent}");
        assert!(start.elapsed() >= SHORT && start.elapsed() < SHORT * 6);
    }
}

#[test]
fn an_answer_that_is_lost_is_told_from_a_packet_that_is_lost() {
    if !require::netns() {
        return;
    }
    let lab = lab(Families::V4);
    // db's answers die on its own node, the packets to db do not.
    block(&lab, &node("node-2"), "blackhole", address(&lab, &pod("web"), false));
    for protocol in [protocol::TCP, protocol::UDP, protocol::SCTP, protocol::ICMP] {
        let sent = go(&lab, &packet(&lab, &pod("web"), &pod("db"), false, protocol), SHORT);
        assert!(sent.reached && !sent.answered(), "{protocol}: {sent}");
    }
}

#[test]
fn an_icmp_error_says_what_and_from_whom() {
    if !require::netns() {
        return;
    }
    let lab = lab(Families::Both);
    for (ipv6, kind, code) in [(false, 3, 13), (true, 1, 1)] {
        let api = address(&lab, &pod("api"), ipv6);
        block(&lab, &node("node-1"), "prohibit", api);
        for protocol in [protocol::TCP, protocol::UDP, protocol::SCTP] {
            let sent = go(&lab, &packet(&lab, &pod("web"), &pod("api"), ipv6, protocol), LONG);
            let Outcome::Unreachable(error) = &sent.outcome else { panic!("{ipv6} {protocol}: {sent}") };
            assert_eq!((error.kind, error.code), (kind, code), "{ipv6} {protocol}");
            assert!(error.from.is_some() && !sent.reached);
        }
    }
}

#[test]
fn a_packet_that_cannot_leave_says_why() {
    if !require::netns() {
        return;
    }
    let lab = lab(Families::V4);
    block(&lab, &pod("web"), "prohibit", address(&lab, &pod("db"), false));
    for protocol in [protocol::TCP, protocol::UDP, protocol::SCTP] {
        let sent = go(&lab, &packet(&lab, &pod("web"), &pod("db"), false, protocol), LONG);
        let Outcome::NotSent(error) = &sent.outcome else { panic!("{protocol}: {sent}") };
        assert_eq!(error.raw_os_error(), Some(libc::EACCES), "{protocol}");
    }
}

#[test]
fn a_wake_up_ends_the_wait_at_once_and_the_flow_goes_on() {
    if !require::netns() {
        return;
    }
    let lab = lab(Families::V4);
    block(&lab, &node("node-1"), "blackhole", address(&lab, &pod("api"), false));
    let (reader, writer) = std::io::pipe().expect("pipe");
    let (reader, writer) = (OwnedFd::from(reader), OwnedFd::from(writer));
    let mut flow =
        Flow::open(&lab, &packet(&lab, &pod("web"), &pod("api"), false, protocol::TCP)).expect("open");
    flow.send().expect("send");
    let wait = Wait::for_at_most(LONG).or_until_readable(reader.as_fd());
    let start = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(20));
            nix::unistd::write(&writer, b"x").expect("write");
        });
        let sent = flow.wait(&wait).expect("wait");
        assert!(sent.woken && !sent.is_final(), "{sent}");
    });
    assert!(start.elapsed() < LONG / 2);
    nix::unistd::read(&reader, &mut [0; 8]).expect("read");
    let sent = flow.wait(&Wait { timeout: SHORT, wake: Some(reader.as_fd()) }).expect("wait");
    assert!(!sent.woken && matches!(sent.outcome, Outcome::Silent), "{sent}");
}

#[test]
fn a_flow_sends_one_syn_within_the_first_second() {
    if !require::netns() {
        return;
    }
    let lab = lab(Families::V4);
    block(&lab, &node("node-2"), "blackhole", address(&lab, &pod("db"), false));
    let out = |lab: &Lab| {
        let text = lab
            .pod(&key("web"))
            .expect("web")
            .run(|| std::fs::read_to_string("/proc/thread-self/net/snmp").expect("snmp"))
            .expect("run");
        let tcp: Vec<Vec<&str>> =
            text.lines().filter(|line| line.starts_with("Tcp:")).map(|l| l.split(' ').collect()).collect();
        let column = tcp[0].iter().position(|name| *name == "OutSegs").expect("OutSegs");
        tcp[1][column].parse::<u64>().expect("number")
    };
    let before = out(&lab);
    let mut flow =
        Flow::open(&lab, &packet(&lab, &pod("web"), &pod("db"), false, protocol::TCP)).expect("open");
    assert_eq!(out(&lab), before, "opening sends nothing");
    flow.send().expect("send");
    flow.wait(&Wait::for_at_most(Duration::from_millis(800))).expect("wait");
    drop(flow);
    assert_eq!(out(&lab), before + 1);
}

#[test]
fn a_port_that_is_taken_is_no_obstacle() {
    if !require::netns() {
        return;
    }
    let lab = lab(Families::V4);
    let db = address(&lab, &pod("db"), false);
    let taken = lab
        .pod(&key("db"))
        .expect("db")
        .run(|| {
            let tcp = TcpListener::bind(("0.0.0.0", 5432)).expect("tcp");
            let udp = UdpSocket::bind((db, 5432)).expect("udp");
            (tcp, udp)
        })
        .expect("run");
    let sent = go(&lab, &packet(&lab, &pod("web"), &pod("db"), false, protocol::TCP), LONG);
    assert!(sent.reached && sent.answered(), "{sent}");
    // The one who has the UDP port does not answer.
    let sent = go(&lab, &packet(&lab, &pod("web"), &pod("db"), false, protocol::UDP), SHORT);
    assert!(sent.reached && !sent.answered(), "{sent}");
    drop(taken);
}

#[test]
fn a_closed_port_refuses_after_the_packet_has_arrived() {
    if !require::netns() {
        return;
    }
    let lab = lab(Families::Both);
    for ipv6 in [false, true] {
        for protocol in [protocol::TCP, protocol::UDP] {
            let packet = packet(&lab, &pod("web"), &pod("db"), ipv6, protocol);
            let mut flow = Flow::open_to_closed_port(&lab, &packet).expect("open");
            flow.send().expect("send");
            let sent = flow.wait(&Wait::for_at_most(LONG)).expect("wait");
            assert!(sent.reached && !sent.answered(), "{ipv6} {protocol}: {sent}");
            match &sent.outcome {
                Outcome::Refused => assert_eq!(protocol, protocol::TCP),
                Outcome::Unreachable(error) => {
                    let expected = if ipv6 { (1, 4) } else { (3, 3) };
                    assert_eq!(
                        (error.kind, error.code, error.from),
                        (expected.0, expected.1, Some(packet.destination))
                    );
                    assert_eq!(protocol, protocol::UDP);
                }
                _ => panic!("{ipv6} {protocol}: {sent}"),
            }
        }
    }
}

#[test]
fn a_second_datagram_goes_the_same_way() {
    if !require::netns() {
        return;
    }
    let lab = lab(Families::V4);
    for protocol in [protocol::UDP, protocol::SCTP, protocol::ICMP] {
        let mut flow =
            Flow::open(&lab, &packet(&lab, &pod("web"), &pod("db"), false, protocol)).expect("open");
        let port = flow.source_port();
        for _ in 0..3 {
            flow.send().expect("send");
            let sent = flow.wait(&Wait::for_at_most(LONG)).expect("wait");
            assert!(sent.reached && sent.answered(), "{protocol}: {sent}");
            assert_eq!(sent.source_port, port);
        }
    }
}

#[test]
fn packets_travel_in_a_lab_without_privilege_too() {
    let usable = netlab_node::capability::try_user_namespace().map_err(|error| error.to_string());
    if !require::met("userns", usable) {
        return;
    }
    let mut child = lab_process()
        .arg("send")
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("spawn");
    let order = serde_json::to_vec(&plan(Families::Both)).expect("json");
    child.stdin.take().expect("stdin").write_all(&order).expect("order");
    let output = child.wait_with_output().expect("wait");
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    assert_eq!(text.lines().count(), 10, "{text}");
    for line in text.lines() {
        assert!(line.contains("reached, answered"), "{text}");
    }
}

#[test]
fn source_ports_are_told_before_sending_and_can_be_chosen() {
    if !require::netns() {
        return;
    }
    let lab = lab(Families::V4);
    for protocol in [protocol::TCP, protocol::UDP, protocol::SCTP, protocol::ICMP] {
        let mut packet = packet(&lab, &pod("web"), &pod("api"), false, protocol);
        let flow = Flow::open(&lab, &packet).expect("open");
        assert_ne!(flow.source_port(), 0);
        drop(flow);
        packet.source_port = Some(40_123);
        let mut flow = Flow::open(&lab, &packet).expect("open");
        flow.send().expect("send");
        let sent = flow.wait(&Wait::for_at_most(LONG)).expect("wait");
        assert_eq!(sent.source_port, 40_123);
        assert!(sent.reached && sent.answered(), "{protocol}: {sent}");
    }
}

#[test]
fn a_forged_source_arrives_and_gets_no_answer() {
    if !require::netns() {
        return;
    }
    let lab = lab(Families::Both);
    for (ipv6, forged) in [(false, OUTSIDE_V4), (true, OUTSIDE_V6)] {
        let mut packet = packet(&lab, &pod("web"), &pod("api"), ipv6, protocol::UDP);
        packet.source = ip(forged);
        let sent = go(&lab, &packet, SHORT);
        assert!(sent.reached && !sent.answered(), "{forged}: {sent}");
    }
}

#[test]
fn an_established_connection_carries_bytes_both_ways() {
    if !require::netns() {
        return;
    }
    let lab = lab(Families::V6);
    let mut flow =
        Flow::open(&lab, &packet(&lab, &pod("web"), &pod("db"), true, protocol::TCP)).expect("open");
    flow.send().expect("send");
    assert!(flow.wait(&Wait::for_at_most(LONG)).expect("wait").answered());
    assert!(flow.relay(false, LONG));
    assert!(flow.relay(true, LONG));
    block(&lab, &node("node-2"), "blackhole", address(&lab, &pod("web"), true));
    assert!(!flow.relay(true, SHORT), "answers die on the way");
}

#[test]
fn nonsense_is_refused_before_anything_is_sent() {
    if !require::netns() {
        return;
    }
    let lab = lab(Families::Both);
    let mut mixed = packet(&lab, &pod("web"), &pod("api"), false, protocol::TCP);
    mixed.destination = ip("fd00:1::6");
    let error = send(&lab, &mixed, &Wait::for_at_most(SHORT)).expect_err("mixed");
    assert_eq!(
        error.to_string(),
        "cannot send such a packet: 10.244.1.5 and fd00:1::6 are of different families"
    );
    let mut nowhere = packet(&lab, &pod("web"), &pod("api"), false, protocol::TCP);
    nowhere.to = pod("nobody");
    let error = send(&lab, &nowhere, &Wait::for_at_most(SHORT)).expect_err("nowhere");
    assert_eq!(error.to_string(), "this lab has no pod/shop/nobody");
}
