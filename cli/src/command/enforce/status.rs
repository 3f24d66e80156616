//! `netlab enforce status`: what is in force in a lab.

use netlab_core::envelope::Envelope;
use netlab_core::policy::Posture;
use serde_json::Value;

use super::{ask, enter, hooks, twin};
use crate::args::enforce::Status;
use crate::enforcement::{Difference, InForce, NodeInForce, operation};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::layout::counted;
use crate::output::style::{BAD, GOOD, paint};
use crate::output::table::Table;
use crate::output::terminal::Terminal;

/// Asks and prints.
pub(crate) fn run(args: &Status, terminal: &Terminal) -> Result<Exit, Failure> {
    let state: InForce = ask(&args.lab.lab, operation::STATUS, Value::Bool(args.audit))?;
    terminal.answer(&Envelope::new("InForce", &state, Vec::new()), |_| render(&state, &args.lab.lab))?;
    Ok(if faults(&state).is_empty() { Exit::Yes } else { Exit::No })
}

/// Everything that is not as it should be.
pub(super) fn faults(state: &InForce) -> Vec<String> {
    let mut faults = Vec::new();
    for node in &state.nodes {
        for pod in &node.pods {
            if !pod.claimed {
                faults.push(format!("{} is open: no program of ours is on {}", pod.pod, pod.interface));
            }
            for other in &pod.before_us {
                faults.push(format!("{}: {other} sees its packets before us", pod.pod));
            }
        }
        match &node.audit {
            Some(audit) => faults.extend(
                audit
                    .differences
                    .iter()
                    .map(|difference| format!("node {}: {}", node.node, words(difference))),
            ),
            None => faults.extend(node.drift.iter().map(|drift| format!("node {}: {drift}", node.node))),
        }
    }
    faults
}

/// A difference, with the bytes and the rule that it is about.
fn words(difference: &Difference) -> String {
    let Difference { object, element, what, key_hex, expected_hex, found_hex, entry, because, .. } =
        difference;
    let mut text = format!("{object}: {element} {what}");
    if !key_hex.is_empty() {
        text += &format!("; key {key_hex}");
    }
    for (said, bytes) in [("asked for", expected_hex), ("found", found_hex)] {
        if let Some(bytes) = bytes.as_ref().filter(|bytes| bytes.len() <= 120) {
            text += &format!("; {said} {bytes}");
        }
    }
    if let Some(entry) = entry {
        text += &format!("; entry {entry} is {because}");
    }
    text
}

/// What was compared on a node.
fn compared(node: &NodeInForce, text: &mut String) {
    let Some(audit) = &node.audit else { return };
    let mut table = Table::new(["NODE", "COMPARED", "ID", "ROWS", "BYTES"]);
    for row in &audit.compared {
        table.row([
            node.node.clone(),
            row.object.clone(),
            row.id.map_or_else(|| "-".to_owned(), |id| id.to_string()),
            row.rows.to_string(),
            if row.bytes == 0 { "-".to_owned() } else { row.bytes.to_string() },
        ]);
    }
    text.push('\n');
    *text += &table.finish();
}

fn render(state: &InForce, lab: &str) -> String {
    let faults = faults(state);
    let pods: usize = state.nodes.iter().map(|node| node.pods.len()).sum();
    let open = state.nodes.iter().flat_map(|node| &node.pods).filter(|pod| !pod.claimed).count();
    let mut text = match (faults.len(), open) {
        (0, _) => {
            format!(
                "{}  {lab}: {}, generation {}\n\n",
                paint(GOOD, "IN FORCE"),
                counted(pods, "pod"),
                state.generation
            )
        }
        (1, 0) => format!("{}  {lab}: 1 fault\n\n", paint(BAD, "FAULTY")),
        (count, 0) => format!("{}  {lab}: {count} faults\n\n", paint(BAD, "FAULTY")),
        (_, open) => format!("{}  {lab}: {open} of {}\n\n", paint(BAD, "OPEN"), counted(pods, "pod")),
    };
    let mut table = Table::new(["NODE", "POD", "INTERFACE", "RULESET", "INGRESS", "EGRESS"]);
    let posture =
        |claimed: bool, posture: Posture| if claimed { posture.to_string() } else { "-".to_owned() };
    for node in &state.nodes {
        for pod in &node.pods {
            table.row([
                node.node.clone(),
                pod.pod.clone(),
                format!("{} ({})", pod.interface, pod.ifindex),
                if pod.claimed { pod.ruleset.to_string() } else { String::new() },
                posture(pod.claimed, pod.ingress),
                posture(pod.claimed, pod.egress),
            ]);
        }
    }
    text += &table.finish();
    for node in &state.nodes {
        compared(node, &mut text);
    }
    if !faults.is_empty() {
        text.push('\n');
    }
    for fault in &faults {
        text += &format!("{} {fault}\n", paint(BAD, "fault:"));
    }
    text.push('\n');
    if state.generation > 0 {
        text += &hooks(state);
    }
    for node in &state.nodes {
        text += &twin(&format!("{} ip -brief link", enter(state, node)));
        for id in node.programs.values() {
            text += &twin(&format!("bpftool prog show id {id}"));
        }
        if let Some(id) = node.maps.get("POLICY") {
            text += &twin(&format!("bpftool map show id {id}"));
        }
    }
    text
}
