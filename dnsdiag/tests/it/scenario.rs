//! Random lookups: a `resolv.conf`, a script of servers and a name, of the kinds that `vectors.json` has.
//!
//! Invariant: a seed gives the same scenarios everywhere. Timeouts are short, since real libraries wait them out.

use fastrand::Rng;
use serde_json::{Value, json};

use crate::vector::Vector;

/// An endless list.
pub(crate) struct Scenarios {
    random: Rng,
    seed: u64,
    count: usize,
}

const SUFFIXES: [&str; 3] = ["ns.svc.c.l", "svc.c.l", "c.l"];
const NAMES: [&str; 7] = ["foo", "foo.other", "foo.example.com", "foo.", "foo.other.", "a.b.c.d.e.f", "Foo"];
const SERVERS: [&str; 3] = ["127.0.0.11", "127.0.0.12", "127.0.0.13"];
const MODES: [&str; 11] =
    ["ok", "nx", "nodata", "servfail", "refused", "formerr", "notimp", "lame", "tc", "drop", "droponce"];

impl Scenarios {
    pub(crate) fn new(seed: u64) -> Self {
        Self { random: Rng::with_seed(seed), seed, count: 0 }
    }

    fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.random.usize(0..of.len())]
    }

    fn chance(&mut self, percent: u8) -> bool {
        self.random.u8(0..100) < percent
    }

    fn search(&mut self) -> String {
        let mut suffixes: Vec<&str> = SUFFIXES.iter().copied().take(self.random.usize(0..4)).collect();
        if self.chance(6) {
            suffixes.insert(self.random.usize(0..=suffixes.len()), ".");
        }
        if self.chance(4) {
            suffixes.push("dotted.l.");
        }
        if self.chance(3) {
            suffixes.push(".dot.l");
        }
        if self.chance(3) {
            suffixes.push("a..l");
        }
        let long = "x".repeat(62) + ".l";
        if self.chance(4) {
            suffixes.extend(std::iter::repeat_n(long.as_str(), 4));
        }
        if suffixes.is_empty() {
            return if self.chance(30) { "search \n".to_owned() } else { String::new() };
        }
        let tail = if self.chance(4) { " # tail" } else { "" };
        let keyword = if self.chance(8) { "domain" } else { "search" };
        let indent = if self.chance(3) { " " } else { "" };
        format!("{indent}{keyword} {}{tail}\n", suffixes.join(" "))
    }

    fn options(&mut self) -> String {
        let mut words: Vec<String> = Vec::new();
        // The default of 5 s only now and then.
        if !self.chance(8) {
            words.push("timeout:1".to_owned());
        }
        match self.random.u8(0..6) {
            0 => {}
            1 => words.push("ndots:1".to_owned()),
            2 => words.push("ndots:2".to_owned()),
            3 => words.push("ndots:0".to_owned()),
            _ => words.push("ndots:5".to_owned()),
        }
        if self.chance(30) {
            words.push(format!("attempts:{}", self.random.u8(1..5)));
        }
        for (word, percent) in [
            ("rotate", 12),
            ("single-request", 12),
            ("single-request-reopen", 10),
            ("use-vc", 6),
            ("edns0", 8),
            ("trust-ad", 8),
            ("no-aaaa", 6),
            ("no-tld-query", 5),
            ("bogus", 4),
        ] {
            if self.chance(percent) {
                words.push(word.to_owned());
            }
        }
        if words.is_empty() { String::new() } else { format!("options {}\n", words.join(" ")) }
    }

    /// The rows of one server: for names that will be asked for, more often than not.
    fn rows(&mut self, name: &str, suffixes: &str) -> Vec<Value> {
        let bare = name.strip_suffix('.').unwrap_or(name);
        let mut names: Vec<String> = suffixes
            .split_whitespace()
            .skip(1)
            .map(|suffix| format!("{bare}.{}.", suffix.trim_matches('.')).replace("..", "."))
            .collect();
        names.push(format!("{bare}."));
        names.push("*".to_owned());
        let mut rows = Vec::new();
        for _ in 0..self.random.usize(0..6) {
            let name = names[self.random.usize(0..names.len())].clone();
            let qtype = self.one(&["*", "*", "A", "AAAA"]);
            let mode = self.one(&MODES);
            rows.push(json!([name, qtype, mode]));
        }
        rows
    }
}

impl Iterator for Scenarios {
    type Item = Vector;

    fn next(&mut self) -> Option<Vector> {
        self.count += 1;
        let query = self.one(&NAMES).to_owned();
        let family = self.one(&["unspec", "unspec", "unspec", "unspec", "inet", "inet6"]).to_owned();
        let search = self.search();
        let count = [1, 1, 1, 2, 2, 3][self.random.usize(0..6)];
        let mut servers: Vec<&str> = SERVERS.iter().copied().take(count).collect();
        if self.chance(8) {
            servers.push("::1");
        }
        let lines = servers.iter().fold(String::new(), |lines, server| lines + "nameserver " + server + "\n");
        let options = self.options();
        let mut script = serde_json::Map::new();
        for server in &servers {
            // One that is not in the script has nobody listening.
            if !self.chance(5) {
                script.insert((*server).to_owned(), Value::Array(self.rows(&query, &search)));
            }
        }
        for closed in ["_noudp", "_notcp"] {
            if self.chance(10) {
                script.insert(closed.to_owned(), json!([self.one(&servers)]));
            }
        }
        let resolv_conf = if self.chance(50) {
            format!("{search}{lines}{options}")
        } else {
            format!("{options}{lines}{search}")
        };
        Some(Vector {
            name: format!("random {}/{}", self.seed, self.count),
            resolv_conf,
            server: Value::Object(script),
            query,
            family,
            observed: std::collections::BTreeMap::new(),
        })
    }
}
