//! Enforcement of compiled tables on a Linux node: the backends, and the proof that they do what they say.
//!
//! Data flows one way: a `Change` (compiled elsewhere) goes into a [`backend`]; packets meet it in the kernel;
//! what is in force is read back. Invariant: nothing here knows Kubernetes wire types or decides a policy.

pub mod backend;
pub mod prove;
