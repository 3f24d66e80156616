//! Where DNS is answered, as far as the input tells.
//!
//! Invariant: the pods behind the Services of DNS, else those with the labels that the usual installations give them; a policy sees
//! these and the ports on which they listen, not the Service. What is called otherwise is not known.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};

use super::super::ground::{Ground, names};
use super::super::service_ports::{pods_of, targets};
use crate::model::cluster::{ObjectKey, Pod};
use crate::model::port::Protocol;
use crate::policy::classes::ClassIndex;

/// The port of DNS.
pub(super) const DNS: u16 = 53;

/// Ports on which DNS pods listen: the usual one, and the one that `OpenShift` has.
pub(super) const POD_PORTS: [u16; 2] = [DNS, 5353];

/// Services of DNS, as the usual installations call them.
pub(super) const SERVICES: [(&str, &str); 4] = [
    ("kube-system", "kube-dns"),
    ("kube-system", "coredns"),
    ("kube-system", "rke2-coredns-rke2-coredns"),
    ("openshift-dns", "dns-default"),
];

/// Labels of DNS pods, where no Service was given.
const LABELS: [(&str, &str, &str); 2] = [
    ("kube-system", "k8s-app", "kube-dns"),
    ("openshift-dns", "dns.operator.openshift.io/daemonset-dns", "default"),
];

/// The label of the pods of a cache on each node, and the address that it has everywhere.
const NODE_CACHE: (&str, &str) = ("k8s-app", "node-local-dns");
pub(super) const NODE_CACHE_ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::new(169, 254, 20, 10));

/// The two protocols of DNS.
pub(super) const BOTH: [Protocol; 2] = [Protocol::Udp, Protocol::Tcp];

/// Where DNS is answered.
pub(super) struct Servers<'a> {
    pub(super) pods: BTreeSet<&'a ObjectKey>,
    /// Class of each address, and the port there, per protocol (UDP, TCP).
    pub(super) targets: [BTreeSet<(ClassIndex, u16)>; 2],
    /// The addresses of the Services.
    pub(super) service_addresses: Vec<IpAddr>,
    /// Whether a cache runs on each node.
    pub(super) node_cache: bool,
}

impl<'a> Servers<'a> {
    pub(super) fn of(ground: &Ground<'a>) -> Self {
        let cluster = ground.cluster;
        let mut servers = Self {
            pods: BTreeSet::new(),
            targets: [BTreeSet::new(), BTreeSet::new()],
            service_addresses: Vec::new(),
            node_cache: cluster.pods.values().any(|pod| {
                pod.labels.get(NODE_CACHE.0).is_some_and(|value| value == NODE_CACHE.1) && !pod.terminal
            }),
        };
        for (namespace, name) in SERVICES {
            let Some((key, service)) = cluster.services.get_key_value(&ObjectKey::new(namespace, name))
            else {
                continue;
            };
            servers.service_addresses.extend(&service.cluster_ips);
            let groups = pods_of(ground, key, service);
            let pods: Vec<(&'a ObjectKey, &'a Pod)> = ground.subjects(&groups).collect();
            for port in service.ports.iter().filter(|port| port.port == DNS) {
                for number in targets(&port.target, port.protocol, pods.iter().map(|(_, pod)| *pod)) {
                    servers.add(ground, &pods, port.protocol, number);
                }
            }
        }
        if servers.pods.is_empty() {
            let labelled = |key: &ObjectKey, pod: &Pod| {
                LABELS.iter().any(|(namespace, label, value)| {
                    key.namespace == *namespace && pod.labels.get(*label).is_some_and(|found| found == value)
                })
            };
            let pods: Vec<(&'a ObjectKey, &'a Pod)> = cluster
                .pods
                .iter()
                .filter(|(key, pod)| labelled(key, pod) && !pod.host_network && !pod.terminal)
                .collect();
            for (key, pod) in pods {
                for protocol in BOTH {
                    let listens = |number: &u16| {
                        pod.ports.iter().any(|port| port.protocol == protocol && port.number == *number)
                    };
                    let number = POD_PORTS.into_iter().find(listens).unwrap_or(DNS);
                    servers.add(ground, &[(key, pod)], protocol, number);
                }
            }
        }
        servers
    }

    fn add(&mut self, ground: &Ground<'a>, pods: &[(&'a ObjectKey, &'a Pod)], protocol: Protocol, port: u16) {
        let Some(index) = BOTH.iter().position(|known| *known == protocol) else { return };
        for (key, _) in pods {
            let Some(compiled) = ground.rulesets.pods.get(*key) else { continue };
            self.pods.insert(key);
            for address in &compiled.addresses {
                self.targets[index].insert((ground.rulesets.classes.of_address(*address), port));
            }
        }
    }

    /// What a policy has to admit, in words.
    pub(super) fn wanted(&self, ground: &Ground<'_>) -> String {
        if self.pods.is_empty() {
            return "UDP and TCP 53 to the DNS pods (of kube-system, k8s-app=kube-dns)".to_owned();
        }
        let ports: BTreeSet<String> =
            self.targets.iter().flatten().map(|(_, port)| port.to_string()).collect();
        let ports = ports.into_iter().collect::<Vec<_>>().join(", ");
        format!("UDP and TCP {ports} to {}", self.names(ground))
    }

    pub(super) fn names(&self, ground: &Ground<'_>) -> String {
        names(self.pods.iter().filter_map(|key| ground.cluster.pods.get_key_value(*key)))
    }
}
