//! Rules of Services in a real kernel: they load, are read back without a fault, spread connections as they should,
//! and fail, when they are broken, as is predicted.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use netlab_core::input::{Budget, Document, load};
use netlab_core::model::cluster::{Cluster, ObjectKey};
use netlab_core::model::service::AddressType;
use netlab_core::service::expected::{ExpectedPort, expected};
use netlab_core::service::fault::{Difference, Kind};
use netlab_core::service::follow::Symptom;
use netlab_core::service::nftables::Layout;
use netlab_core::service::trace::{Rules, ServiceTrace, Status, trace};
use netlab_core::service::{iptables, nftables};
use netlab_lab::proxy::{self, ProxyMode};
use netlab_lab::{Lab, Plan, Selection};

use crate::require;

/// A client and an endpoint on one node, another endpoint on the other; every kind of Service.
const WORLD: &str = "
apiVersion: v1
kind: Node
metadata: {name: n1}
spec: {podCIDRs: [10.244.1.0/24, 'fd00:10:1::/64']}
status: {addresses: [{type: InternalIP, address: 192.0.2.11}, {type: InternalIP, address: '2001:db8::11'}]}
---
apiVersion: v1
kind: Node
metadata: {name: n2}
spec: {podCIDRs: [10.244.2.0/24, 'fd00:10:2::/64']}
status: {addresses: [{type: InternalIP, address: 192.0.2.12}, {type: InternalIP, address: '2001:db8::12'}]}
---
apiVersion: v1
kind: Pod
metadata: {name: client, namespace: t}
spec: {nodeName: n1, containers: [{name: c}]}
status: {podIPs: [{ip: 10.244.1.9}, {ip: 'fd00:10:1::9'}]}
---
apiVersion: v1
kind: Pod
metadata: {name: here, namespace: t, labels: {app: web}}
spec: {nodeName: n1, containers: [{name: c}]}
status: {podIPs: [{ip: 10.244.1.1}, {ip: 'fd00:10:1::1'}]}
---
apiVersion: v1
kind: Pod
metadata: {name: there, namespace: t, labels: {app: web}}
spec: {nodeName: n2, containers: [{name: c}]}
status: {podIPs: [{ip: 10.244.2.1}, {ip: 'fd00:10:2::1'}]}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: t}
spec: {clusterIPs: [10.96.0.1, 'fd00:96::1'], selector: {app: web}, ports: [{name: http, port: 80, targetPort: 8080}, {name: other, port: 81, targetPort: 8081}]}
---
apiVersion: v1
kind: Service
metadata: {name: outside, namespace: t}
spec: {type: LoadBalancer, clusterIPs: [10.96.0.2, 'fd00:96::2'], externalTrafficPolicy: Local, sessionAffinity: ClientIP, loadBalancerSourceRanges: [203.0.113.0/24, '2001:db8:1::/48'], selector: {app: web}, ports: [{port: 80, targetPort: 8080, nodePort: 30080}]}
status: {loadBalancer: {ingress: [{ip: 198.51.100.7}, {ip: '2001:db8:7::7'}]}}
---
apiVersion: v1
kind: Service
metadata: {name: nobody, namespace: t}
spec: {type: NodePort, clusterIPs: [10.96.0.3, 'fd00:96::3'], selector: {app: none}, ports: [{port: 80, nodePort: 30081}]}
";

const MODES: [ProxyMode; 3] =
    [ProxyMode::Iptables, ProxyMode::Nftables(Layout::Maps), ProxyMode::Nftables(Layout::Chains)];
const FAMILIES: [AddressType; 2] = [AddressType::Ipv4, AddressType::Ipv6];

fn world() -> Cluster {
    let loaded = load([Document { name: "w.yaml".into(), text: WORLD.into() }], &Budget::default());
    assert!(loaded.diagnostics.is_empty(), "{:?}", loaded.diagnostics);
    loaded.cluster
}

/// A lab of the world; `None` where there can be none.
fn stand(cluster: &Cluster) -> Option<Lab> {
    if !require::netns() {
        return None;
    }
    let commands = ["iptables-restore", "ip6tables-restore", "nft"].map(|command| {
        let run = std::process::Command::new(command).arg("--version").output();
        run.map(drop).map_err(|error| format!("{command}: {error}"))
    });
    if !require::met("nft", commands.into_iter().collect()) {
        return None;
    }
    let plan = Plan::new(cluster, &Selection::everything()).expect("it can be laid out");
    Some(Lab::build(&plan).expect("it can be built"))
}

/// What the node's commands say now, compared with what should be there.
fn compare(lab: &Lab, cluster: &Cluster, mode: ProxyMode, family: AddressType) -> ServiceTrace {
    let listed =
        proxy::list(lab.node("n1").expect("n1"), "n1", mode, family).expect("the rules can be listed");
    let rules = match mode {
        ProxyMode::Iptables => Rules::Iptables(iptables::dump::parse(&listed).expect("well formed")),
        ProxyMode::Nftables(_) => Rules::Nftables(nftables::dump::parse(&listed).expect("well formed")),
    };
    assert_eq!(rules.family(), family);
    trace(&rules, &ports(cluster, family), "n1")
}

fn ports(cluster: &Cluster, family: AddressType) -> Vec<ExpectedPort> {
    expected(cluster, "n1", family)
}

#[test]
fn what_the_kernel_took_is_read_back_without_a_fault() {
    let cluster = world();
    for mode in MODES {
        let Some(lab) = stand(&cluster) else { return };
        proxy::program(&lab, &cluster, mode).expect("the kernel takes it");
        // Again, as a proxy does that starts anew.
        proxy::program(&lab, &cluster, mode).expect("and takes it again");
        for family in FAMILIES {
            let trace = compare(&lab, &cluster, mode, family);
            assert_eq!(trace.ports.len(), 4, "{mode:?} {family:?}");
            assert!(trace.shared.is_empty(), "{mode:?} {family:?}: {:?}", trace.shared);
            for port in &trace.ports {
                let faults: Vec<_> = port.faults().collect();
                assert!(faults.is_empty(), "{mode:?} {family:?} {}: {faults:?}", port.service);
                assert_eq!((port.status, port.symptom), (Status::Ok, Symptom::default()), "{port:?}");
            }
        }
    }
}

#[test]
fn who_may_come_to_a_balancer_s_address_is_compared() {
    let cluster = world();
    for mode in MODES {
        let Some(lab) = stand(&cluster) else { return };
        let good = proxy::rules(&cluster, "n1", mode, AddressType::Ipv4);
        let other = replaced(&good, "203.0.113.0/24", "203.0.114.0/24");
        let node = lab.node("n1").expect("n1");
        proxy::write(node, "n1", mode, AddressType::Ipv4, &other).expect("the kernel takes it");
        let trace = compare(&lab, &cluster, mode, AddressType::Ipv4);
        let port = trace.ports.iter().find(|port| port.service == "t/outside").expect("the port");
        let found: Vec<_> =
            port.faults().map(|fault| (fault.difference, fault.kind, fault.object.as_str())).collect();
        let expected = [
            (Difference::Missing, Kind::SourceRange, "203.0.113.0/24"),
            (Difference::Extra, Kind::SourceRange, "203.0.114.0/24"),
        ];
        assert_eq!(found, expected, "{mode:?}");
    }
}

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Ended {
    /// At the endpoint of this name.
    At(char),
    Refused,
    TimedOut,
}

/// Ends the listeners, also when a test fails: a scope waits for its threads.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Lets both endpoints answer with their first letter while `work` runs.
fn while_they_answer<T>(lab: &Lab, work: impl FnOnce() -> T) -> T {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for name in ["here", "there"] {
            let netns = lab.pod(&ObjectKey::new("t", name)).expect("the pod");
            // Both families come to it.
            let any: SocketAddr = "[::]:8080".parse().expect("an address");
            let listener =
                netns.run(|| TcpListener::bind(any)).expect("the namespace").expect("it can listen");
            listener.set_nonblocking(true).expect("it can wait");
            let stop = &stop;
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    match listener.accept() {
                        Ok((mut stream, _)) => drop(stream.write_all(&name.as_bytes()[..1])),
                        Err(_) => std::thread::sleep(Duration::from_millis(1)),
                    }
                }
            });
        }
        let _stop = Stop(&stop);
        work()
    })
}

/// Side by side, so that those that time out do not wait for each other.
const AT_ONCE: u32 = 40;

fn connect(lab: &Lab, to: &str, times: u32) -> BTreeMap<Ended, u32> {
    let to: SocketAddr = to.parse().expect("an address");
    let client = lab.pod(&ObjectKey::new("t", "client")).expect("the client");
    let once = || match TcpStream::connect_timeout(&to, Duration::from_millis(400)) {
        Ok(mut stream) => {
            let mut letter = [0];
            stream.set_read_timeout(Some(Duration::from_secs(2))).expect("a time");
            stream.read_exact(&mut letter).expect("an endpoint says its letter");
            Ended::At(char::from(letter[0]))
        }
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => Ended::Refused,
        Err(error) if error.kind() == ErrorKind::TimedOut => Ended::TimedOut,
        Err(error) => panic!("{to}: {error}"),
    };
    let mut ended = BTreeMap::new();
    client
        .run(|| {
            std::thread::scope(|scope| {
                let workers: Vec<_> = (0..AT_ONCE)
                    .map(|_| scope.spawn(|| (0..times / AT_ONCE).map(|_| once()).collect::<Vec<_>>()))
                    .collect();
                for worker in workers {
                    for one in worker.join().expect("it ends") {
                        *ended.entry(one).or_default() += 1;
                    }
                }
            });
        })
        .expect("the namespace");
    ended
}

/// Chi-square of one degree of freedom: p > 0.001 below 10.83.
fn is_even(one: u32, other: u32) -> bool {
    let (a, b) = (f64::from(one), f64::from(other));
    (a - b).powi(2) / (a + b) < 10.83
}

#[test]
fn connections_are_spread_evenly() {
    let cluster = world();
    for mode in MODES {
        let Some(lab) = stand(&cluster) else { return };
        proxy::program(&lab, &cluster, mode).expect("the kernel takes it");
        while_they_answer(&lab, || {
            for to in ["10.96.0.1:80", "[fd00:96::1]:80"] {
                let ended = connect(&lab, to, 1_000);
                let [(Ended::At('h'), here), (Ended::At('t'), there)] =
                    ended.clone().into_iter().collect::<Vec<_>>()[..]
                else {
                    panic!("{mode:?} {to}: {ended:?}")
                };
                assert!(is_even(here, there), "{mode:?} {to}: {here} and {there}");
            }
            assert_eq!(connect(&lab, "10.96.0.3:80", 40), BTreeMap::from([(Ended::Refused, 40)]), "{mode:?}");
        });
    }
}

/// The rules without the first line that holds all of these words.
fn without(rules: &str, words: &[&str]) -> String {
    let at = rules.lines().position(|line| words.iter().all(|word| line.contains(word)));
    let at = at.unwrap_or_else(|| panic!("no line has {words:?}"));
    rules
        .lines()
        .enumerate()
        .filter(|(index, _)| *index != at)
        .map(|(_, line)| line.to_owned() + "\n")
        .collect()
}

fn replaced(rules: &str, from: &str, to: &str) -> String {
    assert!(rules.contains(from), "nothing reads {from}");
    rules.replacen(from, to, 1)
}

/// A way to break rules, and the object and kind that is then named.
struct Corruption {
    name: &'static str,
    rules: String,
    object: &'static str,
    kind: Kind,
}

fn of_iptables(good: &str) -> Vec<Corruption> {
    let jump = |to: &str| format!("\"t/web:http -> {to}\"");
    let (first, last) = ("10.244.1.1:8080", "10.244.2.1:8080");
    let corruption = |name, rules, object, kind| Corruption { name, rules, object, kind };
    vec![
        corruption("no jump to the first", without(good, &[&jump(first)]), first, Kind::Backend),
        corruption("no jump to the last", without(good, &[&jump(last)]), last, Kind::Backend),
        corruption("the first is empty", without(good, &["t/web:http\"", "DNAT", first]), first, Kind::Empty),
        corruption("the last is empty", without(good, &["t/web:http\"", "DNAT", last]), last, Kind::Empty),
        corruption("no frontend", without(good, &["-A KUBE-SERVICES", "t/web:http"]), "", Kind::Frontend),
        corruption(
            "a wrong address",
            replaced(
                good,
                "--comment \"t/web:http\" -j DNAT --to-destination 10.244.2.1:8080",
                "--comment \"t/web:http\" -j DNAT --to-destination 10.244.2.99:8080",
            ),
            last,
            Kind::BackendTarget,
        ),
        corruption(
            "a wrong port",
            replaced(
                good,
                "--comment \"t/web:http\" -j DNAT --to-destination 10.244.2.1:8080",
                "--comment \"t/web:http\" -j DNAT --to-destination 10.244.2.1:8099",
            ),
            last,
            Kind::BackendTarget,
        ),
    ]
}

fn of_nftables(good: &str) -> Vec<Corruption> {
    let corruption = |name, rules, object, kind| Corruption { name, rules, object, kind };
    let element = good
        .lines()
        .find(|line| line.starts_with("map service-ips"))
        .and_then(|line| line.split(['{', ',']).find(|element| element.contains("10.96.0.1 . tcp . 80 ")))
        .expect("the element")
        .trim_end_matches([' ', '}'])
        .to_owned();
    let no_element = replaced(good, &format!("{element},"), "");
    let spread = "numgen random mod 2 map { 0 : 10.244.1.1 . 8080, 1 : 10.244.2.1 . 8080 }";
    let with = |map: &str| replaced(good, spread, map);
    let rule = good.lines().find(|line| line.contains(spread)).expect("the rule");
    vec![
        corruption("no element", no_element.clone(), "", Kind::Frontend),
        corruption("no address either", replaced(&no_element, "10.96.0.1, ", ""), "", Kind::End),
        corruption("an empty chain", without(good, &[rule]), "10.244.2.1:8080", Kind::Backend),
        corruption(
            "a map with a hole",
            with("numgen random mod 2 map { 0 : 10.244.1.1 . 8080 }"),
            "10.244.2.1:8080",
            Kind::Backend,
        ),
        corruption(
            "a wrong address",
            with("numgen random mod 2 map { 0 : 10.244.1.1 . 8080, 1 : 10.244.2.99 . 8080 }"),
            "10.244.2.1:8080",
            Kind::Backend,
        ),
        corruption(
            "a number too few",
            with("numgen random mod 1 map { 0 : 10.244.1.1 . 8080 }"),
            "10.244.2.1:8080",
            Kind::Backend,
        ),
    ]
}

/// A real node has a default route; what is not translated leaves by it, and nobody answers.
fn lead_out(lab: &Lab, node: &netlab_node::Netns) {
    let index = lab.uplink("n1").expect("n1 has one");
    let links =
        netlab_node::Netlink::open_in(node).and_then(|mut netlink| netlink.links()).expect("its links");
    let uplink = links.into_iter().find(|link| link.index == index).expect("the link").name;
    let run = |arguments: String| {
        let ip = || std::process::Command::new("ip").args(arguments.split(' ')).status();
        assert!(node.run(ip).expect("the namespace").expect("ip runs").success(), "ip {arguments}");
    };
    run(format!("neigh add 192.0.2.99 lladdr 02:00:00:00:00:99 dev {uplink} nud permanent"));
    for net in ["10.96.0.0/16", "10.244.2.99/32"] {
        run(format!("route add {net} via 192.0.2.99 dev {uplink} onlink"));
    }
}

/// Each corruption is put into a kernel's rules. What is told of it must be what a client sees.
#[test]
fn what_is_predicted_of_broken_rules_is_what_clients_see() {
    let cluster = world();
    for mode in [ProxyMode::Iptables, ProxyMode::Nftables(Layout::Maps)] {
        let good = proxy::rules(&cluster, "n1", mode, AddressType::Ipv4);
        let corruptions = match mode {
            ProxyMode::Iptables => of_iptables(&good),
            ProxyMode::Nftables(_) => of_nftables(&good),
        };
        for corruption in &corruptions {
            // In a lab of its own: what connection tracking remembers of a port would decide for the next one there.
            let Some(lab) = stand(&cluster) else { return };
            try_out(&lab, &cluster, mode, corruption);
        }
    }
}

fn try_out(lab: &Lab, cluster: &Cluster, mode: ProxyMode, corruption: &Corruption) {
    const TIMES: u32 = 200;
    let Corruption { name, rules, object, kind } = corruption;
    let node = lab.node("n1").expect("n1");
    // Refusals are counted here, so none may be held back.
    let unlimited = || {
        std::fs::write("/proc/sys/net/ipv4/icmp_ratelimit", "0")
            .and_then(|()| std::fs::write("/proc/sys/net/ipv4/icmp_msgs_per_sec", "1000000"))
            .and_then(|()| std::fs::write("/proc/sys/net/ipv4/icmp_msgs_burst", "1000000"))
    };
    // Kernels whose limit is the whole machine's do not let a namespace write it; it is then wide enough.
    let _ = node.run(unlimited).expect("the namespace");
    lead_out(lab, node);
    proxy::write(node, "n1", mode, AddressType::Ipv4, rules).expect("the kernel takes it");

    let trace = compare(lab, cluster, mode, AddressType::Ipv4);
    let port = trace.ports.iter().find(|port| port.port == "http").expect("the port");
    let named = port.faults().any(|fault| {
        let about = fault.endpoint.as_deref().unwrap_or_default();
        fault.kind == *kind && about.starts_with(object)
    });
    assert!(named, "{mode:?}, {name}: {:?}", port.faults().collect::<Vec<_>>());
    let other = trace.ports.iter().find(|port| port.port == "other").expect("the other port");
    // Only the address is both ports'.
    let of_other = usize::from(*kind == Kind::End);
    assert_eq!(other.faults().count(), of_other, "{mode:?}, {name}: the other port is whole");

    let ended = while_they_answer(lab, || connect(lab, "10.96.0.1:80", TIMES));
    let share = |which| f64::from(*ended.get(&which).unwrap_or(&0)) / f64::from(TIMES);
    for (seen, told) in [
        (share(Ended::TimedOut), port.symptom.timeout_share),
        (share(Ended::Refused), port.symptom.refused_share),
    ] {
        assert!((seen - told).abs() <= 0.1, "{mode:?}, {name}: told {:?}, seen {ended:?}", port.symptom);
        // A loaded machine may be late with an answer once in a while.
        assert!(told > 0.0 || seen <= 0.02, "{mode:?}, {name}: what was not told was seen: {ended:?}");
    }
}
