//! Citing a decision as a row of a kernel map that anybody can read again.
//!
//! Invariant: the key is computed from what was decided, the value is what the kernel holds under it now; the two
//! are never copied from one another. A pod that no policy isolates at all is decided by its `DEVICES` element,
//! everything else by a `POLICY` row (the built-in reasons have rows of ruleset 0).

use netlab_core::policy::trial::HopVerdict;
use netlab_ebpf::abi::{Direction, PolicyKey, PolicyValue, Word};
use netlab_ebpf::reason::Reason;

use super::proof::EntryRef;
use crate::maps::pod::bytes_of;

/// Where a decision is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RowKey {
    /// A row of `POLICY`.
    Policy(PolicyKey),
    /// The pod's element of `DEVICES`.
    Device,
}

/// The row behind a decision, given the pod's word.
pub(super) fn row_key(hop: &HopVerdict, word: Word) -> RowKey {
    let ruleset = word.ruleset();
    let open = [Reason::NotIsolatedIngress.entry(), Reason::NotIsolatedEgress.entry()].contains(&hop.entry);
    match hop.reason {
        Reason::Row if open => RowKey::Policy(PolicyKey::not_isolated(ruleset, hop.direction)),
        Reason::Row => RowKey::Policy(PolicyKey::new(ruleset, hop.direction, hop.port_class, hop.peer_class)),
        Reason::NotIsolatedIngress | Reason::NotIsolatedEgress => RowKey::Device,
        built_in => RowKey::Policy(PolicyKey::new(PolicyKey::FIXED, hop.direction, built_in as u16, 0)),
    }
}

/// A `POLICY` row as cited. `value` is what was read; empty when nothing was.
pub(super) fn policy_row(entry: u32, key: &PolicyKey, map_id: Option<u32>, value: &[u8]) -> EntryRef {
    let key_hex = hex(bytes_of(key));
    EntryRef {
        id: entry,
        map: "POLICY".to_owned(),
        map_id,
        bpftool: map_id.map(|id| format!("bpftool map lookup id {id} key hex {key_hex}")),
        key_hex,
        value_hex: hex(value),
        key_text: policy_key_text(key),
    }
}

/// A `DEVICES` element as cited.
pub(super) fn device_row(entry: u32, ifindex: Option<u32>, map_id: Option<u32>, value: &[u8]) -> EntryRef {
    let key_hex = ifindex.map(|ifindex| hex(&ifindex.to_ne_bytes())).unwrap_or_default();
    EntryRef {
        id: entry,
        map: "DEVICES".to_owned(),
        map_id,
        bpftool: map_id.map(|id| format!("bpftool map lookup id {id} key hex {key_hex}")),
        key_text: ifindex
            .map_or_else(|| "the pod's interface".to_owned(), |ifindex| format!("interface {ifindex}")),
        key_hex,
        value_hex: hex(value),
    }
}

/// The value that a compiled row has.
pub(super) fn value_bytes(value: &PolicyValue) -> &[u8] {
    bytes_of(value)
}

fn policy_key_text(key: &PolicyKey) -> String {
    let direction = if key.direction == Direction::Ingress as u8 { "ingress" } else { "egress" };
    match Reason::from_entry(u32::from(key.port_class)) {
        Some(reason) if key.ruleset == PolicyKey::FIXED => {
            format!("built in, {direction}: {}", reason.describe())
        }
        _ if key.peer_class == 0 => format!("ruleset {}, {direction}: not isolated", key.ruleset),
        _ => format!(
            "ruleset {}, {direction}, port class {}, peer class {}",
            key.ruleset, key.port_class, key.peer_class
        ),
    }
}

/// Bytes as `bpftool` takes and prints them.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ")
}
