//! Connections to Services that the kernel keeps, and those that lead to no endpoint any more.
//!
//! Invariant: rules decide only about the first packet of a connection; UDP has no end, so an entry that is renewed by
//! every packet keeps leading to an endpoint that is gone. What is called stale is what kube-proxy itself deletes after
//! a sync (`pkg/proxy/conntrack/cleanup.go`): the source of replies is no endpoint that still answers, whatever
//! readiness, hints and policies say. Entries of TCP and SCTP are counted and not judged: such connections end.

pub mod dump;

use std::net::SocketAddr;

use serde::Serialize;

use self::dump::Entry;
use super::RouteKind;
use super::expected::ExpectedPort;
use crate::model::port::Protocol;

/// What the kernel's connections say of a Service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceConntrack {
    /// A file, or a namespace.
    pub source: String,
    /// By service port and family.
    pub ports: Vec<PortConntrack>,
}

/// What they say of one service port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PortConntrack {
    /// `namespace/name`.
    pub service: String,
    /// The port's name; empty when it has none.
    pub port: String,
    /// TCP, UDP or SCTP.
    pub protocol: &'static str,
    /// IPv4 or IPv6.
    pub family: &'static str,
    /// Its cluster IP and port.
    pub address: String,
    /// How many connections there are to any of its addresses.
    pub entries: usize,
    /// Those that lead to no endpoint; of UDP alone.
    pub stale: Vec<StaleEntry>,
}

/// An entry that leads to no endpoint.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StaleEntry {
    /// Who sends.
    pub client: String,
    /// What it sends to.
    pub to: String,
    /// Where the kernel leads it.
    pub leads_to: String,
    /// True when nothing came back.
    pub unreplied: bool,
    /// Seconds until the entry goes, if nothing more is sent.
    pub expires_in: Option<u64>,
    /// The line of the dump.
    pub line: usize,
    /// Why it is stale.
    pub why: Why,
    /// A command that deletes it.
    pub mend: String,
}

/// Why an entry is stale.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Why {
    /// It leads to an address that is no endpoint of the Service.
    NoEndpoint,
    /// It was made while no rule translated, and is kept though there are endpoints now.
    Untranslated,
}

impl Why {
    /// In words.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NoEndpoint => {
                "rules are asked for first packets only, and UDP has no end: every packet renews the entry, so it \
                 keeps going to what is no endpoint any more"
            }
            Self::Untranslated => {
                "the entry was made while the Service had no rule, so packets keep going to the address itself"
            }
        }
    }
}

/// Sorts entries out, for each of these ports.
#[must_use]
pub fn judge(source: &str, entries: &[Entry], ports: &[ExpectedPort]) -> ServiceConntrack {
    ServiceConntrack {
        source: source.to_owned(),
        ports: ports.iter().map(|port| judge_port(entries, port)).collect(),
    }
}

fn judge_port(entries: &[Entry], port: &ExpectedPort) -> PortConntrack {
    let mine: Vec<&Entry> = entries.iter().filter(|entry| is_to(entry, port)).collect();
    let mut stale: Vec<StaleEntry> = mine.iter().filter_map(|entry| stale(entry, port)).collect();
    stale.sort_by_key(|stale| stale.line);
    let internal = port.frontends.iter().find(|frontend| frontend.kind == RouteKind::ClusterIp);
    PortConntrack {
        service: port.name.service.to_string(),
        port: port.name.port.clone(),
        protocol: port.name.protocol.as_str(),
        family: port.family.as_str(),
        address: internal.map(|frontend| frontend.key.to_string()).unwrap_or_default(),
        entries: mine.len(),
        stale,
    }
}

/// Whether an entry's first packet was sent to one of the port's addresses.
fn is_to(entry: &Entry, port: &ExpectedPort) -> bool {
    entry.protocol == port.name.protocol
        && port.frontends.iter().any(|frontend| {
            let to = entry.to;
            match frontend.key.address {
                Some(address) => to == SocketAddr::new(address, frontend.key.port),
                // Any address of the node: what was not translated may be a conversation of its own.
                None => to.port() == frontend.key.port && to != entry.answers && same_family(to, port),
            }
        })
}

fn same_family(address: SocketAddr, port: &ExpectedPort) -> bool {
    crate::model::service::AddressType::of(address.ip()) == port.family
}

fn stale(entry: &Entry, port: &ExpectedPort) -> Option<StaleEntry> {
    if port.name.protocol != Protocol::Udp {
        return None;
    }
    let why = if entry.answers == entry.to {
        if !port.has_endpoints() {
            return None;
        }
        Why::Untranslated
    } else if port.answering.contains(&entry.answers) {
        return None;
    } else {
        Why::NoEndpoint
    };
    let (ip, number) = (entry.to.ip(), entry.to.port());
    let family = if ip.is_ipv6() { " -f ipv6" } else { "" };
    let mend = format!(
        "conntrack -D{family} -p udp --orig-src {} --sport {} --orig-dst {ip} --dport {number}",
        entry.from.ip(),
        entry.from.port()
    );
    Some(StaleEntry {
        client: entry.from.to_string(),
        to: entry.to.to_string(),
        leads_to: entry.answers.to_string(),
        unreplied: entry.unreplied,
        expires_in: entry.expires_in,
        line: entry.line,
        why,
        mend,
    })
}
