//! Numbers that no measurement has: counts that contradict the result they stand beside, times before the question.
//!
//! Invariant: only what cannot be is refused, never what is merely odd. docs/schema/dns-bundle.json refuses the same, but for
//! counts that contradict each other, which no schema of single fields can tell.

use netlab_plugin::evidence::{Probe, Symptom};

use super::error::Problem;

/// More sends than anybody makes of one question.
const SENDS: u32 = 1_000_000;
/// An hour, in milliseconds: nobody waits longer for an answer.
const LONGEST: f64 = 3_600_000.0;

/// What cannot be about a row; `place` is its id.
pub(super) fn row(place: &str, probe: &Probe) -> Option<Problem> {
    let sent = probe.sent;
    let result = probe.result.as_str();
    let said = match (probe.answered, probe.result.is_answer()) {
        _ if sent == 0 || sent > SENDS => format!("`sent` is {sent}, not 1 to {SENDS}"),
        _ if probe.ms.is_some_and(|ms| !(0.0..=LONGEST).contains(&ms)) => {
            format!("`ms` is {}, not 0 to {LONGEST}", probe.ms.unwrap_or_default())
        }
        (Some(answered), _) if answered > sent => {
            format!("the counts contradict each other: {answered} answers to {sent} questions")
        }
        (Some(0), true) => format!("the counts contradict the result: no answer came, and it is {result}"),
        (Some(answered), false) if answered == sent => {
            format!("the counts contradict the result: every question was answered, and it is {result}")
        }
        _ => return None,
    };
    Some(Problem::new(place, said, "count what was sent and what came, docs/dns-diagnose.md says how"))
}

/// What cannot be about a report.
pub(super) fn symptom(place: &str, symptom: &Symptom) -> Option<Problem> {
    let said = match (symptom.seconds, symptom.share) {
        (Some(seconds), _) if !(0.0..=LONGEST).contains(&seconds) => {
            format!("`seconds` is {seconds}, not 0 to {LONGEST}")
        }
        (_, Some(share)) if !(0.0..=1.0).contains(&share) => format!("`share` is {share}, not 0 to 1"),
        _ => return None,
    };
    Some(Problem::new(place, said, "say what the application prints, and after how many seconds"))
}
