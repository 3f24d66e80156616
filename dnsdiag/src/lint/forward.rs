//! Where the server sends what it does not know: to itself, to servers that know different names, too little at once.
//!
//! Sources: `plugin/forward` (its policy is `random` unless it says otherwise, and NXDOMAIN is final), `plugin/loop`.

use std::net::IpAddr;

use netlab_core::diagnostic::{Diagnostic, code};

use super::ground::{Ground, Server, is_inside, object};
use super::structure::is_filled_in_later;
use crate::corefile::{Block, Plugin, Token, covers};
use crate::kubelet::Policy;

/// Queries at once below which REFUSED comes with every burst; kubeadm writes 1000.
const FEW: i64 = 100;

pub(super) fn find(ground: &Ground<'_>, found: &mut Vec<Diagnostic>) {
    for server in &ground.servers {
        for block in &server.file.blocks {
            for plugin in block.all("forward") {
                loops(ground, server, block, plugin, found);
                mixed(ground, server, plugin, found);
                few(server, plugin, found);
            }
        }
    }
}

/// Where a `forward` leads to.
enum To<'t> {
    Address { address: IpAddr, port: u16, at: &'t Token },
    File { at: &'t Token },
}

fn targets(plugin: &Plugin) -> impl Iterator<Item = To<'_>> {
    plugin.arguments.iter().skip(1).filter(|at| !is_filled_in_later(at)).filter_map(|at| {
        let text = at.text.split_once("://").map_or(at.text.as_str(), |(_, rest)| rest);
        if text.starts_with('/') {
            return Some(To::File { at });
        }
        let bare = text.split('%').next().unwrap_or(text);
        if let Ok(address) = bare.trim_start_matches('[').trim_end_matches(']').parse() {
            return Some(To::Address { address, port: 53, at });
        }
        let (address, port) = text.rsplit_once(':')?;
        let address =
            address.trim_start_matches('[').trim_end_matches(']').split('%').next()?.parse().ok()?;
        Some(To::Address { address, port: port.parse().ok()?, at })
    })
}

fn loops(ground: &Ground<'_>, server: &Server, block: &Block, plugin: &Plugin, found: &mut Vec<Diagnostic>) {
    let ports: Vec<u16> = block.zones().into_iter().map(|key| key.port).collect();
    let mut say = |at: &Token, message: String, hint: &str| {
        let diagnostic = Diagnostic::error(code::DNS_LOOP, message).with_hint(hint);
        found.push(server.text.place(diagnostic, Some(at.position)));
    };
    for target in targets(plugin) {
        match target {
            To::Address { address, port, at } => {
                let own_port = ports.contains(&port);
                if address.is_loopback() && own_port && block.plugin("bind").is_none() {
                    let message = format!("`{}` is the server itself: every query comes back", at.text);
                    say(at, message, "name the servers that the network has");
                } else if !server.node_local && port == 53 && ground.own_addresses().contains(&address) {
                    let message = format!(
                        "`{}` is the address of the cluster's own DNS: every query comes back",
                        at.text
                    );
                    say(at, message, "name the servers that the network has");
                }
            }
            To::File { at } => {
                let pods = ground.dns_pods.iter().find(|(_, pod)| {
                    let asks_cluster = match Policy::of(pod.dns.as_deref()) {
                        Policy::ClusterFirst => !pod.host_network,
                        Policy::ClusterFirstWithHostNet | Policy::Unknown => true,
                        Policy::Default | Policy::None => false,
                    };
                    asks_cluster && !server.node_local && at.text == "/etc/resolv.conf"
                });
                if let Some((key, _)) = pods {
                    let message = format!(
                        "in `{}` of {} stands the cluster's own DNS: every query comes back",
                        at.text,
                        object("Pod", key)
                    );
                    say(
                        at,
                        message,
                        "give the DNS pods `dnsPolicy: Default`, with which they have the node's file",
                    );
                    continue;
                }
                let no_file = ground.kubelets.iter().find(|kubelet| kubelet.config.host_file().is_empty());
                if no_file.is_some() && ground.node_file.is_none() {
                    let message = format!(
                        "with kubelet's `resolvConf: \"\"` there is only 127.0.0.1 in `{}`: every query comes back",
                        at.text
                    );
                    say(at, message, "name servers here, or give kubelet a file");
                    continue;
                }
                let Some(node) = &ground.node_file else { continue };
                let own = ground.own_addresses();
                let hit =
                    node.nameservers().find(|(address, _)| address.is_loopback() || own.contains(address));
                if let Some((address, line)) = hit {
                    let file = &node.text.file;
                    let message = if address.is_loopback() {
                        format!(
                            "`{}` leads to {address} ({file}:{line}), which in the DNS pod is the pod itself",
                            at.text
                        )
                    } else {
                        format!("`{}` leads to {address} ({file}:{line}), the cluster's own DNS", at.text)
                    };
                    say(
                        at,
                        message,
                        "give kubelet a `resolvConf` with real servers (systemd-resolved has /run/systemd/resolve/resolv.conf), or name them here",
                    );
                }
            }
        }
    }
}

/// Random choice among servers of which only some know the names of the inside.
fn mixed(ground: &Ground<'_>, server: &Server, plugin: &Plugin, found: &mut Vec<Diagnostic>) {
    let sequential = plugin
        .property("policy")
        .is_some_and(|policy| policy.arguments.first().is_some_and(|policy| policy.text == "sequential"));
    let goes_on = ["next", "failover"].iter().any(|name| {
        plugin.property(name).is_some_and(|codes| {
            codes.arguments.iter().any(|code| code.text.eq_ignore_ascii_case("NXDOMAIN"))
        })
    });
    if sequential || goes_on {
        return;
    }
    let (mut inside, mut outside) = (None, None);
    let mut count = |address: IpAddr, shown: String| {
        // That one leads nowhere, which is told elsewhere.
        if address.is_loopback() {
            return;
        }
        let side = if is_inside(address) { &mut inside } else { &mut outside };
        side.get_or_insert(shown);
    };
    for target in targets(plugin) {
        match target {
            To::Address { address, .. } => count(address, address.to_string()),
            To::File { at } => {
                for (address, _) in ground.node_file.iter().flat_map(super::ground::NodeFile::nameservers) {
                    count(address, format!("{address} (of `{}`)", at.text));
                }
            }
        }
    }
    if let (Some(inside), Some(outside)) = (inside, outside) {
        let message = format!("{inside} and {outside} are asked at random, and the first answer is final");
        let diagnostic = Diagnostic::warning(code::UPSTREAMS_MIXED, message).with_hint(
            "names of the inside do not exist for the one outside: ask only servers that know the same names",
        );
        let at = plugin.arguments.get(1).unwrap_or(&plugin.name).position;
        found.push(server.text.place(diagnostic, Some(at)));
    }
}

fn few(server: &Server, plugin: &Plugin, found: &mut Vec<Diagnostic>) {
    let Some(property) = plugin.property("max_concurrent") else { return };
    let number = property.arguments.first().and_then(|number| number.text.parse::<i64>().ok());
    if let Some(number) = number.filter(|number| (1..FEW).contains(number)) {
        let message = format!("more than {number} queries at once are answered REFUSED");
        let diagnostic = Diagnostic::warning(code::CONCURRENCY_LOW, message)
            .with_hint("glibc takes REFUSED for the end of its search; 1000 is usual, each costs 2 KB");
        found.push(server.text.place(diagnostic, Some(property.name.position)));
    }
}

/// True when everything of a zone may leave by this plugin.
pub(super) fn forwards_all(plugin: &Plugin) -> bool {
    plugin.words().next().is_some_and(|from| covers(&crate::corefile::normal(from), "."))
}
