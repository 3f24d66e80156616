//! F22: names of the cluster resolve, names outside do not: the upstreams do not answer the DNS pods.
//!
//! Invariant: names whose answers are known to be large show nothing, because it may be their size that is lost. What tells that
//! it is the upstreams is the DNS pods' log, or that they answer the node neither; without either there is no such verdict. One
//! name by itself makes it medium unless the upstreams are silent to the node as well.

use std::collections::BTreeSet;

use netlab_plugin::evidence::{Flag, Outcome, Position, Probe};

use super::{Class, Effect, Hit, Rule};
use crate::bundle::layout;
use crate::view::{LogClass, Seen, View};

pub(super) const RULE: Rule = Rule {
    mode: "F22",
    id: "UPSTREAM-DOWN",
    class: Class::Upstream,
    title: "the servers that CoreDNS forwards to do not answer",
    needs: &[
        layout::PROBES,
        layout::COREFILE,
        layout::NODE_RESOLV_CONF,
        layout::POLICIES,
        layout::NAMESPACES,
        layout::PODS,
        layout::SERVICES,
        layout::SLICES,
    ],
    latent: false,
    explains: &[Effect::Lost, Effect::Error],
    test,
};

fn test(view: &View<'_>) -> Option<Hit> {
    let segments = view.segments();
    // A zone with servers of its own tells of those.
    let of_all = |name: &str| view.block_of(name).is_some_and(|(_, zone)| zone.is_empty());
    let outside: Vec<_> = view.outside().into_iter().filter(|(_, probe)| of_all(&probe.name)).collect();
    let failing = |probe: &Probe| match probe.result {
        Outcome::Servfail => true,
        _ => probe.none_answered(),
    };
    if outside.is_empty() || !outside.iter().all(|(_, probe)| failing(probe)) {
        return None;
    }
    // Where names of the cluster are lost as well, silence says nothing of the upstreams; an error does, and what the node sees.
    let lossy = !segments.vip_udp.reach.answers();
    let said = outside.iter().any(|(_, probe)| probe.result == Outcome::Servfail);
    // A limit of UDP without EDNS (RFC 1035, 2.3.4).
    let is_large = |name: &str| {
        view.evidence.probes().any(|(_, probe)| {
            probe.name.eq_ignore_ascii_case(name)
                && (probe.has(Flag::Tc) || probe.bytes.is_some_and(|bytes| bytes > 512))
        })
    };
    let names: BTreeSet<String> = outside
        .iter()
        .map(|(_, probe)| probe.name.to_ascii_lowercase())
        .filter(|name| !is_large(name))
        .collect();
    if names.is_empty() {
        return None;
    }
    let line = view.logged(LogClass::UpstreamTimeout).or_else(|| view.logged(LogClass::UpstreamRefused));
    let mut upstreams: Vec<String> =
        names.iter().flat_map(|name| view.upstreams_of(name)).map(|upstream| upstream.to_string()).collect();
    upstreams.sort();
    upstreams.dedup();
    let (first, slowest) = (
        outside.first().map(|(_, probe)| probe.name.clone()).unwrap_or_default(),
        outside.iter().filter_map(|(_, probe)| probe.ms).fold(0.0, f64::max),
    );
    let addresses: Vec<_> =
        names.iter().flat_map(|name| view.upstreams_of(name)).map(|upstream| upstream.ip()).collect();
    let direct: Vec<_> = view
        .evidence
        .probes()
        .filter(|(_, probe)| probe.from == Position::Node && addresses.contains(&probe.server))
        .collect();
    let silent_to_node = !direct.is_empty() && direct.iter().all(|(_, probe)| probe.none_answered());
    if !silent_to_node && (line.is_none() || (lossy && !said)) {
        return None;
    }
    // Where the pod hears no DNS server at all, something before the upstreams is first.
    let heard = |seen: &Seen| seen.answered > 0;
    let partial = !heard(&segments.vip_udp) && !segments.endpoints_udp.iter().any(|(_, seen)| heard(seen));
    let summary = "the upstreams do not answer the DNS pods";
    let mut hit = if names.len() > 1 || silent_to_node { Hit::high(summary) } else { Hit::medium(summary) };
    if silent_to_node {
        hit = hit
            .because("they do not answer the node either")
            .citing(direct.iter().map(|(id, _)| (*id).to_owned()));
    } else if names.len() == 1 {
        hit = hit.because(format!("{first} is the only name outside of the cluster that was asked"));
    }
    let after = if slowest > 0.0 { format!(" after {:.1} s", slowest / 1000.0) } else { String::new() };
    hit = hit.because(match (partial, lossy) {
        (true, _) => format!("{first} fails; so do names of the cluster, for another cause"),
        (false, true) => format!("{first} always fails{after}, names of the cluster are answered in part"),
        (false, false) => format!("{first} fails{after}, names of the cluster are answered"),
    });
    if let Some(line) = line {
        hit = hit
            .because(format!("{} ({}:{})", line.text.trim(), layout::DNS_LOG, line.line))
            .citing([layout::DNS_LOG]);
    }
    let hit = hit
        .citing(outside.iter().map(|(id, _)| (*id).to_owned()))
        .citing(segments.vip_udp.ids)
        .citing([layout::COREFILE])
        .fix(format!(
            "mend {} or the way there (firewall, security group), or name others in forward",
            upstreams.join(", ")
        ))
        .verify(format!(
            "netlab dns query {first} --server {}",
            upstreams.first().cloned().unwrap_or_default()
        ));
    Some(hit.partial_if(partial))
}
