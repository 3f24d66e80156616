//! Plans side by side, and why one library resolves what another does not.
//!
//! Invariant: a reason is what happened in the plans, told from their steps; nothing is said when nothing differs.

use serde::Serialize;

use super::{Outcome, QueryPlan, as_seconds, texts};
use crate::resolv_conf::NoteKind;

/// Durations that are nearer than this are the same, in milliseconds.
const SAME: u64 = 400;

/// Several plans for the same name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Comparison {
    /// True when all end alike, and about as fast.
    pub same: bool,
    /// One for each library.
    pub plans: Vec<QueryPlan>,
    /// What makes the difference, in words: one for each library, then what they read or do differently.
    pub because: Vec<String>,
}

/// Compares.
pub fn compare(plans: Vec<QueryPlan>) -> Comparison {
    let same = plans.windows(2).all(|pair| matches!(pair, [one, other] if alike(one, other)));
    let mut because = Vec::new();
    if !same {
        because.extend(plans.iter().map(story));
        because.extend(plans.iter().flat_map(|plan| differences(plan, &plans)));
    }
    Comparison { same, plans, because }
}

fn alike(one: &QueryPlan, other: &QueryPlan) -> bool {
    let (one, other) = (&one.predicted.outcomes, &other.predicted.outcomes);
    let near = |a: &Outcome, b: &Outcome| {
        (a.rc == Some(0)) == (b.rc == Some(0))
            && match (a.millis, b.millis) {
                (Some(a), Some(b)) => a.abs_diff(b) <= SAME,
                (a, b) => a == b,
            }
    };
    one.len() == other.len() && one.iter().all(|a| other.iter().any(|b| near(a, b)))
}

/// How one plan ends, and where.
fn story(plan: &QueryPlan) -> String {
    let libc = plan.libc.words();
    if let [_, _, ..] = plan.predicted.outcomes.as_slice() {
        let ways: Vec<String> = plan
            .predicted
            .outcomes
            .iter()
            .map(|outcome| {
                let when = outcome.when.as_deref().map_or_else(String::new, |when| format!(" when {when}"));
                format!("{}{when}", ending(outcome))
            })
            .collect();
        return format!("{libc}: {}", ways.join("; "));
    }
    let Some(run) = plan.runs.first() else { return libc };
    let end = ending(&run.outcome);
    let Some(step) = run.steps.last() else { return format!("{libc}: {end}") };
    let position = plan.candidates.iter().position(|name| *name == step.candidate);
    let place = position
        .map_or_else(String::new, |index| format!(", name {} of {}", index + 1, plan.candidates.len()));
    format!("{libc}: {end} at {}{place} ({}): {}", step.candidate, step.answers, step.why)
}

/// `resolves after 5 s`, `fails after 0 s (Try again)`.
fn ending(outcome: &Outcome) -> String {
    let after =
        outcome.millis.map_or_else(|| "never".to_owned(), |millis| format!("after {} s", as_seconds(millis)));
    match outcome.rc {
        Some(0) => format!("resolves {after}"),
        _ => format!("fails {after} ({})", outcome.text),
    }
}

/// What this library reads or does otherwise than the others of the comparison.
fn differences(plan: &QueryPlan, plans: &[QueryPlan]) -> Vec<String> {
    let libc = plan.libc.words();
    let mut said = Vec::new();
    let longest = plans.iter().map(|plan| plan.candidates.len()).max().unwrap_or(0);
    let conf = &plan.resolv_conf;
    let kinds = [NoteKind::LineTooLong, NoteKind::Indented, NoteKind::RootSuffix, NoteKind::CarriageReturn];
    let lines = conf.notes.iter().filter(|note| kinds.contains(&note.kind));
    if plans.iter().any(|other| other.resolv_conf.search.len() != conf.search.len()) {
        said.extend(
            lines.map(|note| format!("{libc} reads line {} in its own way: {}", note.line, note.text)),
        );
    }
    let dots = super::name::dots(&plan.name);
    let searches_only = plan.candidates.len() == 1 && longest > 1 && !conf.search.is_empty();
    if searches_only && !plan.name.ends_with('.') && dots >= conf.options.ndots as usize {
        said.push(format!(
            "{libc} does not use the search list: the name has {dots} dots, and ndots is {}",
            conf.options.ndots
        ));
    }
    let others_wait = plans.iter().any(|other| !matches!(other.libc, super::Libc::Musl(_)));
    if matches!(plan.libc, super::Libc::Musl(_)) && conf.nameservers.len() > 1 && others_wait {
        said.push(format!(
            "{libc} asks all {} servers at once and takes the first answer",
            conf.nameservers.len()
        ));
    }
    said
}

impl QueryPlan {
    /// `Some(true)` when it resolves whatever happens, `Some(false)` when it never does.
    pub fn resolves(&self) -> Option<bool> {
        let ok: Vec<bool> = self.predicted.outcomes.iter().map(|outcome| outcome.rc == Some(0)).collect();
        match (ok.contains(&true), ok.contains(&false)) {
            (true, true) => None,
            (resolves, _) => Some(resolves),
        }
    }
}

/// The name of a return code.
pub fn rc_name(rc: i32) -> &'static str {
    match rc {
        0 => "ok",
        texts::NONAME => "EAI_NONAME",
        texts::AGAIN => "EAI_AGAIN",
        texts::FAIL => "EAI_FAIL",
        texts::NODATA => "EAI_NODATA",
        -9 => "EAI_ADDRFAMILY",
        _ => "unknown",
    }
}
