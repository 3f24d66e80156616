//! F14: the address that kubelet gives to pods belongs to another Service.

use super::{Class, Hit, Rule};
use crate::bundle::layout;
use crate::view::{Ask, Server, View};

pub(super) const RULE: Rule = Rule {
    mode: "F14",
    id: "SVC-IP-STOLEN",
    class: Class::DnsConfig,
    title: "another Service owns the address that pods ask",
    needs: &[layout::SERVICES, layout::PODS, layout::POD_RESOLV_CONF, layout::PROBES],
    latent: false,
    test,
};

fn test(view: &View<'_>) -> Option<Hit> {
    let stolen = view.nameservers().into_iter().find_map(|address| match view.server(address) {
        Some(Server::OtherService(key)) => Some((address, key)),
        _ => None,
    });
    let (address, owner) = stolen?;
    let asked = view.canary(&Ask::from_pod().to([address]));
    // Whoever answers the canary is a DNS server of the cluster under a name that is not known.
    if asked.answered > 0 || !asked.reach.fails() {
        return None;
    }
    let mut hit = Hit::high(format!("{address} belongs to Service {owner}"))
        .because(format!("pods ask {address}, and {owner} is no DNS Service"))
        .citing([layout::POD_RESOLV_CONF, layout::SERVICES])
        .citing(asked.ids)
        .fix(format!(
            "delete {owner}, create the DNS Service with clusterIP {address}, then {owner} with another"
        ))
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
