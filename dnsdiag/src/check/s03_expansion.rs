//! S3: which questions the libc makes of the name.

use netlab_plugin::check::CheckOutcome;

use super::Step;
use crate::bundle::layout;
use crate::view::View;

pub(super) const STEP: Step = Step {
    id: "S3",
    name: "expansion",
    summary: "the candidates that search and ndots make of each name, and how many queries they cost",
    needs: &[layout::POD_RESOLV_CONF, layout::PROBES],
    costs: "nothing: it is computed",
    examine,
};

fn examine(view: &View<'_>) -> Option<CheckOutcome> {
    let name = view.target.names.first()?;
    let Some(libc) = view.resolver() else {
        return Some(CheckOutcome::not_examined("the libc of the container is not known"));
    };
    let Some(replay) = view.replay(name) else {
        return Some(CheckOutcome::not_examined(format!("{} not recorded", layout::POD_RESOLV_CONF)));
    };
    let candidates = &replay.plan.candidates;
    let libc = libc.to_string().replace(':', " ");
    if let Some(first) = replay.unasked.first() {
        let line = format!("{libc}: {} candidates for `{name}`", candidates.len());
        let outcome = CheckOutcome::warning(line).citing([layout::POD_RESOLV_CONF]);
        return Some(outcome.without(format!("no question for {first} is recorded")));
    }
    let queries = replay.plan.cost.queries;
    let plural = if queries == 1 { "query" } else { "queries" };
    let place = replay.plan.cost.meant.as_ref().and_then(|meant| {
        candidates.iter().position(|candidate| {
            candidate.trim_end_matches('.').eq_ignore_ascii_case(meant.trim_end_matches('.'))
        })
    });
    let outcome = match place {
        Some(place) => CheckOutcome::ok(format!(
            "{libc}: candidate {} of {} answers, {queries} {plural}",
            place + 1,
            candidates.len()
        )),
        None => CheckOutcome::fault(format!(
            "{libc}: none of {} candidates for `{name}` answers",
            candidates.len()
        )),
    };
    Some(outcome.citing([layout::POD_RESOLV_CONF]).citing(replay.ids))
}
