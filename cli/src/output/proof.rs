//! A proof for people: the answer, what was predicted and seen, each hop, and how to doubt it.
//!
//! Invariant: the first line begins with `PROVED`, `CONTRADICTED`, `UNDEFINED` (the API gives no verdict that could be
//! proved) or `SIMULATED` (`UNDECIDED` when a kernel was asked and could not be seen, or met no hook), so that it greps. What is printed is what the proof holds; nothing is concluded
//! here.

use std::net::SocketAddr;

use anstyle::Style;
use netlab_core::policy::change::Verdict;
use netlab_core::policy::evaluate::Outcome;
use netlab_enforcer::prove::proof::{CounterDelta, Hop, Mode, Proof, ProofOutcome, Witness};

use super::diagnostic::Texts;
use super::evaluation::{color, names, place, rule_name};
use super::layout::{Rows, WIDTH};
use super::style::{BAD, DENIED, GOOD, POINTER, QUIET, STRONG, WARNING, paint};

/// Width of `entry 123456`.
const ENTRY: usize = 8;

/// The proof as text; `subject` is `FROM -> TO WHAT`, and `mixed` says that other packets of the same question have
/// another verdict.
pub(crate) fn render(proof: &Proof, subject: &str, mixed: bool, texts: &Texts) -> String {
    let mut rows = Rows::new(9, 5);
    rows.line(&headline(proof, subject, mixed));
    rows.line("");
    if let Some(via) = &proof.via {
        let ends = format!(
            "{} of {}, which node {} leads to {}",
            SocketAddr::new(via.address, via.port),
            via.service,
            via.node,
            SocketAddr::new(proof.query.destination, proof.query.port)
        );
        rows.plain("sent to", &ends);
    }
    if proof.outcome == ProofOutcome::Contradicted {
        for witness in &proof.witnesses {
            heard(&mut rows, witness);
        }
        for difference in &proof.differences {
            rows.plain("differs", difference);
        }
    } else {
        let (style, word) = spoken(proof.predicted.settled());
        rows.row("predicted", (style, &word), &prediction(proof));
        let (style, word) = spoken(proof.observed);
        rows.row("observed", (style, &word), &observation(proof));
    }
    for hop in &proof.hops {
        side(&mut rows, hop, texts);
    }
    counters(&mut rows, proof);
    entry(&mut rows, proof);
    rows.finish()
}

fn headline(proof: &Proof, subject: &str, mixed: bool) -> String {
    let verdict = proof.observed.map_or(proof.predicted, Outcome::from);
    match (proof.outcome, proof.mode) {
        (ProofOutcome::Proved, _) => {
            let (style, verdict) = match verdict {
                _ if mixed => (WARNING, "mixed".to_owned()),
                Outcome::Allow => (GOOD, verdict.to_string()),
                _ => (DENIED, verdict.to_string()),
            };
            format!("{} {}  {}", paint(STRONG, "PROVED"), paint(style, &verdict), paint(STRONG, subject))
        }
        (ProofOutcome::Contradicted, _) => {
            let line = match proof.observed {
                Some(observed) if proof.predicted.settled().is_some_and(|verdict| verdict != observed) => {
                    format!("{subject}: predicted {}, the kernel {}", proof.predicted, past(observed))
                }
                _ => format!("{subject}: the witnesses disagree"),
            };
            format!("{}  {}", paint(BAD, "CONTRADICTED"), paint(STRONG, &line))
        }
        (ProofOutcome::Inconclusive, _) if proof.undefined.is_some() => {
            let line = format!("{subject}: the API gives no verdict");
            format!("{}  {}", paint(WARNING, "UNDEFINED"), paint(STRONG, &line))
        }
        (ProofOutcome::Inconclusive, Mode::Simulated) => {
            let verdict = if mixed { "mixed".to_owned() } else { verdict.to_string() };
            format!("{} {verdict}  {subject}: nothing was sent", paint(WARNING, "SIMULATED"))
        }
        (ProofOutcome::Inconclusive, Mode::Kernel) => {
            let why = match proof.observed {
                Some(_) => "the packet passes no hook, so no table was asked",
                None => "the kernel was asked and did not answer",
            };
            format!("{}  {subject}: {why}", paint(WARNING, "UNDECIDED"))
        }
    }
}

/// A verdict, or that there is none.
fn spoken(verdict: Option<Verdict>) -> (Style, String) {
    verdict.map_or((QUIET, "-".to_owned()), |verdict| (color(verdict), verdict.to_string()))
}

fn past(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Allow => "allowed",
        Verdict::Deny => "denied",
    }
}

fn heard(rows: &mut Rows, witness: &Witness) {
    let (style, word) = spoken(witness.verdict.and_then(Outcome::settled));
    rows.row(witness.name, (style, &word), &witness.detail);
}

fn of<'a>(proof: &'a Proof, names: &[&str]) -> Vec<&'a Witness> {
    proof.witnesses.iter().filter(|witness| names.contains(&witness.name)).collect()
}

fn prediction(proof: &Proof) -> String {
    if let Some(why) = &proof.undefined {
        return format!("undefined({why})");
    }
    let asked = of(proof, &["spec", "tables"]);
    if asked.len() == 2 && asked.iter().all(|witness| witness.verdict == Some(proof.predicted)) {
        return "the spec and the compiled tables agree".to_owned();
    }
    asked.iter().map(|witness| format!("{}: {}", witness.name, witness.detail)).collect::<Vec<_>>().join("; ")
}

fn observation(proof: &Proof) -> String {
    if proof.mode == Mode::Simulated {
        return "not run: nothing was sent".to_owned();
    }
    let asked = of(proof, &["test-run", "wire", "nft"]);
    let all_heard = asked.iter().all(|witness| witness.verdict.is_some());
    if let (true, Some(last)) = (all_heard && asked.len() > 1, asked.last()) {
        let names: Vec<&str> = asked.iter().map(|witness| witness.name).collect();
        return format!("{}: {}", names.join(" and "), last.detail);
    }
    asked.iter().map(|witness| format!("{}: {}", witness.name, witness.detail)).collect::<Vec<_>>().join("; ")
}

fn side(rows: &mut Rows, hop: &Hop, texts: &Texts) {
    let indent = rows.indent();
    let cited = format!("{:<ENTRY$}  ", format!("entry {}", hop.entry.id));
    let (first, rest) = match hop.rule.as_ref().filter(|_| hop.side.tied.is_empty()) {
        Some(rule) => (rule_name(rule), place(rule.file.as_deref(), rule.line)),
        None => (reason(hop), None),
    };
    let head = (color(hop.verdict), hop.verdict.to_string());
    let column = indent + cited.chars().count();
    let mut lines = super::layout::wrap(&first, WIDTH.saturating_sub(column)).into_iter();
    let first = lines.next().unwrap_or_default();
    rows.row(hop.direction, (head.0, &head.1), &format!("{cited}{first}"));
    for line in lines.chain(rest) {
        rows.line(&format!("{}{line}", " ".repeat(column)));
    }
    if let Some(rule) = hop.rule.as_ref().filter(|_| hop.side.tied.is_empty())
        && let Some((number, text)) = source_line(rule.file.as_deref(), rule.line, texts)
    {
        let room = WIDTH.saturating_sub(indent + 1);
        let text: String = text.trim_end().chars().take(room).collect();
        rows.line(&format!("{} {text}", paint(QUIET, &format!("{number:>0$} |", indent - 3))));
    }
    if !hop.reached {
        rows.plain("", "(asked, although the packet did not come this far)");
    }
    if hop.verdict == Verdict::Deny && hop.rule.is_none() {
        for (index, policy) in hop.side.isolated_by.iter().enumerate() {
            let label = if index == 0 { "isolated" } else { "" };
            let word = if index == 0 { "by" } else { "" };
            let place = place(policy.file.as_deref(), policy.line).unwrap_or_default();
            let name = format!("{} {}", policy.kind, policy.qualified_name());
            rows.row(label, (QUIET, word), &format!("{name:<31}  {place}"));
        }
        for near in &hop.side.near_misses {
            let name = format!("{} {}", near.rule.qualified_name(), near.rule.path);
            let place = place(near.rule.file.as_deref(), near.rule.line).unwrap_or_default();
            rows.plain("near miss", &format!("{name:<31}  {place}"));
            rows.plain("", &near.reason);
        }
    }
    let tied = hop.side.tied_rules();
    for (index, rule) in tied.iter().enumerate() {
        let place = place(rule.file.as_deref(), rule.line).unwrap_or_default();
        let (label, word) = if index == 0 { ("tie", "of") } else { ("", "") };
        rows.row(label, (WARNING, word), &format!("{} {place}", rule_name(rule)));
    }
    for pass in &hop.side.passed {
        let place = place(pass.file.as_deref(), pass.line).unwrap_or_default();
        rows.row("passed", (QUIET, "by"), &format!("{} {place}", rule_name(pass)));
    }
    for loser in hop.side.losers.iter().filter(|loser| !tied.contains(loser)) {
        let place = place(loser.file.as_deref(), loser.line).unwrap_or_default();
        rows.row("also", (QUIET, "match"), &format!("{} {place}", rule_name(loser)));
    }
}

fn reason(hop: &Hop) -> String {
    if !hop.side.tied.is_empty() {
        // Who ties is told below.
        return "netlab's tables deny what the API leaves open".to_owned();
    }
    if hop.verdict == Verdict::Deny && !hop.side.isolated_by.is_empty() {
        return if hop.reason.is_empty() {
            format!("isolated by {}; no rule admits", names(&hop.side.isolated_by))
        } else {
            hop.reason.clone()
        };
    }
    if hop.reason.starts_with("not isolated") {
        format!("{} is {}", hop.pod, hop.reason)
    } else {
        hop.reason.clone()
    }
}

/// The number of a line that is quoted, and what is written there.
pub(crate) fn source_line<'a>(
    file: Option<&str>,
    line: Option<u32>,
    texts: &'a Texts,
) -> Option<(u32, &'a str)> {
    let number = line?;
    let text = texts.get(file?)?.lines().nth(number.checked_sub(1)? as usize)?;
    Some((number, text))
}

fn counters(rows: &mut Rows, proof: &Proof) {
    if proof.mode == Mode::Simulated {
        return;
    }
    let cited = |entry: u32| proof.hops.iter().any(|hop| hop.entry.id == entry);
    let words = |counter: &CounterDelta| {
        let entry = counter.entry;
        let name = match counter.reason.filter(|_| !cited(entry)) {
            Some(reason) => format!("entry {entry} ({reason})"),
            None => format!("entry {entry}"),
        };
        format!("{name}: {} -> {}", counter.before, counter.after)
    };
    let (on_the_way, others): (Vec<_>, Vec<_>) =
        proof.counters.iter().partition(|counter| cited(counter.entry));
    let all: Vec<String> = on_the_way.into_iter().chain(others.iter().copied()).map(words).collect();
    // What belongs to the flow that was just allowed is no verdict of its own.
    let harmless = |counter: &&CounterDelta| counter.reason.is_some();
    let end = if others.iter().all(harmless) { ", no other verdict moved" } else { "" };
    rows.broad("counters", &if all.is_empty() { "none moved".to_owned() } else { all.join(", ") + end });
}

fn entry(rows: &mut Rows, proof: &Proof) {
    let Some(entry) = &proof.entry else { return };
    let id = entry.map_id.map_or_else(String::new, |id| format!(" id {id}"));
    rows.broad("map", &format!("{}{id}: {}", entry.map, entry.key_text));
    if !entry.key_hex.is_empty() {
        rows.broad("key", &entry.key_hex);
        rows.broad("value", &entry.value_hex);
    }
    if let Some(command) = &entry.bpftool {
        rows.line(&format!("  {}", paint(POINTER, &format!("$ {command}"))));
    }
}

/// The proofs of the same question's other packets, a line each.
pub(crate) fn others(shown: &Proof, proofs: &[&Proof]) -> String {
    let mut rows = Rows::new(9, 5);
    for proof in proofs {
        let verdict = proof.observed.or(proof.predicted.settled());
        let outcome = match (proof.outcome, proof.mode) {
            _ if proof.undefined.is_some() => "undefined",
            (ProofOutcome::Proved, _) => "proved",
            (ProofOutcome::Contradicted, _) => "contradicted",
            (ProofOutcome::Inconclusive, Mode::Simulated) => "simulated",
            (ProofOutcome::Inconclusive, Mode::Kernel) => "undecided",
        };
        let entry = proof.entry.as_ref().map_or_else(String::new, |entry| format!(", entry {}", entry.id));
        let query = &proof.query;
        let packet = format!("{} -> {}", query.source, query.destination);
        // The addresses are enough for one pair's other family; they do not say which pod of a workload it is.
        let text = if (&query.from, &query.to) == (&shown.query.from, &shown.query.to) {
            format!("{packet}: {outcome}{entry}")
        } else {
            format!("{} -> {} ({packet}): {outcome}{entry}", query.from, query.to)
        };
        let (style, word) = spoken(verdict);
        rows.row("also", (style, &word), &text);
    }
    rows.finish()
}
