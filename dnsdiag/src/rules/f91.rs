//! F91: the nameserver lies in the block of Service addresses and is no Service's: the proxy's nftables rules drop that.

use super::{Class, Effect, Hit, Rule, command};
use crate::bundle::layout;
use crate::view::{Ask, Server, View};

pub(super) const RULE: Rule = Rule {
    mode: "F91",
    id: "PROXY-UNALLOCATED-IP",
    class: Class::DnsConfig,
    title: "the nameserver is a Service address that no Service has, and the proxy drops packets to it",
    needs: &[layout::POD_RESOLV_CONF, layout::NODE_NFT, layout::SERVICES, layout::PODS, layout::PROBES],
    latent: false,
    explains: &[Effect::Lost, Effect::Refused, Effect::Rejected],
    test,
};

fn test(view: &View<'_>) -> Option<Hit> {
    for address in view.nameservers() {
        if view.server(address) != Some(Server::Unowned) {
            continue;
        }
        let Some(block) = view.dropped_as_unallocated(address) else { continue };
        let asked = view.seen(&Ask::from_pod().to([address]));
        if !asked.reach.fails() {
            continue;
        }
        let line = view.conf_line(&address.to_string()).map_or(String::new(), |line| format!(":{line}"));
        let mut hit = Hit::high(format!("{address} is a Service address that no Service has"))
            .because(format!(
                "the node's rules drop what goes to {block} and is no Service's ({})",
                layout::NODE_NFT
            ))
            .because(format!(
                "{}{line} names it: {} ({})",
                layout::POD_RESOLV_CONF,
                asked.reach.as_str(),
                asked.count()
            ))
            .citing([layout::POD_RESOLV_CONF, layout::NODE_NFT, layout::SERVICES])
            .citing(asked.ids);
        let own = view.subject()?.dns().and_then(|dns| dns.config.as_ref());
        let own = own.is_some_and(|config| config.nameservers.iter().any(|one| one == &address.to_string()));
        let right =
            view.dns_service().and_then(|dns| Some((dns.key.clone(), *dns.service.cluster_ips.first()?)));
        let to = right
            .as_ref()
            .map_or_else(|| "that of the DNS Service".to_owned(), |(key, ip)| format!("{ip} ({key})"));
        if let Some((_, ip)) = &right {
            let there = view.canary(&Ask::from_pod().to([*ip]));
            if there.reach.answers() {
                hit = hit.because(format!("{ip} answers the same pod")).citing(there.ids);
            }
        }
        let place = if own { "dnsConfig.nameservers" } else { "clusterDNS of the kubelet" };
        return Some(
            hit.fix(format!("write {to} into {place} instead of {address}, and recreate the pod")).verify(
                command::query(view, &command::canary(view), right.map_or(address, |(_, ip)| ip), ""),
            ),
        );
    }
    None
}
