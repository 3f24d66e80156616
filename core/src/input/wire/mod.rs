//! The API objects as they are written: serde structs, one file per kind.
//!
//! Invariant: absent, null and empty stay distinct wherever the API gives them different meanings, and fields
//! that we do not know are kept in `unknown`, because an unknown field of a policy must never be ignored. No
//! defaulting and no judgement happens here.

pub mod admin_network_policy;
pub mod baseline_admin_network_policy;
pub mod cluster_network_policy;
pub mod core_v1;
pub mod endpoints;
pub mod meta;
pub mod network_policy;
pub mod service;
pub mod tier_policy;
pub mod workload;
