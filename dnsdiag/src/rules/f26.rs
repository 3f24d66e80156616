//! F26: the pod's list mixes the cluster's DNS with servers that do not know the cluster.

use netlab_plugin::evidence::Outcome;

use super::{Class, Effect, Hit, Rule};
use crate::bundle::layout;
use crate::view::{Ask, Server, View, is_below};

pub(super) const RULE: Rule = Rule {
    mode: "F26",
    id: "MIXED-NAMESERVERS",
    class: Class::DnsConfig,
    title: "the pod's nameservers do not know the same names",
    needs: &[layout::POD_RESOLV_CONF, layout::SERVICES, layout::PODS, layout::PROBES],
    latent: false,
    explains: &[Effect::Denied, Effect::Error],
    test,
};

fn test(view: &View<'_>) -> Option<Hit> {
    let servers = view.nameservers();
    let is_cluster =
        |server: &Server| matches!(server, Server::ClusterDns(_) | Server::LinkLocal | Server::DnsPod(_));
    let of_cluster =
        *servers.iter().find(|address| view.server(**address).as_ref().is_some_and(is_cluster))?;
    let other = *servers.iter().find(|address| {
        matches!(view.server(**address), Some(Server::OfNode | Server::Unowned | Server::Node(_)))
    })?;
    let domain = view.domain()?;
    let denied = view.rows(&Ask::from_pod().to([other])).into_iter().find(|(_, probe)| {
        // To deny what does not exist is right: a random name, a wrong suffix.
        is_below(&probe.name, &domain)
            && matches!(probe.result, Outcome::Nxdomain | Outcome::Refused)
            && (view.truth(&probe.name).and_then(|truth| truth.exists()) == Some(true)
                || probe.name.starts_with("kubernetes.default."))
    });
    let (id, probe) = denied?;
    let musl = view.is_musl()?;
    let effect = if musl {
        "musl asks all of them at once, and the fastest answer wins"
    } else {
        "the first that answers is final, a denial too: which one is asked decides"
    };
    let line = view.conf_line(&other.to_string()).map_or(String::new(), |line| format!(":{line}"));
    let from_spec = view.subject().and_then(|subject| subject.dns()).and_then(|dns| dns.config.as_ref());
    let from_spec = from_spec.is_some_and(|config| config.nameservers.contains(&other.to_string()));
    let hit = Hit::high(format!("{other} beside {of_cluster} does not know the cluster"))
        .because(format!("{other} says {} to {}", probe.result.as_str(), probe.name))
        .because(effect)
        .citing([layout::POD_RESOLV_CONF])
        .citing([id])
        .citing(view.canary(&Ask::from_pod().to([of_cluster])).ids)
        .fix(if from_spec {
            format!("take {other} out of the pod's dnsConfig.nameservers; CoreDNS asks outside itself")
        } else {
            format!(
                "take {other} out of clusterDNS of the node's kubelet ({}{line})",
                layout::POD_RESOLV_CONF
            )
        })
        .verify(format!("netlab dns query {} --server {other}", probe.name));
    Some(hit)
}
