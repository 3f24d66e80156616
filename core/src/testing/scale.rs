//! Large clusters with one shape: what figures of speed and memory are measured on, so that they can be compared.
//!
//! The shape is fixed: a namespace for every 100 pods (1,500 at 150,000), workloads of 10 pods, 6 labels on each pod of
//! which one (`app`) is its workload's alone, 110 pods on a node; 3 rules with 2 peers each in a policy, 20 % of the
//! peers CIDRs (512 networks outside, or everything but the pods), 10 % of the ports names, 5 % ranges. IPv4, as most
//! clusters.
//!
//! Invariant: the seed is fixed; the same numbers of pods and policies give the same objects on every machine, and a
//! namespace can be made without the others.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use fastrand::Rng;

use super::generate::{chance, metadata, pick};
use crate::input::objects::{Objects, Sourced};
use crate::input::wire::core_v1::{
    Container, ContainerPort, Namespace, Node, NodeAddress, NodeSpec, NodeStatus, Pod, PodIp, PodSpec,
    PodStatus,
};
use crate::input::wire::meta::LabelSelector;
use crate::input::wire::network_policy::{
    EgressRule, IngressRule, IntOrString, IpBlock, NetworkPolicy, NetworkPolicySpec, Peer, Port,
};
use crate::input::{WireObjects, assemble};
use crate::model::cluster::Cluster;
use crate::model::policy::Policies;

/// Where the random numbers start.
const SEED: u64 = 0x6e65_746c_6162;

const PODS_OF_WORKLOAD: u32 = 10;
const WORKLOADS_OF_NAMESPACE: u32 = 10;
/// What the kubelet takes where nobody says otherwise.
const PODS_OF_NODE: u32 = 110;
const TEAMS: u32 = 40;
const TIERS: u32 = 5;

const PORT_NAMES: [&str; 3] = ["http", "metrics", "grpc"];
const PORTS: [i64; 8] = [80, 443, 5432, 6379, 8080, 9090, 53, 3306];

/// How large.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    /// Pods.
    pub pods: u32,
    /// Policies.
    pub policies: u32,
}

impl Scale {
    /// How many namespaces there are.
    pub fn namespaces(self) -> u32 {
        self.pods.div_ceil(PODS_OF_WORKLOAD * WORKLOADS_OF_NAMESPACE).max(1)
    }

    fn workloads(self) -> u32 {
        self.pods.div_ceil(PODS_OF_WORKLOAD).max(1)
    }

    fn nodes(self) -> u32 {
        self.pods.div_ceil(PODS_OF_NODE).max(1)
    }

    /// Everything, as written.
    pub fn objects(self) -> WireObjects {
        let mut objects = WireObjects { nodes: self.all_nodes(), ..WireObjects::default() };
        for index in 0..self.namespaces() {
            let WireObjects { namespaces, pods, network_policies, .. } = self.namespace(index);
            objects.namespaces.extend(namespaces);
            objects.pods.extend(pods);
            objects.network_policies.extend(network_policies);
        }
        objects
    }

    /// Everything, as the product reads it. It goes through the reader one namespace at a time, so that the peak of
    /// memory is that of the result.
    pub fn model(self) -> (Cluster, Policies) {
        let nodes = sourced(self.all_nodes());
        let mut cluster = assemble(Objects { nodes, ..Objects::default() }).cluster;
        let mut policies = Policies::default();
        for index in 0..self.namespaces() {
            let WireObjects { namespaces, pods, network_policies, .. } = self.namespace(index);
            let loaded = assemble(Objects {
                namespaces: sourced(namespaces),
                pods: sourced(pods),
                network_policies: sourced(network_policies),
                ..Objects::default()
            });
            cluster.namespaces.extend(loaded.cluster.namespaces);
            cluster.pods.extend(loaded.cluster.pods);
            policies.list.extend(loaded.policies.list);
        }
        policies.list.sort_by(|one, other| one.id.cmp(&other.id));
        (cluster, policies)
    }

    /// One namespace with its pods and policies.
    pub fn namespace(self, index: u32) -> WireObjects {
        let name = namespace_name(index);
        let mut namespace = Namespace { metadata: metadata(None, &name), ..Namespace::default() };
        namespace.metadata.labels = Some(labels([
            ("team", format!("team-{}", index % TEAMS)),
            ("env", format!("env-{}", index % 3)),
        ]));
        let pods = index * PODS_OF_WORKLOAD * WORKLOADS_OF_NAMESPACE;
        let end = (pods + PODS_OF_WORKLOAD * WORKLOADS_OF_NAMESPACE).min(self.pods);
        let mut rng = Rng::with_seed(SEED.wrapping_add(u64::from(index)));
        let policies = (index..self.policies).step_by(self.namespaces() as usize);
        WireObjects {
            namespaces: vec![namespace],
            pods: (pods..end).map(|pod| self.pod(pod)).collect(),
            network_policies: policies.map(|policy| self.policy(&mut rng, index, policy)).collect(),
            ..WireObjects::default()
        }
    }

    fn all_nodes(self) -> Vec<Node> {
        (0..self.nodes()).map(node).collect()
    }

    fn pod(self, index: u32) -> Pod {
        let workload = index / PODS_OF_WORKLOAD;
        let mut metadata =
            metadata(Some(&namespace_of(workload)), &format!("app-{workload}-{}", index % PODS_OF_WORKLOAD));
        metadata.labels = Some(labels([
            ("app", app(workload)),
            ("tier", tier(workload)),
            ("part-of", format!("suite-{}", workload % 11)),
            ("zone", format!("zone-{}", workload % 4)),
            ("version", format!("v{}", workload % 7)),
            ("channel", format!("channel-{}", workload % 3)),
        ]));
        // Pods of a workload are on different nodes, as schedulers put them.
        let (node, slot) = (index % self.nodes(), index / self.nodes());
        let ip = pod_address(node, slot).to_string();
        let port = ContainerPort {
            name: Some(PORT_NAMES[workload as usize % PORT_NAMES.len()].to_owned()),
            container_port: i64::from(8000 + workload % 20),
            ..ContainerPort::default()
        };
        Pod {
            metadata,
            spec: Some(PodSpec {
                node_name: Some(node_name(node)),
                containers: Some(vec![Container {
                    name: "main".to_owned(),
                    ports: Some(vec![port]),
                    ..Container::default()
                }]),
                ..PodSpec::default()
            }),
            status: Some(PodStatus {
                phase: Some("Running".to_owned()),
                pod_ip: Some(ip.clone()),
                pod_ips: Some(vec![PodIp { ip }]),
                ..PodStatus::default()
            }),
            ..Pod::default()
        }
    }

    fn policy(self, rng: &mut Rng, namespace: u32, index: u32) -> NetworkPolicy {
        let (mut ingress, mut egress) = (Vec::new(), Vec::new());
        for _ in 0..3 {
            let peers = (0..2).map(|_| self.peer(rng, namespace)).collect();
            let ports = Some(vec![port(rng)]);
            if chance(rng, 30) {
                egress.push(EgressRule { to: Some(peers), ports, ..EgressRule::default() });
            } else {
                ingress.push(IngressRule { from: Some(peers), ports, ..IngressRule::default() });
            }
        }
        let types = [("Ingress", !ingress.is_empty()), ("Egress", !egress.is_empty())];
        let types = types.into_iter().filter(|(_, used)| *used).map(|(name, _)| name.to_owned()).collect();
        NetworkPolicy {
            api_version: "networking.k8s.io/v1".to_owned(),
            kind: "NetworkPolicy".to_owned(),
            metadata: metadata(Some(&namespace_name(namespace)), &format!("policy-{index}")),
            spec: Some(NetworkPolicySpec {
                pod_selector: Some(selector("app", app(self.workload_in(rng, namespace)))),
                policy_types: Some(types),
                ingress: (!ingress.is_empty()).then_some(ingress),
                egress: (!egress.is_empty()).then_some(egress),
                ..NetworkPolicySpec::default()
            }),
            ..NetworkPolicy::default()
        }
    }

    /// A workload of a namespace.
    fn workload_in(self, rng: &mut Rng, namespace: u32) -> u32 {
        let first = namespace * WORKLOADS_OF_NAMESPACE;
        rng.u32(first..(first + WORKLOADS_OF_NAMESPACE).min(self.workloads()))
    }

    fn peer(self, rng: &mut Rng, namespace: u32) -> Peer {
        if chance(rng, 20) {
            return Peer { ip_block: Some(block(rng)), ..Peer::default() };
        }
        let (namespaces, pods) = match rng.u8(0..3) {
            0 => (None, selector("app", app(self.workload_in(rng, namespace)))),
            1 => (
                Some(selector("team", format!("team-{}", rng.u32(0..TEAMS)))),
                selector("tier", format!("tier-{}", rng.u32(0..TIERS))),
            ),
            _ => {
                let workload = rng.u32(0..self.workloads());
                let name = namespace_of(workload);
                (Some(selector("kubernetes.io/metadata.name", name)), selector("app", app(workload)))
            }
        };
        Peer { namespace_selector: namespaces, pod_selector: Some(pods), ..Peer::default() }
    }
}

/// Objects that nobody wrote in a file.
pub(super) fn sourced<T: Default>(objects: Vec<T>) -> Vec<Sourced<T>> {
    objects.into_iter().map(|object| Sourced { object, ..Sourced::default() }).collect()
}

fn node(index: u32) -> Node {
    let address = NodeAddress {
        address_type: "InternalIP".to_owned(),
        address: Ipv4Addr::from(u32::from(Ipv4Addr::new(172, 16, 0, 1)) + index).to_string(),
    };
    let range = format!("{}/24", pod_network(index));
    Node {
        metadata: metadata(None, &node_name(index)),
        spec: Some(NodeSpec {
            pod_cidr: Some(range.clone()),
            pod_cidrs: Some(vec![range]),
            ..NodeSpec::default()
        }),
        status: Some(NodeStatus { addresses: Some(vec![address]), ..NodeStatus::default() }),
        ..Node::default()
    }
}

/// One of 512 networks outside of the cluster, or everything but the pods.
fn block(rng: &mut Rng) -> IpBlock {
    let index = rng.u32(0..513);
    if index == 512 {
        let except = Some(vec!["10.0.0.0/8".to_owned()]);
        return IpBlock { cidr: "0.0.0.0/0".to_owned(), except, ..IpBlock::default() };
    }
    let length = [16, 20, 24, 32][index as usize % 4];
    let address = u32::from(Ipv4Addr::new(198, 0, 0, 0)) + index * 5_000;
    let network = Ipv4Addr::from(address & (u32::MAX << (32 - length)));
    IpBlock { cidr: format!("{network}/{length}"), ..IpBlock::default() }
}

fn port(rng: &mut Rng) -> Port {
    let (port, end_port) = match rng.u8(0..100) {
        0..10 => (IntOrString::String(pick(rng, &PORT_NAMES).to_owned()), None),
        10..15 => {
            let start = rng.i64(1024..32_768);
            (IntOrString::Int(start), Some(start + 1000))
        }
        _ => (IntOrString::Int(pick(rng, &PORTS)), None),
    };
    Port { protocol: Some("TCP".to_owned()), port: Some(port), end_port, ..Port::default() }
}

fn selector(key: &str, value: String) -> LabelSelector {
    LabelSelector { match_labels: Some(labels([(key, value)])), ..LabelSelector::default() }
}

fn labels<const N: usize>(pairs: [(&str, String); N]) -> BTreeMap<String, String> {
    pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

fn namespace_name(index: u32) -> String {
    format!("ns-{index}")
}

fn namespace_of(workload: u32) -> String {
    namespace_name(workload / WORKLOADS_OF_NAMESPACE)
}

fn app(workload: u32) -> String {
    format!("app-{workload}")
}

fn tier(workload: u32) -> String {
    format!("tier-{}", workload % TIERS)
}

/// The name of a node, counted from 0.
pub fn node_name(index: u32) -> String {
    format!("node-{index}")
}

/// Each node has a /24 of `10.0.0.0/8`.
fn pod_network(node: u32) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(Ipv4Addr::new(10, 0, 0, 0)) + node * 256)
}

fn pod_address(node: u32, slot: u32) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(pod_network(node)) + 2 + slot)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::policy::PeerMatch;
    use crate::model::port::PortMatch;

    #[test]
    fn the_shape_is_as_stated() {
        let scale = Scale { pods: 2_000, policies: 500 };
        let (cluster, policies) = scale.model();
        assert_eq!((cluster.namespaces.len(), cluster.pods.len()), (20, 2_000));
        assert_eq!((cluster.nodes.len(), policies.list.len()), (19, 500));
        assert!(cluster.pods.values().all(|pod| pod.labels.len() == 6 && pod.is_policed()));
        let most = cluster
            .nodes
            .keys()
            .map(|node| cluster.pods.values().filter(|pod| pod.node.as_ref() == Some(node)).count());
        assert!(most.max() <= Some(110));
        let addresses: std::collections::BTreeSet<_> =
            cluster.pods.values().flat_map(|pod| &pod.addresses).collect();
        assert_eq!(addresses.len(), 2_000, "no address twice");
        let of_policy = |policy: &'_ crate::model::policy::Policy| -> usize {
            policy.ingress.iter().chain(&policy.egress).map(Vec::len).sum()
        };
        assert!(policies.list.iter().all(|policy| of_policy(policy) == 3));
        let rules: Vec<_> = policies
            .list
            .iter()
            .flat_map(|policy| policy.ingress.iter().chain(&policy.egress))
            .flatten()
            .collect();
        let peers: Vec<_> = rules.iter().flat_map(|rule| rule.peers.iter().flatten()).collect();
        assert_eq!((rules.len(), peers.len()), (1_500, 3_000));
        let blocks = peers.iter().filter(|peer| matches!(peer.matches, PeerMatch::Block(_))).count();
        assert!((540..660).contains(&blocks), "{blocks} of 3,000 peers are CIDRs");
        let ports: Vec<_> = rules.iter().flat_map(|rule| rule.ports.iter().flatten()).collect();
        let named = ports.iter().filter(|port| matches!(port.matches, PortMatch::Named { .. })).count();
        assert!((110..190).contains(&named), "{named} of 1,500 ports are names");
    }

    #[test]
    fn a_namespace_is_the_same_alone_and_among_others() {
        let scale = Scale { pods: 1_000, policies: 40 };
        let (alone, all) = (scale.namespace(3), scale.objects());
        let among: Vec<_> =
            all.pods.iter().filter(|pod| pod.metadata.namespace.as_deref() == Some("ns-3")).collect();
        assert_eq!(alone.pods.iter().collect::<Vec<_>>(), among);
        assert_eq!(alone.network_policies.len(), 4);
        assert!(alone.network_policies.iter().all(|policy| all.network_policies.contains(policy)));
    }
}
