//! F48: a nameserver that nobody answers at stands before one that works: glibc and Go wait for it each time.

use std::net::IpAddr;

use super::{Class, Effect, Hit, Rule, command};
use crate::bundle::layout;
use crate::view::{Reach, Server, View};

pub(super) const RULE: Rule = Rule {
    mode: "F48",
    id: "NAMESERVER-DEAD-FIRST",
    class: Class::DnsConfig,
    title: "a silent nameserver stands before one that answers",
    needs: &[layout::POD_RESOLV_CONF, layout::PROBES, layout::SERVICES, layout::PODS],
    latent: false,
    explains: &[Effect::Lost, Effect::Rejected, Effect::Danger],
    test,
};

fn test(view: &View<'_>) -> Option<Hit> {
    let conf = view.conf()?;
    let servers = view.nameservers_seen();
    let good = servers.iter().position(|server| server.udp.reach.answers())?;
    // The cluster's own server and the node's cache should answer: that they do not is another way to fail.
    let has_v6 = view.subject()?.pod.addresses.iter().any(IpAddr::is_ipv6);
    let dead = servers.iter().take(good).find(|server| {
        // Without IPv6 in the pod it is not the server that is dead.
        (server.address.is_ipv4() || has_v6)
            && matches!(server.udp.reach, Reach::Silent | Reach::Rejected)
            && !matches!(
                server.server,
                None | Some(Server::ClusterDns(_) | Server::DnsPod(_) | Server::LinkLocal | Server::Loopback)
            )
    })?;
    let good = servers.get(good)?;
    let line = view.conf_line(&dead.address.to_string()).map_or(String::new(), |line| format!(":{line}"));
    let wait = conf.options.timeout.max(1);
    let asks_all = view.is_musl() == Some(true);
    let what = if asks_all {
        "musl asks all nameservers at once, so it loses no time; glibc and Go do".to_owned()
    } else if conf.options.rotate {
        format!("`rotate` begins with it now and then: {wait} s for each name tried")
    } else {
        format!("{wait} s pass for each name tried before {} is asked", good.address)
    };
    // One datagram may be lost by chance.
    let hit = if asks_all || dead.udp.sent < 2 {
        Hit::medium(summary(dead.address))
    } else {
        Hit::high(summary(dead.address))
    };
    Some(
        hit.because(format!(
            "{} is silent ({}), {} answers ({})",
            dead.address,
            dead.udp.count(),
            good.address,
            good.udp.count()
        ))
        .because(what)
        .citing([layout::POD_RESOLV_CONF])
        .citing(dead.udp.ids.clone())
        .citing(good.udp.ids.clone())
        .fix(format!(
            "remove {} ({}{line}) from where it comes from, and recreate the pod",
            dead.address,
            layout::POD_RESOLV_CONF
        ))
        .verify(command::query(view, &command::canary(view), dead.address, "")),
    )
}

fn summary(address: IpAddr) -> String {
    format!("nameserver {address} is dead and asked first")
}
