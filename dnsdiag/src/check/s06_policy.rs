//! S6: what policy says about the pod's questions, for the address and port behind the Service.

use netlab_plugin::check::CheckOutcome;
use netlab_plugin::evidence::Transport;

use super::Step;
use crate::bundle::layout;
use crate::view::{PolicyAnswer, PolicyVerdict, View};

pub(super) const STEP: Step = Step {
    id: "S6",
    name: "policy",
    summary: "policies of the pod and of the DNS pods, for UDP and TCP, after translation",
    needs: &[layout::POLICIES, layout::PODS, layout::NAMESPACES, layout::SERVICES, layout::SLICES],
    costs: "API reads; no query",
    examine,
};

fn examine(view: &View<'_>) -> Option<CheckOutcome> {
    let missing = view.missing(STEP.needs);
    if !missing.is_empty() {
        return Some(CheckOutcome::not_examined(format!("{} not recorded", missing.join(", "))));
    }
    if view.subject()?.host_network() {
        return Some(
            CheckOutcome::ok("does not select it: it uses its node's network").citing([layout::PODS]),
        );
    }
    let mut parts: Vec<String> = Vec::new();
    let (mut denied, mut unknown, mut asked) = (false, Vec::new(), false);
    for transport in [Transport::Udp, Transport::Tcp] {
        let answers: Vec<PolicyAnswer> = view
            .ready_dns_addresses(transport)
            .into_iter()
            .map(|to| view.policy(transport, to.ip(), to.port()))
            .collect();
        // The worst of them speaks for all.
        let rank = |answer: &&PolicyAnswer| match answer.verdict {
            PolicyVerdict::DenyEgress | PolicyVerdict::DenyIngress => 2,
            PolicyVerdict::Unknown => 1,
            PolicyVerdict::Allow => 0,
        };
        let Some(worst) = answers.iter().max_by_key(rank) else { continue };
        asked = true;
        let port = worst.port;
        let name = transport.to_string().to_lowercase();
        match worst.verdict {
            PolicyVerdict::Allow => {
                let entry = worst.side.as_ref().and_then(|side| side.entry);
                parts.push(entry.map_or(format!("{name}/{port} allow"), |entry| {
                    format!("{name}/{port} allow (entry {entry})")
                }));
            }
            PolicyVerdict::DenyEgress | PolicyVerdict::DenyIngress => {
                denied = true;
                let cite = worst.cite();
                match parts.last_mut() {
                    // Both for one reason are told once.
                    Some(last) if last.ends_with(&format!(" deny: {cite}")) => {
                        *last = format!("udp/{port}, {name}/{port} deny: {cite}");
                    }
                    _ => parts.push(format!("{name}/{port} deny: {cite}")),
                }
            }
            PolicyVerdict::Unknown => unknown.push(worst.cite()),
        }
    }
    if !asked {
        return Some(CheckOutcome::not_examined("no ready DNS endpoint to ask about"));
    }
    let line = parts.join(", ");
    let outcome = match (denied, unknown.first()) {
        (true, _) => CheckOutcome::fault(line),
        (false, Some(why)) => return Some(CheckOutcome::not_examined(why.clone())),
        (false, None) => CheckOutcome::ok(line),
    };
    Some(outcome.citing([layout::POLICIES]))
}
