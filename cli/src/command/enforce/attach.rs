//! `netlab enforce attach` and `detach`: put policies into force in a lab, or take the programs off.

use std::collections::BTreeSet;

use netlab_core::envelope::Envelope;
use serde_json::Value;

use super::status::faults;
use super::{ask, enter, hooks, twin};
use crate::args::globals::Globals;
use crate::args::lab::LabName;
use crate::enforcement::{InForce, Policies, operation};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::load;
use crate::output::layout::counted;
use crate::output::style::{STRONG, paint};
use crate::output::terminal::Terminal;

/// Puts policies into force.
pub(crate) fn attach(args: &LabName, globals: &Globals, terminal: &Terminal) -> Result<Exit, Failure> {
    let input = load::input(globals, terminal)?;
    let policies = serde_json::to_value(Policies { documents: load::documents(&input.loaded) })
        .map_err(|error| Failure::new(Exit::CannotTell, "cannot write the order").because(&error))?;
    let state: InForce = ask(&args.lab, operation::ATTACH, policies)?;
    let incomplete = !input.not_examined.is_empty();
    terminal.answer(&Envelope::new("InForce", &state, input.not_examined), |_| {
        let pods = state.nodes.iter().flat_map(|node| &node.pods).filter(|pod| pod.claimed).count();
        let rows: u64 = state.nodes.iter().map(|node| node.rows).sum();
        let head = format!(
            "{}: {} on {}, {}, generation {}",
            args.lab,
            counted(pods, "pod"),
            counted(state.nodes.len(), "node"),
            counted(usize::try_from(rows).unwrap_or(usize::MAX), "policy-map row"),
            state.generation
        );
        format!("{}  {head}\n{}", paint(STRONG, "ATTACHED"), twins(&state))
    })?;
    // What somebody else changed behind our back is not mended by a change to other rows.
    let faults = faults(&state);
    let here: BTreeSet<&str> =
        state.nodes.iter().flat_map(|node| &node.pods).map(|pod| pod.pod.as_str()).collect();
    let pods = input.loaded.cluster.pods.iter().filter(|(_, pod)| pod.is_policed());
    let elsewhere: Vec<String> =
        pods.map(|(key, _)| key.to_string()).filter(|key| !here.contains(key.as_str())).collect();
    if let Some((first, more)) = elsewhere.split_first() {
        let more = if more.is_empty() { " is".to_owned() } else { format!(" and {} more are", more.len()) };
        terminal.remark(&format!(
            "{first}{more} not in the lab: policies and Services count on what nobody answers for; `lab up` makes pods"
        ));
    }
    for fault in &faults {
        terminal.note(&format!("fault: {fault}"));
    }
    Ok(match (faults.is_empty(), incomplete) {
        (false, _) => Exit::No,
        (true, true) => Exit::CannotTell,
        (true, false) => Exit::Yes,
    })
}

/// Takes the programs off.
pub(crate) fn detach(args: &LabName, terminal: &Terminal) -> Result<Exit, Failure> {
    let state: InForce = ask(&args.lab, operation::DETACH, Value::Null)?;
    terminal.answer(&Envelope::new("InForce", &state, Vec::new()), |_| {
        let pods: usize = state.nodes.iter().map(|node| node.pods.len()).sum();
        let head = format!(
            "{}: {} open now",
            args.lab,
            if pods == 1 { "1 pod is".to_owned() } else { format!("{pods} pods are") }
        );
        let mut text = format!("{}  {head}\n", paint(STRONG, "DETACHED"));
        text += &twin("bpftool link show");
        text
    })?;
    Ok(Exit::Yes)
}

/// Where a doubter sees the same: the programs on their hooks, and the programs.
fn twins(state: &InForce) -> String {
    let mut text = hooks(state);
    for node in &state.nodes {
        text += &twin(&format!("{} ip -brief link", enter(state, node)));
        for id in node.programs.values() {
            text += &twin(&format!("bpftool prog show id {id}"));
        }
    }
    text
}
