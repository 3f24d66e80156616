//! F22: names of the cluster resolve, names outside do not: the upstreams do not answer the DNS pods.
//!
//! Invariant: names whose answers are known to be large show nothing, because it may be their size that is lost. One name by
//! itself makes it medium unless the upstreams are silent to the node as well.

use std::collections::BTreeSet;

use netlab_plugin::evidence::{Flag, Outcome, Position, Probe};

use super::{Class, Effect, Hit, Rule};
use crate::bundle::layout;
use crate::view::{LogClass, View};

pub(super) const RULE: Rule = Rule {
    mode: "F22",
    id: "UPSTREAM-DOWN",
    class: Class::Upstream,
    title: "the servers that CoreDNS forwards to do not answer",
    needs: &[
        layout::PROBES,
        layout::COREFILE,
        layout::NODE_RESOLV_CONF,
        layout::DNS_LOG,
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

pub(super) fn test(view: &View<'_>) -> Option<Hit> {
    let segments = view.segments();
    let outside = view.outside();
    let failing = |probe: &Probe| match probe.result {
        Outcome::Servfail => true,
        _ => probe.none_answered(),
    };
    if outside.is_empty()
        || !outside.iter().all(|(_, probe)| failing(probe))
        || !segments.vip_udp.reach.answers()
    {
        return None;
    }
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
    let line = view.logged(LogClass::UpstreamTimeout).or_else(|| view.logged(LogClass::UpstreamRefused))?;
    let upstreams: Vec<String> = view.upstreams().iter().map(ToString::to_string).collect();
    let (first, slowest) = (
        outside.first().map(|(_, probe)| probe.name.clone()).unwrap_or_default(),
        outside.iter().filter_map(|(_, probe)| probe.ms).fold(0.0, f64::max),
    );
    let addresses: Vec<_> = view.upstreams().iter().map(std::net::SocketAddr::ip).collect();
    let direct: Vec<_> = view
        .evidence
        .probes()
        .filter(|(_, probe)| probe.from == Position::Node && addresses.contains(&probe.server))
        .collect();
    let silent_to_node = !direct.is_empty() && direct.iter().all(|(_, probe)| probe.none_answered());
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
    let hit = hit
        .because(format!("{first} fails{after}, names of the cluster are answered"))
        .because(format!("{} ({}:{})", line.text.trim(), layout::DNS_LOG, line.line))
        .citing(outside.iter().map(|(id, _)| (*id).to_owned()))
        .citing(segments.vip_udp.ids)
        .citing([layout::DNS_LOG, layout::COREFILE])
        .fix(format!(
            "mend {} or the way there (firewall, security group), or name others in forward",
            upstreams.join(", ")
        ))
        .verify(format!(
            "netlab dns query {first} --server {}",
            upstreams.first().cloned().unwrap_or_default()
        ));
    Some(hit)
}
