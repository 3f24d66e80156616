//! Kubernetes network policy, from text to compiled tables.
//!
//! Data flows one way: [`input`] turns documents into wire structs and those into the [`model`];
//! [`policy::compile`] turns the model into rulesets; [`policy::evaluate()`] asks them. [`policy::oracle`]
//! answers the same questions from the wire structs alone, as literally as the API is written. [`service`] is the
//! proxies' side of the same cluster.
//!
//! Invariant: this crate is pure. No IO, no clock, no randomness, no environment: the same input gives the same
//! bytes on every machine, `wasm32` included.
#![forbid(unsafe_code)]

pub mod diagnostic;
pub mod endpoint_ref;
pub mod envelope;
pub mod input;
pub mod model;
pub mod policy;
pub mod service;
#[cfg(feature = "testing")]
pub mod testing;
