//! F56: the answer for a headless Service has addresses that no slice has any more.

use netlab_plugin::evidence::Outcome;

use super::{Class, Effect, Hit, Rule, command};
use crate::bundle::layout;
use crate::records::What;
use crate::view::{View, row_ids};

pub(super) const RULE: Rule = Rule {
    mode: "F56",
    id: "HEADLESS-STALE",
    class: Class::DnsServer,
    title: "DNS gives addresses of a headless Service that no slice has any more",
    needs: &[layout::SERVICES, layout::SLICES, layout::NAMESPACES, layout::PODS, layout::PROBES],
    latent: false,
    explains: &[Effect::Misled],
    test,
};

fn test(view: &View<'_>) -> Option<Hit> {
    for wanted in view.wanted() {
        let What::Headless { service } = &wanted.truth.what else { continue };
        if wanted.truth.exists() != Some(true) {
            continue;
        }
        let right = wanted.addresses();
        let rows = view.questions(&wanted.full);
        let stale: Vec<_> = rows
            .iter()
            .copied()
            .filter(|(_, probe)| {
                probe.result == Outcome::Noerror
                    && probe.addresses().iter().any(|address| !right.contains(address))
            })
            .collect();
        let Some((_, first)) = stale.first().copied() else { continue };
        let gone: Vec<String> = first
            .addresses()
            .into_iter()
            .filter(|address| !right.contains(address))
            .map(|address| address.to_string())
            .collect();
        let alive = view.loaded.cluster.pods.iter().find(|(_, pod)| {
            !pod.terminal && pod.addresses.iter().any(|address| gone.contains(&address.to_string()))
        });
        let mut hit = if alive.is_none() {
            Hit::high(format!("DNS gives {} for {service}, which is gone", gone.join(", ")))
        } else {
            Hit::medium(format!("DNS gives {} for {service}, unlike its slices", gone.join(", ")))
        }
        .because(format!(
            "{} {}: {}; its slices do not have {}",
            wanted.full,
            first.qtype,
            first.answers.join(", "),
            gone.join(", ")
        ))
        .citing([layout::SLICES])
        .citing(row_ids(&stale));
        hit = match alive {
            Some((pod, _)) => hit.because(format!("pod {pod} has that address")).despite([layout::PODS]),
            None => hit.because("no pod has that address").citing([layout::PODS]),
        };
        let refused: Vec<_> = view
            .connects()
            .into_iter()
            .filter(|(_, probe)| gone.contains(&probe.server.to_string()) && !probe.result.is_answer())
            .collect();
        if !refused.is_empty() {
            hit = hit.because("connections to it fail").citing(row_ids(&refused));
        }
        if let Some(ttl) = first.ttl {
            hit = hit.because(format!("a cached answer may be {ttl} s old at most when the TTL is right"));
        }
        return Some(
            hit.fix("restart the DNS pod whose answer stays so: its watch of the slices has ended; lower `cache` for the zone if it is the cache")
                .verify(command::query(view, &wanted.full, first.server, "")),
        );
    }
    None
}
