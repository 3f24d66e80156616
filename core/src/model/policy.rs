//! Policies of every kind in one form: tier, priority, subject, rules, peers, ports.
//!
//! Invariant: a [`Policy`] that exists is understood completely, or fails closed where its API says how; any
//! other is a diagnostic and is absent here. Order within rules, peers and ports is the author's; policies are
//! sorted by [`PolicyId`].

use std::sync::Arc;

use super::address::AddressBlock;
use super::port::PortMatch;
use super::selector::Selector;
use super::source::Source;

/// The kinds of policy. An administrator's come first, so that it is a tenant's that a limit refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PolicyKind {
    /// `policy.networking.k8s.io/v1alpha1`.
    AdminNetworkPolicy,
    /// `policy.networking.k8s.io/v1alpha1`.
    BaselineAdminNetworkPolicy,
    /// `policy.networking.k8s.io/v1alpha2`.
    ClusterNetworkPolicy,
    /// `networking.k8s.io/v1`.
    NetworkPolicy,
}

impl PolicyKind {
    /// As the API spells it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::AdminNetworkPolicy => "AdminNetworkPolicy",
            Self::BaselineAdminNetworkPolicy => "BaselineAdminNetworkPolicy",
            Self::ClusterNetworkPolicy => "ClusterNetworkPolicy",
            Self::NetworkPolicy => "NetworkPolicy",
        }
    }

    /// True for the kinds whose rules have an order and an action.
    pub const fn is_ordered(self) -> bool {
        !matches!(self, Self::NetworkPolicy)
    }

    /// The action as this kind spells it.
    pub const fn action_word(self, action: Action) -> &'static str {
        match (action, self) {
            (Action::Accept, Self::AdminNetworkPolicy | Self::BaselineAdminNetworkPolicy) => "Allow",
            (Action::Accept, _) => "Accept",
            (Action::Deny, _) => "Deny",
            (Action::Pass, _) => "Pass",
        }
    }
}

/// The tiers, in the order in which they are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PolicyTier {
    /// Before every `NetworkPolicy`.
    Admin,
    /// `NetworkPolicy`: final for the pods that it isolates.
    NetworkPolicy,
    /// For pods that no `NetworkPolicy` isolates.
    Baseline,
}

/// What a rule does with what it matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Action {
    /// It passes; nothing further is asked. The only action of a `NetworkPolicy`.
    Accept,
    /// It is dropped; nothing further is asked.
    Deny,
    /// The rest of the tier is skipped.
    Pass,
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
    /// When it is asked.
    pub tier: PolicyTier,
    /// Its place within the tier, the lower the earlier; `None` where the kind has no priority.
    pub priority: Option<u16>,
    /// Which pods it is about.
    pub subject: PodSelector,
    /// Ingress rules; `None` when the policy does not act on ingress at all (so does not isolate).
    pub ingress: Option<Vec<Rule>>,
    /// Egress rules; `None` when the policy does not act on egress at all.
    pub egress: Option<Vec<Rule>>,
    /// Where it was written.
    pub source: Source,
}

impl Policy {
    /// Every block of addresses that a rule names.
    pub fn blocks(&self) -> impl Iterator<Item = &AddressBlock> {
        let rules = self.ingress.iter().chain(&self.egress).flatten();
        rules.flat_map(|rule| rule.peers.iter().flatten()).filter_map(|peer| match &peer.matches {
            PeerMatch::Block(block) => Some(block),
            PeerMatch::Pods(_) | PeerMatch::Nodes(_) | PeerMatch::DomainNames(_) => None,
        })
    }
}

/// One rule: peers AND ports.
#[derive(Clone, Debug)]
pub struct Rule {
    /// `spec.ingress[0]`.
    pub path: Arc<str>,
    /// `name`, where the kind has one.
    pub name: Option<Arc<str>>,
    /// `action`.
    pub action: Action,
    /// `from`/`to`; `None`: every peer, in or out of the cluster. An empty list is nobody: a rule that fails closed.
    pub peers: Option<Vec<Peer>>,
    /// `ports` or `protocols`; `None`: every protocol and port.
    pub ports: Option<Vec<Port>>,
}

/// One element of `from` or `to`, or one of its `networks`.
#[derive(Clone, Debug)]
pub struct Peer {
    /// `spec.ingress[0].from[1]`, `spec.egress[0].to[0].networks[2]`.
    pub path: Arc<str>,
    /// What it matches.
    pub matches: PeerMatch,
}

/// One element of `ports` or `protocols`. A name without a protocol stands for one element per protocol.
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
    /// Addresses of nodes, by the nodes' labels.
    Nodes(Selector),
    /// Addresses that a pod learns from its DNS by these names: not modelled, so nothing here.
    DomainNames(Vec<Arc<str>>),
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
