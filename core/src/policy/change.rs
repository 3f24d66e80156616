//! A change: the complete tables of a node as plain data, ready for any enforcement backend.
//!
//! Invariant: a change is complete. It names every pod of the node with its interface, every ruleset that a pod
//! refers to, and for each isolated direction a verdict for every (peer class, port class): there are no
//! wildcards and nothing is inherited from an earlier change. It serialises to the JSON that plugins are given,
//! and equal changes serialise to equal bytes.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::model::port::Protocol;

/// The desired state of one node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Change {
    /// Higher than that of any change before it.
    pub generation: u32,
    /// Sorted by id.
    pub rulesets: Vec<RulesetTable>,
    /// Every address and prefix that has a class of its own, sorted; both family roots (`0.0.0.0/0`, `::/0`) are
    /// always there. The longest prefix that contains an address gives its class.
    pub peers: Vec<PeerPrefix>,
    /// Sorted by namespace and name.
    pub pods: Vec<PodDevice>,
    /// What this node's proxy translates for its pods, sorted by address, port and protocol.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub services: Vec<Frontend>,
    /// The interfaces by which packets of pods leave the node. Whoever names any vouches that these are all but the pods'
    /// own: then a packet to a Service whose endpoints are judged differently can be judged when its endpoint is known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wires: Vec<String>,
}

/// An address and port of a Service, as the node's proxy translates it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Frontend {
    /// The address.
    pub address: IpAddr,
    /// The port.
    pub port: u16,
    /// Its protocol.
    pub protocol: Protocol,
    /// Whose it is, as `namespace/name:port`.
    pub service: String,
    /// Where its packets may come out, sorted by peer class and port; never empty. It is judged by the egress entry of
    /// each; where these do not agree, by that of the endpoint that a packet really gets.
    pub targets: Vec<FrontendTarget>,
    /// True when each endpoint lies behind one of the pods' interfaces or the wires.
    pub deferrable: bool,
}

/// Endpoints of a Service that no ruleset tells apart.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FrontendTarget {
    /// Their peer class.
    pub peer_class: u32,
    /// The port on which they are reached.
    pub port: u16,
    /// They themselves, sorted.
    pub endpoints: Vec<IpAddr>,
}

/// The tables of one ruleset.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RulesetTable {
    /// Below 2^30, not 0.
    pub id: u32,
    /// `None` when no policy of any tier acts on its pods' ingress.
    pub ingress: Option<DirectionTable>,
    /// `None` when no policy of any tier acts on its pods' egress.
    pub egress: Option<DirectionTable>,
}

/// One direction of a ruleset.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DirectionTable {
    /// The classes of (protocol, port), sorted by class. Class 0 is ICMP and ICMPv6, class 1 every protocol
    /// that is neither that nor TCP, UDP or SCTP; both are listed without ranges. The ranges of the others
    /// cover every port of TCP, UDP and SCTP exactly once.
    pub port_classes: Vec<PortClass>,
    /// Every peer class of the change in exactly one row.
    pub rows: Vec<PeerRow>,
}

/// A class of (protocol, port) pairs on the destination's side.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PortClass {
    /// Its number in this table, below 250.
    pub class: u16,
    /// What is in it.
    pub ranges: Vec<ProtocolRange>,
}

/// Ports of one protocol, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProtocolRange {
    /// Which protocol.
    pub protocol: Protocol,
    /// First port.
    pub start: u16,
    /// Last port.
    pub end: u16,
}

/// The verdicts for some peer classes that no rule of the ruleset tells apart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PeerRow {
    /// Sorted.
    pub peer_classes: Vec<u32>,
    /// One per port class, in their order.
    pub cells: Vec<Cell>,
}

/// The verdict for one (peer class, port class).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Cell {
    /// What happens.
    pub verdict: Verdict,
    /// The tier that decided, as `netlab_ebpf::reason::Tier`.
    pub tier: u8,
    /// The entry to count and to cite.
    pub entry: u32,
}

/// What happens to a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// It passes.
    Allow,
    /// It is dropped.
    Deny,
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Allow => "allow",
            Self::Deny => "deny",
        })
    }
}

/// A prefix and the class of the addresses for which it is the longest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PeerPrefix {
    /// Network address.
    pub address: IpAddr,
    /// Length in bits of its own family: a pod is 32 or 128.
    pub length: u8,
    /// The peer class, not 0.
    pub class: u32,
}

/// A pod of this node and the interface behind which it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodDevice {
    /// `metadata.namespace`.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
    /// The pod's number: never reused for another pod while the backend lives.
    pub id: u32,
    /// Name of the host-side interface in the backend's network namespace.
    pub interface: String,
    /// The pod's addresses, at most one per family.
    pub addresses: Vec<IpAddr>,
    /// Its ruleset.
    pub ruleset: u32,
    /// The pod may send from other addresses than its own.
    pub any_source: bool,
}
