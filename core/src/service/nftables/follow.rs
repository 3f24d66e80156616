//! Following a packet through the table of nftables mode.
//!
//! Invariant: as in iptables mode, shares are what the kernel gives: a map with fewer elements than its divisor lets
//! the missing numbers' packets go on untranslated, and those are refused by `cluster-ips-check` while the address is
//! in `cluster-ips`. A chain that was gone to does not come back.

use std::net::{IpAddr, SocketAddr};

use super::dump::{Act, Dump, Rule, Verdict, key};
use super::way_in::pods;
use super::{Layout, foreign};
use crate::service::expected::{ExpectedPort, FrontendKey};
use crate::service::fault::Place;
use crate::service::follow::{Client, DEEPEST, Followed, Hop};
use crate::service::passage::{Packet, arrive, before_translation};

/// The layout that a table has; `None` when it has no endpoint to tell by.
#[must_use]
pub fn layout(dump: &Dump) -> Option<Layout> {
    let acts = || dump.chains.values().flatten().map(|rule| &rule.act);
    if acts().any(|act| matches!(act, Act::Spread(..))) {
        return Some(Layout::Maps);
    }
    dump.chains.keys().any(|name| name.starts_with("endpoint-")).then_some(Layout::Chains)
}

/// Follows packets of a client to an address of a port.
#[must_use]
pub fn follow(dump: &Dump, to: FrontendKey, client: Client, port: &ExpectedPort) -> Followed {
    let mut followed = Followed::default();
    let mut left = 1.0;
    let mut is_untracked = false;
    let hook = if client == Client::Node { "output" } else { "prerouting" };
    for rule in dump.foreign.iter().filter(|rule| rule.hook == hook && rule.takes(to)) {
        if !rule.is_whole {
            followed.unread.push(rule.place());
            continue;
        }
        match rule.does {
            foreign::Does::Translate(address, port) => {
                followed.shares.to.insert(SocketAddr::new(address, port.unwrap_or(to.port)), 1.0);
                return followed;
            }
            foreign::Does::Drop => {
                followed.shares.silent = 1.0;
                return followed;
            }
            foreign::Does::Untrack => is_untracked = true,
        }
    }
    let mut packet = Packet {
        client,
        to: to.address,
        port: to.port,
        protocol: to.protocol,
        to_node: to.address.is_none(),
        translated: false,
        mark: Some(0),
        pods: if dump.others.is_empty() { None } else { pods(dump) },
    };
    let before = dump.others.before(&mut packet);
    if !before_translation(&mut followed, before, &packet) {
        return followed;
    }
    let walk = Walk { dump, to, client, addresses: &port.addresses };
    // What meets packets after translation is in chains of the same hook, too.
    let is_after = |name: &str| {
        let rules = dump.chains.get(name).into_iter().flatten();
        let to_ends = Act::Verdict(Verdict::Jump("service-endpoints-check".to_owned()));
        rules.into_iter().any(|rule| rule.act == to_ends)
    };
    let mut base: Vec<(&i64, &String)> = dump
        .hooks
        .iter()
        .filter(|(name, (of, _))| of == hook && !is_after(name))
        .map(|(name, (_, priority))| (priority, name))
        .collect();
    base.sort_unstable();
    for (priority, name) in base {
        // Translation is for tracked connections alone.
        if left <= 0.0 || (is_untracked && *priority >= foreign::OURS) {
            break;
        }
        let out = walk.chain(name, left, 0, 0, &mut followed);
        left = out.on + out.accepted;
        if dump.drops_rest.contains(name) {
            followed.shares.silent += out.on;
            left = out.accepted;
        }
    }
    if client != Client::Node
        && dump.hooks.iter().any(|(name, (hook, _))| hook == "forward" && dump.drops_rest.contains(name))
    {
        let translated: f64 = followed.shares.to.values().sum();
        followed.shares.to.clear();
        followed.shares.silent += translated;
    }
    if !dump.others.is_empty() {
        arrive(&mut followed, |endpoint| {
            let mut packet = Packet {
                to: Some(endpoint.ip()),
                port: endpoint.port(),
                to_node: port.on_host.contains(&endpoint),
                translated: true,
                // Who is marked depends on the sender, and others may ask for it.
                mark: None,
                ..packet
            };
            let outcomes = dump.others.after(&mut packet);
            (packet, outcomes)
        });
    }
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

pub(super) fn map_of(to: FrontendKey) -> &'static str {
    if to.address.is_some() { "service-ips" } else { "service-nodeports" }
}

pub(super) fn map_of_ends(to: FrontendKey) -> &'static str {
    if to.address.is_some() { "no-endpoint-services" } else { "no-endpoint-nodeports" }
}

pub(super) fn end(dump: &Dump, to: FrontendKey) -> Option<&Verdict> {
    dump.maps.get(map_of_ends(to))?.get(&key(to.address, to.protocol, to.port))
}

pub(super) fn contains(dump: &Dump, set: &str, element: &str) -> bool {
    dump.sets.get(set).is_some_and(|set| set.contains(element))
}

/// The set of the node's addresses that take node ports: with anything but all of them (`--nodeport-addresses`), as is
/// the default (`cmd/kube-proxy/app/server_linux.go`: `primary`).
pub(super) const NODE_PORT_IPS: &str = "nodeport-ips";

/// Whether any address takes node ports, of the node's own where those are known.
pub(super) fn takes_node_ports(dump: &Dump, addresses: &[IpAddr]) -> bool {
    let Some(set) = dump.sets.get(NODE_PORT_IPS) else { return false };
    if addresses.is_empty() {
        !set.is_empty()
    } else {
        addresses.iter().any(|ip| set.contains(&ip.to_string()))
    }
}

pub(super) fn in_map(map: &str, element: &str) -> Place {
    Place { table: super::TABLE.to_owned(), chain: format!("{map} {{ {element} }}"), ..Place::default() }
}

pub(super) fn in_chain(chain: &str, position: usize, rule: &Rule) -> Place {
    Place {
        table: super::TABLE.to_owned(),
        chain: chain.to_owned(),
        position: Some(position),
        handle: rule.handle,
        line: None,
    }
}

struct Walk<'a> {
    dump: &'a Dump,
    to: FrontendKey,
    client: Client,
    /// Of the node, as far as they are known.
    addresses: &'a [IpAddr],
}

/// What a chain leaves of a share, untranslated.
#[derive(Clone, Copy, Default)]
struct Out {
    /// To whoever comes next.
    on: f64,
    /// Decided, and not asked about again at this hook.
    accepted: f64,
}

/// Whether a rule takes a packet.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Takes {
    Yes,
    No,
    /// Nobody knows: it has conditions that no proxy writes there.
    Unread,
}

impl Walk<'_> {
    fn takes(&self, rule: &Rule, chain: &str) -> Takes {
        let (address, set) = (self.to.address, &rule.to_set);
        let in_set = |set: &str| match address {
            Some(ip) => contains(self.dump, set, &ip.to_string()),
            None => set == NODE_PORT_IPS && takes_node_ports(self.dump, self.addresses),
        };
        // Once translated a packet is asked nothing more here; until then it is to the frontend.
        let about = rule.destination.as_ref().is_none_or(|(not, net)| match address {
            Some(address) => net.contains(&address) != *not,
            None => *not,
        }) && set.as_ref().is_none_or(|(not, set)| in_set(set) != *not)
            && (!rule.to_node || address.is_none())
            && !rule.from_node
            && !rule.not_new
            && rule.protocol.is_none_or(|protocol| protocol == self.to.protocol)
            && rule.port.is_none_or(|port| port == self.to.port);
        if !about {
            return Takes::No;
        }
        let decides_nothing = match &rule.act {
            Act::Mark(_) | Act::Remember(_) | Act::Keep(..) => true,
            Act::Verdict(Verdict::Jump(to)) => to == "mark-for-masquerade",
            _ => false,
        };
        if decides_nothing {
            return Takes::No;
        }
        if rule.act == Act::Unknown || rule.is_odd {
            return Takes::Unread;
        }
        if let Some(set) = &rule.known_client {
            return if set.starts_with("affinity-") { Takes::No } else { Takes::Unread };
        }
        if !rule.not_from.is_empty() {
            // Clients are within the ranges.
            return if is_firewall(chain) { Takes::No } else { Takes::Unread };
        }
        if let Some((not, _)) = &rule.interface {
            // Who is a pod, where the proxy tells by the interface.
            return match (self.client == Client::Pod) != *not {
                _ if !chain.starts_with("external-") || rule.source.is_some() => Takes::Unread,
                true => Takes::Yes,
                false => Takes::No,
            };
        }
        match &rule.source {
            None => Takes::Yes,
            // Who is a pod, or the ranges of a firewall that has only one.
            Some((not, _)) if is_firewall(chain) && *not => Takes::No,
            Some((not, net)) if chain.starts_with("external-") && net.prefix_len() < net.max_prefix_len() => {
                if (self.client == Client::Pod) == *not {
                    Takes::No
                } else {
                    Takes::Yes
                }
            }
            Some(_) => Takes::Unread,
        }
    }

    /// Walks a chain with a share of the packets.
    fn chain(&self, name: &str, share: f64, depth: usize, nested: usize, followed: &mut Followed) -> Out {
        let mut out = Out { on: share, accepted: 0.0 };
        let Some(rules) = self.dump.chains.get(name) else { return out };
        if nested > DEEPEST {
            followed.unread.push(Place::within(super::TABLE, name));
            return out;
        }
        for (index, rule) in rules.iter().enumerate() {
            let share = out.on;
            if share <= 0.0 {
                break;
            }
            let place = in_chain(name, index + 1, rule);
            // What the filter asks is not part of finding an endpoint.
            if !name.starts_with("filter-") && !name.starts_with("firewall-") {
                followed.rules += share;
            }
            match self.takes(rule, name) {
                Takes::Yes => {}
                Takes::No => continue,
                Takes::Unread => {
                    followed.unread.push(place);
                    continue;
                }
            }
            let hop = |to: String, choice| Hop { place: place.clone(), to, choice, depth };
            let within = (name, depth, nested);
            match &rule.act {
                Act::Translate(to) => {
                    *followed.shares.to.entry(*to).or_default() += share;
                    followed.hops.push(hop(format!("DNAT {to}"), None));
                    out.on = 0.0;
                }
                Act::Spread(divisor, elements) => {
                    followed.lookups += share;
                    let part = part(share, *divisor);
                    let mut left = share;
                    for (number, to) in elements.iter().filter(|(number, _)| *number < divisor) {
                        *followed.shares.to.entry(*to).or_default() += part;
                        followed.hops.push(hop(format!("DNAT {to}"), choice(*number, *divisor)));
                        left -= part;
                    }
                    out.on = nothing(left);
                }
                Act::Choose(divisor, elements) => {
                    followed.lookups += share;
                    let part = part(share, *divisor);
                    let mut left = share;
                    for (number, verdict) in elements.iter().filter(|(number, _)| *number < divisor) {
                        let (Verdict::Goto(target) | Verdict::Jump(target)) = verdict else { continue };
                        followed.hops.push(hop(target.clone(), choice(*number, *divisor)));
                        let back = self.chain(target, part, depth + 1, nested + 1, followed);
                        left = left - part + back.on;
                        out.accepted += back.accepted;
                    }
                    out.on = nothing(left);
                }
                Act::Lookup(map) => {
                    if name != "firewall-check" {
                        followed.lookups += share;
                    }
                    let with_address = if map.ends_with("nodeports") { None } else { self.to.address };
                    if with_address.is_some() != self.to.address.is_some() {
                        continue;
                    }
                    let element = key(with_address, self.to.protocol, self.to.port);
                    let verdict = self.dump.maps.get(map).and_then(|map| map.get(&element));
                    if let Some(verdict) = verdict {
                        if let Verdict::Goto(target) | Verdict::Jump(target) = verdict {
                            followed.hops.push(Hop {
                                place: in_map(map, &element),
                                to: target.clone(),
                                choice: None,
                                depth,
                            });
                        }
                        let ends = self.verdict(verdict, in_map(map, &element), within, &mut out, followed);
                        if ends {
                            return out;
                        }
                    }
                }
                Act::Verdict(verdict) => {
                    if let Verdict::Goto(target) | Verdict::Jump(target) = verdict
                        && !matches!(target.as_str(), "services" | "firewall-check")
                    {
                        followed.hops.push(hop(target.clone(), None));
                    }
                    if self.verdict(verdict, place.clone(), within, &mut out, followed) {
                        return out;
                    }
                }
                Act::Mark(_) | Act::Masquerade | Act::Remember(_) | Act::Keep(..) | Act::Unknown => {}
            }
        }
        out
    }

    /// What a verdict does to all that came so far; true when this chain is left for good.
    fn verdict(
        &self,
        verdict: &Verdict,
        place: Place,
        (name, depth, nested): (&str, usize, usize),
        out: &mut Out,
        followed: &mut Followed,
    ) -> bool {
        let share = out.on;
        match verdict {
            Verdict::Goto(target) | Verdict::Jump(target) => {
                let shared = matches!(target.as_str(), "services" | "firewall-check");
                let depth = if shared { depth } else { depth + 1 };
                let back = self.chain(target, share, depth, nested + 1, followed);
                out.on = back.on;
                out.accepted += back.accepted;
                return matches!(verdict, Verdict::Goto(_));
            }
            Verdict::Drop => {
                followed.shares.silent += share;
                out.on = 0.0;
            }
            Verdict::Reject => {
                followed.shares.refused += share;
                out.on = 0.0;
            }
            Verdict::Other(word) if word == "accept" => {
                out.accepted += share;
                out.on = 0.0;
            }
            Verdict::Other(word) if word == "continue" => return false,
            Verdict::Other(word) if word == "return" => {}
            Verdict::Other(_) => {
                followed.unread.push(place);
                return false;
            }
        }
        // The proxy writes drops into its firewalls only, and none of the other words here.
        let word = match verdict {
            Verdict::Drop => "drop",
            Verdict::Reject => "reject",
            Verdict::Other(word) => word,
            Verdict::Goto(_) | Verdict::Jump(_) => return true,
        };
        let is_proxys = *verdict == Verdict::Drop && is_firewall(name);
        if !is_proxys {
            followed.strange.push((place, word.to_owned()));
        }
        true
    }
}

/// A chain that drops who is in no range of one Service.
fn is_firewall(chain: &str) -> bool {
    chain.starts_with("firewall-") && chain != "firewall-check"
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
