//! S1: the pod, its libc, and what answers before any question is sent.

use netlab_plugin::check::CheckOutcome;

use super::Step;
use crate::bundle::layout;
use crate::view::{Ask, Reach, View};

pub(super) const STEP: Step = Step {
    id: "S1",
    name: "subject",
    summary: "the pod, its node and libc; hosts, nsswitch and sidecars that answer before DNS",
    needs: &[layout::PODS, layout::POD_HOSTS, layout::POD_NSSWITCH],
    costs: "API reads; files of the container: CAP_SYS_ADMIN on its node, or kubectl exec",
    examine,
};

#[expect(clippy::unnecessary_wraps, reason = "the signature of every step")]
fn examine(view: &View<'_>) -> Option<CheckOutcome> {
    let Some(subject) = view.subject() else {
        return Some(CheckOutcome::not_examined(format!("pod {} is not in {}", view.target, layout::PODS)));
    };
    let phase = subject.phase();
    let on = subject.node().unwrap_or("no node");
    let mut parts = vec![format!("{} on {on}", phase.unwrap_or("no status recorded,"))];
    parts.push(view.target.libc.clone().unwrap_or_else(|| "libc unknown".to_owned()));
    if subject.host_network() {
        parts.push("on its node's network".to_owned());
    }
    let line = parts.join(", ");
    // A pod that answers was asked from a namespace that runs, whatever its manifest says of a status.
    let asks = view.seen(&Ask::from_pod()).reach != Reach::NotAsked;
    let mut outcome = match phase {
        Some("Running") => CheckOutcome::ok(line),
        None if asks => CheckOutcome::ok(line),
        None => CheckOutcome::warning(line),
        Some(_) => CheckOutcome::fault(format!("{line}: it asks nothing")),
    };
    outcome = outcome.citing([layout::PODS]);
    for file in [layout::POD_HOSTS, layout::POD_NSSWITCH] {
        outcome = if view.knows(file) {
            outcome.citing([file])
        } else if file == layout::POD_NSSWITCH && view.is_musl() == Some(true) {
            outcome
        } else {
            outcome.without(format!("{file} not recorded"))
        };
    }
    Some(outcome)
}
