//! F49: a nameserver has an IPv6 address, and the pod has no way to it.

use std::net::IpAddr;

use super::{Class, Effect, Hit, Rule, command};
use crate::bundle::layout;
use crate::view::{NameserverSeen, Reach, Server, View};

pub(super) const RULE: Rule = Rule {
    mode: "F49",
    id: "NAMESERVER-IPV6-UNROUTABLE",
    class: Class::DnsConfig,
    title: "a nameserver's IPv6 address cannot be reached from a pod without IPv6",
    needs: &[layout::POD_RESOLV_CONF, layout::PROBES, layout::PODS],
    latent: false,
    explains: &[Effect::Lost, Effect::Rejected, Effect::Unroutable],
    test,
};

fn test(view: &View<'_>) -> Option<Hit> {
    let subject = view.subject()?;
    let has_v6 = subject.pod.addresses.iter().any(IpAddr::is_ipv6);
    let servers = view.nameservers_seen();
    // RFC 4443 section 3.1, code 0: a router has no route. To the cluster's own servers that is another way to fail.
    let by_router = |server: &NameserverSeen| {
        let icmp = view.refused_by(&server.udp).filter(|icmp| (icmp.icmp_type, icmp.code) == (1, 0))?;
        let of_cluster =
            matches!(server.server, Some(Server::ClusterDns(_) | Server::DnsPod(_) | Server::LinkLocal));
        (server.udp.reach == Reach::Rejected && !of_cluster).then_some(icmp)
    };
    let lost = servers.iter().find(|server| {
        let unroutable = server.udp.reach == Reach::Unroutable || by_router(server).is_some();
        let silent = matches!(server.udp.reach, Reach::Silent | Reach::Rejected);
        server.address.is_ipv6() && (unroutable || (silent && !has_v6))
    })?;
    // Without a way to anybody it is no matter of this server, nor of its family.
    let nowhere =
        servers.iter().any(|server| server.address.is_ipv4() && server.udp.reach == Reach::Unroutable);
    if nowhere || view.cut_off().is_some() {
        return None;
    }
    let other = servers.iter().find(|server| server.udp.reach.answers());
    let route = lost.udp.reach == Reach::Unroutable;
    let router = by_router(lost);
    let sure = route || router.is_some();
    let mut hit = if sure { Hit::high(summary(lost.address)) } else { Hit::medium(summary(lost.address)) }
        .because(if let Some(icmp) = router {
            format!("{} has no route to {} and says so (ICMPv6 1/0)", icmp.from, lost.address)
        } else if route {
            format!("sending to {} fails at once: there is no route in the pod", lost.address)
        } else {
            format!(
                "{} is silent ({}): each wait for it costs the resolver's timeout",
                lost.address,
                lost.udp.count()
            )
        })
        .citing([layout::POD_RESOLV_CONF])
        .citing(lost.udp.ids.clone());
    if !has_v6 {
        hit = hit.because(format!("{} has no IPv6 address", view.target)).citing([layout::PODS]);
    }
    hit = match other {
        Some(other) => hit
            .because(format!("{} answers ({})", other.address, other.udp.count()))
            .citing(other.udp.ids.clone()),
        None => hit.because("no other nameserver answers"),
    };
    if has_v6 && route {
        hit = hit.because(format!("{} has an IPv6 address: it is the route that is missing", view.target));
    }
    Some(
        hit.fix(format!("remove {} from the pod's nameservers (clusterDNS, dnsConfig or the node's file), or give the pod IPv6", lost.address))
            .verify(command::query(view, &command::canary(view), lost.address, "")),
    )
}

fn summary(address: IpAddr) -> String {
    format!("no way leads to the nameserver {address}")
}
