//! The kinds of `policy.networking.k8s.io`: subjects, rules, and the order of the tiers.
//!
//! Sources: the type comments of `AdminNetworkPolicy` and `BaselineAdminNetworkPolicy` (v1alpha1) and of
//! `ClusterNetworkPolicy` (v1alpha2).

use super::ends::name_of;
use super::policy::Direction;
use super::tier_port::{Ports, admits};
use super::{End, Oracle, Question, Verdict, Why, address, selector};
use crate::input::wire::core_v1::{Node, Pod};
use crate::input::wire::tier_policy::{NamespacedPod, Peer, Subject};

/// `ClusterNetworkPolicySpec.tier`, and the place of the older kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    /// Before `NetworkPolicy`: `AdminNetworkPolicy`, and `ClusterNetworkPolicy` of tier `Admin`.
    Admin,
    /// After it: `BaselineAdminNetworkPolicy`, and `ClusterNetworkPolicy` of tier `Baseline`.
    Baseline,
}

/// Kind and name of a cluster-scoped policy.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TierPolicy {
    /// `kind`.
    pub kind: &'static str,
    /// `metadata.name`.
    pub name: String,
}

/// What a rule does with what it matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    /// `Accept`; v1alpha1 says `Allow`.
    Accept,
    /// `Deny`.
    Deny,
    /// `Pass`.
    Pass,
}

/// A rule that matches the connection.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TierMatch {
    /// Whose.
    pub policy: TierPolicy,
    /// What it does.
    pub action: Action,
    /// `spec.ingress[0]`.
    pub path: String,
    /// Each peer that matches, `spec.egress[0].to[1].networks[2]`; empty when the rule stands for all traffic because
    /// it fails closed.
    pub peers: Vec<String>,
    /// Each port that matches; empty when the rule has none.
    pub ports: Vec<String>,
}

/// What a tier and those after it come to.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    pub(super) verdict: Verdict,
    pub(super) why: Why,
    /// `Pass` rules that led there.
    pub(super) passed: Vec<TierMatch>,
}

/// A policy of any of the kinds.
struct View<'a> {
    policy: TierPolicy,
    priority: Option<i64>,
    subject: Option<&'a Subject>,
    rules: Vec<Rule<'a>>,
}

/// A rule of any of the kinds.
struct Rule<'a> {
    path: String,
    action: Option<&'a String>,
    peers: Option<&'a Vec<Peer>>,
    ports: Ports<'a>,
    understood: bool,
}

/// The rules of a direction; the kinds differ in the name of one field alone.
macro_rules! rules {
    ($spec:expr, $direction:expr, $ports:ident, $version:expr) => {
        match $direction {
            Direction::Ingress => {
                let list = $spec.ingress.iter().flatten().enumerate();
                list.map(|(index, rule)| Rule {
                    path: format!("spec.ingress[{index}]"),
                    action: rule.action.as_ref(),
                    peers: rule.from.as_ref(),
                    ports: $version(rule.$ports.as_ref()),
                    understood: rule.unknown.is_empty(),
                })
                .collect()
            }
            Direction::Egress => {
                let list = $spec.egress.iter().flatten().enumerate();
                list.map(|(index, rule)| Rule {
                    path: format!("spec.egress[{index}]"),
                    action: rule.action.as_ref(),
                    peers: rule.to.as_ref(),
                    ports: $version(rule.$ports.as_ref()),
                    understood: rule.unknown.is_empty(),
                })
                .collect()
            }
        }
    };
}

impl<'a> Oracle<'a> {
    /// The policies of a tier.
    fn tier(&self, tier: Tier, direction: Direction) -> Vec<View<'a>> {
        let mut views = Vec::new();
        for policy in self.objects.admin_network_policies.iter().filter(|_| tier == Tier::Admin) {
            let Some(spec) = &policy.spec else { continue };
            views.push(View {
                policy: named("AdminNetworkPolicy", policy.metadata.name.as_ref()),
                priority: spec.priority,
                subject: spec.subject.as_ref(),
                rules: rules!(spec, direction, ports, Ports::V1Alpha1),
            });
        }
        for policy in self.objects.baseline_admin_network_policies.iter().filter(|_| tier == Tier::Baseline) {
            let Some(spec) = &policy.spec else { continue };
            views.push(View {
                policy: named("BaselineAdminNetworkPolicy", policy.metadata.name.as_ref()),
                priority: None,
                subject: spec.subject.as_ref(),
                rules: rules!(spec, direction, ports, Ports::V1Alpha1),
            });
        }
        for policy in &self.objects.cluster_network_policies {
            let Some(spec) = &policy.spec else { continue };
            let own = match spec.tier.as_deref() {
                Some("Admin") => Tier::Admin,
                Some("Baseline") => Tier::Baseline,
                _ => continue,
            };
            if own == tier {
                views.push(View {
                    policy: named("ClusterNetworkPolicy", policy.metadata.name.as_ref()),
                    priority: spec.priority,
                    subject: spec.subject.as_ref(),
                    rules: rules!(spec, direction, protocols, Ports::V1Alpha2),
                });
            }
        }
        views
    }

    /// Every rule of a tier that matches: policies in no particular order, each with its priority and its matching
    /// rules as written.
    pub(super) fn tier_matches(
        &self,
        tier: Tier,
        subject: &Pod,
        direction: Direction,
        peer: &End,
        question: &Question,
    ) -> Vec<(Option<i64>, Vec<TierMatch>)> {
        let mut found = Vec::new();
        for view in self.tier(tier, direction) {
            if !view.subject.is_some_and(|wire| self.is_tier_subject(wire, subject)) {
                continue;
            }
            let rules = view.rules.iter();
            let matches: Vec<TierMatch> = rules
                .filter_map(|rule| self.rule_match(&view.policy, rule, direction, peer, question))
                .collect();
            if !matches.is_empty() {
                found.push((view.priority, matches));
            }
        }
        found
    }

    /// `ClusterNetworkPolicySubject`: "exactly one of the fields"; host-network pods are never asked about here.
    fn is_tier_subject(&self, subject: &Subject, pod: &Pod) -> bool {
        subject.unknown.is_empty()
            && match (&subject.namespaces, &subject.pods) {
                (Some(namespaces), None) => selector::selects(namespaces, &self.labels_of_namespace_of(pod)),
                (None, Some(pods)) => self.is_namespaced_pod(pods, pod),
                _ => false,
            }
    }

    /// `NamespacedPod`: both selectors must select. A namespace selector that is absent or empty selects every
    /// namespace; a pod selector that is empty selects every pod, and v1alpha1's type cannot tell absent from empty.
    fn is_namespaced_pod(&self, wanted: &NamespacedPod, pod: &Pod) -> bool {
        let namespace_is_right = match &wanted.namespace_selector {
            None => true,
            Some(selector) => selector::selects(selector, &self.labels_of_namespace_of(pod)),
        };
        let pod_is_right = match &wanted.pod_selector {
            None => true,
            Some(selector) => selector::selects(selector, &selector::pod_labels(pod)),
        };
        wanted.unknown.is_empty() && namespace_is_right && pod_is_right
    }

    /// One rule: peers AND ports.
    fn rule_match(
        &self,
        policy: &TierPolicy,
        rule: &Rule<'_>,
        direction: Direction,
        peer: &End,
        question: &Question,
    ) -> Option<TierMatch> {
        let action = match rule.action.map(String::as_str) {
            Some("Allow" | "Accept") => Action::Accept,
            Some("Deny") => Action::Deny,
            Some("Pass") => Action::Pass,
            _ => return None,
        };
        if !rule.understood {
            return None;
        }
        let elements = rule.peers?;
        // The peers' comment: "If an implementation sees no fields are set […] it should fail closed": for Accept
        // "treat the rule as matching no traffic", for Deny and Pass "treat the rule as a 'Deny all' rule". Domain
        // names are for Accept rules only, so elsewhere they are as unknown.
        let fails_closed = |element: &Peer| {
            is_unknown(element, direction) || (element.domain_names.is_some() && action != Action::Accept)
        };
        if elements.iter().any(fails_closed) {
            return (action != Action::Accept).then(|| TierMatch {
                policy: policy.clone(),
                action: Action::Deny,
                path: rule.path.clone(),
                peers: Vec::new(),
                ports: Vec::new(),
            });
        }
        let side = match direction {
            Direction::Ingress => "from",
            Direction::Egress => "to",
        };
        let mut peers = Vec::new();
        for (index, element) in elements.iter().enumerate() {
            let path = format!("{}.{side}[{index}]", rule.path);
            peers.extend(self.tier_peer_matches(element, direction, &path, peer));
        }
        let ports = admits(&rule.ports, &rule.path, question, self.peer_pod(&question.destination));
        match (peers.is_empty(), ports) {
            (false, Some(ports)) => {
                Some(TierMatch { policy: policy.clone(), action, path: rule.path.clone(), peers, ports })
            }
            _ => None,
        }
    }

    /// The element, or those of its networks, that match: "exactly one of the fields". `namespaces` and `pods` select
    /// pods only, and none on the host's network.
    fn tier_peer_matches(&self, element: &Peer, direction: Direction, path: &str, peer: &End) -> Vec<String> {
        let Peer { namespaces, pods, networks, nodes, domain_names, unknown } = element;
        if !unknown.is_empty() {
            return Vec::new();
        }
        let one = |matches: bool| if matches { vec![path.to_owned()] } else { Vec::new() };
        let outside = direction == Direction::Egress;
        match (namespaces, pods, networks, nodes, domain_names) {
            (Some(namespaces), None, None, None, None) => one(self
                .peer_pod(peer)
                .is_some_and(|pod| selector::selects(namespaces, &self.labels_of_namespace_of(pod)))),
            (None, Some(pods), None, None, None) => {
                one(self.peer_pod(peer).is_some_and(|pod| self.is_namespaced_pod(pods, pod)))
            }
            (None, None, Some(networks), None, None) if outside => {
                let listed = networks.iter().enumerate();
                listed
                    .filter(|(_, cidr)| address::cidr_contains(cidr, peer.address()))
                    .map(|(index, _)| format!("{path}.networks[{index}]"))
                    .collect()
            }
            // "matches the IPs of the selected nodes": `status.addresses`.
            (None, None, None, Some(nodes), None) if outside => {
                let selected = |node: &&Node| {
                    let labels = node.metadata.labels.clone().unwrap_or_default();
                    selector::selects(nodes, &labels)
                };
                let mut selected = self.objects.nodes.iter().filter(selected);
                one(selected.any(|node| super::ends::node_addresses(node).contains(&peer.address())))
            }
            // Domain names are not modelled: which addresses they have is not known.
            _ => Vec::new(),
        }
    }
}

fn named(kind: &'static str, name: Option<&String>) -> TierPolicy {
    TierPolicy { kind, name: name_of(name).to_owned() }
}

/// True when none of the fields that the direction's peers have is there.
fn is_unknown(element: &Peer, direction: Direction) -> bool {
    let of_pods = element.namespaces.is_none() && element.pods.is_none();
    let of_addresses =
        element.networks.is_none() && element.nodes.is_none() && element.domain_names.is_none();
    match direction {
        Direction::Ingress => of_pods,
        Direction::Egress => of_pods && of_addresses,
    }
}

/// A tier, given what each of its policies has that matches, and what follows it.
///
/// "Rules with lower priority values have higher precedence"; within a policy the rule at the top. `Accept` and `Deny`
/// are final, `Pass` skips the rest of the tier. Which of two policies with one priority comes first is not
/// defined, and nothing orders a `BaselineAdminNetworkPolicy` among `ClusterNetworkPolicies`: each of them is taken as
/// the first, and where that makes a difference the verdict is undefined. Where it makes none, the first by kind and
/// name is the one to cite.
pub(super) fn ask(matches: &[(Option<i64>, Vec<TierMatch>)], rest: Outcome) -> Outcome {
    let lowest = matches.iter().filter_map(|(priority, _)| *priority).min();
    let mut first: Vec<(bool, &TierMatch)> = matches
        .iter()
        .filter(|(priority, _)| priority.is_none() || *priority == lowest)
        .filter_map(|(priority, rules)| Some((priority.is_none(), rules.first()?)))
        .collect();
    first.sort_by(|(a_last, a), (b_last, b)| (a_last, &a.policy).cmp(&(b_last, &b.policy)));
    let verdict = |rule: &TierMatch| match rule.action {
        Action::Accept => Verdict::Allow,
        Action::Deny => Verdict::Deny,
        Action::Pass => rest.verdict,
    };
    let Some((_, chosen)) = first.first().copied() else { return rest };
    if first.iter().any(|(_, rule)| verdict(rule) != verdict(chosen)) {
        let mut tied: Vec<TierPolicy> = first.iter().map(|(_, rule)| rule.policy.clone()).collect();
        if first.iter().any(|(_, rule)| rule.action == Action::Pass)
            && let Why::Tied(later) = rest.why
        {
            tied.extend(later);
        }
        tied.sort();
        tied.dedup();
        return Outcome { verdict: Verdict::Undefined, why: Why::Tied(tied), passed: Vec::new() };
    }
    if chosen.action == Action::Pass {
        let mut passed = vec![chosen.clone()];
        passed.extend(rest.passed);
        return Outcome { passed, ..rest };
    }
    Outcome { verdict: verdict(chosen), why: Why::Ruled(chosen.clone()), passed: Vec::new() }
}
