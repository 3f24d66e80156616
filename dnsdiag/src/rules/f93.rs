//! F93: kube-dns (dnsmasq) has its number of questions open upstream, and refuses more.

use netlab_plugin::evidence::Outcome;

use super::{Class, Effect, Hit, Rule, command};
use crate::bundle::layout;
use crate::view::{LogClass, View, row_ids};

pub(super) const RULE: Rule = Rule {
    mode: "F93",
    id: "KUBE-DNS-CONCURRENCY",
    class: Class::DnsServer,
    title: "kube-dns (dnsmasq) has reached its number of concurrent questions",
    needs: &[layout::PROBES, layout::DNS_LOG, layout::PODS, layout::SERVICES],
    latent: false,
    explains: &[Effect::Lost, Effect::Error],
    test,
};

fn test(view: &View<'_>) -> Option<Hit> {
    let line = view.logged(LogClass::Concurrency)?;
    if !super::f81::of_dnsmasq(view) {
        return None;
    }
    let outside = view.outside();
    let failing: Vec<_> = outside
        .iter()
        .copied()
        .filter(|(_, probe)| {
            matches!(probe.result, Outcome::Refused | Outcome::Servfail) || !probe.all_answered()
        })
        .collect();
    let (_, first) = failing.first().copied()?;
    let segments = view.segments();
    // A log tells of other days, too; a refusal is what dnsmasq says then.
    let refused = failing.iter().any(|(_, probe)| probe.result == Outcome::Refused);
    let summary = "kube-dns has too many questions open";
    let mut hit = if refused { Hit::high(summary) } else { Hit::medium(summary) }
        .because(format!("{}:{}: {}", layout::DNS_LOG, line.line, line.text.trim()))
        .because(format!(
            "{}: {}, {} of {} questions for names outside fail",
            first.name,
            first.result.as_str(),
            failing.len(),
            outside.len()
        ))
        .citing([layout::DNS_LOG])
        .citing(row_ids(&failing));
    if segments.vip_udp.reach.answers() {
        hit = hit.because("names of the cluster are answered").citing(segments.vip_udp.ids);
    }
    Some(
        hit.fix("run more kube-dns pods (its autoscaler's coresPerReplica, nodesPerReplica), or a DNS cache on each node")
            .fix("ask less: lower ndots, names outside with their final dot; see why the upstream is slow")
            .verify(command::query(view, &first.name, first.server, "")),
    )
}
