//! F04: an ingress policy on the DNS pods does not admit the pod's namespace.

use netlab_plugin::evidence::Transport;

use super::dropped::dropped;
use super::{Class, Effect, Hit, Rule};
use crate::bundle::layout;
use crate::view::{Ask, PolicyVerdict, View};

pub(super) const RULE: Rule = Rule {
    mode: "F04",
    id: "POLICY-INGRESS-DENY",
    class: Class::NotDns,
    title: "an ingress policy on the DNS pods does not admit the pod",
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
    let answers: Vec<_> =
        endpoints.iter().map(|to| view.policy(Transport::Udp, to.ip(), to.port())).collect();
    let first = answers.first()?;
    if answers.iter().any(|answer| answer.verdict != PolicyVerdict::DenyIngress) {
        return None;
    }
    let segments = view.segments();
    let to = endpoints.iter().map(std::net::SocketAddr::ip).chain(segments.vips.clone());
    if !dropped(&view.rows(&Ask::from_pod().to(to).over(Transport::Udp))) {
        return None;
    }
    let subject = view.key();
    let hit = Hit::high(format!("policy of the DNS pods shuts {subject} out"))
        .because(match first.isolated_by().as_slice() {
            [] => first.cite(),
            policies => format!("{} isolates them, and no rule admits {subject}", policies.join(", ")),
        })
        .citing([layout::POLICIES])
        .citing(segments.udp_ids())
        .fix(format!(
            "admit UDP {0} and TCP {0} from namespace {1} in the policy",
            first.port, subject.namespace
        ))
        .verify(format!("netlab policy prove --from {subject} --to svc/{} --port 53/udp", dns.key));
    Some(hit)
}
