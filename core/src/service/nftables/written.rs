//! What kube-proxy writes, chain by chain: the one description that its rules are written from, and compared with.
//!
//! Invariant: exactly its rules and in its order, with the variants of its versions and flags that [`Style`] names. Source:
//! `pkg/proxy/nftables/proxier.go` `setupNFTables`, `nftablesBaseChains`, `nftablesJumpChains`, `syncProxyRules` of
//! 1.31 to 1.37.

use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;

use super::dump::Dump;
use super::reading::{Act, Marking, Pods, Rule, Verdict};
use super::{Layout, chain, text};
use crate::model::port::Protocol;
use crate::model::service::AddressType;
use crate::service::RouteKind;
use crate::service::expected::{Action, ExpectedPort};
use crate::service::fault::Kind;
use crate::service::iptables::ProxyOptions;

/// The chain that marks, before 1.36.
pub(super) const MARKS: &str = "mark-for-masquerade";
/// The set of the node's addresses that take node ports: with anything but all of them (`--nodeport-addresses`), as is
/// the default (`cmd/kube-proxy/app/server_linux.go`: `primary`).
pub(super) const NODE_PORT_IPS: &str = "nodeport-ips";
/// Packets of endpoints to themselves.
pub(super) const HAIRPINS: &str = "hairpin-connections";
/// Node ports that are refused at the loopback, behind a gate of 1.37 and later.
const AT_LOOPBACK: &str = "localhost-nodeport-reject-ports";
const NEW: &str = "ct state new ";

/// In which of the ways that kube-proxy has a table is written.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Style {
    pub(super) family: AddressType,
    pub(super) layout: Layout,
    /// The bits that ask for masquerading.
    pub(super) mark: u64,
    /// By a jump to a chain (before 1.36), or in place.
    pub(super) marks_by_chain: bool,
    /// How it tells pods.
    pub(super) pods: Option<Pods>,
    /// `--masquerade-all`.
    pub(super) marks_all: bool,
    /// Node ports at some addresses alone.
    pub(super) at_node_port_ips: bool,
    rejects_at_loopback: bool,
    /// The text of the rule about the cluster's range of Services, if it was told of one.
    service_range: Option<String>,
    /// Chains that the kernel asks are those of 1.32 and before.
    is_old: bool,
}

/// A rule as it is written, and what is lost with it.
#[derive(Clone, Debug)]
pub(super) struct Written {
    pub(super) text: String,
    /// Another that is as good: which of both is in no input.
    pub(super) or: Option<String>,
    pub(super) kind: Kind,
    pub(super) object: String,
    pub(super) endpoint: Option<SocketAddr>,
    pub(super) lost: &'static str,
}

/// A chain that the kernel asks.
pub(super) struct BaseChain {
    pub(super) name: &'static str,
    pub(super) kind: &'static str,
    pub(super) hook: &'static str,
    pub(super) priority: i64,
    /// Chains that it jumps to, with what is lost where it does not.
    pub(super) jumps: Vec<(&'static str, Kind, &'static str)>,
    pub(super) of: Kind,
    pub(super) lost: &'static str,
}

fn line(text: impl Into<String>, kind: Kind, object: impl Into<String>, lost: &'static str) -> Written {
    Written { text: text.into(), or: None, kind, object: object.into(), endpoint: None, lost }
}

impl Default for Style {
    fn default() -> Self {
        Self::own(AddressType::Ipv4, Layout::Maps, &ProxyOptions::default())
    }
}

impl Style {
    /// That of what netlab writes itself.
    pub(super) fn own(family: AddressType, layout: Layout, options: &ProxyOptions) -> Self {
        Self {
            family,
            layout,
            mark: u64::from(options.mark),
            marks_by_chain: false,
            pods: options.pod_cidr.map(Pods::Net),
            marks_all: false,
            at_node_port_ips: false,
            rejects_at_loopback: false,
            service_range: None,
            is_old: false,
        }
    }

    /// That of most rules of a table.
    pub(super) fn of(dump: &Dump) -> Self {
        let marks_by_chain = dump.chains.contains_key(MARKS);
        let rules = |name: &str| dump.chains.get(name).into_iter().flatten();
        let mut ranges = rules("cluster-ips-check").filter(|rule| is_service_range(&rule.text, dump.family));
        let mut style = Self {
            family: dump.family,
            layout: super::layout(dump).unwrap_or(Layout::Maps),
            mark: dump.mark.unwrap_or(0x4000),
            marks_by_chain,
            pods: dump.pods.clone(),
            marks_all: false,
            at_node_port_ips: dump.sets.contains_key(NODE_PORT_IPS),
            rejects_at_loopback: dump.maps.contains_key(AT_LOOPBACK),
            service_range: ranges.next_back().map(|rule| rule.text.clone()),
            is_old: dump.bases.contains_key("filter-prerouting"),
        };
        let all = if marks_by_chain {
            let inside = |name: &String| name.starts_with("service-") || name.starts_with("local-");
            let chains = dump.chains.iter().filter(|(name, _)| inside(name));
            let marking = || Act::Verdict(Verdict::Jump(MARKS.to_owned()));
            let marks: Vec<&Rule> =
                chains.flat_map(|(_, rules)| rules).filter(|rule| rule.act == marking()).collect();
            marks.iter().filter(|rule| Pods::of(rule).is_none()).count() * 2 > marks.len()
        } else {
            let all = style.rule(&Rule { to_set: Some(clusters()), ..style.marking() }, Protocol::Tcp);
            rules("services").any(|rule| rule.text == all)
        };
        style.marks_all = all;
        style
    }

    pub(super) fn ip(&self) -> &'static str {
        if self.family == AddressType::Ipv6 { "ip6" } else { "ip" }
    }

    fn loopback(&self) -> &'static str {
        if self.family == AddressType::Ipv6 { "::1" } else { "127.0.0.0/8" }
    }

    pub(super) fn marking(&self) -> Rule {
        Rule::always(if self.marks_by_chain {
            Act::Verdict(Verdict::Jump(MARKS.to_owned()))
        } else {
            Act::Mark(Marking::Or(self.mark))
        })
    }

    /// Packets of pods, or of who is none, where it can tell them.
    fn of_pods(&self, not: bool, rule: Rule) -> Option<Rule> {
        Some(match self.pods.clone()? {
            Pods::Net(net) => Rule { source: Some((not, net)), ..rule },
            Pods::Interface(name) => Rule { interface: Some((not, name)), ..rule },
        })
    }

    /// Packets to cluster IPs that are marked.
    pub(super) fn strangers(&self, rule: Rule) -> Option<Rule> {
        if self.marks_all { Some(rule) } else { self.of_pods(true, rule) }
    }

    /// A rule in the words of `nft`.
    pub(super) fn rule(&self, rule: &Rule, protocol: Protocol) -> String {
        let (ip, protocol) = (self.ip(), protocol.lower());
        let not = |not: bool| if not { "!= " } else { "" };
        let mut words: Vec<String> = Vec::new();
        if rule.from_node {
            words.push("fib saddr type local".to_owned());
        }
        if let Some((negated, set)) = &rule.to_set {
            words.push(format!("{ip} daddr {}@{set}", not(*negated)));
        }
        if let Some((negated, net)) = &rule.destination {
            words.push(format!("{ip} daddr {}{}", not(*negated), text::net(*net)));
        }
        if let Some((negated, net)) = &rule.source {
            words.push(format!("{ip} saddr {}{}", not(*negated), text::net(*net)));
        }
        if let Some((negated, name)) = &rule.interface {
            words.push(format!("iifname {}{name}", not(*negated)));
        }
        if !rule.not_from.is_empty() {
            words.push(format!("{ip} saddr != {}", text::nets(&rule.not_from)));
        }
        if let Some(set) = &rule.known_client {
            words.push(format!("{ip} saddr @{set}"));
        }
        words.push(match &rule.act {
            Act::Verdict(verdict) => verdict_text(verdict),
            Act::Choose(divisor, choices) => {
                let elements = choices.iter().map(|(number, to)| (*number, verdict_text(to)));
                format!("numgen random mod {divisor} vmap {}", text::numbered_map(elements.collect()))
            }
            Act::Spread(divisor, to) => {
                let elements =
                    to.iter().map(|(number, to)| (*number, format!("{} . {}", to.ip(), to.port())));
                let elements = text::numbered_map(elements.collect());
                format!("meta l4proto {protocol} dnat {ip} to numgen random mod {divisor} map {elements}")
            }
            Act::Translate(to) => format!("meta l4proto {protocol} dnat to {to}"),
            Act::Lookup(map) => format!("vmap @{map}"),
            Act::Mark(Marking::Or(bits)) => format!("mark set mark or {bits:#x}"),
            Act::Masquerade => "masquerade".to_owned(),
            Act::Remember(set) => format!("update @{set} {{ {ip} saddr }}"),
            Act::Mark(_) | Act::Keep(..) | Act::Unknown => String::new(),
        });
        words.join(" ")
    }

    /// Chains that the kernel asks.
    pub(super) fn bases(&self) -> Vec<BaseChain> {
        const RANGES: &str = "everybody may come to balancers' addresses";
        const REFUSAL: &str = "what is not translated times out where it should be refused";
        let ranges = ("firewall-check", Kind::SourceRange, RANGES);
        let of_ports = ("nodeport-endpoints-check", Kind::Jump, "node ports without endpoints refuse nobody");
        let ends = |lost| ("service-endpoints-check", Kind::Jump, lost);
        let refusal = ("cluster-ips-check", Kind::Jump, REFUSAL);
        let to_services = |lost| vec![("services", Kind::Jump, lost)];
        let base = |name, kind, hook, priority, jumps, of, lost| BaseChain {
            name,
            kind,
            hook,
            priority,
            jumps,
            of,
            lost,
        };
        let late = if self.is_old { -110 } else { 0 };
        let node_ends = ends("Services without endpoints do not refuse the node");
        let before = "asked before translation, or elsewhere, it ends packets that Services would take";
        let mut bases = vec![
            base(
                "filter-input",
                "filter",
                "input",
                late,
                vec![of_ports, ends("outside addresses without endpoints refuse nobody")],
                Kind::End,
                before,
            ),
            base(
                "filter-forward",
                "filter",
                "forward",
                late,
                vec![ends("Services without endpoints do not refuse pods"), refusal],
                Kind::End,
                before,
            ),
            base(
                "nat-prerouting",
                "nat",
                "prerouting",
                -100,
                to_services("pods' and outside packets to Services are not translated"),
                Kind::Jump,
                "at another priority others translate first, or source ranges are asked too late",
            ),
            base(
                "nat-output",
                "nat",
                "output",
                -100,
                to_services("the node's own packets to Services are not translated"),
                Kind::Jump,
                "at another priority others translate first, or source ranges are asked too late",
            ),
            base(
                "nat-postrouting",
                "nat",
                "postrouting",
                100,
                vec![(
                    "masquerading",
                    Kind::Masquerade,
                    "marked packets keep their source, so replies find no way back",
                )],
                Kind::Masquerade,
                "marked packets keep their source, so replies find no way back",
            ),
        ];
        let first =
            "asked after translation, when no packet is to a balancer's address any more, everybody may come";
        if self.is_old {
            bases.extend([
                base(
                    "filter-prerouting",
                    "filter",
                    "prerouting",
                    -110,
                    vec![ranges],
                    Kind::SourceRange,
                    first,
                ),
                base(
                    "filter-output",
                    "filter",
                    "output",
                    -110,
                    vec![node_ends, ranges],
                    Kind::SourceRange,
                    first,
                ),
                base("filter-output-post-dnat", "filter", "output", -90, vec![refusal], Kind::End, before),
            ]);
        } else {
            bases.extend([
                base("filter-output", "filter", "output", 0, vec![node_ends, refusal], Kind::End, before),
                base(
                    "filter-prerouting-pre-dnat",
                    "filter",
                    "prerouting",
                    -110,
                    vec![ranges],
                    Kind::SourceRange,
                    first,
                ),
                base(
                    "filter-output-pre-dnat",
                    "filter",
                    "output",
                    -110,
                    vec![ranges],
                    Kind::SourceRange,
                    first,
                ),
            ]);
        }
        bases
    }

    /// The rules of the chains that all Services share.
    pub(super) fn shared(&self) -> Vec<(&'static str, Vec<Written>)> {
        const NO_WAY: &str = "packets of who is no pod keep their source, so replies find no way back";
        let ip = self.ip();
        let key = "meta l4proto . th dport";
        let address = |map: &str| format!("{ip} daddr . {key} vmap @{map}");
        let of_node = |map: &str, fib: &str| {
            if self.at_node_port_ips {
                format!("{ip} daddr @{NODE_PORT_IPS} {key} vmap @{map}")
            } else {
                format!("{fib}{ip} daddr != {} {key} vmap @{map}", self.loopback())
            }
        };
        let mut chains: Vec<(&'static str, Vec<Written>)> = self
            .bases()
            .into_iter()
            .map(|base| {
                let new = if base.kind == "nat" { "" } else { NEW };
                let jump = |(to, kind, lost): &(&'static str, Kind, &'static str)| {
                    line(format!("{new}jump {to}"), *kind, *to, lost)
                };
                (base.name, base.jumps.iter().map(jump).collect())
            })
            .collect();
        let mut services = Vec::new();
        if !self.marks_by_chain
            && let Some(mark) = self.strangers(Rule { to_set: Some(clusters()), ..self.marking() })
        {
            services.push(line(self.rule(&mark, Protocol::Tcp), Kind::Masquerade, "mark", NO_WAY));
        }
        services.extend([
            line(
                address("service-ips"),
                Kind::Jump,
                "service-ips",
                "addresses of Services are not looked up",
            ),
            line(
                of_node("service-nodeports", "fib daddr type local "),
                Kind::Jump,
                "service-nodeports",
                "node ports are not translated",
            ),
        ]);
        let mut node_ports = Vec::new();
        if self.rejects_at_loopback {
            let text = format!("{ip} daddr {} {key} vmap @{AT_LOOPBACK}", self.loopback());
            node_ports.push(line(text, Kind::End, AT_LOOPBACK, "node ports at the loopback are not refused"));
        }
        node_ports.push(line(
            of_node("no-endpoint-nodeports", ""),
            Kind::End,
            "no-endpoint-nodeports",
            "node ports without endpoints refuse nobody",
        ));
        let mut checks = vec![line(
            format!("{ip} daddr @cluster-ips reject"),
            Kind::End,
            "reject",
            "what is not translated times out where it should be refused",
        )];
        checks.extend(self.service_range.clone().map(|range| {
            line(
                range,
                Kind::End,
                "drop",
                "packets to addresses that no Service has are routed as all others",
            )
        }));
        chains.extend([
            ("services", services),
            ("nodeport-endpoints-check", node_ports),
            ("cluster-ips-check", checks),
            ("masquerading", self.masquerading()),
            (
                "service-endpoints-check",
                vec![line(
                    address("no-endpoint-services"),
                    Kind::End,
                    "no-endpoint-services",
                    "Services without endpoints refuse nobody",
                )],
            ),
            (
                "firewall-check",
                vec![line(
                    address("firewall-ips"),
                    Kind::SourceRange,
                    "firewall-ips",
                    "everybody may come to balancers' addresses",
                )],
            ),
            (
                "reject-chain",
                vec![line("reject", Kind::End, "reject", "Services without endpoints let clients time out")],
            ),
        ]);
        if self.marks_by_chain {
            let text = format!("mark set mark or {:#x}", self.mark);
            let lost = "nothing is ever marked, so packets keep their source and replies find no way back";
            chains.push((MARKS, vec![line(text, Kind::Masquerade, "mark", lost)]));
        }
        chains
    }

    fn masquerading(&self) -> Vec<Written> {
        let (ip, mark) = (self.ip(), self.mark);
        let of = |text: String, object: &str, lost| line(text, Kind::Masquerade, object, lost);
        if self.marks_by_chain {
            return vec![
                of(
                    format!("mark and {mark:#x} 0 return"),
                    "return",
                    "all packets that leave the node get its address, marked or not",
                ),
                of(
                    format!("mark set mark xor {mark:#x}"),
                    "mark",
                    "packets keep their mark, and are masqueraded once more where they come by again",
                ),
                of(
                    "masquerade fully-random".to_owned(),
                    "masquerade",
                    "marked packets keep their source: replies find no way back",
                ),
            ];
        }
        vec![
            of(
                format!("mark and {mark:#x} != 0 mark set mark xor {mark:#x} masquerade fully-random"),
                "masquerade",
                "marked packets keep their source, or others lose theirs: replies find no way back",
            ),
            of(
                format!(
                    "ct status dnat {ip} saddr . {ip} daddr . meta l4proto . th dport @{HAIRPINS} masquerade fully-random"
                ),
                "masquerade",
                "endpoints that ask their own Service get no answer",
            ),
        ]
    }

    /// Sets and maps that every table has: name, type, and what goes wrong without.
    pub(super) fn declared(&self) -> Vec<(&'static str, String, Kind)> {
        let address = self.address();
        let port = "inet_proto . inet_service";
        let whole = format!("{address} . {port} : verdict");
        let of_node = format!("{port} : verdict");
        let mut all = vec![
            ("cluster-ips", address.to_owned(), Kind::End),
            ("service-ips", whole.clone(), Kind::Frontend),
            ("service-nodeports", of_node.clone(), Kind::Frontend),
            ("no-endpoint-services", whole.clone(), Kind::End),
            ("no-endpoint-nodeports", of_node, Kind::End),
            ("firewall-ips", whole, Kind::SourceRange),
        ];
        if !self.marks_by_chain {
            all.push((HAIRPINS, format!("{address} . {address} . {port}"), Kind::Masquerade));
        }
        all
    }

    /// The type of addresses.
    pub(super) fn address(&self) -> &'static str {
        if self.family == AddressType::Ipv6 { "ipv6_addr" } else { "ipv4_addr" }
    }
}

fn clusters() -> (bool, String) {
    (false, "cluster-ips".to_owned())
}

/// The rule about addresses that no Service has: in which range they are is in no input.
fn is_service_range(text: &str, family: AddressType) -> bool {
    ranges_of(text, family).is_some()
}

/// The networks that it drops.
pub(super) fn ranges_of(text: &str, family: AddressType) -> Option<Vec<IpNet>> {
    let start = if family == AddressType::Ipv6 { "ip6 daddr " } else { "ip daddr " };
    let nets = text.strip_prefix(start)?.strip_suffix(" drop")?;
    let nets = nets.trim_start_matches("{ ").trim_end_matches(" }");
    nets.split(", ").map(|net| net.parse().ok()).collect()
}

pub(super) fn verdict_text(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Goto(chain) => format!("goto {chain}"),
        Verdict::Jump(chain) => format!("jump {chain}"),
        Verdict::Drop => "drop".to_owned(),
        Verdict::Reject => "reject".to_owned(),
        Verdict::Other(word) => word.clone(),
    }
}

/// A rule of a port's chain.
pub(super) struct PortRule {
    pub(super) rule: Rule,
    /// Another that is as good.
    pub(super) or: Option<Rule>,
    pub(super) kind: Kind,
    pub(super) object: String,
    pub(super) endpoint: Option<SocketAddr>,
    pub(super) lost: &'static str,
}

impl PortRule {
    fn of(rule: Rule, kind: Kind, object: impl Into<String>, lost: &'static str) -> Self {
        Self { rule, or: None, kind, object: object.into(), endpoint: None, lost }
    }

    pub(super) fn written(&self, style: &Style, protocol: Protocol) -> Written {
        Written {
            text: style.rule(&self.rule, protocol),
            or: self.or.as_ref().map(|rule| style.rule(rule, protocol)),
            kind: self.kind,
            object: self.object.clone(),
            endpoint: self.endpoint,
            lost: self.lost,
        }
    }
}

/// The chains of a service port, by name.
pub(super) fn of_port(style: &Style, port: &ExpectedPort) -> Vec<(String, Vec<PortRule>)> {
    let name = &port.name;
    let mut chains = Vec::new();
    let inside = port.frontends.iter().find(|frontend| frontend.kind == RouteKind::ClusterIp);
    for (chain, endpoints, action) in [
        (chain::cluster(name), &port.cluster, Action::Cluster),
        (chain::local(name), &port.local, Action::Local),
    ] {
        if endpoints.is_empty() {
            continue;
        }
        let mut rules = Vec::new();
        if style.marks_by_chain
            && let Some(frontend) = inside.filter(|frontend| frontend.action == action)
        {
            let to = frontend.key.address.map(|ip| (false, IpNet::from(ip)));
            let mark = style.strangers(Rule { destination: to, ..style.marking() });
            let lost = "packets of who is no pod keep their source, so replies find no way back";
            rules.extend(mark.map(|mark| PortRule::of(mark, Kind::Masquerade, "mark", lost)));
        }
        rules.extend(balance(style, port, endpoints));
        chains.push((chain, rules));
    }
    if port.frontends.iter().any(|frontend| frontend.kind != RouteKind::ClusterIp) && port.has_endpoints() {
        chains.push((chain::external(name), external(style, port)));
    }
    if !port.source_ranges.is_empty() && port.balancers().next().is_some() {
        chains.push((chain::firewall(name), vec![firewall(port)]));
    }
    if has_endpoint_chains(style, port) {
        let mut endpoints: Vec<SocketAddr> = port.cluster.iter().chain(&port.local).copied().collect();
        endpoints.sort_unstable();
        endpoints.dedup();
        chains.extend(endpoints.into_iter().map(|to| (chain::endpoint(name, to), endpoint(style, port, to))));
    }
    chains
}

fn has_endpoint_chains(style: &Style, port: &ExpectedPort) -> bool {
    style.layout == Layout::Chains || port.affinity.is_some()
}

fn balance(style: &Style, port: &ExpectedPort, endpoints: &[SocketAddr]) -> Vec<PortRule> {
    const LOST: &str = "packets go on untranslated, or to others than the Service's endpoints";
    let name = &port.name;
    let divisor = u64::try_from(endpoints.len()).unwrap_or(u64::MAX);
    let numbered = || (0_u64..).zip(endpoints.iter().copied());
    if !has_endpoint_chains(style, port) {
        let spread = Rule::always(Act::Spread(divisor, numbered().collect()));
        return vec![PortRule::of(spread, Kind::Backend, "dnat", LOST)];
    }
    let to = |endpoint| Verdict::Goto(chain::endpoint(name, endpoint));
    let mut rules = Vec::new();
    for endpoint in endpoints.iter().filter(|_| port.affinity.is_some()) {
        let set = chain::affinity(name, *endpoint);
        let known = Rule::always(Act::Verdict(to(*endpoint)));
        let rule = Rule { known_client: Some(set.clone()), ..known };
        let rule = PortRule::of(rule, Kind::Affinity, set, "clients do not stay with it");
        rules.push(PortRule { endpoint: Some(*endpoint), ..rule });
    }
    let choices = numbered().map(|(number, endpoint)| (number, to(endpoint)));
    let choose = Rule::always(Act::Choose(divisor, choices.collect()));
    rules.push(PortRule::of(choose, Kind::Backend, "vmap", LOST));
    rules
}

fn endpoint(style: &Style, port: &ExpectedPort, to: SocketAddr) -> Vec<PortRule> {
    let mut rules = Vec::new();
    if style.marks_by_chain {
        let own = Rule { source: Some((false, to.ip().into())), ..style.marking() };
        let lost = "the endpoint that asks its own Service gets no answer";
        rules.push(PortRule::of(own, Kind::Masquerade, "mark", lost));
    }
    if port.affinity.is_some() {
        let set = chain::affinity(&port.name, to);
        let keep = Rule::always(Act::Remember(set.clone()));
        rules.push(PortRule::of(keep, Kind::Affinity, set, "clients do not stay with it"));
    }
    let translate = Rule::always(Act::Translate(to));
    let lost = "its chain does not translate to it";
    rules.push(PortRule::of(translate, Kind::Empty, chain::endpoint(&port.name, to), lost));
    rules.into_iter().map(|rule| PortRule { endpoint: Some(to), ..rule }).collect()
}

fn external(style: &Style, port: &ExpectedPort) -> Vec<PortRule> {
    const LOST: &str = "packets from outside reach no endpoint";
    let name = &port.name;
    let (cluster, local) = (chain::cluster(name), chain::local(name));
    let to = |chain: &str| Rule::always(Act::Verdict(Verdict::Goto(chain.to_owned())));
    let mark = |rule: Rule, lost| PortRule::of(rule, Kind::Masquerade, "mark", lost);
    let mut rules = Vec::new();
    if port.policy.external_local {
        if let Some(pods) = style.of_pods(false, to(&cluster)) {
            let lost = "packets of the node's pods reach only endpoints of the node";
            rules.push(PortRule::of(pods, Kind::Backend, &*cluster, lost));
        }
        let lost = "the node's own packets to it keep their source, so replies find no way back";
        rules.push(mark(Rule { from_node: true, ..style.marking() }, lost));
        let lost = "the node's own packets reach only endpoints of the node";
        let short = Rule { from_node: true, ..to(&cluster) };
        rules.push(PortRule::of(short, Kind::Backend, &*cluster, lost));
        if !port.local.is_empty() {
            rules.push(PortRule::of(to(&local), Kind::Backend, local, LOST));
        }
    } else {
        let lost = "packets from outside keep their source, so replies of other nodes' endpoints get lost";
        rules.push(mark(style.marking(), lost));
        rules.push(PortRule::of(to(&cluster), Kind::Backend, cluster, LOST));
    }
    rules
}

/// Who may come to a balancer's address: all others are dropped by one rule.
fn firewall(port: &ExpectedPort) -> PortRule {
    let within = |ip: &IpAddr| port.source_ranges.iter().any(|range| range.contains(ip));
    let drop = |not_from: Vec<IpNet>| Rule { not_from, ..Rule::always(Act::Verdict(Verdict::Drop)) };
    let alone = drop(port.source_ranges.clone());
    let balancers = port.balancers().filter(|ip| !within(ip)).map(IpNet::from);
    let with = drop(port.source_ranges.iter().copied().chain(balancers).collect());
    let (rule, or) = match port.admits_balancers() {
        Some(true) => (with, None),
        Some(false) => (alone, None),
        None => (alone, Some(with)),
    };
    let lost = "others than its source ranges may come to the balancer's address, or some of them may not";
    PortRule { or, ..PortRule::of(rule, Kind::SourceRange, "drop", lost) }
}
