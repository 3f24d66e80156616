//! A diagnosis, for people.
//!
//! Invariant: the first line is the verdict and greps; what was not examined is said, and never as a tick.

use std::collections::BTreeMap;
use std::fmt::Write;

use netlab_dnsdiag::diagnosis::{Diagnosis, NotJudged};
use netlab_dnsdiag::rules::{Class, Confidence, RULES};
use netlab_plugin::check::CheckStatus;

use super::layout::{WIDTH, wrap};
use super::style::{BAD, Charset, GOOD, Mark, QUIET, STRONG, WARNING, paint};

/// Room for the longest name of a step, and for the labels below.
const LABEL: usize = 12;

/// Modes that are told one by one, when they were not judged.
const MOST_UNJUDGED: usize = 40;

/// Verdict, steps, and what follows from them.
pub(crate) fn render(
    diagnosis: &Diagnosis,
    not_examined: &[String],
    interrupted: bool,
    charset: Charset,
) -> String {
    let verdict = &diagnosis.verdict;
    let (style, word) = match verdict.class {
        Class::Healthy => (GOOD, "HEALTHY"),
        Class::DnsConfig | Class::DnsServer | Class::Upstream => (BAD, "DNS"),
        // Of a wrong name the servers say what is right.
        Class::NotDns | Class::Name => (BAD, "NOT DNS"),
        Class::Undetermined => (WARNING, "UNDETERMINED"),
    };
    let id = verdict.id.map(|id| format!("    {id}  {}", confidence(verdict.confidence))).unwrap_or_default();
    let mut text =
        format!("{}  {}{}\n", paint(style, word), paint(STRONG, &verdict.summary), paint(QUIET, &id));
    if interrupted {
        text += "  interrupted: what had not come by then is not examined\n";
    }
    text.push('\n');
    for step in &diagnosis.steps {
        let mark = match step.status {
            CheckStatus::Ok => Mark::Good,
            CheckStatus::Warning => Mark::Warning,
            CheckStatus::Fault => Mark::Bad,
            CheckStatus::NotExamined => Mark::Absent,
        };
        let line = match step.status {
            CheckStatus::NotExamined if !step.line.starts_with("not examined") => {
                format!("not examined: {}", step.line)
            }
            _ => step.line.clone(),
        };
        text += &labelled(&charset.mark(mark), &step.name, &line);
    }
    let blank = if charset == Charset::Unicode { " " } else { "    " };
    let (found, against) = (ranges(&verdict.evidence), ranges(&verdict.against));
    let ids = |ids: &str| if ids.is_empty() { Vec::new() } else { vec![ids.to_owned()] };
    // Without a cause every fact was looked at alike.
    let found = if verdict.mode.is_some() { ids(&found) } else { Vec::new() };
    let rows = [
        ("because", &diagnosis.because),
        ("evidence", &found),
        ("against", &ids(&against)),
        ("fix", &diagnosis.fixes),
    ];
    for (label, lines) in rows {
        for (index, line) in lines.iter().enumerate() {
            text += &labelled(blank, if index == 0 { label } else { "" }, line);
        }
    }
    for (index, line) in diagnosis.verify.iter().enumerate() {
        text += &command(blank, if index == 0 { "verify" } else { "" }, line);
    }
    for (index, cause) in diagnosis.contributing.iter().enumerate() {
        let line = format!("{} ({}, {})", cause.summary, cause.id, confidence(cause.confidence));
        text += &labelled(blank, if index == 0 { "also" } else { "" }, &line);
    }
    // A step that saw nothing has said so in its own line.
    let told = |line: &str| {
        diagnosis.steps.iter().any(|step| {
            step.status == CheckStatus::NotExamined && line == format!("{}: {}", step.name, step.line)
        })
    };
    let left: Vec<&str> = not_examined.iter().map(String::as_str).filter(|line| !told(line)).collect();
    for (index, line) in grouped(&left).iter().enumerate() {
        text += &labelled(blank, if index == 0 { "unexamined" } else { "" }, line);
    }
    for (index, line) in unjudged(&diagnosis.not_judged).iter().enumerate() {
        text += &labelled(blank, if index == 0 { "unjudged" } else { "" }, line);
    }
    text
}

/// Modes that were not judged, by what that would have taken: `F18, F22 without dns/log`.
fn unjudged(modes: &[NotJudged]) -> Vec<String> {
    let mut by_needs: BTreeMap<&[&str], Vec<&str>> = BTreeMap::new();
    for one in modes {
        by_needs.entry(&one.needs).or_default().push(one.mode);
    }
    // Where nearly nothing is known, a list of everything tells nobody anything.
    if modes.len() > MOST_UNJUDGED {
        return vec![format!("{} of {} modes, which -o json tells", modes.len(), RULES.len())];
    }
    let mut lines: Vec<(Vec<&str>, String)> = by_needs
        .into_iter()
        .map(|(needs, mut modes)| {
            modes.sort_unstable();
            let line = format!("{} without {}", modes.join(", "), needs.join(", "));
            (modes, line)
        })
        .collect();
    lines.sort();
    lines.into_iter().map(|(_, line)| line).collect()
}

/// Ids of facts in few words: `pod/resolv.conf, probes.json#1-4, 7`.
fn ranges(ids: &[String]) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut rows: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for id in ids {
        match id.rsplit_once('#').and_then(|(file, row)| Some((file, row.parse().ok()?))) {
            Some((file, row)) => rows.entry(file).or_default().push(row),
            None => parts.push(id.clone()),
        }
    }
    for (file, mut numbers) in rows {
        numbers.sort_unstable();
        numbers.dedup();
        let mut runs: Vec<(u64, u64)> = Vec::new();
        for number in numbers {
            match runs.last_mut() {
                Some((_, last)) if *last + 1 == number => *last = number,
                _ => runs.push((number, number)),
            }
        }
        let run = |(first, last): &(u64, u64)| {
            if first == last { first.to_string() } else { format!("{first}-{last}") }
        };
        let runs: Vec<String> = runs.iter().map(run).collect();
        parts.push(format!("{file}#{}", runs.join(", ")));
    }
    parts.join(", ")
}

/// `a: not recorded`, `b: not recorded` as one line: `a, b: not recorded`; others as they are.
fn grouped(lines: &[&str]) -> Vec<String> {
    let mut by_reason: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut others = Vec::new();
    for line in lines {
        match line.split_once(": ") {
            Some((what, why)) if !what.contains(' ') => by_reason.entry(why).or_default().push(what),
            _ => others.push((*line).to_owned()),
        }
    }
    let grouped = by_reason.into_iter().map(|(why, what)| format!("{}: {why}", what.join(", ")));
    grouped.chain(others).collect()
}

const fn confidence(confidence: Confidence) -> &'static str {
    match confidence {
        Confidence::High => "high",
        Confidence::Medium => "medium",
        Confidence::Low => "low",
    }
}

fn labelled(mark: &str, label: &str, line: &str) -> String {
    let indent = 2 + 2 + LABEL + 2;
    let mut lines = wrap(line, WIDTH - indent).into_iter();
    let mut text = format!(
        "  {mark} {}  {}\n",
        paint(QUIET, &format!("{label:<LABEL$}")),
        lines.next().unwrap_or_default()
    );
    for line in lines {
        text += &format!("{:indent$}{line}\n", "");
    }
    text
}

/// A command over several lines that can be typed as it stands.
fn command(mark: &str, label: &str, line: &str) -> String {
    let indent = 2 + 2 + LABEL + 2;
    let lines = wrap(line, WIDTH - indent - 4);
    let mut text = format!("  {mark} {}", paint(QUIET, &format!("{label:<LABEL$}")));
    for (index, line) in lines.iter().enumerate() {
        let start = if index == 0 { "  ".to_owned() } else { format!("{:1$}", "", indent + 2) };
        let end = if index + 1 < lines.len() { " \\" } else { "" };
        let _ = writeln!(text, "{start}{line}{end}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_a_file_are_told_as_ranges() {
        let ids = ["probes.json#2", "pod/resolv.conf", "probes.json#10", "probes.json#1", "probes.json#9"];
        let ids: Vec<String> = ids.iter().map(|id| (*id).to_owned()).collect();
        assert_eq!(ranges(&ids), "pod/resolv.conf, probes.json#1-2, 9-10");
    }
}
