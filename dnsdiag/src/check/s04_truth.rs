//! S4: what the name should resolve to, by the API's objects.

use netlab_plugin::check::CheckOutcome;

use super::Step;
use crate::bundle::layout;
use crate::records::{RecordType, What};
use crate::view::View;

pub(super) const STEP: Step = Step {
    id: "S4",
    name: "name",
    summary: "what each name should resolve to by Services, slices and pods; near misses, other namespaces",
    needs: &[layout::SERVICES, layout::SLICES, layout::NAMESPACES, layout::PODS],
    costs: "API reads; no query",
    examine,
};

fn examine(view: &View<'_>) -> Option<CheckOutcome> {
    let name = view.target.names.first()?;
    let full = view.intended(name);
    let Some(truth) = view.truth(&full) else {
        let missing = view.missing(STEP.needs);
        return Some(CheckOutcome::not_examined(format!("{} not recorded", missing.join(", "))));
    };
    let of = |record| truth.records.get(&record).into_iter().flatten();
    let kinds = [RecordType::A, RecordType::Aaaa, RecordType::Cname];
    let records: Vec<&str> = kinds.into_iter().flat_map(of).map(String::as_str).take(3).collect();
    let outcome = match (truth.exists(), &truth.what) {
        (_, What::Outside) => CheckOutcome::ok(format!("`{name}` is outside of the cluster")),
        (Some(true), _) if records.is_empty() => {
            CheckOutcome::warning(format!("{full} exists without records: {}", truth.why))
        }
        (Some(true), _) => CheckOutcome::ok(format!("{full} is {}", records.join(", "))),
        _ => CheckOutcome::fault(format!("{full} does not exist: {}", truth.why)),
    };
    Some(outcome.citing(STEP.needs.iter().copied()))
}
