//! F36: the pod's `dnsPolicy` is Default, and it asks for names of the cluster.

use super::{Class, Effect, Hit, Rule};
use crate::bundle::layout;
use crate::kubelet::Policy;
use crate::view::View;

pub(super) const RULE: Rule = Rule {
    mode: "F36",
    id: "DNSPOLICY-DEFAULT",
    class: Class::DnsConfig,
    title: "dnsPolicy Default: the pod asks the node's servers for names of the cluster",
    needs: &[layout::POD_RESOLV_CONF, layout::PODS, layout::PROBES],
    latent: false,
    explains: &[Effect::Denied, Effect::Error],
    test,
};

fn test(view: &View<'_>) -> Option<Hit> {
    let subject = view.subject()?;
    if Policy::of(subject.dns()) != Policy::Default {
        return None;
    }
    let (name, denied) = view.denied_cluster_name()?;
    let key = view.key();
    let hit = Hit::high(format!("{key} has dnsPolicy Default"))
        .because("it has the node's resolv.conf, and the node's servers do not know the cluster")
        .because(format!("`{name}` is a name of the cluster and was denied"))
        .citing([layout::PODS, layout::POD_RESOLV_CONF])
        .citing(denied)
        .fix("set dnsPolicy: ClusterFirst (in the workload's pod template)")
        .verify(format!(
            "kubectl -n {} get pod {} -o jsonpath='{{.spec.dnsPolicy}}'",
            key.namespace, key.name
        ));
    Some(hit)
}
