//! Comparing what leads into the chains of a service port: from outside, and whose packets are masqueraded on the way.
//!
//! Invariant: rules that depend on who is a pod are asked for only where the proxy knows that, which the dump shows: one
//! that was not told the pods' network writes no such rule for any Service. Source: `pkg/proxy/iptables/proxier.go`
//! `syncProxyRules`, the parts about external chains and about traffic that needs masquerading.

use ipnet::IpNet;

use super::chain;
use super::compare::{is_about, returns_before};
use super::dump::{Dump, Rule};
use super::follow::place;
use crate::service::RouteKind;
use crate::service::expected::{Action, ExpectedPort};
use crate::service::fault::{Difference, Fault, Kind, Place};

pub(super) const MARK: &str = "KUBE-MARK-MASQ";

/// What a rule's target is.
pub(super) fn is_to(rule: &Rule, target: &str) -> bool {
    rule.target.as_deref() == Some(target)
}

/// Whether a rule is for packets of pods alone, or of all but pods.
pub(super) fn asks_for_pods(rule: &Rule) -> bool {
    match (&rule.source, by_interface(rule)) {
        (Some(net), None) => !net.negated && rule.other.is_empty(),
        (None, Some((_, negated))) => !negated,
        _ => false,
    }
}

/// The interface, or the start of its name, by which a rule asks for pods, and whether for all others
/// (`--detect-local-mode` `BridgeInterface` and `InterfaceNamePrefix`).
pub(super) fn by_interface(rule: &Rule) -> Option<(&str, bool)> {
    match rule.other.as_slice() {
        [option, name] if option == "-i" => Some((name, false)),
        [not, option, name] if not == "!" && option == "-i" => Some((name, true)),
        _ => None,
    }
}

fn missing(kind: Kind, object: &str, chain: &str, detail: &str) -> Fault {
    Fault {
        difference: Difference::Missing,
        kind,
        object: object.to_owned(),
        place: Place::within("nat", chain),
        endpoint: None,
        detail: detail.to_owned(),
    }
}

/// The chain by which node ports, balancers' and external addresses go in, and what drops those who may not.
pub(super) fn of_outside(dump: &Dump, port: &ExpectedPort, faults: &mut Vec<Fault>) {
    let is_outside = port.frontends.iter().any(|frontend| frontend.kind != RouteKind::ClusterIp);
    if !is_outside || !port.has_endpoints() {
        return;
    }
    let name = chain::external(&port.name);
    let (cluster, local) = (chain::cluster(&port.name), chain::local(&port.name));
    let rules = dump.rules("nat", &name);
    let any =
        |target: &str, is: &dyn Fn(&Rule) -> bool| rules.iter().any(|rule| is_to(rule, target) && is(rule));
    let all = |rule: &Rule| rule.source.is_none() && rule.other.is_empty() && !rule.from_node;
    if port.policy.external_local {
        if !any(MARK, &|rule| rule.from_node) {
            let detail = "the node's own packets to it keep their source, so replies find no way back";
            faults.push(missing(Kind::Masquerade, MARK, &name, detail));
        }
        if !any(&cluster, &|rule| rule.from_node) {
            let detail = "the node's own packets reach only endpoints of the node";
            faults.push(missing(Kind::Backend, &cluster, &name, detail));
        }
        if knows_pods(dump) && !any(&cluster, &|rule| asks_for_pods(rule)) {
            let detail = "packets of the node's pods reach only endpoints of the node";
            faults.push(missing(Kind::Backend, &cluster, &name, detail));
        }
        if let Some(rule) = rules.iter().find(|rule| is_to(rule, &cluster) && asks_for_pods(rule)) {
            of_detector(dump, rule, &name, faults);
        }
        if !port.local.is_empty() && !any(&local, &all) {
            faults.push(missing(Kind::Backend, &local, &name, "packets from outside reach no endpoint"));
        }
    } else {
        if !any(MARK, &all) {
            let detail =
                "packets from outside keep their source, so replies of other nodes' endpoints get lost";
            faults.push(missing(Kind::Masquerade, MARK, &name, detail));
        }
        if !port.cluster.is_empty() && !any(&cluster, &all) {
            faults.push(missing(Kind::Backend, &cluster, &name, "packets from outside reach no endpoint"));
        }
    }
    of_firewall(dump, port, faults);
}

/// Who is in no range is not translated, and must be dropped then.
fn of_firewall(dump: &Dump, port: &ExpectedPort, faults: &mut Vec<Fault>) {
    const CHAIN: &str = "KUBE-PROXY-FIREWALL";
    if port.source_ranges.is_empty() {
        return;
    }
    for frontend in port.frontends.iter().filter(|frontend| frontend.kind == RouteKind::LoadBalancer) {
        let whole = |rule: &Rule| {
            Rule { destination: None, protocol: None, destination_port: None, ..rule.clone() }
                .is_for_all(true)
        };
        let dropped = dump
            .rules("filter", CHAIN)
            .iter()
            .any(|rule| is_about(rule, frontend.key) && is_to(rule, "DROP") && whole(rule));
        if let Some(rule) = returns_before(dump, CHAIN, frontend.key) {
            let object = rule.target.clone().unwrap_or_default();
            let detail =
                "a rule that no proxy writes there takes packets first: clients in no range are not dropped";
            faults.push(Fault {
                difference: Difference::Extra,
                place: place("filter", CHAIN, rule),
                ..missing(Kind::SourceRange, &object, CHAIN, detail)
            });
        }
        if !dropped {
            faults.push(Fault {
                place: Place::within("filter", CHAIN),
                ..missing(Kind::SourceRange, "DROP", CHAIN, "clients in no range are not dropped")
            });
        }
    }
}

/// Packets to the cluster IP of who is no pod: masqueraded, or replies would leave by another way.
pub(super) fn of_inside(dump: &Dump, port: &ExpectedPort, faults: &mut Vec<Fault>) {
    let Some(frontend) = port.frontends.iter().find(|frontend| frontend.kind == RouteKind::ClusterIp) else {
        return;
    };
    let name = match frontend.action {
        Action::Cluster => chain::cluster(&port.name),
        Action::Local => chain::local(&port.name),
        Action::Refuse | Action::Drop => return,
    };
    let rules = dump.rules("nat", &name);
    if !knows_pods(dump) || rules.is_empty() {
        return;
    }
    let marks = |rule: &&Rule| is_to(rule, MARK) && is_about(rule, frontend.key);
    let Some(rule) = rules.iter().find(marks) else {
        let detail = "packets of who is no pod keep their source, so replies find no way back";
        faults.push(missing(Kind::Masquerade, MARK, &name, detail));
        return;
    };
    if asks_for_pods(rule) {
        let detail = "it marks packets of pods in place of all others', which keep their source";
        faults.push(wrong(rule, &name, detail.to_owned()));
    } else {
        of_detector(dump, rule, &name, faults);
    }
}

fn wrong(rule: &Rule, chain: &str, detail: String) -> Fault {
    Fault {
        difference: Difference::Wrong,
        place: place("nat", chain, rule),
        detail,
        ..missing(Kind::Masquerade, MARK, chain, "")
    }
}

/// How a rule tells who is a pod.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Detector {
    Net(IpNet),
    Interface(String),
}

impl Detector {
    fn of(rule: &Rule) -> Option<Self> {
        let by_interface = || by_interface(rule).map(|(name, _)| Self::Interface(name.to_owned()));
        rule.source.as_ref().map(|net| Self::Net(net.value)).or_else(by_interface)
    }
}

impl std::fmt::Display for Detector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Net(net) => write!(f, "{net}"),
            Self::Interface(name) => write!(f, "interface {name}"),
        }
    }
}

/// A proxy has one way to tell pods, for all Services.
fn of_detector(dump: &Dump, rule: &Rule, chain: &str, faults: &mut Vec<Fault>) {
    /// So many chains show it, even if one of them is the wrong one.
    const ENOUGH: usize = 5;
    let mut counts: std::collections::BTreeMap<Detector, usize> = std::collections::BTreeMap::new();
    for found in first_marks(dump).filter_map(Detector::of).take(ENOUGH) {
        *counts.entry(found).or_default() += 1;
    }
    let most = counts.into_iter().max_by_key(|(_, count)| *count).map(|(found, _)| found);
    if let (Some(most), Some(found)) = (most, Detector::of(rule))
        && most != found
    {
        let detail = format!("it takes {found} for the pods', and other Services' chains take {most}");
        faults.push(Fault { object: rule.target.clone().unwrap_or_default(), ..wrong(rule, chain, detail) });
    }
}

/// The rules that tell who is a pod: those of Services' chains that mark packets of all others.
fn first_marks(dump: &Dump) -> impl Iterator<Item = &Rule> {
    // By range: there are many more chains of endpoints.
    let starts = ["KUBE-SVC-", "KUBE-SVL-"].into_iter();
    let chains = dump.tables.get("nat").into_iter().flat_map(move |nat| {
        starts.clone().flat_map(move |start| {
            nat.chains.range(start.to_owned()..).take_while(move |(name, _)| name.starts_with(start))
        })
    });
    chains.filter_map(|(_, chain)| chain.rules.first()).filter(|rule| is_to(rule, MARK))
}

/// Whether this proxy was told who is a pod.
fn knows_pods(dump: &Dump) -> bool {
    first_marks(dump).next().is_some()
}

/// Where pods are, if the proxy was told so by a network.
pub(super) fn pods(dump: &Dump) -> Option<IpNet> {
    first_marks(dump).filter_map(|rule| rule.source.as_ref()).find(|net| net.negated).map(|net| net.value)
}
