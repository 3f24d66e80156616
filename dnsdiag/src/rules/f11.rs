//! F11: the DNS Service selects pods, and none of them is ready.

use netlab_plugin::evidence::Transport;

use super::{Class, Hit, Rule};
use crate::bundle::layout;
use crate::view::View;

pub(super) const RULE: Rule = Rule {
    mode: "F11",
    id: "NO-READY-ENDPOINTS",
    class: Class::DnsServer,
    title: "no DNS pod is ready",
    needs: &[layout::SERVICES, layout::SLICES, layout::PODS, layout::PROBES, layout::DNS_LOG],
    latent: false,
    test,
};

fn test(view: &View<'_>) -> Option<Hit> {
    let dns = view.dns_service()?;
    let pods = view.dns_pods();
    if pods.is_empty() || !view.ready_dns_addresses(Transport::Udp).is_empty() {
        return None;
    }
    let segments = view.segments();
    if segments.vip_udp.answered > 0 || !segments.vip_udp.reach.fails() {
        return None;
    }
    let how = segments.vip_udp.reach.as_str();
    let hit = Hit::high(format!("none of the {} pods behind {} is ready", pods.len(), dns.key))
        .because(format!("its address {how}: the proxy has nobody to lead questions to"))
        .citing([layout::SLICES, layout::PODS])
        .citing(segments.vip_udp.ids)
        .fix(format!(
            "find out why the DNS pods are not ready: kubectl -n {} describe pods",
            dns.key.namespace
        ))
        .verify(format!(
            "kubectl -n {} get endpointslices -l kubernetes.io/service-name={}",
            dns.key.namespace, dns.key.name
        ));
    Some(hit)
}
