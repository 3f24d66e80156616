//! What tables of others do with first packets, in a list of the whole ruleset: before translation, and at the hooks
//! after it.
//!
//! Invariant: as the kernel walks: base chains of a hook in the order of their priorities, whatever table they are in;
//! `accept` ends one base chain only, `drop` the packet's way. Conditions that a dump cannot tell leave both ways open
//! ([`crate::service::passage`]). Source of the order: `include/uapi/linux/netfilter_ipv4.h`, `nft(8)`.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;
use serde_json::Value;

use super::emit::TABLE;
use super::foreign::OURS;
use super::reading::{is_mark, net_of};
use crate::service::fault::Place;
use crate::service::follow::{Client, DEEPEST};
use crate::service::passage::{Flow, Match, Outcomes, Packet};

/// The priority of the proxy's masquerading (`srcnat`).
const SOURCES: i64 = 100;

/// All tables of others that see a family's packets.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Others {
    /// By `family name`.
    tables: BTreeMap<String, BTreeMap<String, Chain>>,
    /// Elements of named sets and maps, by table and name.
    sets: BTreeMap<(String, String), Vec<Value>>,
    /// Tables of families that see packets elsewhere: of bridges and of devices.
    pub elsewhere: Vec<String>,
    /// Chains that the kernel asks and that have rules of iptables, which this list does not show: table and chain.
    pub of_iptables: Vec<(String, String)>,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Chain {
    base: Option<Base>,
    rules: Vec<Rule>,
}

#[derive(Clone, Debug, PartialEq)]
struct Base {
    hook: String,
    priority: i64,
    drops_rest: bool,
    /// Of type nat.
    translates: bool,
}

impl Base {
    /// Of a connection the kernel asks chains of type nat for its first packet, and in each direction until one has said
    /// where it goes (`nf_nat_inet_fn` of `net/netfilter/nf_nat_core.c`).
    fn is_asked(&self, packet: &Packet) -> bool {
        let is_settled = packet.translated && matches!(self.hook.as_str(), "prerouting" | "output");
        !self.translates || packet.flow == Flow::First && !is_settled
    }
}

#[derive(Clone, Debug, PartialEq)]
struct Rule {
    handle: Option<u64>,
    statements: Vec<Value>,
}

fn text(object: &Value, field: &str) -> Option<String> {
    object.get(field).and_then(Value::as_str).map(str::to_owned)
}

/// Reads them.
pub(super) fn read(items: &[Value], family: &str) -> Others {
    let mut others = Others::default();
    for (kind, object) in items.iter().filter_map(|item| item.as_object()?.iter().next()) {
        let of = text(object, "family").unwrap_or_default();
        let table = text(object, "table").unwrap_or_default();
        let whole = format!("{of} {table}");
        if kind == "chain"
            && matches!(&*of, "bridge" | "netdev")
            && object.get("hook").is_some()
            && !others.elsewhere.contains(&whole)
        {
            others.elsewhere.push(whole.clone());
        }
        if table == TABLE || (of != family && of != "inet") {
            continue;
        }
        match (kind.as_str(), text(object, "name"), text(object, "chain")) {
            ("chain", Some(name), _) => {
                let base = text(object, "hook").map(|hook| Base {
                    hook,
                    priority: object.get("prio").and_then(Value::as_i64).unwrap_or_default(),
                    drops_rest: text(object, "policy").as_deref() == Some("drop"),
                    translates: text(object, "type").as_deref() == Some("nat"),
                });
                others.tables.entry(whole).or_default().entry(name).or_default().base = base;
            }
            ("rule", _, Some(chain)) => {
                let statements = object.get("expr").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
                let statements = super::printed::in_one_form(statements).into_owned();
                let handle = object.get("handle").and_then(Value::as_u64);
                let chain = others.tables.entry(whole).or_default().entry(chain).or_default();
                chain.rules.push(Rule { handle, statements });
            }
            ("set" | "map", Some(name), _) => {
                let elements = object.get("elem").and_then(Value::as_array).cloned().unwrap_or_default();
                others.sets.insert((whole, name), elements);
            }
            _ => {}
        }
    }
    for (table, chains) in &others.tables {
        let asked = chains.iter().filter(|(_, chain)| chain.base.is_some());
        let named = asked.filter(|(name, _)| has_xt(chains, name, 0));
        others.of_iptables.extend(named.map(|(name, _)| (table.clone(), name.clone())));
    }
    others
}

/// Whether a chain, or one that it leads to, has rules with what only iptables reads.
fn has_xt(chains: &BTreeMap<String, Chain>, name: &str, depth: usize) -> bool {
    let rules = chains.get(name).filter(|_| depth < DEEPEST).into_iter().flat_map(|chain| &chain.rules);
    rules.flat_map(|rule| &rule.statements).any(|statement| {
        let target = |word: &str| statement.get(word)?.get("target")?.as_str();
        let next = target("jump").or_else(|| target("goto"));
        statement.get("xt").is_some() || next.is_some_and(|next| has_xt(chains, next, depth + 1))
    })
}

impl Others {
    /// True when there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tables.is_empty()
    }

    /// Those of tables that see packets elsewhere, in words.
    pub(in crate::service) fn elsewhere(&self) -> impl Iterator<Item = String> {
        self.elsewhere
            .iter()
            .map(|table| format!("table {table}: its packets are those of devices and bridges"))
    }

    /// Tables with a chain that the kernel asks and that has rules or drops the rest, but for chains that are known.
    pub(in crate::service) fn deciding(
        &self,
        is_known: impl Fn(&str, &str) -> bool,
    ) -> impl Iterator<Item = &str> {
        let decides = |chain: &Chain| {
            chain.base.as_ref().is_some_and(|base| base.drops_rest || !chain.rules.is_empty())
        };
        let tables = self.tables.iter().filter(move |(table, chains)| {
            chains.iter().any(|(name, chain)| decides(chain) && !is_known(table, name))
        });
        tables.map(|(table, _)| table.as_str())
    }

    /// What they do before translation.
    pub(super) fn before(&self, packet: &mut Packet) -> Outcomes {
        let hook = if packet.client == Client::Node { "output" } else { "prerouting" };
        self.through(packet, &[(hook, false)])
    }

    /// Whether they give a packet that leaves an address of the node.
    pub(super) fn masquerades(&self, packet: Packet) -> Match {
        let mut is = Match::No;
        for (table, chains) in &self.tables {
            let walk = Walk { others: self, table, packet, remarked: None };
            let of_hook = |chain: &&Chain| chain.base.as_ref().is_some_and(|base| base.hook == "postrouting");
            for chain in chains.values().filter(of_hook) {
                match walk.masquerades(&chain.rules, 0) {
                    Match::Yes => return Match::Yes,
                    Match::Perhaps => is = Match::Perhaps,
                    Match::No => {}
                }
            }
        }
        is
    }

    /// What they do after it.
    pub(super) fn after(&self, packet: &mut Packet) -> Outcomes {
        let hooks: &[(&str, bool)] = match (packet.client, packet.to_node, packet.flow) {
            (Client::Node, true, _) => {
                &[("output", true), ("postrouting", false), ("postrouting", true), ("input", true)]
            }
            (Client::Node, false, Flow::Answer) => {
                &[("prerouting", false), ("prerouting", true), ("input", true)]
            }
            (Client::Node, false, _) => &[("output", true), ("postrouting", false), ("postrouting", true)],
            (_, true, Flow::Answer) => {
                &[("output", false), ("output", true), ("postrouting", false), ("postrouting", true)]
            }
            (_, true, _) => &[("prerouting", true), ("input", true)],
            (_, false, Flow::Answer) => &[
                ("prerouting", false),
                ("prerouting", true),
                ("forward", true),
                ("postrouting", false),
                ("postrouting", true),
            ],
            (_, false, _) => {
                &[("prerouting", true), ("forward", true), ("postrouting", false), ("postrouting", true)]
            }
        };
        self.through(packet, hooks)
    }

    /// The mark of one that was translated when masquerading asks for it; `None` where nobody knows. And the rule that may
    /// have changed it.
    pub(super) fn mark(&self, mut packet: Packet) -> (Option<u32>, Option<Place>) {
        let hooks = [("prerouting", true), ("forward", true), ("postrouting", false)];
        let outcomes = self.through(&mut packet, &hooks);
        (packet.mark, outcomes.remarked)
    }

    /// What they do with one that nobody translated and that is to the node itself.
    pub(super) fn delivered(&self, packet: &mut Packet) -> Outcomes {
        let first = if packet.client == Client::Node { "output" } else { "prerouting" };
        self.through(packet, &[(first, true), ("input", true)])
    }

    fn through(&self, packet: &mut Packet, hooks: &[(&str, bool)]) -> Outcomes {
        let mut whole = Outcomes::undecided();
        for (hook, after) in hooks {
            // Where destinations, and at the end sources, are translated.
            let translation = match *hook {
                "prerouting" | "output" => Some(OURS),
                "postrouting" => Some(SOURCES),
                _ => None,
            };
            let mut base: Vec<(i64, &String, &String, &Chain)> = Vec::new();
            for (table, chains) in &self.tables {
                for (name, chain) in chains {
                    let is_asked = |base: &&Base| base.hook == *hook && base.is_asked(packet);
                    if let Some(of) = chain.base.as_ref().filter(is_asked)
                        && translation.is_none_or(|priority| (of.priority > priority) == *after)
                    {
                        base.push((of.priority, table, name, chain));
                    }
                }
            }
            base.sort_by_key(|(priority, ..)| *priority);
            for (_, table, name, chain) in base {
                if !whole.passes() {
                    return whole;
                }
                let mut walk = Walk { others: self, table, packet: *packet, remarked: None };
                let mut out = walk.rules(name, &chain.rules, 0);
                if chain.base.as_ref().is_some_and(|base| base.drops_rest) {
                    out.end_by_policy(Place::within(table, name), "policy drop");
                }
                packet.mark = walk.packet.mark;
                out.remarked = walk.remarked;
                whole.then(out);
            }
        }
        whole
    }
}

struct Walk<'a> {
    others: &'a Others,
    table: &'a str,
    packet: Packet,
    /// The last rule that may have changed its mark.
    remarked: Option<Place>,
}

impl Walk<'_> {
    /// Whether some rule does, of these or of chains that they lead to.
    fn masquerades(&self, rules: &[Rule], depth: usize) -> Match {
        let mut is = Match::No;
        for rule in rules {
            let mut takes = Match::Yes;
            for statement in &rule.statements {
                let Some((word, body)) = statement.as_object().and_then(|one| one.iter().next()) else {
                    continue;
                };
                let found = match word.as_str() {
                    "match" => {
                        takes = takes.and(self.condition(body));
                        continue;
                    }
                    // Of iptables: what it asks, and whether it masquerades, is not in the list.
                    "xt" => {
                        takes = takes.and(Match::Perhaps);
                        takes
                    }
                    "masquerade" | "snat" => takes,
                    "jump" | "goto" if depth < DEEPEST => {
                        let target = body.get("target").and_then(Value::as_str).unwrap_or_default();
                        let next = self.others.tables.get(self.table).and_then(|table| table.get(target));
                        next.map_or(Match::No, |next| takes.and(self.masquerades(&next.rules, depth + 1)))
                    }
                    _ => continue,
                };
                match found {
                    Match::Yes => return Match::Yes,
                    Match::Perhaps => is = Match::Perhaps,
                    Match::No => {}
                }
            }
        }
        is
    }

    fn rules(&mut self, chain: &str, rules: &[Rule], depth: usize) -> Outcomes {
        let mut out = Outcomes::undecided();
        for (index, rule) in rules.iter().enumerate() {
            let place =
                Place { handle: rule.handle, position: Some(index + 1), ..Place::within(self.table, chain) };
            let mut takes = Match::Yes;
            for statement in &rule.statements {
                let Some((word, body)) = statement.as_object().and_then(|one| one.iter().next()) else {
                    takes = takes.and(Match::Perhaps);
                    continue;
                };
                match word.as_str() {
                    "match" => takes = takes.and(self.condition(body)),
                    "mangle" if takes != Match::No => self.mark(body, takes, &place),
                    // Of a connection that is known, what is not tracked is nobody's; of the first packet that is told
                    // where it is certain, and here where it may be.
                    "notrack" if self.packet.flow != Flow::First || takes == Match::Perhaps => {
                        let lost = match self.packet.flow {
                            Flow::First => Outcomes::unknown(place.clone(), word),
                            _ => Outcomes::dropped(place.clone(), word),
                        };
                        if out.decide(lost, takes == Match::Yes, place.clone()) {
                            return out;
                        }
                    }
                    "counter" | "comment" | "log" | "notrack" | "flow" | "secmark" | "ct helper"
                    | "ct timeout" | "ct expectation" | "set" | "map" | "dup" | "last" | "mangle" => {}
                    "vmap" => {
                        let verdicts = self.verdicts(body);
                        let certain = matches!(&*verdicts, [(Match::Yes, _)]);
                        for (is, verdict) in verdicts {
                            let takes = takes.and(is);
                            if takes == Match::No {
                                continue;
                            }
                            let rest = rules.get(index + 1..).unwrap_or_default();
                            let sure = takes == Match::Yes && certain;
                            if self.verdict(&verdict, (chain, rest, &place), sure, depth, &mut out) {
                                return out;
                            }
                        }
                    }
                    "limit" | "quota" | "xt" | "connlimit" | "ct count" => takes = takes.and(Match::Perhaps),
                    _ => {
                        if takes == Match::No {
                            break;
                        }
                        let rest = rules.get(index + 1..).unwrap_or_default();
                        let sure = takes == Match::Yes;
                        if self.verdict(statement, (chain, rest, &place), sure, depth, &mut out) {
                            return out;
                        }
                    }
                }
                if takes == Match::No {
                    break;
                }
            }
        }
        out
    }

    /// Sets the mark, where it is the packet's that is set; a rule that only may be asked leaves it unknown.
    fn mark(&mut self, body: &Value, takes: Match, place: &Place) {
        if !body.get("key").is_some_and(is_mark) {
            return;
        }
        let written = body.get("value").and_then(|value| marking(value, self.packet.mark));
        if written.is_some() && written == self.packet.mark {
            return;
        }
        self.packet.mark = written.filter(|_| takes == Match::Yes);
        self.remarked = Some(place.clone());
    }

    /// Adds what a verdict does; true when the rest of the chain is not asked any more, or was asked already.
    fn verdict(
        &mut self,
        verdict: &Value,
        (chain, rest, place): (&str, &[Rule], &Place),
        sure: bool,
        depth: usize,
        out: &mut Outcomes,
    ) -> bool {
        let Some((word, body)) = verdict.as_object().and_then(|one| one.iter().next()) else { return false };
        let decided = match word.as_str() {
            "accept" => Outcomes::accepted(),
            "drop" => Outcomes::dropped(place.clone(), word),
            "reject" => Outcomes::refused(place.clone(), word),
            "continue" | "masquerade" | "snat" => return false,
            "return" if sure => return true,
            "return" => {
                out.perhaps_return(self.rules(chain, rest, depth), place.clone());
                return true;
            }
            "jump" | "goto" => {
                let target = body.get("target").and_then(Value::as_str).unwrap_or_default();
                // Kubelet's, and those that a proxy in iptables mode left, which is told: nobody else's packets are
                // dropped there, but the matches of iptables cannot be read in this list.
                if target.starts_with("KUBE-") {
                    return false;
                }
                let table = self.others.tables.get(self.table);
                let next = table.and_then(|table| table.get(target)).filter(|_| depth < DEEPEST);
                if let Some(next) = next {
                    let of = self.rules(target, &next.rules, depth + 1);
                    return out.call(of, (sure, word == "goto"), place.clone());
                }
                Outcomes::unknown(place.clone(), word)
            }
            _ => Outcomes::unknown(place.clone(), word),
        };
        out.decide(decided, sure, place.clone())
    }

    /// The verdicts that a map may give: one that is certain ends the list.
    fn verdicts(&self, body: &Value) -> Vec<(Match, Value)> {
        let Some(key) = body.get("key") else { return Vec::new() };
        let data = body.get("data");
        let named = data.and_then(Value::as_str).and_then(|name| self.named(name));
        let elements = named.or_else(|| data?.get("set")?.as_array());
        let mut found = Vec::new();
        for element in elements.into_iter().flatten() {
            let Some([value, verdict]) = element.as_array().map(Vec::as_slice) else { continue };
            let is = self.is(key, value);
            if is == Match::No {
                continue;
            }
            found.push((is, verdict.clone()));
            if is == Match::Yes {
                break;
            }
        }
        found
    }

    fn named(&self, name: &str) -> Option<&Vec<Value>> {
        let name = name.strip_prefix('@')?.to_owned();
        self.others.sets.get(&(self.table.to_owned(), name))
    }

    fn condition(&self, body: &Value) -> Match {
        let (Some(left), Some(right)) = (body.get("left"), body.get("right")) else { return Match::Perhaps };
        match body.get("op").and_then(Value::as_str) {
            Some("==" | "in") => self.is(left, right),
            Some("!=") => self.is(left, right).not(true),
            _ => Match::Perhaps,
        }
    }

    /// Whether a field of the packet is a value, or among values.
    fn is(&self, field: &Value, value: &Value) -> Match {
        if let Some(values) = value.as_array().or_else(|| value.get("set")?.as_array()) {
            return self.any(field, values);
        }
        if let Some(name) = value.as_str().filter(|name| name.starts_with('@')) {
            return match self.named(name) {
                // One that others fill while packets pass by has other elements than in the dump.
                Some(values) if !values.is_empty() => self.any(field, values),
                _ => Match::Perhaps,
            };
        }
        // An element with a comment or a timeout.
        let value = value.get("elem").and_then(|element| element.get("val")).unwrap_or(value);
        let key = |of: &str, key: &str| field.get(of).and_then(|of| of.get(key)).and_then(Value::as_str);
        let packet = &self.packet;
        let is_answer = packet.flow == Flow::Answer;
        let operands = field.as_object().and_then(|field| field.values().next()?.as_array());
        if is_mark(field) || operands.and_then(|operands| operands.first()).is_some_and(is_mark) {
            return match (marking(field, packet.mark), value.as_u64()) {
                (Some(found), Some(wanted)) => Match::of(u64::from(found) == wanted),
                _ => Match::Perhaps,
            };
        }
        if let Some(name) = key("payload", "field") {
            let of = key("payload", "protocol").unwrap_or_default();
            let is_its = |of: &str| match of {
                "tcp" | "udp" | "sctp" => Match::of(of == packet.protocol.lower()),
                "icmp" | "icmpv6" | "dccp" | "arp" => Match::No,
                _ => Match::Yes,
            };
            return match name {
                "daddr" => self.net(value, |net| packet.is_to(net), packet.to.filter(|_| !is_answer)),
                "saddr" => self.net(value, |net| packet.is_from(net), packet.to.filter(|_| is_answer)),
                "dport" | "sport" => is_its(of).and(of_port(value, packet, name == "sport")),
                "protocol" | "nexthdr" => protocol(value, packet),
                _ => is_its(of).and(Match::Perhaps),
            };
        }
        if let Some(name) = key("meta", "key") {
            return match name {
                "l4proto" => protocol(value, packet),
                "nfproto" => Match::of(value.as_str() == Some(if self.is_v6() { "ipv6" } else { "ipv4" })),
                "protocol" => Match::of(value.as_str() == Some(if self.is_v6() { "ip6" } else { "ip" })),
                "iifname" | "iif" => packet.by_interface(value.as_str().unwrap_or("?"), true),
                "oifname" | "oif" => packet.by_interface(value.as_str().unwrap_or("?"), false),
                _ => Match::Perhaps,
            };
        }
        if let Some(name) = key("ct", "key") {
            return match (name, value.as_str()) {
                ("state", Some(state)) => Match::of(packet.is_in([state].iter())),
                ("status", Some("dnat")) => Match::of(packet.translated),
                ("direction", Some(way)) => Match::of((way == "reply") == is_answer),
                _ => Match::Perhaps,
            };
        }
        if let Some(fib) = field.get("fib") {
            let flags = fib.get("flags").map(ToString::to_string).unwrap_or_default();
            let is_type = fib.get("result").and_then(Value::as_str) == Some("type");
            return match (is_type, value.as_str()) {
                (true, Some(kind)) if flags.contains("daddr") => {
                    Match::of((kind == "local") == packet.is_of_node(false))
                }
                (true, Some("local")) if flags.contains("saddr") => Match::of(packet.is_of_node(true)),
                _ => Match::Perhaps,
            };
        }
        Match::Perhaps
    }

    fn is_v6(&self) -> bool {
        self.packet.to.is_some_and(|address| address.is_ipv6())
    }

    fn any(&self, field: &Value, values: &[Value]) -> Match {
        let mut all = Match::No;
        for value in values {
            match self.is(field, value) {
                Match::Yes => return Match::Yes,
                Match::Perhaps => all = Match::Perhaps,
                Match::No => {}
            }
        }
        all
    }

    fn net(&self, value: &Value, is: impl Fn(IpNet) -> Match, address: Option<IpAddr>) -> Match {
        if let Some(net) = net_of(value) {
            // A table of both families asks each for its own.
            let same = self.packet.to.is_none_or(|to| to.is_ipv4() == net.addr().is_ipv4());
            return if same { is(net) } else { Match::No };
        }
        let bounds = value.get("range").and_then(Value::as_array).map(Vec::as_slice);
        if let (Some([low, high]), Some(address)) = (bounds, address) {
            let bound = |value: &Value| value.as_str().and_then(|text| text.parse::<IpAddr>().ok());
            if let (Some(low), Some(high)) = (bound(low), bound(high)) {
                return Match::of((low..=high).contains(&address));
            }
        }
        Match::Perhaps
    }
}

/// What is written to the mark; `None` where that depends on more than the mark.
fn marking(value: &Value, mark: Option<u32>) -> Option<u32> {
    if is_mark(value) {
        return mark;
    }
    if let Some(number) = value.as_u64() {
        return u32::try_from(number).ok();
    }
    let (operator, operands) = value.as_object()?.iter().next()?;
    let [left, right] = operands.as_array()?.as_slice() else { return None };
    let (left, right) = (marking(left, mark)?, marking(right, mark)?);
    match operator.as_str() {
        "&" => Some(left & right),
        "|" => Some(left | right),
        "^" => Some(left ^ right),
        _ => None,
    }
}

fn protocol(value: &Value, packet: &Packet) -> Match {
    match (value.as_str(), value.as_u64()) {
        (Some(name), _) => Match::of(name == packet.protocol.lower()),
        (_, Some(number)) => Match::of(number == u64::from(packet.protocol.number())),
        _ => Match::Perhaps,
    }
}

fn of_port(value: &Value, packet: &Packet, comes: bool) -> Match {
    let number = |value: &Value| value.as_u64().and_then(|number| u16::try_from(number).ok());
    let range = match value.get("range").and_then(Value::as_array).map(Vec::as_slice) {
        Some([low, high]) => number(low).zip(number(high)),
        _ => number(value).map(|port| (port, port)),
    };
    range.map_or(Match::Perhaps, |(low, high)| packet.is_of_port(comes, low, high))
}
