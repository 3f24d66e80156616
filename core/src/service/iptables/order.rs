//! The order of rules in a service port's own chains, and rules of no kind that the proxy writes there.
//!
//! Invariant: a chain's rules are of kinds that follow each other, as the proxy writes them: a mark that comes after the
//! rule that takes the packet away marks nothing. What ends a packet's way is told where packets are followed. Source:
//! `pkg/proxy/iptables/proxier.go` `syncProxyRules`, `writeServiceToEndpointRules`.

use super::chain;
use super::dump::{Dump, Rule};
use super::follow::{is_choice, place};
use super::way_in::{MARK, asks_for_pods, is_to};
use crate::service::expected::ExpectedPort;
use crate::service::fault::{Difference, Fault, Kind};

/// A kind of rules: those with lower numbers come first.
type Role = (u8, Kind, &'static str);

const MARKS: Role = (
    0,
    Kind::Masquerade,
    "packets that were taken away before keep their source, so replies find no way back",
);
const HAIRPIN: Role = (0, Kind::Masquerade, "the endpoint that asks its own Service gets no answer");
const TRANSLATES: Role = (1, Kind::Empty, "rules after it are not asked");
const STAYS: Role = (1, Kind::Affinity, "packets were spread before, so clients do not stay");
const CHOOSES: Role = (2, Kind::Shares, "rules after it get no packet");
const PODS: Role = (0, Kind::Backend, "packets of the node's pods were taken away before");
const MARKS_NODE: Role =
    (1, Kind::Masquerade, "the node's own packets keep their source, so replies get lost");
const NODE: Role = (2, Kind::Backend, "the node's own packets were taken away before");
const LOCAL: Role =
    (3, Kind::Backend, "it takes every packet: the node and its pods reach only endpoints of the node");
const ALL: Role = (1, Kind::Masquerade, "it takes every packet, so none after it is marked");
const ADMITS: Role = (0, Kind::SourceRange, "");

/// Compares the order, and tells rules of no such kind.
pub(super) fn of_order(dump: &Dump, port: &ExpectedPort, faults: &mut Vec<Fault>) {
    let name = &port.name;
    let (cluster, local) = (chain::cluster(name), chain::local(name));
    let external = chain::external(name);
    for service in [&cluster, &local] {
        check(dump, service, Kind::Foreign, faults, |rule| match rule {
            _ if is_to(rule, MARK) => Some(MARKS),
            _ if is_choice(rule) => Some(CHOOSES),
            _ if rule.recent.is_some() => Some(STAYS),
            _ => None,
        });
    }
    let is_plain = |rule: &Rule| !asks_for_pods(rule) && rule.is_for_all(false);
    let of_node = |rule: &Rule| rule.from_node && Rule { from_node: false, ..rule.clone() }.is_for_all(false);
    check(dump, &external, Kind::Foreign, faults, |rule| match port.policy.external_local {
        true if is_to(rule, &cluster) && asks_for_pods(rule) && !rule.from_node => Some(PODS),
        true if is_to(rule, MARK) && of_node(rule) => Some(MARKS_NODE),
        true if is_to(rule, &cluster) && of_node(rule) => Some(NODE),
        true if is_to(rule, &local) && is_plain(rule) => Some(LOCAL),
        false if is_to(rule, MARK) && is_plain(rule) => Some(MARKS),
        false if is_to(rule, &cluster) && is_plain(rule) => Some(ALL),
        _ => None,
    });
    let ranges = !port.source_ranges.is_empty();
    if ranges {
        check(dump, &chain::firewall(name), Kind::SourceRange, faults, |rule| {
            let admits = is_to(rule, &external) && rule.source.as_ref().is_some_and(|source| !source.negated);
            let only = Rule { source: None, ..rule.clone() }.is_for_all(false);
            (admits && only).then_some(ADMITS)
        });
    }
    let mut endpoints: Vec<_> = port.cluster.iter().chain(&port.local).collect();
    endpoints.sort_unstable();
    endpoints.dedup();
    for endpoint in endpoints {
        check(dump, &chain::endpoint(name, *endpoint), Kind::Foreign, faults, |rule| match rule {
            _ if is_to(rule, MARK) => Some(HAIRPIN),
            _ if is_to(rule, "DNAT") => Some(TRANSLATES),
            _ => None,
        });
    }
}

fn check(
    dump: &Dump,
    name: &str,
    of_strangers: Kind,
    faults: &mut Vec<Fault>,
    role: impl Fn(&Rule) -> Option<Role>,
) {
    let mut known: Vec<(&Rule, Role)> = Vec::new();
    for rule in dump.rules("nat", name) {
        if let Some(role) = role(rule) {
            known.push((rule, role));
        } else if let Some(target) = rule.target.as_deref().filter(|target| *target != name)
            // What ends here, or is not known, is told where packets are followed; what only writes a log is not.
            && (target.starts_with("KUBE-") || matches!(target, "MARK" | "CONNMARK"))
        {
            faults.push(Fault {
                difference: Difference::Extra,
                kind: of_strangers,
                object: target.to_owned(),
                place: place("nat", name, rule),
                endpoint: None,
                detail: match of_strangers {
                    Kind::SourceRange => "clients of every address that it takes are let in".to_owned(),
                    _ => format!("a rule that no proxy writes there leads packets to {target}"),
                },
            });
        }
    }
    for (rule, (_, kind, detail)) in misplaced(&known) {
        let target = rule.target.clone().unwrap_or_default();
        faults.push(Fault {
            difference: Difference::Wrong,
            kind,
            place: place("nat", name, rule),
            endpoint: None,
            detail: format!("it is not in its place in the order: {detail}"),
            object: target,
        });
    }
}

/// The rules that are too late, or those that are too early where these are fewer.
fn misplaced<'a>(rules: &[(&'a Rule, Role)]) -> Vec<(&'a Rule, Role)> {
    let mut highest = 0;
    let mut late = Vec::new();
    for (rule, role) in rules {
        if role.0 < highest {
            late.push((*rule, *role));
        }
        highest = highest.max(role.0);
    }
    let mut lowest = u8::MAX;
    let mut early = Vec::new();
    for (rule, role) in rules.iter().rev() {
        if role.0 > lowest {
            early.push((*rule, *role));
        }
        lowest = lowest.min(role.0);
    }
    if early.len() < late.len() { early } else { late }
}
