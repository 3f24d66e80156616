//! What plugins refuse when the server starts: words and properties that are missing, too many, unknown or malformed.
//!
//! Source: the `setup.go` of each plugin of `CoreDNS` 1.15.0. Invariant: what is said here stops the server; plugins that
//! have no entry are not judged, and neither is a word with an environment variable in it. Properties that only old
//! versions had are faults, those that only new ones have are not.

use std::net::IpAddr;

use super::{Plugin, Problem, Property, Token};

/// How often a word may stand.
type Count = (usize, usize);
const ANY: usize = usize::MAX;

/// What is wrong with a word, in words.
type Check = fn(&str) -> Option<String>;

struct Rule {
    name: &'static str,
    words: Count,
    checks: &'static [Check],
}

struct Grammar {
    name: &'static str,
    /// False when a second one in the block is an error.
    repeats: bool,
    words: Count,
    /// `None`: braces are not looked at.
    properties: Option<&'static [Rule]>,
}

const fn rule(name: &'static str, least: usize, most: usize) -> Rule {
    Rule { name, words: (least, most), checks: &[] }
}

const fn checked(name: &'static str, least: usize, most: usize, checks: &'static [Check]) -> Rule {
    Rule { name, words: (least, most), checks }
}

const FORWARD: [Rule; 21] = [
    checked("doh_method", 1, ANY, &[|word| one_of(word, &["GET", "POST"])]),
    rule("except", 1, ANY),
    checked("expire", 1, ANY, &[not_negative_duration]),
    rule("failfast_all_unhealthy_upstreams", 0, 0),
    rule("failover", 1, ANY),
    rule("force_tcp", 0, 0),
    checked("health_check", 1, ANY, &[not_negative_duration]),
    checked("max_age", 1, ANY, &[not_negative_duration]),
    checked("max_concurrent", 1, ANY, &[not_negative]),
    checked("max_connect_attempts", 1, ANY, &[not_negative]),
    checked("max_fails", 1, ANY, &[not_negative]),
    checked("max_idle_conns", 1, ANY, &[not_negative]),
    rule("next", 1, ANY),
    rule("next_on_nodata", 0, 0),
    checked("policy", 1, ANY, &[|word| one_of(word, &["random", "round_robin", "sequential"])]),
    rule("prefer_udp", 0, 0),
    checked("read_timeout", 1, ANY, &[duration]),
    rule("resolver", 1, ANY),
    rule("source_address", 1, ANY),
    rule("tls", 0, 3),
    rule("tls_servername", 1, ANY),
];

const CACHE: [Rule; 8] = [
    checked("denial", 1, ANY, &[number, positive, not_negative]),
    rule("disable", 1, ANY),
    rule("keepttl", 0, 0),
    checked("prefetch", 1, 3, &[not_negative, duration]),
    checked("serve_stale", 0, 5, &[not_negative_duration]),
    rule("serve_stale_policy", 1, 1),
    checked("servfail", 1, 1, &[not_negative_duration]),
    checked("success", 1, ANY, &[number, positive, not_negative]),
];

const KUBERNETES: [Rule; 18] = [
    rule("apiserver_burst", 1, 1),
    rule("apiserver_max_inflight", 1, 1),
    rule("apiserver_qps", 1, 1),
    rule("endpoint", 1, ANY),
    rule("endpoint_pod_names", 0, 0),
    rule("fallthrough", 0, ANY),
    rule("ignore", 0, ANY),
    rule("kubeconfig", 1, 2),
    rule("labels", 1, ANY),
    rule("multicluster", 0, ANY),
    rule("namespace_labels", 1, ANY),
    rule("namespaces", 1, ANY),
    rule("noendpoints", 0, 0),
    checked("pods", 1, 1, &[|word| one_of(word, &["disabled", "insecure", "verified"])]),
    checked("startup_timeout", 1, ANY, &[duration]),
    rule("tls", 3, 3),
    checked("ttl", 1, ANY, &[|word| between(word, 0, 3600)]),
    rule("zonal", 0, 0),
];

const TEMPLATE: [Rule; 10] = [
    rule("additional", 1, ANY),
    rule("answer", 1, ANY),
    rule("authority", 1, ANY),
    rule("ederror", 1, 2),
    rule("expr", 1, ANY),
    rule("fallthrough", 0, ANY),
    rule("match", 1, ANY),
    checked("rcode", 1, ANY, &[rcode]),
    rule("upstream", 0, ANY),
    rule("var", 2, ANY),
];

const ACL: [Rule; 4] =
    [rule("allow", 0, ANY), rule("block", 0, ANY), rule("drop", 0, ANY), rule("filter", 0, ANY)];

const fn grammar(
    name: &'static str,
    repeats: bool,
    words: Count,
    properties: Option<&'static [Rule]>,
) -> Grammar {
    Grammar { name, repeats, words, properties }
}

const GRAMMARS: [Grammar; 18] = [
    grammar("acl", true, (0, ANY), Some(&ACL)),
    grammar("autopath", true, (1, ANY), None),
    grammar("bind", true, (1, ANY), Some(&[rule("except", 1, ANY)])),
    grammar("bufsize", true, (0, 1), None),
    grammar("cache", false, (0, ANY), Some(&CACHE)),
    grammar(
        "errors",
        false,
        (0, 1),
        Some(&[checked("consolidate", 2, 4, &[duration]), rule("stacktrace", 0, ANY)]),
    ),
    grammar("forward", true, (2, ANY), Some(&FORWARD)),
    grammar("health", true, (0, 1), Some(&[checked("lameduck", 1, 1, &[duration])])),
    grammar("hosts", false, (0, ANY), None),
    grammar(
        "k8s_external",
        true,
        (0, ANY),
        Some(&[
            rule("apex", 1, ANY),
            rule("fallthrough", 0, ANY),
            rule("headless", 0, ANY),
            checked("ttl", 1, ANY, &[|word| between(word, 0, 3600)]),
        ]),
    ),
    grammar("kubernetes", false, (0, ANY), Some(&KUBERNETES)),
    grammar("loadbalance", true, (0, 2), None),
    grammar("loop", false, (0, 0), Some(&[])),
    grammar("prometheus", false, (0, 1), Some(&[rule("runtime_metrics", 0, 0), rule("tls", 1, 1)])),
    grammar("ready", false, (0, 1), Some(&[rule("monitor", 1, 1)])),
    grammar("reload", true, (0, 2), None),
    grammar("rewrite", true, (0, ANY), None),
    grammar("template", true, (2, ANY), Some(&TEMPLATE)),
];

/// Properties that old versions took.
const OLD: [(&str, &str, &str); 6] = [
    ("kubernetes", "upstream", "it was taken out in 1.7.0: delete the line"),
    ("kubernetes", "resyncperiod", "it was taken out in 1.7.0: delete the line"),
    ("kubernetes", "transfer", "since 1.8.0 it is a plugin of its own, outside of this block"),
    ("kubernetes", "federation", "it was taken out in 1.7.0: delete the line"),
    ("forward", "protocol", "that was `proxy`'s: `force_tcp` or a scheme before the address does it"),
    ("file", "upstream", "it was taken out in 1.7.0: delete the line"),
];

/// What would stop the server in one plugin of a block. `earlier` are those of the same name before it.
#[must_use]
pub fn arguments(plugin: &Plugin, earlier: usize) -> Vec<Problem> {
    let mut found = Vec::new();
    let name = plugin.name.text.as_str();
    let Some(grammar) = GRAMMARS.iter().find(|grammar| grammar.name == name) else { return found };
    if earlier > 0 && !grammar.repeats {
        let message = format!("a second `{name}` in one server block");
        found.push(problem(&plugin.name, message, "keep one of them"));
    }
    count(&mut found, &plugin.name, name, &plugin.arguments, grammar.words);
    if let Some(rules) = grammar.properties {
        if rules.is_empty() && plugin.body.is_some() {
            found.push(problem(&plugin.name, format!("`{name}` takes no block"), "take the braces away"));
        }
        for property in plugin.properties().filter(|_| !rules.is_empty()) {
            self::property(&mut found, name, rules, property);
        }
    }
    match name {
        "hosts" => hosts(&mut found, plugin),
        "forward" => forward(&mut found, plugin),
        "cache" => first_word(&mut found, plugin, |word| {
            word.parse::<i64>()
                .ok()
                .filter(|seconds| *seconds <= 0)
                .map(|_| "the TTL must be positive".to_owned())
        }),
        "reload" => reload(&mut found, plugin),
        "bufsize" => first_word(&mut found, plugin, |word| between(word, 512, 4096)),
        "errors" => first_word(&mut found, plugin, |word| one_of(word, &["stdout"])),
        "loadbalance" => {
            first_word(&mut found, plugin, |word| one_of(word, &["prefer", "round_robin", "weighted"]));
        }
        "health" | "prometheus" | "ready" => first_word(&mut found, plugin, address_port),
        "rewrite" => rewrite(&mut found, plugin),
        "template" => template(&mut found, plugin),
        _ => {}
    }
    found
}

fn problem(at: &Token, message: impl Into<String>, hint: &'static str) -> Problem {
    Problem { position: at.position, message: message.into(), hint, harmless: false }
}

fn count(found: &mut Vec<Problem>, at: &Token, name: &str, words: &[Token], (least, most): Count) {
    if words.iter().any(Token::has_variable) {
        return;
    }
    let wanted = match (least, most) {
        (0, 0) => "none".to_owned(),
        (least, ANY) => format!("at least {least}"),
        (least, most) if least == most => format!("{least}"),
        (least, most) => format!("{least} to {most}"),
    };
    let number = words.len();
    if number < least {
        let message = format!("`{name}` has {number} words behind it and wants {wanted}");
        found.push(problem(at, message, "add what is missing"));
    } else if number > most {
        let at = words.get(most).unwrap_or(at);
        let message = format!("`{name}` has {number} words behind it and wants {wanted}");
        found.push(problem(at, message, "take the rest away"));
    }
}

fn property(found: &mut Vec<Problem>, plugin: &str, rules: &[Rule], property: &Property) {
    let name = property.name.text.as_str();
    if property.name.has_variable() {
        return;
    }
    let Some(rule) = rules
        .iter()
        .find(|rule| rule.name == name || plugin == "acl" && rule.name.eq_ignore_ascii_case(name))
    else {
        let old = OLD.iter().find(|(of, old, _)| *of == plugin && *old == name);
        let hint = old.map_or("is it misspelt, or another plugin's?", |(.., hint)| hint);
        found.push(problem(&property.name, format!("`{plugin}` has no property `{name}`"), hint));
        return;
    };
    count(found, &property.name, name, &property.arguments, rule.words);
    for (argument, check) in property.arguments.iter().zip(rule.checks) {
        if let Some(fault) = check(&argument.text).filter(|_| !argument.has_variable()) {
            found.push(problem(argument, format!("`{name}`: {fault}"), "the server does not start with it"));
        }
    }
}

fn first_word(found: &mut Vec<Problem>, plugin: &Plugin, check: impl Fn(&str) -> Option<String>) {
    if let Some(word) = plugin.arguments.first().filter(|word| !word.has_variable())
        && let Some(fault) = check(&word.text)
    {
        let message = format!("`{}`: {fault}", plugin.name.text);
        found.push(problem(word, message, "the server does not start with it"));
    }
}

/// Addresses and names stand among the properties; behind `fallthrough` they are taken for properties.
fn hosts(found: &mut Vec<Problem>, plugin: &Plugin) {
    const KNOWN: [&str; 5] = ["fallthrough", "fallthrough_unsupported", "no_reverse", "reload", "ttl"];
    let mut behind = false;
    for line in plugin.properties().filter(|line| !line.name.has_variable()) {
        let name = line.name.text.as_str();
        let argument = line.arguments.first();
        match name {
            "fallthrough" => behind = true,
            "ttl" => {
                let fault = argument.map_or_else(
                    || Some("it wants a number of seconds".to_owned()),
                    |word| between(&word.text, 1, 65535).filter(|_| !word.has_variable()),
                );
                found.extend(fault.map(|fault| {
                    problem(&line.name, format!("`ttl`: {fault}"), "the server does not start with it")
                }));
            }
            "reload" => count(found, &line.name, name, &line.arguments, (1, 1)),
            name if behind && !KNOWN.contains(&name) => {
                let message =
                    format!("`{name}` stands behind `fallthrough`, where `hosts` takes no addresses");
                found.push(problem(&line.name, message, "make `fallthrough` the last line of the block"));
            }
            _ => {}
        }
    }
}

fn forward(found: &mut Vec<Problem>, plugin: &Plugin) {
    /// `max` of `plugin/forward`.
    const MOST_UPSTREAMS: usize = 15;
    let upstreams = plugin.arguments.get(1..).unwrap_or_default();
    if let Some(at) = upstreams.get(MOST_UPSTREAMS) {
        let message = format!("{} upstreams; {MOST_UPSTREAMS} are the most", upstreams.len());
        found.push(problem(at, message, "take some away"));
    }
    for upstream in upstreams.iter().filter(|upstream| !upstream.has_variable()) {
        let text = upstream.text.as_str();
        let bare = text.split_once("://").map_or(text, |(_, rest)| rest);
        if bare.is_empty() {
            found.push(problem(upstream, format!("`{text}` is no upstream"), "write an address"));
        } else if text.starts_with("https://") && bare.contains('/') {
            let message = format!("`{text}` has a path, and `forward` takes none");
            found.push(problem(upstream, message, "take the path away: /dns-query is asked"));
        } else if let Some(scheme) =
            ["grpc://", "https3://"].into_iter().find(|scheme| text.starts_with(scheme))
        {
            let message = format!("`forward` does not speak {scheme}");
            found.push(problem(upstream, message, "for gRPC there is the plugin `grpc`"));
        }
    }
}

fn reload(found: &mut Vec<Problem>, plugin: &Plugin) {
    for (word, least) in plugin.arguments.iter().zip([2.0, 1.0]).filter(|(word, _)| !word.has_variable()) {
        let jitter = least < 2.0;
        let fault = match go_duration(&word.text) {
            None => Some(format!("`{}` is no duration", word.text)),
            Some(0.0) if jitter => None,
            Some(seconds) if seconds < least => Some(format!("`{}` is less than {least} s", word.text)),
            Some(_) => None,
        };
        found.extend(
            fault.map(|fault| {
                problem(word, format!("`reload`: {fault}"), "the server does not start with it")
            }),
        );
    }
}

fn rewrite(found: &mut Vec<Problem>, plugin: &Plugin) {
    const TYPES: [&str; 7] = ["class", "cname", "edns0", "name", "rcode", "ttl", "type"];
    let mut words = plugin.arguments.iter();
    let mut first = words.next();
    if first.is_some_and(|word| ["continue", "stop"].contains(&word.text.to_lowercase().as_str())) {
        first = words.next();
    }
    // With fewer than two words the rule stands in the block.
    let Some(first) = first.filter(|word| plugin.arguments.len() > 1 && !word.has_variable()) else { return };
    if !TYPES.contains(&first.text.to_lowercase().as_str()) {
        let message = format!("`rewrite` knows no rule `{}`", first.text);
        found.push(problem(first, message, "it takes name, type, class, edns0, ttl, cname and rcode"));
    }
}

fn template(found: &mut Vec<Problem>, plugin: &Plugin) {
    const CLASSES: [&str; 6] = ["ANY", "CH", "CS", "HS", "IN", "NONE"];
    first_word(found, plugin, |word| {
        (!CLASSES.contains(&word)).then(|| format!("`{word}` is no class; IN and ANY are"))
    });
    if let Some(word) = plugin.arguments.get(1).filter(|word| !word.has_variable())
        && (word.text.is_empty() || word.text != word.text.to_uppercase())
    {
        let message = format!("`{}` is no record type", word.text);
        found.push(problem(word, message, "types are written in capitals"));
    }
}

fn one_of(word: &str, known: &[&str]) -> Option<String> {
    (!known.contains(&word)).then(|| format!("`{word}` is not one of {}", known.join(", ")))
}

fn number(word: &str) -> Option<String> {
    word.parse::<i64>().is_err().then(|| format!("`{word}` is no number"))
}

fn between(word: &str, least: i64, most: i64) -> Option<String> {
    match word.parse::<i64>() {
        Ok(value) if (least..=most).contains(&value) => None,
        _ => Some(format!("`{word}` is no number from {least} to {most}")),
    }
}

fn positive(word: &str) -> Option<String> {
    between(word, 1, i64::MAX).map(|_| format!("`{word}` is no number above 0"))
}

fn not_negative(word: &str) -> Option<String> {
    between(word, 0, i64::MAX).map(|_| format!("`{word}` is no number from 0"))
}

fn duration(word: &str) -> Option<String> {
    go_duration(word).is_none().then(|| format!("`{word}` is no duration, such as 5s"))
}

fn not_negative_duration(word: &str) -> Option<String> {
    match go_duration(word) {
        Some(seconds) if seconds >= 0.0 => None,
        _ => Some(format!("`{word}` is no duration, such as 5s")),
    }
}

fn rcode(word: &str) -> Option<String> {
    const CODES: [&str; 11] = [
        "FORMERR", "NOERROR", "NOTAUTH", "NOTIMP", "NOTZONE", "NXDOMAIN", "NXRRSET", "REFUSED", "SERVFAIL",
        "YXDOMAIN", "YXRRSET",
    ];
    one_of(word, &CODES)
}

fn address_port(word: &str) -> Option<String> {
    let fault = || Some(format!("`{word}` is no `[ADDRESS]:PORT`"));
    let Some((address, _)) = word.rsplit_once(':') else { return fault() };
    let bracketed = address.strip_prefix('[').and_then(|address| address.strip_suffix(']'));
    match bracketed {
        Some(address) if address.parse::<IpAddr>().is_err() => fault(),
        None if address.contains(':') => fault(),
        _ => None,
    }
}

/// Seconds of Go's `time.ParseDuration`.
pub(crate) fn go_duration(text: &str) -> Option<f64> {
    const UNITS: [(&str, f64); 8] = [
        ("ns", 1e-9),
        ("us", 1e-6),
        ("µs", 1e-6),
        ("μs", 1e-6),
        ("ms", 1e-3),
        ("s", 1.0),
        ("m", 60.0),
        ("h", 3600.0),
    ];
    let (sign, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (-1.0, rest),
        None => (1.0, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0.0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut seconds = 0.0;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (digits, behind) = rest.split_at_checked(end)?;
        let value: f64 = digits.parse().ok()?;
        let end = behind.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(behind.len());
        let (unit, behind) = behind.split_at_checked(end)?;
        seconds += value * UNITS.iter().find(|(known, _)| *known == unit)?.1;
        rest = behind;
    }
    Some(sign * seconds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corefile::parse;

    /// The faults of the first plugin.
    fn faults(plugin: &str) -> Vec<String> {
        let file = parse(&format!(".:53 {{\n{plugin}\n}}\n"));
        assert!(file.problems.is_empty(), "{plugin}: {:?}", file.problems);
        arguments(&file.blocks[0].plugins[0], 0).into_iter().map(|problem| problem.message).collect()
    }

    #[test]
    fn what_stops_the_server_is_told() {
        for (plugin, wanted) in [
            ("errors", ""),
            ("errors file.log", "`errors`: `file.log` is not one of stdout"),
            ("forward .", "`forward` has 1 words behind it and wants at least 2"),
            ("forward . 1.1.1.1 {\nmax_concurent 5\n}", "`forward` has no property `max_concurent`"),
            ("forward . 1.1.1.1 {\nmax_concurrent many\n}", "`max_concurrent`: `many` is no number from 0"),
            (
                "forward . 1.1.1.1 {\npolicy first\n}",
                "`policy`: `first` is not one of random, round_robin, sequential",
            ),
            ("forward . 1.1.1.1 {\nhealth_check 5\n}", "`health_check`: `5` is no duration, such as 5s"),
            ("forward . {$DNS} {\nmax_concurrent {$N}\n}", ""),
            ("forward {$ALL}", ""),
            ("forward . https3://9.9.9.9", "`forward` does not speak https3://"),
            ("cache 30", ""),
            ("cache 0", "`cache`: the TTL must be positive"),
            ("cache 30 {\nservfail 5s\ndenial 1000 5\nsuccess 1000\nprefetch 10 1m 10%\n}", ""),
            ("cache {\ndenial 1000 0\n}", "`denial`: `0` is no number above 0"),
            ("cache {\nttl 5\n}", "`cache` has no property `ttl`"),
            (
                "kubernetes cluster.local {\npods on\n}",
                "`pods`: `on` is not one of disabled, insecure, verified",
            ),
            ("kubernetes cluster.local {\nupstream\n}", "`kubernetes` has no property `upstream`"),
            ("kubernetes cluster.local {\nttl 3601\n}", "`ttl`: `3601` is no number from 0 to 3600"),
            ("hosts {\n10.0.0.1 a.example\nfallthrough\n}", ""),
            (
                "hosts {\nfallthrough\n10.0.0.1 a.example\n}",
                "`10.0.0.1` stands behind `fallthrough`, where `hosts` takes no addresses",
            ),
            ("hosts {\nttl 0\n}", "`ttl`: `0` is no number from 1 to 65535"),
            ("health :8080 {\nlameduck 5s\n}", ""),
            ("health 8080", "`health`: `8080` is no `[ADDRESS]:PORT`"),
            ("health {\nlameduck 5\n}", "`lameduck`: `5` is no duration, such as 5s"),
            ("loop {\n}", "`loop` takes no block"),
            ("reload 1s", "`reload`: `1s` is less than 2 s"),
            ("reload 10s 0s", ""),
            ("template IN A {\nanswer \"x\"\nrcode NXDOMAIN\n}", ""),
            ("template in A", "`template`: `in` is no class; IN and ANY are"),
            ("rewrite nam a b", "`rewrite` knows no rule `nam`"),
            ("rewrite stop {\nname regex a b\nanswer name c d\n}", ""),
            ("bufsize 100", "`bufsize`: `100` is no number from 512 to 4096"),
            ("unheard of {\nthings\n}", ""),
        ] {
            assert_eq!(faults(plugin).join("; "), wanted, "{plugin}");
        }
    }

    #[test]
    fn durations_are_go_s() {
        for (text, wanted) in [
            ("5s", Some(5.0)),
            ("1m30s", Some(90.0)),
            ("1.5h", Some(5400.0)),
            ("100ms", Some(0.1)),
            ("-5s", Some(-5.0)),
            ("0", Some(0.0)),
            ("5", None),
            ("s", None),
            ("", None),
            ("5 s", None),
            ("5d", None),
        ] {
            assert_eq!(go_duration(text), wanted, "{text}");
        }
    }
}
