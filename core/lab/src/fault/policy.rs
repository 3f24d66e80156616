//! Policies that somebody wrote with the best of intentions.

use serde_json::{Value, json};

use super::{Change, Fault, Layer, Scene};

/// The faults.
pub(super) const FAULTS: &[Fault] = &[
    Fault {
        name: "dns-policy",
        mode: "F01",
        layer: Layer::Policy,
        breaks: "a NetworkPolicy isolates the client's namespace for egress and admits every namespace but that of DNS",
        seen: "every name fails while every IP works",
        changes: |scene| instead(scene, "deny-dns", &json!([everything_else(scene)])),
    },
    Fault {
        name: "dns-policy-udp-only",
        mode: "F02",
        layer: Layer::Policy,
        breaks: "a NetworkPolicy admits UDP 53 to the DNS pods, and forgets TCP",
        seen: "small answers come, large ones never do",
        changes: |scene| {
            instead(
                scene,
                "dns-udp-only",
                &json!([everything_else(scene), to_dns(scene, &json!([port("UDP")]))]),
            )
        },
    },
    Fault {
        name: "dns-policy-tcp-only",
        mode: "F01",
        layer: Layer::Policy,
        breaks: "a NetworkPolicy admits TCP 53 to the DNS pods, and forgets UDP",
        seen: "lookups time out, yet `dig +tcp` answers",
        changes: |scene| {
            instead(
                scene,
                "dns-tcp-only",
                &json!([everything_else(scene), to_dns(scene, &json!([port("TCP")]))]),
            )
        },
    },
    Fault {
        name: "dns-policy-service-port",
        mode: "F03",
        layer: Layer::Policy,
        breaks: "the DNS pods listen on 5353 behind port 53 of their Service, and a NetworkPolicy admits 53 alone",
        seen: "every name times out though the policy \"admits port 53\"",
        changes: |scene| {
            let rule = to_dns(scene, &json!([port("UDP"), port("TCP")]));
            let mut changes = instead(scene, "dns-by-port", &json!([everything_else(scene), rule]));
            changes.extend(open_dns(scene));
            changes.extend(target_port(scene, 5353));
            changes.extend(scene.servers.iter().map(|server| Change::Listen {
                at: server.place.clone(),
                port: Some(5353),
                udp: true,
                tcp: true,
            }));
            changes
        },
    },
    Fault {
        name: "dns-ingress-policy",
        mode: "F04",
        layer: Layer::Policy,
        breaks: "a NetworkPolicy on the DNS pods admits only namespaces with a label that the client's has not",
        seen: "every name fails in some namespaces, and none in others",
        changes: |scene| {
            let object = json!({
                "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
                "metadata": {"name": "dns-for-some", "namespace": scene.service.0},
                "spec": {
                    "podSelector": {"matchLabels": scene.server_labels},
                    "policyTypes": ["Ingress"],
                    "ingress": [{"from": [{"namespaceSelector": {"matchExpressions": [{
                        "key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": [scene.client_key.0],
                    }]}}]}],
                },
            });
            open_dns(scene).chain([Change::Put(object)]).collect()
        },
    },
    Fault {
        name: "dns-egress-policy",
        mode: "F06",
        layer: Layer::Policy,
        breaks: "a NetworkPolicy isolates the DNS pods for egress: they can ask nobody",
        seen: "names of the cluster resolve, names outside fail",
        changes: |scene| {
            let object = json!({
                "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
                "metadata": {"name": "dns-stays-inside", "namespace": scene.service.0},
                "spec": {
                    "podSelector": {"matchLabels": scene.server_labels},
                    "policyTypes": ["Egress"],
                    "egress": [{"to": [{"namespaceSelector": {}}]}],
                },
            });
            open_dns(scene).chain([Change::Put(object)]).collect()
        },
    },
];

/// Everything but DNS, and DNS to the DNS pods: right for who asks those.
pub(super) fn only_to_dns(scene: &Scene) -> Vec<Change> {
    let rule = to_dns(scene, &json!([port("UDP"), port("TCP")]));
    instead(scene, "dns-to-its-pods", &json!([everything_else(scene), rule]))
}

/// A policy in the place of those by which the client's namespace is isolated for egress.
fn instead(scene: &Scene, name: &str, egress: &Value) -> Vec<Change> {
    let gone = scene.client_policies.iter().map(|name| remove(&scene.client_key.0, name));
    let policy = Change::Put(json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
        "metadata": {"name": name, "namespace": scene.client_key.0},
        "spec": {"podSelector": {}, "policyTypes": ["Egress"], "egress": egress},
    }));
    gone.chain([policy]).collect()
}

/// The DNS pods' namespace without its policies.
pub(super) fn open_dns(scene: &Scene) -> impl Iterator<Item = Change> + '_ {
    scene.server_policies.iter().map(|name| remove(&scene.service.0, name))
}

fn remove(namespace: &str, name: &str) -> Change {
    Change::Remove {
        kind: "NetworkPolicy".to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    }
}

fn everything_else(scene: &Scene) -> Value {
    json!({"to": [{"namespaceSelector": {"matchExpressions": [{
        "key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": [scene.service.0],
    }]}}]})
}

fn to_dns(scene: &Scene, ports: &Value) -> Value {
    json!({
        "to": [{
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": scene.service.0}},
            "podSelector": {"matchLabels": scene.server_labels},
        }],
        "ports": ports,
    })
}

fn port(protocol: &str) -> Value {
    json!({"protocol": protocol, "port": 53})
}

/// The DNS Service leads to another port of its pods.
pub(super) fn target_port(scene: &Scene, number: u16) -> Vec<Change> {
    let (namespace, name) = &scene.service;
    let ports = json!([
        {"name": "dns", "port": 53, "protocol": "UDP", "targetPort": number},
        {"name": "dns-tcp", "port": 53, "protocol": "TCP", "targetPort": number},
    ]);
    vec![Change::patch("Service", namespace, name, json!({"spec": {"ports": ports}}))]
}
