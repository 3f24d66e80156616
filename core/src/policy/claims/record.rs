//! A draft of claims from the present state: which packets are worth a line.
//!
//! For each pair that may or may not talk, the ports on both sides of every edge at which the answer changes, and
//! the ports that the destination's containers declare. Invariant: the points depend on the input alone and come
//! sorted; what is found for each is for others to say.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

use crate::endpoint_ref::{EndpointRef, EndpointType, PortName, PortRef, ResolvedEnd};
use crate::model::cluster::{Cluster, ObjectKey, Pod};
use crate::model::port::Protocol;
use crate::model::service::Service;
use crate::policy::change::Verdict;
use crate::policy::classes::ClassIndex;
use crate::policy::connections::{Allowed, Connections, Peer, PeerKind, workload_of};
use crate::policy::query;
use crate::policy::ruleset::Rulesets;

/// What is asked where neither policies nor containers name a port.
const ANY: (Protocol, u16) = (Protocol::Tcp, 80);

/// A packet that a claim could be about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Point {
    /// Who opens.
    pub from: EndpointRef,
    /// To whom.
    pub to: EndpointRef,
    /// Which port, with its protocol.
    pub port: PortRef,
    /// What the tables can tell of both ends, where that is all that decides: two points that have this and the port in
    /// common are answered alike.
    pub alike: Option<(u32, u32)>,
}

/// The text of a file of claims, line by line.
#[derive(Debug)]
pub struct Draft {
    text: String,
}

impl Default for Draft {
    fn default() -> Self {
        let head = "# What policies allow and deny, as `netlab policy test --record` found it. Keep the lines that are meant.\n\
                    apiVersion: netlab.dev/v1\n\
                    kind: Claims\n\
                    claims:\n";
        Self { text: head.to_owned() }
    }
}

impl Draft {
    /// Claims what was found.
    pub fn claim(&mut self, point: &Point, found: Verdict) {
        let _ = writeln!(
            self.text,
            "- {{from: {}, to: {}, port: {}, expect: {found}}}",
            quoted(&point.from),
            quoted(&point.to),
            point.port
        );
    }

    /// Says why nothing is claimed.
    pub fn remark(&mut self, point: &Point, why: &str) {
        let _ = writeln!(
            self.text,
            "# {} -> {} {}: {}",
            point.from,
            point.to,
            point.port,
            why.replace('\n', " ")
        );
    }

    /// The file.
    pub fn finish(self) -> String {
        self.text
    }
}

/// An IPv6 address would end a plain scalar early.
fn quoted(end: &EndpointRef) -> String {
    let text = end.to_string();
    if text.contains(':') { format!("\"{text}\"") } else { text }
}

/// The points of every pair that was looked at, one after the other; `rulesets` are the cluster's.
///
/// # Errors
/// Whatever `visit` gives.
pub fn points<E>(
    cluster: &Cluster,
    rulesets: &Rulesets,
    connections: &Connections,
    mut visit: impl FnMut(Point, &Alike<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let mut pods: BTreeMap<String, Vec<(&ObjectKey, &Pod)>> = BTreeMap::new();
    for (key, pod) in cluster.pods.iter().filter(|(_, pod)| !pod.terminal) {
        pods.entry(workload_of(key, pod)).or_default().push((key, pod));
    }
    let mut alike = Alike::new(cluster, rulesets);
    let none = Vec::new();
    let ends: Vec<End> = connections
        .peers
        .iter()
        .map(|peer| End::new(cluster, peer, pods.get(&peer.id).unwrap_or(&none), &mut alike))
        .collect();
    let mut allowed: BTreeMap<(usize, usize), &Allowed> = BTreeMap::new();
    for connection in &connections.list {
        allowed.insert((connection.from(), connection.to()), connections.allowed(connection));
    }
    let nothing = Allowed::default();
    for (from, source) in ends.iter().enumerate() {
        for (to, destination) in ends.iter().enumerate() {
            if !connections.covers(from, to) {
                continue;
            }
            let ports = ports(allowed.get(&(from, to)).copied().unwrap_or(&nothing), &destination.ports);
            for ((source, from_kind), (destination, to_kind)) in
                source.names.iter().flat_map(|one| destination.names.iter().map(move |other| (one, other)))
            {
                for (protocol, port) in &ports {
                    let point = Point {
                        from: source.clone(),
                        to: destination.clone(),
                        port: PortRef { port: PortName::Number(*port), protocol: Some(*protocol) },
                        alike: from_kind.zip(*to_kind),
                    };
                    visit(point, &alike)?;
                }
            }
        }
    }
    Ok(())
}

/// Which ends the tables cannot tell apart: each set of what they know of an end's pods has a number.
#[derive(Debug)]
pub struct Alike<'a> {
    rulesets: &'a Rulesets,
    /// How many pods, nodes and Services have an address.
    uses: BTreeMap<IpAddr, usize>,
    numbers: BTreeMap<BTreeSet<Kind>, u32>,
    /// By number: one pod of each kind, or an address.
    ends: Vec<Vec<query::End>>,
}

/// What the tables know of a pod, or of an address outside: its ruleset, and the classes of its addresses.
type Kind = (Option<u32>, Vec<(bool, ClassIndex)>);

impl<'a> Alike<'a> {
    fn new(cluster: &Cluster, rulesets: &'a Rulesets) -> Self {
        let mut uses: BTreeMap<IpAddr, usize> = BTreeMap::new();
        for address in taken(cluster) {
            *uses.entry(*address).or_default() += 1;
        }
        Self { rulesets, uses, numbers: BTreeMap::new(), ends: Vec::new() }
    }

    /// One pod of each kind that an end of this number has.
    pub fn ends(&self, number: u32) -> &[query::End] {
        self.ends.get(number as usize).map_or(&[], Vec::as_slice)
    }

    /// The number of an end with these pods; `None` where more than tables decides: its node, an address that nobody knows or
    /// that several have.
    fn pods(&mut self, pods: &[(&ObjectKey, &Pod)]) -> Option<u32> {
        let kind = |(key, pod): &(&ObjectKey, &Pod)| {
            let own = pod.addresses.iter().all(|address| self.uses.get(address) == Some(&1));
            let plain = pod.is_policed() && !pod.synthetic_addresses && !pod.addresses.is_empty() && own;
            let ruleset = plain.then(|| self.rulesets.pods.get(*key))?.map(|pod| pod.ruleset)?;
            let classes = pod.addresses.iter().map(|address| self.class(*address)).collect();
            Some(((Some(ruleset), classes), query::End::Pod((*key).clone())))
        };
        let kinds = pods.iter().map(kind).collect::<Option<BTreeMap<Kind, query::End>>>()?;
        self.number(kinds)
    }

    /// The same of an address outside.
    fn address(&mut self, address: IpAddr) -> Option<u32> {
        let kind = (None, vec![self.class(address)]);
        let kinds = BTreeMap::from([(kind, query::End::Address(address))]);
        (!self.uses.contains_key(&address)).then(|| self.number(kinds))?
    }

    fn class(&self, address: IpAddr) -> (bool, ClassIndex) {
        (address.is_ipv4(), self.rulesets.classes.of_address(address))
    }

    fn number(&mut self, kinds: BTreeMap<Kind, query::End>) -> Option<u32> {
        let next = u32::try_from(self.ends.len()).ok()?;
        let set: BTreeSet<Kind> = kinds.keys().cloned().collect();
        if set.is_empty() {
            return None;
        }
        Some(*self.numbers.entry(set).or_insert_with(|| {
            self.ends.push(kinds.into_values().collect());
            next
        }))
    }
}

/// The same question pod by pod, for ends whose pods are answered differently.
pub fn apart(cluster: &Cluster, point: &Point) -> Vec<Point> {
    let pods = |end: &EndpointRef| -> Vec<EndpointRef> {
        let found = end.resolve(cluster, "default").unwrap_or_default();
        let one = |end: ResolvedEnd| match end {
            ResolvedEnd::Pod(key) => {
                cluster.pods.get(&key).is_none_or(|pod| !pod.terminal).then(|| pod_ref(&key))
            }
            _ => None,
        };
        let pods: Vec<_> = found.into_iter().filter_map(one).collect();
        if pods.is_empty() { vec![end.clone()] } else { pods }
    };
    let destinations = pods(&point.to);
    pods(&point.from)
        .into_iter()
        .flat_map(|from| {
            destinations.iter().map(move |to| Point {
                from: from.clone(),
                to: to.clone(),
                port: point.port.clone(),
                alike: None,
            })
        })
        .filter(|apart| apart.from != apart.to)
        .collect()
}

fn pod_ref(key: &ObjectKey) -> EndpointRef {
    EndpointRef::Named {
        kind: Some(EndpointType::Pod),
        namespace: Some(key.namespace.clone()),
        name: key.name.clone(),
    }
}

/// A peer as claims name it, and the ports that its containers declare.
struct End {
    /// One name for all, or each pod's; with the number of what tables know of those that it means.
    names: Vec<(EndpointRef, Option<u32>)>,
    ports: BTreeSet<(Protocol, u16)>,
}

impl End {
    fn new(cluster: &Cluster, peer: &Peer, pods: &[(&ObjectKey, &Pod)], alike: &mut Alike<'_>) -> Self {
        if peer.kind == PeerKind::IpBlock {
            let names = address(cluster, &peer.cidrs)
                .map(|address| (EndpointRef::Address(address), alike.address(address)));
            return Self { names: names.into_iter().collect(), ports: BTreeSet::new() };
        }
        let mine: Vec<ResolvedEnd> = pods.iter().map(|(key, _)| ResolvedEnd::Pod((*key).clone())).collect();
        let named = |kind, name: &str| EndpointRef::Named {
            kind,
            namespace: peer.namespace.clone(),
            name: name.to_owned(),
        };
        let kind = peer.workload_kind.as_deref().and_then(EndpointType::from_kind);
        // The name that stays the same from one rollout to the next, if it means these pods and no other.
        let candidates = [
            named(None, peer.owner.as_deref().unwrap_or(&peer.name)),
            named(None, &peer.name),
            named(kind, &peer.name),
        ];
        let name = candidates
            .into_iter()
            .find(|name| name.resolve(cluster, "default").is_ok_and(|found| found == mine));
        let names = match name {
            Some(name) => vec![(name, alike.pods(pods))],
            None => pods.iter().map(|one| (pod_ref(one.0), alike.pods(&[*one]))).collect(),
        };
        let declared = pods.iter().flat_map(|(_, pod)| &pod.ports).filter(|port| port.number != 0);
        Self { names, ports: declared.map(|port| (port.protocol, port.number)).collect() }
    }
}

/// Addresses that documents use as examples (RFC 5737, RFC 3849): nobody's, wherever a claim is tried.
const EXAMPLES: [IpAddr; 4] = [
    IpAddr::V4(Ipv4Addr::new(203, 0, 113, 2)),
    IpAddr::V4(Ipv4Addr::new(198, 51, 100, 2)),
    IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2)),
    IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2)),
];

/// Where the addresses end that no host can have, counted from the first.
const FIRST_OF_HOSTS: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(1, 0, 0, 0)), IpAddr::V6(Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0))];

/// An address of a block that nobody in the cluster has and that a host can have.
fn address(cluster: &Cluster, cidrs: &[IpNet]) -> Option<IpAddr> {
    let taken: BTreeSet<IpAddr> = taken(cluster).copied().collect();
    let usable = |address: &IpAddr| !taken.contains(address) && is_of_host(*address);
    let inside = |address: &IpAddr| cidrs.iter().any(|cidr| cidr.contains(address));
    let example = EXAMPLES.into_iter().find(|address| inside(address) && usable(address));
    example.or_else(|| {
        cidrs.iter().find_map(|cidr| {
            let from = FIRST_OF_HOSTS.into_iter().find(|first| cidr.contains(first));
            let net =
                from.and_then(|first| IpNet::new(first, cidr.prefix_len().max(8)).ok()).unwrap_or(*cidr);
            match net {
                IpNet::V4(net) if net.prefix_len() >= 31 => net.hosts().map(IpAddr::V4).find(usable),
                IpNet::V6(net) if net.prefix_len() >= 127 => net.hosts().map(IpAddr::V6).find(usable),
                // The network's own address is a poor example where there are others.
                net => net.hosts().skip(1).take(taken.len() + 2).find(usable),
            }
        })
    })
}

/// The addresses of pods, nodes and Services.
fn taken(cluster: &Cluster) -> impl Iterator<Item = &IpAddr> {
    let pods = cluster.pods.values().flat_map(|pod| &pod.addresses);
    let nodes = cluster.nodes.values().flat_map(|node| &node.addresses);
    pods.chain(nodes).chain(cluster.services.values().flat_map(Service::addresses))
}

/// False of addresses that no interface can have, or that never leave a machine or a link.
fn is_of_host(address: IpAddr) -> bool {
    match address {
        _ if address.is_unspecified() || address.is_loopback() || address.is_multicast() => false,
        IpAddr::V4(v4) => v4.octets()[0] != 0 && !v4.is_broadcast() && !v4.is_link_local(),
        IpAddr::V6(v6) => {
            !v6.is_unicast_link_local() && v6.to_ipv4_mapped().is_none() && v6.segments()[..6] != [0; 6]
        }
    }
}

/// Ports beside each edge, and the declared ones.
fn ports(allowed: &Allowed, declared: &BTreeSet<(Protocol, u16)>) -> BTreeSet<(Protocol, u16)> {
    let mut ports = declared.clone();
    for protocol in Protocol::ALL {
        for range in allowed.of(protocol) {
            if range.start > 1 {
                ports.extend([(protocol, range.start - 1), (protocol, range.start)]);
            }
            if let Some(after) = range.end.checked_add(1) {
                ports.extend([(protocol, range.end), (protocol, after)]);
            }
        }
    }
    if ports.is_empty() {
        ports.insert(ANY);
    }
    ports
}
