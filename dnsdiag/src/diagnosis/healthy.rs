//! The verdict when no rule fires: healthy, or undetermined and why.
//!
//! Invariant: "healthy" only when every file whose content can show a failure that is not seen elsewhere was recorded, no step found
//! a fault, the pod's own questions were all answered, and nobody reports a symptom that this does not explain.

use netlab_plugin::check::{CheckOutcome, CheckStatus};

use super::{Cause, Verdict};
use crate::bundle::layout;
use crate::rules::{Class, Confidence};
use crate::view::{Ask, View};

type Conclusion = (Verdict, Vec<String>, Vec<String>, Vec<String>);

pub(super) fn conclude(
    view: &View<'_>,
    outcomes: &[(String, String, CheckOutcome)],
    foreign: &[Cause],
) -> Conclusion {
    let mut because = Vec::new();
    let faults: Vec<&(String, String, CheckOutcome)> =
        outcomes.iter().filter(|(_, _, outcome)| outcome.status == CheckStatus::Fault).collect();
    for (id, name, outcome) in &faults {
        because.push(format!("{id} {name}: {}", outcome.line));
    }
    because.extend(foreign.iter().map(|cause| format!("{}: {}", cause.mode, cause.summary)));
    let missing = missing(view);
    let seen = view.seen(&Ask::from_pod());
    let evidence = seen.ids.clone();
    let undetermined = |summary: String, because: Vec<String>, fixes: Vec<String>| {
        let verdict = Verdict {
            class: Class::Undetermined,
            id: None,
            mode: None,
            confidence: Confidence::Low,
            summary,
            evidence: evidence.clone(),
            against: Vec::new(),
        };
        (verdict, because, fixes, Vec::new())
    };
    let record = |missing: &[&str]| vec![format!("record {}", missing.join(", "))];
    if !because.is_empty() {
        let fixes = if missing.is_empty() { Vec::new() } else { record(&missing) };
        return undetermined(format!("{} fails, and no known cause fits", view.target), because, fixes);
    }
    if !seen.reach.answers() {
        let why = format!("the pod's questions: {}", seen.reach.as_str());
        return undetermined(
            format!("{} is not known to get answers", view.target),
            vec![why],
            record(&missing),
        );
    }
    if !missing.is_empty() {
        let why = format!("not examined: {}", missing.join(", "));
        return undetermined(
            "what was examined is in order; the rest was not".to_owned(),
            vec![why],
            record(&missing),
        );
    }
    if let Some((id, symptom)) = view.evidence.symptom() {
        let what = symptom.error.clone().unwrap_or_else(|| "a symptom".to_owned());
        let why = format!("{id} reports \"{what}\", and nothing here explains it");
        let fix = "repeat the probes while it happens (50 or more show a loss of 6%)".to_owned();
        return undetermined(
            "every hop answers now; the symptom is not explained".to_owned(),
            vec![why],
            vec![fix],
        );
    }
    let verdict = Verdict {
        class: Class::Healthy,
        id: None,
        mode: None,
        confidence: Confidence::High,
        summary: summary(view),
        evidence,
        against: Vec::new(),
    };
    (verdict, Vec::new(), Vec::new(), Vec::new())
}

/// Vital files that were not recorded.
fn missing(view: &View<'_>) -> Vec<&'static str> {
    let musl = view.target.libc.as_deref().is_some_and(|libc| libc.starts_with("musl"));
    let proxy = layout::PROXY_DUMPS.iter().any(|dump| view.knows(dump));
    layout::FILES
        .iter()
        .filter(|file| file.vital && file.format != layout::Format::Manifest && !view.knows(file.path))
        .map(|file| file.path)
        .filter(|path| !(*path == layout::POD_NSSWITCH && musl))
        .filter(|path| match layout::PROXY_DUMPS.iter().position(|dump| dump == path) {
            // One dump is enough, and the first stands for all when there is none.
            Some(place) => !proxy && place == 0,
            None => true,
        })
        .collect()
}

fn summary(view: &View<'_>) -> String {
    match view.target.names.as_slice() {
        [] => format!("{} gets right answers", view.target),
        names => format!("{} resolves {}", view.target, names.join(", ")),
    }
}
