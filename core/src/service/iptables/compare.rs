//! Comparing the rules of iptables mode with what a node's proxy should have.
//!
//! Invariant: by meaning, never by text, and by key: each service port is compared with its own chains alone, and what
//! all share once.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use ipnet::IpNet;

use super::dump::{Dump, Rule};
use super::follow::{is_choice, place};
use super::{chain, foreign, masquerade, order, way_in};
use crate::service::RouteKind;
use crate::service::expected::{Action, ExpectedFrontend, ExpectedPort, FrontendKey};
use crate::service::fault::{Difference, Fault, Kind, Place};

/// Probabilities are printed with eleven digits of a number of 31 bits.
const TOLERANCE: f64 = 1e-8;

/// Compares the rules of one service port with what they should be.
#[must_use]
pub fn faults(dump: &Dump, port: &ExpectedPort) -> Vec<Fault> {
    let mut faults = Vec::new();
    for frontend in &port.frontends {
        of_frontend(dump, port, frontend, &mut faults);
    }
    of_source_ranges(dump, port, &mut faults);
    foreign::faults(dump, port, &mut faults);
    way_in::of_outside(dump, port, &mut faults);
    way_in::of_inside(dump, port, &mut faults);
    for (name, endpoints) in
        [(chain::cluster(&port.name), &port.cluster), (chain::local(&port.name), &port.local)]
    {
        of_service_chain(dump, port, &name, endpoints, &mut faults);
    }
    order::of_order(dump, port, &mut faults);
    faults.sort();
    faults.dedup();
    faults
}

fn of_frontend(dump: &Dump, port: &ExpectedPort, frontend: &ExpectedFrontend, faults: &mut Vec<Fault>) {
    let name = &port.name;
    let internal = frontend.kind == RouteKind::ClusterIp;
    let (table, from, wanted) = match (frontend.kind, frontend.action) {
        (RouteKind::ClusterIp, Action::Cluster) => ("nat", "KUBE-SERVICES", Some(chain::cluster(name))),
        (RouteKind::ClusterIp, Action::Local) => ("nat", "KUBE-SERVICES", Some(chain::local(name))),
        (RouteKind::ClusterIp, _) => ("nat", "KUBE-SERVICES", None),
        (RouteKind::NodePort, _) => ("nat", "KUBE-NODEPORTS", Some(chain::external(name))),
        (RouteKind::LoadBalancer, _) if !port.source_ranges.is_empty() => {
            ("nat", "KUBE-SERVICES", Some(chain::firewall(name)))
        }
        _ => ("nat", "KUBE-SERVICES", Some(chain::external(name))),
    };
    let wanted = wanted.filter(|_| port.has_endpoints());
    let key = frontend.key;
    let rule = dump.rules(table, from).iter().find(|rule| is_about(rule, key) && goes_to_service(rule));
    match (&wanted, rule) {
        (Some(wanted), None) => faults.push(Fault {
            difference: Difference::Missing,
            kind: Kind::Frontend,
            object: wanted.clone(),
            place: Place::within(table, from),
            endpoint: None,
            detail: format!("no rule of {from} sends {key} {} to {wanted}", key.protocol),
        }),
        (Some(wanted), Some(rule)) if rule.target.as_ref() != Some(wanted) => {
            let found = rule.target.clone().unwrap_or_default();
            faults.push(Fault {
                difference: Difference::Wrong,
                kind: Kind::FrontendTarget,
                detail: format!("{key} goes to {found}, which is not its chain {wanted}"),
                object: found,
                place: place(table, from, rule),
                endpoint: None,
            });
        }
        // Conditions that are not understood are told where packets are followed.
        (Some(wanted), Some(rule))
            if !rule.takes_new() || rule.probability.is_some() || rule.from_node || rule.recent.is_some() =>
        {
            faults.push(Fault {
                difference: Difference::Wrong,
                kind: Kind::Frontend,
                object: wanted.clone(),
                place: place(table, from, rule),
                endpoint: None,
                detail: format!("the rule takes only some of the first packets to {key}, by a condition that the proxy never writes"),
            });
        }
        (None, Some(rule)) => faults.push(Fault {
            difference: Difference::Extra,
            kind: Kind::Frontend,
            object: rule.target.clone().unwrap_or_default(),
            place: place(table, from, rule),
            endpoint: None,
            detail: format!("{key} still leads to endpoints, and the Service has none here"),
        }),
        _ => {}
    }
    let chain_of_ends = if internal { "KUBE-SERVICES" } else { "KUBE-EXTERNAL-SERVICES" };
    if matches!(frontend.action, Action::Refuse | Action::Drop)
        && let Some(rule) = returns_before(dump, chain_of_ends, key)
    {
        faults.push(Fault {
            difference: Difference::Extra,
            kind: Kind::Foreign,
            object: rule.target.clone().unwrap_or_default(),
            place: place("filter", chain_of_ends, rule),
            endpoint: None,
            detail: format!("a rule that no proxy writes there takes packets to {key} first"),
        });
    }
    let end = dump
        .rules("filter", chain_of_ends)
        .iter()
        .find(|rule| is_about(rule, key) && matches!(rule.target.as_deref(), Some("REJECT" | "DROP")));
    let wanted = match frontend.action {
        Action::Refuse => Some("REJECT"),
        Action::Drop => Some("DROP"),
        Action::Cluster | Action::Local => None,
    };
    match (wanted, end) {
        (Some(wanted), None) => faults.push(Fault {
            difference: Difference::Missing,
            kind: Kind::End,
            object: wanted.to_owned(),
            place: Place::within("filter", chain_of_ends),
            endpoint: None,
            detail: format!("{key} has no endpoint here and no {wanted} rule says so"),
        }),
        (wanted, Some(rule)) if wanted != rule.target.as_deref() => faults.push(Fault {
            difference: if wanted.is_some() { Difference::Wrong } else { Difference::Extra },
            kind: Kind::End,
            object: rule.target.clone().unwrap_or_default(),
            place: place("filter", chain_of_ends, rule),
            endpoint: None,
            detail: match wanted {
                Some(wanted) => format!("{key} should end in {wanted}"),
                None => format!("{key} has endpoints; the rule takes what the nat table does not translate"),
            },
        }),
        _ => {}
    }
}

/// Who may come to a balancer's address: one rule for each range.
fn of_source_ranges(dump: &Dump, port: &ExpectedPort, faults: &mut Vec<Fault>) {
    let balanced = port.frontends.iter().any(|frontend| frontend.kind == RouteKind::LoadBalancer);
    if !balanced || port.source_ranges.is_empty() || !port.has_endpoints() {
        return;
    }
    let (chain, external) = (chain::firewall(&port.name), chain::external(&port.name));
    let admits = |rule: &&Rule| rule.target.as_ref() == Some(&external);
    let found: BTreeMap<IpNet, &Rule> = dump
        .rules("nat", &chain)
        .iter()
        .filter(admits)
        .filter_map(|rule| {
            rule.source.as_ref().filter(|source| !source.negated).map(|source| (source.value, rule))
        })
        .collect();
    let mut fault = |difference, range: &IpNet, place, detail: &str| {
        faults.push(Fault {
            difference,
            kind: Kind::SourceRange,
            object: range.to_string(),
            place,
            endpoint: None,
            detail: detail.to_owned(),
        });
    };
    for range in port.source_ranges.iter().filter(|range| !found.contains_key(range)) {
        fault(Difference::Missing, range, Place::within("nat", &chain), "clients of this range are kept out");
    }
    // Where a range has the node itself, its packets may come from the balancer's own address: nodes have it on a
    // device of theirs. Which address the proxy takes for the node's is not in its rules.
    let is_own = |range: &IpNet| {
        port.frontends.iter().any(|one| {
            one.kind == RouteKind::LoadBalancer && one.key.address.map(IpNet::from) == Some(*range)
        })
    };
    let extra = |range: &IpNet| !port.source_ranges.contains(range) && !is_own(range);
    for (range, rule) in found.iter().filter(|(range, _)| extra(range)) {
        fault(Difference::Extra, range, place("nat", &chain, rule), "clients of this range are let in");
    }
}

/// A rule of a chain of ends that takes packets to an address before the proxy's own does.
pub(super) fn returns_before<'a>(dump: &'a Dump, chain: &str, key: FrontendKey) -> Option<&'a Rule> {
    let rules = dump.rules("filter", chain).iter();
    let mut before = rules.take_while(|rule| !(is_about(rule, key) && is_end(rule)));
    before.find(|rule| {
        let to =
            |address| rule.destination.as_ref().is_none_or(|net| net.value.contains(&address) != net.negated);
        rule.takes_new()
            && rule.protocol.is_none_or(|protocol| protocol == key.protocol)
            && rule.destination_port.is_none_or(|port| port == key.port)
            && key.address.is_none_or(to)
            && !is_end(rule)
            && !matches!(rule.target.as_deref(), None | Some("LOG" | "NFLOG" | "TRACE"))
    })
}

fn is_end(rule: &Rule) -> bool {
    matches!(rule.target.as_deref(), Some("DROP" | "REJECT"))
}

pub(super) fn is_about(rule: &Rule, key: FrontendKey) -> bool {
    let address = match (&rule.destination, key.address) {
        (Some(net), Some(address)) => !net.negated && net.value == IpNet::from(address),
        (None, None) => true,
        _ => false,
    };
    address && rule.protocol == Some(key.protocol) && rule.destination_port == Some(key.port)
}

fn goes_to_service(rule: &Rule) -> bool {
    let target = rule.target.as_deref().unwrap_or_default();
    ["KUBE-SVC-", "KUBE-SVL-", "KUBE-EXT-", "KUBE-FW-"].iter().any(|prefix| target.starts_with(prefix))
}

fn of_service_chain(
    dump: &Dump,
    port: &ExpectedPort,
    name: &str,
    endpoints: &[SocketAddr],
    faults: &mut Vec<Fault>,
) {
    let rules = dump.rules("nat", name);
    let choices: Vec<&Rule> = rules.iter().filter(|rule| is_choice(rule)).collect();
    let wanted: BTreeMap<String, SocketAddr> =
        endpoints.iter().map(|endpoint| (chain::endpoint(&port.name, *endpoint), *endpoint)).collect();
    for (target, endpoint) in &wanted {
        let jumped = choices.iter().any(|rule| rule.target.as_ref() == Some(target));
        let exists = dump.chain("nat", target).is_some();
        if !jumped {
            faults.push(Fault {
                difference: Difference::Missing,
                kind: Kind::Backend,
                object: target.clone(),
                place: Place::within("nat", name),
                endpoint: Some(endpoint.to_string()),
                detail: match (exists, choices.last()) {
                    (_, None) => format!("{name} is empty or not there"),
                    (_, Some(last)) if last.probability.is_some() => {
                        "the last rule has a probability, so its share goes on untranslated".to_owned()
                    }
                    (true, Some(_)) => {
                        "its share moves to the rules after it; its own chain is there".to_owned()
                    }
                    (false, Some(_)) => {
                        "its share moves to the rules after it; its own chain is gone too".to_owned()
                    }
                },
            });
        }
        of_endpoint_chain(dump, port, target, *endpoint, jumped, faults);
    }
    for rule in &choices {
        let target = rule.target.clone().unwrap_or_default();
        if !wanted.contains_key(&target) {
            let to = dump.rules("nat", &target).iter().find_map(|rule| rule.to_destination);
            faults.push(Fault {
                difference: Difference::Extra,
                kind: Kind::Stale,
                object: target,
                place: place("nat", name, rule),
                endpoint: to.map(|to| to.to_string()),
                detail: "an endpoint that the Service does not have on this node".to_owned(),
            });
        }
    }
    let mut seen = std::collections::BTreeSet::new();
    for rule in choices.iter().filter(|rule| !seen.insert(rule.target.as_deref())) {
        faults.push(Fault {
            difference: Difference::Extra,
            kind: Kind::Shares,
            object: rule.target.clone().unwrap_or_default(),
            place: place("nat", name, rule),
            endpoint: None,
            detail: "an endpoint is there twice and gets more than its share".to_owned(),
        });
    }
    // A rule too few or too many has been told; the probabilities of the others are then those of another number.
    if choices.len() == endpoints.len() {
        of_shares(name, &choices, faults);
    }
    if !endpoints.is_empty() {
        of_affinity(port, name, rules, &wanted, faults);
    }
}

/// Rule i of n has probability 1/(n-i), the last none: each endpoint then gets 1/n.
fn of_shares(name: &str, choices: &[&Rule], faults: &mut Vec<Fault>) {
    for (index, rule) in choices.iter().enumerate() {
        let left = choices.len() - index;
        #[expect(clippy::cast_precision_loss, reason = "far fewer rules than 2^52")]
        let wanted = (left > 1).then(|| 1.0 / left as f64);
        let same = match (wanted, rule.probability) {
            (Some(wanted), Some(found)) => (wanted - found).abs() < TOLERANCE,
            (None, None) => true,
            _ => false,
        };
        if !same {
            let words =
                |share: Option<f64>| share.map_or_else(|| "none".to_owned(), |share| format!("{share:.4}"));
            let last = if wanted.is_none() { "; what it does not take goes on untranslated" } else { "" };
            faults.push(Fault {
                difference: Difference::Wrong,
                kind: Kind::Shares,
                object: rule.target.clone().unwrap_or_default(),
                place: place("nat", name, rule),
                endpoint: None,
                detail: format!(
                    "probability {} where {} gives equal shares{last}",
                    words(rule.probability),
                    words(wanted)
                ),
            });
        }
    }
}

fn of_affinity(
    port: &ExpectedPort,
    name: &str,
    rules: &[Rule],
    wanted: &BTreeMap<String, SocketAddr>,
    faults: &mut Vec<Fault>,
) {
    for (target, endpoint) in wanted {
        let sticky = rules.iter().find(|rule| {
            rule.target.as_ref() == Some(target) && rule.recent.as_ref().is_some_and(|recent| !recent.set)
        });
        let recent = sticky.and_then(|rule| rule.recent.as_ref());
        let right = match (port.affinity, recent) {
            (None, None) => continue,
            (Some(seconds), Some(recent)) => {
                let only = |rule: &Rule| Rule { recent: None, ..rule.clone() }.is_for_all(false);
                recent.name == *target && recent.seconds == Some(seconds) && sticky.is_some_and(only)
            }
            _ => false,
        };
        if !right {
            faults.push(Fault {
                difference: match (port.affinity, recent) {
                    (Some(_), None) => Difference::Missing,
                    (None, Some(_)) => Difference::Extra,
                    _ => Difference::Wrong,
                },
                kind: Kind::Affinity,
                object: target.clone(),
                place: sticky.map_or_else(|| Place::within("nat", name), |rule| place("nat", name, rule)),
                endpoint: Some(endpoint.to_string()),
                detail: match port.affinity {
                    Some(seconds) => match sticky.filter(|rule| !rule.other.is_empty()) {
                        Some(rule) => format!(
                            "clients should stay for {seconds} s, by their whole address and from the second connection on; the rule asks for {} too",
                            rule.other.join(" ")
                        ),
                        None => format!("clients should stay for {seconds} s"),
                    },
                    None => "the Service asks for no affinity".to_owned(),
                },
            });
        }
    }
}

fn of_endpoint_chain(
    dump: &Dump,
    port: &ExpectedPort,
    name: &str,
    endpoint: SocketAddr,
    jumped: bool,
    faults: &mut Vec<Fault>,
) {
    let mut fault = |difference, kind, place: Place, detail: String| {
        faults.push(Fault {
            difference,
            kind,
            object: name.to_owned(),
            place,
            endpoint: Some(endpoint.to_string()),
            detail,
        });
    };
    let rules = dump.rules("nat", name);
    let translation = rules.iter().find(|rule| rule.target.as_deref() == Some("DNAT"));
    match translation {
        None if jumped => {
            let detail = format!("{name} does not translate, so its share goes on to the rule after it");
            fault(Difference::Missing, Kind::Empty, Place::within("nat", name), detail);
        }
        None => return,
        Some(rule) if rule.to_destination != Some(endpoint) => {
            let found = rule.to_destination.map_or_else(|| "something else".to_owned(), |to| to.to_string());
            let detail = format!("{name} translates to {found}; its name is that of {endpoint}");
            fault(Difference::Wrong, Kind::BackendTarget, place("nat", name, rule), detail);
        }
        Some(rule) if rule.protocol != Some(port.name.protocol) => {
            let detail = format!("{name} translates another protocol than {}", port.name.protocol);
            fault(Difference::Wrong, Kind::BackendTarget, place("nat", name, rule), detail);
        }
        Some(rule) => {
            let set = rule.recent.as_ref().is_some_and(|recent| recent.set && recent.name == name);
            if port.affinity.is_some() && !set {
                let detail = "clients are not remembered, so they do not stay".to_owned();
                fault(Difference::Missing, Kind::Affinity, place("nat", name, rule), detail);
            }
        }
    }
    let itself = IpNet::from(endpoint.ip());
    let hairpin = rules.iter().any(|rule| {
        rule.target.as_deref() == Some("KUBE-MARK-MASQ")
            && rule.source.as_ref().is_some_and(|source| !source.negated && source.value == itself)
    });
    if !hairpin && translation.is_some() {
        let detail = "the endpoint that asks its own Service gets no answer".to_owned();
        fault(Difference::Missing, Kind::Masquerade, Place::within("nat", name), detail);
    }
}

/// How many rules of a chain come before the jump to another; all, when there is none.
pub(super) fn kernel_chain_ends_before(rules: &[Rule], target: &str) -> usize {
    rules
        .iter()
        .position(|rule| rule.target.as_deref() == Some(target) && rule.is_for_all(true))
        .unwrap_or(rules.len())
}

/// Compares what all Services of the node share.
#[must_use]
pub fn shared_faults(dump: &Dump) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (table, from, to, new) in super::emit::JUMPS {
        let rules = || dump.rules(table, from).iter().filter(|rule| rule.target.as_deref() == Some(to));
        if rules().any(|rule| rule.is_for_all(new || table == "nat")) {
            continue;
        }
        faults.extend(rules().map(|rule| Fault {
            difference: Difference::Wrong,
            kind: Kind::Jump,
            object: to.to_owned(),
            place: place(table, from, rule),
            endpoint: None,
            detail: format!(
                "the jump from {from} has conditions that the proxy never writes; it was taken to match nothing"
            ),
        }));
    }
    let takes = |rule: &&Rule| matches!(rule.target.as_deref(), Some("DROP" | "REJECT")) && rule.takes_new();
    for chain in ["KUBE-FORWARD", "KUBE-SERVICES", "KUBE-EXTERNAL-SERVICES", "KUBE-PROXY-FIREWALL"] {
        // In the others each rule is about one port of a Service.
        let is_own = |rule: &&Rule| chain != "KUBE-FORWARD" && rule.destination_port.is_some();
        let rules = dump.rules("filter", chain).iter().filter(takes);
        faults.extend(rules.filter(|rule| !is_own(rule)).map(|rule| Fault {
            difference: Difference::Extra,
            kind: Kind::Foreign,
            object: rule.target.clone().unwrap_or_default(),
            place: place("filter", chain, rule),
            endpoint: None,
            detail:
                "a rule that no proxy writes there takes first packets on their way to endpoints".to_owned(),
        }));
    }
    let mut missing = |kind, object: &str, table: &str, chain: &str, detail: &str| {
        faults.push(Fault {
            difference: Difference::Missing,
            kind,
            object: object.to_owned(),
            place: Place::within(table, chain),
            endpoint: None,
            detail: detail.to_owned(),
        });
    };
    let jumps = |table: &str, from: &str, to: &str| {
        dump.rules(table, from).iter().any(|rule| rule.target.as_deref() == Some(to))
    };
    for (table, from, to, detail) in [
        ("nat", "PREROUTING", "KUBE-SERVICES", "pods' and outside packets to Services are not translated"),
        ("nat", "OUTPUT", "KUBE-SERVICES", "the node's own packets to Services are not translated"),
        ("filter", "FORWARD", "KUBE-SERVICES", "Services without endpoints do not refuse pods"),
        ("filter", "OUTPUT", "KUBE-SERVICES", "Services without endpoints do not refuse the node"),
        ("filter", "INPUT", "KUBE-EXTERNAL-SERVICES", "node ports without endpoints refuse nobody"),
        ("filter", "FORWARD", "KUBE-EXTERNAL-SERVICES", "outside addresses without endpoints refuse nobody"),
        ("filter", "INPUT", "KUBE-PROXY-FIREWALL", "everybody may come to balancers' addresses"),
        ("filter", "FORWARD", "KUBE-PROXY-FIREWALL", "everybody may come to balancers' addresses"),
        ("filter", "OUTPUT", "KUBE-PROXY-FIREWALL", "the node itself may come to balancers' addresses"),
    ] {
        // Proxies before 1.26 had no chain of that name.
        if !jumps(table, from, to) && (to != "KUBE-PROXY-FIREWALL" || dump.chain(table, to).is_some()) {
            missing(Kind::Jump, to, table, from, detail);
        }
    }
    if !jumps("nat", "POSTROUTING", "KUBE-POSTROUTING") {
        let detail = "marked packets keep their source, so replies find no way back";
        missing(Kind::Masquerade, "KUBE-POSTROUTING", "nat", "POSTROUTING", detail);
    } else if !jumps("nat", "KUBE-POSTROUTING", "MASQUERADE") {
        let detail = "marked packets keep their source, so replies find no way back";
        missing(Kind::Masquerade, "MASQUERADE", "nat", "KUBE-POSTROUTING", detail);
    } else {
        let rules = dump.rules("nat", "KUBE-POSTROUTING");
        if !jumps("nat", "KUBE-POSTROUTING", "RETURN") {
            let detail = "all packets that leave the node get its address, marked or not";
            missing(Kind::Masquerade, "RETURN", "nat", "KUBE-POSTROUTING", detail);
        }
        if !rules.iter().any(|rule| rule.target.as_deref() == Some("MARK")) {
            let detail = "packets keep their mark, and are masqueraded once more where they come by again";
            missing(Kind::Masquerade, "MARK", "nat", "KUBE-POSTROUTING", detail);
        }
    }
    masquerade::faults(dump, &mut faults);
    let services = dump.rules("nat", "KUBE-SERVICES");
    match services.iter().position(|rule| rule.target.as_deref() == Some("KUBE-NODEPORTS")) {
        None => faults.push(Fault {
            difference: Difference::Missing,
            kind: Kind::Jump,
            object: "KUBE-NODEPORTS".to_owned(),
            place: Place::within("nat", "KUBE-SERVICES"),
            endpoint: None,
            detail: "node ports are not translated".to_owned(),
        }),
        Some(at) if services.iter().skip(at).any(goes_to_service) => faults.push(Fault {
            difference: Difference::Wrong,
            kind: Kind::Jump,
            object: "KUBE-NODEPORTS".to_owned(),
            place: services.get(at).map_or_else(Place::default, |rule| place("nat", "KUBE-SERVICES", rule)),
            endpoint: None,
            detail: "it is not last: addresses of the node that Services use are taken for node ports"
                .to_owned(),
        }),
        Some(_) => {}
    }
    faults
}
