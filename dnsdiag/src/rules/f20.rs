//! F20: one of several DNS pods does not answer, or answers wrongly, wherever it is asked from.

use netlab_plugin::evidence::{Outcome, Transport};

use super::{Class, Effect, Hit, Rule};
use crate::bundle::layout;
use crate::view::{Ask, View, is_canary, seen};

pub(super) const RULE: Rule = Rule {
    mode: "F20",
    id: "COREDNS-ONE-BAD-REPLICA",
    class: Class::DnsServer,
    title: "one of several DNS pods does not answer, or answers otherwise than the others",
    needs: &[layout::SERVICES, layout::SLICES, layout::PODS, layout::PROBES],
    latent: false,
    explains: &[Effect::Lost, Effect::Refused, Effect::Rejected, Effect::Error],
    test,
};

fn test(view: &View<'_>) -> Option<Hit> {
    let endpoints = view.ready_dns_addresses(Transport::Udp);
    if endpoints.len() < 2 {
        return None;
    }
    let (mut good, mut bad) = (Vec::new(), Vec::new());
    for to in &endpoints {
        // From everywhere: an endpoint that answers somebody is not itself at fault.
        let rows: Vec<_> = view
            .rows(&Ask::default().at(*to).over(Transport::Udp))
            .into_iter()
            .filter(|(_, probe)| is_canary(&probe.name))
            .collect();
        let from_pod = view.canary(&Ask::from_pod().at(*to).over(Transport::Udp));
        let all = seen(&rows);
        let errors = rows
            .iter()
            .filter(|(_, probe)| matches!(probe.result, Outcome::Servfail | Outcome::Refused))
            .count();
        let positions: std::collections::BTreeSet<_> =
            rows.iter().map(|(_, probe)| probe.from.clone()).collect();
        if from_pod.reach.answers() && errors == 0 {
            good.push(*to);
        } else if all.sent > 0 && (errors == rows.len() || (all.answered == 0 && positions.len() > 1)) {
            bad.push((*to, all, errors > 0));
        }
    }
    let (address, found, errors) = bad.first()?;
    if good.is_empty() || bad.len() + good.len() < endpoints.len() {
        return None;
    }
    let pod = view.dns_endpoints().into_iter().find(|endpoint| endpoint.address == address.ip());
    let (name, node) = pod.map_or_else(
        || (address.ip().to_string(), None),
        |endpoint| (endpoint.pod.unwrap_or_else(|| address.ip().to_string()), endpoint.node),
    );
    let how = if *errors { "answers with errors" } else { found.reach.as_str() };
    let hit = Hit::high(format!("{} of {} DNS pods is bad: {name}", bad.len(), endpoints.len()))
        .because(format!("{name} ({address}) {how}, {} answered, from wherever it is asked", found.count()))
        .because(format!(
            "about {}% of the flows go there{}",
            100 * bad.len() / endpoints.len(),
            if *errors { String::new() } else { effect(view) }
        ))
        .citing(found.ids.clone())
        .citing(good.iter().flat_map(|to| view.canary(&Ask::from_pod().at(*to)).ids))
        .fix(format!(
            "delete pod {name}{}",
            node.map_or(String::new(), |node| format!("; if it comes back so, cordon {node}"))
        ))
        .verify(format!("netlab dns query kubernetes.default.svc.cluster.local. --server {}", address.ip()));
    Some(hit)
}

/// What a resolver makes of a flow that nobody answers, as measured: connection tracking leads a flow to the endpoint that its first
/// packet was led to, so what is asked again from the same port is asked of the same pod.
fn effect(view: &View<'_>) -> String {
    let options = view.conf().map(|conf| conf.options);
    let (timeout, attempts) =
        options.map_or((5, 2), |options| (options.timeout.max(1), options.attempts.max(1)));
    match view.libc() {
        Some(("musl", _)) => {
            format!(": musl asks again from the same port, so the same pod, and gives up after {timeout} s")
        }
        Some(("go", _)) => {
            format!(": Go asks again from a new port after {timeout} s, which may lead to another pod")
        }
        Some(_) => format!(
            ": glibc asks again from the same port, so the same pod, {} s for each name tried",
            timeout * attempts
        ),
        None => String::new(),
    }
}
