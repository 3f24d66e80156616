//! What the lints say of random worlds, held against the oracle: what is redundant, shadowed or vacuous may go, all of
//! it together, and no verdict changes; who is said to select nobody selects nobody.

use std::collections::{BTreeMap, BTreeSet};

use fastrand::Rng;
use netlab_core::diagnostic::{Severity, code};
use netlab_core::input::wire::network_policy::NetworkPolicy;
use netlab_core::input::{Budget, Document, Loaded, WireObjects, load};
use netlab_core::model::cluster::Cluster;
use netlab_core::model::policy::{NamespaceScope, PodSelector};
use netlab_core::policy::lint::{Finding, lint};
use netlab_core::policy::oracle::Oracle;
use netlab_core::testing::generate::questions::questions;
use netlab_core::testing::generate::world;
use netlab_core::testing::manifest;

const WORLDS: usize = 90;
const QUESTIONS: usize = 40;

/// Kind, namespace and name.
type Key = (String, Option<String>, String);

/// Says some things twice, as people do.
fn repeat(objects: &mut WireObjects, rng: &mut Rng) {
    let mut copies = Vec::new();
    for policy in &mut objects.network_policies {
        if let Some(spec) = &mut policy.spec {
            for rules in spec.ingress.iter_mut().filter(|rules| !rules.is_empty()) {
                if rng.u8(0..10) < 3 {
                    let mut copy = rules[0].clone();
                    copy.from.iter_mut().for_each(|peers| peers.truncate(1));
                    rules.insert(rng.usize(0..=rules.len()), copy);
                }
            }
            for rules in spec.egress.iter_mut().filter(|rules| !rules.is_empty()) {
                if rng.u8(0..10) < 3 {
                    let mut copy = rules[0].clone();
                    copy.ports.iter_mut().for_each(|ports| ports.truncate(1));
                    rules.push(copy);
                }
            }
        }
        if rng.u8(0..10) < 2 {
            let mut copy = policy.clone();
            copy.metadata.name = copy.metadata.name.map(|name| format!("{name}-copy"));
            copies.push(copy);
        }
    }
    objects.network_policies.extend(copies);
    for policy in &mut objects.cluster_network_policies {
        for rules in policy.spec.iter_mut().filter_map(|spec| spec.ingress.as_mut()) {
            if let Some(mut copy) = rules.first().cloned().filter(|_| rules.len() < 20) {
                copy.action = Some(["Accept", "Deny", "Pass"][rng.usize(0..3)].to_owned());
                rules.push(copy);
            }
        }
    }
}

/// What is to be deleted.
#[derive(Debug, Default)]
struct Deletion {
    policies: BTreeSet<Key>,
    /// Rules and elements by their paths.
    paths: BTreeMap<Key, BTreeSet<String>>,
}

impl Deletion {
    fn of(findings: &[Finding]) -> Self {
        let mut deletion = Self::default();
        for finding in findings {
            let one = &finding.diagnostic;
            let Some(object) = &one.object else { continue };
            let key = (object.kind.clone(), object.namespace.clone(), object.name.clone());
            match one.code {
                code::POLICY_REDUNDANT | code::SUBJECT_IS_NOBODY | code::POLICY_VACUOUS => {
                    deletion.policies.insert(key);
                }
                code::RULE_REDUNDANT | code::RULE_SHADOWED => {
                    deletion.paths.entry(key).or_default().insert(one.path.clone());
                }
                code::ELEMENT_REDUNDANT if object.kind == "NetworkPolicy" => {
                    deletion.paths.entry(key).or_default().insert(one.path.clone());
                }
                _ => {}
            }
        }
        deletion
    }

    fn is_empty(&self) -> bool {
        self.policies.is_empty() && self.paths.is_empty()
    }

    /// The objects without it.
    fn applied(&self, loaded: &Loaded) -> WireObjects {
        let mut objects = loaded.wire.clone();
        let key = |kind: &str, namespace: &Option<String>, name: &Option<String>| {
            (kind.to_owned(), namespace.clone(), name.clone().unwrap_or_default())
        };
        objects.network_policies.retain_mut(|policy| {
            let key = key("NetworkPolicy", &policy.metadata.namespace, &policy.metadata.name);
            if let Some(paths) = self.paths.get(&key) {
                keep_types(policy, loaded, &key);
                cut(policy, paths);
            }
            !self.policies.contains(&key)
        });
        macro_rules! of_tier {
            ($list:ident, $kind:literal) => {
                objects.$list.retain_mut(|policy| {
                    let key = key($kind, &None, &policy.metadata.name);
                    if let (Some(spec), Some(paths)) = (&mut policy.spec, self.paths.get(&key)) {
                        without(spec.ingress.as_mut(), "spec.ingress", paths);
                        without(spec.egress.as_mut(), "spec.egress", paths);
                    }
                    !self.policies.contains(&key)
                });
            };
        }
        of_tier!(admin_network_policies, "AdminNetworkPolicy");
        of_tier!(baseline_admin_network_policies, "BaselineAdminNetworkPolicy");
        of_tier!(cluster_network_policies, "ClusterNetworkPolicy");
        objects
    }
}

/// Deleting the last egress rule must not end the isolation: `policyTypes` says what was meant.
fn keep_types(policy: &mut NetworkPolicy, loaded: &Loaded, (_, namespace, name): &Key) {
    let read = loaded.policies.list.iter().find(|one| one.id.namespace == *namespace && one.id.name == *name);
    let (Some(read), Some(spec)) = (read, &mut policy.spec) else { return };
    let types = [("Ingress", read.ingress.is_some()), ("Egress", read.egress.is_some())];
    spec.policy_types =
        Some(types.into_iter().filter(|(_, acts)| *acts).map(|(word, _)| word.to_owned()).collect());
}

fn cut(policy: &mut NetworkPolicy, paths: &BTreeSet<String>) {
    let Some(spec) = &mut policy.spec else { return };
    for (index, rule) in spec.ingress.iter_mut().flatten().enumerate() {
        without(rule.from.as_mut(), &format!("spec.ingress[{index}].from"), paths);
        without(rule.ports.as_mut(), &format!("spec.ingress[{index}].ports"), paths);
    }
    for (index, rule) in spec.egress.iter_mut().flatten().enumerate() {
        without(rule.to.as_mut(), &format!("spec.egress[{index}].to"), paths);
        without(rule.ports.as_mut(), &format!("spec.egress[{index}].ports"), paths);
    }
    without(spec.ingress.as_mut(), "spec.ingress", paths);
    without(spec.egress.as_mut(), "spec.egress", paths);
}

/// Takes the elements with these paths out of a list.
fn without<T>(list: Option<&mut Vec<T>>, path: &str, paths: &BTreeSet<String>) {
    let Some(list) = list else { return };
    let mut index = 0;
    list.retain(|_| {
        index += 1;
        !paths.contains(&format!("{path}[{}]", index - 1))
    });
}

fn selects_somebody(cluster: &Cluster, selector: &PodSelector) -> bool {
    cluster.pods.iter().any(|(key, pod)| {
        let in_scope = match &selector.namespaces {
            NamespaceScope::Own(own) => *own == key.namespace,
            NamespaceScope::Matching(wanted) => wanted.matches(&cluster.namespaces[&key.namespace].labels),
        };
        in_scope && selector.pods.matches(&pod.labels)
    })
}

#[test]
fn what_changes_nothing_may_go_and_nobody_is_nobody() {
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    let mut asked = 0;
    for seed in [11, 12] {
        let mut rng = Rng::with_seed(seed);
        for index in 0..WORLDS {
            let mut objects = world(&mut rng);
            repeat(&mut objects, &mut rng);
            let text = manifest::write(&objects);
            let loaded = load([Document { name: "w.yaml".into(), text: text.into() }], &Budget::default());
            let is_error = |severity: Severity| severity == Severity::Error;
            assert!(
                loaded.diagnostics.iter().all(|one| !is_error(one.severity)),
                "{:#?}",
                loaded.diagnostics
            );
            let findings = lint(&loaded.cluster, &loaded.policies, Vec::new()).findings;
            for finding in &findings {
                *seen.entry(finding.diagnostic.code).or_default() += 1;
                if finding.diagnostic.code == code::SUBJECT_IS_NOBODY {
                    let object = finding.diagnostic.object.as_ref().expect("an object");
                    let is_it = |id: &netlab_core::model::policy::PolicyId| {
                        (id.kind.as_str(), &id.namespace, &id.name)
                            == (object.kind.as_str(), &object.namespace, &object.name)
                    };
                    let policy = loaded.policies.list.iter().find(|policy| is_it(&policy.id)).expect("it");
                    assert!(!selects_somebody(&loaded.cluster, &policy.subject), "{object}");
                }
            }
            let deletion = Deletion::of(&findings);
            if deletion.is_empty() {
                continue;
            }
            let after = deletion.applied(&loaded);
            let (before_oracle, after_oracle) = (Oracle::new(&loaded.wire), Oracle::new(&after));
            for question in questions(&loaded.wire, QUESTIONS, &mut rng) {
                let (before, now) = (before_oracle.judge(&question), after_oracle.judge(&question));
                assert_eq!(
                    before.verdict,
                    now.verdict,
                    "seed {seed}, world {index}: {question:?}\n{deletion:#?}\n{}",
                    manifest::write(&loaded.wire)
                );
                asked += 1;
            }
        }
    }
    for code in [
        code::RULE_REDUNDANT,
        code::RULE_SHADOWED,
        code::POLICY_REDUNDANT,
        code::ELEMENT_REDUNDANT,
        code::SUBJECT_IS_NOBODY,
        code::POLICY_VACUOUS,
    ] {
        let times = seen.get(code).copied().unwrap_or_default();
        assert!(times >= 5, "{code} was told {times} times only: {seen:?}");
    }
    assert!(asked > 3_000, "only {asked} questions");
}
