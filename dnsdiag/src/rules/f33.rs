//! F33: pods ask an address that no Service owns: the kubelet's `clusterDNS` is wrong.

use super::{Class, Effect, Hit, Rule};
use crate::bundle::layout;
use crate::view::{Ask, Server, View};

pub(super) const RULE: Rule = Rule {
    mode: "F33",
    id: "CLUSTERIP-WRONG",
    class: Class::DnsConfig,
    title: "the kubelet's clusterDNS is an address that no Service owns",
    needs: &[layout::POD_RESOLV_CONF, layout::KUBELET, layout::SERVICES, layout::PODS, layout::PROBES],
    latent: false,
    explains: &[Effect::Lost, Effect::Refused, Effect::Rejected, Effect::Unroutable],
    test,
};

fn test(view: &View<'_>) -> Option<Hit> {
    let kubelet = view.kubelet()?;
    let configured =
        kubelet.cluster_dns.iter().find(|dns| view.server(dns.value) == Some(Server::Unowned))?;
    let address = configured.value;
    if !view.nameservers().contains(&address) {
        return None;
    }
    let asked = view.canary(&Ask::from_pod().to([address]));
    if !asked.reach.fails() {
        return None;
    }
    let node = view.subject()?.node().unwrap_or("the node").to_owned();
    let line = configured.position.map_or(String::new(), |place| format!(":{}", place.line));
    let mut hit = Hit::high("pods ask an address that no Service owns")
        .because(format!(
            "nameserver {address}, from clusterDNS of {node}'s kubelet ({}{line})",
            layout::KUBELET
        ))
        .citing([layout::POD_RESOLV_CONF, layout::KUBELET, layout::SERVICES])
        .citing(asked.ids);
    let right = view.dns_service().and_then(|dns| Some((dns.key, *dns.service.cluster_ips.first()?)));
    match right {
        Some((key, right)) => {
            let there = view.canary(&Ask::from_pod().to([right]));
            hit = hit.because(format!("no Service has {address}; {key} is {right}"));
            if there.reach.answers() {
                hit = hit.because(format!("{right} answers the same pod")).citing(there.ids);
            }
            hit = hit
                .fix(format!("set clusterDNS to {right} on {node} and restart its kubelet"))
                .fix("recreate its pods: resolv.conf is written once")
                .verify(format!("kubectl get --raw /api/v1/nodes/{node}/proxy/configz"));
        }
        None => {
            hit = hit
                .because("there is no DNS Service")
                .fix("create the DNS Service with that address, or set clusterDNS to the right one")
                .verify("kubectl -n kube-system get services");
        }
    }
    Some(hit)
}
