//! S8: the same servers, asked from the pod's node: the first segment that fails owns the fault.

use netlab_plugin::check::CheckOutcome;
use netlab_plugin::evidence::Transport;

use super::Step;
use crate::bundle::layout;
use crate::view::{Ask, PolicyVerdict, Reach, View};

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
        return (!pod.reach.answers())
            .then(|| CheckOutcome::not_examined("what became of questions of the node is not known"));
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
    let failing =
        segments.node_udp.iter().filter(|(_, seen)| seen.reach != Reach::NotAsked && !seen.reach.answers());
    // What policy keeps from the node says nothing about the server, nor about the pod's own path.
    let kept = |to: &std::net::SocketAddr| {
        let answer = view.policy_from_node(Transport::Udp, to.ip(), to.port());
        (answer.verdict == PolicyVerdict::DenyIngress).then_some(answer)
    };
    let mut broken = false;
    let silent: Vec<String> = failing
        .map(|(to, seen)| {
            let said = format!("{} {}", to.ip(), seen.reach.as_str());
            if let Some(answer) = kept(to) {
                return format!("{said}: policy denies nodes ({})", answer.cite());
            }
            broken = true;
            said
        })
        .collect();
    let line = if segments.node_udp.iter().all(|(_, seen)| seen.reach == Reach::NotAsked) {
        format!("{} of {} answered", rows.answered, rows.sent)
    } else {
        answering.iter().chain(&silent).cloned().collect::<Vec<_>>().join(", ")
    };
    let outcome = match (rows.reach.answers(), broken || silent.is_empty()) {
        (true, _) => CheckOutcome::ok(line),
        (false, true) => CheckOutcome::fault(line),
        (false, false) => CheckOutcome::warning(line),
    };
    Some(outcome.citing(rows.ids))
}
