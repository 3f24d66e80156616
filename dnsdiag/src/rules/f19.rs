//! F19: the DNS servers do not know the cluster: they cannot list it.

use netlab_plugin::evidence::Outcome;

use super::{Class, Effect, Hit, Rule};
use crate::bundle::layout;
use crate::view::{Ask, LogClass, View};

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
    explains: &[Effect::Lost, Effect::Refused, Effect::Rejected, Effect::Error],
    test,
};

fn test(view: &View<'_>) -> Option<Hit> {
    let domain = view.domain()?;
    let rows = view.rows(&Ask::from_pod().below(&*domain));
    let of = |result| -> Vec<String> {
        let rows = rows.iter().filter(move |(_, probe)| probe.result == result);
        rows.map(|(id, _)| (*id).to_owned()).collect()
    };
    // Who knows a name of the cluster has its list; where another does not, it is that one alone.
    let knows = rows.iter().any(|(_, probe)| {
        probe.result == Outcome::Noerror
            && !probe.answers.is_empty()
            && !probe.name.starts_with("dns-version.")
    });
    // Every start waits for the API.
    let starts = |text: &str| {
        let text = text.to_lowercase();
        text.contains("waiting for kubernetes api") && !text.contains("still")
    };
    let unsynced = || {
        let lines = view.dns_log().into_iter().filter(|line| line.class == LogClass::Unsynced);
        let (at_start, later): (Vec<_>, Vec<_>) = lines.partition(|line| starts(line.text));
        later.into_iter().chain(at_start).next()
    };
    let line = view.logged(LogClass::Forbidden).or_else(unsynced)?;
    let containers = view.dns_containers();
    let unready = !containers.is_empty() && containers.iter().all(|one| !one.ready);
    let servfail = of(Outcome::Servfail);
    if knows || (servfail.is_empty() && !unready) {
        return None;
    }
    let forbidden = line.class == LogClass::Forbidden;
    let what = if forbidden { "the API refuses them" } else { "they do not reach the API" };
    let outside = view.outside().into_iter().find(|(_, probe)| probe.result == Outcome::Noerror);
    let summary = "the DNS servers do not know the cluster's Services";
    let mut hit = if starts(line.text) { Hit::medium(summary) } else { Hit::high(summary) }
        .because(format!("{what}: {} ({}:{})", line.text.trim(), layout::DNS_LOG, line.line))
        .citing([layout::DNS_LOG])
        .citing(servfail)
        .citing(view.segments().udp_ids());
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
