//! Rules of iptables mode: written, read back, followed, and broken in every way that a dump can show.

use std::net::SocketAddr;

use netlab_core::service::expected::ExpectedPort;
use netlab_core::service::fault::{Difference, Kind};
use netlab_core::service::follow::Symptom;
use netlab_core::service::iptables::dump::parse;
use netlab_core::service::iptables::emit;
use netlab_core::service::trace::{Rules, ServiceTrace, Status};

use crate::service_world::{HALF_BROKEN, all_kinds, options, ports};

fn trace(rules: &str, ports: &[ExpectedPort]) -> ServiceTrace {
    netlab_core::service::trace::trace(&Rules::Iptables(parse(rules).expect("well formed")), ports, "worker")
}

#[test]
fn what_is_written_is_read_back_without_a_fault() {
    for world in [HALF_BROKEN.to_owned(), all_kinds()] {
        let ports = ports(&world);
        assert!(!ports.is_empty());
        let trace = trace(&emit(&ports, &options()), &ports);
        assert!(trace.shared.is_empty(), "{:?}", trace.shared);
        for port in &trace.ports {
            let faults: Vec<_> = port.faults().collect();
            assert!(faults.is_empty(), "{}: {faults:?}", port.service);
            assert_eq!((port.status, port.symptom), (Status::Ok, Symptom::default()), "{port:?}");
        }
    }
}

#[test]
fn each_address_leads_to_its_own_endpoints() {
    let ports = ports(&all_kinds());
    let trace = trace(&emit(&ports, &options()), &ports);
    let shares = |service: &str, address: &str| -> Vec<(String, f64)> {
        let port = trace.ports.iter().find(|port| port.service == service).expect("it is there");
        let found =
            port.addresses.iter().find(|found| found.address == address).expect("the address is there");
        found.shares.iter().map(|(to, share)| (to.clone(), (share * 1000.0).round() / 1000.0)).collect()
    };
    let one = [("10.244.1.1:8080".to_owned(), 1.0)];
    assert_eq!(shares("t/local", "10.96.0.1:80"), one);
    assert_eq!(shares("t/outside", "node port 30080"), one, "from outside only the node's own");
    assert_eq!(shares("t/outside", "10.96.0.2:80").len(), 3, "and inside all");
    for address in ["10.96.0.3:53", "198.51.100.7:53", "198.51.100.9:53", "node port 30053"] {
        let shares = shares("t/balanced", address);
        assert!(
            shares.len() == 3 && shares.iter().all(|(_, share)| (share - 0.333).abs() < 1e-9),
            "{address}: {shares:?}"
        );
    }
}

/// Lines without the first that holds all of these words.
fn without(rules: &str, words: &[&str]) -> String {
    let is_it = |line: &str| words.iter().all(|word| line.contains(word));
    let at = rules.lines().position(is_it).unwrap_or_else(|| panic!("no line has {words:?}"));
    rules
        .lines()
        .enumerate()
        .filter(|(index, _)| *index != at)
        .map(|(_, line)| line.to_owned() + "\n")
        .collect()
}

fn replaced(rules: &str, from: &str, to: &str) -> String {
    assert!(rules.contains(from), "no line has {from}");
    rules.replacen(from, to, 1)
}

/// What each corruption of the half-broken Service is found to be, and what clients see of it.
#[test]
fn each_corruption_is_named_with_what_clients_see() {
    let ports = ports(HALF_BROKEN);
    let good = emit(&ports, &options());
    let (first, last) = ("KUBE-SEP-XMVLLEELEAGPVCH3", "KUBE-SEP-442MEYXHNLSPQS4C");
    let service = "KUBE-SVC-GT4NHM5PDAGWYSIU";
    let jump = |to: &str| format!("-A {service} -m comment --comment \"mynet/web:http -> {to}\"");
    let (to_first, to_last) = (jump("10.244.0.11:8080"), jump("10.244.1.21:8080"));
    for (name, rules, object, difference, kind, timeout) in [
        ("jump to the first", without(&good, &[&to_first]), first, Difference::Missing, Kind::Backend, 0.0),
        ("jump to the last", without(&good, &[&to_last]), last, Difference::Missing, Kind::Backend, 0.5),
        (
            "the first is empty",
            without(&good, &["DNAT --to-destination 10.244.0.11:8080"]),
            first,
            Difference::Missing,
            Kind::Empty,
            0.0,
        ),
        (
            "the last is empty",
            without(&good, &["DNAT --to-destination 10.244.1.21:8080"]),
            last,
            Difference::Missing,
            Kind::Empty,
            0.5,
        ),
        (
            "no frontend",
            without(&good, &["-A KUBE-SERVICES", "10.96.0.50/32", "--dport 80"]),
            service,
            Difference::Missing,
            Kind::Frontend,
            1.0,
        ),
        (
            "another's chain",
            replaced(&good, &format!("--dport 80 -j {service}"), "--dport 80 -j KUBE-SVC-WSTCUAL7BPWJAA7Q"),
            "KUBE-SVC-WSTCUAL7BPWJAA7Q",
            Difference::Wrong,
            Kind::FrontendTarget,
            1.0,
        ),
        (
            "a wrong address",
            replaced(&good, "--to-destination 10.244.1.21:8080", "--to-destination 10.244.1.99:8080"),
            last,
            Difference::Wrong,
            Kind::BackendTarget,
            0.5,
        ),
        (
            "a probability of 0.2",
            replaced(&good, "--probability 0.50000000000", "--probability 0.20000000019"),
            first,
            Difference::Wrong,
            Kind::Shares,
            0.0,
        ),
        (
            "no hairpin",
            without(&good, &[&format!("-A {first}"), "KUBE-MARK-MASQ"]),
            first,
            Difference::Missing,
            Kind::Masquerade,
            0.0,
        ),
    ] {
        let trace = trace(&rules, &ports);
        let [http, metrics] = trace.ports.as_slice() else { panic!("two ports") };
        assert_eq!((http.status, metrics.status), (Status::Broken, Status::Ok), "{name}: a port alone");
        assert!(
            http.faults()
                .any(|fault| (fault.object.as_str(), fault.difference, fault.kind)
                    == (object, difference, kind)),
            "{name}: {:?}",
            http.faults().collect::<Vec<_>>()
        );
        assert_eq!(http.symptom, Symptom { timeout_share: timeout, refused_share: 0.0 }, "{name}");
    }
}

/// The pod is there and nothing listens at the port: it refuses, where an address that nobody has is silent.
#[test]
fn a_wrong_port_of_an_endpoint_is_refused() {
    let ports = ports(HALF_BROKEN);
    let good = emit(&ports, &options());
    let wrong = replaced(&good, "--to-destination 10.244.1.21:8080", "--to-destination 10.244.1.21:8081");
    let trace = trace(&wrong, &ports);
    let http = &trace.ports[0];
    assert_eq!(http.wrong.iter().map(|fault| fault.kind).collect::<Vec<_>>(), [Kind::BackendTarget]);
    assert_eq!(http.symptom, Symptom { timeout_share: 0.0, refused_share: 0.5 });
}

#[test]
fn a_stale_endpoint_is_told_apart_from_a_missing_one() {
    let now = ports(HALF_BROKEN);
    let before = ports(&HALF_BROKEN.replace("10.244.1.21", "10.244.1.22"));
    let trace = trace(&emit(&before, &options()), &now);
    let http = &trace.ports[0];
    let stale: Vec<_> = http.extra.iter().map(|fault| (fault.kind, fault.endpoint.as_deref())).collect();
    assert_eq!(stale, [(Kind::Stale, Some("10.244.1.22:8080"))]);
    let missing: Vec<_> = http.missing.iter().map(|fault| fault.endpoint.as_deref()).collect();
    assert_eq!(missing, [Some("10.244.1.21:8080")]);
    assert_eq!(
        http.symptom,
        Symptom { timeout_share: 0.5, refused_share: 0.0 },
        "the old one answers no more"
    );
}

#[test]
fn what_all_services_share_is_compared_once() {
    let ports = ports(&all_kinds());
    let good = emit(&ports, &options());
    for (rules, object, kind) in [
        (without(&good, &["-A PREROUTING -j KUBE-SERVICES"]), "KUBE-SERVICES", Kind::Jump),
        (without(&good, &["-A OUTPUT -j KUBE-SERVICES"]), "KUBE-SERVICES", Kind::Jump),
        (without(&good, &["-A POSTROUTING -j KUBE-POSTROUTING"]), "KUBE-POSTROUTING", Kind::Masquerade),
        (without(&good, &["MASQUERADE"]), "MASQUERADE", Kind::Masquerade),
        (without(&good, &["-A KUBE-MARK-MASQ"]), "MARK", Kind::Masquerade),
        (replaced(&good, "! --mark 0x4000/0x4000", "! --mark 0x8000/0x8000"), "RETURN", Kind::Masquerade),
    ] {
        let trace = trace(&rules, &ports);
        let found: Vec<_> =
            trace.shared.iter().map(|fault| (fault.fault.object.as_str(), fault.fault.kind)).collect();
        assert_eq!(found, [(object, kind)]);
    }
}

#[test]
fn ends_and_affinity_are_compared_too() {
    let ports = ports(&all_kinds());
    let good = emit(&ports, &options());
    for (service, rules, difference, kind) in [
        (
            "t/nobody",
            without(&good, &["t/nobody has no endpoints", "10.96.0.4"]),
            Difference::Missing,
            Kind::End,
        ),
        (
            "t/elsewhere",
            without(&good, &["t/elsewhere has no local endpoints", "10.96.0.5"]),
            Difference::Missing,
            Kind::End,
        ),
        ("t/balanced", without(&good, &["--rcheck"]), Difference::Missing, Kind::Affinity),
        ("t/balanced", replaced(&good, "--seconds 10800", "--seconds 60"), Difference::Wrong, Kind::Affinity),
        ("t/outside", without(&good, &["-A KUBE-NODEPORTS", "30080"]), Difference::Missing, Kind::Frontend),
        ("t/balanced", without(&good, &["-s 203.0.113.0/24"]), Difference::Missing, Kind::SourceRange),
        (
            "t/balanced",
            replaced(&good, "-s 203.0.113.0/24", "-s 203.0.112.0/23"),
            Difference::Extra,
            Kind::SourceRange,
        ),
    ] {
        let trace = trace(&rules, &ports);
        let port = trace.ports.iter().find(|port| port.service == service).expect("it is there");
        assert!(
            port.faults().any(|fault| (fault.difference, fault.kind) == (difference, kind)),
            "{service} {kind:?}: {port:?}"
        );
    }
}

/// A dump of the size that a big cluster has.
#[test]
fn endpoints_keep_their_shares_when_there_are_many() {
    let endpoints: Vec<String> =
        (0..250).map(|n| format!("{{addresses: [10.244.{}.{}]}}", n / 100, n % 100)).collect();
    let world = format!(
        "apiVersion: v1\nkind: Node\nmetadata: {{name: worker}}\n---\napiVersion: v1\nkind: Service\nmetadata: {{name: s, namespace: t}}\nspec: {{clusterIP: 10.96.0.1, ports: [{{port: 80}}]}}\n---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {{name: s-1, namespace: t, labels: {{kubernetes.io/service-name: s}}}}\naddressType: IPv4\nports: [{{name: '', port: 80}}]\nendpoints: [{}]\n",
        endpoints.join(", ")
    );
    let ports = ports(&world);
    let trace = trace(&emit(&ports, &options()), &ports);
    let shares = &trace.ports[0].addresses[0].shares;
    assert_eq!(shares.len(), 250);
    assert!(shares.iter().all(|(_, share)| (share - 0.004).abs() < 1e-6));
    let last: SocketAddr = shares[249].0.parse().expect("an address");
    assert_eq!(last.port(), 80);
}
