//! Evidence gathered from real namespaces: complete, within its limits, and of nobody else.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hickory_proto::op::{Message, MessageType, ResponseCode};
use hickory_proto::rr::rdata::{A, SOA};
use hickory_proto::rr::{Name, RData, Record, RecordType};
use netlab_core::input::Document;
use netlab_dnsdiag::bundle::{self, layout};
use netlab_dnsdiag::gather::{Budget, Gathered, LocalFiles, LocalProber, PodFiles, Prober, gather, objects};
use netlab_plugin::check::Target;
use netlab_plugin::evidence::{Outcome, Position, Probe, Transport};

use crate::bed::{Bed, SERVER, address, filter, inside};

const CLUSTER: &str = "
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: v1
kind: Node
metadata: {name: n1}
---
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop}
spec: {nodeName: n1, containers: [{name: c}]}
status: {phase: Running, podIPs: [{ip: 10.1.0.2}]}
---
apiVersion: v1
kind: Service
metadata: {name: kube-dns, namespace: kube-system}
spec: {clusterIP: 10.96.0.10, clusterIPs: [10.96.0.10], selector: {k8s-app: kube-dns}, ports: [{name: dns, port: 53, protocol: UDP}, {name: dns-tcp, port: 53, protocol: TCP}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: kube-dns-1, namespace: kube-system, labels: {kubernetes.io/service-name: kube-dns}}
addressType: IPv4
ports: [{name: dns, port: 53, protocol: UDP}, {name: dns-tcp, port: 53, protocol: TCP}]
endpoints: [{addresses: [10.2.0.2], conditions: {ready: true}, nodeName: n1}]
";

const RESOLV_CONF: &str =
    "search shop.svc.cluster.local svc.cluster.local cluster.local\nnameserver 10.96.0.10\noptions ndots:5\n";

/// As kube-proxy would have it.
const PROXY: &str = "table ip kube-proxy { chain c { type nat hook prerouting priority dstnat; \
    ip daddr 10.96.0.10 udp dport 53 dnat to 10.2.0.2\n ip daddr 10.96.0.10 tcp dport 53 dnat to 10.2.0.2\n }\n \
    chain o { type nat hook output priority -100; ip daddr 10.96.0.10 udp dport 53 dnat to 10.2.0.2\n }\n }\n";

fn answer(question: &[u8]) -> Option<Vec<u8>> {
    let question = Message::from_vec(question).ok()?;
    let asked = question.queries.first()?.clone();
    let mut reply = Message::new(question.metadata.id, MessageType::Response, question.metadata.op_code);
    let known = ["kubernetes.default.svc.cluster.local.", "api.shop.svc.cluster.local."];
    reply.metadata.authoritative = true;
    if known.contains(&&*asked.name().to_string()) {
        if asked.query_type() == RecordType::A {
            let record = Record::from_rdata(asked.name().clone(), 30, RData::A(A::new(10, 96, 0, 1)));
            reply.add_answer(record);
        }
    } else {
        reply.metadata.response_code = ResponseCode::NXDomain;
        let zone = Name::from_ascii("cluster.local.").ok()?;
        let soa = SOA::new(zone.clone(), zone.clone(), 1, 7200, 1800, 86400, 30);
        reply.add_authority(Record::from_rdata(zone, 30, RData::SOA(soa)));
    }
    reply.add_query(asked);
    reply.to_vec().ok()
}

/// Serves until the test process ends; the sockets are the namespace's.
fn serve(bed: &Bed) {
    let open = || (UdpSocket::bind((address(SERVER[0]), 53)), TcpListener::bind((address(SERVER[0]), 53)));
    let (udp, tcp) = bed.server.run(open).expect("entered");
    let (udp, tcp) = (udp.expect("a port"), tcp.expect("a port"));
    std::thread::spawn(move || {
        let mut bytes = [0; 1500];
        while let Ok((length, from)) = udp.recv_from(&mut bytes) {
            if let Some(reply) = answer(&bytes[..length]) {
                let _ = udp.send_to(&reply, from);
            }
        }
    });
    std::thread::spawn(move || {
        for mut stream in tcp.incoming().flatten() {
            let mut length = [0; 2];
            let mut question = Vec::new();
            if stream.read_exact(&mut length).is_ok() {
                question.resize(usize::from(u16::from_be_bytes(length)), 0);
            }
            if stream.read_exact(&mut question).is_ok()
                && let Some(reply) = answer(&question)
            {
                let length = u16::try_from(reply.len()).unwrap_or(0).to_be_bytes();
                let _ = stream.write_all(&[&length[..], &reply].concat());
            }
        }
    });
}

fn target() -> Target {
    Target {
        namespace: "shop".to_owned(),
        pod: "web".to_owned(),
        names: vec!["api".to_owned()],
        libc: Some("glibc:2.36".to_owned()),
        ..Target::default()
    }
}

fn run(bed: &Bed, etc: &std::path::Path, stop: &Arc<AtomicBool>) -> Gathered {
    let document = Document { name: "cluster.yaml".into(), text: CLUSTER.into() };
    let given: BTreeMap<String, String> =
        objects([&document]).into_iter().map(|(id, text)| (id.to_owned(), text)).collect();
    let clone = |netns: &netlab_node::Netns| Some(netns.try_clone().expect("a handle"));
    let files = LocalFiles {
        given,
        pod_files: Some(PodFiles::Directory(etc.to_owned())),
        pod: clone(&bed.pod),
        node: clone(&bed.router),
        node_name: "n1".to_owned(),
        ..LocalFiles::default()
    };
    let prober: Arc<dyn Prober> = Arc::new(LocalProber {
        pod: clone(&bed.pod),
        node: clone(&bed.router),
        dns_pods: BTreeMap::from([(address(SERVER[0]), clone(&bed.server).expect("a handle"))]),
    });
    gather(target(), &files, &prober, &Budget::default(), 7, stop)
}

fn etc() -> tempfile::TempDir {
    let etc = tempfile::tempdir().expect("a directory");
    std::fs::write(etc.path().join("resolv.conf"), RESOLV_CONF).expect("written");
    std::fs::write(etc.path().join("hosts"), "127.0.0.1 localhost\n").expect("written");
    etc
}

fn rows<'g>(gathered: &'g Gathered, from: &Position, server: &str, transport: Transport) -> Vec<&'g Probe> {
    let evidence = gathered.bundle.evidence.probes().map(|(_, probe)| probe);
    evidence
        .filter(|probe| {
            probe.from == *from && probe.server == address(server) && probe.transport == transport
        })
        .collect()
}

#[test]
fn a_pod_whose_dns_works_gives_a_whole_bundle_that_replays() {
    let Some(bed) = Bed::new() else { return };
    serve(&bed);
    inside(&bed.router, &["nft", "-f", "-"], PROXY);
    let etc = etc();
    let gathered = run(&bed, etc.path(), &Arc::default());
    for (from, server, transport) in [
        (Position::Pod, "10.96.0.10", Transport::Udp),
        (Position::Pod, "10.96.0.10", Transport::Tcp),
        (Position::Pod, SERVER[0], Transport::Udp),
        (Position::Pod, SERVER[0], Transport::Tcp),
        (Position::Node, SERVER[0], Transport::Udp),
        (Position::DnsPod, SERVER[0], Transport::Udp),
    ] {
        let rows = rows(&gathered, &from, server, transport);
        assert!(!rows.is_empty(), "{from} did not ask {server} over {transport}");
        let bad: Vec<_> = rows.iter().filter(|row| !row.result.is_answer()).collect();
        assert!(bad.is_empty(), "{bad:#?}");
    }
    let found = |name: &str, qtype: &str| {
        let mut all = gathered.bundle.evidence.probes().map(|(_, probe)| probe);
        all.find(|probe| probe.name == name && probe.qtype == qtype).cloned()
    };
    let api = found("api.shop.svc.cluster.local.", "A").expect("the search list's first candidate is asked");
    assert_eq!((api.result, &*api.answers.join(" "), api.ttl), (Outcome::Noerror, "10.96.0.1", Some(30)));
    let last = found("api.", "A").expect("the name as it is, last");
    assert_eq!((last.result, last.soa.as_deref()), (Outcome::Nxdomain, Some("cluster.local.")));
    assert!(gathered.sent <= 50, "{} questions", gathered.sent);
    let evidence = &gathered.bundle.evidence;
    assert!(evidence.text(layout::NODE_NFT).is_some_and(|text| text.contains("kube-proxy")));
    assert!(!evidence.examined(layout::NODE_IPTABLES), "the proxy is nftables");
    assert!(evidence.is_absent(layout::POD_NSSWITCH), "looked for, and not there");
    let conntrack = evidence.text(layout::NODE_CONNTRACK).expect("recorded after the probes");
    assert!(conntrack.contains("dst=10.96.0.10"), "{conntrack}");
    let (_, counters) = evidence.counters().expect("numbers of the node");
    let max = counters.by_owner["n1"]["conntrack.max"];
    assert!(max.growth() == Some(0.0) && max.last() > 0.0);
    let again = bundle::parse(&bundle::files(&gathered.bundle)).expect("it reads what it writes");
    assert_eq!(again, gathered.bundle);
}

#[test]
fn when_all_is_silent_it_is_over_in_eight_seconds() {
    let Some(bed) = Bed::new() else { return };
    inside(&bed.router, &["nft", "-f", "-"], PROXY);
    filter(&bed.pod, "input", "meta l4proto { tcp, udp, icmp } drop");
    let etc = etc();
    let start = Instant::now();
    let gathered = run(&bed, etc.path(), &Arc::default());
    let took = start.elapsed();
    assert!(took < Duration::from_secs(8), "{took:?}");
    assert!(gathered.sent <= 50, "{} questions", gathered.sent);
    let pod: Vec<_> =
        gathered.bundle.evidence.probes().filter(|(_, probe)| probe.from == Position::Pod).collect();
    assert!(!pod.is_empty());
    for (id, probe) in pod {
        assert_eq!((probe.result, probe.answered), (Outcome::Silent, None), "{id}: {probe:?}");
    }
    // Silent segments were asked once more, by a socket that hears anybody.
    let vip = rows(&gathered, &Position::Pod, "10.96.0.10", Transport::Udp);
    assert_eq!(vip.first().map(|row| row.sent), Some(3), "{vip:#?}");
}

#[test]
fn a_stop_gives_what_is_known() {
    let Some(bed) = Bed::new() else { return };
    filter(&bed.pod, "input", "drop");
    let etc = etc();
    let stop = Arc::new(AtomicBool::new(false));
    let later = Arc::clone(&stop);
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(600));
        later.store(true, Ordering::Relaxed);
    });
    let start = Instant::now();
    let gathered = run(&bed, etc.path(), &stop);
    assert!(gathered.interrupted && start.elapsed() < Duration::from_millis(1_500), "{:?}", start.elapsed());
    assert!(gathered.bundle.evidence.text(layout::POD_RESOLV_CONF).is_some());
}

#[test]
fn nothing_of_the_machine_itself_gets_into_a_bundle() {
    let Some(bed) = Bed::new() else { return };
    // A pod of which nothing is known but its namespaces, in which nothing is set up.
    let files = LocalFiles {
        pod: Some(bed.pod.try_clone().expect("a handle")),
        node: Some(bed.router.try_clone().expect("a handle")),
        node_name: "n1".to_owned(),
        ..LocalFiles::default()
    };
    let prober: Arc<dyn Prober> = Arc::new(LocalProber::default());
    let gathered = gather(target(), &files, &prober, &Budget::default(), 7, &Arc::default());
    let evidence = &gathered.bundle.evidence;
    // What a careless reader would take from this process: its files, and nothing else has them.
    for id in
        [layout::POD_RESOLV_CONF, layout::POD_HOSTS, layout::NODE_RESOLV_CONF, layout::KUBELET, layout::PODS]
    {
        assert!(!evidence.examined(id), "{id} came from somewhere");
    }
    let addresses = evidence.text(layout::NODE_ADDRESSES).expect("of the node");
    assert!(addresses.contains("10.1.0.1"), "{addresses}");
    let own = std::process::Command::new("ip").args(["-o", "link"]).output().expect("ip runs");
    let own = String::from_utf8_lossy(&own.stdout).into_owned();
    let names = own
        .lines()
        .filter_map(|line| line.split(": ").nth(1))
        .map(|name| name.split('@').next().unwrap_or(name));
    for name in names.filter(|name| *name != "lo") {
        assert!(!addresses.contains(&format!(" {name}:")), "{name} is the machine's own");
    }
    assert_eq!(evidence.probes().count(), 0);
}
