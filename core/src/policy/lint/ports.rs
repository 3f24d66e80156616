//! Port names and ranges that do not do what they seem to.
//!
//! Source: `NetworkPolicyPort.port` and `endPort`: a name is looked up, with its protocol, among the container ports of
//! each destination pod. Invariant: the destination pods are the subject for ingress and the peers for egress; where
//! none of them is in the input nothing is said.

use std::collections::BTreeSet;

use netlab_ebpf::abi::Direction;

use super::finding::Finding;
use super::ground::{DIRECTIONS, Ground, is_written, rules};
use super::nearest::nearest_word;
use crate::diagnostic::{Diagnostic, code};
use crate::model::cluster::Pod;
use crate::model::policy::{Peer, PeerMatch, Policy, PolicyKind, Port, Rule};
use crate::model::port::{PortMatch, Protocol};
use crate::policy::groups::GroupIndex;

pub(super) fn find(ground: &Ground<'_>, findings: &mut Vec<Finding>) {
    for policy in &ground.policies.list {
        let mut ranges_told = false;
        for (direction, ..) in DIRECTIONS {
            for rule in rules(policy, direction) {
                findings.extend(names(ground, policy, direction, rule));
                for port in rule.ports.iter().flatten() {
                    findings.extend(end_port(policy, port, &mut ranges_told));
                }
            }
        }
    }
}

/// The groups of pods to which a rule's connections go; `None` when they go to whoever there is.
pub(super) fn destinations(
    ground: &Ground<'_>,
    policy: &Policy,
    direction: Direction,
    rule: &Rule,
) -> Option<Vec<GroupIndex>> {
    if direction == Direction::Ingress {
        return Some(ground.select(&policy.subject).to_vec());
    }
    let peers = rule.peers.as_ref()?;
    let mut groups = BTreeSet::new();
    for peer in peers {
        match &peer.matches {
            PeerMatch::Pods(selector) => groups.extend(ground.select(selector).iter().copied()),
            PeerMatch::Block(_) | PeerMatch::Nodes(_) | PeerMatch::DomainNames(_) => return None,
        }
    }
    Some(groups.into_iter().collect())
}

/// One written element: a name without a protocol stands in the model once per protocol.
struct Written<'r> {
    path: &'r str,
    name: &'r str,
    protocols: Vec<Protocol>,
}

fn names(ground: &Ground<'_>, policy: &Policy, direction: Direction, rule: &Rule) -> Vec<Finding> {
    let mut all: Vec<Written<'_>> = Vec::new();
    for port in rule.ports.iter().flatten() {
        if let PortMatch::Named { protocol, name } = &port.matches {
            match all.last_mut().filter(|last| last.path == &*port.path) {
                Some(last) => last.protocols.push(*protocol),
                None => all.push(Written { path: &port.path, name, protocols: vec![*protocol] }),
            }
        }
    }
    if all.is_empty() {
        return Vec::new();
    }
    let Some(groups) = destinations(ground, policy, direction, rule) else {
        return all.iter().filter_map(|name| nowhere(ground, policy, rule, name)).collect();
    };
    let pods: Vec<&Pod> = ground.subjects(&groups).map(|(_, pod)| pod).collect();
    if pods.is_empty() {
        return Vec::new();
    }
    all.iter().filter_map(|name| judge(policy, direction, name, &pods)).collect()
}

/// A name towards addresses: only pods have names for ports, and none that has this one can be there.
fn nowhere(ground: &Ground<'_>, policy: &Policy, rule: &Rule, name: &Written<'_>) -> Option<Finding> {
    let peers = rule.peers.as_deref()?;
    let may_be = |peer: &Peer, pod: &Pod| match &peer.matches {
        PeerMatch::Block(block) => {
            pod.addresses.is_empty()
                || ground.cluster.leaves_open(block, pod)
                || pod.addresses.iter().any(|address| block.contains(*address))
        }
        // Pods in the host's network are where their node is; what a domain name stands for is not known.
        PeerMatch::Pods(_) | PeerMatch::Nodes(_) | PeerMatch::DomainNames(_) => true,
    };
    let called = |pod: &&Pod| {
        let mut ports = pod.ports.iter();
        ports.any(|port| port.name.as_deref() == Some(name.name) && name.protocols.contains(&port.protocol))
    };
    let mut pods = ground.cluster.pods.values().filter(|pod| !pod.terminal).filter(called);
    if ground.has_no_pods() || pods.any(|pod| peers.iter().any(|peer| may_be(peer, pod))) {
        return None;
    }
    let message = format!(
        "no pod in these blocks has a port called `{}`, and other addresses have no names for ports: this element \
         matches nothing",
        name.name
    );
    let diagnostic =
        Diagnostic::warning(code::PORT_NAME_UNKNOWN, message).with_hint("write the port's number");
    Some(Finding::at(policy, &written_path(policy, name), diagnostic))
}

fn written_path(policy: &Policy, name: &Written<'_>) -> String {
    let path = ["port", "namedPort", "destinationNamedPort"].map(|field| format!("{}.{field}", name.path));
    path.into_iter().find(|path| is_written(policy, path)).unwrap_or_else(|| name.path.to_owned())
}

fn judge(policy: &Policy, direction: Direction, name: &Written<'_>, pods: &[&Pod]) -> Option<Finding> {
    let called: BTreeSet<(Protocol, u16)> = pods
        .iter()
        .flat_map(|pod| &pod.ports)
        .filter(|port| port.name.as_deref() == Some(name.name))
        .map(|port| (port.protocol, port.number))
        .collect();
    let found: BTreeSet<u16> = called
        .iter()
        .filter(|(protocol, _)| name.protocols.contains(protocol))
        .map(|(_, port)| *port)
        .collect();
    let path = written_path(policy, name);
    let whose = if direction == Direction::Ingress { "of the selected pods" } else { "of the peers' pods" };
    if found.len() > 1 && direction == Direction::Egress {
        let numbers: Vec<String> = found.iter().map(ToString::to_string).collect();
        let message =
            format!("the name `{}` stands for several ports here: {}", name.name, numbers.join(", "));
        let hint =
            "Cilium then leaves the whole rule out; numbers, or a rule for each kind of pod, work everywhere";
        let diagnostic = Diagnostic::note(code::PORT_NAME_NUMBERS, message).with_hint(hint);
        return Some(Finding::at(policy, &path, diagnostic).pods(pods.len()));
    }
    if !found.is_empty() {
        return None;
    }
    if let Some((protocol, number)) = called.first() {
        let written = name.protocols.first().copied().unwrap_or_default();
        let message = format!(
            "`{}` is {protocol} {number} on these pods, and this element is for {written}",
            name.name
        );
        let hint = format!("write `protocol: {protocol}`; without it TCP is meant");
        let diagnostic = Diagnostic::warning(code::PORT_NAME_PROTOCOL, message).with_hint(hint);
        return Some(Finding::at(policy, &path, diagnostic).pods(pods.len()));
    }
    let known: BTreeSet<&str> =
        pods.iter().flat_map(|pod| &pod.ports).filter_map(|port| port.name.as_deref()).collect();
    let message = format!("none {whose} has a port called `{}`: this element matches nothing", name.name);
    let hint = match nearest_word(name.name, known.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None if known.is_empty() => "their ports have no names: write the number".to_owned(),
        None => {
            let known: Vec<String> = known.iter().map(|name| format!("`{name}`")).collect();
            format!("they have {}", known.join(", "))
        }
    };
    let diagnostic = Diagnostic::warning(code::PORT_NAME_UNKNOWN, message).with_hint(hint);
    Some(Finding::at(policy, &path, diagnostic).pods(pods.len()))
}

fn end_port(policy: &Policy, port: &Port, told: &mut bool) -> Option<Finding> {
    let PortMatch::Range { range, .. } = &port.matches else { return None };
    let path = format!("{}.endPort", port.path);
    if policy.id.kind != PolicyKind::NetworkPolicy || !is_written(policy, &path) {
        return None;
    }
    if range.start == range.end {
        let message = format!("`endPort` is `port` itself: the range is the one port {}", range.start);
        let diagnostic = Diagnostic::note(code::END_PORT_EQUAL, message);
        let diagnostic = diagnostic.with_hint("delete `endPort`, or write where the range ends");
        return Some(Finding::at(policy, &path, diagnostic));
    }
    // Once per policy is enough to know.
    if std::mem::replace(told, true) {
        return None;
    }
    let message = format!("plugins without support for ranges admit port {} alone", range.start);
    let hint = "Cilium has it since 1.16; ask what your plugin does, or list the ports";
    let diagnostic = Diagnostic::note(code::END_PORT_SUPPORT, message).with_hint(hint);
    Some(Finding::at(policy, &path, diagnostic))
}
