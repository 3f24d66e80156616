//! F14: the address that kubelet gives to pods belongs to another Service.

use netlab_core::model::cluster::ObjectKey;

use super::{Class, Effect, Hit, Rule};
use crate::bundle::layout;
use crate::view::{Ask, Server, View};

pub(super) const RULE: Rule = Rule {
    mode: "F14",
    id: "SVC-IP-STOLEN",
    class: Class::DnsConfig,
    title: "another Service owns the address that pods ask",
    needs: &[layout::SERVICES, layout::PODS, layout::POD_RESOLV_CONF, layout::PROBES],
    latent: false,
    explains: &[Effect::Lost, Effect::Refused, Effect::Rejected],
    test,
};

fn test(view: &View<'_>) -> Option<Hit> {
    let stolen = view.nameservers().into_iter().find_map(|address| match view.server(address) {
        // One with port 53 may well be a DNS server of somebody's own.
        Some(Server::OtherService(key)) if !serves_dns(view, &key) => Some((address, key)),
        _ => None,
    });
    let (address, owner) = stolen?;
    let asked = view.canary(&Ask::from_pod().to([address]));
    // Whoever answers the canary is a DNS server of the cluster under a name that is not known.
    if asked.answered > 0 || !asked.reach.fails() {
        return None;
    }
    let own = view.subject().and_then(|subject| subject.dns()).and_then(|dns| dns.config.as_ref());
    let of_pod = own.is_some_and(|config| config.nameservers.contains(&address.to_string()));
    let mut hit = Hit::high(format!("{address} belongs to Service {owner}"))
        .because(format!("pods ask {address}, and {owner} is no DNS Service"))
        .citing([layout::POD_RESOLV_CONF, layout::SERVICES])
        .citing(asked.ids)
        .fix(if of_pod {
            format!("take {address} out of dnsConfig.nameservers of {}", view.target)
        } else {
            format!(
                "delete {owner}, create the DNS Service with clusterIP {address}, then {owner} with another"
            )
        })
        .verify(format!("kubectl get services -A | grep {address}"));
    match view.dns_service() {
        Some(dns) => {
            let has: Vec<String> = dns.service.cluster_ips.iter().map(ToString::to_string).collect();
            hit = hit.because(format!("the DNS Service {} has {}", dns.key, has.join(", ")));
        }
        None => hit = hit.because("there is no DNS Service"),
    }
    Some(hit)
}

fn serves_dns(view: &View<'_>, key: &ObjectKey) -> bool {
    let service = view.loaded.cluster.services.get(key);
    service.is_some_and(|service| service.ports.iter().any(|port| port.port == 53))
}
