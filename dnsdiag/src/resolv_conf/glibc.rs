//! The reading of glibc's `res_vinit` and `res_setoptions` (`resolv/res_init.c`).
//!
//! Invariant: differences between releases stand here with the release: 2.26 (no limit on suffixes), 2.29 (an address
//! must be nothing but an address), 2.31 (`trust-ad`), 2.36 (`no-aaaa`), 2.41 (`strict-error`, `-option`).

use std::net::{IpAddr, Ipv4Addr};

use super::address::{Nameserver, inet_aton, inet6};
use super::file::{before_nul, is_blank, is_indented_keyword, lines, words};
use super::{NoteKind, Options, ResolvConf, unused_option};
use crate::version::Version;

/// `MAXNS`.
const SERVERS: usize = 3;
/// `RES_MAXNDOTS`, `RES_MAXRETRANS`, `RES_MAXRETRY`.
const LIMITS: (i32, i32, i32) = (15, 30, 5);
/// `MAXDNSRCH` and the size of `defdname`, until 2.25.
const OLD_SEARCH: (usize, usize) = (6, 255);

pub(super) fn read(bytes: &[u8], mut conf: ResolvConf, version: Version) -> ResolvConf {
    let mut last = None;
    for line in lines(bytes) {
        let content = before_nul(line.bytes);
        if content.len() < line.bytes.len() {
            conf.note(line.number, NoteKind::NulByte, "a NUL byte ends the line for glibc");
        }
        let number = line.number;
        if content.starts_with(b"#") || content.starts_with(b";") {
            continue;
        }
        if is_indented_keyword(content) {
            let text = "ignored: glibc wants the keyword in the first column";
            conf.note(number, NoteKind::Indented, text);
            continue;
        }
        let Some((keyword, value)) = keyword(content) else {
            unknown(&mut conf, number, content);
            continue;
        };
        match keyword {
            "domain" | "search" => search(&mut conf, &mut last, number, keyword, value, version),
            "nameserver" => nameserver(&mut conf, number, value, version),
            "options" => options(&mut conf, number, value, version),
            _ => {}
        }
    }
    conf.finish(&[Nameserver::at(IpAddr::V4(Ipv4Addr::LOCALHOST))])
}

/// The keyword and what follows its blanks.
fn keyword(content: &[u8]) -> Option<(&'static str, &[u8])> {
    for keyword in ["domain", "search", "nameserver", "sortlist", "options"] {
        if let Some(rest) = content.strip_prefix(keyword.as_bytes())
            && rest.first().is_some_and(|byte| is_blank(*byte))
        {
            let blanks = rest.iter().take_while(|byte| is_blank(**byte)).count();
            return Some((keyword, rest.get(blanks..).unwrap_or_default()));
        }
    }
    None
}

fn unknown(conf: &mut ResolvConf, number: u32, content: &[u8]) {
    let Some(first) = words(content, |byte| is_blank(byte) || byte == b'\r').into_iter().next() else {
        return;
    };
    if matches!(first.as_str(), "domain" | "search" | "nameserver" | "options") {
        conf.note(number, NoteKind::MissingValue, format!("ignored: `{first}` without a value"));
    } else {
        conf.note(number, NoteKind::UnknownKeyword, format!("ignored: glibc knows no `{first}`"));
    }
}

fn search(
    conf: &mut ResolvConf,
    last: &mut Option<u32>,
    number: u32,
    keyword: &str,
    value: &[u8],
    version: Version,
) {
    if value.is_empty() {
        let text = format!("ignored: `{keyword}` without a value leaves the suffixes as they are");
        conf.note(number, NoteKind::MissingValue, text);
        return;
    }
    let old = version < Version::new(2, 26, 0);
    let (most, longest) = OLD_SEARCH;
    let kept = if old { value.get(..longest).unwrap_or(value) } else { value };
    let mut suffixes = words(kept, is_blank);
    if keyword == "domain" {
        if suffixes.len() > 1 {
            let text = "`domain` takes one suffix; what follows it is not used";
            conf.note(number, NoteKind::TextAfterValue, text);
        }
        suffixes.truncate(1);
    }
    if old && (suffixes.len() > most || kept.len() < value.len()) {
        suffixes.truncate(most);
        let text = format!("glibc before 2.26 keeps {most} suffixes and {longest} bytes of them");
        conf.note(number, NoteKind::SearchTruncated, text);
    }
    conf.replace_search(last, number, suffixes);
    conf.remark_suffixes(number);
    if conf.search.iter().any(|suffix| suffix == ".") {
        let text = "the suffix `.` stands for the name as it is, in that place of the order";
        conf.note(number, NoteKind::RootSuffix, text);
    }
}

fn nameserver(conf: &mut ResolvConf, number: u32, value: &[u8], version: Version) {
    let parts = words(value, is_blank);
    let Some(word) = parts.first().cloned() else {
        conf.note(number, NoteKind::MissingValue, "ignored: `nameserver` without an address");
        return;
    };
    // Until 2.28 `inet_aton` itself ended at any white space.
    let exact = version >= Version::new(2, 29, 0);
    let v4 = if exact { word.as_str() } else { word.trim_end_matches(['\r', '\u{b}', '\u{c}']) };
    let server = match (inet_aton(v4), inet6(&word)) {
        (Some(address), _) => {
            Nameserver { text: word.clone(), address: Some(IpAddr::V4(address)), zone: None }
        }
        (None, Some((address, zone))) => {
            Nameserver { text: word.clone(), address: Some(IpAddr::V6(address)), zone }
        }
        (None, None) => {
            let (kind, why) = if word.ends_with('\r') {
                (NoteKind::CarriageReturn, "with the carriage return that ends the line it is no address")
            } else {
                (NoteKind::NotAnAddress, "no address; names are not looked up here")
            };
            conf.note(number, kind, format!("ignored: `{}`: {why}", word.trim_end()));
            return;
        }
    };
    if parts.len() > 1 {
        conf.note(number, NoteKind::TextAfterValue, "what follows the address is not used");
    }
    if conf.nameservers.len() == SERVERS {
        conf.note(
            number,
            NoteKind::TooManyNameservers,
            format!("ignored: {server} is the 4th or later; 3 are used"),
        );
    } else {
        conf.nameservers.push(server);
    }
}

fn options(conf: &mut ResolvConf, number: u32, value: &[u8], version: Version) {
    let (ndots, timeout, attempts) = LIMITS;
    for word in words(value, is_blank) {
        conf.option_words.push(word.clone());
        if let Some(digits) = word.strip_prefix("ndots:") {
            // The field has four bits: a negative number wraps around in it.
            let value = capped(conf, number, &word, digits, ndots) & 0xf;
            conf.options.ndots = u32::try_from(value).unwrap_or(0);
        } else if let Some(digits) = word.strip_prefix("timeout:") {
            conf.options.timeout = i64::from(capped(conf, number, &word, digits, timeout));
        } else if let Some(digits) = word.strip_prefix("attempts:") {
            conf.options.attempts = i64::from(capped(conf, number, &word, digits, attempts));
        } else {
            flag(conf, number, &word, version);
        }
    }
}

/// The number as C's `atoi` reads it, at most `limit`.
fn capped(conf: &mut ResolvConf, number: u32, word: &str, digits: &str, limit: i32) -> i32 {
    let value = atoi(digits);
    if value > limit {
        conf.note(number, NoteKind::Capped, format!("`{word}`: glibc takes {limit} at most"));
    } else if !digits.trim_start_matches(['+', '-']).starts_with(|c: char| c.is_ascii_digit()) {
        conf.note(number, NoteKind::NotANumber, format!("`{word}`: no number, which counts as 0"));
    } else if value < 0 {
        conf.note(
            number,
            NoteKind::Capped,
            format!("`{word}`: a negative number is not refused, and means little"),
        );
    }
    value.min(limit)
}

/// `atoi`: `strtol`, kept in an `int`.
fn atoi(text: &str) -> i32 {
    let text = text.trim_start_matches(['\r', '\u{b}', '\u{c}']);
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let mut value: i64 = 0;
    for digit in digits.bytes().take_while(u8::is_ascii_digit) {
        value = value.saturating_mul(10).saturating_add(i64::from(digit - b'0'));
    }
    let value = match (negative, value) {
        (true, i64::MAX) => i64::MIN,
        (true, value) => -value,
        (false, value) => value,
    };
    #[expect(clippy::cast_possible_truncation, reason = "C keeps the low half, too")]
    {
        value as i32
    }
}

type Field = fn(&mut Options) -> &mut bool;

/// Names in the order in which they are tried; each is found at the begin of a word, whatever follows it.
const FLAGS: [(&str, Version, Field); 11] = [
    ("rotate", Version::new(2, 0, 0), |options| &mut options.rotate),
    ("edns0", Version::new(2, 6, 0), |options| &mut options.edns0),
    ("single-request-reopen", Version::new(2, 9, 0), |options| &mut options.single_request_reopen),
    ("single-request", Version::new(2, 10, 0), |options| &mut options.single_request),
    ("no_tld_query", Version::new(2, 14, 0), |options| &mut options.no_tld_query),
    ("no-tld-query", Version::new(2, 14, 0), |options| &mut options.no_tld_query),
    ("no-reload", Version::new(2, 26, 0), |options| &mut options.no_reload),
    ("use-vc", Version::new(2, 14, 0), |options| &mut options.use_vc),
    ("trust-ad", Version::new(2, 31, 0), |options| &mut options.trust_ad),
    ("no-aaaa", Version::new(2, 36, 0), |options| &mut options.no_aaaa),
    ("strict-error", Version::new(2, 41, 0), |options| &mut options.strict_error),
];

fn flag(conf: &mut ResolvConf, number: u32, word: &str, version: Version) {
    let (name, value) = match word.strip_prefix('-') {
        Some(name) if version >= Version::new(2, 41, 0) => (name, false),
        _ => (word, true),
    };
    let found = FLAGS.iter().find(|(flag, since, _)| *since <= version && name.starts_with(flag));
    let Some((flag, _, field)) = found else {
        if word == "\r" {
            return;
        }
        return unused_option(conf, number, word);
    };
    *field(&mut conf.options) = value;
    if name.trim_end_matches('\r') != *flag {
        let text = format!("`{word}` is read as `{flag}`: glibc compares the beginning only");
        conf.note(number, NoteKind::OptionInsideText, text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_c() {
        for (text, value) in
            [("5", 5), ("-1", -1), ("x", 0), ("", 0), ("+3", 3), ("3x", 3), ("99999999999", 1_215_752_191)]
        {
            assert_eq!(atoi(text), value, "{text}");
        }
        assert_eq!(atoi("99999999999999999999"), -1);
    }

    #[test]
    fn a_keyword_needs_a_blank() {
        assert_eq!(
            keyword(b"search\tx").map(|(word, value)| (word, super::super::file::text(value))),
            Some(("search", "x".to_owned()))
        );
        assert!(keyword(b"search").is_none());
        assert!(keyword(b"searching x").is_none());
    }
}
