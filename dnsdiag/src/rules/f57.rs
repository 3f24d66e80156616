//! F57: `publishNotReadyAddresses` names endpoints that do not serve yet, and connections to them fail.

use std::net::IpAddr;

use netlab_plugin::evidence::Outcome;

use super::{Class, Effect, Hit, Rule};
use crate::bundle::layout;
use crate::records::What;
use crate::view::{View, row_ids};

pub(super) const RULE: Rule = Rule {
    mode: "F57",
    id: "HEADLESS-PUBLISHED-NOTREADY",
    class: Class::NotDns,
    title: "a Service publishes endpoints that are not ready, and connections to them fail",
    needs: &[layout::SERVICES, layout::SLICES, layout::NAMESPACES, layout::PODS, layout::PROBES],
    latent: false,
    explains: &[Effect::Connect],
    test,
};

pub(super) fn test(view: &View<'_>) -> Option<Hit> {
    for wanted in view.wanted() {
        let What::Headless { service } = &wanted.truth.what else { continue };
        let found = view.loaded.cluster.services.iter().find(|(key, _)| key.to_string() == *service);
        let Some((key, object)) = found else { continue };
        if !object.publish_not_ready {
            continue;
        }
        let not_serving: Vec<IpAddr> = view
            .slices_of(key)
            .flat_map(|(_, slice)| &slice.endpoints)
            .filter(|endpoint| !endpoint.serving || !endpoint.ready)
            .flat_map(|endpoint| endpoint.addresses.clone())
            .collect();
        let rows = view.questions(&wanted.full);
        let named: Vec<_> = rows
            .iter()
            .copied()
            .filter(|(_, probe)| {
                probe.result == Outcome::Noerror
                    && probe.addresses().iter().any(|one| not_serving.contains(one))
            })
            .collect();
        if named.is_empty() {
            continue;
        }
        let connects = view.connects();
        let failed: Vec<_> = connects
            .iter()
            .copied()
            .filter(|(_, probe)| not_serving.contains(&probe.server) && !probe.result.is_answer())
            .collect();
        let Some((_, first)) = failed.first().copied() else { continue };
        let fine: Vec<_> = connects
            .iter()
            .copied()
            .filter(|(_, probe)| wanted.addresses().contains(&probe.server) && probe.result.is_answer())
            .collect();
        let mut hit = Hit::high(format!("{service} names a pod that is not ready"))
            .because(format!("{}: {}, and its endpoint is not serving", first.server, first.result.as_str()))
            .because(format!("{service} has publishNotReadyAddresses, so DNS names it all the same"))
            .citing([layout::SERVICES, layout::SLICES])
            .citing(row_ids(&named))
            .citing(row_ids(&failed));
        if !fine.is_empty() {
            hit = hit.because("ready endpoints of it take connections").citing(row_ids(&fine));
        }
        return Some(
            hit.fix(format!(
                "use a Service without publishNotReadyAddresses for clients, and keep {service} for peers"
            ))
            .verify(format!(
                "kubectl -n {} get endpointslices -l kubernetes.io/service-name={} -o yaml",
                key.namespace, key.name
            )),
        );
    }
    None
}
