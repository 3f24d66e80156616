//! The life of a tracked flow: its state bits and when it is forgotten.
//!
//! Invariant: expiry is lazy. A flow past its time is a miss when it is next looked up; nothing needs to run
//! for that. Forgetting a flow can only cause a packet to be judged as new, never to be allowed.

use crate::abi::Flow;

/// The peer of the opener has answered.
pub const REPLIED: u8 = 1;
/// The pod's side sent FIN.
pub const FIN_LOCAL: u8 = 2;
/// The other side sent FIN.
pub const FIN_REMOTE: u8 = 4;
/// Either side sent RST.
pub const RESET: u8 = 8;
/// Opened by the pod's own node: allowed whatever the policy, and not judged again.
pub const NODE: u8 = 16;
/// The pod opened it to itself through a Service: its peer is the pod, whatever address the node gave it.
pub const HAIRPIN: u8 = 32;

/// TCP flag bits, as in the 14th byte of the header.
pub const TCP_FIN: u8 = 1;
/// See [`TCP_FIN`].
pub const TCP_SYN: u8 = 2;
/// See [`TCP_FIN`].
pub const TCP_RST: u8 = 4;
/// See [`TCP_FIN`].
pub const TCP_ACK: u8 = 16;

/// Seconds after its last packet at which a flow is forgotten.
///
/// TCP: a day when established (what kube-proxy configures for the kernel's own table), two minutes while
/// opening or closing. UDP: three minutes once answered, else thirty seconds, like the kernel. SCTP and other
/// protocols: ten minutes.
#[inline(always)]
#[must_use]
pub const fn lifetime(protocol: u8, state: u8) -> u32 {
    match protocol {
        6 if state & RESET != 0 => 10,
        6 if state & (FIN_LOCAL | FIN_REMOTE) == (FIN_LOCAL | FIN_REMOTE) => 120,
        6 if state & REPLIED == 0 => 120,
        6 => 86_400,
        17 if state & REPLIED == 0 => 30,
        17 => 180,
        1 | 58 => 30,
        _ => 600,
    }
}

/// True when the flow has been silent for longer than its lifetime. `now` in seconds; it may wrap.
#[inline(always)]
#[must_use]
pub const fn expired(flow: &Flow, protocol: u8, now: u32) -> bool {
    // A clock that another CPU read a moment later may be ahead of ours: that is age zero, not 2^32.
    let age = now.wrapping_sub(flow.seen).cast_signed();
    age > lifetime(protocol, flow.state).cast_signed()
}
