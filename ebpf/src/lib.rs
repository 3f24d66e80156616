//! The packet judgement that the kernel and the host share.
//!
//! The walk of one packet, told once: the hook names the pod ([`abi::Device`]); [`packet`] reads the headers;
//! exemptions that need no table come first; a tracked flow answers for its packets ([`conntrack`]); a new
//! flow is judged by exactly one row of the policy map ([`judge`]). Every way out has a reason with an entry
//! id ([`reason`]), so every verdict can be cited.
//!
//! Invariant: the kernel program and the host engine run the same [`judge::judge`]; they differ only in the
//! [`judge::Tables`] and [`packet::Bytes`] that they pass in. This library knows nothing of Kubernetes,
//! allocation or IO, and cannot panic on any packet.
#![no_std]
#![forbid(unsafe_code)]
#![expect(
    clippy::inline_always,
    reason = "the kernel program is one function but for what is kept apart by hand"
)]

pub mod abi;
pub mod conntrack;
pub mod judge;
pub mod packet;
pub mod reason;
pub mod sampling;
