//! The pod's own node, and everything that only bears its address: datagrams in pieces, masqueraded strangers,
//! translated connections, rejections that the node makes up, a bridge between pods.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::time::Duration;

use netlab_ebpf::abi::{Direction, Event, PolicyKey, PolicyValue, mapped};
use netlab_ebpf::conntrack::NODE;
use netlab_ebpf::reason::Reason;
use netlab_enforcer::{Datapath, LoadOptions};
use netlab_node::Netns;

use super::bpf_require::datapath;
use super::bpf_wire::{IMPATIENCE, PATIENCE, Wire, bound, connect, exchange};
use super::bpf_world::{POD, Site, device, image, pod6, write};
use super::corners_buffers::whole;

/// The node's own address, on the pod's interface.
const NODE_ADDRESS: [u8; 4] = [10, 0, 0, 254];
/// An address that is nobody's but a translation's.
const VIRTUAL: [u8; 4] = [10, 96, 0, 1];

/// Runs a tool in a namespace. False, with a word, when it is not there.
fn tool(place: &Netns, line: &str) -> bool {
    let words: Vec<&str> = line.split(' ').collect();
    let (name, arguments) = words.split_first().expect("a command");
    let run = || Command::new(name).args(arguments).status();
    match place.run(run).expect("inside the namespace") {
        Ok(status) => {
            assert!(status.success(), "{line}");
            true
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let required = std::env::var("NETLAB_TEST_REQUIRE").unwrap_or_default();
            assert!(!required.split(',').any(|word| word == *name), "{name} is required");
            eprintln!("corners_node: skipped, no {name} command");
            false
        }
        Err(error) => panic!("{line}: {error}"),
    }
}

/// nftables rules in the node; each line is a command.
fn rules(wire: &Wire, lines: &[&str]) -> bool {
    lines.iter().all(|line| tool(&wire.site.node, &format!("nft {line}")))
}

fn counted(datapath: &Datapath, reason: Reason) -> u64 {
    datapath.state().counters.get(reason.entry()).expect("counter")
}

fn told(event: &Event) -> (Reason, bool) {
    (Reason::from_u8(event.reason).expect("a reason"), event.verdict == PolicyValue::ALLOW)
}

fn socket(place: &Netns, address: &str) -> UdpSocket {
    let socket = bound(place, || UdpSocket::bind(address));
    socket.set_read_timeout(Some(PATIENCE)).expect("timeout");
    socket
}

#[test]
fn what_the_node_sends_in_pieces_is_the_nodes_and_so_is_the_answer() {
    let Some(wire) = Wire::new("corners_node") else { return };
    let _attached = wire.attach();
    let to: [(&str, SocketAddr); 2] = [("0.0.0.0:0", (POD[0], 99).into()), ("[::]:0", (pod6(0), 99).into())];
    for (any, to) in to {
        let server = socket(&wire.site.pods[0], &any.replace(":0", ":99").replace("[::99]", "[::]"));
        let client = socket(&wire.site.node, any);
        let before = counted(&wire.datapath, Reason::Node);
        whole(&client, &server, to);
        assert!(counted(&wire.datapath, Reason::Node) >= before + 4, "each piece is the node's");
    }
    let flows = wire.datapath.state().conntrack4.entries().expect("flows");
    assert!(flows.iter().any(|(_, flow)| flow.state & NODE != 0));
}

#[test]
fn a_masqueraded_stranger_is_not_the_node_and_the_node_is_at_its_own_node_port() {
    let Some(mut wire) = Wire::new("corners_node") else { return };
    let lines = [
        "add table ip t",
        "add chain ip t d { type nat hook prerouting priority -100; }",
        "add chain ip t o { type nat hook output priority -100; }",
        "add chain ip t s { type nat hook postrouting priority 100; }",
        "add rule ip t d ip daddr 10.0.0.254 tcp dport 30080 dnat to 10.0.0.1:8000",
        "add rule ip t o ip daddr 10.0.0.254 tcp dport 30080 dnat to 10.0.0.1:8000",
        "add rule ip t s oifname pod0 masquerade",
    ];
    if !rules(&wire, &lines) {
        return;
    }
    let _attached = wire.attach();
    let _listener = wire.listen(0, 8000);
    let open = |place: &Netns, patience: Duration| {
        let address = SocketAddr::from((NODE_ADDRESS, 30_080));
        place.run(|| TcpStream::connect_timeout(&address, patience)).expect("inside the namespace")
    };
    open(&wire.site.pods[1], IMPATIENCE).expect_err("denied");
    let event = wire.event(|event| event.destination_port == 8000);
    assert_eq!((event.source, told(&event)), (mapped(NODE_ADDRESS), (Reason::Row, false)));
    open(&wire.site.node, PATIENCE).expect("the node itself, to its own node port");
    let event = wire.event(|event| event.destination_port == 8000 && event.reason != Reason::Row as u8);
    assert_eq!(told(&event), (Reason::Node, true));
}

#[test]
fn a_translated_connection_is_one_flow_as_the_pod_sees_it_and_so_are_its_errors() {
    let Some(mut wire) = Wire::new("corners_node") else { return };
    let lines = [
        "add table ip t",
        "add chain ip t d { type nat hook prerouting priority -100; }",
        "add rule ip t d ip daddr 10.96.0.1 tcp dport 80 dnat to 10.0.0.3:443",
        "add rule ip t d ip daddr 10.96.0.1 udp dport 80 dnat to 10.0.0.3:9999",
    ];
    if !rules(&wire, &lines) {
        return;
    }
    let _attached = wire.attach();
    let listener = wire.listen(2, 443);
    let open = || TcpStream::connect_timeout(&SocketAddr::from((VIRTUAL, 80)), PATIENCE);
    let mut client = wire.site.pods[0].run(open).expect("inside the pod").expect("allowed, as an address");
    let (mut server, _) = listener.accept().expect("accepted");
    exchange(&mut client, &mut server);
    let flows = wire.datapath.state().conntrack4.entries().expect("flows");
    let remotes: Vec<_> = flows.iter().map(|(key, _)| (key.remote, key.remote_port)).collect();
    assert_eq!(remotes, [(VIRTUAL, 80)], "before the translation, both ways");
    // Nobody listens behind the other port: the pod behind it says so, and the node translates what is quoted.
    let asking = socket(&wire.site.pods[0], "0.0.0.0:0");
    asking.connect(SocketAddr::from((VIRTUAL, 80))).expect("connected");
    asking.send(b"x").expect("sent");
    let error = asking.recv(&mut [0; 1]).expect_err("nobody there");
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
    let event = wire.event(|event| event.protocol == 1);
    assert_eq!(told(&event), (Reason::Related, true));
}

#[test]
fn what_the_node_rejects_is_told_to_the_pod_that_asked() {
    let Some(wire) = Wire::new("corners_node") else { return };
    let lines = [
        "add table ip t",
        "add chain ip t f { type filter hook forward priority 0; }",
        "add rule ip t f tcp dport 443 reject with tcp reset",
        "add rule ip t f udp dport 53 reject with icmp type port-unreachable",
    ];
    if !rules(&wire, &lines) {
        return;
    }
    let _attached = wire.attach();
    // The reset comes from no interface and no socket: it is known by the flow that it ends.
    let before = counted(&wire.datapath, Reason::Flow);
    let error = connect(&wire.site.pods[0], 2, 443, PATIENCE).expect_err("rejected");
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
    assert_eq!(counted(&wire.datapath, Reason::Flow), before + 1);
    assert_eq!(counted(&wire.datapath, Reason::Node), 0);
    let asking = socket(&wire.site.pods[0], "0.0.0.0:0");
    asking.connect(SocketAddr::from((POD[1], 53))).expect("connected");
    asking.send(b"x").expect("sent");
    assert_eq!(asking.recv(&mut [0; 1]).expect_err("rejected").kind(), ErrorKind::ConnectionRefused);
}

#[test]
fn over_a_bridge_the_node_is_the_node_and_a_pod_is_a_pod() {
    let Some(mut kernel) = datapath("corners_node", &LoadOptions::LAB) else { return };
    let site = Site::new();
    if !tool(&site.node, "ip link add br0 type bridge") {
        return;
    }
    for line in [
        "ip link set br0 up",
        "ip link set pod0 master br0",
        "ip link set pod1 master br0",
        "ip address add 10.0.0.254/24 dev br0",
        "ip -6 address add fd00::fe/64 dev br0 nodad",
    ] {
        assert!(tool(&site.node, line), "{line}");
    }
    for pod in [0, 1] {
        for line in [
            format!("ip address add {}/24 dev eth0", POD[pod]),
            format!("ip -6 address add {}/64 dev eth0 nodad", pod6(pod)),
        ] {
            assert!(tool(&site.pods[pod], &line), "{line}");
        }
    }
    write(&kernel, &image());
    kernel.policy().devices.set(site.interfaces[0], &device(0, 1, -1)).expect("device");
    let _attached = site.node.run(|| kernel.attach("pod0")).expect("inside the node").expect("attached");
    let listen = |address: SocketAddr| bound(&site.pods[0], || TcpListener::bind(address));
    for own in [IpAddr::from(POD[0]), pod6(0).into()] {
        let [allowed, denied] = [5432, 8000].map(|port| {
            let address = SocketAddr::from((own, port));
            (listen(address), address)
        });
        let open = |place: &Netns, address: SocketAddr, patience: Duration| {
            place.run(|| TcpStream::connect_timeout(&address, patience)).expect("inside the namespace")
        };
        let mut client = open(&site.pods[1], allowed.1, PATIENCE).expect("allowed, with neighbour discovery");
        let (mut server, _) = allowed.0.accept().expect("accepted");
        exchange(&mut client, &mut server);
        // A bridged packet still belongs to the socket of the pod that sent it; that makes it nobody's node.
        open(&site.pods[1], denied.1, IMPATIENCE).expect_err("denied");
        let row = PolicyKey::new(1, Direction::Ingress, 3, 2);
        let row = kernel.policy().policy.get(&row).expect("readable").expect("a row");
        let node = counted(&kernel, Reason::Node);
        assert!(kernel.state().counters.get(row.entry).expect("counter") > 0);
        open(&site.node, denied.1, PATIENCE).expect("the node itself");
        assert!(counted(&kernel, Reason::Node) > node);
    }
    let events = kernel.events().drain();
    let forged = events
        .iter()
        .filter(|event| event.reason == Reason::Node as u8)
        .find(|event| [mapped(POD[1].octets()), pod6(1).octets()].contains(&event.source));
    assert_eq!(forged, None, "nothing from the other pod counts as the node's");
}
