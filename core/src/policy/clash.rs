//! Services that claim one address and port: which of them a proxy leads to is chance.
//!
//! The API refuses one cluster IP or node port for two Services, but asks nothing of `externalIPs` and of what balancers
//! report; in manifests each may be there twice. Proxies take one of the Services, by the order of their maps or of what
//! they heard first. Invariant: the answer does not depend on the order of names; it stands where each Service alone would
//! give it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::backends::{Backend, backends};
use super::change::Verdict;
use super::frontends::Key;
use super::query::{End, Pair, Query, Service as Asked, owner};
use crate::model::cluster::{Cluster, ObjectKey};
use crate::model::port::Protocol;
use crate::model::service::{AddressType, Service, ServicePort};
use crate::service::not_proxied;

/// The Services of which one is asked by chance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clash {
    /// Whose it is, in words.
    pub words: String,
    /// True when it does not matter which is asked.
    pub settled: bool,
}

/// The ports of Services that proxies find at this address and port, in the order of names.
#[must_use]
pub fn claimants(cluster: &Cluster, (address, port, protocol): Key) -> Vec<(&ObjectKey, &ServicePort)> {
    let is_node = matches!(owner(cluster, address), End::Node(_));
    let is_served = |service: &Service| {
        let has_family = |ip: &IpAddr| AddressType::of(*ip) == AddressType::of(address);
        not_proxied(service).is_none() && service.cluster_ips.iter().any(has_family)
    };
    let services = cluster.services.iter().filter(|(_, service)| is_served(service));
    let claimed =
        services.map(|(key, service)| Some((key, service.port_at((address, is_node), port, protocol)?)));
    claimed.flatten().collect()
}

/// What the others lead to that claim one of these addresses of a Service, with the families in which they do.
#[must_use]
pub fn rivals<'c>(
    cluster: &'c Cluster,
    key: &ObjectKey,
    addresses: &[IpAddr],
    (port, protocol): (u16, Protocol),
) -> Vec<(&'c ObjectKey, Vec<Backend>)> {
    let mut found: BTreeMap<&ObjectKey, Vec<Backend>> = BTreeMap::new();
    for address in addresses {
        for (rival, port) in claimants(cluster, (*address, port, protocol)) {
            if rival != key {
                let mut behind = backends(cluster, rival, port);
                behind.retain(|backend| backend.address.is_ipv4() == address.is_ipv4());
                found.entry(rival).or_default().extend(behind);
            }
        }
    }
    found.into_iter().collect()
}

/// Who sends to what.
type Way<'p> = (&'p End, IpAddr, Key);

/// For each packet of a question whether several Services claim what it is sent to. The verdicts are those of the packets.
#[must_use]
pub fn clashes(cluster: &Cluster, query: &Query, pairs: &[Pair], verdicts: &[Verdict]) -> Vec<Option<Clash>> {
    let mut by_way: BTreeMap<Way<'_>, Vec<(&Pair, Verdict)>> = BTreeMap::new();
    let asked: Vec<_> = pairs
        .iter()
        .map(|pair| sent_to(query, pair).map(|key| (&pair.from, pair.tuple.source, key)))
        .collect();
    for ((way, pair), verdict) in asked.iter().zip(pairs).zip(verdicts) {
        if let Some(way) = way {
            by_way.entry(*way).or_default().push((pair, *verdict));
        }
    }
    let clashes: BTreeMap<_, Clash> = by_way
        .into_iter()
        .filter_map(|(way, answers)| Some((way, clash(cluster, way.2, &answers)?)))
        .collect();
    asked.iter().map(|way| clashes.get(way.as_ref()?).cloned()).collect()
}

/// The address and port that a client of a Service sends to.
fn sent_to(query: &Query, pair: &Pair) -> Option<Key> {
    let protocol = Protocol::ALL.into_iter().find(|one| one.number() == pair.tuple.protocol)?;
    if let Some(via) = &pair.via {
        return Some((via.address, via.port, protocol));
    }
    let Asked::Backends { addresses, port, .. } = &query.service else { return None };
    let address = addresses.iter().find(|one| one.is_ipv4() == pair.tuple.destination.is_ipv4())?;
    Some((*address, *port, protocol))
}

fn clash(cluster: &Cluster, key: Key, answers: &[(&Pair, Verdict)]) -> Option<Clash> {
    let claimants = claimants(cluster, key);
    if claimants.len() < 2 {
        return None;
    }
    // By Service, what would become of its clients; of nobody's where it has no endpoint.
    let alone: BTreeSet<BTreeSet<Verdict>> = claimants
        .iter()
        .map(|(key, port)| {
            let behind = backends(cluster, key, port);
            let is_behind = |pair: &Pair| {
                let to = (pair.tuple.destination, pair.tuple.destination_port);
                behind.iter().any(|backend| (backend.address, backend.port) == to)
            };
            let of_it = answers.iter().filter(|(pair, _)| is_behind(pair)).map(|(_, verdict)| *verdict);
            let verdicts: BTreeSet<Verdict> = of_it.collect();
            // A connection that is refused is not let in either.
            if verdicts.is_empty() { BTreeSet::from([Verdict::Deny]) } else { verdicts }
        })
        .collect();
    let names: Vec<&ObjectKey> = claimants.iter().map(|(key, _)| *key).collect();
    Some(Clash { words: words(&names, key), settled: alone.len() == 1 })
}

/// `svc/a/x and svc/a/y both claim 192.0.2.1:80/tcp`.
#[must_use]
pub fn words(services: &[&ObjectKey], (address, port, protocol): Key) -> String {
    let names: Vec<String> = services.iter().map(|key| format!("svc/{key}")).collect();
    let (who, claim) = match names.as_slice() {
        [one, other] => (format!("{one} and {other}"), "both claim"),
        _ => (names.join(", "), "all claim"),
    };
    let address = match address {
        IpAddr::V4(_) => address.to_string(),
        IpAddr::V6(_) => format!("[{address}]"),
    };
    format!("{who} {claim} {address}:{port}/{}: to which of them a proxy leads is chance", protocol.lower())
}
