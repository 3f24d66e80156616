//! Rules of others that take packets to Services before the proxy's are asked.
//!
//! Invariant: a rule that is understood as a whole and ends the packet's way is told, and followed; one that names the
//! address and has more conditions (interfaces, marks, sources) is told as not understood. Rules with such conditions
//! that name no address are nobody's fault here, as networks write many; where they, or the chains that they lead to,
//! may take the packets, that is not examined. Looks into the chains of the kernel's own hook
//! and those that they lead to, in the order in which the tables are asked
//! (`include/uapi/linux/netfilter_ipv4.h`): raw, mangle, nat.

use std::net::{IpAddr, SocketAddr};

use super::beyond;
use super::dump::{Dump, Rule};
use super::follow::place;
use super::lists::pods;
use crate::service::RouteKind;
use crate::service::expected::{ExpectedPort, FrontendKey};
use crate::service::fault::{Difference, Fault, Kind, Place};
use crate::service::follow::{Client, DEEPEST, Open};
use crate::service::passage::{Flow, Match, NODE_LOCAL_DNS, Packet, at_node_local_dns, rule_words};

/// Such a rule.
pub(super) struct Found<'a> {
    table: &'static str,
    chain: &'a str,
    rule: &'a Rule,
    /// The port that packets came to.
    port: u16,
}

impl Found<'_> {
    pub(super) fn target(&self) -> String {
        self.rule.target.clone().unwrap_or_default()
    }

    /// Where its packets go, one as many as the other; none where that is nowhere else, or at too many addresses.
    pub(super) fn destinations(&self) -> Vec<SocketAddr> {
        let written = || option(self.rule, "--to-destination").and_then(|words| range(words, self.port));
        self.rule.to_destination.map(|to| vec![to]).or_else(written).unwrap_or_default()
    }

    /// In words.
    fn destination(&self) -> Option<String> {
        let several = || option(self.rule, "--to-destination").map(str::to_owned);
        match self.destinations().as_slice() {
            [one] => Some(one.to_string()),
            _ => several(),
        }
    }

    pub(super) fn place(&self) -> Place {
        place(self.table, self.chain, self.rule)
    }

    /// The port of the node itself to which they go, of several the first.
    pub(super) fn redirected_to(&self) -> Option<u16> {
        let first = |ports: &str| ports.split('-').next()?.parse().ok();
        let to = option(self.rule, "--to-ports").and_then(first);
        (self.rule.target.as_deref() == Some("REDIRECT")).then(|| to.unwrap_or(self.port))
    }

    /// Whether the packets go on, to the address that nobody translates.
    pub(super) fn leaves_untranslated(&self) -> bool {
        matches!(self.rule.target.as_deref(), Some("ACCEPT" | "RETURN")) || is_untracked(self.rule)
    }
}

/// The addresses of `10.0.0.1-10.0.0.9:80`; without a port packets keep their own.
fn range(written: &str, port: u16) -> Option<Vec<SocketAddr>> {
    const MOST: u32 = 1024;
    let (addresses, port) = match written.rsplit_once(':').filter(|_| written.contains('.')) {
        Some((addresses, to)) => (addresses, to.parse().ok()?),
        None => (written, port),
    };
    let (low, high) = addresses.split_once('-').unwrap_or((addresses, addresses));
    let at = |ip: IpAddr| SocketAddr::new(ip, port);
    match (low.parse().ok()?, high.parse().ok()?) {
        (IpAddr::V4(low), IpAddr::V4(high)) if u32::from(high).checked_sub(u32::from(low))? < MOST => {
            Some((u32::from(low)..=u32::from(high)).map(|ip| at(IpAddr::V4(ip.into()))).collect())
        }
        (low, high) => (low == high).then(|| vec![at(low)]),
    }
}

/// What may be one, and is not followed.
#[derive(Default)]
pub(super) struct Doubts {
    /// Those that name the address and are not understood.
    pub(super) unread: Vec<Place>,
    /// Those of which nobody can say, in words.
    pub(super) unsure: Vec<Open>,
}

/// The first such rule; those before it that may be one go into `doubts`.
pub(super) fn first<'a>(
    dump: &'a Dump,
    (hook, client): (&'static str, Client),
    to: FrontendKey,
    doubts: &mut Doubts,
) -> Option<Found<'a>> {
    ["raw", "mangle", "nat"].into_iter().find_map(|table| {
        let rules = dump.rules(table, hook);
        let before =
            if table == "nat" { kernel_chain_ends_before(rules, "KUBE-SERVICES") } else { rules.len() };
        let rules = rules.get(..before).unwrap_or_default();
        match in_chain(dump, (table, hook, rules), (to, client), 0, doubts) {
            Way::Taken(found) => Some(found),
            Way::Accepted | Way::On => None,
        }
    })
}

/// How a packet comes out of a chain.
enum Way<'a> {
    Taken(Found<'a>),
    /// It leaves the table.
    Accepted,
    On,
}

fn in_chain<'a>(
    dump: &'a Dump,
    (table, chain, rules): (&'static str, &'a str, &'a [Rule]),
    (to, client): (FrontendKey, Client),
    depth: usize,
    doubts: &mut Doubts,
) -> Way<'a> {
    for rule in rules {
        let target = rule.target.as_deref().unwrap_or_default();
        let own = dump.chain(table, target).filter(|_| depth < DEEPEST && !target.starts_with("KUBE-"));
        let ends = matches!(target, "DROP" | "DNAT" | "ACCEPT" | "RETURN" | "REDIRECT" | "NETMAP" | "TPROXY")
            || is_untracked(rule);
        if !ends && own.is_none() {
            continue;
        }
        match takes(dump, rule, to, client) {
            Takes::Perhaps | Takes::Any
                if own.is_some_and(|next| {
                    may_take(dump, (table, target, &next.rules), (to, client), depth)
                }) =>
            {
                let question = format!(
                    "come to the proxy's rules: chain {target} may take them before, and no dump tells what {} asks for that leads there",
                    rule_words(&place(table, chain, rule))
                );
                doubts.unsure.push(Open::new(format!("to {to}"), question));
            }
            Takes::No => {}
            // What leaves a chain of others goes on where that was called.
            Takes::Any if own.is_some() || target == "RETURN" && depth > 0 => {}
            // In tables that do not translate these only leave the table, and drops are followed elsewhere.
            Takes::Any if table != "nat" && !is_untracked(rule) => {}
            Takes::Any => {
                let question = format!(
                    "come to the proxy's rules: {} may take them before with {target}, and no dump tells what it asks for",
                    rule_words(&place(table, chain, rule))
                );
                doubts.unsure.push(Open::new(format!("to {to}"), question));
            }
            Takes::Yes if is_node_local_dns(rule) => {
                doubts.unsure.push(at_node_local_dns(to, &place(table, chain, rule)));
            }
            // Where it leads to may be harmless.
            Takes::Perhaps if own.is_some() => {}
            // In tables that do not translate these only leave the table.
            Takes::Perhaps if matches!(target, "ACCEPT" | "RETURN") && table != "nat" => {}
            Takes::Perhaps => doubts.unread.push(place(table, chain, rule)),
            Takes::Yes => match (own, target) {
                (Some(next), _) => {
                    match in_chain(dump, (table, target, &next.rules), (to, client), depth + 1, doubts) {
                        Way::On => {}
                        way => return way,
                    }
                }
                (None, "RETURN") if depth > 0 => return Way::On,
                (None, "RETURN" | "ACCEPT") if table != "nat" => return Way::Accepted,
                (None, _) => return Way::Taken(Found { table, chain, rule, port: to.port }),
            },
        }
    }
    Way::On
}

/// Whether a chain may take packets that come there; what drops them in tables before is told where those are followed.
fn may_take<'a>(
    dump: &'a Dump,
    (table, chain, rules): (&'static str, &'a str, &'a [Rule]),
    to: (FrontendKey, Client),
    depth: usize,
) -> bool {
    let mut inside = Doubts::default();
    match in_chain(dump, (table, chain, rules), to, depth + 1, &mut inside) {
        Way::Taken(found) => table == "nat" || is_untracked(found.rule),
        Way::Accepted | Way::On => table == "nat" && !(inside.unread.is_empty() && inside.unsure.is_empty()),
    }
}

/// Whether connections are not tracked, and so not translated.
pub(super) fn is_untracked(rule: &Rule) -> bool {
    match rule.target.as_deref() {
        Some("NOTRACK") => true,
        Some("CT") => rule.other.iter().any(|word| word == "--notrack"),
        _ => false,
    }
}

/// Rules by which node-cache has what goes to the address of the cluster's DNS delivered at the node itself, where it
/// has that address, too (`cmd/node-cache/app` of kubernetes/dns, since 1.22).
fn is_node_local_dns(rule: &Rule) -> bool {
    is_untracked(rule)
        && rule.destination_port == Some(53)
        && rule.comment.as_deref().is_some_and(|words| words.starts_with(NODE_LOCAL_DNS))
}

enum Takes {
    Yes,
    /// It names the address, or the node port, and asks for more.
    Perhaps,
    /// It names neither, and asks for more.
    Any,
    No,
}

fn takes(dump: &Dump, rule: &Rule, to: FrontendKey, client: Client) -> Takes {
    let packet = Packet {
        client,
        to: to.address,
        port: to.port,
        protocol: to.protocol,
        to_node: to.address.is_none(),
        translated: false,
        mark: None,
        pods: pods(dump),
        flow: Flow::First,
    };
    let asks_for_port = || {
        rule.destination_port.is_some()
            || rule.other.iter().any(|word| matches!(&**word, "--dport" | "--dports"))
    };
    let is_named = || match (&rule.destination, to.address) {
        (Some(net), Some(_)) => !net.negated,
        (None, None) => asks_for_port(),
        _ => false,
    };
    match beyond::takes(rule, &packet) {
        Match::Yes => Takes::Yes,
        Match::No => Takes::No,
        Match::Perhaps if is_named() => Takes::Perhaps,
        Match::Perhaps => Takes::Any,
    }
}

/// The value of an option among the words that only some rules have.
fn option<'a>(rule: &'a Rule, name: &str) -> Option<&'a str> {
    let at = rule.other.iter().position(|word| word == name)?;
    rule.other.get(at + 1).map(String::as_str)
}

/// Tells it for each address, and for the node's own packets to the cluster IP.
pub(super) fn faults(dump: &Dump, port: &ExpectedPort, faults: &mut Vec<Fault>) {
    for frontend in &port.frontends {
        let inside = frontend.kind == RouteKind::ClusterIp;
        let other = if inside {
            ("OUTPUT", Client::Node, " from the node itself")
        } else {
            ("PREROUTING", Client::Outside, " from outside")
        };
        let mut told = Vec::new();
        for (hook, client, whose) in [("PREROUTING", Client::Pod, ""), other] {
            // Those that may be one are told where packets are followed.
            let Some(found) = first(dump, (hook, client), frontend.key, &mut Doubts::default()) else {
                continue;
            };
            if told.contains(&found.place()) {
                continue;
            }
            told.push(found.place());
            faults.push(Fault {
                difference: Difference::Extra,
                kind: Kind::Foreign,
                object: found.target(),
                place: found.place(),
                endpoint: found.destination(),
                detail: format!(
                    "a rule that is not the proxy's takes packets{whose} to {} first, and ends their way with {}",
                    frontend.key,
                    found.target()
                ),
            });
        }
    }
}

/// How many rules of a chain come before the jump to another; all, when there is none.
fn kernel_chain_ends_before(rules: &[Rule], target: &str) -> usize {
    rules
        .iter()
        .position(|rule| rule.target.as_deref() == Some(target) && rule.is_for_all(true))
        .unwrap_or(rules.len())
}
