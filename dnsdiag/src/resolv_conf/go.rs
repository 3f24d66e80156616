//! The reading of Go's `dnsReadConfig` (`net/dnsconfig_unix.go`).
//!
//! Invariant: suffixes end with a dot, as Go keeps them; releases that learned an option stand beside it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::address::{Nameserver, inet6};
use super::file::{is_blank, lines, words};
use super::{NoteKind, ResolvConf, rooted, unused_option};
use crate::version::Version;

const SERVERS: usize = 3;

pub(super) fn read(bytes: &[u8], mut conf: ResolvConf, version: Version) -> ResolvConf {
    let mut last = None;
    for line in lines(bytes) {
        let number = line.number;
        if line.bytes.starts_with(b"#") || line.bytes.starts_with(b";") {
            continue;
        }
        let fields = words(line.bytes, |byte| is_blank(byte) || byte == b'\r');
        let Some((keyword, values)) = fields.split_first() else { continue };
        match keyword.as_str() {
            "nameserver" => nameserver(&mut conf, number, values),
            "domain" => match values.first() {
                Some(suffix) => conf.replace_search(&mut last, number, vec![rooted(suffix)]),
                None => conf.note(number, NoteKind::MissingValue, "ignored: `domain` without a value"),
            },
            "search" => {
                if values.is_empty() {
                    conf.note(number, NoteKind::MissingValue, "a bare `search` takes the suffixes away");
                }
                if values.iter().any(|value| value == ".") {
                    conf.note(number, NoteKind::RootSuffix, "Go leaves the suffix `.` out");
                }
                let suffixes =
                    values.iter().map(|value| rooted(value)).filter(|suffix| suffix != ".").collect();
                conf.replace_search(&mut last, number, suffixes);
                conf.remark_suffixes(number);
            }
            "options" => values.iter().for_each(|word| option(&mut conf, number, word, version)),
            // OpenBSD's order of sources.
            "lookup" => {}
            other => {
                let text =
                    format!("Go knows no `{other}`; where cgo is there it then leaves the work to the libc");
                conf.note(number, NoteKind::UnknownKeyword, text);
            }
        }
    }
    conf.finish(&[
        Nameserver::at(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        Nameserver::at(IpAddr::V6(Ipv6Addr::LOCALHOST)),
    ])
}

fn nameserver(conf: &mut ResolvConf, number: u32, values: &[String]) {
    let Some(word) = values.first() else {
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
    let server = if let Ok(address) = word.parse::<Ipv4Addr>() {
        Nameserver { text: word.clone(), address: Some(IpAddr::V4(address)), zone: None }
    } else if let Some((address, zone)) = inet6(word).filter(|(_, zone)| zone.as_deref() != Some("")) {
        Nameserver { text: word.clone(), address: Some(IpAddr::V6(address)), zone }
    } else {
        let text = format!("ignored: `{word}` is no address; names are not looked up here");
        conf.note(number, NoteKind::NotAnAddress, text);
        return;
    };
    if values.len() > 1 {
        conf.note(number, NoteKind::TextAfterValue, "what follows the address is not used");
    }
    conf.nameservers.push(server);
}

fn option(conf: &mut ResolvConf, number: u32, word: &str, version: Version) {
    conf.option_words.push(word.to_owned());
    if let Some(digits) = word.strip_prefix("ndots:") {
        let value = decimal(digits);
        if value > 15 {
            conf.note(number, NoteKind::Capped, format!("`{word}`: Go takes 15 at most"));
        }
        conf.options.ndots = u32::try_from(value.min(15)).unwrap_or(15);
        return;
    }
    for (name, is_timeout) in [("timeout:", true), ("attempts:", false)] {
        let Some(digits) = word.strip_prefix(name) else { continue };
        let value = decimal(digits);
        if value < 1 {
            conf.note(number, NoteKind::Capped, format!("`{word}`: Go takes 1 at least"));
        }
        let value = value.max(1);
        if is_timeout {
            conf.options.timeout = value;
        } else {
            conf.options.attempts = value;
        }
        return;
    }
    let options = &mut conf.options;
    let known = match word {
        "rotate" => Some(&mut options.rotate),
        "single-request" | "single-request-reopen" => Some(&mut options.single_request),
        "use-vc" | "usevc" | "tcp" => Some(&mut options.use_vc),
        "trust-ad" if version >= TRUST_AD => Some(&mut options.trust_ad),
        // Go 1.19 sends OPT with every query, asked or not.
        "edns0" if version >= EDNS0 => Some(&mut options.edns0),
        "no-reload" if version >= NO_RELOAD => Some(&mut options.no_reload),
        _ => None,
    };
    match known {
        Some(field) => *field = true,
        None => unused_option(conf, number, word),
    }
}

const EDNS0: Version = Version::new(1, 19, 0);
const NO_RELOAD: Version = Version::new(1, 20, 0);
const TRUST_AD: Version = Version::new(1, 20, 0);

/// Go's `dtoi`: leading digits, 0 without any, and no more than 0xFFFFFF.
fn decimal(text: &str) -> i64 {
    let mut value = 0;
    for digit in text.bytes().take_while(u8::is_ascii_digit) {
        value = value * 10 + i64::from(digit - b'0');
        if value >= 0x00ff_ffff {
            return 0x00ff_ffff;
        }
    }
    value
}
