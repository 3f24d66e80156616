//! Questions as text, and answers as JSON: what `queries.yaml` and `expected.json` of a case hold.
//!
//! An end is `NS/NAME` (a pod), `node/NAME`, an address (who has it is looked up) or `external/ADDRESS` (someone
//! outside, whatever the address, as after address translation). A pod or node may be followed by `@ADDRESS`;
//! without, both ends take the first of their addresses that have one family, IPv4 before IPv6.
//!
//! Invariant: [`describe`] of a question is a query that reads back as the same question.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::UnreadableCase;
use crate::input::WireObjects;
use crate::input::wire::meta::ObjectMeta;
use crate::policy::oracle::{
    Action, Admission, Answer, End, Exemption, IpProtocol, NotPoliced, Oracle, Question, Side, TierMatch,
    Verdict, Why,
};

/// One element of `queries.yaml`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Query {
    /// Who sends.
    pub from: String,
    /// Who receives.
    pub to: String,
    /// `80/tcp`, or `icmp`, or a protocol number.
    pub port: String,
}

impl std::fmt::Display for Query {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} -> {} {}", self.from, self.to, self.port)
    }
}

/// An end whose address may still be open.
enum Named {
    Known(End),
    Open { end: fn(String, String, IpAddr) -> End, namespace: String, name: String, choices: Vec<IpAddr> },
}

impl Named {
    fn choices(&self) -> Vec<IpAddr> {
        match self {
            Self::Known(end) => vec![end.address()],
            Self::Open { choices, .. } => choices.clone(),
        }
    }

    fn seen_by(self, address: IpAddr) -> End {
        match self {
            Self::Known(end) => end,
            Self::Open { end, namespace, name, .. } => end(namespace, name, address),
        }
    }
}

/// The question that a query asks of these objects.
///
/// # Errors
/// When an end or the port cannot be understood, or the ends have no family in common.
pub fn question(query: &Query, objects: &WireObjects) -> Result<Question, UnreadableCase> {
    let unreadable = |message: String| UnreadableCase::new(query.to_string(), message);
    let source = named(&query.from, objects).map_err(unreadable)?;
    let destination = named(&query.to, objects).map_err(unreadable)?;
    let (protocol, port) =
        port(&query.port).ok_or_else(|| unreadable(format!("the port {:?}", query.port)))?;
    let (from, to) = (source.choices(), destination.choices());
    let pair = [true, false].into_iter().find_map(|ipv4| {
        let first = |list: &[IpAddr]| list.iter().copied().find(|address| address.is_ipv4() == ipv4);
        Some((first(&from)?, first(&to)?))
    });
    let (from, to) = pair.ok_or_else(|| unreadable("the ends have no family in common".to_owned()))?;
    Ok(Question { source: source.seen_by(from), destination: destination.seen_by(to), protocol, port })
}

fn named(text: &str, objects: &WireObjects) -> Result<Named, String> {
    if let Ok(address) = text.parse() {
        return Ok(Named::Known(Oracle::new(objects).end_of_address(address)));
    }
    let (text, address) = match text.split_once('@') {
        Some((text, address)) => {
            let address = address.parse().map_err(|_| format!("{address:?} is not an address"))?;
            (text, Some(vec![address]))
        }
        None => (text, None),
    };
    let (namespace, name) = text.split_once('/').ok_or_else(|| format!("the end {text:?}"))?;
    let (end, listed): (fn(String, String, IpAddr) -> End, _) = match namespace {
        "external" => {
            let address = name.parse().map_err(|_| format!("{name:?} is not an address"))?;
            return Ok(Named::Known(End::External(address)));
        }
        "node" => (|_, name, address| End::Node { name, address }, node_addresses(name, objects)?),
        _ => (
            |namespace, name, address| End::Pod { namespace, name, address },
            pod_addresses(namespace, name, objects)?,
        ),
    };
    let choices = address.unwrap_or(listed);
    Ok(Named::Open { end, namespace: namespace.to_owned(), name: name.to_owned(), choices })
}

fn has_name(metadata: &ObjectMeta, namespace: Option<&str>, name: &str) -> bool {
    metadata.name.as_deref() == Some(name)
        && namespace.is_none_or(|namespace| metadata.namespace.as_deref() == Some(namespace))
}

fn pod_addresses(namespace: &str, name: &str, objects: &WireObjects) -> Result<Vec<IpAddr>, String> {
    let mut pods = objects.pods.iter();
    let pod = pods.find(|pod| has_name(&pod.metadata, Some(namespace), name));
    let pod = pod.ok_or_else(|| format!("the pod {namespace}/{name} is not there"))?;
    let listed = pod.status.iter().flat_map(|status| status.pod_ips.iter().flatten());
    Ok(listed.filter_map(|entry| entry.ip.parse().ok()).collect())
}

fn node_addresses(name: &str, objects: &WireObjects) -> Result<Vec<IpAddr>, String> {
    let node = objects.nodes.iter().find(|node| has_name(&node.metadata, None, name));
    let node = node.ok_or_else(|| format!("the node {name} is not there"))?;
    let listed = node.status.iter().flat_map(|status| status.addresses.iter().flatten());
    Ok(listed.filter_map(|entry| entry.address.parse().ok()).collect())
}

fn port(text: &str) -> Option<(IpProtocol, u16)> {
    if text == "icmp" {
        return Some((IpProtocol::Icmp, 0));
    }
    let Some((number, protocol)) = text.split_once('/') else {
        return Some((IpProtocol::Other(text.parse().ok()?), 0));
    };
    let protocol = match protocol {
        "tcp" => IpProtocol::Tcp,
        "udp" => IpProtocol::Udp,
        "sctp" => IpProtocol::Sctp,
        _ => return None,
    };
    Some((protocol, number.parse().ok()?))
}

/// A question as a query.
pub fn describe(question: &Question) -> Query {
    let port = question.port;
    Query {
        from: describe_end(&question.source),
        to: describe_end(&question.destination),
        port: match question.protocol {
            IpProtocol::Tcp => format!("{port}/tcp"),
            IpProtocol::Udp => format!("{port}/udp"),
            IpProtocol::Sctp => format!("{port}/sctp"),
            IpProtocol::Icmp => "icmp".to_owned(),
            IpProtocol::Other(number) => number.to_string(),
        },
    }
}

fn describe_end(end: &End) -> String {
    match end {
        End::Pod { namespace, name, address } => format!("{namespace}/{name}@{address}"),
        End::Node { name, address } => format!("node/{name}@{address}"),
        End::External(address) => format!("external/{address}"),
    }
}

/// An answer as `expected.json` has it.
pub fn answer_json(answer: &Answer) -> Value {
    json!({
        "verdict": verdict(answer.verdict),
        "egress": side_json(&answer.egress),
        "ingress": side_json(&answer.ingress),
    })
}

fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Allow => "allow",
        Verdict::Deny => "deny",
        Verdict::Undefined => "undefined",
    }
}

fn side_json(side: &Side) -> Value {
    let why = match &side.why {
        Why::NotPoliced(NotPoliced::NotAPod) => "not policed: no pod",
        Why::NotPoliced(NotPoliced::HostNetwork) => "not policed: host network",
        Why::NotPoliced(NotPoliced::Terminal) => "not policed: terminal",
        Why::NotPoliced(NotPoliced::NoAddress) => "not policed: no address",
        Why::NotIsolated => "not isolated",
        Why::Ruled(_) => "ruled",
        Why::Tied(_) => "tied",
        Why::Allowed(_) => "allowed",
        Why::Isolated => "isolated",
        Why::Exempt(Exemption::OwnNode) => "exempt: own node",
        Why::Exempt(Exemption::Itself) => "exempt: itself",
    };
    let isolated_by: Vec<_> =
        side.isolated_by.iter().map(|(namespace, name)| format!("{namespace}/{name}")).collect();
    let mut fields = json!({ "verdict": verdict(side.verdict), "why": why });
    if !isolated_by.is_empty() {
        fields["isolatedBy"] = json!(isolated_by);
    }
    match &side.why {
        Why::Allowed(admissions) => {
            fields["admittedBy"] = admissions.iter().map(admission_json).collect();
        }
        Why::Ruled(rule) => fields["ruledBy"] = tier_match_json(rule),
        Why::Tied(policies) => {
            fields["tie"] =
                policies.iter().map(|policy| format!("{} {}", policy.kind, policy.name)).collect();
        }
        _ => {}
    }
    if !side.passed.is_empty() {
        fields["passedBy"] = side.passed.iter().map(tier_match_json).collect();
    }
    fields
}

fn tier_match_json(rule: &TierMatch) -> Value {
    let action = match rule.action {
        Action::Accept => "accept",
        Action::Deny => "deny",
        Action::Pass => "pass",
    };
    let policy = format!("{} {}", rule.policy.kind, rule.policy.name);
    let mut fields = json!({ "policy": policy, "rule": rule.path, "action": action });
    if !rule.peers.is_empty() {
        fields["peers"] = json!(rule.peers);
    }
    if !rule.ports.is_empty() {
        fields["ports"] = json!(rule.ports);
    }
    fields
}

fn admission_json(admission: &Admission) -> Value {
    let (namespace, name) = &admission.policy;
    let mut fields = json!({ "policy": format!("{namespace}/{name}"), "rule": admission.path });
    if !admission.peers.is_empty() {
        fields["peers"] = json!(admission.peers);
    }
    if !admission.ports.is_empty() {
        fields["ports"] = json!(admission.ports);
    }
    fields
}
