//! The map image: exactly the keys and values that a change puts into the kernel's maps.
//!
//! Invariant: the image is a pure function of the [`Change`], sorted and without repeats; the enforcer writes it,
//! the audit compares the kernel with it, and the host engine evaluates it, so all three speak of the same bytes.
//! It does not know interfaces' numbers: device words are made where those are known, with [`Image::word`].

use std::collections::BTreeMap;
use std::net::IpAddr;

use netlab_ebpf::abi::{
    Address, CidrKey, Device, Direction, PORT_CLASS_FIRST, PORT_CLASS_OTHER, PeerValue, PolicyKey,
    PolicyValue, PortPage, RulesetPorts, ServiceKey, ServiceTarget, ServiceTargets, ServiceValue, Transport,
    Word, echo_address, mapped, port_page_index,
};
use netlab_ebpf::reason::{Reason, Tier};

use super::change::{Change, DirectionTable, Frontend, PeerPrefix, PodDevice, Verdict};
use crate::model::port::Protocol;

/// Most port classes of one table: the class is one byte in the kernel, and some room is kept.
pub const MAX_PORT_CLASSES: usize = 250;

/// The rows of every map but `DEVICES`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Image {
    /// The change's generation.
    pub generation: u32,
    /// `POLICY`, the rows of built-in reasons included.
    pub policy: BTreeMap<PolicyKey, PolicyValue>,
    /// `PEERS`: single addresses.
    pub peers: BTreeMap<Address, PeerValue>,
    /// `CIDRS`: prefixes, both family roots included.
    pub cidrs: BTreeMap<CidrKey, PeerValue>,
    /// `RULESETS`, by ruleset.
    pub ruleset_ports: BTreeMap<u32, RulesetPorts>,
    /// `PORT_PAGES`, by index; table 0 is unused.
    pub port_pages: BTreeMap<u32, u32>,
    /// `PORT_CLASSES`, by page; page 0 is unused.
    pub port_classes: BTreeMap<u32, PortPage>,
    /// `SERVICES`, where no change is under way.
    pub services: BTreeMap<ServiceKey, ServiceValue>,
    isolation: BTreeMap<u32, (bool, bool)>,
}

/// Why a change has no image: it breaks the contract of [`Change`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ImageError {
    /// A table has more port classes than one byte can name.
    #[error("ruleset {ruleset}: {count} port classes, at most {MAX_PORT_CLASSES} are possible")]
    PortClasses {
        /// The ruleset.
        ruleset: u32,
        /// How many classes it has.
        count: usize,
    },
    /// A pod refers to a ruleset that is not there.
    #[error("pod {pod}: ruleset {ruleset} is not in the change")]
    Ruleset {
        /// namespace/name.
        pod: String,
        /// The missing ruleset.
        ruleset: u32,
    },
}

impl Image {
    /// Encodes a change.
    ///
    /// # Errors
    /// [`ImageError`] when the change breaks its own contract.
    pub fn from_change(change: &Change) -> Result<Self, ImageError> {
        let mut image = Self { generation: change.generation, ..Self::default() };
        image.built_in_rows();
        for peer in &change.peers {
            image.peer(peer);
        }
        image.services = services(&change.services);
        let mut ports = PortTables::default();
        for ruleset in &change.rulesets {
            let mut tables = RulesetPorts::default();
            for (direction, table) in
                [(Direction::Ingress, &ruleset.ingress), (Direction::Egress, &ruleset.egress)]
            {
                let Some(table) = table else {
                    image.not_isolated_row(ruleset.id, direction);
                    continue;
                };
                if table.port_classes.len() > MAX_PORT_CLASSES {
                    return Err(ImageError::PortClasses {
                        ruleset: ruleset.id,
                        count: table.port_classes.len(),
                    });
                }
                image.rows(ruleset.id, direction, table);
                let number = ports.intern(table, &mut image);
                match direction {
                    Direction::Ingress => tables.ingress = number,
                    Direction::Egress => tables.egress = number,
                }
            }
            image.ruleset_ports.insert(ruleset.id, tables);
            image.isolation.insert(ruleset.id, (ruleset.ingress.is_some(), ruleset.egress.is_some()));
        }
        for pod in &change.pods {
            if !image.isolation.contains_key(&pod.ruleset) {
                return Err(ImageError::Ruleset {
                    pod: format!("{}/{}", pod.namespace, pod.name),
                    ruleset: pod.ruleset,
                });
            }
        }
        Ok(image)
    }

    /// The word of a pod under this image.
    pub fn word(&self, pod: &PodDevice) -> Word {
        let (ingress, egress) = self.isolation.get(&pod.ruleset).copied().unwrap_or_default();
        Word::new(pod.ruleset, ingress, egress, self.generation)
    }

    /// The `DEVICES` element of a pod. `netns` is the id of the pod's namespace as the node sees it, or -1.
    pub fn device(&self, pod: &PodDevice, netns: i32) -> Device {
        let mut device = Device {
            word: self.word(pod),
            pod: pod.id,
            flags: if pod.any_source { Device::ANY_SOURCE } else { 0 },
            drops: 0,
            netns,
            ..Device::default()
        };
        for address in &pod.addresses {
            match address {
                IpAddr::V4(address) => device.ipv4 = address.octets(),
                IpAddr::V6(address) => device.ipv6 = address.octets(),
            }
        }
        device
    }

    /// The peer class of an address; 0 only when the change lacks a family's root.
    pub fn class_of(&self, address: IpAddr) -> u32 {
        let address = match address {
            IpAddr::V4(address) => mapped(address.octets()),
            IpAddr::V6(address) => address.octets(),
        };
        if let Some(peer) = self.peers.get(&address) {
            return peer.class;
        }
        let masked = |prefix: u32| {
            let mask = u128::MAX.checked_shl(128 - prefix).unwrap_or(0);
            (u128::from_be_bytes(address) & mask).to_be_bytes()
        };
        let longest =
            (0..=128).rev().find_map(|prefix| self.cidrs.get(&CidrKey { prefix, address: masked(prefix) }));
        longest.map_or(0, |peer| peer.class)
    }

    fn built_in_rows(&mut self) {
        for reason in Reason::FIXED {
            for direction in [Direction::Ingress, Direction::Egress] {
                let key = PolicyKey::new(PolicyKey::FIXED, direction, reason as u16, 0);
                self.row(key, reason.verdict(), Tier::Exempt as u8, reason.entry());
            }
        }
    }

    fn not_isolated_row(&mut self, ruleset: u32, direction: Direction) {
        let reason = match direction {
            Direction::Ingress => Reason::NotIsolatedIngress,
            Direction::Egress => Reason::NotIsolatedEgress,
        };
        let key = PolicyKey::not_isolated(ruleset, direction);
        self.row(key, PolicyValue::ALLOW, Tier::Default as u8, reason.entry());
    }

    fn rows(&mut self, ruleset: u32, direction: Direction, table: &DirectionTable) {
        for row in &table.rows {
            for peer in &row.peer_classes {
                for (port, cell) in table.port_classes.iter().zip(&row.cells) {
                    let verdict = match cell.verdict {
                        Verdict::Allow => PolicyValue::ALLOW,
                        Verdict::Deny => PolicyValue::DENY,
                    };
                    let key = PolicyKey::new(ruleset, direction, port.class, *peer);
                    self.row(key, verdict, cell.tier, cell.entry);
                }
            }
        }
    }

    fn row(&mut self, key: PolicyKey, verdict: u8, tier: u8, entry: u32) {
        self.policy.insert(key, PolicyValue { verdict, tier, zero: 0, entry, echo: key.echo() });
    }

    fn peer(&mut self, peer: &PeerPrefix) {
        let (address, prefix) = match peer.address {
            IpAddr::V4(address) => (mapped(address.octets()), u32::from(peer.length) + 96),
            // IPv4 lives in these keys, and packets that bear such IPv6 addresses are dropped before any look-up.
            IpAddr::V6(address) if address.to_ipv4_mapped().is_some() && peer.length >= 96 => return,
            IpAddr::V6(address) => (address.octets(), u32::from(peer.length)),
        };
        let value = PeerValue { class: peer.class, echo: echo_address(&address) };
        if prefix == 128 {
            self.peers.insert(address, value);
        } else {
            self.cidrs.insert(CidrKey { prefix, address }, value);
        }
    }
}

/// The rows of `SERVICES` for some frontends.
pub fn services(frontends: &[Frontend]) -> BTreeMap<ServiceKey, ServiceValue> {
    frontends
        .iter()
        .map(|frontend| {
            let address = match frontend.address {
                IpAddr::V4(address) => mapped(address.octets()),
                IpAddr::V6(address) => address.octets(),
            };
            let protocol = frontend.protocol.number();
            let key = ServiceKey { address, port: frontend.port, protocol, zero: 0 };
            let mut targets = ServiceTargets::default();
            if frontend.targets.len() > ServiceTargets::MOST {
                targets.count = ServiceTargets::TOO_MANY;
            } else {
                for (place, target) in targets.list.iter_mut().zip(&frontend.targets) {
                    *place = ServiceTarget { peer_class: target.peer_class, port: target.port, zero: 0 };
                    targets.count += 1;
                }
            }
            if frontend.deferrable {
                targets.flags |= ServiceTargets::DEFERRABLE;
            }
            (key, ServiceValue { targets, echo: key.echo(), ..ServiceValue::default() })
        })
        .collect()
}

/// Port tables and their pages, interned by content.
#[derive(Default)]
struct PortTables {
    tables: BTreeMap<Vec<PortPage>, u32>,
    pages: BTreeMap<PortPage, u32>,
}

impl PortTables {
    fn intern(&mut self, table: &DirectionTable, image: &mut Image) -> u32 {
        let pages = pages_of(table);
        let next = u32::try_from(self.tables.len()).unwrap_or(u32::MAX).saturating_add(1);
        if let Some(number) = self.tables.get(&pages) {
            return *number;
        }
        for (index, page) in pages.iter().enumerate() {
            let fresh = u32::try_from(self.pages.len()).unwrap_or(u32::MAX).saturating_add(1);
            let number = *self.pages.entry(*page).or_insert(fresh);
            image.port_classes.insert(number, *page);
            // 256 pages per transport, in the order of `Transport`: the index within the table is the enumeration's.
            let start = port_page_index(next, Transport::Tcp, 0);
            image.port_pages.insert(start + u32::try_from(index).unwrap_or(u32::MAX), number);
        }
        self.tables.insert(pages, next);
        next
    }
}

/// The class of every port: 256 pages for each transport.
fn pages_of(table: &DirectionTable) -> Vec<PortPage> {
    let mut pages = vec![[u8::try_from(PORT_CLASS_OTHER).unwrap_or(1); 256]; 3 * 256];
    for port_class in table.port_classes.iter().filter(|class| class.class >= PORT_CLASS_FIRST) {
        let class = u8::try_from(port_class.class).unwrap_or(u8::MAX);
        for range in &port_class.ranges {
            let base = transport(range.protocol) as usize * 256;
            for high in range.start >> 8..=range.end >> 8 {
                let low = |port: u16, otherwise| {
                    if port >> 8 == high { usize::from(port & 0xff) } else { otherwise }
                };
                pages[base + usize::from(high)][low(range.start, 0)..=low(range.end, 0xff)].fill(class);
            }
        }
    }
    pages
}

/// The transport of a protocol.
pub const fn transport(protocol: Protocol) -> Transport {
    match protocol {
        Protocol::Tcp => Transport::Tcp,
        Protocol::Udp => Transport::Udp,
        Protocol::Sctp => Transport::Sctp,
    }
}
