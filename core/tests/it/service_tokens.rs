//! Every rule of a real kube-proxy's iptables mode with one word changed: each match taken away, negated or with another
//! value, each target with another, each rule gone, twice or in another place. None of these may pass as ok, but for the
//! kinds in [`same`], each with the reason why no packet can tell the difference.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;
use netlab_core::model::service::AddressType;
use netlab_core::service::expected::{ExpectedPort, expected};
use netlab_core::service::fault::Fault;
use netlab_core::service::iptables::dump::{Chain, Dump, parse};
use netlab_core::service::trace::{Rules, Status, trace};

use crate::service_taxonomy::{SAVE, SAVE6, WORLD};
use crate::service_world::cluster;

/// An option of a rule with its values.
#[derive(Clone, PartialEq)]
struct Part {
    not: bool,
    words: Vec<String>,
}

impl Part {
    fn name(&self) -> &str {
        &self.words[0]
    }

    fn value(&self) -> &str {
        self.words.get(1).map_or("", String::as_str)
    }

    fn with(&self, value: &str) -> Self {
        Self { words: vec![self.words[0].clone(), value.to_owned()], not: self.not }
    }

    fn called(&self, name: &str) -> Self {
        let mut part = self.clone();
        name.clone_into(&mut part.words[0]);
        part
    }
}

/// A rule of a dump.
#[derive(Clone)]
struct Line {
    table: String,
    chain: String,
    /// In its chain, from 0.
    at: usize,
    parts: Vec<Part>,
}

impl Line {
    fn text(&self) -> String {
        let part = |part: &Part| {
            let quoted =
                |word: &String| if word.contains(' ') { format!("\"{word}\"") } else { word.clone() };
            let words: Vec<String> = part.words.iter().map(quoted).collect();
            format!("{}{}", if part.not { "! " } else { "" }, words.join(" "))
        };
        let parts: Vec<String> = self.parts.iter().map(part).collect();
        format!("-A {} {}", self.chain, parts.join(" "))
    }

    fn part(&self, name: &str) -> Option<&Part> {
        self.parts.iter().find(|part| part.name() == name)
    }

    fn target(&self) -> &str {
        self.part("-j").map_or("", Part::value)
    }

    fn replaced(&self, at: usize, part: Part) -> Self {
        let mut line = self.clone();
        line.parts[at] = part;
        line
    }

    fn without(&self, at: usize) -> Self {
        let mut line = self.clone();
        line.parts.remove(at);
        line
    }
}

fn lines(text: &str) -> Vec<Line> {
    let mut table = String::new();
    let mut counts: BTreeMap<(String, String), usize> = BTreeMap::new();
    let mut lines = Vec::new();
    for line in text.lines() {
        if let Some(name) = line.strip_prefix('*') {
            name.clone_into(&mut table);
        }
        let Some(rule) = line.strip_prefix("-A ") else { continue };
        let mut words: Vec<String> = Vec::new();
        for (index, piece) in rule.split('"').enumerate() {
            if index % 2 == 1 {
                words.push(piece.to_owned());
            } else {
                words.extend(piece.split_whitespace().map(str::to_owned));
            }
        }
        let chain = words.remove(0);
        let mut parts: Vec<Part> = Vec::new();
        let mut not = false;
        for word in words {
            match &*word {
                "!" => not = true,
                option if option.starts_with('-') => {
                    parts.push(Part { not: std::mem::take(&mut not), words: vec![word] });
                }
                _ => parts.last_mut().expect("an option").words.push(word),
            }
        }
        let at = counts.entry((table.clone(), chain.clone())).or_default();
        lines.push(Line { table: table.clone(), chain, at: *at, parts });
        *at += 1;
    }
    lines
}

/// What is done to a rule.
enum Change {
    Instead(Line),
    Gone,
    /// Another one before it, or after.
    Twice(Line, bool),
    /// To another place in its chain.
    Moved(usize),
}

fn other_nets(written: &str) -> Vec<String> {
    let net: IpNet = written.parse().expect("a network");
    let next = match net.network() {
        IpAddr::V4(ip) => IpAddr::V4((u32::from(ip) ^ 1 << (32 - net.prefix_len())).into()),
        IpAddr::V6(ip) => IpAddr::V6((u128::from(ip) ^ 1 << (128 - net.prefix_len())).into()),
    };
    let of =
        |address: IpAddr, length: u8| IpNet::new(address, length).expect("a network").trunc().to_string();
    let length = net.prefix_len();
    let mut all = vec![of(next, length), of(net.addr(), length - 8)];
    if length < net.max_prefix_len() {
        all.push(of(net.addr(), net.max_prefix_len()));
    }
    all
}

/// Other values of an option that are as plausible.
fn values(part: &Part, dump: &Dump, line: &Line) -> Vec<Part> {
    let with = |values: &[&str]| {
        values.iter().filter(|value| **value != part.value()).map(|value| part.with(value)).collect()
    };
    match part.name() {
        "-s" | "-d" => other_nets(part.value()).iter().map(|net| part.with(net)).collect(),
        "-p" => with(&["tcp", "udp", "sctp", "icmp"]),
        "--dport" => {
            let port: u16 = part.value().parse().expect("a port");
            with(&[&(port + 1).to_string(), &format!("{port}:{}", port + 9)])
        }
        "--probability" => with(&["0.10000000009", "0.90000000037", "1.00000000000"]),
        "--ctstate" => with(&["NEW", "ESTABLISHED", "NEW,ESTABLISHED", "INVALID", "RELATED", "DNAT"]),
        "--src-type" | "--dst-type" => with(&["UNICAST", "BROADCAST"]),
        "--mark" | "--set-xmark" => with(&[
            "0x8000/0x8000",
            "0x4000/0x8000",
            "0x8000/0x4000",
            "0x4000/0xffffffff",
            "0x0/0x4000",
            "0x4000/0x0",
            "0x4000/0x4000",
            "0x0/0x0",
        ]),
        "--name" => {
            let nat = dump.tables["nat"].chains.keys();
            nat.filter(|name| name.starts_with("KUBE-SEP-") && *name != part.value())
                .take(1)
                .map(|name| part.with(name))
                .collect()
        }
        "--seconds" => with(&["1", "10801"]),
        "--mask" => with(&["255.255.0.0", "0.0.0.0"]),
        "--rsource" => vec![part.called("--rdest")],
        "--rcheck" => ["--update", "--set", "--remove"].map(|name| part.called(name)).into(),
        "--set" => ["--update", "--rcheck", "--remove"].map(|name| part.called(name)).into(),
        "--reject-with" => with(&["tcp-reset", "icmp-host-unreachable", "icmp-admin-prohibited"]),
        "--to-destination" => {
            let to: std::net::SocketAddr = part.value().parse().expect("an address");
            let mut other = to;
            other.set_ip(match to.ip() {
                IpAddr::V4(ip) => IpAddr::V4((u32::from(ip) ^ 3).into()),
                IpAddr::V6(ip) => IpAddr::V6((u128::from(ip) ^ 3).into()),
            });
            let mut port = to;
            port.set_port(to.port() + 1);
            with(&[&other.to_string(), &port.to_string(), &to.ip().to_string()])
        }
        "-j" => targets(part.value(), dump, &line.table).iter().map(|name| part.with(name)).collect(),
        _ => Vec::new(),
    }
}

/// Other chains of the same kind, the same Service's other chains, and the ends.
fn targets(target: &str, dump: &Dump, table: &str) -> Vec<String> {
    let (kind, hash) = match target.rsplit_once('-') {
        Some((kind, hash)) if hash.len() == 16 => (kind, Some(hash)),
        _ => ("KUBE", None),
    };
    let is_like = |name: &&String| {
        let hashed = name.rsplit_once('-').is_some_and(|(_, hash)| hash.len() == 16);
        name.starts_with(kind) && hashed == hash.is_some() && **name != target
    };
    let chains = dump.tables[table].chains.keys();
    let mut all: Vec<String> =
        chains.clone().filter(is_like).filter(|name| !name.contains("CANARY")).cloned().collect();
    if hash.is_some() {
        // The next and the one before are of another Service or of the same, by chance: both are asked.
        let at = all.iter().position(|name| name.as_str() > target).unwrap_or(0);
        let near = [at, at.checked_sub(1).unwrap_or(all.len().saturating_sub(1))];
        all = near.iter().filter_map(|at| all.get(*at).cloned()).collect();
    }
    all.extend(
        chains.filter(|name| hash.is_some_and(|hash| name.ends_with(hash)) && *name != target).cloned(),
    );
    all.extend(
        ["RETURN", "ACCEPT", "DROP"].iter().filter(|end| **end != target).map(|end| (*end).to_owned()),
    );
    all.dedup();
    all
}

fn changes(line: &Line, dump: &Dump, last: usize) -> Vec<(String, Change)> {
    let mut all = vec![("gone".to_owned(), Change::Gone)];
    let mut copies = Vec::new();
    for (at, part) in line.parts.iter().enumerate() {
        let name = part.name();
        if matches!(name, "-m" | "--comment" | "--mode" | "--nfacct-name") {
            continue;
        }
        all.push((format!("without {name}"), Change::Instead(line.without(at))));
        if !matches!(
            name,
            "-j" | "--to-destination"
                | "--set-xmark"
                | "--reject-with"
                | "--random-fully"
                | "--seconds"
                | "--reap"
                | "--name"
                | "--mask"
                | "--rsource"
        ) {
            let not = Part { not: !part.not, ..part.clone() };
            all.push((format!("not {name}"), Change::Instead(line.replaced(at, not))));
        }
        for other in values(part, dump, line) {
            let words = format!("{} for {}", other.words.join(" "), part.value());
            let changed = line.replaced(at, other);
            if name == "-j" || name == "-d" || name == "--to-destination" {
                copies.push((words.clone(), changed.clone()));
            }
            all.push((words, Change::Instead(changed)));
        }
    }
    for added in ["-i eth9", "-s 192.0.2.0/24", "-m mark --mark 0x1/0x1", "-p tcp --sport 1024"] {
        if line.part(added.split(' ').next().expect("a word")).is_none() {
            let mut more = line.clone();
            let words = added.split(' ').map(str::to_owned).collect();
            more.parts.insert(0, Part { not: false, words });
            all.push((format!("with {added}"), Change::Instead(more)));
        }
    }
    // A few of the copies: the words are those of the changes above.
    for (words, copy) in copies.into_iter().step_by(2) {
        for before in [true, false] {
            let place = if before { "before" } else { "after" };
            all.push((format!("twice, {words}, {place}"), Change::Twice(copy.clone(), before)));
        }
    }
    let mut places = vec![0, last, line.at + 1];
    places.sort_unstable();
    places.dedup();
    let moves = places.into_iter().filter(|at| *at != line.at && *at <= last);
    all.extend(moves.map(|at| (format!("moved to {at}"), Change::Moved(at))));
    all
}

/// Why a change leaves every packet as it was, or writes what a flag of the proxy writes.
fn same(
    line: &Line,
    words: &str,
    order: &[(&str, &str)],
    (jumps, last): (&[&str], bool),
) -> Option<&'static str> {
    let first = |text: &str| words.starts_with(text);
    let moved = first("moved");
    let list = matches!(
        &*line.chain,
        "KUBE-SERVICES" | "KUBE-NODEPORTS" | "KUBE-EXTERNAL-SERVICES" | "KUBE-PROXY-FIREWALL"
    );
    if line.target().is_empty() {
        return Some("a rule without a target does nothing");
    }
    let base = !line.chain.starts_with("KUBE-");
    let to = words.split("-j ").nth(1).and_then(|words| words.split(' ').next()).unwrap_or_default();
    if to == "KUBE-FIREWALL" && first("twice")
        || line.target() == "KUBE-FIREWALL" && matches!(to, "" | "KUBE-FIREWALL")
    {
        return Some("the chain is kubelet's, and is empty on this node");
    }
    // The jump to health checks asks for no state.
    let is_twice = first("twice") && line.part("--ctstate").is_some() || to == "KUBE-NODEPORTS";
    if base && is_twice && to.starts_with("KUBE-") && jumps.contains(&to) {
        return Some("a chain that is asked twice answers twice alike");
    }
    if base && words.ends_with("after") && to == "ACCEPT" && (line.table == "nat" || last) {
        return Some("no rule comes after it, and the policy accepts");
    }
    if moved && matches!(&*line.chain, "INPUT" | "FORWARD" | "OUTPUT") {
        return Some("jumps that are missing are put first, in whatever order they went missing");
    }
    if moved && list && line.target() != "KUBE-NODEPORTS" && !order.is_empty() {
        return Some("rules of the lists of all Services are about different addresses");
    }
    if moved && line.chain.starts_with("KUBE-FW-") {
        return Some("rules for different sources lead to the same chain");
    }
    if first("moved") && line.part("--rcheck").is_some() && order.is_empty() {
        return Some("a client is remembered by one endpoint");
    }
    if matches!(words, "gone" | "without -j")
        && line.part("--ctstate").is_some_and(|part| part.value() == "INVALID")
    {
        return Some("not written where the kernel is liberal about TCP (nf_conntrack_tcp_be_liberal)");
    }
    if words == "without --random-fully" {
        return Some("not written where iptables is too old to know it");
    }
    if words == "without -d" && line.target() == "KUBE-NODEPORTS" {
        return Some("written so with --iptables-localhost-nodeports");
    }
    if words == "without --reject-with" {
        return Some("that is what it says by default");
    }
    if matches!(words, "without --mask" | "without --rsource") {
        return Some("that is what it says by default, and prints always");
    }
    None
}

/// What is told of a dump.
fn told(rules: &Rules, ports: &[ExpectedPort]) -> (bool, Vec<Fault>) {
    let found = trace(rules, ports, "worker");
    let broken = found.ports.iter().any(|port| port.status == Status::Broken) || !found.shared.is_empty();
    let mut faults: Vec<Fault> = found.ports.iter().flat_map(|port| port.faults().cloned()).collect();
    faults.extend(found.shared.into_iter().map(|shared| shared.fault));
    (broken, faults)
}

/// The port that a rule says that it is about, or any: what is told of one is told of all.
fn nearest<'a>(line: &Line, ports: &'a [ExpectedPort]) -> &'a [ExpectedPort] {
    let words = line.part("--comment").map_or("", Part::value);
    let is_named = |port: &ExpectedPort| words.split(' ').any(|word| word == port.name.to_string());
    let at = ports.iter().position(is_named).unwrap_or(0);
    &ports[at..=at]
}

fn read(line: &Line) -> netlab_core::service::iptables::dump::Rule {
    let text = format!("*{}\n{}\nCOMMIT\n", line.table, line.text());
    let dump = parse(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
    dump.rules(&line.table, &line.chain)[0].clone()
}

fn changed(chain: &Chain, line: &Line, change: &Change) -> Chain {
    let mut chain = chain.clone();
    match change {
        Change::Instead(other) => {
            let number = chain.rules[line.at].line;
            chain.rules[line.at] = read(other);
            chain.rules[line.at].line = number;
        }
        Change::Gone => drop(chain.rules.remove(line.at)),
        Change::Twice(other, before) => chain.rules.insert(line.at + usize::from(!before), read(other)),
        Change::Moved(to) => {
            let rule = chain.rules.remove(line.at);
            chain.rules.insert(*to, rule);
        }
    }
    for (at, rule) in chain.rules.iter_mut().enumerate() {
        rule.position = at + 1;
    }
    chain
}

/// Whether the chain's rules that a rule goes past are of its own kind: (the words that they have in common, …).
fn passes<'a>(line: &'a Line, all: &'a [Line], change: &Change) -> Vec<(&'a str, &'a str)> {
    let Change::Moved(to) = change else { return Vec::new() };
    let (low, high) = (line.at.min(*to), line.at.max(*to));
    let of_chain = all.iter().filter(|other| other.chain == line.chain && other.table == line.table);
    let passed = of_chain.filter(|other| (low..=high).contains(&other.at) && other.at != line.at);
    passed.map(|other| (other.target(), other.part("--rcheck").map_or("", Part::name))).collect()
}

fn all_are_told(text: &str, family: AddressType) -> BTreeMap<&'static str, usize> {
    let ports = expected(&cluster(WORLD), "worker", family);
    let mut dump = parse(text).expect("well formed");
    dump.of_family(family);
    let all = lines(text);
    assert_eq!(told(&Rules::Iptables(dump.clone()), &ports), (false, vec![]));
    let (mut count, mut silent, mut elsewhere, mut alarms) = (0, Vec::new(), Vec::new(), Vec::new());
    let mut reasons: BTreeMap<&'static str, usize> = BTreeMap::new();
    for line in
        all.iter().filter(|line| line.chain.starts_with("KUBE-") || line.target().starts_with("KUBE-"))
    {
        let chain = dump.tables[&line.table].chains[&line.chain].clone();
        for (words, change) in changes(line, &dump, chain.rules.len() - 1) {
            let mutant = changed(&chain, line, &change);
            let passed = passes(line, &all, &change);
            // Of lists only what stays before the last rule, of affinity only what stays among its kind.
            let is_list_tail = passed.iter().any(|(target, _)| *target == "KUBE-NODEPORTS");
            let among = passed.iter().all(|(_, sticky)| !sticky.is_empty());
            let is_sticky = line.part("--rcheck").is_some();
            let order =
                if is_sticky && among || !is_sticky && is_list_tail { vec![] } else { passed.clone() };
            count += 1;
            let jumps: Vec<&str> = all
                .iter()
                .filter(|other| {
                    other.chain == line.chain
                        && other.table == line.table
                        && other.part("--ctstate") == line.part("--ctstate")
                })
                .map(Line::target)
                .collect();
            let reason = same(line, &words, &order, (&jumps, line.at + 1 == chain.rules.len()));
            dump.tables.get_mut(&line.table).expect("it").chains.insert(line.chain.clone(), mutant);
            let rules = Rules::Iptables(std::mem::take(&mut dump));
            let is_there = |fault: &Fault| fault.place.table == line.table && fault.place.chain == line.chain;
            let (mut broken, mut faults) = told(&rules, nearest(line, &ports));
            if reason.is_none() && (!broken || !faults.iter().any(is_there)) {
                (broken, faults) = told(&rules, &ports);
            }
            let Rules::Iptables(back) = rules else { unreachable!("the same") };
            dump = back;
            dump.tables.get_mut(&line.table).expect("it").chains.insert(line.chain.clone(), chain.clone());
            let name = format!("{words}: {} {}", line.table, line.text());
            if let Some(reason) = reason {
                *reasons.entry(reason).or_default() += 1;
                if broken {
                    alarms.push(format!("{name}: {reason}\n   {:?}", faults.first()));
                }
                continue;
            }
            if !broken || faults.is_empty() {
                silent.push(name);
            } else if !faults.iter().any(is_there) {
                elsewhere.push(format!("{name}\n   {:?}", faults.first()));
            }
        }
    }
    assert!(count > 1000, "{count}");
    assert!(alarms.is_empty(), "{} of {count} are told for nothing:\n{}", alarms.len(), alarms.join("\n"));
    assert!(silent.is_empty(), "{} of {count} pass as ok:\n{}", silent.len(), silent.join("\n"));
    assert!(
        elsewhere.is_empty(),
        "{} of {count} are told elsewhere:\n{}",
        elsewhere.len(),
        elsewhere.join("\n")
    );
    reasons
}

#[test]
fn no_word_of_a_rule_can_be_changed_unnoticed() {
    let reasons = all_are_told(SAVE, AddressType::Ipv4);
    assert!(reasons.len() >= 9, "each reason is one of some change: {reasons:#?}");
}

#[test]
fn nor_one_of_ipv6() {
    all_are_told(SAVE6, AddressType::Ipv6);
}
