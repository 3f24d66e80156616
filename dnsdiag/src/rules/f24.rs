//! F24: the provider's limit on packets to its own resolver.

use std::net::IpAddr;

use super::{Class, Effect, Hit, Rule};
use crate::bundle::layout;
use crate::view::{View, seen};

pub(super) const RULE: Rule = Rule {
    mode: "F24",
    id: "UPSTREAM-LIMIT",
    class: Class::Upstream,
    title: "the provider drops questions to its resolver above its rate limit",
    needs: &[layout::PROBES, layout::COUNTERS],
    latent: false,
    explains: &[Effect::Lost, Effect::Error],
    test,
};

fn test(view: &View<'_>) -> Option<Hit> {
    let outside = view.outside();
    let all = seen(&outside);
    let segments = view.segments();
    let failing = outside.iter().any(|(_, probe)| {
        probe.some_answered()
            || !probe.all_answered()
            || probe.result == netlab_plugin::evidence::Outcome::Servfail
    });
    if all.sent == 0 || !failing || segments.vip_udp.answered == 0 {
        return None;
    }
    let dns_nodes: Vec<String> =
        view.dns_endpoints().into_iter().filter_map(|endpoint| endpoint.node).collect();
    let grown = view.grown("linklocal_allowance_exceeded");
    let (owner, name, growth) = grown.iter().find(|(owner, _, _)| dns_nodes.contains(owner))?;
    // The counter counts what goes to the instance's metadata and clock, too. A limit lets some through, and counts each loss.
    let upstreams = view.upstreams();
    let linklocal = upstreams.iter().any(|to| matches!(to.ip(), IpAddr::V4(ip) if ip.is_link_local()));
    let lost = f64::from(all.sent - all.answered.min(all.sent));
    let some = outside.iter().any(|(_, probe)| {
        probe.answers_seen() > 0 && probe.result != netlab_plugin::evidence::Outcome::Servfail
    });
    // Where nothing comes at all, it is no limit.
    if !linklocal && !some {
        return None;
    }
    let many = dns_nodes.iter().filter(|node| *node == owner).count() / 2;
    let summary = "the provider's resolver limits the DNS pods' node";
    let mut hit = if linklocal && *growth >= lost { Hit::high(summary) } else { Hit::medium(summary) }
        .because(format!("{owner}: {name} grew by {growth:.0}: packets to link-local services were dropped"))
        .because(format!("{} questions for names outside were answered, all of those within", all.count()))
        .citing(all.ids)
        .citing(segments.vip_udp.ids)
        .citing([layout::COUNTERS]);
    if many > 1 {
        hit = hit.because(format!("{many} DNS pods are on {owner} and share its limit"));
    }
    Some(
        hit.fix("spread the DNS pods over nodes, cache on each node, and ask less (lower ndots, longer TTL)")
            .verify(format!("ethtool -S eth0 | grep linklocal_allowance_exceeded   # on {owner}")),
    )
}
