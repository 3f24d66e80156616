//! Questions to compiled tables about single ports and classes of addresses.

use netlab_ebpf::abi::Direction;

use super::ground::Ground;
use crate::model::port::{PortRange, Protocol};
use crate::policy::change::{PortClass, Verdict};
use crate::policy::classes::ClassIndex;
use crate::policy::connections::Allowed;
use crate::policy::decide::Decision;
use crate::policy::ruleset::{Row, Table};

/// What a table says of a port towards, or from, addresses of a class.
pub(super) fn verdict(table: &Table, class: ClassIndex, protocol: Protocol, port: u16) -> Verdict {
    let row = &table.rows[table.row(class) as usize];
    decision(table, row, protocol, port).map_or(Verdict::Deny, |decision| decision.verdict)
}

/// How a port is decided for the peers of a row.
pub(super) fn decision(table: &Table, row: &Row, protocol: Protocol, port: u16) -> Option<Decision> {
    port_class(table, protocol, port).map(|index| table.decide(row, index))
}

/// True when somebody is allowed a port.
pub(super) fn allows_somebody(ground: &Ground<'_>, table: &Table, protocol: Protocol, port: u16) -> bool {
    port_class(table, protocol, port).is_some_and(|index| {
        rows(ground, table).any(|row| table.decide(row, index).verdict == Verdict::Allow)
    })
}

/// The rows that are of some class.
pub(super) fn rows<'t>(ground: &Ground<'_>, table: &'t Table) -> impl Iterator<Item = &'t Row> {
    let all_are_named = table.row_of.len() >= ground.rulesets.class_numbers.len();
    table.rows.iter().skip(usize::from(all_are_named))
}

/// The port class of a port; classes cover every port.
fn port_class(table: &Table, protocol: Protocol, port: u16) -> Option<usize> {
    let holds = |class: &PortClass| {
        class
            .ranges
            .iter()
            .any(|range| range.protocol == protocol && range.start <= port && port <= range.end)
    };
    table.ports.list.iter().position(holds)
}

/// The ports of port classes in words.
pub(super) fn ports<'c>(classes: impl IntoIterator<Item = &'c PortClass>) -> String {
    let mut only_portless = true;
    let ranges = classes.into_iter().flat_map(|class| &class.ranges).map(|range| {
        only_portless = false;
        (range.protocol, PortRange { start: range.start, end: range.end })
    });
    let set = Allowed::from_ranges(ranges);
    if only_portless { "ICMP and others without ports".to_owned() } else { format!("ports {set}") }
}

/// `ingress` or `egress`.
pub(super) const fn word(direction: Direction) -> &'static str {
    match direction {
        Direction::Ingress => "ingress",
        Direction::Egress => "egress",
    }
}
