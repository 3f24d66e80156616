//! Which block and which plugin a name of the cluster meets, and whether that is the one that knows it.
//!
//! Sources: a query goes to the block with the longest zone that covers it (`core/dnsserver/server.go`), and there to
//! plugins in the order in which the server was built. Invariant: zones in normal form.

use netlab_core::diagnostic::{Diagnostic, code};

use super::ground::{Ground, Server};
use super::structure::is_filled_in_later;
use crate::corefile::{Block, Plugin, ZoneKey, covers, normal, order};

/// True below the two zones of addresses.
pub(super) fn is_reverse(zone: &str) -> bool {
    covers("in-addr.arpa.", zone) || covers("ip6.arpa.", zone)
}

/// Zones of a plugin that takes zones, or those of the block.
pub(super) fn zones_of<'p>(block: &Block, words: impl Iterator<Item = &'p str>) -> Vec<String> {
    let zones: Vec<String> =
        words.flat_map(|word| ZoneKey::read(word).unwrap_or_default()).map(|key| key.zone).collect();
    if zones.is_empty() { block.zones().into_iter().map(|key| key.zone).collect() } else { zones }
}

/// The zones of the block's `kubernetes` plugin.
pub(super) fn kubernetes_zones(block: &Block) -> Vec<String> {
    block.plugin("kubernetes").map(|plugin| zones_of(block, plugin.words())).unwrap_or_default()
}

pub(super) fn find(ground: &Ground<'_>, found: &mut Vec<Diagnostic>) {
    for server in &ground.servers {
        domain(ground, server, found);
        shadowed(server, found);
        for (index, block) in server.file.blocks.iter().enumerate() {
            if !server.file.imports_into(index) {
                kept(ground, server, block, found);
            }
            above(server, block, found);
            no_such_name(server, block, found);
        }
    }
}

/// The block that gets queries for a zone, among those of one port and transport.
fn chosen(server: &Server, like: &ZoneKey, zone: &str) -> Option<(usize, String)> {
    let of = |(index, block): (usize, &Block)| {
        let zones = block.zones().into_iter().filter(|key| key.port == like.port);
        let zones = zones.filter(|key| key.transport == like.transport && covers(&key.zone, zone));
        zones.map(|key| (index, key.zone)).max_by_key(|(_, zone)| zone.len())
    };
    server.file.blocks.iter().enumerate().filter_map(of).max_by_key(|(_, zone)| zone.len())
}

/// The kubelet's domain against the server's.
fn domain(ground: &Ground<'_>, server: &Server, found: &mut Vec<Diagnostic>) {
    let Some(domain) = ground.kubelet_domain() else { return };
    if server.node_local || !server.file.imports.is_empty() {
        return;
    }
    if server.kubernetes().next().is_none() {
        unknown(server, &domain, found);
        return;
    }
    let mut serving: Vec<(String, &Plugin)> = Vec::new();
    for (_, block) in server.kubernetes() {
        let Some(plugin) = block.plugin("kubernetes") else { continue };
        if plugin.arguments.iter().chain(&block.keys).any(is_filled_in_later) {
            return;
        }
        serving.extend(kubernetes_zones(block).into_iter().map(|zone| (zone, plugin)));
    }
    let forward: Vec<&(String, &Plugin)> = serving.iter().filter(|(zone, _)| !is_reverse(zone)).collect();
    if forward.iter().any(|(zone, _)| covers(zone, &domain)) {
        return;
    }
    let Some((zone, plugin)) = forward.first() else { return };
    let (zone, domain) = (zone.trim_end_matches('.'), domain.trim_end_matches('.'));
    let message = format!("the server knows `{zone}`, and kubelet tells pods that the cluster is `{domain}`");
    let at = plugin.arguments.first().unwrap_or(&plugin.name).position;
    let hint =
        format!("names below `{domain}` go to the upstream and do not exist there: write one domain in both");
    let diagnostic = Diagnostic::error(code::ZONE_NOT_SERVED, message).with_hint(hint);
    found.push(server.text.place(diagnostic, Some(at)));
}

/// A server none of whose blocks knows the cluster by itself.
fn unknown(server: &Server, domain: &str, found: &mut Vec<Diagnostic>) {
    let shown = domain.trim_end_matches('.');
    let of = |block: &Block| block.zones().into_iter().any(|key| covers(&key.zone, domain));
    let hint = "write `kubernetes CLUSTER_DOMAIN in-addr.arpa ip6.arpa` into the block that gets the cluster's names";
    let diagnostic = match server.file.blocks.iter().find(|block| of(block)) {
        // Whom it forwards to may be the server that knows.
        Some(block) if KNOWING.iter().any(|name| block.plugin(name).is_some()) => Diagnostic::warning(
            code::ZONE_NOT_SERVED,
            format!(
                "no block has the plugin `kubernetes`: names below `{shown}` are what another source says"
            ),
        ),
        _ => Diagnostic::error(
            code::ZONE_NOT_SERVED,
            format!("no block has the plugin `kubernetes`: nothing knows the names below `{shown}`"),
        ),
    };
    let at = server.file.blocks.first().and_then(|block| block.keys.first()).map(|key| key.position);
    found.push(server.text.place(diagnostic.with_hint(hint.replace("CLUSTER_DOMAIN", shown)), at));
}

/// Plugins that may know the cluster's names in place of `kubernetes`.
const KNOWING: [&str; 8] = ["forward", "grpc", "file", "auto", "secondary", "etcd", "hosts", "template"];

/// Names that `kubernetes` knows and another block gets.
fn shadowed(server: &Server, found: &mut Vec<Diagnostic>) {
    for (index, block) in server.kubernetes() {
        let Some(plugin) = block.plugin("kubernetes") else { continue };
        let keys = block.zones();
        for zone in kubernetes_zones(block).iter().filter(|zone| !is_reverse(zone) && *zone != ".") {
            let shown = zone.trim_end_matches('.');
            if !keys.iter().any(|key| covers(&key.zone, zone) || covers(zone, &key.zone)) {
                let message = format!("this block never gets names below `{shown}`");
                let diagnostic = Diagnostic::error(code::ZONE_SHADOWED, message)
                    .with_hint("its zones do not cover what `kubernetes` is to serve: add it to them");
                found.push(server.text.place(diagnostic, Some(plugin.name.position)));
                continue;
            }
            for key in &keys {
                if let Some((other, by)) = chosen(server, key, zone)
                    && other != index
                    && covers(&key.zone, zone)
                {
                    take(server, other, &by, shown, found);
                }
            }
            // Blocks for names inside of the zone, such as one namespace's Services.
            for (other, taker) in server.file.blocks.iter().enumerate().filter(|(other, _)| *other != index) {
                let inside = taker.zones().into_iter().find(|key| {
                    key.zone != *zone
                        && covers(zone, &key.zone)
                        && keys.iter().any(|own| own.port == key.port && own.transport == key.transport)
                        && (key.zone == format!("svc.{zone}")
                            || key.zone == format!("pod.{zone}")
                            || key.zone.ends_with(&format!(".svc.{zone}")))
                });
                if let Some(inside) = inside {
                    take(server, other, &inside.zone, shown, found);
                }
            }
        }
    }
}

fn take(server: &Server, other: usize, zone: &str, shown: &str, found: &mut Vec<Diagnostic>) {
    let Some(block) = server.file.blocks.get(other) else { return };
    if block.plugin("kubernetes").is_some() {
        return;
    }
    let message = format!(
        "names below `{}` come here, and not to the block whose `kubernetes` knows `{shown}`",
        zone.trim_end_matches('.')
    );
    let diagnostic = Diagnostic::warning(code::ZONE_SHADOWED, message).with_hint(
        "the block with the longest zone gets the query: add `kubernetes` here, or choose another zone",
    );
    let at = block
        .keys
        .iter()
        .find(|key| ZoneKey::read(&key.text).unwrap_or_default().iter().any(|key| key.zone == zone));
    found.push(server.text.place(diagnostic, at.or(block.keys.first()).map(|key| key.position)));
}

/// True when a plugin's `fallthrough` lets names of a zone through. One for names inside of it alone counts for reverse
/// zones, which networks divide.
fn falls_through(plugin: &Plugin, zone: &str) -> bool {
    plugin.properties().filter(|property| property.name.text == "fallthrough").any(|property| {
        property.arguments.is_empty()
            || property.arguments.iter().any(|of| {
                let of = normal(&of.text);
                covers(&of, zone) || is_reverse(zone) && covers(zone, &of)
            })
    })
}

/// Plugins behind which nothing is asked for names that they do not know.
fn kept(ground: &Ground<'_>, server: &Server, block: &Block, found: &mut Vec<Diagnostic>) {
    let cluster = normal(&ground.domain());
    for plugin in &block.plugins {
        let name = plugin.name.text.as_str();
        let zones = match name {
            "hosts" | "file" => zones_of(block, plugin.words().skip(1)),
            "template" => zones_of(block, plugin.words().skip(2)),
            "kubernetes" => kubernetes_zones(block),
            _ => continue,
        };
        let behind = |other: &&Plugin| {
            order(&other.name.text) > order(name)
                && ["kubernetes", "forward", "file", "auto", "etcd", "grpc", "secondary"]
                    .contains(&other.name.text.as_str())
        };
        let Some(next) = block.plugins.iter().find(behind) else { continue };
        let next = next.name.text.as_str();
        let mut say = |error: bool, message: String, hint: &str| {
            let diagnostic = if error {
                Diagnostic::error(code::NO_FALLTHROUGH, message)
            } else {
                Diagnostic::warning(code::NO_FALLTHROUGH, message)
            };
            found.push(server.text.place(diagnostic.with_hint(hint), Some(plugin.name.position)));
        };
        // Zones of its own are what it is there for, unless they are everything or the cluster's.
        let own =
            plugin.arguments.len() > if name == "template" { 2 } else { usize::from(name != "kubernetes") };
        let everything = zones.iter().find(|zone| match name {
            "kubernetes" => *zone == ".",
            _ => *zone == "." || covers(zone, &cluster) || !own && !is_reverse(zone),
        });
        let keeps = |zone: &str| {
            let of_cluster = covers(zone, &cluster) && falls_through(plugin, &cluster);
            let lets = falls_through(plugin, zone) || (of_cluster && name != "kubernetes");
            !lets
        };
        match (name, everything) {
            ("hosts", Some(zone)) if keeps(zone) => say(
                true,
                format!(
                    "`hosts` answers SERVFAIL for every name that it does not know: `{next}` is never asked"
                ),
                "add `fallthrough` as its last line",
            ),
            ("template", Some(zone)) if plugin.property("match").is_some() && keeps(zone) => {
                let all = plugin.property("match").is_some_and(|property| {
                    property.arguments.iter().any(|of| [".*", "^.*$", "."].contains(&of.text.as_str()))
                });
                if !all {
                    say(
                        true,
                        format!(
                            "`template` answers SERVFAIL to {} questions that its `match` does not meet",
                            plugin.words().nth(1).unwrap_or("these")
                        ),
                        "add `fallthrough` to it, or give it zones of its own",
                    );
                }
            }
            ("kubernetes", Some(zone)) if keeps(zone) => say(
                true,
                format!(
                    "`kubernetes` without a zone says of every name outside that there is none: `{next}` is never asked"
                ),
                "name the cluster's zone behind `kubernetes`",
            ),
            ("file", Some(zone)) if keeps(zone) => say(
                true,
                format!("`file` without a zone of its own keeps every name: `{next}` is never asked"),
                "name its zone behind the file",
            ),
            _ => {}
        }
        if name == "kubernetes" {
            let whole = |zone: &&String| *zone == "in-addr.arpa." || *zone == "ip6.arpa.";
            let kept: Vec<&str> = zones
                .iter()
                .filter(whole)
                .filter(|zone| !falls_through(plugin, zone))
                .map(|zone| zone.trim_end_matches('.'))
                .collect();
            if !kept.is_empty() {
                say(
                    false,
                    format!(
                        "addresses outside of the cluster have no names: `kubernetes` keeps {}",
                        kept.join(" and ")
                    ),
                    &format!("add `fallthrough {}` to it", kept.join(" ")),
                );
            }
        }
    }
}

/// A plugin below `kubernetes` in the file that is asked before it, for names of the cluster.
fn above(server: &Server, block: &Block, found: &mut Vec<Diagnostic>) {
    let Some(at) = block.plugins.iter().position(|plugin| plugin.name.text == "kubernetes") else { return };
    let zones = kubernetes_zones(block);
    let of_cluster = |zone: &str| zones.iter().any(|of| of != "." && covers(of, zone));
    for plugin in block.plugins.iter().skip(at) {
        let named = match plugin.name.text.as_str() {
            "template" => {
                let named = zones_of(block, plugin.words().skip(2));
                plugin.arguments.len() > 2 && named.iter().any(|zone| of_cluster(zone))
            }
            "hosts" => plugin
                .properties()
                .flat_map(|line| &line.arguments)
                .any(|name| of_cluster(&normal(&name.text))),
            _ => false,
        };
        if named {
            let name = plugin.name.text.as_str();
            let message = format!("`{name}` is asked before `kubernetes`, though it stands below it");
            let diagnostic = Diagnostic::note(code::PLUGIN_ORDER, message)
                .with_hint("the order of the file decides nothing: is it meant to win?");
            found.push(server.text.place(diagnostic, Some(plugin.name.position)));
        }
    }
}

/// `template … AAAA` that denies the name instead of the type.
fn no_such_name(server: &Server, block: &Block, found: &mut Vec<Diagnostic>) {
    for plugin in block.all("template") {
        let denies = plugin
            .property("rcode")
            .is_some_and(|rcode| rcode.arguments.first().is_some_and(|code| code.text == "NXDOMAIN"));
        if plugin.words().nth(1) == Some("AAAA") && denies {
            let message = "AAAA questions are answered NXDOMAIN: to musl the name does not exist at all";
            let diagnostic = Diagnostic::warning(code::AAAA_NXDOMAIN, message)
                .with_hint("answer `rcode NOERROR` without an answer, which denies the type alone");
            let at = plugin.property("rcode").map_or(plugin.name.position, |rcode| rcode.name.position);
            found.push(server.text.place(diagnostic, Some(at)));
        }
    }
}
