//! A DNS cache on each node (`NodeLocal DNSCache`), and how it goes wrong.
//!
//! Kubelets give pods its address, the node has it on an interface of its own, and a server listens there or does not.

use std::net::{IpAddr, Ipv4Addr};

use super::policy::{only_to_dns, open_dns};
use super::{Change, Fault, Kubelet, Layer, Scene};
use crate::dns::{Act, Names, Role, Rule, Server};
use crate::place::Place;

/// The address and the interface that the add-on takes by default (`cluster/addons/dns/nodelocaldns`).
const ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::new(169, 254, 20, 10));
const INTERFACE: &str = "nodelocaldns";
const SERVFAIL: u16 = 2;

/// The faults.
pub(super) const FAULTS: &[Fault] = &[
    Fault {
        name: "nodelocal-down",
        mode: "F70",
        layer: Layer::Server,
        breaks: "pods ask a DNS cache on their node (169.254.20.10), which has ended and left its address behind",
        seen: "every lookup is refused at once, and all DNS pods are well",
        changes: |scene| caches(scene, false),
    },
    Fault {
        name: "nodelocal-policy",
        mode: "F05",
        layer: Layer::Policy,
        breaks: "pods ask a DNS cache on their node, and a NetworkPolicy admits DNS to the DNS pods alone",
        seen: "every name times out though the policy admits DNS",
        changes: |scene| {
            let mut changes = caches(scene, true);
            changes.extend(only_to_dns(scene));
            changes
        },
    },
    Fault {
        name: "nodelocal-upstream",
        mode: "F71",
        layer: Layer::Server,
        breaks: "pods ask a DNS cache on their node, which cannot reach the DNS pods and answers SERVFAIL",
        seen: "every lookup fails, and all DNS pods answer who asks them",
        changes: |scene| {
            let mut changes = caches(scene, true);
            changes.push(Change::Answer {
                role: Role::Cluster,
                rule: Rule::new(Names::All, Act::Rcode(SERVFAIL)).at(ADDRESS),
            });
            changes.extend(open_dns(scene));
            changes
        },
    },
];

/// The address on each node, in the pods' files, and servers behind it if there are any.
fn caches(scene: &Scene, serve: bool) -> Vec<Change> {
    let told = Kubelet { cluster_dns: Some(vec![ADDRESS]), ..Kubelet::default() };
    let mut changes = vec![Change::Kubelet(told)];
    for node in scene.links.keys() {
        let at = Place::Node(node.clone());
        changes.push(Change::Link { at: at.clone(), name: INTERFACE.to_owned(), addresses: vec![ADDRESS] });
        if serve {
            changes.push(Change::Serve(Server {
                place: at,
                role: Role::Cluster,
                addresses: vec![ADDRESS],
                port: 53,
                udp: true,
                tcp: true,
            }));
        }
    }
    changes
}
