//! From a flow's key to the one row that decides for it.
//!
//! Invariant: one probe of each table, no fallbacks. What the tables lack, and an element that was recycled under
//! the reader (its echo is another key's), is [`Reason::NoEntry`], never a guess.

use super::{Decision, Scratch, Tables};
use crate::abi::{
    Address, CidrKey, Direction, PORT_CLASS_ICMP, PORT_CLASS_OTHER, PolicyKey, PolicyValue, Transport,
    echo_address, port_page_index,
};
use crate::packet::{ICMP, ICMPV6, SCTP, TCP, UDP};
use crate::reason::Reason;

/// The one row that decides for a flow opened in `direction`.
#[inline(never)]
pub(super) fn row<T: Tables>(tables: &T, scratch: &mut Scratch, direction: Direction) {
    scratch.decision = Decision::built_in(Reason::NoEntry);
    let ruleset = scratch.word.ruleset();
    if !scratch.word.isolated(direction) {
        return lookup(tables, &PolicyKey::not_isolated(ruleset, direction), &mut scratch.decision);
    }
    let peer_class = peer_class(tables, &scratch.key.remote);
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
