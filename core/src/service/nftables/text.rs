//! A rule of a list in JSON, in the words of `nft`: one text for each meaning.
//!
//! Invariant: every scalar of the statements is in the text, so that two rules with one text do the same; what `nft` may
//! print in two ways (sets in any order, a default that is left out, numbers of a random choice) has one. Comments and
//! counters are in none. Source: `libnftables-json(5)`.

use std::net::{IpAddr, SocketAddr};

use ipnet::{IpNet, Ipv4Subnets, Ipv6Subnets};
use serde_json::Value;

use super::reading::{key_words, net_of};

/// The statements of a rule, `family` being `ip` or `ip6`.
pub(super) fn rule(statements: &[Value], family: &str) -> String {
    let words = statements.iter().filter_map(|statement| {
        let (word, body) = statement.as_object()?.iter().next()?;
        (!matches!(word.as_str(), "counter" | "comment"))
            .then(|| known(word, body, family).unwrap_or_else(|| statement.to_string()))
    });
    words.collect::<Vec<_>>().join(" ")
}

fn known(word: &str, body: &Value, family: &str) -> Option<String> {
    Some(match word {
        "match" => condition(body)?,
        "mangle" => {
            only(body, &["key", "value"])?;
            format!("{} set {}", expression(body.get("key")?)?, expression(body.get("value")?)?)
        }
        "vmap" => {
            let map = |elements: &[Value]| choices(elements, |value| verdict(value, family));
            format!("{} vmap {}", expression(body.get("key")?)?, data(body, map)?)
        }
        "dnat" => translation(body, family)?,
        "set" => {
            only(body, &["op", "elem", "set"])?;
            let (operator, set) = (body.get("op")?.as_str()?, body.get("set")?.as_str()?);
            format!("{operator} {set} {{ {} }}", expression(body.get("elem")?)?)
        }
        "masquerade" if body.is_null() => word.to_owned(),
        "masquerade" => {
            only(body, &["flags"])?;
            format!("{word} {}", body.get("flags")?.as_str()?)
        }
        _ => ending(word, body, family)?,
    })
}

/// That there is nothing else in it.
fn only(body: &Value, keys: &[&str]) -> Option<()> {
    body.as_object()?.keys().all(|key| keys.contains(&key.as_str())).then_some(())
}

fn verdict(value: &Value, family: &str) -> Option<String> {
    let (word, body) = value.as_object()?.iter().next()?;
    ending(word, body, family)
}

fn ending(word: &str, body: &Value, family: &str) -> Option<String> {
    match word {
        "goto" | "jump" => Some(format!("{word} {}", body.get("target")?.as_str()?)),
        "drop" | "accept" | "return" | "continue" => body.is_null().then(|| word.to_owned()),
        "reject" if body.is_null() => Some(word.to_owned()),
        "reject" => {
            only(body, &["type", "expr"])?;
            let of = |key: &str| body.get(key).and_then(Value::as_str);
            let usual = if family == "ip6" { "icmpv6" } else { "icmp" };
            match (of("type")?, of("expr")) {
                (kind, Some("port-unreachable")) if kind == usual || kind == "icmpx" => Some(word.to_owned()),
                (kind, code) => Some(format!("reject with {kind} {}", code.unwrap_or_default())),
            }
        }
        _ => None,
    }
}

fn condition(body: &Value) -> Option<String> {
    only(body, &["op", "left", "right"])?;
    let (left, right) = (expression(body.get("left")?)?, expression(body.get("right")?)?);
    Some(match body.get("op")?.as_str()? {
        // A connection has one state, and many a status: `==` asks that it has no other.
        "in" if left.starts_with("ct ") => format!("{left} {right}"),
        "==" if left != "ct status" => format!("{left} {right}"),
        operator => format!("{left} {operator} {right}"),
    })
}

/// What is asked, looked up or written.
fn expression(value: &Value) -> Option<String> {
    if let Some(text) = value.as_str() {
        return Some(text.to_owned());
    }
    if let Some(number) = value.as_u64() {
        return Some(number.to_string());
    }
    if let Some(list) = value.as_array() {
        return Some(list.iter().map(expression).collect::<Option<Vec<_>>>()?.join(","));
    }
    let (word, body) = value.as_object().filter(|object| object.len() == 1)?.iter().next()?;
    let of = |key: &str| body.get(key).and_then(Value::as_str);
    Some(match word.as_str() {
        "payload" => {
            only(body, &["protocol", "field"])?;
            format!("{} {}", of("protocol")?, of("field")?)
        }
        "meta" => match of("key")? {
            key @ ("mark" | "iifname" | "oifname") => key.to_owned(),
            key => format!("meta {key}"),
        },
        "ct" => {
            only(body, &["key"])?;
            format!("ct {}", of("key")?)
        }
        "fib" => {
            let flags =
                body.get("flags")?.as_array()?.iter().map(Value::as_str).collect::<Option<Vec<_>>>()?;
            format!("fib {} {}", flags.join(" . "), of("result")?)
        }
        "concat" => body.as_array()?.iter().map(expression).collect::<Option<Vec<_>>>()?.join(" . "),
        "&" => operation("and", body)?,
        "|" => operation("or", body)?,
        "^" => operation("xor", body)?,
        "prefix" => net(net_of(value)?),
        "set" => set(body.as_array()?)?,
        "range" => set(std::slice::from_ref(value))?,
        "elem" => {
            only(body, &["val"])?;
            expression(body.get("val")?)?
        }
        "numgen" => {
            let offset = body.get("offset").and_then(Value::as_u64).unwrap_or_default();
            let offset = if offset == 0 { String::new() } else { format!(" offset {offset}") };
            format!("numgen {} mod {}{offset}", of("mode")?, body.get("mod")?.as_u64()?)
        }
        _ => return None,
    })
}

/// Bits of a mark and the like.
fn operation(word: &str, operands: &Value) -> Option<String> {
    let [left, number] = operands.as_array()?.as_slice() else { return None };
    Some(format!("{} {word} {:#x}", expression(left)?, number.as_u64()?))
}

pub(super) fn net(net: IpNet) -> String {
    if net.prefix_len() == net.max_prefix_len() { net.addr().to_string() } else { net.trunc().to_string() }
}

/// Several networks: in order, neighbours as one, and one alone without braces, as the kernel keeps them.
pub(super) fn nets(all: &[IpNet]) -> String {
    let all: Vec<String> = IpNet::aggregate(&all.to_vec()).into_iter().map(net).collect();
    braced(all)
}

fn braced(mut all: Vec<String>) -> String {
    all.sort_unstable();
    match all.as_slice() {
        [one] => one.clone(),
        _ => format!("{{ {} }}", all.join(", ")),
    }
}

fn set(elements: &[Value]) -> Option<String> {
    let found: Option<Vec<Vec<IpNet>>> = elements.iter().map(networks).collect();
    match found {
        Some(found) => Some(nets(&found.concat())),
        None => Some(braced(elements.iter().map(expression).collect::<Option<_>>()?)),
    }
}

/// A network, or those that a range is made of.
fn networks(value: &Value) -> Option<Vec<IpNet>> {
    let Some(range) = value.get("range") else { return Some(vec![net_of(value)?]) };
    let bound = |index: usize| range.get(index)?.as_str()?.parse::<IpAddr>().ok();
    Some(match (bound(0)?, bound(1)?) {
        (IpAddr::V4(low), IpAddr::V4(high)) => Ipv4Subnets::new(low, high, 0).map(IpNet::from).collect(),
        (IpAddr::V6(low), IpAddr::V6(high)) => Ipv6Subnets::new(low, high, 0).map(IpNet::from).collect(),
        _ => return None,
    })
}

/// A named map, or one of the rule's own.
fn data(body: &Value, own: impl Fn(&[Value]) -> Option<String>) -> Option<String> {
    let data = body.get("data")?;
    match data.as_str() {
        Some(name) => Some(name.to_owned()),
        None => own(data.get("set")?.as_array()?),
    }
}

fn translation(body: &Value, family: &str) -> Option<String> {
    only(body, &["family", "addr", "port"])?;
    let of = body.get("family").map_or(Some(family), Value::as_str)?;
    let address = body.get("addr")?;
    if let Some(map) = address.get("map") {
        let target = |value: &Value| key_words(value);
        let elements = |elements: &[Value]| choices(elements, target);
        return Some(format!("dnat {of} to {} map {}", expression(map.get("key")?)?, data(map, elements)?));
    }
    let ip: IpAddr = address.as_str()?.parse().ok()?;
    let of = if of == family { String::new() } else { format!("{of} ") };
    let to = match body.get("port") {
        Some(port) => SocketAddr::new(ip, u16::try_from(port.as_u64()?).ok()?).to_string(),
        None => ip.to_string(),
    };
    Some(format!("dnat {of}to {to}"))
}

fn choices(elements: &[Value], value: impl Fn(&Value) -> Option<String>) -> Option<String> {
    let numbered = elements.iter().map(|element| {
        let [number, to] = element.as_array()?.as_slice() else { return None };
        Some((number.as_u64()?, value(to)?))
    });
    Some(numbered_map(numbered.collect::<Option<Vec<_>>>()?))
}

/// The map of a random choice. Each number is as likely as the other, so that of a map without a hole the order of what
/// they lead to says nothing.
pub(super) fn numbered_map(mut elements: Vec<(u64, String)>) -> String {
    elements.sort_unstable();
    if (0..).zip(&elements).all(|(index, (number, _))| *number == index) {
        let mut to: Vec<String> = elements.into_iter().map(|(_, to)| to).collect();
        to.sort_unstable();
        elements = (0..).zip(to).collect();
    }
    let elements: Vec<String> = elements.into_iter().map(|(number, to)| format!("{number} : {to}")).collect();
    format!("{{ {} }}", elements.join(", "))
}
