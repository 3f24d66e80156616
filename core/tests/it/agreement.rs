//! Oracle and engine: two ways to an answer that share nothing but the text they read, and must agree.
//!
//! Every world goes through YAML and the product's own reader. A disagreement is made small and printed as a case
//! folder.

use std::net::IpAddr;

use fastrand::Rng;
use netlab_core::input::WireObjects;
use netlab_core::model::cluster::ObjectKey;
use netlab_core::model::policy::PeerMatch;
use netlab_core::policy::change::Verdict;
use netlab_core::policy::frame::Tuple;
use netlab_core::policy::oracle::{self, Oracle, Question};
use netlab_core::policy::query::{End, Pair, SOURCE_PORT};
use netlab_core::policy::trial::Trial;
use netlab_core::policy::{Scope, compile};
use netlab_core::testing::generate::coverage::Coverage;
use netlab_core::testing::generate::questions::questions;
use netlab_core::testing::generate::world;
use netlab_core::testing::minimise::minimise;
use netlab_core::testing::{case, manifest};

use crate::sides::{Sides, Way, pair};

/// Worlds per seed unless `NETLAB_WORLDS` says otherwise, and questions per world.
const WORLDS: usize = 320;
const QUESTIONS: usize = 16;

/// In one of so many worlds a question is also asked as users ask it.
const WHOLE_EVALUATIONS: usize = 10;

/// The same on every run; one more seed varies. `NETLAB_SEED` asks for one seed alone.
const FIXED_SEEDS: [u64; 3] = [1, 2, 3];

/// How a world is compiled, by its number: mostly at once, which is cheapest.
const WAYS: [Way; 6] = [Way::Cluster, Way::Nodes, Way::Cluster, Way::Later, Way::Cluster, Way::Pods];

/// The case folder of a disagreement, made small.
fn describe(objects: &WireObjects, way: Way, question: &Question) -> String {
    let disagreement = |objects: &WireObjects| Sides::of(objects, way).ok()?.disagreement(question);
    let small = minimise(objects, |objects| disagreement(objects).is_some());
    let files = case::write(&small, question);
    let files = files.iter().map(|(file, content)| format!("##### {file}\n{content}"));
    let mut text = vec![disagreement(&small).unwrap_or_default()];
    text.extend(files);
    text.join("\n")
}

/// A number from the environment, for longer runs.
fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

fn run(seed: u64) -> Coverage {
    let mut coverage = Coverage::default();
    let mut rng = Rng::with_seed(seed);
    let worlds = number("NETLAB_WORLDS").and_then(|worlds| usize::try_from(worlds).ok()).unwrap_or(WORLDS);
    for index in 0..worlds {
        let objects = world(&mut rng);
        let way = WAYS[index % WAYS.len()];
        let sides = Sides::of(&objects, way).unwrap_or_else(|error| {
            panic!("seed {seed}, world {index}: {error}\n{}", manifest::write(&objects))
        });
        let questions = questions(&sides.loaded.wire, QUESTIONS, &mut rng);
        for question in &questions {
            if let Some(difference) = sides.disagreement(question) {
                panic!(
                    "seed {seed}, world {index}, compiled by {way:?}: {question:?}\n{difference}\n\nmade small:\n{}",
                    describe(&objects, way, question)
                );
            }
            let answer = Oracle::new(&sides.loaded.wire).judge(question);
            // Only where the reader had no address to choose.
            if objects.pods.iter().all(|pod| pod.status.is_some()) {
                let as_written = Oracle::new(&objects).judge(question);
                assert_eq!(answer, as_written, "the reader changed the meaning: {question:?}");
            }
            coverage.count(&sides.loaded.wire, question, &answer);
        }
        let asked = questions.first().filter(|_| index % WHOLE_EVALUATIONS == 0);
        if let Some((question, verdict)) =
            asked.and_then(|question| Some((question, sides.evaluated(question)?)))
        {
            let answer = Oracle::new(&sides.loaded.wire).judge(question);
            assert_eq!(verdict == Verdict::Allow, answer.verdict == oracle::Verdict::Allow, "{question:?}");
        }
    }
    coverage
}

#[test]
#[expect(clippy::print_stdout, reason = "the seed and the table are what a reader of the run wants")]
fn the_engine_agrees_with_the_oracle_on_random_worlds() {
    let asked_for = number("NETLAB_SEED");
    let seeds = asked_for
        .map_or_else(|| FIXED_SEEDS.into_iter().chain([fastrand::u64(1000..)]).collect(), |seed| vec![seed]);
    println!("NETLAB_SEED={}", seeds.last().copied().unwrap_or_default());
    let mut coverage = Coverage::default();
    std::thread::scope(|scope| {
        let runs: Vec<_> = seeds.into_iter().map(|seed| scope.spawn(move || run(seed))).collect();
        for run in runs {
            coverage.add(&run.join().expect("a seed met a disagreement, told above"));
        }
    });
    println!("{coverage}");
    // One seed alone is a run of its own length, and its shares are what they are.
    if asked_for.is_none() {
        assert!(coverage.questions() >= 20_000, "{} questions", coverage.questions());
        assert_eq!(coverage.missing(), Vec::<String>::new());
    }
}

#[test]
fn the_engine_agrees_on_every_case() {
    for folder in crate::oracle_cases::folders() {
        let case = crate::oracle_cases::read(&folder);
        let sides = Sides::of(&case.objects, Way::Cluster)
            .unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        for (query, question) in &case.questions {
            if !can_be_asked(question, &sides.loaded.wire) {
                continue;
            }
            if let Some(difference) = sides.disagreement(question) {
                panic!("{}: {query}\n{difference}", folder.display());
            }
        }
    }
}

/// The engine knows ends by the addresses they have, so someone outside behind a pod's or node's address, and a
/// pod or node behind another address, are the oracle's to answer.
fn can_be_asked(question: &Question, objects: &WireObjects) -> bool {
    let oracle = Oracle::new(objects);
    [&question.source, &question.destination].into_iter().all(|end| {
        let owner = oracle.end_of_address(end.address());
        owner == *end || matches!((&owner, end), (oracle::End::Node { .. }, oracle::End::Pod { .. }))
    })
}

#[test]
fn the_engine_is_right_about_every_upstream_pair() {
    let Some(tables) = crate::e2e::upstream_tables() else { return };
    let mut pairs = 0;
    for table in &tables {
        let sides =
            Sides::of(&table.objects, Way::Nodes).unwrap_or_else(|error| panic!("{}: {error}", table.name));
        for entry in &table.pairs {
            let question = table.question(entry);
            if let Some(difference) = sides.disagreement(&question) {
                panic!("{}: {entry:?}\n{difference}", table.name);
            }
            let hops = sides.hops(&pair(&question));
            let allowed = hops.iter().flatten().all(|(_, hop)| hop.verdict == Verdict::Allow);
            assert_eq!(allowed, entry.allowed, "{}: {entry:?}", table.name);
            pairs += 1;
        }
    }
    assert_eq!(pairs, 4896);
}

/// The reader refuses such a block, but a policy may come to the compiler by another way.
#[test]
fn an_ipv4_mapped_block_matches_no_ipv4_address() {
    let folder = crate::oracle_cases::folders()
        .into_iter()
        .find(|path| path.ends_with("block-never-crosses-families"));
    let case = crate::oracle_cases::read(&folder.expect("the case is there"));
    let sides = Sides::of(&case.objects, Way::Cluster).expect("the case can be loaded");
    for (block, subject_allows_ipv4) in
        [("::ffff:0:0/96", false), ("::ffff:203.0.113.0/120", false), ("0.0.0.0/0", true)]
    {
        let mut policies = sides.loaded.policies.clone();
        for rule in policies.list.iter_mut().flat_map(|policy| policy.egress.iter_mut().flatten()) {
            for peer in rule.peers.iter_mut().flatten() {
                if let PeerMatch::Block(found) = &mut peer.matches
                    && found.cidr.addr().is_ipv6()
                {
                    found.cidr = block.parse().expect("a CIDR");
                }
            }
        }
        let rulesets = compile(&sides.loaded.cluster, &policies, &Scope::Cluster).rulesets;
        let trial = Trial::new(&rulesets).expect("it can be encoded");
        for (subject, allows) in [("out4", true), ("out6", subject_allows_ipv4)] {
            let from = End::Pod(ObjectKey::new("a", subject));
            let to: IpAddr = [203, 0, 113, 5].into();
            let source = sides.loaded.cluster.pods[&ObjectKey::new("a", subject)].addresses[0];
            let tuple = Tuple {
                source,
                destination: to,
                protocol: 6,
                source_port: SOURCE_PORT,
                destination_port: 80,
            };
            let [egress, _] = trial.hops(&sides.loaded.cluster, &Pair::direct(from, End::Address(to), tuple));
            let verdict = egress.expect("the pod has a hook").verdict;
            assert_eq!(verdict == Verdict::Allow, allows, "{subject} to {to} with {block}");
        }
    }
}
