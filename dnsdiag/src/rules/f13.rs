//! F13: the DNS Service leads to a port on which the DNS pods do not listen.

use netlab_plugin::evidence::Transport;

use super::{Class, Effect, Hit, Rule};
use crate::bundle::layout;
use crate::view::{Ask, Reach, View};

pub(super) const RULE: Rule = Rule {
    mode: "F13",
    id: "SVC-PORT-MISMATCH",
    class: Class::DnsServer,
    title: "the DNS Service's target port is not the port that the DNS pods listen on",
    needs: &[layout::SERVICES, layout::SLICES, layout::PODS, layout::PROBES],
    latent: false,
    explains: &[Effect::Refused],
    test,
};

fn test(view: &View<'_>) -> Option<Hit> {
    let dns = view.dns_service()?;
    let endpoints = view.ready_dns_addresses(Transport::Udp);
    let first = *endpoints.first()?;
    let segments = view.segments();
    let refused = |seen: &crate::view::Seen| seen.reach == Reach::Refused;
    if !endpoints.is_empty() && !segments.endpoints_udp.iter().all(|(_, seen)| refused(seen)) {
        return None;
    }
    // Another port of the same addresses answers, or the containers declare another one.
    let addresses: Vec<_> = endpoints.iter().map(std::net::SocketAddr::ip).collect();
    let elsewhere = view
        .rows(&Ask::default().to(addresses))
        .into_iter()
        .find(|(_, probe)| probe.port != first.port() && probe.result.is_answer());
    let declared: Vec<u16> = view
        .dns_pods()
        .iter()
        .flat_map(|(_, pod)| &pod.ports)
        .filter(|port| port.name.as_deref().is_some_and(|name| name.starts_with("dns")))
        .map(|port| port.number)
        .collect();
    let declares_other = !declared.is_empty() && !declared.contains(&first.port());
    let why = match (&elsewhere, declares_other) {
        (Some((_, probe)), _) => format!("{} answers on port {}", probe.server, probe.port),
        (None, true) => format!("the containers declare port {}", declared[0]),
        (None, false) => return None,
    };
    let mut hit = Hit::high(format!("{} leads to port {}, where nobody listens", dns.key, first.port()))
        .because(why)
        .because("refused by the endpoint itself: the packet arrives".to_owned())
        .citing([layout::SERVICES, layout::SLICES, layout::PODS])
        .citing(segments.udp_ids())
        .fix(format!("make targetPort of Service {} the port in the Corefile's server block", dns.key))
        .verify(format!(
            "kubectl -n {} get endpointslices -l kubernetes.io/service-name={} -o yaml",
            dns.key.namespace, dns.key.name
        ));
    if let Some((id, _)) = elsewhere {
        hit = hit.citing([id]);
    }
    Some(hit)
}
