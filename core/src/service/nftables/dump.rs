//! What `nft -j list table ip kube-proxy` prints, as chains, maps and sets.
//!
//! Invariant: every rule keeps its handle, and what of it is read is in [`super::reading`]. Reads a list of the whole
//! ruleset, too, and takes the table out of it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use serde_json::Value;
use thiserror::Error;

use super::emit::TABLE;
pub use super::reading::{Act, MarkTest, Marking, Pods, Rule, Verdict};
use super::reading::{key_words, rule, verdict};
use super::written::Style;
use crate::model::port::Protocol;
use crate::model::service::AddressType;

/// A text that `nft -j` did not write, or a table that is not there.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DumpError {
    /// No JSON.
    #[error("line {line}, column {column}: {what}")]
    Json {
        /// Counted from 1.
        line: usize,
        /// Counted from 1.
        column: usize,
        /// What the parser says.
        what: String,
    },
    /// JSON of something else.
    #[error("{what}; expected {{\"nftables\": [...]}} as `nft -j list table ip {TABLE}` prints it")]
    Shape {
        /// What is there.
        what: String,
    },
    /// No table of kube-proxy.
    #[error("there is no table `ip {TABLE}` or `ip6 {TABLE}` in it")]
    NoTable,
}

/// One family's table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Dump {
    /// Of `ip` or `ip6`.
    pub family: AddressType,
    /// By name.
    pub chains: BTreeMap<String, Vec<Rule>>,
    /// Chains that the kernel asks, by name.
    pub bases: BTreeMap<String, Base>,
    /// Verdict maps by name: key to verdict.
    pub maps: BTreeMap<String, BTreeMap<String, Verdict>>,
    /// Sets by name.
    pub sets: BTreeMap<String, BTreeSet<String>>,
    /// What sets and maps are declared as, by name.
    pub declared: BTreeMap<String, Declared>,
    /// The tables of others; none but in a list of the whole ruleset.
    pub others: super::beyond::Others,
    /// Rules of other tables that take packets before the proxy's; none but in a list of the whole ruleset.
    pub foreign: Vec<super::foreign::Rule>,
    /// The bits that the proxy's rules set in a packet's mark, so that it is masqueraded: those of most rules.
    pub mark: Option<u64>,
    /// By what the proxy's rules tell pods: that of most rules.
    pub pods: Option<Pods>,
    /// True when there are rules of iptables mode, too: known only from a list of the whole ruleset.
    pub has_iptables_mode: bool,
    /// True when the chains that all Services share are as the proxy writes them.
    pub is_as_written: bool,
    /// In which of its ways the proxy writes rules here.
    pub(super) style: Box<Style>,
}

/// When the kernel asks a chain, and what it does with what no rule decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Base {
    /// filter or nat.
    pub kind: String,
    /// prerouting, output and so on.
    pub hook: String,
    /// The lower the earlier.
    pub priority: i64,
    /// accept or drop.
    pub policy: String,
}

/// What a set or a map is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Declared {
    /// The types of its keys with dots between; for a map what they lead to, too.
    pub kind: Option<String>,
    /// constant, timeout and so on.
    pub flags: BTreeSet<String>,
    /// Seconds for which it keeps an element.
    pub timeout: Option<u64>,
    /// How many elements it keeps at most.
    pub size: Option<u64>,
}

impl Declared {
    fn of(object: &Value) -> Self {
        let words = |value: &Value| match value {
            Value::String(word) => Some(vec![word.clone()]),
            Value::Array(words) => {
                words.iter().map(|word| word.as_str().map(str::to_owned)).collect::<Option<Vec<_>>>()
            }
            _ => None,
        };
        let to = object.get("map").and_then(Value::as_str).map(|to| format!(" : {to}")).unwrap_or_default();
        Self {
            kind: object.get("type").and_then(words).map(|words| words.join(" . ") + &to),
            flags: object.get("flags").and_then(words).unwrap_or_default().into_iter().collect(),
            timeout: object.get("timeout").and_then(Value::as_u64),
            size: object.get("size").and_then(Value::as_u64),
        }
    }
}

/// What most say; of equals the first.
fn most<T: Ord>(all: impl Iterator<Item = T>) -> Option<T> {
    let mut counts = BTreeMap::<T, usize>::new();
    for one in all {
        *counts.entry(one).or_default() += 1;
    }
    counts.into_iter().rev().max_by_key(|(_, count)| *count).map(|(one, _)| one)
}

/// Reads it.
///
/// # Errors
/// [`DumpError`] when it is something else, or has no table of kube-proxy.
pub fn parse(text: &str) -> Result<Dump, DumpError> {
    read(&json(text)?)
}

/// Reads the proxy's table of `ip` or of `ip6` alone, where a list may have both.
///
/// # Errors
/// [`DumpError`] when it is something else, or has no such table.
pub fn parse_family(text: &str, family: &str) -> Result<Dump, DumpError> {
    let mut value = json(text)?;
    if let Some(items) = value.get_mut("nftables").and_then(Value::as_array_mut) {
        let other = if family == "ip6" { "ip" } else { "ip6" };
        let is_other = |item: &Value| {
            let mut objects = item.as_object().into_iter().flat_map(|item| item.values());
            objects.any(|object| object.get("family").and_then(Value::as_str) == Some(other))
        };
        items.retain(|item| !is_other(item));
    }
    read(&value)
}

/// The tables of others in a list of the whole ruleset, as one family's packets meet them.
pub(in crate::service) fn others(text: &str, family: &str) -> Result<super::beyond::Others, DumpError> {
    let value = json(text)?;
    let items = value.get("nftables").and_then(Value::as_array);
    let items = items.ok_or_else(|| DumpError::Shape { what: "this is other JSON".to_owned() })?;
    Ok(super::beyond::read(items, family))
}

fn json(text: &str) -> Result<Value, DumpError> {
    serde_json::from_str(text).map_err(|error| DumpError::Json {
        line: error.line(),
        column: error.column(),
        what: error.to_string(),
    })
}

/// Reads what was parsed as JSON before.
///
/// # Errors
/// [`DumpError`] when it is something else, or has no table of kube-proxy.
pub fn read(value: &Value) -> Result<Dump, DumpError> {
    let Some(items) = value.get("nftables").and_then(Value::as_array) else {
        return Err(DumpError::Shape { what: "this is other JSON".to_owned() });
    };
    let ours = |object: &Value, field: &str| object.get(field).and_then(Value::as_str) == Some(TABLE);
    let family = items
        .iter()
        .filter_map(|item| item.get("table"))
        .find(|table| ours(table, "name"))
        .and_then(|table| table.get("family")?.as_str())
        .ok_or(DumpError::NoTable)?
        .to_owned();
    let mut dump = Dump {
        family: if family == "ip6" { AddressType::Ipv6 } else { AddressType::Ipv4 },
        ..Dump::default()
    };
    (dump.foreign, dump.has_iptables_mode) = super::foreign::read(items, &family);
    dump.others = super::beyond::read(items, &family);
    for item in items {
        let Some((kind, object)) = item.as_object().and_then(|item| item.iter().next()) else { continue };
        if !ours(object, "table") || object.get("family").and_then(Value::as_str) != Some(&family) {
            continue;
        }
        let Some(name) = object.get("name").or_else(|| object.get("chain")).and_then(Value::as_str) else {
            continue;
        };
        match kind.as_str() {
            "chain" => {
                dump.chains.entry(name.to_owned()).or_default();
                let word = |field: &str| object.get(field).and_then(Value::as_str).map(str::to_owned);
                let priority = object.get("prio").and_then(Value::as_i64);
                if let (Some(hook), Some(priority)) = (word("hook"), priority) {
                    let (kind, policy) = (word("type"), word("policy"));
                    let policy = policy.unwrap_or_else(|| "accept".to_owned());
                    let base = Base { kind: kind.unwrap_or_default(), hook, priority, policy };
                    dump.bases.insert(name.to_owned(), base);
                }
            }
            "rule" => {
                let rule = rule(object, &family);
                dump.chains.entry(name.to_owned()).or_default().push(rule);
            }
            "map" => {
                let elements = object.get("elem").and_then(Value::as_array).into_iter().flatten();
                let read = elements.filter_map(|element| {
                    let [key, value] = element.as_array()?.as_slice() else { return None };
                    Some((key_words(key)?, verdict(value)))
                });
                dump.maps.insert(name.to_owned(), read.collect());
                dump.declared.insert(name.to_owned(), Declared::of(object));
            }
            "set" => {
                let elements = object.get("elem").and_then(Value::as_array).into_iter().flatten();
                dump.sets.insert(name.to_owned(), elements.filter_map(key_words).collect());
                dump.declared.insert(name.to_owned(), Declared::of(object));
            }
            _ => {}
        }
    }
    let rules = || dump.chains.iter().flat_map(|(name, rules)| rules.iter().map(move |rule| (name, rule)));
    dump.mark = most(rules().filter_map(|(_, rule)| match (&rule.act, rule.mark) {
        (Act::Mark(Marking::Or(bits) | Marking::Xor(bits)), _) => Some(*bits),
        (_, test) => test.map(|test| test.mask),
    }));
    // Who is no pod is marked, and who is one goes on from outside addresses.
    let tells = |(name, rule): (&String, &Rule)| {
        let (negated, pods) = Pods::of(rule)?;
        let inside = ["services", "service-", "local-"].iter().any(|start| name.starts_with(start));
        let is_told = match &rule.act {
            Act::Mark(_) | Act::Verdict(Verdict::Jump(_)) => negated && inside,
            Act::Verdict(Verdict::Goto(_)) => !negated && name.starts_with("external-"),
            _ => false,
        };
        is_told.then_some(pods)
    };
    dump.pods = most(rules().filter_map(tells));
    dump.style = Box::new(Style::of(&dump));
    dump.is_as_written = super::shared_faults(&dump).is_empty();
    Ok(dump)
}

/// A key of `service-ips` and its like.
#[must_use]
pub fn key(address: Option<IpAddr>, protocol: Protocol, port: u16) -> String {
    match address {
        Some(address) => format!("{address} . {} . {port}", protocol.lower()),
        None => format!("{} . {port}", protocol.lower()),
    }
}
