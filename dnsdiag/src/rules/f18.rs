//! F18: the DNS pods are killed for want of memory.

use super::{Class, Effect, Hit, Rule};
use crate::bundle::layout;
use crate::view::{Reach, View};

pub(super) const RULE: Rule = Rule {
    mode: "F18",
    id: "COREDNS-OOM",
    class: Class::DnsServer,
    title: "the DNS pods are killed for want of memory",
    needs: &[layout::PODS, layout::SERVICES, layout::PROBES],
    latent: false,
    explains: &[Effect::Lost, Effect::Refused, Effect::Rejected, Effect::Error, Effect::Slow],
    test,
};

fn test(view: &View<'_>) -> Option<Hit> {
    let killed: Vec<_> =
        view.dns_containers().into_iter().filter(|one| one.ended.as_deref() == Some("OOMKilled")).collect();
    let first = killed.first()?;
    let segments = view.segments();
    // Old news, unless that very pod is away or fails now, or questions are lost and nobody asked it.
    let endpoints = view.dns_endpoints();
    let now = killed.iter().any(|one| {
        let of_pod = endpoints
            .iter()
            .filter(|to| to.pod.as_ref().is_some_and(|pod| one.pod.rsplit('/').next() == Some(&**pod)));
        let addresses: Vec<_> = of_pod.map(|to| to.address).collect();
        let asked = segments.endpoints_udp.iter().filter(|(to, _)| addresses.contains(&to.ip()));
        let mut asked = asked.filter(|(_, seen)| seen.reach != Reach::NotAsked).peekable();
        let unknown = asked.peek().is_none();
        !one.ready
            || one.waiting.is_some()
            || unknown && !segments.vip_udp.reach.answers()
            || asked.any(|(_, seen)| !seen.reach.answers())
    });
    if !now && view.evidence.symptom().is_none() {
        return None;
    }
    let when = first.ended_at.as_ref().map_or(String::new(), |at| format!(", last at {at}"));
    let mut hit = Hit::high(format!("{} of the DNS pods run out of memory", killed.len()))
        .because(format!("{} was killed and started {} times again{when}", first.pod, first.restarts))
        .citing([layout::PODS])
        .citing(if now { segments.udp_ids() } else { Vec::new() });
    if let Some((id, _)) = view.evidence.symptom() {
        hit = hit.citing([id]);
    }
    Some(
        hit.fix("raise the memory limit of the DNS pods (170Mi is for small clusters), or `pods insecure` instead of verified")
            .verify("kubectl -n kube-system get pods -l k8s-app=kube-dns -o wide"),
    )
}
