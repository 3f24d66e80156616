//! Port classes of one table: (protocol, port) pairs that none of its rules tells apart.
//!
//! Invariant: the classes cover every port of every protocol once; two ports are in one class exactly when the
//! same atoms contain them. An atom is a range that some rule names, or a number that a port name may stand for.

use std::collections::{BTreeMap, BTreeSet};

use netlab_ebpf::abi::{PORT_CLASS_FIRST, PORT_CLASS_ICMP, PORT_CLASS_OTHER};

use super::change::{PortClass, ProtocolRange};
use super::groups::number;
use crate::model::port::{PortRange, Protocol};

/// What a rule can say about a port, numbers resolved.
pub(super) type Atom = (Protocol, PortRange);

/// The classes of one table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PortClasses {
    /// Sorted by number; the first two are ICMP and other protocols.
    pub(super) list: Vec<PortClass>,
    /// For each class the atoms that contain it, ascending.
    pub(super) atoms: Vec<Vec<u32>>,
}

impl PortClasses {
    /// Cuts the classes for these atoms, which must be sorted and without repeats.
    pub(super) fn new(atoms: &[Atom]) -> Self {
        let mut by_atoms: BTreeMap<Vec<u32>, Vec<ProtocolRange>> = BTreeMap::new();
        for protocol in Protocol::ALL {
            for (start, end, inside) in intervals(protocol, atoms) {
                by_atoms.entry(inside).or_default().push(ProtocolRange { protocol, start, end });
            }
        }
        let built_in =
            [PORT_CLASS_ICMP, PORT_CLASS_OTHER].map(|class| PortClass { class, ranges: Vec::new() });
        let mut classes = Self { list: built_in.to_vec(), atoms: vec![Vec::new(); 2] };
        for (index, (inside, ranges)) in by_atoms.into_iter().enumerate() {
            let class = PORT_CLASS_FIRST.saturating_add(u16::try_from(index).unwrap_or(u16::MAX));
            classes.list.push(PortClass { class, ranges });
            classes.atoms.push(inside);
        }
        classes
    }
}

/// The ports of a protocol in pieces that no atom cuts, with the atoms around each.
fn intervals(protocol: Protocol, atoms: &[Atom]) -> Vec<(u16, u16, Vec<u32>)> {
    let mut changes: BTreeMap<u32, (Vec<u32>, Vec<u32>)> = BTreeMap::from([(0, (Vec::new(), Vec::new()))]);
    for (index, (_, range)) in atoms.iter().enumerate().filter(|(_, (of, _))| *of == protocol) {
        changes.entry(u32::from(range.start)).or_default().0.push(number(index));
        changes.entry(u32::from(range.end) + 1).or_default().1.push(number(index));
    }
    let starts: Vec<u32> = changes.keys().copied().filter(|start| u16::try_from(*start).is_ok()).collect();
    let mut inside: BTreeSet<u32> = BTreeSet::new();
    let mut pieces = Vec::with_capacity(starts.len());
    for (position, start) in starts.iter().enumerate() {
        let (opened, closed) = &changes[start];
        for atom in closed {
            inside.remove(atom);
        }
        inside.extend(opened);
        let end = starts.get(position + 1).map_or(u32::from(u16::MAX), |next| next - 1);
        let (Ok(first), Ok(last)) = (u16::try_from(*start), u16::try_from(end)) else { continue };
        pieces.push((first, last, inside.iter().copied().collect()));
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_port_is_in_one_class_and_edges_are_exact() {
        let atoms = [
            (Protocol::Tcp, PortRange { start: 80, end: 90 }),
            (Protocol::Tcp, PortRange { start: 90, end: 65535 }),
            (Protocol::Udp, PortRange::single(0)),
        ];
        let classes = PortClasses::new(&atoms);
        for protocol in Protocol::ALL {
            for port in 0..=u16::MAX {
                let holders = classes
                    .list
                    .iter()
                    .filter(|class| {
                        class.ranges.iter().any(|range| {
                            range.protocol == protocol && range.start <= port && port <= range.end
                        })
                    })
                    .count();
                assert_eq!(holders, 1, "{protocol} {port}");
            }
        }
        let atoms_at = |protocol: Protocol, port: u16| {
            let holds = |range: &ProtocolRange| {
                range.protocol == protocol && range.start <= port && port <= range.end
            };
            let class = classes.list.iter().position(|class| class.ranges.iter().any(holds));
            classes.atoms[class.expect("every port has a class")].clone()
        };
        assert_eq!(atoms_at(Protocol::Tcp, 79), Vec::<u32>::new());
        assert_eq!(atoms_at(Protocol::Tcp, 80), vec![0]);
        assert_eq!(atoms_at(Protocol::Tcp, 90), vec![0, 1]);
        assert_eq!(atoms_at(Protocol::Tcp, 91), vec![1]);
        assert_eq!(atoms_at(Protocol::Udp, 0), vec![2]);
        assert_eq!(atoms_at(Protocol::Udp, 80), Vec::<u32>::new());
    }
}
