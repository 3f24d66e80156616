//! Connections that lead to no endpoint: reported cases of UDP, by address and by port of the node.

use netlab_core::model::service::AddressType;
use netlab_core::service::conntrack::dump::parse;
use netlab_core::service::conntrack::{Why, judge};
use netlab_core::service::expected::expected;

use crate::service_world::cluster;

const SERVICE: &str = "apiVersion: v1
kind: Node
metadata: {name: worker}
---
apiVersion: v1
kind: Service
metadata: {name: s, namespace: t}
spec: {type: NodePort, clusterIP: 10.96.0.1, ports: [{port: 53, protocol: UDP, nodePort: 30053}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: s-1, namespace: t, labels: {kubernetes.io/service-name: s}}
addressType: IPv4
ports: [{name: '', port: 5353, protocol: UDP}]
endpoints: [ENDPOINTS]
";

/// Why each flow is stale, in the order of the lines.
fn why(endpoints: &str, flows: &[(&str, &str)]) -> Vec<(usize, Why)> {
    let ports = expected(&cluster(&SERVICE.replace("ENDPOINTS", endpoints)), "worker", AddressType::Ipv4);
    let line = |(to, answers): &(&str, &str)| {
        let ((ip, port), (from, number)) =
            (to.split_once(':').expect("a port"), answers.split_once(':').expect("a port"));
        format!(
            "udp 17 29 src=10.244.1.9 dst={ip} sport=4000 dport={port} src={from} dst=10.244.1.9 sport={number} dport=4000 mark=0 use=1\n"
        )
    };
    let text: String = flows.iter().map(line).collect();
    let judged = judge("flows", &parse(&text).expect("well formed"), &ports);
    judged.ports[0].stale.iter().map(|stale| (stale.line, stale.why)).collect()
}

#[test]
fn a_sender_that_goes_on_after_the_last_endpoint_is_found() {
    let flows = [("10.96.0.1:53", "10.244.1.1:5353")];
    assert_eq!(why("", &flows), [(1, Why::NoEndpoint)]);
    assert_eq!(why("{addresses: [10.244.1.1]}", &flows), []);
    // Ending, and no longer answering; then ending, and still answering.
    let ending = "{addresses: [10.244.1.1], conditions: {ready: false, serving: false, terminating: true}}";
    assert_eq!(why(ending, &flows), [(1, Why::NoEndpoint)]);
    assert_eq!(why(&ending.replace("serving: false", "serving: true"), &flows), []);
}

#[test]
fn a_flow_from_before_the_first_endpoint_is_found() {
    let flows = [("10.96.0.1:53", "10.96.0.1:53")];
    assert_eq!(why("{addresses: [10.244.1.1]}", &flows), [(1, Why::Untranslated)]);
    assert_eq!(why("", &flows), [], "there is nothing better yet");
}

#[test]
fn ports_of_the_node_are_looked_at_by_any_of_its_addresses() {
    let flows = [
        ("192.0.2.11:30053", "10.244.1.7:5353"),
        ("192.0.2.11:30053", "10.244.1.1:5353"),
        // A server of the node's own, or one elsewhere that happens to have the number.
        ("192.0.2.77:30053", "192.0.2.77:30053"),
    ];
    assert_eq!(why("{addresses: [10.244.1.1]}", &flows), [(1, Why::NoEndpoint)]);
}
