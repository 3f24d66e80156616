//! Many questions in one place.
//!
//! Invariant: each packet is sent once, however many questions it belongs to: a second one of the same flow would be
//! a part of the first one's connection, and not be judged.

use netlab_core::input::Loaded;
use netlab_core::policy::query::{Pair, Query};
use netlab_core::policy::trial::Trial;

use super::error::ProveError;
use super::nft::NftPlace;
use super::predict::Prediction;
use super::proof::Proof;
use super::tc::TcPlace;
use super::{Datapath, Enforced, askable, assemble, compile_for, nothing_to_send};

/// The proofs of one question, or why there is nothing to send.
pub type Answer = Result<Vec<Proof>, ProveError>;

/// Proves many questions in one place: the proofs of each question, in order.
///
/// # Errors
/// [`ProveError`] when no proof could be tried at all; a question to which there is nothing to send has its own.
pub fn prove_all(loaded: &Loaded, queries: &[Query], datapath: Datapath) -> Result<Vec<Answer>, ProveError> {
    let cluster = &loaded.cluster;
    let asked: Vec<(Vec<Pair>, Vec<String>)> = queries.iter().map(|query| askable(cluster, query)).collect();
    let mut all: Vec<Pair> = Vec::new();
    for pair in asked.iter().flat_map(|(pairs, _)| pairs) {
        if !all.contains(pair) {
            all.push(pair.clone());
        }
    }
    let mut proofs = Vec::with_capacity(all.len());
    if !all.is_empty() {
        let rulesets = compile_for(loaded, &all)?;
        let trial = Trial::new(&rulesets)?;
        let mut place = match datapath {
            Datapath::Tc => Some(Enforced::Tc(TcPlace::build(cluster, &rulesets, &all, &mut |_| ())?)),
            Datapath::Nft => Some(Enforced::Nft(NftPlace::build(cluster, &rulesets, &all, &mut |_| ())?)),
            Datapath::None => None,
        };
        for pair in &all {
            let prediction = Prediction::new(cluster, &loaded.wire, &trial, pair);
            let observation = match &mut place {
                Some(place) => Some(place.observe(cluster, pair, &prediction)?),
                None => None,
            };
            proofs.push(assemble::proof(cluster, &rulesets, &trial, pair, &prediction, observation));
        }
    }
    let of = |pair: &Pair| all.iter().position(|other| other == pair).and_then(|at| proofs.get(at)).cloned();
    let answer = |(pairs, not_asked): (Vec<Pair>, Vec<String>)| {
        if pairs.is_empty() {
            return Err(nothing_to_send(not_asked));
        }
        let mut proofs: Vec<Proof> = pairs.iter().filter_map(of).collect();
        for proof in &mut proofs {
            proof.not_examined.extend(not_asked.iter().cloned());
        }
        Ok(proofs)
    };
    Ok(asked.into_iter().map(answer).collect())
}
