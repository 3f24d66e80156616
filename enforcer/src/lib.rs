//! Enforcement of compiled tables on a Linux node: the backends, and the proof that they do what they say.
//!
//! Data flows one way: a `Change` (compiled elsewhere) goes into a [`backend`]; packets meet it in the kernel;
//! what is in force is read back. Invariant: nothing here knows Kubernetes wire types or decides a policy.

pub mod attach;
pub mod audit;
pub mod backend;
mod bpf;
pub mod drop_reason;
pub mod error;
pub mod events;
mod functions;
pub mod instance;
pub mod lockstep;
pub mod maps;
pub mod object;
pub mod pins;
pub mod prove;
pub mod update;

pub use instance::{Datapath, LoadOptions};
