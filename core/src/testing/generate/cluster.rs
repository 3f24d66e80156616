//! Clusters: 2 to 5 namespaces, 1 to 3 nodes, 3 to 14 pods.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use fastrand::Rng;

use super::{NAMESPACE_LABELS, NODE_LABELS, POD_LABELS, PORT_NAMES, PORT_NUMBERS, chance, metadata, pick};
use crate::input::WireObjects;
use crate::input::wire::core_v1::{
    Container, ContainerPort, Namespace, Node, NodeAddress, NodeSpec, NodeStatus, Pod, PodIp, PodSpec,
    PodStatus,
};

/// Which families a cluster has.
#[derive(Clone, Copy)]
struct Families {
    ipv4: bool,
    ipv6: bool,
}

impl Families {
    fn of(self, ipv4: Ipv4Addr, ipv6: Ipv6Addr) -> Vec<String> {
        let mut list: Vec<IpAddr> = Vec::new();
        if self.ipv4 {
            list.push(ipv4.into());
        }
        if self.ipv6 {
            list.push(ipv6.into());
        }
        list.iter().map(ToString::to_string).collect()
    }
}

/// A cluster without policies.
pub fn cluster(rng: &mut Rng) -> WireObjects {
    let families = match rng.u8(0..10) {
        0..4 => Families { ipv4: true, ipv6: false },
        4..9 => Families { ipv4: true, ipv6: true },
        _ => Families { ipv4: false, ipv6: true },
    };
    let names = &["a", "b", "c", "d", "e"][..rng.usize(2..=5)];
    let nodes = rng.u8(1..=3);
    let mut objects = WireObjects::default();
    for name in names {
        // A namespace that only pods mention has its name as its only label.
        if chance(rng, 90) {
            let mut object = Namespace { metadata: metadata(None, name), ..Namespace::default() };
            object.metadata.labels = some_labels(rng, &NAMESPACE_LABELS);
            objects.namespaces.push(object);
        }
    }
    objects.nodes = (1..=nodes).map(|index| node(rng, index, families)).collect();
    for index in 0..rng.u8(3..=14) {
        let (namespace, node) = (pick(rng, names), rng.u8(1..=nodes));
        let pod = pod(rng, index, namespace, node, families, &objects.pods);
        objects.pods.push(pod);
    }
    objects
}

/// Labels for some of the keys; half of the keys stay out.
fn some_labels(rng: &mut Rng, keys: &[(&str, [&str; 3])]) -> Option<BTreeMap<String, String>> {
    let mut labels = BTreeMap::new();
    for (key, values) in keys {
        if chance(rng, 60) {
            labels.insert((*key).to_owned(), pick(rng, values).to_owned());
        }
    }
    (!labels.is_empty()).then_some(labels)
}

fn node_name(index: u8) -> String {
    format!("node-{index}")
}

fn node_addresses(index: u8, families: Families) -> Vec<String> {
    families.of(
        Ipv4Addr::new(172, 18, 0, 1 + index),
        Ipv6Addr::new(0xfd00, 0x18, 0, 0, 0, 0, 0, 1 + u16::from(index)),
    )
}

fn node(rng: &mut Rng, index: u8, families: Families) -> Node {
    let address = |kind: &str, address| NodeAddress { address_type: kind.to_owned(), address };
    let mut addresses = vec![address("Hostname", node_name(index))];
    addresses.extend(node_addresses(index, families).into_iter().map(|ip| address("InternalIP", ip)));
    if families.ipv4 && chance(rng, 30) {
        addresses.push(address("ExternalIP", format!("198.51.100.{index}")));
    }
    let mut ranges = Vec::new();
    if families.ipv4 {
        ranges.push(format!("10.244.{index}.0/24"));
    }
    if families.ipv6 {
        ranges.push(format!("fd00:244:{index}::/64"));
    }
    let mut metadata = metadata(None, &node_name(index));
    metadata.labels = some_labels(rng, &NODE_LABELS);
    Node {
        metadata,
        spec: Some(NodeSpec {
            pod_cidr: ranges.first().cloned(),
            pod_cidrs: Some(ranges),
            ..NodeSpec::default()
        }),
        status: Some(NodeStatus { addresses: Some(addresses), ..NodeStatus::default() }),
        ..Node::default()
    }
}

fn pod(rng: &mut Rng, index: u8, namespace: &str, node: u8, families: Families, others: &[Pod]) -> Pod {
    // Neighbours in address space, so that short blocks cut between them.
    let host = 4 + index + if chance(rng, 30) { 16 } else { 0 };
    let own = families.of(
        Ipv4Addr::new(10, 244, node, host),
        Ipv6Addr::new(0xfd00, 0x244, u16::from(node), 0, 0, 0, 0, u16::from(host)),
    );
    let running = || Some("Running".to_owned());
    let (host_network, phase, addresses) = match rng.u8(0..100) {
        0..80 => (false, running(), own),
        // A pod of a dual-stack cluster may have one family alone.
        80..85 => (false, running(), own.into_iter().take(1).collect()),
        85..90 => (true, running(), node_addresses(node, families)),
        90..94 => (false, Some("Pending".to_owned()), Vec::new()),
        // A pod that is done, often at an address that has become another's.
        _ => {
            (false, Some(pick(rng, &["Succeeded", "Failed"]).to_owned()), addresses_of_any(rng, others, own))
        }
    };
    let mut metadata = metadata(Some(namespace), &format!("pod-{index}"));
    metadata.labels = some_labels(rng, &POD_LABELS);
    let mut containers = containers(rng);
    // Every fourth has its last container as a sidecar, every other fourth as one that is done before the pod starts.
    let init = (containers.len() > 1 && index % 4 < 2).then(|| containers.pop()).flatten().map(|last| {
        let restart_policy = index.is_multiple_of(4).then(|| "Always".to_owned());
        vec![Container { restart_policy, ..last }]
    });
    let ips: Vec<_> = addresses.iter().map(|ip| PodIp { ip: ip.clone() }).collect();
    Pod {
        metadata,
        spec: Some(PodSpec {
            node_name: (!addresses.is_empty()).then(|| node_name(node)),
            host_network: host_network.then_some(true),
            containers: Some(containers),
            init_containers: init,
            ..PodSpec::default()
        }),
        // A manifest that never met a cluster has no status: the product's reader chooses addresses for such pods.
        status: (host_network || !chance(rng, 3)).then(|| PodStatus {
            phase,
            pod_ip: addresses.into_iter().next(),
            pod_ips: (!ips.is_empty()).then_some(ips),
            ..PodStatus::default()
        }),
        ..Pod::default()
    }
}

fn addresses_of_any(rng: &mut Rng, pods: &[Pod], own: Vec<String>) -> Vec<String> {
    let other =
        rng.choice(pods).filter(|pod| pod.spec.as_ref().is_some_and(|spec| spec.host_network.is_none()));
    let addresses = other.and_then(|pod| pod.status.as_ref()?.pod_ips.as_ref());
    match addresses {
        Some(addresses) if chance(rng, 70) => addresses.iter().map(|entry| entry.ip.clone()).collect(),
        _ => own,
    }
}

/// One or two containers; the second often repeats a name of the first with another number.
fn containers(rng: &mut Rng) -> Vec<Container> {
    let count = if chance(rng, 40) { 2 } else { 1 };
    let mut earlier: Vec<ContainerPort> = Vec::new();
    let mut containers = Vec::new();
    for index in 0..count {
        let mut ports: Vec<ContainerPort> = Vec::new();
        for _ in 0..rng.u8(0..=3) {
            let mut port = container_port(rng);
            if let Some(other) = rng.choice(&earlier).filter(|_| chance(rng, 60)) {
                port.name.clone_from(&other.name);
                port.protocol.clone_from(&other.protocol);
            }
            // The API refuses a name that one container repeats.
            if port.name.is_none() || ports.iter().all(|other| other.name != port.name) {
                ports.push(port);
            }
        }
        earlier.extend(ports.iter().cloned());
        containers.push(Container {
            name: format!("c{index}"),
            ports: (!ports.is_empty()).then_some(ports),
            ..Container::default()
        });
    }
    containers
}

fn container_port(rng: &mut Rng) -> ContainerPort {
    ContainerPort {
        name: chance(rng, 80).then(|| pick(rng, &PORT_NAMES).to_owned()),
        container_port: pick(rng, &PORT_NUMBERS).into(),
        protocol: pick(rng, &[None, Some("TCP"), Some("TCP"), Some("UDP"), Some("SCTP")]).map(str::to_owned),
        ..ContainerPort::default()
    }
}
