//! `prove`: predict a verdict, send the packet through the real program, and compare.
//!
//! Four witnesses are asked: the specification, the compiled tables, the program on the live maps (test-run) and
//! the wire. Invariant: they are asked independently, and disagreement is reported, never resolved.

mod assemble;
mod cite;
pub mod error;
mod many;
mod nft;
mod place;
pub mod predict;
pub mod proof;
mod read_back;
mod tc;
mod wire;
mod witness;

use std::collections::BTreeSet;

use netlab_core::input::Loaded;
use netlab_core::model::cluster::Cluster;
use netlab_core::policy::change::Verdict;
use netlab_core::policy::clash::clashes;
use netlab_core::policy::query::{End, Pair, Query, pairs, policed_pod};
use netlab_core::policy::trial::{Egress, Trial};
use netlab_core::policy::{Compiled, Limits, Numbers, Rulesets, Scope, compile_with};
use netlab_core::service::nftables::Layout;
use netlab_lab::Lab;
use netlab_lab::proxy::ProxyMode;
use netlab_node::Netns;

use self::error::ProveError;
pub use self::many::{Answer, prove_all};
use self::nft::NftPlace;
use self::predict::Prediction;
use self::proof::Proof;
use self::tc::TcPlace;
use self::witness::Observation;
use crate::backend::nft::NftBackend;
use crate::backend::tc::TcBackend;

/// Which datapath to ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Datapath {
    /// The eBPF program at tc.
    Tc,
    /// nftables; works in a user namespace too.
    Nft,
    /// No kernel at all.
    None,
}

/// The proofs of a question, and the place where they were made.
pub struct Proven {
    /// One per pair (source, destination, address family), in order.
    pub proofs: Vec<Proof>,
    /// What was compiled, to cite from.
    pub rulesets: Rulesets,
    place: Option<Enforced>,
}

/// A lab with a datapath.
enum Enforced {
    Tc(TcPlace),
    Nft(NftPlace),
}

impl Enforced {
    fn lab(&self) -> &Lab {
        match self {
            Self::Tc(place) => place.lab(),
            Self::Nft(place) => place.lab(),
        }
    }

    fn observe(
        &mut self,
        cluster: &Cluster,
        pair: &Pair,
        prediction: &Prediction,
    ) -> Result<Observation, ProveError> {
        match self {
            Self::Tc(place) => place.observe(cluster, pair, prediction),
            Self::Nft(place) => place.observe(cluster, pair, prediction),
        }
    }
}

impl std::fmt::Debug for Proven {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Proven").field("proofs", &self.proofs).finish_non_exhaustive()
    }
}

impl Proven {
    /// The namespaces, for as long as this value is held; `None` when no kernel was asked.
    pub fn lab(&self) -> Option<&Lab> {
        self.place.as_ref().map(Enforced::lab)
    }
}

/// A node's datapath after its tables were written and before a packet is sent.
pub enum Written<'a> {
    /// The eBPF program with its maps.
    Tc(&'a mut TcBackend),
    /// The rules of nftables, in the node's namespace.
    Nft(&'a mut NftBackend, &'a Netns),
}

/// What happens between writing the tables and sending the packet: tests change a row here, to see whether the
/// proof notices.
pub type Interference<'a> = &'a mut dyn FnMut(Written<'_>);

/// How nodes lead from Services to their endpoints, where nothing else is asked for.
pub const DEFAULT_PROXY: ProxyMode = ProxyMode::Nftables(Layout::Maps);

/// Proves a question.
///
/// # Errors
/// [`ProveError`] when a proof could not be tried at all.
pub fn prove(loaded: &Loaded, query: &Query, datapath: Datapath) -> Result<Proven, ProveError> {
    prove_with(loaded, query, datapath, &mut |_| ())
}

/// The same with this proxy on the nodes.
///
/// # Errors
/// [`ProveError`] when a proof could not be tried at all.
pub fn prove_by(
    loaded: &Loaded,
    query: &Query,
    datapath: Datapath,
    proxy: ProxyMode,
) -> Result<Proven, ProveError> {
    prove_interfered(loaded, query, datapath, proxy, &mut |_| ())
}

/// Proves a question while somebody interferes with what was written, once per node.
///
/// # Errors
/// [`ProveError`] when a proof could not be tried at all.
pub fn prove_with(
    loaded: &Loaded,
    query: &Query,
    datapath: Datapath,
    interfere: Interference<'_>,
) -> Result<Proven, ProveError> {
    prove_interfered(loaded, query, datapath, DEFAULT_PROXY, interfere)
}

fn prove_interfered(
    loaded: &Loaded,
    query: &Query,
    datapath: Datapath,
    proxy: ProxyMode,
    interfere: Interference<'_>,
) -> Result<Proven, ProveError> {
    let cluster = &loaded.cluster;
    let (pairs, not_asked) = askable(cluster, query);
    if pairs.is_empty() {
        return Err(nothing_to_send(not_asked));
    }
    let rulesets = compile_for(loaded, &pairs)?;
    let trial = Trial::new(&rulesets)?;
    let seen = match datapath {
        Datapath::Nft => Egress::AfterTranslation,
        Datapath::Tc | Datapath::None => Egress::BeforeTranslation,
    };
    let mut predictions: Vec<Prediction> =
        pairs.iter().map(|pair| Prediction::new(cluster, &loaded.wire, &trial, pair, seen)).collect();
    let tables: Vec<Verdict> = predictions.iter().map(|prediction| prediction.tables).collect();
    for (prediction, clash) in predictions.iter_mut().zip(clashes(cluster, query, &pairs, &tables)) {
        if let Some(clash) = clash.filter(|clash| !clash.settled) {
            prediction.leave_open(clash.words);
        }
    }
    let mut place = match datapath {
        Datapath::Tc => Some(Enforced::Tc(TcPlace::build(cluster, &rulesets, &pairs, interfere)?)),
        Datapath::Nft => Some(Enforced::Nft(NftPlace::build(cluster, &rulesets, &pairs, interfere)?)),
        Datapath::None => None,
    };
    let mut proofs = Vec::with_capacity(pairs.len());
    for (pair, prediction) in pairs.iter().zip(&predictions) {
        let observation = match &mut place {
            Some(place) => {
                place::lead(cluster, place.lab(), pair, proxy)?;
                Some(place.observe(cluster, pair, prediction)?)
            }
            None => None,
        };
        let mut proof = assemble::proof(cluster, &rulesets, &trial, pair, prediction, observation);
        proof.not_examined.extend(not_asked.iter().cloned());
        proofs.push(proof);
    }
    Ok(Proven { proofs, rulesets, place })
}

/// The pairs of a question that can be sent, and in words what could not be asked.
fn askable(cluster: &Cluster, query: &Query) -> (Vec<Pair>, Vec<String>) {
    let (mut pairs, mut not_asked) = pairs(cluster, query);
    // The rest of the cluster may have given a finished pod's address to another pod by now.
    pairs.retain(|pair| match [&pair.from, &pair.to].into_iter().find(|end| has_finished(cluster, end)) {
        Some(end) => {
            not_asked.push(format!("{end} has finished: nothing is sent or received there"));
            false
        }
        None => true,
    });
    (pairs, not_asked)
}

fn nothing_to_send(not_asked: Vec<String>) -> ProveError {
    let why = not_asked.into_iter().next().unwrap_or_else(|| "an end has no address".to_owned());
    ProveError::NothingToSend { why }
}

fn has_finished(cluster: &Cluster, end: &End) -> bool {
    matches!(end, End::Pod(key) if cluster.pods.get(key).is_some_and(|pod| pod.terminal))
}

/// The rulesets of the pods on the pairs' ways.
fn compile_for(loaded: &Loaded, pairs: &[Pair]) -> Result<Rulesets, ProveError> {
    let pods: BTreeSet<_> = pairs
        .iter()
        .flat_map(|pair| [&pair.from, &pair.to])
        .filter_map(|end| policed_pod(&loaded.cluster, end))
        .collect();
    let Compiled { rulesets, diagnostics } = compile_with(
        &loaded.cluster,
        &loaded.policies,
        &Scope::Pods(pods),
        &Numbers::default(),
        &Limits::default(),
    );
    match diagnostics.into_iter().next() {
        None => Ok(rulesets),
        Some(refused) => Err(ProveError::Refused {
            policy: refused.object.map(|object| object.to_string()).unwrap_or_default(),
            message: refused.message,
        }),
    }
}
