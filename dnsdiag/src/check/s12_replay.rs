//! S12: the libc's model with the recorded answers, against what the application reports.

use netlab_plugin::check::CheckOutcome;

use super::Step;
use crate::bundle::layout;
use crate::resolver::as_seconds;
use crate::view::{Replay, View};

pub(super) const STEP: Step = Step {
    id: "S12",
    name: "replay",
    summary: "what the libc's model makes of the recorded answers: error and seconds, against the symptom",
    needs: &[layout::POD_RESOLV_CONF, layout::PROBES, layout::SYMPTOM],
    costs: "nothing: it is computed",
    examine,
};

/// A model is right within this, in seconds.
const SLACK: f64 = 0.4;

fn examine(view: &View<'_>) -> Option<CheckOutcome> {
    let (id, _) = view.evidence.symptom()?;
    let replays: Vec<Replay> = view.target.names.iter().filter_map(|name| view.replay(name)).collect();
    // The report does not say of which name it is: any that fits will do.
    let known = |replay: &&Replay| replay.unasked.is_empty();
    let fits = replays.iter().filter(known).find(|replay| agrees(view, replay));
    let replay = fits.or_else(|| replays.iter().find(known)).or(replays.first())?;
    if let Some(first) = replay.unasked.first() {
        let what = format!("the model asks {first}, and nobody did");
        return Some(CheckOutcome::not_examined(what));
    }
    let told: Vec<String> = replay
        .plan
        .predicted
        .outcomes
        .iter()
        .map(|outcome| match outcome.millis {
            Some(millis) => format!("{} after {:.1} s", outcome.text, as_seconds(millis)),
            None => format!("{}, never ending", outcome.text),
        })
        .collect();
    let line = format!("`{}`: {}", replay.plan.name, told.join(", or "));
    let outcome = match fits {
        Some(_) => CheckOutcome::ok(format!("the model gives the same for {line}")),
        None => CheckOutcome::warning(format!("not what was reported: the model gives {line}")),
    };
    Some(outcome.citing([id, layout::POD_RESOLV_CONF]).citing(replay.ids.clone()))
}

/// True when an outcome of the model is what was reported.
fn agrees(view: &View<'_>, replay: &Replay) -> bool {
    let Some((_, symptom)) = view.evidence.symptom() else { return false };
    let class = view.error_class();
    replay.plan.predicted.outcomes.iter().any(|outcome| {
        let fits_time = match (symptom.seconds, outcome.millis.map(as_seconds)) {
            (Some(reported), Some(predicted)) => (reported - predicted).abs() <= SLACK,
            _ => true,
        };
        let fits_class = match (class, symptom.error.is_some()) {
            (Some(class), _) => outcome.rc == Some(class.rc()),
            (None, true) => outcome.rc != Some(0),
            (None, false) => outcome.rc == Some(0),
        };
        fits_time && fits_class
    })
}
