//! The upstream conformance tests of ClusterNetworkPolicy, and a suite of our own in the same words: every poke, by
//! oracle and engine, in both families.

use std::path::{Path, PathBuf};

use netlab_core::policy::change::Verdict;
use netlab_core::policy::oracle::{self, Oracle};
use netlab_core::testing::conformance::{Stage, stages};

use crate::input_files::cases;
use crate::sides::{Sides, Way, pair};

/// Our own suite: what the transcription lacks, in our own inputs.
fn own() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conformance")
}

fn read(root: &Path, suite: &str) -> Vec<Stage> {
    let mut file = |path: &str| {
        let path = root.join(path);
        std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
    };
    let suite = file(suite).expect("the suite");
    stages(&suite, &mut file).unwrap_or_else(|error| panic!("{}: {error}", root.display()))
}

/// How many pokes were right; panics with those that were not.
fn judge(stages: &[Stage]) -> usize {
    let (mut pokes, mut wrong) = (0, Vec::new());
    for Stage { name, objects, pokes: asked } in stages {
        let sides = Sides::of(objects, Way::Nodes).unwrap_or_else(|error| panic!("{name}: {error}"));
        for (poke, question) in
            asked.iter().flat_map(|poke| poke.questions.iter().map(move |one| (poke, one)))
        {
            pokes += 1;
            let verdict = if poke.allowed { oracle::Verdict::Allow } else { oracle::Verdict::Deny };
            let answer = Oracle::new(&sides.loaded.wire).judge(question);
            if answer.verdict != verdict {
                wrong.push(format!("{name}: {question:?}: the oracle says {answer:?}"));
            }
            let hops = sides.hops(&pair(question));
            if hops.iter().flatten().all(|(_, hop)| hop.verdict == Verdict::Allow) != poke.allowed {
                wrong.push(format!("{name}: {question:?}: the engine says {hops:?}"));
            }
            if let Some(difference) = sides.disagreement(question) {
                wrong.push(format!("{name}: {question:?}: {difference}"));
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
    pokes
}

#[test]
fn every_poke_is_judged_right_by_oracle_and_engine() {
    let Some(root) = cases() else { return };
    let pokes = judge(&read(&root.join("policy/clusternetworkpolicy"), "expected.json"));
    assert!(pokes >= 2 * 143, "{pokes} pokes");
}

#[test]
fn every_poke_of_our_own_suite_is_judged_right_by_oracle_and_engine() {
    let suites = ["admin.yaml", "baseline.yaml", "v1alpha1.yaml"];
    let pokes: usize = suites.iter().map(|suite| judge(&read(&own(), suite))).sum();
    assert!(pokes >= 2 * 230, "{pokes} pokes");
}
