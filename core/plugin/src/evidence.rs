//! The evidence bag: every fact with an id, and nothing that is not a fact.
//!
//! Invariant: an id is the place in a bundle where a person finds the same fact: a file, or `probes.json#3`. What has
//! no id was not examined. What was looked for and is not there is a fact too ([`Fact::Absent`]): the difference between
//! "no policies" and "policies unknown" decides verdicts.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

/// Facts by id.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Evidence {
    /// The facts.
    pub facts: BTreeMap<String, Fact>,
}

/// One thing that was seen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "fact")]
pub enum Fact {
    /// A text as it was found: a file of the container, a dump of a node, objects as YAML.
    Text {
        /// The text.
        text: String,
    },
    /// It was looked for and is not there.
    Absent,
    /// One question and what became of it.
    Probe(Probe),
    /// What the application sees.
    Symptom(Symptom),
    /// Numbers of a node.
    Counters(Counters),
}

impl Evidence {
    /// The text with that id; `None` when it was not examined or is not there.
    pub fn text(&self, id: &str) -> Option<&str> {
        match self.facts.get(id) {
            Some(Fact::Text { text }) => Some(text),
            _ => None,
        }
    }

    /// True when the fact was looked for, found or not.
    pub fn examined(&self, id: &str) -> bool {
        self.facts.contains_key(id)
    }

    /// True when it was looked for and is not there.
    pub fn is_absent(&self, id: &str) -> bool {
        matches!(self.facts.get(id), Some(Fact::Absent))
    }

    /// The probes, in the order in which they were made.
    pub fn probes(&self) -> impl Iterator<Item = (&str, &Probe)> {
        let mut probes: Vec<(&str, &Probe)> = self
            .facts
            .iter()
            .filter_map(|(id, fact)| match fact {
                Fact::Probe(probe) => Some((id.as_str(), probe)),
                _ => None,
            })
            .collect();
        // `probes.json#10` comes after `probes.json#9`.
        probes.sort_by_key(|(id, _)| (id.len(), *id));
        probes.into_iter()
    }

    /// What the application sees, if anybody said.
    pub fn symptom(&self) -> Option<(&str, &Symptom)> {
        self.facts.iter().find_map(|(id, fact)| match fact {
            Fact::Symptom(symptom) => Some((id.as_str(), symptom)),
            _ => None,
        })
    }

    /// The numbers of nodes, if they were read.
    pub fn counters(&self) -> Option<(&str, &Counters)> {
        self.facts.iter().find_map(|(id, fact)| match fact {
            Fact::Counters(counters) => Some((id.as_str(), counters)),
            _ => None,
        })
    }
}

/// Where a probe was sent from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Position {
    /// `pod`: the network namespace of the pod that it is all about.
    Pod,
    /// `node`: the host network namespace of that pod's node.
    Node,
    /// `dns-pod`: the network namespace of the DNS pod that is asked.
    DnsPod,
    /// `pod/NAMESPACE/NAME`: another pod.
    OtherPod {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// `node/NAME`: another node.
    OtherNode(String),
}

impl TryFrom<String> for Position {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let parts: Vec<&str> = text.split('/').collect();
        match parts.as_slice() {
            ["pod"] => Ok(Self::Pod),
            ["node"] => Ok(Self::Node),
            ["dns-pod"] => Ok(Self::DnsPod),
            ["pod", namespace, name] => {
                Ok(Self::OtherPod { namespace: (*namespace).to_owned(), name: (*name).to_owned() })
            }
            ["node", name] => Ok(Self::OtherNode((*name).to_owned())),
            _ => Err(format!(
                "`{text}` is no position; say pod, node, dns-pod, pod/NAMESPACE/NAME or node/NAME"
            )),
        }
    }
}

impl From<Position> for String {
    fn from(position: Position) -> Self {
        position.to_string()
    }
}

impl std::fmt::Display for Position {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Pod => f.write_str("pod"),
            Self::Node => f.write_str("node"),
            Self::DnsPod => f.write_str("dns-pod"),
            Self::OtherPod { namespace, name } => write!(f, "pod/{namespace}/{name}"),
            Self::OtherNode(name) => write!(f, "node/{name}"),
        }
    }
}

/// One question to one address, tried once or several times in the same way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Probe {
    /// From where.
    pub from: Position,
    /// The address that was asked.
    pub server: IpAddr,
    /// Its port.
    #[serde(default = "dns_port", skip_serializing_if = "is_dns_port")]
    pub port: u16,
    /// UDP or TCP.
    pub transport: Transport,
    /// The EDNS buffer size in the question, if there was an OPT record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edns: Option<u16>,
    /// The source port, where it was held fixed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_port: Option<u16>,
    /// True when it left with the question for the name's other address type, one right after the other from one socket, as C
    /// libraries ask.
    #[serde(default, skip_serializing_if = "is_false")]
    pub together: bool,
    /// The name, fully qualified, with its last dot.
    pub name: String,
    /// The record type: `A`, `AAAA`, `SRV`, `TXT`.
    #[serde(rename = "type")]
    pub qtype: String,
    /// How often it was asked.
    #[serde(default = "once", skip_serializing_if = "is_once")]
    pub sent: u32,
    /// How often an answer came; by default always when `result` is one, else never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered: Option<u32>,
    /// What came, or what came instead.
    pub result: Outcome,
    /// The answer section: an address, or `CNAME name.`, `SRV 0 100 53 name.`, `TXT text`, `PTR name.`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<String>,
    /// The owner of the SOA record in the authority section.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub soa: Option<String>,
    /// Header flags that were set.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flags: Vec<Flag>,
    /// Lowest TTL of the answer (of the SOA for a denial), in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl: Option<u32>,
    /// Size of the answer, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u32>,
    /// Time to the (slowest) answer, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ms: Option<f64>,
    /// Who answered, when it was not the address that was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replied_from: Option<IpAddr>,
    /// The ICMP error that came instead of an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub icmp: Option<Icmp>,
}

const fn dns_port() -> u16 {
    53
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
const fn is_dns_port(port: &u16) -> bool {
    *port == 53
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
const fn is_false(value: &bool) -> bool {
    !*value
}

const fn once() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
const fn is_once(sent: &u32) -> bool {
    *sent == 1
}

/// UDP or TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// UDP.
    Udp,
    /// TCP.
    Tcp,
}

impl std::fmt::Display for Transport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Udp => "UDP",
            Self::Tcp => "TCP",
        })
    }
}

/// What became of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Answered: NOERROR, with or without records. For `connect`, the connection was made.
    Noerror,
    /// Answered: NXDOMAIN.
    Nxdomain,
    /// Answered: SERVFAIL.
    Servfail,
    /// Answered: REFUSED.
    Refused,
    /// Answered: FORMERR.
    Formerr,
    /// Answered: NOTIMP.
    Notimp,
    /// Something came that is no DNS message, or not to this question.
    Malformed,
    /// An answer came from another address than the one asked: a connected socket does not see it.
    UnexpectedSource,
    /// Nothing came.
    Silent,
    /// `ECONNREFUSED`: a port-unreachable or a reset.
    ConnectionRefused,
    /// `EHOSTUNREACH`: host unreachable, or prohibited by an administrator; `icmp` tells which.
    HostUnreachable,
    /// `ENETUNREACH`: no route in the namespace that asks.
    NetworkUnreachable,
    /// `EPERM` when sending: dropped in the namespace that asks.
    NotPermitted,
}

impl Outcome {
    /// True when a DNS answer came, whatever it says.
    pub const fn is_answer(self) -> bool {
        matches!(
            self,
            Self::Noerror | Self::Nxdomain | Self::Servfail | Self::Refused | Self::Formerr | Self::Notimp
        )
    }

    /// As people write it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Noerror => "NOERROR",
            Self::Nxdomain => "NXDOMAIN",
            Self::Servfail => "SERVFAIL",
            Self::Refused => "REFUSED",
            Self::Formerr => "FORMERR",
            Self::Notimp => "NOTIMP",
            Self::Malformed => "malformed",
            Self::UnexpectedSource => "answered from another address",
            Self::Silent => "silent",
            Self::ConnectionRefused => "connection refused",
            Self::HostUnreachable => "host unreachable",
            Self::NetworkUnreachable => "network unreachable",
            Self::NotPermitted => "not permitted",
        }
    }
}

/// Header flags of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Flag {
    /// Authoritative answer.
    Aa,
    /// Truncated.
    Tc,
    /// Recursion available.
    Ra,
    /// Authentic data.
    Ad,
}

/// An ICMP error: type and code as in RFC 792 and RFC 4443, and the hop that sent it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Icmp {
    /// Type.
    #[serde(rename = "type")]
    pub icmp_type: u8,
    /// Code.
    pub code: u8,
    /// Who sent it.
    pub from: IpAddr,
}

impl Probe {
    /// How many answers came.
    pub fn answers_seen(&self) -> u32 {
        self.answered.unwrap_or(if self.result.is_answer() { self.sent } else { 0 })
    }

    /// True when every question was answered, whatever the answer says.
    pub fn all_answered(&self) -> bool {
        self.result.is_answer() && self.answers_seen() >= self.sent
    }

    /// True when no question was answered.
    pub fn none_answered(&self) -> bool {
        self.answers_seen() == 0
    }

    /// True when some questions were answered and some were not.
    pub fn some_answered(&self) -> bool {
        let seen = self.answers_seen();
        seen > 0 && seen < self.sent
    }

    /// True when the flag was set.
    pub fn has(&self, flag: Flag) -> bool {
        self.flags.contains(&flag)
    }

    /// The addresses in the answer.
    pub fn addresses(&self) -> Vec<IpAddr> {
        self.answers.iter().filter_map(|answer| answer.parse().ok()).collect()
    }
}

/// What the application sees.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Symptom {
    /// The error as the application prints it: `Temporary failure in name resolution`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// How long a lookup took, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// The share of lookups that are so, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<f64>,
    /// What the application is written in, where it matters: `java`, `node`, `go`, `envoy`, `nginx`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub application: Option<String>,
    /// The addresses that the application uses for the name, where it logs them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uses: Vec<IpAddr>,
    /// When it was seen, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// In words; never read by a rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// Numbers of nodes and DNS pods, by the node's name (or `pod/NAMESPACE/NAME`), then by the counter's name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Counters {
    /// `conntrack.insert_failed`, `ethtool.ens5.conntrack_allowance_exceeded`, `sysctl.net.ipv4.conf.all.rp_filter`.
    pub by_owner: BTreeMap<String, BTreeMap<String, Reading>>,
}

/// A number, or the same number before and after the probes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Reading {
    /// Read once.
    Once(f64),
    /// Read before and after the probes.
    Twice(f64, f64),
}

impl Reading {
    /// The last value.
    pub const fn last(self) -> f64 {
        match self {
            Self::Once(value) | Self::Twice(_, value) => value,
        }
    }

    /// By how much it grew while the probes ran; `None` when it was read once.
    pub fn growth(self) -> Option<f64> {
        match self {
            Self::Once(_) => None,
            Self::Twice(before, after) => Some(after - before),
        }
    }
}
