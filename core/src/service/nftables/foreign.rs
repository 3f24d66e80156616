//! Rules of other tables that take packets to Services before the proxy's are asked, in a list of the whole ruleset.
//!
//! Invariant: as in iptables mode: only a rule that names the address, is understood as a whole and drops or translates
//! is told; it stands in a base chain of the hook before translation, at a priority below the proxy's -100.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use ipnet::IpNet;
use serde_json::Value;

use super::dump::{Act, net_of, translation};
use super::emit::TABLE;
use crate::model::port::Protocol;
use crate::service::expected::{ExpectedPort, FrontendKey};
use crate::service::fault::{Difference, Fault, Kind, Place};

/// The priority of the proxy's own translation (`dstnat`).
const OURS: i64 = -100;

/// A rule that drops, or translates, what goes to some address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// `family name` of its table.
    pub table: String,
    /// Its base chain.
    pub chain: String,
    /// As `nft -a` shows it.
    pub handle: Option<u64>,
    /// Whose packets it takes.
    pub destination: IpNet,
    /// Only this protocol's.
    pub protocol: Option<Protocol>,
    /// Only this port's.
    pub port: Option<u16>,
    /// Where to, when it translates.
    pub to: Option<SocketAddr>,
}

impl Rule {
    /// Whether it takes packets to an address of a Service.
    #[must_use]
    pub fn takes(&self, to: FrontendKey) -> bool {
        to.address.is_some_and(|address| self.destination.contains(&address))
            && self.protocol.is_none_or(|protocol| protocol == to.protocol)
            && self.port.is_none_or(|port| port == to.port)
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
    let mut base: BTreeSet<(String, String, String)> = BTreeSet::new();
    let mut has_iptables_mode = false;
    for chain in items.iter().filter_map(|item| item.get("chain")) {
        let (Some((of, table)), Some(name)) = (mine(chain), text(chain, "name")) else { continue };
        has_iptables_mode |= table == "nat" && of == family && name == "KUBE-SERVICES";
        let early = chain.get("prio").and_then(Value::as_i64).is_some_and(|priority| priority < OURS);
        if early && chain.get("hook").and_then(Value::as_str) == Some("prerouting") {
            base.insert((of, table, name));
        }
    }
    let rules = items.iter().filter_map(|item| item.get("rule")).filter_map(|rule| {
        let ((of, table), chain) = (mine(rule)?, text(rule, "chain")?);
        let place = (of, table, chain);
        if !base.contains(&place) {
            return None;
        }
        let (of, table, chain) = place;
        let handle = rule.get("handle").and_then(Value::as_u64);
        understood(rule).map(|(destination, protocol, port, to)| Rule {
            table: format!("{of} {table}"),
            chain,
            handle,
            destination,
            protocol,
            port,
            to,
        })
    });
    (rules.collect(), has_iptables_mode)
}

type Understood = (IpNet, Option<Protocol>, Option<u16>, Option<SocketAddr>);

fn understood(rule: &Value) -> Option<Understood> {
    let (mut destination, mut protocol, mut port) = (None, None, None);
    let known = |name: &str| Protocol::ALL.into_iter().find(|known| known.lower() == name);
    for statement in rule.get("expr")?.as_array()? {
        let (word, body) = statement.as_object()?.iter().next()?;
        match word.as_str() {
            "match" => {
                if body.get("op").and_then(Value::as_str) != Some("==") {
                    return None;
                }
                let (left, right) = (body.get("left")?, body.get("right")?);
                if left.get("meta").and_then(|meta| meta.get("key")).and_then(Value::as_str)
                    == Some("l4proto")
                {
                    protocol = Some(known(right.as_str()?)?);
                    continue;
                }
                let payload = left.get("payload")?;
                match payload.get("field")?.as_str()? {
                    "daddr" => destination = Some(net_of(right)?),
                    "dport" => {
                        protocol = known(payload.get("protocol")?.as_str()?).or(protocol);
                        port = Some(u16::try_from(right.as_u64()?).ok()?);
                    }
                    _ => return None,
                }
            }
            "counter" | "comment" => {}
            "drop" => return Some((destination?, protocol, port, None)),
            "dnat" => {
                let Act::Translate(to) = translation(body)? else { return None };
                return Some((destination?, protocol, port, Some(to)));
            }
            _ => return None,
        }
    }
    None
}

/// Tells it for each address.
pub(super) fn faults(rules: &[Rule], port: &ExpectedPort, faults: &mut Vec<Fault>) {
    for frontend in &port.frontends {
        let Some(rule) = rules.iter().find(|rule| rule.takes(frontend.key)) else { continue };
        let how = if rule.to.is_some() { "translates" } else { "drops" };
        faults.push(Fault {
            difference: Difference::Extra,
            kind: Kind::Foreign,
            object: how.trim_end_matches('s').to_owned(),
            place: Place { handle: rule.handle, ..Place::within(&rule.table, &rule.chain) },
            endpoint: rule.to.map(|to| to.to_string()),
            detail: format!("a rule that is not the proxy's {how} packets to {} first", frontend.key),
        });
    }
}
