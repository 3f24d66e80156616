//! Whether a [`Change`] keeps its own promises.
//!
//! Invariant: a change without problems can be programmed by any backend without a decision of its own: every
//! lookup that a packet can cause has exactly one answer. Every backend asks here before it touches anything.
//! Knows nothing of what is in force: see [`crate::admission`].

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use netlab_core::model::port::Protocol;
use netlab_core::policy::change::{
    Change, DirectionTable, PeerPrefix, PodDevice, PortClass, ProtocolRange, RulesetTable, Verdict,
};
use netlab_core::policy::image::MAX_PORT_CLASSES;
use netlab_ebpf::abi::{Direction, PORT_CLASS_FIRST, PORT_CLASS_ICMP, PORT_CLASS_OTHER};
use netlab_ebpf::reason::{FIRST_COMPILED_ENTRY, Tier};

/// Rulesets are numbered below this (two bits of the device word say what is isolated).
pub const RULESET_LIMIT: u32 = 1 << 30;
/// Longest name of an interface, `IFNAMSIZ` less the final zero.
pub const MAX_INTERFACE_NAME: usize = 15;

/// One broken promise of a change, with the object that is at fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// Generation 0 means that nothing is in force.
    #[error("the generation is 0, which no change may have")]
    GenerationZero,
    /// A list that must be sorted, without repeats, is not.
    #[error("{list} are not sorted and unique: {item} is out of place")]
    Order {
        /// Which list.
        list: String,
        /// The first element that does not come after its predecessor.
        item: String,
    },
    /// A ruleset's number is 0 or too high.
    #[error("ruleset {id}: the number must be 1 to {}", RULESET_LIMIT - 1)]
    RulesetNumber {
        /// The number.
        id: u32,
    },
    /// A prefix is longer than its family, has host bits, or is a v4-mapped IPv6 one.
    #[error("peer {prefix}: {why}")]
    Prefix {
        /// The prefix as given.
        prefix: String,
        /// What is wrong.
        why: &'static str,
    },
    /// A family has no root, so some addresses have no class.
    #[error("the root prefix {root} is missing: some addresses have no peer class")]
    Root {
        /// `0.0.0.0/0` or `::/0`.
        root: &'static str,
    },
    /// A table's port classes 0 and 1 are not the ones of ICMP and other protocols.
    #[error("{table}: port class {class} must be there and without ranges")]
    PortlessClass {
        /// `ruleset 3 ingress`.
        table: String,
        /// 0 or 1.
        class: u16,
    },
    /// A port class's number is too high, or the class is empty.
    #[error("{table}: port class {class}: {why}")]
    PortClass {
        /// `ruleset 3 ingress`.
        table: String,
        /// Its number.
        class: u16,
        /// What is wrong.
        why: &'static str,
    },
    /// A port is in no class.
    #[error("{table}: {protocol} port {port} is in no port class")]
    PortMissing {
        /// `ruleset 3 ingress`.
        table: String,
        /// The protocol.
        protocol: Protocol,
        /// The first such port.
        port: u16,
    },
    /// A port is in two classes.
    #[error("{table}: {protocol} port {port} is in two port classes")]
    PortTwice {
        /// `ruleset 3 ingress`.
        table: String,
        /// The protocol.
        protocol: Protocol,
        /// The first such port.
        port: u16,
    },
    /// A peer class of the change has no row in a table.
    #[error("{table}: peer class {class} has no row")]
    PeerClassMissing {
        /// `ruleset 3 ingress`.
        table: String,
        /// The class.
        class: u32,
    },
    /// A peer class has two rows in a table.
    #[error("{table}: peer class {class} is in two rows")]
    PeerClassTwice {
        /// `ruleset 3 ingress`.
        table: String,
        /// The class.
        class: u32,
    },
    /// A row has not one cell per port class.
    #[error("{table}: the row of peer class {class} has {cells} cells for {port_classes} port classes")]
    Cells {
        /// `ruleset 3 ingress`.
        table: String,
        /// The row's first peer class.
        class: u32,
        /// Its cells.
        cells: usize,
        /// What there should be.
        port_classes: usize,
    },
    /// A cell's entry is a built-in one, or its tier does not exist.
    #[error("{table}: entry {entry}: {why}")]
    Entry {
        /// `ruleset 3 ingress`.
        table: String,
        /// The entry.
        entry: u32,
        /// What is wrong.
        why: &'static str,
    },
    /// A pod has a fault of its own.
    #[error("pod {pod}: {why}")]
    Pod {
        /// namespace/name.
        pod: String,
        /// What is wrong.
        why: String,
    },
}

/// Every broken promise of a change, in the order of its parts; empty when it can be programmed.
pub fn validate(change: &Change) -> Vec<Problem> {
    let mut check = Check::default();
    if change.generation == 0 {
        check.problems.push(Problem::GenerationZero);
    }
    check.peers(&change.peers);
    check.sorted("rulesets", change.rulesets.iter().map(|ruleset| (ruleset.id, ruleset.id)));
    for ruleset in &change.rulesets {
        check.ruleset(ruleset);
    }
    check.pods(change);
    check.problems
}

#[derive(Default)]
struct Check {
    problems: Vec<Problem>,
    classes: BTreeSet<u32>,
    entries: BTreeMap<u32, (Verdict, u8)>,
}

impl Check {
    fn sorted<K: Ord, T: std::fmt::Display>(&mut self, list: &str, items: impl Iterator<Item = (K, T)>) {
        let mut before: Option<K> = None;
        for (key, item) in items {
            if before.is_some_and(|before| before >= key) {
                self.problems.push(Problem::Order { list: list.to_owned(), item: item.to_string() });
                return;
            }
            before = Some(key);
        }
    }

    fn peers(&mut self, peers: &[PeerPrefix]) {
        self.sorted(
            "peers",
            peers
                .iter()
                .map(|peer| ((peer.address, peer.length), format!("{}/{}", peer.address, peer.length))),
        );
        for peer in peers {
            self.classes.insert(peer.class);
            if let Some(why) = prefix_fault(peer) {
                let prefix = format!("{}/{}", peer.address, peer.length);
                self.problems.push(Problem::Prefix { prefix, why });
            }
        }
        for (root, address) in
            [("0.0.0.0/0", IpAddr::V4(Ipv4Addr::UNSPECIFIED)), ("::/0", IpAddr::V6(Ipv6Addr::UNSPECIFIED))]
        {
            if !peers.iter().any(|peer| peer.length == 0 && peer.address == address) {
                self.problems.push(Problem::Root { root });
            }
        }
    }

    fn ruleset(&mut self, ruleset: &RulesetTable) {
        if ruleset.id == 0 || ruleset.id >= RULESET_LIMIT {
            self.problems.push(Problem::RulesetNumber { id: ruleset.id });
        }
        for (direction, table) in
            [(Direction::Ingress, &ruleset.ingress), (Direction::Egress, &ruleset.egress)]
        {
            if let Some(table) = table {
                let name = table_name(ruleset.id, direction);
                self.ports(&name, &table.port_classes);
                self.rows(&name, table);
            }
        }
    }

    fn ports(&mut self, name: &str, classes: &[PortClass]) {
        self.sorted(&format!("{name}: port classes"), classes.iter().map(|class| (class.class, class.class)));
        for class in [PORT_CLASS_ICMP, PORT_CLASS_OTHER] {
            if !classes.iter().any(|found| found.class == class && found.ranges.is_empty()) {
                self.problems.push(Problem::PortlessClass { table: name.to_owned(), class });
            }
        }
        for class in classes {
            let why = if usize::from(class.class) >= MAX_PORT_CLASSES {
                "the number does not fit one byte"
            } else if class.class >= PORT_CLASS_FIRST && class.ranges.is_empty() {
                "it has no ports"
            } else if class.ranges.iter().any(|range| range.start > range.end) {
                "a range ends before it starts"
            } else {
                continue;
            };
            self.problems.push(Problem::PortClass { table: name.to_owned(), class: class.class, why });
        }
        for protocol in Protocol::ALL {
            let mut ranges: Vec<ProtocolRange> = classes
                .iter()
                .flat_map(|class| class.ranges.iter().copied())
                .filter(|range| range.protocol == protocol && range.start <= range.end)
                .collect();
            ranges.sort_unstable();
            if let Some(problem) = coverage_fault(name, protocol, &ranges) {
                self.problems.push(problem);
            }
        }
    }

    fn rows(&mut self, name: &str, table: &DirectionTable) {
        let mut seen = BTreeSet::new();
        for row in &table.rows {
            let first = row.peer_classes.first().copied().unwrap_or_default();
            self.sorted(
                &format!("{name}: peer classes of a row"),
                row.peer_classes.iter().map(|class| (*class, *class)),
            );
            if row.cells.len() != table.port_classes.len() {
                self.problems.push(Problem::Cells {
                    table: name.to_owned(),
                    class: first,
                    cells: row.cells.len(),
                    port_classes: table.port_classes.len(),
                });
            }
            for class in &row.peer_classes {
                if !seen.insert(*class) {
                    self.problems.push(Problem::PeerClassTwice { table: name.to_owned(), class: *class });
                }
            }
            for cell in &row.cells {
                let mut fault = |why| {
                    self.problems.push(Problem::Entry { table: name.to_owned(), entry: cell.entry, why });
                };
                if cell.entry < FIRST_COMPILED_ENTRY {
                    fault("its number belongs to a built-in reason");
                } else if cell.tier > Tier::Default as u8 {
                    fault("there is no such tier");
                } else if *self.entries.entry(cell.entry).or_insert((cell.verdict, cell.tier))
                    != (cell.verdict, cell.tier)
                {
                    fault("it has two verdicts or tiers");
                }
            }
        }
        let missing: Vec<u32> = self.classes.difference(&seen).copied().collect();
        for class in missing {
            self.problems.push(Problem::PeerClassMissing { table: name.to_owned(), class });
        }
    }

    fn pods(&mut self, change: &Change) {
        self.sorted(
            "pods",
            change
                .pods
                .iter()
                .map(|pod| ((&pod.namespace, &pod.name), format!("{}/{}", pod.namespace, pod.name))),
        );
        let rulesets: BTreeSet<u32> = change.rulesets.iter().map(|ruleset| ruleset.id).collect();
        let (mut ids, mut interfaces, mut addresses) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        for pod in &change.pods {
            let mut faults = pod_faults(pod);
            if !rulesets.contains(&pod.ruleset) {
                faults.push(format!("ruleset {} is not in the change", pod.ruleset));
            }
            if !ids.insert(pod.id) {
                faults.push(format!("another pod has the id {} too", pod.id));
            }
            if !interfaces.insert(pod.interface.as_str()) {
                faults.push(format!("another pod is behind {} too", pod.interface));
            }
            for address in &pod.addresses {
                if !addresses.insert(*address) {
                    faults.push(format!("{address} is there twice"));
                }
            }
            let name = format!("{}/{}", pod.namespace, pod.name);
            self.problems.extend(faults.into_iter().map(|why| Problem::Pod { pod: name.clone(), why }));
        }
    }
}

/// How messages call one direction of a ruleset.
pub(crate) fn table_name(ruleset: u32, direction: Direction) -> String {
    let direction = match direction {
        Direction::Ingress => "ingress",
        Direction::Egress => "egress",
    };
    format!("ruleset {ruleset} {direction}")
}

fn prefix_fault(peer: &PeerPrefix) -> Option<&'static str> {
    let (bits, value) = match peer.address {
        IpAddr::V4(address) => (32, u128::from(address.to_bits()) << 96),
        IpAddr::V6(address) => (128, address.to_bits()),
    };
    let length = u32::from(peer.length);
    if peer.class == 0 {
        Some("peer class 0 is never valid")
    } else if length > bits {
        Some("the prefix is longer than an address")
    } else if value.checked_shl(length).unwrap_or(0) != 0 {
        Some("bits after the prefix are set")
    } else if matches!(peer.address, IpAddr::V6(address) if address.to_ipv4_mapped().is_some()) {
        Some("v4-mapped addresses are never peers")
    } else {
        None
    }
}

/// `ranges` sorted by start.
fn coverage_fault(table: &str, protocol: Protocol, ranges: &[ProtocolRange]) -> Option<Problem> {
    let table = table.to_owned();
    let mut next: u32 = 0;
    for range in ranges {
        let start = u32::from(range.start);
        if start < next {
            return Some(Problem::PortTwice { table, protocol, port: range.start });
        }
        if start > next {
            break;
        }
        next = u32::from(range.end) + 1;
    }
    u16::try_from(next).ok().map(|port| Problem::PortMissing { table, protocol, port })
}

fn pod_faults(pod: &PodDevice) -> Vec<String> {
    let mut faults = Vec::new();
    if pod.id == 0 {
        faults.push("the id 0 means an unclaimed device".to_owned());
    }
    // dev_valid_name of net/core/dev.c, and no quotes: the name is written into other programs' input.
    let name = pod.interface.as_str();
    let odd = |c: char| c.is_whitespace() || c.is_control() || matches!(c, '/' | ':' | '"' | '\\' | '*');
    if name.is_empty() || name.len() > MAX_INTERFACE_NAME || matches!(name, "." | "..") || name.contains(odd)
    {
        faults.push(format!("{name:?} is no usable interface name"));
    }
    for family in [true, false] {
        if pod.addresses.iter().filter(|address| address.is_ipv4() == family).count() > 1 {
            faults.push("it has two addresses of one family".to_owned());
        }
    }
    for address in &pod.addresses {
        let mapped = matches!(address, IpAddr::V6(address) if address.to_ipv4_mapped().is_some());
        if address.is_unspecified() || address.is_multicast() || mapped {
            faults.push(format!("{address} cannot be a pod's address"));
        }
    }
    faults
}
