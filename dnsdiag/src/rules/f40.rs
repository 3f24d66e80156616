//! F40: a name outside is searched in every suffix first: many questions for one answer.

use netlab_plugin::evidence::Outcome;

use super::{Class, Hit, Rule};
use crate::bundle::layout;
use crate::view::View;

pub(super) const RULE: Rule = Rule {
    mode: "F40",
    id: "NDOTS-AMPLIFY",
    class: Class::DnsConfig,
    title: "a name outside is asked in every search domain before it is asked as it is",
    needs: &[layout::POD_RESOLV_CONF, layout::PROBES, layout::DNS_METRICS],
    latent: true,
    explains: &[],
    test,
};

/// The share of denials above which the search list, and not what is asked for, makes the servers' work.
const NOISE: f64 = 0.5;

fn test(view: &View<'_>) -> Option<Hit> {
    let conf = view.conf()?;
    // The default search list costs every name outside so much: it is a cause only where the servers feel it.
    let all = view.metric("coredns_dns_responses_total", &[])?;
    let denied = view.metric("coredns_dns_responses_total", &[("rcode", "NXDOMAIN")])?;
    if all <= 0.0 || denied < NOISE * all {
        return None;
    }
    let (name, candidates) = view.target.names.iter().find_map(|name| {
        let candidates = view.candidates(name);
        let (last, before) = candidates.split_last()?;
        let searched =
            before.len() >= 2 && before.iter().all(|one| one.any(|told| told.result == Outcome::Nxdomain));
        (last.suffix.is_none() && last.resolves() && searched && view.is_outside(name))
            .then(|| (name.clone(), candidates))
    })?;
    let queries = candidates.len() * 2;
    let hit = Hit::high(format!("`{name}` costs {queries} queries instead of 2"))
        .because(format!(
            "it has {} dots and ndots is {}: {} search domains are asked first and deny it, for A and AAAA",
            name.matches('.').count(),
            conf.options.ndots,
            candidates.len() - 1
        ))
        .because(format!("{:.0}% of what the DNS servers answer is NXDOMAIN ({})", 100.0 * denied / all, layout::DNS_METRICS))
        .citing([layout::POD_RESOLV_CONF, layout::DNS_METRICS])
        .citing(candidates.iter().flat_map(crate::view::Candidate::ids))
        .fix(format!("write `{name}.` with its last dot, or set ndots:2 in the pod's dnsConfig (not below what its own names have)"))
        .fix("a DNS cache on each node makes the denials cheap")
        .verify(format!("netlab dns plan {name} --resolv-conf pod/resolv.conf"));
    Some(hit)
}
