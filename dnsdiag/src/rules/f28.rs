//! F28: the node's connection table is full.

use super::{Class, Effect, Hit, Rule};
use crate::bundle::layout;
use crate::view::{Reach, View};

pub(super) const RULE: Rule = Rule {
    mode: "F28",
    id: "CONNTRACK-FULL",
    class: Class::NotDns,
    title: "the node's connection table is full",
    needs: &[layout::COUNTERS, layout::PODS, layout::PROBES],
    latent: false,
    explains: &[Effect::Lost, Effect::NotPermitted],
    test,
};

fn test(view: &View<'_>) -> Option<Hit> {
    let (count, max) = (view.counter("conntrack.count")?.last(), view.counter("conntrack.max")?.last());
    if max <= 0.0 || count < 0.95 * max {
        return None;
    }
    let dropped = ["conntrack.drop", "conntrack.early_drop", "conntrack.insert_failed"]
        .iter()
        .find_map(|name| Some((*name, view.counter(name)?.growth().filter(|growth| *growth > 0.0)?)));
    let log = view.text(layout::NODE_KERNEL_LOG).unwrap_or_default();
    let line = log.lines().position(|line| line.contains("table full"));
    let segments = view.segments();
    let asked = segments.endpoints_udp.iter().map(|(_, seen)| seen.reach).chain([segments.vip_udp.reach]);
    let loses = asked.into_iter().any(|reach| reach.fails() || reach == Reach::Lossy);
    if (dropped.is_none() && line.is_none()) || !loses {
        return None;
    }
    let node = view.subject().and_then(|subject| subject.node().map(str::to_owned)).unwrap_or_default();
    let mut hit = Hit::high(format!("the connection table of {node} is full"))
        .because(format!("{count:.0} of {max:.0} entries; what is new is dropped, DNS first"))
        .citing([layout::COUNTERS])
        .citing(segments.udp_ids());
    if let Some((name, growth)) = dropped {
        hit = hit.because(format!("{name} grew by {growth:.0} while it was asked"));
    }
    if let Some(line) = line {
        hit = hit
            .because(format!("the kernel says so ({}:{})", layout::NODE_KERNEL_LOG, line + 1))
            .citing([layout::NODE_KERNEL_LOG]);
    }
    Some(
        hit.fix("find who opens so many flows, then raise net.netfilter.nf_conntrack_max or lower its UDP timeouts")
            .verify(format!("conntrack -C; sysctl net.netfilter.nf_conntrack_max   # on {node}")),
    )
}
