//! Elements of `ports` (`ValidateNetworkPolicyPort`).

use super::{Report, field, holder, name};
use crate::diagnostic::code;
use crate::input::wire::network_policy::{IntOrString, Port};
use crate::model::port::{PortMatch, PortRange, Protocol};

/// Reads one element; `None` after reporting why not.
pub(super) fn port(report: &mut Report<'_>, path: &str, wire: &Port) -> Option<PortMatch> {
    field::unknown(report, path, &holder::PORT, &wire.unknown);
    let protocol = match &wire.protocol {
        None => Some(Protocol::Tcp),
        Some(written) => protocol_of(report, &format!("{path}.protocol"), written),
    };
    let port_path = format!("{path}.port");
    let end_path = format!("{path}.endPort");
    match (&wire.port, wire.end_port) {
        (None, None) => Some(PortMatch::Range { protocol: protocol?, range: PortRange::ALL }),
        (None, Some(_)) => {
            report.error(
                code::INVALID_END_PORT,
                &end_path,
                "`endPort` without `port`",
                "write where the range starts",
            );
            None
        }
        (Some(IntOrString::Int(start)), end) => {
            let first = number(*start);
            if first.is_none() {
                let message = format!("`{start}` is no port number");
                report.error(code::INVALID_PORT, &port_path, message, "ports are 1 to 65535");
            }
            let last = end.map(|end| match number(end) {
                Some(last) if end >= *start => Some(last),
                Some(_) => {
                    let message = format!("`endPort` {end} is less than `port` {start}");
                    report.error(code::INVALID_END_PORT, &end_path, message, "the range is written upwards");
                    None
                }
                None => {
                    let message = format!("`{end}` is no port number");
                    report.error(code::INVALID_END_PORT, &end_path, message, "ports are 1 to 65535");
                    None
                }
            });
            let start = first?;
            let end = match last {
                Some(last) => last?,
                None => start,
            };
            Some(PortMatch::Range { protocol: protocol?, range: PortRange { start, end } })
        }
        (Some(IntOrString::String(written)), end) => {
            let problem = name::port_name(written);
            if let Some(problem) = &problem {
                let message = format!("`{written}` is no port name: {problem}");
                let hint = if number_of(written).is_some() {
                    "a quoted number is a name to the API: take the quotes away"
                } else {
                    "write the name of a container port, or a number"
                };
                report.error(code::INVALID_PORT, &port_path, message, hint);
            }
            if end.is_some() {
                let message = format!("`endPort` beside the port name `{written}`");
                report.error(code::INVALID_END_PORT, &end_path, message, "a range needs a number in `port`");
                return None;
            }
            match problem {
                None => Some(PortMatch::Named { protocol: protocol?, name: written.as_str().into() }),
                Some(_) => None,
            }
        }
    }
}

pub(super) fn protocol_of(report: &mut Report<'_>, path: &str, written: &str) -> Option<Protocol> {
    let found = Protocol::ALL.into_iter().find(|protocol| protocol.as_str() == written);
    if found.is_none() {
        let near = Protocol::ALL.into_iter().find(|protocol| protocol.as_str().eq_ignore_ascii_case(written));
        let hint = match near {
            Some(protocol) => format!("write `{protocol}`"),
            None if written.eq_ignore_ascii_case("icmp") => {
                "ICMP cannot be named: a rule without `ports` admits it".to_owned()
            }
            None => "write TCP, UDP or SCTP".to_owned(),
        };
        report.error(code::INVALID_PROTOCOL, path, format!("`{written}` is no protocol"), &hint);
    }
    found
}

pub(super) fn number(written: i64) -> Option<u16> {
    u16::try_from(written).ok().filter(|port| *port != 0)
}

pub(super) fn number_of(written: &str) -> Option<u16> {
    written.parse().ok().and_then(number)
}
