//! The list of connections against the oracle: at every port edge and CIDR edge, one to each side of it.
//!
//! Pods of random worlds are put under common owners first, so that unions are tested too.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use fastrand::Rng;
use ipnet::IpNet;
use netlab_core::input::wire::meta::OwnerReference;
use netlab_core::input::{Budget, Document, Loaded, WireObjects, load};
use netlab_core::model::cluster::{Cluster, ObjectKey};
use netlab_core::model::policy::{PeerMatch, Rule};
use netlab_core::model::port::{PortMatch, Protocol};
use netlab_core::policy::connections::{
    Allowed, Connections, Focus, HostNetwork, PeerKind, as_if_running, connections,
};
use netlab_core::policy::oracle::{End, IpProtocol, Oracle, Question, Verdict};
use netlab_core::policy::{Limits, Numbers, Scope, compile_with};
use netlab_core::testing::generate::world;
use netlab_core::testing::manifest;

const WORLDS: usize = 50;
/// Points asked for each pair of ends.
const POINTS: usize = 8;

fn adopt(objects: &mut WireObjects, rng: &mut Rng) {
    for pod in &mut objects.pods {
        if rng.u8(0..10) < 6 {
            let owner = OwnerReference {
                kind: "ReplicaSet".to_owned(),
                name: format!("set-{}", rng.u8(0..3)),
                controller: Some(true),
                ..OwnerReference::default()
            };
            pod.metadata.owner_references = Some(vec![owner]);
        }
    }
}

/// Both sides, ready to be asked.
struct Lists<'a> {
    oracle: Oracle<'a>,
    found: Connections,
    allowed: BTreeMap<(usize, usize), Allowed>,
    /// The oracle's ends of each workload; `None` where a pod's state is not what the list takes it for.
    ends: Vec<Option<Vec<End>>>,
}

impl<'a> Lists<'a> {
    fn of(loaded: &'a Loaded) -> Self {
        let cluster = as_if_running(&loaded.cluster, &loaded.policies, HostNetwork::AsNodes);
        let limits = Limits::layout_only();
        let compiled =
            compile_with(&cluster, &loaded.policies, &Scope::Cluster, &Numbers::default(), &limits);
        assert!(compiled.diagnostics.is_empty());
        let found = connections(&cluster, &compiled.rulesets, &Focus::default());
        let allowed =
            found.list.iter().map(|one| ((one.from(), one.to()), found.allowed(one).clone())).collect();
        let ends = found
            .workloads()
            .iter()
            .map(|peer| {
                let pods = cluster.pods.iter().filter(|(key, pod)| {
                    let owner = pod.controller.as_ref();
                    Some(&key.namespace) == peer.namespace.as_ref()
                        && owner.map_or("Pod", |owner| &owner.kind)
                            == peer.workload_kind.as_deref().unwrap_or_default()
                        && owner.map_or(&key.name, |owner| &owner.name) == &peer.name
                });
                let ends: Vec<Option<Vec<End>>> =
                    pods.map(|(key, _)| ends(&cluster, &loaded.cluster, key)).collect();
                assert!(!ends.is_empty(), "{} has no pods", peer.id);
                ends.into_iter().collect::<Option<Vec<_>>>().map(|ends| ends.concat())
            })
            .collect();
        Self { oracle: Oracle::new(&loaded.wire), found, allowed, ends }
    }

    /// What the oracle says of any two of these ends.
    fn any(&self, from: &[End], to: &[End], protocol: Protocol, port: u16) -> bool {
        from.iter().any(|source| {
            to.iter().filter(|end| end.address().is_ipv4() == source.address().is_ipv4()).any(|destination| {
                let question = Question {
                    source: source.clone(),
                    destination: destination.clone(),
                    protocol: match protocol {
                        Protocol::Tcp => IpProtocol::Tcp,
                        Protocol::Udp => IpProtocol::Udp,
                        Protocol::Sctp => IpProtocol::Sctp,
                    },
                    port,
                };
                self.oracle.judge(&question).verdict == Verdict::Allow
            })
        })
    }

    fn listed(&self, from: usize, to: usize, protocol: Protocol, port: u16) -> bool {
        self.allowed.get(&(from, to)).is_some_and(|allowed| allowed.contains(protocol, port))
    }
}

/// A pod as the oracle sees it, once per address.
fn ends(running: &Cluster, as_read: &Cluster, key: &ObjectKey) -> Option<Vec<End>> {
    let (pod, read) = (&running.pods[key], &as_read.pods[key]);
    if pod.synthetic_addresses || read.terminal {
        return None;
    }
    let addresses = match pod.node.as_ref().and_then(|name| running.nodes.get(name)) {
        Some(node) if pod.host_network => [true, false]
            .into_iter()
            .filter_map(|ipv4| node.addresses.iter().find(|address| address.is_ipv4() == ipv4).copied())
            .collect(),
        _ => pod.addresses.clone(),
    };
    let end = |address| End::Pod { namespace: key.namespace.clone(), name: key.name.clone(), address };
    Some(addresses.into_iter().map(end).collect())
}

fn rules(loaded: &Loaded) -> impl Iterator<Item = &Rule> {
    loaded.policies.list.iter().flat_map(|policy| policy.ingress.iter().chain(&policy.egress).flatten())
}

/// Every number that a rule or a container names, and its neighbours.
fn ports(loaded: &Loaded) -> Vec<u16> {
    let in_rules =
        rules(loaded).flat_map(|rule| rule.ports.iter().flatten()).flat_map(|port| match port.matches {
            PortMatch::Range { range, .. } => vec![range.start, range.end],
            PortMatch::Named { .. } => Vec::new(),
        });
    let declared = loaded.cluster.pods.values().flat_map(|pod| &pod.ports).map(|port| port.number);
    let edges = in_rules.chain(declared).chain([1, 65535]);
    let around: BTreeSet<u16> =
        edges.flat_map(|port| [port.saturating_sub(1).max(1), port.max(1), port.saturating_add(1)]).collect();
    around.into_iter().collect()
}

/// The first and last address of every block and exception, their neighbours, and some others.
fn outside(loaded: &Loaded, oracle: &Oracle<'_>) -> Vec<IpAddr> {
    let mut all = BTreeSet::from([
        IpAddr::from(Ipv4Addr::new(203, 0, 113, 77)),
        Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0x77).into(),
        Ipv4Addr::BROADCAST.into(),
    ]);
    for peer in rules(loaded).flat_map(|rule| rule.peers.iter().flatten()) {
        let PeerMatch::Block(block) = &peer.matches else { continue };
        for cidr in block.except.iter().chain([&block.cidr]) {
            all.extend::<[IpAddr; 4]>(match cidr {
                IpNet::V4(cidr) => {
                    let (first, last) = (cidr.network().to_bits(), cidr.broadcast().to_bits());
                    [first.wrapping_sub(1), first, last, last.wrapping_add(1)]
                        .map(|bits| Ipv4Addr::from_bits(bits).into())
                }
                IpNet::V6(cidr) => {
                    let (first, last) = (cidr.network().to_bits(), cidr.broadcast().to_bits());
                    [first.wrapping_sub(1), first, last, last.wrapping_add(1)]
                        .map(|bits| Ipv6Addr::from_bits(bits).into())
                }
            });
        }
    }
    all.into_iter().filter(|address| oracle.end_of_address(*address) == End::External(*address)).collect()
}

#[test]
fn lists_agree_with_the_oracle_at_every_edge() {
    let (mut between, mut across, mut allowed) = (0_usize, 0_usize, 0_usize);
    for seed in [1, 2] {
        let mut rng = Rng::with_seed(seed);
        for index in 0..WORLDS {
            let mut objects = world(&mut rng);
            adopt(&mut objects, &mut rng);
            let text = manifest::write(&objects);
            let document = Document { name: "world.yaml".into(), text: text.clone().into() };
            let loaded = load([document], &Budget::default());
            assert!(loaded.is_complete(), "{:#?}", loaded.diagnostics);
            let lists = Lists::of(&loaded);
            let ports = ports(&loaded);
            let mut points = || -> Vec<(Protocol, u16)> {
                let one = |rng: &mut Rng| (Protocol::ALL[rng.usize(0..3)], ports[rng.usize(0..ports.len())]);
                (0..POINTS).map(|_| one(&mut rng)).collect()
            };
            let known = |position: usize| lists.ends[position].as_ref();
            let count = lists.ends.len();
            for (from, to) in (0..count).flat_map(|from| (0..count).map(move |to| (from, to))) {
                assert!(from != to || !lists.allowed.contains_key(&(from, to)), "a self pair");
                let (Some(sources), Some(destinations)) = (known(from), known(to)) else { continue };
                if from == to {
                    continue;
                }
                for (protocol, port) in points() {
                    let listed = lists.listed(from, to, protocol, port);
                    let right = lists.any(sources, destinations, protocol, port);
                    let (from, to) = (&lists.found.peers[from].id, &lists.found.peers[to].id);
                    assert_eq!(
                        listed, right,
                        "seed {seed}, world {index}: {from} -> {to} {protocol} {port}\n{text}"
                    );
                    between += 1;
                    allowed += usize::from(listed);
                }
            }
            for address in outside(&loaded, &lists.oracle) {
                let around: Vec<usize> = (count..lists.found.peers.len())
                    .filter(|position| {
                        lists.found.peers[*position].cidrs.iter().any(|cidr| cidr.contains(&address))
                    })
                    .collect();
                assert!(around.len() <= 1, "{address} is in {} blocks", around.len());
                let block = around.first().copied().unwrap_or(usize::MAX);
                let external = [End::External(address)];
                for workload in 0..count {
                    let Some(ends) = known(workload) else { continue };
                    for (protocol, port) in points() {
                        for (listed, right) in [
                            (
                                lists.listed(workload, block, protocol, port),
                                lists.any(ends, &external, protocol, port),
                            ),
                            (
                                lists.listed(block, workload, protocol, port),
                                lists.any(&external, ends, protocol, port),
                            ),
                        ] {
                            let workload = &lists.found.peers[workload].id;
                            assert_eq!(
                                listed, right,
                                "seed {seed}, world {index}: {workload} and {address} {protocol} {port}\n{text}"
                            );
                            across += 1;
                        }
                    }
                }
            }
            let blocks = &lists.found.peers[count..];
            assert!(blocks.iter().all(|peer| peer.kind == PeerKind::IpBlock && !peer.cidrs.is_empty()));
        }
    }
    assert!(between > 8_000 && across > 20_000, "only {between} and {across} points");
    assert!(allowed > between / 10 && allowed < between * 9 / 10, "{allowed} of {between} are allowed");
}
