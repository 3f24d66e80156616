//! The extension contract of netlab: what an enforcement backend is, and the versioned payloads it speaks.
//!
//! In-tree backends and those of third parties implement the same [`contract::Backend`]; [`loopback`] sends
//! every call through the JSON that a plugin in another address space would see, so the payloads are proven
//! before dynamic loading exists. Invariant: nothing here knows a kernel or Kubernetes wire types.
#![forbid(unsafe_code)]

pub mod admission;
pub mod contract;
#[cfg(any(test, feature = "contract-tests"))]
pub mod contract_tests;
pub mod loopback;
pub mod validate;
