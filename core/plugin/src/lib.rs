//! The extension contract of netlab: what an enforcement backend and a DNS check are, and the versioned payloads that
//! they speak.
//!
//! In-tree backends and checks and those of third parties implement the same [`contract::Backend`] and [`check::Check`];
//! [`loopback`] sends every call through the JSON that a plugin in another address space would see, so the payloads are proven
//! before dynamic loading exists. Invariant: nothing here knows a kernel or Kubernetes wire types.
#![forbid(unsafe_code)]

pub mod admission;
pub mod check;
pub mod contract;
#[cfg(any(test, feature = "contract-tests"))]
pub mod contract_tests;
pub mod evidence;
pub mod loopback;
pub mod validate;
