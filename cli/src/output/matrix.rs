//! Connections as a truth table: who opens stands at the left, to whom at the top.
//!
//! Invariant: a cell is `#` when every pair in it has every port, `.` when none has any, `+` otherwise, and blank when no
//! pair in it was looked at. Where single peers do not fit a terminal, namespaces stand for their workloads.

use std::collections::BTreeMap;
use std::fmt::Write;

use netlab_core::policy::connections::{Allowed, Connections};

use super::connections::{Names, summary};
use super::layout::{WIDTH, fitted};

/// What stands above the names.
const HEAD: &str = "FROM \\ TO";

/// What a row or column stands for.
struct Line {
    name: String,
    peers: Vec<usize>,
}

/// The table, what its signs mean, and the summary.
pub(crate) fn matrix(connections: &Connections) -> String {
    let allowed: BTreeMap<(usize, usize), &Allowed> =
        connections.list.iter().map(|pair| ((pair.from(), pair.to()), connections.allowed(pair))).collect();
    let single = singles(connections);
    let folded = namespaces(connections);
    let (lines, fold) = if width(&single) <= WIDTH || folded.len() == single.len() {
        (single, false)
    } else {
        (folded, true)
    };
    let covered = |from: &Line, to: &Line| cell(connections, &allowed, from, to).is_some();
    let rows: Vec<usize> =
        (0..lines.len()).filter(|row| lines.iter().any(|to| covered(&lines[*row], to))).collect();
    let columns: Vec<usize> =
        (0..lines.len()).filter(|column| lines.iter().any(|from| covered(from, &lines[*column]))).collect();
    if rows.is_empty() {
        return summary(connections);
    }
    let digits = lines.len().to_string().len();
    let label = rows.iter().map(|row| lines[*row].name.chars().count()).max().unwrap_or(0);
    let label = label.max(HEAD.len().saturating_sub(digits + 1));
    let mut text = format!("{HEAD:<0$}", digits + 1 + label);
    for column in &columns {
        let _ = write!(text, " {:>digits$}", column + 1);
    }
    text.push('\n');
    for row in &rows {
        let mut line = format!("{:>digits$} {:<label$}", row + 1, lines[*row].name);
        for column in &columns {
            let sign = cell(connections, &allowed, &lines[*row], &lines[*column]).unwrap_or(' ');
            let _ = write!(line, " {sign:>digits$}");
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    // A column that is no row has its name here.
    for column in columns.iter().filter(|column| !rows.contains(column)) {
        let _ = writeln!(text, "{:>digits$} {}", column + 1, lines[*column].name);
    }
    text.push_str("# everything  + some ports  . nothing");
    text.push_str(if fold { "  (`-n` shows a namespace's workloads)\n" } else { "\n" });
    text + &fitted(summary(connections).trim_end()) + "\n"
}

/// The sign of a cell.
fn cell(
    connections: &Connections,
    allowed: &BTreeMap<(usize, usize), &Allowed>,
    from: &Line,
    to: &Line,
) -> Option<char> {
    let pairs = from.peers.iter().flat_map(|from| to.peers.iter().map(move |to| (*from, *to)));
    let mut sign = None;
    for pair in pairs.filter(|(from, to)| connections.covers(*from, *to)) {
        let one = match allowed.get(&pair) {
            None => '.',
            Some(allowed) if allowed.is_everything() => '#',
            Some(_) => '+',
        };
        match sign {
            None => sign = Some(one),
            Some(known) if known != one => return Some('+'),
            Some(_) => {}
        }
    }
    sign
}

/// One line for each peer.
fn singles(connections: &Connections) -> Vec<Line> {
    let names = Names::new(&connections.peers);
    let peers = 0..connections.peers.len();
    peers.map(|position| Line { name: names.peer(position).to_owned(), peers: vec![position] }).collect()
}

/// One line for each namespace, and one for all blocks.
fn namespaces(connections: &Connections) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    let mut known: BTreeMap<Option<&str>, usize> = BTreeMap::new();
    for (position, peer) in connections.peers.iter().enumerate() {
        let namespace = peer.namespace.as_deref();
        let line = *known.entry(namespace).or_insert_with(|| {
            let name = namespace.map_or_else(|| "outside".to_owned(), |namespace| format!("{namespace}/*"));
            lines.push(Line { name, peers: Vec::new() });
            lines.len() - 1
        });
        lines[line].peers.push(position);
    }
    lines
}

/// How wide a table of these lines is.
fn width(lines: &[Line]) -> usize {
    let digits = lines.len().to_string().len();
    let label = lines.iter().map(|line| line.name.chars().count()).max().unwrap_or(0);
    digits + 1 + label + lines.len() * (digits + 1)
}
