//! F07: questions reach the DNS pods and are answered, and the answers are dropped on the way back: a policy that knows no
//! connections.
//!
//! Invariant: a correct enforcer lets replies pass, so isolation alone blames nobody. The loss must be of the pod alone (its
//! node, which asks the same servers, is answered), over UDP and TCP, and the node must have a way to the pod. A filter on the
//! node that drops replies looks the same: never more than medium.

use std::net::IpAddr;

use ipnet::IpNet;
use netlab_plugin::evidence::Transport;

use super::{Class, Effect, Hit, Rule};
use crate::bundle::layout;
use crate::view::{Ask, PolicyVerdict, Reach, Seen, Segments, Server, View};

pub(super) const RULE: Rule = Rule {
    mode: "F07",
    id: "POLICY-REPLY-DROPPED",
    class: Class::NotDns,
    title: "the DNS pods answer, and an ingress policy without connection tracking drops the answers",
    needs: &[
        layout::POLICIES,
        layout::PODS,
        layout::NAMESPACES,
        layout::SERVICES,
        layout::SLICES,
        layout::PROBES,
        layout::DNS_LOG,
        layout::NODES,
        layout::NODE_ADDRESSES,
    ],
    latent: false,
    explains: &[Effect::Lost],
    test,
};

fn test(view: &View<'_>) -> Option<Hit> {
    let segments = view.segments();
    let tcp = segments.endpoints_tcp.iter().map(|(_, seen)| seen).chain([&segments.vip_tcp]);
    let udp = segments.endpoints_udp.iter().map(|(_, seen)| seen).chain([&segments.vip_udp]);
    // Whoever is refused or finds no route was told so.
    let silent = |seen: &Seen| matches!(seen.reach, Reach::Silent | Reach::NotAsked);
    if !segments.endpoints_fail()
        || !segments.endpoints_fail_tcp()
        || !udp.into_iter().all(silent)
        || tcp.into_iter().any(|seen| seen.answered > 0)
        || something_came(view)
        || !of_the_pod_alone(view, &segments)
    {
        return None;
    }
    let endpoints = view.ready_dns_addresses(Transport::Udp);
    let allowed = |to: &std::net::SocketAddr| {
        view.policy(Transport::Udp, to.ip(), to.port()).verdict == PolicyVerdict::Allow
    };
    if endpoints.is_empty() || !endpoints.iter().all(allowed) {
        return None;
    }
    let subject = view.subject()?;
    let address = *subject.pod.addresses.first()?;
    // What CoreDNS's `log` plugin writes for a question that it answered: `[INFO] 10.244.1.7:40000 - 1 "A IN name …" NOERROR`.
    let written = match address {
        IpAddr::V4(address) => format!("{address}:"),
        IpAddr::V6(address) => format!("[{address}]:"),
    };
    // Without a way back of the node it is no policy.
    if !has_way(view.text(layout::NODE_ADDRESSES)?, address) {
        return None;
    }
    let log = view.text(layout::DNS_LOG)?;
    let asked = names_of_now(view);
    let line = log.lines().position(|line| {
        line.contains(&written)
            && asked.iter().any(|name| line.to_ascii_lowercase().contains(&format!(" in {name} ")))
            && line.contains(" IN ")
            && line.contains(" udp ")
            && (line.contains("NOERROR") || line.contains("NXDOMAIN"))
    })?;
    // A policy that knew no connections would have to admit the servers to the pod as if they opened one.
    let dns_pod = view.dns_pods().first().map(|(key, _)| (*key).clone())?;
    let back = view.policy_between(&dns_pod, Transport::Udp, address, 40_000);
    if back.verdict != PolicyVerdict::DenyIngress {
        return None;
    }
    let key = view.key();
    let hit = Hit::medium(format!("answers to {key} are dropped on their way back"))
        .because(format!("the DNS pods answered it ({}:{})", layout::DNS_LOG, line + 1))
        .because(match back.isolated_by().as_slice() {
            [] => back.cite(),
            policies => format!("{} isolates it for ingress; replies pass only where connections are tracked", policies.join(", ")),
        })
        .because("its node, which asks the same servers, is answered: it is this pod alone, over UDP and TCP")
        .because("a filter on the node that drops what comes from port 53 would look the same")
        .citing([layout::DNS_LOG, layout::POLICIES, layout::NODE_ADDRESSES])
        .citing(segments.udp_ids())
        .citing(segments.tcp_ids())
        .citing(segments.node_ids())
        .fix("let the enforcer track connections (no NOTRACK for pod traffic), or admit UDP from port 53 of the DNS pods")
        .verify(format!("netlab policy eval --from {dns_pod} --to {key} --port 40000/udp"));
    Some(hit)
}

/// The names that the pod asked for, in lower case with their last dot. A log has lines of other days too: where names that
/// are made up for each run were asked, only those tell of now.
fn names_of_now(view: &View<'_>) -> Vec<String> {
    let rows = view.rows(&Ask::from_pod());
    let names =
        rows.iter().map(|(_, probe)| format!("{}.", probe.name.trim_end_matches('.').to_ascii_lowercase()));
    let (made_up, others): (Vec<_>, Vec<_>) = names.partition(|name| name.starts_with("netlab-"));
    if made_up.is_empty() { others } else { made_up }
}

/// Whether the pod got any answer of the cluster's DNS at all, whatever it asked for: what drops replies for a policy lets
/// none through. What lets some through goes by size, rate or chance.
fn something_came(view: &View<'_>) -> bool {
    let of_cluster =
        |address: IpAddr| matches!(view.server(address), Some(Server::ClusterDns(_) | Server::DnsPod(_)));
    view.rows(&Ask::from_pod()).iter().any(|(_, probe)| probe.answers_seen() > 0 && of_cluster(probe.server))
}

/// True when the node is answered by a server, and by every server that policy lets it ask.
fn of_the_pod_alone(view: &View<'_>, segments: &Segments) -> bool {
    let admitted = |to: &std::net::SocketAddr| {
        view.policy_from_node(Transport::Udp, to.ip(), to.port()).verdict == PolicyVerdict::Allow
    };
    segments.node_udp.iter().any(|(_, seen)| seen.reach.answers())
        && !segments.node_udp.iter().any(|(to, seen)| seen.reach.fails() && admitted(to))
}

/// Whether the node's routes (`ip route`, `ip -6 route`) lead to an address by more than the default: the longest prefix counts.
/// A default route never leads to a pod of the node itself.
fn has_way(text: &str, address: IpAddr) -> bool {
    let mut best: Option<(u8, bool)> = None;
    let mut inside = false;
    for line in text.lines() {
        if let Some(command) = line.strip_prefix('#') {
            inside = command.contains(" route");
            continue;
        }
        if !inside || line.starts_with(char::is_whitespace) {
            continue;
        }
        let mut words = line.split_ascii_whitespace();
        let Some(mut word) = words.next() else { continue };
        let nowhere = matches!(word, "blackhole" | "unreachable" | "prohibit" | "throw");
        if nowhere || matches!(word, "unicast" | "local" | "broadcast" | "anycast" | "multicast") {
            word = words.next().unwrap_or_default();
        }
        let Some(length) = covers(word, address) else { continue };
        // Of equal ones the first is asked first.
        if best.is_none_or(|(longest, _)| length > longest) {
            best = Some((length, !nowhere));
        }
    }
    best.is_some_and(|(_, leads)| leads)
}

/// The length of a prefix that holds the address.
fn covers(prefix: &str, address: IpAddr) -> Option<u8> {
    let network: IpNet = prefix.parse().or_else(|_| prefix.parse::<IpAddr>().map(IpNet::from)).ok()?;
    (network.prefix_len() > 0 && network.contains(&address)).then_some(network.prefix_len())
}
