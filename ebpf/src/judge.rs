//! `judge`: what happens to one packet at one hook of one pod.
//!
//! Invariants: a verdict always names an entry; a new flow is decided by exactly one policy row (a missing row
//! is a drop of its own, [`Reason::NoEntry`]); only allowed flows are remembered; a flow is judged again when
//! its pod's [`Word`] changes, in the direction in which it was opened. The function is pure but for what it
//! writes through [`Tables`], loops over nothing but the headers, and cannot panic.

use crate::abi::{
    Address, CidrKey, Device, Direction, Flow, FlowKey, FragmentKey, FragmentValue, PORT_CLASS_ICMP,
    PORT_CLASS_OTHER, PeerValue, PolicyKey, PolicyValue, RulesetPorts, Transport, Word, echo_address,
    ipv4_of, is_ipv4, port_page_index, words,
};
use crate::conntrack::{
    self, FIN_LOCAL, FIN_REMOTE, NODE, REPLIED, RESET, TCP_ACK, TCP_FIN, TCP_RST, TCP_SYN,
};
use crate::packet::{self, Bytes, ETHERNET, Frame, ICMP, ICMPV6, IGMP, Packet, Part, SCTP, TCP, UDP, View};
use crate::reason::Reason;

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
    /// `PORT_PAGES`, by [`port_page_index`].
    fn port_page(&self, index: u32) -> Option<u32>;
    /// `PORT_CLASSES`: one byte of one page.
    fn port_class(&self, page: u32, low: u8) -> Option<u8>;
    /// `POLICY`.
    fn policy(&self, key: &PolicyKey) -> Option<PolicyValue>;
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
    /// True when a VLAN tag was taken off the frame.
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
}

/// How far the walk came: what is left is at most one row to read.
#[derive(Clone, Copy)]
enum Step {
    /// Everything is known.
    Decided(Decision),
    /// A built-in reason, by its row in the policy map.
    Fixed(Reason),
    /// The verdict of a direction that no policy isolates, by the ruleset's own row.
    NotIsolated,
}

/// What a judgement writes down on its way. In the kernel this is per-CPU memory: the stack has 512 bytes.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(8))]
pub struct Scratch {
    /// The headers as far as they were read.
    pub packet: Packet,
    /// The packet's flow, once it is looked for.
    key: FlowKey,
}

impl Scratch {
    /// Ready for a packet.
    pub const CLEAN: Self = Self {
        packet: Packet::CLEAN,
        key: FlowKey {
            pod: 0,
            local: [0; 16],
            remote: [0; 16],
            local_port: 0,
            remote_port: 0,
            protocol: 0,
            zero: [0; 3],
        },
    };
}

/// One packet's way through the tables.
struct Walk<'a, T> {
    tables: &'a T,
    hook: Hook,
    device: &'a Device,
    word: Word,
}

/// Judges a packet. Returns `None` only when the hook's interface is out of range of `DEVICES`.
pub fn judge<T: Tables>(bytes: &impl Bytes, hook: Hook, tables: &T) -> Option<Judgement> {
    let device = tables.device(hook.ifindex)?;
    let mut scratch = Scratch::CLEAN;
    let decision = decide(bytes, hook, &device, device.word, tables, &mut scratch);
    Some(Judgement {
        allow: decision.allow,
        entry: decision.entry,
        reason: decision.reason,
        word: device.word,
        pod: device.pod,
        peer_class: decision.peer_class,
        port_class: decision.port_class,
        packet: scratch.packet,
    })
}

/// Judges a packet of a device, whose word is read once by the caller: nothing here reads it again.
#[inline(always)]
pub fn decide<T: Tables>(
    bytes: &impl Bytes,
    hook: Hook,
    device: &Device,
    word: Word,
    tables: &T,
    scratch: &mut Scratch,
) -> Decision {
    scratch.packet = Packet::CLEAN;
    let walk = Walk { tables, hook, device, word };
    walk.finish(walk.steps(bytes, scratch))
}

// What is rare or needs many bytes of stack is a function of its own (`inline(never)`): in the kernel the common
// path then stays short, and all that is on the stack at one time within 512 bytes.
impl<T: Tables> Walk<'_, T> {
    #[inline(always)]
    fn steps<B: Bytes>(&self, bytes: &B, scratch: &mut Scratch) -> Step {
        if self.word.ruleset() == 0 {
            return Step::Decided(Decision::built_in(Reason::NotReady));
        }
        if !self.word.isolated_at_all() {
            return self.open_pod(bytes);
        }
        match packet::parse(bytes, &mut scratch.packet) {
            Frame::Arp(sender) => self.arp(sender),
            Frame::Ip if !self.hook.vlan => self.ip(bytes, scratch),
            Frame::Ip | Frame::Unknown => self.frame(),
            Frame::Malformed => Step::Fixed(Reason::Malformed),
            Frame::Martian => Step::Fixed(Reason::Martian),
        }
    }

    /// Reads the row that is left to read.
    #[inline(always)]
    fn finish(&self, step: Step) -> Decision {
        let (key, built_in) = match step {
            Step::Decided(decision) => return decision,
            Step::Fixed(reason) => {
                (PolicyKey::new(PolicyKey::FIXED, self.hook.direction, reason as u16, 0), Some(reason))
            }
            Step::NotIsolated => (PolicyKey::not_isolated(self.word.ruleset(), self.hook.direction), None),
        };
        let decision = lookup(self.tables, &key);
        match built_in {
            Some(reason) if decision.reason == Reason::Row => Decision { reason, ..decision },
            _ => decision,
        }
    }

    /// A pod that no policy selects: its packets pass unread, but it may not pose as another.
    #[inline(always)]
    fn open_pod(&self, bytes: &impl Bytes) -> Step {
        if self.hook.direction == Direction::Ingress {
            return Step::Decided(Decision::built_in(Reason::NotIsolatedIngress));
        }
        let own = match bytes.at::<14>(0).map(|ethernet| ethernet.short(12)) {
            Some(0x0800) => bytes.at::<20>(ETHERNET).is_none_or(|ip| self.is_own_ipv4(ip.bytes4(12))),
            Some(0x86dd) => bytes.at::<40>(ETHERNET).is_none_or(|ip| self.is_own_ipv6(&ip.address(8))),
            Some(0x0806) => bytes.at::<28>(ETHERNET).is_none_or(|arp| self.is_own_ipv4(arp.bytes4(14))),
            _ => true,
        };
        if own {
            Step::Decided(Decision::built_in(Reason::NotIsolatedEgress))
        } else {
            Step::Fixed(Reason::Spoof)
        }
    }

    #[inline(always)]
    fn arp(&self, sender: [u8; 4]) -> Step {
        if self.hook.direction == Direction::Egress && !self.is_own_ipv4(sender) {
            return Step::Fixed(Reason::Spoof);
        }
        Step::Fixed(Reason::Neighbour)
    }

    /// A frame that no rule can speak about: dropped where the pod is isolated, else none of our business.
    #[inline(always)]
    fn frame(&self) -> Step {
        if self.isolated() { Step::Fixed(Reason::Frame) } else { Step::NotIsolated }
    }

    #[inline(always)]
    fn ip<B: Bytes>(&self, bytes: &B, scratch: &mut Scratch) -> Step {
        let packet = &scratch.packet;
        if let Some(reason) = self.exempt(packet) {
            return Step::Fixed(reason);
        }
        if packet.part == Part::Later || (packet.is_icmp_error() && self.isolated()) {
            return if !self.isolated() {
                Step::NotIsolated
            } else if self.is_from_node() {
                Step::Fixed(Reason::Node)
            } else if packet.part == Part::Later {
                self.later_fragment(packet)
            } else {
                Step::Fixed(self.icmp_error(bytes, scratch))
            };
        }
        self.set_flow_key(&mut scratch.key, packet);
        let step = self.tracked(&scratch.key, packet);
        if packet.part == Part::First {
            // Only here is the decision needed before the end: rare enough to read the row twice.
            let decision = self.finish(step);
            if decision.allow {
                self.remember_fragment(packet, decision.entry);
            }
            return Step::Decided(decision);
        }
        step
    }

    /// What is decided before any policy: forged sources, neighbour discovery, the node, the pod itself.
    #[inline(always)]
    fn exempt(&self, packet: &Packet) -> Option<Reason> {
        let egress = self.hook.direction == Direction::Egress;
        if egress && !self.is_own(&packet.source) {
            return Some(Reason::Spoof);
        }
        if packet.protocol == ICMPV6 && packet.part == Part::Whole {
            // RFC 4861: neighbour discovery is valid only with hop limit 255, which no router lets through.
            match (packet.icmp_type, packet.hop_limit) {
                (134 | 137, _) if egress => return Some(Reason::Router),
                (133..=137, 255) => return Some(Reason::Neighbour),
                (130..=132 | 143, 1) => return Some(Reason::MulticastControl),
                _ => {}
            }
        }
        if packet.protocol == IGMP && packet.hop_limit == 1 && ipv4_of(&packet.destination)[0] & 0xf0 == 0xe0
        {
            return Some(Reason::MulticastControl);
        }
        if egress && self.is_own_destination(&packet.destination) {
            return Some(Reason::Itself);
        }
        if !egress
            && self.hook.ingress_ifindex == self.hook.ifindex
            && self.is_own_destination(&packet.source)
        {
            return Some(Reason::Itself);
        }
        None
    }

    /// The rest of a datagram passes iff its first fragment was allowed here, under this word, not too long ago.
    #[inline(never)]
    fn later_fragment(&self, packet: &Packet) -> Step {
        match self.tables.fragment(&self.fragment_key(packet)) {
            Some(first)
                if first.word.0 == self.word.0
                    && self.tables.now().wrapping_sub(first.seen).cast_signed() <= FRAGMENT_SECONDS =>
            {
                Step::Decided(Decision::of(true, first.entry, Reason::Fragment))
            }
            _ => Step::Fixed(Reason::FragmentUnknown),
        }
    }

    #[inline(never)]
    fn remember_fragment(&self, packet: &Packet, entry: u32) {
        let value = FragmentValue { word: self.word, entry, seen: self.tables.now() };
        self.tables.insert_fragment(&self.fragment_key(packet), &value);
    }

    /// RFC 5508 in spirit: an error passes iff the packet it quotes belongs to a flow of this pod, went the
    /// other way, and the error comes back to its sender.
    #[inline(never)]
    fn icmp_error<B: Bytes>(&self, bytes: &B, scratch: &mut Scratch) -> Reason {
        let Scratch { packet: error, key } = scratch;
        let Some(quoted) = packet::quoted(bytes, error.protocol, error.transport_offset) else {
            return Reason::Unrelated;
        };
        if words(&quoted.source) != words(&error.destination) {
            return Reason::Unrelated;
        }
        // An error that arrives at the pod is about something that the pod sent, and the other way round.
        *key = match self.hook.direction {
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
        match self.tables.flow(key) {
            Some(flow) if self.is_current(&flow, key) => Reason::Related,
            _ => Reason::Unrelated,
        }
    }

    /// The flow's answer, or a new decision.
    #[inline(always)]
    fn tracked(&self, key: &FlowKey, packet: &Packet) -> Step {
        // Every packet that opens a connection is judged, whatever is remembered about its tuple.
        let (stateful, opens) = match packet.protocol {
            TCP => (true, packet.flags & (TCP_SYN | TCP_ACK | TCP_RST | TCP_FIN) == TCP_SYN),
            SCTP => (true, packet.flags == SCTP_INIT),
            // What is no echo has no identifier: one such message must not let others in as its replies.
            ICMP | ICMPV6 => (packet.is_echo(), matches!(packet.icmp_type, 8 | 128)),
            _ => (true, false),
        };
        let node = self.is_from_node();
        if stateful
            && !opens
            && let Some(flow) = self.tables.flow(key)
            && flow.echo == key.echo()
            && !conntrack::expired(&flow, key.protocol, self.tables.now())
        {
            return self.known(key, flow, packet, node);
        }
        if node {
            if stateful {
                self.remember(key, Reason::Node.entry(), NODE, self.hook.direction);
            }
            return Step::Fixed(Reason::Node);
        }
        // A TCP segment that opens nothing passes on its own row but must not become a flow: it would let the
        // other side's segments in as replies.
        let remembered = if packet.protocol == TCP { opens } else { stateful };
        Step::Decided(self.new_flow(key, packet.flags, remembered))
    }

    #[inline(always)]
    fn known(&self, key: &FlowKey, mut flow: Flow, packet: &Packet, node: bool) -> Step {
        let before = flow;
        // What the node sends passes in any case; but it must not renew the word of a flow that the pod opened.
        if flow.word.0 != self.word.0 && flow.state & NODE == 0 && !node {
            let opener =
                if flow.opener == Direction::Ingress as u8 { Direction::Ingress } else { Direction::Egress };
            let again = self.row(opener, key);
            if !again.allow {
                // The record stays: it says who opened the flow, so that neither side can reopen it by talking.
                return Step::Decided(again);
            }
            flow.word = self.word;
            flow.entry = again.counted();
        }
        flow.seen = self.tables.now();
        if flow.opener != self.hook.direction as u8 {
            flow.state |= REPLIED;
        }
        if packet.protocol == TCP {
            if packet.flags & TCP_RST != 0 {
                flow.state |= RESET;
            }
            if packet.flags & TCP_FIN != 0 {
                flow.state |= if self.hook.direction == Direction::Egress { FIN_LOCAL } else { FIN_REMOTE };
            }
        }
        if flow != before {
            update_flow(self.tables, key, &flow);
        }
        if node {
            return Step::Fixed(Reason::Node);
        }
        Step::Decided(Decision::of(true, flow.entry, Reason::Flow))
    }

    /// Judges what no record answers for.
    #[inline(never)]
    fn new_flow(&self, key: &FlowKey, tcp_flags: u8, remembered: bool) -> Decision {
        let decision = self.row(self.hook.direction, key);
        if decision.allow {
            if remembered {
                self.remember(key, decision.counted(), 0, self.hook.direction);
            }
            return decision;
        }
        let middle = key.protocol == TCP && tcp_flags & (TCP_ACK | TCP_SYN) == TCP_ACK;
        if middle
            && decision.reason == Reason::Row
            && self.device.netns >= 0
            && let Some(entry) = self.middle_of_flow(key)
        {
            return Decision::of(true, entry, Reason::Midflow);
        }
        decision
    }

    /// A segment of a connection that we did not see begin: allowed iff the pod really holds that connection,
    /// the pod's side of it tells that it was opened the other way, and that way is allowed.
    #[inline(never)]
    fn middle_of_flow(&self, key: &FlowKey) -> Option<u32> {
        let opener = match (self.tables.socket(self.device.netns, key), self.hook.direction) {
            (Socket::Connected, Direction::Ingress) => Direction::Egress,
            (Socket::Accepted, Direction::Egress) => Direction::Ingress,
            _ => return None,
        };
        let opened = self.row(opener, key);
        if !opened.allow {
            return None;
        }
        self.remember(key, opened.counted(), REPLIED, opener);
        Some(opened.counted())
    }

    #[inline(always)]
    fn row(&self, direction: Direction, key: &FlowKey) -> Decision {
        row(self.tables, key, self.word, direction)
    }

    #[inline(always)]
    fn remember(&self, key: &FlowKey, entry: u32, state: u8, opener: Direction) {
        let flow = Flow {
            word: self.word,
            entry,
            seen: self.tables.now(),
            echo: key.echo(),
            opener: opener as u8,
            state,
            zero: 0,
        };
        insert_flow(self.tables, key, &flow);
    }

    /// True when the flow still stands under the pod's present word.
    #[inline(always)]
    fn is_current(&self, flow: &Flow, key: &FlowKey) -> bool {
        flow.echo == key.echo()
            && (flow.word.0 == self.word.0 || flow.state & NODE != 0)
            && !conntrack::expired(flow, key.protocol, self.tables.now())
    }

    #[inline(always)]
    fn set_flow_key(&self, key: &mut FlowKey, packet: &Packet) {
        let (source, destination) =
            ((packet.source, packet.source_port), (packet.destination, packet.destination_port));
        *key = match self.hook.direction {
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
            direction: self.hook.direction as u8,
            zero: 0,
        }
    }

    #[inline(always)]
    fn isolated(&self) -> bool {
        self.word.isolated(self.hook.direction)
    }

    /// Both conditions: two IPv6 fragments can lose the ingress interface on their way through the node, and
    /// bridged packets keep the sending pod's socket.
    #[inline(always)]
    fn is_from_node(&self) -> bool {
        self.hook.direction == Direction::Ingress && self.hook.ingress_ifindex == 0 && self.hook.socket
    }

    #[inline(always)]
    fn is_own(&self, source: &Address) -> bool {
        if is_ipv4(source) { self.is_own_ipv4(ipv4_of(source)) } else { self.is_own_ipv6(source) }
    }

    /// Also 0.0.0.0, which DHCP and ARP probes send from.
    #[inline(always)]
    fn is_own_ipv4(&self, source: [u8; 4]) -> bool {
        source == self.device.ipv4 || source == [0; 4] || self.any_source()
    }

    /// Also `::` and link-local addresses, which neighbour discovery sends from.
    #[inline(always)]
    fn is_own_ipv6(&self, source: &Address) -> bool {
        let source = words(source);
        let link_local = source[0] & 0xc0ff == 0x80fe;
        source == words(&self.device.ipv6) || source == [0; 2] || link_local || self.any_source()
    }

    #[inline(always)]
    fn any_source(&self) -> bool {
        self.device.flags & Device::ANY_SOURCE != 0
    }

    #[inline(always)]
    fn is_own_destination(&self, address: &Address) -> bool {
        if is_ipv4(address) {
            self.device.ipv4 != [0; 4] && ipv4_of(address) == self.device.ipv4
        } else {
            let own = words(&self.device.ipv6);
            own != [0; 2] && words(address) == own
        }
    }
}

/// The one row that decides for a flow opened in `direction`.
#[inline(never)]
fn row<T: Tables>(tables: &T, key: &FlowKey, word: Word, direction: Direction) -> Decision {
    let ruleset = word.ruleset();
    let row = if word.isolated(direction) {
        let Some(peer_class) = peer_class(tables, &key.remote) else {
            return Decision::built_in(Reason::NoEntry);
        };
        let port = match direction {
            Direction::Ingress => key.local_port,
            Direction::Egress => key.remote_port,
        };
        let Some(port_class) = port_class(tables, ruleset, direction, key.protocol, port) else {
            return Decision::built_in(Reason::NoEntry);
        };
        PolicyKey::new(ruleset, direction, port_class, peer_class)
    } else {
        PolicyKey::not_isolated(ruleset, direction)
    };
    lookup(tables, &row)
}

#[inline(always)]
fn lookup<T: Tables>(tables: &T, key: &PolicyKey) -> Decision {
    let value = match tables.policy(key) {
        Some(value) if value.echo == key.echo() => value,
        _ => return Decision::built_in(Reason::NoEntry),
    };
    let allow = match value.verdict {
        PolicyValue::ALLOW => true,
        PolicyValue::DENY => false,
        _ => return Decision::built_in(Reason::NoEntry),
    };
    let (peer_class, port_class) =
        if key.ruleset == PolicyKey::FIXED { (0, 0) } else { (key.peer_class, key.port_class) };
    Decision { peer_class, port_class, ..Decision::of(allow, value.entry, Reason::Row) }
}

/// A PEERS hit, or the longest prefix: `::/0` and `::ffff:0:0/96` are always there, so a miss is an error.
#[inline(always)]
fn peer_class<T: Tables>(tables: &T, remote: &Address) -> Option<u32> {
    if let Some(peer) = tables.peer(remote)
        && peer.echo == echo_address(remote)
    {
        return Some(peer.class);
    }
    Some(tables.cidr(&CidrKey { prefix: 128, address: *remote })?.class)
}

#[inline(always)]
fn port_class<T: Tables>(
    tables: &T,
    ruleset: u32,
    direction: Direction,
    protocol: u8,
    port: u16,
) -> Option<u16> {
    let transport = match protocol {
        TCP => Transport::Tcp,
        UDP => Transport::Udp,
        SCTP => Transport::Sctp,
        ICMP | ICMPV6 => return Some(PORT_CLASS_ICMP),
        _ => return Some(PORT_CLASS_OTHER),
    };
    let table = tables.ruleset_ports(ruleset)?.table(direction);
    let page = tables.port_page(port_page_index(table, transport, port))?;
    Some(u16::from(tables.port_class(page, (port & 0xff) as u8)?))
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
