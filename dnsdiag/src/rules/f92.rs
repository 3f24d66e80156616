//! F92: session affinity keeps this client with the one DNS pod that does not answer.

use netlab_plugin::evidence::{Position, Transport};

use super::{Class, Effect, Hit, Rule, command};
use crate::bundle::layout;
use crate::view::{Ask, View, row_ids};

pub(super) const RULE: Rule = Rule {
    mode: "F92",
    id: "PROXY-AFFINITY",
    class: Class::NotDns,
    title: "sessionAffinity keeps the pod with a DNS pod that does not answer",
    needs: &[layout::SERVICES, layout::SLICES, layout::PODS, layout::PROBES],
    latent: false,
    explains: &[Effect::Lost, Effect::Refused, Effect::Rejected],
    test,
};

fn test(view: &View<'_>) -> Option<Hit> {
    let dns = view.dns_service()?;
    let seconds = dns.service.affinity?;
    let segments = view.segments();
    if !segments.vip_udp.reach.fails() {
        return None;
    }
    let vip = segments.vips.first().copied()?;
    let bad: Vec<_> = segments.endpoints_udp.iter().filter(|(_, seen)| seen.reach.fails()).collect();
    let good: Vec<_> = segments.endpoints_udp.iter().filter(|(_, seen)| seen.reach.answers()).collect();
    let ((address, seen), [_, ..]) = (bad.first()?, good.as_slice()) else { return None };
    // Other clients, kept with other DNS pods, get answers at the same address.
    let others: Vec<_> = view
        .rows(&Ask::default().to([vip]).over(Transport::Udp))
        .into_iter()
        .filter(|(_, probe)| probe.from != Position::Pod && probe.all_answered())
        .collect();
    let summary = format!("{} is kept with a bad DNS pod", view.target);
    let mut hit = if others.is_empty() { Hit::medium(summary) } else { Hit::high(summary) }
        .because(format!(
            "{} has sessionAffinity ClientIP: a client stays with one DNS pod for {seconds} s",
            dns.key
        ))
        .because(format!("{address}: {} ({}); the other DNS pods answer", seen.reach.as_str(), seen.count()))
        .because(format!("{vip} fails for this pod each time ({})", segments.vip_udp.count()))
        .citing([layout::SERVICES])
        .citing(seen.ids.clone())
        .citing(good.iter().flat_map(|(_, seen)| seen.ids.clone()))
        .citing(segments.vip_udp.ids.clone());
    if !others.is_empty() {
        hit = hit.because("other clients get answers there").citing(row_ids(&others));
    }
    let pod =
        view.dns_endpoints().into_iter().find(|one| one.address == address.ip()).and_then(|one| one.pod);
    Some(
        hit.fix(format!("take sessionAffinity off {}: DNS has no sessions", dns.key))
            .fix(format!("delete DNS pod {}", pod.unwrap_or_else(|| address.ip().to_string())))
            .verify(command::query(view, &command::canary(view), vip, "")),
    )
}
