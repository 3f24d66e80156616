//! Policies of the Admin and Baseline tiers: every field of the three kinds, so that they meet.
//!
//! Subjects are broad, priorities few, and many a policy has a twin that does otherwise, because policies that never
//! meet prove nothing about order.

use std::net::IpAddr;

use fastrand::Rng;

use super::policies::{address_block, addresses, range, selector};
use super::{NAMESPACE_LABELS, NODE_LABELS, POD_LABELS, PORT_NAMES, PORT_NUMBERS, chance, metadata, pick};
use crate::input::WireObjects;
use crate::input::wire::admin_network_policy::{
    self as v1alpha1, AdminNetworkPolicy, AdminNetworkPolicySpec,
};
use crate::input::wire::baseline_admin_network_policy::{
    BaselineAdminNetworkPolicy, BaselineAdminNetworkPolicySpec,
};
use crate::input::wire::cluster_network_policy::{
    self as v1alpha2, ClusterNetworkPolicy, ClusterNetworkPolicySpec,
};
use crate::input::wire::meta::{LabelSelector, ObjectMeta};
use crate::input::wire::tier_policy::{NamespacedPod, Peer, Subject};

/// What rules are made from.
struct Stuff {
    addresses: Vec<IpAddr>,
    namespaces: Vec<String>,
    /// Two policies in three worlds of four have one of these.
    priorities: Vec<i64>,
}

/// Adds up to five policies of these kinds; none in an eighth of the worlds.
pub fn add_tier_policies(objects: &mut WireObjects, rng: &mut Rng) {
    if chance(rng, 12) {
        return;
    }
    let namespaces = objects.pods.iter().filter_map(|pod| pod.metadata.namespace.clone()).collect();
    let priorities = if chance(rng, 50) { vec![10] } else { vec![0, 10, 10, 500, 1000] };
    let stuff = Stuff { addresses: addresses(objects), namespaces, priorities };
    for index in 0..rng.u8(1..=4) {
        if chance(rng, 35) {
            let spec = admin(rng, &stuff);
            objects.admin_network_policies.push(AdminNetworkPolicy {
                metadata: metadata(None, &format!("admin-{index}")),
                spec: Some(spec),
                ..AdminNetworkPolicy::default()
            });
        } else {
            let spec = cluster(rng, &stuff);
            objects.cluster_network_policies.push(ClusterNetworkPolicy {
                metadata: metadata(None, &format!("cluster-{index}")),
                spec: Some(spec),
                ..ClusterNetworkPolicy::default()
            });
        }
    }
    add_twins(objects, rng);
    if chance(rng, 35) {
        let (ingress, egress) = v1alpha1_rules(rng, &stuff, &["Allow", "Deny"], false);
        objects.baseline_admin_network_policies.push(BaselineAdminNetworkPolicy {
            metadata: metadata(None, "default"),
            spec: Some(BaselineAdminNetworkPolicySpec {
                subject: Some(subject(rng, &stuff)),
                ingress,
                egress,
                ..BaselineAdminNetworkPolicySpec::default()
            }),
            ..BaselineAdminNetworkPolicy::default()
        });
    }
}

/// The same policies again under other names, with other actions in their rules.
fn add_twins(objects: &mut WireObjects, rng: &mut Rng) {
    let twin = |metadata: &mut ObjectMeta| {
        metadata.name = metadata.name.as_ref().map(|name| format!("{name}-twin"));
    };
    if let Some(policy) = rng.choice(&objects.admin_network_policies).filter(|_| chance(rng, 70)).cloned() {
        let mut policy = policy;
        twin(&mut policy.metadata);
        let spec = policy.spec.get_or_insert_default();
        for action in spec.ingress.iter_mut().flatten().map(|rule| &mut rule.action) {
            *action = Some(another(rng, action.as_deref(), "Allow"));
        }
        for rule in spec.egress.iter_mut().flatten() {
            // Domain names are for one action.
            if rule.to.iter().flatten().all(|peer| peer.domain_names.is_none()) {
                rule.action = Some(another(rng, rule.action.as_deref(), "Allow"));
            }
        }
        objects.admin_network_policies.push(policy);
    }
    if let Some(policy) = rng.choice(&objects.cluster_network_policies).filter(|_| chance(rng, 85)).cloned() {
        let mut policy = policy;
        twin(&mut policy.metadata);
        let spec = policy.spec.get_or_insert_default();
        let actions = spec.ingress.iter_mut().flatten().map(|rule| &mut rule.action);
        for action in actions.chain(spec.egress.iter_mut().flatten().map(|rule| &mut rule.action)) {
            *action = Some(another(rng, action.as_deref(), "Accept"));
        }
        objects.cluster_network_policies.push(policy);
    }
}

/// One of the other actions.
fn another(rng: &mut Rng, action: Option<&str>, accept: &str) -> String {
    let others: Vec<&str> =
        [accept, "Deny", "Pass"].into_iter().filter(|word| Some(*word) != action).collect();
    pick(rng, &others).to_owned()
}

fn admin(rng: &mut Rng, stuff: &Stuff) -> AdminNetworkPolicySpec {
    let (ingress, egress) = v1alpha1_rules(rng, stuff, &["Allow", "Deny", "Pass", "Pass", "Pass"], true);
    AdminNetworkPolicySpec {
        priority: Some(pick(rng, &stuff.priorities)),
        subject: Some(subject(rng, stuff)),
        ingress,
        egress,
        ..AdminNetworkPolicySpec::default()
    }
}

fn cluster(rng: &mut Rng, stuff: &Stuff) -> ClusterNetworkPolicySpec {
    let ingress = rules(rng).map(|count| {
        let rule = |rng: &mut Rng| v1alpha2::IngressRule {
            name: rule_name(rng),
            action: Some(pick(rng, &["Accept", "Deny", "Pass", "Pass", "Pass"]).to_owned()),
            from: Some(peers(rng, stuff, false)),
            protocols: protocols(rng, true),
            ..v1alpha2::IngressRule::default()
        };
        (0..count).map(|_| rule(rng)).collect()
    });
    let egress = rules(rng).map(|count| {
        let rule = |rng: &mut Rng| {
            let action = pick(rng, &["Accept", "Deny", "Pass", "Pass", "Pass"]);
            let mut to = peers(rng, stuff, true);
            // Said by the type to be for Accept alone, and refused by nobody elsewhere.
            if chance(rng, 4) {
                to.push(domain_name());
            }
            let names = to.iter().all(|peer| peer.nodes.is_none() && peer.domain_names.is_none());
            v1alpha2::EgressRule {
                name: rule_name(rng),
                action: Some(action.to_owned()),
                to: Some(to),
                protocols: protocols(rng, names),
                ..v1alpha2::EgressRule::default()
            }
        };
        (0..count).map(|_| rule(rng)).collect()
    });
    ClusterNetworkPolicySpec {
        tier: Some(pick(rng, &["Admin", "Admin", "Baseline"]).to_owned()),
        priority: Some(pick(rng, &stuff.priorities)),
        subject: Some(subject(rng, stuff)),
        ingress,
        egress,
        ..ClusterNetworkPolicySpec::default()
    }
}

type V1Alpha1Rules = (Option<Vec<v1alpha1::IngressRule>>, Option<Vec<v1alpha1::EgressRule>>);

fn v1alpha1_rules(rng: &mut Rng, stuff: &Stuff, actions: &[&str], domain_names: bool) -> V1Alpha1Rules {
    let ingress = rules(rng).map(|count| {
        let rule = |rng: &mut Rng| v1alpha1::IngressRule {
            name: rule_name(rng),
            action: Some(pick(rng, actions).to_owned()),
            from: Some(peers(rng, stuff, false)),
            ports: ports(rng, true),
            ..v1alpha1::IngressRule::default()
        };
        (0..count).map(|_| rule(rng)).collect()
    });
    let egress = rules(rng).map(|count| {
        let rule = |rng: &mut Rng| {
            let action = pick(rng, actions);
            let mut to = peers(rng, stuff, true);
            if domain_names && action == "Allow" && chance(rng, 5) {
                to.push(domain_name());
            }
            let of_addresses =
                |peer: &Peer| peer.networks.is_some() || peer.nodes.is_some() || peer.domain_names.is_some();
            let names = !to.iter().any(of_addresses);
            v1alpha1::EgressRule {
                name: rule_name(rng),
                action: Some(action.to_owned()),
                to: Some(to),
                ports: ports(rng, names),
                ..v1alpha1::EgressRule::default()
            }
        };
        (0..count).map(|_| rule(rng)).collect()
    });
    (ingress, egress)
}

/// How many rules; also none, in both ways.
fn rules(rng: &mut Rng) -> Option<u8> {
    match rng.u8(0..10) {
        0 => None,
        1 => Some(0),
        _ => Some(rng.u8(1..=4)),
    }
}

fn rule_name(rng: &mut Rng) -> Option<String> {
    chance(rng, 40).then(|| format!("rule-{}", rng.u8(..)))
}

fn of_namespaces(rng: &mut Rng, stuff: &Stuff) -> LabelSelector {
    if chance(rng, 60) {
        LabelSelector::default()
    } else {
        selector(rng, &NAMESPACE_LABELS, &stuff.namespaces)
    }
}

fn pods(rng: &mut Rng, stuff: &Stuff) -> NamespacedPod {
    let namespaces = of_namespaces(rng, stuff);
    NamespacedPod {
        namespace_selector: Some(namespaces),
        pod_selector: Some(if chance(rng, 25) {
            LabelSelector::default()
        } else {
            selector(rng, &POD_LABELS, &[])
        }),
        ..NamespacedPod::default()
    }
}

fn subject(rng: &mut Rng, stuff: &Stuff) -> Subject {
    if chance(rng, 65) {
        Subject { namespaces: Some(of_namespaces(rng, stuff)), ..Subject::default() }
    } else {
        Subject { pods: Some(pods(rng, stuff)), ..Subject::default() }
    }
}

fn peers(rng: &mut Rng, stuff: &Stuff, egress: bool) -> Vec<Peer> {
    (0..rng.u8(1..=3)).map(|_| peer(rng, stuff, egress)).collect()
}

fn peer(rng: &mut Rng, stuff: &Stuff, egress: bool) -> Peer {
    match rng.u8(0..if egress { 20 } else { 10 }) {
        // A field that only a newer API could have.
        0 if chance(rng, 40) => Peer {
            unknown: [("serviceAccounts".to_owned(), serde_json::json!({}))].into(),
            ..Peer::default()
        },
        0..5 => Peer { namespaces: Some(of_namespaces(rng, stuff)), ..Peer::default() },
        5..10 => Peer { pods: Some(pods(rng, stuff)), ..Peer::default() },
        10..16 => {
            let mut networks: Vec<String> =
                (0..rng.u8(1..=2)).map(|_| address_block(rng, &stuff.addresses).2).collect();
            networks.sort();
            networks.dedup();
            Peer { networks: Some(networks), ..Peer::default() }
        }
        _ => {
            let nodes =
                if chance(rng, 35) { LabelSelector::default() } else { selector(rng, &NODE_LABELS, &[]) };
            Peer { nodes: Some(nodes), ..Peer::default() }
        }
    }
}

fn domain_name() -> Peer {
    Peer { domain_names: Some(vec!["*.example.org".to_owned()]), ..Peer::default() }
}

fn ports(rng: &mut Rng, names: bool) -> Option<Vec<v1alpha1::Port>> {
    let protocol =
        |rng: &mut Rng| pick(rng, &[None, Some("TCP"), Some("UDP"), Some("SCTP")]).map(str::to_owned);
    let port = |rng: &mut Rng| match rng.u8(0..10) {
        0..7 if names => v1alpha1::Port {
            named_port: Some(pick(rng, &PORT_NAMES).to_owned()),
            ..v1alpha1::Port::default()
        },
        0..8 => v1alpha1::Port {
            port_number: Some(v1alpha1::PortNumber {
                protocol: protocol(rng),
                port: Some(pick(rng, &PORT_NUMBERS).into()),
                ..v1alpha1::PortNumber::default()
            }),
            ..v1alpha1::Port::default()
        },
        _ => {
            let number = pick(rng, &PORT_NUMBERS);
            let (start, end) = range(rng, number);
            v1alpha1::Port {
                port_range: Some(v1alpha1::PortRange {
                    protocol: protocol(rng),
                    start: Some(start.into()),
                    end: Some(end.into()),
                    ..v1alpha1::PortRange::default()
                }),
                ..v1alpha1::Port::default()
            }
        }
    };
    chance(rng, 60).then(|| (0..rng.u8(1..=4)).map(|_| port(rng)).collect())
}

fn protocols(rng: &mut Rng, names: bool) -> Option<Vec<v1alpha2::Protocol>> {
    let destination = |rng: &mut Rng| {
        let number = pick(rng, &PORT_NUMBERS);
        let (start, end) = range(rng, number);
        if start < end && chance(rng, 40) {
            let range = v1alpha2::DestinationRange {
                start: Some(start.into()),
                end: Some(end.into()),
                ..v1alpha2::DestinationRange::default()
            };
            v1alpha2::DestinationPort { range: Some(range), ..v1alpha2::DestinationPort::default() }
        } else {
            v1alpha2::DestinationPort { number: Some(number.into()), ..v1alpha2::DestinationPort::default() }
        }
    };
    let protocol = |rng: &mut Rng| {
        if names && chance(rng, 70) {
            return v1alpha2::Protocol {
                destination_named_port: Some(pick(rng, &PORT_NAMES).to_owned()),
                ..v1alpha2::Protocol::default()
            };
        }
        let port = if chance(rng, 90) { Some(destination(rng)) } else { None };
        let transport =
            Some(v1alpha2::Transport { destination_port: port, ..v1alpha2::Transport::default() });
        match rng.u8(0..4) {
            0..2 => v1alpha2::Protocol { tcp: transport, ..v1alpha2::Protocol::default() },
            2 => v1alpha2::Protocol { udp: transport, ..v1alpha2::Protocol::default() },
            _ => v1alpha2::Protocol { sctp: transport, ..v1alpha2::Protocol::default() },
        }
    };
    chance(rng, 60).then(|| (0..rng.u8(1..=4)).map(|_| protocol(rng)).collect())
}
