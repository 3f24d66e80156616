//! Attached to real interfaces: what is denied is dropped and said, what is allowed arrives, connections that are
//! older than the program live on, and nobody forges one.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use netlab_ebpf::abi::{Direction, Event, PolicyKey, PolicyValue};
use netlab_ebpf::reason::Reason;
use netlab_enforcer::attach::Attached;
use netlab_enforcer::drop_reason::DropReasons;
use netlab_enforcer::{Datapath, LoadOptions};
use netlab_node::Netns;
use netlab_node::netlink::{AddressSpec, Batch, Mac, Netlink, RouteSpec, Scope};
use netlab_node::sysctl::{self, Sysctl};

use super::bpf_frames::{ethernet, fragment_header, tcp, udp, v4, v6_packet};
use super::bpf_require::datapath;
use super::bpf_world::{POD, Site, device, image, pod6, write};

pub(crate) const PATIENCE: Duration = Duration::from_secs(5);
/// How long a packet that must not arrive is waited for.
pub(crate) const IMPATIENCE: Duration = Duration::from_millis(300);

/// A socket bound in a namespace. A port that was given up is free only when no process that another test is just
/// starting has the old socket open any more.
pub(crate) fn bound<S: Send>(place: &Netns, bind: impl Fn() -> io::Result<S> + Sync) -> S {
    for _ in 0..200 {
        match place.run(&bind).expect("inside the namespace") {
            Err(error) if error.kind() == ErrorKind::AddrInUse => thread::sleep(Duration::from_millis(10)),
            outcome => return outcome.expect("a socket"),
        }
    }
    panic!("the port stays taken");
}

/// A site whose pods reach each other through the node, and pod 0 under enforcement.
pub(crate) struct Wire {
    pub(crate) site: Site,
    pub(crate) datapath: Datapath,
}

impl Wire {
    pub(crate) fn new(test: &str) -> Option<Self> {
        Self::with(test, &LoadOptions::LAB)
    }

    pub(crate) fn with(test: &str, options: &LoadOptions) -> Option<Self> {
        let datapath = datapath(test, options)?;
        let site = Site::new();
        let interface = site.interfaces;
        route(&site);
        write(&datapath, &image());
        let netns = Netlink::open_in(&site.node).expect("netlink").netns_id(&site.pods[0]).expect("netns id");
        datapath.policy().devices.set(interface[0], &device(0, 1, netns)).expect("device");
        Some(Self { site, datapath })
    }

    /// Puts pod 0 under enforcement.
    pub(crate) fn attach(&self) -> Attached {
        let attach = || self.datapath.attach("pod0");
        self.site.node.run(attach).expect("inside the node").expect("attached")
    }

    /// The first event that fits, among those that come in time.
    pub(crate) fn event(&mut self, fits: impl Fn(&Event) -> bool) -> Event {
        loop {
            match self.datapath.events().wait(PATIENCE).expect("events") {
                Some(event) if fits(&event) => return event,
                Some(_) => {}
                None => panic!("no such event in time"),
            }
        }
    }

    pub(crate) fn listen(&self, pod: usize, port: u16) -> TcpListener {
        let address = SocketAddr::from((POD[pod], port));
        bound(&self.site.pods[pod], || TcpListener::bind(address))
    }

    /// Sends a frame from a pod as it is.
    pub(crate) fn send(&self, pod: usize, frame: &[u8]) {
        self.site.pods[pod].run(|| send_raw("eth0", frame)).expect("inside the pod").expect("sent");
    }
}

fn route(site: &Site) {
    let host = |address: IpAddr| {
        let length = if address.is_ipv4() { 32 } else { 128 };
        ipnet::IpNet::new(address, length).expect("a host prefix")
    };
    site.node
        .run(|| {
            for name in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
                sysctl::write(&Sysctl::new(name, "1")).expect("forwarding");
            }
        })
        .expect("inside the node");
    let mut netlink = Netlink::open_in(&site.node).expect("netlink");
    for (index, pod) in site.pods.iter().enumerate() {
        let number = u8::try_from(index).expect("few pods");
        let (node_mac, pod_mac) = (Mac([2, 0, 0, 0, 0, number]), Mac([2, 0, 0, 0, 1, number]));
        let addresses: [IpAddr; 2] = [POD[index].into(), pod6(index).into()];
        let gateways: [IpAddr; 2] = ["169.254.1.1".parse().expect("ip"), "fe80::1".parse().expect("ip")];
        let own: [IpAddr; 2] = ["10.0.0.254".parse().expect("ip"), "fd00::fe".parse().expect("ip")];
        let eth0 = pod
            .run(|| {
                sysctl::write(&Sysctl::new("ipv6/conf/eth0/accept_dad", "0")).expect("no dad");
                nix::net::if_::if_nametoindex("eth0").expect("eth0")
            })
            .expect("inside the pod");
        let mut outside = Batch::new();
        let mut inside = Batch::new();
        for ((address, gateway), own) in addresses.into_iter().zip(gateways).zip(own) {
            let everything = if address.is_ipv4() { "0.0.0.0/0" } else { "::/0" };
            inside
                .address(eth0, AddressSpec { address: host(address), scope: Scope::Global })
                .neighbour(eth0, gateway, node_mac)
                .route(&RouteSpec {
                    destination: everything.parse().expect("prefix"),
                    via: Some(gateway),
                    interface: eth0,
                    onlink: true,
                    source: None,
                });
            if index == 0 {
                outside.address(site.interfaces[0], AddressSpec { address: host(own), scope: Scope::Global });
            }
            outside.neighbour(site.interfaces[index], address, pod_mac).route(&RouteSpec {
                destination: host(address),
                via: None,
                interface: site.interfaces[index],
                onlink: false,
                source: None,
            });
        }
        netlink.apply(&outside).expect("node addresses");
        Netlink::open_in(pod).expect("netlink").apply(&inside).expect("pod addresses");
    }
}

/// Connects from a namespace to a pod.
pub(crate) fn connect(from: &Netns, pod: usize, port: u16, patience: Duration) -> io::Result<TcpStream> {
    let address = SocketAddr::from((POD[pod], port));
    from.run(|| TcpStream::connect_timeout(&address, patience)).expect("inside the namespace")
}

/// Puts a frame on an interface of this thread's namespace.
pub(crate) fn send_raw(interface: &str, frame: &[u8]) -> io::Result<()> {
    flood(interface, &[frame.to_vec()], 1)
}

/// Puts frames on an interface of this thread's namespace, one after the other and from the beginning again.
pub(crate) fn flood(interface: &str, frames: &[Vec<u8>], count: usize) -> io::Result<()> {
    use std::os::fd::{FromRawFd, OwnedFd};
    let ifindex = nix::net::if_::if_nametoindex(interface)?;
    // SAFETY: no pointers; the result is checked before it is owned.
    let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a new descriptor that nobody else knows.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: all zero is a valid `sockaddr_ll`.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = u16::try_from(libc::AF_PACKET).expect("a small constant");
    address.sll_ifindex = i32::try_from(ifindex).expect("a small number");
    let length = u32::try_from(size_of_val(&address)).expect("a small size");
    for frame in frames.iter().cycle().take(count) {
        // SAFETY: the frame and the address are as long as their lengths say and only read.
        let sent = unsafe {
            libc::sendto(
                std::os::fd::AsRawFd::as_raw_fd(&fd),
                frame.as_ptr().cast(),
                frame.len(),
                0,
                (&raw const address).cast(),
                length,
            )
        };
        if usize::try_from(sent) != Ok(frame.len()) {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Writes a megabyte one way and back.
pub(crate) fn exchange(client: &mut TcpStream, server: &mut TcpStream) {
    for stream in [&*client, &*server] {
        stream.set_read_timeout(Some(PATIENCE)).expect("timeout");
        stream.set_write_timeout(Some(PATIENCE)).expect("timeout");
    }
    one_way(client, server);
    one_way(server, client);
}

fn one_way(from: &mut TcpStream, to: &mut TcpStream) {
    let data = vec![7_u8; 1 << 20];
    thread::scope(|scope| {
        scope.spawn(|| from.write_all(&data).expect("written"));
        let mut read = vec![0; data.len()];
        to.read_exact(&mut read).expect("read");
        assert_eq!(read, data);
    });
}

#[test]
fn what_is_denied_is_dropped_counted_and_said_by_the_kernel_too() {
    let Some(mut wire) = Wire::new("bpf_wire") else { return };
    let _attached = wire.attach();
    let mut reasons = DropReasons::open();
    if let Err(unavailable) = &reasons {
        eprintln!("without the kernel's reasons: {unavailable}");
    }
    let (_to_pod, _from_pod) = (wire.listen(0, 8000), wire.listen(1, 5432));
    let ruleset_entry = |wire: &Wire, direction, port_class, peer| {
        let key = PolicyKey::new(1, direction, port_class, peer);
        let value = wire.datapath.policy().policy.get(&key).expect("readable").expect("a row");
        assert_eq!(value.verdict, PolicyValue::DENY);
        value.entry
    };
    for (from, to, port, direction, port_class, reason) in
        [(1, 0, 8000, Direction::Ingress, 3, "TC_EGRESS"), (0, 1, 5432, Direction::Egress, 2, "TC_INGRESS")]
    {
        let entry = ruleset_entry(&wire, direction, port_class, 2);
        let before = wire.datapath.state().counters.get(entry).expect("counter");
        let error = connect(&wire.site.pods[from], to, port, IMPATIENCE).expect_err("denied");
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        let event = wire.event(|event| event.destination_port == port);
        assert_eq!(
            (event.entry, event.verdict, event.direction),
            (entry, PolicyValue::DENY, direction as u8)
        );
        assert!(wire.datapath.state().counters.get(entry).expect("counter") > before);
        if let Ok(reasons) = &mut reasons {
            let freed = reasons.wait_for(event.skb, PATIENCE).expect("waited").expect("the kernel freed it");
            assert_eq!(freed.reason, reason);
        }
    }
}

#[test]
fn what_is_allowed_arrives_whole_and_stays_allowed_as_a_flow() {
    let Some(wire) = Wire::new("bpf_wire") else { return };
    let attached = wire.attach();
    let listener = wire.listen(0, 5432);
    let mut client = connect(&wire.site.pods[1], 0, 5432, PATIENCE).expect("allowed");
    let (mut server, _) = listener.accept().expect("accepted");
    exchange(&mut client, &mut server);
    let flows = wire.datapath.state().counters.get(Reason::Flow.entry()).expect("counter");
    assert!(flows > 50, "a megabyte each way in {flows} packets of the flow");
    assert_eq!(wire.datapath.state().conntrack4.entries().expect("flows").len(), 1);
    // Denied from now on: the pod's generation moves on, and the flow is judged again in the way it was opened.
    let row = PolicyKey::new(1, Direction::Ingress, 2, 2);
    let policy = &wire.datapath.policy().policy;
    let value = policy.get(&row).expect("readable").expect("a row");
    policy.set(&row, &PolicyValue { verdict: PolicyValue::DENY, ..value }).expect("written");
    let word = device(0, 2, -1).word;
    wire.datapath.policy().devices.set_word(attached.ifindex(), word).expect("word");
    server.write_all(b"late").expect("into the socket");
    client.set_read_timeout(Some(IMPATIENCE)).expect("timeout");
    assert!(client.read(&mut [0; 4]).is_err(), "the reply of a flow that is no longer allowed");
    // Without the program everything passes again.
    drop(attached);
    client.set_read_timeout(Some(PATIENCE)).expect("timeout");
    client.read_exact(&mut [0; 4]).expect("sent again by TCP");
}

#[test]
fn a_connection_older_than_the_program_lives_on_and_none_is_forged() {
    let Some(mut wire) = Wire::new("bpf_wire") else { return };
    // Accepted by pod 0: its own segments are denied by their own row, but pod 1 may connect there.
    let listener = wire.listen(0, 5432);
    let mut outside = connect(&wire.site.pods[1], 0, 5432, PATIENCE).expect("not enforced yet");
    let (mut accepted, _) = listener.accept().expect("accepted");
    // Opened by pod 0: what comes back is denied by its own row, but pod 0 may connect there.
    let other = wire.listen(2, 443);
    let mut opened = connect(&wire.site.pods[0], 2, 443, PATIENCE).expect("not enforced yet");
    let (mut far, _) = other.accept().expect("accepted");
    // One that pod 0 accepted on a port where pod 1 may not connect.
    let wrong = wire.listen(0, 8000);
    let mut denied_outside = connect(&wire.site.pods[1], 0, 8000, PATIENCE).expect("not enforced yet");
    let (_denied, _) = wrong.accept().expect("accepted");
    let _attached = wire.attach();
    exchange(&mut accepted, &mut outside);
    exchange(&mut far, &mut opened);
    let midflow = wire.datapath.state().counters.get(Reason::Midflow.entry()).expect("counter");
    assert!(midflow >= 2, "{midflow} segments opened their flows");
    let flows = wire.datapath.state().conntrack4.entries().expect("flows");
    let mut openers: Vec<u8> = flows.iter().map(|(_, flow)| flow.opener).collect();
    openers.sort_unstable();
    assert_eq!(openers, [Direction::Ingress as u8, Direction::Egress as u8]);
    denied_outside.write_all(b"x").expect("into the socket");
    let event = wire.event(|event| event.destination_port == 8000);
    assert_eq!(event.verdict, PolicyValue::DENY, "the socket is there, but the opening would be denied");
    // Forged: an ACK to a listener, an ACK to a closed port, an ACK from the pod without a connection.
    for (pod, source, destination, ports) in [
        (1, POD[1], POD[0], (40_000, 8000)),
        (1, POD[1], POD[0], (40_000, 8001)),
        (0, POD[0], POD[1], (5432, 40_001)),
    ] {
        let segment = tcp(ports.0, ports.1, 0x10);
        let mut frame = v4(source.octets(), destination.octets(), 6).frame(&segment);
        address_frame(&mut frame, pod);
        wire.send(pod, &frame);
        let event = wire.event(|event| (event.source_port, event.destination_port) == ports);
        assert_eq!((event.verdict, event.reason), (PolicyValue::DENY, Reason::Row as u8), "{ports:?}");
    }
}

/// Ethernet addresses and the IPv4 checksum, for a frame that the node is to route.
pub(crate) fn address_frame(frame: &mut [u8], pod: usize) {
    let number = u8::try_from(pod).expect("few pods");
    frame[..12].copy_from_slice(&[2, 0, 0, 0, 0, number, 2, 0, 0, 0, 1, number]);
    if frame[12..14] == [8, 0] {
        let header = 14..14 + usize::from(frame[14] & 0xf) * 4;
        frame[24..26].fill(0);
        let mut sum: u32 =
            frame[header].chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
        while sum >> 16 != 0 {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        let sum = !u16::try_from(sum).expect("folded");
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
    }
}

#[test]
fn the_node_is_known_by_origin_and_not_by_two_fragments() {
    let Some(mut wire) = Wire::new("bpf_wire") else { return };
    let _attached = wire.attach();
    // Denied for pod 1, but this is the node.
    let listener = wire.listen(0, 8000);
    let mut client = connect(&wire.site.node, 0, 8000, PATIENCE).expect("the node's own");
    let (mut server, _) = listener.accept().expect("accepted");
    exchange(&mut client, &mut server);
    let event = wire.event(|event| event.destination_port == 8000);
    assert_eq!((event.reason, event.verdict), (Reason::Node as u8, PolicyValue::ALLOW));
    // With connection tracking the node puts IPv6 fragments together and apart again, and forgets on the way by
    // which interface they came: datapath-decisions 4.1.
    let rules = "add table ip6 t; add chain ip6 t c { type filter hook prerouting priority 0; }; \
                 add rule ip6 t c ct state invalid counter";
    let nft = || std::process::Command::new("nft").arg(rules).status();
    if !wire.site.node.run(nft).expect("inside the node").is_ok_and(|status| status.success()) {
        eprintln!("bpf_wire: without connection tracking (no nft)");
    }
    // UDP 53 is denied from pod 2; the first fragment has a long options header before it.
    let mut options = vec![17, 30, 1, 244];
    options.resize(248, 0);
    let mut datagram = [options.clone(), udp(40_000, 53)].concat();
    datagram.resize(248 + 8 + 1024, 0);
    let length = u16::try_from(datagram.len() - 248).expect("short").to_be_bytes();
    datagram[252..254].copy_from_slice(&length);
    let (first, rest) = datagram.split_at(512);
    for (offset, more, part) in [(0, true, first), (64, false, rest)] {
        let payload = [fragment_header(60, offset, more, 99), part.to_vec()].concat();
        let packet = v6_packet(pod6(2).octets(), pod6(0).octets(), 44, 64, &payload);
        let mut frame = ethernet(0x86dd, &packet);
        address_frame(&mut frame, 2);
        wire.send(2, &frame);
    }
    let event = wire.event(|event| event.source == pod6(2).octets() && event.protocol == 17);
    assert_eq!(event.verdict, PolicyValue::DENY, "{event:?}");
    assert_ne!(event.reason, Reason::Node as u8);
}

#[test]
fn a_pod_cannot_send_as_another() {
    let Some(mut wire) = Wire::new("bpf_wire") else { return };
    let _attached = wire.attach();
    let mut frame = v4(POD[2].octets(), POD[1].octets(), 17).frame(&udp(40_000, 9999));
    address_frame(&mut frame, 0);
    wire.send(0, &frame);
    let event = wire.event(|event| event.destination_port == 9999);
    assert_eq!((event.reason, event.verdict), (Reason::Spoof as u8, PolicyValue::DENY));
}

#[test]
fn who_stands_before_us_is_named() {
    let Some(wire) = Wire::new("bpf_wire") else { return };
    let Some(other) = datapath("bpf_wire", &LoadOptions::LAB) else { return };
    let attached = wire.attach();
    let before = |direction| {
        wire.site.node.run(|| attached.before_us(direction)).expect("inside the node").expect("asked")
    };
    assert_eq!(before(Direction::Egress), []);
    let others = wire.site.node.run(|| other.attach("pod0")).expect("inside the node").expect("attached");
    for (direction, name) in [(Direction::Egress, "from_pod"), (Direction::Ingress, "to_pod")] {
        let names: Vec<String> = before(direction).into_iter().map(|one| one.name).collect();
        assert_eq!(names, [name]);
    }
    drop(others);
    assert_eq!(before(Direction::Egress), []);
    assert!(
        wire.site.node.run(|| other.attach("nobody")).expect("inside the node").is_err(),
        "no such interface"
    );
}
