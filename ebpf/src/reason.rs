//! Why a packet passed or not: the reasons that are built in, each with a fixed entry id.
//!
//! Invariant: ids below [`FIRST_COMPILED_ENTRY`] mean the same in every ruleset and every version of the
//! layout; the compiler numbers its own entries from there. A reason that is no policy row still has a row of
//! its own in `POLICY` (see [`crate::abi::PolicyKey::FIXED`]), so that it can be read back and audited.

use crate::abi::PolicyValue;

/// First entry id that the compiler may give to a policy row.
pub const FIRST_COMPILED_ENTRY: u32 = 64;

/// How a verdict came about; the discriminant is the entry id of the built-in ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Reason {
    /// A compiled row of the policy map decided; the entry is that row's.
    Row = 0,
    /// No policy isolates the pod for ingress.
    NotIsolatedIngress = 1,
    /// No policy isolates the pod for egress.
    NotIsolatedEgress = 2,
    /// Part of a flow that was allowed before; the entry is the one that allowed it.
    Flow = 3,
    /// An ICMP error about a tracked flow.
    Related = 4,
    /// A TCP segment of a connection older than our tracking, whose socket the pod still holds.
    Midflow = 5,
    /// The pod's own node sent it (probes, node agents).
    Node = 6,
    /// The pod talks to itself.
    Itself = 7,
    /// ARP and IPv6 neighbour discovery.
    Neighbour = 8,
    /// IGMP and MLD.
    MulticastControl = 9,
    /// A later fragment of a datagram whose first fragment was allowed.
    Fragment = 10,
    /// The endpoints behind a Service are judged differently: the packet goes on, and is judged for this pod once it is
    /// known which of them it goes to.
    Deferred = 11,
    /// The tables have no row for this packet: an internal error, counted and alarmed.
    NoEntry = 16,
    /// The pod is claimed but has no ruleset yet.
    NotReady = 17,
    /// The pod sent from an address that is not its own.
    Spoof = 18,
    /// An IPv6 packet that bears a v4-mapped address.
    Martian = 19,
    /// The headers cannot be read.
    Malformed = 20,
    /// A VLAN tag or an unknown kind of frame.
    Frame = 21,
    /// A router advertisement or redirect sent by a pod.
    Router = 22,
    /// A later fragment whose first fragment was not seen or not allowed.
    FragmentUnknown = 23,
    /// An ICMP error about no flow that we track.
    Unrelated = 24,
    /// The endpoints behind a Service are judged differently, and some lies where nothing can tell to which one a packet
    /// went.
    ServiceMixed = 25,
    /// A packet whose verdict was deferred, of a pod that is not known.
    DeferredUnknown = 26,
}

impl Reason {
    /// Every built-in reason, in order of id.
    pub const FIXED: [Self; 22] = [
        Self::NotIsolatedIngress,
        Self::NotIsolatedEgress,
        Self::Flow,
        Self::Related,
        Self::Midflow,
        Self::Node,
        Self::Itself,
        Self::Neighbour,
        Self::MulticastControl,
        Self::Fragment,
        Self::Deferred,
        Self::NoEntry,
        Self::NotReady,
        Self::Spoof,
        Self::Martian,
        Self::Malformed,
        Self::Frame,
        Self::Router,
        Self::FragmentUnknown,
        Self::Unrelated,
        Self::ServiceMixed,
        Self::DeferredUnknown,
    ];

    /// The entry id of a built-in reason.
    #[inline(always)]
    #[must_use]
    pub const fn entry(self) -> u32 {
        self as u32
    }

    /// What a built-in reason's row says: [`PolicyValue::ALLOW`] or [`PolicyValue::DENY`].
    #[must_use]
    pub const fn verdict(self) -> u8 {
        if (self as u8) < Self::NoEntry as u8 { PolicyValue::ALLOW } else { PolicyValue::DENY }
    }

    /// The built-in reason with this entry id.
    #[must_use]
    pub fn from_entry(entry: u32) -> Option<Self> {
        Self::FIXED.into_iter().find(|reason| reason.entry() == entry)
    }

    /// The reason with this number, as an event carries it.
    #[must_use]
    pub fn from_u8(number: u8) -> Option<Self> {
        if number == 0 { Some(Self::Row) } else { Self::from_entry(u32::from(number)) }
    }

    /// In words, for one line of output.
    #[must_use]
    pub const fn describe(self) -> &'static str {
        match self {
            Self::Row => "a policy row",
            Self::NotIsolatedIngress => "not isolated for ingress",
            Self::NotIsolatedEgress => "not isolated for egress",
            Self::Flow => "part of an allowed flow",
            Self::Related => "an ICMP error about a tracked flow",
            Self::Midflow => "a connection older than our tracking",
            Self::Node => "sent by the pod's own node",
            Self::Itself => "the pod talks to itself",
            Self::Neighbour => "ARP or neighbour discovery",
            Self::MulticastControl => "IGMP or MLD",
            Self::Fragment => "the rest of an allowed datagram",
            Self::NoEntry => "no table row: an internal error",
            Self::NotReady => "claimed, but no ruleset yet",
            Self::Spoof => "a source address that is not the pod's",
            Self::Martian => "a v4-mapped address in an IPv6 packet",
            Self::Malformed => "headers that cannot be read",
            Self::Frame => "a VLAN tag or an unknown frame",
            Self::Router => "a router advertisement or redirect from a pod",
            Self::FragmentUnknown => "a later fragment without an allowed first one",
            Self::Unrelated => "an ICMP error about no tracked flow",
            Self::Deferred => "a Service with endpoints of both kinds: judged again at the endpoint",
            Self::ServiceMixed => "a Service with endpoints of both kinds, which cannot be told apart",
            Self::DeferredUnknown => "deferred for a pod that is not known",
        }
    }
}

/// The tier of policies that decided a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Tier {
    /// Built in: exemptions and refusals that no policy writes.
    Exempt = 0,
    /// `AdminNetworkPolicy`, and `ClusterNetworkPolicy` of tier Admin.
    Admin = 1,
    /// `NetworkPolicy`.
    NetworkPolicy = 2,
    /// `BaselineAdminNetworkPolicy`, and `ClusterNetworkPolicy` of tier Baseline.
    Baseline = 3,
    /// No policy: what happens when none applies.
    Default = 4,
}
