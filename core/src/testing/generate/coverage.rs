//! What a run of questions met: without it a generator proves nothing.
//!
//! Invariant: a rule counts for a question only if it could decide it: it admits the connection, or it belongs to
//! a policy that isolates the subject of a side that denies.

use std::collections::BTreeMap;

use super::rule_view::tier_rules;
use crate::input::WireObjects;
use crate::input::wire::network_policy::{IntOrString, NetworkPolicy, Peer as NetworkPeer, Port};
use crate::input::wire::tier_policy::Peer;
use crate::policy::oracle::{
    Admission, Answer, Direction, End, Exemption, IpProtocol, NotPoliced, Question, Side, Verdict, Why,
};

/// Counts by what was met.
#[derive(Clone, Debug, Default)]
pub struct Coverage {
    questions: usize,
    counts: BTreeMap<&'static str, usize>,
}

/// Shares of the questions that a run must reach, in percent.
pub const REQUIRED: [(&str, usize); 10] = [
    ("denied by isolation", 15),
    ("side: tied", 10),
    ("side: passed", 10),
    ("tiers: networks", 10),
    ("tiers: nodes", 10),
    ("tiers: named port", 10),
    ("rules: named port", 10),
    ("rules: except", 10),
    ("rules: port range", 10),
    ("family: IPv6", 10),
];

impl Coverage {
    /// Counts a question and its answer.
    pub fn count(&mut self, objects: &WireObjects, question: &Question, answer: &Answer) {
        self.questions += 1;
        let mut met = Vec::new();
        met.push(match question.protocol {
            IpProtocol::Tcp => "protocol: TCP",
            IpProtocol::Udp => "protocol: UDP",
            IpProtocol::Sctp => "protocol: SCTP",
            IpProtocol::Icmp => "protocol: ICMP",
            IpProtocol::Other(_) => "protocol: other",
        });
        met.push(if question.source.address().is_ipv4() { "family: IPv4" } else { "family: IPv6" });
        for (end, kinds) in [
            (&question.source, ["from: pod", "from: node", "from: outside"]),
            (&question.destination, ["to: pod", "to: node", "to: outside"]),
        ] {
            met.push(match end {
                End::Pod { .. } => kinds[0],
                End::Node { .. } => kinds[1],
                End::External(_) => kinds[2],
            });
        }
        met.push(match answer.verdict {
            Verdict::Allow => "allowed",
            Verdict::Undefined => "undefined: a tie",
            Verdict::Deny => "denied",
        });
        let isolated = |side: &Side| side.why == Why::Isolated;
        if isolated(&answer.egress) || isolated(&answer.ingress) {
            met.push("denied by isolation");
        }
        for (direction, side) in [(Direction::Egress, &answer.egress), (Direction::Ingress, &answer.ingress)]
        {
            met.push(why(side));
            rules_met(objects, direction, side, &mut met);
            tiers_met(objects, side, &mut met);
        }
        met.sort_unstable();
        met.dedup();
        for name in met {
            *self.counts.entry(name).or_default() += 1;
        }
    }

    /// Takes over what another run met.
    pub fn add(&mut self, other: &Self) {
        self.questions += other.questions;
        for (name, count) in &other.counts {
            *self.counts.entry(name).or_default() += count;
        }
    }

    /// How many questions there were.
    pub const fn questions(&self) -> usize {
        self.questions
    }

    /// The share of the questions that met something, in percent, rounded down.
    pub fn percent(&self, name: &str) -> usize {
        self.counts.get(name).map_or(0, |count| count * 100 / self.questions.max(1))
    }

    /// What of [`REQUIRED`] was not reached.
    pub fn missing(&self) -> Vec<String> {
        let short = REQUIRED.iter().filter(|(name, required)| self.percent(name) < *required);
        short.map(|(name, required)| format!("{name}: {} % of {required} %", self.percent(name))).collect()
    }
}

impl std::fmt::Display for Coverage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "{:<28}{:>8}", "questions", self.questions)?;
        for (name, count) in &self.counts {
            writeln!(f, "{name:<28}{count:>8}{:>5} %", self.percent(name))?;
        }
        Ok(())
    }
}

fn why(side: &Side) -> &'static str {
    match &side.why {
        Why::NotPoliced(NotPoliced::HostNetwork) => "side: host network",
        Why::NotPoliced(_) => "side: no pod",
        Why::NotIsolated => "side: not isolated",
        Why::Allowed(_) => "side: admitted by a rule",
        Why::Ruled(_) => "side: ruled by a tier",
        Why::Tied(_) => "side: tied",
        Why::Isolated => "side: isolated",
        Why::Exempt(Exemption::OwnNode) => "side: own node",
        Why::Exempt(Exemption::Itself) => "side: itself",
    }
}

/// What the rules that could decide a side contain.
fn rules_met(objects: &WireObjects, direction: Direction, side: &Side, met: &mut Vec<&'static str>) {
    let admissions = match &side.why {
        Why::Allowed(admissions) => Some(admissions),
        Why::Isolated => None,
        _ => return,
    };
    for policy in &objects.network_policies {
        if !side.isolated_by.iter().any(|name| is(policy, name)) {
            continue;
        }
        for (index, (peers, ports)) in rules(policy, direction).into_iter().enumerate() {
            let admits = |admission: &Admission| is(policy, &admission.policy) && admission.rule == index;
            if admissions.is_some_and(|admissions| !admissions.iter().any(admits)) {
                continue;
            }
            peers_met(peers, met);
            ports_met(ports, met);
        }
    }
}

/// What the rules of the other tiers that match a side contain.
fn tiers_met(objects: &WireObjects, side: &Side, met: &mut Vec<&'static str>) {
    if matches!(side.why, Why::NotPoliced(_) | Why::Exempt(_)) {
        return;
    }
    if !side.passed.is_empty() {
        met.push("side: passed");
    }
    let rules = tier_rules(objects);
    for rule in rules.iter().filter(|rule| side.tier_rules.iter().any(|one| rule.is(one))) {
        met.push("tiers: some rule");
        for peer in rule.peers {
            met.push(match peer {
                Peer { namespaces: Some(_), .. } | Peer { pods: Some(_), .. } => "tiers: pods",
                Peer { networks: Some(_), .. } => "tiers: networks",
                Peer { nodes: Some(_), .. } => "tiers: nodes",
                Peer { domain_names: Some(_), .. } => "tiers: domain names",
                _ => "tiers: unknown peer",
            });
        }
        if rule.named_port {
            met.push("tiers: named port");
        }
    }
}

fn is(policy: &NetworkPolicy, (namespace, name): &(String, String)) -> bool {
    policy.metadata.namespace.as_ref() == Some(namespace) && policy.metadata.name.as_ref() == Some(name)
}

type Lists<'a> = (Option<&'a Vec<NetworkPeer>>, Option<&'a Vec<Port>>);

fn rules(policy: &NetworkPolicy, direction: Direction) -> Vec<Lists<'_>> {
    let Some(spec) = &policy.spec else { return Vec::new() };
    match direction {
        Direction::Ingress => {
            let list = spec.ingress.iter().flatten();
            list.map(|rule| (rule.from.as_ref(), rule.ports.as_ref())).collect()
        }
        Direction::Egress => {
            let list = spec.egress.iter().flatten();
            list.map(|rule| (rule.to.as_ref(), rule.ports.as_ref())).collect()
        }
    }
}

fn peers_met(peers: Option<&Vec<NetworkPeer>>, met: &mut Vec<&'static str>) {
    let Some(peers) = peers.filter(|peers| !peers.is_empty()) else {
        met.push("rules: any peer");
        return;
    };
    for peer in peers {
        let selectors = [&peer.pod_selector, &peer.namespace_selector];
        if selectors.iter().all(|selector| selector.is_some()) {
            met.push("rules: pods and namespaces");
        }
        if selectors.into_iter().flatten().any(|selector| selector.match_expressions.is_some()) {
            met.push("rules: expressions");
        }
        if let Some(block) = &peer.ip_block {
            met.push("rules: block");
            if block.except.is_some() {
                met.push("rules: except");
            }
            if block.cidr.ends_with("/0") {
                met.push("rules: block of everything");
            }
        }
    }
}

fn ports_met(ports: Option<&Vec<Port>>, met: &mut Vec<&'static str>) {
    let Some(ports) = ports.filter(|ports| !ports.is_empty()) else {
        met.push("rules: any port");
        return;
    };
    for port in ports {
        met.push(match (&port.port, port.end_port) {
            (None, _) => "rules: protocol alone",
            (Some(IntOrString::String(_)), _) => "rules: named port",
            (Some(IntOrString::Int(_)), Some(_)) => "rules: port range",
            (Some(IntOrString::Int(_)), None) => "rules: port number",
        });
    }
}
