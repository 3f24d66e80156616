//! Policies in one form: subject, rules, peers, ports.
//!
//! Invariant: a [`Policy`] that exists is understood completely; one that is not is a diagnostic and is absent
//! here. Order within rules, peers and ports is the author's; policies are sorted by [`PolicyId`].

use std::sync::Arc;

use super::address::AddressBlock;
use super::port::PortMatch;
use super::selector::Selector;
use super::source::Source;

/// The kinds of policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PolicyKind {
    /// `networking.k8s.io/v1`.
    NetworkPolicy,
}

impl PolicyKind {
    /// As the API spells it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NetworkPolicy => "NetworkPolicy",
        }
    }
}

/// Identity of a policy object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PolicyId {
    /// Which API.
    pub kind: PolicyKind,
    /// `metadata.namespace`; `None` for cluster-scoped kinds.
    pub namespace: Option<String>,
    /// `metadata.name`.
    pub name: String,
}

impl PolicyId {
    /// `namespace/name`, or the name alone for cluster-scoped kinds.
    pub fn qualified_name(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("{namespace}/{}", self.name),
            None => self.name.clone(),
        }
    }
}

impl std::fmt::Display for PolicyId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.kind.as_str(), self.qualified_name())
    }
}

/// All policies that were understood, sorted by id, without repeats.
#[derive(Clone, Debug, Default)]
pub struct Policies {
    /// Sorted by [`Policy::id`].
    pub list: Vec<Policy>,
}

/// One policy.
#[derive(Clone, Debug)]
pub struct Policy {
    /// Kind, namespace, name.
    pub id: PolicyId,
    /// Which pods it is about.
    pub subject: PodSelector,
    /// Ingress rules; `None` when the policy does not act on ingress at all (so does not isolate).
    pub ingress: Option<Vec<Rule>>,
    /// Egress rules; `None` when the policy does not act on egress at all.
    pub egress: Option<Vec<Rule>>,
    /// Where it was written.
    pub source: Source,
}

/// One rule: peers AND ports.
#[derive(Clone, Debug)]
pub struct Rule {
    /// `spec.ingress[0]`.
    pub path: Arc<str>,
    /// `from`/`to`; `None` when absent or empty: every peer, in or out of the cluster.
    pub peers: Option<Vec<Peer>>,
    /// `ports`; `None` when absent or empty: every protocol and port.
    pub ports: Option<Vec<Port>>,
}

/// One element of `from` or `to`.
#[derive(Clone, Debug)]
pub struct Peer {
    /// `spec.ingress[0].from[1]`.
    pub path: Arc<str>,
    /// What it matches.
    pub matches: PeerMatch,
}

/// One element of `ports`.
#[derive(Clone, Debug)]
pub struct Port {
    /// `spec.ingress[0].ports[1]`.
    pub path: Arc<str>,
    /// What it matches.
    pub matches: PortMatch,
}

/// What a peer matches.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PeerMatch {
    /// Pods of some namespaces.
    Pods(PodSelector),
    /// Addresses, pods' included.
    Block(AddressBlock),
}

/// Pods: a scope of namespaces AND a selector over the pods' labels.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodSelector {
    /// Which namespaces.
    pub namespaces: NamespaceScope,
    /// Which pods in them.
    pub pods: Selector,
}

/// Which namespaces a pod selector looks in.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NamespaceScope {
    /// One, by name: the policy's own.
    Own(String),
    /// Those whose labels match.
    Matching(Selector),
}
