//! The parts of a judgement as functions that the verifier takes one by one: see [`netlab_ebpf::judge::Apart`].
//!
//! Invariant: they are called with nothing but the packet's context and a number, so that they can be verified for any
//! caller; the loader tells the kernel so, by their names. What they work on is this CPU's scratch memory, which their
//! caller works on too: so both hide it from the compiler around a call.

use aya_ebpf::bindings::__sk_buff;
use netlab_ebpf::abi::Direction;
use netlab_ebpf::judge::{Apart, Scratch, Walked};
use netlab_ebpf::packet::{self, Frame, Packet};

use crate::skb::Skb;
use crate::tables::{Maps, device, opaque, scratch};

#[inline(always)]
pub(crate) fn apart(context: *mut __sk_buff, part: Apart, scratch: &mut Scratch) -> &mut Scratch {
    let scratch = opaque(scratch);
    match part {
        Apart::Endpoint(direction) => netlab_endpoint(context, u32::from(direction == Direction::Egress)),
        Apart::Service => netlab_service(context),
        Apart::Target(index) => netlab_target(context, index as u32),
    };
    opaque(scratch)
}

#[inline(always)]
pub(crate) fn walked(context: *mut __sk_buff, part: Walked, scratch: &mut Scratch) -> &mut Scratch {
    let scratch = opaque(scratch);
    match part {
        Walked::IcmpError => netlab_icmp_error(context),
        Walked::NewFlow => netlab_new_flow(context),
        Walked::MiddleOfFlow => netlab_middle_of_flow(context),
    };
    opaque(scratch)
}

/// The packet must be that of the scratch memory, as it is in all programs here.
#[inline(always)]
pub(crate) fn extension_headers(context: *mut __sk_buff, packet: &mut Packet, end: u32) -> Frame {
    core::hint::black_box(&mut *packet);
    let frame = netlab_extension_headers(context, end);
    core::hint::black_box(packet);
    Frame::of(frame)
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn netlab_endpoint(context: *mut __sk_buff, egress: u32) -> u32 {
    let direction = if egress == 0 { Direction::Ingress } else { Direction::Egress };
    run(context, Apart::Endpoint(direction))
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn netlab_service(context: *mut __sk_buff) -> u32 {
    run(context, Apart::Service)
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn netlab_target(context: *mut __sk_buff, index: u32) -> u32 {
    run(context, Apart::Target(index as usize))
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn netlab_icmp_error(context: *mut __sk_buff) -> u32 {
    walk(context, Walked::IcmpError)
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn netlab_new_flow(context: *mut __sk_buff) -> u32 {
    walk(context, Walked::NewFlow)
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn netlab_middle_of_flow(context: *mut __sk_buff) -> u32 {
    walk(context, Walked::MiddleOfFlow)
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn netlab_extension_headers(context: *mut __sk_buff, end: u32) -> u32 {
    let Some(scratch) = scratch() else { return Frame::Malformed as u32 };
    packet::extension_headers(&Skb::again(context), &mut scratch.packet, end) as u32
}

#[inline(always)]
fn run(context: *mut __sk_buff, part: Apart) -> u32 {
    if let Some(scratch) = scratch() {
        part.run(&Maps(Skb::again(context)), scratch);
    }
    0
}

#[inline(always)]
fn walk(context: *mut __sk_buff, part: Walked) -> u32 {
    let skb = Skb::again(context);
    if let Some(scratch) = scratch()
        && let Some((device, _)) = device(skb.ifindex())
    {
        part.run(&Maps(skb), &skb, device, scratch);
    }
    0
}
