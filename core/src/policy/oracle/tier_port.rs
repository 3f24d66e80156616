//! `ports` of v1alpha1 and `protocols` of v1alpha2.

use super::port::{api_name, has_named_port};
use super::{IpProtocol, Question};
use crate::input::wire::admin_network_policy::Port;
use crate::input::wire::cluster_network_policy::{DestinationPort, Protocol, Transport};
use crate::input::wire::core_v1::Pod;

/// The list of a rule.
#[derive(Clone, Copy)]
pub(super) enum Ports<'a> {
    /// `ports`.
    V1Alpha1(Option<&'a Vec<Port>>),
    /// `protocols`.
    V1Alpha2(Option<&'a Vec<Protocol>>),
}

/// The elements that match, `None` when the rule is not for this protocol and port.
///
/// Absent: "traffic is not filtered via port", protocols without ports included. `named_on` is the pod whose container
/// ports give a name its meaning.
pub(super) fn admits(
    ports: &Ports<'_>,
    rule: &str,
    question: &Question,
    named_on: Option<&Pod>,
) -> Option<Vec<String>> {
    let mut matching = Vec::new();
    match ports {
        Ports::V1Alpha1(None) | Ports::V1Alpha2(None) => return Some(matching),
        Ports::V1Alpha1(Some(list)) => {
            for (index, element) in list.iter().enumerate() {
                if port_matches(element, question, named_on) {
                    matching.push(format!("{rule}.ports[{index}]"));
                }
            }
        }
        Ports::V1Alpha2(Some(list)) => {
            for (index, element) in list.iter().enumerate() {
                if protocol_matches(element, question, named_on) {
                    matching.push(format!("{rule}.protocols[{index}]"));
                }
            }
        }
    }
    (!matching.is_empty()).then_some(matching)
}

/// `AdminNetworkPolicyPort`: "exactly one field must be set".
fn port_matches(port: &Port, question: &Question, named_on: Option<&Pod>) -> bool {
    let number = i64::from(question.port);
    // `protocol`: "if not specified, this field defaults to TCP".
    let is_protocol =
        |written: &Option<String>| api_name(question.protocol) == Some(written.as_deref().unwrap_or("TCP"));
    match (&port.port_number, &port.port_range, &port.named_port) {
        (Some(only), None, None) => is_protocol(&only.protocol) && only.port == Some(number),
        (None, Some(range), None) => {
            is_protocol(&range.protocol)
                && range.start.is_some_and(|start| start <= number)
                && range.end.is_some_and(|end| number <= end)
        }
        (None, None, Some(name)) => has_name(name, question, named_on),
        _ => false,
    }
}

/// `ClusterNetworkPolicyProtocol`: "exactly one field must be set".
fn protocol_matches(element: &Protocol, question: &Question, named_on: Option<&Pod>) -> bool {
    let Protocol { tcp, udp, sctp, destination_named_port, unknown } = element;
    if !unknown.is_empty() {
        return false;
    }
    match (tcp, udp, sctp, destination_named_port) {
        (Some(tcp), None, None, None) => is(question, "TCP") && transport_matches(tcp, question.port),
        (None, Some(udp), None, None) => is(question, "UDP") && transport_matches(udp, question.port),
        (None, None, Some(sctp), None) => is(question, "SCTP") && transport_matches(sctp, question.port),
        (None, None, None, Some(name)) => has_name(name, question, named_on),
        _ => false,
    }
}

fn is(question: &Question, protocol: &str) -> bool {
    api_name(question.protocol) == Some(protocol)
}

/// `destinationPort`: absent is every port of the protocol.
fn transport_matches(transport: &Transport, port: u16) -> bool {
    let number = i64::from(port);
    match &transport.destination_port {
        None => transport.unknown.is_empty(),
        Some(DestinationPort { number: Some(only), range: None, .. }) => *only == number,
        Some(DestinationPort { number: None, range: Some(range), .. }) => {
            range.start.is_some_and(|start| start <= number) && range.end.is_some_and(|end| number <= end)
        }
        Some(_) => false,
    }
}

/// A name carries no protocol: the container port's own is the one that counts.
fn has_name(name: &str, question: &Question, named_on: Option<&Pod>) -> bool {
    matches!(question.protocol, IpProtocol::Tcp | IpProtocol::Udp | IpProtocol::Sctp)
        && named_on.is_some_and(|pod| has_named_port(pod, name, question.protocol, i64::from(question.port)))
}
