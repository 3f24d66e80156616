//! Policies: every field of `NetworkPolicySpec`, and every way to leave it out.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use fastrand::Rng;

use super::{NAMESPACE_LABELS, POD_LABELS, PORT_NAMES, PORT_NUMBERS, chance, metadata, pick};
use crate::input::WireObjects;
use crate::input::wire::meta::{LabelSelector, LabelSelectorRequirement};
use crate::input::wire::network_policy::{
    EgressRule, IngressRule, IntOrString, IpBlock, NetworkPolicy, NetworkPolicySpec, Peer, Port,
};
use crate::policy::oracle::{End, Oracle};

/// Adds 0 to 8 policies.
pub fn add_policies(objects: &mut WireObjects, rng: &mut Rng) {
    let namespaces: Vec<String> =
        objects.pods.iter().filter_map(|pod| pod.metadata.namespace.clone()).collect();
    let addresses = addresses(objects);
    let declared = declared_names(objects);
    let count = if chance(rng, 5) { 0 } else { rng.u8(2..=8) };
    for index in 0..count {
        let namespace = pick(rng, &namespaces);
        let mut spec = spec(rng, &addresses, &namespaces);
        spec.egress.iter_mut().flatten().for_each(|rule| replace_dead_names(rule, &declared));
        objects.network_policies.push(NetworkPolicy {
            api_version: "networking.k8s.io/v1".to_owned(),
            kind: "NetworkPolicy".to_owned(),
            metadata: metadata(Some(&namespace), &format!("policy-{index}")),
            spec: Some(spec),
            ..NetworkPolicy::default()
        });
    }
}

/// Every address of a pod or node.
pub(super) fn addresses(objects: &WireObjects) -> Vec<IpAddr> {
    let pods = objects.pods.iter().filter_map(|pod| pod.status.as_ref()?.pod_ips.as_ref()).flatten();
    let nodes = objects.nodes.iter().filter_map(|node| node.status.as_ref()?.addresses.as_ref()).flatten();
    let texts = pods.map(|entry| &entry.ip).chain(nodes.map(|entry| &entry.address));
    texts.filter_map(|text| text.parse().ok()).collect()
}

/// Every port name of a pod that policies can see, with its protocol.
fn declared_names(objects: &WireObjects) -> BTreeSet<(String, String)> {
    let oracle = Oracle::new(objects);
    let seen = objects.pods.iter().filter(|pod| {
        let listed = pod.status.iter().flat_map(|status| status.pod_ips.iter().flatten());
        listed.filter_map(|entry| entry.ip.parse().ok()).any(|address| {
            let owner = oracle.end_of_address(address);
            matches!(owner, End::Pod { name, .. } if pod.metadata.name.as_ref() == Some(&name))
        })
    });
    let containers = seen.filter_map(|pod| pod.spec.as_ref()?.containers.as_ref()).flatten();
    let ports = containers.flat_map(|container| container.ports.iter().flatten());
    ports.filter_map(|port| Some((port.name.clone()?, protocol_or_default(port.protocol.as_ref())))).collect()
}

fn protocol_or_default(protocol: Option<&String>) -> String {
    protocol.cloned().unwrap_or_else(|| "TCP".to_owned())
}

/// The product's reader refuses a name that no pod has towards blocks alone: a number takes its place.
fn replace_dead_names(rule: &mut EgressRule, declared: &BTreeSet<(String, String)>) {
    let peers = rule.to.as_deref().unwrap_or_default();
    if peers.is_empty() || peers.iter().any(|peer| peer.ip_block.is_none()) {
        return;
    }
    for port in rule.ports.iter_mut().flatten() {
        if let Some(IntOrString::String(name)) = &port.port
            && !declared.contains(&(name.clone(), protocol_or_default(port.protocol.as_ref())))
        {
            port.port = Some(IntOrString::Int(8080));
        }
    }
}

fn spec(rng: &mut Rng, addresses: &[IpAddr], namespaces: &[String]) -> NetworkPolicySpec {
    let types: Option<&[&str]> = pick(
        rng,
        &[
            None,
            None,
            Some(&[]),
            Some(&["Ingress"]),
            Some(&["Egress"]),
            Some(&["Ingress", "Egress"]),
            Some(&["Egress", "Ingress"]),
        ],
    );
    let rules = |rng: &mut Rng| match rng.u8(0..10) {
        0 => None,
        1 => Some(0),
        _ => Some(rng.u8(1..=3)),
    };
    let (ingress, egress) = (rules(rng), rules(rng));
    NetworkPolicySpec {
        pod_selector: match rng.u8(0..10) {
            0 => None,
            1..4 => Some(LabelSelector::default()),
            _ => Some(selector(rng, &POD_LABELS, &[])),
        },
        policy_types: types.map(|types| types.iter().map(|&name| name.to_owned()).collect()),
        ingress: ingress.map(|count| {
            let rule = |rng: &mut Rng| IngressRule {
                from: peers(rng, addresses, namespaces),
                ports: ports(rng),
                ..IngressRule::default()
            };
            (0..count).map(|_| rule(rng)).collect()
        }),
        egress: egress.map(|count| {
            let rule = |rng: &mut Rng| EgressRule {
                to: peers(rng, addresses, namespaces),
                ports: ports(rng),
                ..EgressRule::default()
            };
            (0..count).map(|_| rule(rng)).collect()
        }),
        ..NetworkPolicySpec::default()
    }
}

pub(super) fn selector(rng: &mut Rng, keys: &[(&str, [&str; 3])], namespaces: &[String]) -> LabelSelector {
    let mut labels = BTreeMap::new();
    let mut expressions = Vec::new();
    for _ in 0..rng.u8(1..=2) {
        let (key, values) = *rng.choice(keys).unwrap_or(&keys[0]);
        match rng.u8(0..10) {
            0 if !namespaces.is_empty() => {
                labels.insert("kubernetes.io/metadata.name".to_owned(), pick(rng, namespaces));
            }
            0..5 => {
                labels.insert(key.to_owned(), pick(rng, &values).to_owned());
            }
            _ => expressions.push(requirement(rng, key, values)),
        }
    }
    LabelSelector {
        match_labels: (!labels.is_empty()).then_some(labels),
        match_expressions: (!expressions.is_empty()).then_some(expressions),
        ..LabelSelector::default()
    }
}

fn requirement(rng: &mut Rng, key: &str, values: [&str; 3]) -> LabelSelectorRequirement {
    let operator = pick(rng, &["In", "NotIn", "Exists", "DoesNotExist"]);
    // The API wants values for two of the operators and none for the others.
    let values = operator.ends_with("In").then(|| {
        let mut chosen = vec![pick(rng, &values).to_owned()];
        if chance(rng, 40) {
            chosen.push(pick(rng, &[values[0], values[1], "nobody"]).to_owned());
        }
        chosen
    });
    LabelSelectorRequirement {
        key: key.to_owned(),
        operator: operator.to_owned(),
        values,
        ..LabelSelectorRequirement::default()
    }
}

fn peers(rng: &mut Rng, addresses: &[IpAddr], namespaces: &[String]) -> Option<Vec<Peer>> {
    match rng.u8(0..20) {
        0..4 => None,
        4 => Some(Vec::new()),
        _ => Some((0..rng.u8(1..=3)).map(|_| peer(rng, addresses, namespaces)).collect()),
    }
}

fn peer(rng: &mut Rng, addresses: &[IpAddr], namespaces: &[String]) -> Peer {
    let pods = |rng: &mut Rng| {
        if chance(rng, 20) { LabelSelector::default() } else { selector(rng, &POD_LABELS, &[]) }
    };
    let of_namespaces = |rng: &mut Rng| {
        if chance(rng, 30) { LabelSelector::default() } else { selector(rng, &NAMESPACE_LABELS, namespaces) }
    };
    match rng.u8(0..10) {
        0..2 => Peer { pod_selector: Some(pods(rng)), ..Peer::default() },
        2..4 => Peer { namespace_selector: Some(of_namespaces(rng)), ..Peer::default() },
        4..6 => Peer {
            pod_selector: Some(pods(rng)),
            namespace_selector: Some(of_namespaces(rng)),
            ..Peer::default()
        },
        _ => Peer { ip_block: Some(block(rng, addresses)), ..Peer::default() },
    }
}

/// A block on or beside what there is: an address in it, its length, and how it is written.
pub(super) fn address_block(rng: &mut Rng, addresses: &[IpAddr]) -> (IpAddr, u8, String) {
    let outside: [IpAddr; 4] = [
        Ipv4Addr::new(203, 0, 113, rng.u8(..)).into(),
        Ipv4Addr::new(198, 51, 100, rng.u8(..)).into(),
        Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, rng.u16(..)).into(),
        Ipv6Addr::new(0xfd00, 0x99, 0, 0, 0, 0, 0, rng.u16(..)).into(),
    ];
    let base = match rng.choice(addresses) {
        Some(address) if chance(rng, 75) => *address,
        _ => *rng.choice(&outside).unwrap_or(&outside[0]),
    };
    let longest = if base.is_ipv4() { 32 } else { 128 };
    let length = match rng.u8(0..10) {
        0..3 => 0,
        3 => longest,
        // From a single address to some more than a node's range.
        _ => longest - rng.u8(0..=12),
    };
    let written = cidr(rng, base, length);
    (base, length, written)
}

fn block(rng: &mut Rng, addresses: &[IpAddr]) -> IpBlock {
    let (base, length, cidr) = address_block(rng, addresses);
    let longest = if base.is_ipv4() { 32 } else { 128 };
    let exceptions = if length == longest { 0 } else { pick(rng, &[0, 1, 1, 2, 3]) };
    let except: Vec<_> = (0..exceptions).map(|_| exception(rng, base, length, addresses)).collect();
    IpBlock { cidr, except: (!except.is_empty()).then_some(except), ..IpBlock::default() }
}

/// Strictly inside, on a pod where one is inside.
fn exception(rng: &mut Rng, base: IpAddr, length: u8, addresses: &[IpAddr]) -> String {
    let is_inside = |address: &IpAddr| {
        address.is_ipv4() == base.is_ipv4() && network(*address, length) == network(base, length)
    };
    let inside: Vec<_> = addresses.iter().copied().filter(is_inside).collect();
    let base = rng.choice(&inside).copied().unwrap_or(base);
    let longest = if base.is_ipv4() { 32 } else { 128 };
    let shortest = (length + 1).max(longest - 6).min(longest);
    let length = if chance(rng, 15) { length + 1 } else { rng.u8(shortest..=longest) };
    cidr(rng, base, length)
}

/// The address and family with the bits after the prefix cleared.
fn network(address: IpAddr, length: u8) -> IpAddr {
    match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(u32::from(32 - length)).unwrap_or(0);
            Ipv4Addr::from_bits(address.to_bits() & mask).into()
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(u32::from(128 - length)).unwrap_or(0);
            Ipv6Addr::from_bits(address.to_bits() & mask).into()
        }
    }
}

/// As people write it: mostly canonical, sometimes with the bits of the address they copied.
fn cidr(rng: &mut Rng, address: IpAddr, length: u8) -> String {
    if chance(rng, 25) {
        format!("{address}/{length}")
    } else {
        format!("{}/{length}", network(address, length))
    }
}

fn ports(rng: &mut Rng) -> Option<Vec<Port>> {
    match rng.u8(0..20) {
        0..5 => None,
        5 => Some(Vec::new()),
        _ => Some((0..rng.u8(1..=3)).map(|_| port(rng)).collect()),
    }
}

fn port(rng: &mut Rng) -> Port {
    let protocol = pick(rng, &[None, Some("TCP"), Some("TCP"), Some("UDP"), Some("SCTP")]).map(str::to_owned);
    let number = pick(rng, &PORT_NUMBERS);
    let (port, end_port) = match rng.u8(0..10) {
        0 => (None, None),
        1..4 => (Some(IntOrString::Int(number.into())), None),
        4..7 => (Some(IntOrString::String(pick(rng, &PORT_NAMES).to_owned())), None),
        _ => {
            let (first, last) = range(rng, number);
            (Some(IntOrString::Int(first.into())), Some(last.into()))
        }
    };
    Port { protocol, port, end_port, ..Port::default() }
}

/// A range that meets the number at one of its ends, from inside or outside.
pub(super) fn range(rng: &mut Rng, number: u16) -> (u16, u16) {
    let width = pick(rng, &[0, 1, 9, 100, 65535]);
    let (first, last) = match rng.u8(0..4) {
        0 => (number, number.saturating_add(width)),
        1 => (number.saturating_sub(width), number),
        2 => (number.saturating_sub(width).saturating_sub(1), number.saturating_sub(1)),
        _ => (number.saturating_add(1), number.saturating_add(1).saturating_add(width)),
    };
    (first.max(1), last.max(1))
}
