//! Differences of connections for people, reviews and spreadsheets.
//!
//! Invariant: the first line sums up; every form says the same pairs, and only the table and Markdown fold them.

use std::fmt::Write;

use netlab_core::policy::connections::diff::{Cause, Change, ConnectionsDiff, Kind, Trend};
use netlab_core::policy::connections::{Row, Side};
use netlab_core::policy::provenance::PolicyRef;

use super::connections::Names;
use super::evaluation::{place, rule_name};
use super::layout::{WIDTH, counted, fitted, wrap};
use super::markup::{code, plain, quoted};
use super::style::{DENIED, GOOD, POINTER, QUIET, STRONG, WARNING, paint};

/// `2 added, 1 changed`, or `nothing changed`.
pub(crate) fn summary(diff: &ConnectionsDiff) -> String {
    let counts = [(Kind::Added, "added"), (Kind::Removed, "removed"), (Kind::Changed, "changed")];
    let parts: Vec<String> = counts
        .into_iter()
        .map(|(kind, word)| (diff.count(kind), word))
        .filter(|(count, _)| *count > 0)
        .map(|(count, word)| format!("{count} {word}"))
        .collect();
    let differ = if diff.list.len() == 1 { "differs" } else { "differ" };
    match parts.as_slice() {
        [] => "no connection of TCP, UDP or SCTP changed\n".to_owned(),
        _ => format!("{} {differ}: {}\n", counted(diff.list.len(), "pair"), parts.join(", ")),
    }
}

/// The summary, and each group of like pairs with its causes.
pub(crate) fn table(diff: &ConnectionsDiff) -> String {
    let names = Names::new(&diff.peers);
    let mut text = paint(STRONG, summary(diff).trim_end()) + "\n";
    for (index, (from, to, change)) in rows(diff, &names).into_iter().enumerate() {
        if index == 0 {
            text.push('\n');
        }
        block(&mut text, &from, &to, change);
    }
    text
}

/// The same without folding.
pub(crate) fn wide(diff: &ConnectionsDiff) -> String {
    let mut text = paint(STRONG, summary(diff).trim_end()) + "\n";
    for (index, pair) in diff.list.iter().enumerate() {
        if index == 0 {
            text.push('\n');
        }
        block(&mut text, &diff.peers[pair.from].id, &diff.peers[pair.to].id, diff.change(pair));
    }
    text
}

/// Folded rows by name, addresses last.
fn rows<'a>(diff: &'a ConnectionsDiff, names: &Names<'_>) -> Vec<(String, String, &'a Change)> {
    let folded = diff.fold();
    let mut rows: Vec<Row<'_>> = folded.rows().collect();
    let rank = |side: &Side| names.rank(side);
    rows.sort_by_cached_key(|row| (rank(row.from), rank(row.to), diff.change_of(row).after.clone()));
    rows.iter().map(|row| (names.side(row.from), names.side(row.to), diff.change_of(row))).collect()
}

/// One change and its causes.
fn block(text: &mut String, from: &str, to: &str, change: &Change) {
    let (mark, style, ports) = match change.kind() {
        Kind::Added => ("+", GOOD, change.after.to_string()),
        Kind::Removed => ("-", DENIED, change.before.to_string()),
        Kind::Changed => ("~", WARNING, format!("{} => {}", change.before, change.after)),
    };
    let head = fitted(&format!("{mark} {from} -> {to}  {ports}"));
    let _ = writeln!(text, "{}{}", paint(style, mark), head.strip_prefix(mark).unwrap_or(&head));
    for cause in &change.because {
        let label = cause.direction.unwrap_or("");
        let head = format!("    {label:<7}  ");
        for (index, line) in wrap(&words(cause, change), WIDTH - 13).into_iter().enumerate() {
            let head = if index == 0 { paint(QUIET, &head) } else { " ".repeat(13) };
            let _ = writeln!(text, "{head}{line}");
        }
        for place in places(cause) {
            let _ = writeln!(text, "{}{}", " ".repeat(13), paint(POINTER, &place));
        }
    }
}

/// `NetworkPolicy shop/db spec.ingress[0].from[1] admits it; the policy is new`.
fn words(cause: &Cause, change: &Change) -> String {
    let mut subject = match (&cause.rule, cause.policies.as_slice()) {
        (Some(rule), _) => rule_name(rule),
        (None, []) => String::new(),
        (None, policies) => {
            let names: Vec<String> = policies.iter().map(PolicyRef::kind_and_name).collect();
            names.join(", ")
        }
    };
    if !subject.is_empty() {
        subject.push(' ');
    }
    // Which ports, where the line above does not say it.
    let one_way = change.gained().is_empty() || change.lost().is_empty();
    let ports = match change.kind() {
        Kind::Changed if one_way && cause.ports == gained_or_lost(cause, change) => String::new(),
        Kind::Added | Kind::Removed if cause.ports == gained_or_lost(cause, change) => String::new(),
        _ => format!("{} {}: ", if cause.change == Trend::Gained { "+" } else { "-" }, cause.ports),
    };
    format!("{ports}{subject}{}", cause.reason)
}

fn gained_or_lost(cause: &Cause, change: &Change) -> netlab_core::policy::connections::Allowed {
    match cause.change {
        Trend::Gained => change.gained(),
        Trend::Lost => change.lost(),
    }
}

/// `file:line` of everything that a cause names.
fn places(cause: &Cause) -> Vec<String> {
    let rule = cause.rule.iter().map(|rule| (rule.file.as_deref(), rule.line));
    let policies = cause.policies.iter().map(|policy| (policy.file.as_deref(), policy.line));
    rule.chain(policies).filter_map(|(file, line)| place(file, line)).collect()
}

/// The kind of a change in a word.
fn kind(change: &Change) -> &'static str {
    match change.kind() {
        Kind::Added => "added",
        Kind::Removed => "removed",
        Kind::Changed => "changed",
    }
}

/// More rows than these are folded away until somebody opens them.
const OPEN_ROWS: usize = 20;

/// A comment for a review: a heading with the counts, then what was added, removed and changed, each to be folded.
/// Files are linked, below `base` if there is one.
pub(crate) fn markdown(diff: &ConnectionsDiff, base: Option<&str>) -> String {
    let names = Names::new(&diff.peers);
    let mut text = format!("### netlab: {}\n", summary(diff).trim_end());
    let rows = rows(diff, &names);
    for (wanted, title) in [(Kind::Added, "added"), (Kind::Removed, "removed"), (Kind::Changed, "changed")] {
        let rows: Vec<_> = rows.iter().filter(|(.., change)| change.kind() == wanted).collect();
        if rows.is_empty() {
            continue;
        }
        let open = if rows.len() <= OPEN_ROWS { " open" } else { "" };
        let count = diff.count(wanted);
        let _ =
            writeln!(text, "\n<details{open}><summary><b>{} {title}</b></summary>\n", counted(count, "pair"));
        text.push_str("| from | to | before | after | because |\n|---|---|---|---|---|\n");
        for (from, to, change) in rows {
            let because: Vec<String> =
                change.because.iter().map(|cause| cause_markdown(cause, change, base)).collect();
            let _ = writeln!(
                text,
                "| {} | {} | {} | {} | {} |",
                code(from),
                code(to),
                change.before,
                change.after,
                because.join("<br>")
            );
        }
        text.push_str("\n</details>\n");
    }
    text
}

/// `ingress: NetworkPolicy shop/db … admits it ([policies/db.yaml:14](policies/db.yaml#L14))`.
fn cause_markdown(cause: &Cause, change: &Change, base: Option<&str>) -> String {
    let side = cause.direction.map(|side| format!("{side}: ")).unwrap_or_default();
    let rule = cause.rule.iter().map(|rule| (rule.file.as_deref(), rule.line));
    let policies = cause.policies.iter().map(|policy| (policy.file.as_deref(), policy.line));
    let places: Vec<String> =
        rule.chain(policies).filter_map(|(file, line)| link(file?, line, base)).collect();
    let places = if places.is_empty() { String::new() } else { format!(" ({})", places.join(", ")) };
    format!("{side}{}{places}", plain(&words(cause, change)))
}

/// A link to a line. What came from standard input, or from a place that no reader has, is named alone.
fn link(file: &str, line: Option<u32>, base: Option<&str>) -> Option<String> {
    let place = place(Some(file), line)?;
    let relative = file.trim_start_matches("./");
    if file == "-" || relative.starts_with(['/', '.']) {
        return Some(code(&place));
    }
    let mut target = base.map(|base| format!("{}/", base.trim_end_matches('/'))).unwrap_or_default();
    for byte in relative.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' | b'~' => {
                target.push(byte.into());
            }
            other => {
                let _ = write!(target, "%{other:02X}");
            }
        }
    }
    let line = line.map(|line| format!("#L{line}")).unwrap_or_default();
    Some(format!("[{}]({target}{line})", plain(&place)))
}

/// Each pair, with its first cause's place.
pub(crate) fn csv(diff: &ConnectionsDiff) -> String {
    let mut text = String::from("change,from,to,before,after,because\n");
    for pair in &diff.list {
        let change = diff.change(pair);
        let because: Vec<String> = change.because.iter().map(|cause| words(cause, change)).collect();
        let cells = [
            kind(change).to_owned(),
            diff.peers[pair.from].id.clone(),
            diff.peers[pair.to].id.clone(),
            change.before.to_string(),
            change.after.to_string(),
            because.join("; "),
        ];
        let _ = writeln!(text, "{}", cells.map(|cell| quoted(&cell)).join(","));
    }
    text
}
