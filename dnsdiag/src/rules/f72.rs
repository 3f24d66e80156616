//! F72: `NodeLocal` `DNSCache` is installed, and the proxy's mode keeps pods from it: IPVS holds the Service's address, or
//! Cilium needs a redirect policy.

use netlab_plugin::evidence::Transport;

use super::{Class, Effect, Hit, Rule, command};
use crate::bundle::layout;
use crate::view::{Ask, NODE_LOCAL, PolicyVerdict, Server, View};

pub(super) const RULE: Rule = Rule {
    mode: "F72",
    id: "NODELOCAL-BYPASSED",
    class: Class::DnsConfig,
    title: "NodeLocal DNSCache is set up for another proxy mode than the cluster's",
    needs: &[layout::POD_RESOLV_CONF, layout::SERVICES, layout::PODS, layout::PROBES],
    latent: false,
    explains: &[Effect::Lost, Effect::Refused, Effect::Rejected, Effect::Danger],
    test,
};

fn test(view: &View<'_>) -> Option<Hit> {
    let node = view.subject()?.node()?.to_owned();
    let runs =
        view.loaded.cluster.pods.iter().find(|(key, pod)| {
            key.name.starts_with("node-local-dns") && pod.node.as_deref() == Some(&*node)
        })?;
    cut_off(view, &runs.0.to_string(), &node).or_else(|| past_it(view, &runs.0.to_string()))
}

/// Cilium without kube-proxy: the cache answers on the node, and pods do not get there.
fn cut_off(view: &View<'_>, cache: &str, node: &str) -> Option<Hit> {
    let asked = view.nameservers().into_iter().find(|address| {
        view.server(*address) == Some(Server::LinkLocal)
            && view.canary(&Ask::from_pod().to([*address]).over(Transport::Udp)).reach.fails()
    })?;
    let cilium = view.loaded.cluster.pods.iter().find(|(_, pod)| {
        pod.labels.get("k8s-app").map(String::as_str) == Some("cilium") && pod.node.as_deref() == Some(node)
    })?;
    let from_node = view.canary(&Ask::from_node().to([asked]));
    let denied = matches!(
        view.policy(Transport::Udp, asked, 53).verdict,
        PolicyVerdict::DenyEgress | PolicyVerdict::DenyIngress
    );
    if !from_node.reach.answers() || denied {
        return None;
    }
    let from_pod = view.canary(&Ask::from_pod().to([asked]));
    let redirect = view.text(layout::POLICIES).is_some_and(|text| text.contains("CiliumLocalRedirectPolicy"));
    let mut hit = Hit::medium(format!("pods do not get to the node's cache {asked}"))
        .because(format!(
            "{asked}: {} for the pod ({}); the node gets answers",
            from_pod.reach.as_str(),
            from_pod.count()
        ))
        .because(format!(
            "{} takes the proxy's place here: it leads pods to {cache} by a CiliumLocalRedirectPolicy only",
            cilium.0
        ))
        .citing(from_pod.ids)
        .citing(from_node.ids)
        .citing([layout::PODS]);
    if redirect {
        hit = hit.despite([layout::POLICIES]);
    }
    Some(
        hit.fix(
            "create the CiliumLocalRedirectPolicy for kube-dns, and let pods ask the ClusterIP of kube-dns",
        )
        .verify(command::query(view, &command::canary(view), asked, "")),
    )
}

/// IPVS: the Service's address is on its own interface, so the cache cannot take it.
fn past_it(view: &View<'_>, cache: &str) -> Option<Hit> {
    let text = view.text(layout::NODE_IPVS)?;
    let vips = view.vips();
    let vip = *vips.first()?;
    let asks_vip = view.nameservers().contains(&vip);
    // In this mode the cache never has the Service's address; where interfaces were recorded they must not say otherwise.
    let held = view.node_local_addresses().unwrap_or_default();
    if !asks_vip || held.contains(&vip) || !text.contains(&format!("{vip}:53")) {
        return None;
    }
    // The cache has not counted what the pods ask; their questions go on as before.
    let asked = view.canary(&Ask::from_pod().to([vip]));
    let own = held.first().map_or_else(|| NODE_LOCAL.to_owned(), ToString::to_string);
    Some(
        Hit::medium("the node's DNS cache is there, and no pod asks it")
            .because(format!(
                "pods ask {vip}, which IPVS holds: {cache} cannot take that address and has {own} alone"
            ))
            .because(format!("{vip}: {} ({})", asked.reach.as_str(), asked.count()))
            .citing([layout::NODE_IPVS, layout::POD_RESOLV_CONF, layout::PODS])
            .citing(asked.ids)
            .fix(format!(
                "set clusterDNS of the kubelets to {own} (IPVS mode), and recreate pods node by node"
            ))
            .verify("netlab dns lint --kubelet-config FILE"),
    )
}
