//! What the tests of several crates share: readers of cases, a writer of manifests, a generator of clusters,
//! policies and packets. Only with the feature `testing`; nothing of the product uses it.
//!
//! Invariant: it knows the wire structs, the oracle and text; not the model and not the compiler, which are what
//! it helps to test ([`scale`] and [`adversarial`] hand out a model too: what is timed starts there). Like the rest of the crate it
//! is pure: texts and random numbers are passed in.

pub mod adversarial;
pub mod case;
pub mod conformance;
pub mod generate;
pub mod manifest;
pub mod minimise;
pub mod query;
pub mod scale;
pub mod upstream;

/// A case that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{place}: {message}")]
pub struct UnreadableCase {
    /// Which case, step or document.
    pub place: String,
    /// What is wrong with it.
    pub message: String,
}

impl UnreadableCase {
    pub(crate) fn new(place: impl Into<String>, message: impl std::fmt::Display) -> Self {
        Self { place: place.into(), message: message.to_string() }
    }
}
