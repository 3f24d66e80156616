//! F90: zone hints lead the node's questions to DNS pods that do not keep up, while others could.

use std::net::{IpAddr, SocketAddr};

use netlab_core::model::port::Protocol;
use netlab_core::model::service::AddressType;
use netlab_core::service::expected::expected;
use netlab_plugin::evidence::Transport;

use super::{Class, Effect, Hit, Rule, command};
use crate::bundle::layout;
use crate::view::{Ask, Reach, Seen, View};

pub(super) const RULE: Rule = Rule {
    mode: "F90",
    id: "PROXY-TOPOLOGY-HINTS",
    class: Class::NotDns,
    title: "zone hints leave the node DNS pods that do not answer, or not in time",
    needs: &[layout::SERVICES, layout::SLICES, layout::NODES, layout::PODS, layout::PROBES],
    latent: false,
    explains: &[Effect::Lost, Effect::Refused, Effect::Rejected, Effect::Slow],
    test,
};

/// A DNS pod slower than this is overloaded, in milliseconds.
const SLOW: f64 = 200.0;

fn test(view: &View<'_>) -> Option<Hit> {
    let dns = view.dns_service()?;
    let node = view.subject()?.node()?.to_owned();
    let zone = view.loaded.cluster.nodes.get(&node)?.labels.get("topology.kubernetes.io/zone")?.clone();
    let vip = view.vips().first().copied()?;
    let ready = view.ready_dns_addresses(Transport::Udp);
    let used = used(view, &node, vip);
    let hinted = view
        .slices_of(&dns.key)
        .flat_map(|(_, slice)| &slice.endpoints)
        .any(|endpoint| endpoint.zone_hints.contains(&zone));
    if !hinted || used.is_empty() || used.len() >= ready.len() || dns.service.internal_local {
        return None;
    }
    let ask = |to: &SocketAddr| view.canary(&Ask::from_pod().at(*to).over(Transport::Udp));
    let bad = |seen: &Seen| {
        seen.reach.fails() || seen.reach == Reach::Lossy || seen.slowest.is_some_and(|ms| ms >= SLOW)
    };
    let ours: Vec<(SocketAddr, Seen)> = used.iter().map(|to| (*to, ask(to))).collect();
    let others: Vec<(SocketAddr, Seen)> =
        ready.iter().filter(|to| !used.contains(to)).map(|to| (*to, ask(to))).collect();
    let all_bad = ours.iter().all(|(_, seen)| seen.sent > 0 && bad(seen));
    let spare = others.iter().find(|(_, seen)| seen.reach.answers() && !bad(seen));
    let (Some((first, seen)), Some((spare, good)), true) = (ours.first(), spare, all_bad) else {
        return None;
    };
    let how = match seen.slowest {
        Some(ms) if seen.reach.answers() => format!("{ms:.0} ms"),
        _ => format!("{} ({})", seen.reach.as_str(), seen.count()),
    };
    Some(
        Hit::high(format!("zone hints lead {node} to {} of {} DNS pods", used.len(), ready.len()))
            .because(format!("{node} is in zone {zone}; its proxy uses {} alone", list(&used)))
            .because(format!("{first}: {how}; {spare}, of another zone, answers"))
            .citing([layout::SLICES, layout::NODES])
            .citing(ours.iter().flat_map(|(_, seen)| seen.ids.clone()))
            .citing(good.ids.clone())
            .fix(format!("take trafficDistribution (or the topology-mode annotation) off {}, or run enough DNS pods in zone {zone}", dns.key))
            .verify(command::query(view, &command::canary(view), first.ip(), "")),
    )
}

fn list(all: &[SocketAddr]) -> String {
    all.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// The endpoints that the node's proxy should use for the Service's UDP 53.
fn used(view: &View<'_>, node: &str, vip: IpAddr) -> Vec<SocketAddr> {
    let ports = expected(&view.loaded.cluster, node, AddressType::of(vip));
    let port = ports.into_iter().find(|port| {
        port.frontends.iter().any(|front| {
            front.key.address == Some(vip) && front.key.port == 53 && front.key.protocol == Protocol::Udp
        })
    });
    port.map(|port| port.cluster).unwrap_or_default()
}
