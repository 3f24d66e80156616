//! `netlab policy diff`: what traffic a change of manifests allows and forbids.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use netlab_core::diagnostic::code;
use netlab_core::envelope::Envelope;
use netlab_core::model::cluster::{Cluster, ObjectKey};
use netlab_core::model::service::{EndpointSlice, Service};
use netlab_core::model::source::Source;
use netlab_core::policy::connections::diff::{ConnectionsDiff, State, diff};
use netlab_core::policy::connections::{
    Focus, HostNetwork, as_if_running, connections, leave_out_finished, open_blocks,
};
use netlab_core::policy::provenance::PolicyRef;
use netlab_core::policy::{Compiled, Scope};
use serde::Serialize;

use super::connections::{about, about_finished, notes_on};
use crate::args::globals::{Format, Globals};
use crate::args::policy::{Diff, FailOn, HostNetworkArg, Switch};
use crate::args::what_if::WhatIfArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::load::{self, Input};
use crate::output::diff::{csv, markdown, summary, table, wide};
use crate::output::terminal::Terminal;
use crate::question::compile;

/// The answer and what it depends on beyond policy.
#[derive(Serialize)]
struct WithNotes<'a> {
    #[serde(flatten)]
    answer: &'a ConnectionsDiff,
    notes: Vec<String>,
}

/// Compares.
pub(crate) fn run(args: &Diff, globals: &Globals, terminal: &Terminal) -> Result<Exit, Failure> {
    let reading = match args.host_network {
        HostNetworkArg::Pods => HostNetwork::AsPods,
        HostNetworkArg::Nodes => HostNetwork::AsNodes,
    };
    let nothing = WhatIfArgs::default();
    let (old, old_compiled, mut notes) =
        state(args.before.as_deref(), &nothing, (reading, args.finished), globals, terminal)?;
    let after = args.after.as_deref().or(args.before.as_deref());
    let (new, new_compiled, new_notes) =
        state(after, &globals.what_if, (reading, args.finished), globals, terminal)?;
    let clusters = [&old.loaded.cluster, &new.loaded.cluster];
    let shown: Option<BTreeSet<_>> =
        clusters.iter().filter_map(|cluster| about(globals, cluster)).reduce(|mut all, more| {
            all.extend(more);
            all
        });
    let focus = Focus { workloads_only: args.external == Switch::Off, about: shown, ..Focus::default() };
    let busy = terminal.busy("comparing connections");
    let answer = diff(
        State { cluster: clusters[0], rulesets: &old_compiled.rulesets },
        State { cluster: clusters[1], rulesets: &new_compiled.rulesets },
        &focus,
    );

    let mut open = open_blocks(clusters[0], &old_compiled.rulesets, &focus);
    open.extend(open_blocks(clusters[1], &new_compiled.rulesets, &focus));
    drop(busy);
    let is_data = matches!(terminal.format, Format::Json | Format::Yaml);
    notes.extend(new_notes);
    notes.extend(notes_on(&open, is_data));
    notes.extend(about_services(clusters));
    notes.sort();
    notes.dedup();
    if !is_data {
        for note in &notes {
            terminal.remark(note);
        }
    }
    let mut undefined = undefined("before", &old, &old_compiled, &focus);
    undefined.extend(self::undefined("after", &new, &new_compiled, &focus));
    if !is_data {
        for what in &undefined {
            terminal.remark(what);
        }
    }
    let mut not_examined = [old.not_examined, new.not_examined].concat();
    not_examined.dedup();
    not_examined.extend(undefined);
    let incomplete = !not_examined.is_empty();
    let failed = match args.fail_on {
        FailOn::Added => answer.gains(),
        FailOn::Removed => answer.loses(),
        FailOn::Any => !answer.list.is_empty(),
    };
    match terminal.format {
        _ if terminal.quiet && terminal.is_human() => terminal.text(&summary(&answer)),
        Format::Wide => terminal.text(&wide(&answer)),
        Format::Csv => terminal.whole(&csv(&answer)),
        Format::Md => terminal.whole(&markdown(&answer, args.link_base.as_deref())),
        Format::Json | Format::Yaml => {
            let with_notes = WithNotes { answer: &answer, notes };
            terminal.data(&Envelope::new("ConnectionsDiff", with_notes, not_examined))
        }
        _ => terminal.text(&table(&answer)),
    }?;
    Ok(match (failed, incomplete) {
        (true, _) => Exit::No,
        (false, true) => Exit::CannotTell,
        (false, false) => Exit::Yes,
    })
}

/// That Services differ: connections are those of pods and blocks, and who is behind an address is another question.
fn about_services([old, new]: [&Cluster; 2]) -> Option<String> {
    let services = |cluster: &Cluster| {
        let bare = |service: &Service| Service { source: Source::default(), ..service.clone() };
        cluster.services.iter().map(|(key, service)| (key.clone(), bare(service))).collect()
    };
    let slices = |cluster: &Cluster| {
        let bare = |slice: &EndpointSlice| EndpointSlice { source: Source::default(), ..slice.clone() };
        cluster.endpoint_slices.iter().map(|(key, slice)| (key.clone(), bare(slice))).collect()
    };
    let mut names = differing(&services(old), &services(new));
    let of_slices = differing(&slices(old), &slices(new));
    let slice =
        |key: &ObjectKey| [old, new].iter().find_map(|cluster| cluster.endpoint_slices.get(key)).cloned();
    names.extend(of_slices.into_iter().filter_map(|key| {
        let name = slice(&key)?.service?;
        Some(ObjectKey { name, ..key })
    }));
    let words = match names.iter().collect::<Vec<_>>().as_slice() {
        [] => return None,
        [one] => format!("Service {one} is another"),
        [one, rest @ ..] => format!("Service {one} and {} more are others", rest.len()),
    };
    Some(format!(
        "{words} before and after: connections between pods and blocks are compared, not where Services lead"
    ))
}

/// The names of what one side lacks, or has otherwise.
fn differing<T: PartialEq>(
    old: &BTreeMap<ObjectKey, T>,
    new: &BTreeMap<ObjectKey, T>,
) -> BTreeSet<ObjectKey> {
    let all = old.keys().chain(new.keys());
    all.filter(|key| old.get(*key) != new.get(*key)).cloned().collect()
}

/// Where the API does not settle the verdict of a pair, a line for each tie: such a pair is listed as netlab's tables have
/// it, on both sides alike.
fn undefined(name: &str, input: &Input, compiled: &Compiled, focus: &Focus) -> Vec<String> {
    // The list is made once more, and only where there may be a tie.
    if !input.loaded.diagnostics.iter().any(|finding| finding.code == code::TIED_POLICIES) {
        return Vec::new();
    }
    let ties = connections(&input.loaded.cluster, &compiled.rulesets, focus).ties;
    let words = |tie: &Vec<PolicyRef>| {
        let names: Vec<String> =
            tie.iter().map(|policy| format!("{} {}", policy.kind, policy.name)).collect();
        format!("{name}: {} of one priority decide, and the API leaves their order open", names.join(" and "))
    };
    ties.iter().map(words).collect()
}

/// One side, with what both have.
fn state(
    path: Option<&Path>,
    what_if: &WhatIfArgs,
    (reading, finished): (HostNetwork, Switch),
    globals: &Globals,
    terminal: &Terminal,
) -> Result<(Input, Compiled, Vec<String>), Failure> {
    let mut paths = globals.filename.clone();
    paths.extend(path.map(Path::to_owned));
    let mut input = load::read(&paths, what_if, globals, terminal)?;
    let _busy = terminal.busy("compiling policies");
    let notes = about_finished(&input.loaded.cluster, finished);
    if finished == Switch::Off {
        leave_out_finished(&mut input.loaded.cluster);
    }
    input.loaded.cluster = as_if_running(&input.loaded.cluster, &input.loaded.policies, reading);
    let compiled = compile(&input.loaded, &Scope::Cluster)?;
    Ok((input, compiled, notes))
}
