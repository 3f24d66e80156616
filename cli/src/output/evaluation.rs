//! An evaluation for people: the verdict, each side, and why.
//!
//! Invariant: the first line is `VERDICT  FROM -> TO WHAT`. Every reason that is printed was given by the
//! evaluation; nothing is concluded here.

use anstyle::Style;
use netlab_core::policy::Evaluation;
use netlab_core::policy::change::Verdict;
use netlab_core::policy::evaluate::{Outcome, PairEvaluation, Side};
use netlab_core::policy::provenance::{PolicyRef, RuleRef};

use super::layout::Rows;
use super::style::{DENIED, GOOD, STRONG, WARNING, paint};

/// The colour of a verdict.
pub(crate) fn color(verdict: Verdict) -> Style {
    match verdict {
        Verdict::Allow => GOOD,
        Verdict::Deny => DENIED,
    }
}

/// `file:line`, if known.
pub(crate) fn place(file: Option<&str>, line: Option<u32>) -> Option<String> {
    match (file, line) {
        (Some(file), Some(line)) => Some(format!("{file}:{line}")),
        (Some(file), None) => Some(file.to_owned()),
        (None, _) => None,
    }
}

/// `NetworkPolicy shop/db spec.ingress[0].from[1]`, with the action and the rule's own name where its kind has them.
pub(crate) fn rule_name(rule: &RuleRef) -> String {
    let mut text = format!("{} {} {}", rule.kind, rule.qualified_name(), rule.path);
    if let Some(action) = rule.action {
        text.push(' ');
        text.push_str(action);
    }
    if let Some(name) = &rule.rule_name {
        text.push_str(&format!(" \"{name}\""));
    }
    text
}

/// `shop/db, shop/default-deny`.
pub(crate) fn names(policies: &[PolicyRef]) -> String {
    policies.iter().map(PolicyRef::qualified_name).collect::<Vec<_>>().join(", ")
}

/// The evaluation as text; `subject` is `FROM -> TO WHAT`.
pub(crate) fn render(evaluation: &Evaluation, subject: &str, wide: bool) -> String {
    let verdict_style = match evaluation.verdict {
        Outcome::Allow => GOOD,
        Outcome::Deny => DENIED,
        Outcome::Mixed | Outcome::Undefined => WARNING,
    };
    let verdict = evaluation.verdict.to_string();
    let mut rows = Rows::new(9, 5);
    rows.line(&format!("{}  {}", paint(verdict_style, &verdict), paint(STRONG, subject)));
    if evaluation.verdict == Outcome::Mixed || (wide && evaluation.pairs.len() > 1) {
        for pair in &evaluation.pairs {
            let text = format!("{} -> {}  {} -> {}", pair.from, pair.to, pair.source, pair.destination);
            rows.row("packet", (color(pair.verdict), &pair.verdict.to_string()), &text);
            if wide {
                sides(&mut rows, &pair.egress, &pair.ingress, wide);
            }
        }
        if !wide {
            explain_difference(&mut rows, evaluation);
        }
    } else if !evaluation.pairs.is_empty() {
        sides(&mut rows, &evaluation.egress, &evaluation.ingress, wide);
    }
    let said = [&evaluation.egress, &evaluation.ingress].map(|side| &side.reason);
    for note in evaluation.notes.iter().filter(|note| !said.contains(note)) {
        rows.plain("note", note);
    }
    for text in evaluation.not_examined.iter().filter(|text| !evaluation.notes.contains(text)) {
        rows.plain("not seen", text);
    }
    rows.finish()
}

/// One pair of each verdict, with its reasons.
fn explain_difference(rows: &mut Rows, evaluation: &Evaluation) {
    for verdict in [Verdict::Allow, Verdict::Deny] {
        let Some(pair) = evaluation.pairs.iter().find(|pair| pair.verdict == verdict) else { continue };
        rows.line("");
        rows.line(&format!("  why {verdict}, for {}", named(pair)));
        sides(rows, &pair.egress, &pair.ingress, false);
    }
}

fn named(pair: &PairEvaluation) -> String {
    format!("{} -> {} ({})", pair.from, pair.to, pair.destination)
}

fn sides(rows: &mut Rows, egress: &Side, ingress: &Side, wide: bool) {
    for (label, side) in [("egress", egress), ("ingress", ingress)] {
        rows.row(label, (color(side.verdict), &side.verdict.to_string()), &reason(side, wide));
        for rule in side.tied_rules() {
            let place = place(rule.file.as_deref(), rule.line).unwrap_or_default();
            rows.plain("tie", &format!("{} {place}", rule_name(rule)));
        }
        let decided = side.rule.as_ref().filter(|_| side.tied.is_empty());
        if let Some(place) = decided.and_then(|rule| place(rule.file.as_deref(), rule.line)) {
            rows.plain("", &place);
        }
        for pass in &side.passed {
            rows.plain("passed by", &rule_name(pass));
        }
        for near in &side.near_misses {
            let text = format!("{} {} {}", near.rule.qualified_name(), near.rule.path, near.reason);
            rows.plain("near miss", &text);
        }
        if wide {
            let tied = side.tied_rules();
            for loser in side.losers.iter().filter(|loser| !tied.contains(loser)) {
                rows.plain("also", &rule_name(loser));
            }
        }
    }
}

/// Why a side decides as it does, in one phrase.
pub(super) fn reason(side: &Side, wide: bool) -> String {
    let text = match &side.rule {
        _ if !side.tied.is_empty() => side.reason.clone(),
        Some(rule) => rule_name(rule),
        None if side.verdict == Verdict::Deny && !side.isolated_by.is_empty() => {
            format!("isolated by {}; no rule admits", names(&side.isolated_by))
        }
        // The direction stands at the head of the line already.
        None => side.reason.trim_end_matches(" for egress").trim_end_matches(" for ingress").to_owned(),
    };
    match side.entry {
        Some(entry) if wide => format!("entry {entry}  {text}"),
        _ => text,
    }
}
