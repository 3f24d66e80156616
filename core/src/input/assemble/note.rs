//! What can only be said about a policy or a pod with the whole cluster in view.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use super::NAMESPACE_NAME;
use super::pod::Pods;
use crate::diagnostic::{Diagnostic, ObjectRef, code};
use crate::model::address::AddressBlock;
use crate::model::cluster::{Cluster, ObjectKey, Pod};
use crate::model::policy::{NamespaceScope, PeerMatch, Policy, Rule};
use crate::model::port::{PortMatch, Protocol};
use crate::model::selector::Selector;

/// Running pods that claim one address: whose it is decides verdicts.
pub(super) fn shared_addresses(pods: &Pods, diagnostics: &mut Vec<Diagnostic>) {
    let mut owners: BTreeMap<IpAddr, &ObjectKey> = BTreeMap::new();
    for (key, pod) in pods.iter().filter(|(_, pod)| pod.model.is_policed()) {
        for address in &pod.model.addresses {
            if let Some(first) = owners.insert(*address, key) {
                let object = ObjectRef {
                    kind: "Pod".to_owned(),
                    namespace: Some(key.namespace.clone()),
                    name: key.name.clone(),
                };
                let message = format!("{first} has the address {address} too");
                let diagnostic = Diagnostic::warning(code::SHARED_ADDRESS, message)
                    .with_hint("is one of them gone? Verdicts for the address depend on whose it is");
                diagnostics.push(diagnostic.about(&object).at_path(&pod.model.source, "status.podIP"));
            }
        }
    }
}

/// The cluster, prepared for questions that every policy asks.
pub(super) struct Surroundings<'c> {
    /// Namespaces without an object, so without known labels.
    undeclared: Vec<String>,
    /// The cluster as it is.
    cluster: &'c Cluster,
    /// Some pods with chosen addresses for all that blocks can tell apart, and how many each stands for.
    chosen: Vec<(&'c Pod, usize)>,
    /// Names that pods give their ports.
    port_names: BTreeSet<(Protocol, Arc<str>)>,
}

impl<'c> Surroundings<'c> {
    pub(super) fn new(cluster: &'c Cluster) -> Self {
        let undeclared = cluster
            .namespaces
            .iter()
            .filter(|(_, namespace)| !namespace.declared)
            .map(|(name, _)| name.clone());
        let policed = || cluster.pods.values().filter(|pod| pod.is_policed());
        let mut chosen: BTreeMap<[bool; 2], (&Pod, usize)> = BTreeMap::new();
        for pod in policed().filter(|pod| pod.synthetic_addresses) {
            let has = |ipv4: bool| pod.addresses.iter().any(|address| address.is_ipv4() == ipv4);
            chosen.entry([true, false].map(has)).or_insert((pod, 0)).1 += 1;
        }
        let ports = policed().flat_map(|pod| &pod.ports);
        Self {
            undeclared: undeclared.collect(),
            cluster,
            chosen: chosen.into_values().collect(),
            port_names: ports.filter_map(|port| Some((port.protocol, port.name.clone()?))).collect(),
        }
    }

    /// Says what is to be said about a policy; false when it has to stay out.
    pub(super) fn allow(&self, policy: &Policy, diagnostics: &mut Vec<Diagnostic>) -> bool {
        let object = ObjectRef {
            kind: policy.id.kind.as_str().to_owned(),
            namespace: policy.id.namespace.clone(),
            name: policy.id.name.clone(),
        };
        let mut say = |diagnostic: Diagnostic, path: &str| {
            diagnostics.push(diagnostic.about(&object).at_path(&policy.source, path));
        };
        let mut allowed = true;
        for rule in policy.egress.iter().flatten().filter(|_| !policy.id.kind.is_ordered()) {
            for (path, name) in self.dead_names(rule) {
                let message =
                    format!("the port name `{name}` means nothing for an `ipBlock`: no pod has such a port");
                let hint = "addresses have no port names: write the number; the policy is left out";
                say(
                    Diagnostic::error(code::PORT_NAME_FOR_BLOCK, message).with_hint(hint),
                    &format!("{path}.port"),
                );
                allowed = false;
            }
        }
        if !allowed {
            return false;
        }
        if policy.id.kind.is_ordered()
            && let NamespaceScope::Matching(selector) = &policy.subject.namespaces
            && let Some(note) = self.namespace_labels(selector)
        {
            say(note, "spec.subject");
        }
        let rules = policy.ingress.iter().chain(&policy.egress).flatten();
        for peer in rules.flat_map(|rule| rule.peers.iter().flatten()) {
            match &peer.matches {
                PeerMatch::Pods(pods) => {
                    if let NamespaceScope::Matching(selector) = &pods.namespaces
                        && let Some(note) = self.namespace_labels(selector)
                    {
                        let fields = [".namespaceSelector", ".namespaces", ".pods.namespaceSelector"];
                        let path = fields.map(|field| format!("{}{field}", peer.path));
                        let path = path.iter().find(|path| policy.source.spans.contains_key(*path));
                        say(note, path.map_or(&*peer.path, String::as_str));
                    }
                }
                PeerMatch::Nodes(_) | PeerMatch::DomainNames(_) => {}
                PeerMatch::Block(block) => {
                    let count = self.depends_on_choice(block);
                    if count > 0 {
                        let message = match count {
                            1 => "the block may hold a pod whose address is not in the input".to_owned(),
                            _ => format!(
                                "the block may hold {count} pods whose addresses are not in the input"
                            ),
                        };
                        let hint = "netlab chose addresses outside of it where it could: give `status.podIPs`, or \
                                    nodes with `podCIDRs`";
                        let path = if policy.id.kind.is_ordered() {
                            peer.path.to_string()
                        } else {
                            format!("{}.ipBlock.cidr", peer.path)
                        };
                        say(
                            Diagnostic::note(code::BLOCK_MEETS_CHOSEN_ADDRESS, message).with_hint(hint),
                            &path,
                        );
                    }
                }
            }
        }
        true
    }

    /// What to say of a selector over labels of namespaces that were not given.
    fn namespace_labels(&self, selector: &Selector) -> Option<Diagnostic> {
        let mut requirements = selector.requirements().iter();
        let requirement = requirements.find(|requirement| requirement.key != NAMESPACE_NAME)?;
        let first = self.undeclared.first()?;
        let others = match self.undeclared.len() - 1 {
            0 => String::new(),
            count => format!(" (and of {count} more)"),
        };
        let message = format!("the label `{}` of namespace `{first}`{others} is not known", requirement.key);
        let hint = "no Namespace object was given: add it, or the selector does not see the label";
        Some(Diagnostic::note(code::NAMESPACE_LABELS_UNKNOWN, message).with_hint(hint))
    }

    /// Port names of a rule whose peers are all blocks, that no pod has: the rule can never match them.
    fn dead_names<'r>(&self, rule: &'r Rule) -> Vec<(&'r str, &'r Arc<str>)> {
        let blocks_only = rule
            .peers
            .as_ref()
            .is_some_and(|peers| peers.iter().all(|peer| matches!(peer.matches, PeerMatch::Block(_))));
        rule.ports
            .iter()
            .flatten()
            .filter(|_| blocks_only)
            .filter_map(|port| match &port.matches {
                PortMatch::Named { protocol, name } => {
                    (!self.port_names.contains(&(*protocol, name.clone()))).then_some((&*port.path, name))
                }
                PortMatch::Range { .. } => None,
            })
            .collect()
    }

    /// How many pods would fare otherwise, had netlab chosen their addresses otherwise.
    fn depends_on_choice(&self, block: &AddressBlock) -> usize {
        let open = self.chosen.iter().filter(|(pod, _)| self.cluster.leaves_open(block, pod));
        open.map(|(_, count)| count).sum()
    }
}
