//! DNS pods whose own ingress policies do not admit some of those who ask.
//!
//! Invariant: who asks is any pod in scope but the DNS pods themselves; nodes and what is outside are not looked at.

use std::collections::{BTreeMap, BTreeSet};

use netlab_ebpf::abi::Direction;

use super::super::finding::{Finding, count};
use super::super::ground::Ground;
use super::servers::{BOTH, Servers};
use super::{Cause, is_open, of_target};
use crate::diagnostic::{Diagnostic, code};
use crate::model::cluster::ObjectKey;
use crate::model::port::Protocol;
use crate::policy::classes::ClassIndex;

pub(super) fn find(ground: &Ground<'_>, servers: &Servers<'_>, findings: &mut Vec<Finding>) {
    let rulesets = ground.rulesets;
    let mut askers: BTreeMap<ClassIndex, BTreeSet<&ObjectKey>> = BTreeMap::new();
    for (key, pod) in rulesets.pods.iter().filter(|(key, _)| !servers.pods.contains(key)) {
        // One address is enough: DNS goes over one family.
        for address in pod.addresses.iter().take(1) {
            askers.entry(rulesets.classes.of_address(*address)).or_default().insert(key);
        }
    }
    for (table, pods) in ground.tables(Direction::Ingress) {
        let Some(first) = pods.iter().find(|key| servers.pods.contains(**key)) else { continue };
        let Some(compiled) = rulesets.pods.get(*first) else { continue };
        let classes: BTreeSet<ClassIndex> =
            compiled.addresses.iter().map(|address| rulesets.classes.of_address(*address)).collect();
        let mut refused: BTreeSet<&ObjectKey> = BTreeSet::new();
        let mut protocols: BTreeSet<Protocol> = BTreeSet::new();
        let mut causes: BTreeSet<Cause> = BTreeSet::new();
        for (protocol, targets) in BOTH.iter().zip(&servers.targets) {
            let ports: BTreeSet<u16> =
                targets.iter().filter(|(class, _)| classes.contains(class)).map(|(_, port)| *port).collect();
            for (class, askers) in &askers {
                let decided = ports.iter().filter_map(|port| of_target(table, (*class, *port), *protocol));
                for decision in decided.filter(|decision| !is_open(decision)) {
                    causes.extend(Cause::of(table, &decision));
                    refused.extend(askers);
                    protocols.insert(*protocol);
                }
            }
        }
        let speaks = |cause: &&Cause| match cause {
            Cause::Rule { .. } => true,
            Cause::Isolation { policy } => {
                ground.policies.list[*policy as usize].ingress.as_ref().is_some_and(|rules| !rules.is_empty())
            }
        };
        let Some(cause) = causes.iter().find(speaks).or(causes.first()) else { continue };
        let protocols: Vec<&str> = protocols.iter().map(|protocol| protocol.as_str()).collect();
        let message = format!(
            "the DNS pods {} do not admit {} over {}",
            servers.names(ground),
            count(refused.len(), "pod"),
            protocols.join(" and ")
        );
        let hint = match cause {
            Cause::Rule { .. } => "allow UDP and TCP 53 from every namespace before it",
            Cause::Isolation { .. } => "admit UDP and TCP 53 `from: [{namespaceSelector: {}}]`",
        };
        let diagnostic = Diagnostic::warning(code::DNS_SERVER_CLOSED, message).with_hint(hint);
        findings.push(cause.finding(ground, table, "ingress", diagnostic).pods(refused.len()));
    }
}
