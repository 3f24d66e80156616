//! What was asked from where, and how it went: the position table of the method.
//!
//! Invariant: a segment that nobody asked is [`Reach::NotAsked`], never silent and never good. Whether a server is reached is
//! told apart from what it says: any answer is an answer here.

use std::net::{IpAddr, SocketAddr};

use netlab_plugin::evidence::{Icmp, Outcome, Position, Probe, Transport};

use super::{View, is_connect};

/// Which rows are meant; `None` means any.
#[derive(Clone, Debug, Default)]
pub struct Ask {
    /// From where.
    pub from: Option<Position>,
    /// Which addresses.
    pub servers: Option<Vec<IpAddr>>,
    /// Which port.
    pub port: Option<u16>,
    /// Over what.
    pub transport: Option<Transport>,
    /// Which names, all of them below one of these.
    pub below: Option<String>,
}

/// How a segment behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    /// Nobody asked.
    NotAsked,
    /// Every question was answered.
    Answers,
    /// Some questions were answered and some were not.
    Lossy,
    /// Nothing came back.
    Silent,
    /// Refused at once: a port-unreachable or a reset.
    Refused,
    /// Rejected by somebody on the way: host unreachable or prohibited.
    Rejected,
    /// No route in the namespace that asks.
    Unroutable,
    /// Dropped in the namespace that asks.
    NotPermitted,
    /// Answers come from another address than the one asked.
    WrongSource,
    /// What comes back is no DNS message.
    Malformed,
}

impl Reach {
    /// True when answers come.
    #[must_use]
    pub const fn answers(self) -> bool {
        matches!(self, Self::Answers)
    }

    /// True when it was asked and no answer came that a resolver could use.
    #[must_use]
    pub const fn fails(self) -> bool {
        !matches!(self, Self::NotAsked | Self::Answers | Self::Lossy)
    }

    /// In a word or two.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NotAsked => "not asked",
            Self::Answers => "answers",
            Self::Lossy => "answers some",
            Self::Silent => "silent",
            Self::Refused => "refuses",
            Self::Rejected => "rejected on the way",
            Self::Unroutable => "no route",
            Self::NotPermitted => "not permitted to send",
            Self::WrongSource => "answered from another address",
            Self::Malformed => "answered with garbage",
        }
    }
}

/// A segment with the rows behind it.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    /// How it behaves.
    pub reach: Reach,
    /// Questions sent.
    pub sent: u32,
    /// Questions answered.
    pub answered: u32,
    /// The slowest answer, in milliseconds.
    pub slowest: Option<f64>,
    /// The rows.
    pub ids: Vec<String>,
}

impl Seen {
    /// `6/6`.
    #[must_use]
    pub fn count(&self) -> String {
        format!("{}/{}", self.answered, self.sent)
    }
}

impl Ask {
    /// From the pod that it is about.
    #[must_use]
    pub fn from_pod() -> Self {
        Self { from: Some(Position::Pod), ..Self::default() }
    }

    /// From the host network of that pod's node.
    #[must_use]
    pub fn from_node() -> Self {
        Self { from: Some(Position::Node), ..Self::default() }
    }

    /// To these addresses.
    #[must_use]
    pub fn to(mut self, servers: impl IntoIterator<Item = IpAddr>) -> Self {
        self.servers = Some(servers.into_iter().collect());
        self
    }

    /// To this port.
    #[must_use]
    pub const fn port(mut self, port: u16) -> Self {
        self.port = Some(port);
        self
    }

    /// To this address and port.
    #[must_use]
    pub fn at(self, address: SocketAddr) -> Self {
        self.to([address.ip()]).port(address.port())
    }

    /// Over UDP or TCP.
    #[must_use]
    pub const fn over(mut self, transport: Transport) -> Self {
        self.transport = Some(transport);
        self
    }

    /// For names in a zone (or equal to it).
    #[must_use]
    pub fn below(mut self, zone: impl Into<String>) -> Self {
        self.below = Some(zone.into());
        self
    }

    fn matches(&self, probe: &Probe) -> bool {
        !is_connect(probe)
            && self.from.as_ref().is_none_or(|from| *from == probe.from)
            && self.servers.as_ref().is_none_or(|servers| servers.contains(&probe.server))
            && self.port.is_none_or(|port| port == probe.port)
            && self.transport.is_none_or(|transport| transport == probe.transport)
            && self.below.as_ref().is_none_or(|zone| is_below(&probe.name, zone))
    }
}

/// True for the names that netlab itself asks to see whether a server answers.
#[must_use]
pub fn is_canary(name: &str) -> bool {
    ["kubernetes.default.", "dns-version.", "netlab-"].iter().any(|start| name.starts_with(start))
}

/// True when `name` is `zone` or stands below it; case and the last dot do not matter.
#[must_use]
pub fn is_below(name: &str, zone: &str) -> bool {
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    let zone = zone.trim_end_matches('.').to_ascii_lowercase();
    name == zone || zone.is_empty() || name.strip_suffix(&zone).is_some_and(|rest| rest.ends_with('.'))
}

impl<'e> View<'e> {
    /// The rows that are meant, in order.
    pub fn rows(&self, ask: &Ask) -> Vec<(&'e str, &'e Probe)> {
        self.probes.iter().copied().filter(|(_, probe)| ask.matches(probe)).collect()
    }

    /// The same for questions that every DNS server of the cluster must be able to answer by itself (`kubernetes.default`,
    /// `dns-version`, a random name); where none of those was asked, all questions below the cluster's domain. The names
    /// of the application and those outside say something about themselves first.
    #[must_use]
    pub fn canary(&self, ask: &Ask) -> Seen {
        let domain = self.domain().unwrap_or_else(|| "cluster.local".to_owned());
        let rows = self.rows(&ask.clone().below(&*domain));
        let canaries: Vec<_> = rows.iter().copied().filter(|(_, probe)| is_canary(&probe.name)).collect();
        seen(if canaries.is_empty() { &rows } else { &canaries })
    }

    /// The ICMP error that came for one of these rows.
    #[must_use]
    pub fn refused_by(&self, seen: &Seen) -> Option<Icmp> {
        let mut rows = self.probes.iter().filter(|(id, _)| seen.ids.iter().any(|one| one == id));
        rows.find_map(|(_, probe)| probe.icmp)
    }

    /// How these rows went, taken together.
    #[must_use]
    pub fn seen(&self, ask: &Ask) -> Seen {
        seen(&self.rows(ask))
    }
}

/// An ICMP error with who sent it: `3/3 from 192.0.2.11`.
#[must_use]
pub fn told(icmp: Icmp) -> String {
    format!("{}/{} from {}", icmp.icmp_type, icmp.code, icmp.from)
}

/// How rows went, taken together: answers and failures of different kinds make it lossy.
#[must_use]
pub fn seen(rows: &[(&str, &Probe)]) -> Seen {
    let sum = |counts: &mut dyn Iterator<Item = u32>| counts.fold(0, u32::saturating_add);
    let sent = sum(&mut rows.iter().map(|(_, probe)| probe.sent));
    let answered = sum(&mut rows.iter().map(|(_, probe)| probe.answers_seen()));
    let failure =
        rows.iter().find(|(_, probe)| !probe.result.is_answer()).map(|(_, probe)| match probe.result {
            Outcome::ConnectionRefused => Reach::Refused,
            Outcome::HostUnreachable => Reach::Rejected,
            Outcome::NetworkUnreachable => Reach::Unroutable,
            Outcome::NotPermitted => Reach::NotPermitted,
            Outcome::UnexpectedSource => Reach::WrongSource,
            Outcome::Malformed => Reach::Malformed,
            _ => Reach::Silent,
        });
    let reach = match (rows.is_empty(), answered) {
        (true, _) => Reach::NotAsked,
        (_, answered) if answered >= sent => Reach::Answers,
        (_, 0) => failure.unwrap_or(Reach::Silent),
        _ => Reach::Lossy,
    };
    let slowest = rows.iter().filter_map(|(_, probe)| probe.ms).max_by(f64::total_cmp);
    Seen { reach, sent, answered, slowest, ids: rows.iter().map(|(id, _)| (*id).to_owned()).collect() }
}
