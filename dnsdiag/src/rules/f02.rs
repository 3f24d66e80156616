//! F02: a policy admits UDP 53 and not TCP 53, so answers that do not fit into a datagram are lost.

use netlab_plugin::evidence::Transport;

use super::dropped::dropped;
use super::{Class, Effect, Hit, Rule};
use crate::bundle::layout;
use crate::view::{Ask, PolicyVerdict, View};

pub(super) const RULE: Rule = Rule {
    mode: "F02",
    id: "POLICY-TCP53-MISSING",
    class: Class::NotDns,
    title: "a policy admits UDP 53 to the DNS pods and denies TCP 53",
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
    let segments = view.segments();
    let udp = view.ready_dns_addresses(Transport::Udp);
    let tcp = view.ready_dns_addresses(Transport::Tcp);
    let first = *tcp.first()?;
    let denied = |verdict| matches!(verdict, PolicyVerdict::DenyEgress | PolicyVerdict::DenyIngress);
    let tcp_denied = tcp.iter().all(|to| denied(view.policy(Transport::Tcp, to.ip(), to.port()).verdict));
    let allowed = |to: &std::net::SocketAddr| {
        view.policy(Transport::Udp, to.ip(), to.port()).verdict == PolicyVerdict::Allow
    };
    if !tcp_denied || !udp.iter().all(allowed) {
        return None;
    }
    let to = tcp.iter().map(std::net::SocketAddr::ip).chain(segments.vips.clone());
    let some =
        segments.vip_udp.answered > 0 || segments.endpoints_udp.iter().any(|(_, seen)| seen.answered > 0);
    if !dropped(&view.rows(&Ask::from_pod().to(to).over(Transport::Tcp))) || !some {
        return None;
    }
    let answer = view.policy(Transport::Tcp, first.ip(), first.port());
    let subject = view.key();
    let isolating = answer.isolated_by();
    let why = match isolating.as_slice() {
        [] => answer.cite(),
        policies => {
            format!("{} isolates it; a rule admits UDP {}, none TCP", policies.join(", "), first.port())
        }
    };
    let hit = Hit::high(format!("policy lets {subject} ask over UDP only"))
        .because(why)
        .because("answers that do not fit into a datagram are asked for again over TCP")
        .citing([layout::POLICIES])
        .citing(segments.tcp_ids())
        .citing(segments.vip_udp.ids)
        .fix(format!(
            "admit TCP {} beside UDP from {subject} to the DNS pods behind {}",
            first.port(),
            dns.key
        ))
        .verify(format!("netlab policy prove --from {subject} --to svc/{} --port 53/tcp", dns.key));
    Some(hit)
}
