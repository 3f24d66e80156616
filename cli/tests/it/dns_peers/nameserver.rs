//! Real servers as a pod's own name server, without a cluster: what `dns diagnose --netns` says of them.
//!
//! Invariant: the command knows the namespace and a resolv.conf, and is itself in a namespace where nothing is up.

use std::fmt::Write as _;
use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::AsRawFd as _;
use std::path::Path;

use super::server::{Peer, peers};
use super::{Bed, text};

const NAMESERVER: [IpAddr; 1] = [IpAddr::V4(Ipv4Addr::new(192, 0, 2, 53))];
const KUBELET: &str = "search t.svc.cluster.local svc.cluster.local cluster.local\noptions ndots:5\n";

/// Server, what stands in resolv.conf beside it, names, libc, and what has to be said; a cause is never named, as none of this
/// cluster's is one.
const CASES: [(&str, &str, &str, &str, &str); 14] = [
    ("dnsmasq", "", "example.com large.example.com", "glibc:2.36", "in order"),
    ("dnsmasq", KUBELET, "example.com www.example.com", "musl:1.2.5", "in order"),
    ("unbound", "", "example.com large.example.com", "glibc:2.36", "in order"),
    ("unbound", KUBELET, "example.com www.example.com", "musl:1.2.5", "in order"),
    ("named", "", "example.com large.example.com", "glibc:2.36", "in order"),
    ("named", KUBELET, "example.com www.example.com", "musl:1.2.5", "in order"),
    ("named-full", "", "example.com", "go:1.26", "in order"),
    ("dnsmasq", "", "nobody.example.com", "glibc:2.36", "fails"),
    ("unbound", "", "nobody.example.com", "glibc:2.36", "fails"),
    ("named", "", "nobody.example.com", "glibc:2.36", "fails"),
    ("dnsmasq-refusing", "", "example.org", "glibc:2.36", "fails"),
    ("unbound-servfail", "", "example.org", "glibc:2.36", "fails"),
    ("unbound-refusing", "", "example.com", "glibc:2.36", "fails"),
    ("dnsmasq-refusing", "", "example.com", "glibc:2.36", "in order"),
];

fn server<'b>(bed: &'b Bed, kind: &str, place: &Path) -> Peer<'b> {
    let fabric = &bed.fabric;
    match kind {
        "dnsmasq" => Peer::dnsmasq(fabric, &NAMESERVER, place, &[]),
        "dnsmasq-refusing" => Peer::dnsmasq(fabric, &NAMESERVER, place, &["--server=/org/#"]),
        "unbound" => Peer::unbound(fabric, &NAMESERVER, place, ""),
        "unbound-servfail" => Peer::unbound(fabric, &NAMESERVER, place, " local-zone: \"org\" transparent\n"),
        "unbound-refusing" => {
            Peer::unbound(fabric, &NAMESERVER, place, " access-control: 10.0.0.0/8 refuse\n")
        }
        "named" => Peer::named(fabric, &NAMESERVER, place, "recursion yes;"),
        "named-full" => Peer::named(fabric, &NAMESERVER, place, "recursion no; minimal-responses no;"),
        _ => panic!("{kind}"),
    }
}

/// The world, in which the pod has its name server from its own manifest.
fn manifest(searches: bool) -> String {
    let plain = "spec: {nodeName: b, containers: [{name: c}]}\nstatus: {phase: Running, podIP: 10.244.1.9,";
    let more = ", searches: [t.svc.cluster.local, svc.cluster.local, cluster.local], options: [{name: ndots, value: '5'}]";
    let own = format!(
        "spec: {{nodeName: b, containers: [{{name: c}}], dnsPolicy: None, dnsConfig: {{nameservers: [192.0.2.53]{}}}}}\n\
         status: {{phase: Running, podIP: 10.244.1.9,",
        if searches { more } else { "" }
    );
    let world = text("world.yaml");
    assert!(world.contains(plain), "the pod `client` is another");
    world.replace(plain, &own)
}

#[test]
fn a_real_name_server_of_a_pod_s_own_is_told_for_what_it_is() {
    let Some(_) = peers() else { return };
    let bed = Bed::new();
    let netns = format!("/proc/{}/fd/{}", std::process::id(), bed.client.as_raw_fd());
    let (mut wrong, mut table) = (String::new(), String::new());
    for (kind, conf, names, libc, said) in CASES {
        let place = tempfile::tempdir().expect("a directory");
        let mut peer = server(&bed, kind, place.path());
        assert!(peer.runs(), "{}", peer.told());
        let file = place.path().join("resolv.conf");
        std::fs::write(&file, format!("{conf}nameserver 192.0.2.53\n")).expect("written");
        let pod = place.path().join("pod.yaml");
        std::fs::write(&pod, manifest(!conf.is_empty())).expect("written");
        let line = format!(
            "unshare -n netlab dns diagnose --netns {netns} --resolv-conf {} --libc {libc} -f {} t/client {names}",
            file.display(),
            pod.display()
        );
        let value = bed.labs.json(&line).1;
        let verdict = &value["verdict"];
        let summary = verdict["summary"].as_str().unwrap_or_default();
        let right = verdict["class"] == "undetermined" && verdict["mode"].is_null() && summary.contains(said);
        let row = format!("{kind:<18} {names:<32} {libc:<12} {said:<10} {summary}");
        let _ = writeln!(table, "{row}");
        if !right {
            let _ = writeln!(wrong, "{row}\n{:#}\n{:#}\n{}", value["because"], value["steps"], peer.told());
        }
    }
    let _ = writeln!(std::io::stderr(), "{table}");
    assert!(wrong.is_empty(), "{wrong}");
}
