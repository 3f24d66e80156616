//! F89: the DNS Service keeps questions on the node (`internalTrafficPolicy: Local`), and no DNS pod is there.

use netlab_plugin::evidence::Transport;

use super::{Class, Effect, Hit, Rule, command};
use crate::bundle::layout;
use crate::view::View;

pub(super) const RULE: Rule = Rule {
    mode: "F89",
    id: "PROXY-ITP-LOCAL",
    class: Class::NotDns,
    title: "the DNS Service has internalTrafficPolicy: Local, and the node has no DNS pod",
    needs: &[layout::SERVICES, layout::SLICES, layout::PODS, layout::PROBES],
    latent: false,
    explains: &[Effect::Lost, Effect::Refused, Effect::Rejected],
    test,
};

fn test(view: &View<'_>) -> Option<Hit> {
    let dns = view.dns_service()?;
    let node = view.subject()?.node()?.to_owned();
    let endpoints = view.dns_endpoints();
    let here = endpoints.iter().any(|one| one.ready && one.node.as_deref() == Some(&*node));
    if !dns.service.internal_local || here || !endpoints.iter().any(|one| one.ready) {
        return None;
    }
    let segments = view.segments();
    if !segments.vip_udp.reach.fails() {
        return None;
    }
    let vip = segments.vips.first().copied()?;
    let summary = format!("{} answers on DNS pods' nodes only", dns.key);
    // Where they do not answer directly either, it is not that alone.
    let mut hit = if segments.endpoints_fail() { Hit::medium(summary) } else { Hit::high(summary) }
        .because(format!("internalTrafficPolicy is Local, and no ready DNS pod is on {node}"))
        .because(format!("{vip}: {} ({})", segments.vip_udp.reach.as_str(), segments.vip_udp.count()))
        .citing([layout::SERVICES, layout::SLICES])
        .citing(segments.vip_udp.ids.clone());
    if segments.endpoints_answer() {
        hit = hit
            .because("DNS pods on other nodes answer the pod when asked directly")
            .citing(segments.udp_ids());
    }
    if let Some(proxy) = view.proxy(vip)
        && let Some(port) = proxy.port(&dns.key, Transport::Udp, 53)
    {
        hit = hit.because(format!("the proxy of {node} does as told: {}", port.symptom)).citing([proxy.file]);
    }
    Some(
        hit.fix(format!("set internalTrafficPolicy: Cluster on {}, or run a DNS pod on every node", dns.key))
            .verify(command::query(view, &command::canary(view), vip, "")),
    )
}
