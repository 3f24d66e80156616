//! F11: the DNS Service selects pods, and none of them is ready.

use netlab_plugin::evidence::Transport;

use super::{Class, Effect, Hit, Rule};
use crate::bundle::layout;
use crate::view::View;

pub(super) const RULE: Rule = Rule {
    mode: "F11",
    id: "NO-READY-ENDPOINTS",
    class: Class::DnsServer,
    title: "no DNS pod is ready",
    needs: &[layout::SERVICES, layout::SLICES, layout::PODS, layout::PROBES, layout::DNS_LOG],
    latent: false,
    explains: &[Effect::Lost, Effect::Refused, Effect::Rejected],
    test,
};

fn test(view: &View<'_>) -> Option<Hit> {
    let dns = view.dns_service()?;
    let pods = view.dns_pods();
    if !view.ready_dns_addresses(Transport::Udp).is_empty() {
        return None;
    }
    // Pods that the selector misses are another mode; a Service without selector has endpoints of its own.
    let selects = dns.service.selector.as_ref().is_some_and(|selector| !selector.is_empty());
    if pods.is_empty() && (!selects || super::f12::test(view).is_some()) {
        return None;
    }
    let segments = view.segments();
    if segments.vip_udp.answered > 0 || !segments.vip_udp.reach.fails() {
        return None;
    }
    let how = segments.vip_udp.reach.as_str();
    let summary = match pods.len() {
        0 => format!("no pod is behind {}", dns.key),
        count => format!("none of the {count} pods behind {} is ready", dns.key),
    };
    let fix = if pods.is_empty() {
        format!("run DNS pods: kubectl -n {} get deployments (is theirs scaled to 0?)", dns.key.namespace)
    } else {
        format!("find out why the DNS pods are not ready: kubectl -n {} describe pods", dns.key.namespace)
    };
    let hit = Hit::high(summary)
        .because(format!("its address {how}: the proxy has nobody to lead questions to"))
        .citing([layout::SLICES, layout::PODS])
        .citing(segments.vip_udp.ids)
        .fix(fix)
        .verify(format!(
            "kubectl -n {} get endpointslices -l kubernetes.io/service-name={}",
            dns.key.namespace, dns.key.name
        ));
    Some(hit)
}
