//! Services in random worlds: what a pod may open to a Service is what it may open to the endpoint that it gets.
//!
//! The oracle is asked about the endpoint, which it sees as the API has it; the engine judges the packet as the pod
//! sends it, to the Service's address, and what it defers where the endpoint is known.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use fastrand::Rng;
use netlab_core::input::{Budget, Document, Loaded, load};
use netlab_core::model::cluster::ObjectKey;
use netlab_core::model::port::Protocol;
use netlab_core::model::service::{
    AddressType, Endpoint, EndpointPort, EndpointSlice, Service, ServicePort, TargetPort,
};
use netlab_core::policy::change::Verdict;
use netlab_core::policy::oracle::{self, IpProtocol, Oracle, Question};
use netlab_core::policy::query::{self, End, Pair, Query, pairs};
use netlab_core::policy::trial::{Egress, Trial};
use netlab_core::policy::{Scope, compile};
use netlab_core::testing::generate::world;
use netlab_core::testing::manifest;
use netlab_ebpf::reason::Reason;

/// Worlds per seed unless `NETLAB_WORLDS` says otherwise.
const WORLDS: usize = 60;
/// Services per world.
const SERVICES: u8 = 5;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

#[test]
fn a_service_is_judged_as_the_oracle_judges_its_endpoints() {
    let seeds = number("NETLAB_SEED").map_or_else(|| vec![1, fastrand::u64(1000..)], |seed| vec![seed]);
    let worlds = number("NETLAB_WORLDS").and_then(|worlds| usize::try_from(worlds).ok()).unwrap_or(WORLDS);
    let mut seen: BTreeMap<&'static str, u64> = BTreeMap::new();
    for seed in seeds {
        let mut rng = Rng::with_seed(seed);
        for index in 0..worlds {
            let objects = world(&mut rng);
            let document = Document { name: "world.yaml".into(), text: manifest::write(&objects).into() };
            let mut loaded = load([document], &Budget::default());
            let addresses = services(&mut loaded, &mut rng);
            agree(&loaded, &addresses, &mut rng, &format!("seed {seed}, world {index}"), &mut seen);
        }
    }
    for kind in ["allow", "deny", "deferred allow", "deferred deny", "mixed", "several agree"] {
        assert!(
            seen.contains_key(kind) || number("NETLAB_WORLDS").is_some(),
            "no Service was {kind}: {seen:?}"
        );
    }
}

/// Gives the world Services with random endpoints: pods, nodes, strangers. Their addresses, ports and protocols.
fn services(loaded: &mut Loaded, rng: &mut Rng) -> Vec<(IpAddr, u16, Protocol)> {
    let cluster = &mut loaded.cluster;
    let pods: Vec<IpAddr> = cluster.pods.values().flat_map(|pod| pod.addresses.clone()).collect();
    let nodes: Vec<IpAddr> = cluster.nodes.values().flat_map(|node| node.addresses.clone()).collect();
    let names: Vec<String> = cluster.nodes.keys().cloned().collect();
    let mut asked = Vec::new();
    for index in 0..SERVICES {
        let ipv4 = rng.bool();
        let cluster_ip: IpAddr = if ipv4 {
            Ipv4Addr::new(198, 18, 0, index).into()
        } else {
            Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, index.into()).into()
        };
        let protocol = Protocol::ALL[rng.usize(..Protocol::ALL.len())];
        let outside: IpAddr = if ipv4 {
            Ipv4Addr::new(10, rng.u8(..3), 0, rng.u8(..)).into()
        } else {
            Ipv6Addr::LOCALHOST.into()
        };
        let mut choices: Vec<IpAddr> = pods.clone();
        choices.extend(if rng.u8(..4) == 0 { nodes.clone() } else { Vec::new() });
        choices.push(outside);
        choices.retain(|address| address.is_ipv4() == ipv4 && !address.is_loopback());
        if choices.is_empty() {
            continue;
        }
        let endpoint = |rng: &mut Rng| Endpoint {
            addresses: vec![choices[rng.usize(..choices.len())]],
            ready: rng.u8(..8) > 0,
            serving: true,
            node: (!names.is_empty() && rng.bool()).then(|| names[rng.usize(..names.len())].clone()),
            ..Endpoint::default()
        };
        let endpoints = (0..rng.usize(1..6)).map(|_| endpoint(rng)).collect();
        let ports = (0..rng.usize(1..3))
            .map(|_| EndpointPort {
                name: None,
                protocol,
                port: Some([53, 80, 443, 8080, 8081][rng.usize(..5)]),
            })
            .collect();
        let name = format!("service-{index}");
        let slice = EndpointSlice {
            service: Some(name.clone()),
            address_type: AddressType::of(cluster_ip),
            ports,
            endpoints,
            ..EndpointSlice::default()
        };
        let port =
            ServicePort { name: None, protocol, port: 7, target: TargetPort::Number(7), node_port: None };
        let service = Service {
            cluster_ips: vec![cluster_ip],
            internal_local: rng.u8(..5) == 0,
            ports: vec![port],
            ..Service::default()
        };
        cluster.endpoint_slices.insert(ObjectKey::new("services", &name), slice);
        cluster.services.insert(ObjectKey::new("services", &name), service);
        asked.push((cluster_ip, 7, protocol));
    }
    asked
}

fn agree(
    loaded: &Loaded,
    addresses: &[(IpAddr, u16, Protocol)],
    rng: &mut Rng,
    place: &str,
    seen: &mut BTreeMap<&'static str, u64>,
) {
    let cluster = &loaded.cluster;
    let compiled = compile(cluster, &loaded.policies, &Scope::Cluster);
    let trial = Trial::new(&compiled.rulesets).expect("it fits");
    let oracle = Oracle::new(&loaded.wire);
    for (from, pod) in cluster.pods.iter().filter(|(_, pod)| pod.is_policed()) {
        if pod.addresses.is_empty() || rng.bool() {
            continue;
        }
        for (address, port, protocol) in addresses {
            let service = query::Service::Port { protocol: protocol.number(), port: *port };
            let query =
                Query { from: vec![End::Pod(from.clone())], to: vec![End::Address(*address)], service };
            let (pairs, _) = pairs(cluster, &query);
            let behind: Vec<&Pair> = pairs.iter().filter(|pair| pair.via.is_some()).collect();
            let wanted: Vec<(Verdict, &Pair)> =
                behind.iter().map(|pair| (egress(&oracle, from, pair), *pair)).collect();
            for (wanted, pair) in &wanted {
                let what = format!("{place}: {pair:?}\n{}", manifest::write(&loaded.wire));
                let Some(hop) = trial.hops(cluster, pair)[0] else { continue };
                let behind = trial.hops_seen(cluster, pair, Egress::AfterTranslation)[0].expect("a hook");
                assert_eq!(behind.verdict, *wanted, "behind the translation: {what}");
                if hop.reason == Reason::ServiceMixed {
                    assert_eq!(hop.verdict, Verdict::Deny, "{what}");
                    let node = cluster.nodes.get(&pair.via.as_ref().expect("translated").node);
                    let own = node.map(|node| node.addresses.clone()).unwrap_or_default();
                    let here = |pair: &&Pair| own.contains(&pair.tuple.destination);
                    assert!(pairs.iter().any(|pair| here(&pair)), "each has a hook behind it: {what}");
                    *seen.entry("mixed").or_default() += 1;
                    continue;
                }
                assert_eq!(hop.verdict, *wanted, "{hop:?} {what}");
                let kind = match (hop.deferred, hop.verdict) {
                    (false, Verdict::Allow) => "allow",
                    (false, Verdict::Deny) => "deny",
                    (true, Verdict::Allow) => "deferred allow",
                    (true, Verdict::Deny) => "deferred deny",
                };
                *seen.entry(kind).or_default() += 1;
                if !hop.deferred && wanted_alike(&pairs) && hop.reason == Reason::Row {
                    *seen.entry("several agree").or_default() += 1;
                }
            }
        }
    }
}

fn wanted_alike(pairs: &[Pair]) -> bool {
    pairs.len() > 1
}

/// What the oracle says of the endpoint.
fn egress(oracle: &Oracle<'_>, from: &ObjectKey, pair: &Pair) -> Verdict {
    let question = Question {
        source: oracle::End::Pod {
            namespace: from.namespace.clone(),
            name: from.name.clone(),
            address: pair.tuple.source,
        },
        destination: oracle.end_of_address(pair.tuple.destination),
        protocol: match pair.tuple.protocol {
            6 => IpProtocol::Tcp,
            17 => IpProtocol::Udp,
            _ => IpProtocol::Sctp,
        },
        port: pair.tuple.destination_port,
    };
    match oracle.judge_through_service(&question).egress.verdict {
        oracle::Verdict::Allow => Verdict::Allow,
        // Where the API leaves the order of two policies open, the tables deny.
        oracle::Verdict::Deny | oracle::Verdict::Undefined => Verdict::Deny,
    }
}
