//! S1: the pod, its libc, and what answers before any question is sent.

use netlab_plugin::check::CheckOutcome;

use super::Step;
use crate::bundle::layout;
use crate::view::View;

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
    let phase = subject.phase().unwrap_or("phase unknown");
    let mut parts = vec![format!("{phase} on {}", subject.node().unwrap_or("no node"))];
    parts.push(view.target.libc.clone().unwrap_or_else(|| "libc unknown".to_owned()));
    if subject.host_network() {
        parts.push("on its node's network".to_owned());
    }
    let mut outcome = if phase == "Running" {
        CheckOutcome::ok(parts.join(", "))
    } else {
        CheckOutcome::fault(format!("{}: it asks nothing", parts.join(", ")))
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
