//! Counting and reporting a verdict.
//!
//! Invariant: nothing here can change the verdict: an entry without a counter, a full ring and a full table are
//! themselves counted or left, and the packet goes its way.

use aya_ebpf::helpers::generated::{bpf_get_prandom_u32, bpf_ktime_get_coarse_ns};
use netlab_ebpf::abi::{Direction, Event, PolicyValue, SEALED_WORDS, Word, last_drop_index, seal};
use netlab_ebpf::judge::{Decision, Scratch};
use netlab_ebpf::reason::Reason;
use netlab_ebpf::sampling::admit;

use crate::maps::{ALLOWED_EVENTS, COUNTERS, EVENTS, LAB, LAST_DROP, LOST, LOST_FULL, LOST_SAMPLED};
use crate::skb::Skb;

/// Adds one to an entry's counter, if it has one. True when this CPU had not counted it before.
#[inline(always)]
pub(crate) fn count(entry: u32) -> bool {
    let Some(counter) = COUNTERS.get_ptr_mut(entry) else { return false };
    // SAFETY: the value is this CPU's own, and tc programs are not preempted by each other.
    unsafe {
        *counter += 1;
        *counter == 1
    }
}

/// What is told of a decision, and where it fell.
pub(crate) struct Report<'a> {
    pub(crate) skb: Skb,
    /// The pod's own interface.
    pub(crate) ifindex: u32,
    pub(crate) direction: Direction,
    pub(crate) word: Word,
    pub(crate) pod: u32,
    pub(crate) drops: u16,
    pub(crate) scratch: &'a Scratch,
    /// This CPU has not seen the entry before.
    pub(crate) first: bool,
}

impl Report<'_> {
    /// Remembers the packet if it is dropped, and offers the decision to the reader: denied ones within the hook's
    /// budget, a flow's own packets never, the rest as asked for. In a lab every decision but a flow's is offered.
    #[inline(always)]
    pub(crate) fn tell(&self) {
        let decision = &self.scratch.decision;
        let wanted = if decision.allow {
            decision.reason != Reason::Flow && (LAB.load() != 0 || allowed(decision))
        } else {
            self.remember()
        };
        if wanted {
            self.offer();
        }
    }

    /// Writes the dropped packet down. Whether it is to be told as well.
    #[inline(always)]
    fn remember(&self) -> bool {
        let budget = match LAST_DROP.get_ptr_mut(last_drop_index(self.drops, self.direction)) {
            // SAFETY: the value is this CPU's own, as in `count`, and begins with the words that are sealed.
            Some(drop) => unsafe {
                let now = bpf_ktime_get_coarse_ns();
                let news = (*drop).event.entry != self.scratch.decision.entry;
                (*drop).event = self.event();
                (*drop).time = now;
                (*drop).number += 1;
                (*drop).seal = seal(&*drop.cast::<[u64; SEALED_WORDS]>());
                let due = admit((*drop).due, now, news);
                if let Some(due) = due {
                    (*drop).due = due;
                }
                due.is_some()
            },
            None => false,
        };
        let told = budget || self.first || LAB.load() != 0;
        if !told {
            lost(LOST_SAMPLED);
        }
        told
    }

    #[inline(always)]
    fn event(&self) -> Event {
        let Scratch { packet, decision, .. } = self.scratch;
        Event {
            skb: 0,
            word: self.word,
            pod: self.pod,
            ifindex: self.ifindex,
            entry: decision.entry,
            peer_class: decision.peer_class,
            source: packet.source,
            destination: packet.destination,
            source_port: packet.source_port,
            destination_port: packet.destination_port,
            port_class: decision.port_class,
            protocol: packet.protocol,
            tcp_flags: packet.flags,
            direction: self.direction as u8,
            verdict: if decision.allow { PolicyValue::ALLOW } else { PolicyValue::DENY },
            reason: decision.reason as u8,
            zero: [0; 5],
        }
    }

    #[inline(always)]
    fn offer(&self) {
        let Some(mut record) = EVENTS.reserve_untyped::<Event>(0) else {
            lost(LOST_FULL);
            return;
        };
        record.write(Event {
            skb: if LAB.load() != 0 { self.skb.context() as u64 } else { 0 },
            ..self.event()
        });
        record.submit(0);
    }
}

/// Whether an allowed packet is to be told outside a lab.
#[inline(always)]
fn allowed(decision: &Decision) -> bool {
    let one_in = ALLOWED_EVENTS.load();
    if decision.reason != Reason::Row || one_in == 0 {
        return false;
    }
    // SAFETY: the helper takes nothing and cannot fail.
    if one_in > 1 && unsafe { bpf_get_prandom_u32() } % one_in != 0 {
        lost(LOST_SAMPLED);
        return false;
    }
    true
}

#[inline(always)]
fn lost(index: u32) {
    if let Some(counter) = LOST.get_ptr_mut(index) {
        // SAFETY: as in `count`.
        unsafe { *counter += 1 };
    }
}
