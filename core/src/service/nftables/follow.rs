//! Following a packet through the table of nftables mode.
//!
//! Invariant: as in iptables mode, shares are what the kernel gives: a map with fewer elements than its divisor lets
//! the missing numbers' packets go on untranslated, and those are refused by `cluster-ips-check` while the address is
//! in `cluster-ips`. A chain that was gone to does not come back.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use super::dump::{Base, Dump, key};
use super::leaving::{self, Leaving};
use super::reading::{Act, Marking, Pods, Rule, Verdict};
use super::written::{MARKS, NODE_PORT_IPS};
use super::{Layout, foreign};
use crate::service::expected::{ExpectedPort, FrontendKey};
use crate::service::fault::Place;
use crate::service::follow::{Client, DEEPEST, Followed, Hop, Open, Worse};
use crate::service::passage::{Flow, Match, Packet, arrive, at_node_local_dns, before_translation, goes_on};

/// What is not known where rules of others may keep packets from being masqueraded.
const UNSURE: &str = "get an address of the node, so that answers find their way back: rules of others at postrouting depend on what no dump tells";

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
    let mut is_untracked = false;
    let hook = if client == Client::Node { "output" } else { "prerouting" };
    for rule in dump.foreign.iter().filter(|rule| rule.hook == hook && rule.takes(to)) {
        if !rule.is_whole {
            followed.unread.push(rule.place());
            continue;
        }
        if rule.is_node_local_dns() {
            followed.unsure.push(at_node_local_dns(to, &rule.place()));
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
        flow: Flow::First,
    };
    let before = dump.others.before(&mut packet);
    if !before_translation(&mut followed, before, &packet) {
        return followed;
    }
    let walk = Walk::new(dump, to, client);
    let walk = Walk { is_untracked, ..walk };
    let left = walk.hook(hook, &mut followed, |_| true);
    if left > 0.0 {
        // What is not translated goes on to the chains that refuse, and else to an address that nobody has.
        let next = if to.address.is_none() { "input" } else { "forward" };
        let on = walk.after(next, left, &mut followed);
        if to.address.is_some() {
            followed.shares.silent += on;
        } else {
            meet_the_node(dump, packet, on, &mut followed);
        }
    }
    if !dump.is_as_written {
        walk.arrived(&mut followed, port);
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
            goes_on(packet, outcomes, None, |packet| dump.others.after(packet))
        });
    }
    // Others may have marked them, too.
    if packet.mark == Some(0) {
        walk.leave(&mut followed, port, packet);
    }
    followed
}

/// What of a share of untranslated packets to the node itself is refused: nobody listens there, so its own stack refuses
/// all that no rule takes before.
fn meet_the_node(dump: &Dump, packet: Packet, share: f64, followed: &mut Followed) {
    let mut here = Packet { to_node: true, ..packet };
    let mut met = Followed::default();
    let outcomes = dump.others.delivered(&mut here);
    if before_translation(&mut met, outcomes, &here) {
        met.shares.refused = 1.0;
    }
    followed.shares.silent += share * met.shares.silent;
    followed.shares.refused += share * met.shares.refused;
    followed.strange.extend(met.strange);
    followed.unsure.extend(met.unsure);
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

/// Whether any address takes node ports. A node may have addresses that its object does not list, so that none of those is
/// among them is not wrong by itself: see [`node_port_addresses`].
pub(super) fn takes_node_ports(dump: &Dump) -> bool {
    dump.sets.get(NODE_PORT_IPS).is_some_and(|set| !set.is_empty())
}

/// The addresses that alone take node ports; empty where all of the node's do.
#[must_use]
pub fn node_port_addresses(dump: &Dump) -> Vec<IpAddr> {
    let set = dump.sets.get(NODE_PORT_IPS).into_iter().flatten();
    set.filter_map(|element| element.parse().ok()).collect()
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
    /// Whether rules of others took the tracking off.
    is_untracked: bool,
    /// The mark that packets were given on the way.
    mark: Cell<u64>,
    /// That of an endpoint's packets to itself, beside it.
    own_marks: RefCell<BTreeMap<SocketAddr, u64>>,
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

impl<'a> Walk<'a> {
    fn new(dump: &'a Dump, to: FrontendKey, client: Client) -> Self {
        let own_marks = RefCell::default();
        Self { dump, to, client, is_untracked: false, mark: Cell::new(0), own_marks }
    }

    /// Walks the chains that the kernel asks at a hook; the answer is the share that none of them decided.
    fn hook(&self, hook: &str, followed: &mut Followed, is: impl Fn(&Base) -> bool) -> f64 {
        let of_hook = self.dump.bases.iter().filter(|(_, base)| base.hook == hook && is(base));
        let mut bases: Vec<(i64, &String, &Base)> =
            of_hook.map(|(name, base)| (base.priority, name, base)).collect();
        bases.sort_by_key(|(priority, name, _)| (*priority, *name));
        let mut left = 1.0 - followed.shares.silent - followed.shares.refused;
        for (_, name, base) in bases {
            // Translation is for tracked connections alone.
            if left <= 0.0 || (self.is_untracked && base.kind == "nat") {
                continue;
            }
            let out = self.chain(name, left, 0, 0, followed);
            left = out.on + out.accepted;
            if base.policy == "drop" {
                followed.shares.silent += out.on;
                left = out.accepted;
            }
        }
        left
    }

    /// What chains do that are asked when the way is known, with a share of the packets; none of the hops is told.
    fn after(&self, hook: &str, share: f64, followed: &mut Followed) -> f64 {
        if self.client == Client::Node {
            return share;
        }
        let mut met = Followed::default();
        let on = self.hook(hook, &mut met, |_| true);
        followed.shares.silent += share * met.shares.silent;
        followed.shares.refused += share * met.shares.refused;
        followed.unread.extend(met.unread);
        share * on
    }

    /// What the proxy's own chains after translation do with packets to endpoints, where they are not as it writes them.
    fn arrived(&self, followed: &mut Followed, port: &ExpectedPort) {
        for (endpoint, share) in std::mem::take(&mut followed.shares.to) {
            let to = FrontendKey { address: Some(endpoint.ip()), port: endpoint.port(), ..self.to };
            let walk = Walk::new(self.dump, to, self.client);
            let is_late = |base: &Base| base.priority > foreign::OURS && base.kind == "filter";
            let mut met = Followed::default();
            let mut hooks = vec![if self.client == Client::Node { "output" } else { "prerouting" }];
            if port.on_host.contains(&endpoint) {
                hooks.push("input");
            } else if self.client != Client::Node {
                hooks.push("forward");
            }
            for (index, hook) in hooks.into_iter().enumerate() {
                walk.hook(hook, &mut met, |base| index > 0 || is_late(base));
            }
            let (silent, refused) = (met.shares.silent.min(1.0), met.shares.refused.min(1.0));
            followed.shares.silent += share * silent;
            followed.shares.refused += share * refused;
            followed.unread.extend(met.unread);
            let arrives = share * (1.0 - silent - refused).max(0.0);
            if arrives > 0.0 {
                followed.shares.to.insert(endpoint, arrives);
            }
        }
    }

    /// Which endpoints see the address of who is outside, and who else gets no answers for it.
    fn leave(&self, followed: &mut Followed, port: &ExpectedPort, packet: Packet) {
        let mark = self.mark.get();
        let pods: Vec<SocketAddr> =
            followed.shares.to.keys().filter(|to| !port.on_host.contains(to)).copied().collect();
        let leaving = |to: SocketAddr| Leaving { mark, from: None, to, protocol: self.to.protocol };
        match self.client {
            Client::Outside => {
                // Those of the node answer through it in any case.
                for to in pods.into_iter().filter(|to| !port.on_node.contains(to)) {
                    let packet = Packet { to: Some(to.ip()), port: to.port(), translated: true, ..packet };
                    match self.leaves(leaving(to), packet, followed) {
                        Match::Yes => {}
                        Match::No => drop(followed.keep_source.insert(to)),
                        Match::Perhaps => {
                            followed.unsure.push(Open::new(format!("from outside to {to}"), UNSURE));
                        }
                    }
                }
            }
            Client::Pod => {
                let mut alone: Vec<SocketAddr> = Vec::new();
                for to in pods.into_iter().filter(|to| port.on_node.contains(to)) {
                    let own = self.own_marks.borrow().get(&to).copied().unwrap_or_default();
                    let itself = Leaving { mark: mark | own, from: Some(to.ip()), ..leaving(to) };
                    let packet = Packet { to: Some(to.ip()), port: to.port(), translated: true, ..packet };
                    match self.leaves(itself, packet, followed) {
                        Match::Yes => {}
                        Match::No => alone.push(to),
                        Match::Perhaps => {
                            followed.unsure.push(Open::new(format!("from {to} to itself"), UNSURE));
                        }
                    }
                }
                followed.worse.extend(Worse::to_themselves(&alone, &followed.shares));
                followed.worse.extend(self.strangers(port, packet));
            }
            Client::Node => {}
        }
    }

    /// Whether what leaves gets an address of the node. A rule of others that takes the proxy's mark away is told.
    fn leaves(&self, leaving: Leaving, packet: Packet, followed: &mut Followed) -> Match {
        let others = &self.dump.others;
        let (mark, by) = others.mark(Packet { mark: u32::try_from(leaving.mark).ok(), ..packet });
        let by_others = others.masquerades(Packet { mark, ..packet });
        let with = |mark: u32| leaving::is_masqueraded(self.dump, Leaving { mark: mark.into(), ..leaving });
        match mark.map(with) {
            _ if by_others == Match::Yes => Match::Yes,
            Some(true) => Match::Yes,
            None => Match::Perhaps,
            Some(false) => {
                let is_taken = by_others == Match::No && leaving::is_masqueraded(self.dump, leaving);
                if let Some(place) = by.filter(|_| is_taken) {
                    let what = "mark: packets lose that of the proxy, and keep their source".to_owned();
                    followed.strange.push((place, what));
                }
                by_others
            }
        }
    }

    /// Who comes from outside of the cluster to a cluster IP, where the proxy knows pods and masquerades all others.
    fn strangers(&self, port: &ExpectedPort, packet: Packet) -> Option<Worse> {
        let style = &self.dump.style;
        let knows = style.marks_all || style.pods.is_some();
        if !knows || (self.dump.is_as_written && !style.marks_by_chain) {
            return None;
        }
        let walk = Walk::new(self.dump, self.to, Client::Outside);
        let mut followed = Followed::default();
        walk.hook("prerouting", &mut followed, |_| true);
        walk.leave(&mut followed, port, Packet { client: Client::Outside, ..packet });
        let is_lost = |to: &SocketAddr| followed.keep_source.contains(to);
        let lost: f64 = followed.shares.to.iter().filter(|(to, _)| is_lost(to)).map(|(_, share)| share).sum();
        Worse::of("outside of the cluster".to_owned(), lost)
    }

    /// Whether who sends it is whom a rule asks for; `None` when no proxy asks so.
    fn is_from(&self, rule: &Rule) -> Option<bool> {
        if rule.from_node && self.client != Client::Node {
            return Some(false);
        }
        if let Some((not, net)) = &rule.source
            && net.prefix_len() == net.max_prefix_len()
        {
            // One host is an endpoint that asks itself.
            return Some(*not);
        }
        match Pods::of(rule) {
            Some((not, pods)) if self.dump.pods.as_ref() == Some(&pods) => {
                Some((self.client == Client::Pod) != not)
            }
            Some(_) => None,
            None if rule.source.is_some() || rule.interface.is_some() => None,
            None => Some(true),
        }
    }

    fn takes(&self, rule: &Rule, chain: &str) -> Takes {
        let (address, set) = (self.to.address, &rule.to_set);
        let in_set = |set: &str| match address {
            Some(ip) => contains(self.dump, set, &ip.to_string()),
            None => set == NODE_PORT_IPS && takes_node_ports(self.dump),
        };
        // Once translated a packet is asked nothing more here; until then it is to the frontend.
        let about = rule.destination.as_ref().is_none_or(|(not, net)| match address {
            Some(address) => net.contains(&address) != *not,
            None => *not,
        }) && set.as_ref().is_none_or(|(not, set)| in_set(set) != *not)
            && (!rule.to_node || address.is_none())
            && !rule.not_new
            && (!rule.tracked || !self.is_untracked)
            && rule.protocol.is_none_or(|protocol| protocol == self.to.protocol)
            && rule.port.is_none_or(|port| port == self.to.port);
        if !about {
            return Takes::No;
        }
        let decides_nothing = is_mark(rule) || matches!(rule.act, Act::Remember(_) | Act::Keep(..));
        let unread = if decides_nothing { Takes::No } else { Takes::Unread };
        if rule.act == Act::Unknown || rule.is_odd {
            return unread;
        }
        if let Some(set) = &rule.known_client {
            return if set.starts_with("affinity-") { Takes::No } else { unread };
        }
        let is_range = |(not, _): &(bool, ipnet::IpNet)| *not;
        if !rule.not_from.is_empty() || (is_firewall(chain) && rule.source.as_ref().is_some_and(is_range)) {
            // Clients are within the ranges.
            return if is_firewall(chain) { Takes::No } else { unread };
        }
        match self.is_from(rule) {
            Some(true) => Takes::Yes,
            Some(false) => Takes::No,
            None => unread,
        }
    }

    /// The mark that a rule sets.
    fn marked(&self, mark: u64, rule: &Rule) -> u64 {
        match &rule.act {
            Act::Mark(Marking::Or(bits)) => mark | bits,
            Act::Mark(Marking::Xor(bits)) => mark ^ bits,
            Act::Verdict(Verdict::Jump(to)) if to == MARKS => {
                let mut rules = self.dump.chains.get(MARKS).into_iter().flatten();
                let ends = |rule: &&Rule| !matches!(rule.act, Act::Verdict(_));
                let plain =
                    rules.by_ref().take_while(ends).filter(|rule| self.takes(rule, MARKS) == Takes::Yes);
                plain.fold(mark, |mark, rule| self.marked(mark, rule))
            }
            _ => mark,
        }
    }

    /// Walks a chain with a share of the packets.
    fn chain(&self, name: &str, share: f64, depth: usize, nested: usize, followed: &mut Followed) -> Out {
        let mut out = Out { on: share, accepted: 0.0 };
        let mut own = None;
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
            if let (true, Some((false, itself))) = (is_mark(rule), &rule.source)
                && itself.prefix_len() == itself.max_prefix_len()
                && !rule.is_odd
            {
                own = Some((itself.addr(), self.marked(0, rule)));
                continue;
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
            let within = (depth, nested);
            match &rule.act {
                _ if is_mark(rule) => self.mark.set(self.marked(self.mark.get(), rule)),
                Act::Translate(to) => {
                    if let Some((_, mark)) = own.filter(|(itself, _)| *itself == to.ip()) {
                        self.own_marks.borrow_mut().insert(*to, mark);
                    }
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
        (depth, nested): (usize, usize),
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
            Verdict::Other(word) if word == "return" => {}
            Verdict::Other(word) if word == "continue" => return false,
            Verdict::Other(_) => {
                followed.unread.push(place);
                return false;
            }
        }
        true
    }
}

/// Whether it marks.
fn is_mark(rule: &Rule) -> bool {
    match &rule.act {
        Act::Mark(_) => true,
        Act::Verdict(Verdict::Jump(to)) => to == MARKS,
        _ => false,
    }
}

/// Where pods are, if the proxy was told so by a network.
fn pods(dump: &Dump) -> Option<ipnet::IpNet> {
    match dump.pods {
        Some(Pods::Net(net)) => Some(net),
        Some(Pods::Interface(_)) | None => None,
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
