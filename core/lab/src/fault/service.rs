//! The DNS Service's object and endpoints, and what proxies make of them.

use netlab_core::model::port::Protocol;
use serde_json::json;

use super::policy::{open_dns, target_port};
use super::scene::{chain, matching};
use super::{Change, Corefile, Fault, Layer, ProxyEdit, Scene};
use crate::place::Place;

/// The faults of the object.
pub(super) const FAULTS: &[Fault] = &[
    Fault {
        name: "no-endpoints",
        mode: "F11",
        layer: Layer::Service,
        breaks: "no DNS pod is ready, so the Service has no endpoint",
        seen: "every lookup is refused at once",
        changes: |scene| scene.servers.iter().filter_map(|server| not_ready(&server.place)).collect(),
    },
    Fault {
        name: "selector",
        mode: "F12",
        layer: Layer::Service,
        breaks: "the DNS Service selects a label that its pods do not have",
        seen: "every lookup is refused at once, and all DNS pods run",
        changes: |scene| {
            let mut selector = json!({"k8s-app": "kube-dns-v2"});
            for label in scene.server_labels.keys().filter(|label| *label != "k8s-app") {
                selector[label] = serde_json::Value::Null;
            }
            vec![service(scene, &json!({"spec": {"selector": selector}}))]
        },
    },
    Fault {
        name: "target-port",
        mode: "F13",
        layer: Layer::Service,
        breaks: "the DNS Service leads to port 5300 of its pods, where nothing listens",
        seen: "every lookup is refused at once, by the address that was asked",
        // A policy that admits the right port alone would hide that nobody listens on the wrong one.
        changes: |scene| open_dns(scene).chain(target_port(scene, 5300)).collect(),
    },
    Fault {
        name: "service-without-tcp",
        mode: "F09",
        layer: Layer::Service,
        breaks: "the DNS Service has no port of TCP",
        seen: "small answers come, large ones never do",
        changes: |scene| {
            let ports = json!([{"name": "dns", "port": 53, "protocol": "UDP", "targetPort": 53}]);
            vec![service(scene, &json!({"spec": {"ports": ports}}))]
        },
    },
    Fault {
        name: "stolen-ip",
        mode: "F14",
        layer: Layer::Service,
        breaks: "another Service has the address that kubelets give to pods; the DNS Service was made anew with another",
        seen: "nothing resolves, and everything about DNS looks healthy",
        changes: |scene| {
            let Some(address) = scene.addresses.first() else { return Vec::new() };
            let (nobody, _) = scene.nobody;
            vec![
                service(
                    scene,
                    &json!({"spec": {
                        "clusterIP": nobody, "clusterIPs": [nobody],
                        "ipFamilies": null, "ipFamilyPolicy": null,
                    }}),
                ),
                Change::Put(json!({
                    "apiVersion": "v1", "kind": "Service",
                    "metadata": {"name": "squatter", "namespace": scene.client_key.0},
                    "spec": {
                        "clusterIP": address, "clusterIPs": [address],
                        "selector": {"app": "nobody"}, "ports": [{"port": 80, "protocol": "TCP"}],
                    },
                })),
            ]
        },
    },
    Fault {
        name: "internal-traffic-local",
        mode: "F89",
        layer: Layer::Service,
        breaks: "`internalTrafficPolicy: Local` on the DNS Service, and no ready DNS pod on the client's node",
        seen: "names resolve on some nodes and time out on others",
        changes: |scene| {
            let here = scene.servers.iter().filter(|server| server.node == scene.client.node);
            let mut changes: Vec<Change> = here.filter_map(|server| not_ready(&server.place)).collect();
            changes.push(service(scene, &json!({"spec": {"internalTrafficPolicy": "Local"}})));
            changes
        },
    },
    Fault {
        name: "crash-loop",
        mode: "F15",
        layer: Layer::Server,
        breaks: "somebody misspelt a plugin in the Corefile: the DNS servers end as soon as they start",
        seen: "every lookup is refused at once",
        changes: |scene| {
            let mut changes = crashed(scene, "Error", 1);
            changes.push(Change::Corefile(Corefile {
                plugins: "    forwrad . 198.51.100.153\n".to_owned(),
                ..Corefile::default()
            }));
            changes.push(Change::wrote(
                "/etc/coredns/Corefile:6 - Error during parsing: Unknown directive 'forwrad'",
            ));
            changes
        },
    },
    Fault {
        name: "out-of-memory",
        mode: "F18",
        layer: Layer::Server,
        breaks: "the DNS servers are killed for their memory, over and over",
        seen: "lookups fail for minutes, then work, then fail",
        changes: |scene| crashed(scene, "OOMKilled", 137),
    },
    Fault {
        name: "headless-not-ready",
        mode: "F55",
        layer: Layer::Service,
        breaks: "a headless Service `peers` in the client's namespace, whose only endpoint is not ready",
        seen: "the name `peers` does not exist, though the Service does",
        changes: |scene| {
            let mut changes = vec![headless(scene)];
            changes.push(Change::Put(json!({
                "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
                "metadata": {
                    "name": "peers-1", "namespace": scene.client_key.0,
                    "labels": {"kubernetes.io/service-name": "peers"},
                },
                "addressType": "IPv4",
                "ports": [{"name": "", "port": 7000, "protocol": "TCP"}],
                "endpoints": [{
                    "addresses": [scene.nobody.1],
                    "conditions": {"ready": false, "serving": false, "terminating": false},
                }],
            })));
            changes
        },
    },
    Fault {
        name: "external-name",
        mode: "F59",
        layer: Layer::Service,
        breaks: "an ExternalName Service `billing` in the client's namespace stands for a name that is not there",
        seen: "`billing` does not resolve, though it was made correctly",
        changes: |scene| {
            vec![Change::Put(json!({
                "apiVersion": "v1", "kind": "Service",
                "metadata": {"name": "billing", "namespace": scene.client_key.0},
                "spec": {"type": "ExternalName", "externalName": format!("billing.legacy.svc.{}", scene.domain)},
            }))]
        },
    },
];

/// The faults of the rules.
pub(super) const PROXY: &[Fault] = &[
    Fault {
        name: "no-udp-rule",
        mode: "F08",
        layer: Layer::Proxy,
        breaks: "no node has a rule for UDP 53 of the DNS Service",
        seen: "lookups time out, yet `dig +tcp` answers",
        changes: |scene| without_port(scene, Protocol::Udp),
    },
    Fault {
        name: "no-tcp-rule",
        mode: "F09",
        layer: Layer::Proxy,
        breaks: "no node has a rule for TCP 53 of the DNS Service",
        seen: "small answers come, large ones never do",
        changes: |scene| without_port(scene, Protocol::Tcp),
    },
    Fault {
        name: "no-proxy",
        mode: "F10",
        layer: Layer::Proxy,
        breaks: "the nodes have no rules for any Service",
        seen: "every name times out, and so does every Service by its address; pods answer",
        changes: |scene| {
            let mut changes = vec![Change::Proxy(ProxyEdit::NoServices)];
            changes.extend(lost_beyond(scene));
            changes
        },
    },
    Fault {
        name: "bad-rule",
        mode: "",
        layer: Layer::Proxy,
        breaks: "the rules lead some of the lookups to a DNS pod that is no more",
        seen: "by chance some lookups fail after ten seconds, and others are answered at once",
        changes: |scene| {
            let Some(server) = scene.servers.last() else { return Vec::new() };
            let Some(from) = server.addresses.iter().find(|address| address.is_ipv4()) else {
                return Vec::new();
            };
            let edit = ProxyEdit::Moved { service: scene.service_name(), from: *from, to: scene.nobody.1 };
            vec![Change::Proxy(edit), lost(scene, &[scene.nobody.1])]
        },
    },
];

fn service(scene: &Scene, patch: &serde_json::Value) -> Change {
    let (namespace, name) = &scene.service;
    Change::patch("Service", namespace, name, patch.clone())
}

fn headless(scene: &Scene) -> Change {
    Change::Put(json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "peers", "namespace": scene.client_key.0},
        "spec": {"clusterIP": "None", "ipFamilies": ["IPv4"], "ports": [{"port": 7000, "protocol": "TCP"}]},
    }))
}

fn not_ready(place: &Place) -> Option<Change> {
    let Place::Pod(key) = place else { return None };
    let patch = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
    Some(Change::patch("Pod", &key.namespace, &key.name, patch))
}

pub(super) fn crashed(scene: &Scene, reason: &str, code: u16) -> Vec<Change> {
    let one = |server: &super::Member| {
        let Place::Pod(key) = &server.place else { return Vec::new() };
        let patch = json!({"status": {
            "conditions": [{"type": "Ready", "status": "False"}],
            "containerStatuses": [{
                "name": "coredns", "ready": false, "restartCount": 12,
                "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                "lastState": {"terminated": {"reason": reason, "exitCode": code}},
            }],
        }});
        vec![
            Change::patch("Pod", &key.namespace, &key.name, patch),
            Change::Listen { at: server.place.clone(), port: None, udp: false, tcp: false },
        ]
    };
    scene.servers.iter().flat_map(one).collect()
}

fn without_port(scene: &Scene, protocol: Protocol) -> Vec<Change> {
    let mut changes = vec![Change::Proxy(ProxyEdit::NoPort { service: scene.service_name(), protocol })];
    changes.extend(lost_beyond(scene));
    changes
}

/// What no rule translates goes to the world outside, which has no use for it.
fn lost_beyond(scene: &Scene) -> Vec<Change> {
    vec![lost(scene, &scene.addresses)]
}

/// The world outside drops what is for these addresses.
pub(super) fn lost(_: &Scene, addresses: &[std::net::IpAddr]) -> Change {
    let rules: Vec<String> =
        matching("daddr", addresses).into_iter().map(|matching| format!("{matching} counter drop")).collect();
    Change::rules(&Place::Fabric, chain("beyond", "filter", "prerouting", "raw", &rules))
}
