//! `judge`: what happens to one packet at one hook of one pod.
//!
//! Invariants: a verdict always names an entry; a new flow is decided by exactly one policy row (a missing row
//! is a drop of its own, [`Reason::NoEntry`]); only allowed flows are remembered; a flow is judged again when
//! its pod's [`Word`] changes, in the direction in which it was opened. The function is pure but for what it
//! writes through [`Tables`], loops over nothing but the headers, and cannot panic.

use crate::abi::{
    Address, CidrKey, Device, Direction, Flow, FlowKey, FragmentKey, FragmentValue, PORT_CLASS_ICMP,
    PORT_CLASS_OTHER, PeerValue, PolicyKey, PolicyValue, RulesetPorts, Transport, Word, echo_address,
    is_ipv4, port_page_index,
};
use crate::conntrack::{
    self, FIN_LOCAL, FIN_REMOTE, NODE, REPLIED, RESET, TCP_ACK, TCP_FIN, TCP_RST, TCP_SYN,
};
use crate::packet::{self, Bytes, Frame, ICMP, ICMPV6, IGMP, Packet, Part, SCTP, TCP, UDP};
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
    /// The packet's headers, all zero when they were not needed.
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

/// One packet's way through the tables.
struct Walk<'a, T> {
    tables: &'a T,
    hook: Hook,
    device: Device,
}

/// Judges a packet. Returns `None` only when the hook's interface is out of range of `DEVICES`.
#[inline(always)]
pub fn judge<T: Tables>(bytes: &impl Bytes, hook: Hook, tables: &T) -> Option<Judgement> {
    let device = tables.device(hook.ifindex)?;
    let walk = Walk { tables, hook, device };
    if device.word.ruleset() == 0 {
        return Some(walk.built_in(Reason::NotReady, Packet::default()));
    }
    if !device.word.isolated_at_all() {
        return Some(walk.open_pod(bytes));
    }
    Some(match packet::parse(bytes) {
        Frame::Arp(sender) => walk.arp(sender),
        Frame::Ip(packet) if !hook.vlan => walk.ip(bytes, packet),
        Frame::Ip(_) | Frame::Unknown => walk.frame(),
        Frame::Malformed => walk.fixed(Reason::Malformed, Packet::default()),
        Frame::Martian => walk.fixed(Reason::Martian, Packet::default()),
    })
}

impl<T: Tables> Walk<'_, T> {
    /// A pod that no policy selects: its packets pass unread, but it may not pose as another.
    #[inline(always)]
    fn open_pod(&self, bytes: &impl Bytes) -> Judgement {
        if self.hook.direction == Direction::Ingress {
            return self.built_in(Reason::NotIsolatedIngress, Packet::default());
        }
        let own = match bytes.at::<2>(12).map(u16::from_be_bytes) {
            Some(0x0800) => bytes.at::<4>(26).is_none_or(|source| self.is_own_ipv4(source)),
            Some(0x86dd) => bytes.at::<16>(22).is_none_or(|source| self.is_own_ipv6(&source)),
            Some(0x0806) => bytes.at::<4>(28).is_none_or(|sender| self.is_own_ipv4(sender)),
            _ => true,
        };
        if own {
            self.built_in(Reason::NotIsolatedEgress, Packet::default())
        } else {
            self.fixed(Reason::Spoof, Packet::default())
        }
    }

    #[inline(always)]
    fn arp(&self, sender: [u8; 4]) -> Judgement {
        if self.hook.direction == Direction::Egress && !self.is_own_ipv4(sender) {
            return self.fixed(Reason::Spoof, Packet::default());
        }
        self.fixed(Reason::Neighbour, Packet::default())
    }

    /// A frame that no rule can speak about: dropped where the pod is isolated, else none of our business.
    #[inline(always)]
    fn frame(&self) -> Judgement {
        if self.isolated() {
            self.fixed(Reason::Frame, Packet::default())
        } else {
            self.not_isolated(Packet::default())
        }
    }

    #[inline(always)]
    fn ip(&self, bytes: &impl Bytes, packet: Packet) -> Judgement {
        if let Some(judgement) = self.exempt(&packet) {
            return judgement;
        }
        if packet.part == Part::Later {
            return self.later_fragment(packet);
        }
        let key = self.flow_key(&packet);
        if packet.is_icmp_error() && self.isolated() {
            return self.icmp_error(bytes, packet);
        }
        let judgement = self.tracked(&key, packet);
        if judgement.allow && packet.part == Part::First {
            let value =
                FragmentValue { word: self.device.word, entry: judgement.entry, seen: self.tables.now() };
            self.tables.insert_fragment(&self.fragment_key(&packet), &value);
        }
        judgement
    }

    /// What is decided before any policy: forged sources, neighbour discovery, the node, the pod itself.
    #[inline(always)]
    fn exempt(&self, packet: &Packet) -> Option<Judgement> {
        let egress = self.hook.direction == Direction::Egress;
        if egress && !self.is_own(&packet.source) {
            return Some(self.fixed(Reason::Spoof, *packet));
        }
        if packet.protocol == ICMPV6 && packet.part == Part::Whole {
            // RFC 4861: neighbour discovery is valid only with hop limit 255, which no router lets through.
            match (packet.icmp_type, packet.hop_limit) {
                (134 | 137, _) if egress => return Some(self.fixed(Reason::Router, *packet)),
                (133..=137, 255) => return Some(self.fixed(Reason::Neighbour, *packet)),
                (130..=132 | 143, 1) => return Some(self.fixed(Reason::MulticastControl, *packet)),
                _ => {}
            }
        }
        if packet.protocol == IGMP && packet.hop_limit == 1 && packet.destination[12] & 0xf0 == 0xe0 {
            return Some(self.fixed(Reason::MulticastControl, *packet));
        }
        if egress && self.is_own_destination(&packet.destination) {
            return Some(self.fixed(Reason::Itself, *packet));
        }
        if !egress
            && self.hook.ingress_ifindex == self.hook.ifindex
            && self.is_own_destination(&packet.source)
        {
            return Some(self.fixed(Reason::Itself, *packet));
        }
        None
    }

    #[inline(always)]
    fn later_fragment(&self, packet: Packet) -> Judgement {
        if !self.isolated() {
            return self.not_isolated(packet);
        }
        if self.from_node() {
            return self.fixed(Reason::Node, packet);
        }
        match self.tables.fragment(&self.fragment_key(&packet)) {
            Some(first)
                if first.word == self.device.word
                    && self.tables.now().wrapping_sub(first.seen) as i32 <= FRAGMENT_SECONDS =>
            {
                self.judgement(true, first.entry, Reason::Fragment, packet)
            }
            _ => self.fixed(Reason::FragmentUnknown, packet),
        }
    }

    /// RFC 5508 in spirit: an error passes iff the packet it quotes belongs to a flow of this pod, went the
    /// other way, and the error comes back to its sender.
    #[inline(always)]
    fn icmp_error(&self, bytes: &impl Bytes, packet: Packet) -> Judgement {
        if self.from_node() {
            return self.fixed(Reason::Node, packet);
        }
        let Some(quoted) = packet::quoted(bytes, &packet) else {
            return self.fixed(Reason::Unrelated, packet);
        };
        if quoted.source != packet.destination {
            return self.fixed(Reason::Unrelated, packet);
        }
        let key = match self.hook.direction {
            // The error arrives at the pod about something that the pod sent.
            Direction::Ingress => self.key(&quoted, Direction::Egress),
            Direction::Egress => self.key(&quoted, Direction::Ingress),
        };
        match self.tables.flow(&key) {
            Some(flow) if self.is_current(&flow, &key) => self.fixed(Reason::Related, packet),
            _ => self.fixed(Reason::Unrelated, packet),
        }
    }

    /// The flow's answer, or a new decision.
    #[inline(always)]
    fn tracked(&self, key: &FlowKey, packet: Packet) -> Judgement {
        // Every packet that opens a connection is judged, whatever is remembered about its tuple.
        let opens = match packet.protocol {
            TCP => packet.flags & (TCP_SYN | TCP_ACK | TCP_RST | TCP_FIN) == TCP_SYN,
            SCTP => packet.flags == SCTP_INIT,
            _ => false,
        };
        if self.from_node() {
            self.remember(key, Reason::Node.entry(), NODE, self.hook.direction);
            return self.fixed(Reason::Node, packet);
        }
        if !opens {
            if let Some(flow) = self.tables.flow(key) {
                if flow.echo == key.echo() && !conntrack::expired(&flow, key.protocol, self.tables.now()) {
                    return self.known(key, flow, packet);
                }
            }
        }
        self.new_flow(key, packet, opens)
    }

    #[inline(always)]
    fn known(&self, key: &FlowKey, mut flow: Flow, packet: Packet) -> Judgement {
        let before = flow;
        if flow.word.0 != self.device.word.0 && flow.state & NODE == 0 {
            let opener =
                if flow.opener == Direction::Ingress as u8 { Direction::Ingress } else { Direction::Egress };
            let again = self.row(opener, &key.remote, key, packet);
            if !again.allow {
                // The record stays: it says who opened the flow, so that neither side can reopen it by talking.
                return again;
            }
            flow.word = self.device.word;
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
            self.tables.update_flow(key, &flow);
        }
        self.judgement(true, flow.entry, Reason::Flow, packet)
    }

    #[inline(always)]
    fn new_flow(&self, key: &FlowKey, packet: Packet, opens: bool) -> Judgement {
        let judgement = self.row(self.hook.direction, &key.remote, key, packet);
        if judgement.allow {
            // A TCP segment that opens nothing passes on its own row but must not become a flow: it would let
            // the other side's segments in as replies.
            if packet.protocol != TCP || opens {
                self.remember(key, judgement.counted(), 0, self.hook.direction);
            }
            return judgement;
        }
        let middle = packet.protocol == TCP && packet.flags & (TCP_ACK | TCP_SYN) == TCP_ACK;
        if middle && judgement.reason == Reason::Row {
            return self.middle_of_flow(key, packet).unwrap_or(judgement);
        }
        judgement
    }

    /// A segment of a connection that we did not see begin: allowed iff the pod really holds that connection,
    /// the pod's side of it tells that it was opened the other way, and that way is allowed.
    #[inline(always)]
    fn middle_of_flow(&self, key: &FlowKey, packet: Packet) -> Option<Judgement> {
        if self.device.netns < 0 {
            return None;
        }
        let opener = match (self.tables.socket(self.device.netns, key), self.hook.direction) {
            (Socket::Connected, Direction::Ingress) => Direction::Egress,
            (Socket::Accepted, Direction::Egress) => Direction::Ingress,
            _ => return None,
        };
        let opened = self.row(opener, &key.remote, key, packet);
        if !opened.allow {
            return None;
        }
        self.remember(key, opened.counted(), REPLIED, opener);
        Some(self.judgement(true, opened.counted(), Reason::Midflow, packet))
    }

    /// The one row that decides for a flow opened in `direction`.
    #[inline(always)]
    fn row(&self, direction: Direction, remote: &Address, key: &FlowKey, packet: Packet) -> Judgement {
        let ruleset = self.device.word.ruleset();
        let row = if self.device.word.isolated(direction) {
            let Some(peer_class) = self.peer_class(remote) else {
                return self.built_in(Reason::NoEntry, packet);
            };
            let port = match direction {
                Direction::Ingress => key.local_port,
                Direction::Egress => key.remote_port,
            };
            let Some(port_class) = self.port_class(ruleset, direction, key.protocol, port) else {
                return self.built_in(Reason::NoEntry, packet);
            };
            PolicyKey::new(ruleset, direction, port_class, peer_class)
        } else {
            PolicyKey::not_isolated(ruleset, direction)
        };
        self.lookup(&row, packet)
    }

    #[inline(always)]
    fn lookup(&self, key: &PolicyKey, packet: Packet) -> Judgement {
        let value = match self.tables.policy(key) {
            Some(value) if value.echo == key.echo() => value,
            _ => return self.built_in(Reason::NoEntry, packet),
        };
        let allow = match value.verdict {
            PolicyValue::ALLOW => true,
            PolicyValue::DENY => false,
            _ => return self.built_in(Reason::NoEntry, packet),
        };
        Judgement {
            peer_class: key.peer_class,
            port_class: key.port_class,
            ..self.judgement(allow, value.entry, Reason::Row, packet)
        }
    }

    /// A PEERS hit, or the longest prefix: `::/0` and `::ffff:0:0/96` are always there, so a miss is an error.
    #[inline(always)]
    fn peer_class(&self, remote: &Address) -> Option<u32> {
        if let Some(peer) = self.tables.peer(remote) {
            if peer.echo == echo_address(remote) {
                return Some(peer.class);
            }
        }
        Some(self.tables.cidr(&CidrKey { prefix: 128, address: *remote })?.class)
    }

    #[inline(always)]
    fn port_class(&self, ruleset: u32, direction: Direction, protocol: u8, port: u16) -> Option<u16> {
        let transport = match protocol {
            TCP => Transport::Tcp,
            UDP => Transport::Udp,
            SCTP => Transport::Sctp,
            ICMP | ICMPV6 => return Some(PORT_CLASS_ICMP),
            _ => return Some(PORT_CLASS_OTHER),
        };
        let table = self.tables.ruleset_ports(ruleset)?.table(direction);
        let page = self.tables.port_page(port_page_index(table, transport, port))?;
        Some(u16::from(self.tables.port_class(page, (port & 0xff) as u8)?))
    }

    /// A built-in reason, by its row in the policy map.
    #[inline(always)]
    fn fixed(&self, reason: Reason, packet: Packet) -> Judgement {
        let key = PolicyKey::new(PolicyKey::FIXED, self.hook.direction, reason as u16, 0);
        let row = self.lookup(&key, packet);
        if row.reason == Reason::NoEntry { row } else { Judgement { reason, ..row } }
    }

    /// A built-in reason that needs no row: the fast path, and the ones that speak of missing rows.
    #[inline(always)]
    fn built_in(&self, reason: Reason, packet: Packet) -> Judgement {
        self.judgement(reason.verdict() == PolicyValue::ALLOW, reason.entry(), reason, packet)
    }

    /// The verdict of a direction that no policy isolates, by the ruleset's own row.
    #[inline(always)]
    fn not_isolated(&self, packet: Packet) -> Judgement {
        self.lookup(&PolicyKey::not_isolated(self.device.word.ruleset(), self.hook.direction), packet)
    }

    #[inline(always)]
    fn judgement(&self, allow: bool, entry: u32, reason: Reason, packet: Packet) -> Judgement {
        Judgement {
            allow,
            entry,
            reason,
            word: self.device.word,
            pod: self.device.pod,
            peer_class: 0,
            port_class: 0,
            packet,
        }
    }

    #[inline(always)]
    fn remember(&self, key: &FlowKey, entry: u32, state: u8, opener: Direction) {
        let flow = Flow {
            word: self.device.word,
            entry,
            seen: self.tables.now(),
            echo: key.echo(),
            opener: opener as u8,
            state,
            zero: 0,
        };
        self.tables.insert_flow(key, &flow);
    }

    /// True when the flow still stands under the pod's present word.
    #[inline(always)]
    fn is_current(&self, flow: &Flow, key: &FlowKey) -> bool {
        flow.echo == key.echo()
            && (flow.word.0 == self.device.word.0 || flow.state & NODE != 0)
            && !conntrack::expired(flow, key.protocol, self.tables.now())
    }

    #[inline(always)]
    fn flow_key(&self, packet: &Packet) -> FlowKey {
        self.key(packet, self.hook.direction)
    }

    #[inline(always)]
    fn key(&self, packet: &Packet, direction: Direction) -> FlowKey {
        let (local, remote, local_port, remote_port) = match direction {
            Direction::Ingress => {
                (packet.destination, packet.source, packet.destination_port, packet.source_port)
            }
            Direction::Egress => {
                (packet.source, packet.destination, packet.source_port, packet.destination_port)
            }
        };
        FlowKey {
            pod: self.device.pod,
            local,
            remote,
            local_port,
            remote_port,
            protocol: packet.protocol,
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
        self.device.word.isolated(self.hook.direction)
    }

    /// Both conditions: two IPv6 fragments can lose the ingress interface on their way through the node, and
    /// bridged packets keep the sending pod's socket.
    #[inline(always)]
    fn from_node(&self) -> bool {
        self.hook.direction == Direction::Ingress && self.hook.ingress_ifindex == 0 && self.hook.socket
    }

    #[inline(always)]
    fn is_own(&self, source: &Address) -> bool {
        if is_ipv4(source) {
            self.is_own_ipv4([source[12], source[13], source[14], source[15]])
        } else {
            self.is_own_ipv6(source)
        }
    }

    /// Also 0.0.0.0, which DHCP and ARP probes send from.
    #[inline(always)]
    fn is_own_ipv4(&self, source: [u8; 4]) -> bool {
        source == self.device.ipv4 || source == [0; 4] || self.any_source()
    }

    /// Also `::` and link-local addresses, which neighbour discovery sends from.
    #[inline(always)]
    fn is_own_ipv6(&self, source: &Address) -> bool {
        *source == self.device.ipv6
            || *source == [0; 16]
            || (source[0] == 0xfe && source[1] & 0xc0 == 0x80)
            || self.any_source()
    }

    #[inline(always)]
    fn any_source(&self) -> bool {
        self.device.flags & Device::ANY_SOURCE != 0
    }

    #[inline(always)]
    fn is_own_destination(&self, address: &Address) -> bool {
        if is_ipv4(address) {
            self.device.ipv4 != [0; 4]
                && [address[12], address[13], address[14], address[15]] == self.device.ipv4
        } else {
            self.device.ipv6 != [0; 16] && *address == self.device.ipv6
        }
    }
}

/// RFC 4960 chunk type.
const SCTP_INIT: u8 = 1;
/// How long the kernel waits for the rest of a datagram (`net.ipv4.ipfrag_time`), in seconds.
const FRAGMENT_SECONDS: i32 = 30;

const _: () = {
    // The UDP constant is part of the packet module's contract with conntrack::lifetime.
    assert!(UDP == 17 && ICMP == 1 && ICMPV6 == 58);
};
