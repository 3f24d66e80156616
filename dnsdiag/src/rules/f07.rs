//! F07: questions reach the DNS pods and are answered, and the answers are dropped on the way back: a policy that knows no
//! connections.

use netlab_plugin::evidence::Transport;

use super::{Class, Hit, Rule};
use crate::bundle::layout;
use crate::view::{PolicyVerdict, View};

pub(super) const RULE: Rule = Rule {
    mode: "F07",
    id: "POLICY-REPLY-DROPPED",
    class: Class::NotDns,
    title: "the DNS pods answer, and an ingress policy without connection tracking drops the answers",
    needs: &[
        layout::POLICIES,
        layout::PODS,
        layout::NAMESPACES,
        layout::SERVICES,
        layout::SLICES,
        layout::PROBES,
        layout::DNS_LOG,
    ],
    latent: false,
    test,
};

fn test(view: &View<'_>) -> Option<Hit> {
    let segments = view.segments();
    if !segments.endpoints_fail() || segments.vip_udp.answered > 0 {
        return None;
    }
    let endpoints = view.ready_dns_addresses(Transport::Udp);
    let allowed = |to: &std::net::SocketAddr| {
        view.policy(Transport::Udp, to.ip(), to.port()).verdict == PolicyVerdict::Allow
    };
    if endpoints.is_empty() || !endpoints.iter().all(allowed) {
        return None;
    }
    let subject = view.subject()?;
    let address = *subject.pod.addresses.first()?;
    // What CoreDNS's `log` plugin writes for a question that it answered: `[INFO] 10.244.1.7:40000 - 1 "A IN name …" NOERROR`.
    let written = format!("{address}:");
    let log = view.text(layout::DNS_LOG)?;
    let line = log.lines().position(|line| {
        line.contains(&written)
            && line.contains(" IN ")
            && line.contains(" udp ")
            && (line.contains("NOERROR") || line.contains("NXDOMAIN"))
    })?;
    // A policy that knew no connections would have to admit the servers to the pod as if they opened one.
    let dns_pod = view.dns_pods().first().map(|(key, _)| (*key).clone())?;
    let back = view.policy_between(&dns_pod, Transport::Udp, address, 40_000);
    if back.verdict != PolicyVerdict::DenyIngress {
        return None;
    }
    let key = view.key();
    let hit = Hit::high(format!("answers to {key} are dropped on their way back"))
        .because(format!("the DNS pods answered it ({}:{})", layout::DNS_LOG, line + 1))
        .because(match back.isolated_by().as_slice() {
            [] => back.cite(),
            policies => format!("{} isolates it for ingress; replies pass only where connections are tracked", policies.join(", ")),
        })
        .citing([layout::DNS_LOG, layout::POLICIES])
        .citing(segments.udp_ids())
        .fix("let the enforcer track connections (no NOTRACK for pod traffic), or admit UDP from port 53 of the DNS pods")
        .verify(format!("netlab policy eval --from {dns_pod} --to {key} --port 40000/udp"));
    Some(hit)
}
