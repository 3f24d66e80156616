//! Pods as workloads: who controls them, and how few kinds of pods policies can tell apart in each.
//!
//! Invariant: every pod is in one workload: that of the controller its `ownerReferences` name, or its own. Pods of
//! one profile cannot be told apart by any compiled table.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use ipnet::IpNet;

use super::{Peer, PeerKind};
use crate::model::cluster::{Cluster, ObjectKey, Pod};
use crate::policy::classes::ClassIndex;
use crate::policy::groups::number;
use crate::policy::query::{End, addresses};
use crate::policy::ruleset::Rulesets;

/// What tables can know of a pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Profile {
    /// Its ruleset, if policies can have it as their subject.
    pub(super) ruleset: Option<u32>,
    /// The class of its address, IPv4 then IPv6.
    pub(super) classes: [Option<ClassIndex>; 2],
}

impl Profile {
    /// True when the pods have an address of this family.
    pub(super) fn has_family(&self, ipv4: bool) -> bool {
        self.classes[usize::from(!ipv4)].is_some()
    }
}

/// A workload and its pods.
#[derive(Debug)]
pub(super) struct Workload {
    pub(super) peer: Peer,
    /// Numbers of the distinct profiles, ascending.
    pub(super) profiles: Vec<u32>,
    /// The nodes that its host-network pods are.
    pub(super) is_nodes: BTreeSet<String>,
    /// The nodes that its other pods run on.
    pub(super) on_nodes: BTreeSet<String>,
}

/// All workloads, by name.
#[derive(Debug)]
pub(super) struct Workloads {
    pub(super) list: Vec<Workload>,
    pub(super) profiles: Vec<Profile>,
    pub(super) of_pod: BTreeMap<ObjectKey, u32>,
    /// Of the pods whose addresses are not known.
    pub(super) profile_of: BTreeMap<ObjectKey, u32>,
}

/// Namespace, name and kind.
pub(super) type WorkloadKey = (String, String, String);

/// The workload of a pod.
pub(super) fn workload_key(key: &ObjectKey, pod: &Pod) -> WorkloadKey {
    match &pod.controller {
        Some(controller) => (key.namespace.clone(), controller.name.clone(), controller.kind.clone()),
        None => (key.namespace.clone(), key.name.clone(), "Pod".to_owned()),
    }
}

/// The id of the workload that a pod is in.
pub fn workload_of(key: &ObjectKey, pod: &Pod) -> String {
    id(&workload_key(key, pod))
}

fn id((namespace, name, kind): &WorkloadKey) -> String {
    format!("{namespace}/{name}[{kind}]")
}

impl Workloads {
    pub(super) fn new(cluster: &Cluster, rulesets: &Rulesets) -> Self {
        let mut by_key: BTreeMap<WorkloadKey, Vec<(&ObjectKey, &Pod)>> = BTreeMap::new();
        for (key, pod) in &cluster.pods {
            by_key.entry(workload_key(key, pod)).or_default().push((key, pod));
        }
        let mut interned: HashMap<Profile, u32> = HashMap::new();
        let mut workloads = Self {
            list: Vec::new(),
            profiles: Vec::new(),
            of_pod: BTreeMap::new(),
            profile_of: BTreeMap::new(),
        };
        for ((namespace, name, kind), pods) in by_key {
            let mut profiles = Vec::new();
            let mut owners: BTreeSet<String> = pods
                .iter()
                .map(|(_, pod)| pod.owner.as_ref().map_or(&name, |owner| &owner.name).clone())
                .collect();
            let (mut is_nodes, mut on_nodes) = (BTreeSet::new(), BTreeSet::new());
            for (key, pod) in pods {
                workloads.of_pod.insert(key.clone(), number(workloads.list.len()));
                let profile = profile(cluster, rulesets, key, pod);
                let index = *interned.entry(profile.clone()).or_insert_with(|| {
                    workloads.profiles.push(profile);
                    number(workloads.profiles.len() - 1)
                });
                profiles.push(index);
                if pod.synthetic_addresses {
                    workloads.profile_of.insert(key.clone(), index);
                }
                if pod.host_network {
                    is_nodes.extend(pod.node.clone());
                } else {
                    on_nodes.extend(pod.node.clone());
                }
            }
            profiles.sort_unstable();
            profiles.dedup();
            let peer = Peer {
                id: id(&(namespace.clone(), name.clone(), kind.clone())),
                kind: if kind == "Pod" { PeerKind::Pod } else { PeerKind::Workload },
                workload_kind: Some(kind),
                namespace: Some(namespace),
                name,
                cidrs: Vec::new(),
                owner: (owners.len() == 1).then(|| owners.pop_first()).flatten(),
            };
            workloads.list.push(Workload { peer, profiles, is_nodes, on_nodes });
        }
        workloads
    }
}

fn profile(cluster: &Cluster, rulesets: &Rulesets, key: &ObjectKey, pod: &Pod) -> Profile {
    let ruleset = rulesets.pods.get(key).map(|pod| pod.ruleset);
    let addresses = addresses(cluster, &End::Pod(key.clone()));
    let class = |ipv4: bool| {
        let mut of_family = addresses.iter().filter(|address| address.is_ipv4() == ipv4);
        of_family.next().map(|address| rulesets.classes.of_address(*address))
    };
    let mut classes = [class(true), class(false)];
    if addresses.is_empty() && pod.host_network {
        // Its node is not known: an address of which no rule says anything in particular.
        classes = [true, false].map(|ipv4| root(rulesets, ipv4));
    }
    Profile { ruleset, classes }
}

/// The class of addresses in no prefix but the family's root.
fn root(rulesets: &Rulesets, ipv4: bool) -> Option<ClassIndex> {
    let is_root = |net: &IpNet| net.prefix_len() == 0 && net.addr().is_ipv4() == ipv4;
    // The classes of bare prefixes have the prefixes' own indices.
    rulesets.classes.prefixes.list.iter().position(is_root).map(number)
}
