//! What the API server's validation says about a policy, and the policy in model form if nothing is wrong: here
//! NetworkPolicy, in [`tier`] the others. Of Services and endpoint slices, in [`service`], whether it would refuse them.
//!
//! Source of the rules: `pkg/apis/networking/validation` and `pkg/apis/networking/v1/defaults.go` of Kubernetes.
//! Stricter in one thing: a field that the API does not have is an error, because the server drops it and the
//! policy then means something else.
//!
//! Invariant: every fault of a policy is reported, not the first only; a policy with a fault gives no model.

mod field;
mod holder;
pub(super) mod name;
mod peer;
mod port;
pub(super) mod selector;
pub(super) mod service;
mod tier;

use std::sync::Arc;

use super::wire::network_policy::{
    EgressRule, IngressRule, NetworkPolicy, Peer as WirePeer, Port as WirePort,
};
use crate::diagnostic::{Diagnostic, ObjectRef, Severity, code};
use crate::model::policy::{
    Action, NamespaceScope, Peer, PodSelector, Policy, PolicyId, PolicyKind, PolicyTier, Port, Rule,
};
use crate::model::selector::Selector;
use crate::model::source::Source;
pub(super) use tier::{admin_network_policy, baseline_admin_network_policy, cluster_network_policy};

/// Where the faults of one object go.
pub(super) struct Report<'a> {
    source: &'a Source,
    object: ObjectRef,
    diagnostics: &'a mut Vec<Diagnostic>,
    failed: bool,
}

impl<'a> Report<'a> {
    pub(super) fn new(source: &'a Source, object: ObjectRef, diagnostics: &'a mut Vec<Diagnostic>) -> Self {
        Self { source, object, diagnostics, failed: false }
    }

    /// Something is wrong with the field, so the object stays out.
    pub(super) fn error(&mut self, code: &'static str, path: &str, message: impl Into<String>, hint: &str) {
        self.failed = true;
        let what = match self.object.kind.as_str() {
            kind @ ("Service" | "EndpointSlice") => kind,
            _ => "policy",
        };
        let left_out = format!("the {what} is left out");
        let hint = if hint.is_empty() { left_out } else { format!("{hint}; {left_out}") };
        self.push(Diagnostic::error(code, message).with_hint(hint), path);
    }

    /// The field stands, but something is to be said about it.
    pub(super) fn warning(&mut self, code: &'static str, path: &str, message: impl Into<String>, hint: &str) {
        self.push(Diagnostic::warning(code, message).with_hint(hint), path);
    }

    /// Whether no error was reported.
    fn is_good(&self) -> bool {
        !self.failed
    }

    fn push(&mut self, diagnostic: Diagnostic, path: &str) {
        debug_assert!(diagnostic.severity != Severity::Error || self.failed, "errors go through `error`");
        self.diagnostics.push(diagnostic.about(&self.object).at_path(self.source, path));
    }
}

/// Reads a policy whose name and namespace are settled.
pub(super) fn network_policy(
    wire: &NetworkPolicy,
    source: &Source,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<Policy> {
    let namespace = wire.metadata.namespace.clone().unwrap_or_default();
    let name = wire.metadata.name.clone().unwrap_or_default();
    let object = ObjectRef {
        kind: "NetworkPolicy".to_owned(),
        namespace: Some(namespace.clone()),
        name: name.clone(),
    };
    let mut report = Report::new(source, object, diagnostics);

    field::object(&mut report, &wire.unknown, &wire.metadata);
    let none = super::wire::network_policy::NetworkPolicySpec::default();
    let spec = wire.spec.as_ref().unwrap_or_else(|| {
        report.warning(
            code::NO_SPEC,
            "",
            "a policy without `spec` isolates every pod of its namespace for ingress",
            "write `spec: {podSelector: {}}` if that is meant",
        );
        &none
    });
    field::unknown(&mut report, "spec", &holder::SPEC, &spec.unknown);
    let pods = match &spec.pod_selector {
        Some(selector) => selector::selector(&mut report, "spec.podSelector", selector),
        None => Selector::default(),
    };
    policy_types(&mut report, spec.policy_types.as_deref().unwrap_or_default());

    let ingress: Vec<Rule> = spec
        .ingress
        .as_deref()
        .unwrap_or_default()
        .iter()
        .enumerate()
        .map(|(index, rule)| {
            let IngressRule { from, ports, unknown } = rule;
            let path = format!("spec.ingress[{index}]");
            field::unknown(&mut report, &path, &holder::INGRESS_RULE, unknown);
            self::rule(&mut report, &path, "from", from.as_deref(), ports.as_deref(), &namespace)
        })
        .collect();
    let egress: Vec<Rule> = spec
        .egress
        .as_deref()
        .unwrap_or_default()
        .iter()
        .enumerate()
        .map(|(index, rule)| {
            let EgressRule { to, ports, unknown } = rule;
            let path = format!("spec.egress[{index}]");
            field::unknown(&mut report, &path, &holder::EGRESS_RULE, unknown);
            self::rule(&mut report, &path, "to", to.as_deref(), ports.as_deref(), &namespace)
        })
        .collect();
    if report.failed {
        return None;
    }

    // Defaults: ingress always, egress only where a rule says something about it.
    let types = spec.policy_types.as_deref().filter(|types| !types.is_empty());
    let acts_on = |direction: &str, default: bool| {
        types.map_or(default, |types| types.iter().any(|written| written == direction))
    };
    Some(Policy {
        ingress: acts_on("Ingress", true).then_some(ingress),
        egress: acts_on("Egress", !egress.is_empty()).then_some(egress),
        tier: PolicyTier::NetworkPolicy,
        priority: None,
        subject: PodSelector { namespaces: NamespaceScope::Own(namespace.clone()), pods },
        id: PolicyId { kind: PolicyKind::NetworkPolicy, namespace: Some(namespace), name },
        source: source.clone(),
    })
}

fn policy_types(report: &mut Report<'_>, types: &[String]) {
    if types.len() > 2 {
        let message = format!("{} policy types, more than two", types.len());
        report.error(code::INVALID_POLICY_TYPE, "spec.policyTypes", message, "write each direction once");
        return;
    }
    for (index, written) in types.iter().enumerate() {
        let path = format!("spec.policyTypes[{index}]");
        if written != "Ingress" && written != "Egress" {
            let message = format!("`{written}` is no policy type");
            let hint =
                match ["Ingress", "Egress"].into_iter().find(|known| known.eq_ignore_ascii_case(written)) {
                    Some(known) => format!("write `{known}`"),
                    None => "write `Ingress` or `Egress`".to_owned(),
                };
            report.error(code::INVALID_POLICY_TYPE, &path, message, &hint);
        } else if types[..index].contains(written) {
            let message = format!("`{written}` stands here twice");
            report.warning(code::DOUBLED_POLICY_TYPE, &path, message, "once is enough");
        }
    }
}

fn rule(
    report: &mut Report<'_>,
    path: &str,
    side: &str,
    peers: Option<&[WirePeer]>,
    ports: Option<&[WirePort]>,
    namespace: &str,
) -> Rule {
    let read_peers = |peer: (usize, &WirePeer)| {
        let path = format!("{path}.{side}[{}]", peer.0);
        let matches = peer::peer(report, &path, peer.1, namespace)?;
        Some(Peer { path: path.into(), matches })
    };
    let peers = peers
        .filter(|peers| !peers.is_empty())
        .map(|peers| peers.iter().enumerate().filter_map(read_peers).collect());
    let read_ports = |port: (usize, &WirePort)| {
        let path = format!("{path}.ports[{}]", port.0);
        let matches = port::port(report, &path, port.1)?;
        Some(Port { path: path.into(), matches })
    };
    let ports = ports
        .filter(|ports| !ports.is_empty())
        .map(|ports| ports.iter().enumerate().filter_map(read_ports).collect());
    Rule { path: Arc::from(path), name: None, action: Action::Accept, peers, ports }
}
