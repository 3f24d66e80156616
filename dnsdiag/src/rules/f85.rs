//! F85: DNS has the new address, and the application uses the old one from a cache of its own.

use std::net::IpAddr;

use netlab_plugin::evidence::Outcome;

use super::{Class, Effect, Hit, Rule, command};
use crate::bundle::layout;
use crate::view::{View, row_ids};

pub(super) const RULE: Rule = Rule {
    mode: "F85",
    id: "APP-CACHE",
    class: Class::NotDns,
    title: "the application uses an address from its own cache that DNS does not give any more",
    needs: &[
        layout::SYMPTOM,
        layout::POD_HOSTS,
        layout::SERVICES,
        layout::SLICES,
        layout::NAMESPACES,
        layout::PODS,
        layout::PROBES,
    ],
    latent: false,
    explains: &[Effect::Reported],
    test,
};

fn test(view: &View<'_>) -> Option<Hit> {
    let (id, symptom) = view.evidence.symptom()?;
    if symptom.uses.is_empty() {
        return None;
    }
    for wanted in view.wanted() {
        let right = wanted.addresses();
        // Names outside may have other addresses each time; those of the cluster have what objects say.
        if wanted.truth.exists() != Some(true) || right.is_empty() {
            continue;
        }
        if !view.in_hosts(&wanted.name).is_empty() {
            continue;
        }
        let old: Vec<IpAddr> = symptom.uses.iter().copied().filter(|one| !right.contains(one)).collect();
        let rows = view.questions(&wanted.full);
        let told: Vec<_> = rows
            .iter()
            .copied()
            .filter(|(_, probe)| probe.result == Outcome::Noerror && !probe.addresses().is_empty())
            .collect();
        let all_right = told.iter().all(|(_, probe)| probe.addresses().iter().all(|one| right.contains(one)));
        let (Some(first), Some((_, probe))) = (old.first(), told.first().copied()) else { continue };
        if !all_right || rows.iter().any(|(_, probe)| probe.result == Outcome::Nxdomain) {
            continue;
        }
        let mut hit = Hit::high(format!("the application uses {first} from its own cache"))
            .because(format!(
                "DNS gives {} for {}, as the cluster has it",
                probe.answers.join(", "),
                wanted.full
            ))
            .because(format!("{} uses {first}", view.target))
            .citing([id])
            .citing([layout::SERVICES, layout::SLICES])
            .citing(row_ids(&told));
        let owner = view.loaded.cluster.pods.iter().find(|(_, pod)| pod.addresses.contains(first));
        if owner.is_none() && view.service_at(*first).is_none() {
            hit = hit.because("no pod and no Service has that address now");
        }
        let failed: Vec<_> = view
            .connects()
            .into_iter()
            .filter(|(_, probe)| probe.server == *first && !probe.result.is_answer())
            .collect();
        if !failed.is_empty() {
            hit = hit.because("connections to it fail").citing(row_ids(&failed));
        }
        hit = match symptom.application.as_deref() {
            Some("java") => hit.fix("set the security property networkaddress.cache.ttl to 30 (and negative.ttl to 5), then restart the JVM"),
            Some("nginx") => hit.fix("use `resolver … valid=30s` and a variable in proxy_pass: nginx else resolves at start only"),
            _ => hit.fix("let the application resolve again when connections fail, and keep answers no longer than their TTL"),
        };
        return Some(hit.verify(command::query(view, &wanted.full, probe.server, "")));
    }
    None
}
