//! Blocks of addresses that may hold workloads whose addresses no input gives, where that would make another list.
//!
//! Source: `IPBlock` matches pods' addresses too, and manifests have none. Invariant: a block is named exactly when
//! some listed or missing pair would allow something else with the workload on the block's other side, everything
//! else being as it is.

use std::collections::{BTreeMap, BTreeSet};

use netlab_ebpf::abi::Direction;

use super::Chosen;
use super::allowed::Sets;
use super::matrix::Matrix;
use super::workloads::Workloads;
use crate::model::address::AddressBlock;
use crate::model::cluster::{Cluster, Pod};
use crate::model::policy::{PeerMatch, Policy};
use crate::policy::classes::ClassIndex;
use crate::policy::groups::number;
use crate::policy::provenance::RuleRef;
use crate::policy::ruleset::Rulesets;

/// A rule's block, and who may be in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenBlock {
    /// The peer that names it.
    pub rule: RuleRef,
    /// The block.
    pub block: AddressBlock,
    /// The workloads, by name.
    pub workloads: Vec<String>,
    /// True when the list has them inside.
    pub inside: bool,
}

impl OpenBlock {
    /// In a sentence, with at most so many names.
    pub fn words(&self, most: usize) -> String {
        let names = match self.workloads.as_slice() {
            names if names.len() > most => {
                format!("{} and {} more", names[..most].join(", "), names.len() - most)
            }
            names => names.join(", "),
        };
        let where_it_is = if self.inside { "inside" } else { "outside of" };
        let addresses = if self.workloads.len() == 1 { "the address" } else { "the addresses" };
        format!(
            "no input gives {addresses} of {names}: listed {where_it_is} {}, which {} {} {} names",
            self.block,
            self.rule.kind,
            self.rule.qualified_name(),
            self.rule.path
        )
    }
}

/// A workload with a pod whose address is not known.
struct Unknown<'a> {
    workload: usize,
    pod: &'a Pod,
    /// Of its own address.
    class: ClassIndex,
    profile: u32,
}

/// Every such block, in the order of policies, rules and peers.
pub(super) fn find(
    cluster: &Cluster,
    rulesets: &Rulesets,
    workloads: &Workloads,
    chosen: &Chosen,
    matrix: &mut Matrix<'_>,
) -> Vec<OpenBlock> {
    let unknown = [true, false].map(|ipv4| unknown(cluster, workloads, ipv4));
    if unknown.iter().all(Vec::is_empty) {
        return Vec::new();
    }
    let unknown_profiles = [true, false]
        .map(|ipv4| unknown[usize::from(!ipv4)].iter().map(|one| one.profile).collect::<BTreeSet<u32>>());
    let open_classes = [true, false].map(|ipv4| {
        let Some(one) = unknown[usize::from(!ipv4)].first() else { return BTreeSet::new() };
        let blocks = rulesets.policies.list.iter().flat_map(Policy::blocks);
        let open = blocks.filter(|block| cluster.leaves_open(block, one.pod));
        open.map(|block| class_of(rulesets, block)).collect::<BTreeSet<ClassIndex>>()
    });
    let mut finder = Finder {
        rulesets,
        workloads,
        chosen,
        matrix,
        unknown_profiles,
        open_classes,
        subjects: BTreeMap::new(),
        at_most: BTreeMap::new(),
    };
    let mut found = Vec::new();
    for (index, policy) in (0..).zip(&rulesets.policies.list) {
        for (direction, rules) in [(Direction::Ingress, &policy.ingress), (Direction::Egress, &policy.egress)]
        {
            for rule in rules.iter().flatten() {
                for peer in rule.peers.iter().flatten() {
                    let PeerMatch::Block(block) = &peer.matches else { continue };
                    let of_family = &unknown[usize::from(!block.cidr.addr().is_ipv4())];
                    if !of_family.first().is_some_and(|one| cluster.leaves_open(block, one.pod)) {
                        continue;
                    }
                    for inside in [false, true] {
                        let there = of_family.iter().filter(|one| {
                            one.pod.addresses.iter().any(|address| block.contains(*address)) == inside
                        });
                        let place = Place { policy, index, direction, block, inside };
                        let workloads = finder.differing(&place, there);
                        if !workloads.is_empty() {
                            let rule = RuleRef::new(policy, rule, &peer.path, None);
                            found.push(OpenBlock { rule, block: block.clone(), workloads, inside });
                        }
                    }
                }
            }
        }
    }
    found
}

/// One pod for each profile of each workload.
fn unknown<'a>(cluster: &'a Cluster, workloads: &Workloads, ipv4: bool) -> Vec<Unknown<'a>> {
    let mut seen: BTreeSet<(u32, u32)> = BTreeSet::new();
    let mut all = Vec::new();
    for (key, pod) in cluster.pods.iter().filter(|(_, pod)| pod.synthetic_addresses) {
        let (Some(workload), Some(profile)) = (workloads.of_pod.get(key), workloads.profile_of.get(key))
        else {
            continue;
        };
        let class = workloads.profiles[*profile as usize].classes[usize::from(!ipv4)];
        if let Some(class) = class
            && seen.insert((*workload, *profile))
        {
            all.push(Unknown { workload: *workload as usize, pod, class, profile: *profile });
        }
    }
    all
}

/// A block where it stands.
struct Place<'a> {
    policy: &'a Policy,
    index: u32,
    direction: Direction,
    block: &'a AddressBlock,
    inside: bool,
}

/// A workload, and the profiles of some of its pods.
type Subject = (usize, Vec<u32>);

struct Finder<'m, 'a> {
    rulesets: &'m Rulesets,
    workloads: &'m Workloads,
    chosen: &'m Chosen,
    matrix: &'m mut Matrix<'a>,
    /// By family.
    unknown_profiles: [BTreeSet<u32>; 2],
    /// Of addresses in blocks that may hold somebody unknown, by family.
    open_classes: [BTreeSet<ClassIndex>; 2],
    /// What a profile allows in a direction to somebody in any of those.
    at_most: BTreeMap<(u32, bool, bool), u32>,
    /// The workloads that a policy acts on, and the profiles of those of their pods.
    subjects: BTreeMap<(u32, bool), Vec<Subject>>,
}

impl Finder<'_, '_> {
    /// Those that would have other connections on the other side of the block.
    fn differing<'u>(
        &mut self,
        place: &Place<'_>,
        unknown: impl Iterator<Item = &'u Unknown<'u>>,
    ) -> Vec<String> {
        let key = (place.index, place.direction == Direction::Egress);
        let subjects = match self.subjects.remove(&key) {
            Some(known) => known,
            None => self.subjects(place),
        };
        let ipv4 = place.block.cidr.addr().is_ipv4();
        let other_class = self.class_elsewhere(place);
        // Pods that policies cannot tell apart fare the same against one subject.
        let mut known: BTreeMap<(u32, u32), bool> = BTreeMap::new();
        let mut names: BTreeSet<String> = BTreeSet::new();
        for one in unknown {
            let differs = subjects.iter().any(|(subject, profiles)| {
                let (from, to) = match place.direction {
                    Direction::Ingress => (one.workload, *subject),
                    Direction::Egress => (*subject, one.workload),
                };
                let asked = from != to && self.chosen.has(from, to);
                asked
                    && profiles.iter().any(|profile| {
                        let key = (one.profile, *profile);
                        let differs = known.get(&key).copied();
                        let differs = differs
                            .unwrap_or_else(|| self.differs(place, one, *profile, (ipv4, other_class)));
                        known.insert(key, differs);
                        differs
                    })
            });
            if differs {
                names.insert(self.workloads.list[one.workload].peer.id.clone());
            }
        }
        self.subjects.insert(key, subjects);
        names.into_iter().collect()
    }

    fn subjects(&self, place: &Place<'_>) -> Vec<Subject> {
        let acts = |profile: &&u32| {
            let ruleset = self.workloads.profiles[**profile as usize].ruleset;
            let table = ruleset.and_then(|index| self.rulesets.list[index as usize].table(place.direction));
            table.is_some_and(|table| table.acting.binary_search(&place.index).is_ok())
        };
        let of = |(index, workload): (usize, &super::workloads::Workload)| {
            let profiles: Vec<u32> = workload.profiles.iter().filter(acts).copied().collect();
            (!profiles.is_empty()).then_some((index, profiles))
        };
        self.workloads.list.iter().enumerate().filter_map(of).collect()
    }

    /// The class of addresses that are no pod's, on the block's other side.
    fn class_elsewhere(&self, place: &Place<'_>) -> ClassIndex {
        if !place.inside {
            return class_of(self.rulesets, place.block);
        }
        let ipv4 = place.block.cidr.addr().is_ipv4();
        // The root comes first of each family.
        let is_root = |net: &ipnet::IpNet| net.addr().is_ipv4() == ipv4;
        number(self.rulesets.classes.prefixes.list.iter().position(is_root).unwrap_or_default())
    }

    fn differs(
        &mut self,
        place: &Place<'_>,
        one: &Unknown<'_>,
        subject: u32,
        (ipv4, elsewhere): (bool, ClassIndex),
    ) -> bool {
        let family = usize::from(!ipv4);
        let is_unknown = self.unknown_profiles[family].contains(&subject);
        let subject = &self.workloads.profiles[subject as usize];
        let Some(class) = subject.classes[family] else { return false };
        let here = self.matrix.side(subject, place.direction, one.class);
        let there = self.matrix.side(subject, place.direction, elsewhere);
        // What selectors say of the pod goes with it; a union loses nothing, an order may.
        let may_lose = place.policy.id.kind.is_ordered() || place.inside;
        let there = if may_lose { there } else { self.matrix.sets.or(here, there) };
        let opposite = match place.direction {
            Direction::Ingress => Direction::Egress,
            Direction::Egress => Direction::Ingress,
        };
        let of_one = &self.workloads.profiles[one.profile as usize];
        let mut other_side = self.matrix.side(of_one, opposite, class);
        if is_unknown {
            // The subject may be in a block too.
            let at_most = self.at_most(one.profile, opposite, ipv4);
            other_side = self.matrix.sets.or(other_side, at_most);
        }
        self.matrix.sets.and(here, other_side) != self.matrix.sets.and(there, other_side)
    }

    fn at_most(&mut self, profile: u32, direction: Direction, ipv4: bool) -> u32 {
        let key = (profile, direction == Direction::Egress, ipv4);
        if let Some(known) = self.at_most.get(&key) {
            return *known;
        }
        let mut allowed = Sets::NOTHING;
        for class in &self.open_classes[usize::from(!ipv4)] {
            let side = self.matrix.side(&self.workloads.profiles[profile as usize], direction, *class);
            allowed = self.matrix.sets.or(allowed, side);
        }
        self.at_most.insert(key, allowed);
        allowed
    }
}

/// The class of addresses in a block that are no pod's: bare prefixes have their own indices.
fn class_of(rulesets: &Rulesets, block: &AddressBlock) -> ClassIndex {
    number(rulesets.classes.prefixes.list.binary_search(&block.cidr.trunc()).unwrap_or_default())
}
