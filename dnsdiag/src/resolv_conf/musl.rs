//! The reading of musl's `__get_resolv_conf` (`src/network/resolvconf.c`), the same since 1.1.13.
//!
//! Invariant: only `ndots`, `timeout` and `attempts` are options, and each is looked for as letters anywhere in the
//! line.

use std::net::{IpAddr, Ipv4Addr};

use super::address::{Nameserver, inet_aton, inet6, is_link_local};
use super::file::{Line, before_nul, is_indented_keyword, is_space, lines, text, words};
use super::{NoteKind, ResolvConf, unused_option};

const SERVERS: usize = 3;
/// `fgets` into 256 bytes: so many, the newline included.
const BUFFER: usize = 255;

pub(super) fn read(bytes: &[u8], mut conf: ResolvConf) -> ResolvConf {
    let mut last = None;
    let mut lines = lines(bytes);
    while let Some(line) = lines.next() {
        let number = line.number;
        if line.bytes.len() >= BUFFER {
            let text = format!(
                "ignored: {} bytes, and musl drops every line that does not fit into {BUFFER}",
                line.bytes.len() + usize::from(line.ended)
            );
            conf.note(number, NoteKind::LineTooLong, text);
            continue;
        }
        if line.ended && line.bytes.contains(&0) {
            // `strchr` finds no newline behind the NUL, so the rest "of the line" is thrown away: the next one.
            let text = "ignored: a NUL byte makes musl drop this line and the next";
            conf.note(number, NoteKind::NulByte, text);
            lines.next();
            continue;
        }
        one(&mut conf, &mut last, line);
    }
    conf.finish(&[Nameserver::at(IpAddr::V4(Ipv4Addr::LOCALHOST))])
}

fn one(conf: &mut ResolvConf, last: &mut Option<u32>, line: Line<'_>) {
    let number = line.number;
    let content = before_nul(line.bytes);
    let after = |keyword: &str| -> Option<&[u8]> {
        let rest = content.strip_prefix(keyword.as_bytes())?;
        match rest.first() {
            Some(byte) => is_space(*byte).then_some(rest),
            // The newline is the blank then.
            None => line.ended.then_some(rest),
        }
    };
    if let Some(rest) = after("options") {
        options(conf, number, rest);
    } else if let Some(rest) = after("nameserver") {
        nameserver(conf, number, rest);
    } else if let Some(rest) = after("search").or_else(|| after("domain")) {
        let suffixes = words(rest, is_space);
        if suffixes.is_empty() {
            let text = "a bare keyword takes the suffixes away";
            conf.note(number, NoteKind::MissingValue, text);
        }
        conf.replace_search(last, number, suffixes);
        conf.remark_suffixes(number);
        if conf.search.iter().any(|suffix| suffix == ".") {
            let text = "the suffix `.`: musl before 1.2.4 sends a malformed query for it and fails; since then it is \
                        skipped";
            conf.note(number, NoteKind::RootSuffix, text);
        }
    } else if is_indented_keyword(content) {
        conf.note(number, NoteKind::Indented, "ignored: musl wants the keyword in the first column");
    } else if let Some(first) = words(content, is_space).first()
        && !first.starts_with(['#', ';'])
    {
        conf.note(number, NoteKind::UnknownKeyword, format!("ignored: musl knows no `{first}`"));
    }
}

fn nameserver(conf: &mut ResolvConf, number: u32, rest: &[u8]) {
    let parts = words(rest, is_space);
    let Some(word) = parts.first() else {
        conf.note(number, NoteKind::MissingValue, "ignored: `nameserver` without an address");
        return;
    };
    if conf.nameservers.len() == SERVERS {
        conf.note(
            number,
            NoteKind::TooManyNameservers,
            format!("ignored: {word} is the 4th or later; 3 are used"),
        );
        return;
    }
    let server = match (inet_aton(word), inet6(word)) {
        (Some(address), _) => {
            Nameserver { text: word.clone(), address: Some(IpAddr::V4(address)), zone: None }
        }
        (None, Some((address, zone))) if zone_fits(address, zone.as_deref()) => {
            Nameserver { text: word.clone(), address: Some(IpAddr::V6(address)), zone }
        }
        _ => {
            let text = format!("ignored: `{word}` is no address; names are not looked up here");
            conf.note(number, NoteKind::NotAnAddress, text);
            return;
        }
    };
    if parts.len() > 1 {
        conf.note(number, NoteKind::TextAfterValue, "what follows the address is not used");
    }
    conf.nameservers.push(server);
}

/// A zone by name needs a link-local address; a number is taken with any.
fn zone_fits(address: std::net::Ipv6Addr, zone: Option<&str>) -> bool {
    zone.is_none_or(|zone| {
        let number = !zone.is_empty() && zone.bytes().all(|byte| byte.is_ascii_digit());
        if number { zone.parse::<u32>().is_ok() } else { zone.is_empty() || is_link_local(address) }
    })
}

fn options(conf: &mut ResolvConf, number: u32, rest: &[u8]) {
    let line = text(rest);
    for (name, limit) in [("ndots:", 15), ("attempts:", 10), ("timeout:", 60)] {
        let Some(at) = line.find(name) else { continue };
        let digits = line.get(at + name.len()..).unwrap_or_default();
        if !digits.starts_with(|c: char| c.is_ascii_digit()) {
            conf.note(
                number,
                NoteKind::NotANumber,
                format!("`{name}` is followed by no number, and ignored"),
            );
            continue;
        }
        let value = digits
            .bytes()
            .take_while(u8::is_ascii_digit)
            .fold(0_i64, |value, digit| value.saturating_mul(10).saturating_add(i64::from(digit - b'0')));
        if value > limit {
            conf.note(number, NoteKind::Capped, format!("`{name}{value}`: musl takes {limit} at most"));
        }
        let value = value.min(limit);
        match name {
            "ndots:" => conf.options.ndots = u32::try_from(value).unwrap_or(0),
            "attempts:" => conf.options.attempts = value,
            _ => conf.options.timeout = value,
        }
        if line
            .get(..at)
            .is_some_and(|before| !before.is_empty() && !before.ends_with(|c: char| c.is_ascii_whitespace()))
        {
            let text = format!("`{name}` is found inside a longer word, and used");
            conf.note(number, NoteKind::OptionInsideText, text);
        }
        if line.matches(name).count() > 1 {
            let text = format!("`{name}` stands twice in the line: musl uses the first, glibc the last");
            conf.note(number, NoteKind::Overruled, text);
        }
    }
    for word in words(rest, is_space) {
        conf.option_words.push(word.clone());
        if !["ndots:", "attempts:", "timeout:"].iter().any(|name| word.contains(name)) {
            unused_option(conf, number, &word);
        }
    }
}
