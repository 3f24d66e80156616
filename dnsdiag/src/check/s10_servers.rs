//! S10: the DNS pods themselves: restarts, and what their log says.

use netlab_plugin::check::CheckOutcome;
use netlab_plugin::evidence::Outcome;

use super::Step;
use crate::bundle::layout;
use crate::view::{Ask, LogClass, View};

pub(super) const STEP: Step = Step {
    id: "S10",
    name: "servers",
    summary: "the DNS pods: restarts and why, log lines that mean something, metrics, Corefile",
    needs: &[layout::PODS, layout::DNS_LOG, layout::DNS_METRICS, layout::COREFILE],
    costs: "API reads and logs of the DNS pods; metrics by port 9153",
    examine,
};

fn examine(view: &View<'_>) -> Option<CheckOutcome> {
    let containers = view.dns_containers();
    let log = view.dns_log();
    if containers.is_empty() && log.is_empty() && !view.knows(layout::DNS_LOG) {
        return view
            .dns_service()
            .is_some()
            .then(|| CheckOutcome::not_examined("state and log of the DNS pods not recorded"));
    }
    let mut faults = Vec::new();
    let mut cited = Vec::new();
    for one in containers.iter().filter(|one| !one.ready || one.waiting.is_some()) {
        let why = one.waiting.as_ref().or(one.ended.as_ref()).map_or("not ready", String::as_str);
        faults.push(format!("{} {why}, {} restarts", one.pod, one.restarts));
        cited.push(layout::PODS);
    }
    let telling = |class: LogClass| !matches!(class, LogClass::UpstreamTimeout | LogClass::UpstreamRefused);
    let lines: Vec<_> = log
        .iter()
        .filter(|line| telling(line.class))
        .chain(log.iter().filter(|line| !telling(line.class)))
        .collect();
    // What a log tells may be over: at every start the servers wait for the API, and now and then an upstream is late.
    let failing = view.rows(&Ask::from_pod()).iter().any(|(_, probe)| {
        !probe.all_answered()
            || matches!(probe.result, Outcome::Servfail | Outcome::Refused | Outcome::Formerr)
    });
    let mut over = None;
    if let Some(line) = lines.first().filter(|_| !failing) {
        over = Some(format!(
            "{:?} in the log ({}:{}), and nothing fails now",
            line.class,
            layout::DNS_LOG,
            line.line
        ));
    } else if let Some(line) = lines.first() {
        faults.push(format!("{:?} in the log ({}:{})", line.class, layout::DNS_LOG, line.line));
        cited.push(layout::DNS_LOG);
    }
    if let Some(problem) = view.corefile_refused() {
        faults.push(format!("Corefile refused at {}:{}", layout::COREFILE, problem.position.line));
        cited.push(layout::COREFILE);
    }
    let restarts: u64 = containers.iter().map(|one| one.restarts).fold(0, u64::saturating_add);
    let mut outcome = if faults.is_empty()
        && let Some(over) = over
    {
        CheckOutcome::warning(over).citing([layout::DNS_LOG])
    } else if faults.is_empty() {
        let line = match restarts {
            0 => "no restarts".to_owned(),
            1 => "1 restart".to_owned(),
            more => format!("{more} restarts"),
        };
        let state = match containers.len() {
            0 => "nothing in their log".to_owned(),
            ready => format!("{ready} DNS containers ready, {line}"),
        };
        CheckOutcome::ok(state).citing([layout::PODS])
    } else {
        CheckOutcome::fault(faults.join("; ")).citing(cited)
    };
    if !view.knows(layout::DNS_LOG) {
        outcome = outcome.without(format!("{} not recorded", layout::DNS_LOG));
    }
    Some(outcome)
}
