//! The lab's server against a real CoreDNS: the same questions, byte for byte.
//!
//! What a real one answered is kept in `dnsdiag/tests/data/coredns`, so the everyday test needs none. With
//! `NETLAB_DNS_PEERS` (`cargo xtask dns-peers`) it is asked again; `NETLAB_BLESS=1` then writes what it says.

mod api;
mod diagnosis;
mod nameserver;
mod question;
mod reply;
mod server;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::time::Duration;

use netlab_lab::Place;
use netlab_lab::named::{Client, RunDir};
use netlab_node::Netns;

use crate::lab::Labs;
use crate::run::{root, root_or_skip};
use question::{Question, questions};
use server::{Peer, peers};

/// How long a reply may take; a server above is given up after two seconds.
const PATIENCE: Duration = Duration::from_millis(1500);
/// The addresses of the world's DNS pod.
const SERVER: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(10, 244, 0, 2)), IpAddr::V6(Ipv6Addr::new(0xfd00, 0x10, 0x244, 0, 0, 0, 0, 2))];
/// What the lab's server says otherwise, and why.
const DIFFERENT: [(&str, &str); 6] = [
    (
        "udp cluster.local. NS",
        "each address of the name server is told once, by CoreDNS once for each of its slices",
    ),
    ("udp+100 many.t.svc.cluster.local. A", "an EDNS size below 512 is given back as the 512 that it means"),
    ("udp+edns1 web.t.svc.cluster.local. A", "BADVERS offers a size of 512, where CoreDNS offers 0"),
    ("tcp+edns1 web.t.svc.cluster.local. A", "BADVERS offers a size of 512, where CoreDNS offers 0"),
    ("udp+edns1 none.t.svc.cluster.local. A", "BADVERS offers a size of 512, where CoreDNS offers 0"),
    (
        "udp+cut web.t.svc.cluster.local. A",
        "a question that ends too early is left unanswered; CoreDNS reads type 0",
    ),
];

/// What kubeadm writes, but for the port, the API's place and the world's server.
const COREFILE: &str = ".:5353 {
    errors
    health
    ready
    kubernetes cluster.local in-addr.arpa ip6.arpa {
        endpoint API
        pods insecure
        fallthrough in-addr.arpa ip6.arpa
        ttl 30
    }
    forward . 192.0.2.53
    cache 30
    loop
    reload
    loadbalance
}
";

fn data(name: &str) -> PathBuf {
    root().join("dnsdiag/tests/data/coredns").join(name)
}

fn text(name: &str) -> String {
    std::fs::read_to_string(data(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// A lab of the world, and two of its places.
struct Bed {
    client: Netns,
    server: Netns,
    fabric: Netns,
    labs: Labs,
}

impl Bed {
    fn new() -> Self {
        let labs = Labs::new();
        labs.good(&format!("netlab lab up -f {} --dns", data("world.yaml").display()));
        let run_dir = RunDir::at(labs.directory.path().join("run"));
        let mut lab = Client::connect(&run_dir, "lab").expect("the lab");
        let mut netns = |place: Place| {
            let entry = lab.entry(&place).expect("a place");
            entry.netns().try_clone().expect("a namespace")
        };
        let fabric = netns(Place::Fabric);
        Self {
            client: netns(Place::pod("t", "client")),
            server: netns(Place::pod("kube-system", "coredns-1")),
            fabric,
            labs,
        }
    }

    /// What whoever listens in the server's pod says to every question.
    fn ask(&self, questions: &[Question]) -> BTreeMap<String, String> {
        let ask = |question: &Question| {
            let server = SocketAddr::new(SERVER[usize::from(question.v6)], 53);
            (question.line.clone(), ask(question, server))
        };
        self.client.run(|| questions.iter().map(ask).collect()).expect("the client's namespace")
    }
}

fn ask(question: &Question, server: SocketAddr) -> String {
    let heard = if question.tcp { over_tcp(question, server) } else { over_udp(question, server) };
    match heard {
        Ok(bytes) => reply::reply(&bytes, &question.bytes),
        Err(error) => match error.kind() {
            std::io::ErrorKind::WouldBlock => "silence\n".to_owned(),
            std::io::ErrorKind::UnexpectedEof | std::io::ErrorKind::ConnectionReset => "closed\n".to_owned(),
            _ => format!("{error}\n"),
        },
    }
}

fn over_udp(question: &Question, server: SocketAddr) -> std::io::Result<Vec<u8>> {
    let socket = UdpSocket::bind(if question.v6 { "[::]:0" } else { "0.0.0.0:0" })?;
    socket.connect(server)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.send(&question.bytes)?;
    let mut buffer = vec![0; 65_535];
    let length = socket.recv(&mut buffer)?;
    buffer.truncate(length);
    Ok(buffer)
}

fn over_tcp(question: &Question, server: SocketAddr) -> std::io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect_timeout(&server, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let length = u16::try_from(question.bytes.len()).expect("a short question");
    stream.write_all(&[&length.to_be_bytes()[..], &question.bytes].concat())?;
    let mut length = [0; 2];
    stream.read_exact(&mut length)?;
    let mut reply = vec![0; usize::from(u16::from_be_bytes(length))];
    stream.read_exact(&mut reply)?;
    Ok(reply)
}

/// As it is kept: a question after `> `, then what was answered.
fn kept(questions: &[Question], answers: &BTreeMap<String, String>) -> String {
    let mut text = String::new();
    for question in questions {
        let _ = write!(text, "> {}\n{}\n", question.line, answers[&question.line]);
    }
    text
}

fn read_kept(text: &str) -> BTreeMap<String, String> {
    let blocks = text.split("> ").skip(1).filter_map(|block| block.split_once('\n'));
    blocks.map(|(line, answer)| (line.to_owned(), format!("{}\n", answer.trim_end()))).collect()
}

/// What differs, as a text.
fn differences(
    wanted: &BTreeMap<String, String>,
    found: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let of = |map: &BTreeMap<String, String>, line: &String| map.get(line).cloned().unwrap_or_default();
    let different = found.iter().filter(|(line, answer)| of(wanted, line) != **answer);
    different
        .map(|(line, answer)| {
            (line.clone(), format!("> {line}\nCoreDNS said:\n{}here is said:\n{answer}", of(wanted, line)))
        })
        .collect()
}

#[test]
fn a_real_coredns_says_what_is_kept() {
    let Some(_) = peers() else { return };
    let bed = Bed::new();
    let questions = questions(&text("questions.txt"));
    let directory = tempfile::tempdir().expect("a directory");
    let peer = Peer::coredns(&bed.server, &SERVER, directory.path(), COREFILE, &text("world.yaml"));
    let found = bed.ask(&questions);
    if std::env::var("NETLAB_BLESS").is_ok_and(|value| value == "1") {
        std::fs::write(data("answers.txt"), kept(&questions, &found)).expect("written");
    }
    let different = differences(&read_kept(&text("answers.txt")), &found);
    let texts: Vec<&str> = different.values().map(String::as_str).collect();
    assert!(different.is_empty(), "{}\n{}", texts.join("\n"), peer.told());
}

#[test]
fn the_lab_s_server_says_what_a_real_coredns_said() {
    if !root_or_skip("the_lab_s_server_says_what_a_real_coredns_said") {
        return;
    }
    let bed = Bed::new();
    let questions = questions(&text("questions.txt"));
    let found = bed.ask(&questions);
    let mut different = differences(&read_kept(&text("answers.txt")), &found);
    let alike: Vec<_> = DIFFERENT.iter().filter(|(line, _)| different.remove(*line).is_none()).collect();
    let texts: Vec<&str> = different.values().map(String::as_str).collect();
    assert!(different.is_empty(), "{}\n{} of {}", texts.join("\n"), different.len(), questions.len());
    assert!(alike.is_empty(), "no difference any more: {alike:#?}");
    assert!(questions.len() > 240, "{}", questions.len());
}
