//! F34: the kubelet has no `clusterDNS`, so `ClusterFirst` means the node's file.

use netlab_plugin::evidence::Outcome;

use super::{Class, Effect, Hit, Rule};
use crate::bundle::layout;
use crate::kubelet::Policy;
use crate::view::{Ask, Server, View};

pub(super) const RULE: Rule = Rule {
    mode: "F34",
    id: "KUBELET-NO-CLUSTERDNS",
    class: Class::DnsConfig,
    title: "the kubelet has no clusterDNS",
    needs: &[layout::POD_RESOLV_CONF, layout::KUBELET, layout::PODS, layout::PROBES],
    latent: false,
    explains: &[Effect::Lost, Effect::Refused, Effect::Rejected, Effect::Error, Effect::Denied],
    test,
};

fn test(view: &View<'_>) -> Option<Hit> {
    let kubelet = view.kubelet()?;
    let subject = view.subject()?;
    let wants_cluster = match Policy::of(subject.dns()) {
        Policy::ClusterFirst => !subject.host_network(),
        Policy::ClusterFirstWithHostNet | Policy::Unknown => true,
        Policy::Default | Policy::None => false,
    };
    if !kubelet.cluster_dns.is_empty() || !wants_cluster {
        return None;
    }
    // A flag or a drop-in may set it: then the pod has the cluster's server.
    let servers: Vec<_> = view.nameservers().into_iter().map(|address| view.server(address)).collect();
    let of_node = |server: &Option<Server>| {
        matches!(server, Some(Server::OfNode | Server::Unowned | Server::Node(_) | Server::Loopback))
    };
    if !servers.iter().all(of_node) {
        return None;
    }
    let node = subject.node().unwrap_or("the node").to_owned();
    let mut hit = Hit::high(format!("the kubelet of {node} has no clusterDNS"))
        .because("ClusterFirst then gives pods the node's own resolv.conf (event MissingClusterDNS)")
        .citing([layout::KUBELET, layout::POD_RESOLV_CONF]);
    let denied: Vec<String> = view
        .rows(&Ask::from_pod())
        .into_iter()
        .filter(|(_, probe)| {
            // To deny what does not exist is right.
            let is_there = view.truth(&probe.name).and_then(|truth| truth.exists()) == Some(true)
                || probe.name.starts_with("kubernetes.default.");
            probe.result == Outcome::Nxdomain && is_there
        })
        .map(|(id, _)| id.to_owned())
        .collect();
    let asked: Vec<String> = view
        .nameservers_seen()
        .into_iter()
        .filter(|one| one.udp.reach.fails())
        .flat_map(|one| one.udp.ids)
        .collect();
    if !denied.is_empty() {
        hit = hit.because("its servers deny names of the cluster").citing(denied);
    }
    hit = hit.citing(asked);
    let right = view.dns_service().and_then(|dns| dns.service.cluster_ips.first().copied());
    let right = right.map_or_else(|| "the DNS Service's address".to_owned(), |address| address.to_string());
    Some(
        hit.fix(format!(
            "set clusterDNS: [{right}] and clusterDomain on {node}, restart its kubelet, recreate its pods"
        ))
        .verify(format!("kubectl get --raw /api/v1/nodes/{node}/proxy/configz")),
    )
}
