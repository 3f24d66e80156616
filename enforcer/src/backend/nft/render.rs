//! A change as nftables text.
//!
//! Invariant: the text is a function of the change and of the names' side (see [`Side`]). Every verdict is given by a chain that counts one named
//! counter, `entry_N`, so a packet always moves exactly one counter per hook. What the chains mean is told in
//! the parent module.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::net::IpAddr;

use netlab_core::model::port::Protocol;
use netlab_core::policy::change::{
    Cell, Change, DirectionTable, PeerRow, PodDevice, ProtocolRange, RulesetTable, Verdict,
};
use netlab_ebpf::abi::{Direction, PORT_CLASS_ICMP, PORT_CLASS_OTHER, PolicyValue};
use netlab_ebpf::reason::Reason;

use super::intervals::{Family, Interval, flatten};

/// Every chain and map of one change bears the letter of its side; the next change uses the other one, so that
/// both can be there at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Side {
    A,
    B,
}

impl Side {
    pub(super) const fn letter(self) -> char {
        match self {
            Self::A => 'a',
            Self::B => 'b',
        }
    }

    /// True for a name of this side.
    pub(super) fn owns(self, name: &str) -> bool {
        name.strip_prefix(self.letter()).is_some_and(|rest| rest.starts_with('_'))
    }

    pub(super) const fn other(self) -> Self {
        match self {
            Self::A => Self::B,
            Self::B => Self::A,
        }
    }
}

/// A rendered change.
#[derive(Clone, Debug, Default)]
pub(super) struct Script {
    /// Counters, chains and maps of the change's side: what nothing refers to yet.
    pub(super) body: String,
    /// The chains at the hooks and the maps by which they find a pod's chain: the same for every change.
    pub(super) frame: String,
    /// Every entry that the change can count.
    pub(super) counters: BTreeSet<String>,
    /// The chain of each interface, by dispatch map.
    pub(super) dispatch: BTreeMap<&'static str, BTreeMap<String, String>>,
    /// What each interval map must hold: intervals of addresses and the chain they lead to.
    pub(super) maps: BTreeMap<String, (Family, Vec<Interval<u32>>)>,
    /// The chains that the numbers in `maps` stand for.
    pub(super) targets: Vec<String>,
    /// Every chain, with its number of rules.
    pub(super) chains: BTreeMap<String, usize>,
}

/// The map from a pod's interface to the chain of what comes from it.
pub(super) const FROM_POD: &str = "from_pod";
/// The map from a pod's interface to the chain of what goes to it.
pub(super) const TO_POD: &str = "to_pod";

/// The name of an entry's counter.
pub(super) fn counter(entry: u32) -> String {
    format!("entry_{entry}")
}

/// The entry of a counter's name.
pub(super) fn counted_entry(name: &str) -> Option<u32> {
    name.strip_prefix("entry_")?.parse().ok()
}

/// The name of the empty chain that says which generation is in force.
pub(super) fn generation_chain(generation: u32) -> String {
    format!("{GENERATION}{generation}")
}

/// How its name begins.
pub(super) const GENERATION: &str = "generation_";

/// Priority of the egress decision: after destination NAT (-100), so a packet to a Service bears its endpoint's address.
const EGRESS_PRIORITY: i32 = -90;
/// Priority of the ingress decision: after source NAT (100).
const INGRESS_PRIORITY: i32 = 150;
/// `icmp type` of errors, as [`netlab_ebpf::packet::Packet::is_icmp_error`] has them.
const ICMP_ERRORS: &str = "icmp type { 3, 11, 12 }";
/// `icmpv6 type` of errors.
const ICMPV6_ERRORS: &str = "icmpv6 type { 1, 2, 3, 4 }";
/// A TCP segment that opens a connection.
const BARE_SYN: &str = "tcp flags & (fin | syn | rst | ack) == syn";
/// An SCTP packet that opens an association (RFC 9260: INIT travels alone).
const SCTP_INIT: &str = "sctp chunk init exists";

/// ICMP that answers nothing: judged each by itself, as `judge` does.
const ICMP_STATELESS: &str = "icmp type != 0";
/// The same of ICMPv6.
const ICMPV6_STATELESS: &str = "icmpv6 type != 129";

/// Which of two ways a packet is looked up.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// By its own headers, as the packet of a flow that it opens.
    Own,
    /// By the tuple of the flow that it belongs to, as the opener's first packet.
    Flow,
}

impl Way {
    const BOTH: [Self; 2] = [Self::Own, Self::Flow];

    const fn name(self) -> &'static str {
        match self {
            Self::Own => "own",
            Self::Flow => "flow",
        }
    }
}

const fn short(direction: Direction) -> &'static str {
    match direction {
        Direction::Ingress => "in",
        Direction::Egress => "out",
    }
}

/// Renders `change` under the names of `side`. `node_label` is the connection label that marks flows opened by the
/// node itself.
pub(super) fn render(change: &Change, side: Side, node_label: u8) -> Script {
    let mut render = Render {
        side: side.letter(),
        node_label,
        script: Script::default(),
        body: String::new(),
        numbers: BTreeMap::new(),
    };
    render.change(change);
    render.script.body = render.body;
    render.script
}

struct Render {
    side: char,
    node_label: u8,
    script: Script,
    body: String,
    numbers: BTreeMap<String, u32>,
}

impl Render {
    fn change(&mut self, change: &Change) {
        self.script.counters = entries(change).into_keys().map(counter).collect();
        self.shared();
        for (entry, verdict) in entries(change) {
            self.entry(entry, verdict);
        }
        for ruleset in &change.rulesets {
            self.ruleset(change, ruleset);
        }
        for pod in &change.pods {
            if let Some(ruleset) = change.rulesets.iter().find(|ruleset| ruleset.id == pod.ruleset) {
                self.pod(change, pod, ruleset);
            }
        }
        for (hook, priority, interface, map, suffix) in [
            ("prerouting", EGRESS_PRIORITY, "iifname", FROM_POD, "from"),
            ("postrouting", INGRESS_PRIORITY, "oifname", TO_POD, "to"),
        ] {
            let chain = |pod: &PodDevice| self.name(&format!("p{}_{suffix}", pod.id));
            let dispatch = change.pods.iter().map(|pod| (pod.interface.clone(), chain(pod))).collect();
            self.script.dispatch.insert(map, dispatch);
            self.script.chains.insert(hook.to_owned(), 1);
            let _ = writeln!(
                self.script.frame,
                "map {map} {{\ntype ifname : verdict\n}}\nchain {hook} {{\n\
                 type filter hook {hook} priority {priority}; policy accept;\n{interface} vmap @{map}\n}}"
            );
        }
        self.script.chains.insert(generation_chain(change.generation), 0);
    }

    /// Chains that every ruleset uses.
    fn shared(&mut self) {
        // Packets of a flow that some earlier packet opened count as such, unless they open it once more.
        self.chain(
            "known",
            &[
                format!("{BARE_SYN} return"),
                format!("{SCTP_INIT} return"),
                format!("ct label {} return", self.picked_up()),
                format!("{ICMP_STATELESS} return"),
                format!("{ICMPV6_STATELESS} return"),
                "ct state related return".to_owned(),
                take(Reason::Flow),
            ],
        );
        self.chain(
            "passed",
            &[
                format!("{ICMP_ERRORS} {}", take(Reason::Related)),
                format!("{ICMPV6_ERRORS} {}", take(Reason::Related)),
                take(Reason::Flow),
            ],
        );
        self.chain("no_entry", &[take(Reason::NoEntry)]);
        self.chain("malformed", &[take(Reason::Malformed)]);
    }

    /// The chains that give an entry's verdict: for a packet that opens a flow, and for one of a flow.
    fn entry(&mut self, entry: u32, verdict: Verdict) {
        let count = format!("counter name {}", counter(entry));
        match verdict {
            Verdict::Allow => {
                let known = format!("ct status confirmed jump {}", self.name("known"));
                self.chain(&format!("e{entry}_own"), &[known, format!("{count} accept")]);
            }
            Verdict::Deny => {
                let refuse = format!("{count} drop");
                self.chain(&format!("e{entry}_own"), std::slice::from_ref(&refuse));
                self.chain(
                    &format!("e{entry}_flow"),
                    &[
                        format!("{ICMP_ERRORS} {}", take(Reason::Unrelated)),
                        format!("{ICMPV6_ERRORS} {}", take(Reason::Unrelated)),
                        refuse,
                    ],
                );
            }
        }
    }

    fn entry_target(&self, cell: Cell, way: Way) -> String {
        match (way, cell.verdict) {
            (Way::Flow, Verdict::Allow) => self.name("passed"),
            _ => self.name(&format!("e{}_{}", cell.entry, way.name())),
        }
    }

    fn ruleset(&mut self, change: &Change, ruleset: &RulesetTable) {
        for (direction, table) in
            [(Direction::Ingress, &ruleset.ingress), (Direction::Egress, &ruleset.egress)]
        {
            for way in Way::BOTH {
                self.decision(change, ruleset.id, direction, table.as_ref(), way);
            }
        }
        if ruleset.ingress.is_some() || ruleset.egress.is_some() {
            self.hook(ruleset, Direction::Ingress);
            self.hook(ruleset, Direction::Egress);
        }
    }

    /// The chain that decides for a flow opened in `direction`.
    fn decision(
        &mut self,
        change: &Change,
        ruleset: u32,
        direction: Direction,
        table: Option<&DirectionTable>,
        way: Way,
    ) {
        let name = format!("r{ruleset}_{}_{}", short(direction), way.name());
        let Some(table) = table else {
            let target = match (way, direction) {
                (Way::Flow, _) => self.name("passed"),
                (Way::Own, Direction::Ingress) => {
                    self.name(&format!("e{}_own", Reason::NotIsolatedIngress as u8))
                }
                (Way::Own, Direction::Egress) => {
                    self.name(&format!("e{}_own", Reason::NotIsolatedEgress as u8))
                }
            };
            self.chain(&name, &[format!("goto {target}")]);
            return;
        };
        let mut row_of = BTreeMap::new();
        for (index, row) in table.rows.iter().enumerate() {
            let target = match row.cells.first() {
                Some(first) if row.cells.iter().all(|cell| cell.entry == first.entry) => {
                    self.entry_target(*first, way)
                }
                _ => {
                    let row_name = format!("{name}_w{index}");
                    self.row(&row_name, table, &row.cells, way);
                    self.name(&row_name)
                }
            };
            let number = self.number(target);
            row_of.extend(row.peer_classes.iter().map(|class| (*class, number)));
        }
        let unknown = self.number(self.name("no_entry"));
        let mut rules = Vec::new();
        for family in Family::BOTH {
            let map = format!("{name}_{}", if family == Family::V4 { "v4" } else { "v6" });
            let intervals =
                flatten(&change.peers, family, |class| row_of.get(&class).copied().unwrap_or(unknown));
            let keyword = if family == Family::V4 { "ip" } else { "ip6" };
            let remote = match (way, direction) {
                (Way::Own, Direction::Ingress) => format!("{keyword} saddr"),
                (Way::Own, Direction::Egress) => format!("{keyword} daddr"),
                // The reply tuple is the pod's own view of a flow that came to it, after any NAT.
                (Way::Flow, Direction::Ingress) => format!("ct reply {keyword} daddr"),
                // And this the other end of one that it opened: the endpoint, not the Service.
                (Way::Flow, Direction::Egress) => format!("ct reply {keyword} saddr"),
            };
            if let [only] = intervals.as_slice() {
                let protocol = if family == Family::V4 { "ipv4" } else { "ipv6" };
                rules.push(format!("meta nfproto {protocol} goto {}", self.target(only.value)));
            } else {
                rules.push(format!("{remote} vmap @{}", self.name(&map)));
                self.map(&map, family, intervals);
            }
        }
        rules.push(format!("goto {}", self.name("no_entry")));
        self.chain(&name, &rules);
    }

    /// The chain of a row: one verdict per port class.
    fn row(&mut self, name: &str, table: &DirectionTable, cells: &[Cell], way: Way) {
        let target = |class: u16| {
            table
                .port_classes
                .iter()
                .zip(cells)
                .find(|(port_class, _)| port_class.class == class)
                .map_or_else(|| self.name("no_entry"), |(_, cell)| self.entry_target(*cell, way))
        };
        let protocol = if way == Way::Own { "meta l4proto" } else { "ct original protocol" };
        let mut rules = vec![format!("{protocol} {{ icmp, ipv6-icmp }} goto {}", target(PORT_CLASS_ICMP))];
        for named in Protocol::ALL {
            let ranges = port_targets(table, named, &target);
            let number = named.number();
            match (ranges.as_slice(), way) {
                ([(_, only)], _) => rules.push(format!("{protocol} {number} goto {only}")),
                (_, Way::Own) => {
                    rules.push(format!("{protocol} {number} th dport vmap {{ {} }}", elements(&ranges)));
                }
                (_, Way::Flow) => {
                    // nft types the port of a tracked tuple only where the family is known.
                    let port = "ct reply proto-src";
                    for family in ["ipv4", "ipv6"] {
                        rules.push(format!(
                            "meta nfproto {family} {protocol} {number} {port} vmap {{ {} }}",
                            elements(&ranges)
                        ));
                    }
                }
            }
        }
        // Ports that could not be read: a header that is cut short.
        rules.push(format!("{protocol} {{ tcp, udp, sctp }} goto {}", self.name("malformed")));
        rules.push(format!("goto {}", target(PORT_CLASS_OTHER)));
        self.chain(name, &rules);
    }

    /// The chain of one hook: which direction the packet's flow was opened in, and how it is looked up.
    fn hook(&mut self, ruleset: &RulesetTable, direction: Direction) {
        let id = ruleset.id;
        let chain =
            |opened: Direction, way: Way| self.name(&format!("r{id}_{}_{}", short(opened), way.name()));
        let own = chain(direction, Way::Own);
        let forth = chain(direction, Way::Flow);
        let back = chain(direction.inverse(), Way::Flow);
        let label = self.node_label;
        let isolated = match direction {
            Direction::Ingress => ruleset.ingress.is_some(),
            Direction::Egress => ruleset.egress.is_some(),
        };
        let errors = format!("r{id}_{}_error", short(direction));
        let mut rules = Vec::new();
        if direction == Direction::Ingress {
            // Not by errors and resets that the node sends about a flow between others.
            rules.push(format!("iif 0 ct direction original ct state new,established ct label set {label}"));
            rules.push(format!("iif 0 {}", take(Reason::Node)));
        }
        if isolated {
            rules.push(format!("{ICMP_ERRORS} goto {}", self.name(&errors)));
            rules.push(format!("{ICMPV6_ERRORS} goto {}", self.name(&errors)));
        }
        rules.push(format!("ct state invalid,untracked,related goto {own}"));
        rules.push(format!("{BARE_SYN} goto {own}"));
        rules.push(format!("{SCTP_INIT} goto {own}"));
        rules.push(format!("{ICMP_STATELESS} goto {own}"));
        rules.push(format!("{ICMPV6_STATELESS} goto {own}"));
        // A segment that opens nothing makes no flow: neither it nor its answers are anybody's replies.
        let picked_up = self.picked_up();
        rules.push(format!("meta l4proto tcp ct state new ct label set {picked_up}"));
        rules.push(format!("ct label {picked_up} goto {own}"));
        rules.push(format!("ct direction original goto {own}"));
        let mut error_rules = vec![format!("ct state related ct direction original goto {forth}")];
        if direction == Direction::Egress {
            rules.push(format!("ct label {label} {}", take(Reason::Flow)));
            error_rules.push(format!("ct state related ct label {label} {}", take(Reason::Related)));
        }
        rules.push(format!("goto {back}"));
        if isolated {
            error_rules.push(format!("ct state related goto {back}"));
            error_rules.push(take(Reason::Unrelated));
            self.chain(&errors, &error_rules);
        }
        self.chain(&format!("r{id}_{}", if direction == Direction::Ingress { "to" } else { "from" }), &rules);
    }

    /// The chains of a pod: what is decided before any policy, as `judge` has it.
    fn pod(&mut self, change: &Change, pod: &PodDevice, ruleset: &RulesetTable) {
        let own = |family: Family| {
            pod.addresses
                .iter()
                .find(|address| address.is_ipv4() == (family == Family::V4))
                .map(IpAddr::to_string)
        };
        let (ipv4, ipv6) = (own(Family::V4), own(Family::V6));
        let closed = ruleset.ingress.is_some() || ruleset.egress.is_some();
        let mut from = Vec::new();
        let mut to = Vec::new();
        if closed {
            for rules in [&mut from, &mut to] {
                rules.push(format!("ip6 saddr ::ffff:0:0/96 {}", take(Reason::Martian)));
                rules.push(format!("ip6 daddr ::ffff:0:0/96 {}", take(Reason::Martian)));
            }
        }
        if !pod.any_source {
            let plus =
                |address: &Option<String>| address.as_ref().map_or(String::new(), |a| format!(", {a}"));
            from.push(format!("ip saddr != {{ 0.0.0.0{} }} {}", plus(&ipv4), take(Reason::Spoof)));
            from.push(format!("ip6 saddr != {{ ::, fe80::/10{} }} {}", plus(&ipv6), take(Reason::Spoof)));
            // No address at all speaks to many only: DHCP, group membership, duplicate address detection.
            from.push(format!("ip saddr 0.0.0.0 ip daddr < 224.0.0.0 {}", take(Reason::Spoof)));
            from.push(format!("ip6 saddr :: ip6 daddr != ff00::/8 {}", take(Reason::Spoof)));
        }
        from.push(format!("icmp type {{ 5, 9 }} {}", take(Reason::Router)));
        from.push(format!("icmpv6 type {{ 134, 137 }} {}", take(Reason::Router)));
        if !closed {
            from.push(take(Reason::NotIsolatedEgress));
            to.push(take(Reason::NotIsolatedIngress));
            self.chain(&format!("p{}_from", pod.id), &from);
            self.chain(&format!("p{}_to", pod.id), &to);
            return;
        }
        for rules in [&mut from, &mut to] {
            rules.push(format!("icmpv6 type 133-137 ip6 hoplimit 255 {}", take(Reason::Neighbour)));
            rules.push(format!(
                "icmpv6 type {{ 130, 131, 132, 143 }} ip6 hoplimit 1 {}",
                take(Reason::MulticastControl)
            ));
            rules.push(format!(
                "meta l4proto igmp ip ttl 1 ip daddr 224.0.0.0/4 {}",
                take(Reason::MulticastControl)
            ));
        }
        for (keyword, address) in [("ip", &ipv4), ("ip6", &ipv6)] {
            if let Some(address) = address {
                // What comes back to the pod through a Service is no talk with itself, and goes by its own class.
                from.push(format!(
                    "{keyword} daddr {address} ct status & dnat == 0 {}",
                    take(Reason::Itself)
                ));
                from.push(format!("{keyword} daddr {address} ct direction reply {}", take(Reason::Flow)));
                to.push(format!(
                    "iifname \"{}\" {keyword} saddr {address} {}",
                    pod.interface,
                    take(Reason::Itself)
                ));
                let target = self.own_row(change, ruleset, pod, keyword == "ip");
                to.push(format!(
                    "iifname \"{}\" {keyword} daddr {address} ct direction original goto {target}",
                    pod.interface
                ));
            }
        }
        from.push(format!("goto {}", self.name(&format!("r{}_from", ruleset.id))));
        to.push(format!("goto {}", self.name(&format!("r{}_to", ruleset.id))));
        self.chain(&format!("p{}_from", pod.id), &from);
        self.chain(&format!("p{}_to", pod.id), &to);
    }

    /// Where a packet goes that a pod sent to itself through a Service: the row of its own class.
    fn own_row(&self, change: &Change, ruleset: &RulesetTable, pod: &PodDevice, ipv4: bool) -> String {
        let direction = Direction::Ingress;
        let name = format!("r{}_{}_{}", ruleset.id, short(direction), Way::Own.name());
        let Some(table) = &ruleset.ingress else { return self.name(&name) };
        let own = pod.addresses.iter().find(|address| address.is_ipv4() == ipv4);
        let class = own.map_or(0, |address| change.class_of(*address));
        let rows = table.rows.iter().enumerate();
        let row = rows.into_iter().find(|(_, row)| row.peer_classes.contains(&class));
        match row {
            Some((_, PeerRow { cells, .. }))
                if cells.iter().all(|cell| Some(cell.entry) == cells.first().map(|first| first.entry)) =>
            {
                cells.first().map_or_else(|| self.name("no_entry"), |cell| self.entry_target(*cell, Way::Own))
            }
            Some((index, _)) => self.name(&format!("{name}_w{index}")),
            None => self.name("no_entry"),
        }
    }

    /// The label of TCP flows that connection tracking picked up in the middle.
    const fn picked_up(&self) -> u8 {
        self.node_label ^ 1
    }

    fn name(&self, name: &str) -> String {
        format!("{}_{name}", self.side)
    }

    fn number(&mut self, target: String) -> u32 {
        if let Some(number) = self.numbers.get(&target) {
            return *number;
        }
        let number = u32::try_from(self.script.targets.len()).unwrap_or(u32::MAX);
        self.script.targets.push(target.clone());
        self.numbers.insert(target, number);
        number
    }

    fn target(&self, number: u32) -> &str {
        usize::try_from(number)
            .ok()
            .and_then(|index| self.script.targets.get(index))
            .map_or("", String::as_str)
    }

    /// Chains are declared in an order in which nft has seen every chain that a rule goes to.
    fn chain(&mut self, name: &str, rules: &[String]) {
        let name = self.name(name);
        let _ = writeln!(self.body, "chain {name} {{");
        for rule in rules {
            let _ = writeln!(self.body, "{rule}");
        }
        self.body.push_str("}\n");
        self.script.chains.insert(name, rules.len());
    }

    fn map(&mut self, name: &str, family: Family, intervals: Vec<Interval<u32>>) {
        let kind = if family == Family::V4 { "ipv4_addr" } else { "ipv6_addr" };
        let name = self.name(name);
        let _ = write!(self.body, "map {name} {{\ntype {kind} : verdict\nflags interval\nelements = {{ ");
        for interval in &intervals {
            let (start, end) = (family.address(interval.start), family.address(interval.end));
            let target =
                usize::try_from(interval.value).ok().and_then(|index| self.script.targets.get(index));
            let target = target.map_or("", String::as_str);
            if start == end {
                let _ = write!(self.body, "{start} : goto {target}, ");
            } else {
                let _ = write!(self.body, "{start}-{end} : goto {target}, ");
            }
        }
        self.body.push_str("}\n}\n");
        self.script.maps.insert(name, (family, intervals));
    }
}

/// Counts a built-in reason and gives its verdict.
fn take(reason: Reason) -> String {
    let verdict = if reason.verdict() == PolicyValue::ALLOW { "accept" } else { "drop" };
    format!("counter name {} {verdict}", counter(reason.entry()))
}

/// Every entry that can be cited, with its verdict.
fn entries(change: &Change) -> BTreeMap<u32, Verdict> {
    let mut entries: BTreeMap<u32, Verdict> = Reason::FIXED
        .into_iter()
        .map(|reason| {
            let allow = reason.verdict() == PolicyValue::ALLOW;
            (reason.entry(), if allow { Verdict::Allow } else { Verdict::Deny })
        })
        .collect();
    let tables = change.rulesets.iter().flat_map(|ruleset| [&ruleset.ingress, &ruleset.egress]).flatten();
    entries.extend(
        tables
            .flat_map(|table| &table.rows)
            .flat_map(|row| &row.cells)
            .map(|cell| (cell.entry, cell.verdict)),
    );
    entries
}

/// The ports of a protocol and where they lead, neighbours that lead to one place merged.
fn port_targets(
    table: &DirectionTable,
    protocol: Protocol,
    target: &impl Fn(u16) -> String,
) -> Vec<(ProtocolRange, String)> {
    let mut ranges: Vec<(ProtocolRange, String)> = table
        .port_classes
        .iter()
        .flat_map(|class| class.ranges.iter().map(|range| (*range, target(class.class))))
        .filter(|(range, _)| range.protocol == protocol)
        .collect();
    ranges.sort();
    ranges.dedup_by(|next, before| {
        let same = next.1 == before.1;
        if same {
            before.0.end = next.0.end;
        }
        same
    });
    ranges
}

fn elements(ranges: &[(ProtocolRange, String)]) -> String {
    let elements: Vec<String> = ranges
        .iter()
        .map(|(range, target)| {
            if range.start == range.end {
                format!("{} : goto {target}", range.start)
            } else {
                format!("{}-{} : goto {target}", range.start, range.end)
            }
        })
        .collect();
    elements.join(", ")
}
