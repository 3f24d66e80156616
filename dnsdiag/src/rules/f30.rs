//! F30: a UDP flow to the DNS Service is still translated to a pod that is gone.

use netlab_plugin::evidence::Transport;

use super::{Class, Effect, Hit, Rule};
use crate::bundle::layout;
use crate::view::{Ask, View, place};

pub(super) const RULE: Rule = Rule {
    mode: "F30",
    id: "PROXY-STALE-UDP",
    class: Class::NotDns,
    title: "connection tracking leads a UDP flow to a DNS pod that is gone",
    needs: &[layout::NODE_CONNTRACK, layout::SERVICES, layout::SLICES, layout::PODS, layout::PROBES],
    latent: false,
    explains: &[Effect::Lost, Effect::Waited],
    test,
};

fn test(view: &View<'_>) -> Option<Hit> {
    let vips = view.vips();
    let endpoints = view.dns_endpoints();
    let subject = view.subject()?;
    let stale = view.conntrack()?.into_iter().find(|flow| {
        flow.protocol == "udp"
            && flow.unreplied
            && view.may_go_on(flow)
            && flow.original.destination_port == 53
            && vips.contains(&flow.original.destination)
            && subject.pod.addresses.contains(&flow.original.source)
            && flow.reply.source != flow.original.destination
            && !endpoints.iter().any(|endpoint| endpoint.address == flow.reply.source)
    })?;
    if endpoints.is_empty() {
        return None;
    }
    let port = stale.original.source_port;
    let rows = view.rows(&Ask::from_pod().to(vips).over(Transport::Udp));
    let (fixed, fresh): (Vec<_>, Vec<_>) =
        rows.into_iter().partition(|(_, probe)| probe.source_port == Some(port));
    // An answer through that very port shows that the entry does no harm.
    if fixed.iter().any(|(_, probe)| probe.result.is_answer()) {
        return None;
    }
    // Unless somebody asks from that port still, a lookup that is over has left the entry.
    if fixed.is_empty() && !view.knows(layout::POD_SOCKETS) {
        return None;
    }
    let mut hit = Hit::high(format!("UDP port {port} of {} leads to a pod that is gone", view.key()))
        .because(format!(
            "{}: replies are expected from {}, which is no endpoint",
            place(&stale),
            stale.reply.source
        ))
        .because("every packet renews the entry, so it stays while the client keeps its port")
        .citing([layout::NODE_CONNTRACK, layout::SLICES])
        .citing(fixed.iter().map(|(id, _)| (*id).to_owned()));
    if !fresh.is_empty() && fresh.iter().all(|(_, probe)| probe.result.is_answer()) {
        hit = hit
            .because("questions from new ports are answered")
            .citing(fresh.iter().map(|(id, _)| (*id).to_owned()));
    }
    if let Some((id, _)) = view.evidence.symptom() {
        hit = hit.citing([id]);
    }
    let vip = stale.original.destination;
    Some(
        hit.fix(format!(
            "conntrack -D -p udp --orig-dst {vip} --reply-src {}   (on the node)",
            stale.reply.source
        ))
        .fix("upgrade kube-proxy: some versions do not clean up after a Service had no endpoint")
        .verify(format!("conntrack -L -p udp --orig-dst {vip} --orig-port-dst 53")),
    )
}
