//! The packet: the only raw memory access to frames.
//!
//! Invariant: every access to packet memory is behind a comparison with its end, in the form that the verifier
//! understands; what is not linear is pulled once, and then either readable or absent.

use aya_ebpf::bindings::__sk_buff;
use aya_ebpf::cty::c_void;
use aya_ebpf::helpers::{bpf_skb_load_bytes, bpf_skb_pull_data};
use netlab_ebpf::abi::{Address, from_words};
use netlab_ebpf::packet::{Bytes, Frame, Packet, View};

use crate::parts;

/// Ethernet, IPv6 and TCP headers without options: what is read by direct access.
const HEADERS: u32 = 14 + 40 + 20;

/// A packet as a tc program gets it.
#[derive(Clone, Copy)]
pub(crate) struct Skb {
    context: *mut __sk_buff,
    start: usize,
    end: usize,
}

impl Skb {
    /// Wraps the context and makes the common headers linear. No helper that moves the packet is called later.
    #[inline(always)]
    pub(crate) fn new(context: *mut __sk_buff) -> Self {
        let (mut start, mut end) = linear(context);
        // SAFETY: the kernel passes a valid context; the verifier checks field accesses.
        let length = unsafe { (*context).len };
        if end - start < HEADERS as usize && end - start < length as usize {
            // A failure shows as headers that cannot be read.
            // SAFETY: the context is the program's own, and packet pointers are read anew.
            unsafe { bpf_skb_pull_data(context, length.min(HEADERS)) };
            (start, end) = linear(context);
        }
        Self { context, start, end }
    }

    /// Wraps a context that was wrapped before, in another function.
    #[inline(always)]
    pub(crate) fn again(context: *mut __sk_buff) -> Self {
        let (start, end) = linear(context);
        Self { context, start, end }
    }

    /// The context, which is the kernel's `sk_buff` for helpers and in a lab's events.
    #[inline(always)]
    pub(crate) fn context(self) -> *mut __sk_buff {
        self.context
    }

    /// The interface of the hook.
    #[inline(always)]
    pub(crate) fn ifindex(self) -> u32 {
        // SAFETY: as in `new`.
        unsafe { (*self.context).ifindex }
    }

    /// The interface by which the packet entered the node, or 0.
    #[inline(always)]
    pub(crate) fn ingress_ifindex(self) -> u32 {
        // SAFETY: as in `new`.
        unsafe { (*self.context).ingress_ifindex }
    }

    /// True when the tag of a VLAN was taken off the frame. VLAN 0 is none: the kernel goes on as if there were no
    /// tag, and so must we.
    #[inline(always)]
    pub(crate) fn has_vlan(self) -> bool {
        // SAFETY: as in `new`.
        unsafe { (*self.context).vlan_present != 0 && (*self.context).vlan_tci & 0x0fff != 0 }
    }

    /// The packet's mark.
    #[inline(always)]
    pub(crate) fn mark(self) -> u32 {
        // SAFETY: as in `new`.
        unsafe { (*self.context).mark }
    }

    /// Puts another mark on the packet.
    #[inline(always)]
    pub(crate) fn set_mark(self, mark: u32) {
        // SAFETY: as in `new`; a tc program may write this field.
        unsafe { (*self.context).mark = mark };
    }

    /// True when a socket of this node owns the packet.
    #[inline(always)]
    pub(crate) fn has_socket(self) -> bool {
        // SAFETY: as in `new`; the pointer is only compared.
        unsafe { !(*self.context).__bindgen_anon_2.sk.is_null() }
    }
}

#[inline(always)]
fn linear(context: *mut __sk_buff) -> (usize, usize) {
    // SAFETY: as in `Skb::new`. Volatile, since a helper may have moved the packet.
    unsafe {
        (
            core::ptr::read_volatile(&raw const (*context).data) as usize,
            core::ptr::read_volatile(&raw const (*context).data_end) as usize,
        )
    }
}

impl Skb {
    /// Copies packet bytes to the stack; `to` has room for `length` of them.
    #[inline(always)]
    fn load(&self, offset: u32, to: *mut c_void, length: u32) -> bool {
        // SAFETY: the helper checks the range against the packet and writes `length` bytes or fails.
        unsafe { bpf_skb_load_bytes(self.context.cast(), offset, to, length) == 0 }
    }
}

impl Bytes for Skb {
    type View = Linear;

    #[inline(always)]
    fn len(&self) -> u32 {
        // SAFETY: as in `new`.
        unsafe { (*self.context).len }
    }

    #[inline(always)]
    fn at<const N: usize>(&self, offset: u32) -> Option<Linear> {
        let first = self.start + offset as usize;
        if first + N > self.end { None } else { Some(Linear(first)) }
    }

    #[inline(always)]
    fn read<const N: usize>(&self, offset: u32) -> Option<[u8; N]> {
        let mut bytes = [0_u8; N];
        if self.load(offset, bytes.as_mut_ptr().cast(), N as u32) { Some(bytes) } else { None }
    }

    #[inline(always)]
    fn extension_headers(&self, packet: &mut Packet, end: u32) -> Frame {
        parts::extension_headers(self.context, packet, end)
    }

    /// By words: an address read by bytes would be kept in sixteen places.
    #[inline(always)]
    fn read_address(&self, offset: u32) -> Option<Address> {
        let mut words = [0_u64; 2];
        if self.load(offset, words.as_mut_ptr().cast(), 16) { Some(from_words(words)) } else { None }
    }
}

/// The address of packet bytes that were compared with the packet's end.
pub(crate) struct Linear(usize);

/// Loads a number of the named width from an address of packet memory. Packets are not aligned, BPF loads need
/// not be, and a compiler that thinks they must would load byte by byte: so the instruction is given.
macro_rules! load {
    ($width:literal, $address:expr) => {{
        let value: u64;
        // SAFETY: the address lies in the range that `Skb::at` compared with the packet's end; the verifier
        // refuses the program otherwise.
        unsafe {
            core::arch::asm!(
                concat!("{value} = *(", $width, " *)({address} + 0)"),
                value = lateout(reg) value,
                address = in(reg) $address,
                options(pure, readonly, nostack, preserves_flags),
            );
        }
        value
    }};
}

impl View for Linear {
    #[inline(always)]
    fn byte(&self, offset: usize) -> u8 {
        load!("u8", self.0 + offset) as u8
    }

    #[inline(always)]
    fn short(&self, offset: usize) -> u16 {
        u16::from_be(load!("u16", self.0 + offset) as u16)
    }

    #[inline(always)]
    fn bytes4(&self, offset: usize) -> [u8; 4] {
        (load!("u32", self.0 + offset) as u32).to_ne_bytes()
    }

    #[inline(always)]
    fn address(&self, offset: usize) -> Address {
        from_words([load!("u64", self.0 + offset), load!("u64", self.0 + offset + 8)])
    }
}
