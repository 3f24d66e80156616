//! Comparing the table of nftables mode with what a node's proxy should have.
//!
//! Invariant: by key, element for element; both layouts are compared by where they lead, not by their shape.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use ipnet::IpNet;

use super::dump::{Act, Dump, Rule, Verdict, key};
use super::emit::is_of;
use super::follow::{NODE_PORT_IPS, contains, end, in_chain, in_map, map_of, map_of_ends, takes_node_ports};
use super::{chain, foreign, masquerade, order, way_in};
use crate::service::RouteKind;
use crate::service::expected::{Action, ExpectedFrontend, ExpectedPort, FrontendKey};
use crate::service::fault::{Difference, Fault, Kind, Place};

/// Compares what one service port should have with what the table has.
#[must_use]
pub fn faults(dump: &Dump, port: &ExpectedPort) -> Vec<Fault> {
    let mut faults = Vec::new();
    for frontend in &port.frontends {
        of_frontend(dump, port, frontend, &mut faults);
    }
    of_source_ranges(dump, port, &mut faults);
    of_node_ports(dump, port, &mut faults);
    foreign::faults(&dump.foreign, port, &mut faults);
    way_in::of_outside(dump, port, &mut faults);
    way_in::of_inside(dump, port, &mut faults);
    masquerade::of_port(dump, port, &mut faults);
    order::faults(dump, port, &mut faults);
    for (name, endpoints) in
        [(chain::cluster(&port.name), &port.cluster), (chain::local(&port.name), &port.local)]
    {
        if !endpoints.is_empty() {
            of_chain(dump, port, &name, endpoints, &mut faults);
        }
    }
    for endpoint in port.on_node.iter().filter(|endpoint| is_of(endpoint.ip(), dump.family)) {
        let (ip, number) = (endpoint.ip(), endpoint.port());
        let element = format!("{ip} . {ip} . {} . {number}", port.name.protocol.lower());
        if !contains(dump, "hairpin-connections", &element) && dump.sets.contains_key("hairpin-connections") {
            faults.push(Fault {
                difference: Difference::Missing,
                kind: Kind::Masquerade,
                object: element.clone(),
                place: in_map("hairpin-connections", &element),
                endpoint: Some(endpoint.to_string()),
                detail: "the endpoint that asks its own Service gets no answer".to_owned(),
            });
        }
    }
    faults.sort();
    faults.dedup();
    faults
}

fn of_frontend(dump: &Dump, port: &ExpectedPort, frontend: &ExpectedFrontend, faults: &mut Vec<Fault>) {
    let name = &port.name;
    let to = frontend.key;
    let wanted = match (frontend.kind, frontend.action) {
        (RouteKind::ClusterIp, Action::Cluster) => Some(chain::cluster(name)),
        (RouteKind::ClusterIp, Action::Local) => Some(chain::local(name)),
        (RouteKind::ClusterIp, _) => None,
        _ => port.has_endpoints().then(|| chain::external(name)),
    };
    let (map, element) = (map_of(to), key(to.address, to.protocol, to.port));
    let found = dump.maps.get(map).and_then(|map| map.get(&element));
    let target = match found {
        Some(Verdict::Goto(target) | Verdict::Jump(target)) => Some(target),
        _ => None,
    };
    let mut fault = |difference, kind, object: String, place: Place, detail: String| {
        faults.push(Fault { difference, kind, object, place, endpoint: None, detail });
    };
    match (&wanted, target) {
        (Some(wanted), None) => {
            let detail = format!("no element of {map} sends {to} {} to {wanted}", to.protocol);
            fault(Difference::Missing, Kind::Frontend, element.clone(), in_map(map, &element), detail);
        }
        (Some(wanted), Some(target)) if wanted != target => {
            let detail = format!("{to} goes to {target}, which is not its chain {wanted}");
            fault(Difference::Wrong, Kind::FrontendTarget, target.clone(), in_map(map, &element), detail);
        }
        (None, Some(target)) => {
            let detail = format!("{to} still leads to endpoints, and the Service has none here");
            fault(Difference::Extra, Kind::Frontend, target.clone(), in_map(map, &element), detail);
        }
        _ => {}
    }
    let wanted = match frontend.action {
        Action::Refuse => Some(Verdict::Goto("reject-chain".to_owned())),
        Action::Drop => Some(Verdict::Drop),
        Action::Cluster | Action::Local => None,
    };
    let map = map_of_ends(to);
    match (&wanted, end(dump, to)) {
        (Some(_), None) => {
            let detail = format!("{to} has no endpoint here and no element of {map} says so");
            fault(Difference::Missing, Kind::End, element.clone(), in_map(map, &element), detail);
        }
        (Some(wanted), Some(found)) if wanted != found => {
            let detail = format!(
                "{to} should end otherwise: refused where nothing answers, dropped where nothing is here"
            );
            fault(Difference::Wrong, Kind::End, element.clone(), in_map(map, &element), detail);
        }
        (None, Some(_)) => {
            let detail = format!("{to} has endpoints; the element takes what is not translated");
            fault(Difference::Extra, Kind::End, element.clone(), in_map(map, &element), detail);
        }
        _ => {}
    }
    if let Some(ip) = to.address.filter(|_| frontend.kind == RouteKind::ClusterIp)
        && !contains(dump, "cluster-ips", &ip.to_string())
    {
        let place = in_map("cluster-ips", &ip.to_string());
        let detail = "what is not translated times out where it should be refused".to_owned();
        fault(Difference::Missing, Kind::End, ip.to_string(), place, detail);
    }
}

/// The node's addresses that take node ports. Which of several the proxy was told to take is in no dump: one that has
/// none of them takes no node port there.
fn of_node_ports(dump: &Dump, port: &ExpectedPort, faults: &mut Vec<Fault>) {
    let has_node_port = port.frontends.iter().any(|frontend| frontend.kind == RouteKind::NodePort);
    let asks = |rule: &Rule| rule.to_set.as_ref().is_some_and(|(_, set)| set == NODE_PORT_IPS);
    let mut rules = dump.chains.get("services").into_iter().flatten();
    if !has_node_port || !rules.any(asks) || takes_node_ports(dump, &port.addresses) {
        return;
    }
    let first = port.addresses.first().map(ToString::to_string);
    faults.push(Fault {
        difference: Difference::Missing,
        kind: Kind::Frontend,
        object: first.clone().unwrap_or_else(|| NODE_PORT_IPS.to_owned()),
        place: match &first {
            Some(address) => in_map(NODE_PORT_IPS, address),
            None => Place::within(super::TABLE, NODE_PORT_IPS),
        },
        endpoint: None,
        detail: match first {
            Some(_) => {
                "no address of the node is in the set, so its node ports are not translated".to_owned()
            }
            None => "the set is empty, so node ports are not translated at any address".to_owned(),
        },
    });
}

/// Who may come to a balancer's address: all others are dropped by one rule.
fn of_source_ranges(dump: &Dump, port: &ExpectedPort, faults: &mut Vec<Fault>) {
    const OPEN: &str = "everybody may come to the balancer's address";
    let mut balanced = port.frontends.iter().filter(|frontend| frontend.kind == RouteKind::LoadBalancer);
    let Some(frontend) = balanced.next().filter(|_| !port.source_ranges.is_empty() && port.has_endpoints())
    else {
        return;
    };
    let chain = chain::firewall(&port.name);
    let mut fault = |difference, object: String, place: Place, detail: &str| {
        let detail = detail.to_owned();
        faults.push(Fault { difference, kind: Kind::SourceRange, object, place, endpoint: None, detail });
    };
    let FrontendKey { address, port: number, protocol } = frontend.key;
    let element = key(address, protocol, number);
    let asked = dump.maps.get("firewall-ips").and_then(|map| map.get(&element));
    if asked != Some(&Verdict::Goto(chain.clone())) {
        fault(Difference::Missing, element.clone(), in_map("firewall-ips", &element), OPEN);
    }
    let rules = dump.chains.get(&chain).map_or(&[][..], Vec::as_slice);
    let drops = rules.iter().enumerate().find(|(_, rule)| rule.act == Act::Verdict(Verdict::Drop));
    let Some((index, rule)) = drops else {
        fault(Difference::Missing, "drop".to_owned(), Place::within(super::TABLE, &chain), OPEN);
        return;
    };
    let place = in_chain(&chain, index + 1, rule);
    let one = rule.source.iter().filter(|(not, _)| *not).map(|(_, net)| *net);
    let found: Vec<IpNet> = rule.not_from.iter().copied().chain(one).collect();
    // Of the node's own packets to a balancer's address: see `admits_balancers`.
    let balancers: Vec<IpNet> = port.balancers().map(IpNet::from).collect();
    let may_admit = |range: &IpNet| balancers.contains(range) && port.admits_balancers() != Some(false);
    for balancer in balancers.iter().filter(|balancer| {
        let is_there = found.iter().any(|range| range.contains(&balancer.addr()));
        port.admits_balancers() == Some(true) && !is_there
    }) {
        let detail = "the node's own packets to it may have this source, and are kept out";
        fault(Difference::Missing, balancer.to_string(), place.clone(), detail);
    }
    for range in port.source_ranges.iter().filter(|range| !found.contains(range)) {
        fault(Difference::Missing, range.to_string(), place.clone(), "clients of this range are kept out");
    }
    let is_extra = |range: &&IpNet| !port.source_ranges.contains(range) && !may_admit(range);
    for range in found.iter().filter(is_extra) {
        fault(Difference::Extra, range.to_string(), place.clone(), "clients of this range are let in");
    }
}

fn of_chain(dump: &Dump, port: &ExpectedPort, name: &str, endpoints: &[SocketAddr], faults: &mut Vec<Fault>) {
    let rules = dump.chains.get(name).map_or(&[][..], Vec::as_slice);
    let spread = rules.iter().enumerate().find_map(|(index, rule)| {
        let found = destinations(dump, &rule.act)?;
        Some((in_chain(name, index + 1, rule), found))
    });
    let Some((place, (divisor, found))) = spread else {
        for endpoint in endpoints {
            faults.push(Fault {
                difference: Difference::Missing,
                kind: Kind::Backend,
                object: endpoint.to_string(),
                place: Place::within(super::TABLE, name),
                endpoint: Some(endpoint.to_string()),
                detail: if rules.is_empty() {
                    "the chain is empty or not there"
                } else {
                    "the chain spreads nothing"
                }
                .to_owned(),
            });
        }
        return;
    };
    let to: Vec<SocketAddr> = found.values().filter_map(|found| found.to).collect();
    for endpoint in endpoints.iter().filter(|endpoint| !to.contains(endpoint)) {
        let own = chain::endpoint(&port.name, *endpoint);
        let chosen = found.values().find(|found| found.chain.as_ref() == Some(&own));
        faults.push(Fault {
            difference: Difference::Missing,
            kind: if chosen.is_some() { Kind::Empty } else { Kind::Backend },
            object: if chosen.is_some() { own } else { endpoint.to_string() },
            place: place.clone(),
            endpoint: Some(endpoint.to_string()),
            detail: match chosen {
                Some(_) => "its chain does not translate to it".to_owned(),
                None if !holes(divisor, &found).is_empty() => {
                    format!("{divisor} numbers and {} elements: the rest goes on untranslated", found.len())
                }
                None => format!("none of the {} elements leads to it", found.len()),
            },
        });
    }
    for (number, found) in &found {
        match found.to {
            Some(to) if !endpoints.contains(&to) => {
                let own = endpoints
                    .iter()
                    .find(|own| found.chain.as_ref() == Some(&chain::endpoint(&port.name, **own)));
                faults.push(Fault {
                    difference: if own.is_some() { Difference::Wrong } else { Difference::Extra },
                    kind: if own.is_some() { Kind::BackendTarget } else { Kind::Stale },
                    object: found.chain.clone().unwrap_or_else(|| format!("element {number}")),
                    place: place.clone(),
                    endpoint: Some(to.to_string()),
                    detail: match own {
                        Some(own) => format!("it translates to {to}; its name is that of {own}"),
                        None => "an endpoint that the Service does not have on this node".to_owned(),
                    },
                });
            }
            _ => {}
        }
    }
    of_shares(divisor, &found, &place, endpoints.len(), faults);
    of_affinity(dump, port, name, endpoints, faults);
}

/// Where a number leads.
struct Destination {
    chain: Option<String>,
    to: Option<SocketAddr>,
}

fn destinations(dump: &Dump, act: &Act) -> Option<(u64, BTreeMap<u64, Destination>)> {
    match act {
        Act::Spread(divisor, elements) => Some((
            *divisor,
            elements
                .iter()
                .map(|(number, to)| (*number, Destination { chain: None, to: Some(*to) }))
                .collect(),
        )),
        Act::Choose(divisor, elements) => {
            let of = |verdict: &Verdict| match verdict {
                Verdict::Goto(target) | Verdict::Jump(target) => {
                    let rules = dump.chains.get(target).into_iter().flatten();
                    let to = rules.filter_map(|rule| match rule.act {
                        Act::Translate(to) => Some(to),
                        _ => None,
                    });
                    Destination { chain: Some(target.clone()), to: to.into_iter().next() }
                }
                _ => Destination { chain: None, to: None },
            };
            Some((*divisor, elements.iter().map(|(number, verdict)| (*number, of(verdict))).collect()))
        }
        _ => None,
    }
}

/// Numbers without an element.
fn holes(divisor: u64, found: &BTreeMap<u64, Destination>) -> Vec<u64> {
    /// As many as are worth counting.
    const MOST: u64 = 10_000;
    (0..divisor.min(MOST)).filter(|number| !found.contains_key(number)).collect()
}

fn of_shares(
    divisor: u64,
    found: &BTreeMap<u64, Destination>,
    place: &Place,
    endpoints: usize,
    faults: &mut Vec<Fault>,
) {
    let count = u64::try_from(found.len()).unwrap_or(u64::MAX);
    let mut fault = |detail: String| {
        faults.push(Fault {
            difference: Difference::Wrong,
            kind: Kind::Shares,
            object: format!("numgen random mod {divisor}"),
            place: place.clone(),
            endpoint: None,
            detail,
        });
    };
    let holes = holes(divisor, found);
    if holes.len() + found.len() == endpoints && !holes.is_empty() {
        // Told with the endpoints that are missing.
    } else if !holes.is_empty() {
        let numbers: Vec<String> = holes.iter().take(5).map(ToString::to_string).collect();
        fault(format!(
            "of {divisor} numbers {} have no element ({}): their packets go on untranslated",
            holes.len(),
            numbers.join(", ")
        ));
    } else if divisor < count {
        fault(format!("{count} elements and {divisor} numbers: the last elements are never chosen"));
    }
    let mut seen: Vec<SocketAddr> = found.values().filter_map(|found| found.to).collect();
    let all = seen.len();
    seen.sort_unstable();
    seen.dedup();
    if seen.len() < all {
        fault("an endpoint is there twice and gets twice its share".to_owned());
    }
}

fn of_affinity(
    dump: &Dump,
    port: &ExpectedPort,
    name: &str,
    endpoints: &[SocketAddr],
    faults: &mut Vec<Fault>,
) {
    for endpoint in endpoints.iter().filter(|_| port.affinity.is_some()) {
        let (set, own) = (chain::affinity(&port.name, *endpoint), chain::endpoint(&port.name, *endpoint));
        let rules = |chain: &str| dump.chains.get(chain).map_or(&[][..], Vec::as_slice);
        let asking = |rule: &&Rule| rule.known_client.as_ref() == Some(&set);
        let asked = rules(name).iter().enumerate().find(|(_, rule)| asking(rule));
        let kept = rules(&own).iter().any(|rule| rule.act == Act::Remember(set.clone()));
        let otherwise = rules(&own).iter().enumerate().find_map(|(index, rule)| match &rule.act {
            Act::Keep(to, how) if *to == set => Some((in_chain(&own, index + 1, rule), *how)),
            _ => None,
        });
        let seconds = dump.timeouts.get(&set).copied();
        let mut fault = |difference, place: Place, detail: String| {
            faults.push(Fault {
                difference,
                kind: Kind::Affinity,
                object: set.clone(),
                place,
                endpoint: Some(endpoint.to_string()),
                detail,
            });
        };
        match (asked, kept, otherwise) {
            (Some(_), false, Some((place, how))) => fault(Difference::Wrong, place, how.to_owned()),
            (None, _, _) | (_, false, _) => {
                let place = Place::within(super::TABLE, if asked.is_some() { &own } else { name });
                fault(Difference::Missing, place, "clients do not stay with it".to_owned());
            }
            (Some((index, rule)), true, _) => {
                if rule.act != Act::Verdict(Verdict::Goto(own.clone())) {
                    let place = in_chain(name, index + 1, rule);
                    let detail = format!("clients that were with it are not sent on to {own}");
                    fault(Difference::Wrong, place, detail);
                }
                let wanted = port.affinity.map(u64::from);
                if seconds.is_none() {
                    let detail =
                        "the set forgets no client: clients stay for ever, with endpoints that are gone, too";
                    fault(Difference::Wrong, Place::within(super::TABLE, &set), detail.to_owned());
                } else if seconds != wanted {
                    let detail = format!("clients should stay for {} s", port.affinity.unwrap_or_default());
                    fault(Difference::Wrong, Place::within(super::TABLE, &own), detail);
                }
            }
        }
    }
}
