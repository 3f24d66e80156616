//! The Services that tests of proxies' rules are about.

use netlab_core::input::{Budget, Document, load};
use netlab_core::model::cluster::Cluster;
use netlab_core::model::service::AddressType;
use netlab_core::service::expected::{ExpectedPort, expected};
use netlab_core::service::iptables::ProxyOptions;

pub(crate) const HALF_BROKEN: &str = include_str!("../../../examples/broken/mynet.yaml");

/// Every kind of Service on one node.
const ALL_KINDS: &str = "
apiVersion: v1
kind: Node
metadata: {name: worker}
---
apiVersion: v1
kind: Service
metadata: {name: local, namespace: t}
spec: {clusterIP: 10.96.0.1, internalTrafficPolicy: Local, ports: [{port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: outside, namespace: t}
spec: {type: NodePort, clusterIP: 10.96.0.2, externalTrafficPolicy: Local, ports: [{port: 80, nodePort: 30080}]}
---
apiVersion: v1
kind: Service
metadata: {name: balanced, namespace: t}
spec: {type: LoadBalancer, clusterIP: 10.96.0.3, loadBalancerSourceRanges: [203.0.113.0/24], sessionAffinity: ClientIP, externalIPs: [198.51.100.9], ports: [{port: 53, protocol: UDP, nodePort: 30053}]}
status: {loadBalancer: {ingress: [{ip: 198.51.100.7}]}}
---
apiVersion: v1
kind: Service
metadata: {name: nobody, namespace: t}
spec: {type: NodePort, clusterIP: 10.96.0.4, ports: [{port: 80, nodePort: 30081}]}
---
apiVersion: v1
kind: Service
metadata: {name: elsewhere, namespace: t}
spec: {type: NodePort, clusterIP: 10.96.0.5, internalTrafficPolicy: Local, externalTrafficPolicy: Local, ports: [{port: 80, nodePort: 30082}]}
";

fn slice(service: &str, port: u16, protocol: &str, endpoints: &[(&str, &str)]) -> String {
    let endpoints: Vec<String> = endpoints
        .iter()
        .map(|(address, node)| format!("{{addresses: [{address}], nodeName: {node}}}"))
        .collect();
    format!(
        "---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {{name: {service}-1, namespace: t, labels: {{kubernetes.io/service-name: {service}}}}}\naddressType: IPv4\nports: [{{name: '', port: {port}, protocol: {protocol}}}]\nendpoints: [{}]\n",
        endpoints.join(", ")
    )
}

pub(crate) fn all_kinds() -> String {
    let here_and_there = [("10.244.1.1", "worker"), ("10.244.2.1", "other"), ("10.244.2.2", "other")];
    ALL_KINDS.to_owned()
        + &slice("local", 8080, "TCP", &here_and_there)
        + &slice("outside", 8080, "TCP", &here_and_there)
        + &slice("balanced", 5353, "UDP", &here_and_there)
        + &slice("elsewhere", 8080, "TCP", &here_and_there[1..])
}

pub(crate) fn cluster(text: &str) -> Cluster {
    load([Document { name: "w.yaml".into(), text: text.into() }], &Budget::default()).cluster
}

pub(crate) fn ports(text: &str) -> Vec<ExpectedPort> {
    expected(&cluster(text), "worker", AddressType::Ipv4)
}

pub(crate) fn options() -> ProxyOptions {
    ProxyOptions { pod_cidr: Some("10.244.0.0/16".parse().expect("a CIDR")), ..ProxyOptions::default() }
}
