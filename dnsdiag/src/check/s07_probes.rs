//! S7: the questions that were asked from the pod's own network position, and how they went.

use std::collections::BTreeMap;
use std::net::IpAddr;

use netlab_plugin::check::CheckOutcome;
use netlab_plugin::evidence::Transport;

use super::Step;
use crate::bundle::layout;
use crate::view::{Ask, Together, View, told};

pub(super) const STEP: Step = Step {
    id: "S7",
    name: "probes",
    summary: "raw questions from the pod to every nameserver and DNS endpoint, UDP and TCP",
    needs: &[layout::PROBES],
    costs: "up to 50 queries from the pod's network namespace; CAP_SYS_ADMIN on its node",
    examine,
};

#[expect(clippy::unnecessary_wraps, reason = "the signature of every step")]
fn examine(view: &View<'_>) -> Option<CheckOutcome> {
    let all = view.seen(&Ask::from_pod());
    if all.sent == 0 {
        return Some(CheckOutcome::not_examined("what became of questions of the pod is not known"));
    }
    let slowest = all.slowest.map_or(String::new(), |ms| format!(", slowest {ms:.1} ms"));
    if all.reach.answers() {
        let line = format!("{} of {} answered{slowest}", all.answered, all.sent);
        let amiss = view.amiss();
        return Some(match amiss.as_slice() {
            [] => CheckOutcome::ok(line).citing(all.ids),
            [one] => CheckOutcome::warning(format!("{line}; {}", one.what)).citing(all.ids),
            [first, more @ ..] => {
                let what = format!("{line}; {}; {} more like that", first.what, more.len());
                CheckOutcome::warning(what).citing(all.ids)
            }
        });
    }
    let mut servers: BTreeMap<IpAddr, Vec<String>> = BTreeMap::new();
    for (_, probe) in view.rows(&Ask::from_pod()) {
        servers.entry(probe.server).or_default();
    }
    for (server, parts) in &mut servers {
        for transport in [Transport::Udp, Transport::Tcp] {
            let seen = view.seen(&Ask::from_pod().to([*server]).over(transport));
            if seen.sent > 0 && !seen.reach.answers() {
                let icmp = view.refused_by(&seen).map(|icmp| format!(" (ICMP {})", told(icmp)));
                parts.push(format!(
                    "{transport} {} {}{}",
                    seen.reach.as_str(),
                    seen.count(),
                    icmp.unwrap_or_default()
                ));
            }
        }
    }
    let company: Vec<_> = view.together().into_iter().filter(Together::is_company).collect();
    for one in &company {
        servers.entry(one.server.ip()).or_default().push(one.words());
    }
    let failing: Vec<String> = servers
        .into_iter()
        .filter(|(_, parts)| !parts.is_empty())
        .map(|(server, parts)| format!("{server} {}", parts.join(", ")))
        .collect();
    let outcome = match view.cut_off() {
        Some(why) => {
            CheckOutcome::fault(format!("{why}; {}", failing.join("; "))).citing([layout::POD_ROUTES])
        }
        None => CheckOutcome::fault(failing.join("; ")),
    };
    Some(outcome.citing(all.ids))
}
