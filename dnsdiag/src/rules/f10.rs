//! F10: the node's proxy translates nothing at all.

use super::{Class, Effect, Hit, Rule, command};
use crate::bundle::layout;
use crate::view::{View, cite};

pub(super) const RULE: Rule = Rule {
    mode: "F10",
    id: "PROXY-ALL-MISSING",
    class: Class::NotDns,
    title: "the node's proxy has rules for no Service",
    needs: &[layout::SERVICES, layout::SLICES, layout::NODES, layout::PODS, layout::PROBES],
    latent: false,
    explains: &[Effect::Lost, Effect::Refused, Effect::Rejected],
    test,
};

fn test(view: &View<'_>) -> Option<Hit> {
    let dns = view.dns_service()?;
    let vip = *view.vips().first()?;
    let proxy = view.proxy(vip)?;
    let ports = &proxy.trace.ports;
    if ports.is_empty() || ports.iter().any(|port| proxy.serves(port)) {
        return None;
    }
    let segments = view.segments();
    if !segments.vip_udp.reach.fails() || !segments.endpoints_answer() {
        return None;
    }
    let mut hit = Hit::high("the proxy of the node has rules for no Service")
        .because(format!(
            "{} service ports were looked for in {}, none leads anywhere",
            ports.len(),
            proxy.file
        ))
        .because(format!("the endpoints of {} answer when they are asked directly", dns.key))
        .citing([proxy.file])
        .citing(segments.udp_ids());
    if let Some(shared) = proxy.trace.shared.first() {
        hit = hit.because(cite(proxy.file, &shared.fault));
    }
    Some(
        hit.fix("start kube-proxy on the node (or end a half-enabled replacement of it), and read its log")
            .verify(command::trace(proxy.file, format_args!("{}:dns", dns.key))),
    )
}
