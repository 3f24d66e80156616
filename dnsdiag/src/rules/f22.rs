//! F22: names of the cluster resolve, names outside do not: the upstreams do not answer the DNS pods.

use netlab_plugin::evidence::{Outcome, Probe};

use super::{Class, Hit, Rule};
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
    test,
};

fn test(view: &View<'_>) -> Option<Hit> {
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
    let line = view.logged(LogClass::UpstreamTimeout).or_else(|| view.logged(LogClass::UpstreamRefused))?;
    let upstreams: Vec<String> = view.upstreams().iter().map(ToString::to_string).collect();
    let (first, slowest) = (
        outside.first().map(|(_, probe)| probe.name.clone()).unwrap_or_default(),
        outside.iter().filter_map(|(_, probe)| probe.ms).fold(0.0, f64::max),
    );
    let hit = Hit::high("the upstreams do not answer the DNS pods")
        .because(format!("{first} fails after {:.1} s, names of the cluster are answered", slowest / 1000.0))
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
