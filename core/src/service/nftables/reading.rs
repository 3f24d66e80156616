//! One rule of a list in JSON: what of it decides about a Service's packets.
//!
//! Invariant: a statement that is not known makes the whole rule [`Act::Unknown`], which is told and not guessed about.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;
use serde_json::Value;

use crate::model::port::Protocol;

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

pub(super) fn verdict(value: &Value) -> Verdict {
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

pub(super) fn rule(object: &Value, family: &str) -> Rule {
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

pub(super) fn is_mark(value: &Value) -> bool {
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
