//! F03: the policy admits the Service's port, and is enforced after translation to another one (`OpenShift`'s 5353).

use netlab_plugin::evidence::Transport;

use super::dropped::dropped;
use super::{Class, Effect, Hit, Rule};
use crate::bundle::layout;
use crate::view::{Ask, PolicyVerdict, View};

pub(super) const RULE: Rule = Rule {
    mode: "F03",
    id: "POLICY-PORT-POSTDNAT",
    class: Class::NotDns,
    title: "a policy admits port 53, and the DNS pods listen on another port",
    needs: &[
        layout::POLICIES,
        layout::PODS,
        layout::NAMESPACES,
        layout::SERVICES,
        layout::SLICES,
        layout::PROBES,
    ],
    latent: false,
    explains: &[Effect::Lost, Effect::Rejected, Effect::NotPermitted],
    test,
};

fn test(view: &View<'_>) -> Option<Hit> {
    let dns = view.dns_service()?;
    let endpoints = view.ready_dns_addresses(Transport::Udp);
    let first = *endpoints.first()?;
    let denied = |port: fn(u16) -> u16, verdicts: &[PolicyVerdict]| {
        endpoints
            .iter()
            .all(|to| verdicts.contains(&view.policy(Transport::Udp, to.ip(), port(to.port())).verdict))
    };
    let at_port = denied(|port| port, &[PolicyVerdict::DenyEgress, PolicyVerdict::DenyIngress]);
    let at_53 = denied(|_| 53, &[PolicyVerdict::Allow]);
    if first.port() == 53 || !at_port || !at_53 {
        return None;
    }
    let segments = view.segments();
    let to = endpoints.iter().map(std::net::SocketAddr::ip).chain(segments.vips.clone());
    if !dropped(&view.rows(&Ask::from_pod().to(to).over(Transport::Udp))) {
        return None;
    }
    let (subject, port) = (view.key(), first.port());
    let hit = Hit::high(format!("policy admits port 53, the DNS pods use {port}"))
        .because(format!(
            "policy is enforced after translation: {} leads to port {port} of its endpoints",
            dns.key
        ))
        .because(view.policy(Transport::Udp, first.ip(), port).cite())
        .citing([layout::POLICIES, layout::SLICES])
        .citing(segments.udp_ids())
        .fix(format!("admit UDP {port} and TCP {port} (the container's port) beside 53 from {subject}"))
        .verify(format!("netlab policy prove --from {subject} --to svc/{} --port 53/udp", dns.key));
    Some(hit)
}
