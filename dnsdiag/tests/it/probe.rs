//! What a probe sees of every way in which a question can get lost, in a real kernel.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::mpsc;
use std::time::Duration;

use hickory_proto::op::{Message, MessageType, OpCode};
use hickory_proto::rr::rdata::A;
use hickory_proto::rr::{RData, Record};
use netlab_dnsdiag::probe::{Observation, Order, Outcome, Probe, Transport};

use crate::bed::{Bed, NOBODY, OTHER, ROUTER, SERVER, address, filter, inside};

/// Longer than the kernel tries to find a neighbour (3 x 1 s).
const PATIENCE: Duration = Duration::from_millis(3_600);
/// Where only silence is left to be seen.
const SHORT: Duration = Duration::from_millis(400);

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

fn ask(bed: &Bed, probe: &Probe) -> Observation {
    bed.pod.run(|| probe.send()).expect("the namespace can be entered").expect("a question")
}

/// What was seen, in a word: the errno, or `silence`.
fn seen(observation: &Observation) -> String {
    match &observation.outcome {
        Outcome::Unsent { errno } => format!("unsent {errno}"),
        Outcome::Refused { errno } => errno.clone(),
        Outcome::Silent => "silence".to_owned(),
        Outcome::Connected => "connected".to_owned(),
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
    let udp = ask(bed, &probe(server, Transport::Udp, patience(row.probe)));
    assert_eq!(seen(&udp), row.probe, "{condition}, probe to {server}: {udp:?}");
    let icmp: Vec<_> = row.icmp.iter().map(|(kind, code, who)| (*kind, *code, Some(address(who)))).collect();
    assert_eq!(refusals(&udp), icmp, "{condition}, ICMP of a probe to {server}: {udp:?}");
    let tcp = ask(bed, &probe(server, Transport::Tcp, patience(row.tcp)));
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
    let patient = ask(&bed, &probe(NOBODY[0], Transport::Udp, PATIENCE));
    assert_eq!(seen(&patient), "EHOSTUNREACH", "{patient:?}");
    assert_eq!(refusals(&patient), [(3, 1, Some(address(ROUTER[0])))]);
    assert!(patient.microseconds > 2_000_000, "{patient:?}");
    let hasty = ask(&bed, &probe("10.2.0.10", Transport::Udp, Duration::from_secs(1)));
    assert_eq!(seen(&hasty), "silence", "a second is not enough to see it: {hasty:?}");
    let tcp = ask(&bed, &probe(NOBODY[0], Transport::Tcp, PATIENCE));
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
    let observation = ask(&bed, &Probe { edns: Some(1232), ..probe(SERVER[0], Transport::Udp, PATIENCE) });
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
    let observation = ask(&bed, &probe(SERVER[0], Transport::Udp, PATIENCE));
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
        let observation = ask(&bed, &probe(SERVER[0], transport, SHORT));
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

/// A and AAAA, as a C library numbers them.
fn pair(server: &str, patience: Duration) -> [Probe; 2] {
    let a = probe(server, Transport::Udp, patience);
    [a.clone(), Probe { record: "AAAA".to_owned(), id: 4712, ..a }]
}

fn ask_pair(bed: &Bed, pair: &[Probe], order: Order) -> Vec<Observation> {
    bed.pod
        .run(|| Probe::send_together(pair, order))
        .expect("the namespace can be entered")
        .expect("a question")
}

/// Answers everything, from now on.
fn answer_all(bed: &Bed) {
    let socket =
        bed.server.run(|| UdpSocket::bind((address(SERVER[0]), 53))).expect("entered").expect("a port");
    std::thread::spawn(move || {
        let mut bytes = [0; 512];
        while let Ok((length, from)) = socket.recv_from(&mut bytes) {
            bytes[2] |= 0x80;
            let _ = socket.send_to(&bytes[..length], from);
        }
    });
}

#[test]
fn a_pair_leaves_one_socket_and_what_is_lost_of_it_is_told_for_each() {
    let Some(bed) = Bed::new() else { return };
    answer_all(&bed);
    let whole = ask_pair(&bed, &pair(SERVER[0], PATIENCE), Order::AtOnce);
    assert_eq!(whole.iter().map(seen).collect::<Vec<_>>(), ["NOERROR", "NOERROR"]);
    assert_eq!(whole[0].local, whole[1].local, "one socket");
    // Whatever comes second from a port is dropped.
    let rules = "table inet t { set s { type inet_service; flags dynamic; size 100; }\n chain c { type filter hook forward priority 0;\n \
                 udp dport 53 udp sport @s drop\n udp dport 53 add @s { udp sport }\n }\n }\n";
    inside(&bed.router, &["nft", "-f", "-"], rules);
    for order in [Order::AtOnce, Order::OneByOne] {
        let half = ask_pair(&bed, &pair(SERVER[0], SHORT), order);
        assert_eq!(half.iter().map(seen).collect::<Vec<_>>(), ["NOERROR", "silence"], "{order:?}");
    }
}

#[test]
fn a_pair_that_is_refused_is_refused_for_both_though_one_error_comes() {
    let Some(bed) = Bed::new() else { return };
    for server in [SERVER[0], SERVER[1]] {
        let start = std::time::Instant::now();
        let refused = ask_pair(&bed, &pair(server, PATIENCE), Order::AtOnce);
        assert_eq!(
            refused.iter().map(seen).collect::<Vec<_>>(),
            ["ECONNREFUSED", "ECONNREFUSED"],
            "{refused:?}"
        );
        // A fresh IPv6 address takes its time; nobody waits for the second error.
        assert!(start.elapsed() < PATIENCE, "{:?}", start.elapsed());
        assert!(!refused[0].refusals.is_empty(), "{refused:?}");
    }
}
