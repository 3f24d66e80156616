//! What TCP socket a pod holds for a flow.
//!
//! Invariant: every reference that the kernel hands out is given back on every path (the verifier insists),
//! and only a connection for exactly the asked tuple counts, never a listener in its stead.

use aya_ebpf::bindings::{
    bpf_sock, bpf_sock_tuple, bpf_sock_tuple__bindgen_ty_1, bpf_sock_tuple__bindgen_ty_1__bindgen_ty_1,
    bpf_sock_tuple__bindgen_ty_1__bindgen_ty_2,
};
use aya_ebpf::helpers::{bpf_sk_release, bpf_skc_lookup_tcp};
use netlab_ebpf::abi::{Address, FlowKey, ipv4_of};
use netlab_ebpf::judge::Socket;

use crate::skb::Skb;

/// `TCP_LISTEN` of the kernel's `include/net/tcp_states.h`.
const LISTEN: u32 = 10;
/// `TCP_NEW_SYN_RECV` of the same.
const NEW_SYN_RECV: u32 = 12;

/// Looks in the namespace with this id, seen from the packet's own.
#[inline(always)]
pub(crate) fn find(skb: Skb, netns: i32, key: &FlowKey) -> Socket {
    match state(skb, netns, key, key.remote_port) {
        None | Some(LISTEN | NEW_SYN_RECV) => Socket::None,
        // No connection has a remote port of 0: only a listener can answer.
        Some(_) => match state(skb, netns, key, 0) {
            Some(LISTEN) => Socket::Accepted,
            _ => Socket::Connected,
        },
    }
}

/// The state of the socket that a segment from the remote end would reach.
#[inline(always)]
fn state(skb: Skb, netns: i32, key: &FlowKey, remote_port: u16) -> Option<u32> {
    let (sport, dport) = (remote_port.to_be(), key.local_port.to_be());
    if key.is_ipv4() {
        let ipv4 = bpf_sock_tuple__bindgen_ty_1__bindgen_ty_1 {
            saddr: u32::from_ne_bytes(ipv4_of(&key.remote)),
            daddr: u32::from_ne_bytes(ipv4_of(&key.local)),
            sport,
            dport,
        };
        lookup(skb, netns, bpf_sock_tuple__bindgen_ty_1 { ipv4 }, size_of_val(&ipv4))
    } else {
        let ipv6 = bpf_sock_tuple__bindgen_ty_1__bindgen_ty_2 {
            saddr: words(&key.remote),
            daddr: words(&key.local),
            sport,
            dport,
        };
        lookup(skb, netns, bpf_sock_tuple__bindgen_ty_1 { ipv6 }, size_of_val(&ipv6))
    }
}

#[inline(always)]
fn words(a: &Address) -> [u32; 4] {
    [
        u32::from_ne_bytes([a[0], a[1], a[2], a[3]]),
        u32::from_ne_bytes([a[4], a[5], a[6], a[7]]),
        u32::from_ne_bytes([a[8], a[9], a[10], a[11]]),
        u32::from_ne_bytes([a[12], a[13], a[14], a[15]]),
    ]
}

#[inline(always)]
fn lookup(skb: Skb, netns: i32, tuple: bpf_sock_tuple__bindgen_ty_1, size: usize) -> Option<u32> {
    let mut tuple = bpf_sock_tuple { __bindgen_anon_1: tuple };
    // SAFETY: the context is the program's own, the tuple is as long as its size says, and the result is
    // checked for null before it is read and released.
    unsafe {
        let socket: *mut bpf_sock =
            bpf_skc_lookup_tcp(skb.context().cast(), &raw mut tuple, size as u32, netns as u32 as u64, 0);
        if socket.is_null() {
            return None;
        }
        let state = core::ptr::read_volatile(&raw const (*socket).state);
        bpf_sk_release(socket.cast());
        Some(state)
    }
}
