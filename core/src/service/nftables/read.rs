//! Following a packet through the table of nftables mode, and finding what is not as it should be.
//!
//! Invariant: as in iptables mode, shares are what the kernel gives: a map with fewer elements than its divisor lets
//! the missing numbers' packets go on untranslated, and those are refused by `cluster-ips-check` while the address is
//! in `cluster-ips`. A chain that was gone to does not come back.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use super::dump::{Act, Dump, Rule, Verdict, key};
use super::emit::is_of;
use super::{Layout, chain};
use crate::service::RouteKind;
use crate::service::expected::{Action, ExpectedFrontend, ExpectedPort, FrontendKey};
use crate::service::fault::{Difference, Fault, Hop, Kind, Place, Shares};
use crate::service::iptables::Client;

/// services, firewall, external, service, endpoint.
const DEEPEST: usize = 8;

/// What rules do with the first packets to an address.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Followed {
    /// Where shares of them end.
    pub shares: Shares,
    /// Elements and rules that took some of them, in order.
    pub hops: Vec<Hop>,
    /// Rules with statements that are not known, among those that were asked.
    pub unread: Vec<Place>,
}

/// The layout that a table has; `None` when it has no endpoint to tell by.
#[must_use]
pub fn layout(dump: &Dump) -> Option<Layout> {
    let acts = || dump.chains.values().flatten().map(|rule| &rule.act);
    if acts().any(|act| matches!(act, Act::Spread(..))) {
        return Some(Layout::Maps);
    }
    dump.chains.keys().any(|name| name.starts_with("endpoint-")).then_some(Layout::Chains)
}

/// Follows packets.
#[must_use]
pub fn follow(dump: &Dump, to: FrontendKey, client: Client) -> Followed {
    let mut followed = Followed::default();
    let map = map_of(to);
    let element = key(to.address, to.protocol, to.port);
    let jumps = dump.chains.get("nat-prerouting").is_some_and(|rules| {
        rules.iter().any(|rule| rule.act == Act::Verdict(Verdict::Jump("services".to_owned())))
    });
    let asked = dump.chains.get("services").into_iter().flatten();
    let looked_up = asked.clone().any(|rule| rule.act == Act::Lookup(map.to_owned()));
    let verdict = dump.maps.get(map).and_then(|map| map.get(&element)).filter(|_| jumps && looked_up);
    let left = match verdict {
        Some(Verdict::Goto(target) | Verdict::Jump(target)) => {
            followed.hops.push(Hop {
                place: in_map(map, &element),
                to: target.clone(),
                choice: None,
                depth: 0,
                ok: true,
            });
            Walk { dump, client }.chain(target, 1.0, 1, &mut followed)
        }
        _ => 1.0,
    };
    if left > 0.0 {
        match end(dump, to) {
            Some(Verdict::Drop) => followed.shares.silent += left,
            Some(_) => followed.shares.refused += left,
            None if to.address.is_some_and(|ip| contains(dump, "cluster-ips", &ip.to_string())) => {
                followed.shares.refused += left;
            }
            None => followed.shares.silent += left,
        }
    }
    followed
}

fn map_of(to: FrontendKey) -> &'static str {
    if to.address.is_some() { "service-ips" } else { "service-nodeports" }
}

fn map_of_ends(to: FrontendKey) -> &'static str {
    if to.address.is_some() { "no-endpoint-services" } else { "no-endpoint-nodeports" }
}

fn end(dump: &Dump, to: FrontendKey) -> Option<&Verdict> {
    dump.maps.get(map_of_ends(to))?.get(&key(to.address, to.protocol, to.port))
}

fn contains(dump: &Dump, set: &str, element: &str) -> bool {
    dump.sets.get(set).is_some_and(|set| set.contains(element))
}

fn in_map(map: &str, element: &str) -> Place {
    Place { table: super::TABLE.to_owned(), chain: format!("{map} {{ {element} }}"), ..Place::default() }
}

fn in_chain(chain: &str, position: usize, rule: &Rule) -> Place {
    Place {
        table: super::TABLE.to_owned(),
        chain: chain.to_owned(),
        position: Some(position),
        handle: rule.handle,
        line: None,
    }
}

fn within(chain: &str) -> Place {
    Place { table: super::TABLE.to_owned(), chain: chain.to_owned(), ..Place::default() }
}

struct Walk<'a> {
    dump: &'a Dump,
    client: Client,
}

impl Walk<'_> {
    /// Walks a chain that was gone to with a share of the packets; the answer is what stays untranslated.
    fn chain(&self, name: &str, share: f64, depth: usize, followed: &mut Followed) -> f64 {
        let Some(rules) = self.dump.chains.get(name).filter(|_| depth <= DEEPEST) else { return share };
        for (index, rule) in rules.iter().enumerate() {
            let place = in_chain(name, index + 1, rule);
            if rule.act == Act::Unknown {
                followed.unread.push(place);
                continue;
            }
            let pods = rule.source.as_ref().is_none_or(|(not, _)| (self.client == Client::Pod) != *not);
            if rule.from_node || rule.known_client.is_some() || !pods {
                continue;
            }
            let hop = |to: String, choice| Hop { place: place.clone(), to, choice, depth, ok: true };
            match &rule.act {
                Act::Translate(to) => {
                    *followed.shares.to.entry(*to).or_default() += share;
                    followed.hops.push(hop(format!("DNAT {to}"), None));
                    return 0.0;
                }
                Act::Spread(divisor, elements) => {
                    let part = part(share, *divisor);
                    let mut left = share;
                    for (number, to) in elements.iter().filter(|(number, _)| *number < divisor) {
                        *followed.shares.to.entry(*to).or_default() += part;
                        followed.hops.push(hop(format!("DNAT {to}"), choice(*number, *divisor)));
                        left -= part;
                    }
                    return nothing(left);
                }
                Act::Choose(divisor, elements) => {
                    let part = part(share, *divisor);
                    let mut left = share;
                    for (number, verdict) in elements.iter().filter(|(number, _)| *number < divisor) {
                        let (Verdict::Goto(target) | Verdict::Jump(target)) = verdict else { continue };
                        followed.hops.push(hop(target.clone(), choice(*number, *divisor)));
                        left = left - part + self.chain(target, part, depth + 1, followed);
                    }
                    return nothing(left);
                }
                Act::Verdict(Verdict::Goto(target)) => {
                    followed.hops.push(hop(target.clone(), None));
                    return self.chain(target, share, depth + 1, followed);
                }
                Act::Verdict(Verdict::Drop) => {
                    followed.shares.silent += share;
                    return 0.0;
                }
                Act::Verdict(Verdict::Reject) => {
                    followed.shares.refused += share;
                    return 0.0;
                }
                _ => {}
            }
        }
        share
    }
}

#[expect(clippy::cast_precision_loss, reason = "far fewer endpoints than 2^52")]
fn part(share: f64, divisor: u64) -> f64 {
    if divisor == 0 { 0.0 } else { share / divisor as f64 }
}

/// What is left of a share after all parts were taken, but for rounding.
fn nothing(left: f64) -> f64 {
    if left < 1e-9 { 0.0 } else { left }
}

fn choice(number: u64, divisor: u64) -> Option<(usize, usize)> {
    let (this, all) = (usize::try_from(number).ok()? + 1, usize::try_from(divisor).ok()?);
    (all > 1).then_some((this, all))
}

/// Compares what one service port should have with what the table has.
#[must_use]
pub fn read(dump: &Dump, port: &ExpectedPort) -> Vec<Fault> {
    let mut faults = Vec::new();
    for frontend in &port.frontends {
        of_frontend(dump, port, frontend, &mut faults);
    }
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
                place: within(name),
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
    } else if count != u64::try_from(endpoints).unwrap_or(u64::MAX) {
        return;
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
        let asked = rules(name).iter().any(|rule| rule.known_client.as_ref() == Some(&set));
        let kept = rules(&own).iter().any(|rule| rule.act == Act::Remember(set.clone()));
        if !asked || !kept {
            faults.push(Fault {
                difference: Difference::Missing,
                kind: Kind::Affinity,
                object: set,
                place: within(if asked { &own } else { name }),
                endpoint: Some(endpoint.to_string()),
                detail: "clients do not stay with it".to_owned(),
            });
        }
    }
}

/// Compares what all Services of the node share.
#[must_use]
pub fn read_shared(dump: &Dump) -> Vec<Fault> {
    let mut faults = Vec::new();
    let has = |chain: &str, act: &Act| {
        dump.chains.get(chain).is_some_and(|rules| rules.iter().any(|rule| rule.act == *act))
    };
    let jump = |to: &str| Act::Verdict(Verdict::Jump(to.to_owned()));
    let lookup = |map: &str| Act::Lookup(map.to_owned());
    for (chain, act, object, kind, detail) in [
        (
            "nat-prerouting",
            jump("services"),
            "services",
            Kind::Jump,
            "pods' and outside packets to Services are not translated",
        ),
        (
            "nat-output",
            jump("services"),
            "services",
            Kind::Jump,
            "the node's own packets to Services are not translated",
        ),
        (
            "nat-postrouting",
            jump("masquerading"),
            "masquerading",
            Kind::Masquerade,
            "marked packets keep their source, so replies find no way back",
        ),
        (
            "services",
            lookup("service-ips"),
            "service-ips",
            Kind::Jump,
            "addresses of Services are not looked up",
        ),
        (
            "services",
            lookup("service-nodeports"),
            "service-nodeports",
            Kind::Jump,
            "node ports are not translated",
        ),
        (
            "masquerading",
            Act::Masquerade,
            "masquerade",
            Kind::Masquerade,
            "marked packets keep their source, so replies find no way back",
        ),
        (
            "filter-forward",
            jump("service-endpoints-check"),
            "service-endpoints-check",
            Kind::Jump,
            "Services without endpoints do not refuse pods",
        ),
    ] {
        if !has(chain, &act) {
            faults.push(Fault {
                difference: Difference::Missing,
                kind,
                object: object.to_owned(),
                place: within(chain),
                endpoint: None,
                detail: detail.to_owned(),
            });
        }
    }
    faults
}
