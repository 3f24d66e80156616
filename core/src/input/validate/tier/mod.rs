//! Validation of the kinds of `policy.networking.k8s.io`: AdminNetworkPolicy, BaselineAdminNetworkPolicy and
//! ClusterNetworkPolicy.
//!
//! Source of the rules: the types and CRDs of kubernetes-sigs/network-policy-api, v1alpha1 as of v0.1.7 and
//! v1alpha2, the fields and CEL rules of the experimental channel included. What only that channel's CRD refuses
//! although the fields are in both is a warning.
//!
//! Invariant: the three kinds are read by one path; [`Dialect`] holds all that differs.

mod peer;
mod port;
mod rule;

use super::holder::{self, Holder};
use super::{Report, field};
use crate::diagnostic::{Diagnostic, ObjectRef, code};
use crate::input::wire::admin_network_policy::{self as v1alpha1, AdminNetworkPolicy};
use crate::input::wire::baseline_admin_network_policy::BaselineAdminNetworkPolicy;
use crate::input::wire::cluster_network_policy::{self as v1alpha2, ClusterNetworkPolicy};
use crate::input::wire::meta::{ObjectMeta, Unknown};
use crate::input::wire::tier_policy::{Peer, Subject};
use crate::model::policy::{Action, Policy, PolicyId, PolicyKind, PolicyTier, Rule};
use crate::model::source::Source;

/// How the kinds differ.
#[derive(Debug)]
struct Dialect {
    kind: PolicyKind,
    /// Most rules, peers and ports of one list.
    most: usize,
    actions: &'static [Action],
    subject: &'static Holder,
    pods: &'static Holder,
    ingress_rule: &'static Holder,
    egress_rule: &'static Holder,
    ingress_peer: &'static Holder,
    egress_peer: &'static Holder,
}

static ADMIN: Dialect = Dialect {
    kind: PolicyKind::AdminNetworkPolicy,
    most: 100,
    actions: &[Action::Accept, Action::Deny, Action::Pass],
    subject: &holder::ADMIN_SUBJECT,
    pods: &holder::ADMIN_PODS,
    ingress_rule: &holder::ADMIN_INGRESS_RULE,
    egress_rule: &holder::ADMIN_EGRESS_RULE,
    ingress_peer: &holder::ADMIN_INGRESS_PEER,
    egress_peer: &holder::ADMIN_EGRESS_PEER,
};

static BASELINE: Dialect = Dialect {
    kind: PolicyKind::BaselineAdminNetworkPolicy,
    most: 100,
    actions: &[Action::Accept, Action::Deny],
    subject: &holder::ADMIN_SUBJECT,
    pods: &holder::ADMIN_PODS,
    ingress_rule: &holder::ADMIN_INGRESS_RULE,
    egress_rule: &holder::ADMIN_EGRESS_RULE,
    ingress_peer: &holder::ADMIN_INGRESS_PEER,
    egress_peer: &holder::BASELINE_EGRESS_PEER,
};

static CLUSTER: Dialect = Dialect {
    kind: PolicyKind::ClusterNetworkPolicy,
    most: 25,
    actions: &[Action::Accept, Action::Deny, Action::Pass],
    subject: &holder::CLUSTER_SUBJECT,
    pods: &holder::CLUSTER_PODS,
    ingress_rule: &holder::CLUSTER_INGRESS_RULE,
    egress_rule: &holder::CLUSTER_EGRESS_RULE,
    ingress_peer: &holder::CLUSTER_INGRESS_PEER,
    egress_peer: &holder::CLUSTER_EGRESS_PEER,
};

/// A rule of any of the kinds.
struct WireRule<'a> {
    name: Option<&'a str>,
    action: Option<&'a str>,
    peers: Option<&'a [Peer]>,
    ports: WirePorts<'a>,
    unknown: &'a Unknown,
}

/// `ports` or `protocols`.
#[derive(Clone, Copy)]
enum WirePorts<'a> {
    V1Alpha1(Option<&'a [v1alpha1::Port]>),
    V1Alpha2(Option<&'a [v1alpha2::Protocol]>),
}

/// The parts of a spec that every kind has.
struct WireSpec<'a> {
    subject: Option<&'a Subject>,
    ingress: Vec<WireRule<'a>>,
    egress: Vec<WireRule<'a>>,
}

/// Reads an AdminNetworkPolicy whose name is settled.
pub(in crate::input) fn admin_network_policy(
    wire: &AdminNetworkPolicy,
    source: &Source,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<Policy> {
    let mut report = report(&ADMIN, &wire.metadata, &wire.unknown, source, diagnostics);
    let Some(spec) = &wire.spec else { return no_spec(&mut report) };
    field::unknown(&mut report, "spec", &holder::ADMIN_SPEC, &spec.unknown);
    let priority = priority(&mut report, spec.priority);
    let rules = v1alpha1_spec(spec.subject.as_ref(), spec.ingress.as_deref(), spec.egress.as_deref());
    policy(report, &ADMIN, &wire.metadata, PolicyTier::Admin, priority, &rules)
}

/// Reads the BaselineAdminNetworkPolicy.
pub(in crate::input) fn baseline_admin_network_policy(
    wire: &BaselineAdminNetworkPolicy,
    source: &Source,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<Policy> {
    let mut report = report(&BASELINE, &wire.metadata, &wire.unknown, source, diagnostics);
    let name = wire.metadata.name.as_deref().unwrap_or_default();
    if name != "default" {
        let message =
            format!("a BaselineAdminNetworkPolicy called `{name}`: there is one, and it is `default`");
        report.error(code::SINGLETON_NAME, "metadata.name", message, "call it `default`");
    }
    let Some(spec) = &wire.spec else { return no_spec(&mut report) };
    field::unknown(&mut report, "spec", &holder::BASELINE_SPEC, &spec.unknown);
    let rules = v1alpha1_spec(spec.subject.as_ref(), spec.ingress.as_deref(), spec.egress.as_deref());
    policy(report, &BASELINE, &wire.metadata, PolicyTier::Baseline, None, &rules)
}

/// Reads a ClusterNetworkPolicy whose name is settled.
pub(in crate::input) fn cluster_network_policy(
    wire: &ClusterNetworkPolicy,
    source: &Source,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<Policy> {
    let mut report = report(&CLUSTER, &wire.metadata, &wire.unknown, source, diagnostics);
    let Some(spec) = &wire.spec else { return no_spec(&mut report) };
    field::unknown(&mut report, "spec", &holder::CLUSTER_SPEC, &spec.unknown);
    let tier = tier(&mut report, spec.tier.as_deref());
    let priority = priority(&mut report, spec.priority);
    let ingress = spec.ingress.iter().flatten().map(|rule| WireRule {
        name: rule.name.as_deref(),
        action: rule.action.as_deref(),
        peers: rule.from.as_deref(),
        ports: WirePorts::V1Alpha2(rule.protocols.as_deref()),
        unknown: &rule.unknown,
    });
    let egress = spec.egress.iter().flatten().map(|rule| WireRule {
        name: rule.name.as_deref(),
        action: rule.action.as_deref(),
        peers: rule.to.as_deref(),
        ports: WirePorts::V1Alpha2(rule.protocols.as_deref()),
        unknown: &rule.unknown,
    });
    let rules =
        WireSpec { subject: spec.subject.as_ref(), ingress: ingress.collect(), egress: egress.collect() };
    policy(report, &CLUSTER, &wire.metadata, tier.unwrap_or(PolicyTier::Admin), priority, &rules)
}

fn v1alpha1_spec<'a>(
    subject: Option<&'a Subject>,
    ingress: Option<&'a [v1alpha1::IngressRule]>,
    egress: Option<&'a [v1alpha1::EgressRule]>,
) -> WireSpec<'a> {
    let ingress = ingress.unwrap_or_default().iter().map(|rule| WireRule {
        name: rule.name.as_deref(),
        action: rule.action.as_deref(),
        peers: rule.from.as_deref(),
        ports: WirePorts::V1Alpha1(rule.ports.as_deref()),
        unknown: &rule.unknown,
    });
    let egress = egress.unwrap_or_default().iter().map(|rule| WireRule {
        name: rule.name.as_deref(),
        action: rule.action.as_deref(),
        peers: rule.to.as_deref(),
        ports: WirePorts::V1Alpha1(rule.ports.as_deref()),
        unknown: &rule.unknown,
    });
    WireSpec { subject, ingress: ingress.collect(), egress: egress.collect() }
}

fn report<'a>(
    dialect: &Dialect,
    metadata: &ObjectMeta,
    unknown: &Unknown,
    source: &'a Source,
    diagnostics: &'a mut Vec<Diagnostic>,
) -> Report<'a> {
    let object = ObjectRef {
        kind: dialect.kind.as_str().to_owned(),
        namespace: None,
        name: metadata.name.clone().unwrap_or_default(),
    };
    let mut report = Report::new(source, object, diagnostics);
    field::object(&mut report, unknown, metadata);
    report
}

fn no_spec<T>(report: &mut Report<'_>) -> Option<T> {
    report.error(code::SUBJECT_NOT_ONE, "", "no `spec`", "write which pods it is about below `spec.subject`");
    None
}

fn policy(
    mut report: Report<'_>,
    dialect: &Dialect,
    metadata: &ObjectMeta,
    tier: PolicyTier,
    priority: Option<u16>,
    spec: &WireSpec<'_>,
) -> Option<Policy> {
    let subject = if let Some(subject) = spec.subject {
        peer::subject(&mut report, dialect, subject)
    } else {
        let hint = "write `namespaces` or `pods` below it";
        report.error(code::SUBJECT_NOT_ONE, "spec", "no `subject`", hint);
        None
    };
    let mut rules = |side: rule::Side, list: &[WireRule<'_>]| -> Option<Vec<Rule>> {
        rule::count(&mut report, dialect, &format!("spec.{}", side.field()), "rules", 0, list.len());
        let rules: Vec<Rule> = list
            .iter()
            .enumerate()
            .filter_map(|(index, wire)| rule::rule(&mut report, dialect, side, index, wire))
            .collect();
        // Without rules such a policy does not touch the direction.
        (!rules.is_empty()).then_some(rules)
    };
    let ingress = rules(rule::Side::Ingress, &spec.ingress);
    let egress = rules(rule::Side::Egress, &spec.egress);
    if report.failed {
        return None;
    }
    Some(Policy {
        id: PolicyId { kind: dialect.kind, namespace: None, name: metadata.name.clone().unwrap_or_default() },
        tier,
        priority,
        subject: subject?,
        ingress,
        egress,
        source: report.source.clone(),
    })
}

fn tier(report: &mut Report<'_>, written: Option<&str>) -> Option<PolicyTier> {
    match written {
        Some("Admin") => return Some(PolicyTier::Admin),
        Some("Baseline") => return Some(PolicyTier::Baseline),
        Some(other) => {
            let known = ["Admin", "Baseline"].into_iter().find(|known| known.eq_ignore_ascii_case(other));
            let hint = known
                .map_or_else(|| "write `Admin` or `Baseline`".to_owned(), |known| format!("write `{known}`"));
            report.error(code::INVALID_TIER, "spec.tier", format!("`{other}` is no tier"), &hint);
        }
        None => {
            report.error(code::INVALID_TIER, "spec", "no `tier`", "write `tier: Admin` or `tier: Baseline`");
        }
    }
    None
}

fn priority(report: &mut Report<'_>, written: Option<i64>) -> Option<u16> {
    let hint = "it is 0 to 1000, and the lower comes first";
    let Some(written) = written else {
        report.error(code::INVALID_PRIORITY, "spec", "no `priority`", hint);
        return None;
    };
    let priority = u16::try_from(written).ok().filter(|priority| *priority <= 1000);
    if priority.is_none() {
        report.error(code::INVALID_PRIORITY, "spec.priority", format!("the priority {written}"), hint);
    }
    priority
}
