//! F06: an egress policy keeps the DNS pods from the API server or from their upstreams.

use std::net::IpAddr;

use netlab_core::model::cluster::ObjectKey;
use netlab_plugin::evidence::{Outcome, Transport};

use super::{Class, Effect, Hit, Rule};
use crate::bundle::layout;
use crate::view::{PolicyAnswer, PolicyVerdict, View};

pub(super) const RULE: Rule = Rule {
    mode: "F06",
    id: "POLICY-DNSPOD-EGRESS",
    class: Class::NotDns,
    title: "an egress policy of the DNS pods denies the API server or an upstream",
    needs: &[
        layout::POLICIES,
        layout::PODS,
        layout::NAMESPACES,
        layout::SERVICES,
        layout::SLICES,
        layout::PROBES,
    ],
    latent: false,
    explains: &[Effect::Lost, Effect::Error],
    test,
};

fn test(view: &View<'_>) -> Option<Hit> {
    let pods: Vec<ObjectKey> = view.dns_pods().into_iter().map(|(key, _)| key.clone()).collect();
    let denied = |transport, address: IpAddr, port| -> Option<(ObjectKey, PolicyAnswer)> {
        pods.iter()
            .map(|pod| (pod.clone(), view.policy_between(pod, transport, address, port)))
            .find(|(_, answer)| answer.verdict == PolicyVerdict::DenyEgress)
    };
    let rows = view.rows(&crate::view::Ask::from_pod());
    let domain = view.domain()?;
    let bad = |inside: bool| {
        let rows = rows
            .iter()
            .filter(move |(_, probe)| probe.result == Outcome::Servfail || !probe.result.is_answer());
        let of = rows.filter(|(_, probe)| crate::view::is_below(&probe.name, &domain) == inside);
        of.map(|(id, _)| (*id).to_owned()).collect::<Vec<_>>()
    };
    let api = ObjectKey::new("default", "kubernetes");
    for (_, slice) in view.slices_of(&api) {
        let port = slice.ports.first().and_then(|port| port.port).unwrap_or(6443);
        for address in slice.endpoints.iter().flat_map(|endpoint| &endpoint.addresses) {
            let below = |result| {
                rows.iter()
                    .any(|(_, probe)| probe.result == result && crate::view::is_below(&probe.name, &domain))
            };
            // Who knows a name of the cluster has its list.
            if below(Outcome::Servfail)
                && !below(Outcome::Noerror)
                && let Some((pod, answer)) = denied(Transport::Tcp, *address, port)
            {
                let ids = bad(true);
                return Some(hit(
                    &pod,
                    &answer,
                    "the API server",
                    "SERVFAIL for names of the cluster",
                    ids,
                    "tcp",
                ));
            }
        }
    }
    for upstream in view.upstreams() {
        let ids = bad(false);
        // An answer from outside shows that nobody enforces the policy, or that another upstream helps out.
        let answered = view.outside().iter().any(|(_, probe)| {
            matches!(probe.result, Outcome::Noerror | Outcome::Nxdomain) && !probe.none_answered()
        });
        if !ids.is_empty()
            && !answered
            && let Some((pod, answer)) = denied(Transport::Udp, upstream.ip(), upstream.port())
        {
            return Some(hit(&pod, &answer, "its upstream", "no answer for names outside", ids, "udp"));
        }
    }
    None
}

fn hit(
    pod: &ObjectKey,
    answer: &PolicyAnswer,
    what: &str,
    effect: &str,
    ids: Vec<String>,
    protocol: &str,
) -> Hit {
    let (address, port) = (answer.address, answer.port);
    Hit::high(format!("policy keeps {pod} from {what}"))
        .because(match answer.isolated_by().as_slice() {
            [] => answer.cite(),
            policies => {
                format!("{} isolates it, and no rule admits {address} port {port}", policies.join(", "))
            }
        })
        .because(format!("it follows: {effect}"))
        .citing([layout::POLICIES])
        .citing(ids)
        .fix(format!("admit {} {port} to {address} from the DNS pods", protocol.to_uppercase()))
        .verify(format!("netlab policy prove --from {pod} --to {address} --port {port}/{protocol}"))
}
