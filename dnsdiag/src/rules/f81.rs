//! F81: `CoreDNS` has as many questions open upstream as it may have, and refuses more.

use netlab_plugin::evidence::Outcome;

use super::{Class, Effect, Hit, Rule, command};
use crate::bundle::layout;
use crate::view::{LogClass, View, row_ids};

pub(super) const RULE: Rule = Rule {
    mode: "F81",
    id: "FORWARD-CONCURRENCY",
    class: Class::DnsServer,
    title: "CoreDNS refuses questions for names outside while too many are open upstream",
    needs: &[layout::PROBES, layout::COREFILE],
    latent: false,
    explains: &[Effect::Error],
    test,
};

/// A limit of dnsmasq (kube-dns), which is another mode.
pub(super) fn of_dnsmasq(view: &View<'_>) -> bool {
    let pods = view.dns_pods();
    let container = |name: &str| {
        pods.iter().any(|(key, _)| {
            view.pod_object(key)
                .is_some_and(|pod| serde_json::to_string(pod).is_ok_and(|text| text.contains(name)))
        })
    };
    view.logged(LogClass::Concurrency)
        .is_some_and(|line| line.text.contains("dnsmasq") || line.text.contains("max:"))
        || container("k8s-dns-dnsmasq")
}

fn test(view: &View<'_>) -> Option<Hit> {
    let outside = view.outside();
    let refused: Vec<_> =
        outside.iter().copied().filter(|(_, probe)| probe.result == Outcome::Refused).collect();
    let (_, first) = refused.first().copied()?;
    let segments = view.segments();
    if segments.vip_udp.answered == 0 || of_dnsmasq(view) {
        return None;
    }
    let rejects =
        view.metric("coredns_forward_max_concurrent_rejects_total", &[]).filter(|count| *count > 0.0);
    let line = view.logged(LogClass::Concurrency);
    if rejects.is_none() && line.is_none() {
        return None;
    }
    let limit = view.text(layout::COREFILE)?.lines().enumerate().find_map(|(number, line)| {
        let value = line.trim().strip_prefix("max_concurrent")?.trim().to_owned();
        Some((number + 1, value))
    });
    // The counter counts from the start; the log tells of now.
    let summary = "CoreDNS refuses: too many questions are open";
    let mut hit = if line.is_some() { Hit::high(summary) } else { Hit::medium(summary) }
        .because(format!(
            "{}: REFUSED, {} of {} questions for names outside",
            first.name,
            refused.len(),
            outside.len()
        ))
        .citing(row_ids(&refused))
        .citing(segments.vip_udp.ids);
    if let Some(count) = rejects {
        hit = hit
            .because(format!("coredns_forward_max_concurrent_rejects_total is {count:.0}"))
            .citing([layout::DNS_METRICS]);
    }
    if let Some(line) = line {
        hit = hit
            .because(format!("{}:{}: {}", layout::DNS_LOG, line.line, line.text.trim()))
            .citing([layout::DNS_LOG]);
    }
    if let Some((line, value)) = limit {
        hit = hit
            .because(format!("{}:{line} has max_concurrent {value}", layout::COREFILE))
            .citing([layout::COREFILE]);
    }
    let fine: Vec<_> =
        outside.iter().copied().filter(|(_, probe)| probe.result == Outcome::Noerror).collect();
    if !fine.is_empty() {
        hit =
            hit.because("others of those questions are answered: it comes in bursts").citing(row_ids(&fine));
    }
    Some(
        hit.fix("make the upstream fast or name another one: questions pile up while it is slow")
            .fix("raise max_concurrent in the Corefile's forward (about 2 KB of memory each)")
            .verify(command::query(view, &first.name, first.server, "")),
    )
}
