//! What proxies do with a Service, for people.
//!
//! Invariant: a number in the table is the length of a list in the JSON; an address that does not answer is never
//! left out, however short the table.

use netlab_core::service::select::Mode;
use netlab_core::service::slices::Packing;
use netlab_core::service::{PortEndpoints, Route, RouteKind, ServiceEndpoints};

use super::layout::{WIDTH, wrap};
use super::style::{QUIET, paint};
use super::table::Table;

/// The table, of one node or of all.
pub(crate) fn render(answer: &ServiceEndpoints, one_node: bool, wide: bool) -> String {
    if let Some(why) = &answer.not_proxied {
        return wrap(&format!("no proxy handles {}: {why}", answer.service), WIDTH).join("\n") + "\n";
    }
    let mut table = Table::with_headings(
        [(!one_node).then_some("NODE"), (!one_node).then_some("ZONE")]
            .into_iter()
            .flatten()
            .chain([
                if one_node { "SERVICE PORT" } else { "PORT" },
                "PROTOCOL",
                "CLUSTER",
                "LOCAL",
                "PROGRAMMED",
                "TOPOLOGY",
            ])
            .chain(wide.then_some("ENDPOINTS")),
    );
    let families = |ports: &[PortEndpoints]| {
        let first = ports.first().map(|port| port.family);
        ports.iter().any(|port| Some(port.family) != first)
    };
    for node in &answer.nodes {
        let both = families(&node.ports);
        for port in &node.ports {
            let zone = node.zone.clone().unwrap_or_else(|| "-".to_owned());
            let place = if one_node { Vec::new() } else { vec![node.node.clone(), zone] };
            let protocol =
                if both { format!("{} {}", port.protocol, port.family) } else { port.protocol.to_owned() };
            let local = port.local.as_ref().map_or_else(|| "-".to_owned(), |local| local.len().to_string());
            let mut row = place;
            row.extend([
                name(port, one_node),
                protocol,
                port.mode.map_or_else(|| "-".to_owned(), |_| port.cluster.len().to_string()),
                local,
                port.reachable.len().to_string(),
                port.mode.map_or("-", Mode::as_str).to_owned(),
            ]);
            if wide {
                row.push(port.reachable.join(","));
            }
            table.row(row);
        }
    }
    let mut text = table.finish();
    let place = |nodes: &[&str]| match nodes {
        _ if one_node => String::new(),
        nodes if nodes.len() == answer.nodes.len() => "every node: ".to_owned(),
        nodes => format!("{}: ", nodes.join(", ")),
    };
    for (why, nodes) in reasons(answer) {
        text += &labelled("why", &format!("{}{why}", place(&nodes)));
    }
    for ((route, protocol), nodes) in worth_saying(answer) {
        let sentence = sentence(route, protocol.as_deref());
        text += &labelled(route.to.as_str(), &format!("{}{sentence}", place(&nodes)));
    }
    if answer.predicted {
        let told: Vec<&str> = std::iter::once("predicted from the pods")
            .chain(answer.assumed.iter().map(String::as_str))
            .collect();
        text += &labelled("slices", &told.join("; "));
    } else {
        for what in &answer.assumed {
            text += &labelled("assumed", what);
        }
    }
    for what in &answer.not_examined {
        text += &labelled("unknown", what);
    }
    text
}

/// With its Service, where there is room for that.
fn name(port: &PortEndpoints, whole: bool) -> String {
    if !whole {
        return if port.port.is_empty() { "-".to_owned() } else { port.port.clone() };
    }
    if port.port.is_empty() { port.service.clone() } else { format!("{}:{}", port.service, port.port) }
}

/// Each reason once, with the nodes that it holds for.
fn reasons(answer: &ServiceEndpoints) -> Vec<(&str, Vec<&str>)> {
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for node in &answer.nodes {
        for port in &node.ports {
            match reasons.iter_mut().find(|(why, _)| *why == port.reason) {
                Some((_, nodes)) if nodes.last() == Some(&&*node.node) => {}
                Some((_, nodes)) => nodes.push(&node.node),
                None => reasons.push((&port.reason, vec![&node.node])),
            }
        }
    }
    reasons
}

/// A route, with the protocol and the family where that has to be said.
type Said<'a> = (&'a Route, Option<String>);

/// Routes from outside, and every route that does not answer; a cluster IP that does is the table's matter. With its
/// protocol where another port of the Service has the same address and number, and its family where a node port has both.
fn worth_saying(answer: &ServiceEndpoints) -> Vec<(Said<'_>, Vec<&str>)> {
    let mut routes: Vec<(Said<'_>, Vec<&str>)> = Vec::new();
    for node in &answer.nodes {
        for (port, route) in
            node.ports.iter().flat_map(|port| port.routes.iter().map(move |route| (port, route)))
        {
            if route.to == RouteKind::ClusterIp && route.outcome == "spread" {
                continue;
            }
            let same = |other: &&PortEndpoints| {
                other.routes.iter().any(|other| other.to == route.to && other.address == route.address)
            };
            let others = || node.ports.iter().filter(same);
            let words: Vec<&str> = [
                others().any(|other| other.protocol != port.protocol).then_some(port.protocol),
                others().any(|other| other.family != port.family).then_some(port.family),
            ]
            .into_iter()
            .flatten()
            .collect();
            let said = (route, (!words.is_empty()).then(|| words.join(" ")));
            match routes.iter_mut().find(|(known, _)| *known == said) {
                Some((_, nodes)) if nodes.last() == Some(&&*node.node) => {}
                Some((_, nodes)) => nodes.push(&node.node),
                None => routes.push((said, vec![&node.node])),
            }
        }
    }
    routes.sort_by_key(|((route, _), _)| route.to);
    routes
}

fn sentence(route: &Route, protocol: Option<&str>) -> String {
    let Route { address, outcome, endpoints, .. } = route;
    let address = protocol.map_or_else(|| address.clone(), |protocol| format!("{address} {protocol}"));
    let what = match *outcome {
        "spread" if endpoints.len() == 1 => "1 endpoint".to_owned(),
        "spread" => format!("{} endpoints", endpoints.len()),
        "refused" => "refused, no endpoint can answer anywhere".to_owned(),
        _ => "dropped, no endpoint of the node can answer".to_owned(),
    };
    let client = match (route.to, *outcome, route.keeps_client_address) {
        (RouteKind::ClusterIp, ..) => "",
        (_, "spread", true) => "; they see the client's own address",
        (_, "spread", false) => "; they see the node's address",
        _ => "",
    };
    if route.to == RouteKind::FromThisNode {
        return format!("{address} asked by the node or its pods: {what}, wherever they run");
    }
    let only = route.source_ranges.as_ref().map_or_else(String::new, |ranges| {
        format!("; only for {} (loadBalancerSourceRanges), others are dropped, pods too", ranges.join(", "))
    });
    format!("{address} {what}{client}{only}")
}

/// Wide enough for the longest label.
const LABEL: usize = 11;

fn labelled(label: &str, text: &str) -> String {
    let mut lines = String::new();
    for (index, line) in wrap(text, WIDTH - LABEL - 4).into_iter().enumerate() {
        let label = if index == 0 { label } else { "" };
        lines += &format!("  {}  {line}\n", paint(QUIET, &format!("{label:<LABEL$}")));
    }
    lines
}

/// The slices, and what a change costs.
pub(crate) fn render_packing(packing: &Packing) -> String {
    let mut table = Table::new(["SLICE", "ADDRESSES", "PORTS", "ENDPOINTS", "READY", "ENDING"]);
    for slice in &packing.slices {
        table.row([
            slice.name.clone(),
            slice.address_type.to_owned(),
            slice.ports.join(","),
            format!("{}/{}", slice.endpoints, packing.per_slice),
            slice.ready.to_string(),
            slice.terminating.to_string(),
        ]);
    }
    let next = packing.next_endpoint.as_deref().unwrap_or("a new slice");
    let cost = |with, without| {
        format!("{} on the wire to all nodes; {} without slices", bytes(with), bytes(without))
    };
    format!("\n{}", table.finish())
        + &labelled("next", &format!("one more endpoint goes to {next}"))
        + &labelled("one change", &cost(packing.change_bytes, packing.change_bytes_without_slices))
        + &labelled(
            "each once",
            &cost(packing.rolling_update_bytes, packing.rolling_update_bytes_without_slices),
        )
        + &labelled("counted", "100 bytes an endpoint, as KEP-752 does; objects are sent whole")
}

#[expect(clippy::cast_precision_loss, reason = "one decimal is shown")]
fn bytes(count: u64) -> String {
    let units = ["B", "kB", "MB", "GB", "TB", "PB", "EB"];
    let mut left = count as f64;
    let mut unit = 0;
    while left >= 1000.0 && unit + 1 < units.len() {
        left /= 1000.0;
        unit += 1;
    }
    let unit = units.get(unit).unwrap_or(&"EB");
    if left.fract() == 0.0 { format!("{left:.0} {unit}") } else { format!("{left:.1} {unit}") }
}
