//! The conformance suites of the Admin and Baseline tiers on the wire: upstream's where it is beside the project,
//! and our own.
//!
//! Invariant: one lab and one backend per node for each test's cluster, changed from stage to stage as a cluster
//! would be; every poke is a real packet whose entries must count. What a poke must give is the suite's word, not
//! netlab's.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use netlab_core::input::{Budget, Document, Loaded, WireObjects, load};
use netlab_core::model::cluster::ObjectKey;
use netlab_core::policy::change::Verdict;
use netlab_core::policy::trial::Trial;
use netlab_core::policy::{Limits, Numbers, Scope, compile_with};
use netlab_core::testing::conformance::{Stage, stages};
use netlab_core::testing::manifest;
use netlab_enforcer::LoadOptions;
use netlab_enforcer::backend::agreement::{SourcePorts, disagreements, shot};
use netlab_enforcer::backend::nft::NftBackend;
use netlab_enforcer::backend::tc::TcBackend;
use netlab_lab::{Lab, Plan, Selection};
use netlab_node::Netns;

use crate::backend_agreement::{nodes, pair};
use crate::backend_site::has;
use crate::backend_traffic::Counting;

/// Every stage of every suite.
pub(crate) fn conformance_stages() -> Vec<Stage> {
    let crate_root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let own = crate_root.join("../core/tests/conformance");
    let mut all = Vec::new();
    for suite in ["admin.yaml", "baseline.yaml", "v1alpha1.yaml"] {
        all.extend(read(&own, suite));
    }
    let named = std::env::var_os("NETLAB_CASES").map(PathBuf::from);
    let must_exist = named.is_some();
    let upstream =
        named.unwrap_or_else(|| crate_root.join("../../shared/cases")).join("policy/clusternetworkpolicy");
    if upstream.is_dir() {
        all.extend(read(&upstream, "expected.json"));
    } else {
        assert!(!must_exist, "NETLAB_CASES is set, but {} is not there", upstream.display());
        eprintln!("without upstream's suite: {} is not there", upstream.display());
    }
    all
}

fn read(root: &Path, suite: &str) -> Vec<Stage> {
    let mut file = |path: &str| {
        let path = root.join(path);
        std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
    };
    let suite = file(suite).expect("the suite");
    stages(&suite, &mut file).unwrap_or_else(|error| panic!("{}: {error}", root.display()))
}

/// A lab with a backend on each node.
struct Place<B> {
    cluster: String,
    lab: Lab,
    backends: Vec<(String, B)>,
    numbers: Numbers,
    ports: SourcePorts,
    generation: u32,
}

impl<B: Counting> Place<B> {
    fn new(loaded: &Loaded, cluster: String, make: &impl Fn(Netns) -> B) -> Self {
        let plan = Plan::new(&loaded.cluster, &Selection::everything()).expect("a plan");
        let lab = Lab::build(&plan).expect("a lab");
        let handle = |node: &String| lab.node(node).expect("node").try_clone().expect("handle");
        let backends = nodes(&lab).into_iter().map(|node| (node.clone(), make(handle(&node)))).collect();
        Self {
            cluster,
            lab,
            backends,
            numbers: Numbers::default(),
            ports: SourcePorts::default(),
            generation: 0,
        }
    }

    /// How many packets were sent; what was wrong goes to `wrong`.
    fn judge(&mut self, stage: &Stage, loaded: &Loaded, wrong: &mut Vec<String>) -> usize {
        let name = &stage.name;
        let (limits, all) = (Limits::default(), Scope::Cluster);
        let compiled = compile_with(&loaded.cluster, &loaded.policies, &all, &self.numbers, &limits);
        assert!(compiled.diagnostics.is_empty(), "{name}: {:?}", compiled.diagnostics);
        self.numbers = compiled.rulesets.numbers.clone();
        self.generation += 1;
        for (node, backend) in &mut self.backends {
            let interface = |key: &ObjectKey| {
                self.lab
                    .host_interface(key)
                    .ok()
                    .filter(|link| link.node == *node)
                    .map(|link| link.name.clone())
            };
            backend
                .apply(&compiled.rulesets.change(self.generation, interface))
                .unwrap_or_else(|error| panic!("{name}: {error}"));
        }
        let trial = Trial::new(&compiled.rulesets).expect("an image");
        let mut shots = Vec::new();
        for poke in &stage.pokes {
            for question in &poke.questions {
                let pair = pair(&loaded.cluster, question).expect("own addresses");
                let hops = trial.hops(&loaded.cluster, &pair);
                let denied = hops.iter().flatten().any(|hop| hop.verdict == Verdict::Deny);
                if denied == poke.allowed {
                    wrong.push(format!("{name}: {question:?}: {hops:?}"));
                }
                shots.push(shot(&self.lab, &loaded.cluster, &trial, &pair).expect("a pod at one end"));
            }
        }
        let backends = &mut self.backends;
        let mut counters = || {
            let mut sum: BTreeMap<u32, u64> = BTreeMap::new();
            for (entry, packets) in backends.iter().flat_map(|(_, backend)| backend.counted()) {
                *sum.entry(entry).or_default() += packets;
            }
            Ok(sum)
        };
        let found =
            disagreements(&self.lab, &mut counters, &shots, &mut self.ports).expect("sent and counted");
        wrong.extend(found.iter().map(|disagreement| format!("{name}: {disagreement}")));
        for (node, backend) in backends {
            let drift = backend.observe().expect("observation").drift;
            assert_eq!(drift, Vec::<String>::new(), "{name}: {node}");
        }
        shots.len()
    }
}

fn on_the_wire<B: Counting>(make: impl Fn(Netns) -> B) {
    let mut place: Option<Place<B>> = None;
    let (mut sent, mut wrong) = (0, Vec::new());
    for stage in conformance_stages() {
        let text = manifest::write(&stage.objects);
        let loaded =
            load([Document { name: "suite.yaml".into(), text: text.as_str().into() }], &Budget::default());
        assert!(loaded.is_complete(), "{}: {:?}", stage.name, loaded.diagnostics);
        // Labels of namespaces make no other wires.
        let cluster = manifest::write_cluster(&WireObjects {
            pods: stage.objects.pods.clone(),
            nodes: stage.objects.nodes.clone(),
            ..WireObjects::default()
        });
        let place = match &mut place {
            Some(place) if place.cluster == cluster => place,
            other => other.insert(Place::new(&loaded, cluster, &make)),
        };
        sent += place.judge(&stage, &loaded, &mut wrong);
    }
    assert_eq!(wrong, Vec::<String>::new());
    eprintln!("{sent} packets");
    assert!(sent >= 2 * 230, "{sent} packets");
}

#[test]
fn the_conformance_suites_are_right_on_the_wire_under_nft() {
    if has(&["netns", "nft"]) {
        on_the_wire(NftBackend::inside);
    }
}

#[test]
fn the_conformance_suites_are_right_on_the_wire_under_tc() {
    if has(&["netns", "bpf"]) {
        on_the_wire(|node| TcBackend::load(node, &LoadOptions::LAB).expect("loaded"));
    }
}
