//! A verdict of the program, in words.
//!
//! Invariant: what is said of a decision comes from its event and from the compilation that was in force when it fell.

use std::net::IpAddr;

use netlab_ebpf::abi::{Address, Direction, Event, PolicyValue, ipv4_of, is_ipv4};
use netlab_ebpf::reason::Reason;
use serde::{Deserialize, Serialize};

use super::cause::Cause;

/// One decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Decision {
    /// The node whose program decided.
    pub(crate) node: String,
    /// The pod at whose interface.
    pub(crate) pod: String,
    /// `ingress` or `egress`, seen from the pod.
    pub(crate) direction: String,
    /// `allow` or `deny`.
    pub(crate) verdict: String,
    /// `TCP`, `UDP`, `SCTP`, `ICMP` or a number.
    pub(crate) protocol: String,
    /// Source address; none when the packet was not parsed so far.
    pub(crate) source: Option<IpAddr>,
    /// Destination address.
    pub(crate) destination: Option<IpAddr>,
    /// Source port.
    pub(crate) source_port: u16,
    /// Destination port.
    pub(crate) destination_port: u16,
    /// `SYN`, `SYN,ACK`, …; empty for other protocols.
    pub(crate) tcp_flags: String,
    /// The deciding entry.
    pub(crate) entry: u32,
    /// How the verdict came about.
    pub(crate) reason: String,
    /// The rule that put the entry there, or the policies that isolate.
    pub(crate) because: String,
    /// The same in parts, with the places where they are written.
    #[serde(flatten)]
    pub(crate) cause: Cause,
}

impl Decision {
    /// An event in words; its entry is the compilation's.
    pub(super) fn new(node: &str, pod: Option<&str>, event: &Event, cause: Cause) -> Self {
        let because = cause.because.clone();
        Self {
            node: node.to_owned(),
            pod: pod.map_or_else(|| format!("interface {}", event.ifindex), str::to_owned),
            direction: if event.direction == Direction::Ingress as u8 { "ingress" } else { "egress" }
                .to_owned(),
            verdict: if event.verdict == PolicyValue::ALLOW { "allow" } else { "deny" }.to_owned(),
            protocol: match event.protocol {
                6 => "TCP".to_owned(),
                17 => "UDP".to_owned(),
                132 => "SCTP".to_owned(),
                1 | 58 => "ICMP".to_owned(),
                other => other.to_string(),
            },
            source: ip(&event.source),
            destination: ip(&event.destination),
            source_port: event.source_port,
            destination_port: event.destination_port,
            tcp_flags: if event.protocol == 6 { flags(event.tcp_flags) } else { String::new() },
            entry: event.entry,
            reason: Reason::from_u8(event.reason)
                .filter(|reason| *reason != Reason::Row)
                .or_else(|| Reason::from_entry(event.entry))
                .map_or(String::new(), |reason| reason.describe().to_owned()),
            because,
            cause,
        }
    }
}

/// The address, if the packet was parsed so far.
pub(super) fn ip(address: &Address) -> Option<IpAddr> {
    if is_ipv4(address) {
        return Some(IpAddr::from(ipv4_of(address)));
    }
    (*address != [0; 16]).then(|| IpAddr::from(*address))
}

fn flags(bits: u8) -> String {
    let names = ["FIN", "SYN", "RST", "PSH", "ACK", "URG", "ECE", "CWR"];
    let set: Vec<&str> =
        names.iter().enumerate().filter(|(bit, _)| bits >> bit & 1 == 1).map(|(_, name)| *name).collect();
    set.join(",")
}
