//! `ports` of v1alpha1 and `protocols` of v1alpha2.

use std::sync::Arc;

use super::{Dialect, WirePorts, rule};
use crate::diagnostic::code;
use crate::input::validate::port::{number, protocol_of};
use crate::input::validate::{Report, field, holder};
use crate::input::wire::admin_network_policy as v1alpha1;
use crate::input::wire::cluster_network_policy as v1alpha2;
use crate::model::policy::Port;
use crate::model::port::{PortMatch, PortRange, Protocol};

/// Reads the list of a rule; `None` when the rule is for every protocol and port.
pub(super) fn ports(
    report: &mut Report<'_>,
    dialect: &Dialect,
    path: &str,
    wire: WirePorts<'_>,
) -> Option<Vec<Port>> {
    let mut ports = Vec::new();
    match wire {
        WirePorts::V1Alpha1(list) => {
            let path = format!("{path}.ports");
            let list = list?;
            rule::count(report, dialect, &path, "ports", 1, list.len());
            for (index, port) in list.iter().enumerate() {
                let path = format!("{path}[{index}]");
                ports.extend(at(&path, v1alpha1_port(report, &path, port)));
            }
        }
        WirePorts::V1Alpha2(list) => {
            let path = format!("{path}.protocols");
            let list = list?;
            rule::count(report, dialect, &path, "protocols", 1, list.len());
            for (index, protocol) in list.iter().enumerate() {
                let path = format!("{path}[{index}]");
                ports.extend(at(&path, v1alpha2_protocol(report, &path, protocol)));
            }
        }
    }
    Some(ports)
}

/// The path, from the rule, of the first port name of a list.
pub(super) fn first_name(wire: WirePorts<'_>) -> Option<String> {
    match wire {
        WirePorts::V1Alpha1(list) => {
            let index = list?.iter().position(|port| port.named_port.is_some())?;
            Some(format!("ports[{index}].namedPort"))
        }
        WirePorts::V1Alpha2(list) => {
            let index = list?.iter().position(|port| port.destination_named_port.is_some())?;
            Some(format!("protocols[{index}].destinationNamedPort"))
        }
    }
}

fn at(path: &str, matches: Vec<PortMatch>) -> impl Iterator<Item = Port> {
    let path: Arc<str> = path.into();
    matches.into_iter().map(move |matches| Port { path: Arc::clone(&path), matches })
}

/// A name without a protocol: the container port's protocol counts, whichever it is.
fn named(name: &str) -> Vec<PortMatch> {
    let name: Arc<str> = name.into();
    Protocol::ALL.into_iter().map(|protocol| PortMatch::Named { protocol, name: Arc::clone(&name) }).collect()
}

fn not_one(report: &mut Report<'_>, path: &str, written: &[&str], choices: &[&str]) {
    let message = match written {
        [] => "an element that names no port".to_owned(),
        several => format!("{} in one element", several.join(" and ")),
    };
    report.error(code::PORT_NOT_ONE, path, message, &format!("write one of {}", choices.join(", ")));
}

fn v1alpha1_port(report: &mut Report<'_>, path: &str, wire: &v1alpha1::Port) -> Vec<PortMatch> {
    field::unknown(report, path, &holder::ADMIN_PORT, &wire.unknown);
    match (&wire.port_number, &wire.port_range, &wire.named_port) {
        (Some(port), None, None) => {
            let path = format!("{path}.portNumber");
            field::unknown(report, &path, &holder::PORT_NUMBER, &port.unknown);
            let protocol = protocol(report, &path, port.protocol.as_deref());
            let number = port_number(report, &path, "port", port.port);
            let range = number.map(PortRange::single);
            protocol
                .zip(range)
                .map(|(protocol, range)| PortMatch::Range { protocol, range })
                .into_iter()
                .collect()
        }
        (None, Some(port), None) => {
            let path = format!("{path}.portRange");
            field::unknown(report, &path, &holder::PORT_RANGE, &port.unknown);
            let protocol = protocol(report, &path, port.protocol.as_deref());
            let start = port_number(report, &path, "start", port.start);
            let end = port_number(report, &path, "end", port.end);
            let Some(((start, end), protocol)) = start.zip(end).zip(protocol) else { return Vec::new() };
            if start > end {
                // The CRD of this version lets it pass.
                let message = format!("the range {start}-{end} is empty: it matches nothing");
                report.warning(code::INVALID_PORT, &path, message, "the range is written upwards");
                return Vec::new();
            }
            vec![PortMatch::Range { protocol, range: PortRange { start, end } }]
        }
        (None, None, Some(name)) => named(name),
        (number, range, name) => {
            let written = [
                ("portNumber", number.is_some()),
                ("portRange", range.is_some()),
                ("namedPort", name.is_some()),
            ];
            let written: Vec<&str> =
                written.into_iter().filter_map(|(name, there)| there.then_some(name)).collect();
            if !written.is_empty() || wire.unknown.is_empty() {
                not_one(report, path, &written, holder::ADMIN_PORT.fields);
            }
            Vec::new()
        }
    }
}

fn v1alpha2_protocol(report: &mut Report<'_>, path: &str, wire: &v1alpha2::Protocol) -> Vec<PortMatch> {
    field::unknown(report, path, &holder::PROTOCOL, &wire.unknown);
    let transports = [
        ("tcp", Protocol::Tcp, &wire.tcp),
        ("udp", Protocol::Udp, &wire.udp),
        ("sctp", Protocol::Sctp, &wire.sctp),
    ];
    let mut written: Vec<(&str, Protocol, &v1alpha2::Transport)> = transports
        .into_iter()
        .filter_map(|(name, protocol, transport)| Some((name, protocol, transport.as_ref()?)))
        .collect();
    match (written.pop(), written.is_empty(), &wire.destination_named_port) {
        (Some((name, protocol, transport)), true, None) => {
            let range = transport_range(report, &format!("{path}.{name}"), transport);
            range.map(|range| PortMatch::Range { protocol, range }).into_iter().collect()
        }
        (None, _, Some(name)) => named(name),
        (None, _, None) => {
            if wire.unknown.is_empty() {
                not_one(report, path, &[], holder::PROTOCOL.fields);
            }
            Vec::new()
        }
        (Some(last), _, name) => {
            let mut names: Vec<&str> = written.iter().map(|(name, ..)| *name).collect();
            names.push(last.0);
            names.extend(name.as_ref().map(|_| "destinationNamedPort"));
            not_one(report, path, &names, holder::PROTOCOL.fields);
            Vec::new()
        }
    }
}

fn transport_range(report: &mut Report<'_>, path: &str, wire: &v1alpha2::Transport) -> Option<PortRange> {
    field::unknown(report, path, &holder::TRANSPORT, &wire.unknown);
    let Some(port) = &wire.destination_port else {
        if wire.unknown.is_empty() {
            let message = "a protocol without `destinationPort`: it matches every port of the protocol";
            let hint = "the CRD refuses it: write `range: {start: 1, end: 65535}`";
            report.warning(code::PROTOCOL_WITHOUT_PORT, path, message, hint);
        }
        return Some(PortRange::ALL);
    };
    let path = format!("{path}.destinationPort");
    field::unknown(report, &path, &holder::DESTINATION_PORT, &port.unknown);
    match (port.number, &port.range) {
        (Some(_), None) => port_number(report, &path, "number", port.number).map(PortRange::single),
        (None, Some(range)) => {
            let path = format!("{path}.range");
            field::unknown(report, &path, &holder::DESTINATION_RANGE, &range.unknown);
            let start = port_number(report, &path, "start", range.start)?;
            let end = port_number(report, &path, "end", range.end)?;
            if start >= end {
                let hint = if start == end {
                    format!("for one port, write `number: {start}`")
                } else {
                    "the range is written upwards".to_owned()
                };
                let message = format!("`start` {start} is not less than `end` {end}");
                report.error(code::INVALID_PORT, &path, message, &hint);
                return None;
            }
            Some(PortRange { start, end })
        }
        (None, None) => {
            if port.unknown.is_empty() {
                not_one(report, &path, &[], holder::DESTINATION_PORT.fields);
            }
            None
        }
        (Some(_), Some(_)) => {
            not_one(report, &path, &["number", "range"], holder::DESTINATION_PORT.fields);
            None
        }
    }
}

fn protocol(report: &mut Report<'_>, path: &str, written: Option<&str>) -> Option<Protocol> {
    match written {
        None => Some(Protocol::Tcp),
        Some(written) => protocol_of(report, &format!("{path}.protocol"), written),
    }
}

fn port_number(report: &mut Report<'_>, path: &str, field: &str, written: Option<i64>) -> Option<u16> {
    let hint = "ports are 1 to 65535";
    let Some(written) = written else {
        report.error(code::INVALID_PORT, path, format!("no `{field}`"), hint);
        return None;
    };
    let found = number(written);
    if found.is_none() {
        let message = format!("`{written}` is no port number");
        report.error(code::INVALID_PORT, &format!("{path}.{field}"), message, hint);
    }
    found
}
