//! Following a packet through the rules of iptables mode, and finding what is not as it should be.
//!
//! Invariant: [`follow`] does what the kernel does with the first packet of a connection, share by share: a rule with
//! a probability takes its part of what came so far, a chain that ends gives back what it did not decide. [`read`]
//! compares by meaning, never by text. A rule with a word that is not understood matches nothing and is told about.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use super::chain;
use super::dump::{Dump, Rule};
use crate::service::RouteKind;
use crate::service::expected::{Action, ExpectedFrontend, ExpectedPort, FrontendKey};
use crate::service::fault::{Difference, Fault, Hop, Kind, Place, Shares};

/// Chains in chains are as deep as this at most: NODEPORTS, FW, EXT, SVL, SEP.
const DEEPEST: usize = 8;
/// Probabilities are printed with eleven digits of a number of 31 bits.
const TOLERANCE: f64 = 1e-8;

/// Who sends the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Client {
    /// A pod, on this node or another.
    Pod,
    /// Somebody outside the cluster, within the ranges that the Service admits.
    Outside,
}

/// What rules do with the first packets to an address.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Followed {
    /// Where shares of them end.
    pub shares: Shares,
    /// Rules that took some of them, in order.
    pub hops: Vec<Hop>,
    /// Lines with words that are not understood, among the rules that were asked.
    pub unread: Vec<usize>,
}

/// Follows packets.
#[must_use]
pub fn follow(dump: &Dump, to: FrontendKey, client: Client) -> Followed {
    let mut followed = Followed::default();
    let walk = Walk { dump, to, client };
    let left = if walk.jumps("nat", "PREROUTING", "KUBE-SERVICES") {
        walk.chain("nat", "KUBE-SERVICES", 1.0, 0, &mut followed)
    } else {
        1.0
    };
    // What is not translated meets the ends of Services without endpoints, and else goes to an address that nobody has.
    let (refused, dropped) = walk.ends();
    if refused && !dropped {
        followed.shares.refused += left;
    } else {
        followed.shares.silent += left;
    }
    followed
}

struct Walk<'a> {
    dump: &'a Dump,
    to: FrontendKey,
    client: Client,
}

impl Walk<'_> {
    fn jumps(&self, table: &str, from: &str, to: &str) -> bool {
        self.dump.rules(table, from).iter().any(|rule| rule.target.as_deref() == Some(to))
    }

    /// Walks a chain with a share of the packets; the answer is what it gives back.
    fn chain(&self, table: &str, name: &str, share: f64, depth: usize, followed: &mut Followed) -> f64 {
        let mut left = share;
        if depth > DEEPEST {
            return left;
        }
        let rules = self.dump.rules(table, name);
        let choices = rules.iter().filter(|rule| is_choice(rule)).count();
        let mut chosen = 0;
        for rule in rules {
            if left <= 0.0 {
                break;
            }
            let choice = is_choice(rule).then(|| {
                chosen += 1;
                (chosen, choices)
            });
            if !self.matches(rule, name, followed) {
                continue;
            }
            let Some(target) = rule.target.as_deref() else { continue };
            let taken = left * rule.probability.unwrap_or(1.0);
            let hop = |to: String| Hop {
                place: place(table, name, rule),
                to,
                choice: choice.filter(|(_, all)| *all > 1),
                depth,
                ok: true,
            };
            match target {
                "DNAT" => {
                    if let Some(to) = rule.to_destination {
                        *followed.shares.to.entry(to).or_default() += taken;
                        followed.hops.push(hop(format!("DNAT {to}")));
                        left -= taken;
                    }
                }
                "DROP" => {
                    followed.shares.silent += taken;
                    left -= taken;
                }
                "REJECT" => {
                    followed.shares.refused += taken;
                    left -= taken;
                }
                "RETURN" | "ACCEPT" => return left - taken,
                chain if self.dump.chain(table, chain).is_some() => {
                    if chain != "KUBE-MARK-MASQ" && chain != "KUBE-NODEPORTS" {
                        followed.hops.push(hop(chain.to_owned()));
                    }
                    left = left - taken + self.chain(table, chain, taken, depth + 1, followed);
                }
                // Marks, logs and the like decide nothing.
                _ => {}
            }
        }
        left.max(0.0)
    }

    fn matches(&self, rule: &Rule, chain: &str, followed: &mut Followed) -> bool {
        let about = rule.protocol.is_none_or(|protocol| protocol == self.to.protocol)
            // After the port of the frontend was matched no rule names another; endpoints' rules have none.
            && rule.destination_port.is_none_or(|port| port == self.to.port)
            && match (&rule.destination, self.to.address) {
                (None, _) => true,
                (Some(net), Some(address)) => net.value.contains(&address) != net.negated,
                (Some(_), None) => false,
            }
            && (!rule.to_node || self.to.address.is_none())
            && !rule.from_node
            // Who was there before is no first packet.
            && rule.recent.as_ref().is_none_or(|recent| recent.set);
        if about && !rule.other.is_empty() {
            followed.unread.push(rule.line);
            return false;
        }
        let host = |prefix: u8, all: u8| prefix == all;
        let from = match &rule.source {
            None => true,
            // One host is an endpoint that asks itself.
            Some(net) if host(net.value.prefix_len(), net.value.max_prefix_len()) => net.negated,
            Some(_) if chain.starts_with("KUBE-FW-") => true,
            // Else a net is the pods'.
            Some(net) => (self.client == Client::Pod) != net.negated,
        };
        about && from
    }

    /// Whether the filter table refuses, or drops, what is still addressed to the Service.
    fn ends(&self) -> (bool, bool) {
        let chains: &[&str] = match self.client {
            Client::Pod => &["KUBE-SERVICES", "KUBE-EXTERNAL-SERVICES"],
            Client::Outside => &["KUBE-EXTERNAL-SERVICES", "KUBE-SERVICES"],
        };
        let mut seen = Followed::default();
        for chain in chains {
            for rule in self.dump.rules("filter", chain) {
                if self.matches(rule, chain, &mut seen) {
                    match rule.target.as_deref() {
                        Some("REJECT") => return (true, false),
                        Some("DROP") => return (false, true),
                        _ => {}
                    }
                }
            }
        }
        (false, false)
    }
}

/// A rule that sends a share of the packets to an endpoint's chain.
fn is_choice(rule: &Rule) -> bool {
    rule.target.as_deref().is_some_and(|target| target.starts_with("KUBE-SEP-")) && rule.recent.is_none()
}

fn place(table: &str, chain: &str, rule: &Rule) -> Place {
    Place {
        table: table.to_owned(),
        chain: chain.to_owned(),
        position: Some(rule.position),
        handle: None,
        line: Some(rule.line),
    }
}

fn within(table: &str, chain: &str) -> Place {
    Place { table: table.to_owned(), chain: chain.to_owned(), ..Place::default() }
}

/// Compares the rules of one service port with what they should be.
#[must_use]
pub fn read(dump: &Dump, port: &ExpectedPort) -> Vec<Fault> {
    let mut faults = Vec::new();
    for frontend in &port.frontends {
        of_frontend(dump, port, frontend, &mut faults);
    }
    for (name, endpoints) in
        [(chain::cluster(&port.name), &port.cluster), (chain::local(&port.name), &port.local)]
    {
        of_service_chain(dump, port, &name, endpoints, &mut faults);
    }
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
            place: within(table, from),
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
            place: within("filter", chain_of_ends),
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

fn is_about(rule: &Rule, key: FrontendKey) -> bool {
    let address = match (&rule.destination, key.address) {
        (Some(net), Some(address)) => !net.negated && net.value == ipnet::IpNet::from(address),
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
                place: within("nat", name),
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
            (Some(seconds), Some(recent)) => recent.name == *target && recent.seconds == Some(seconds),
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
                place: sticky.map_or_else(|| within("nat", name), |rule| place("nat", name, rule)),
                endpoint: Some(endpoint.to_string()),
                detail: match port.affinity {
                    Some(seconds) => format!("clients should stay for {seconds} s"),
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
            fault(Difference::Missing, Kind::Empty, within("nat", name), detail);
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
    let itself = ipnet::IpNet::from(endpoint.ip());
    let hairpin = rules.iter().any(|rule| {
        rule.target.as_deref() == Some("KUBE-MARK-MASQ")
            && rule.source.as_ref().is_some_and(|source| !source.negated && source.value == itself)
    });
    if !hairpin && translation.is_some() {
        let detail = "the endpoint that asks its own Service gets no answer".to_owned();
        fault(Difference::Missing, Kind::Masquerade, within("nat", name), detail);
    }
}

/// Compares what all Services of the node share.
#[must_use]
pub fn read_shared(dump: &Dump) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut missing = |kind, object: &str, table: &str, chain: &str, detail: &str| {
        faults.push(Fault {
            difference: Difference::Missing,
            kind,
            object: object.to_owned(),
            place: within(table, chain),
            endpoint: None,
            detail: detail.to_owned(),
        });
    };
    let jumps = |table: &str, from: &str, to: &str| {
        dump.rules(table, from).iter().any(|rule| rule.target.as_deref() == Some(to))
    };
    for (table, from, detail) in [
        ("nat", "PREROUTING", "pods' and outside packets to Services are not translated"),
        ("nat", "OUTPUT", "the node's own packets to Services are not translated"),
        ("filter", "FORWARD", "Services without endpoints do not refuse pods"),
        ("filter", "OUTPUT", "Services without endpoints do not refuse the node"),
    ] {
        if !jumps(table, from, "KUBE-SERVICES") {
            missing(Kind::Jump, "KUBE-SERVICES", table, from, detail);
        }
    }
    if !jumps("nat", "POSTROUTING", "KUBE-POSTROUTING") {
        let detail = "marked packets keep their source, so replies find no way back";
        missing(Kind::Masquerade, "KUBE-POSTROUTING", "nat", "POSTROUTING", detail);
    } else if !jumps("nat", "KUBE-POSTROUTING", "MASQUERADE") {
        let detail = "marked packets keep their source, so replies find no way back";
        missing(Kind::Masquerade, "MASQUERADE", "nat", "KUBE-POSTROUTING", detail);
    }
    let set = dump.rules("nat", "KUBE-MARK-MASQ").iter().find_map(|rule| rule.set_mark.as_ref());
    let asked = dump.rules("nat", "KUBE-POSTROUTING").iter().find_map(|rule| rule.mark.as_ref());
    match (set, asked) {
        (None, _) => missing(Kind::Masquerade, "MARK", "nat", "KUBE-MARK-MASQ", "nothing is ever marked"),
        (Some(set), Some(asked)) if *set != asked.value => faults.push(Fault {
            difference: Difference::Wrong,
            kind: Kind::Masquerade,
            object: "KUBE-POSTROUTING".to_owned(),
            place: within("nat", "KUBE-POSTROUTING"),
            endpoint: None,
            detail: format!("packets are marked {set} and {} is looked for", asked.value),
        }),
        _ => {}
    }
    let services = dump.rules("nat", "KUBE-SERVICES");
    match services.iter().position(|rule| rule.target.as_deref() == Some("KUBE-NODEPORTS")) {
        None => faults.push(Fault {
            difference: Difference::Missing,
            kind: Kind::Jump,
            object: "KUBE-NODEPORTS".to_owned(),
            place: within("nat", "KUBE-SERVICES"),
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
