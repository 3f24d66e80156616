//! Sets of policies that are made to hurt, at any size, and how much of everything each may cost at most.
//!
//! Invariant: the bounds are those of `docs/performance.md`; a test counts, so no clock decides. A size is a number of
//! policies, CIDRs or pods, as the set says.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use super::generate::metadata;
use super::scale::sourced;
use crate::input::assemble;
use crate::input::objects::Objects;
use crate::input::wire::admin_network_policy::{
    self as v1alpha1, AdminNetworkPolicy, AdminNetworkPolicySpec,
};
use crate::input::wire::core_v1::{Namespace, Pod, PodIp, PodSpec, PodStatus};
use crate::input::wire::meta::LabelSelector;
use crate::input::wire::network_policy::{
    IngressRule, IntOrString, IpBlock, NetworkPolicy, NetworkPolicySpec, Peer, Port,
};
use crate::input::wire::tier_policy;
use crate::model::cluster::Cluster;
use crate::model::policy::Policies;

const NAMESPACE: &str = "arena";
const PODS_OF_NODE: usize = 110;
/// CIDRs in one rule.
const BLOCKS_OF_RULE: usize = 50;

/// A kind of attack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Adversary {
    /// Every policy names a port of its own, for a pod of its own; one more says "all ports" about all of them.
    OwnPorts,
    /// Prefixes of every length from /8 to /32, many of them inside each other, each a rule's peer for one pod.
    OverlappingCidrs,
    /// One wide prefix, again and again with other exceptions.
    Exceptions,
    /// Every policy has a subject of its own and admits another pod alone.
    DisjointSelectors,
    /// As many selectors as halve the pods until each is alone.
    HalvingSelectors,
    /// Admin policies of different priorities, all about the same traffic, all but the last passing it on.
    LongPriorities,
}

/// The most that a size may cost when the whole cluster is compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// Peer classes.
    pub peer_classes: usize,
    /// Entries.
    pub entries: usize,
    /// Policy-map rows, if every pod were on one node.
    pub rows: usize,
}

impl Adversary {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::OwnPorts,
        Self::OverlappingCidrs,
        Self::Exceptions,
        Self::DisjointSelectors,
        Self::HalvingSelectors,
        Self::LongPriorities,
    ];

    /// What it does, with what its size counts.
    pub const fn name(self) -> &'static str {
        match self {
            Self::OwnPorts => "policies with a port of their own, and one for all ports",
            Self::OverlappingCidrs => "overlapping CIDRs",
            Self::Exceptions => "exceptions of one CIDR",
            Self::DisjointSelectors => "policies with disjoint selectors",
            Self::HalvingSelectors => "pods, halved by selectors",
            Self::LongPriorities => "priorities of admin policies",
        }
    }

    /// A size that is worth a measurement; eight times of it is still possible.
    pub const fn size(self) -> usize {
        match self {
            // Priorities end at 1000.
            Self::LongPriorities => 125,
            _ => 500,
        }
    }

    /// The most that a size may cost.
    pub fn bound(self, size: usize) -> Bound {
        let bound = |peer_classes, entries, rows| Bound { peer_classes, entries, rows };
        match self {
            // Port classes are each ruleset's own: ICMP, other protocols, the port, the rest.
            Self::OwnPorts => bound(5, 12 * size, 20 * size),
            // A prefix is a class and, at most, a row; there are three port classes.
            Self::OverlappingCidrs | Self::Exceptions => bound(size + 4, 3 * (size + 2), 3 * (size + 4)),
            // Every table has two rows. Rows of the map are the product of tables and classes: on one node with its
            // 110 pods they are linear, in a whole cluster square.
            Self::DisjointSelectors => bound(size + 2, 8 * size, 4 * size * (size + 2)),
            Self::HalvingSelectors => bound(size + 2, 3 * (size + 1), 3 * (size + 2)),
            // A cell knows every rule that matched, but there are no more cells.
            Self::LongPriorities => bound(4, 6, 12),
        }
    }

    /// The set at a size, as the product reads it.
    pub fn model(self, size: usize) -> (Cluster, Policies) {
        let mut namespace = Namespace { metadata: metadata(None, NAMESPACE), ..Namespace::default() };
        namespace.metadata.labels = Some(labels([("team", "red".to_owned())]));
        let (pods, network_policies, admin_network_policies) = match self {
            Self::OwnPorts => own_ports(size),
            Self::OverlappingCidrs => cidrs((0..size).map(|index| block(overlapping(index), &[]))),
            Self::Exceptions => {
                let except: Vec<String> = (0..size).map(slice).collect();
                cidrs(except.chunks(BLOCKS_OF_RULE).map(|some| block("10.0.0.0/8".to_owned(), some)))
            }
            Self::DisjointSelectors => disjoint(size),
            Self::HalvingSelectors => halving(size),
            Self::LongPriorities => priorities(size),
        };
        let loaded = assemble(Objects {
            namespaces: sourced(vec![namespace]),
            pods: sourced(pods),
            network_policies: sourced(network_policies),
            admin_network_policies: sourced(admin_network_policies),
            ..Objects::default()
        });
        (loaded.cluster, loaded.policies)
    }
}

type Set = (Vec<Pod>, Vec<NetworkPolicy>, Vec<AdminNetworkPolicy>);

fn own_ports(size: usize) -> Set {
    let roles = ["client", "admin", "other"];
    let pods =
        (0..size).map(|index| pod(index, [("app", app(index)), ("role", roles[index % 3].to_owned())]));
    let from = |role: &str| Some(vec![pods_with("role", role.to_owned())]);
    let mut policies: Vec<NetworkPolicy> = (0..size)
        .map(|index| {
            // Two apart, so that no two make one range.
            let port = i64::try_from(1_024 + index % 16_000 * 2).unwrap_or(i64::MAX);
            let ports = Some(vec![Port { port: Some(IntOrString::Int(port)), ..Port::default() }]);
            let rule = IngressRule { from: from("client"), ports, ..IngressRule::default() };
            policy(&format!("own-{index}"), Some(selector("app", app(index))), vec![rule])
        })
        .collect();
    let all = IngressRule { from: from("admin"), ..IngressRule::default() };
    policies.push(policy("all-ports", None, vec![all]));
    (pods.collect(), policies, Vec::new())
}

/// One pod with policies of [`BLOCKS_OF_RULE`] blocks each.
fn cidrs(blocks: impl Iterator<Item = Peer>) -> Set {
    let blocks: Vec<Peer> = blocks.collect();
    let rules = blocks
        .chunks(BLOCKS_OF_RULE)
        .map(|some| IngressRule { from: Some(some.to_vec()), ..IngressRule::default() });
    let policies =
        rules.enumerate().map(|(index, rule)| policy(&format!("blocks-{index}"), None, vec![rule]));
    (vec![pod(0, [("app", app(0))])], policies.collect(), Vec::new())
}

fn disjoint(size: usize) -> Set {
    let pods = (0..size).map(|index| pod(index, [("app", app(index))]));
    let policies = (0..size).map(|index| {
        let from = Some(vec![pods_with("app", app((index + 1) % size))]);
        let ports = Some(vec![Port { port: Some(IntOrString::Int(80)), ..Port::default() }]);
        let rule = IngressRule { from, ports, ..IngressRule::default() };
        policy(&format!("own-{index}"), Some(selector("app", app(index))), vec![rule])
    });
    (pods.collect(), policies.collect(), Vec::new())
}

fn halving(size: usize) -> Set {
    let bits = usize::BITS - size.leading_zeros();
    let key = |bit: u32| format!("bit-{bit}");
    let pods = (0..size).map(|index| {
        let mut pod = pod(index, [("app", app(index))]);
        let set = (0..bits).filter(|bit| index >> bit & 1 == 1).map(|bit| (key(bit), "1".to_owned()));
        pod.metadata.labels.get_or_insert_default().extend(set);
        pod
    });
    let peers = (0..bits).map(|bit| pods_with(&key(bit), "1".to_owned())).collect();
    let rule = IngressRule { from: Some(peers), ..IngressRule::default() };
    (pods.collect(), vec![policy("halves", Some(selector("app", app(0))), vec![rule])], Vec::new())
}

fn priorities(size: usize) -> Set {
    let pods = (0..2).map(|index| pod(index, [("app", app(index))])).collect();
    let policies = (0..size).map(|index| {
        let peer =
            tier_policy::Peer { namespaces: Some(LabelSelector::default()), ..tier_policy::Peer::default() };
        let rule = v1alpha1::IngressRule {
            action: Some(if index + 1 == size { "Deny" } else { "Pass" }.to_owned()),
            from: Some(vec![peer]),
            ..v1alpha1::IngressRule::default()
        };
        let subject = tier_policy::Subject {
            namespaces: Some(LabelSelector::default()),
            ..tier_policy::Subject::default()
        };
        AdminNetworkPolicy {
            metadata: metadata(None, &format!("priority-{index}")),
            spec: Some(AdminNetworkPolicySpec {
                priority: i64::try_from(index).ok(),
                subject: Some(subject),
                ingress: Some(vec![rule]),
                ..AdminNetworkPolicySpec::default()
            }),
            ..AdminNetworkPolicy::default()
        }
    });
    (pods, Vec::new(), policies.collect())
}

fn pod<const N: usize>(index: usize, pairs: [(&str, String); N]) -> Pod {
    let mut metadata = metadata(Some(NAMESPACE), &format!("pod-{index}"));
    metadata.labels = Some(labels(pairs));
    let ip = below(Ipv4Addr::new(172, 20, 0, 1), index).to_string();
    Pod {
        metadata,
        spec: Some(PodSpec {
            node_name: Some(format!("node-{}", index / PODS_OF_NODE)),
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

fn policy(name: &str, subject: Option<LabelSelector>, ingress: Vec<IngressRule>) -> NetworkPolicy {
    NetworkPolicy {
        api_version: "networking.k8s.io/v1".to_owned(),
        kind: "NetworkPolicy".to_owned(),
        metadata: metadata(Some(NAMESPACE), name),
        spec: Some(NetworkPolicySpec {
            pod_selector: Some(subject.unwrap_or_default()),
            policy_types: Some(vec!["Ingress".to_owned()]),
            ingress: Some(ingress),
            ..NetworkPolicySpec::default()
        }),
        ..NetworkPolicy::default()
    }
}

fn app(index: usize) -> String {
    format!("app-{index}")
}

fn labels<const N: usize>(pairs: [(&str, String); N]) -> BTreeMap<String, String> {
    pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

fn selector(key: &str, value: String) -> LabelSelector {
    LabelSelector { match_labels: Some(labels([(key, value)])), ..LabelSelector::default() }
}

fn pods_with(key: &str, value: String) -> Peer {
    Peer { pod_selector: Some(selector(key, value)), ..Peer::default() }
}

fn block(cidr: String, except: &[String]) -> Peer {
    let except = (!except.is_empty()).then(|| except.to_vec());
    Peer { ip_block: Some(IpBlock { cidr, except, ..IpBlock::default() }), ..Peer::default() }
}

/// The address so many after another.
fn below(first: Ipv4Addr, count: usize) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(first).wrapping_add(u32::try_from(count).unwrap_or(u32::MAX)))
}

/// A prefix in `10.0.0.0/8`; the lengths take turns and the addresses are near each other.
fn overlapping(index: usize) -> String {
    let length = 8 + index % 25;
    let address = u32::from(below(Ipv4Addr::new(10, 0, 0, 0), index * 257 % (1 << 24)));
    format!("{}/{length}", Ipv4Addr::from(address & (u32::MAX << (32 - length))))
}

/// A small part of `10.0.0.0/8`, apart from every other.
fn slice(index: usize) -> String {
    format!("{}/28", below(Ipv4Addr::new(10, 0, 0, 0), index * 64))
}
