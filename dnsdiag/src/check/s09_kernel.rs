//! S9: what the nodes' kernels and hypervisors counted while the questions were asked.

use netlab_plugin::check::CheckOutcome;

use super::Step;
use crate::bundle::layout;
use crate::view::{Ask, View};

pub(super) const STEP: Step = Step {
    id: "S9",
    name: "kernel",
    summary: "connection tracking, drops and allowances of the nodes, before and after the probes",
    needs: &[layout::COUNTERS, layout::NODE_CONNTRACK, layout::NODE_KERNEL_LOG],
    costs: "reads of /proc, conntrack -L and ethtool -S on the nodes; root there",
    examine,
};

/// Counters that only grow when something was lost.
const LOSSES: [&str; 8] = [
    "IPReversePathFilter",
    "conntrack.drop",
    "conntrack.early_drop",
    "conntrack.insert_failed",
    "allowance_exceeded",
    "udp.RcvbufErrors",
    "in_martian_src",
    "rp_filter",
];

/// What F24 and F29 rest on.
const ALLOWANCES: &str = "the provider's allowances (`ethtool -S`) were not read, which F24 and F29 rest on";

fn examine(view: &View<'_>) -> Option<CheckOutcome> {
    let conntrack = view.conntrack();
    let (id, _) = match view.evidence.counters() {
        Some(counters) => counters,
        None if conntrack.is_some() => {
            let flows = conntrack.map_or(0, |flows| flows.len());
            let outcome = CheckOutcome::ok(format!("{flows} flows are tracked on the node"));
            return Some(outcome.citing([layout::NODE_CONNTRACK]).without("counters of the nodes"));
        }
        None => {
            return Some(CheckOutcome::not_examined("no counters and no conntrack of the node"));
        }
    };
    let grown: Vec<String> = LOSSES
        .iter()
        .flat_map(|ending| view.grown(ending))
        .map(|(owner, name, growth)| format!("{owner}: {name} +{growth:.0}"))
        .collect();
    let fill = match (view.counter("conntrack.count"), view.counter("conntrack.max")) {
        (Some(count), Some(max)) if max.last() > 0.0 => Some((count.last(), max.last())),
        _ => None,
    };
    let full = fill.is_some_and(|(count, max)| count >= 0.95 * max);
    let table = fill.map_or(String::new(), |(count, max)| format!("conntrack {count:.0} of {max:.0}"));
    Some(if full || !grown.is_empty() {
        let parts: Vec<String> =
            std::iter::once(table).filter(|part| !part.is_empty()).chain(grown).collect();
        let what = parts.join(", ");
        // A counter of the whole node grows for others too: where every question came back, none of them was lost.
        let lost = view.rows(&Ask::from_pod()).iter().any(|(_, probe)| !probe.all_answered());
        if full || lost || view.evidence.symptom().is_some() {
            CheckOutcome::fault(what).citing([id])
        } else {
            CheckOutcome::warning(what).citing([id])
        }
    } else {
        let nothing = if table.is_empty() {
            "nothing was lost".to_owned()
        } else {
            format!("{table}; nothing was lost")
        };
        CheckOutcome::ok(nothing).citing([id])
    })
    .map(|outcome| if view.any_counter("allowance_exceeded") { outcome } else { outcome.without(ALLOWANCES) })
}
