//! Whether what was asked went as if somebody drops or rejects it on the way, which is what a policy does.
//!
//! Invariant: a refusal of the address that was asked, an answer of another address and garbage show that the packet arrived; no route
//! shows that it never left. None of those is a policy's doing.

use netlab_plugin::evidence::{Outcome, Probe};

/// True when something was asked and all of it was dropped or rejected.
pub(super) fn dropped(rows: &[(&str, &Probe)]) -> bool {
    let lost = |probe: &Probe| {
        probe.none_answered()
            && matches!(probe.result, Outcome::Silent | Outcome::HostUnreachable | Outcome::NotPermitted)
    };
    !rows.is_empty() && rows.iter().all(|(_, probe)| lost(probe))
}
