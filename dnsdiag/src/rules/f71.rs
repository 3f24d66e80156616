//! F71: the node's DNS cache runs, and does not reach the DNS pods behind it, so what it does not hold fails.

use std::net::IpAddr;

use netlab_plugin::evidence::{Outcome, Probe, Transport};

use super::{Class, Effect, Hit, Rule, command};
use crate::bundle::layout;
use crate::view::{Ask, Server, View, is_canary, row_ids};

pub(super) const RULE: Rule = Rule {
    mode: "F71",
    id: "NODELOCAL-UPSTREAM",
    class: Class::DnsServer,
    title: "the node's DNS cache cannot reach the cluster's DNS pods",
    needs: &[layout::POD_RESOLV_CONF, layout::SERVICES, layout::SLICES, layout::PODS, layout::PROBES],
    latent: false,
    explains: &[Effect::Lost, Effect::Error],
    test,
};

fn test(view: &View<'_>) -> Option<Hit> {
    let cache = view.node_local()?;
    let domain = view.domain().unwrap_or_else(|| "cluster.local".to_owned());
    let rows = view.rows(&Ask::from_pod().to([cache.address]).below(&*domain));
    let fails = |probe: &Probe| probe.result == Outcome::Servfail || probe.some_answered();
    // The servers behind the cache must be right, or it is they who fail.
    let direct: Vec<_> = view
        .ready_dns_addresses(Transport::Udp)
        .into_iter()
        .flat_map(|to| view.rows(&Ask::default().at(to)))
        .filter(|(_, probe)| is_canary(&probe.name))
        .collect();
    // Other names may fail by themselves (an ExternalName of which the target fails), unless those servers have them.
    let behind = |probe: &Probe| {
        let to = view.ready_dns_addresses(Transport::Udp);
        is_canary(&probe.name)
            || view.rows(&Ask::default()).into_iter().any(|(_, other)| {
                to.iter().any(|to| to.ip() == other.server)
                    && other.name.eq_ignore_ascii_case(&probe.name)
                    && matches!(other.result, Outcome::Noerror | Outcome::Nxdomain)
            })
    };
    let failing: Vec<_> = rows.iter().copied().filter(|(_, probe)| fails(probe) && behind(probe)).collect();
    let (_, first) = failing.first().copied()?;
    let right = direct.iter().filter(|(_, probe)| probe.result == Outcome::Noerror).count();
    if right == 0
        || direct.iter().any(|(_, probe)| matches!(probe.result, Outcome::Servfail | Outcome::Refused))
    {
        return None;
    }
    let mut hit = Hit::high(format!("the node's cache {} fails for the cluster", cache.address))
        .because(format!(
            "{}: {} from the cache, and the DNS pods behind it answer",
            first.name,
            first.result.as_str()
        ))
        .citing(row_ids(&failing))
        .citing(row_ids(&direct));
    let held: Vec<_> =
        rows.iter().copied().filter(|(_, probe)| !fails(probe) && probe.all_answered()).collect();
    if !held.is_empty() {
        hit = hit.because("what the cache still holds is answered").citing(row_ids(&held));
    }
    let mut explained = false;
    for upstream in upstreams(view, &domain) {
        let what = view.server(upstream);
        let over_tcp = view.seen(&Ask::from_node().to([upstream]).over(Transport::Tcp));
        if matches!(what, Some(Server::Unowned)) {
            hit = hit
                .because(format!("its Corefile forwards {domain} to {upstream}, which no Service owns"))
                .citing([layout::NODELOCAL_COREFILE, layout::SERVICES])
                .fix(format!(
                    "let the cache forward to the ClusterIP of kube-dns-upstream, not to {upstream}"
                ));
            explained = true;
        } else if over_tcp.sent > 0 && !over_tcp.reach.answers() {
            let limit = view.dns_pods().iter().any(|(key, _)| key.name.starts_with("kube-dns-"));
            hit = hit
                .because(format!("TCP from the node to {upstream}: {} ({})", over_tcp.reach.as_str(), over_tcp.count()))
                .citing(over_tcp.ids)
                .fix(if limit {
                    "raise the number of kube-dns pods (dnsmasq takes 20 connections over TCP at a time), or let the cache use UDP (prefer_udp)".to_owned()
                } else {
                    format!("let TCP 53 through from the node to {upstream}: the cache asks over TCP (force_tcp)")
                });
            explained = true;
        }
    }
    if !explained {
        hit.confidence = super::Confidence::Medium;
        hit = hit
            .fix("read the log of the node's cache, and compare its upstream with Service kube-dns-upstream");
    }
    Some(hit.verify(command::query(view, &command::canary(view), cache.address, "")))
}

/// Where the cache's Corefile sends names of the cluster.
fn upstreams(view: &View<'_>, domain: &str) -> Vec<IpAddr> {
    let text = view.text(layout::NODELOCAL_COREFILE).unwrap_or_default();
    let mut found = Vec::new();
    let mut inside = false;
    for line in text.lines() {
        let words: Vec<&str> = line.split_ascii_whitespace().filter(|word| *word != "{").collect();
        match words.as_slice() {
            ["forward", ".", to @ ..] if inside => {
                found.extend(to.iter().filter_map(|to| to.parse::<IpAddr>().ok()));
            }
            zones if line.trim_end().ends_with('{') && !line.starts_with(char::is_whitespace) => {
                inside = zones.iter().any(|zone| zone.split(':').next() == Some(domain));
            }
            _ => {}
        }
    }
    if found.is_empty() {
        let upstream = view.loaded.cluster.services.iter().find(|(key, _)| key.name == "kube-dns-upstream");
        found.extend(upstream.into_iter().flat_map(|(_, service)| service.cluster_ips.clone()));
    }
    found
}
