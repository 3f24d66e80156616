//! The literal evaluator: `NetworkPolicy` v1 and the kinds of `policy.networking.k8s.io` as their API text says it, one
//! sentence after the other.
//!
//! It exists to be right, not to be fast: every question walks all policies, all rules, all peers. It reads the
//! objects as they are written and does its own defaulting, label matching and CIDR arithmetic, so that a
//! mistake of the compiler or of the model cannot hide in both. Sources are named as in the API reference
//! (`NetworkPolicySpec.policyTypes`, …), in the concept page "Network Policies" ("the concept page") and in
//! RFC 4632 for prefixes.
//!
//! Invariant: nothing is imported here but `std`, `serde_json` and the wire structs; a test holds this. An
//! element that validation would have refused, or that has a field we do not know, admits nothing.
//!
//! It does not know Services, connections or time: a question is one new connection (or datagram) between two
//! ends, after any address translation. ARP, IPv6 neighbour discovery and replies are not questions.

mod address;
mod ends;
mod policy;
mod port;
mod selector;
mod tier;
mod tier_port;

use std::net::IpAddr;

use crate::input::WireObjects;

pub use self::policy::Direction;
pub use self::tier::{Action, Tier, TierMatch, TierPolicy};

/// Namespace and name of an object.
pub type Name = (String, String);

/// One new connection, or one datagram, as both hooks would see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// Who really sends.
    pub source: End,
    /// Who really receives.
    pub destination: End,
    /// The IP protocol.
    pub protocol: IpProtocol,
    /// The destination port as the receiver sees it; without meaning for protocols that have none.
    pub port: u16,
}

/// One end of a connection: who it is, and the address by which it is seen.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    /// A pod. If the address is not one of its own (translated on the way), selectors do not know it.
    Pod {
        /// `metadata.namespace`.
        namespace: String,
        /// `metadata.name`.
        name: String,
        /// The address seen.
        address: IpAddr,
    },
    /// A process of the node itself, kubelet and hostNetwork pods included.
    Node {
        /// `metadata.name` of the Node.
        name: String,
        /// The address seen.
        address: IpAddr,
    },
    /// Anything else that has an address, senders whose address was translated included.
    External(IpAddr),
}

impl End {
    /// The address by which it is seen.
    pub const fn address(&self) -> IpAddr {
        match self {
            Self::Pod { address, .. } | Self::Node { address, .. } | Self::External(address) => *address,
        }
    }
}

/// IP protocols as far as policies tell them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum IpProtocol {
    /// 6.
    Tcp,
    /// 17.
    Udp,
    /// 132.
    Sctp,
    /// 1, or 58 between IPv6 addresses.
    Icmp,
    /// Any other, by number.
    Other(u8),
}

/// Allow or deny; or neither, where policies tie. What else the API leaves open is decided as the project's design
/// says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// The connection is allowed.
    Allow,
    /// It is not.
    Deny,
    /// It depends on an order that the API does not define.
    Undefined,
}

/// What is true of the question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// What the source's policies say.
    pub egress: Side,
    /// What the destination's policies say.
    pub ingress: Side,
    /// Both together.
    pub verdict: Verdict,
}

/// One direction, judged at the end that is its subject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Side {
    /// Of this side alone.
    pub verdict: Verdict,
    /// The reason.
    pub why: Why,
    /// The `Pass` rules that led there, in order.
    pub passed: Vec<TierMatch>,
    /// Every rule of the Admin and Baseline tiers that matches, also where none of them decides; sorted.
    pub tier_rules: Vec<TierMatch>,
    /// All policies that isolate the subject in this direction, sorted; also where an exemption decides.
    pub isolated_by: Vec<Name>,
}

/// Why a side is as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// No policy can have this end as its subject.
    NotPoliced(NotPoliced),
    /// No `NetworkPolicy` isolates the subject in this direction, and no rule of another tier accepts or denies.
    NotIsolated,
    /// This rule of the Admin or Baseline tier.
    Ruled(TierMatch),
    /// These policies, between which the API defines no order, would decide differently; sorted.
    Tied(Vec<TierPolicy>),
    /// It is isolated, and these rules admit the connection: every one, sorted, never none.
    Allowed(Vec<Admission>),
    /// It is isolated by [`Side::isolated_by`] and no rule of those admits the connection.
    Isolated,
    /// Policies do not apply to this connection.
    Exempt(Exemption),
}

/// Why an end is no subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NotPoliced {
    /// A node, something outside the cluster, or a pod that is not among the objects.
    NotAPod,
    /// `spec.hostNetwork`: it is its node.
    HostNetwork,
    /// `status.phase` is Succeeded or Failed.
    Terminal,
    /// It has no address yet.
    NoAddress,
}

/// Why policies do not apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Exemption {
    /// From the node on which the subject runs.
    OwnNode,
    /// From the subject to itself.
    Itself,
}

/// One rule that admits the connection, with the elements that match.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Admission {
    /// Namespace and name of the policy.
    pub policy: Name,
    /// Its place in `spec.ingress` or `spec.egress`.
    pub rule: usize,
    /// `spec.ingress[0]`.
    pub path: String,
    /// `spec.ingress[0].from[1]` for each peer that matches; empty when the rule has no peers.
    pub peers: Vec<String>,
    /// `spec.ingress[0].ports[1]` for each port that matches; empty when the rule has no ports.
    pub ports: Vec<String>,
}

/// The evaluator over one set of objects.
#[derive(Clone, Debug)]
pub struct Oracle<'a> {
    objects: &'a WireObjects,
}

impl<'a> Oracle<'a> {
    /// The evaluator over these objects. Nothing is computed before a question is asked.
    pub const fn new(objects: &'a WireObjects) -> Self {
        Self { objects }
    }

    /// Answers a question.
    ///
    /// The concept page, on connections: the source's egress policies and the destination's ingress policies must
    /// both allow it. Each side is judged also when the other already denies.
    pub fn judge(&self, question: &Question) -> Answer {
        self.judge_both(question, self.is_itself(question))
    }

    /// The same for a packet that its sender addressed to a Service. The API overview of the admin tiers: a pod's
    /// connection to its own address is no subject of policies, one that comes back to it through a Service is.
    pub fn judge_through_service(&self, question: &Question) -> Answer {
        self.judge_both(question, false)
    }

    fn judge_both(&self, question: &Question, itself: bool) -> Answer {
        let egress = self.judge_egress(question, itself);
        let ingress = self.judge_ingress(question, itself);
        let verdict = match (egress.verdict, ingress.verdict) {
            (Verdict::Deny, _) | (_, Verdict::Deny) => Verdict::Deny,
            (Verdict::Undefined, _) | (_, Verdict::Undefined) => Verdict::Undefined,
            (Verdict::Allow, Verdict::Allow) => Verdict::Allow,
        };
        Answer { egress, ingress, verdict }
    }

    /// The source's side. The concept page, on what policies cannot do: a pod cannot be cut off from itself.
    /// Whether egress policies apply towards the pod's own node is left to implementations; here it is an
    /// ordinary destination.
    fn judge_egress(&self, question: &Question, itself: bool) -> Side {
        let subject = match self.subject(&question.source) {
            Ok(pod) => pod,
            Err(reason) => return Side::not_policed(reason),
        };
        let exemption = itself.then_some(Exemption::Itself);
        self.judge_side(subject, Direction::Egress, &question.destination, question, exemption)
    }

    /// The destination's side. The concept page, on what policies cannot do: what the pod's own node sends always
    /// arrives, whatever its address; and a pod cannot be cut off from itself.
    fn judge_ingress(&self, question: &Question, itself: bool) -> Side {
        let subject = match self.subject(&question.destination) {
            Ok(pod) => pod,
            Err(reason) => return Side::not_policed(reason),
        };
        let exemption = if itself {
            Some(Exemption::Itself)
        } else if self.is_own_node(subject, &question.source) {
            Some(Exemption::OwnNode)
        } else {
            None
        };
        self.judge_side(subject, Direction::Ingress, &question.source, question, exemption)
    }
}

impl Side {
    fn not_policed(reason: NotPoliced) -> Self {
        Self {
            verdict: Verdict::Allow,
            why: Why::NotPoliced(reason),
            passed: Vec::new(),
            tier_rules: Vec::new(),
            isolated_by: Vec::new(),
        }
    }
}
