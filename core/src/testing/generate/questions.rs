//! Questions: ends and ports at the edges of what the policies name.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use fastrand::Rng;

use super::rule_view::tier_rules;
use super::{PORT_NUMBERS, chance, pick};
use crate::input::WireObjects;
use crate::input::wire::network_policy::{IntOrString, IpBlock, Port};
use crate::policy::oracle::{End, IpProtocol, NotPoliced, Oracle, Question, Side, Why};

/// So many questions about these objects; fewer only where no two ends have a family in common.
pub fn questions(objects: &WireObjects, count: usize, rng: &mut Rng) -> Vec<Question> {
    let ends = Ends::of(objects);
    let numbers = numbers(objects);
    let mut list = Vec::new();
    for _ in 0..count * 10 {
        if list.len() == count {
            break;
        }
        let source = ends.pick(rng);
        let destination = if chance(rng, 2) { source.clone() } else { ends.pick(rng) };
        let (Some(source), Some(destination)) = (source, destination) else { continue };
        if source.address().is_ipv4() != destination.address().is_ipv4() {
            continue;
        }
        // Small clusters meet themselves too often.
        if source == destination && !chance(rng, 20) {
            continue;
        }
        let declared = declared_ports(objects, &destination);
        let (protocol, port) = match rng.choice(&declared).filter(|_| chance(rng, 50)) {
            Some(declared) => *declared,
            None => any_port(rng, &numbers),
        };
        let question = Question { source, destination, protocol, port };
        // A question that no policy could be asked about is worth little; keep some.
        if touches_a_policed_pod(objects, &question) || chance(rng, 5) {
            list.push(question);
        }
    }
    list
}

fn any_port(rng: &mut Rng, numbers: &[u16]) -> (IpProtocol, u16) {
    match rng.u8(0..20) {
        0..10 => (IpProtocol::Tcp, number(rng, numbers)),
        10..14 => (IpProtocol::Udp, number(rng, numbers)),
        14..17 => (IpProtocol::Sctp, number(rng, numbers)),
        17..19 => (IpProtocol::Icmp, 0),
        _ => (IpProtocol::Other(pick(rng, &[47, 89, 103, 115])), 0),
    }
}

/// The ports that an end's containers declare.
fn declared_ports(objects: &WireObjects, end: &End) -> Vec<(IpProtocol, u16)> {
    let End::Pod { namespace, name, .. } = end else { return Vec::new() };
    let pods = objects.pods.iter().filter(|pod| {
        pod.metadata.namespace.as_ref() == Some(namespace) && pod.metadata.name.as_ref() == Some(name)
    });
    let containers = pods.filter_map(|pod| pod.spec.as_ref()?.containers.as_ref()).flatten();
    let ports = containers.flat_map(|container| container.ports.iter().flatten());
    let ports = ports.filter_map(|port| {
        let protocol = match port.protocol.as_deref() {
            None | Some("TCP") => IpProtocol::Tcp,
            Some("UDP") => IpProtocol::Udp,
            Some("SCTP") => IpProtocol::Sctp,
            Some(_) => return None,
        };
        Some((protocol, u16::try_from(port.container_port).ok()?))
    });
    ports.collect()
}

fn touches_a_policed_pod(objects: &WireObjects, question: &Question) -> bool {
    let answer = Oracle::new(objects).judge(question);
    let is_policed =
        |side: &Side| !matches!(side.why, Why::NotPoliced(NotPoliced::NotAPod | NotPoliced::HostNetwork));
    is_policed(&answer.egress) || is_policed(&answer.ingress)
}

/// Every end worth asking about, by kind.
struct Ends {
    pods: Vec<End>,
    nodes: Vec<End>,
    others: Vec<End>,
}

impl Ends {
    fn of(objects: &WireObjects) -> Self {
        let oracle = Oracle::new(objects);
        let mut ends = Self { pods: Vec::new(), nodes: Vec::new(), others: Vec::new() };
        for pod in &objects.pods {
            let (namespace, name) = (pod.metadata.namespace.clone(), pod.metadata.name.clone());
            let is_host = pod.spec.as_ref().is_some_and(|spec| spec.host_network == Some(true));
            for entry in pod.status.iter().flat_map(|status| status.pod_ips.iter().flatten()) {
                let Ok(address) = entry.ip.parse() else { continue };
                if is_host {
                    let end = End::Pod {
                        namespace: namespace.clone().unwrap_or_default(),
                        name: name.clone().unwrap_or_default(),
                        address,
                    };
                    ends.nodes.push(end);
                } else {
                    // A pod that is done sends nothing: ask about whoever has its address.
                    ends.add(oracle.end_of_address(address));
                }
            }
        }
        for entry in
            objects.nodes.iter().filter_map(|node| node.status.as_ref()?.addresses.as_ref()).flatten()
        {
            if let Ok(address) = entry.address.parse() {
                ends.add(oracle.end_of_address(address));
            }
        }
        let outside = [
            IpAddr::from(Ipv4Addr::new(203, 0, 113, 77)),
            Ipv4Addr::new(10, 244, 1, 250).into(),
            Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0x77).into(),
            Ipv6Addr::new(0xfd00, 0x244, 1, 0, 0, 0, 0, 0xfa).into(),
        ];
        let edges = blocks(objects)
            .into_iter()
            .flat_map(|cidr| edges(&cidr))
            .filter(|address| can_be_on_the_wire(*address));
        for address in edges.chain(outside) {
            ends.add(oracle.end_of_address(address));
        }
        ends
    }

    fn add(&mut self, end: End) {
        match end {
            End::Pod { .. } => self.pods.push(end),
            End::Node { .. } => self.nodes.push(end),
            End::External(_) => self.others.push(end),
        }
    }

    fn pick(&self, rng: &mut Rng) -> Option<End> {
        let list = match rng.u8(0..20) {
            0..13 => &self.pods,
            13..16 => &self.nodes,
            _ => &self.others,
        };
        rng.choice(list).cloned()
    }
}

/// Every block and exception that a rule names.
fn blocks(objects: &WireObjects) -> Vec<String> {
    let specs = objects.network_policies.iter().filter_map(|policy| policy.spec.as_ref());
    let peers = specs.flat_map(|spec| {
        let from = spec.ingress.iter().flatten().filter_map(|rule| rule.from.as_ref());
        let to = spec.egress.iter().flatten().filter_map(|rule| rule.to.as_ref());
        from.chain(to).flatten()
    });
    let blocks = peers.filter_map(|peer| peer.ip_block.as_ref());
    let blocks =
        blocks.flat_map(|IpBlock { cidr, except, .. }| except.iter().flatten().chain([cidr]).cloned());
    let rules = tier_rules(objects);
    let peers = rules.iter().flat_map(|rule| rule.peers);
    blocks.chain(peers.flat_map(|peer| peer.networks.iter().flatten().cloned())).collect()
}

/// The first and last address of a CIDR and their neighbours outside.
fn edges(cidr: &str) -> Vec<IpAddr> {
    let Some((address, length)) = cidr.split_once('/') else { return Vec::new() };
    let (Ok(address), Ok(length)) = (address.parse::<IpAddr>(), length.parse::<u32>()) else {
        return Vec::new();
    };
    match address {
        IpAddr::V4(address) => {
            let hosts = u32::MAX.checked_shr(length).unwrap_or(0);
            let (first, last) = (address.to_bits() & !hosts, address.to_bits() | hosts);
            let edges = [first.wrapping_sub(1), first, last, last.wrapping_add(1)];
            edges.map(|bits| Ipv4Addr::from_bits(bits).into()).to_vec()
        }
        IpAddr::V6(address) => {
            let hosts = u128::MAX.checked_shr(length).unwrap_or(0);
            let (first, last) = (address.to_bits() & !hosts, address.to_bits() | hosts);
            let edges = [first.wrapping_sub(1), first, last, last.wrapping_add(1)];
            edges.map(|bits| Ipv6Addr::from_bits(bits).into()).to_vec()
        }
    }
}

/// Unicast addresses of hosts that may meet across a network.
fn can_be_on_the_wire(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => {
            let first = address.octets()[0];
            first != 0 && first < 224 && !address.is_loopback() && !address.is_link_local()
        }
        IpAddr::V6(address) => {
            let first = address.segments()[0];
            // Global unicast (2000::/3) and unique local (fc00::/7).
            first >> 13 == 1 || first >> 9 == 0x7e
        }
    }
}

/// Every number that a rule or a container names.
fn numbers(objects: &WireObjects) -> Vec<u16> {
    let specs = objects.network_policies.iter().filter_map(|policy| policy.spec.as_ref());
    let ports = specs.flat_map(|spec| {
        let ingress = spec.ingress.iter().flatten().filter_map(|rule| rule.ports.as_ref());
        let egress = spec.egress.iter().flatten().filter_map(|rule| rule.ports.as_ref());
        ingress.chain(egress).flatten()
    });
    let named_by_rules = ports.flat_map(|Port { port, end_port, .. }| {
        let first = match port {
            Some(IntOrString::Int(number)) => Some(*number),
            _ => None,
        };
        first.into_iter().chain(*end_port)
    });
    let containers = objects.pods.iter().filter_map(|pod| pod.spec.as_ref()?.containers.as_ref()).flatten();
    let declared = containers.flat_map(|container| container.ports.iter().flatten());
    let declared = declared.map(|port| port.container_port);
    let mut numbers: Vec<u16> =
        named_by_rules.chain(declared).filter_map(|number| u16::try_from(number).ok()).collect();
    let of_tiers = tier_rules(objects).into_iter().flat_map(|rule| rule.numbers);
    numbers.extend(of_tiers.filter_map(|number| u16::try_from(number).ok()));
    numbers.extend(PORT_NUMBERS);
    numbers
}

/// One of them or a neighbour.
fn number(rng: &mut Rng, numbers: &[u16]) -> u16 {
    let number = pick(rng, numbers);
    match rng.u8(0..10) {
        0 => number.saturating_sub(1),
        1 => number.saturating_add(1),
        2 => rng.u16(..),
        _ => number,
    }
}
