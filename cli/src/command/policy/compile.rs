//! `netlab policy compile`: the tables, and who put each entry there.

use std::collections::BTreeMap;

use netlab_core::envelope::Envelope;
use netlab_core::model::cluster::{Cluster, Labels, ObjectKey};
use netlab_core::policy::change::{Change, PeerPrefix, RulesetTable};
use netlab_core::policy::{Posture, Rulesets, Scope, Size};
use netlab_ebpf::abi::Direction;
use serde::Serialize;

use crate::args::globals::{Format, Globals};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::load;
use crate::output::layout::counted;
use crate::output::table::Table;
use crate::output::tables::{ClassNames, EntryLine, entries};
use crate::output::terminal::Terminal;
use crate::question::compile;

/// The answer.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer<'a> {
    summary: Summary,
    size: Size,
    rulesets: Vec<Compiled>,
    tables: Tables<'a>,
}

/// What is shown, in numbers.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Summary {
    rulesets: usize,
    pods: usize,
    peer_classes: usize,
    rows: usize,
}

/// One ruleset in words.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Compiled {
    id: u32,
    pods: Vec<String>,
    ingress: Posture,
    egress: Posture,
    ingress_isolated: bool,
    egress_isolated: bool,
    rows: usize,
    entry_count: usize,
    entries: Vec<EntryLine>,
}

/// The same as numbers.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Tables<'a> {
    rulesets: &'a [RulesetTable],
    peers: &'a [PeerPrefix],
}

/// Compiles and prints.
pub(crate) fn run(globals: &Globals, terminal: &Terminal) -> Result<Exit, Failure> {
    let input = load::input(globals, terminal)?;
    let compiled = compile(&input.loaded, &Scope::Cluster)?;
    let cluster = &input.loaded.cluster;
    let no_labels = Labels::new();
    let shown = |key: &ObjectKey| {
        globals.shows(&key.namespace, cluster.pods.get(key).map_or(&no_labels, |pod| &pod.labels))
    };
    let change = compiled.rulesets.change(1, |key| shown(key).then(String::new));
    let (size, rulesets) = (compiled.rulesets.size(), rulesets(cluster, &change, &compiled.rulesets));
    let answer = Answer {
        summary: Summary {
            rulesets: rulesets.len(),
            pods: rulesets.iter().map(|ruleset| ruleset.pods.len()).sum(),
            peer_classes: size.peer_classes,
            rows: rulesets.iter().map(|ruleset| ruleset.rows).sum(),
        },
        size,
        rulesets,
        tables: Tables { rulesets: &change.rulesets, peers: &change.peers },
    };
    let incomplete = !input.not_examined.is_empty();
    terminal.answer(&Envelope::new("Tables", &answer, input.not_examined), |terminal| {
        render(&answer, terminal.format == Format::Wide)
    })?;
    Ok(if incomplete { Exit::CannotTell } else { Exit::Yes })
}

fn rulesets(cluster: &Cluster, change: &Change, compiled: &Rulesets) -> Vec<Compiled> {
    let names = ClassNames::new(cluster, change);
    let mut pods: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    for pod in &change.pods {
        pods.entry(pod.ruleset).or_default().push(format!("{}/{}", pod.namespace, pod.name));
    }
    change
        .rulesets
        .iter()
        .map(|table| {
            let directions = [("ingress", &table.ingress), ("egress", &table.egress)];
            let entries: Vec<EntryLine> = directions
                .into_iter()
                .filter_map(|(direction, table)| Some(entries(direction, table.as_ref()?, &names, compiled)))
                .flatten()
                .collect();
            let posture = |direction| compiled.posture(table.id, direction).unwrap_or_default();
            let (ingress, egress) = (posture(Direction::Ingress), posture(Direction::Egress));
            Compiled {
                id: table.id,
                pods: pods.remove(&table.id).unwrap_or_default(),
                ingress,
                egress,
                ingress_isolated: ingress == Posture::Isolated,
                egress_isolated: egress == Posture::Isolated,
                // A direction on which no policy acts has one row.
                rows: entries.iter().map(|entry| entry.rows).sum::<usize>()
                    + usize::from(table.ingress.is_none())
                    + usize::from(table.egress.is_none()),
                entry_count: entries.len(),
                entries,
            }
        })
        .collect()
}

fn render(answer: &Answer<'_>, wide: bool) -> String {
    let Summary { rulesets, pods, peer_classes, rows } = answer.summary;
    let mut text = format!(
        "{} for {}: {}, {}\n\n",
        counted(rulesets, "ruleset"),
        counted(pods, "pod"),
        if peer_classes == 1 { "1 peer class".to_owned() } else { format!("{peer_classes} peer classes") },
        counted(rows, "policy-map row"),
    );
    let mut table = Table::new(["RULESET", "INGRESS", "EGRESS", "ENTRIES", "ROWS", "PODS"]);
    for ruleset in &answer.rulesets {
        let pods = fitting(&ruleset.pods, 34);
        table.row([
            ruleset.id.to_string(),
            ruleset.ingress.to_string(),
            ruleset.egress.to_string(),
            ruleset.entry_count.to_string(),
            ruleset.rows.to_string(),
            pods,
        ]);
    }
    text += &table.finish();
    if wide {
        text.push('\n');
        let mut table = Table::new(["RULESET", "DIRECTION", "ENTRY", "VERDICT", "PEERS", "PORTS", "BECAUSE"]);
        for ruleset in &answer.rulesets {
            for entry in &ruleset.entries {
                table.row([
                    ruleset.id.to_string(),
                    entry.direction.to_owned(),
                    entry.entry.to_string(),
                    entry.verdict.to_string(),
                    entry.peers.clone(),
                    entry.ports.clone(),
                    entry.because.clone(),
                ]);
            }
        }
        text += &table.finish();
    }
    text
}

/// As many names as fit, at least one, and how many more there are.
fn fitting(names: &[String], width: usize) -> String {
    let mut text = String::new();
    for (index, name) in names.iter().enumerate() {
        if index > 0 && text.chars().count() + name.chars().count() + 2 > width {
            return format!("{text} +{}", names.len() - index);
        }
        if index > 0 {
            text += ", ";
        }
        text += name;
    }
    text
}
