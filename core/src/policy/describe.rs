//! The story of one pod: which policies select it, what they say in plain words and in the order in which they are
//! asked, and what is left to defaults.
//!
//! Invariant: every policy that acts on the pod is told, once per direction, and each peer says how it reads: AND inside
//! of it, while several peers are an OR. Whom a peer matches is told of the pods that are there now.

mod words;

use std::collections::BTreeSet;

use netlab_ebpf::abi::Direction;
use serde::Serialize;

use super::near_miss::{failing, has, list};
use super::provenance::{PolicyRef, RuleRef, policy_ref};
use crate::model::cluster::{Cluster, Labels, ObjectKey, Pod};
use crate::model::policy::{NamespaceScope, PeerMatch, PodSelector, Policies, Policy, PolicyTier, Rule};

/// How different a label's value may be to be a slip of the pen.
const MOST_EDITS: usize = 2;

/// What there is to say of a pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Description {
    /// `namespace/name`.
    pub pod: String,
    /// Its labels.
    pub labels: Labels,
    /// Its namespace's labels.
    pub namespace_labels: Labels,
    /// True when it is done: then it is neither subject nor peer.
    pub finished: bool,
    /// What may come in.
    pub ingress: Story,
    /// What may go out.
    pub egress: Story,
    /// What no policy changes.
    pub exempt: Vec<String>,
    /// Policies that do not select the pod, but nearly.
    pub near_misses: Vec<SelectionMiss>,
    /// Where the answer rests on something else than policies.
    pub notes: Vec<String>,
}

/// One direction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Story {
    /// True when a `NetworkPolicy` isolates the pod: what none of them admits is denied.
    pub isolated: bool,
    /// How many do.
    pub isolating: usize,
    /// The policies that act, in the order in which they are asked.
    pub policies: Vec<Chapter>,
    /// What becomes of the rest: `allow` or `deny`.
    pub default: &'static str,
    /// The same in words.
    pub otherwise: String,
}

/// One policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Chapter {
    /// Its place in the order in which policies are asked, from 1.
    pub place: usize,
    /// Which.
    #[serde(flatten)]
    pub policy: PolicyRef,
    /// `admin`, `networkPolicy` or `baseline`.
    pub tier: &'static str,
    /// Its place within its tier, the lower the earlier, where the kind has one.
    pub priority: Option<u16>,
    /// Why it selects the pod: `pods of shop with app=api`.
    pub selects: String,
    /// Its rules in this direction, in order.
    pub rules: Vec<Sentence>,
}

/// One rule in words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Sentence {
    /// Which.
    #[serde(flatten)]
    pub rule: RuleRef,
    /// `admits`, `denies` or `passes on`.
    pub verb: &'static str,
    /// What: `TCP 5432`, `TCP http (8080)`, or everything.
    pub ports: String,
    /// With whom, any of these; empty when the rule names nobody in particular.
    pub peers: Vec<Phrase>,
    /// True when the rule is for everybody, in the cluster or not.
    pub everybody: bool,
}

/// One peer in words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Phrase {
    /// `spec.ingress[0].from[1]`.
    pub path: String,
    /// How it reads: `pods with app=api AND in a namespace with team=shop`.
    pub reads: String,
    /// The workloads, pods or nodes that it matches now, the pod itself left out; sorted.
    pub matches: Vec<String>,
    /// For a block: how many other pods' addresses the input does not have, so that it may hold them as well.
    pub unknown: usize,
}

/// A policy that nearly selects the pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SelectionMiss {
    /// Which.
    #[serde(flatten)]
    pub policy: PolicyRef,
    /// `wants app=web, tier=front; the pod has tier=back`.
    pub reason: String,
}

/// Tells the story of a pod; `None` when the cluster has no such pod.
pub fn describe(cluster: &Cluster, policies: &Policies, key: &ObjectKey) -> Option<Description> {
    let pod = cluster.pods.get(key)?;
    let view = View { cluster, key, pod };
    let mut acting: Vec<&Policy> = policies
        .list
        .iter()
        .filter(|policy| view.is_subject() && view.matches(&policy.subject, key, pod))
        .collect();
    acting.sort_by_key(|policy| (policy.tier, policy.priority.map_or(u32::MAX, u32::from)));
    let near_misses = policies.list.iter().filter_map(|policy| view.nearly_selects(policy)).collect();
    Some(Description {
        pod: key.to_string(),
        labels: pod.labels.clone(),
        namespace_labels: view.namespace_labels(&key.namespace).cloned().unwrap_or_default(),
        finished: view.pod.terminal,
        ingress: view.story(&acting, Direction::Ingress),
        egress: view.story(&acting, Direction::Egress),
        exempt: exempt(),
        near_misses,
        notes: view.notes(&acting),
    })
}

/// What passes whatever policies say; the decisions behind it are in `docs/policy-semantics.md`.
fn exempt() -> Vec<String> {
    [
        "what its own node sends to it, kubelet's probes for instance",
        "what it sends to itself",
        "replies, and ICMP errors about connections that are allowed",
        "ARP, IPv6 neighbour discovery and multicast listener reports",
    ]
    .map(str::to_owned)
    .to_vec()
}

struct View<'a> {
    cluster: &'a Cluster,
    key: &'a ObjectKey,
    pod: &'a Pod,
}

impl View<'_> {
    fn namespace_labels(&self, namespace: &str) -> Option<&Labels> {
        self.cluster.namespaces.get(namespace).map(|found| &found.labels)
    }

    /// True for a pod that policies may select, with an address or before it has one.
    fn is_subject(&self) -> bool {
        !self.pod.host_network && !self.pod.terminal
    }

    fn matches(&self, selector: &PodSelector, key: &ObjectKey, pod: &Pod) -> bool {
        let in_scope = match &selector.namespaces {
            NamespaceScope::Own(own) => *own == key.namespace,
            NamespaceScope::Matching(wanted) => {
                wanted.matches(self.namespace_labels(&key.namespace).unwrap_or(&Labels::new()))
            }
        };
        in_scope && selector.pods.matches(&pod.labels)
    }

    fn story(&self, acting: &[&Policy], direction: Direction) -> Story {
        let rules = |policy: &Policy| match direction {
            Direction::Ingress => policy.ingress.clone(),
            Direction::Egress => policy.egress.clone(),
        };
        let chapters: Vec<Chapter> = acting
            .iter()
            .filter_map(|policy| Some((policy, rules(policy)?)))
            .zip(1..)
            .map(|((policy, rules), place)| Chapter {
                place,
                policy: policy_ref(policy),
                tier: match policy.tier {
                    PolicyTier::Admin => "admin",
                    PolicyTier::NetworkPolicy => "networkPolicy",
                    PolicyTier::Baseline => "baseline",
                },
                priority: policy.priority,
                selects: words::pods(&policy.subject),
                rules: rules.iter().map(|rule| self.sentence(policy, rule, direction)).collect(),
            })
            .collect();
        let isolating = chapters.iter().filter(|chapter| chapter.tier == "networkPolicy").count();
        let isolated = isolating > 0;
        let otherwise = match (isolated, chapters.is_empty()) {
            (true, _) => "isolated by NetworkPolicy, so what no rule above admits is denied",
            (false, true) => "no policy acts here, so everything passes",
            (false, false) => "no NetworkPolicy isolates, so what no rule above decides passes",
        };
        let default = if isolated { "deny" } else { "allow" };
        // A Baseline tier is not asked about pods that a NetworkPolicy isolates.
        let policies =
            chapters.into_iter().filter(|chapter| !(isolated && chapter.tier == "baseline")).collect();
        Story { isolated, isolating, policies, default, otherwise: otherwise.to_owned() }
    }

    fn sentence(&self, policy: &Policy, rule: &Rule, direction: Direction) -> Sentence {
        let peers = rule.peers.iter().flatten();
        Sentence {
            rule: RuleRef::new(policy, rule, &rule.path, None),
            verb: words::verb(rule.action),
            ports: words::ports(rule, direction, self.pod),
            peers: peers
                .map(|peer| Phrase {
                    path: peer.path.to_string(),
                    reads: words::peer(&peer.matches),
                    matches: self.present(&peer.matches),
                    unknown: match peer.matches {
                        PeerMatch::Block(ref block) => {
                            self.others().filter(|(_, pod)| self.cluster.leaves_open(block, pod)).count()
                        }
                        _ => 0,
                    },
                })
                .collect(),
            everybody: rule.peers.is_none(),
        }
    }

    /// The other pods that policies act on.
    fn others(&self) -> impl Iterator<Item = (&ObjectKey, &Pod)> {
        self.cluster.pods.iter().filter(|(key, pod)| pod.is_policed() && *key != self.key)
    }

    /// The workloads and nodes that a peer matches now.
    fn present(&self, peer: &PeerMatch) -> Vec<String> {
        let mut names = BTreeSet::new();
        for (name, node) in &self.cluster.nodes {
            let matches = match peer {
                PeerMatch::Nodes(selector) => selector.matches(&node.labels),
                PeerMatch::Block(block) => node.addresses.iter().any(|address| block.contains(*address)),
                PeerMatch::Pods(_) | PeerMatch::DomainNames(_) => false,
            };
            if matches {
                names.insert(format!("node/{name}"));
            }
        }
        for (key, pod) in self.others() {
            let matches = match peer {
                PeerMatch::Pods(selector) => self.matches(selector, key, pod),
                PeerMatch::Block(block) => {
                    !self.cluster.leaves_open(block, pod)
                        && pod.addresses.iter().any(|address| block.contains(*address))
                }
                PeerMatch::Nodes(_) | PeerMatch::DomainNames(_) => false,
            };
            if matches {
                let name = pod.owner.as_ref().map_or(&key.name, |owner| &owner.name);
                names.insert(format!("{}/{name}", key.namespace));
            }
        }
        names.into_iter().collect()
    }

    /// Why a policy does not select the pod, where that looks like a slip: one label, which is missing or nearly right.
    fn nearly_selects(&self, policy: &Policy) -> Option<SelectionMiss> {
        let NamespaceScope::Own(own) = &policy.subject.namespaces else { return None };
        if *own != self.key.namespace || !self.is_subject() {
            return None;
        }
        let missing = failing(&policy.subject.pods, &self.pod.labels);
        let [one] = missing.as_slice() else { return None };
        let wanted = list(&missing);
        let found = self.pod.labels.get(&one.key).map(|value| format!("{}={value}", one.key));
        let looks_alike =
            found.is_none_or(|found| strsim::damerau_levenshtein(&found, &wanted) <= MOST_EDITS);
        // A policy that selects others is for them.
        let selects = |(key, pod): (&ObjectKey, &Pod)| self.matches(&policy.subject, key, pod);
        let slip = looks_alike && !self.cluster.pods.iter().any(selects);
        (slip || policy.subject.pods.requirements().len() > 1).then(|| SelectionMiss {
            policy: policy_ref(policy),
            reason: format!("selects {wanted}; the pod has {}", has(&missing, &self.pod.labels)),
        })
    }

    fn notes(&self, acting: &[&Policy]) -> Vec<String> {
        let mut notes = Vec::new();
        if self.pod.host_network {
            notes
                .push("it uses its node's network: no policy selects it, and others see its node".to_owned());
        }
        if self.pod.terminal {
            notes.push("it has finished: it is neither subject nor peer".to_owned());
        }
        if self.pod.addresses.is_empty() && !self.pod.host_network {
            notes.push("it has no address yet: this is what holds once it has one".to_owned());
        }
        let declared = self.cluster.namespaces.get(&self.key.namespace).is_some_and(|found| found.declared);
        if !declared {
            notes.push(format!("Namespace {} was not given: its labels are not known", self.key.namespace));
        }
        for pair in acting.windows(2) {
            let [a, b] = pair else { continue };
            if a.priority.is_some() && (a.tier, a.priority) == (b.tier, b.priority) {
                notes.push(format!(
                    "{} and {} have one priority: the API leaves their order open",
                    a.id, b.id
                ));
            }
        }
        // The kind without priorities stands behind all others of its tier, which nothing says but the list's order.
        let baseline = || acting.iter().filter(|policy| policy.tier == PolicyTier::Baseline);
        for policy in baseline().filter(|policy| policy.priority.is_none()) {
            if let Some(other) = baseline().find(|other| other.priority.is_some()) {
                notes.push(format!(
                    "{} has no priority: the API leaves open whether it comes before {} or after it",
                    policy.id, other.id
                ));
            }
        }
        notes
    }
}
