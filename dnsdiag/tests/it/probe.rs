//! What a probe sees of every way in which a question can get lost, in a real kernel.
//!
//! Three namespaces in a row: a pod, a router, a server. Nothing here limits ICMP errors, which routers do: the
//! answers of a test must not depend on how fast it is.

use std::io::Write as _;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use hickory_proto::op::{Message, MessageType, OpCode};
use hickory_proto::rr::rdata::A;
use hickory_proto::rr::{RData, Record};
use netlab_dnsdiag::probe::{Observation, Outcome, Probe, Transport};
use netlab_node::netlink::{AddressSpec, Batch, Mac, RouteSpec, Scope, VethEnd};
use netlab_node::{Netlink, Netns, sysctl};

use crate::require;

/// Longer than the kernel tries to find a neighbour (3 x 1 s).
const PATIENCE: Duration = Duration::from_millis(3_600);
/// Where only silence is left to be seen.
const SHORT: Duration = Duration::from_millis(400);

struct Bed {
    pod: Netns,
    router: Netns,
    server: Netns,
}

const POD: [&str; 2] = ["10.1.0.2", "fd00:1::2"];
const ROUTER: [&str; 2] = ["10.1.0.1", "fd00:1::1"];
const ROUTER_BEHIND: [&str; 2] = ["10.2.0.1", "fd00:2::1"];
const SERVER: [&str; 2] = ["10.2.0.2", "fd00:2::2"];
/// An address of the server's that nobody asks.
const OTHER: [&str; 2] = ["10.2.0.3", "fd00:2::3"];
/// On the server's link, and nobody's.
const NOBODY: [&str; 2] = ["10.2.0.9", "fd00:2::9"];

fn address(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

impl Bed {
    fn new() -> Option<Self> {
        require::netns().then(|| {
            let [pod, router, server] = [(); 3].map(|()| Netns::create().expect("root can make namespaces"));
            link(&pod, ("eth0", &POD), &router, ("pod", &ROUTER));
            link(&router, ("server", &ROUTER_BEHIND), &server, ("eth0", &SERVER));
            for other in OTHER {
                give(&server, "eth0", other);
            }
            routes(&pod, &ROUTER);
            routes(&server, &ROUTER_BEHIND);
            for (namespace, name, value) in [
                (&router, "ipv4/ip_forward", "1"),
                (&router, "ipv6/conf/all/forwarding", "1"),
                (&router, "ipv4/icmp_ratelimit", "0"),
                (&router, "ipv6/icmp/ratelimit", "0"),
                (&server, "ipv4/icmp_ratelimit", "0"),
                (&server, "ipv6/icmp/ratelimit", "0"),
            ] {
                let written = namespace.run(|| sysctl::write(&sysctl::Sysctl::new(name, value)));
                written.expect("entered").unwrap_or_else(|error| panic!("{name}: {error}"));
            }
            Self { pod, router, server }
        })
    }

    fn ask(&self, probe: &Probe) -> Observation {
        self.pod.run(|| probe.send()).expect("the namespace can be entered").expect("a question")
    }
}

fn link(here: &Netns, (name, own): (&str, &[&str; 2]), there: &Netns, (peer, theirs): (&str, &[&str; 2])) {
    let mac = |text: &str| {
        let last = text.bytes().fold(7u8, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte));
        Mac([2, 0, 0, 0, 1, last])
    };
    let mut batch = Batch::new();
    let ends = (VethEnd { name, mac: mac(own[0]) }, VethEnd { name: peer, mac: mac(theirs[0]) });
    batch.veth(ends.0, ends.1, there);
    Netlink::open_in(here).and_then(|mut netlink| netlink.apply(&batch)).expect("a link");
    for (netns, name, addresses) in [(here, name, own), (there, peer, theirs)] {
        let mut batch = Batch::new();
        batch.link_up("lo").link_up(name);
        Netlink::open_in(netns).and_then(|mut netlink| netlink.apply(&batch)).expect("links come up");
        for address in addresses {
            give(netns, name, address);
        }
    }
}

fn interface(netlink: &mut Netlink, name: &str) -> u32 {
    netlink.link(name).expect("readable").unwrap_or_else(|| panic!("no link {name}")).index
}

fn give(netns: &Netns, name: &str, text: &str) {
    let mut netlink = Netlink::open_in(netns).expect("a socket");
    let mut batch = Batch::new();
    let length = if text.contains(':') { 64 } else { 24 };
    let spec =
        AddressSpec { address: format!("{text}/{length}").parse().expect("a network"), scope: Scope::Global };
    batch.address(interface(&mut netlink, name), spec);
    netlink.apply(&batch).expect("an address");
}

fn routes(netns: &Netns, via: &[&str; 2]) {
    let mut netlink = Netlink::open_in(netns).expect("a socket");
    let interface = interface(&mut netlink, "eth0");
    let mut batch = Batch::new();
    for (destination, via) in ["0.0.0.0/0", "::/0"].into_iter().zip(via) {
        let destination = destination.parse().expect("a network");
        batch.route(&RouteSpec {
            destination,
            via: Some(address(via)),
            interface,
            onlink: false,
            source: None,
        });
    }
    netlink.apply(&batch).expect("routes");
}

/// Runs a command inside, with text for it to read.
fn inside(netns: &Netns, command: &[&str], text: &str) {
    let run = || {
        let mut child = Command::new(command[0])
            .args(&command[1..])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?}: {error}"));
        child.stdin.take().expect("piped").write_all(text.as_bytes()).expect("it reads");
        assert!(child.wait().expect("it ends").success(), "{command:?} {text}");
    };
    netns.run(run).expect("the namespace can be entered");
}

fn filter(netns: &Netns, hook: &str, rule: &str) {
    let table = format!(
        "flush ruleset\ntable inet t {{ chain c {{ type filter hook {hook} priority 0; policy accept; {rule}\n }}\n }}\n"
    );
    inside(netns, &["nft", "-f", "-"], &table);
}

fn probe(server: &str, transport: Transport, patience: Duration) -> Probe {
    Probe {
        name: "kubernetes.default.svc.cluster.local".to_owned(),
        record: "A".to_owned(),
        server: SocketAddr::new(address(server), 53),
        transport,
        id: 4711,
        edns: None,
        source_port: None,
        patience,
    }
}

/// What was seen, in a word: the errno, or `silence`.
fn seen(observation: &Observation) -> String {
    match &observation.outcome {
        Outcome::Unsent { errno } => format!("unsent {errno}"),
        Outcome::Refused { errno } => errno.clone(),
        Outcome::Silent => "silence".to_owned(),
        Outcome::Closed => "closed".to_owned(),
        Outcome::Answered { answer } => answer.rcode.clone(),
        Outcome::Garbled { reason } => format!("garbled: {reason}"),
    }
}

/// The ICMP error and who sent it.
fn refusals(observation: &Observation) -> Vec<(u8, u8, Option<IpAddr>)> {
    observation.refusals.iter().map(|one| (one.icmp_type, one.icmp_code, one.offender)).collect()
}

/// What an ordinary program sees, that does not ask for ICMP errors.
fn plain(bed: &Bed, server: &str, connected: bool, patience: Duration) -> String {
    let ask = || -> std::io::Result<()> {
        let socket = UdpSocket::bind(if server.contains(':') { "[::]:0" } else { "0.0.0.0:0" })?;
        socket.set_read_timeout(Some(patience))?;
        let server = SocketAddr::new(address(server), 53);
        if connected {
            socket.connect(server)?;
            socket.send(b"?")?;
        } else {
            socket.send_to(b"?", server)?;
        }
        socket.recv(&mut [0; 16]).map(|_| ())
    };
    match bed.pod.run(ask).expect("the namespace can be entered") {
        Ok(()) => "an answer".to_owned(),
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => "silence".to_owned(),
        Err(error) => format!("{:?}", nix::errno::Errno::from_raw(error.raw_os_error().unwrap_or(0))),
    }
}

/// One row of the matrix, for one family.
struct Row {
    condition: &'static str,
    /// Who is asked.
    server: &'static str,
    connected: &'static str,
    unconnected: &'static str,
    tcp: &'static str,
    probe: &'static str,
    icmp: Option<(u8, u8, &'static str)>,
}

/// Holds a row against the kernel.
fn check(bed: &Bed, row: &Row) {
    let Row { condition, server, .. } = row;
    let patience = |expected: &str| if expected == "silence" { SHORT } else { PATIENCE };
    let udp = bed.ask(&probe(server, Transport::Udp, patience(row.probe)));
    assert_eq!(seen(&udp), row.probe, "{condition}, probe to {server}: {udp:?}");
    let icmp: Vec<_> = row.icmp.iter().map(|(kind, code, who)| (*kind, *code, Some(address(who)))).collect();
    assert_eq!(refusals(&udp), icmp, "{condition}, ICMP of a probe to {server}: {udp:?}");
    let tcp = bed.ask(&probe(server, Transport::Tcp, patience(row.tcp)));
    assert_eq!(seen(&tcp), row.tcp, "{condition}, TCP to {server}: {tcp:?}");
    for (connected, expected) in [(true, row.connected), (false, row.unconnected)] {
        let seen = plain(bed, server, connected, patience(expected));
        assert_eq!(seen, expected, "{condition}, connected: {connected}, to {server}");
    }
}

fn rejected(
    condition: &'static str,
    family: usize,
    tcp: &'static str,
    errno: &'static str,
    icmp: (u8, u8),
) -> Row {
    Row {
        condition,
        server: SERVER[family],
        connected: errno,
        unconnected: "silence",
        tcp,
        probe: errno,
        icmp: Some((icmp.0, icmp.1, ROUTER[family])),
    }
}

fn silence(condition: &'static str, server: &'static str) -> Row {
    let silence = "silence";
    Row {
        condition,
        server,
        connected: silence,
        unconnected: silence,
        tcp: silence,
        probe: silence,
        icmp: None,
    }
}

#[test]
fn nobody_listens() {
    let Some(bed) = Bed::new() else { return };
    for (family, icmp) in [(0, (3, 3)), (1, (1, 4))] {
        let row = rejected("nothing listens", family, "ECONNREFUSED", "ECONNREFUSED", icmp);
        check(&bed, &Row { icmp: Some((icmp.0, icmp.1, SERVER[family])), ..row });
    }
}

#[test]
fn the_router_drops_or_rejects() {
    let Some(bed) = Bed::new() else { return };
    filter(&bed.router, "forward", "drop");
    for server in SERVER {
        check(&bed, &silence("router drops", server));
    }
    for (reject, tcp, errno, icmp) in [
        ("port-unreachable", "ECONNREFUSED", "ECONNREFUSED", (3, 3)),
        ("admin-prohibited", "EHOSTUNREACH", "EHOSTUNREACH", (3, 13)),
        ("host-prohibited", "EHOSTUNREACH", "EHOSTUNREACH", (3, 10)),
    ] {
        filter(&bed.router, "forward", &format!("meta nfproto ipv4 reject with icmp {reject}"));
        check(&bed, &rejected(reject, 0, tcp, errno, icmp));
    }
    // Hidden from a program that does not ask for ICMP errors, seen by a probe.
    filter(&bed.router, "forward", "meta nfproto ipv4 reject with icmp net-unreachable");
    let row = rejected("net-unreachable", 0, "ENETUNREACH", "ENETUNREACH", (3, 0));
    check(&bed, &Row { connected: "silence", ..row });
    for (reject, errno, icmp) in
        [("port-unreachable", "ECONNREFUSED", (1, 4)), ("admin-prohibited", "EACCES", (1, 1))]
    {
        filter(&bed.router, "forward", &format!("meta nfproto ipv6 reject with icmpv6 {reject}"));
        check(&bed, &rejected(reject, 1, errno, errno, icmp));
    }
}

#[test]
fn a_dead_neighbour_is_told_after_three_seconds() {
    let Some(bed) = Bed::new() else { return };
    let patient = bed.ask(&probe(NOBODY[0], Transport::Udp, PATIENCE));
    assert_eq!(seen(&patient), "EHOSTUNREACH", "{patient:?}");
    assert_eq!(refusals(&patient), [(3, 1, Some(address(ROUTER[0])))]);
    assert!(patient.microseconds > 2_000_000, "{patient:?}");
    let hasty = bed.ask(&probe("10.2.0.10", Transport::Udp, Duration::from_secs(1)));
    assert_eq!(seen(&hasty), "silence", "a second is not enough to see it: {hasty:?}");
    let tcp = bed.ask(&probe(NOBODY[0], Transport::Tcp, PATIENCE));
    assert_eq!(seen(&tcp), "EHOSTUNREACH", "{tcp:?}");
}

#[test]
fn routes_that_lead_nowhere() {
    for (kind, row) in [
        ("blackhole", silence("blackhole route", "192.0.2.1")),
        (
            "unreachable",
            Row {
                server: "192.0.2.1",
                connected: "silence",
                ..rejected("unreachable route", 0, "EHOSTUNREACH", "EHOSTUNREACH", (3, 1))
            },
        ),
        (
            "prohibit",
            Row {
                server: "192.0.2.1",
                ..rejected("prohibit route", 0, "EHOSTUNREACH", "EHOSTUNREACH", (3, 13))
            },
        ),
    ] {
        // A bed each: errors of routes are limited for each sender, and no sysctl of a namespace changes that.
        let Some(bed) = Bed::new() else { return };
        inside(&bed.router, &["ip", "route", "add", kind, "192.0.2.0/24"], "");
        check(&bed, &row);
    }
    let Some(bed) = Bed::new() else { return };
    inside(&bed.pod, &["ip", "route", "del", "default"], "");
    let none = "ENETUNREACH";
    let unsent = "unsent ENETUNREACH";
    let server = SERVER[0];
    let condition = "no route in the pod";
    check(
        &bed,
        &Row {
            condition,
            server,
            connected: none,
            unconnected: none,
            tcp: unsent,
            probe: unsent,
            icmp: None,
        },
    );
}

#[test]
fn the_pod_itself_drops() {
    let Some(bed) = Bed::new() else { return };
    filter(&bed.pod, "output", "meta l4proto { tcp, udp } drop");
    for server in SERVER {
        let condition = "a drop in the pod's own output";
        let (eperm, unsent) = ("EPERM", "unsent EPERM");
        check(
            &bed,
            &Row {
                condition,
                server,
                connected: eperm,
                unconnected: eperm,
                tcp: "silence",
                probe: unsent,
                icmp: None,
            },
        );
    }
}

/// Answers one datagram with what `answer` makes of it, from the sockets it is given.
fn serve(
    bed: &Bed,
    answer: impl FnOnce(&[UdpSocket; 2], &Message, SocketAddr) + Send + 'static,
) -> mpsc::Receiver<()> {
    let open = |text: &str| UdpSocket::bind((address(text), 53)).expect("a port");
    let sockets = bed.server.run(|| [open(SERVER[0]), open(OTHER[0])]).expect("the namespace can be entered");
    let (done, ended) = mpsc::channel();
    std::thread::spawn(move || {
        sockets[0].set_read_timeout(Some(PATIENCE)).expect("a timeout");
        let mut bytes = [0; 512];
        let (length, from) = sockets[0].recv_from(&mut bytes).expect("a question");
        let question = Message::from_vec(&bytes[..length]).expect("a DNS message");
        answer(&sockets, &question, from);
        let _ = done.send(());
    });
    ended
}

fn reply(question: &Message, id: u16) -> Vec<u8> {
    let mut reply = Message::new(id, MessageType::Response, OpCode::Query);
    let asked = question.queries[0].clone();
    reply.add_answer(Record::from_rdata(asked.name().clone(), 5, RData::A(A::new(10, 96, 0, 1))));
    reply.add_query(asked);
    reply.metadata.authoritative = true;
    reply.to_vec().expect("it can be written")
}

#[test]
fn an_answer_is_told_with_all_that_it_says() {
    let Some(bed) = Bed::new() else { return };
    let ended = serve(&bed, |sockets, question, from| {
        assert!(question.metadata.recursion_desired);
        assert_eq!(question.edns.as_ref().map(hickory_proto::op::Edns::max_payload), Some(1232));
        sockets[0].send_to(&reply(question, question.metadata.id), from).expect("sent");
    });
    let observation = bed.ask(&Probe { edns: Some(1232), ..probe(SERVER[0], Transport::Udp, PATIENCE) });
    ended.recv().expect("the server ends well");
    assert_eq!(observation.from, Some(SocketAddr::new(address(SERVER[0]), 53)));
    let Outcome::Answered { answer } = &observation.outcome else { panic!("{observation:?}") };
    assert_eq!(answer.rcode, "NOERROR");
    assert!(answer.authoritative && !answer.truncated && !answer.recursion_available);
    let records: Vec<_> =
        answer.answers.iter().map(|one| (one.kind.as_str(), one.ttl, one.data.as_str())).collect();
    assert_eq!(records, [("A", 5, "10.96.0.1")]);
}

#[test]
fn answers_to_other_questions_are_counted_and_not_believed() {
    let Some(bed) = Bed::new() else { return };
    let ended = serve(&bed, |sockets, question, from| {
        sockets[0].send_to(&reply(question, question.metadata.id ^ 1), from).expect("sent");
        sockets[0].send_to(&reply(question, question.metadata.id), from).expect("sent");
    });
    let observation = bed.ask(&probe(SERVER[0], Transport::Udp, PATIENCE));
    ended.recv().expect("the server ends well");
    assert_eq!((seen(&observation).as_str(), observation.strays), ("NOERROR", 1));
}

#[test]
fn a_reply_from_another_address_is_heard_by_the_unconnected_socket_alone() {
    let Some(bed) = Bed::new() else { return };
    for (transport, heard) in [(Transport::Udp, "silence"), (Transport::UdpFromAny, "NOERROR")] {
        let ended = serve(&bed, |sockets, question, from| {
            sockets[1].send_to(&reply(question, question.metadata.id), from).expect("sent");
        });
        let observation = bed.ask(&probe(SERVER[0], transport, SHORT));
        ended.recv().expect("the server ends well");
        assert_eq!(seen(&observation), heard, "{observation:?}");
        let from = (heard == "NOERROR").then(|| SocketAddr::new(address(OTHER[0]), 53));
        assert_eq!(observation.from, from);
    }
}

#[test]
fn what_is_no_name_is_refused_before_anything_is_sent() {
    let long = "a".repeat(64);
    for (name, record, words) in [
        (long.as_str(), "A", "has 64 bytes"),
        ("a..b", "A", "nothing before it"),
        ("a", "ADDRESS", "no record type"),
    ] {
        let question = Probe {
            name: name.to_owned(),
            record: record.to_owned(),
            ..probe("192.0.2.1", Transport::Udp, SHORT)
        };
        let error = question.send().expect_err("no question");
        assert!(error.to_string().contains(words), "{error}");
    }
}
