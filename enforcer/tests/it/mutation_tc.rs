//! Faults in the maps of the eBPF datapath, one a row: each is put in after the tables were written and before the
//! packet is sent, and the proof must say that something is wrong.
//!
//! The audit must see every one of them too, since it compares all bytes. What no packet of a new connection can
//! meet is the audit's alone, and its row says so.

use netlab_ebpf::abi::{
    Address, CidrKey, Device, Direction, PeerValue, PolicyKey, PolicyValue, PortPage, RulesetPorts,
    ServiceKey, ServiceTarget, ServiceTargets, ServiceValue, Transport, Word, echo_address, mapped,
    port_page_index,
};
use netlab_enforcer::LoadOptions;
use netlab_enforcer::maps::PolicyMaps;
use netlab_enforcer::prove::proof::Proof;
use netlab_enforcer::prove::{Datapath, Written};
use netlab_plugin::contract::Backend;

use crate::bpf_require::datapath;
use crate::mutation_world::{
    AFTER_RANGE, ALLOWED, ALLOWED_UDP, API, Ask, BY_NODE, CACHE, DB, DENIED, IN_BLOCK, IN_BLOCK_FIRST,
    IN_BLOCK6, IN_EXCEPTION, KEPT, LAST_OF_BLOCK, LAST_OF_RANGE, LEAVING, OPEN, OTHER_POD, OUTSIDE6, Seen,
    TO_API, TO_BOTH_API, TO_BOTH_WEB, TO_WEB, TO_WEB_ITSELF, WEB, is_wanted, side_by_side, unseen,
};

/// One fault.
struct Fault {
    name: &'static str,
    asked: Ask,
    seen: Seen,
    /// Puts it in.
    put: fn(&Maps<'_>),
}

/// A node's maps, and the row that decides the question.
struct Maps<'a> {
    maps: &'a PolicyMaps,
    row: PolicyKey,
}

const fn by_proof(name: &'static str, asked: Ask, words: &'static str, put: fn(&Maps<'_>)) -> Fault {
    Fault { name, asked, seen: Seen::ByProof(words), put }
}

const fn by_audit(name: &'static str, asked: Ask, words: &'static str, put: fn(&Maps<'_>)) -> Fault {
    Fault { name, asked, seen: Seen::ByAudit(words), put }
}

const FAULTS: &[Fault] = &[
    // POLICY
    by_proof("deny flipped to allow", DENIED, "wire says allow", |m| {
        m.rewrite(|value| value.verdict = PolicyValue::ALLOW);
    }),
    by_proof("allow flipped to deny", ALLOWED, "wire says deny", |m| {
        m.rewrite(|value| value.verdict = PolicyValue::DENY);
    }),
    by_proof("a verdict that is neither", ALLOWED, "decided deny by entry 16", |m| {
        m.rewrite(|value| value.verdict = 0);
    }),
    by_proof("row deleted", DENIED, "the kernel holds no row", |m| {
        m.maps.policy.remove(&m.row).expect("removable");
    }),
    by_proof("row cites another rule's entry", ALLOWED, "the packet was decided allow by entry", |m| {
        let other = m.other_entry(PolicyValue::ALLOW);
        m.rewrite(|value| value.entry = other);
    }),
    by_proof("two denials share a counter", DENIED, "counters of other verdicts moved too", |m| {
        let other = m.other_entry(PolicyValue::DENY);
        m.rewrite(|value| value.entry = other);
    }),
    by_proof("echo of another key", ALLOWED, "decided deny by entry 16", |m| {
        m.rewrite(|value| value.echo = PolicyKey { peer_class: m.row.peer_class + 1, ..m.row }.echo());
    }),
    by_proof("row says another tier", ALLOWED, "the kernel holds allow", |m| {
        m.rewrite(|value| value.tier ^= 1);
    }),
    by_proof("key in the other byte order", ALLOWED, "the kernel holds no row", |m| {
        m.move_rows(|key| PolicyKey { port_class: key.port_class.swap_bytes(), ..key });
    }),
    by_proof("rows of two peer classes exchanged", DENIED, "wire says allow", |m| {
        let other = PolicyKey { peer_class: m.class_of(mapped(API)), ..m.row };
        m.exchange_rows(other);
    }),
    by_proof("rows of two port classes exchanged", IN_BLOCK, "the packet was decided deny", |m| {
        m.exchange_rows(PolicyKey {
            port_class: m.port_class(Direction::Ingress, Transport::Tcp, 9),
            ..m.row
        });
    }),
    by_proof("rows written for the other direction", KEPT, "the packet was decided deny by entry", |m| {
        let other = Direction::Ingress as u8 + Direction::Egress as u8;
        m.move_rows(|key| PolicyKey { direction: other - key.direction, ..key });
    }),
    by_proof("rows written under another ruleset", ALLOWED, "the kernel holds no row", |m| {
        m.move_rows(|key| PolicyKey { ruleset: key.ruleset + 100, ..key });
    }),
    by_proof("built-in row denies the node", BY_NODE, "wire says deny", |m| {
        m.rewrite(|value| value.verdict = PolicyValue::DENY);
    }),
    // PEERS and CIDRS
    by_proof("peer missing", ALLOWED, "wire says deny", |m| {
        m.maps.peers.remove(&mapped(API)).expect("removable");
    }),
    by_proof("peer in the wrong class", DENIED, "wire says allow", |m| {
        m.set_peer(mapped(WEB), m.class_of(mapped(API)));
    }),
    by_proof("two peers exchanged", ALLOWED, "wire says deny", |m| {
        let [web, api] = [WEB, API].map(|address| m.class_of(mapped(address)));
        m.set_peer(mapped(WEB), api);
        m.set_peer(mapped(API), web);
    }),
    by_proof("peer of no class", ALLOWED, "decided deny by entry 16", |m| m.set_peer(mapped(API), 0)),
    by_proof("peer with the echo of another", ALLOWED, "wire says deny", |m| {
        let value = PeerValue { class: m.class_of(mapped(API)), echo: echo_address(&mapped(WEB)) };
        m.maps.peers.set(&mapped(API), &value).expect("writable");
    }),
    by_proof("peer with its bytes reversed", ALLOWED, "wire says deny", |m| {
        let [a, b, c, d] = API;
        m.move_peer(mapped(API), mapped([d, c, b, a]));
    }),
    by_proof("IPv4 peer not mapped", ALLOWED, "wire says deny", |m| {
        let mut plain = [0; 16];
        plain[..4].copy_from_slice(&API);
        m.move_peer(mapped(API), plain);
    }),
    by_proof("block one bit too long", LAST_OF_BLOCK, "wire says deny", |m| {
        m.move_prefix(BLOCK, CidrKey { prefix: 96 + 25 + 1, ..BLOCK });
        m.maps.cidrs.remove(&EXCEPTION).expect("removable");
    }),
    by_proof("exception one bit too short", LAST_OF_BLOCK, "wire says deny", |m| {
        m.move_prefix(EXCEPTION, CidrKey { prefix: EXCEPTION.prefix - 1, ..EXCEPTION });
    }),
    by_proof("block of the next network", IN_BLOCK, "wire says deny", |m| {
        m.move_prefix(BLOCK, CidrKey { address: mapped([198, 51, 101, 0]), ..BLOCK });
    }),
    by_proof("IPv4 length as it is written, not + 96", IN_BLOCK, "wire says deny", |m| {
        m.move_prefix(BLOCK, CidrKey { prefix: BLOCK.prefix - 96, ..BLOCK });
    }),
    by_proof("exception lost", IN_EXCEPTION, "wire says allow", |m| {
        m.maps.cidrs.remove(&EXCEPTION).expect("removable");
    }),
    by_proof("IPv6 block too wide", OUTSIDE6, "wire says allow", |m| {
        m.move_prefix(BLOCK6, CidrKey { prefix: 32, address: address6([0x2001, 0xdb8, 0]) });
    }),
    by_proof("IPv6 block missing", IN_BLOCK6, "wire says deny", |m| {
        m.maps.cidrs.remove(&BLOCK6).expect("removable");
    }),
    by_proof("no class for the rest of the world", OUTSIDE6, "decided deny by entry 16", |m| {
        m.maps.cidrs.remove(&CidrKey { prefix: 0, address: [0; 16] }).expect("removable");
    }),
    // SERVICES
    by_proof("Service missing", TO_API, "wire says deny", |m| {
        m.maps.services.remove(&m.service(1)).expect("removable");
    }),
    by_proof("Service without a target", TO_API, "wire says deny", |m| {
        m.change_service(1, |value| value.targets = ServiceTargets::default());
    }),
    by_proof("target of a class that is admitted", TO_WEB, "wire says allow", |m| {
        let class = m.class_of(mapped(API));
        m.change_service(2, |value| value.targets.list[0].peer_class = class);
    }),
    by_proof("target of a class that is not", TO_API, "wire says deny", |m| {
        let class = m.class_of(mapped(WEB));
        m.change_service(1, |value| value.targets.list[0].peer_class = class);
    }),
    by_proof("target of no class", TO_API, "decided deny by entry 16", |m| {
        m.change_service(1, |value| value.targets.list[0].peer_class = 0);
    }),
    by_proof("target's port is the Service's", TO_API, "wire says deny", |m| {
        m.change_service(1, |value| value.targets.list[0].port = 80);
    }),
    by_proof("target's port in the other byte order", TO_API, "wire says deny", |m| {
        m.change_service(1, |value| value.targets.list[0].port = 8080_u16.swap_bytes());
    }),
    by_proof("Service with the echo of another", TO_API, "decided deny by entry 16", |m| {
        let echo = m.service(2).echo();
        m.change_service(1, |value| value.echo = echo);
    }),
    by_proof("Service of another protocol", TO_API, "wire says deny", |m| {
        m.move_service(1, |key| ServiceKey { protocol: 17, ..key });
    }),
    by_proof("Service with its port in the other byte order", TO_API, "wire says deny", |m| {
        m.move_service(1, |key| ServiceKey { port: key.port.swap_bytes(), ..key });
    }),
    by_proof("Service with its address reversed", TO_API, "wire says deny", |m| {
        m.move_service(1, |key| ServiceKey { address: mapped([1, 0, 96, 10]), ..key });
    }),
    by_proof("endpoints of two Services exchanged", TO_WEB, "wire says allow", |m| {
        let [to_api, to_web] = [1, 2].map(|last| m.service_value(last).targets);
        m.change_service(1, |value| value.targets = to_web);
        m.change_service(2, |value| value.targets = to_api);
    }),
    by_proof("a Service in a pod's own place", TO_WEB_ITSELF, "wire says allow", |m| {
        let key = ServiceKey { address: mapped(WEB), port: 8080, ..m.service(1) };
        let value = ServiceValue { echo: key.echo(), ..m.service_value(1) };
        m.maps.services.set(&key, &value).expect("writable");
    }),
    by_proof("endpoints of a former change", TO_API, "wire says deny", |m| {
        let former = m.service_value(2).targets;
        m.change_service(1, |value| (value.former, value.since) = (former, u32::MAX));
    }),
    by_proof("of two endpoints only the admitted one", TO_BOTH_WEB, "wire says allow", |m| {
        let class = m.class_of(mapped(API));
        m.change_service(3, |value| value.keep(class));
    }),
    by_proof("of two endpoints only the other one", TO_BOTH_API, "wire says deny", |m| {
        let class = m.class_of(mapped(WEB));
        m.change_service(3, |value| value.keep(class));
    }),
    by_proof("endpoints that are not told apart behind the node", TO_BOTH_API, "wire says deny", |m| {
        m.change_service(3, |value| value.targets.flags = 0);
    }),
    by_proof("one endpoint too many to be listed", TO_API, "the packet was decided", |m| {
        m.change_service(1, |value| {
            value.targets = ServiceTargets {
                count: ServiceTargets::TOO_MANY,
                flags: value.targets.flags,
                ..ServiceTargets::default()
            };
        });
    }),
    // Every pod is of this change's generation, so no packet meets these.
    by_proof("endpoints that were left from a former change", TO_API, "formerly class", |m| {
        let former = m.service_value(2).targets;
        m.change_service(1, |value| value.former = former);
    }),
    by_audit("a Service that nobody has", TO_API, "SERVICES", |m| {
        let key = ServiceKey { address: mapped([10, 96, 0, 99]), ..m.service(1) };
        let value = ServiceValue { echo: key.echo(), ..m.service_value(1) };
        m.maps.services.set(&key, &value).expect("writable");
    }),
    // RULESETS, PORT_PAGES and PORT_CLASSES
    by_proof("port page in the other byte order", ALLOWED, "wire says deny", |m| {
        m.exchange_pages((Transport::Tcp, 0x1538), (Transport::Tcp, 0x3815));
    }),
    by_proof("page of UDP taken for TCP", ALLOWED, "wire says deny", |m| {
        m.exchange_pages((Transport::Tcp, 0x1538), (Transport::Udp, 0x1538));
    }),
    by_proof("page of TCP taken for UDP", ALLOWED_UDP, "wire says deny", |m| {
        m.exchange_pages((Transport::Udp, 53), (Transport::Tcp, 53));
    }),
    by_proof("port of its neighbour's class", ALLOWED, "wire says deny", |m| m.copy_port_class(5433, 5432)),
    by_proof("range without its first port", IN_BLOCK_FIRST, "wire says deny", |m| {
        m.copy_port_class(5431, 5432);
    }),
    by_proof("range without its last port", LAST_OF_RANGE, "wire says deny", |m| {
        m.copy_port_class(5441, 5440);
    }),
    by_proof("range one port too long", AFTER_RANGE, "wire says allow", |m| m.copy_port_class(5440, 5441)),
    by_proof("port table of the other direction", LEAVING, "wire says deny", |m| {
        let RulesetPorts { ingress, egress } = m.ports();
        m.maps
            .rulesets
            .set(&m.row.ruleset, &RulesetPorts { ingress: egress, egress: ingress })
            .expect("writable");
    }),
    by_proof("port table missing", ALLOWED, "wire says deny", |m| {
        m.maps.rulesets.set(&m.row.ruleset, &RulesetPorts::default()).expect("writable");
    }),
    // DEVICES
    by_proof("pod under another pod's ruleset", DENIED, "wire says allow", |m| {
        let (_, web) = m.device(WEB).expect("web is on this node");
        m.change_device(DB, |device| device.word = web.word);
    }),
    by_proof("pod under a ruleset that is not there", ALLOWED, "wire says deny", |m| {
        m.change_device(DB, |device| device.word = Word::new(99, true, true, 1));
    }),
    by_proof("stale generation", ALLOWED, "generation 0", |m| {
        m.change_device(DB, |device| device.word = Word(device.word.0 & 0xffff_ffff));
    }),
    by_proof("isolation for ingress lost", DENIED, "decided deny by entry 16", |m| {
        m.change_device(DB, |device| device.word = Word::new(device.word.ruleset(), false, true, 1));
    }),
    by_proof("isolation for egress lost", KEPT, "decided deny by entry 16", |m| {
        m.change_device(DB, |device| device.word = Word::new(device.word.ruleset(), true, false, 1));
    }),
    by_proof("isolation of both ways lost", DENIED, "wire says allow", |m| {
        m.change_device(DB, |device| device.word = Word::new(device.word.ruleset(), false, false, 1));
    }),
    by_proof("isolated for the wrong direction", OTHER_POD, "decided", |m| {
        m.change_device(CACHE, |device| device.word = Word::new(device.word.ruleset(), false, true, 1));
    }),
    by_proof("record missing", OPEN, "decided deny by entry 17", |m| {
        m.change_device(WEB, |device| *device = Device::default());
    }),
    by_proof("records of two interfaces exchanged", DENIED, "addresses", |m| {
        if let (Some((db, at_db)), Some((web, at_web))) = (m.device(DB), m.device(WEB)) {
            m.maps.devices.set(db, &at_web).expect("writable");
            m.maps.devices.set(web, &at_db).expect("writable");
        }
    }),
    by_proof("address with its bytes reversed", LEAVING, "decided deny by entry 18", |m| {
        m.change_device(DB, |device| device.ipv4.reverse());
    }),
    by_proof("pod without the check of its source", LEAVING, "flags 0, the kernel holds 1", |m| {
        m.change_device(DB, |device| device.flags |= Device::ANY_SOURCE);
    }),
    by_proof("number of another pod, whose flows it would share", ALLOWED, "compiled pod", |m| {
        m.change_device(DB, |device| device.pod += 1);
    }),
    // Only the segments of a connection that is older than our tracking make the program ask that namespace.
    by_audit("wrong namespace", ALLOWED, "interface", |m| m.change_device(DB, |device| device.netns += 1)),
    // The row is for packets of another question.
    by_audit("another question's row flipped", ALLOWED, "holds other bytes", |m| {
        let other = PolicyKey { port_class: m.port_class(Direction::Ingress, Transport::Udp, 53), ..m.row };
        Maps { row: other, ..*m }.rewrite(|value| value.verdict = PolicyValue::DENY);
    }),
    by_audit("a row that nobody asked for", ALLOWED, "nothing asked for it", |m| {
        let key = PolicyKey { peer_class: 4_000, ..m.row };
        let value =
            PolicyValue { verdict: PolicyValue::ALLOW, tier: 2, zero: 0, entry: 64, echo: key.echo() };
        m.maps.policy.set(&key, &value).expect("writable");
    }),
];

const BLOCK: CidrKey = CidrKey { prefix: 96 + 24, address: mapped([198, 51, 100, 0]) };
const EXCEPTION: CidrKey = CidrKey { prefix: 96 + 25, address: mapped([198, 51, 100, 128]) };
const BLOCK6: CidrKey = CidrKey { prefix: 48, address: address6([0x2001, 0xdb8, 0xa]) };

const fn address6(start: [u16; 3]) -> Address {
    std::net::Ipv6Addr::new(start[0], start[1], start[2], 0, 0, 0, 0, 0).octets()
}

/// Edits of a value.
trait Keep {
    /// Leaves only the targets of one class.
    fn keep(&mut self, class: u32);
}

impl Keep for ServiceValue {
    fn keep(&mut self, class: u32) {
        let kept = self.targets.list.into_iter().find(|target| target.peer_class == class);
        let mut list = <[ServiceTarget; ServiceTargets::MOST]>::default();
        list[0] = kept.expect("a target of the class");
        self.targets = ServiceTargets { list, count: 1, ..self.targets };
    }
}

impl Maps<'_> {
    /// The Service at 10.96.0.`last`, TCP port 80.
    #[expect(clippy::unused_self, reason = "reads as the others do")]
    fn service(&self, last: u8) -> ServiceKey {
        ServiceKey { address: mapped([10, 96, 0, last]), port: 80, protocol: 6, zero: 0 }
    }

    fn service_value(&self, last: u8) -> ServiceValue {
        self.maps.services.get(&self.service(last)).expect("readable").expect("a Service")
    }

    fn change_service(&self, last: u8, change: impl FnOnce(&mut ServiceValue)) {
        let before = self.service_value(last);
        let mut value = before;
        change(&mut value);
        assert_ne!(value, before, "the fault changes nothing");
        self.maps.services.set(&self.service(last), &value).expect("writable");
    }

    /// To another key, with the echo that belongs there.
    fn move_service(&self, last: u8, to: impl FnOnce(ServiceKey) -> ServiceKey) {
        let (from, value) = (self.service(last), self.service_value(last));
        assert!(self.maps.services.remove(&from).expect("removable"));
        let key = to(from);
        self.maps.services.set(&key, &ServiceValue { echo: key.echo(), ..value }).expect("writable");
    }

    fn rewrite(&self, change: impl FnOnce(&mut PolicyValue)) {
        let mut value =
            self.maps.policy.get(&self.row).expect("readable").expect("the deciding row is there");
        let before = value;
        change(&mut value);
        assert_ne!(value, before, "the fault changes nothing");
        self.maps.policy.set(&self.row, &value).expect("writable");
    }

    /// All rows of the ruleset go to other keys, with the echoes that belong there.
    fn move_rows(&self, to: impl Fn(PolicyKey) -> PolicyKey) {
        let rows = self.maps.policy.entries().expect("readable");
        let rows: Vec<_> = rows.into_iter().filter(|(key, _)| key.ruleset == self.row.ruleset).collect();
        for (key, _) in &rows {
            self.maps.policy.remove(key).expect("removable");
        }
        for (key, value) in rows {
            let key = to(key);
            self.maps.policy.set(&key, &PolicyValue { echo: key.echo(), ..value }).expect("writable");
        }
    }

    fn exchange_rows(&self, other: PolicyKey) {
        let get = |key: &PolicyKey| self.maps.policy.get(key).expect("readable").expect("a row");
        let (ours, theirs) = (get(&self.row), get(&other));
        assert_ne!(ours.entry, theirs.entry, "the fault changes nothing");
        let set = |key: &PolicyKey, value: PolicyValue| {
            self.maps.policy.set(key, &PolicyValue { echo: key.echo(), ..value }).expect("writable");
        };
        set(&self.row, theirs);
        set(&other, ours);
    }

    /// An entry with this verdict that is not the deciding row's.
    fn other_entry(&self, verdict: u8) -> u32 {
        let own = self.maps.policy.get(&self.row).expect("readable").expect("a row").entry;
        let mut others: Vec<u32> = self
            .maps
            .policy
            .entries()
            .expect("readable")
            .into_iter()
            .filter(|(key, value)| key.ruleset != 0 && value.verdict == verdict && value.entry != own)
            .map(|(_, value)| value.entry)
            .filter(|entry| *entry >= 64)
            .collect();
        others.sort_unstable();
        *others.first().expect("another entry")
    }

    fn class_of(&self, address: Address) -> u32 {
        self.maps.peers.get(&address).expect("readable").expect("a peer").class
    }

    fn set_peer(&self, address: Address, class: u32) {
        self.maps.peers.set(&address, &PeerValue { class, echo: echo_address(&address) }).expect("writable");
    }

    fn move_peer(&self, from: Address, to: Address) {
        let class = self.class_of(from);
        self.maps.peers.remove(&from).expect("removable");
        self.set_peer(to, class);
    }

    fn move_prefix(&self, from: CidrKey, to: CidrKey) {
        let PeerValue { class, .. } = self.maps.cidrs.get(&from).expect("readable").expect("a prefix");
        assert!(self.maps.cidrs.remove(&from).expect("removable"));
        let value = PeerValue { class, echo: echo_address(&to.address) };
        self.maps.cidrs.set(&to, &value).expect("writable");
    }

    fn ports(&self) -> RulesetPorts {
        self.maps.rulesets.get(&self.row.ruleset).expect("readable").expect("an element")
    }

    fn page(&self, direction: Direction, transport: Transport, port: u16) -> (u32, PortPage) {
        let index = port_page_index(self.ports().table(direction), transport, port);
        let page = self.maps.port_pages.get(&index).expect("readable").expect("an element");
        (page, self.maps.port_classes.get(&page).expect("readable").expect("a page"))
    }

    fn port_class(&self, direction: Direction, transport: Transport, port: u16) -> u16 {
        u16::from(self.page(direction, transport, port).1[usize::from(port & 0xff)])
    }

    /// Exchanges two pages of the ingress table.
    fn exchange_pages(&self, one: (Transport, u16), other: (Transport, u16)) {
        let table = self.ports().ingress;
        let [one, other] = [one, other].map(|(transport, port)| port_page_index(table, transport, port));
        let get = |index| self.maps.port_pages.get(index).expect("readable").expect("an element");
        let (at_one, at_other) = (get(&one), get(&other));
        assert_ne!(at_one, at_other, "the fault changes nothing");
        self.maps.port_pages.set(&one, &at_other).expect("writable");
        self.maps.port_pages.set(&other, &at_one).expect("writable");
    }

    /// Gives a TCP port of the ingress table the class of a neighbour.
    fn copy_port_class(&self, from: u16, to: u16) {
        let (page, mut classes) = self.page(Direction::Ingress, Transport::Tcp, to);
        assert_eq!(from >> 8, to >> 8, "both are in one page");
        let class = classes[usize::from(from & 0xff)];
        let former = std::mem::replace(&mut classes[usize::from(to & 0xff)], class);
        assert_ne!(former, class, "the fault changes nothing");
        self.maps.port_classes.set(&page, &classes).expect("writable");
    }

    /// A pod's record; `None` where the pod is not.
    fn device(&self, address: [u8; 4]) -> Option<(u32, Device)> {
        let devices = &self.maps.devices;
        let claimed = (0..devices.table().max_entries())
            .filter(|ifindex| devices.word(*ifindex).is_ok_and(|word| word.0 != 0));
        let records = claimed.filter_map(|ifindex| Some((ifindex, devices.get(ifindex).ok()??)));
        records.into_iter().find(|(_, device)| device.ipv4 == address)
    }

    fn change_device(&self, address: [u8; 4], change: impl FnOnce(&mut Device)) {
        if let Some((ifindex, mut device)) = self.device(address) {
            change(&mut device);
            self.maps.devices.set(ifindex, &device).expect("writable");
        }
    }
}

const NO_ROW: PolicyKey = PolicyKey::new(u32::MAX, Direction::Ingress, 0, 0);

/// The key of a proof's deciding row; one of nobody where the pod's record alone decides.
fn row(proof: &Proof) -> PolicyKey {
    let entry = proof.entry.as_ref().expect("a deciding entry");
    let bytes: Vec<u8> =
        entry.key_hex.split(' ').map(|byte| u8::from_str_radix(byte, 16).expect("hex")).collect();
    let Ok([r0, r1, r2, r3, direction, zero, p0, p1, c0, c1, c2, c3]) = <[u8; 12]>::try_from(bytes) else {
        return NO_ROW;
    };
    PolicyKey {
        ruleset: u32::from_ne_bytes([r0, r1, r2, r3]),
        direction,
        zero,
        port_class: u16::from_ne_bytes([p0, p1]),
        peer_class: u32::from_ne_bytes([c0, c1, c2, c3]),
    }
}

#[test]
fn every_fault_in_the_maps_is_seen() {
    if datapath("every_fault_in_the_maps_is_seen", &LoadOptions::LAB).is_none() {
        return;
    }
    let faults: Vec<&Fault> = FAULTS.iter().filter(|fault| is_wanted(fault.name)).collect();
    assert!(!faults.is_empty(), "no fault has such a name");
    let offenders = side_by_side(
        Datapath::Tc,
        &faults,
        |fault| fault.asked,
        |loaded, honest, fault| {
            let Fault { name, asked, seen: how, put } = **fault;
            let row = row(honest);
            let mut drift = Vec::new();
            let proof = asked.prove_with(loaded, Datapath::Tc, &mut |node| {
                let Written::Tc(backend) = node else { panic!("tc was asked for") };
                put(&Maps { maps: backend.datapath().policy(), row });
                drift.extend(backend.observe().expect("readable").drift);
            });
            let why = unseen(how, &proof, &drift)?;
            Some(format!("{name}: {why}"))
        },
    );
    assert!(offenders.is_empty(), "{}", offenders.join("\n"));
    assert!(FAULTS.len() >= 26, "{} faults", FAULTS.len());
}
