//! F37: `ClusterFirst` on the host's network silently means Default.

use super::{Class, Effect, Hit, Rule};
use crate::bundle::layout;
use crate::kubelet::Policy;
use crate::view::View;

pub(super) const RULE: Rule = Rule {
    mode: "F37",
    id: "HOSTNET",
    class: Class::DnsConfig,
    title: "hostNetwork with ClusterFirst means the node's resolv.conf",
    needs: &[layout::POD_RESOLV_CONF, layout::PODS, layout::PROBES],
    latent: false,
    explains: &[Effect::Denied, Effect::Error],
    test,
};

fn test(view: &View<'_>) -> Option<Hit> {
    let subject = view.subject()?;
    if !subject.host_network() || Policy::of(subject.dns()) != Policy::ClusterFirst {
        return None;
    }
    let (name, denied) = view.denied_cluster_name()?;
    let key = view.key();
    let hit = Hit::high(format!("{key} is on its node's network"))
        .because("with hostNetwork, ClusterFirst is treated as Default: it has the node's resolv.conf")
        .because(format!("`{name}` is a name of the cluster and was denied"))
        .citing([layout::PODS, layout::POD_RESOLV_CONF])
        .citing(denied)
        .fix("set dnsPolicy: ClusterFirstWithHostNet (in the workload's pod template)")
        .verify(format!(
            "kubectl -n {} get pod {} -o jsonpath='{{.spec.dnsPolicy}}'",
            key.namespace, key.name
        ));
    Some(hit)
}
