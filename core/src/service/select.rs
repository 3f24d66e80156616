//! Which endpoints of a service port a node's proxy uses.
//!
//! Invariant: the answer is kube-proxy's (`pkg/proxy/topology.go` `CategorizeEndpoints`, 1.33 and later, which 1.36
//! still has): it depends on readiness, places and hints of the endpoints and on nothing else; hints that cannot be
//! used mean all ready endpoints, never none; the order in which endpoints are given does not matter. The fields and
//! annotations that ask for hints are not looked at here: the endpoint slice controller is who reads them. Proxies
//! that are older, or not kube-proxy, may differ.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use serde::Serialize;

/// An endpoint of a service port, merged from all its slices.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Backend {
    /// Where it listens.
    pub address: SocketAddr,
    /// Takes new connections.
    pub ready: bool,
    /// Still answers, though it may be ending.
    pub serving: bool,
    /// Is ending.
    pub terminating: bool,
    /// The node it runs on, when the slice says so.
    pub node: Option<String>,
    /// `hints.forZones`.
    pub zone_hints: Vec<String>,
    /// `hints.forNodes`.
    pub node_hints: Vec<String>,
    /// The pod, when the slice names it.
    pub pod: Option<String>,
}

impl Backend {
    /// Takes new connections where nothing that is ready can.
    #[must_use]
    pub fn is_usable_while_ending(&self) -> bool {
        self.serving && self.terminating
    }
}

/// The node whose proxy is asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeTopology {
    /// Its name.
    pub name: String,
    /// Its label `topology.kubernetes.io/zone`; `None` when absent or empty.
    pub zone: Option<String>,
}

/// What of a Service decides which sets are wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrafficPolicy {
    /// `internalTrafficPolicy: Local`.
    pub internal_local: bool,
    /// `externalTrafficPolicy: Local`.
    pub external_local: bool,
    /// It can be reached from outside: a node port, a balancer's or an external address.
    pub external: bool,
}

impl TrafficPolicy {
    /// True when some traffic goes to endpoints of the whole cluster.
    #[must_use]
    pub const fn uses_cluster(self) -> bool {
        !self.internal_local || self.external
    }

    /// True when some traffic goes to this node's endpoints only.
    #[must_use]
    pub const fn uses_local(self) -> bool {
        self.internal_local || (self.external_local && self.external)
    }
}

/// How the endpoints of the whole cluster were narrowed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Mode {
    /// Not at all.
    #[default]
    All,
    /// To those whose hints name the node's zone.
    Zone,
    /// To those whose hints name the node.
    Node,
}

impl Mode {
    /// In one word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Zone => "zone",
            Self::Node => "node",
        }
    }
}

/// Why the endpoints of the whole cluster are those: one for each way out of the proxy's code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// There is no endpoint at all.
    NoEndpoints,
    /// Only this node's endpoints are wanted.
    LocalOnly,
    /// None is ready, and none that is ending still answers.
    NoneUsable,
    /// None is ready; those that are ending and still answer are used, hints or not.
    Terminating,
    /// No ready endpoint has a hint.
    NoHints,
    /// There are no zone hints, and no ready endpoint is meant for this node.
    NoneForNode(String),
    /// There are no zone hints, and this ready endpoint has no node hint either.
    SomeWithoutNodeHint(SocketAddr),
    /// This ready endpoint has no hint, so no hint is used.
    SomeWithoutHint(SocketAddr),
    /// The node has no zone label, so zone hints say nothing about it.
    NodeWithoutZone,
    /// No ready endpoint is meant for the node's zone.
    NoneForZone(String),
    /// Zone hints are used.
    Zone(String),
    /// Node hints are used.
    Node(String),
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        const ALL: &str = "an unusable hint means all, never none";
        match self {
            Self::NoEndpoints => f.write_str("it has no endpoint at all"),
            Self::LocalOnly => {
                f.write_str("internalTrafficPolicy Local: only endpoints of this node are used")
            }
            Self::NoneUsable => f.write_str("no endpoint is ready, and none that is ending still answers"),
            Self::Terminating => f.write_str(
                "no endpoint is ready: those that are ending and still answer are used, hints or not",
            ),
            Self::NoHints => write!(f, "no ready endpoint has a zone hint; {ALL}"),
            Self::NoneForNode(node) => {
                write!(f, "no ready endpoint is meant for node {node}, and none has a zone hint; {ALL}")
            }
            Self::SomeWithoutNodeHint(endpoint) => {
                write!(f, "ready endpoint {endpoint} has no node hint, and none has a zone hint; {ALL}")
            }
            Self::SomeWithoutHint(endpoint) => {
                write!(f, "ready endpoint {endpoint} has no zone hint, so no hint is used; {ALL}")
            }
            Self::NodeWithoutZone => {
                write!(f, "the node has no label topology.kubernetes.io/zone; {ALL}")
            }
            Self::NoneForZone(zone) => write!(f, "no ready endpoint is meant for zone {zone}; {ALL}"),
            Self::Zone(zone) => write!(f, "every ready endpoint has a zone hint, and some name zone {zone}"),
            Self::Node(node) => write!(f, "every ready endpoint has a node hint, and some name {node}"),
        }
    }
}

/// What a node's proxy does with a service port. Addresses are in the order of the proxy's rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    /// For traffic that may go anywhere; empty when there is none such.
    pub cluster: Vec<SocketAddr>,
    /// For traffic that must stay on the node; empty when there is none such.
    pub local: Vec<SocketAddr>,
    /// All that the node's rules hold.
    pub reachable: Vec<SocketAddr>,
    /// Whether anything can answer somewhere: when false, packets are refused; when true and the set that they are
    /// meant for is empty, they are dropped.
    pub has_any: bool,
    /// How `cluster` was narrowed.
    pub mode: Mode,
    /// Why.
    pub reason: Reason,
    /// True when `local` holds endpoints that are ending, as none that is ready is on the node.
    pub local_terminating: bool,
}

/// What becomes of packets to one kind of address of a service port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome<'a> {
    /// They are spread over these.
    Spread(&'a [SocketAddr]),
    /// They are refused: nothing can answer anywhere.
    Refused,
    /// They are dropped: something can answer, but not on this node.
    Dropped,
}

impl Selection {
    /// Packets to the cluster IP.
    #[must_use]
    pub fn internal(&self, policy: TrafficPolicy) -> Outcome<'_> {
        self.outcome(policy.internal_local)
    }

    /// Packets to a node port, a balancer's or an external address, from outside.
    #[must_use]
    pub fn external(&self, policy: TrafficPolicy) -> Outcome<'_> {
        self.outcome(policy.external_local)
    }

    /// The same packets from a pod of this node or the node itself: they may go anywhere, whatever the policy.
    #[must_use]
    pub fn short_circuit(&self) -> Outcome<'_> {
        self.outcome(false)
    }

    fn outcome(&self, local: bool) -> Outcome<'_> {
        let set = if local { &self.local } else { &self.cluster };
        match (set.is_empty(), self.has_any) {
            (false, _) => Outcome::Spread(set),
            (true, false) => Outcome::Refused,
            (true, true) => Outcome::Dropped,
        }
    }
}

/// Selects.
#[must_use]
pub fn select(policy: TrafficPolicy, backends: &[Backend], node: &NodeTopology) -> Selection {
    let mut selection = Selection {
        cluster: Vec::new(),
        local: Vec::new(),
        reachable: Vec::new(),
        has_any: false,
        mode: Mode::All,
        reason: if backends.is_empty() { Reason::NoEndpoints } else { Reason::LocalOnly },
        local_terminating: false,
    };
    if backends.is_empty() {
        return selection;
    }
    if policy.uses_cluster() {
        let ready: Vec<&Backend> = backends.iter().filter(|backend| backend.ready).collect();
        if ready.is_empty() {
            let ending: Vec<&Backend> =
                backends.iter().filter(|backend| backend.is_usable_while_ending()).collect();
            selection.reason = if ending.is_empty() { Reason::NoneUsable } else { Reason::Terminating };
            selection.cluster = in_order(ending);
        } else {
            (selection.mode, selection.reason) = mode(&ready, node);
            selection.cluster =
                in_order(ready.into_iter().filter(|backend| is_meant(backend, selection.mode, node)));
        }
        selection.has_any = !selection.cluster.is_empty();
    }
    if policy.uses_local() {
        let usable = |backend: &&Backend| backend.ready || backend.is_usable_while_ending();
        selection.has_any |= backends.iter().any(|backend| usable(&backend));
        let here = || backends.iter().filter(|backend| backend.node.as_deref() == Some(&*node.name));
        selection.local = in_order(here().filter(|backend| backend.ready));
        if selection.local.is_empty() {
            selection.local = in_order(here().filter(|backend| backend.is_usable_while_ending()));
            selection.local_terminating = !selection.local.is_empty();
        }
    }
    let all: BTreeSet<&SocketAddr> = selection.cluster.iter().chain(&selection.local).collect();
    selection.reachable = sorted(all.into_iter().copied().collect());
    selection
}

/// `topologyModeFromHints`.
fn mode(ready: &[&Backend], node: &NodeTopology) -> (Mode, Reason) {
    let names = |hints: &[String], name: &str| hints.iter().any(|hint| hint == name);
    if ready.iter().all(|backend| !backend.node_hints.is_empty())
        && ready.iter().any(|backend| names(&backend.node_hints, &node.name))
    {
        return (Mode::Node, Reason::Node(node.name.clone()));
    }
    if ready.iter().all(|backend| backend.zone_hints.is_empty()) {
        let without = ready.iter().filter(|backend| backend.node_hints.is_empty());
        let reason = match without.map(|backend| backend.address).min() {
            None => Reason::NoneForNode(node.name.clone()),
            Some(_) if ready.iter().all(|backend| backend.node_hints.is_empty()) => Reason::NoHints,
            Some(without) => Reason::SomeWithoutNodeHint(without),
        };
        return (Mode::All, reason);
    }
    let without = ready.iter().filter(|backend| backend.zone_hints.is_empty());
    if let Some(without) = without.map(|backend| backend.address).min() {
        return (Mode::All, Reason::SomeWithoutHint(without));
    }
    match &node.zone {
        None => (Mode::All, Reason::NodeWithoutZone),
        Some(zone) if ready.iter().any(|backend| names(&backend.zone_hints, zone)) => {
            (Mode::Zone, Reason::Zone(zone.clone()))
        }
        Some(zone) => (Mode::All, Reason::NoneForZone(zone.clone())),
    }
}

fn is_meant(backend: &Backend, mode: Mode, node: &NodeTopology) -> bool {
    match mode {
        Mode::All => true,
        Mode::Zone => node.zone.as_ref().is_some_and(|zone| backend.zone_hints.contains(zone)),
        Mode::Node => backend.node_hints.contains(&node.name),
    }
}

fn in_order<'a>(backends: impl IntoIterator<Item = &'a Backend>) -> Vec<SocketAddr> {
    sorted(backends.into_iter().map(|backend| backend.address).collect())
}

/// The proxy sorts endpoints by their text, so 10.0.0.10 comes before 10.0.0.9.
fn sorted(mut addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    addresses.sort_by_cached_key(ToString::to_string);
    addresses
}
