//! The engine: the kernel's own `judge` over an [`Image`] on the host.
//!
//! Invariant: it decides exactly what the program would for a new connection on those bytes; it has no live
//! sockets, so the mid-flow rule is off, and its clock stands still. What it remembers (flows, fragments) lives
//! in the value and is private to it.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use netlab_ebpf::abi::{
    Address, CidrKey, Device, Flow, FlowKey, FragmentKey, FragmentValue, PeerValue, PolicyKey, PolicyValue,
    RulesetPorts, ServiceKey, ServiceValue,
};
use netlab_ebpf::judge::{Hook, Judgement, Socket, Tables, judge, judge_deferred};

use super::image::Image;

/// An image with devices, ready to judge packets.
#[derive(Debug)]
pub struct Engine<'a> {
    image: &'a Image,
    services: &'a BTreeMap<ServiceKey, ServiceValue>,
    devices: BTreeMap<u32, Device>,
    flows: RefCell<BTreeMap<FlowKey, Flow>>,
    fragments: RefCell<BTreeMap<FragmentKey, FragmentValue>>,
    now: Cell<u32>,
}

impl<'a> Engine<'a> {
    /// An engine over an image; `devices` by interface number.
    pub fn new(image: &'a Image, devices: BTreeMap<u32, Device>) -> Self {
        Self {
            image,
            services: &image.services,
            devices,
            flows: RefCell::default(),
            fragments: RefCell::default(),
            now: Cell::new(1),
        }
    }

    /// The same with the Services of another node than the image's.
    #[must_use]
    pub fn with_services(mut self, services: &'a BTreeMap<ServiceKey, ServiceValue>) -> Self {
        self.services = services;
        self
    }

    /// Judges a frame; `None` when the interface has no device.
    pub fn judge(&self, frame: &[u8], hook: Hook) -> Option<Judgement> {
        judge(&frame, hook, self)
    }

    /// Judges a frame whose verdict was deferred, where its endpoint is known.
    pub fn judge_deferred(&self, frame: &[u8], hook: Hook) -> Judgement {
        judge_deferred(&frame, hook, self)
    }

    /// Puts a device's element, as a policy change does.
    pub fn set_device(&mut self, ifindex: u32, device: Device) {
        self.devices.insert(ifindex, device);
    }

    /// Puts the clock forward, in seconds.
    pub fn advance(&self, seconds: u32) {
        self.now.set(self.now.get().wrapping_add(seconds));
    }
}

impl Tables for Engine<'_> {
    fn device(&self, ifindex: u32) -> Option<Device> {
        self.devices.get(&ifindex).copied()
    }

    fn peer(&self, address: &Address) -> Option<PeerValue> {
        self.image.peers.get(address).copied()
    }

    fn cidr(&self, key: &CidrKey) -> Option<PeerValue> {
        (0..=key.prefix)
            .rev()
            .find_map(|prefix| {
                self.image.cidrs.get(&CidrKey { prefix, address: masked(&key.address, prefix) })
            })
            .copied()
    }

    fn ruleset_ports(&self, ruleset: u32) -> Option<RulesetPorts> {
        self.image.ruleset_ports.get(&ruleset).copied()
    }

    fn port_page(&self, index: u32) -> Option<u32> {
        self.image.port_pages.get(&index).copied()
    }

    fn port_class(&self, page: u32, low: u8) -> Option<u8> {
        self.image.port_classes.get(&page).map(|page| page[usize::from(low)])
    }

    fn policy(&self, key: &PolicyKey) -> Option<PolicyValue> {
        self.image.policy.get(key).copied()
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
        self.flows.borrow_mut().insert(*key, *flow);
    }

    fn fragment(&self, key: &FragmentKey) -> Option<FragmentValue> {
        self.fragments.borrow().get(key).copied()
    }

    fn insert_fragment(&self, key: &FragmentKey, value: &FragmentValue) {
        self.fragments.borrow_mut().insert(*key, *value);
    }

    fn socket(&self, _netns: i32, _key: &FlowKey) -> Socket {
        Socket::None
    }

    fn now(&self) -> u32 {
        self.now.get()
    }
}

/// The network address of a prefix of an address.
fn masked(address: &Address, prefix: u32) -> Address {
    let mask = if prefix == 0 { 0 } else { u128::MAX << (128 - prefix.min(128)) };
    (u128::from_be_bytes(*address) & mask).to_be_bytes()
}
