//! What pods are told about DNS: by their spec, by their node's kubelet, by their files.

use std::net::IpAddr;

use serde_json::{Value, json};

use super::server::searching;
use super::service::lost;
use super::{Change, Fault, Kubelet, Layer, Scene};
use crate::named::File;

/// The faults of specs and kubelets.
pub(super) const SPEC: &[Fault] = &[
    Fault {
        name: "wrong-cluster-ip",
        mode: "F33",
        layer: Layer::Spec,
        breaks: "kubelets give pods an address that no Service has",
        seen: "every name times out, in every pod",
        changes: |scene| {
            let (nobody, _) = scene.nobody;
            vec![
                Change::Kubelet(Kubelet { cluster_dns: Some(vec![nobody]), ..Kubelet::default() }),
                lost(scene, &[nobody]),
            ]
        },
    },
    Fault {
        name: "no-cluster-dns",
        mode: "F34",
        layer: Layer::Spec,
        breaks: "kubelets have no `clusterDNS`, so pods get the node's file",
        seen: "names outside resolve, names of the cluster do not exist",
        changes: |_| vec![Change::Kubelet(Kubelet { cluster_dns: Some(Vec::new()), ..Kubelet::default() })],
    },
    Fault {
        name: "domain-typo",
        mode: "F35",
        layer: Layer::Spec,
        breaks: "kubelets have another `clusterDomain` than the servers: `clouster.local`",
        seen: "short names do not exist, whole names resolve",
        changes: |_| {
            let cluster_domain = Some("clouster.local".to_owned());
            vec![Change::Kubelet(Kubelet { cluster_domain, ..Kubelet::default() })]
        },
    },
    Fault {
        name: "dns-policy-default",
        mode: "F36",
        layer: Layer::Spec,
        breaks: "the client has `dnsPolicy: Default`, which is not the default: it gets the node's file",
        seen: "names outside resolve, names of the cluster do not exist",
        changes: |scene| vec![pod(scene, &json!({"dnsPolicy": "Default"}))],
    },
    Fault {
        name: "dns-policy-none",
        mode: "F38",
        layer: Layer::Spec,
        breaks: "the client has `dnsPolicy: None` with a nameserver, and no search domains",
        seen: "short names do not exist, whole names resolve",
        changes: |scene| {
            vec![pod(scene, &json!({"dnsPolicy": "None", "dnsConfig": {"nameservers": scene.addresses}}))]
        },
    },
    Fault {
        name: "ndots-low",
        mode: "F39",
        layer: Layer::Spec,
        breaks: "the client has `ndots:1` in its dnsConfig",
        seen: "`name.namespace` resolves with glibc and does not exist with musl",
        changes: |scene| {
            vec![pod(scene, &json!({"dnsConfig": {"options": [{"name": "ndots", "value": "1"}]}}))]
        },
    },
    Fault {
        name: "mixed-nameservers",
        mode: "F26",
        layer: Layer::Spec,
        breaks: "the client's dnsConfig names a public server before the cluster's",
        seen: "names of the cluster do not exist with glibc, and come and go with musl",
        changes: |scene| none(scene, scene.public.iter().chain(&scene.addresses)),
    },
    Fault {
        name: "dead-first-nameserver",
        mode: "F48",
        layer: Layer::Spec,
        breaks: "the client's dnsConfig names a server that is no more before the cluster's",
        seen: "every lookup takes five seconds longer with glibc",
        changes: |scene| {
            let (nobody, _) = scene.nobody;
            let mut changes = none(scene, std::iter::once(&nobody).chain(&scene.addresses));
            changes.push(lost(scene, &[nobody]));
            changes
        },
    },
    Fault {
        name: "ipv6-nameserver",
        mode: "F49",
        layer: Layer::Spec,
        breaks: "the client's dnsConfig names a server by an IPv6 address that cannot be reached",
        seen: "lookups work, some of them late",
        changes: |scene| {
            let nowhere = IpAddr::from([0x2001, 0xdb8, 0xdead, 0, 0, 0, 0, 0x53]);
            none(scene, std::iter::once(&nowhere).chain(&scene.addresses))
        },
    },
    Fault {
        name: "search-dot",
        mode: "F66",
        layer: Layer::Spec,
        breaks: "the client's dnsConfig searches `.` first",
        seen: "musl before 1.2.4 fails every lookup, everything else works",
        changes: |scene| {
            let domain = &scene.domain;
            let own = format!("{}.svc.{domain}", scene.client_key.0);
            let searches = json!([".", own, format!("svc.{domain}"), domain]);
            vec![pod(
                scene,
                &json!({"dnsPolicy": "None", "dnsConfig": {
                    "nameservers": scene.addresses, "searches": searches,
                    "options": [{"name": "ndots", "value": "5"}],
                }}),
            )]
        },
    },
    Fault {
        name: "long-search",
        mode: "F65",
        layer: Layer::Spec,
        breaks: "nodes search so many domains that the line in resolv.conf is longer than 255 bytes",
        seen: "short names do not exist with musl, everything works with glibc",
        changes: |scene| {
            let domains: Vec<String> =
                (1..=12).map(|number| format!("department-{number:02}.corp.example")).collect();
            vec![searching(scene, &domains.join(" "))]
        },
    },
    Fault {
        name: "host-alias",
        mode: "F87",
        layer: Layer::Spec,
        breaks: "the client's hostAliases give the target another address",
        seen: "one name leads somewhere else, and nothing is ever asked",
        changes: |scene| {
            let alias = json!([{"ip": "198.51.100.66", "hostnames": [scene.target.name]}]);
            vec![pod(scene, &json!({"hostAliases": alias}))]
        },
    },
];

/// The faults of files alone.
pub(super) const FAULTS: &[Fault] = &[
    Fault {
        name: "stale-file",
        mode: "F69",
        layer: Layer::File,
        breaks: "the client's resolv.conf is from before the DNS Service got its address",
        seen: "every name times out in old pods, and none in new ones",
        changes: |scene| {
            let (nobody, _) = scene.nobody;
            let domain = &scene.domain;
            let text = format!(
                "search {}.svc.{domain} svc.{domain} {domain}\nnameserver {nobody}\noptions ndots:5\n",
                scene.client_key.0
            );
            vec![
                file(scene, File::ResolvConf, text),
                lost(scene, &[nobody]),
                Change::patch(
                    "Pod",
                    &scene.client_key.0,
                    &scene.client_key.1,
                    json!({"status": {"startTime": "2026-01-10T08:00:00Z"}}),
                ),
                Change::Kubelet(Kubelet {
                    changed: Some("2026-02-02T09:30:00Z".to_owned()),
                    ..Kubelet::default()
                }),
            ]
        },
    },
    Fault {
        name: "nsswitch",
        mode: "F88",
        layer: Layer::File,
        breaks: "the image's nsswitch.conf has no `dns` for hosts",
        seen: "`dig` finds every name, programs find none",
        changes: |scene| {
            let text = "passwd:         files\ngroup:          files\nshadow:         files\n\nhosts:          files\n";
            vec![file(scene, File::Nsswitch, text.to_owned())]
        },
    },
];

fn pod(scene: &Scene, spec: &Value) -> Change {
    let (namespace, name) = &scene.client_key;
    Change::patch("Pod", namespace, name, json!({"spec": spec}))
}

/// `dnsPolicy: None` with these servers, and otherwise what kubelet would write.
fn none<'a>(scene: &Scene, servers: impl Iterator<Item = &'a IpAddr>) -> Vec<Change> {
    let domain = &scene.domain;
    let servers: Vec<&IpAddr> = servers.take(3).collect();
    let searches = [format!("{}.svc.{domain}", scene.client_key.0), format!("svc.{domain}"), domain.clone()];
    vec![pod(
        scene,
        &json!({"dnsPolicy": "None", "dnsConfig": {
            "nameservers": servers, "searches": searches, "options": [{"name": "ndots", "value": "5"}],
        }}),
    )]
}

fn file(scene: &Scene, file: File, text: String) -> Change {
    Change::File { at: scene.client.place.clone(), file, text }
}
