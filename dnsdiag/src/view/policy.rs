//! What policy says about the pod's questions: asked of `netlab_core::policy`, with the entry that decides.
//!
//! Invariant: asked for the address and port behind the Service, since policy is enforced after translation; nothing is evaluated
//! here, and without recorded policies, pods and namespaces there is no answer.

use std::collections::BTreeSet;
use std::net::IpAddr;

use netlab_core::model::cluster::ObjectKey;
use netlab_core::policy::evaluate::{PairEvaluation, Side};
use netlab_core::policy::query::{End, Query, Service};
use netlab_core::policy::{Rulesets, Scope, compile, evaluate};
use netlab_plugin::evidence::Transport;

use super::View;
use crate::bundle::layout;

/// What it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyVerdict {
    /// It passes.
    Allow,
    /// The asking pod's egress denies it.
    DenyEgress,
    /// The asked pod's ingress denies it.
    DenyIngress,
    /// It cannot be told: not recorded, or the API leaves it open.
    Unknown,
}

/// The answer for one destination.
#[derive(Clone, Debug)]
pub struct PolicyAnswer {
    /// What it says.
    pub verdict: PolicyVerdict,
    /// UDP or TCP.
    pub transport: Transport,
    /// The destination.
    pub address: IpAddr,
    /// The port.
    pub port: u16,
    /// The side that decides.
    pub side: Option<Side>,
    /// Why it cannot be told.
    pub why: Option<String>,
}

impl PolicyAnswer {
    /// `entry 21, default deny: isolated, and no rule admits`.
    #[must_use]
    pub fn cite(&self) -> String {
        let Some(side) = &self.side else { return self.why.clone().unwrap_or_default() };
        let entry = side.entry.map_or(String::new(), |entry| format!("entry {entry}"));
        let what = match &side.rule {
            Some(rule) => {
                let place = match (&rule.file, rule.line) {
                    (Some(file), Some(line)) => format!(" ({file}:{line})"),
                    _ => String::new(),
                };
                format!("{} {} {}{place}", rule.kind, rule.qualified_name(), rule.path)
            }
            None => side.reason.clone(),
        };
        [entry, what].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ")
    }

    /// The policies that isolate the deciding side: `NetworkPolicy batch/deny-egress (cluster/policies.yaml:1)`.
    #[must_use]
    pub fn isolated_by(&self) -> Vec<String> {
        let Some(side) = &self.side else { return Vec::new() };
        let place = |policy: &netlab_core::policy::provenance::PolicyRef| match (&policy.file, policy.line) {
            (Some(file), Some(line)) => format!(" ({file}:{line})"),
            _ => String::new(),
        };
        side.isolated_by
            .iter()
            .map(|policy| format!("{} {}{}", policy.kind, policy.qualified_name(), place(policy)))
            .collect()
    }
}

/// The facts that policy questions rest on.
pub const POLICY_FACTS: [&str; 3] = [layout::POLICIES, layout::PODS, layout::NAMESPACES];

impl View<'_> {
    /// What policy says about a packet from the pod to an address and port.
    #[must_use]
    pub fn policy(&self, transport: Transport, address: IpAddr, port: u16) -> PolicyAnswer {
        self.policy_between(&self.key(), transport, address, port)
    }

    /// The same for any pod.
    #[must_use]
    pub fn policy_between(
        &self,
        from: &ObjectKey,
        transport: Transport,
        address: IpAddr,
        port: u16,
    ) -> PolicyAnswer {
        let unknown = |why: String| unknown(transport, address, port, why);
        let missing = self.missing(&POLICY_FACTS);
        if !missing.is_empty() {
            return unknown(format!("{} not recorded", missing.join(", ")));
        }
        let Some(pod) = self.loaded.cluster.pods.get(from) else {
            return unknown(format!("pod {from} is not in {}", layout::PODS));
        };
        if pod.host_network {
            return unknown(format!("{from} uses its node's network: pod policies do not select it"));
        }
        self.policy_from(End::Pod(from.clone()), transport, address, port)
    }

    /// The same for the pod's node, which policies of the pods that it asks may concern.
    #[must_use]
    pub fn policy_from_node(&self, transport: Transport, address: IpAddr, port: u16) -> PolicyAnswer {
        let missing = self.missing(&[POLICY_FACTS[0], POLICY_FACTS[1], POLICY_FACTS[2], layout::NODES]);
        let node = self.subject().and_then(|subject| subject.node().map(str::to_owned));
        match node {
            Some(node) if missing.is_empty() => self.policy_from(End::Node(node), transport, address, port),
            Some(_) => unknown(transport, address, port, format!("{} not recorded", missing.join(", "))),
            None => unknown(transport, address, port, "the pod's node is not known".to_owned()),
        }
    }

    fn policy_from(&self, from: End, transport: Transport, address: IpAddr, port: u16) -> PolicyAnswer {
        let unknown = |why: String| unknown(transport, address, port, why);
        let cluster = &self.loaded.cluster;
        let owner =
            cluster.pods.iter().find(|(_, pod)| !pod.host_network && pod.addresses.contains(&address));
        let to = owner.map_or(End::Address(address), |(key, _)| End::Pod(key.clone()));
        let rulesets = match self.rulesets() {
            Ok(rulesets) => rulesets,
            Err(why) => return unknown(why.clone()),
        };
        let protocol = match transport {
            Transport::Udp => 17,
            Transport::Tcp => 6,
        };
        let query = Query { from: vec![from], to: vec![to], service: Service::Port { protocol, port } };
        let evaluation = match evaluate(cluster, rulesets, &query) {
            Ok(evaluation) => evaluation,
            Err(error) => return unknown(error.to_string()),
        };
        let Some(pair) = evaluation.pairs.iter().find(|pair| pair.destination == address) else {
            return unknown(
                evaluation.notes.first().cloned().unwrap_or_else(|| "nothing could be asked".to_owned()),
            );
        };
        if let Some(why) = &pair.undefined {
            return unknown(why.clone());
        }
        decided(pair, transport)
    }
}

impl View<'_> {
    /// The tables of the pod, of the DNS pods and of what else the probes concern: compiled once.
    fn rulesets(&self) -> &Result<Rulesets, String> {
        self.policies.get_or_init(|| {
            let mut scope = BTreeSet::from([self.key()]);
            scope.extend(self.dns_pods().into_iter().map(|(key, _)| key.clone()));
            let endpoints = self.dns_endpoints();
            let behind = self.loaded.cluster.pods.iter().filter(|(_, pod)| {
                endpoints.iter().any(|endpoint| pod.addresses.contains(&endpoint.address))
                    || self.probes.iter().any(|(_, probe)| pod.addresses.contains(&probe.server))
                    || self.nameservers().iter().any(|server| pod.addresses.contains(server))
            });
            scope.extend(behind.map(|(key, _)| key.clone()));
            // What stands behind a Service that connections were tried to.
            let services = self.probes.iter().filter_map(|(_, probe)| self.service_at(probe.server));
            let keys: BTreeSet<&ObjectKey> = services.map(|(key, _)| key).collect();
            for key in keys {
                let addresses: Vec<IpAddr> = self
                    .slices_of(key)
                    .flat_map(|(_, slice)| &slice.endpoints)
                    .flat_map(|endpoint| endpoint.addresses.clone())
                    .collect();
                let pods = self.loaded.cluster.pods.iter();
                let of_service =
                    pods.filter(|(_, pod)| pod.addresses.iter().any(|one| addresses.contains(one)));
                scope.extend(of_service.map(|(key, _)| key.clone()));
            }
            let compiled = compile(&self.loaded.cluster, &self.loaded.policies, &Scope::Pods(scope));
            match compiled.diagnostics.first() {
                Some(refused) => Err(refused.message.clone()),
                None => Ok(compiled.rulesets),
            }
        })
    }
}

fn unknown(transport: Transport, address: IpAddr, port: u16, why: String) -> PolicyAnswer {
    PolicyAnswer { verdict: PolicyVerdict::Unknown, transport, address, port, side: None, why: Some(why) }
}

fn decided(pair: &PairEvaluation, transport: Transport) -> PolicyAnswer {
    use netlab_core::policy::change::Verdict;
    let (verdict, side) = match (pair.egress.verdict, pair.ingress.verdict) {
        (Verdict::Deny, _) => (PolicyVerdict::DenyEgress, &pair.egress),
        (_, Verdict::Deny) => (PolicyVerdict::DenyIngress, &pair.ingress),
        // The more telling of two that allow is the one with a rule.
        _ if pair.ingress.rule.is_none() && pair.egress.rule.is_some() => {
            (PolicyVerdict::Allow, &pair.egress)
        }
        _ => (PolicyVerdict::Allow, &pair.ingress),
    };
    PolicyAnswer {
        verdict,
        transport,
        address: pair.destination,
        port: pair.port,
        side: Some(side.clone()),
        why: None,
    }
}
