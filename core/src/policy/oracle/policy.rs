//! `NetworkPolicySpec`: which pods a policy isolates, and which rules admit a connection.

use super::ends::{name_of, namespace_of};
use super::tier::{Outcome, Tier, TierMatch};
use super::{
    Admission, End, Exemption, Name, Oracle, Question, Side, Verdict, Why, address, port, selector, tier,
};
use crate::input::wire::core_v1::Pod;
use crate::input::wire::network_policy::{NetworkPolicy, NetworkPolicySpec, Peer, Port};

/// The two values of `NetworkPolicySpec.policyTypes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Direction {
    /// `Ingress`: to the subject.
    Ingress,
    /// `Egress`: from the subject.
    Egress,
}

/// A rule of either direction: `NetworkPolicyIngressRule` and `NetworkPolicyEgressRule` differ in a field name.
struct Rule<'a> {
    /// `spec.ingress[0]`.
    path: String,
    /// `from` or `to`.
    peers: Option<&'a Vec<Peer>>,
    /// The field's name.
    peers_field: &'static str,
    /// `ports`.
    ports: Option<&'a Vec<Port>>,
    /// False when the rule has a field that we do not know.
    understood: bool,
}

/// `NetworkPolicySpec.policyTypes`: when absent (or empty), the policy acts on ingress whether it has ingress
/// rules or not, and on egress iff it has egress rules; an `egress` list without elements counts as absent.
fn has_policy_type(spec: &NetworkPolicySpec, direction: Direction) -> bool {
    match spec.policy_types.as_deref() {
        None | Some([]) => match direction {
            Direction::Ingress => true,
            Direction::Egress => spec.egress.as_ref().is_some_and(|rules| !rules.is_empty()),
        },
        Some(types) => types.iter().any(|name| match direction {
            Direction::Ingress => name == "Ingress",
            Direction::Egress => name == "Egress",
        }),
    }
}

/// `NetworkPolicySpec.ingress` or `.egress`, in order; absent and empty are the same: no rule.
fn rules(spec: &NetworkPolicySpec, direction: Direction) -> Vec<Rule<'_>> {
    match direction {
        Direction::Ingress => {
            let list = spec.ingress.iter().flatten().enumerate();
            list.map(|(index, rule)| Rule {
                path: format!("spec.ingress[{index}]"),
                peers: rule.from.as_ref(),
                peers_field: "from",
                ports: rule.ports.as_ref(),
                understood: rule.unknown.is_empty(),
            })
            .collect()
        }
        Direction::Egress => {
            let list = spec.egress.iter().flatten().enumerate();
            list.map(|(index, rule)| Rule {
                path: format!("spec.egress[{index}]"),
                peers: rule.to.as_ref(),
                peers_field: "to",
                ports: rule.ports.as_ref(),
                understood: rule.unknown.is_empty(),
            })
            .collect()
        }
    }
}

/// Namespace and name of a policy.
fn policy_name(policy: &NetworkPolicy) -> Name {
    let namespace = namespace_of(policy.metadata.namespace.as_ref());
    (namespace.to_owned(), name_of(policy.metadata.name.as_ref()).to_owned())
}

/// `NetworkPolicySpec.podSelector`: the policy's subjects; every pod of its namespace when the selector is empty
/// or absent. Other namespaces' pods are never subjects.
fn is_subject(policy: &NetworkPolicy, spec: &NetworkPolicySpec, pod: &Pod) -> bool {
    namespace_of(policy.metadata.namespace.as_ref()) == namespace_of(pod.metadata.namespace.as_ref())
        && spec
            .pod_selector
            .as_ref()
            .is_none_or(|selector| selector::selects(selector, &selector::pod_labels(pod)))
}

impl Oracle<'_> {
    /// One side, through all tiers. The concept page, on isolation: a pod that no policy selects for a direction accepts everything
    /// in it. Once one does, the pod is isolated for that direction, and only what some rule of some such policy
    /// admits is allowed. The policies' rules add up; there is no order and no rule that denies.
    pub(super) fn judge_side(
        &self,
        subject: &Pod,
        direction: Direction,
        peer: &End,
        question: &Question,
        exemption: Option<Exemption>,
    ) -> Side {
        let default_spec = NetworkPolicySpec::default();
        let mut isolated_by = Vec::new();
        let mut admissions = Vec::new();
        for policy in &self.objects.network_policies {
            let spec = policy.spec.as_ref().unwrap_or(&default_spec);
            if !has_policy_type(spec, direction) || !is_subject(policy, spec, subject) {
                continue;
            }
            isolated_by.push(policy_name(policy));
            for (index, rule) in rules(spec, direction).into_iter().enumerate() {
                if let Some((peers, ports)) = self.admits(policy, &rule, peer, question) {
                    let policy = policy_name(policy);
                    admissions.push(Admission { policy, rule: index, path: rule.path, peers, ports });
                }
            }
        }
        isolated_by.sort();
        admissions.sort();
        let tier = |tier| self.tier_matches(tier, subject, direction, peer, question);
        let (admin, baseline) = (tier(Tier::Admin), tier(Tier::Baseline));
        let mut tier_rules: Vec<TierMatch> =
            admin.iter().chain(&baseline).flat_map(|(_, rules)| rules.iter().cloned()).collect();
        tier_rules.sort();
        let outcome = |verdict, why| Outcome { verdict, why, passed: Vec::new() };
        // `spec.tier`: "v1.NetworkPolicy always makes a final decision for selected pods", taken per direction, as
        // isolation is; only then the Baseline tier, only then "all pods can communicate with each other".
        let Outcome { verdict, why, passed } = if let Some(exemption) = exemption {
            outcome(Verdict::Allow, Why::Exempt(exemption))
        } else {
            let after_admin = if isolated_by.is_empty() {
                tier::ask(&baseline, outcome(Verdict::Allow, Why::NotIsolated))
            } else if admissions.is_empty() {
                outcome(Verdict::Deny, Why::Isolated)
            } else {
                outcome(Verdict::Allow, Why::Allowed(admissions))
            };
            tier::ask(&admin, after_admin)
        };
        Side { verdict, why, passed, tier_rules, isolated_by }
    }

    /// The matching peers and ports of a rule, or `None` when the rule does not admit the connection.
    ///
    /// `NetworkPolicyIngressRule` and `NetworkPolicyEgressRule`: peers AND ports must match. `from`, `to`, `ports`:
    /// one element is enough, and an absent or empty list stands for everything; so a rule without `ports` also
    /// admits protocols that have none.
    fn admits(
        &self,
        policy: &NetworkPolicy,
        rule: &Rule<'_>,
        peer: &End,
        question: &Question,
    ) -> Option<(Vec<String>, Vec<String>)> {
        if !rule.understood {
            return None;
        }
        let mut peers = Vec::new();
        for (index, element) in rule.peers.into_iter().flatten().enumerate() {
            if self.peer_matches(policy, element, peer) {
                peers.push(format!("{}.{}[{index}]", rule.path, rule.peers_field));
            }
        }
        let mut ports = Vec::new();
        let named_on = self.peer_pod(&question.destination);
        for (index, element) in rule.ports.into_iter().flatten().enumerate() {
            if port::matches(element, question.protocol, question.port, named_on) {
                ports.push(format!("{}.ports[{index}]", rule.path));
            }
        }
        let any_peer = rule.peers.is_none_or(Vec::is_empty);
        let any_port = rule.ports.is_none_or(Vec::is_empty);
        ((any_peer || !peers.is_empty()) && (any_port || !ports.is_empty())).then_some((peers, ports))
    }

    /// `NetworkPolicyPeer`: `podSelector` alone looks in the policy's own namespace, `namespaceSelector` alone takes
    /// every pod of the namespaces it selects, both together the selected pods of the selected namespaces; `ipBlock`
    /// cannot be joined to either, and an element without any of the three is not valid.
    fn peer_matches(&self, policy: &NetworkPolicy, element: &Peer, peer: &End) -> bool {
        if !element.unknown.is_empty() {
            return false;
        }
        match (&element.pod_selector, &element.namespace_selector, &element.ip_block) {
            (None, None, Some(block)) => address::block_contains(block, peer.address()),
            (Some(pods), None, None) => self.peer_pod(peer).is_some_and(|pod| {
                namespace_of(pod.metadata.namespace.as_ref())
                    == namespace_of(policy.metadata.namespace.as_ref())
                    && selector::selects(pods, &selector::pod_labels(pod))
            }),
            (None, Some(namespaces), None) => self
                .peer_pod(peer)
                .is_some_and(|pod| selector::selects(namespaces, &self.labels_of_namespace_of(pod))),
            (Some(pods), Some(namespaces), None) => self.peer_pod(peer).is_some_and(|pod| {
                selector::selects(namespaces, &self.labels_of_namespace_of(pod))
                    && selector::selects(pods, &selector::pod_labels(pod))
            }),
            (None, None, None) | (Some(_), _, Some(_)) | (_, Some(_), Some(_)) => false,
        }
    }
}
