//! S12: the libc's model with the recorded answers, against what the application reports.

use netlab_plugin::check::CheckOutcome;

use super::Step;
use crate::bundle::layout;
use crate::resolver::as_seconds;
use crate::view::View;

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
    let (symptom_id, symptom) = view.evidence.symptom()?;
    let name = view.target.names.first()?;
    let replay = view.replay(name)?;
    if let Some(first) = replay.unasked.first() {
        return Some(CheckOutcome::not_examined(format!("{first} was not asked, and the model asks it")));
    }
    let outcomes = &replay.plan.predicted.outcomes;
    let told: Vec<String> = outcomes
        .iter()
        .map(|outcome| match outcome.millis {
            Some(millis) => format!("{} after {:.1} s", outcome.text, as_seconds(millis)),
            None => format!("{}, never ending", outcome.text),
        })
        .collect();
    let class = view.error_class();
    let agrees = outcomes.iter().any(|outcome| {
        let seconds = outcome.millis.map(as_seconds);
        let fits_time = match (symptom.seconds, seconds) {
            (Some(reported), Some(predicted)) => (reported - predicted).abs() <= SLACK,
            _ => true,
        };
        let fits_class = match (class, symptom.error.is_some()) {
            (Some(class), _) => outcome.rc == Some(class.rc()),
            (None, true) => outcome.rc != Some(0),
            (None, false) => outcome.rc == Some(0),
        };
        fits_time && fits_class
    });
    let line = told.join(", or ");
    let outcome = if agrees {
        CheckOutcome::ok(format!("the model gives the same: {line}"))
    } else {
        CheckOutcome::warning(format!(
            "the model gives {line}: caches, another resolver, or a fault that comes and goes"
        ))
    };
    Some(outcome.citing([symptom_id, layout::POD_RESOLV_CONF]).citing(replay.ids))
}
