//! A Service's port, or the one that it has on every node, where the pod's is meant.
//!
//! Source: `NetworkPolicyPort.port` is the port on the pod: a connection to a Service is judged after the Service's port
//! has become the target port. Invariant: told only where no destination pod has the written number as a container port
//! or as the target of any Service, while a Service publishes that number and sends it to another port of theirs, which
//! the rule does not admit.

use std::collections::{BTreeMap, BTreeSet};

use super::finding::Finding;
use super::ground::{DIRECTIONS, Ground, is_written, rules};
use super::ports::destinations;
use crate::diagnostic::{Diagnostic, code};
use crate::model::cluster::{ObjectKey, Pod};
use crate::model::policy::{NamespaceScope, PodSelector, Policy, Rule};
use crate::model::port::{PortMatch, Protocol};
use crate::model::selector::{Operator, Requirement, Selector};
use crate::model::service::{Service, TargetPort};
use crate::policy::groups::GroupIndex;

/// A protocol and a number.
type Key = (Protocol, u16);

/// A Service that publishes a port under another number.
struct Published<'a> {
    key: &'a ObjectKey,
    /// What the number is to it, in words.
    what: &'static str,
    groups: BTreeSet<GroupIndex>,
    targets: BTreeSet<u16>,
    name: Option<&'a str>,
}

/// The Services, by what they publish, and the groups whose pods really have a port.
struct Index<'a> {
    published: BTreeMap<Key, Vec<Published<'a>>>,
    real: BTreeMap<Key, BTreeSet<GroupIndex>>,
}

pub(super) fn find(ground: &Ground<'_>, findings: &mut Vec<Finding>) {
    let index = Index::new(ground);
    if index.published.is_empty() {
        return;
    }
    for policy in &ground.policies.list {
        for (direction, ..) in DIRECTIONS {
            for rule in rules(policy, direction) {
                let candidates =
                    rule.ports.iter().flatten().any(|port| {
                        single(&port.matches).is_some_and(|key| index.published.contains_key(&key))
                    });
                if !candidates {
                    continue;
                }
                if let Some(groups) = destinations(ground, policy, direction, rule) {
                    findings.extend(index.judge(ground, policy, rule, &groups));
                }
            }
        }
    }
}

/// The one port that an element names by number.
fn single(matches: &PortMatch) -> Option<Key> {
    match matches {
        PortMatch::Range { protocol, range } if range.start == range.end => Some((*protocol, range.start)),
        PortMatch::Range { .. } | PortMatch::Named { .. } => None,
    }
}

/// The pods that a Service selects, as groups.
pub(super) fn pods_of(ground: &Ground<'_>, key: &ObjectKey, service: &Service) -> Vec<GroupIndex> {
    let Some(labels) = &service.selector else { return Vec::new() };
    let requirement = |(key, value): (&String, &String)| Requirement {
        key: key.clone(),
        operator: Operator::In(BTreeSet::from([value.clone()])),
    };
    ground.select_other(&PodSelector {
        namespaces: NamespaceScope::Own(key.namespace.clone()),
        pods: Selector::new(labels.iter().map(requirement)),
    })
}

/// The numbers that a target port stands for on some pods.
pub(super) fn targets<'p>(
    target: &TargetPort,
    protocol: Protocol,
    pods: impl Iterator<Item = &'p Pod>,
) -> BTreeSet<u16> {
    match target {
        TargetPort::Number(number) => BTreeSet::from([*number]),
        TargetPort::Name(name) => pods
            .flat_map(|pod| &pod.ports)
            .filter(|port| port.protocol == protocol && port.name.as_deref() == Some(name))
            .map(|port| port.number)
            .collect(),
    }
}

impl<'a> Index<'a> {
    fn new(ground: &Ground<'a>) -> Self {
        let mut index = Self { published: BTreeMap::new(), real: BTreeMap::new() };
        for (group, _) in ground.groups() {
            for port in ground.pods([&group]).flat_map(|(_, pod)| &pod.ports) {
                index.real.entry((port.protocol, port.number)).or_default().insert(group);
            }
        }
        for (key, service) in &ground.cluster.services {
            let groups: BTreeSet<GroupIndex> = pods_of(ground, key, service).into_iter().collect();
            if groups.is_empty() {
                continue;
            }
            for port in &service.ports {
                let targets = targets(&port.target, port.protocol, ground.pods(&groups).map(|(_, pod)| pod));
                for target in &targets {
                    index.real.entry((port.protocol, *target)).or_default().extend(&groups);
                }
                if targets.is_empty() {
                    continue;
                }
                let name = match &port.target {
                    TargetPort::Name(name) => Some(name.as_str()),
                    TargetPort::Number(_) => None,
                };
                let numbers = [(Some(port.port), "the port"), (port.node_port, "the node port")];
                for (number, what) in numbers.into_iter().filter_map(|(number, what)| Some((number?, what))) {
                    if !targets.contains(&number) {
                        let (groups, targets) = (groups.clone(), targets.clone());
                        let published = Published { key, what, groups, targets, name };
                        index.published.entry((port.protocol, number)).or_default().push(published);
                    }
                }
            }
        }
        index
    }

    fn judge(
        &self,
        ground: &Ground<'_>,
        policy: &Policy,
        rule: &Rule,
        groups: &[GroupIndex],
    ) -> Vec<Finding> {
        let mut found = Vec::new();
        for port in rule.ports.iter().flatten() {
            let Some(key) = single(&port.matches) else { continue };
            let is_real =
                self.real.get(&key).is_some_and(|real| groups.iter().any(|group| real.contains(group)));
            if is_real {
                continue;
            }
            let admits = |target: u16| {
                rule.ports.iter().flatten().any(|port| match &port.matches {
                    PortMatch::Range { protocol, range } => *protocol == key.0 && range.contains(target),
                    PortMatch::Named { .. } => false,
                })
            };
            let names: BTreeSet<&str> = rule
                .ports
                .iter()
                .flatten()
                .filter_map(|port| match &port.matches {
                    PortMatch::Named { name, .. } => Some(&**name),
                    PortMatch::Range { .. } => None,
                })
                .collect();
            let behind = self.published.get(&key).into_iter().flatten().find(|service| {
                groups.iter().any(|group| service.groups.contains(group))
                    && !service.targets.iter().any(|target| admits(*target))
                    && service.name.is_none_or(|name| !names.contains(name))
            });
            let Some(service) = behind else { continue };
            let meant: Vec<&GroupIndex> =
                groups.iter().filter(|group| service.groups.contains(group)).collect();
            let pods = ground.subjects(meant).count();
            let numbers: Vec<String> = service.targets.iter().map(ToString::to_string).collect();
            let numbers = numbers.join(", ");
            let called = service.name.map(|name| format!(" (`{name}`)")).unwrap_or_default();
            let message = format!(
                "{} is {} of Service {}, which sends it to {numbers}{called} of the pods; policies see that one",
                key.1, service.what, service.key
            );
            let hint = match service.name {
                Some(name) => format!("write `port: {name}` or `port: {numbers}`"),
                None => format!("write `port: {numbers}`"),
            };
            let fields =
                ["port", "portNumber.port", "tcp.destinationPort.number", "udp.destinationPort.number"];
            let path = fields.map(|field| format!("{}.{field}", port.path));
            let path = path
                .into_iter()
                .find(|path| is_written(policy, path))
                .unwrap_or_else(|| port.path.to_string());
            let diagnostic = Diagnostic::warning(code::SERVICE_PORT, message).with_hint(hint);
            found.push(Finding::at(policy, &path, diagnostic).pods(pods));
        }
        found
    }
}
