//! What the kernel's other chains do with first packets, whoever wrote their rules: FORWARD, INPUT and OUTPUT of the
//! filter table and of those around it.
//!
//! Invariant: as the kernel walks: table by table of a hook, a chain that ends goes back, the hook's own chain has a
//! policy. Conditions that a dump cannot tell leave both ways open ([`crate::service::passage`]). Source of the order:
//! `include/uapi/linux/netfilter_ipv4.h`.

use super::dump::{Chain, Dump, Not, Rule};
use super::follow::place;
use super::foreign::is_untracked;
use super::lists::pods;
use crate::model::port::Protocol;
use crate::service::fault::Place;
use crate::service::follow::{Client, DEEPEST};
use crate::service::passage::{Fate, Flow, Match, Outcomes, Packet};

/// Whether rules or a policy of INPUT may decide about packets to endpoints at the node's own addresses.
#[must_use]
pub fn decides_at_input(dump: &Dump) -> bool {
    may_decide(dump, &[INPUT])
}

const INPUT: Hook = ("INPUT", &["mangle", "filter", "security"]);

/// The hooks after translation, with the tables that can end a packet's way there.
fn hooks(packet: &Packet) -> &'static [Hook] {
    // First packets came by the other tables of these two before they were translated.
    const OUTPUT: Hook = ("OUTPUT", &["filter", "security"]);
    const SENDING: Hook = ("OUTPUT", &["raw", "mangle", "filter", "security"]);
    const COMING: Hook = ("PREROUTING", &["raw", "mangle"]);
    const FORWARD: Hook = ("FORWARD", &["mangle", "filter", "security"]);
    const AFTER: Hook = ("POSTROUTING", &["mangle"]);
    match (packet.client, packet.to_node) {
        (Client::Node, false) if packet.flow == Flow::Answer => &[COMING, INPUT],
        (Client::Node, true) if packet.flow == Flow::Answer => &[SENDING, AFTER, COMING, INPUT],
        (_, true) if packet.flow == Flow::Answer => &[SENDING, AFTER],
        (_, false) if packet.flow == Flow::Answer => &[COMING, FORWARD, AFTER],
        (Client::Node, true) => &[OUTPUT, AFTER, INPUT],
        (Client::Node, false) => &[OUTPUT, AFTER],
        (_, true) => &[INPUT],
        (_, false) => &[FORWARD, AFTER],
    }
}

type Hook = (&'static str, &'static [&'static str]);

/// Whether some rule or policy of these hooks may decide about packets to endpoints: on a node that has the proxy's
/// rules alone none does.
fn may_decide(dump: &Dump, hooks: &[Hook]) -> bool {
    let of = |(hook, tables): &Hook| {
        let hook = *hook;
        tables.iter().filter_map(move |table| dump.chain(table, hook))
    };
    !hooks.iter().flat_map(of).all(|chain| is_plain(dump, chain))
}

/// Whether a chain of the kernel's leaves packets to endpoints to the proxy's and kubelet's chains.
fn is_plain(dump: &Dump, chain: &Chain) -> bool {
    let decides = |rule: &Rule| {
        let target = rule.target.as_deref().unwrap_or_default();
        match target {
            "KUBE-FORWARD" | "KUBE-FIREWALL" => {
                // What the proxy drops there is invalid, what kubelet drops goes to the loopback's addresses.
                let is_martian = |rule: &Rule| {
                    rule.destination
                        .as_ref()
                        .is_some_and(|net| !net.negated && net.value.addr().is_loopback())
                };
                let is_invalid = |rule: &Rule| {
                    rule.states.as_ref().is_some_and(|states| !states.negated && states.value == "INVALID")
                };
                let ends = |rule: &Rule| rule.target.as_deref() != Some("ACCEPT") && !is_invalid(rule);
                dump.rules("filter", target).iter().any(|rule| ends(rule) && !is_martian(rule))
            }
            _ => !target.starts_with("KUBE-"),
        }
    };
    !has_policy_drop(chain) && !chain.rules.iter().any(decides)
}

/// The tables that others have rules or policies in.
pub fn tables_of_others(dump: &Dump) -> impl Iterator<Item = &str> {
    let has = |chain: &Chain| chain.policy.is_some() && !is_plain(dump, chain);
    let tables = dump.tables.iter().filter(move |(_, table)| table.chains.values().any(has));
    tables.map(|(name, _)| name.as_str())
}

fn has_policy_drop(chain: &Chain) -> bool {
    chain.policy.as_deref() == Some("DROP")
}

/// What becomes of a packet that was translated, and the rules that change its mark.
pub(super) fn after(dump: &Dump, packet: &mut Packet) -> (Outcomes, Vec<Remark>) {
    through(dump, packet, hooks(packet))
}

/// What becomes of one that nobody translated, where rules of others may decide about it before the proxy's.
pub(super) fn untranslated(dump: &Dump, packet: &mut Packet) -> Option<Outcomes> {
    let hooks = hooks(packet);
    may_decide(dump, hooks).then(|| through(dump, packet, hooks).0)
}

/// A rule that changes a packet's mark.
#[derive(Clone, Debug)]
pub(super) struct Remark {
    pub(super) place: Place,
    /// MARK or CONNMARK.
    pub(super) word: String,
    /// What it writes to.
    pub(super) bits: u32,
    /// Whether it takes the packet for certain.
    pub(super) sure: bool,
}

/// Whether a packet to the node itself is dropped before anybody there could answer it.
pub(super) fn is_dropped_at_input(dump: &Dump, mut packet: Packet) -> bool {
    through(dump, &mut packet, &[INPUT]).0.fate() == Fate::Dropped
}

/// What keeps balancers from asking whether the node has endpoints: the rule or policy, and its word.
pub(super) fn ends_health_checks(dump: &Dump, port: u16) -> Option<(Place, String)> {
    let mut packet = Packet {
        client: Client::Outside,
        to: None,
        port,
        protocol: Protocol::Tcp,
        to_node: true,
        translated: false,
        mark: Some(0),
        pods: None,
        flow: Flow::First,
    };
    let (outcomes, _) = through(dump, &mut packet, &[INPUT]);
    let ends = matches!(outcomes.fate(), Fate::Dropped | Fate::Refused);
    outcomes.enders.into_iter().next_back().filter(|_| ends)
}

/// What becomes of one before it is translated, in the tables that do not translate.
pub(super) fn before(dump: &Dump, packet: &mut Packet) -> Outcomes {
    const TABLES: &[&str] = &["raw", "mangle"];
    let hook = if packet.client == Client::Node { "OUTPUT" } else { "PREROUTING" };
    through(dump, packet, &[(hook, TABLES)]).0
}

fn through(dump: &Dump, packet: &mut Packet, hooks: &[Hook]) -> (Outcomes, Vec<Remark>) {
    let (mut whole, mut remarks) = (Outcomes::undecided(), Vec::new());
    if !may_decide(dump, hooks) {
        return (whole, remarks);
    }
    packet.pods = pods(dump);
    for (hook, tables) in hooks {
        for table in *tables {
            let Some(chain) = dump.chain(table, hook) else { continue };
            if !whole.passes() {
                return (whole, remarks);
            }
            let mut walk = Walk { dump, table, packet: *packet, may_have_left: false, remarks: Vec::new() };
            let mut out = walk.rules(hook, &chain.rules, 0);
            if has_policy_drop(chain) {
                let line = Some(chain.line).filter(|line| *line > 0);
                out.end_by_policy(Place { line, ..Place::within(table, hook) }, "policy DROP");
            }
            packet.mark = walk.packet.mark;
            remarks.extend(walk.remarks);
            whole.then(out);
        }
    }
    (whole, remarks)
}

struct Walk<'a> {
    dump: &'a Dump,
    table: &'a str,
    packet: Packet,
    /// Whether the packet may not come to where the walk is.
    may_have_left: bool,
    remarks: Vec<Remark>,
}

impl Walk<'_> {
    /// Only MARK writes the packet's mark, and CONNMARK where it restores that of the connection.
    fn mark(&mut self, rule: &Rule, place: Place, sure: bool) {
        let target = rule.target.as_deref().unwrap_or_default();
        let has = |word: &str| rule.other.iter().position(|other| other == word);
        if target == "CONNMARK" && has("--restore-mark").is_none() {
            return;
        }
        let set = rule.set_mark.as_deref().and_then(mark).filter(|_| target == "MARK");
        let after = self.packet.mark.zip(set).map(|(mark, (value, mask))| (mark & !mask) ^ value);
        if after.is_some() && after == self.packet.mark {
            return;
        }
        let restored = ["--nfmask", "--mask"].into_iter().find_map(has).and_then(|at| rule.other.get(at + 1));
        let restored = restored.and_then(|mask| mark(mask)).map(|(mask, _)| mask);
        let bits = set.map(|(value, mask)| value | mask).or(restored).unwrap_or(u32::MAX);
        self.packet.mark = after.filter(|_| sure);
        self.remarks.push(Remark { place, word: target.to_owned(), bits, sure: self.packet.mark.is_some() });
    }

    /// What rules do that the packet may not come to.
    fn perhaps(&mut self, chain: &str, rules: &[Rule], depth: usize) -> Outcomes {
        let before = std::mem::replace(&mut self.may_have_left, true);
        let out = self.rules(chain, rules, depth);
        self.may_have_left = before || out.accepted;
        out
    }

    fn rules(&mut self, chain: &str, rules: &[Rule], depth: usize) -> Outcomes {
        let mut out = Outcomes::undecided();
        for rule in rules {
            let takes = takes(rule, &self.packet);
            if takes == Match::No {
                continue;
            }
            let sure = takes == Match::Yes;
            let place = || place(self.table, chain, rule);
            let target = rule.target.as_deref().unwrap_or_default();
            let decided = match target {
                "ACCEPT" => Outcomes::accepted(),
                "DROP" => Outcomes::dropped(place(), target),
                "REJECT" => Outcomes::refused(place(), target),
                "RETURN" => {
                    // What goes back comes out of this chain undecided, as what reaches its end does.
                    if sure {
                        return out;
                    }
                    // Rules after it are then asked perhaps.
                    let rest = rules.get(rule.position..).unwrap_or_default();
                    out.perhaps_return(self.perhaps(chain, rest, depth), place());
                    return out;
                }
                "MARK" | "CONNMARK" => {
                    self.mark(rule, place(), sure && !self.may_have_left);
                    continue;
                }
                // Of a connection that is known, what is not tracked is not translated: nobody knows it for theirs.
                "CT" | "NOTRACK" if is_untracked(rule) && self.packet.flow != Flow::First => {
                    Outcomes::dropped(place(), target)
                }
                "" | "LOG" | "NFLOG" | "TRACE" | "AUDIT" | "TCPMSS" | "CHECKSUM" | "CLASSIFY" | "DSCP"
                | "TOS" | "CT" | "NOTRACK" | "ECN" | "SET" | "TCPOPTSTRIP" | "ULOG" | "CONNSECMARK"
                | "SECMARK" | "RATEEST" | "HMARK" | "TEE" | "LED" => continue,
                "TTL" | "HL" if !shortens_life(rule) => continue,
                "TTL" | "HL" => Outcomes { accepted: false, ..Outcomes::unknown(place(), target) },
                other if depth < DEEPEST && self.dump.chain(self.table, other).is_some() => {
                    let next = self.dump.rules(self.table, other);
                    let of = if sure {
                        self.rules(other, next, depth + 1)
                    } else {
                        self.perhaps(other, next, depth + 1)
                    };
                    if out.call(of, (sure, goes(rule)), place()) {
                        return out;
                    }
                    continue;
                }
                _ => Outcomes::unknown(place(), target),
            };
            self.may_have_left |= decided.accepted;
            if out.decide(decided, sure, place()) {
                return out;
            }
        }
        out
    }
}

/// Whether packets may have too few hops left: most start with 64, and no way in a cluster has half as many.
fn shortens_life(rule: &Rule) -> bool {
    const ENOUGH: u32 = 32;
    let option = |name: &str| {
        let at = rule.other.iter().position(|word| word == name)?;
        rule.other.get(at + 1)?.parse::<u32>().ok()
    };
    let of = |names: [&str; 2]| names.into_iter().find_map(option);
    match (of(["--ttl-set", "--hl-set"]), of(["--ttl-dec", "--hl-dec"])) {
        (Some(left), _) => left < ENOUGH,
        (None, Some(taken)) => taken > ENOUGH,
        (None, None) => false,
    }
}

/// `-g` in place of `-j`.
fn goes(rule: &Rule) -> bool {
    rule.other.iter().any(|word| word == "-g")
}

/// `0x4000/0x4000`; one number is one of all bits.
pub(super) fn mark(written: &str) -> Option<(u32, u32)> {
    let number = |text: &str| match text.strip_prefix("0x") {
        Some(hex) => u32::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    };
    match written.split_once('/') {
        Some((value, mask)) => Some((number(value)?, number(mask)?)),
        None => Some((number(written)?, u32::MAX)),
    }
}

/// Whether a rule takes the packet.
pub(super) fn takes(rule: &Rule, packet: &Packet) -> Match {
    let states = |states: &Not<String>| Match::of(packet.is_in(states.value.split(',')) != states.negated);
    let mut all = rule.protocol.map_or(Match::Yes, |protocol| Match::of(protocol == packet.protocol));
    all = all.and(rule.destination_port.map_or(Match::Yes, |port| packet.is_of_port(false, port, port)));
    all = all.and(rule.states.as_ref().map_or(Match::Yes, states));
    all = all.and(Match::of(!rule.from_node || packet.is_of_node(true)));
    all = all.and(Match::of(!rule.to_node || packet.is_of_node(false)));
    let to = |net: &Not<ipnet::IpNet>| packet.is_to(net.value).not(net.negated);
    all = all.and(rule.destination.as_ref().map_or(Match::Yes, to));
    let from = |net: &Not<ipnet::IpNet>| packet.is_from(net.value).not(net.negated);
    all = all.and(rule.source.as_ref().map_or(Match::Yes, from));
    if let Some(asked) = &rule.mark {
        let is = mark(&asked.value).map_or(Match::Perhaps, |(value, mask)| packet.is_marked(value, mask));
        all = all.and(is.not(asked.negated));
    }
    if rule.recent.is_some() || rule.probability.is_some() {
        all = all.and(Match::Perhaps);
    }
    all.and(others(rule, packet))
}

/// What else it asks for, in words that only some rules have.
pub(super) fn others(rule: &Rule, packet: &Packet) -> Match {
    let mut all = Match::Yes;
    let mut words = rule.other.iter().map(String::as_str).peekable();
    let mut negated = false;
    while let Some(word) = words.next() {
        if word == "!" {
            negated = true;
            continue;
        }
        let not = std::mem::take(&mut negated);
        let mut value = || words.next_if(|next| !next.starts_with('-') && *next != "!").unwrap_or_default();
        let is = match word {
            "-i" => packet.by_interface(value(), true),
            "-o" => packet.by_interface(value(), false),
            "--src-type" | "--dst-type" => {
                let is = packet.is_of_node(word == "--src-type");
                if value() == "LOCAL" { Match::of(is) } else { Match::Perhaps }
            }
            "-p" => Match::of(value() == packet.protocol.lower()),
            "--dport" | "--dports" | "--sport" | "--sports" => {
                ports(value(), packet, word.starts_with("--sport"))
            }
            // As it prints `--syn`: of TCP the first packet alone has that flag alone.
            "--tcp-flags" => match (value(), value()) {
                ("FIN,SYN,RST,ACK", "SYN") => {
                    Match::of(packet.flow == Flow::First && packet.protocol == Protocol::Tcp)
                }
                _ => Match::Perhaps,
            },
            // These say what a target does, not when.
            "-g" | "--notrack" | "--to-destination" | "--to-ports" | "--random" | "--persistent"
            | "--ttl-set" | "--ttl-dec" | "--ttl-inc" | "--hl-set" | "--hl-dec" | "--hl-inc"
            | "--set-mark" | "--save-mark" | "--restore-mark" | "--nfmask" | "--ctmask" | "--reject-with"
            | "--log-prefix" | "--log-level" | "--nflog-prefix" | "--nflog-group" => {
                value();
                continue;
            }
            _ => {
                while words.next_if(|next| !next.starts_with('-') && *next != "!").is_some() {}
                Match::Perhaps
            }
        };
        all = all.and(is.not(not));
    }
    all
}

/// `80`, `80:90` or several of them with commas.
fn ports(written: &str, packet: &Packet, comes: bool) -> Match {
    let mut all = Match::No;
    for part in written.split(',') {
        let (low, high) = part.split_once(':').unwrap_or((part, part));
        let number = |text: &str, none: u16| if text.is_empty() { Some(none) } else { text.parse().ok() };
        let range = number(low, 0).zip(number(high, u16::MAX));
        match range.map_or(Match::Perhaps, |(low, high)| packet.is_of_port(comes, low, high)) {
            Match::Yes => return Match::Yes,
            Match::Perhaps => all = Match::Perhaps,
            Match::No => {}
        }
    }
    all
}
