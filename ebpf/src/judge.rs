//! `judge`: what happens to one packet at one hook of one pod.
//!
//! Invariants: a verdict always names an entry; a new flow is decided by exactly one policy row (a missing row
//! is a drop of its own, [`Reason::NoEntry`]); only allowed flows are remembered; a flow is judged again when
//! its pod's [`Word`] changes, in the direction in which it was opened. The function is pure but for what it
//! writes through [`Tables`], loops over nothing but the headers, and cannot panic.

use crate::abi::{
    Address, CidrKey, Device, Direction, Flow, FlowKey, FragmentKey, FragmentValue, PeerValue, PolicyKey,
    PolicyValue, RulesetPorts, ServiceKey, ServiceTargets, ServiceValue, Word, words,
};
use crate::conntrack::{
    self, FIN_LOCAL, FIN_REMOTE, HAIRPIN, NODE, REPLIED, RESET, TCP_ACK, TCP_FIN, TCP_RST, TCP_SYN,
};
use crate::packet::{self, Bytes, Frame, ICMP, ICMPV6, Packet, Part, SCTP, TCP, UDP};
use crate::reason::Reason;

mod apart;
mod deferred;
mod exempt;
mod row;

pub use apart::{Apart, Walked};
pub use deferred::{decide_deferred, judge_deferred};
use row::{lookup, row};

/// The maps, as the kernel or the host holds them.
pub trait Tables {
    /// `DEVICES`.
    fn device(&self, ifindex: u32) -> Option<Device>;
    /// `PEERS`.
    fn peer(&self, address: &Address) -> Option<PeerValue>;
    /// `CIDRS`, longest prefix first.
    fn cidr(&self, key: &CidrKey) -> Option<PeerValue>;
    /// `RULESETS`.
    fn ruleset_ports(&self, ruleset: u32) -> Option<RulesetPorts>;
    /// `PORT_PAGES`, by [`crate::abi::port_page_index`].
    fn port_page(&self, index: u32) -> Option<u32>;
    /// `PORT_CLASSES`: one byte of one page.
    fn port_class(&self, page: u32, low: u8) -> Option<u8>;
    /// `POLICY`.
    fn policy(&self, key: &PolicyKey) -> Option<PolicyValue>;
    /// `SERVICES`: the value is written to `into`. False when there is none.
    fn service(&self, key: &ServiceKey, into: &mut ServiceValue) -> bool;
    /// `CONNTRACK4` or `CONNTRACK6`.
    fn flow(&self, key: &FlowKey) -> Option<Flow>;
    /// Inserts or replaces a flow.
    fn insert_flow(&self, key: &FlowKey, flow: &Flow);
    /// Writes a flow that was just read back in place.
    fn update_flow(&self, key: &FlowKey, flow: &Flow);
    /// `FRAGMENTS`.
    fn fragment(&self, key: &FragmentKey) -> Option<FragmentValue>;
    /// Inserts or replaces a fragment record.
    fn insert_fragment(&self, key: &FragmentKey, value: &FragmentValue);
    /// What TCP socket the pod's namespace `netns` holds for the flow.
    fn socket(&self, netns: i32, key: &FlowKey) -> Socket;
    /// Seconds of a clock that never goes back; the start does not matter.
    fn now(&self) -> u32;
    /// Does a part of the judgement. The kernel's tables do it in a function that the verifier knows by itself: it is then
    /// verified once, not once for each way to it.
    #[inline(always)]
    fn apart<'scratch>(&self, part: Apart, scratch: &'scratch mut Scratch) -> &'scratch mut Scratch
    where
        Self: Sized,
    {
        part.run(self, scratch);
        scratch
    }
    /// The same for a part that also needs the packet and its pod: those of `scratch`'s hook.
    #[inline(always)]
    fn walked<'scratch, B: Bytes>(
        &self,
        part: Walked,
        bytes: &B,
        device: &Device,
        scratch: &'scratch mut Scratch,
    ) -> &'scratch mut Scratch
    where
        Self: Sized,
    {
        part.run(self, bytes, device, scratch);
        scratch
    }
    /// The same memory, of which the compiler knows nothing any more: see [`Scratch`]. Only the kernel needs it.
    #[inline(always)]
    fn opaque<'scratch>(&self, scratch: &'scratch mut Scratch) -> &'scratch mut Scratch {
        scratch
    }
}

/// What a pod's network namespace holds for a TCP tuple.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Socket {
    /// Nothing, or it cannot be asked.
    None,
    /// A connection for exactly this tuple that the pod accepted: something listens on its port.
    Accepted,
    /// A connection for exactly this tuple, on a port where nothing listens.
    Connected,
}

/// Where and how a packet met the program.
#[derive(Clone, Copy, Debug)]
pub struct Hook {
    /// Seen from the pod.
    pub direction: Direction,
    /// The host-side interface of the pod.
    pub ifindex: u32,
    /// The interface by which the packet entered the node, 0 when none.
    pub ingress_ifindex: u32,
    /// True when a socket of this node owns the packet.
    pub socket: bool,
    /// True when the tag of a VLAN (not of VLAN 0) was taken off the frame.
    pub vlan: bool,
}

/// A verdict, with what it rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// Whether the packet passes.
    pub allow: bool,
    /// The entry to cite.
    pub entry: u32,
    /// How the verdict came about; [`Reason::Row`] when a compiled row decided now.
    pub reason: Reason,
    /// The pod's word at that moment.
    pub word: Word,
    /// The pod.
    pub pod: u32,
    /// The peer class that was looked up, 0 when none was.
    pub peer_class: u32,
    /// The port class that was looked up.
    pub port_class: u16,
    /// The packet's headers as far as they were read, all zero when they were not needed.
    pub packet: Packet,
}

impl Judgement {
    /// The entry whose counter moves: a packet of a known flow counts as such, not as a new decision.
    #[inline(always)]
    #[must_use]
    pub const fn counted(&self) -> u32 {
        match self.reason {
            Reason::Row => self.entry,
            built_in => built_in.entry(),
        }
    }

    /// See [`Decision::deferred`].
    #[inline(always)]
    #[must_use]
    pub const fn deferred(&self) -> bool {
        self.allow && self.entry == Reason::Deferred.entry()
    }
}

/// A [`Judgement`] without what the caller knows anyhow: small enough to stay in registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// See [`Judgement::allow`].
    pub allow: bool,
    /// See [`Judgement::entry`].
    pub entry: u32,
    /// See [`Judgement::reason`].
    pub reason: Reason,
    /// See [`Judgement::peer_class`].
    pub peer_class: u32,
    /// See [`Judgement::port_class`].
    pub port_class: u16,
}

impl Decision {
    /// A built-in reason that needs no row: the fast path, and the ones that speak of missing rows.
    #[inline(always)]
    const fn built_in(reason: Reason) -> Self {
        Self::of(reason.verdict() == PolicyValue::ALLOW, reason.entry(), reason)
    }

    #[inline(always)]
    const fn of(allow: bool, entry: u32, reason: Reason) -> Self {
        Self { allow, entry, reason, peer_class: 0, port_class: 0 }
    }

    /// See [`Judgement::counted`].
    #[inline(always)]
    #[must_use]
    pub const fn counted(&self) -> u32 {
        match self.reason {
            Reason::Row => self.entry,
            built_in => built_in.entry(),
        }
    }

    /// True for a packet that passes but is to be judged once more, where its endpoint is known; also for each later
    /// packet of such a flow.
    #[inline(always)]
    #[must_use]
    pub const fn deferred(&self) -> bool {
        self.allow && self.entry == Reason::Deferred.entry()
    }
}

/// What is left to do of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Step {
    /// Nothing: the decision is made.
    Decided,
    /// Read the row of a built-in reason.
    Fixed,
    /// Read the ruleset's row for a direction that no policy isolates.
    NotIsolated,
    /// Look for the first fragment of the datagram.
    Fragment,
    /// Look for the flow of the packet that an ICMP error quotes.
    Error,
    /// Look for the packet's flow.
    Track,
    /// Go by the flow that was found.
    Known,
    /// Judge what no flow answers for.
    New,
}

/// What a judgement writes down on its way.
///
/// In the kernel this is per-CPU memory, for two reasons: the stack has 512 bytes, and the verifier follows every
/// combination of values in registers and on the stack but takes what it reads from here for anything. So whatever
/// is found out goes here, and each part of the walk is verified about once.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(8))]
pub struct Scratch {
    /// The headers as far as they were read.
    pub packet: Packet,
    /// What was decided.
    pub decision: Decision,
    word: Word,
    hook: Hook,
    frame: Frame,
    step: Step,
    key: FlowKey,
    flow: Flow,
    service: ServiceValue,
    /// The address is one that this node translates: its endpoints decided.
    translated: bool,
    /// Not all endpoints of the Service are judged alike.
    differ: bool,
    /// The pod comes back to itself through a Service, with another source address than its own.
    hairpin: bool,
}

impl Scratch {
    /// Ready for a packet.
    pub const CLEAN: Self = Self {
        packet: Packet::CLEAN,
        decision: Decision::built_in(Reason::NoEntry),
        hook: Hook {
            direction: Direction::Ingress,
            ifindex: 0,
            ingress_ifindex: 0,
            socket: false,
            vlan: false,
        },
        word: Word(0),
        frame: Frame::Unknown,
        step: Step::Decided,
        key: FlowKey {
            pod: 0,
            local: [0; 16],
            remote: [0; 16],
            local_port: 0,
            remote_port: 0,
            protocol: 0,
            zero: [0; 3],
        },
        flow: Flow { word: Word(0), entry: 0, seen: 0, echo: 0, opener: 0, state: 0, zero: 0 },
        service: ServiceValue { targets: NO_TARGETS, former: NO_TARGETS, since: 0, echo: 0 },
        translated: false,
        differ: false,
        hairpin: false,
    };

    #[inline(always)]
    fn fixed(&mut self, reason: Reason) {
        self.decision.reason = reason;
        self.step = Step::Fixed;
    }

    #[inline(always)]
    fn decided(&mut self, decision: Decision) {
        self.decision = decision;
        self.step = Step::Decided;
    }
}

const NO_TARGETS: ServiceTargets = ServiceTargets {
    list: [crate::abi::ServiceTarget { peer_class: 0, port: 0, zero: 0 }; ServiceTargets::MOST],
    count: 0,
    flags: 0,
    zero: 0,
};

/// One packet's way through the tables.
struct Walk<'a, T> {
    tables: &'a T,
    direction: Direction,
    device: &'a Device,
}

/// Judges a packet. Returns `None` only when the hook's interface is out of range of `DEVICES`.
pub fn judge<T: Tables>(bytes: &impl Bytes, hook: Hook, tables: &T) -> Option<Judgement> {
    let device = tables.device(hook.ifindex)?;
    let mut scratch = Scratch::CLEAN;
    decide(bytes, hook, &device, device.word, tables, &mut scratch);
    let Scratch { packet, decision, .. } = scratch;
    Some(Judgement {
        allow: decision.allow,
        entry: decision.entry,
        reason: decision.reason,
        word: device.word,
        pod: device.pod,
        peer_class: decision.peer_class,
        port_class: decision.port_class,
        packet,
    })
}

/// Judges a packet of a device, whose word is read once by the caller: nothing here reads it again. The decision
/// and the headers are in `scratch` afterwards.
#[inline(always)]
pub fn decide<T: Tables>(
    bytes: &impl Bytes,
    hook: Hook,
    device: &Device,
    word: Word,
    tables: &T,
    scratch: &mut Scratch,
) {
    scratch.packet = Packet::CLEAN;
    (scratch.hook, scratch.word) = (hook, word);
    let walk = Walk { tables, direction: hook.direction, device };
    if word.ruleset() == 0 {
        scratch.decided(Decision::built_in(Reason::NotReady));
    } else if word.isolated_at_all() || walk.must_read(bytes, scratch) {
        scratch.frame = packet::parse(bytes, &mut scratch.packet);
        let scratch = tables.opaque(scratch);
        if scratch.word.isolated_at_all() {
            walk.steps(bytes, scratch);
        } else {
            walk.open_pod(scratch);
        }
    }
}

// What is rare or needs many bytes of stack is a function of its own (`inline(never)`): in the kernel the common
// path then stays short, and all that is on the stack at one time within 512 bytes.
impl<T: Tables> Walk<'_, T> {
    /// From step to step. Where the compiler could keep what a step found out in registers, [`Tables::opaque`] makes it
    /// read it back: see [`Scratch`].
    #[inline(always)]
    fn steps<B: Bytes>(&self, bytes: &B, scratch: &mut Scratch) {
        self.parsed(bytes, scratch);
        let scratch = self.tables.opaque(scratch);
        match scratch.step {
            Step::Fragment => self.later_fragment(scratch),
            Step::Error => {
                scratch.fixed(Reason::Unrelated);
                self.tables.walked(Walked::IcmpError, bytes, self.device, scratch);
            }
            Step::Track => {
                self.set_flow_key(scratch);
                self.track(scratch);
            }
            _ => {}
        }
        let scratch = self.tables.opaque(scratch);
        match scratch.step {
            Step::Known => self.known(scratch),
            Step::New => {
                scratch.decided(Decision::built_in(Reason::NoEntry));
                self.tables.walked(Walked::NewFlow, bytes, self.device, scratch);
            }
            _ => {}
        }
        let scratch = self.tables.opaque(scratch);
        self.finish(scratch);
        if scratch.packet.part == Part::First && scratch.frame == Frame::Ip && scratch.decision.allow {
            self.remember_fragment(scratch);
        }
    }

    #[inline(always)]
    fn parsed<B: Bytes>(&self, bytes: &B, scratch: &mut Scratch) {
        match scratch.frame {
            Frame::Malformed => scratch.fixed(Reason::Malformed),
            Frame::Martian => scratch.fixed(Reason::Martian),
            Frame::Arp if !scratch.hook.vlan => {
                let forged =
                    self.direction == Direction::Egress && !self.is_own_sender(&scratch.packet.source);
                scratch.fixed(if forged { Reason::Spoof } else { Reason::Neighbour });
            }
            Frame::Ip if !scratch.hook.vlan => self.ip(bytes, scratch),
            // A frame that no rule can speak about: dropped where the pod is isolated.
            _ if self.isolated(scratch) => scratch.fixed(Reason::Frame),
            _ => match self.refused(scratch) {
                Some(reason) => scratch.fixed(reason),
                None => scratch.step = Step::NotIsolated,
            },
        }
    }

    /// Reads the row that is left to read.
    #[inline(always)]
    fn finish(&self, scratch: &mut Scratch) {
        let reason = scratch.decision.reason;
        match scratch.step {
            Step::Fixed => {
                let key = PolicyKey::new(PolicyKey::FIXED, self.direction, reason as u16, 0);
                lookup(self.tables, &key, &mut scratch.decision);
                (scratch.decision.peer_class, scratch.decision.port_class) = (0, 0);
                if scratch.decision.reason == Reason::Row {
                    scratch.decision.reason = reason;
                }
            }
            Step::NotIsolated => {
                let key = PolicyKey::not_isolated(scratch.word.ruleset(), self.direction);
                lookup(self.tables, &key, &mut scratch.decision);
            }
            _ => {}
        }
    }

    #[inline(always)]
    fn ip<B: Bytes>(&self, bytes: &B, scratch: &mut Scratch) {
        let packet = &scratch.packet;
        if let Some(reason) = self.exempt(bytes, packet, scratch.hook) {
            return scratch.fixed(reason);
        }
        let later = packet.part == Part::Later;
        if !(later || packet.is_icmp_error() && self.isolated(scratch)) {
            scratch.step = Step::Track;
        } else if !self.isolated(scratch) {
            scratch.step = Step::NotIsolated;
        } else if self.is_from_node(scratch) {
            scratch.fixed(Reason::Node);
        } else if later {
            scratch.step = Step::Fragment;
        } else if scratch.packet.part == Part::First {
            // Errors are shorter than any MTU (RFC 1812, RFC 4443): the rest could only rewrite what is quoted.
            scratch.fixed(Reason::Unrelated);
        } else {
            scratch.step = Step::Error;
        }
    }

    /// The rest of a datagram passes iff its first fragment was allowed here, under this word, not too long ago.
    #[inline(never)]
    fn later_fragment(&self, scratch: &mut Scratch) {
        match self.tables.fragment(&self.fragment_key(&scratch.packet)) {
            Some(first)
                if first.word.0 == scratch.word.0
                    && self.tables.now().wrapping_sub(first.seen).cast_signed() <= FRAGMENT_SECONDS =>
            {
                scratch.decided(Decision::of(true, first.entry, Reason::Fragment));
            }
            _ => scratch.fixed(Reason::FragmentUnknown),
        }
    }

    /// Remembers what allowed the first fragment of a datagram.
    #[inline(never)]
    fn remember_fragment(&self, scratch: &mut Scratch) {
        let value =
            FragmentValue { word: scratch.word, entry: scratch.decision.entry, seen: self.tables.now() };
        self.tables.insert_fragment(&self.fragment_key(&scratch.packet), &value);
    }

    /// RFC 5508 in spirit: an error passes iff the packet it quotes belongs to a flow of this pod, went the
    /// other way, and the error comes back to its sender.
    #[inline(always)]
    fn icmp_error<B: Bytes>(&self, bytes: &B, scratch: &mut Scratch) {
        let Scratch { packet: error, key, word, .. } = scratch;
        let Some(quoted) = packet::quoted(bytes, error.protocol, error.transport_offset) else { return };
        if words(&quoted.source) != words(&error.destination) {
            return;
        }
        // An error that arrives at the pod is about something that the pod sent, and the other way round.
        *key = match self.direction {
            Direction::Ingress => self.key(
                (quoted.source, quoted.source_port),
                (quoted.destination, quoted.destination_port),
                quoted.protocol,
            ),
            Direction::Egress => self.key(
                (quoted.destination, quoted.destination_port),
                (quoted.source, quoted.source_port),
                quoted.protocol,
            ),
        };
        if let Some(flow) = self.tables.flow(key)
            && flow.echo == key.echo()
            && (flow.word.0 == word.0 || flow.state & NODE != 0)
            && !conntrack::expired(&flow, key.protocol, self.tables.now())
        {
            scratch.fixed(Reason::Related);
        }
    }

    /// Finds the flow that answers for the packet, if one does.
    #[inline(always)]
    fn track(&self, scratch: &mut Scratch) {
        let tracking = Tracking::of(&scratch.packet);
        if tracking == Tracking::Follow
            && let Some(flow) = self.tables.flow(&scratch.key)
            && flow.echo == scratch.key.echo()
            && !conntrack::expired(&flow, scratch.key.protocol, self.tables.now())
        {
            scratch.flow = flow;
            scratch.hairpin = flow.state & HAIRPIN != 0;
            scratch.step = Step::Known;
        } else if self.is_from_node(scratch) {
            scratch.hairpin = false;
            if tracking != Tracking::Never {
                self.remember(scratch, Reason::Node.entry(), NODE, self.direction);
            }
            scratch.fixed(Reason::Node);
        } else {
            let hook = &scratch.hook;
            scratch.hairpin = self.direction == Direction::Ingress && hook.ingress_ifindex == hook.ifindex;
            scratch.step = Step::New;
        }
    }

    #[inline(always)]
    fn known(&self, scratch: &mut Scratch) {
        let mut flow = scratch.flow;
        let node = self.is_from_node(scratch);
        // What the node sends passes in any case; but it must not renew the word of a flow that the pod opened.
        if flow.word.0 != scratch.word.0 && flow.state & NODE == 0 && !node {
            let opener =
                if flow.opener == Direction::Ingress as u8 { Direction::Ingress } else { Direction::Egress };
            let scratch = row(self.tables, scratch, opener);
            if !scratch.decision.allow {
                // The record stays: it says who opened the flow, so that neither side can reopen it by talking.
                scratch.step = Step::Decided;
                return;
            }
            flow.word = scratch.word;
            flow.entry = scratch.decision.counted();
        }
        flow.seen = self.tables.now();
        if flow.opener != self.direction as u8 {
            flow.state |= REPLIED;
        }
        if scratch.packet.protocol == TCP {
            if scratch.packet.flags & TCP_RST != 0 {
                flow.state |= RESET;
            }
            if scratch.packet.flags & TCP_FIN != 0 {
                flow.state |= if self.direction == Direction::Egress { FIN_LOCAL } else { FIN_REMOTE };
            }
        }
        // Without branches: each would double what the verifier has to follow.
        let before = &scratch.flow;
        let changed = flow.seen ^ before.seen | u32::from(flow.state ^ before.state);
        if u64::from(changed) | (flow.word.0 ^ before.word.0) != 0 {
            update_flow(self.tables, &scratch.key, &flow);
        }
        if node {
            scratch.fixed(Reason::Node);
        } else {
            scratch.decided(Decision::of(true, flow.entry, Reason::Flow));
        }
    }

    /// Judges what no record answers for.
    #[inline(always)]
    fn new_flow<B: Bytes>(&self, bytes: &B, scratch: &mut Scratch) {
        let scratch = row(self.tables, scratch, self.direction);
        if scratch.decision.allow {
            // A TCP segment that opens nothing passes on its own row but must not become a flow: it would let the
            // other side's segments in as replies.
            let tracking = Tracking::of(&scratch.packet);
            if tracking == Tracking::Open || (tracking == Tracking::Follow && scratch.key.protocol != TCP) {
                self.remember(scratch, scratch.decision.counted(), 0, self.direction);
            }
            return;
        }
        let middle = scratch.key.protocol == TCP && scratch.packet.flags & (TCP_ACK | TCP_SYN) == TCP_ACK;
        if middle && scratch.decision.reason == Reason::Row && self.device.netns >= 0 {
            self.tables.walked(Walked::MiddleOfFlow, bytes, self.device, scratch);
        }
    }

    /// A segment of a connection that we did not see begin: allowed iff the pod really holds that connection,
    /// the pod's side of it tells that it was opened the other way, and that way is allowed.
    #[inline(always)]
    fn middle_of_flow(&self, scratch: &mut Scratch) {
        let opener = self.direction.inverse();
        match (self.tables.socket(self.device.netns, &scratch.key), opener) {
            (Socket::Connected, Direction::Egress) | (Socket::Accepted, Direction::Ingress) => {}
            _ => return,
        }
        let denied = scratch.decision;
        let scratch = row(self.tables, scratch, opener);
        if scratch.decision.allow {
            let entry = scratch.decision.counted();
            self.remember(scratch, entry, REPLIED, opener);
            scratch.decision = Decision::of(true, entry, Reason::Midflow);
        } else {
            scratch.decision = denied;
        }
    }

    #[inline(always)]
    fn remember(&self, scratch: &Scratch, entry: u32, state: u8, opener: Direction) {
        let key = &scratch.key;
        let flow = Flow {
            word: scratch.word,
            entry,
            seen: self.tables.now(),
            echo: key.echo(),
            opener: opener as u8,
            state: if scratch.hairpin { state | HAIRPIN } else { state },
            zero: 0,
        };
        insert_flow(self.tables, key, &flow);
    }

    #[inline(always)]
    fn set_flow_key(&self, scratch: &mut Scratch) {
        let Scratch { packet, key, .. } = scratch;
        let (source, destination) =
            ((packet.source, packet.source_port), (packet.destination, packet.destination_port));
        *key = match self.direction {
            Direction::Ingress => self.key(destination, source, packet.protocol),
            Direction::Egress => self.key(source, destination, packet.protocol),
        };
    }

    #[inline(always)]
    fn key(&self, local: (Address, u16), remote: (Address, u16), protocol: u8) -> FlowKey {
        FlowKey {
            pod: self.device.pod,
            local: local.0,
            remote: remote.0,
            local_port: local.1,
            remote_port: remote.1,
            protocol,
            zero: [0; 3],
        }
    }

    #[inline(always)]
    fn fragment_key(&self, packet: &Packet) -> FragmentKey {
        FragmentKey {
            pod: self.device.pod,
            id: packet.fragment_id,
            source: packet.source,
            destination: packet.destination,
            protocol: packet.fragment_protocol,
            direction: self.direction as u8,
            zero: 0,
        }
    }

    #[inline(always)]
    fn isolated(&self, scratch: &Scratch) -> bool {
        scratch.word.isolated(self.direction)
    }

    /// Both conditions: two IPv6 fragments can lose the ingress interface on their way through the node, and
    /// bridged packets keep the sending pod's socket.
    #[inline(always)]
    fn is_from_node(&self, scratch: &Scratch) -> bool {
        let hook = &scratch.hook;
        self.direction == Direction::Ingress && hook.ingress_ifindex == 0 && hook.socket
    }
}

/// What a packet has to do with flows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tracking {
    /// It belongs to a flow if there is one.
    Follow,
    /// It opens a connection: it is judged whatever is remembered about its tuple.
    Open,
    /// Nothing: it is judged by itself and remembered by nobody. Also a SYN that says FIN or RST: some stacks open
    /// a connection by it, so no flow answers for it; most do not, so it makes none.
    Never,
}

impl Tracking {
    #[inline(always)]
    const fn of(packet: &Packet) -> Self {
        let opens = match packet.protocol {
            TCP => match packet.flags & (TCP_SYN | TCP_ACK | TCP_RST | TCP_FIN) {
                TCP_SYN => true,
                flags if flags & (TCP_SYN | TCP_ACK) == TCP_SYN => return Self::Never,
                _ => false,
            },
            SCTP => packet.flags == SCTP_INIT,
            // What is no echo has no identifier: one such message must not let others in as its replies.
            ICMP | ICMPV6 if !packet.is_echo() => return Self::Never,
            ICMP | ICMPV6 => matches!(packet.icmp_type, 8 | 128),
            _ => false,
        };
        if opens { Self::Open } else { Self::Follow }
    }
}

#[inline(never)]
fn insert_flow<T: Tables>(tables: &T, key: &FlowKey, flow: &Flow) {
    tables.insert_flow(key, flow);
}

#[inline(never)]
fn update_flow<T: Tables>(tables: &T, key: &FlowKey, flow: &Flow) {
    tables.update_flow(key, flow);
}

/// RFC 4960 chunk type.
const SCTP_INIT: u8 = 1;
/// How long the kernel waits for the rest of a datagram (`net.ipv4.ipfrag_time`), in seconds.
const FRAGMENT_SECONDS: i32 = 30;

const _: () = {
    // The UDP constant is part of the packet module's contract with conntrack::lifetime.
    assert!(UDP == 17 && ICMP == 1 && ICMPV6 == 58);
};
