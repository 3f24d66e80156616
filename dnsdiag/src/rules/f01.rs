//! F01: an egress policy of the pod denies what it asks its DNS servers over UDP.

use netlab_plugin::evidence::Transport;

use super::dropped::dropped;
use super::{Class, Effect, Hit, Rule};
use crate::bundle::layout;
use crate::view::{Ask, PolicyVerdict, View, row_ids};

pub(super) const RULE: Rule = Rule {
    mode: "F01",
    id: "POLICY-EGRESS-DENY",
    class: Class::NotDns,
    title: "an egress policy of the pod denies UDP 53 to the DNS pods",
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
    let denied = endpoints.iter().map(|to| view.policy(Transport::Udp, to.ip(), to.port()));
    let denied: Vec<_> = denied.filter(|answer| answer.verdict == PolicyVerdict::DenyEgress).collect();
    let first = denied.first()?;
    if denied.len() < endpoints.len() {
        return None;
    }
    // An answer over UDP would show that nobody enforces the policy.
    let to = endpoints.iter().map(std::net::SocketAddr::ip).chain(dns.service.cluster_ips.clone());
    let asked = view.rows(&Ask::from_pod().to(to).over(Transport::Udp));
    if !dropped(&asked) {
        return None;
    }
    let subject = view.key();
    let isolating = first.isolated_by();
    let mut hit = Hit::high(format!("policy drops what {subject} asks"))
        .because(match isolating.as_slice() {
            [] => first.cite(),
            policies => format!("{} isolates it, and no rule admits UDP {}", policies.join(", "), first.port),
        })
        .citing([layout::POLICIES])
        .citing(row_ids(&asked))
        .fix(format!(
            "admit UDP {0} and TCP {0} from {subject} to the DNS pods behind {1}",
            first.port, dns.key
        ))
        .verify(format!("netlab policy prove --from {subject} --to svc/{} --port 53/udp", dns.key));
    let from_node = view.seen(&Ask::from_node().to(endpoints.iter().map(std::net::SocketAddr::ip)));
    if from_node.reach.answers() {
        hit = hit.because("the node gets answers from the same servers").citing(from_node.ids);
    }
    Some(hit)
}
