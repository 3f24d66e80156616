//! F19: the DNS servers do not know the cluster: they cannot list it.

use netlab_plugin::evidence::Outcome;

use super::{Class, Hit, Rule};
use crate::bundle::layout;
use crate::view::{Ask, LogClass, View, is_below};

pub(super) const RULE: Rule = Rule {
    mode: "F19",
    id: "COREDNS-UNSYNCED",
    class: Class::DnsServer,
    title: "the DNS servers have no list of Services: the API refuses them or is out of reach",
    needs: &[
        layout::PODS,
        layout::SERVICES,
        layout::SLICES,
        layout::POLICIES,
        layout::NAMESPACES,
        layout::PROBES,
        layout::DNS_LOG,
    ],
    latent: false,
    test,
};

fn test(view: &View<'_>) -> Option<Hit> {
    let domain = view.domain()?;
    let servfail: Vec<String> = view
        .rows(&Ask::from_pod())
        .into_iter()
        .filter(|(_, probe)| probe.result == Outcome::Servfail && is_below(&probe.name, &domain))
        .map(|(id, _)| id.to_owned())
        .collect();
    let line = view.logged(LogClass::Forbidden).or_else(|| view.logged(LogClass::Unsynced))?;
    let unready = view.dns_containers().iter().any(|one| !one.ready);
    if servfail.is_empty() && !unready {
        return None;
    }
    let forbidden = line.class == LogClass::Forbidden;
    let what = if forbidden { "the API refuses them" } else { "they do not reach the API" };
    let outside = view.outside().into_iter().find(|(_, probe)| probe.result == Outcome::Noerror);
    let mut hit = Hit::high("the DNS servers do not know the cluster's Services")
        .because(format!("{what}: {} ({}:{})", line.text.trim(), layout::DNS_LOG, line.line))
        .citing([layout::DNS_LOG])
        .citing(servfail);
    if let Some((id, probe)) = outside {
        hit = hit.because(format!("names outside are answered: {}", probe.name)).citing([id]);
    }
    Some(if forbidden {
        hit.fix("let ClusterRole system:coredns list and watch services, endpointslices, namespaces (and pods)").verify(
            "kubectl auth can-i list endpointslices.discovery.k8s.io --as=system:serviceaccount:kube-system:coredns",
        )
    } else {
        hit.fix("mend the way from the DNS pods to the API server's address")
            .verify("kubectl get --raw /readyz")
    })
}
