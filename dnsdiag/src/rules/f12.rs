//! F12: the DNS Service's selector fits no pod, although DNS pods run.

use netlab_core::model::cluster::{ObjectKey, Pod};

use super::{Class, Effect, Hit, Rule};
use crate::bundle::layout;
use crate::view::View;

pub(super) const RULE: Rule = Rule {
    mode: "F12",
    id: "SVC-SELECTOR-MISMATCH",
    class: Class::DnsServer,
    title: "the DNS Service's selector fits no pod",
    needs: &[layout::SERVICES, layout::SLICES, layout::PODS, layout::PROBES],
    latent: false,
    explains: &[Effect::Lost, Effect::Refused, Effect::Rejected],
    test,
};

pub(super) fn test(view: &View<'_>) -> Option<Hit> {
    let dns = view.dns_service()?;
    let selector = dns.service.selector.as_ref().filter(|selector| !selector.is_empty())?;
    if !view.dns_pods().is_empty() || !view.dns_endpoints().is_empty() {
        return None;
    }
    // Pods of the same namespace that serve port 53 or are named after CoreDNS. A cache of a node is no DNS pod that the
    // Service should select.
    let serves = |(key, pod): &(&ObjectKey, &Pod)| {
        key.namespace == dns.key.namespace
            && !pod.host_network
            && !pod.terminal
            && !key.name.starts_with("node-local-dns")
            && !pod.labels.values().any(|label| label.starts_with("node-local"))
            && (key.name.contains("coredns")
                || pod.ports.iter().any(|port| port.name.as_deref() == Some("dns")))
    };
    let (key, pod) = view.loaded.cluster.pods.iter().find(serves)?;
    let segments = view.segments();
    if segments.vip_udp.answered > 0 || !segments.vip_udp.reach.fails() {
        return None;
    }
    let (label, wanted) = selector.iter().find(|(label, value)| pod.labels.get(*label) != Some(value))?;
    let has =
        pod.labels.get(label).map_or_else(|| "no such label".to_owned(), |value| format!("{label}={value}"));
    let hit = Hit::high(format!("the selector of {} fits no pod", dns.key))
        .because(format!("it wants {label}={wanted}; {key} has {has}"))
        .citing([layout::SERVICES, layout::PODS, layout::SLICES])
        .citing(segments.vip_udp.ids)
        .fix(format!("make the selector of Service {} and the labels of the DNS pods the same", dns.key))
        .verify(format!("kubectl -n {} get pods -l {label}={wanted}", dns.key.namespace));
    Some(hit)
}
