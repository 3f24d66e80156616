//! The maps of a loaded object, typed.
//!
//! Two groups: the policy maps, which the host writes and which two instances may share ([`PolicyMaps`]), and the
//! maps in which an instance keeps what it saw ([`StateMaps`]). Invariant: a map is used only after its sizes were
//! compared with the layout's. Knows no policy and no order of writes.
#![expect(clippy::missing_errors_doc, reason = "each error type says when it occurs")]

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use netlab_core::policy::image::Image;
use netlab_ebpf::abi::{
    Address, CidrKey, Flow, Flow4Key, FlowKey, FragmentKey, FragmentValue, PeerValue, PolicyKey, PolicyValue,
    PortPage, RulesetPorts, ServiceKey, ServiceValue,
};

use netlab_ebpf::reason::FIRST_COMPILED_ENTRY;

mod batch;
mod counters;
mod devices;
mod last_drops;
pub mod pod;
mod table;

pub use counters::Counters;
pub use devices::Devices;
pub use last_drops::{Dropped, LastDrops};
pub use table::Table;

/// Pages' numbers of one port table: 256 for each of three protocols.
const PAGES_OF_TABLE: u32 = 768;

/// How many elements each map can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapSizes {
    /// Interfaces by number: one beyond cannot be claimed.
    pub devices: u32,
    /// Exact addresses.
    pub peers: u32,
    /// Prefixes.
    pub cidrs: u32,
    /// Rulesets.
    pub rulesets: u32,
    /// Port tables; each takes 768 pages' numbers.
    pub port_tables: u32,
    /// Different pages of port classes.
    pub port_classes: u32,
    /// Policy-map entries.
    pub policy: u32,
    /// Addresses and ports of Services.
    pub services: u32,
    /// IPv4 flows.
    pub conntrack4: u32,
    /// IPv6 flows.
    pub conntrack6: u32,
    /// Datagrams in pieces.
    pub fragments: u32,
    /// Entry ids that are counted.
    pub counters: u32,
    /// Hooks whose last dropped packet is remembered: two of each pod, and two for the pods beyond.
    pub last_drops: u32,
    /// Bytes of the event ring: a power of two and a multiple of the page size.
    pub event_bytes: u32,
}

impl MapSizes {
    /// For a node with some hundreds of pods in a cluster of some 100,000.
    pub const NODE: Self = Self {
        devices: 65_536,
        peers: 262_144,
        cidrs: 65_536,
        rulesets: 4_096,
        port_tables: 1_024,
        port_classes: 4_096,
        policy: 262_144,
        services: 65_536,
        conntrack4: 262_144,
        conntrack6: 131_072,
        fragments: 8_192,
        counters: 262_144,
        last_drops: 1_024,
        event_bytes: 1 << 20,
    };

    /// For a lab of some pods: loaded in milliseconds.
    pub const LAB: Self = Self {
        devices: 4_096,
        peers: 4_096,
        cidrs: 1_024,
        rulesets: 256,
        port_tables: 64,
        port_classes: 256,
        policy: 16_384,
        services: 1_024,
        conntrack4: 1_024,
        conntrack6: 1_024,
        fragments: 256,
        counters: 16_384,
        last_drops: 512,
        event_bytes: 1 << 18,
    };

    /// These sizes, larger where a change needs it: `times` what its image holds, since the next change is made beside
    /// the one that is in force.
    #[must_use]
    pub fn holding(self, image: &Image, times: u32) -> Self {
        let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX).saturating_mul(times);
        let last = |last: Option<&u32>| last.map_or(0, |last| last.saturating_add(1)).saturating_mul(times);
        let entries: BTreeSet<u32> = image.policy.values().map(|value| value.entry).collect();
        let tables = image.port_pages.keys().next_back().map(|page| page / PAGES_OF_TABLE);
        Self {
            peers: self.peers.max(count(image.peers.len())),
            cidrs: self.cidrs.max(count(image.cidrs.len())),
            rulesets: self.rulesets.max(last(image.ruleset_ports.keys().next_back())),
            port_tables: self.port_tables.max(last(tables.as_ref())),
            port_classes: self.port_classes.max(last(image.port_classes.keys().next_back())),
            policy: self.policy.max(count(image.policy.len())),
            services: self.services.max(count(image.services.len())),
            counters: self.counters.max(count(entries.len()).saturating_add(FIRST_COMPILED_ENTRY)),
            ..self
        }
    }

    /// The size of a map by its name in the object; `None` for maps of fixed size.
    pub(crate) fn of(&self, map: &str) -> Option<u32> {
        Some(match map {
            "DEVICES" => self.devices,
            "PEERS" => self.peers,
            "CIDRS" => self.cidrs,
            "RULESETS" => self.rulesets,
            "PORT_PAGES" => self.port_tables.saturating_mul(PAGES_OF_TABLE),
            "PORT_CLASSES" => self.port_classes,
            "POLICY" => self.policy,
            "SERVICES" => self.services,
            "CONNTRACK4" => self.conntrack4,
            "CONNTRACK6" => self.conntrack6,
            "FRAGMENTS" => self.fragments,
            "COUNTERS" => self.counters,
            "LAST_DROP" => self.last_drops,
            "EVENTS" => self.event_bytes,
            _ => return None,
        })
    }
}

/// The maps that hold policy: written by the host, read by packets.
#[derive(Clone, Debug)]
pub struct PolicyMaps {
    /// The pod behind each interface.
    pub devices: Devices,
    /// Peer classes of exact addresses.
    pub peers: Table<Address, PeerValue>,
    /// Peer classes of prefixes.
    pub cidrs: Table<CidrKey, PeerValue>,
    /// The port tables of each ruleset.
    pub rulesets: Table<u32, RulesetPorts>,
    /// The page for each port table, transport and upper half of a port.
    pub port_pages: Table<u32, u32>,
    /// Classes of 256 ports.
    pub port_classes: Table<u32, PortPage>,
    /// The policy-map entries.
    pub policy: Table<PolicyKey, PolicyValue>,
    /// Where the addresses of Services lead.
    pub services: Table<ServiceKey, ServiceValue>,
}

impl PolicyMaps {
    /// Their names in the object.
    pub const NAMES: [&'static str; 8] =
        ["DEVICES", "PEERS", "CIDRS", "RULESETS", "PORT_PAGES", "PORT_CLASSES", "POLICY", "SERVICES"];

    pub(crate) fn take(fds: &mut BTreeMap<String, Arc<OwnedFd>>) -> Result<Self, MapError> {
        Ok(Self {
            devices: Devices::new(fd(fds, "DEVICES")?)?,
            peers: Table::new("PEERS", fd(fds, "PEERS")?)?,
            cidrs: Table::new("CIDRS", fd(fds, "CIDRS")?)?,
            rulesets: Table::new("RULESETS", fd(fds, "RULESETS")?)?,
            port_pages: Table::new("PORT_PAGES", fd(fds, "PORT_PAGES")?)?,
            port_classes: Table::new("PORT_CLASSES", fd(fds, "PORT_CLASSES")?)?,
            policy: Table::new("POLICY", fd(fds, "POLICY")?)?,
            services: Table::new("SERVICES", fd(fds, "SERVICES")?)?,
        })
    }

    /// The kernel's id of each map, by name.
    pub fn ids(&self) -> BTreeMap<&'static str, u32> {
        let Self { devices, peers, cidrs, rulesets, port_pages, port_classes, policy, services } = self;
        BTreeMap::from([
            ("DEVICES", devices.table().id()),
            ("PEERS", peers.id()),
            ("CIDRS", cidrs.id()),
            ("RULESETS", rulesets.id()),
            ("PORT_PAGES", port_pages.id()),
            ("PORT_CLASSES", port_classes.id()),
            ("POLICY", policy.id()),
            ("SERVICES", services.id()),
        ])
    }

    /// Handles of the maps, by name, for a second instance.
    pub(crate) fn handles(&self) -> BTreeMap<&'static str, Arc<OwnedFd>> {
        let Self { devices, peers, cidrs, rulesets, port_pages, port_classes, policy, services } = self;
        BTreeMap::from([
            ("DEVICES", devices.table().shared_fd()),
            ("PEERS", peers.shared_fd()),
            ("CIDRS", cidrs.shared_fd()),
            ("RULESETS", rulesets.shared_fd()),
            ("PORT_PAGES", port_pages.shared_fd()),
            ("PORT_CLASSES", port_classes.shared_fd()),
            ("POLICY", policy.shared_fd()),
            ("SERVICES", services.shared_fd()),
        ])
    }
}

/// The maps that hold what an instance saw.
#[derive(Clone, Debug)]
pub struct StateMaps {
    /// IPv4 flows.
    pub conntrack4: Table<Flow4Key, Flow>,
    /// IPv6 flows.
    pub conntrack6: Table<FlowKey, Flow>,
    /// Datagrams in pieces.
    pub fragments: Table<FragmentKey, FragmentValue>,
    /// Packets by entry.
    pub counters: Counters,
    /// The last packet dropped at each hook.
    pub last_drops: LastDrops,
    lost: Counters,
}

impl StateMaps {
    pub(crate) fn take(fds: &mut BTreeMap<String, Arc<OwnedFd>>) -> Result<Self, MapError> {
        Ok(Self {
            conntrack4: Table::new("CONNTRACK4", fd(fds, "CONNTRACK4")?)?,
            conntrack6: Table::new("CONNTRACK6", fd(fds, "CONNTRACK6")?)?,
            fragments: Table::new("FRAGMENTS", fd(fds, "FRAGMENTS")?)?,
            counters: Counters::new("COUNTERS", fd(fds, "COUNTERS")?)?,
            last_drops: LastDrops::new(fd(fds, "LAST_DROP")?)?,
            lost: Counters::new("LOST", fd(fds, "LOST")?)?,
        })
    }

    /// Events that were not recorded because the ring was full.
    pub fn lost_events(&self) -> Result<u64, MapError> {
        self.lost.get(0)
    }

    /// Decisions that were not reported because only some are: allowed new flows, and denied packets beyond the
    /// budget of their hook ([`netlab_ebpf::sampling`]).
    pub fn sampled_out_events(&self) -> Result<u64, MapError> {
        self.lost.get(1)
    }

    /// Forgets every flow and fragment: the next packet of each is a new one.
    pub fn forget_flows(&self) -> Result<(), MapError> {
        self.conntrack4.clear()?;
        self.conntrack6.clear()?;
        self.fragments.clear()
    }
}

pub(crate) fn fd(
    fds: &mut BTreeMap<String, Arc<OwnedFd>>,
    name: &'static str,
) -> Result<Arc<OwnedFd>, MapError> {
    fds.remove(name).ok_or(MapError::Missing { map: name })
}

/// What can go wrong with a map.
#[derive(Debug, thiserror::Error)]
pub enum MapError {
    /// The object does not define a map that it should.
    #[error("the BPF object has no map {map}: rebuild it with `cargo xtask bpf`")]
    Missing {
        /// The map.
        map: &'static str,
    },
    /// A map has another layout than this netlab was built with.
    #[error(
        "map {map} has keys of {key_size} and values of {value_size} bytes, but this netlab uses \
         {expected_key_size} and {expected_value_size}: it belongs to another version, remove it first"
    )]
    Layout {
        /// The map.
        map: &'static str,
        /// The map's key size.
        key_size: u32,
        /// The map's value size.
        value_size: u32,
        /// Ours.
        expected_key_size: usize,
        /// Ours.
        expected_value_size: usize,
    },
    /// An interface number beyond `DEVICES`.
    #[error("interface {ifindex} cannot be claimed: DEVICES holds numbers below {limit}")]
    Interface {
        /// The interface.
        ifindex: u32,
        /// How many the map holds.
        limit: u32,
    },
    /// A map is full.
    #[error("map {map} is full at {max_entries} entries: load with larger sizes, or with fewer policies")]
    Full {
        /// The map.
        map: &'static str,
        /// Its size.
        max_entries: u32,
    },
    /// The kernel refused.
    #[error("cannot {action} map {map}: {source}")]
    Kernel {
        /// What was tried.
        action: &'static str,
        /// The map.
        map: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
}

impl MapError {
    fn call(action: &'static str, map: &'static str, source: io::Error) -> Self {
        Self::Kernel { action, map, source }
    }

    fn write(map: &'static str, max_entries: u32, source: io::Error) -> Self {
        match source.raw_os_error() {
            Some(libc::E2BIG | libc::ENOSPC) => Self::Full { map, max_entries },
            _ => Self::call("write", map, source),
        }
    }
}
