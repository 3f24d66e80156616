//! What the kernel's witnesses said of one pair, whichever backend enforced.
//!
//! Invariant: an observation holds only what was seen; what could not be seen is in `not_examined`.

use netlab_core::policy::change::Verdict;
use netlab_core::policy::trial::HopVerdict;

use super::proof::{BackendName, CounterDelta, EntryRef, Witness};

/// All that was seen of one packet.
#[derive(Debug)]
pub(super) struct Observation {
    pub(super) backend: BackendName,
    /// Beside the specification and the tables.
    pub(super) witnesses: Vec<Witness>,
    /// What each hook decided on the wire, as far as it reported it: source egress, destination ingress.
    pub(super) hops: [Option<HopVerdict>; 2],
    /// The predicted hops' rows, read back from the kernel.
    pub(super) rows: [Option<EntryRef>; 2],
    /// Rows whose value is not what was compiled, in words.
    pub(super) differences: Vec<String>,
    pub(super) observed: Option<Verdict>,
    pub(super) drop_reason: Option<String>,
    pub(super) counters: Vec<CounterDelta>,
    pub(super) not_examined: Vec<String>,
}

/// A short word for a verdict and how it was seen.
pub(super) fn witness(name: &'static str, verdict: Option<Verdict>, detail: impl Into<String>) -> Witness {
    Witness { name, verdict: verdict.map(Into::into), detail: detail.into() }
}

/// How a decision that was seen differs from the predicted one, in words.
pub(super) fn hop_difference(predicted: &HopVerdict, seen: &HopVerdict) -> Option<String> {
    if (predicted.entry, predicted.verdict) != (seen.entry, seen.verdict) {
        return Some(format!(
            "predicted {} by entry {}, the packet was decided {} by entry {}",
            predicted.verdict, predicted.entry, seen.verdict, seen.entry
        ));
    }
    let classes = |hop: &HopVerdict| (hop.peer_class, hop.port_class);
    (classes(predicted) != classes(seen)).then(|| {
        format!(
            "predicted peer class {} and port class {}, the packet was taken for {} and {}",
            predicted.peer_class, predicted.port_class, seen.peer_class, seen.port_class
        )
    })
}
