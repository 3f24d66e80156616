//! F68: the node's `resolv.conf` is of no use to pods: a stub on the node's loopback, or no nameserver at all.

use std::net::IpAddr;

use netlab_plugin::evidence::{Outcome, Transport};

use super::{Class, Effect, Hit, Rule, command};
use crate::bundle::layout;
use crate::view::{Ask, LogClass, View, row_ids};

pub(super) const RULE: Rule = Rule {
    mode: "F68",
    id: "NODE-RESOLV",
    class: Class::DnsConfig,
    title: "pods get the node's resolv.conf, and its nameserver is the node's own loopback, or none",
    needs: &[layout::NODE_RESOLV_CONF, layout::KUBELET, layout::PODS, layout::PROBES],
    latent: false,
    explains: &[Effect::Lost, Effect::Refused, Effect::Rejected, Effect::Error],
    test,
};

fn test(view: &View<'_>) -> Option<Hit> {
    let host = view.host_file()?;
    let servers: Vec<IpAddr> = host.nameservers.iter().filter_map(|line| line.value.parse().ok()).collect();
    let stub = servers.iter().find(|address| address.is_loopback()).copied();
    if !servers.is_empty() && stub.is_none() {
        return None;
    }
    let what = stub
        .map_or("names no nameserver".to_owned(), |stub| format!("names {stub}, the node's own loopback"));
    let node = view.subject()?.node().unwrap_or("the node").to_owned();
    of_pod(view, &what, &node).or_else(|| of_dns_pod(view, &what, &node))
}

/// The pod itself has the node's file.
fn of_pod(view: &View<'_>, what: &str, node: &str) -> Option<Hit> {
    if !view.knows(layout::POD_RESOLV_CONF) {
        return None;
    }
    let own = view.nameservers_seen().into_iter().find(|server| server.address.is_loopback())?;
    let hostnet = view.subject()?.host_network();
    if !own.udp.reach.fails() || hostnet {
        return None;
    }
    let spare = view.nameservers_seen().iter().any(|server| server.udp.reach.answers());
    if spare {
        return None;
    }
    Some(mend(
        view,
        node,
        Hit::high(format!("{node}'s resolv.conf is of no use to pods"))
            .because(format!("{} {what}", layout::NODE_RESOLV_CONF))
            .because(format!(
                "{} has it (dnsPolicy {}): in the pod {} is the pod itself, which {}",
                view.target,
                view.subject()?.dns_policy(),
                own.address,
                own.udp.reach.as_str()
            ))
            .citing([layout::NODE_RESOLV_CONF, layout::POD_RESOLV_CONF, layout::PODS])
            .citing(own.udp.ids)
            .verify(command::query(view, "example.com.", own.address, "")),
    ))
}

/// The DNS pod on this node forwards to it.
fn of_dns_pod(view: &View<'_>, what: &str, node: &str) -> Option<Hit> {
    let domain = view.domain()?;
    if !view.missing(&[layout::COREFILE, layout::SERVICES, layout::SLICES]).is_empty()
        || !view.text(layout::COREFILE)?.contains("/etc/resolv.conf")
    {
        return None;
    }
    let endpoints = view.dns_endpoints();
    let here = endpoints.iter().find(|one| one.ready && one.node.as_deref() == Some(node))?;
    let outside = |address: IpAddr| {
        let mut rows = view.rows(&Ask::default().to([address]).over(Transport::Udp));
        rows.retain(|(_, probe)| !crate::view::is_below(&probe.name, &domain));
        rows
    };
    let failing = outside(here.address);
    let fails = |probe: &netlab_plugin::evidence::Probe| {
        probe.none_answered() || matches!(probe.result, Outcome::Servfail | Outcome::Refused)
    };
    if failing.is_empty() || !failing.iter().all(|(_, probe)| fails(probe)) {
        return None;
    }
    let fine: Vec<_> = endpoints
        .iter()
        .filter(|one| one.node.as_deref() != Some(node))
        .flat_map(|one| outside(one.address))
        .filter(|(_, probe)| !fails(probe))
        .collect();
    let canary = view.canary(&Ask::default().to([here.address]));
    // Its log may say that it asked its own loopback, which holds on every node with such a file.
    let said = view.dns_log().into_iter().find(|line| {
        line.class == LogClass::UpstreamRefused
            && host_loopbacks(view).iter().any(|stub| line.text.contains(&format!("->{stub}:53")))
    });
    if (fine.is_empty() && said.is_none()) || canary.answered == 0 {
        return None;
    }
    let pod = here.pod.clone().unwrap_or_else(|| here.address.to_string());
    let mut hit = Hit::high(format!("{node}'s resolv.conf is of no use to {pod}"))
        .because(format!("{} {what}; {pod} forwards to what it names", layout::NODE_RESOLV_CONF))
        .citing([layout::NODE_RESOLV_CONF, layout::COREFILE]);
    if !fine.is_empty() {
        hit = hit.because(format!("names outside fail at {pod} and resolve at DNS pods of other nodes"));
    }
    if let Some(line) = said {
        hit = hit
            .because(format!("{}:{}: {}", layout::DNS_LOG, line.line, line.text.trim()))
            .citing([layout::DNS_LOG]);
    }
    Some(mend(
        view,
        node,
        hit.citing(row_ids(&failing)).citing(row_ids(&fine)).verify(command::query(
            view,
            "example.com.",
            here.address,
            "",
        )),
    ))
}

/// The loopback addresses that the node's file names.
fn host_loopbacks(view: &View<'_>) -> Vec<IpAddr> {
    let lines = view.host_file().unwrap_or_default().nameservers;
    lines.iter().filter_map(|line| line.value.parse::<IpAddr>().ok()).filter(IpAddr::is_loopback).collect()
}

fn mend(view: &View<'_>, node: &str, hit: Hit) -> Hit {
    let resolved = "/run/systemd/resolve/resolv.conf";
    let set = view.text(layout::KUBELET).is_some_and(|text| text.contains(resolved));
    let hit = if set {
        hit.fix(format!("mend the nameservers in {resolved} of {node} (DHCP, netplan)"))
    } else {
        hit.citing([layout::KUBELET])
            .fix(format!("set resolvConf: {resolved} in {node}'s kubelet configuration and restart it"))
    };
    hit.fix("recreate the pods that have the file: it is written once")
}
