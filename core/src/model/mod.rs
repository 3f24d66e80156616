//! The domain: a cluster and the policies over it, free of any API version.
//!
//! Invariant: every container is sorted, and everything that a user wrote knows where it was written
//! ([`source::Source`]). The model is built from wire structs by [`crate::input`] and never reads text itself.

pub mod address;
pub mod chosen;
pub mod cluster;
pub mod pod_dns;
pub mod policy;
pub mod port;
pub mod selector;
pub mod service;
pub mod source;
