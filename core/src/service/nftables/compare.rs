//! Comparing what the table of nftables mode has for a service port with what a node's proxy should have.
//!
//! Invariant: elements by key; of endpoints those are named that get no share, too much of it or none; every rule is
//! compared with what is written in its place ([`super::rules`]).

use std::collections::BTreeMap;
use std::net::SocketAddr;

use ipnet::IpNet;

use super::dump::{Declared, Dump, key};
use super::emit::is_of;
use super::follow::{contains, end, in_chain, in_map, map_of, map_of_ends, takes_node_ports};
use super::reading::{Act, Rule, Verdict};
use super::written::{self, HAIRPINS, NODE_PORT_IPS, Style};
use super::{chain, foreign, rules};
use crate::service::RouteKind;
use crate::service::expected::{Action, ExpectedFrontend, ExpectedPort, FrontendKey};
use crate::service::fault::{Difference, Fault, Kind, Place};

/// Compares what one service port should have with what the table has.
#[must_use]
pub fn faults(dump: &Dump, port: &ExpectedPort) -> Vec<Fault> {
    let style = &dump.style;
    let mut faults = Vec::new();
    for frontend in &port.frontends {
        of_frontend(dump, port, frontend, &mut faults);
    }
    of_other_ports(dump, port, &mut faults);
    of_source_ranges(dump, port, &mut faults);
    of_service_range(dump, port, &mut faults);
    of_node_ports(dump, port, &mut faults);
    foreign::faults(&dump.foreign, port, &mut faults);
    for (name, endpoints) in
        [(chain::cluster(&port.name), &port.cluster), (chain::local(&port.name), &port.local)]
    {
        if !endpoints.is_empty() {
            of_chain(dump, port, &name, endpoints, &mut faults);
        }
    }
    of_hairpins(dump, port, &mut faults);
    of_affinity(style, dump, port, &mut faults);
    for (chain, own) in written::of_port(style, port) {
        let own: Vec<_> = own.iter().map(|rule| rule.written(style, port.name.protocol)).collect();
        rules::compare(dump, &chain, &own, &mut faults);
    }
    faults.sort();
    faults.dedup();
    faults
}

/// Endpoints of the node that may ask their own Service.
fn of_hairpins(dump: &Dump, port: &ExpectedPort, faults: &mut Vec<Fault>) {
    if !dump.sets.contains_key(HAIRPINS) {
        return;
    }
    for endpoint in port.on_node.iter().filter(|endpoint| is_of(endpoint.ip(), dump.family)) {
        let (ip, number) = (endpoint.ip(), endpoint.port());
        let element = format!("{ip} . {ip} . {} . {number}", port.name.protocol.lower());
        if !contains(dump, HAIRPINS, &element) {
            faults.push(Fault {
                difference: Difference::Missing,
                kind: Kind::Masquerade,
                object: element.clone(),
                place: in_map(HAIRPINS, &element),
                endpoint: Some(endpoint.to_string()),
                detail: "the endpoint that asks its own Service gets no answer".to_owned(),
            });
        }
    }
}

/// Ports of the cluster IP that the Service does not have.
fn of_other_ports(dump: &Dump, port: &ExpectedPort, faults: &mut Vec<Fault>) {
    let inside = port.frontends.iter().filter(|frontend| frontend.kind == RouteKind::ClusterIp);
    for address in inside.filter_map(|frontend| frontend.key.address) {
        let start = format!("{address} . ");
        let is_its = |element: &str| {
            port.siblings.iter().any(|(number, of)| key(Some(address), *of, *number) == element)
        };
        for map in ["service-ips", "no-endpoint-services", "firewall-ips"] {
            let elements = dump.maps.get(map).into_iter().flat_map(|map| map.range(start.clone()..));
            let of_address = elements.take_while(|(element, _)| element.starts_with(&start));
            for (element, _) in of_address.filter(|(element, _)| !is_its(element)) {
                faults.push(Fault {
                    difference: Difference::Extra,
                    kind: Kind::Frontend,
                    object: element.clone(),
                    place: in_map(map, element),
                    endpoint: None,
                    detail: "the Service has no such port".to_owned(),
                });
            }
        }
    }
}

/// The range of Services that the rule about all other addresses is for.
fn of_service_range(dump: &Dump, port: &ExpectedPort, faults: &mut Vec<Fault>) {
    let check = "cluster-ips-check";
    let rules = dump.chains.get(check).into_iter().flatten().enumerate();
    for (index, rule) in rules {
        let Some(ranges) = written::ranges_of(&rule.text, dump.family) else { continue };
        let of_service = |frontend: &&ExpectedFrontend| frontend.kind == RouteKind::ClusterIp;
        let address = port.frontends.iter().find(of_service).and_then(|frontend| frontend.key.address);
        if let Some(address) = address.filter(|ip| !ranges.iter().any(|range| range.contains(ip))) {
            faults.push(Fault {
                difference: Difference::Wrong,
                kind: Kind::End,
                object: "drop".to_owned(),
                place: in_chain(check, index + 1, rule),
                endpoint: None,
                detail: format!(
                    "cluster IP {address} is not in the range of Services that it is for: packets to addresses that no Service has are routed as all others"
                ),
            });
        }
    }
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
    let target = found.map(|verdict| match verdict {
        Verdict::Goto(target) => target.clone(),
        Verdict::Jump(target) => format!("jump {target}"),
        Verdict::Drop => "drop".to_owned(),
        Verdict::Reject => "reject".to_owned(),
        Verdict::Other(word) => word.clone(),
    });
    let mut fault = |difference, kind, object: String, place: Place, detail: String| {
        faults.push(Fault { difference, kind, object, place, endpoint: None, detail });
    };
    match (&wanted, &target) {
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
    if let Some(ip) = to.address.filter(|_| frontend.kind != RouteKind::ClusterIp)
        && contains(dump, "cluster-ips", &ip.to_string())
    {
        let place = in_map("cluster-ips", &ip.to_string());
        let detail = "it is no cluster IP: its packets are masqueraded and refused as those of one";
        fault(Difference::Extra, Kind::End, ip.to_string(), place, detail.to_owned());
    }
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
    if !has_node_port || !rules.any(asks) || takes_node_ports(dump) {
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
            Some(_) => "the set is empty, so node ports are not translated at this address nor at any other"
                .to_owned(),
            None => "the set is empty, so node ports are not translated at any address".to_owned(),
        },
    });
}

/// Who may come to a balancer's address: all others are dropped by one rule.
fn of_source_ranges(dump: &Dump, port: &ExpectedPort, faults: &mut Vec<Fault>) {
    const OPEN: &str = "everybody may come to the balancer's address";
    let chain = chain::firewall(&port.name);
    let mut fault = |difference, object: String, place: Place, detail: &str| {
        let detail = detail.to_owned();
        faults.push(Fault { difference, kind: Kind::SourceRange, object, place, endpoint: None, detail });
    };
    let mut has_ranges = false;
    for frontend in &port.frontends {
        let FrontendKey { address: Some(address), port: number, protocol } = frontend.key else { continue };
        let element = key(Some(address), protocol, number);
        let asked = dump.maps.get("firewall-ips").and_then(|map| map.get(&element));
        let is_wanted = frontend.kind == RouteKind::LoadBalancer && !port.source_ranges.is_empty();
        has_ranges |= is_wanted;
        let place = in_map("firewall-ips", &element);
        match (is_wanted, asked) {
            (true, None) => fault(Difference::Missing, element, place, OPEN),
            (true, Some(asked)) if *asked != Verdict::Goto(chain.clone()) => {
                fault(Difference::Wrong, element, place, "it does not lead to the ranges of this Service");
            }
            (false, Some(_)) => fault(
                Difference::Extra,
                element,
                place,
                "this address is for everybody, and only some may come to it",
            ),
            _ => {}
        }
    }
    if !has_ranges {
        return;
    }
    let rules = dump.chains.get(&chain).map_or(&[][..], Vec::as_slice);
    let drops = rules.iter().enumerate().find(|(_, rule)| rule.act == Act::Verdict(Verdict::Drop));
    let Some((index, rule)) = drops else {
        fault(Difference::Missing, "drop".to_owned(), Place::within(super::TABLE, &chain), OPEN);
        return;
    };
    if rule.source.is_some_and(|(not, _)| !not) {
        // It drops these alone: the rule is compared as a whole.
        return;
    }
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
    let chains: BTreeMap<String, SocketAddr> =
        endpoints.iter().map(|to| (chain::endpoint(&port.name, *to), *to)).collect();
    let spread = rules.iter().enumerate().find_map(|(index, rule)| {
        let found = destinations(dump, &rule.act, &chains)?;
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
        faults.push(Fault {
            difference: Difference::Missing,
            kind: Kind::Backend,
            object: endpoint.to_string(),
            place: place.clone(),
            endpoint: Some(endpoint.to_string()),
            detail: if holes(divisor, &found).is_empty() {
                format!("none of the {} elements leads to it", found.len())
            } else {
                format!("{divisor} numbers and {} elements: the rest goes on untranslated", found.len())
            },
        });
    }
    for (number, found) in &found {
        if let Some(to) = found.to.filter(|to| !endpoints.contains(to)) {
            faults.push(Fault {
                difference: Difference::Extra,
                kind: Kind::Stale,
                object: found.chain.clone().unwrap_or_else(|| format!("element {number}")),
                place: place.clone(),
                endpoint: Some(to.to_string()),
                detail: "an endpoint that the Service does not have on this node".to_owned(),
            });
        }
    }
    of_shares(divisor, &found, &place, endpoints.len(), faults);
}

/// Where a number leads.
struct Destination {
    chain: Option<String>,
    to: Option<SocketAddr>,
}

/// Where the numbers of a rule that spreads lead: by the names of the endpoints' own chains, whose rules are compared
/// themselves, and of other chains by what they translate to.
fn destinations(
    dump: &Dump,
    act: &Act,
    chains: &BTreeMap<String, SocketAddr>,
) -> Option<(u64, BTreeMap<u64, Destination>)> {
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
                    let mut to = rules.filter_map(|rule| match rule.act {
                        Act::Translate(to) => Some(to),
                        _ => None,
                    });
                    let to = chains.get(target).copied().or_else(|| to.next());
                    Destination { chain: Some(target.clone()), to }
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

/// How long clients stay with an endpoint, and in what.
fn of_affinity(style: &Style, dump: &Dump, port: &ExpectedPort, faults: &mut Vec<Fault>) {
    let Some(seconds) = port.affinity.map(u64::from) else { return };
    let mut endpoints: Vec<SocketAddr> = port.cluster.iter().chain(&port.local).copied().collect();
    endpoints.sort_unstable();
    endpoints.dedup();
    for endpoint in endpoints {
        let set = chain::affinity(&port.name, endpoint);
        let mut fault = |difference, detail: String| {
            faults.push(Fault {
                difference,
                kind: Kind::Affinity,
                object: set.clone(),
                place: Place::within(super::TABLE, &set),
                endpoint: Some(endpoint.to_string()),
                detail,
            });
        };
        let Some(Declared { kind, flags, timeout, size }) = dump.declared.get(&set) else {
            fault(Difference::Missing, "clients do not stay with it".to_owned());
            continue;
        };
        if timeout.is_none() {
            let detail =
                "the set forgets no client: clients stay for ever, with endpoints that are gone, too";
            fault(Difference::Wrong, detail.to_owned());
        } else if *timeout != Some(seconds) {
            fault(Difference::Wrong, format!("clients should stay for {seconds} s"));
        }
        // What the kernel chooses for a set of its kind.
        let usual = size.is_none_or(|size| size == 65535)
            && kind.as_ref().is_none_or(|kind| kind == style.address())
            && flags.contains("timeout")
            && flags.iter().all(|flag| matches!(flag.as_str(), "timeout" | "dynamic"));
        if !usual {
            let of = style.address();
            let detail = format!(
                "it is declared otherwise than the proxy's, which is of type {of} with flags dynamic and timeout: it may not keep clients"
            );
            fault(Difference::Wrong, detail);
        }
    }
}
