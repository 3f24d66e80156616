//! What kubelet writes into a pod's `resolv.conf`, and how that differs from what is there.
//!
//! [`KubeletConfig`] and [`HostFile`] are a node's two files, [`expected()`] is the algorithm of
//! `pkg/kubelet/network/dns/dns.go`, [`difference()`] compares with a file that was found. Invariant: pure; every line of
//! the expected file says where it came from. Knows nothing of what a libc makes of the file.

mod config;
mod difference;
mod expected;
mod host_file;

pub use config::{GateState, KubeletConfig, Written};
pub use difference::{Blame, Class, Difference, Found, difference};
pub use expected::{
    Cut, Entry, Event, Expected, Family, Limits, NodeDns, Origin, Policy, Subject, Why, expected,
};
pub use host_file::{HostFile, HostFileError, HostLine};
