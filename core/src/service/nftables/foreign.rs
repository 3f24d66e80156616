//! Rules of other tables that take packets to Services before the proxy's are asked, in a list of the whole ruleset.
//!
//! Invariant: as in iptables mode: a rule that is understood as a whole and drops, translates or takes off tracking is
//! told and followed; one that names the address and has more conditions is told as not understood. It stands in a base
//! chain of the hook before translation, at a priority below the proxy's -100 (below tracking's -200 to take that off).

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use ipnet::IpNet;
use serde_json::Value;

use super::emit::TABLE;
use super::reading::net_of;
use crate::model::port::Protocol;
use crate::service::RouteKind;
use crate::service::expected::{ExpectedPort, FrontendKey};
use crate::service::fault::{Difference, Fault, Kind, Place};
use crate::service::passage::NODE_LOCAL_DNS;

/// The priority of the proxy's own translation (`dstnat`).
pub(super) const OURS: i64 = -100;

/// The priority at which connections come under tracking (`NF_IP_PRI_CONNTRACK`).
const TRACKING: i64 = -200;

/// What such a rule does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Does {
    /// Nothing comes through.
    Drop,
    /// To an address, and to a port where it names one.
    Translate(IpAddr, Option<u16>),
    /// The connection is not tracked, so nothing translates it.
    Untrack,
}

/// A rule that drops, or translates, what goes to some address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// `family name` of its table.
    pub table: String,
    /// Its base chain.
    pub chain: String,
    /// prerouting, or output for the node's own packets.
    pub hook: String,
    /// As `nft -a` shows it.
    pub handle: Option<u64>,
    /// Whose packets it takes: all, when it names none.
    pub destinations: Vec<IpNet>,
    /// Only this protocol's.
    pub protocol: Option<Protocol>,
    /// Only this port's.
    pub port: Option<u16>,
    /// What it does.
    pub does: Does,
    /// Whether all of its conditions are understood.
    pub is_whole: bool,
    /// Whether it says that it is the rule of `NodeLocal DNSCache`.
    pub is_its_own: bool,
}

impl Rule {
    /// Whether it takes packets to an address of a Service.
    #[must_use]
    pub fn takes(&self, to: FrontendKey) -> bool {
        let is_its = |net: &IpNet| to.address.is_some_and(|address| net.contains(&address));
        (self.destinations.is_empty() || self.destinations.iter().any(is_its))
            && self.protocol.is_none_or(|protocol| protocol == to.protocol)
            && self.port.is_none_or(|port| port == to.port)
    }

    /// Whether it is that of `NodeLocal DNSCache`, which has the address of the cluster's DNS at the node, too.
    pub(super) fn is_node_local_dns(&self) -> bool {
        let own = IpAddr::V4(Ipv4Addr::new(169, 254, 20, 10));
        let is_its = self.is_its_own || self.destinations.iter().any(|net| net.addr() == own);
        self.does == Does::Untrack && self.port == Some(53) && is_its
    }

    pub(super) fn place(&self) -> Place {
        Place { handle: self.handle, ..Place::within(&self.table, &self.chain) }
    }
}

/// Reads them, and whether there is the chain that iptables mode always has.
pub(super) fn read(items: &[Value], family: &str) -> (Vec<Rule>, bool) {
    let text = |object: &Value, field: &str| object.get(field).and_then(Value::as_str).map(str::to_owned);
    let mine = |object: &Value| {
        let of = text(object, "family").unwrap_or_default();
        let name = text(object, "table").unwrap_or_default();
        ((of == family || of == "inet") && name != TABLE).then_some((of, name))
    };
    let mut base: BTreeMap<(String, String, String), (i64, String)> = BTreeMap::new();
    let mut has_iptables_mode = false;
    for chain in items.iter().filter_map(|item| item.get("chain")) {
        let (Some((of, table)), Some(name)) = (mine(chain), text(chain, "name")) else { continue };
        has_iptables_mode |= table == "nat" && of == family && name == "KUBE-SERVICES";
        let priority = chain.get("prio").and_then(Value::as_i64);
        if let Some(hook) = text(chain, "hook").filter(|hook| matches!(&**hook, "prerouting" | "output"))
            && let Some(priority) = priority.filter(|priority| *priority < OURS)
        {
            base.insert((of, table, name), (priority, hook));
        }
    }
    let named = items.iter().filter_map(|item| item.get("set")).filter_map(|set| {
        let ((of, table), name) = (mine(set)?, text(set, "name")?);
        Some(((format!("{of} {table}"), name), set.get("elem")?.as_array()?.as_slice()))
    });
    let sets: Sets<'_> = named.collect();
    let mut rules: Vec<(i64, Rule)> = items
        .iter()
        .filter_map(|item| item.get("rule"))
        .filter_map(|rule| {
            let ((of, table), chain) = (mine(rule)?, text(rule, "chain")?);
            let place = (of, table, chain);
            let (priority, hook) = base.get(&place)?.clone();
            let (of, table, chain) = place;
            let handle = rule.get("handle").and_then(Value::as_u64);
            let place = Place { handle, ..Place::within(&format!("{of} {table}"), &chain) };
            let rule = understood(rule, place, hook, &sets)?;
            (rule.does != Does::Untrack || priority < TRACKING).then_some((priority, rule))
        })
        .collect();
    rules.sort_by_key(|(priority, _)| *priority);
    (rules.into_iter().map(|(_, rule)| rule).collect(), has_iptables_mode)
}

/// Reads `dnat to ADDRESS` with or without a port.
fn target(body: &Value) -> Option<Does> {
    let address = body.get("addr")?.as_str()?.parse().ok()?;
    let port = body.get("port").map(|port| port.as_u64().and_then(|port| u16::try_from(port).ok()));
    match port {
        Some(None) => None,
        port => Some(Does::Translate(address, port.flatten())),
    }
}

/// Elements of named sets, by `family name` of the table and name.
type Sets<'a> = BTreeMap<(String, String), &'a [Value]>;

fn understood(rule: &Value, place: Place, hook: String, sets: &Sets<'_>) -> Option<Rule> {
    let mut found = Rule {
        table: place.table,
        chain: place.chain,
        hook,
        handle: place.handle,
        destinations: Vec::new(),
        protocol: None,
        port: None,
        does: Does::Drop,
        is_whole: true,
        is_its_own: rule
            .get("comment")
            .and_then(Value::as_str)
            .is_some_and(|words| words.starts_with(NODE_LOCAL_DNS)),
    };
    for statement in rule.get("expr")?.as_array()? {
        let (word, body) = statement.as_object()?.iter().next()?;
        found.does = match word.as_str() {
            "match" => {
                found.is_whole &= condition(&mut found, body, sets).is_some();
                continue;
            }
            "counter" | "comment" | "log" => continue,
            "drop" | "reject" => Does::Drop,
            "notrack" => Does::Untrack,
            "dnat" => target(body).unwrap_or_else(|| {
                found.is_whole = false;
                Does::Drop
            }),
            "redirect" | "tproxy" | "queue" => {
                found.is_whole = false;
                Does::Drop
            }
            // Marks, and verdicts that end no packet's way.
            _ => return None,
        };
        // Of those with more conditions only what names the address is told.
        return (found.is_whole || !found.destinations.is_empty()).then_some(found);
    }
    None
}

/// Reads a condition; `None` when it is not one that is known.
fn condition(rule: &mut Rule, body: &Value, sets: &Sets<'_>) -> Option<()> {
    let known = |name: &str| Protocol::ALL.into_iter().find(|known| known.lower() == name);
    let (left, right) = (body.get("left")?, body.get("right")?);
    if body.get("op").and_then(Value::as_str) != Some("==") {
        return None;
    }
    if left.get("meta").and_then(|meta| meta.get("key")).and_then(Value::as_str) == Some("l4proto") {
        rule.protocol = Some(known(right.as_str()?)?);
        return Some(());
    }
    let payload = left.get("payload")?;
    match payload.get("field")?.as_str()? {
        "daddr" => {
            let name = right.as_str().and_then(|right| right.strip_prefix('@'));
            let named = name.and_then(|name| sets.get(&(rule.table.clone(), name.to_owned())).copied());
            let own = || right.get("set").and_then(Value::as_array).map(Vec::as_slice);
            let all = named.or_else(own).unwrap_or(std::slice::from_ref(right));
            rule.destinations = all.iter().map(net_of).collect::<Option<_>>()?;
        }
        "dport" => {
            rule.port = Some(u16::try_from(right.as_u64()?).ok()?);
            rule.protocol = known(payload.get("protocol")?.as_str()?).or(rule.protocol);
        }
        _ => return None,
    }
    Some(())
}

/// Tells it for each address, and for the node's own packets to the cluster IP.
pub(super) fn faults(rules: &[Rule], port: &ExpectedPort, faults: &mut Vec<Fault>) {
    for frontend in &port.frontends {
        let inside = frontend.kind == RouteKind::ClusterIp;
        let ways = [("prerouting", ""), ("output", " from the node itself")];
        for (hook, whose) in ways.into_iter().filter(|(hook, _)| inside || *hook == "prerouting") {
            let takes = |rule: &&Rule| {
                rule.hook == hook && rule.is_whole && rule.takes(frontend.key) && !rule.is_node_local_dns()
            };
            let Some(rule) = rules.iter().find(takes) else { continue };
            let (object, how, endpoint) = match rule.does {
                Does::Drop => ("drop", "drops", None),
                Does::Translate(address, port) => {
                    let to = SocketAddr::new(address, port.unwrap_or(frontend.key.port));
                    ("translate", "translates", Some(to.to_string()))
                }
                Does::Untrack => {
                    ("notrack", "takes the tracking off, without which nothing is translated, from", None)
                }
            };
            faults.push(Fault {
                difference: Difference::Extra,
                kind: Kind::Foreign,
                object: object.to_owned(),
                place: rule.place(),
                endpoint,
                detail: format!(
                    "a rule that is not the proxy's {how} packets{whose} to {} first",
                    frontend.key
                ),
            });
        }
    }
}
