//! The reading of kubelet's `parseResolvConf`, which makes pods' files from the node's.
//!
//! Invariant: values are kept as they are: kubelet does not look whether a name server is an address.

use std::net::IpAddr;

use super::address::{Nameserver, inet6};
use super::file::{lines, text};
use super::{NoteKind, ResolvConf};

/// `maxResolvConfLength`.
const LONGEST: usize = 10 << 20;

pub(super) fn read(bytes: &[u8], mut conf: ResolvConf) -> ResolvConf {
    if bytes.len() >= LONGEST {
        conf.note(0, NoteKind::LineTooLong, "kubelet refuses a file of 10 MiB or more: no pod can start");
    }
    let mut last = None;
    for line in lines(bytes) {
        let number = line.number;
        let line = text(line.bytes);
        let fields: Vec<&str> = line.split_whitespace().collect();
        let Some((keyword, values)) = fields.split_first() else { continue };
        if keyword.starts_with('#') {
            continue;
        }
        match *keyword {
            "nameserver" => nameserver(&mut conf, number, values),
            "search" => {
                if values.contains(&".") {
                    conf.note(number, NoteKind::RootSuffix, "kubelet leaves the suffix `.` out");
                }
                let suffixes = values
                    .iter()
                    .filter(|value| **value != ".")
                    .map(|value| value.strip_suffix('.').unwrap_or(value).to_owned())
                    .collect();
                conf.replace_search(&mut last, number, suffixes);
                conf.remark_suffixes(number);
            }
            "options" => values.iter().for_each(|word| option(&mut conf, number, word)),
            "domain" => {
                let text = "kubelet ignores `domain`: pods do not get this suffix";
                conf.note(number, NoteKind::UnknownKeyword, text);
            }
            other => {
                conf.note(number, NoteKind::UnknownKeyword, format!("kubelet ignores `{other}`"));
            }
        }
    }
    conf.notes.sort_by_key(|note| note.line);
    conf
}

fn nameserver(conf: &mut ResolvConf, number: u32, values: &[&str]) {
    let Some(word) = values.first() else {
        let text = "an error to kubelet: `nameserver` without a value, and no pod of the node starts";
        conf.note(number, NoteKind::MissingValue, text);
        return;
    };
    let (address, zone) = match (word.parse::<IpAddr>(), inet6(word)) {
        (Ok(address), _) => (Some(address), None),
        (Err(_), Some((address, zone))) => (Some(IpAddr::V6(address)), zone),
        (Err(_), None) => (None, None),
    };
    if address.is_none() {
        let text = format!("`{word}` is no address, and kubelet hands it on all the same");
        conf.note(number, NoteKind::NotAnAddress, text);
    }
    if values.len() > 1 {
        conf.note(number, NoteKind::TextAfterValue, "what follows the address is not used");
    }
    conf.nameservers.push(Nameserver { text: (*word).to_owned(), address, zone });
}

/// The last word of each key stays.
fn option(conf: &mut ResolvConf, number: u32, word: &str) {
    let key = |word: &str| word.split(':').next().unwrap_or(word).to_owned();
    if let Some(before) = conf.option_words.iter_mut().find(|before| key(before) == key(word)) {
        let text = format!("`{before}` of before is replaced by `{word}`");
        word.clone_into(before);
        conf.note(number, NoteKind::Overruled, text);
    } else {
        conf.option_words.push(word.to_owned());
    }
    let number =
        |before: i64| word.split_once(':').and_then(|(_, value)| value.parse().ok()).unwrap_or(before);
    let options = &mut conf.options;
    match key(word).as_str() {
        "ndots" => options.ndots = number(options.ndots.into()).try_into().unwrap_or(options.ndots),
        "timeout" => options.timeout = number(options.timeout),
        "attempts" => options.attempts = number(options.attempts),
        "rotate" => options.rotate = true,
        "single-request" => options.single_request = true,
        "single-request-reopen" => options.single_request_reopen = true,
        "use-vc" => options.use_vc = true,
        "edns0" => options.edns0 = true,
        "trust-ad" => options.trust_ad = true,
        "no-aaaa" => options.no_aaaa = true,
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use crate::resolv_conf::{Dialect, read};

    #[test]
    fn the_last_option_of_a_key_stays() {
        let conf = read(b"options ndots:2 edns0\noptions ndots:3\n", Dialect::Kubelet);
        assert_eq!(conf.option_words, ["ndots:3", "edns0"]);
        assert_eq!(conf.options.ndots, 3);
    }
}
