//! Oracle and engine over manifests that people wrote: the examples, and those of a peer tool where they are
//! beside the project. Workloads that stamp pods and pods without addresses are in them.

use std::path::Path;

use fastrand::Rng;
use netlab_core::input::Loaded;
use netlab_core::testing::generate::questions::questions;

use crate::input_files::{cases, example, line, load_directory, load_text};
use crate::sides::{Sides, Way};

/// Questions per set of manifests.
const QUESTIONS: usize = 300;

fn agree(name: &str, loaded: Loaded, way: Way) -> usize {
    let sides = Sides::of_loaded(loaded, way).unwrap_or_else(|error| panic!("{name}: {error}"));
    let questions = questions(&sides.loaded.wire, QUESTIONS, &mut Rng::with_seed(11));
    for question in &questions {
        if let Some(difference) = sides.disagreement(question) {
            panic!("{name}: {question:?}\n{difference}");
        }
    }
    questions.len()
}

#[test]
fn they_agree_on_the_examples() {
    for name in ["shop", "clean", "tiers"] {
        for way in [Way::Cluster, Way::Nodes, Way::Pods, Way::Later] {
            assert_eq!(agree(name, example(name), way), QUESTIONS, "{name} gives enough to ask");
        }
    }
}

#[test]
fn they_agree_on_the_manifests_of_a_peer_tool() {
    let Some(cases) = cases() else { return };
    let mut asked = 0;
    for entry in std::fs::read_dir(cases.join("policy/netpol-analyzer")).expect("the cases") {
        let input = entry.expect("a case").path().join("input");
        if input.is_dir() {
            let name = input.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
            asked += agree(&name, load_directory(&input), Way::Cluster);
        }
    }
    assert!(asked > 5_000, "{asked} questions");
}

#[test]
fn a_bad_port_of_a_workload_costs_the_port_alone() {
    let loaded = load_text(
        "apiVersion: apps/v1
kind: Deployment
metadata: {name: db, namespace: shop}
spec:
  template:
    metadata: {labels: {app: db}}
    spec:
      containers:
      - name: db
        ports:
        - {name: sql, containerPort: 5432}
        - {name: admin, containerport: 8080}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: db, namespace: shop}
spec:
  podSelector: {matchLabels: {app: db}}
  ingress:
  - ports: [{port: sql}]
",
    );
    let said: Vec<String> = loaded.diagnostics.iter().map(line).collect();
    assert_eq!(said.len(), 2, "the field, and the number that is missing for it: {said:?}");
    assert!(said.iter().all(|line| line.contains(":12:")), "the place of the port: {said:?}");
    let pod = loaded.cluster.pods.values().next().expect("the workload's pod");
    assert_eq!(pod.labels.get("app").map(String::as_str), Some("db"));
    assert_eq!(pod.ports.len(), 1);
    agree("a bad port", loaded, Way::Cluster);
}
