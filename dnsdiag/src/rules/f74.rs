//! F74: DNS pods of other nodes work where they are, and packets between the nodes are lost.
//!
//! Invariant: anything that passes between pods of the two nodes, over UDP, TCP or any port and in either direction, speaks
//! for another cause, and silence that policy explains speaks for nothing. Where port 53 alone was tried it stays medium: a
//! filter of that port looks the same; where the DNS pod answered nobody but itself it is lower, for it may be that pod's own fault.

use std::net::IpAddr;

use netlab_plugin::evidence::{Outcome, Position, Probe, Transport};

use super::{Class, Effect, Hit, Rule, command};
use crate::bundle::layout;
use crate::view::{Ask, PolicyVerdict, Reach, View, is_connect};

pub(super) const RULE: Rule = Rule {
    mode: "F74",
    id: "OVERLAY",
    class: Class::NotDns,
    title: "packets between pods of different nodes are lost",
    needs: &[
        layout::SERVICES,
        layout::SLICES,
        layout::PODS,
        layout::NAMESPACES,
        layout::POLICIES,
        layout::PROBES,
    ],
    latent: false,
    explains: &[Effect::Lost, Effect::Rejected],
    test,
};

fn test(view: &View<'_>) -> Option<Hit> {
    let node = view.subject()?.node()?.to_owned();
    let endpoints = view.dns_endpoints();
    let (mut lost, mut works, mut local) = (Vec::new(), Vec::new(), Vec::new());
    for to in view.ready_dns_addresses(Transport::Udp) {
        let Some(of) = endpoints.iter().find(|one| one.address == to.ip()).and_then(|one| one.node.clone())
        else {
            continue;
        };
        let seen = view.canary(&Ask::from_pod().at(to).over(Transport::Udp));
        if of == node {
            // A DNS pod here that fails too makes it something else.
            if seen.reach.fails() {
                return None;
            }
            local.extend(seen.ids);
            continue;
        }
        if seen.reach.answers() {
            return None;
        }
        if seen.reach == Reach::NotAsked {
            continue;
        }
        let denied = denies(view.policy(Transport::Udp, to.ip(), to.port()).verdict);
        let at_home = [Position::OtherNode(of.clone()), Position::DnsPod].into_iter().find_map(|from| {
            let seen = view.canary(&Ask { from: Some(from), ..Ask::default() }.at(to));
            seen.reach.answers().then_some(seen)
        });
        if denied || !matches!(seen.reach, Reach::Silent | Reach::Rejected) || passes(view, &node, &of) {
            return None;
        }
        lost.push((to, of, seen));
        works.extend(at_home);
    }
    let (to, of, seen) = lost.first()?;
    if works.is_empty() {
        return None;
    }
    let from_node = view.canary(&Ask::from_node().at(*to).over(Transport::Udp));
    let admits_node =
        view.policy_from_node(Transport::Udp, to.ip(), to.port()).verdict == PolicyVerdict::Allow;
    let over_tcp = view.canary(&Ask::from_pod().at(*to).over(Transport::Tcp));
    let admits_tcp = !denies(view.policy(Transport::Tcp, to.ip(), to.port()).verdict);
    let other_port = other_port(view, of);
    // That says why.
    if super::f75::test(view).is_some() {
        return None;
    }
    let summary = format!("packets from {node} to pods of {of} are lost");
    // A DNS pod that answers itself over its loopback may still not be reached by anybody.
    let by_neighbour = view
        .canary(&Ask { from: Some(Position::OtherNode(of.clone())), ..Ask::default() }.at(*to))
        .reach
        .answers();
    let mut hit = match (other_port.is_some(), by_neighbour) {
        (true, true) => Hit::high(summary),
        (false, false) => Hit::low(summary),
        _ => Hit::medium(summary),
    };
    hit = hit
        .because(format!(
            "{to} on {of}: {} ({}), and it answers {}",
            seen.reach.as_str(),
            seen.count(),
            if by_neighbour { "on its own node" } else { "itself" }
        ))
        .citing(lost.iter().flat_map(|(_, _, seen)| seen.ids.clone()))
        .citing(works.iter().flat_map(|seen| seen.ids.clone()));
    if !local.is_empty() {
        hit = hit.because(format!("the DNS pod on {node} answers the same pod")).citing(local);
    }
    if over_tcp.reach.fails() && admits_tcp {
        hit = hit.because(format!("over TCP: {}", over_tcp.reach.as_str())).citing(over_tcp.ids);
    }
    if from_node.reach.fails() && admits_node {
        hit = hit
            .because(format!("{node} itself gets nothing from {to} either, and policy admits it"))
            .citing(from_node.ids);
    }
    if !by_neighbour {
        hit = hit.because(format!("nobody else on {of} asked it: its own rules or routes could do the same"));
    }
    hit = match other_port {
        Some((id, probe)) => hit
            .because(format!("port {} of {}: {}", probe.port, probe.server, probe.result.as_str()))
            .citing([id]),
        None => hit.because("only DNS was tried between them: a filter of port 53 would look the same"),
    };
    Some(
        hit.fix(format!("open the overlay between {node} and {of} (VXLAN: UDP 8472 or 4789), and try with `ethtool -K DEVICE tx-checksum-ip-generic off`"))
            .verify(command::query(view, &command::canary(view), to.ip(), "")),
    )
}

const fn denies(verdict: PolicyVerdict) -> bool {
    matches!(verdict, PolicyVerdict::DenyEgress | PolicyVerdict::DenyIngress)
}

/// True for the address of a pod on that node that has a network of its own: a node's own goes another way.
fn is_pod_on(view: &View<'_>, node: &str, address: IpAddr) -> bool {
    view.loaded
        .cluster
        .pods
        .values()
        .any(|pod| !pod.host_network && pod.node.as_deref() == Some(node) && pod.addresses.contains(&address))
}

/// True when anything was heard between `node` and pods of `of`, or from `of` of pods of `node`.
fn passes(view: &View<'_>, node: &str, of: &str) -> bool {
    view.evidence.probes().any(|(_, probe)| {
        let to = match &probe.from {
            Position::Pod | Position::Node => of,
            Position::OtherNode(other) if other == of => node,
            Position::OtherNode(other) if other == node => of,
            _ => return false,
        };
        let heard = probe.answers_seen() > 0
            || matches!(
                probe.result,
                Outcome::Malformed | Outcome::UnexpectedSource | Outcome::ConnectionRefused
            );
        heard && is_pod_on(view, to, probe.server)
    })
}

/// A connection from the pod to another port of a pod there that was lost though policy admits it.
fn other_port<'v>(view: &'v View<'_>, of: &str) -> Option<(&'v str, &'v Probe)> {
    view.evidence.probes().find(|(_, probe)| {
        probe.from == Position::Pod
            && is_connect(probe)
            && probe.port != 53
            && matches!(probe.result, Outcome::Silent | Outcome::HostUnreachable)
            && is_pod_on(view, of, probe.server)
            && view.policy(probe.transport, probe.server, probe.port).verdict == PolicyVerdict::Allow
    })
}
