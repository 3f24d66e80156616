//! The second half of a deferred decision: the packet has its endpoint's address now.
//!
//! A pod's packet to a Service whose endpoints are judged differently passes `from_pod` with a mark. Behind the node's
//! translation it is judged here for the pod that sent it: at `to_pod` of an endpoint on the node, at `to_wire` of the
//! device by which it leaves. Invariant: the sender is known by the interface that the packet came in by, never by an
//! address, which the node may have replaced; each packet is judged by itself and remembered by nobody.

use super::{Apart, Decision, Hook, Judgement, Scratch, Tables, Walk};
use crate::abi::{Device, Direction, FragmentKey, FragmentValue, Word};
use crate::packet::{self, Bytes, Frame, Packet, Part};
use crate::reason::Reason;

/// Judges a packet that bears the mark, where `hook.ingress_ifindex` is the interface by which it came in.
pub fn judge_deferred<T: Tables>(bytes: &impl Bytes, hook: Hook, tables: &T) -> Judgement {
    let sender = tables.device(hook.ingress_ifindex).unwrap_or_default();
    let mut scratch = Scratch::CLEAN;
    decide_deferred(bytes, hook, &sender, sender.word, tables, &mut scratch);
    let Scratch { packet, decision, .. } = scratch;
    Judgement {
        allow: decision.allow,
        entry: decision.entry,
        reason: decision.reason,
        word: sender.word,
        pod: sender.pod,
        peer_class: decision.peer_class,
        port_class: decision.port_class,
        packet,
    }
}

/// The same for a sender whose word is read by the caller.
#[inline(always)]
pub fn decide_deferred<T: Tables>(
    bytes: &impl Bytes,
    hook: Hook,
    sender: &Device,
    word: Word,
    tables: &T,
    scratch: &mut Scratch,
) {
    scratch.packet = Packet::CLEAN;
    (scratch.hook, scratch.word, scratch.hairpin) = (hook, word, false);
    scratch.frame = packet::parse(bytes, &mut scratch.packet);
    let scratch = tables.opaque(scratch);
    let walk = Walk { tables, direction: Direction::Egress, device: sender };
    if word.ruleset() == 0 {
        scratch.decided(Decision::built_in(Reason::DeferredUnknown));
    } else if scratch.frame != Frame::Ip {
        scratch.decided(Decision::built_in(Reason::Malformed));
    } else if scratch.packet.part == Part::Later {
        walk.later_deferred(scratch);
    } else {
        walk.set_flow_key(scratch);
        let scratch = tables.apart(Apart::Endpoint(Direction::Egress), scratch);
        if scratch.packet.part == Part::First && scratch.decision.allow {
            let value = FragmentValue { word, entry: scratch.decision.entry, seen: tables.now() };
            tables.insert_fragment(&walk.deferred_fragment(scratch), &value);
        }
    }
}

impl<T: Tables> Walk<'_, T> {
    #[inline(always)]
    fn deferred_fragment(&self, scratch: &Scratch) -> FragmentKey {
        FragmentKey { direction: FragmentKey::DEFERRED, ..self.fragment_key(&scratch.packet) }
    }

    #[inline(never)]
    fn later_deferred(&self, scratch: &mut Scratch) {
        let decision = match self.tables.fragment(&self.deferred_fragment(scratch)) {
            Some(first)
                if first.word.0 == scratch.word.0
                    && self.tables.now().wrapping_sub(first.seen).cast_signed()
                        <= super::FRAGMENT_SECONDS =>
            {
                Decision::of(true, first.entry, Reason::Fragment)
            }
            _ => Decision::built_in(Reason::FragmentUnknown),
        };
        scratch.decided(decision);
    }
}
