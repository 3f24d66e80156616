//! F09: the DNS Service has no TCP port, or the proxy no rule for it.

use netlab_core::model::port::Protocol;
use netlab_plugin::evidence::Transport;

use super::{Class, Effect, Hit, Rule, command};
use crate::bundle::layout;
use crate::view::{View, cite};

pub(super) const RULE: Rule = Rule {
    mode: "F09",
    id: "PROXY-TCP-MISSING",
    class: Class::NotDns,
    title: "the DNS Service cannot be asked over TCP",
    needs: &[layout::SERVICES, layout::SLICES, layout::NODES, layout::PODS, layout::PROBES],
    latent: false,
    explains: &[Effect::Lost, Effect::Refused, Effect::Rejected],
    test,
};

fn test(view: &View<'_>) -> Option<Hit> {
    let dns = view.dns_service()?;
    let segments = view.segments();
    if segments.vip_udp.sent == 0 || !segments.vip_tcp.reach.fails() {
        return None;
    }
    // Where nothing comes over UDP either, something else is first.
    let partial = segments.vip_udp.reach.fails();
    let has_tcp = dns.service.ports.iter().any(|port| port.port == 53 && port.protocol == Protocol::Tcp);
    let summary = format!("{} cannot be asked over TCP", dns.key);
    let base = Hit::high(summary).citing(segments.vip_tcp.ids.clone()).citing(segments.vip_udp.ids.clone());
    if !has_tcp {
        return Some(
            base.because(
                "the Service has UDP 53 and no TCP 53: answers that are cut cannot be asked for again",
            )
            .citing([layout::SERVICES])
            .fix(format!("add {{name: dns-tcp, port: 53, protocol: TCP}} to Service {}", dns.key))
            .verify(format!("kubectl -n {} get service {} -o yaml", dns.key.namespace, dns.key.name))
            .partial_if(partial),
        );
    }
    let vip = *view.vips().first()?;
    let proxy = view.proxy(vip)?;
    let port = proxy.port(&dns.key, Transport::Tcp, 53)?;
    // Rules of which none is there are another mode.
    let any = proxy.trace.ports.iter().any(|port| proxy.serves(port));
    if port.symptom.failing() < 1.0 || segments.endpoints_fail_tcp() || !any {
        return None;
    }
    let fault = port.faults().next()?;
    Some(
        base.because(cite(proxy.file, fault))
            .citing([proxy.file])
            .citing(segments.endpoints_tcp.iter().flat_map(|(_, seen)| seen.ids.clone()))
            .fix("read the log of the node's kube-proxy (a failed sync leaves rules out) and restart it")
            .verify(command::trace(proxy.file, format_args!("{}:dns-tcp", dns.key)))
            .partial_if(partial),
    )
}
