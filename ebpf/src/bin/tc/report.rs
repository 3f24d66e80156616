//! Counting and reporting a verdict.
//!
//! Invariant: nothing here can change the verdict: an entry without a counter and a full ring are themselves
//! counted or left, and the packet goes its way.

use aya_ebpf::helpers::generated::bpf_get_prandom_u32;
use netlab_ebpf::abi::{Direction, Event, PolicyValue, Word};
use netlab_ebpf::judge::{Decision, Scratch};
use netlab_ebpf::reason::Reason;

use crate::maps::{ALLOWED_EVENTS, COUNTERS, EVENTS, LAB, LOST, LOST_FULL, LOST_SAMPLED};
use crate::skb::Skb;

/// Adds one to an entry's counter, if it has one.
#[inline(always)]
pub(crate) fn count(entry: u32) {
    if let Some(counter) = COUNTERS.get_ptr_mut(entry) {
        // SAFETY: the value is this CPU's own, and tc programs are not preempted by each other.
        unsafe { *counter += 1 };
    }
}

/// True when the decision is to be offered to the reader: denied always, a flow's own packets never, the rest as
/// asked for.
#[inline(always)]
pub(crate) fn wanted(decision: &Decision) -> bool {
    if !decision.allow {
        return true;
    }
    if decision.reason == Reason::Flow {
        return false;
    }
    LAB.load() != 0 || (decision.reason == Reason::Row && sampled())
}

#[inline(always)]
fn sampled() -> bool {
    let one_in = ALLOWED_EVENTS.load();
    if one_in == 0 {
        return false;
    }
    // SAFETY: the helper takes nothing and cannot fail.
    if one_in > 1 && unsafe { bpf_get_prandom_u32() } % one_in != 0 {
        lost(LOST_SAMPLED);
        return false;
    }
    true
}

/// Offers the decision to the reader.
#[inline(always)]
pub(crate) fn report(skb: Skb, word: Word, pod: u32, scratch: &Scratch, direction: Direction) {
    let Scratch { packet, decision, .. } = scratch;
    let Some(mut record) = EVENTS.reserve_untyped::<Event>(0) else {
        lost(LOST_FULL);
        return;
    };
    record.write(Event {
        skb: if LAB.load() != 0 { skb.context() as u64 } else { 0 },
        word,
        pod,
        ifindex: skb.ifindex(),
        entry: decision.entry,
        peer_class: decision.peer_class,
        source: packet.source,
        destination: packet.destination,
        source_port: packet.source_port,
        destination_port: packet.destination_port,
        port_class: decision.port_class,
        protocol: packet.protocol,
        tcp_flags: packet.flags,
        direction: direction as u8,
        verdict: if decision.allow { PolicyValue::ALLOW } else { PolicyValue::DENY },
        reason: decision.reason as u8,
        zero: [0; 5],
    });
    record.submit(0);
}

#[inline(always)]
fn lost(index: u32) {
    if let Some(counter) = LOST.get_ptr_mut(index) {
        // SAFETY: as in `count`.
        unsafe { *counter += 1 };
    }
}
