//! What the comparison of one service port looks up in a dump: the proxy's lists of all Services, by address, chain and
//! name, and the flags that the rules show.
//!
//! Invariant: a rule of a list is a port's when it names the port's address, leads to a chain of the port's, calls itself
//! the port's, or takes packets of the port's by naming no single address. Others are other Services', of which the input
//! need not have all. Source: `pkg/proxy/iptables/proxier.go` `syncProxyRules`.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;

use super::chain;
use super::dump::{Dump, Not, Rule};
use super::form::decides;
use crate::model::port::Protocol;
use crate::service::RouteKind;
use crate::service::expected::{ExpectedFrontend, ExpectedPort, FrontendKey};

pub(super) const MARK: &str = "KUBE-MARK-MASQ";
pub(super) const NODE_PORTS: &str = "KUBE-NODEPORTS";

/// Chains with rules of all Services.
pub(super) const LISTS: [(&str, &str); 6] = [
    ("nat", "KUBE-SERVICES"),
    ("nat", NODE_PORTS),
    ("filter", "KUBE-SERVICES"),
    ("filter", "KUBE-EXTERNAL-SERVICES"),
    ("filter", "KUBE-PROXY-FIREWALL"),
    ("filter", NODE_PORTS),
];

/// A dump, as it is compared.
#[derive(Debug)]
pub struct Written<'a> {
    pub(in crate::service) dump: &'a Dump,
    pub(super) flags: Flags,
    lists: BTreeMap<(&'static str, &'static str), List<'a>>,
}

#[derive(Debug, Default)]
struct List<'a> {
    by_key: BTreeMap<FrontendKey, Vec<&'a Rule>>,
    /// Of those that have no name.
    by_target: BTreeMap<&'a str, Vec<&'a Rule>>,
    by_name: BTreeMap<&'a str, Vec<&'a Rule>>,
    /// Those that name no single address and port.
    wide: Vec<&'a Rule>,
}

impl<'a> Written<'a> {
    /// Reads what is needed for all ports.
    #[must_use]
    pub fn of(dump: &'a Dump) -> Self {
        let lists = LISTS.map(|(table, chain)| ((table, chain), List::of(dump, table, chain)));
        Self { dump, flags: Flags::of(dump), lists: lists.into() }
    }

    /// The rules of a list that are a port's, in order.
    pub(super) fn of_port(
        &self,
        (table, chain): (&'static str, &'static str),
        port: &ExpectedPort,
    ) -> Vec<&'a Rule> {
        let Some(list) = self.lists.get(&(table, chain)) else { return Vec::new() };
        let mut all: BTreeMap<usize, &Rule> = BTreeMap::new();
        let mut add = |rules: Option<&Vec<&'a Rule>>| {
            all.extend(rules.into_iter().flatten().map(|rule| (rule.position, *rule)));
        };
        let health = port.health_check.filter(|_| (table, chain) == ("filter", NODE_PORTS));
        let health = health.map(|port| FrontendKey { address: None, port, protocol: Protocol::Tcp });
        let asked = |frontend: &&ExpectedFrontend| is_asked((table, chain), frontend.kind);
        let keys = || port.frontends.iter().filter(asked).map(|frontend| frontend.key).chain(health);
        for key in keys() {
            add(list.by_key.get(&key));
        }
        let name = &port.name;
        for own in [chain::cluster(name), chain::local(name), chain::external(name), chain::firewall(name)] {
            add(list.by_target.get(&*own));
        }
        add(list.by_name.get(&*name.to_string()));
        let wide = list
            .wide
            .iter()
            .filter(|rule| !is_for_everybody(rule) && keys().any(|key| may_take(rule, key, chain)));
        all.extend(wide.map(|rule| (rule.position, *rule)));
        all.into_values().collect()
    }

    /// The rules of a list that take packets to every address, but for the last that leads on to node ports.
    pub(super) fn of_everybody(
        &self,
        list: (&'static str, &'static str),
    ) -> impl Iterator<Item = &'a Rule> + '_ {
        let wide = self.lists.get(&list).map_or(&[][..], |list| &list.wide);
        wide.iter().copied().filter(|rule| is_for_everybody(rule))
    }
}

impl<'a> List<'a> {
    fn of(dump: &'a Dump, table: &'static str, chain: &'static str) -> Self {
        let mut list = Self::default();
        for rule in dump.rules(table, chain).iter().filter(|rule| decides(rule)) {
            let target = rule.target.as_deref().unwrap_or_default();
            if target == NODE_PORTS {
                continue;
            }
            // Node ports are at any address of the node.
            let is_narrow = |key: &FrontendKey| key.address.is_some() || chain == NODE_PORTS || rule.to_node;
            match key(rule).filter(is_narrow) {
                Some(key) => list.by_key.entry(key).or_default().push(rule),
                None => list.wide.push(rule),
            }
            match rule.comment.as_deref().and_then(|words| words.split(' ').next()) {
                Some(name) => list.by_name.entry(name).or_default().push(rule),
                // One that calls itself another's is told as that one's.
                None => list.by_target.entry(target).or_default().push(rule),
            }
        }
        list
    }
}

/// The addresses that alone take node ports (`--nodeport-addresses`); empty where none is named.
#[must_use]
pub fn node_port_addresses(dump: &Dump) -> Vec<IpAddr> {
    let rules = dump.rules("nat", "KUBE-SERVICES").iter();
    let to_node_ports = rules.filter(|rule| rule.target.as_deref() == Some(NODE_PORTS));
    let named = to_node_ports.filter_map(|rule| rule.destination.as_ref());
    named.filter(|net| !net.negated).map(|net| net.value.addr()).collect()
}

/// Whether packets to an address of a kind come to a list before they are decided.
fn is_asked(list: (&str, &str), kind: RouteKind) -> bool {
    match list {
        ("nat", NODE_PORTS) => kind == RouteKind::NodePort,
        ("nat", _) => true,
        (_, "KUBE-SERVICES") => kind == RouteKind::ClusterIp,
        (_, "KUBE-EXTERNAL-SERVICES") => kind != RouteKind::ClusterIp,
        (_, "KUBE-PROXY-FIREWALL") => kind == RouteKind::LoadBalancer,
        _ => false,
    }
}

/// The one address and port that a rule names.
fn key(rule: &Rule) -> Option<FrontendKey> {
    let address = match &rule.destination {
        None => None,
        Some(net) if !net.negated && net.value.prefix_len() == net.value.max_prefix_len() => {
            Some(net.value.addr())
        }
        Some(_) => return None,
    };
    Some(FrontendKey { address, port: rule.destination_port?, protocol: rule.protocol? })
}

fn is_for_everybody(rule: &Rule) -> bool {
    let all = |net: &Not<IpNet>| net.negated || net.value.prefix_len() == 0;
    rule.destination_port.is_none() && rule.destination.as_ref().is_none_or(all)
}

fn may_take(rule: &Rule, key: FrontendKey, chain: &str) -> bool {
    let to = |net: &Not<IpNet>| match key.address {
        Some(address) => net.value.contains(&address) != net.negated,
        // Of the node's addresses nobody knows which; one that a Service has is none of them.
        None => net.negated || chain != "KUBE-SERVICES",
    };
    rule.protocol.is_none_or(|protocol| protocol == key.protocol)
        && rule.destination_port.is_none_or(|port| port == key.port)
        && rule.destination.as_ref().is_none_or(to)
}

/// How a proxy tells who is a pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Detector {
    Net(IpNet),
    /// Its name or the start of it (`--detect-local-mode` `BridgeInterface` and `InterfaceNamePrefix`).
    Interface(String),
}

impl Detector {
    /// A rule that asks for pods, or for all others.
    pub(super) fn ask(&self, rule: Rule, negated: bool) -> Rule {
        match self {
            Self::Net(net) => Rule { source: Some(Not { negated, value: *net }), ..rule },
            Self::Interface(name) => {
                let not = negated.then(|| "!".to_owned());
                let other = not.into_iter().chain(["-i".to_owned(), name.clone()]).collect();
                Rule { other, ..rule }
            }
        }
    }

    fn of(rule: &Rule, negated: bool) -> Option<Self> {
        match (&rule.source, super::follow::by_interface(rule)) {
            (Some(net), None) if net.negated == negated => Some(Self::Net(net.value)),
            (None, Some((name, not))) if not == negated => Some(Self::Interface(name.to_owned())),
            _ => None,
        }
    }
}

/// Whose packets to cluster IPs are marked.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Marked {
    /// Nobody's: the proxy was not told who is a pod.
    #[default]
    Nobody,
    /// Everybody's: `--masquerade-all`.
    All,
    /// Those of who is no pod.
    OfOthers(Detector),
}

/// Flags of the proxy, as most of its rules show them.
#[derive(Clone, Debug, Default)]
pub(super) struct Flags {
    pub(super) marked: Marked,
    pub(super) pods: Option<Detector>,
    /// The bit that asks for masquerading (`--iptables-masquerade-bit`).
    pub(super) bit: u32,
}

impl Flags {
    fn of(dump: &Dump) -> Self {
        let mut marked: BTreeMap<Marked, usize> = BTreeMap::new();
        let mut pods: BTreeMap<Detector, usize> = BTreeMap::new();
        for rules in starting(dump, &["KUBE-SVC-", "KUBE-SVL-"]) {
            let Some(rule) = rules.iter().find(|rule| rule.target.as_deref() == Some(MARK)) else { continue };
            match Detector::of(rule, true) {
                Some(detector) => {
                    *pods.entry(detector.clone()).or_default() += 1;
                    *marked.entry(Marked::OfOthers(detector)).or_default() += 1;
                }
                None if rule.source.is_none() && rule.other.is_empty() => {
                    *marked.entry(Marked::All).or_default() += 1;
                }
                None => {}
            }
        }
        for rules in starting(dump, &["KUBE-EXT-"]) {
            let of = |rule: &Rule| Detector::of(rule, false).filter(|_| goes_to_service(rule));
            if let Some(detector) = rules.iter().find_map(of) {
                *pods.entry(detector).or_default() += 1;
            }
        }
        Self { marked: most(marked).unwrap_or_default(), pods: most(pods), bit: bit(dump) }
    }
}

pub(super) fn goes_to_service(rule: &Rule) -> bool {
    let target = rule.target.as_deref().unwrap_or_default();
    ["KUBE-SVC-", "KUBE-SVL-", "KUBE-EXT-", "KUBE-FW-"].iter().any(|prefix| target.starts_with(prefix))
}

/// The rules of chains whose names start so, chain by chain.
fn starting<'a>(dump: &'a Dump, starts: &'a [&str]) -> impl Iterator<Item = &'a [Rule]> {
    // By range: there are many more chains of endpoints.
    let chains = dump.tables.get("nat").into_iter().flat_map(move |nat| {
        starts.iter().flat_map(move |start| {
            nat.chains.range((*start).to_owned()..).take_while(move |(name, _)| name.starts_with(start))
        })
    });
    chains.map(|(_, chain)| &*chain.rules)
}

fn most<T: Ord>(counts: BTreeMap<T, usize>) -> Option<T> {
    counts.into_iter().max_by_key(|(_, count)| *count).map(|(found, _)| found)
}

/// The bit that most of the rules have which should all have the same.
fn bit(dump: &Dump) -> u32 {
    const USUAL: u32 = 0x4000;
    let of = |table: &str, chain: &str| {
        let rules = dump.rules(table, chain).iter();
        let words = rules
            .flat_map(|rule| rule.mark.as_ref().map(|mark| &mark.value).into_iter().chain(&rule.set_mark));
        words.filter_map(|words| super::beyond::mark(words)).map(|(value, _)| value).collect::<Vec<u32>>()
    };
    let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
    for value in
        [of("nat", MARK), of("nat", "KUBE-POSTROUTING"), of("filter", "KUBE-FORWARD")].into_iter().flatten()
    {
        if value.is_power_of_two() {
            *counts.entry(value).or_default() += 1;
        }
    }
    most(counts).unwrap_or(USUAL)
}

/// Where pods are, if the proxy was told so by a network.
pub(super) fn pods(dump: &Dump) -> Option<IpNet> {
    let mut marks = starting(dump, &["KUBE-SVC-", "KUBE-SVL-"]).filter_map(|rules| rules.first());
    marks
        .find_map(|rule| {
            rule.source.as_ref().filter(|net| net.negated && rule.target.as_deref() == Some(MARK))
        })
        .map(|net| net.value)
}
