//! F08: the node's proxy has no rule for the DNS Service's UDP port.

use netlab_plugin::evidence::Transport;

use super::{Class, Effect, Hit, Rule, command};
use crate::bundle::layout;
use crate::view::{View, cite};

pub(super) const RULE: Rule = Rule {
    mode: "F08",
    id: "PROXY-UDP-MISSING",
    class: Class::NotDns,
    title: "the node's proxy does not translate the DNS Service's UDP port",
    needs: &[layout::SERVICES, layout::SLICES, layout::NODES, layout::PODS, layout::PROBES],
    latent: false,
    explains: &[Effect::Lost, Effect::Refused, Effect::Rejected],
    test,
};

fn test(view: &View<'_>) -> Option<Hit> {
    let dns = view.dns_service()?;
    let vip = *view.vips().first()?;
    let proxy = view.proxy(vip)?;
    let port = proxy.port(&dns.key, Transport::Udp, 53)?;
    // Without an endpoint there is nobody to lead questions to.
    if view.ready_dns_addresses(Transport::Udp).is_empty() {
        return None;
    }
    if port.symptom.failing() < 1.0 || !proxy.serves_others(&dns.key) {
        return None;
    }
    let segments = view.segments();
    if !segments.vip_udp.reach.fails() || segments.endpoints_fail() {
        return None;
    }
    let mut hit = Hit::high(format!("the proxy of the node has no UDP rule for {}", dns.key))
        .citing([proxy.file])
        .citing(segments.vip_udp.ids.clone())
        .citing(segments.endpoints_udp.iter().flat_map(|(_, seen)| seen.ids.clone()));
    if let Some(fault) = port.faults().next() {
        hit = hit.because(cite(proxy.file, fault));
    }
    if segments.vip_tcp.reach.answers() {
        hit = hit.because("the same Service answers over TCP").citing(segments.vip_tcp.ids);
    }
    if let Some(heals) = port.heals {
        hit = hit.because(format!("it heals {heals}"));
    }
    Some(
        hit.fix("read the log of the node's kube-proxy (a failed sync leaves rules out) and restart it")
            .verify(command::trace(proxy.file, format_args!("{}:dns", dns.key))),
    )
}
