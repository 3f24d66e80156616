//! F94: the DNS pods' questions leave the node by one address, and masquerading finds no free port for all of them.

use netlab_plugin::evidence::Probe;

use super::{Class, Effect, Hit, Rule, command};
use crate::bundle::layout;
use crate::view::{LogClass, View, row_ids};

pub(super) const RULE: Rule = Rule {
    mode: "F94",
    id: "SNAT-EXHAUSTION",
    class: Class::NotDns,
    title: "masquerading clashes on the DNS pods' node, and questions to the upstream are lost",
    needs: &[
        layout::COUNTERS,
        layout::NODE_IPTABLES,
        layout::SERVICES,
        layout::SLICES,
        layout::PODS,
        layout::PROBES,
    ],
    latent: false,
    explains: &[Effect::Lost, Effect::Error],
    test,
};

fn test(view: &View<'_>) -> Option<Hit> {
    let nodes: Vec<String> = view.dns_endpoints().into_iter().filter_map(|one| one.node).collect();
    let (node, _, growth) =
        view.grown("conntrack.insert_failed").into_iter().find(|(owner, _, _)| nodes.contains(owner))?;
    if !view.grown("linklocal_allowance_exceeded").is_empty() {
        return None;
    }
    let outside = view.outside();
    let failing = |probe: &Probe| {
        probe.some_answered()
            || probe.none_answered()
            || probe.result == netlab_plugin::evidence::Outcome::Servfail
    };
    let lost: Vec<_> = outside.iter().copied().filter(|(_, probe)| failing(probe)).collect();
    let (_, first) = lost.first().copied()?;
    // A clash of ports hits some; where nothing comes at all it is something else.
    let some = outside.iter().any(|(_, probe)| {
        probe.answers_seen() > 0 && probe.result != netlab_plugin::evidence::Outcome::Servfail
    });
    if !some {
        return None;
    }
    let segments = view.segments();
    // What goes to the DNS pods is all answered: the loss is behind them.
    if !segments.vip_udp.reach.answers() || !segments.endpoints_answer() {
        return None;
    }
    let counter = |name: &str| view.counter_of(&node, name).map(netlab_plugin::evidence::Reading::last);
    if let (Some(count), Some(max)) = (counter("conntrack.count"), counter("conntrack.max"))
        && count >= 0.95 * max
    {
        return None;
    }
    let text = view.text(layout::NODE_IPTABLES)?;
    let (number, rule) = text.lines().enumerate().find(|(_, line)| {
        line.starts_with("-A") && line.contains("-j MASQUERADE") && !line.contains("--random-fully")
    })?;
    let mut hit = Hit::medium(format!("masquerading on {node} loses questions upstream"))
        .because(format!(
            "{node}: conntrack.insert_failed grew by {growth:.0} while names outside were asked for"
        ))
        .because(format!(
            "{}:{}: {}: ports are not chosen at random",
            layout::NODE_IPTABLES,
            number + 1,
            rule.trim()
        ))
        .because("questions to the DNS pods are all answered: the loss is behind them")
        .citing([layout::COUNTERS, layout::NODE_IPTABLES])
        .citing(row_ids(&lost))
        .citing(segments.vip_udp.ids);
    if let Some(line) = view.logged(LogClass::UpstreamTimeout) {
        hit = hit
            .because(format!("{}:{}: {}", layout::DNS_LOG, line.line, line.text.trim()))
            .citing([layout::DNS_LOG]);
    }
    Some(
        hit.fix("let the CNI masquerade with --random-fully, or give the DNS pods' nodes more addresses")
            .fix("ask the upstream less: a DNS cache on each node, or `force_tcp` in forward, which keeps connections")
            .verify(command::query(view, &first.name, first.server, "")),
    )
}
