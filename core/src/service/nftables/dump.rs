//! What `nft -j list table ip kube-proxy` prints, as chains, maps and sets.
//!
//! Invariant: every rule keeps its handle; of a rule only what decides about a Service's packets is read, and a
//! statement that is not known makes the whole rule [`Act::Unknown`], which is told and not guessed about. Reads a
//! list of the whole ruleset, too, and takes the table out of it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;
use serde_json::Value;
use thiserror::Error;

use super::emit::TABLE;
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

/// Where a packet goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// To a chain, and not back.
    Goto(String),
    /// To a chain, and back.
    Jump(String),
    /// Nowhere.
    Drop,
    /// Back with a refusal.
    Reject,
    /// Another word.
    Other(String),
}

/// One rule.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// As `nft -a` shows it.
    pub handle: Option<u64>,
    /// All of it, in words of `nft`: see [`super::text`].
    pub text: String,
    /// Only packets from this net, or from elsewhere.
    pub source: Option<(bool, IpNet)>,
    /// Only packets from outside of these nets.
    pub not_from: Vec<IpNet>,
    /// Only packets that came in by this interface, or by another; `*` ends a prefix.
    pub interface: Option<(bool, String)>,
    /// Only packets that the node itself sends.
    pub from_node: bool,
    /// Only packets to this net, or to elsewhere.
    pub destination: Option<(bool, IpNet)>,
    /// Only packets to addresses in this set, or to others.
    pub to_set: Option<(bool, String)>,
    /// Only packets to the node itself.
    pub to_node: bool,
    /// Only this protocol.
    pub protocol: Option<Protocol>,
    /// Only this port.
    pub port: Option<u16>,
    /// Only packets that are no first ones.
    pub not_new: bool,
    /// Only packets of connections that are tracked.
    pub tracked: bool,
    /// Only packets with this mark, or with another.
    pub mark: Option<MarkTest>,
    /// Only packets whose addresses and port are in this set.
    pub flow_in: Option<String>,
    /// Only packets of connections that were translated.
    pub translated: bool,
    /// It has conditions of which is known only that there are some.
    pub is_other: bool,
    /// It has conditions that no proxy writes on a rule that decides.
    pub is_odd: bool,
    /// Only clients in a set: those that were here before.
    pub known_client: Option<String>,
    /// What it does.
    pub act: Act,
}

impl Rule {
    /// A rule without a condition.
    #[must_use]
    pub const fn always(act: Act) -> Self {
        Self {
            handle: None,
            text: String::new(),
            source: None,
            not_from: Vec::new(),
            interface: None,
            from_node: false,
            destination: None,
            to_set: None,
            to_node: false,
            protocol: None,
            port: None,
            not_new: false,
            tracked: false,
            mark: None,
            flow_in: None,
            translated: false,
            is_other: false,
            is_odd: false,
            known_client: None,
            act,
        }
    }
}

/// By what a proxy tells pods (`--detect-local-mode`).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pods {
    /// By the network that they are in.
    Net(IpNet),
    /// By the interface that their packets come in by.
    Interface(String),
}

impl Pods {
    /// What a rule asks for: whether for who is no pod, and who is one.
    #[must_use]
    pub fn of(rule: &Rule) -> Option<(bool, Self)> {
        match (&rule.source, &rule.interface) {
            (Some((not, net)), None) if net.prefix_len() < net.max_prefix_len() => {
                Some((*not, Self::Net(*net)))
            }
            (None, Some((not, name))) => Some((*not, Self::Interface(name.clone()))),
            _ => None,
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

/// A condition on some bits of a packet's mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MarkTest {
    /// These bits.
    pub mask: u64,
    /// Are this.
    pub value: u64,
    /// Or are not.
    pub negated: bool,
}

/// What is written to a packet's mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marking {
    /// These bits are set.
    Or(u64),
    /// These bits change.
    Xor(u64),
    /// Something else.
    Other,
}

/// What a rule does.
#[derive(Clone, Debug, PartialEq)]
pub enum Act {
    /// A fixed verdict.
    Verdict(Verdict),
    /// A verdict by a map of its own, chosen by chance: the divisor, and each number's verdict.
    Choose(u64, BTreeMap<u64, Verdict>),
    /// Translates by a map of its own, chosen by chance: the divisor, and each number's address.
    Spread(u64, BTreeMap<u64, SocketAddr>),
    /// Translates to one address.
    Translate(SocketAddr),
    /// A verdict by a named map.
    Lookup(String),
    /// Marks.
    Mark(Marking),
    /// Masquerades.
    Masquerade,
    /// Remembers the client in a set.
    Remember(String),
    /// Keeps something in a set, but not as a proxy keeps clients: how.
    Keep(String, &'static str),
    /// Something else.
    Unknown,
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

/// A key as `nft` prints it: parts with dots between. Elements with a comment or a timeout wrap it.
pub(super) fn key_words(key: &Value) -> Option<String> {
    match key {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Object(object) => {
            if let Some(parts) = object.get("concat").and_then(Value::as_array) {
                let parts: Option<Vec<String>> = parts.iter().map(key_words).collect();
                return Some(parts?.join(" . "));
            }
            key_words(object.get("elem")?.get("val")?)
        }
        _ => None,
    }
}

fn verdict(value: &Value) -> Verdict {
    let target = |key: &str| Some(value.get(key)?.get("target")?.as_str()?.to_owned());
    if let Some(target) = target("goto") {
        Verdict::Goto(target)
    } else if let Some(target) = target("jump") {
        Verdict::Jump(target)
    } else if value.get("drop").is_some() {
        Verdict::Drop
    } else if value.get("reject").is_some() {
        Verdict::Reject
    } else {
        let word = value.as_object().and_then(|object| object.keys().next());
        Verdict::Other(word.cloned().unwrap_or_default())
    }
}

fn rule(object: &Value, family: &str) -> Rule {
    let statements = object.get("expr").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let statements = &*super::printed::in_one_form(statements);
    let mut rule = Rule {
        handle: object.get("handle").and_then(Value::as_u64),
        text: super::text::rule(statements, family),
        ..Rule::always(Act::Unknown)
    };
    let mut unknown = false;
    for statement in statements {
        let Some((word, body)) = statement.as_object().and_then(|one| one.iter().next()) else { continue };
        match word.as_str() {
            "match" => unknown |= !condition(&mut rule, body),
            "dnat" => rule.act = translation(body).unwrap_or(Act::Unknown),
            "vmap" => rule.act = choice(body).unwrap_or(Act::Unknown),
            // A mark beside a verdict decides nothing more.
            "mangle" => {
                if rule.act == Act::Unknown {
                    rule.act = marking(body).map_or(Act::Unknown, Act::Mark);
                }
            }
            "masquerade" => rule.act = Act::Masquerade,
            "set" => {
                let name = body.get("set").and_then(Value::as_str).unwrap_or_default();
                let name = name.trim_start_matches('@').to_owned();
                let of = body.get("elem").and_then(|elem| elem.get("payload")?.get("field")?.as_str());
                rule.act = match (body.get("op").and_then(Value::as_str), of) {
                    (Some("update"), Some("saddr")) => Act::Remember(name),
                    (_, Some("saddr")) => {
                        Act::Keep(name, "its time does not start anew with each connection")
                    }
                    _ => Act::Keep(name, "what it keeps is not the client's address"),
                };
            }
            "goto" | "jump" | "drop" | "reject" | "return" | "accept" => {
                rule.act = Act::Verdict(verdict(statement));
            }
            "counter" | "comment" => {}
            _ => unknown = true,
        }
    }
    if unknown {
        rule.act = Act::Unknown;
    }
    rule
}

/// Reads a condition; false when it is not one that is known.
fn condition(rule: &mut Rule, body: &Value) -> bool {
    let left = body.get("left");
    let right = body.get("right");
    let negated = body.get("op").and_then(Value::as_str) == Some("!=");
    let field = |of: &str, key: &str| Some(left?.get(of)?.get(key)?.as_str()?.to_owned());
    if let Some(fields) = left.and_then(|left| left.get("concat")?.as_array()) {
        // Membership in the table's own sets: for masquerading, which decides no verdict.
        rule.is_odd = true;
        let set = right.and_then(Value::as_str).and_then(|set| set.strip_prefix('@'));
        let names = fields.iter().map(field_name).collect::<Option<Vec<_>>>();
        let is_flow = names.is_some_and(|names| names == ["saddr", "daddr", "l4proto", "dport"]);
        rule.flow_in = set.filter(|_| is_flow && !negated).map(str::to_owned);
        rule.is_other |= rule.flow_in.is_none();
        return true;
    }
    if let Some(masked) = left.and_then(|left| left.get("&")) {
        rule.is_odd = true;
        rule.mark = mark_test(masked, right, negated);
        rule.is_other |= rule.mark.is_none();
        return true;
    }
    let known = |name: &str| Protocol::ALL.into_iter().find(|known| known.lower() == name);
    match (field("payload", "field").as_deref(), field("meta", "key").as_deref()) {
        (Some("saddr"), _) => match right {
            Some(Value::String(set)) if set.starts_with('@') => {
                rule.known_client = Some(set.trim_start_matches('@').to_owned());
                true
            }
            Some(written) => match (net_of(written), written.get("set").and_then(Value::as_array)) {
                (Some(net), _) => {
                    rule.source = Some((negated, net));
                    true
                }
                // A firewall's ranges.
                (None, Some(nets)) if negated => {
                    let nets: Option<Vec<IpNet>> = nets.iter().map(net_of).collect();
                    let known = nets.is_some();
                    rule.not_from = nets.unwrap_or_default();
                    known
                }
                (None, _) => false,
            },
            None => false,
        },
        (Some("daddr"), _) => match (right.and_then(Value::as_str), right.and_then(net_of)) {
            (Some(set), _) if set.starts_with('@') && rule.to_set.is_none() => {
                rule.to_set = Some((negated, set.trim_start_matches('@').to_owned()));
                true
            }
            (_, Some(net)) if rule.destination.is_none() => {
                rule.destination = Some((negated, net));
                true
            }
            _ => false,
        },
        (Some("dport"), _) if !negated => {
            rule.port = right.and_then(Value::as_u64).and_then(|port| u16::try_from(port).ok());
            let of = field("payload", "protocol").unwrap_or_default();
            rule.protocol = known(&of).or(rule.protocol);
            rule.port.is_some() && (of == "th" || known(&of).is_some())
        }
        (_, Some("l4proto")) if !negated => {
            rule.protocol = right.and_then(Value::as_str).and_then(known);
            rule.protocol.is_some()
        }
        (_, Some("iifname")) if rule.interface.is_none() => {
            rule.interface = right.and_then(Value::as_str).map(|name| (negated, name.to_owned()));
            rule.interface.is_some()
        }
        (_, Some("mark")) => {
            rule.is_odd = true;
            rule.is_other = true;
            true
        }
        _ if field("ct", "key").as_deref() == Some("state") => {
            let states = right.map(ToString::to_string).unwrap_or_default();
            rule.not_new |= states.contains("\"new\"") == negated;
            rule.tracked |= states.contains("\"untracked\"") == negated;
            true
        }
        _ if field("ct", "key").is_some() => {
            let is_status = field("ct", "key").as_deref() == Some("status");
            rule.translated |= is_status && !negated && right.and_then(Value::as_str) == Some("dnat");
            rule.is_other |= !rule.translated;
            rule.is_odd = true;
            true
        }
        _ => match left.and_then(|left| left.get("fib")) {
            Some(fib) => {
                let flags = fib.get("flags").map(ToString::to_string).unwrap_or_default();
                let is_known = !negated
                    && right.and_then(Value::as_str) == Some("local")
                    && fib.get("result").and_then(Value::as_str) == Some("type");
                rule.is_odd |= !is_known;
                rule.is_other |= !is_known;
                rule.from_node |= flags.contains("saddr");
                rule.to_node |= flags.contains("daddr");
                true
            }
            None => false,
        },
    }
}

pub(super) fn net_of(value: &Value) -> Option<IpNet> {
    if let Some(text) = value.as_str() {
        return text.parse().ok().or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from));
    }
    let prefix = value.get("prefix")?;
    let length = u8::try_from(prefix.get("len")?.as_u64()?).ok()?;
    IpNet::new(prefix.get("addr")?.as_str()?.parse().ok()?, length).ok()
}

pub(super) fn translation(body: &Value) -> Option<Act> {
    let address = body.get("addr")?;
    if let Some(map) = address.get("map") {
        let (divisor, elements) = numbered(map)?;
        let to = elements.into_iter().filter_map(|(number, value)| {
            let text = key_words(value)?;
            let (ip, port) = text.split_once(" . ")?;
            Some((number, SocketAddr::new(ip.parse().ok()?, port.parse().ok()?)))
        });
        return Some(Act::Spread(divisor, to.collect()));
    }
    let port = u16::try_from(body.get("port")?.as_u64()?).ok()?;
    Some(Act::Translate(SocketAddr::new(address.as_str()?.parse().ok()?, port)))
}

/// A field of a packet's header, or what is known about it.
fn field_name(part: &Value) -> Option<&str> {
    let of = |of: &str, key: &str| part.get(of)?.get(key)?.as_str();
    of("payload", "field").or_else(|| of("meta", "key"))
}

fn is_mark(value: &Value) -> bool {
    value.get("meta").and_then(|meta| meta.get("key")) == Some(&Value::from("mark"))
}

/// The number in an operation on the mark and a number.
fn with_mark(operands: &Value) -> Option<u64> {
    let [mark, number] = operands.as_array()?.as_slice() else { return None };
    number.as_u64().filter(|_| is_mark(mark))
}

fn mark_test(masked: &Value, right: Option<&Value>, negated: bool) -> Option<MarkTest> {
    Some(MarkTest { mask: with_mark(masked)?, value: right?.as_u64()?, negated })
}

/// What is written to the mark; `None` when something else is written to.
fn marking(body: &Value) -> Option<Marking> {
    is_mark(body.get("key")?).then_some(())?;
    let value = body.get("value")?;
    let with = |operator: &str| value.get(operator).and_then(with_mark);
    let of = with("|").map(Marking::Or).or_else(|| with("^").map(Marking::Xor));
    Some(of.unwrap_or(Marking::Other))
}

fn choice(body: &Value) -> Option<Act> {
    if let Some(name) = body.get("data")?.as_str() {
        // What is looked up: another field of the packet finds another element, or none.
        let key = body.get("key")?.get("concat")?.as_array()?;
        let fields = key.iter().map(field_name).collect::<Option<Vec<&str>>>()?;
        let ports = ["l4proto", "dport"];
        let named = fields.strip_prefix(&["daddr"]).unwrap_or(&fields);
        if named != ports || (named.len() == fields.len()) != name.ends_with("nodeports") {
            return None;
        }
        return Some(Act::Lookup(name.trim_start_matches('@').to_owned()));
    }
    let (divisor, elements) = numbered(body)?;
    Some(Act::Choose(divisor, elements.into_iter().map(|(number, value)| (number, verdict(value))).collect()))
}

/// The divisor of `numgen random mod N` and the elements of the map behind it.
fn numbered(map: &Value) -> Option<(u64, Vec<(u64, &Value)>)> {
    let number = map.get("key")?.get("numgen")?;
    let divisor = number.get("mod")?.as_u64()?;
    // Numbers are those from the offset on.
    let offset = number.get("offset").and_then(Value::as_u64).unwrap_or_default();
    let elements = map.get("data")?.get("set")?.as_array()?.iter().filter_map(|element| {
        let [number, value] = element.as_array()?.as_slice() else { return None };
        Some((number.as_u64()?.checked_sub(offset)?, value))
    });
    Some((divisor, elements.collect()))
}

/// A key of `service-ips` and its like.
#[must_use]
pub fn key(address: Option<IpAddr>, protocol: Protocol, port: u16) -> String {
    match address {
        Some(address) => format!("{address} . {} . {port}", protocol.lower()),
        None => format!("{} . {port}", protocol.lower()),
    }
}
