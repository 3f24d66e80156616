//! F29: the hypervisor's connection table is full, the node's is not.

use super::{Class, Effect, Hit, Rule};
use crate::bundle::layout;
use crate::view::{Reach, View};

pub(super) const RULE: Rule = Rule {
    mode: "F29",
    id: "HYPERVISOR-CONNTRACK",
    class: Class::NotDns,
    title: "the instance's allowance of connections or packets is exceeded",
    needs: &[layout::COUNTERS, layout::PODS, layout::PROBES],
    latent: false,
    explains: &[Effect::Lost, Effect::Waited],
    test,
};

fn test(view: &View<'_>) -> Option<Hit> {
    let (count, max) = (view.counter("conntrack.count")?.last(), view.counter("conntrack.max")?.last());
    let mut grown = view.grown("conntrack_allowance_exceeded");
    grown.extend(view.grown("pps_allowance_exceeded"));
    let nodes: Vec<String> = view
        .dns_endpoints()
        .into_iter()
        .filter_map(|one| one.node)
        .chain(view.subject()?.node().map(str::to_owned))
        .collect();
    let (owner, name, growth) = grown.iter().find(|(owner, _, _)| nodes.contains(owner))?;
    let segments = view.segments();
    let asked = segments.endpoints_udp.iter().map(|(_, seen)| seen.reach).chain([segments.vip_udp.reach]);
    let lossy = asked.into_iter().any(|reach| reach.fails() || reach == Reach::Lossy);
    if count >= 0.95 * max || !(lossy || view.evidence.symptom().is_some()) {
        return None;
    }
    let summary = format!("the instance limits of {owner} are exceeded");
    let mut hit = if lossy { Hit::high(summary) } else { Hit::medium(summary) }
        .because(format!("{name} grew by {growth:.0}: the hypervisor drops packets of new flows"))
        .because(format!("the node's own table has room: {count:.0} of {max:.0}"))
        .citing([layout::COUNTERS])
        .citing(segments.udp_ids());
    if let Some((id, _)) = view.evidence.symptom() {
        hit = hit.citing([id]);
    }
    Some(
        hit.fix("find what opens flows that nobody answers (reconnects to pods that are gone), or take a larger instance")
            .verify(format!("ethtool -S DEVICE | grep allowance_exceeded   # on {owner}, twice")),
    )
}
