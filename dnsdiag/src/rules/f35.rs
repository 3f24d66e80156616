//! F35: the pods' domain is not the one that the DNS servers hold.

use netlab_plugin::evidence::Outcome;

use super::{Class, Effect, Hit, Rule};
use crate::bundle::layout;
use crate::view::{Ask, View, is_below};

pub(super) const RULE: Rule = Rule {
    mode: "F35",
    id: "DOMAIN-MISMATCH",
    class: Class::DnsConfig,
    title: "the kubelet's clusterDomain is not a zone of the Corefile's kubernetes plugin",
    needs: &[layout::KUBELET, layout::COREFILE, layout::PROBES],
    latent: false,
    explains: &[Effect::Denied, Effect::Error],
    test,
};

fn test(view: &View<'_>) -> Option<Hit> {
    let domain = view.domain()?;
    let zones = view.kubernetes_zones();
    if zones.is_empty() || zones.iter().any(|(zone, _)| is_below(&domain, zone)) {
        return None;
    }
    let denied: Vec<String> = view
        .rows(&Ask::from_pod())
        .into_iter()
        .filter(|(_, probe)| {
            is_below(&probe.name, &domain)
                && !probe.name.starts_with("netlab-")
                && matches!(probe.result, Outcome::Nxdomain | Outcome::Refused | Outcome::Servfail)
                && probe.soa.as_deref().is_none_or(|soa| !is_below(soa, &domain))
        })
        .map(|(id, _)| id.to_owned())
        .collect();
    // Who answers below it holds it, whatever Corefile was recorded.
    let held = view
        .rows(&Ask::from_pod().below(&*domain))
        .into_iter()
        .any(|(_, probe)| probe.result == Outcome::Noerror && !probe.answers.is_empty());
    if denied.is_empty() || held {
        return None;
    }
    let (zone, line) = zones.iter().find(|(zone, _)| !is_below(zone, "arpa")).or(zones.first())?;
    let hit = Hit::high(format!("pods search {domain}, the servers hold {zone}"))
        .because(format!(
            "{}:{line}: kubernetes {zone}; the kubelet's clusterDomain is {domain}",
            layout::COREFILE
        ))
        .because(format!("names below {domain} go upstream and are denied there"))
        .citing([layout::KUBELET, layout::COREFILE])
        .citing(denied)
        .fix(format!(
            "make them the same: `kubernetes {domain}` in the Corefile, or clusterDomain: {zone} on the nodes"
        ))
        .verify("netlab dns lint --corefile dns/Corefile --kubelet-config node/kubelet.yaml");
    Some(hit)
}
