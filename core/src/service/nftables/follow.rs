//! Following a packet through the table of nftables mode.
//!
//! Invariant: as in iptables mode, shares are what the kernel gives: a map with fewer elements than its divisor lets
//! the missing numbers' packets go on untranslated, and those are refused by `cluster-ips-check` while the address is
//! in `cluster-ips`. A chain that was gone to does not come back.

use super::Layout;
use super::dump::{Act, Dump, Rule, Verdict, key};
use crate::service::expected::FrontendKey;
use crate::service::fault::Place;
use crate::service::follow::{Client, DEEPEST, Followed, Hop};

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
    if let Some(rule) = dump.foreign.iter().find(|rule| rule.takes(to)) {
        match rule.to {
            Some(to) => drop(followed.shares.to.insert(to, 1.0)),
            None => followed.shares.silent = 1.0,
        }
        return followed;
    }
    let map = map_of(to);
    let element = key(to.address, to.protocol, to.port);
    let position = |chain: &str, act: &Act| {
        dump.chains.get(chain).and_then(|rules| rules.iter().position(|rule| rule.act == *act))
    };
    let jump = position("nat-prerouting", &Act::Verdict(Verdict::Jump("services".to_owned())));
    let looked_up = position("services", &Act::Lookup(map.to_owned())).filter(|_| jump.is_some());
    let verdict = dump.maps.get(map).and_then(|map| map.get(&element)).filter(|_| looked_up.is_some());
    followed.rules += jump.map_or(0.0, |index| count(index + 1));
    if let Some(index) = looked_up {
        followed.rules += count(index + 1);
        // Every map of the chain up to this one was asked before it.
        let before = dump.chains.get("services").into_iter().flatten().take(index + 1);
        followed.lookups += count(before.filter(|rule| matches!(rule.act, Act::Lookup(_))).count());
    }
    let left = match verdict {
        Some(Verdict::Goto(target) | Verdict::Jump(target)) => {
            followed.hops.push(Hop {
                place: in_map(map, &element),
                to: target.clone(),
                choice: None,
                depth: 0,
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
    client: Client,
}

impl Walk<'_> {
    /// Walks a chain that was gone to with a share of the packets; the answer is what stays untranslated.
    fn chain(&self, name: &str, share: f64, depth: usize, followed: &mut Followed) -> f64 {
        let Some(rules) = self.dump.chains.get(name).filter(|_| depth <= DEEPEST) else { return share };
        for (index, rule) in rules.iter().enumerate() {
            followed.rules += share;
            let place = in_chain(name, index + 1, rule);
            if rule.act == Act::Unknown {
                followed.unread.push(place);
                continue;
            }
            let pods = rule.source.as_ref().is_none_or(|(not, _)| (self.client == Client::Pod) != *not);
            if rule.from_node || rule.known_client.is_some() || !pods {
                continue;
            }
            let hop = |to: String, choice| Hop { place: place.clone(), to, choice, depth };
            match &rule.act {
                Act::Translate(to) => {
                    *followed.shares.to.entry(*to).or_default() += share;
                    followed.hops.push(hop(format!("DNAT {to}"), None));
                    return 0.0;
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
                    return nothing(left);
                }
                Act::Choose(divisor, elements) => {
                    followed.lookups += share;
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

#[expect(clippy::cast_precision_loss, reason = "far fewer rules than 2^52")]
fn count(rules: usize) -> f64 {
    rules as f64
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
