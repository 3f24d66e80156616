//! Map keys and values, byte for byte as the kernel holds them.
//!
//! Invariant: every type is `repr(C)` without implicit padding (asserted by size at the end of the file), so
//! equal values are equal bytes and a key can be recomputed by anyone. A change of any layout here changes
//! [`ABI_VERSION`], which names the pin directory and is checked against the object before it is used.
//! Integers are in host order (little endian on every supported target); addresses and nothing else are in
//! network order.

/// Version of every layout in this file.
pub const ABI_VERSION: u32 = 2;

/// The bit of a packet's mark that stands for a deferred verdict, unless the loader sets another: none that kube-proxy
/// (0x4000, 0x8000), Calico (0xffff0000), Cilium (0x0f00) or the AWS CNI (0x80) uses.
pub const DEFER_MARK: u32 = 0x2000;

/// An address of either family in network order; IPv4 is stored as `::ffff:a.b.c.d`.
pub type Address = [u8; 16];

/// The direction of a decision, seen from the pod whose hook it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Direction {
    /// To the pod: the `to_pod` hook (tc egress of the host-side veth).
    Ingress = 1,
    /// From the pod: the `from_pod` hook (tc ingress of the host-side veth).
    Egress = 2,
}

impl Direction {
    /// The other direction.
    #[inline(always)]
    #[must_use]
    pub const fn inverse(self) -> Self {
        match self {
            Self::Ingress => Self::Egress,
            Self::Egress => Self::Ingress,
        }
    }
}

/// Which ruleset a pod is under, and whether its directions are isolated at all.
///
/// One aligned u64: a policy change of a pod is one store, and no packet sees half of it. The low half names
/// the ruleset (bits 0–29) and the isolated directions (bits 30 and 31); the high half is the generation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Word(pub u64);

impl Word {
    const INGRESS: u64 = 1 << 31;
    const EGRESS: u64 = 1 << 30;
    const RULESET: u64 = Self::EGRESS - 1;

    /// Packs a word. `ruleset` must be below 2^30; 0 means that no ruleset is ready.
    #[must_use]
    pub const fn new(ruleset: u32, ingress_isolated: bool, egress_isolated: bool, generation: u32) -> Self {
        let mut word = (ruleset as u64 & Self::RULESET) | ((generation as u64) << 32);
        if ingress_isolated {
            word |= Self::INGRESS;
        }
        if egress_isolated {
            word |= Self::EGRESS;
        }
        Self(word)
    }

    /// The ruleset's number; 0 when there is none yet.
    #[inline(always)]
    #[must_use]
    pub const fn ruleset(self) -> u32 {
        (self.0 & Self::RULESET) as u32
    }

    /// The generation in which the pod was last switched.
    #[inline(always)]
    #[must_use]
    pub const fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// True when some policy isolates the pod in this direction.
    #[inline(always)]
    #[must_use]
    pub const fn isolated(self, direction: Direction) -> bool {
        match direction {
            Direction::Ingress => self.0 & Self::INGRESS != 0,
            Direction::Egress => self.0 & Self::EGRESS != 0,
        }
    }

    /// True when some policy isolates the pod in some direction.
    #[inline(always)]
    #[must_use]
    pub const fn isolated_at_all(self) -> bool {
        self.0 & (Self::INGRESS | Self::EGRESS) != 0
    }
}

/// `DEVICES[ifindex]`: the pod behind a host-side interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Device {
    /// The pod's ruleset and generation.
    pub word: Word,
    /// The pod's number, never reused; part of every flow key. 0 when the device is not claimed.
    pub pod: u32,
    /// See [`Device::ANY_SOURCE`].
    pub flags: u16,
    /// Where `LAST_DROP` keeps the pod's last drops, see [`last_drop_index`]. 0 when it has no place of its own.
    pub drops: u16,
    /// The pod's IPv4 address in network order, or zero.
    pub ipv4: [u8; 4],
    /// The id of the pod's network namespace as seen from the node's (`IFLA_LINK_NETNSID`), or -1.
    pub netns: i32,
    /// The pod's IPv6 address, or zero.
    pub ipv6: [u8; 16],
}

impl Device {
    /// The pod may send from addresses that are not its own (an opt-out: it can then pose as any peer).
    pub const ANY_SOURCE: u16 = 1;
}

/// Key of `CIDRS`, a longest-prefix map of the prefixes that rules name (and the two family roots).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(C)]
pub struct CidrKey {
    /// Prefix length in bits, of 128: an IPv4 /24 is 120.
    pub prefix: u32,
    /// The network address.
    pub address: Address,
}

/// Value of `PEERS` (exact addresses) and `CIDRS` (prefixes).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct PeerValue {
    /// The peer class: 0 is never valid.
    pub class: u32,
    /// [`echo_address`] of the key. A hash element may be recycled under a reader: a mismatch is a miss.
    pub echo: u32,
}

/// `RULESETS[ruleset]`: the port tables of a ruleset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct RulesetPorts {
    /// Index of the port table used for ingress.
    pub ingress: u32,
    /// Index of the port table used for egress.
    pub egress: u32,
}

impl RulesetPorts {
    /// The table of one direction.
    #[inline(always)]
    #[must_use]
    pub const fn table(self, direction: Direction) -> u32 {
        match direction {
            Direction::Ingress => self.ingress,
            Direction::Egress => self.egress,
        }
    }
}

/// `PORT_CLASSES[page]`: the classes of 256 consecutive ports.
pub type PortPage = [u8; 256];

/// Index into `PORT_PAGES`, which holds the page for each (port table, transport, port / 256).
#[inline(always)]
#[must_use]
pub const fn port_page_index(table: u32, transport: Transport, port: u16) -> u32 {
    let row = table.wrapping_mul(Transport::COUNT).wrapping_add(transport as u32);
    row.wrapping_mul(256).wrapping_add((port >> 8) as u32)
}

/// The protocols whose ports policies can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u32)]
pub enum Transport {
    /// IP protocol 6.
    Tcp = 0,
    /// IP protocol 17.
    Udp = 1,
    /// IP protocol 132.
    Sctp = 2,
}

impl Transport {
    /// How many there are.
    pub const COUNT: u32 = 3;
}

/// Port class of ICMP and ICMPv6 in every port table.
pub const PORT_CLASS_ICMP: u16 = 0;
/// Port class of every other protocol that has no ports policies can name.
pub const PORT_CLASS_OTHER: u16 = 1;
/// First class of (transport, port) pairs.
pub const PORT_CLASS_FIRST: u16 = 2;

/// Key of `POLICY`: one row per ruleset, direction, peer class and port class; no wildcards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(C)]
pub struct PolicyKey {
    /// The ruleset; [`PolicyKey::FIXED`] for the rows of the built-in reasons.
    pub ruleset: u32,
    /// A [`Direction`] as u8.
    pub direction: u8,
    /// Always zero.
    pub zero: u8,
    /// The port class in the ruleset's table of this direction; for fixed rows the reason.
    pub port_class: u16,
    /// The peer class; 0 in the one row of a direction that is not isolated.
    pub peer_class: u32,
}

impl PolicyKey {
    /// The pseudo-ruleset of the built-in reasons' rows.
    pub const FIXED: u32 = 0;

    /// A key of a compiled row.
    #[inline(always)]
    #[must_use]
    pub const fn new(ruleset: u32, direction: Direction, port_class: u16, peer_class: u32) -> Self {
        Self { ruleset, direction: direction as u8, zero: 0, port_class, peer_class }
    }

    /// The key of the one row of a direction that no policy isolates.
    #[inline(always)]
    #[must_use]
    pub const fn not_isolated(ruleset: u32, direction: Direction) -> Self {
        Self::new(ruleset, direction, 0, 0)
    }

    /// 32 bits of the key, for the value to repeat.
    #[inline(always)]
    #[must_use]
    pub const fn echo(&self) -> u32 {
        self.ruleset
            ^ self.peer_class.rotate_left(8)
            ^ ((self.port_class as u32) << 2)
            ^ ((self.direction as u32) << 30)
    }
}

/// Value of `POLICY`: what happens, and which entry says so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct PolicyValue {
    /// [`PolicyValue::ALLOW`] or [`PolicyValue::DENY`]; anything else is treated as a missing row.
    pub verdict: u8,
    /// The tier that decided, for readers of raw maps: a [`crate::reason::Tier`] as u8.
    pub tier: u8,
    /// Always zero.
    pub zero: u16,
    /// The entry to cite and to count.
    pub entry: u32,
    /// [`PolicyKey::echo`] of the key.
    pub echo: u32,
}

impl PolicyValue {
    /// The packet passes.
    pub const ALLOW: u8 = 1;
    /// The packet is dropped.
    pub const DENY: u8 = 2;
}

/// Key of `SERVICES`: an address and port that this node's proxy translates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(C)]
pub struct ServiceKey {
    /// The address.
    pub address: Address,
    /// The port, host order.
    pub port: u16,
    /// IP protocol.
    pub protocol: u8,
    /// Always zero.
    pub zero: u8,
}

impl ServiceKey {
    /// 32 bits of the key, for the value to repeat.
    #[inline(always)]
    #[must_use]
    pub const fn echo(&self) -> u32 {
        echo_address(&self.address) ^ ((self.port as u32) << 8) ^ self.protocol as u32
    }
}

/// Where a Service's packets may come out: endpoints that no ruleset tells apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(C)]
pub struct ServiceTarget {
    /// The endpoints' peer class.
    pub peer_class: u32,
    /// The port on which they are reached, host order.
    pub port: u16,
    /// Always zero.
    pub zero: u16,
}

/// All the places where a Service's packets may come out, for pods of one generation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct ServiceTargets {
    /// The first [`ServiceTargets::count`] count, the rest is zero. In order.
    pub list: [ServiceTarget; ServiceTargets::MOST],
    /// How many; 0: nothing translates this, it is an ordinary address; [`ServiceTargets::TOO_MANY`]: more than the list
    /// holds, which then is empty.
    pub count: u8,
    /// See [`ServiceTargets::DEFERRABLE`].
    pub flags: u8,
    /// Always zero.
    pub zero: u16,
}

impl ServiceTargets {
    /// How many can be listed.
    pub const MOST: usize = 4;
    /// There are more.
    pub const TOO_MANY: u8 = 0xff;
    /// Each endpoint lies behind a hook at which a packet can be judged once its endpoint is known.
    pub const DEFERRABLE: u8 = 1;
}

/// Value of `SERVICES`.
///
/// While a change is under way it holds what was and what is to be, and each pod goes by that of its own generation: so
/// no pod judges by the endpoints of one change and the rules of another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct ServiceValue {
    /// For pods whose word has generation [`ServiceValue::since`] or a later one.
    pub targets: ServiceTargets,
    /// For pods of earlier generations.
    pub former: ServiceTargets,
    /// The generation from which on `targets` count; 0 when they count for all.
    pub since: u32,
    /// [`ServiceKey::echo`] of the key.
    pub echo: u32,
}

/// Key of `CONNTRACK4`: a flow of one pod, seen from the pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(C)]
pub struct Flow4Key {
    /// [`Device::pod`].
    pub pod: u32,
    /// The pod's own address as the packet has it.
    pub local: [u8; 4],
    /// The other end.
    pub remote: [u8; 4],
    /// The pod's port (or ICMP echo id), host order.
    pub local_port: u16,
    /// The other end's port (or ICMP echo id), host order.
    pub remote_port: u16,
    /// IP protocol.
    pub protocol: u8,
    /// Always zero.
    pub zero: [u8; 3],
}

/// Key of `CONNTRACK6`, and the family-neutral form of a flow key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(C)]
pub struct FlowKey {
    /// [`Device::pod`].
    pub pod: u32,
    /// The pod's own address as the packet has it.
    pub local: Address,
    /// The other end.
    pub remote: Address,
    /// The pod's port (or ICMP echo id), host order.
    pub local_port: u16,
    /// The other end's port (or ICMP echo id), host order.
    pub remote_port: u16,
    /// IP protocol.
    pub protocol: u8,
    /// Always zero.
    pub zero: [u8; 3],
}

impl FlowKey {
    /// The same key as `CONNTRACK4` holds it. Only for keys whose addresses are IPv4.
    #[inline(always)]
    #[must_use]
    pub const fn narrow(&self) -> Flow4Key {
        Flow4Key {
            pod: self.pod,
            local: ipv4_of(&self.local),
            remote: ipv4_of(&self.remote),
            local_port: self.local_port,
            remote_port: self.remote_port,
            protocol: self.protocol,
            zero: [0; 3],
        }
    }

    /// True when the addresses are IPv4.
    #[inline(always)]
    #[must_use]
    pub const fn is_ipv4(&self) -> bool {
        is_ipv4(&self.local)
    }

    /// 32 bits of the key, for the value to repeat.
    #[inline(always)]
    #[must_use]
    pub const fn echo(&self) -> u32 {
        echo_address(&self.remote)
            ^ self.pod.rotate_left(16)
            ^ ((self.local_port as u32) << 16)
            ^ self.remote_port as u32
    }
}

/// Value of `CONNTRACK4` and `CONNTRACK6`: who opened the flow and what allowed it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Flow {
    /// The pod's [`Word`] when the flow was last judged: another word means judge again.
    pub word: Word,
    /// The entry that allowed it.
    pub entry: u32,
    /// When it last carried a packet, in seconds of [`crate::judge::Tables::now`].
    pub seen: u32,
    /// [`FlowKey::echo`] of the key.
    pub echo: u32,
    /// The [`Direction`], as u8, of the packet that opened it.
    pub opener: u8,
    /// Bits of [`crate::conntrack`].
    pub state: u8,
    /// Always zero.
    pub zero: u16,
}

/// Key of `FRAGMENTS`: a datagram in pieces, at one hook of one pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(C)]
pub struct FragmentKey {
    /// [`Device::pod`].
    pub pod: u32,
    /// The fragment identification, host order.
    pub id: u32,
    /// Source as on the wire.
    pub source: Address,
    /// Destination as on the wire.
    pub destination: Address,
    /// IP protocol of the datagram.
    pub protocol: u8,
    /// A [`Direction`] as u8, or [`FragmentKey::DEFERRED`].
    pub direction: u8,
    /// Always zero.
    pub zero: u16,
}

impl FragmentKey {
    /// In place of a direction: the datagram was judged for the pod that sent it, where its endpoint was known.
    pub const DEFERRED: u8 = 3;
}

/// Value of `FRAGMENTS`: what the first fragment was allowed by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct FragmentValue {
    /// The pod's [`Word`] then; another word means that the rest is not known to be allowed.
    pub word: Word,
    /// The entry that allowed the first fragment.
    pub entry: u32,
    /// When, in seconds of [`crate::judge::Tables::now`].
    pub seen: u32,
}

/// A record of `EVENTS`: one decision, with the entry that made it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Event {
    /// The kernel address of the packet's `sk_buff` in a lab, else 0: it joins the record to the kernel's own
    /// `skb:kfree_skb`.
    pub skb: u64,
    /// The pod's word when the packet was judged.
    pub word: Word,
    /// The pod.
    pub pod: u32,
    /// The interface of the pod; of the sender's, where a deferred verdict fell.
    pub ifindex: u32,
    /// The deciding entry.
    pub entry: u32,
    /// The peer class that was looked up, 0 when none was.
    pub peer_class: u32,
    /// Source as on the wire (zero when the packet was not parsed so far).
    pub source: Address,
    /// Destination as on the wire.
    pub destination: Address,
    /// Source port, host order.
    pub source_port: u16,
    /// Destination port, host order.
    pub destination_port: u16,
    /// The port class that was looked up.
    pub port_class: u16,
    /// IP protocol.
    pub protocol: u8,
    /// TCP flags.
    pub tcp_flags: u8,
    /// A [`Direction`] as u8.
    pub direction: u8,
    /// [`PolicyValue::ALLOW`] or [`PolicyValue::DENY`].
    pub verdict: u8,
    /// A [`crate::reason::Reason`] as u8: how the verdict came about.
    pub reason: u8,
    /// Always zero.
    pub zero: [u8; 5],
}

/// Index in `LAST_DROP` of one hook of a pod, given the pod's [`Device::drops`]. The first two elements are shared by
/// all interfaces without a place of their own.
#[inline(always)]
#[must_use]
pub const fn last_drop_index(drops: u16, direction: Direction) -> u32 {
    drops as u32 * 2 + matches!(direction, Direction::Egress) as u32
}

/// `LAST_DROP[last_drop_index]`, of which each CPU has its own: the last packet that it dropped at a hook.
///
/// Only its CPU writes it, and a reader may copy it meanwhile. So it is sealed: the copy of a half-written record
/// does not have the [`seal`] that it bears.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct LastDrop {
    /// The decision, as `EVENTS` has it; never with the packet's kernel address.
    pub event: Event,
    /// When: nanoseconds of `CLOCK_MONOTONIC_COARSE`, which moves once a tick of the kernel and costs nothing to read.
    pub time: u64,
    /// How many packets this CPU has dropped at this hook, with this one. 0: none yet.
    pub number: u64,
    /// [`seal`] over everything before.
    pub seal: u64,
    /// The hook's budget of reports, see [`crate::sampling`]. Not sealed: no reader needs it.
    pub due: u64,
}

/// How many words of a [`LastDrop`] are sealed: all before its seal.
pub const SEALED_WORDS: usize = (size_of::<LastDrop>() - 2 * size_of::<u64>()) / size_of::<u64>();

/// The seal of a record of these words: a sum with a factor for each place, so that words of two records together
/// do not give the seal of either.
#[inline(always)]
#[must_use]
pub const fn seal(words: &[u64; SEALED_WORDS]) -> u64 {
    // Odd and small enough to be an operand of one instruction.
    const FACTORS: [u64; SEALED_WORDS] = [
        0x3c6e_f36d,
        0x1e37_79b9,
        0x5be0_cd19,
        0x1f83_d9ab,
        0x510e_527f,
        0x2b67_3a4d,
        0x6a09_e667,
        0x243f_6a89,
        0x1319_8a2f,
        0x0370_7345,
        0x2409_3823,
        0x299f_31d1,
    ];
    let mut sum = 0_u64;
    let mut place = 0;
    while place < SEALED_WORDS {
        sum = sum.wrapping_add(words[place].wrapping_mul(FACTORS[place]));
        place += 1;
    }
    sum
}

/// The IPv4 address inside a stored address.
#[inline(always)]
#[must_use]
pub const fn ipv4_of(address: &Address) -> [u8; 4] {
    match address.last_chunk::<4>() {
        Some(ipv4) => *ipv4,
        None => [0; 4],
    }
}

/// An IPv4 address as every map stores it.
#[inline(always)]
#[must_use]
pub const fn mapped(ipv4: [u8; 4]) -> Address {
    from_words([0, MAPPED | ((u32::from_le_bytes(ipv4) as u64) << 32)])
}

/// True for a stored IPv4 address, that is for `::ffff:0:0/96`.
#[inline(always)]
#[must_use]
pub const fn is_ipv4(address: &Address) -> bool {
    let [low, high] = words(address);
    low == 0 && high & 0xffff_ffff == MAPPED
}

/// Bytes 8 to 11 of a mapped address, in the lower half of its second word.
const MAPPED: u64 = 0xffff_0000;

/// An address as two little-endian words. In the kernel this is what keeps an address in two registers instead
/// of sixteen: addresses are compared, copied and folded as words, never byte by byte.
#[inline(always)]
#[must_use]
pub const fn words(address: &Address) -> [u64; 2] {
    match (address.first_chunk::<8>(), address.last_chunk::<8>()) {
        (Some(low), Some(high)) => [u64::from_le_bytes(*low), u64::from_le_bytes(*high)],
        _ => [0; 2],
    }
}

/// The reverse of [`words`].
#[inline(always)]
#[must_use]
pub const fn from_words(words: [u64; 2]) -> Address {
    let mut address = [0; 16];
    if let Some(low) = address.first_chunk_mut::<8>() {
        *low = words[0].to_le_bytes();
    }
    if let Some(high) = address.last_chunk_mut::<8>() {
        *high = words[1].to_le_bytes();
    }
    address
}

/// 32 bits of an address, for values to repeat.
#[inline(always)]
#[must_use]
pub const fn echo_address(address: &Address) -> u32 {
    let [low, high] = words(address);
    let folded = low.rotate_left(7) ^ high;
    (folded & 0xffff_ffff) as u32 ^ ((folded >> 32) as u32).rotate_left(11)
}

const _: () = {
    assert!(size_of::<Device>() == 8 + 4 + 2 + 2 + 4 + 4 + 16);
    assert!(size_of::<CidrKey>() == 4 + 16);
    assert!(size_of::<PeerValue>() == 4 + 4);
    assert!(size_of::<RulesetPorts>() == 4 + 4);
    assert!(size_of::<PolicyKey>() == 4 + 1 + 1 + 2 + 4);
    assert!(size_of::<PolicyValue>() == 1 + 1 + 2 + 4 + 4);
    assert!(size_of::<ServiceKey>() == 16 + 2 + 1 + 1);
    assert!(size_of::<ServiceTarget>() == 4 + 2 + 2);
    assert!(size_of::<ServiceTargets>() == 4 * 8 + 1 + 1 + 2);
    assert!(size_of::<ServiceValue>() == 2 * 36 + 4 + 4);
    assert!(size_of::<Flow4Key>() == 4 + 4 + 4 + 2 + 2 + 1 + 3);
    assert!(size_of::<FlowKey>() == 4 + 16 + 16 + 2 + 2 + 1 + 3);
    assert!(size_of::<Flow>() == 8 + 4 + 4 + 4 + 1 + 1 + 2);
    assert!(size_of::<FragmentKey>() == 4 + 4 + 16 + 16 + 1 + 1 + 2);
    assert!(size_of::<FragmentValue>() == 8 + 4 + 4);
    assert!(size_of::<Event>() == 8 + 8 + 4 * 4 + 32 + 2 * 3 + 5 + 5);
    assert!(size_of::<LastDrop>() == size_of::<Event>() + 4 * 8);
};
