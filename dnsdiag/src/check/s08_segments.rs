//! S8: the same servers, asked from the pod's node: the first segment that fails owns the fault.

use netlab_plugin::check::CheckOutcome;

use super::Step;
use crate::bundle::layout;
use crate::view::{Ask, Reach, View};

pub(super) const STEP: Step = Step {
    id: "S8",
    name: "from node",
    summary: "the DNS endpoints asked from the pod's node, to tell the pod's path from the servers",
    needs: &[layout::PROBES, layout::SERVICES, layout::SLICES],
    costs: "a query for each endpoint from the node's network namespace",
    examine,
};

fn examine(view: &View<'_>) -> Option<CheckOutcome> {
    let rows = view.canary(&Ask::from_node());
    if rows.reach == Reach::NotAsked {
        // Only where the pod gets no answers is it missed.
        let pod = view.seen(&Ask::from_pod());
        return (!pod.reach.answers()).then(|| CheckOutcome::not_examined("nothing was asked from the node"));
    }
    let segments = view.segments();
    let answering: Vec<String> = segments
        .node_udp
        .iter()
        .filter(|(_, seen)| seen.reach.answers())
        .map(|(to, seen)| match seen.slowest {
            Some(ms) => format!("{} answers in {ms:.1} ms", to.ip()),
            None => format!("{} answers", to.ip()),
        })
        .collect();
    let silent: Vec<String> = segments
        .node_udp
        .iter()
        .filter(|(_, seen)| seen.reach != Reach::NotAsked && !seen.reach.answers())
        .map(|(to, seen)| format!("{} {}", to.ip(), seen.reach.as_str()))
        .collect();
    let line = if segments.node_udp.iter().all(|(_, seen)| seen.reach == Reach::NotAsked) {
        format!("{} of {} answered", rows.answered, rows.sent)
    } else {
        answering.iter().chain(&silent).cloned().collect::<Vec<_>>().join(", ")
    };
    let outcome = if rows.reach.answers() { CheckOutcome::ok(line) } else { CheckOutcome::fault(line) };
    Some(outcome.citing(rows.ids))
}
