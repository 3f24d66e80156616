//! Dumps of Services that were changed by chance: bytes, lines, ends, and the structure of JSON. They are read, or refused
//! with the line where it went wrong, and never more than that.

use fastrand::Rng;
use netlab_core::service::expected::ExpectedPort;
use netlab_core::service::trace::{Rules, trace};
use netlab_core::service::{cilium, conntrack, iptables, nftables};
use serde_json::Value;

use crate::service_world::{HALF_BROKEN, ports};

/// Changes of each dump in a run, unless `NETLAB_WORLDS` says otherwise.
const CHANGES: u64 = 60;
/// The same on every run; one more seed varies. `NETLAB_SEED` asks for one seed alone.
const SEED: u64 = 5;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

fn kept(name: &str) -> String {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// What a text is read as.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Form {
    Save,
    Nft,
    Maps,
    Flows,
}

const DUMPS: [(&str, Form); 7] = [
    ("tests/kube-proxy/iptables-1.36.3.save", Form::Save),
    ("tests/kube-proxy/ip6tables-1.36.3.save", Form::Save),
    ("tests/kube-proxy/nft-ip-1.36.3.json", Form::Nft),
    ("tests/kube-proxy/nft-ip6-1.34.4.json", Form::Nft),
    ("../examples/broken/cilium/cilium_lb4_services_v2.map", Form::Maps),
    ("../examples/broken/cilium/cilium_lb4_backends_v3.map", Form::Maps),
    ("../examples/stale/flows.txt", Form::Flows),
];

/// Reads a text, follows what it holds, and gives the words of a refusal.
fn read(form: Form, text: &str, ports: &[ExpectedPort]) -> Result<(), String> {
    let words = |error: &dyn std::error::Error| error.to_string();
    let rules = match form {
        Form::Save => Rules::Iptables(iptables::dump::parse(text).map_err(|error| words(&error))?),
        Form::Nft => Rules::Nftables(nftables::dump::parse(text).map_err(|error| words(&error))?),
        Form::Maps => {
            let services = kept("../examples/broken/cilium/cilium_lb4_services_v2.map");
            let mut raw = cilium::dump::read_map("", &services).expect("it is whole");
            raw.extend(cilium::dump::read_map("", text).map_err(|error| words(&error))?);
            Rules::Cilium(
                cilium::dump::assemble(&raw).map_err(|error| words(&error))?.pop().expect("a family"),
            )
        }
        Form::Flows => {
            let entries = conntrack::dump::parse(text).map_err(|error| words(&error))?;
            assert_eq!(conntrack::judge("flows", &entries, ports).ports.len(), ports.len());
            return Ok(());
        }
    };
    for port in trace(&rules, ports, "worker").ports {
        for address in &port.addresses {
            let sum: f64 = address.shares.iter().map(|(_, share)| share).sum();
            let symptom = address.symptom.failing();
            assert!((0.0..=1.000_001).contains(&sum) && (0.0..=1.000_001).contains(&symptom), "{address:?}");
        }
    }
    Ok(())
}

/// The text with one change, and what was done.
fn change(rng: &mut Rng, form: Form, text: &str) -> (String, &'static str) {
    let structured = matches!(form, Form::Nft | Form::Maps);
    match rng.u8(..if structured { 7 } else { 5 }) {
        0 => {
            let mut bytes = text.as_bytes().to_vec();
            for _ in 0..=rng.usize(..3) {
                let at = rng.usize(..bytes.len());
                bytes[at] = rng.u8(..);
            }
            (String::from_utf8_lossy(&bytes).into_owned(), "bytes are others")
        }
        1 => {
            let mut end = rng.usize(..text.len());
            while !text.is_char_boundary(end) {
                end -= 1;
            }
            (text[..end].to_owned(), "the end is missing")
        }
        2 => {
            let mut lines: Vec<&str> = text.lines().collect();
            lines.remove(rng.usize(..lines.len()));
            (lines.join("\n"), "a line is missing")
        }
        3 => {
            let mut lines: Vec<&str> = text.lines().collect();
            let (from, to) = (rng.usize(..lines.len()), rng.usize(..lines.len()));
            lines.swap(from, to);
            lines.insert(to, lines[from]);
            (lines.join("\n"), "lines are elsewhere")
        }
        4 => {
            let words: Vec<&str> = text.split(' ').collect();
            let (from, to) = (rng.usize(..words.len()), rng.usize(..words.len()));
            let mut words = words;
            words[to] = words[from];
            (words.join(" "), "a word is another")
        }
        _ => {
            let mut value: Value = serde_json::from_str(text).expect("it is whole");
            for _ in 0..=rng.usize(..3) {
                restructure(rng, &mut value);
            }
            (value.to_string(), "the structure is another")
        }
    }
}

/// Walks into a JSON value by chance, and changes what it comes to.
fn restructure(rng: &mut Rng, value: &mut Value) {
    let go_on = rng.u8(..8) > 0;
    match value {
        Value::Array(list) if go_on && !list.is_empty() => {
            let at = rng.usize(..list.len());
            if rng.u8(..12) == 0 {
                list.remove(at);
            } else {
                restructure(rng, &mut list[at]);
            }
        }
        Value::Object(object) if go_on && !object.is_empty() => {
            let key = object.keys().nth(rng.usize(..object.len())).expect("it has one").clone();
            if rng.u8(..12) == 0 {
                object.remove(&key);
            } else {
                restructure(rng, &mut object[&key]);
            }
        }
        other => {
            *other = match rng.u8(..7) {
                0 => Value::Null,
                1 => Value::from(u64::MAX),
                2 => Value::from(-1),
                3 => Value::from("@"),
                4 => Value::Array(vec![]),
                5 => serde_json::json!({}),
                _ => Value::from(rng.u16(..)),
            };
        }
    }
}

/// The line that a refusal names; JSON that is well formed has rows, or nothing to count.
fn names_its_place(form: Form, said: &str, text: &str) -> bool {
    let lines = text.lines().count().max(1);
    let line =
        said.strip_prefix("line ").and_then(|rest| rest.split([':', ',']).next()?.parse::<usize>().ok());
    match line {
        Some(line) => (1..=lines + 1).contains(&line),
        None => matches!(form, Form::Nft | Form::Maps) && serde_json::from_str::<Value>(text).is_ok(),
    }
}

#[test]
#[expect(clippy::print_stdout, reason = "the seed and the count are what a reader of the run wants")]
fn changed_dumps_are_read_or_refused_with_their_place() {
    let ports = ports(HALF_BROKEN);
    let asked_for = number("NETLAB_SEED");
    let seeds = asked_for.map_or_else(|| vec![SEED, Rng::new().u64(..)], |seed| vec![seed]);
    let changes = number("NETLAB_WORLDS").unwrap_or(if asked_for.is_some() { 1_000 } else { CHANGES });
    let (mut taken, mut refused) = (0_u64, 0_u64);
    for seed in seeds {
        println!("NETLAB_SEED={seed}");
        let mut rng = Rng::with_seed(seed);
        for (name, form) in DUMPS {
            let text = kept(name);
            read(form, &text, &ports).unwrap_or_else(|error| panic!("{name} as it is: {error}"));
            for _ in 0..changes {
                let (changed, what) = change(&mut rng, form, &text);
                match read(form, &changed, &ports) {
                    Ok(()) => taken += 1,
                    Err(said) => {
                        assert!(names_its_place(form, &said, &changed), "{name}, {what}: {said}");
                        assert!(said.len() < 400, "{name}, {what}: {said}");
                        refused += 1;
                    }
                }
            }
        }
    }
    println!("questions {}", taken + refused);
    assert!(taken > 0 && refused > 0, "{taken} were read and {refused} refused");
}
