//! F69: the pod is older than the configuration of its kubelet, and its file is what was right then.

use netlab_plugin::evidence::Outcome;

use super::{Class, Effect, Hit, Rule, command};
use crate::bundle::layout;
use crate::kubelet;
use crate::view::{Candidate, View};

pub(super) const RULE: Rule = Rule {
    mode: "F69",
    id: "RESOLV-STALE",
    class: Class::DnsConfig,
    title: "the pod's resolv.conf is older than the kubelet's configuration",
    needs: &[
        layout::POD_RESOLV_CONF,
        layout::KUBELET,
        layout::NODE_RESOLV_CONF,
        layout::PODS,
        layout::SERVICES,
        layout::SLICES,
        layout::NAMESPACES,
        layout::PROBES,
    ],
    latent: false,
    explains: &[Effect::Lost, Effect::Refused, Effect::Rejected, Effect::Unroutable, Effect::Denied],
    test,
};

fn test(view: &View<'_>) -> Option<Hit> {
    if !view.older_than_config() {
        return None;
    }
    let differences = view.differences()?;
    differences.iter().find(|one| one.class != kubelet::Class::Options)?;
    // The old file may serve still.
    let servers = view.nameservers_seen();
    let now_written = view.expected()?;
    let of_before = |address: std::net::IpAddr| {
        !now_written.nameservers.iter().any(|entry| entry.value == address.to_string())
    };
    let dead = !servers.is_empty()
        && servers.iter().all(|server| server.udp.reach.fails() && of_before(server.address));
    let denied: Vec<String> = view
        .target
        .names
        .iter()
        // What should not exist is missed by no search list.
        .filter(|name| view.truth(&view.intended(name)).and_then(|truth| truth.exists()) != Some(false))
        .map(|name| view.candidates(name))
        .filter(|candidates| !candidates.iter().any(Candidate::resolves))
        .flatten()
        .filter(|one| one.any(|told| told.result == Outcome::Nxdomain))
        .flat_map(|one| one.ids())
        .collect();
    let lost = !denied.is_empty();
    let other_list = differences.iter().any(|one| {
        matches!(one.class, kubelet::Class::MissingSearch | kubelet::Class::Truncated | kubelet::Class::Empty)
    });
    if !(dead || lost && other_list) {
        return None;
    }
    let expected = view.expected()?;
    let now: Vec<&str> = expected.nameservers.iter().map(|entry| entry.value.as_str()).collect();
    let subject = view.subject()?;
    let mut hit = Hit::high(format!("{} has the resolv.conf of before", view.target))
        .because(format!(
            "it started {}, before {} changed; the file is written once",
            subject.started().unwrap_or("then"),
            layout::KUBELET
        ))
        .citing([layout::POD_RESOLV_CONF, layout::KUBELET, layout::PODS])
        .citing(denied);
    let all = |of: fn(&kubelet::Difference) -> &Vec<String>| {
        let values: Vec<&str> = differences.iter().flat_map(of).map(String::as_str).collect();
        if values.is_empty() { "less".to_owned() } else { values.join(" ") }
    };
    hit = hit.because(format!(
        "it has {}; kubelet writes {} now",
        all(|one| &one.extra),
        all(|one| &one.missing)
    ));
    for server in &servers {
        if server.udp.reach.fails() {
            hit = hit
                .because(format!(
                    "{}: {} ({})",
                    server.address,
                    server.udp.reach.as_str(),
                    server.udp.count()
                ))
                .citing(server.udp.ids.clone());
        }
    }
    for now in &now {
        let Ok(address) = now.parse() else { continue };
        let seen = view.canary(&crate::view::Ask::from_pod().to([address]));
        if seen.reach.answers() {
            hit = hit.because(format!("{now} answers the same pod")).citing(seen.ids);
        }
    }
    Some(hit.fix(format!("recreate {} and every pod that is as old", view.target)).verify(command::query(
        view,
        &command::canary(view),
        now.first().copied().unwrap_or("10.96.0.10"),
        "",
    )))
}
