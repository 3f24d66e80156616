//! S13: whether the address that DNS gave can be used.

use netlab_plugin::check::CheckOutcome;
use netlab_plugin::evidence::Outcome;

use super::Step;
use crate::bundle::layout;
use crate::view::View;

pub(super) const STEP: Step = Step {
    id: "S13",
    name: "connect",
    summary: "TCP connections from the pod to the addresses that DNS gave",
    needs: &[layout::PROBES],
    costs: "one TCP handshake for each address, from the pod's network namespace",
    examine,
};

fn examine(view: &View<'_>) -> Option<CheckOutcome> {
    let connects = view.connects();
    if connects.is_empty() {
        return None;
    }
    let failed: Vec<String> = connects
        .iter()
        .filter(|(_, probe)| probe.result != Outcome::Noerror)
        .map(|(_, probe)| format!("{}:{} {}", probe.server, probe.port, probe.result.as_str()))
        .collect();
    let outcome = if failed.is_empty() {
        CheckOutcome::ok(format!("{} connections made", connects.len()))
    } else {
        CheckOutcome::fault(failed.join(", "))
    };
    Some(outcome.citing(connects.into_iter().map(|(id, _)| id)))
}
