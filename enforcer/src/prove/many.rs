//! Many questions, each in a place of its own.
//!
//! Invariant: no question sees the packets of another one. In a shared place a connection that is ending, or a packet
//! that is sent again, moves counters while the next question is asked, and an honest kernel looks like a lying one.

use netlab_core::input::Loaded;
use netlab_core::policy::query::Query;

use super::error::ProveError;
use super::proof::Proof;
use super::{Datapath, prove};

/// The proofs of one question, or why it could not be tried.
pub type Answer = Result<Vec<Proof>, ProveError>;

/// Proves many questions: the proofs of each, in order.
///
/// # Errors
/// [`ProveError`] when no question at all could be tried; else each that could not has its own.
pub fn prove_all(loaded: &Loaded, queries: &[Query], datapath: Datapath) -> Result<Vec<Answer>, ProveError> {
    let prove = |query: &Query| prove(loaded, query, datapath).map(|proven| proven.proofs.clone());
    let mut answers: Vec<Answer> = queries.iter().map(prove).collect();
    let could_be_asked = |answer: &Answer| matches!(answer, Ok(_) | Err(ProveError::NothingToSend { .. }));
    if answers.is_empty() || answers.iter().any(could_be_asked) {
        return Ok(answers);
    }
    answers.swap_remove(0).map(|proofs| vec![Ok(proofs)])
}
