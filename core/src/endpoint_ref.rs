//! The grammar of endpoints and ports on the command line and in claims.
//!
//! An endpoint is `[TYPE/][NS/]NAME` or an IP address, with `kubectl`'s type names; a port is `5432`, `5432/tcp`,
//! `http` or `http/udp`; a destination may have its port behind a colon. Parsing needs no cluster; [`EndpointRef::resolve`] finds what is meant in one. Nothing is
//! guessed: a name that is not there is an error that lists the nearest ones.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use thiserror::Error;

use crate::model::cluster::{Cluster, ObjectKey, Pod, WorkloadRef};
use crate::model::port::Protocol;

/// A type word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EndpointType {
    /// `pod`, `pods`, `po`.
    Pod,
    /// `deployment`, `deployments`, `deploy`.
    Deployment,
    /// `statefulset`, `statefulsets`, `sts`.
    StatefulSet,
    /// `daemonset`, `daemonsets`, `ds`.
    DaemonSet,
    /// `job`, `jobs`.
    Job,
    /// `cronjob`, `cronjobs`, `cj`.
    CronJob,
    /// `replicaset`, `replicasets`, `rs`.
    ReplicaSet,
    /// `replicationcontroller`, `replicationcontrollers`, `rc`.
    ReplicationController,
    /// `service`, `services`, `svc`.
    Service,
    /// `node`, `nodes`, `no`.
    Node,
}

impl EndpointType {
    const WORDS: [(&'static str, Self); 29] = [
        ("pod", Self::Pod),
        ("pods", Self::Pod),
        ("po", Self::Pod),
        ("deployment", Self::Deployment),
        ("deployments", Self::Deployment),
        ("deploy", Self::Deployment),
        ("statefulset", Self::StatefulSet),
        ("statefulsets", Self::StatefulSet),
        ("sts", Self::StatefulSet),
        ("daemonset", Self::DaemonSet),
        ("daemonsets", Self::DaemonSet),
        ("ds", Self::DaemonSet),
        ("job", Self::Job),
        ("jobs", Self::Job),
        ("cronjob", Self::CronJob),
        ("cronjobs", Self::CronJob),
        ("cj", Self::CronJob),
        ("replicaset", Self::ReplicaSet),
        ("replicasets", Self::ReplicaSet),
        ("rs", Self::ReplicaSet),
        ("replicationcontroller", Self::ReplicationController),
        ("replicationcontrollers", Self::ReplicationController),
        ("rc", Self::ReplicationController),
        ("service", Self::Service),
        ("services", Self::Service),
        ("svc", Self::Service),
        ("node", Self::Node),
        ("nodes", Self::Node),
        ("no", Self::Node),
    ];

    fn from_word(word: &str) -> Option<Self> {
        let lower = word.to_ascii_lowercase();
        Self::WORDS.iter().find(|(known, _)| *known == lower).map(|(_, kind)| *kind)
    }

    /// The API's kind.
    pub const fn kind(self) -> &'static str {
        match self {
            Self::Pod => "Pod",
            Self::Deployment => "Deployment",
            Self::StatefulSet => "StatefulSet",
            Self::DaemonSet => "DaemonSet",
            Self::Job => "Job",
            Self::CronJob => "CronJob",
            Self::ReplicaSet => "ReplicaSet",
            Self::ReplicationController => "ReplicationController",
            Self::Service => "Service",
            Self::Node => "Node",
        }
    }

    /// The type of an API's kind.
    pub fn from_kind(kind: &str) -> Option<Self> {
        Self::WORDS.iter().map(|(_, known)| *known).find(|known| known.kind() == kind)
    }

    /// The short word that messages use.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Pod => "pod",
            Self::Deployment => "deploy",
            Self::StatefulSet => "sts",
            Self::DaemonSet => "ds",
            Self::Job => "job",
            Self::CronJob => "cronjob",
            Self::ReplicaSet => "rs",
            Self::ReplicationController => "rc",
            Self::Service => "svc",
            Self::Node => "node",
        }
    }
}

/// An endpoint as written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EndpointRef {
    /// An IP address.
    Address(IpAddr),
    /// Something with a name.
    Named {
        /// `TYPE/`.
        kind: Option<EndpointType>,
        /// `NS/`.
        namespace: Option<String>,
        /// `NAME`.
        name: String,
    },
}

/// What an endpoint is in a cluster. A pod with the host's network stays a pod here: what policies make of it is
/// theirs to say.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ResolvedEnd {
    /// A pod.
    Pod(ObjectKey),
    /// A node.
    Node(String),
    /// An address, whoever has it.
    Address(IpAddr),
    /// A Service.
    Service(ObjectKey),
}

/// A text that is no endpoint, port or protocol.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RefError {
    /// Nothing where a name should be.
    #[error("`{text}` names nothing: write [TYPE/][NAMESPACE/]NAME or an IP address")]
    Empty {
        /// As written.
        text: String,
    },
    /// Too many parts.
    #[error("`{text}` has too many parts: write [TYPE/][NAMESPACE/]NAME")]
    TooManyParts {
        /// As written.
        text: String,
    },
    /// The first of three parts is no type.
    #[error("`{word}` in `{text}` is no type: use pod, deploy, sts, ds, job, cronjob, rs, rc, svc or node")]
    UnknownType {
        /// As written.
        text: String,
        /// The part.
        word: String,
    },
    /// A node with a namespace.
    #[error("nodes have no namespace: write node/{name}")]
    NodeInNamespace {
        /// The node's name.
        name: String,
    },
    /// A port behind the name, where none can stand.
    #[error("`{text}`: no name has a `:`; write `{name}`, and its port `{port}` by itself")]
    PortInName {
        /// As written.
        text: String,
        /// What is before the colon.
        name: String,
        /// What is behind it.
        port: String,
    },
    /// A port behind the name, and another by itself.
    #[error("the port is {behind} in `{destination}`, and {alone} by itself")]
    TwoPorts {
        /// As written.
        destination: String,
        /// The one behind the colon.
        behind: String,
        /// The other.
        alone: String,
    },
    /// Not a port.
    #[error(
        "`{text}` is no port: write a number from 1 to 65535 or a port's name, as in 5432/tcp, 53/udp or http"
    )]
    Port {
        /// As written.
        text: String,
    },
    /// Not a protocol.
    #[error("`{text}` is no protocol: write tcp, udp, sctp, icmp or a protocol number")]
    Protocol {
        /// As written.
        text: String,
    },
}

/// An endpoint that is not in the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("no {what} `{name}` in {place}")]
pub struct ResolveError {
    /// What was looked for: `pod or workload`, `Service`, …
    pub what: String,
    /// Its name.
    pub name: String,
    /// `namespace shop`, or `the cluster`.
    pub place: String,
    /// What could have been meant, best first, each a complete endpoint.
    pub nearest: Vec<String>,
}

impl FromStr for EndpointRef {
    type Err = RefError;

    fn from_str(text: &str) -> Result<Self, RefError> {
        if let Ok(address) = text.trim_matches(['[', ']']).parse() {
            return Ok(Self::Address(address));
        }
        if let Some((name, port)) = text.split_once(':') {
            let [text, name, port] = [text, name, port].map(str::to_owned);
            return Err(RefError::PortInName { text, name, port });
        }
        let parts: Vec<&str> = text.split('/').collect();
        if parts.iter().any(|part| part.trim().is_empty()) {
            return Err(RefError::Empty { text: text.to_owned() });
        }
        let (kind, namespace, name) = match parts.as_slice() {
            [name] => (None, None, *name),
            // `pod/web` is a pod; a namespace called `pod` needs the long form.
            [first, name] => match EndpointType::from_word(first) {
                Some(kind) => (Some(kind), None, *name),
                None => (None, Some((*first).to_owned()), *name),
            },
            [word, namespace, name] => match EndpointType::from_word(word) {
                Some(kind) => (Some(kind), Some((*namespace).to_owned()), *name),
                None => {
                    return Err(RefError::UnknownType { text: text.to_owned(), word: (*word).to_owned() });
                }
            },
            _ => return Err(RefError::TooManyParts { text: text.to_owned() }),
        };
        if kind == Some(EndpointType::Node) && namespace.is_some() {
            return Err(RefError::NodeInNamespace { name: name.to_owned() });
        }
        Ok(Self::Named { kind, namespace, name: name.to_owned() })
    }
}

impl fmt::Display for EndpointRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => write!(f, "{address}"),
            Self::Named { kind, namespace, name } => {
                if let Some(kind) = kind {
                    write!(f, "{}/", kind.word())?;
                }
                if let Some(namespace) = namespace {
                    write!(f, "{namespace}/")?;
                }
                f.write_str(name)
            }
        }
    }
}

/// A destination as written: an endpoint, and perhaps its port behind a colon, as in `svc/shop/db:5432`,
/// `svc/kube-system/kube-dns:dns/udp` or `[fd00::1]:53`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DestinationRef {
    /// Who is meant.
    pub endpoint: EndpointRef,
    /// `:PORT`.
    pub port: Option<PortRef>,
}

impl DestinationRef {
    /// The port that is meant, which stands behind the destination or by itself.
    ///
    /// # Errors
    /// [`RefError::TwoPorts`] when those are two.
    pub fn port<'p>(&'p self, alone: Option<&'p PortRef>) -> Result<Option<&'p PortRef>, RefError> {
        match (&self.port, alone) {
            (Some(behind), Some(alone)) if behind != alone => Err(RefError::TwoPorts {
                destination: self.to_string(),
                behind: behind.to_string(),
                alone: alone.to_string(),
            }),
            (behind, alone) => Ok(behind.as_ref().or(alone)),
        }
    }
}

impl FromStr for DestinationRef {
    type Err = RefError;

    fn from_str(text: &str) -> Result<Self, RefError> {
        // An IPv6 address alone is all colons.
        let whole = text.trim_matches(['[', ']']).parse::<IpAddr>().is_ok();
        let split = match text.strip_prefix('[').and_then(|text| text.split_once("]:")) {
            Some(split) => Some(split),
            None => text.split_once(':'),
        };
        match split.filter(|_| !whole) {
            Some((endpoint, port)) => Ok(Self { endpoint: endpoint.parse()?, port: Some(port.parse()?) }),
            None => Ok(Self { endpoint: text.parse()?, port: None }),
        }
    }
}

impl fmt::Display for DestinationRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.endpoint, &self.port) {
            (endpoint, None) => write!(f, "{endpoint}"),
            (EndpointRef::Address(IpAddr::V6(address)), Some(port)) => write!(f, "[{address}]:{port}"),
            (endpoint, Some(port)) => write!(f, "{endpoint}:{port}"),
        }
    }
}

impl fmt::Display for ResolvedEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pod(key) => write!(f, "{key}"),
            Self::Node(name) => write!(f, "node/{name}"),
            Self::Address(address) => write!(f, "{address}"),
            Self::Service(key) => write!(f, "svc/{key}"),
        }
    }
}

impl EndpointRef {
    /// What is meant: one end, or all pods of a workload, sorted.
    ///
    /// Without a type it is a pod of that name, else a workload of that name.
    ///
    /// # Errors
    /// When nothing of that name is there, with the nearest names that are.
    pub fn resolve(
        &self,
        cluster: &Cluster,
        default_namespace: &str,
    ) -> Result<Vec<ResolvedEnd>, ResolveError> {
        let (kind, namespace, name) = match self {
            Self::Address(address) => return Ok(vec![ResolvedEnd::Address(*address)]),
            Self::Named { kind, namespace, name } => {
                (*kind, namespace.as_deref().unwrap_or(default_namespace), name.as_str())
            }
        };
        let key = ObjectKey::new(namespace, name);
        let pod = || cluster.pods.contains_key(&key).then(|| vec![ResolvedEnd::Pod(key.clone())]);
        let found = match kind {
            Some(EndpointType::Node) => {
                cluster.nodes.contains_key(name).then(|| vec![ResolvedEnd::Node(name.to_owned())])
            }
            Some(EndpointType::Service) => {
                cluster.services.contains_key(&key).then(|| vec![ResolvedEnd::Service(key.clone())])
            }
            Some(EndpointType::Pod) => pod(),
            Some(kind) => pods_of(cluster, &key, Some(kind)),
            None => pod().or_else(|| pods_of(cluster, &key, None)),
        };
        found.ok_or_else(|| ResolveError {
            what: kind.map_or("pod or workload", EndpointType::kind).to_owned(),
            name: name.to_owned(),
            place: match kind {
                Some(EndpointType::Node) => "the cluster".to_owned(),
                _ => format!("namespace {namespace}"),
            },
            nearest: nearest(cluster, kind, &key),
        })
    }
}

/// Pods of the workloads with this name, of one kind or of any. Those that have finished are meant only where there are no
/// others: their addresses may be somebody else's by now.
fn pods_of(cluster: &Cluster, workload: &ObjectKey, kind: Option<EndpointType>) -> Option<Vec<ResolvedEnd>> {
    let is_it = |candidate: &WorkloadRef| {
        candidate.name == workload.name && kind.is_none_or(|kind| kind.kind() == candidate.kind)
    };
    let pods: Vec<(&ObjectKey, &Pod)> =
        in_namespace(cluster, &workload.namespace).filter(|(_, pod)| workloads(pod).any(is_it)).collect();
    let any_runs = pods.iter().any(|(_, pod)| !pod.terminal);
    let meant = pods.into_iter().filter(|(_, pod)| !(any_runs && pod.terminal));
    let found: Vec<ResolvedEnd> = meant.map(|(key, _)| ResolvedEnd::Pod(key.clone())).collect();
    (!found.is_empty()).then_some(found)
}

fn in_namespace<'c>(
    cluster: &'c Cluster,
    namespace: &'c str,
) -> impl Iterator<Item = (&'c ObjectKey, &'c Pod)> {
    cluster.pods.range(ObjectKey::new(namespace, "")..).take_while(move |(key, _)| key.namespace == namespace)
}

fn workloads(pod: &Pod) -> impl Iterator<Item = &WorkloadRef> {
    pod.owner.iter().chain(&pod.controller)
}

/// Endpoints that could have been meant: the same name elsewhere or of another type, then the nearest names.
fn nearest(cluster: &Cluster, kind: Option<EndpointType>, wanted: &ObjectKey) -> Vec<String> {
    const MOST: usize = 3;
    let mut candidates: BTreeSet<(&str, &str, Option<EndpointType>)> = BTreeSet::new();
    for (key, pod) in &cluster.pods {
        let of_kind = |workload: &&WorkloadRef| kind.is_none_or(|kind| kind.kind() == workload.kind);
        candidates.extend(
            workloads(pod)
                .filter(of_kind)
                .map(|workload| (key.namespace.as_str(), workload.name.as_str(), kind)),
        );
        if matches!(kind, None | Some(EndpointType::Pod)) {
            candidates.insert((&key.namespace, &key.name, kind));
        }
    }
    // A Service is what people often have the name of.
    let services =
        cluster.services.keys().filter(|key| kind == Some(EndpointType::Service) || key.name == wanted.name);
    candidates
        .extend(services.map(|key| (key.namespace.as_str(), key.name.as_str(), Some(EndpointType::Service))));
    let nodes = cluster.nodes.keys().filter(|name| kind == Some(EndpointType::Node) || **name == wanted.name);
    candidates.extend(nodes.map(|name| ("", name.as_str(), Some(EndpointType::Node))));

    let mut ranked: Vec<(bool, usize, bool, String)> = candidates
        .into_iter()
        .filter_map(|(namespace, name, kind)| {
            let distance = strsim::osa_distance(name, &wanted.name);
            let contained = name.contains(&wanted.name);
            let elsewhere = namespace != wanted.namespace;
            let near = distance <= 1 + wanted.name.chars().count() / 4 || (contained && !elsewhere);
            let namespace = Some(namespace).filter(|namespace| !namespace.is_empty()).map(str::to_owned);
            let endpoint = EndpointRef::Named { kind, namespace, name: name.to_owned() };
            near.then(|| (distance > 0, distance, elsewhere, endpoint.to_string()))
        })
        .collect();
    ranked.sort();
    ranked.into_iter().take(MOST).map(|(.., endpoint)| endpoint).collect()
}

/// A port as written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PortRef {
    /// Number or name.
    pub port: PortName,
    /// `/tcp`; TCP is the default, but a caller may know better.
    pub protocol: Option<Protocol>,
}

impl PortRef {
    /// The protocol's and the port's number, where both are written.
    pub fn number(&self) -> Option<(u8, u16)> {
        match (&self.port, self.protocol) {
            (PortName::Number(port), Some(protocol)) => Some((protocol.number(), *port)),
            _ => None,
        }
    }
}

/// A port's number, or its name on the destination.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PortName {
    /// 1 to 65535.
    Number(u16),
    /// A container port's name.
    Name(String),
}

impl FromStr for PortRef {
    type Err = RefError;

    fn from_str(text: &str) -> Result<Self, RefError> {
        let (port, protocol) = match text.split_once('/') {
            Some((port, protocol)) => match protocol.parse()? {
                ProtocolRef::Ports(protocol) => (port, Some(protocol)),
                ProtocolRef::Icmp | ProtocolRef::Other(_) => {
                    return Err(RefError::Port { text: text.to_owned() });
                }
            },
            None => (text, None),
        };
        let named = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let port = match port.parse::<u16>() {
            Ok(number) if number != 0 => PortName::Number(number),
            Err(_) if port.chars().all(named) && port.contains(|c: char| c.is_ascii_lowercase()) => {
                PortName::Name(port.to_owned())
            }
            _ => return Err(RefError::Port { text: text.to_owned() }),
        };
        Ok(Self { port, protocol })
    }
}

impl fmt::Display for PortRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.port {
            PortName::Number(number) => write!(f, "{number}")?,
            PortName::Name(name) => f.write_str(name)?,
        }
        self.protocol.map_or(Ok(()), |protocol| write!(f, "/{}", protocol.lower()))
    }
}

/// A protocol as written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtocolRef {
    /// One that has ports.
    Ports(Protocol),
    /// ICMP, or ICMPv6 between IPv6 addresses.
    Icmp,
    /// Another, by its IP protocol number.
    Other(u8),
}

impl FromStr for ProtocolRef {
    type Err = RefError;

    fn from_str(text: &str) -> Result<Self, RefError> {
        let by_name = Protocol::ALL.into_iter().find(|protocol| protocol.lower().eq_ignore_ascii_case(text));
        if let Some(protocol) = by_name {
            return Ok(Self::Ports(protocol));
        }
        if ["icmp", "icmpv6", "icmp6", "ping"].iter().any(|name| name.eq_ignore_ascii_case(text)) {
            return Ok(Self::Icmp);
        }
        let number: u8 = text.parse().map_err(|_| RefError::Protocol { text: text.to_owned() })?;
        let by_number = Protocol::ALL.into_iter().find(|protocol| protocol.number() == number);
        Ok(match (by_number, number) {
            (Some(protocol), _) => Self::Ports(protocol),
            (None, 1 | 58) => Self::Icmp,
            (None, number) => Self::Other(number),
        })
    }
}

impl fmt::Display for ProtocolRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ports(protocol) => f.write_str(protocol.lower()),
            Self::Icmp => f.write_str("icmp"),
            Self::Other(number) => write!(f, "{number}"),
        }
    }
}
