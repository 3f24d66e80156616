//! From the command line's packet to a question about a loaded cluster.
//!
//! Invariant: a name that is not there is an error that suggests the nearest one; nothing is asked about a name
//! that was not understood.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;

use netlab_core::diagnostic::Severity;
use netlab_core::endpoint_ref::{EndpointRef, PortName, PortRef, ProtocolRef};
use netlab_core::input::Loaded;
use netlab_core::model::cluster::{Cluster, ObjectKey};
use netlab_core::model::port::Protocol;
use netlab_core::policy::backends::{Backend, ServiceError};
use netlab_core::policy::clash::rivals;
use netlab_core::policy::frontends::node_port;
use netlab_core::policy::headless::{Behind, behind};
use netlab_core::policy::query::{End, Query, Service, pairs, policed_pod};
use netlab_core::policy::{Compiled, Limits, Numbers, Scope, compile_with};
use netlab_core::service::{left_out, unknown_hints};
use serde::Serialize;

use crate::args::globals::Globals;
use crate::args::packet::PacketArgs;
use crate::ends;
use crate::failure::Failure;

/// A question and how it was put.
#[derive(Debug)]
pub(crate) struct Question {
    /// What is asked.
    pub(crate) query: Query,
    /// In the user's words.
    pub(crate) asked: Asked,
    /// The Service that was named as the destination, and what its name hides.
    pub(crate) service: Option<NamedService>,
}

/// A Service as the destination.
#[derive(Debug)]
pub(crate) struct NamedService {
    /// Which, and others that have the address that it was named by.
    keys: Vec<ObjectKey>,
    /// Clients know its pods' own addresses: no proxy is between them.
    pub(crate) headless: bool,
    /// The addresses by which it is asked.
    pub(crate) addresses: Vec<IpAddr>,
    /// What to say about it.
    pub(crate) notes: Vec<String>,
}

/// The question as answers repeat it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Asked {
    /// Who opens.
    pub(crate) from: String,
    /// To whom.
    pub(crate) to: String,
    /// `TCP`, `UDP`, `SCTP`, `ICMP` or a number.
    pub(crate) protocol: String,
    /// A number or a name, if the protocol has ports.
    pub(crate) port: Option<serde_json::Value>,
}

impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} -> {} ", self.from, self.to)?;
        let protocol = self.protocol.to_lowercase();
        match &self.port {
            Some(serde_json::Value::String(name)) => write!(f, "{name}/{protocol}"),
            Some(number) => write!(f, "{number}/{protocol}"),
            None if protocol.chars().all(|c| c.is_ascii_digit()) => write!(f, "protocol {protocol}"),
            None => f.write_str(&protocol),
        }
    }
}

impl Question {
    /// The question that the arguments put to this cluster.
    pub(crate) fn new(args: &PacketArgs, globals: &Globals, cluster: &Cluster) -> Result<Self, Failure> {
        let wanted = ends::port(&args.to, args.port.as_ref())?;
        let (from_text, from) = ends::resolve("--from", &args.from, globals, cluster)?;
        let (to_text, mut to) = ends::resolve("--to", &args.to.endpoint, globals, cluster)?;
        let service = ends::service_named(&args.to.endpoint, wanted, globals, cluster);
        if let (Some(key), EndpointRef::Address(address)) = (&service, &args.to.endpoint)
            && let Some(why) = untranslated(args, wanted, cluster, key)
        {
            let to = vec![End::Address(*address)];
            let keys = vec![key.clone()];
            let service = NamedService { keys, headless: false, addresses: vec![*address], notes: vec![why] };
            return Self::plain(args, wanted, cluster, (from_text, from), (to_text, to), Some(service));
        }
        if let Some(key) = service {
            let Behind { port, protocol, backends: mut behind, note } =
                behind_service(args, wanted, cluster, &key)?;
            let found = cluster.services.get(&key);
            let addresses = match &args.to.endpoint {
                EndpointRef::Address(address) => Some(vec![*address]),
                EndpointRef::Named { .. } => found.map(|found| found.cluster_ips.clone()),
            };
            let addresses = addresses.unwrap_or_default();
            let headless = found.is_some_and(|found| found.headless);
            let mut notes = note.map_or_else(
                || if headless { Vec::new() } else { about_service(&key, port, &behind) },
                |note| vec![note],
            );
            let mut of_address = vec![&key];
            for (rival, others) in rivals(cluster, &key, &addresses, (port, protocol)) {
                notes.extend(about_service(rival, port, &others));
                behind.extend(others);
                of_address.push(rival);
            }
            notes.splice(0..0, ends::about_address(&args.to.endpoint, &of_address));
            behind.sort();
            behind.dedup();
            to = behind
                .iter()
                .map(|backend| backend.end.clone())
                .collect::<BTreeSet<_>>()
                .into_iter()
                .collect();
            let published = wanted.map_or(PortName::Number(port), |wanted| wanted.port.clone());
            let asked = Asked {
                from: from_text,
                to: to_text,
                protocol: protocol.as_str().to_owned(),
                port: Some(value(&published)),
            };
            let unaddressed = found.filter(|found| addresses.is_empty() && found.awaits_cluster_ip());
            notes.extend(unaddressed.map(|found| {
                let of = if found.internal_local { ", of all nodes, though it has internalTrafficPolicy Local" } else { "" };
                format!(
                    "svc/{key} has no cluster IP in the input: its endpoints are asked by their own addresses{of}; no proxy is met"
                )
            }));
            let unaddressed = unaddressed.map(|_| key.clone());
            let keys: Vec<ObjectKey> = of_address.into_iter().cloned().collect();
            if behind.is_empty() {
                let of = |key: &ObjectKey| Some(left_out(cluster, key, cluster.services.get(key)?));
                notes.extend(keys.iter().filter_map(of).flatten());
            }
            let named = NamedService { keys, headless, addresses: addresses.clone(), notes };
            let leads_nowhere = behind.is_empty() && !headless && !addresses.is_empty();
            let service = if leads_nowhere {
                // To policies of the source it is then an ordinary address.
                to = addresses.into_iter().map(End::Address).collect();
                Service::Port { protocol: protocol.number(), port }
            } else {
                Service::Backends { all: behind, addresses, port, unaddressed }
            };
            return Ok(Self { query: Query { from, to, service }, asked, service: Some(named) });
        }
        Self::plain(args, wanted, cluster, (from_text, from), (to_text, to), None)
    }

    /// A question about ends as they are.
    fn plain(
        args: &PacketArgs,
        wanted: Option<&PortRef>,
        cluster: &Cluster,
        (from_text, from): (String, Vec<End>),
        (to_text, to): (String, Vec<End>),
        named: Option<NamedService>,
    ) -> Result<Self, Failure> {
        let service = service(args, wanted, cluster, &to)?;
        let (protocol, port) = match &service {
            Service::Port { protocol, port } => (name_of(*protocol), Some((*port).into())),
            Service::Name { protocol, name } => (name_of(*protocol), Some(name.as_str().into())),
            Service::Icmp => ("ICMP".to_owned(), None),
            Service::Other(number) => (number.to_string(), None),
            // Only a named Service has backends, and that was answered above.
            Service::Backends { .. } => ("TCP".to_owned(), None),
        };
        let asked = Asked { from: from_text, to: to_text, protocol, port };
        Ok(Self { query: Query { from, to, service }, asked, service: named })
    }

    /// Compiles what the question is about.
    pub(crate) fn compile(&self, loaded: &Loaded) -> Result<Compiled, Failure> {
        compile(loaded, &Scope::Pods(self.pods(&loaded.cluster)))
    }
}

impl Question {
    /// What is not known of the endpoints of Services that it meets, in words; hints only where `some` of the endpoints may be
    /// judged otherwise than others, as nobody uses more for them.
    pub(crate) fn unknown_endpoints(&self, cluster: &Cluster, some: bool) -> Vec<String> {
        // Seldom, and there may be many questions.
        let is_there = |node: &String| cluster.nodes.get(node).is_some_and(|node| node.declared);
        if cluster.pods.values().all(|pod| pod.node.as_ref().is_none_or(is_there))
            && !cluster.services.values().any(|service| service.topology_auto)
        {
            return Vec::new();
        }
        let (pairs, _) = pairs(cluster, &self.query);
        let named = self.service.iter().flat_map(|service| service.keys.iter().cloned());
        let met = pairs.iter().filter_map(|pair| match &pair.via {
            Some(via) => {
                let (namespace, name) = via.service.split_once(':')?.0.split_once('/')?;
                Some(ObjectKey::new(namespace, name))
            }
            // One whose endpoints are all unknown is not translated.
            None => node_port(cluster, pair.tuple.destination_port, None)
                .filter(|_| matches!(pair.to, End::Node(_)))
                .cloned(),
        });
        let services: BTreeSet<ObjectKey> = named.chain(met).collect();
        let of = |key: &ObjectKey| {
            let Some(service) = cluster.services.get(key) else { return Vec::new() };
            let mut unknown = left_out(cluster, key, service);
            unknown.extend(unknown_hints(cluster, key, service).filter(|_| some));
            unknown
        };
        services.iter().flat_map(of).collect()
    }

    /// The pods whose tables it needs: those that it names, and those behind an address of a Service.
    pub(crate) fn pods(&self, cluster: &Cluster) -> BTreeSet<ObjectKey> {
        let (pairs, _) = pairs(cluster, &self.query);
        let named = self.query.from.iter().chain(&self.query.to);
        let behind = pairs.iter().map(|pair| &pair.to);
        named.chain(behind).filter_map(|end| policed_pod(cluster, end)).collect()
    }
}

fn value(port: &PortName) -> serde_json::Value {
    match port {
        PortName::Number(number) => (*number).into(),
        PortName::Name(name) => name.as_str().into(),
    }
}

/// Why nothing that is asked for is translated at an address of a Service: it has no such port, or the protocol has none.
fn untranslated(
    args: &PacketArgs,
    port: Option<&PortRef>,
    cluster: &Cluster,
    key: &ObjectKey,
) -> Option<String> {
    let why = match (args.proto, port) {
        (Some(ProtocolRef::Icmp | ProtocolRef::Other(_)), None) => {
            format!("svc/{key} forwards ports, and that protocol has none")
        }
        (proto, Some(port @ PortRef { port: PortName::Number(_), .. })) => {
            let mut wanted = port.clone();
            if let Some(ProtocolRef::Ports(protocol)) = proto {
                wanted.protocol.get_or_insert(protocol);
            }
            match behind(cluster, key, Some(&wanted)) {
                Err(error @ ServiceError::NoSuchPort { .. }) => error.to_string(),
                _ => return None,
            }
        }
        _ => return None,
    };
    Some(format!("{why}: to policies of the client its address is any other"))
}

/// What is behind the port of a Service that the arguments mean.
fn behind_service(
    args: &PacketArgs,
    port: Option<&PortRef>,
    cluster: &Cluster,
    key: &ObjectKey,
) -> Result<Behind, Failure> {
    let mut wanted = port.cloned();
    match (args.proto, wanted.as_mut()) {
        (Some(ProtocolRef::Icmp | ProtocolRef::Other(_)), _) => {
            return Err(Failure::unreadable(format!(
                "`--to {}`: a Service forwards ports, and that protocol has none",
                args.to
            ))
            .hint("name a pod behind it"));
        }
        (Some(ProtocolRef::Ports(protocol)), Some(port)) => {
            if port.protocol.is_some_and(|spoken| spoken != protocol) {
                return Err(
                    Failure::unreadable("`--port` and `--proto` contradict").hint("leave one of them out")
                );
            }
            port.protocol = Some(protocol);
        }
        _ => {}
    }
    behind(cluster, key, wanted.as_ref()).map_err(|error| ends::unusable("--to", &args.to.endpoint, &error))
}

/// What the name of a Service hides: that it leads nowhere, or to another port.
fn about_service(key: &ObjectKey, port: u16, behind: &[Backend]) -> Vec<String> {
    if behind.is_empty() {
        return vec![format!(
            "svc/{key} has no endpoint for port {port}: to policies of the client its address is any other"
        )];
    }
    let ports: BTreeSet<u16> = behind.iter().map(|backend| backend.port).collect();
    if ports.iter().eq([&port]) {
        return Vec::new();
    }
    let ports: Vec<String> = ports.iter().map(u16::to_string).collect();
    vec![format!(
        "port {port} of svc/{key} is port {} of its pods, which is the one that policies see",
        ports.join(" or ")
    )]
}

/// Compiles for analysis: no limit but the map layout's.
pub(crate) fn compile(loaded: &Loaded, scope: &Scope) -> Result<Compiled, Failure> {
    checked(loaded, scope, &Numbers::default(), &Limits::layout_only())
}

/// Compiles for a node's maps, on top of the numbers of earlier compilations.
pub(crate) fn compile_on(loaded: &Loaded, scope: &Scope, numbers: &Numbers) -> Result<Compiled, Failure> {
    checked(loaded, scope, numbers, &Limits::default())
}

fn checked(loaded: &Loaded, scope: &Scope, numbers: &Numbers, limits: &Limits) -> Result<Compiled, Failure> {
    let compiled = compile_with(&loaded.cluster, &loaded.policies, scope, numbers, limits);
    let refused = compiled.diagnostics.iter().filter(|finding| finding.severity == Severity::Error).count();
    if refused == 0 {
        return Ok(compiled);
    }
    let mut about = loaded.clone();
    about.diagnostics = compiled.diagnostics;
    Err(Failure::unreadable(match refused {
        1 => "1 policy does not fit into the tables".to_owned(),
        _ => format!("{refused} policies do not fit into the tables"),
    })
    .about(about))
}

fn name_of(protocol: u8) -> String {
    Protocol::ALL
        .into_iter()
        .find(|known| known.number() == protocol)
        .map_or_else(|| protocol.to_string(), |known| known.as_str().to_owned())
}

fn service(
    args: &PacketArgs,
    port: Option<&PortRef>,
    cluster: &Cluster,
    to: &[End],
) -> Result<Service, Failure> {
    let Some(PortRef { port, protocol }) = port else {
        return match args.proto {
            Some(ProtocolRef::Icmp) => Ok(Service::Icmp),
            Some(ProtocolRef::Other(number)) => Ok(Service::Other(number)),
            Some(ProtocolRef::Ports(protocol)) => {
                Err(Failure::unreadable(format!("`--proto {}` needs a port", protocol.lower()))
                    .hint(format!("as in `--port 443/{}`", protocol.lower())))
            }
            None => Err(Failure::unreadable("no `--port` was given")
                .hint("as in `--port 5432/tcp`, `--port 53/udp` or `--proto icmp`")),
        };
    };
    let spoken = match (args.proto, protocol) {
        (Some(ProtocolRef::Icmp | ProtocolRef::Other(_)), _) => {
            return Err(Failure::unreadable("`--port` and `--proto` contradict: that protocol has no ports")
                .hint("leave one of them out"));
        }
        (Some(ProtocolRef::Ports(one)), Some(other)) if one != *other => {
            return Err(Failure::unreadable(format!(
                "`--port …/{}` and `--proto {}` contradict",
                other.lower(),
                one.lower()
            ))
            .hint("leave one of them out"));
        }
        (Some(ProtocolRef::Ports(protocol)), _) => Some(protocol),
        (None, protocol) => *protocol,
    };
    Ok(match port {
        PortName::Number(port) => {
            Service::Port { protocol: spoken.unwrap_or_default().number(), port: *port }
        }
        PortName::Name(name) => {
            let protocol = named(cluster, to, name, spoken)?;
            Service::Name { protocol: protocol.number(), name: name.clone() }
        }
    })
}

/// The protocol under which a destination has a port of this name: the one that was said, if any.
fn named(cluster: &Cluster, to: &[End], name: &str, spoken: Option<Protocol>) -> Result<Protocol, Failure> {
    let pods: Vec<_> = to
        .iter()
        .filter_map(|end| match end {
            End::Pod(key) => cluster.pods.get(key),
            End::Node(_) | End::Address(_) => None,
        })
        .collect();
    let ports = || pods.iter().flat_map(|pod| &pod.ports);
    let has = |protocol: &Protocol| {
        ports().any(|port| port.protocol == *protocol && port.name.as_deref() == Some(name))
    };
    let by_name = Protocol::ALL.into_iter().find(has);
    if let (Some(spoken), Some(other)) = (spoken.filter(|spoken| !has(spoken)), by_name) {
        let what = format!("the destination has no {} port named `{name}`", spoken.as_str());
        return Err(Failure::unreadable(what).hint(format!("did you mean `{name}/{}`?", other.lower())));
    }
    spoken.filter(has).or(by_name).ok_or_else(|| {
        let known: BTreeSet<&str> = ports().filter_map(|port| port.name.as_deref()).collect();
        let failure = Failure::unreadable(format!("the destination has no port named `{name}`"));
        match ends::nearest(name, known.iter().copied()) {
            Some(near) => failure.hint(format!("did you mean `{near}`?")),
            None if known.is_empty() => failure.hint("its ports have no names: give a number"),
            None => failure.hint(format!("it has {}", known.into_iter().collect::<Vec<_>>().join(", "))),
        }
    })
}
