//! From a flow's key to the one row that decides for it.
//!
//! Invariant: one probe of each table, no fallbacks. What the tables lack, and an element that was recycled under
//! the reader (its echo is another key's), is [`Reason::NoEntry`], never a guess. An address that the node translates is
//! judged as each of the places to which it may lead, and decided here only if they all agree.

use super::{Apart, Decision, Scratch, Tables};
use crate::abi::{
    Address, CidrKey, Direction, PORT_CLASS_ICMP, PORT_CLASS_OTHER, PolicyKey, PolicyValue, ServiceKey,
    ServiceTargets, Transport, echo_address, port_page_index,
};
use crate::packet::{ICMP, ICMPV6, SCTP, TCP, UDP};
use crate::reason::Reason;

/// The one row that decides for a flow opened in `direction`, as the pod sees it.
#[inline(always)]
pub(super) fn row<'scratch, T: Tables>(
    tables: &T,
    scratch: &'scratch mut Scratch,
    direction: Direction,
) -> &'scratch mut Scratch {
    if direction == Direction::Egress && scratch.word.isolated(direction) {
        let scratch = tables.apart(Apart::Service, scratch);
        if scratch.translated {
            return scratch;
        }
        return tables.apart(Apart::Endpoint(direction), scratch);
    }
    tables.apart(Apart::Endpoint(direction), scratch)
}

/// The same, where the remote end is whoever has the address.
#[inline(always)]
pub(super) fn endpoint<T: Tables>(tables: &T, scratch: &mut Scratch, direction: Direction) {
    scratch.decision = Decision::built_in(Reason::NoEntry);
    let ruleset = scratch.word.ruleset();
    if !scratch.word.isolated(direction) {
        return lookup(tables, &PolicyKey::not_isolated(ruleset, direction), &mut scratch.decision);
    }
    // The node put its own address in place of the pod's, lest the pod answers itself directly.
    let itself = direction == Direction::Ingress && scratch.hairpin;
    let remote = if itself { &scratch.key.local } else { &scratch.key.remote };
    let peer_class = peer_class(tables, remote);
    if peer_class == NO_PEER_CLASS {
        return;
    }
    let port = match direction {
        Direction::Ingress => scratch.key.local_port,
        Direction::Egress => scratch.key.remote_port,
    };
    let Some(port_class) = port_class(tables, ruleset, direction, scratch.key.protocol, port) else { return };
    lookup(tables, &PolicyKey::new(ruleset, direction, port_class, peer_class), &mut scratch.decision);
}

/// Decides for an address that this node translates.
#[inline(always)]
pub(super) fn service<T: Tables>(tables: &T, scratch: &mut Scratch) {
    scratch.translated = false;
    let flow = &scratch.key;
    if !matches!(flow.protocol, TCP | UDP | SCTP) {
        return;
    }
    let key = ServiceKey { address: flow.remote, port: flow.remote_port, protocol: flow.protocol, zero: 0 };
    if !tables.service(&key, &mut scratch.service) {
        return;
    }
    if scratch.service.echo != key.echo() {
        scratch.decision = Decision::built_in(Reason::NoEntry);
        scratch.translated = true;
        return;
    }
    if scratch.word.generation() < scratch.service.since {
        scratch.service.targets = scratch.service.former;
    }
    if scratch.service.targets.count == 0 {
        return;
    }
    scratch.translated = true;
    let scratch = tables.opaque(scratch);
    scratch.decision = Decision::built_in(Reason::NoEntry);
    scratch.differ = usize::from(scratch.service.targets.count) > ServiceTargets::MOST;
    for index in 0..ServiceTargets::MOST {
        if scratch.differ || index >= scratch.service.targets.count as usize {
            break;
        }
        tables.apart(Apart::Target(index), scratch);
    }
    let scratch = tables.opaque(scratch);
    if scratch.differ {
        let deferrable = scratch.service.targets.flags & ServiceTargets::DEFERRABLE != 0;
        scratch.decision =
            Decision::built_in(if deferrable { Reason::Deferred } else { Reason::ServiceMixed });
    }
}

/// Judges one target by its own row. The first one's decision stands as long as the others do not differ; what has no
/// row is dropped.
#[inline(always)]
pub(super) fn target<T: Tables>(tables: &T, scratch: &mut Scratch, index: usize) {
    let Some(target) = scratch.service.targets.list.get(index).copied() else { return };
    let (ruleset, protocol) = (scratch.word.ruleset(), scratch.key.protocol);
    let mut decision = Decision::built_in(Reason::NoEntry);
    if let Some(class) = port_class(tables, ruleset, Direction::Egress, protocol, target.port) {
        let key = PolicyKey::new(ruleset, Direction::Egress, class, target.peer_class);
        lookup(tables, &key, &mut decision);
    }
    if index == 0 {
        scratch.decision = decision;
    } else if decision.allow != scratch.decision.allow {
        scratch.differ = true;
    }
    if decision.reason == Reason::NoEntry {
        scratch.decision = decision;
        scratch.service.targets.count = 1;
        scratch.differ = false;
    }
}

/// No class: the tables lack what they must have.
const NO_PEER_CLASS: u32 = 0;

/// What the row of this key says; a missing one, and one that is another's, is no entry.
#[inline(always)]
pub(super) fn lookup<T: Tables>(tables: &T, key: &PolicyKey, decision: &mut Decision) {
    *decision = Decision::built_in(Reason::NoEntry);
    if let Some(value) = tables.policy(key)
        && value.echo == key.echo()
        && matches!(value.verdict, PolicyValue::ALLOW | PolicyValue::DENY)
    {
        *decision = Decision {
            allow: value.verdict == PolicyValue::ALLOW,
            entry: value.entry,
            reason: Reason::Row,
            peer_class: key.peer_class,
            port_class: key.port_class,
        };
    }
}

/// A PEERS hit, or the longest prefix: `::/0` and `::ffff:0:0/96` are always there, so a miss is an error.
#[inline(always)]
fn peer_class<T: Tables>(tables: &T, remote: &Address) -> u32 {
    if let Some(peer) = tables.peer(remote)
        && peer.echo == echo_address(remote)
    {
        return peer.class;
    }
    tables.cidr(&CidrKey { prefix: 128, address: *remote }).map_or(NO_PEER_CLASS, |peer| peer.class)
}

/// The class of a port in the ruleset's table of a direction; what has no ports has a class of its own.
#[inline(always)]
fn port_class<T: Tables>(
    tables: &T,
    ruleset: u32,
    direction: Direction,
    protocol: u8,
    port: u16,
) -> Option<u16> {
    let transport = match protocol {
        TCP => Transport::Tcp,
        UDP => Transport::Udp,
        SCTP => Transport::Sctp,
        ICMP | ICMPV6 => return Some(PORT_CLASS_ICMP),
        _ => return Some(PORT_CLASS_OTHER),
    };
    let table = tables.ruleset_ports(ruleset)?.table(direction);
    let page = tables.port_page(port_page_index(table, transport, port))?;
    Some(u16::from(tables.port_class(page, (port & 0xff) as u8)?))
}
