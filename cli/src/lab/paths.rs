//! The four ways by which containers talk, tried in a lab: within a pod, on a node, across nodes, through a Service.
//!
//! Invariant: only what the policies in force admit is tried, so that what fails is not policy's doing; where they admit
//! nothing, that is said. The lab gives the packets and the kernel's words, the Service model what is wrong with rules.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use netlab_core::model::cluster::{Cluster, ObjectKey};
use netlab_core::model::port::Protocol;
use netlab_core::model::service::AddressType;
use netlab_core::policy::Rulesets;
use netlab_core::policy::evaluate::{Outcome, evaluate_on};
use netlab_core::policy::query::{End, Query, Service};
use netlab_core::policy::trial::Trial;
use netlab_core::service::expected::{ExpectedPort, expected, expected_of};
use netlab_core::service::iptables;
use netlab_core::service::nftables;
use netlab_core::service::trace::{Rules, trace};
use netlab_lab::paths::{Attempt, Became, evidence, listen};
use netlab_lab::proxy::{self, ProxyMode};
use netlab_lab::{Lab, Place};
use serde::{Deserialize, Serialize};

use crate::enforcement::chain;

/// The port of pods that name none.
const ANY_PORT: u16 = 8080;
/// `.` NS: whoever speaks DNS answers.
const QUESTION: [u8; 17] = [0x6e, 0x6c, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 1];

/// A way of talking.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Path {
    /// Containers of one pod, over its loopback.
    ContainerToContainer,
    /// Pods of one node.
    PodToPodSameNode,
    /// Pods of two nodes.
    PodToPodAcrossNodes,
    /// A pod and a Service.
    PodToService,
}

impl Path {
    /// All of them.
    pub(crate) const ALL: [Self; 4] =
        [Self::ContainerToContainer, Self::PodToPodSameNode, Self::PodToPodAcrossNodes, Self::PodToService];

    /// For people.
    pub(crate) const fn words(self) -> &'static str {
        match self {
            Self::ContainerToContainer => "container-container",
            Self::PodToPodSameNode => "pod-pod, one node",
            Self::PodToPodAcrossNodes => "pod-pod, two nodes",
            Self::PodToService => "pod-Service",
        }
    }
}

/// Something that was tried.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Tried {
    /// On which way.
    pub(crate) path: Path,
    /// Who opened it.
    pub(crate) from: String,
    /// To whom.
    pub(crate) to: String,
    /// The address that was asked.
    pub(crate) address: SocketAddr,
    /// TCP or UDP.
    pub(crate) protocol: Protocol,
    /// Whether it came about.
    pub(crate) ok: bool,
    /// How long it took.
    pub(crate) milliseconds: Option<f64>,
    /// What the kernel said when it did not.
    pub(crate) said: Option<String>,
    /// What was seen about it when it did not.
    pub(crate) evidence: Vec<Evidence>,
}

/// Something that was seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Evidence {
    /// `dropped`, `route`, `neighbour`, `proxy` or `endpoints`.
    pub(crate) kind: String,
    /// Where.
    pub(crate) place: String,
    /// What.
    pub(crate) said: String,
}

/// What was tried, and what could not be.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Walked {
    pub(crate) tried: Vec<Tried>,
    /// By way, why nothing was tried.
    pub(crate) not_examined: Vec<String>,
}

/// A pod that can take part.
struct Member<'a> {
    key: &'a ObjectKey,
    place: Place,
    node: String,
    address: IpAddr,
    ports: Vec<u16>,
}

/// What policies say.
pub(super) struct Judge<'a> {
    cluster: &'a Cluster,
    rulesets: Option<(&'a Rulesets, Trial)>,
}

impl<'a> Judge<'a> {
    pub(super) fn new(cluster: &'a Cluster, rulesets: Option<&'a Rulesets>) -> Result<Self, String> {
        let with_trial = |rulesets| Trial::new(rulesets).map(|trial| (rulesets, trial));
        let rulesets = rulesets.map(with_trial).transpose().map_err(|error| chain(&error))?;
        Ok(Self { cluster, rulesets })
    }

    fn admits(&self, from: &ObjectKey, to: &ObjectKey, protocol: Protocol, port: u16) -> bool {
        let Some((rulesets, trial)) = &self.rulesets else { return true };
        let query = Query {
            from: vec![End::Pod(from.clone())],
            to: vec![End::Pod(to.clone())],
            service: Service::Port { protocol: protocol.number(), port },
        };
        evaluate_on(self.cluster, rulesets, trial, &query).verdict == Outcome::Allow
    }
}

/// A check before it is made.
struct Check {
    path: Path,
    from: String,
    to: String,
    protocol: Protocol,
    attempt: Attempt,
    /// Each place on the way, and the address for which it must have a route.
    way: Vec<(Place, IpAddr)>,
    service: Option<(ObjectKey, String)>,
}

/// Tries all four ways.
pub(super) fn walk(lab: &Lab, judge: &Judge<'_>, proxy: Option<ProxyMode>) -> Result<Walked, String> {
    let members = members(lab, judge.cluster);
    let mut walked = Walked::default();
    let mut checks = within(&members);
    pairs(judge, &members, &mut checks, &mut walked.not_examined);
    if proxy.is_some() {
        services(judge, &members, &mut checks, &mut walked.not_examined);
    } else {
        walked
            .not_examined
            .push("pod-Service: the nodes have no rules for Services (`lab up --proxy`)".to_owned());
    }
    // Until all is tried: several checks may have the same taker.
    let _listeners = listen(lab, checks.iter().map(|check| &check.attempt)).map_err(|error| chain(&error))?;
    let outcomes = std::thread::scope(|scope| {
        let threads: Vec<_> = checks.iter().map(|check| scope.spawn(|| check.attempt.run(lab))).collect();
        threads.into_iter().map(std::thread::ScopedJoinHandle::join).collect::<Vec<_>>()
    });
    for (check, outcome) in checks.iter().zip(outcomes) {
        let outcome = outcome.map_err(|_| "an attempt ended in a panic".to_owned())?;
        let mut tried = Tried {
            path: check.path,
            from: check.from.clone(),
            to: check.to.clone(),
            address: check.attempt.to,
            protocol: check.protocol,
            ok: false,
            milliseconds: None,
            said: None,
            evidence: Vec::new(),
        };
        match outcome.map_err(|error| chain(&error))? {
            Became::Answered(time) => {
                (tried.ok, tried.milliseconds) = (true, Some((time.as_secs_f64() * 1e4).round() / 10.0));
            }
            Became::Failed(said) => {
                tried.said = Some(said);
                let seen = evidence(lab, &check.attempt, &check.way).into_iter().map(|seen| Evidence {
                    kind: seen.what.to_owned(),
                    place: seen.place.to_string(),
                    said: seen.said,
                });
                tried.evidence = seen.collect();
                if check.service.is_some() && check.attempt.takers.is_empty() {
                    tried.evidence.push(Evidence {
                        kind: "endpoints".to_owned(),
                        place: check.to.clone(),
                        said: "no endpoint takes its traffic".to_owned(),
                    });
                }
                if let (Some((key, node)), Some(mode)) = (&check.service, proxy) {
                    let port = (check.attempt.to, check.protocol);
                    tried.evidence.extend(rules_of(lab, judge.cluster, key, node, mode, port));
                }
            }
        }
        walked.tried.push(tried);
    }
    Ok(walked)
}

fn members<'a>(lab: &Lab, cluster: &'a Cluster) -> Vec<Member<'a>> {
    let plan = lab.plan();
    let member = |(key, pod): (&'a ObjectKey, &'a netlab_core::model::cluster::Pod)| {
        let place = Place::Pod(key.clone());
        let address = *plan.addresses_of(&place).first()?;
        let node = plan.node_of(&place)?.to_owned();
        let tcp = pod.ports.iter().filter(|port| port.protocol == Protocol::Tcp).map(|port| port.number);
        let mut ports: Vec<u16> = tcp.collect();
        if ports.is_empty() {
            ports.push(ANY_PORT);
        }
        (!pod.host_network).then_some(Member { key, place, node, address, ports })
    };
    cluster.pods.iter().filter_map(member).collect()
}

fn within(members: &[Member<'_>]) -> Vec<Check> {
    let check = |member: &Member<'_>| {
        let ip: IpAddr = if member.address.is_ipv4() {
            [127, 0, 0, 1].into()
        } else {
            [0_u16, 0, 0, 0, 0, 0, 0, 1].into()
        };
        let to = SocketAddr::new(ip, ANY_PORT);
        Check {
            path: Path::ContainerToContainer,
            from: member.key.to_string(),
            to: member.key.to_string(),
            protocol: Protocol::Tcp,
            attempt: Attempt {
                from: member.place.clone(),
                to,
                takers: vec![(member.place.clone(), to)],
                datagram: None,
            },
            way: vec![(member.place.clone(), ip)],
            service: None,
        }
    };
    members.iter().map(check).collect()
}

/// One connection on each node, and one from each node to each other.
fn pairs(judge: &Judge<'_>, members: &[Member<'_>], checks: &mut Vec<Check>, not_examined: &mut Vec<String>) {
    let nodes: BTreeSet<&str> = members.iter().map(|member| member.node.as_str()).collect();
    if nodes.len() < 2 {
        not_examined.push("pod-pod, two nodes: all pods are on one".to_owned());
    }
    for near in &nodes {
        for far in &nodes {
            let path = if near == far { Path::PodToPodSameNode } else { Path::PodToPodAcrossNodes };
            let from = members.iter().filter(|member| member.node == **near);
            let found =
                from.flat_map(|from| members.iter().map(move |to| (from, to))).find_map(|(from, to)| {
                    let fits = to.node == **far
                        && to.key != from.key
                        && to.address.is_ipv4() == from.address.is_ipv4();
                    let mut ports = to.ports.iter().filter(|_| fits);
                    let port = ports.find(|port| judge.admits(from.key, to.key, Protocol::Tcp, **port))?;
                    Some((from, to, *port))
                });
            let Some((from, to, port)) = found else {
                let between =
                    if near == far { format!("on {near}") } else { format!("from {near} to {far}") };
                not_examined.push(format!("{}: the policies let no two pods talk {between}", path.words()));
                continue;
            };
            let target = SocketAddr::new(to.address, port);
            checks.push(Check {
                path,
                from: from.key.to_string(),
                to: to.key.to_string(),
                protocol: Protocol::Tcp,
                attempt: Attempt {
                    from: from.place.clone(),
                    to: target,
                    takers: vec![(to.place.clone(), target)],
                    datagram: None,
                },
                way: way(from, &[to], to.address),
                service: None,
            });
        }
    }
}

/// From each node one TCP port of a Service, and DNS.
fn services(
    judge: &Judge<'_>,
    members: &[Member<'_>],
    checks: &mut Vec<Check>,
    not_examined: &mut Vec<String>,
) {
    let by_address: BTreeMap<IpAddr, &Member<'_>> =
        members.iter().map(|member| (member.address, member)).collect();
    let nodes: BTreeSet<&str> = members.iter().map(|member| member.node.as_str()).collect();
    without_endpoints(judge.cluster, members, checks);
    for node in nodes {
        let ports = expected(judge.cluster, node, AddressType::Ipv4);
        for protocol in [Protocol::Tcp, Protocol::Udp] {
            let wanted = |port: &&ExpectedPort| {
                port.name.protocol == protocol
                    && match protocol {
                        Protocol::Udp => address(port).is_some_and(|to| to.port() == 53),
                        _ => address(port).is_some_and(|to| to.port() != 53),
                    }
            };
            let from = members.iter().filter(|member| member.node == node);
            let found = from
                .flat_map(|from| ports.iter().filter(wanted).map(move |port| (from, port)))
                .find_map(|(from, port)| {
                    let to = address(port)?;
                    let behind: Vec<(SocketAddr, &Member<'_>)> = taking(port)
                        .iter()
                        .map(|endpoint| Some((*endpoint, *by_address.get(&endpoint.ip())?)))
                        .collect::<Option<_>>()?;
                    // A pod that asks itself through a Service is another matter.
                    let fits = !behind.is_empty()
                        && behind.iter().all(|(endpoint, member)| {
                            member.key != from.key
                                && judge.admits(from.key, member.key, protocol, endpoint.port())
                        });
                    fits.then_some((from, port, to, behind))
                });
            let Some((from, port, to, behind)) = found else {
                if protocol == Protocol::Tcp {
                    let words = Path::PodToService.words();
                    not_examined.push(format!(
                        "{words}: no pod on {node} may ask a Service of TCP that has endpoints"
                    ));
                }
                continue;
            };
            let ends: Vec<&Member<'_>> = behind.iter().map(|(_, member)| *member).collect();
            let mut way = vec![(from.place.clone(), to.ip())];
            for end in &ends {
                way.extend(self::way(from, &[end], end.address).into_iter().skip(1));
            }
            way.dedup();
            checks.push(Check {
                path: Path::PodToService,
                from: from.key.to_string(),
                to: format!("svc/{}", port.name.service),
                protocol,
                attempt: Attempt {
                    from: from.place.clone(),
                    to,
                    takers: behind.iter().map(|(address, member)| (member.place.clone(), *address)).collect(),
                    datagram: (protocol == Protocol::Udp).then(|| QUESTION.to_vec()),
                },
                way,
                service: Some((port.name.service.clone(), node.to_owned())),
            });
        }
    }
}

/// Service ports behind which nobody stands, whoever asks.
fn without_endpoints(cluster: &Cluster, members: &[Member<'_>], checks: &mut Vec<Check>) {
    let Some(from) = members.first() else { return };
    for port in expected(cluster, &from.node, AddressType::Ipv4)
        .iter()
        .filter(|port| port.cluster.is_empty() && port.local.is_empty())
    {
        let Some(to) = address(port) else { continue };
        let protocol = port.name.protocol;
        // A lab has the API server's Service, for its name, and no API server.
        let is_api = (&*port.name.service.namespace, &*port.name.service.name) == ("default", "kubernetes");
        if protocol == Protocol::Sctp || is_api {
            continue;
        }
        checks.push(Check {
            path: Path::PodToService,
            from: from.key.to_string(),
            to: format!("svc/{}", port.name.service),
            protocol,
            attempt: Attempt {
                from: from.place.clone(),
                to,
                takers: Vec::new(),
                datagram: (protocol == Protocol::Udp).then(|| QUESTION.to_vec()),
            },
            way: Vec::new(),
            service: Some((port.name.service.clone(), from.node.clone())),
        });
    }
}

/// The endpoints that take what pods of the node ask: those of the node alone, where its traffic has to stay there.
fn taking(port: &ExpectedPort) -> &[SocketAddr] {
    if port.cluster.is_empty() { &port.local } else { &port.cluster }
}

/// The cluster IP and port of a Service's port.
fn address(port: &ExpectedPort) -> Option<SocketAddr> {
    port.frontends.iter().find_map(|frontend| Some(SocketAddr::new(frontend.key.address?, frontend.key.port)))
}

/// The places that a packet passes, and for what each needs a route.
fn way(from: &Member<'_>, to: &[&Member<'_>], address: IpAddr) -> Vec<(Place, IpAddr)> {
    let mut way = vec![(from.place.clone(), address), (Place::Node(from.node.clone()), address)];
    for to in to.iter().filter(|to| to.node != from.node) {
        way.push((Place::Fabric, address));
        way.push((Place::Node(to.node.clone()), address));
    }
    way
}

/// What the Service model finds wrong with a node's rules for a Service.
fn rules_of(
    lab: &Lab,
    cluster: &Cluster,
    key: &ObjectKey,
    node: &str,
    mode: ProxyMode,
    (to, protocol): (SocketAddr, Protocol),
) -> Vec<Evidence> {
    let family = AddressType::of(to.ip());
    let ports = expected_of(cluster, key, node, family);
    let Ok(text) = lab.node(node).and_then(|netns| proxy::list(netns, node, mode, family)) else {
        return Vec::new();
    };
    let rules = match mode {
        ProxyMode::Iptables => iptables::dump::parse(&text).ok().map(|mut dump| {
            dump.of_family(family);
            Rules::Iptables(dump)
        }),
        ProxyMode::Nftables(_) => nftables::dump::parse(&text).ok().map(Rules::Nftables),
    };
    let traced = rules.map(|rules| trace(&rules, &ports, node));
    let place = format!("node/{node}");
    let faults: Vec<String> = traced
        .iter()
        .flat_map(|traced| &traced.ports)
        .filter(|port| port.address == to.to_string() && port.protocol == protocol.as_str())
        .flat_map(|port| port.faults().map(|fault| fault.detail.clone()))
        .collect();
    faults.into_iter().map(|said| Evidence { kind: "proxy".to_owned(), place: place.clone(), said }).collect()
}
