//! F18: the DNS pods are killed for want of memory.

use super::{Class, Hit, Rule};
use crate::bundle::layout;
use crate::view::View;

pub(super) const RULE: Rule = Rule {
    mode: "F18",
    id: "COREDNS-OOM",
    class: Class::DnsServer,
    title: "the DNS pods are killed for want of memory",
    needs: &[layout::PODS, layout::SERVICES, layout::PROBES],
    latent: false,
    test,
};

fn test(view: &View<'_>) -> Option<Hit> {
    let killed: Vec<_> =
        view.dns_containers().into_iter().filter(|one| one.ended.as_deref() == Some("OOMKilled")).collect();
    let first = killed.first()?;
    // Old news, unless something fails now or was reported.
    let segments = view.segments();
    let fails = !segments.vip_udp.reach.answers();
    if !fails && view.evidence.symptom().is_none() {
        return None;
    }
    let when = first.ended_at.as_ref().map_or(String::new(), |at| format!(", last at {at}"));
    let mut hit = Hit::high(format!("{} of the DNS pods run out of memory", killed.len()))
        .because(format!("{} was killed and started {} times again{when}", first.pod, first.restarts))
        .citing([layout::PODS])
        .citing(segments.vip_udp.ids);
    if let Some((id, _)) = view.evidence.symptom() {
        hit = hit.citing([id]);
    }
    Some(
        hit.fix("raise the memory limit of the DNS pods (170Mi is for small clusters), or `pods insecure` instead of verified")
            .verify("kubectl -n kube-system get pods -l k8s-app=kube-dns -o wide"),
    )
}
