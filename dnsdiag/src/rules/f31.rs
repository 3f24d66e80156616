//! F31: a UDP flow to the DNS Service was tracked before there was a rule for it, and is never translated.

use netlab_plugin::evidence::Transport;

use super::{Class, Effect, Hit, Rule};
use crate::bundle::layout;
use crate::view::{Ask, View, place};

pub(super) const RULE: Rule = Rule {
    mode: "F31",
    id: "PROXY-STALE-UNDNAT",
    class: Class::NotDns,
    title: "connection tracking holds a UDP flow to the Service's address that was never translated",
    needs: &[layout::NODE_CONNTRACK, layout::SERVICES, layout::SLICES, layout::PODS, layout::PROBES],
    latent: false,
    explains: &[Effect::Lost, Effect::Waited],
    test,
};

fn test(view: &View<'_>) -> Option<Hit> {
    let vips = view.vips();
    let subject = view.subject()?;
    let stale = view.conntrack()?.into_iter().find(|flow| {
        flow.protocol == "udp"
            && flow.unreplied
            && view.may_go_on(flow)
            && flow.original.destination_port == 53
            && vips.contains(&flow.original.destination)
            && subject.pod.addresses.contains(&flow.original.source)
            && flow.reply.source == flow.original.destination
    })?;
    let port = stale.original.source_port;
    let rows = view.rows(&Ask::from_pod().to(vips).over(Transport::Udp));
    let fixed: Vec<_> = rows.iter().filter(|(_, probe)| probe.source_port == Some(port)).collect();
    if fixed.iter().any(|(_, probe)| probe.result.is_answer())
        || view.ready_dns_addresses(Transport::Udp).is_empty()
    {
        return None;
    }
    // Unless somebody asks from that port still, a lookup that is over has left the entry.
    if fixed.is_empty() && !view.knows(layout::POD_SOCKETS) {
        return None;
    }
    let vip = stale.original.destination;
    let hit = Hit::high(format!("UDP port {port} of {} is never translated", view.key()))
        .because(format!(
            "{}: replies are expected from {vip} itself: no rule was there when it began",
            place(&stale)
        ))
        .because("the Service has ready endpoints now, and new flows reach them")
        .citing([layout::NODE_CONNTRACK, layout::SLICES])
        .citing(fixed.iter().map(|(id, _)| (*id).to_owned()))
        .citing(view.evidence.symptom().map(|(id, _)| id))
        .fix(format!("conntrack -D -p udp --orig-dst {vip}   (on the node)"))
        .verify(format!("conntrack -L -p udp --orig-dst {vip} --orig-port-dst 53"));
    Some(hit)
}
