//! Cilium's service maps as they should be, as `bpftool -j map dump` would print them.
//!
//! Invariant: what is written here is what [`super::faults`] finds no fault with. Written from the description of the
//! layout, for predictions and tests; numbers of backends and of replies are counted up and are not Cilium's own.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use serde_json::{Value, json};

use super::dump::{Backend, INSIDE, ServiceKey, ServiceRow};
use super::follow::{inside, key};
use super::{bits, names};
use crate::model::service::AddressType;
use crate::service::RouteKind;
use crate::service::expected::{ExpectedFrontend, ExpectedPort};

/// The maps of one family by name.
#[must_use]
pub fn emit(ports: &[ExpectedPort], family: AddressType) -> BTreeMap<&'static str, Value> {
    let mut maps = Maps::default();
    for port in ports.iter().filter(|port| port.family == family) {
        for frontend in &port.frontends {
            maps.frontend(port, frontend);
        }
    }
    let names = names(family);
    BTreeMap::from([
        (names.services, Value::Array(maps.services)),
        (names.backends, Value::Array(maps.backends)),
        (names.reverse, Value::Array(maps.reverse)),
    ])
}

#[derive(Default)]
struct Maps {
    services: Vec<Value>,
    backends: Vec<Value>,
    reverse: Vec<Value>,
    numbers: BTreeMap<(SocketAddr, u8), u32>,
}

impl Maps {
    fn frontend(&mut self, port: &ExpectedPort, frontend: &ExpectedFrontend) {
        let first = key(port.family, frontend.key);
        let of_node: &[IpAddr] = if frontend.kind == RouteKind::NodePort { &port.addresses } else { &[] };
        self.rows(port, frontend, first);
        for address in of_node {
            self.rows(port, frontend, ServiceKey { address: *address, ..first });
        }
    }

    fn rows(&mut self, port: &ExpectedPort, frontend: &ExpectedFrontend, first: ServiceKey) {
        let number = u16::try_from(self.reverse.len() + 1).unwrap_or(u16::MAX);
        let asked = SocketAddr::new(first.address, first.port);
        self.reverse.push(row(&number.to_be_bytes(), &socket(asked)));
        // Clients outside and inside see other endpoints where only one of the two policies is Local.
        let inside = inside(port, frontend);
        let of_kind = (frontend.kind, inside.is_some());
        let (flags, flags2) = bits::of(port, of_kind, first.address.is_unspecified());
        let scopes = [Some((0, frontend.action)), inside.map(|action| (INSIDE, action))];
        for (scope, action) in scopes.into_iter().flatten() {
            let endpoints = port.endpoints(action);
            let slots = endpoints
                .iter()
                .map(|endpoint| {
                    let state =
                        if port.ending.contains(endpoint) { Backend::ENDING } else { Backend::ACTIVE };
                    self.number(*endpoint, first.protocol, state)
                })
                .collect::<Vec<_>>();
            let count = u16::try_from(slots.len()).unwrap_or(u16::MAX);
            let words = std::iter::once((port.affinity.unwrap_or_default(), count))
                .chain(slots.into_iter().map(|id| (id, 0)));
            for (slot, (word, count)) in (0..).zip(words) {
                let value = ServiceRow { word, count, unused: 0, reverse: number, flags, flags2 };
                self.services.push(row(&key_bytes(ServiceKey { scope, slot, ..first }), &value_bytes(value)));
            }
        }
    }

    fn number(&mut self, endpoint: SocketAddr, protocol: u8, state: u8) -> u32 {
        let next = u32::try_from(self.numbers.len() + 1).unwrap_or(u32::MAX);
        let number = *self.numbers.entry((endpoint, protocol)).or_insert(next);
        if number == next {
            let value = [socket(endpoint), vec![protocol, state, 0, 0, 0, 0]].concat();
            self.backends.push(row(&number.to_le_bytes(), &value));
        }
        number
    }
}

fn ip(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    }
}

fn socket(address: SocketAddr) -> Vec<u8> {
    [ip(address.ip()), address.port().to_be_bytes().to_vec()].concat()
}

fn key_bytes(key: ServiceKey) -> Vec<u8> {
    let ends = [key.protocol, key.scope, 0, 0];
    [socket(SocketAddr::new(key.address, key.port)), key.slot.to_le_bytes().to_vec(), ends.to_vec()].concat()
}

fn value_bytes(row: ServiceRow) -> Vec<u8> {
    let mut bytes = row.word.to_le_bytes().to_vec();
    bytes.extend(row.count.to_le_bytes());
    bytes.extend(row.reverse.to_be_bytes());
    bytes.extend([row.flags, row.flags2]);
    bytes.extend(row.unused.to_le_bytes());
    bytes
}

fn row(key: &[u8], value: &[u8]) -> Value {
    let bytes = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:#04x}")).collect::<Vec<_>>();
    json!({"key": bytes(key), "value": bytes(value)})
}
