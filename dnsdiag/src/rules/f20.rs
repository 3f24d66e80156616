//! F20: one of several DNS pods does not answer, or answers wrongly, wherever it is asked from.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use netlab_plugin::evidence::{Outcome, Probe, Transport};

use super::{Class, Effect, Hit, Rule, command};
use crate::bundle::layout;
use crate::view::{Ask, DnsEndpoint, Seen, View, is_canary, seen};

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

/// A DNS pod with what its addresses say.
struct Replica {
    name: String,
    node: Option<String>,
    addresses: Vec<SocketAddr>,
    found: Seen,
    errors: bool,
}

fn test(view: &View<'_>) -> Option<Hit> {
    // A pod of both families has two addresses and is one pod: it is bad when it is so at every one.
    let mut pods: BTreeMap<String, Vec<(SocketAddr, Option<DnsEndpoint>)>> = BTreeMap::new();
    let endpoints = view.dns_endpoints();
    for to in view.ready_dns_addresses(Transport::Udp) {
        let of = endpoints.iter().find(|endpoint| endpoint.address == to.ip()).cloned();
        let name = of.as_ref().and_then(|endpoint| endpoint.pod.clone());
        pods.entry(name.unwrap_or_else(|| to.ip().to_string())).or_default().push((to, of));
    }
    if pods.len() < 2 {
        return None;
    }
    let count = pods.len();
    let (mut good, mut bad) = (Vec::new(), Vec::new());
    for (name, addresses) in pods {
        let judged: Vec<Option<bool>> = addresses.iter().map(|(to, _)| is_good(view, *to)).collect();
        let asked: Vec<SocketAddr> = addresses.iter().map(|(to, _)| *to).collect();
        if judged.iter().all(|one| *one == Some(true)) {
            good.extend(asked);
        } else if judged.iter().all(|one| *one == Some(false)) {
            let rows: Vec<_> = asked.iter().flat_map(|to| canaries(view, *to)).collect();
            bad.push(Replica {
                name,
                node: addresses.into_iter().find_map(|(_, of)| of?.node),
                addresses: asked,
                errors: rows.iter().any(|(_, probe)| is_error(probe)),
                found: seen(&rows),
            });
        } else {
            return None;
        }
    }
    let Replica { name, node, addresses, found, errors } = bad.first()?;
    if good.is_empty() {
        return None;
    }
    // Where the pod itself hears none of them, something before them is first.
    let heard = |to: &SocketAddr| view.canary(&Ask::from_pod().at(*to).over(Transport::Udp)).answered > 0;
    let partial = !good.iter().any(heard);
    let how = if *errors { "answers with errors" } else { found.reach.as_str() };
    let hit = Hit::high(format!(
        "{} of {count} DNS pods {} bad: {name}",
        bad.len(),
        if bad.len() == 1 { "is" } else { "are" }
    ))
    .because(format!(
        "{name} ({}) {how}, {} answered, from wherever it is asked",
        list(addresses),
        found.count()
    ))
    .because(format!(
        "about {}% of the flows go there{}",
        100 * bad.len() / count,
        if *errors { String::new() } else { effect(view) }
    ))
    .citing(found.ids.clone())
    .citing(good.iter().flat_map(|to| view.canary(&Ask::from_pod().at(*to)).ids))
    .fix(format!(
        "delete pod {name}{}",
        node.as_ref().map_or(String::new(), |node| format!("; if it comes back so, cordon {node}"))
    ))
    .verify(command::query(view, &command::canary(view), addresses.first()?.ip(), ""));
    Some(hit.partial_if(partial))
}

fn list(addresses: &[SocketAddr]) -> String {
    addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn is_error(probe: &Probe) -> bool {
    matches!(probe.result, Outcome::Servfail | Outcome::Refused)
}

/// Whether an address of a DNS pod answers as it should, or does not, whoever asks; `None` when it is neither. From everywhere:
/// an endpoint that answers somebody is not itself at fault.
fn is_good(view: &View<'_>, to: SocketAddr) -> Option<bool> {
    let rows = canaries(view, to);
    let all = seen(&rows);
    let errors = rows.iter().filter(|(_, probe)| is_error(probe)).count();
    let positions: BTreeSet<_> = rows.iter().map(|(_, probe)| probe.from.clone()).collect();
    if all.answered > 0 && errors == 0 {
        return Some(true);
    }
    let bad = all.sent > 0 && (errors == rows.len() || (all.answered == 0 && positions.len() > 1));
    bad.then_some(false)
}

fn canaries<'v>(view: &'v View<'_>, to: SocketAddr) -> Vec<(&'v str, &'v Probe)> {
    let rows = view.rows(&Ask::default().at(to).over(Transport::Udp));
    rows.into_iter().filter(|(_, probe)| is_canary(&probe.name)).collect()
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
