//! Egress through Services in the kernel: proofs with real translation, for every kind of Service and endpoint.
//!
//! Each packet is sent to the Service's address; the node leads it to the endpoint that the question is about.

use std::collections::BTreeSet;

use netlab_core::input::Loaded;
use netlab_core::policy::change::Verdict::{self, Allow, Deny};
use netlab_core::policy::evaluate::{Outcome, evaluate};
use netlab_core::policy::query::{Query, Service};
use netlab_core::policy::{Scope, compile};
use netlab_core::service::nftables::Layout;
use netlab_ebpf::reason::Reason;
use netlab_enforcer::LoadOptions;
use netlab_enforcer::prove::proof::{Proof, ProofOutcome};
use netlab_enforcer::prove::{Datapath, prove_by};
use netlab_lab::proxy::ProxyMode;

use crate::bpf_require::datapath;
use crate::services_world::{to_address, to_service, world, world_and};

const PROXIES: [ProxyMode; 3] =
    [ProxyMode::Nftables(Layout::Maps), ProxyMode::Nftables(Layout::Chains), ProxyMode::Iptables];

/// Proves, and wants each packet proved.
fn proved(loaded: &Loaded, query: &Query, datapath: Datapath, proxy: ProxyMode) -> Vec<Proof> {
    let what = format!("{query:?} {datapath:?} {proxy:?}");
    let proven = prove_by(loaded, query, datapath, proxy).unwrap_or_else(|error| panic!("{what}: {error:?}"));
    for proof in &proven.proofs {
        assert_eq!(proof.outcome, ProofOutcome::Proved, "{what}: {proof:#?}");
    }
    proven.proofs
}

/// Destination, port and verdict of each packet.
fn verdicts(proofs: &[Proof]) -> BTreeSet<(String, u16, Verdict)> {
    let verdict = |proof: &Proof| proof.observed.expect("it was seen");
    proofs
        .iter()
        .map(|proof| (proof.query.destination.to_string(), proof.query.port, verdict(proof)))
        .collect()
}

fn set(list: &[(&str, u16, Verdict)]) -> BTreeSet<(String, u16, Verdict)> {
    list.iter().map(|(address, port, verdict)| ((*address).to_owned(), *port, *verdict)).collect()
}

/// Both datapaths, with this proxy.
fn everywhere(loaded: &Loaded, query: &Query, proxy: ProxyMode, wanted: &[(&str, u16, Verdict)]) {
    for datapath in [Datapath::Tc, Datapath::Nft] {
        let proofs = proved(loaded, query, datapath, proxy);
        assert_eq!(verdicts(&proofs), set(wanted), "{datapath:?} {proxy:?}");
    }
}

fn ready(test: &str) -> bool {
    datapath(test, &LoadOptions::LAB).is_some()
}

/// The endpoints decide, not the Service's address or port; also those on another node, in both families.
#[test]
fn a_service_is_judged_as_the_endpoints_behind_it() {
    if !ready("a_service_is_judged_as_the_endpoints_behind_it") {
        return;
    }
    let loaded = world();
    for proxy in PROXIES {
        let good = to_service(&loaded, "client", "good", "80/tcp");
        everywhere(
            &loaded,
            &good,
            proxy,
            &[
                ("10.244.1.1", 8080, Allow),
                ("10.244.2.1", 8080, Allow),
                ("fd00:10:1::1", 8080, Allow),
                ("fd00:10:2::1", 8080, Allow),
            ],
        );
        let bad = to_service(&loaded, "client", "bad", "80/tcp");
        everywhere(
            &loaded,
            &bad,
            proxy,
            &[
                ("10.244.1.2", 8080, Deny),
                ("10.244.2.2", 8080, Deny),
                ("fd00:10:1::2", 8080, Deny),
                ("fd00:10:2::2", 8080, Deny),
            ],
        );
    }
}

/// A policy that selects endpoints by label admits exactly these, though the Service has others.
#[test]
fn of_a_mixed_service_exactly_the_selected_endpoints_are_admitted() {
    if !ready("of_a_mixed_service_exactly_the_selected_endpoints_are_admitted") {
        return;
    }
    let loaded = world();
    for proxy in PROXIES {
        for (port, number) in [("80/tcp", 8080), ("53/udp", 5353)] {
            let all = to_service(&loaded, "client", "all", port);
            everywhere(
                &loaded,
                &all,
                proxy,
                &[
                    ("10.244.1.1", number, Allow),
                    ("10.244.2.1", number, Allow),
                    ("10.244.1.2", number, Deny),
                    ("10.244.2.2", number, Deny),
                    ("fd00:10:1::1", number, Allow),
                    ("fd00:10:2::1", number, Allow),
                    ("fd00:10:1::2", number, Deny),
                    ("fd00:10:2::2", number, Deny),
                ],
            );
        }
    }
    let all = to_service(&loaded, "client", "all", "80/tcp");
    for proof in proved(&loaded, &all, Datapath::Tc, ProxyMode::Iptables) {
        let deciding = proof.hops.first().expect("the client's own hook");
        let counted: Vec<u32> = proof.counters.iter().map(|delta| delta.entry).collect();
        assert!(counted.contains(&Reason::Deferred.entry()), "it was deferred first: {counted:?}");
        assert!(counted.contains(&deciding.entry.id), "and decided by the endpoint's entry: {counted:?}");
        let rule = deciding.rule.as_ref().map(|rule| rule.path.as_str());
        let wanted = (proof.observed == Some(Allow)).then_some("spec.egress[0].to[0]");
        assert_eq!(rule, wanted, "{proof:#?}");
    }
}

#[test]
fn a_target_port_that_differs_per_pod_is_each_pods_own() {
    if !ready("a_target_port_that_differs_per_pod_is_each_pods_own") {
        return;
    }
    let loaded = world();
    let named = to_service(&loaded, "by-name", "named", "80/tcp");
    everywhere(
        &loaded,
        &named,
        ProxyMode::Iptables,
        &[
            ("10.244.1.1", 8080, Allow),
            ("10.244.2.1", 9090, Allow),
            ("10.244.1.2", 7070, Deny),
            ("10.244.2.2", 8080, Deny),
            ("fd00:10:1::1", 8080, Allow),
            ("fd00:10:2::1", 9090, Allow),
            ("fd00:10:1::2", 7070, Deny),
            ("fd00:10:2::2", 8080, Deny),
        ],
    );
    // The same port number on all: the name stands for another one on `good-there`.
    let by_number = to_service(&loaded, "by-name", "good", "80/tcp");
    everywhere(
        &loaded,
        &by_number,
        ProxyMode::Nftables(Layout::Maps),
        &[
            ("10.244.1.1", 8080, Allow),
            ("10.244.2.1", 8080, Deny),
            ("fd00:10:1::1", 8080, Allow),
            ("fd00:10:2::1", 8080, Deny),
        ],
    );
}

/// Only what the proxy of the client's node uses counts.
#[test]
fn endpoints_that_the_nodes_proxy_does_not_use_do_not_count() {
    if !ready("endpoints_that_the_nodes_proxy_does_not_use_do_not_count") {
        return;
    }
    let loaded = world();
    let near = to_service(&loaded, "client", "near", "80/tcp");
    everywhere(
        &loaded,
        &near,
        ProxyMode::Nftables(Layout::Maps),
        &[
            ("10.244.1.1", 8080, Allow),
            ("10.244.1.2", 8080, Deny),
            ("fd00:10:1::1", 8080, Allow),
            ("fd00:10:1::2", 8080, Deny),
        ],
    );
}

#[test]
fn more_endpoints_than_a_row_holds_are_told_apart_all_the_same() {
    if !ready("more_endpoints_than_a_row_holds_are_told_apart_all_the_same") {
        return;
    }
    let loaded = world();
    let many = to_service(&loaded, "client", "many", "80/tcp");
    let wanted: Vec<(&str, u16, Verdict)> = [8081, 8082, 8083]
        .into_iter()
        .flat_map(|port| [("10.244.1.1", port, Allow), ("10.244.2.2", port, Deny)])
        .collect();
    everywhere(&loaded, &many, ProxyMode::Nftables(Layout::Maps), &wanted);
}

#[test]
fn endpoints_outside_of_the_cluster_are_judged_by_their_own_addresses() {
    if !ready("endpoints_outside_of_the_cluster_are_judged_by_their_own_addresses") {
        return;
    }
    let loaded = world();
    let outside = to_service(&loaded, "client", "outside", "443/tcp");
    for proxy in PROXIES {
        everywhere(&loaded, &outside, proxy, &[("203.0.113.9", 8443, Allow), ("203.0.113.200", 8443, Deny)]);
    }
}

#[test]
fn headless_services_are_their_pods() {
    if !ready("headless_services_are_their_pods") {
        return;
    }
    let loaded = world();
    let headless = to_service(&loaded, "client", "headless", "80/tcp");
    let proofs = proved(&loaded, &headless, Datapath::Tc, ProxyMode::Iptables);
    assert!(proofs.iter().all(|proof| proof.via.is_none()), "nothing is translated");
    assert_eq!(proofs.len(), 4);
}

#[test]
fn kube_dns_is_reached_by_the_protocol_that_its_pods_may_be_asked_by() {
    if !ready("kube_dns_is_reached_by_the_protocol_that_its_pods_may_be_asked_by") {
        return;
    }
    let loaded = world();
    for proxy in PROXIES {
        for (port, verdict) in [("53/udp", Allow), ("53/tcp", Deny)] {
            let dns = to_service(&loaded, "client", "kube-system/kube-dns", port);
            everywhere(&loaded, &dns, proxy, &[("10.244.2.53", 53, verdict), ("fd00:10:2::53", 53, verdict)]);
        }
    }
}

/// What no proxy translates is an ordinary address: a block that holds it admits it, and else nothing does.
#[test]
fn what_is_not_translated_is_an_ordinary_address() {
    if !ready("what_is_not_translated_is_an_ordinary_address") {
        return;
    }
    let loaded = world();
    let tcp = |port| Service::Port { protocol: 6, port };
    for (address, service, verdict) in [
        // No endpoints: the rule for the block admits port 80, and the node refuses.
        ("10.96.0.7", tcp(80), Allow),
        ("fd00:96::7", tcp(80), Deny),
        // A port that the Service does not have.
        ("10.96.0.2", tcp(443), Allow),
        ("10.96.0.2", tcp(81), Deny),
        // A protocol without ports.
        ("10.96.0.1", Service::Icmp, Deny),
    ] {
        let query = to_address("client", address, service.clone());
        let proven = prove_by(&loaded, &query, Datapath::Tc, ProxyMode::Nftables(Layout::Maps));
        let proof = &proven.expect("it can be tried").proofs[0];
        // What is let pass meets nobody.
        let predicted = if verdict == Allow { Outcome::Undefined } else { Outcome::Deny };
        assert_eq!(proof.predicted, predicted, "{address} {service:?}: {proof:#?}");
        assert!(proof.via.is_none() && proof.differences.is_empty(), "{address} {service:?}: {proof:#?}");
        let test_run = proof.witnesses.iter().find(|witness| witness.name == "test-run").expect("asked");
        assert_eq!(test_run.verdict, Some(verdict.into()), "{address} {service:?}");
        assert_ne!(
            proof.observed,
            Some(if verdict == Allow { Deny } else { Allow }),
            "{address} {service:?}"
        );
    }
}

/// A node port and an external address lead from a pod of the node to the same endpoints, and are no way around.
#[test]
fn a_pod_that_asks_by_a_node_port_is_judged_as_by_the_service() {
    if !ready("a_pod_that_asks_by_a_node_port_is_judged_as_by_the_service") {
        return;
    }
    let loaded = world();
    let node_port = to_address("client", "192.0.2.11", Service::Port { protocol: 6, port: 30080 });
    let external = to_address("client", "198.51.100.2", Service::Port { protocol: 6, port: 80 });
    for proxy in PROXIES {
        everywhere(&loaded, &node_port, proxy, &[("10.244.1.1", 8080, Allow), ("10.244.2.1", 8080, Allow)]);
        everywhere(&loaded, &external, proxy, &[("10.244.1.2", 8080, Deny), ("10.244.2.2", 8080, Deny)]);
    }
}

const INGRESS: &str = "
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: closed, namespace: t}
spec: {podSelector: {matchLabels: {app: good}}, policyTypes: [Ingress]}
";

/// A node port is masqueraded: policies of the endpoint see the node, and the API leaves open whether they should.
#[test]
fn whom_an_endpoint_sees_behind_a_node_port_is_left_open() {
    let loaded = world_and(INGRESS);
    let compiled = compile(&loaded.cluster, &loaded.policies, &Scope::Cluster);
    let node_port = to_address("client", "192.0.2.11", Service::Port { protocol: 6, port: 30080 });
    let evaluation = evaluate(&loaded.cluster, &compiled.rulesets, &node_port).expect("tables");
    assert_eq!(evaluation.verdict, Outcome::Undefined);
    let note = evaluation.notes.join("\n");
    assert!(note.contains("node n1 puts its own address in place of the pod's"), "{note}");
}

/// The API overview: what comes back to a pod through a Service is subject to its policies.
#[test]
fn a_pod_that_asks_its_own_service_is_judged_as_any_other() {
    if !ready("a_pod_that_asks_its_own_service_is_judged_as_any_other") {
        return;
    }
    let own = |rule: &str| {
        format!(
            "
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {{name: own, namespace: t}}
spec:
  podSelector: {{matchLabels: {{egress: some}}}}
  {rule}
"
        )
    };
    let peer = "[{podSelector: {matchLabels: {egress: some}}}]";
    let admitted =
        format!("egress: [{{to: {peer}}}]\n  ingress: [{{from: {peer}}}]\n  policyTypes: [Ingress, Egress]");
    let refused = format!("egress: [{{to: {peer}}}]\n  policyTypes: [Ingress, Egress]");
    for (loaded, verdict) in [
        // Its egress policies do not select it.
        (world(), Deny),
        (world_and(&own(&admitted)), Allow),
        // It may send, and not receive.
        (world_and(&own(&refused)), Deny),
    ] {
        let myself = to_service(&loaded, "client", "myself", "80/tcp");
        for proxy in PROXIES {
            everywhere(
                &loaded,
                &myself,
                proxy,
                &[("10.244.1.9", 8080, verdict), ("fd00:10:1::9", 8080, verdict)],
            );
        }
    }
}

/// An endpoint on the node itself has no second hook: what cannot be told apart is denied by name.
#[test]
fn what_cannot_be_told_apart_behind_the_translation_is_denied_by_name() {
    if !ready("what_cannot_be_told_apart_behind_the_translation_is_denied_by_name") {
        return;
    }
    let loaded = world();
    let half = to_service(&loaded, "client", "half-host", "80/tcp");
    let proven = prove_by(&loaded, &half, Datapath::Tc, ProxyMode::Iptables).expect("it can be tried");
    assert_eq!(proven.proofs.len(), 2);
    for proof in &proven.proofs {
        assert_eq!(proof.outcome, ProofOutcome::Inconclusive, "{proof:#?}");
        assert_eq!((proof.predicted, proof.observed), (Outcome::Undefined, Some(Deny)));
        let entry = proof.entry.as_ref().expect("it has one");
        assert_eq!(entry.id, Reason::ServiceMixed.entry());
        let why = proof.undefined.as_deref().expect("it says why");
        assert!(why.contains("t/half-host:http"), "{why}");
    }
    // Behind the translation nothing is left to guess.
    let proofs = proved(&loaded, &half, Datapath::Nft, ProxyMode::Iptables);
    assert_eq!(verdicts(&proofs), set(&[("10.244.1.1", 8080, Allow), ("192.0.2.11", 8080, Deny)]));
}
