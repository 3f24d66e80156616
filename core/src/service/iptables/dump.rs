//! The text of `iptables-save`, as tables, chains and rules.
//!
//! Invariant: every rule keeps its line and its position in its chain, and every word that is not understood is kept
//! in [`Rule::other`]: a rule with such a word is not taken for one without it. Both variants of the command, with or
//! without counters, are read; the order of options does not matter. Knows nothing of Services.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;
use thiserror::Error;

use crate::model::port::Protocol;
use crate::model::service::AddressType;

/// A text that `iptables-save` did not write.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line}: {what}; expected {expected}")]
pub struct DumpError {
    /// Counted from 1.
    pub line: usize,
    /// What is there.
    pub what: String,
    /// What should be.
    pub expected: &'static str,
}

/// All tables of one family.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Dump {
    /// By name: nat, filter, mangle, …
    pub tables: BTreeMap<String, Table>,
    /// The family, where it is known from elsewhere.
    told: Option<AddressType>,
}

/// Chains by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// By name.
    pub chains: BTreeMap<String, Chain>,
}

/// Rules in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Chain {
    /// The line that declares it.
    pub line: usize,
    /// What becomes of packets that no rule decides; only the kernel's own chains have one.
    pub policy: Option<String>,
    /// In order.
    pub rules: Vec<Rule>,
}

/// A value, or everything but it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Not<T> {
    /// True for `!`.
    pub negated: bool,
    /// The value.
    pub value: T,
}

/// One rule.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rule {
    /// Counted from 1.
    pub line: usize,
    /// In its chain, counted from 1, as `iptables -L --line-numbers` shows it.
    pub position: usize,
    /// `-s`.
    pub source: Option<Not<IpNet>>,
    /// `-d`.
    pub destination: Option<Not<IpNet>>,
    /// `-p`, when it is one that Services have.
    pub protocol: Option<Protocol>,
    /// `--dport`.
    pub destination_port: Option<u16>,
    /// `--comment`.
    pub comment: Option<String>,
    /// `--probability`, 0 to 1.
    pub probability: Option<f64>,
    /// `--src-type LOCAL`.
    pub from_node: bool,
    /// `--dst-type LOCAL`.
    pub to_node: bool,
    /// `--mark VALUE/MASK`.
    pub mark: Option<Not<String>>,
    /// `--set-xmark VALUE/MASK`.
    pub set_mark: Option<String>,
    /// `--ctstate`, or `--state` of the older module.
    pub states: Option<Not<String>>,
    /// `-m recent`.
    pub recent: Option<Recent>,
    /// `-j` or `-g`.
    pub target: Option<String>,
    /// `--to-destination`.
    pub to_destination: Option<SocketAddr>,
    /// Everything else, in order.
    pub other: Vec<String>,
}

/// `-m recent`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recent {
    /// `--name`.
    pub name: String,
    /// `--set`.
    pub set: bool,
    /// `--rcheck`.
    pub check: bool,
    /// `--seconds`.
    pub seconds: Option<u32>,
    /// `--reap`.
    pub reap: bool,
}

impl Rule {
    /// One that has a target and asks for nothing.
    pub(super) fn to(target: &str) -> Self {
        Self { target: Some(target.to_owned()), ..Self::default() }
    }

    /// True when it takes every packet; with `new`, every first packet of a connection is enough.
    #[must_use]
    pub fn is_for_all(&self, new: bool) -> bool {
        self.source.is_none()
            && self.destination.is_none()
            && self.protocol.is_none()
            && self.destination_port.is_none()
            && self.probability.is_none()
            && !self.from_node
            && !self.to_node
            && self.mark.is_none()
            && self.recent.is_none()
            && self.other.is_empty()
            && (self.states.is_none() || new && self.takes_new())
    }

    /// Whether the states that it asks for are those of first packets, too.
    #[must_use]
    pub fn takes_new(&self) -> bool {
        let new =
            |states: &Not<String>| states.value.split(',').any(|state| state == "NEW") != states.negated;
        self.states.as_ref().is_none_or(new)
    }
}

impl Dump {
    /// True when a proxy in iptables mode ever wrote here. One that lost all of its rules left chains in some table; on a
    /// node whose proxy is in another mode there are only kubelet's.
    #[must_use]
    pub fn is_of_proxy(&self) -> bool {
        const ITS_OWN: [&str; 7] = [
            "KUBE-SERVICES",
            "KUBE-EXTERNAL-SERVICES",
            "KUBE-NODEPORTS",
            "KUBE-FORWARD",
            "KUBE-PROXY-",
            "KUBE-SVC-",
            "KUBE-SEP-",
        ];
        let mut chains = self.tables.values().flat_map(|table| table.chains.keys());
        chains.any(|chain| ITS_OWN.iter().any(|own| chain.starts_with(own)))
    }

    /// The rules of a chain, none when it is not there.
    #[must_use]
    pub fn rules(&self, table: &str, chain: &str) -> &[Rule] {
        self.chain(table, chain).map_or(&[], |chain| &chain.rules)
    }

    /// Says which command wrote it.
    pub const fn of_family(&mut self, family: AddressType) {
        self.told = Some(family);
    }

    /// The family that its addresses are of; both commands write the same words else. IPv4 when there is none.
    #[must_use]
    pub fn family(&self) -> AddressType {
        if let Some(told) = self.told {
            return told;
        }
        let rules =
            self.tables.values().flat_map(|table| table.chains.values()).flat_map(|chain| &chain.rules);
        let mut nets = rules.flat_map(|rule| rule.source.iter().chain(&rule.destination));
        nets.next().map_or(AddressType::Ipv4, |net| AddressType::of(net.value.addr()))
    }

    /// A chain.
    #[must_use]
    pub fn chain(&self, table: &str, chain: &str) -> Option<&Chain> {
        self.tables.get(table)?.chains.get(chain)
    }
}

/// Reads the text of `iptables-save` or `ip6tables-save`.
///
/// # Errors
/// [`DumpError`] at the first line that they do not write.
pub fn parse(text: &str) -> Result<Dump, DumpError> {
    let mut dump = Dump::default();
    let mut current: Option<String> = None;
    for (index, line) in text.lines().enumerate() {
        let number = index + 1;
        let fail = |expected| DumpError { line: number, what: shorten(line), expected };
        let line = line.trim_end();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(table) = line.strip_prefix('*') {
            current = Some(table.to_owned());
            dump.tables.entry(table.to_owned()).or_default();
            continue;
        }
        if line == "COMMIT" {
            current = None;
            continue;
        }
        let Some(table) = current.as_ref().and_then(|name| dump.tables.get_mut(name)) else {
            return Err(fail("`*nat` or another table first, as iptables-save writes it"));
        };
        if let Some(declared) = line.strip_prefix(':') {
            let mut declared = declared.split_whitespace();
            let name = declared.next().ok_or_else(|| fail("`:CHAIN POLICY [0:0]`"))?;
            let chain = table.chains.entry(name.to_owned()).or_default();
            chain.line = number;
            chain.policy = declared.next().filter(|policy| *policy != "-").map(str::to_owned);
            continue;
        }
        let words = words(line).ok_or_else(|| fail("every quote closed"))?;
        let mut words = words.iter().map(String::as_str).peekable();
        if words.peek().is_some_and(|word| word.starts_with('[')) {
            words.next();
        }
        if words.next() != Some("-A") {
            return Err(fail("`-A CHAIN …`, `:CHAIN …`, `*TABLE` or COMMIT"));
        }
        let name = words.next().ok_or_else(|| fail("a chain's name after -A"))?;
        let chain = table.chains.entry(name.to_owned()).or_default();
        let rule = Rule { line: number, position: chain.rules.len() + 1, ..Rule::default() };
        let rule = options(rule, words).map_err(fail)?;
        chain.rules.push(rule);
    }
    match current {
        // A dump that ends early would make everything after it look deleted.
        Some(table) => Err(DumpError {
            line: text.lines().count(),
            what: format!("the text ends inside table {table}"),
            expected: "COMMIT",
        }),
        None => Ok(dump),
    }
}

/// Enough of a line to find it.
fn shorten(line: &str) -> String {
    const MOST: usize = 60;
    let mut short: String = line.chars().take(MOST).collect();
    if line.chars().count() > MOST {
        short.push('…');
    }
    format!("`{short}`")
}

/// Words as a shell would part them; `None` when a quote stays open.
fn words(line: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quoted = false;
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        match character {
            '"' => {
                quoted = !quoted;
                word.get_or_insert_default();
            }
            '\\' if quoted => word.get_or_insert_default().extend(characters.next()),
            ' ' | '\t' if !quoted => words.extend(word.take()),
            other => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word);
    (!quoted).then_some(words)
}

fn options<'a>(
    mut rule: Rule,
    mut words: std::iter::Peekable<impl Iterator<Item = &'a str>>,
) -> Result<Rule, &'static str> {
    let mut negated = false;
    while let Some(word) = words.next() {
        if word == "!" {
            negated = true;
            continue;
        }
        let not = std::mem::take(&mut negated);
        let mut value = || words.next().ok_or("a value after the last option");
        match word {
            "-s" => rule.source = Some(Not { negated: not, value: net(value()?)? }),
            "-d" => rule.destination = Some(Not { negated: not, value: net(value()?)? }),
            "-p" if !not => match protocol(value()?) {
                Ok(known) => rule.protocol = Some(known),
                Err(other) => rule.other.extend(["-p".to_owned(), other.to_owned()]),
            },
            "--dport" if !not => {
                let written = value()?;
                match written.parse() {
                    Ok(port) => rule.destination_port = Some(port),
                    // A range.
                    Err(_) => rule.other.extend(["--dport".to_owned(), written.to_owned()]),
                }
            }
            "--comment" => rule.comment = Some(value()?.to_owned()),
            "--probability" if !not => {
                let share: f64 = value()?.parse().map_err(|_| "a number after --probability")?;
                rule.probability = Some(share);
            }
            "--src-type" if !not => match value()? {
                "LOCAL" => rule.from_node = true,
                other => rule.other.extend(["--src-type".to_owned(), other.to_owned()]),
            },
            "--dst-type" if !not => match value()? {
                "LOCAL" => rule.to_node = true,
                other => rule.other.extend(["--dst-type".to_owned(), other.to_owned()]),
            },
            "--mark" => rule.mark = Some(Not { negated: not, value: value()?.to_owned() }),
            "--set-xmark" => rule.set_mark = Some(value()?.to_owned()),
            "--or-mark" => rule.set_mark = Some(format!("{0}/{0}", value()?)),
            "--ctstate" | "--state" => rule.states = Some(Not { negated: not, value: value()?.to_owned() }),
            "--name" => value()?.clone_into(&mut rule.recent.get_or_insert_default().name),
            "--set" if !not => rule.recent.get_or_insert_default().set = true,
            "--rcheck" if !not => rule.recent.get_or_insert_default().check = true,
            "--reap" => rule.recent.get_or_insert_default().reap = true,
            "--seconds" => {
                let seconds = value()?.parse().map_err(|_| "a number after --seconds")?;
                rule.recent.get_or_insert_default().seconds = Some(seconds);
            }
            // The proxy never uses it: what comes back from there goes on elsewhere.
            "-g" => {
                let target = value()?;
                rule.target = Some(target.to_owned());
                rule.other.extend(["-g".to_owned(), target.to_owned()]);
            }
            "-j" => rule.target = Some(value()?.to_owned()),
            "--to-destination" => {
                let written = value()?;
                match written.parse() {
                    Ok(address) => rule.to_destination = Some(address),
                    Err(_) => rule.other.extend(["--to-destination".to_owned(), written.to_owned()]),
                }
            }
            // Two modules that ask for something without any option; what the others ask for is in their options.
            "-m" => {
                let module = value()?;
                if matches!(module, "socket" | "rpfilter") {
                    rule.other.extend(["-m".to_owned(), module.to_owned()]);
                }
            }
            // What the modules say by default.
            "--mode" => match value()? {
                "random" => {}
                mode => rule.other.extend(["--mode".to_owned(), mode.to_owned()]),
            },
            "--reject-with" => match value()? {
                "icmp-port-unreachable" | "icmp6-port-unreachable" => {}
                with => rule.other.extend(["--reject-with".to_owned(), with.to_owned()]),
            },
            // It only counts.
            "--nfacct-name" => drop(value()?),
            // Whole addresses; of others only a part is remembered.
            "--mask" => match value()? {
                "255.255.255.255" | "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff" => {}
                part => rule.other.extend(["--mask".to_owned(), part.to_owned()]),
            },
            "--rsource" | "--random-fully" => {}
            other => {
                rule.other.extend(not.then(|| "!".to_owned()));
                rule.other.push(other.to_owned());
                while words.peek().is_some_and(|next| !next.starts_with('-') && *next != "!") {
                    rule.other.extend(words.next().map(str::to_owned));
                }
            }
        }
    }
    Ok(rule)
}

fn net(written: &str) -> Result<IpNet, &'static str> {
    let address = || written.parse::<IpAddr>().map(IpNet::from);
    written.parse().or_else(|_| address()).map_err(|_| "an address or CIDR after -s and -d")
}

fn protocol(written: &str) -> Result<Protocol, &str> {
    Protocol::ALL
        .into_iter()
        .find(|known| known.lower() == written || known.number().to_string() == written)
        .ok_or(written)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_read_whatever_the_order_of_its_options() {
        let text = "*nat\n:KUBE-SVC-X - [0:0]\n\
            [3:180] -A KUBE-SVC-X ! -s 10.244.0.0/16 -d 10.96.0.10/32 -p tcp -m comment --comment \"default/web cluster IP\" -m tcp --dport 80 -j KUBE-MARK-MASQ\n\
            -A KUBE-SVC-X -m comment --comment \"default/web -> 10.1.2.3:80\" -m statistic --mode random --probability 0.50000000000 -j KUBE-SEP-Y\n\
            -A KUBE-SVC-X -i eth0 ! -o eth1 -j ACCEPT\nCOMMIT\n";
        let dump = parse(text).expect("it is well formed");
        let [masquerade, first, foreign] = dump.rules("nat", "KUBE-SVC-X") else { panic!("{dump:?}") };
        assert_eq!(masquerade.source.as_ref().map(|source| source.negated), Some(true));
        assert_eq!((masquerade.destination_port, masquerade.line), (Some(80), 3));
        assert_eq!(masquerade.comment.as_deref(), Some("default/web cluster IP"));
        assert_eq!((first.probability, first.position), (Some(0.5), 2));
        assert_eq!(foreign.other, ["-i", "eth0", "!", "-o", "eth1"]);
    }

    #[test]
    fn garbage_is_named_by_its_line() {
        for (text, line, what) in [
            ("hello", 1, "`hello`"),
            ("*nat\nhello\nCOMMIT\n", 2, "`hello`"),
            ("*nat\n-A X -m comment --comment \"open\nCOMMIT\n", 2, "--comment"),
            ("*nat\n-A X -d\nCOMMIT\n", 2, "-d"),
            ("*nat\n-A X -d here\nCOMMIT\n", 2, "here"),
            ("*nat\n-A\nCOMMIT\n", 2, "-A"),
            ("*nat\n:X - [0:0]\n", 2, "ends inside table nat"),
        ] {
            let error = parse(text).expect_err(text);
            assert_eq!(error.line, line, "{text:?}");
            assert!(error.to_string().contains(what), "{text:?}: {error}");
        }
        let long = format!("*nat\n{}\nCOMMIT\n", "é".repeat(500));
        assert!(parse(&long).expect_err("garbage").to_string().len() < 300);
    }
}
