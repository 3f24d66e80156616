//! S0: what the application sees, and what that means.

use netlab_plugin::check::CheckOutcome;

use super::Step;
use crate::bundle::layout;
use crate::view::View;

pub(super) const STEP: Step = Step {
    id: "S0",
    name: "symptom",
    summary: "the application's error and how long it takes: text, class, seconds, share of lookups",
    needs: &[layout::SYMPTOM],
    costs: "nothing: the user or the application's log says it",
    examine,
};

fn examine(view: &View<'_>) -> Option<CheckOutcome> {
    // Where nothing was reported there is nothing to say.
    let (id, symptom) = view.evidence.symptom()?;
    let mut parts = Vec::new();
    match (&symptom.error, view.error_class()) {
        (Some(error), Some(class)) => parts.push(format!("\"{error}\", which is {}", class.as_str())),
        (Some(error), None) => parts.push(format!("\"{error}\"")),
        (None, _) => {}
    }
    if let Some(seconds) = symptom.seconds {
        parts.push(format!("after {seconds:.1} s"));
    }
    if let Some(share) = symptom.share {
        parts.push(format!("{:.0}% of lookups", share * 100.0));
    }
    Some(CheckOutcome::warning(parts.join(", ")).citing([id]))
}
