//! Tables on the host, and a pod under a small policy.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use netlab_ebpf::abi::{
    Address, CidrKey, Device, Direction, Flow, FlowKey, FragmentKey, FragmentValue, PeerValue, PolicyKey,
    PolicyValue, RulesetPorts, ServiceKey, ServiceValue, Transport, Word, echo_address, mapped,
    port_page_index,
};
use netlab_ebpf::judge::{Hook, Judgement, Socket, Tables, judge};
use netlab_ebpf::reason::Reason;

/// The pod's interface, and another by which packets may come.
pub(crate) const POD_INTERFACE: u32 = 5;
pub(crate) const OTHER_INTERFACE: u32 = 6;
pub(crate) const POD: [u8; 4] = [10, 0, 0, 1];
pub(crate) const POD6: Address = [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
/// May connect to the pod on 5432/tcp and 53/udp; the pod may connect to it on 80/tcp.
pub(crate) const FRIEND: [u8; 4] = [10, 0, 0, 2];
pub(crate) const STRANGER: [u8; 4] = [192, 0, 2, 7];

pub(crate) const INGRESS_5432: u32 = 64;
pub(crate) const EGRESS_80: u32 = 65;
pub(crate) const INGRESS_53: u32 = 66;
pub(crate) const DENIED: u32 = 67;

#[derive(Default)]
pub(crate) struct Host {
    pub(crate) device: Device,
    pub(crate) peers: BTreeMap<Address, PeerValue>,
    pub(crate) policy: BTreeMap<PolicyKey, PolicyValue>,
    pages: BTreeMap<u32, u32>,
    pub(crate) flows: RefCell<BTreeMap<FlowKey, Flow>>,
    pub(crate) fragments: RefCell<BTreeMap<FragmentKey, FragmentValue>>,
    pub(crate) now: Cell<u32>,
    pub(crate) socket: Option<Socket>,
    pub(crate) services: BTreeMap<ServiceKey, ServiceValue>,
}

impl Host {
    /// The pod isolated both ways, in generation 1.
    pub(crate) fn new() -> Self {
        let mut host = Self {
            device: Device {
                word: Word::new(1, true, true, 1),
                pod: 9,
                flags: 0,
                drops: 0,
                ipv4: POD,
                netns: -1,
                ipv6: POD6,
            },
            ..Self::default()
        };
        let friend = mapped(FRIEND);
        host.peers.insert(friend, PeerValue { class: 2, echo: echo_address(&friend) });
        for reason in Reason::FIXED {
            for direction in [Direction::Ingress, Direction::Egress] {
                let key = PolicyKey::new(PolicyKey::FIXED, direction, reason as u16, 0);
                host.row(key, reason.verdict(), reason.entry());
            }
        }
        for direction in [Direction::Ingress, Direction::Egress] {
            for port in 0..=5 {
                for peer in [2, 3] {
                    host.row(PolicyKey::new(1, direction, port, peer), PolicyValue::DENY, DENIED);
                }
            }
            host.row(PolicyKey::not_isolated(1, direction), PolicyValue::ALLOW, 70 + direction as u32);
        }
        host.row(PolicyKey::new(1, Direction::Ingress, 2, 2), PolicyValue::ALLOW, INGRESS_5432);
        host.row(PolicyKey::new(1, Direction::Egress, 3, 2), PolicyValue::ALLOW, EGRESS_80);
        host.row(PolicyKey::new(1, Direction::Ingress, 4, 2), PolicyValue::ALLOW, INGRESS_53);
        for transport in [Transport::Tcp, Transport::Udp, Transport::Sctp] {
            for high in 0..=255 {
                host.pages.insert(port_page_index(1, transport, high << 8), transport as u32);
            }
        }
        host
    }

    pub(crate) fn row(&mut self, key: PolicyKey, verdict: u8, entry: u32) {
        self.policy.insert(key, PolicyValue { verdict, tier: 0, zero: 0, entry, echo: key.echo() });
    }

    /// Judges a frame that came by the other interface.
    pub(crate) fn judge(&self, direction: Direction, frame: &[u8]) -> Judgement {
        self.judge_from(direction, frame, OTHER_INTERFACE, false)
    }

    pub(crate) fn judge_from(
        &self,
        direction: Direction,
        frame: &[u8],
        ingress_ifindex: u32,
        socket: bool,
    ) -> Judgement {
        let hook = Hook { direction, ifindex: POD_INTERFACE, ingress_ifindex, socket, vlan: false };
        judge(&frame, hook, self).expect("the interface is in range")
    }

    pub(crate) fn generation(&mut self, generation: u32) {
        self.device.word = Word::new(1, true, true, generation);
    }
}

impl Tables for Host {
    fn device(&self, ifindex: u32) -> Option<Device> {
        (ifindex == POD_INTERFACE).then_some(self.device)
    }

    fn peer(&self, address: &Address) -> Option<PeerValue> {
        self.peers.get(address).copied()
    }

    fn cidr(&self, _key: &CidrKey) -> Option<PeerValue> {
        Some(PeerValue { class: 3, echo: 0 })
    }

    fn ruleset_ports(&self, ruleset: u32) -> Option<RulesetPorts> {
        (ruleset == 1).then_some(RulesetPorts { ingress: 1, egress: 1 })
    }

    fn port_page(&self, index: u32) -> Option<u32> {
        self.pages.get(&index).copied()
    }

    /// Class 2 is 5432/tcp (0x1538), 3 is 80/tcp, 4 is 53/udp, 5 the rest. (No other port of the tests has the same
    /// lower half.)
    fn port_class(&self, page: u32, low: u8) -> Option<u8> {
        Some(match (page, low) {
            (0, 0x38) => 2,
            (0, 80) => 3,
            (1, 53) => 4,
            _ => 5,
        })
    }

    fn policy(&self, key: &PolicyKey) -> Option<PolicyValue> {
        self.policy.get(key).copied()
    }

    fn service(&self, key: &ServiceKey, into: &mut ServiceValue) -> bool {
        self.services.get(key).map(|value| *into = *value).is_some()
    }

    fn flow(&self, key: &FlowKey) -> Option<Flow> {
        self.flows.borrow().get(key).copied()
    }

    fn insert_flow(&self, key: &FlowKey, flow: &Flow) {
        self.flows.borrow_mut().insert(*key, *flow);
    }

    fn update_flow(&self, key: &FlowKey, flow: &Flow) {
        assert!(self.flows.borrow().contains_key(key), "only what was read is updated");
        self.insert_flow(key, flow);
    }

    fn fragment(&self, key: &FragmentKey) -> Option<FragmentValue> {
        self.fragments.borrow().get(key).copied()
    }

    fn insert_fragment(&self, key: &FragmentKey, value: &FragmentValue) {
        self.fragments.borrow_mut().insert(*key, *value);
    }

    fn socket(&self, netns: i32, _key: &FlowKey) -> Socket {
        assert!(netns >= 0, "a namespace without an id is not asked");
        self.socket.unwrap_or(Socket::None)
    }

    fn now(&self) -> u32 {
        self.now.get()
    }
}

/// An IPv4 frame.
pub(crate) fn ipv4(source: [u8; 4], destination: [u8; 4], protocol: u8, payload: &[u8]) -> Vec<u8> {
    fragment(source, destination, protocol, 0, payload)
}

/// An IPv4 frame with this field of flags and offset.
pub(crate) fn fragment(
    source: [u8; 4],
    destination: [u8; 4],
    protocol: u8,
    field: u16,
    payload: &[u8],
) -> Vec<u8> {
    let mut frame = vec![0; 12];
    frame.extend([8, 0, 0x45, 0]);
    frame.extend(u16::try_from(20 + payload.len()).expect("short").to_be_bytes());
    frame.extend([0, 7]);
    frame.extend(field.to_be_bytes());
    frame.extend([64, protocol, 0, 0]);
    frame.extend(source);
    frame.extend(destination);
    frame.extend(payload);
    frame
}

/// A TCP header.
pub(crate) fn tcp(source: u16, destination: u16, flags: u8) -> Vec<u8> {
    let mut header = [source.to_be_bytes(), destination.to_be_bytes()].concat();
    header.extend([0; 8]);
    header.extend([0x50, flags, 0, 0, 0, 0, 0, 0]);
    header
}

/// A UDP header without data.
pub(crate) fn udp(source: u16, destination: u16) -> Vec<u8> {
    [source.to_be_bytes(), destination.to_be_bytes(), [0, 8], [0, 0]].concat()
}
