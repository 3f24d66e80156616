//! Oracle and engine: two ways to an answer that share nothing but the text they read, and must agree.
//!
//! Every world goes through YAML and the product's own reader. The verdict of each side must be the same, and so
//! must the reasons: which policies isolate, which rules admit. A disagreement is made small and printed as a case
//! folder.

use std::collections::BTreeSet;
use std::net::IpAddr;

use fastrand::Rng;
use netlab_core::input::{Budget, Document, Loaded, WireObjects, load};
use netlab_core::model::cluster::ObjectKey;
use netlab_core::model::policy::PeerMatch;
use netlab_core::policy::change::Verdict;
use netlab_core::policy::evaluate::{self, TierName};
use netlab_core::policy::frame::Tuple;
use netlab_core::policy::oracle::{self, IpProtocol, Oracle, Question, Why};
use netlab_core::policy::provenance::{PolicyRef, RuleRef};
use netlab_core::policy::query::{End, Pair, Query, SOURCE_PORT, Service};
use netlab_core::policy::trial::Trial;
use netlab_core::policy::{Rulesets, Scope, compile};
use netlab_core::testing::generate::coverage::Coverage;
use netlab_core::testing::generate::questions::questions;
use netlab_core::testing::generate::world;
use netlab_core::testing::minimise::minimise;
use netlab_core::testing::{case, manifest};

/// Worlds per seed, and questions per world.
const WORLDS: usize = 320;
const QUESTIONS: usize = 10;

/// In one of so many worlds a question is also asked as users ask it.
const WHOLE_EVALUATIONS: usize = 10;

/// The same on every run; one more seed varies.
const FIXED_SEEDS: [u64; 3] = [1, 2, 3];

/// A world on both sides.
struct Sides {
    loaded: Loaded,
    rulesets: Rulesets,
    trial: Trial,
}

impl Sides {
    /// An error when the reader, the compiler or the encoder refuses something of it.
    fn of(objects: &WireObjects) -> Result<Self, String> {
        let document = Document { name: "world.yaml".into(), text: manifest::write(objects).into() };
        let loaded = load([document], &Budget::default());
        if !loaded.is_complete() {
            return Err(format!("{:#?}", loaded.diagnostics));
        }
        let compiled = compile(&loaded.cluster, &loaded.policies, &Scope::Cluster);
        if !compiled.diagnostics.is_empty() {
            return Err(format!("{:#?}", compiled.diagnostics));
        }
        let trial = Trial::new(&compiled.rulesets).map_err(|error| error.to_string())?;
        Ok(Self { loaded, rulesets: compiled.rulesets, trial })
    }

    /// What the two say differently, in words; `None` when they agree.
    fn disagreement(&self, question: &Question) -> Option<String> {
        let answer = Oracle::new(&self.loaded.wire).judge(question);
        let pair = pair(question);
        let [egress, ingress] = self.trial.hops(&self.loaded.cluster, &pair);
        for (name, expected, hop) in
            [("egress", &answer.egress, egress), ("ingress", &answer.ingress, ingress)]
        {
            let found = hop.map(|hop| evaluate::side(&self.loaded.cluster, &self.rulesets, &pair, hop));
            if let Some(difference) = difference(expected, found.as_ref()) {
                return Some(format!("{name}: {difference}\noracle {expected:?}\nengine {found:?}"));
            }
        }
        None
    }

    /// The whole evaluation's pair for a question.
    fn evaluated(&self, question: &Question) -> Option<Verdict> {
        let Pair { from, to, tuple } = pair(question);
        let service = match question.protocol {
            IpProtocol::Icmp => Service::Icmp,
            IpProtocol::Other(number) => Service::Other(number),
            _ => Service::Port { protocol: tuple.protocol, port: tuple.destination_port },
        };
        let query = Query { from: vec![from], to: vec![to], service };
        let evaluation =
            evaluate::evaluate(&self.loaded.cluster, &self.rulesets, &query).expect("it can be encoded");
        let mut pairs = evaluation.pairs.into_iter();
        pairs
            .find(|pair| pair.source == tuple.source && pair.destination == tuple.destination)
            .map(|pair| pair.verdict)
    }
}

fn pair(question: &Question) -> Pair {
    let end = |end: &oracle::End| match end {
        oracle::End::Pod { namespace, name, .. } => End::Pod(ObjectKey::new(namespace, name)),
        oracle::End::Node { name, .. } => End::Node(name.clone()),
        oracle::End::External(address) => End::Address(*address),
    };
    let (source, destination) = (question.source.address(), question.destination.address());
    let tuple = Tuple {
        source,
        destination,
        protocol: match question.protocol {
            IpProtocol::Tcp => 6,
            IpProtocol::Udp => 17,
            IpProtocol::Sctp => 132,
            IpProtocol::Icmp if source.is_ipv4() => 1,
            IpProtocol::Icmp => 58,
            IpProtocol::Other(number) => number,
        },
        source_port: SOURCE_PORT,
        destination_port: question.port,
    };
    Pair { from: end(&question.source), to: end(&question.destination), tuple }
}

/// How a side differs from what the oracle says of it.
fn difference(expected: &oracle::Side, found: Option<&evaluate::Side>) -> Option<String> {
    let verdict = found.map_or(Verdict::Allow, |side| side.verdict);
    if (verdict == Verdict::Allow) != (expected.verdict == oracle::Verdict::Allow) {
        return Some("another verdict".to_owned());
    }
    let Some(found) = found else {
        let unseen = matches!(expected.why, Why::NotPoliced(_));
        return (!unseen).then(|| "no hook where there is a policed pod".to_owned());
    };
    let isolated_by: BTreeSet<_> = found.isolated_by.iter().map(PolicyRef::qualified_name).collect();
    let must_isolate: BTreeSet<_> =
        expected.isolated_by.iter().map(|(namespace, name)| format!("{namespace}/{name}")).collect();
    let matched: Vec<&RuleRef> = found.rule.iter().chain(&found.losers).collect();
    match &expected.why {
        Why::NotPoliced(_) => Some("a hook where there is no policed pod".to_owned()),
        // An exemption from nothing need not be cited.
        Why::Exempt(_) if must_isolate.is_empty() => None,
        Why::Exempt(_) => (found.tier != TierName::Exempt).then(|| "not exempt".to_owned()),
        _ if isolated_by != must_isolate => Some("isolated by other policies".to_owned()),
        Why::NotIsolated => (found.tier != TierName::Default).then(|| "not by default".to_owned()),
        Why::Isolated => (!matched.is_empty()).then(|| "a rule cited for a default deny".to_owned()),
        Why::Allowed(admissions) => {
            let rules: BTreeSet<_> = matched
                .iter()
                .map(|rule| (rule.qualified_name(), rule_path(&rule.path).to_owned()))
                .collect();
            let must_match: BTreeSet<_> = admissions
                .iter()
                .map(|oracle::Admission { policy: (namespace, name), path, .. }| {
                    (format!("{namespace}/{name}"), path.clone())
                })
                .collect();
            if rules != must_match {
                return Some("other rules match".to_owned());
            }
            let cites_what_matches = |rule: &RuleRef| {
                admissions.iter().any(|admission| {
                    let (namespace, name) = &admission.policy;
                    rule.qualified_name() == format!("{namespace}/{name}")
                        && (admission.peers.contains(&rule.path)
                            || (admission.peers.is_empty() && rule.path == admission.path))
                        && rule.port_path.as_ref().map_or(admission.ports.is_empty(), |path| {
                            admission.ports.contains(path) && path.starts_with(&admission.path)
                        })
                })
            };
            let wrong = matched.iter().find(|rule| !cites_what_matches(rule));
            wrong.map(|rule| format!("cites {} {:?}, which does not match", rule.path, rule.port_path))
        }
    }
}

/// `spec.ingress[0]` of `spec.ingress[0].from[1]`.
fn rule_path(path: &str) -> &str {
    path.find(']').map_or(path, |end| &path[..=end])
}

/// The case folder of a disagreement, made small.
fn describe(objects: &WireObjects, question: &Question) -> String {
    let disagreement = |objects: &WireObjects| Sides::of(objects).ok()?.disagreement(question);
    let small = minimise(objects, |objects| disagreement(objects).is_some());
    let files = case::write(&small, question);
    let files = files.iter().map(|(file, content)| format!("##### {file}\n{content}"));
    let mut text = vec![disagreement(&small).unwrap_or_default()];
    text.extend(files);
    text.join("\n")
}

fn run(seed: u64) -> Coverage {
    let mut coverage = Coverage::default();
    let mut rng = Rng::with_seed(seed);
    for index in 0..WORLDS {
        let objects = world(&mut rng);
        let sides = Sides::of(&objects).unwrap_or_else(|error| {
            panic!("seed {seed}, world {index}: {error}\n{}", manifest::write(&objects))
        });
        let questions = questions(&sides.loaded.wire, QUESTIONS, &mut rng);
        for question in &questions {
            if let Some(difference) = sides.disagreement(question) {
                panic!(
                    "seed {seed}, world {index}: {question:?}\n{difference}\n\nmade small:\n{}",
                    describe(&objects, question)
                );
            }
            let answer = Oracle::new(&sides.loaded.wire).judge(question);
            assert_eq!(
                answer,
                Oracle::new(&objects).judge(question),
                "the reader changed the meaning: {question:?}"
            );
            coverage.count(&sides.loaded.wire, question, &answer);
        }
        if let Some(question) = questions.first().filter(|_| index % WHOLE_EVALUATIONS == 0) {
            let verdict = sides.evaluated(question).expect("the pair is among those evaluated");
            let answer = Oracle::new(&sides.loaded.wire).judge(question);
            assert_eq!(verdict == Verdict::Allow, answer.verdict == oracle::Verdict::Allow, "{question:?}");
        }
    }
    coverage
}

#[test]
#[expect(clippy::print_stdout, reason = "the seed and the table are what a reader of the run wants")]
fn the_engine_agrees_with_the_oracle_on_random_worlds() {
    let varying = std::env::var("NETLAB_SEED").ok().and_then(|seed| seed.parse().ok());
    let varying = varying.unwrap_or_else(|| fastrand::u64(1000..));
    println!("NETLAB_SEED={varying}");
    let mut coverage = Coverage::default();
    std::thread::scope(|scope| {
        let seeds = FIXED_SEEDS.into_iter().chain([varying]);
        let runs: Vec<_> = seeds.map(|seed| scope.spawn(move || run(seed))).collect();
        for run in runs {
            coverage.add(&run.join().expect("a seed met a disagreement, told above"));
        }
    });
    println!("{coverage}");
    assert!(coverage.questions() >= 10_000, "{} questions", coverage.questions());
    assert_eq!(coverage.missing(), Vec::<String>::new());
}

#[test]
fn the_engine_agrees_on_every_case() {
    for folder in crate::oracle_cases::folders() {
        let case = crate::oracle_cases::read(&folder);
        let sides = Sides::of(&case.objects).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
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
        let sides = Sides::of(&table.objects).unwrap_or_else(|error| panic!("{}: {error}", table.name));
        for entry in &table.pairs {
            let question = table.question(entry);
            if let Some(difference) = sides.disagreement(&question) {
                panic!("{}: {entry:?}\n{difference}", table.name);
            }
            let hops = sides.trial.hops(&sides.loaded.cluster, &pair(&question));
            let allowed = hops.iter().flatten().all(|hop| hop.verdict == Verdict::Allow);
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
    let mut sides = Sides::of(&case.objects).expect("the case can be loaded");
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
        sides.trial = Trial::new(&rulesets).expect("it can be encoded");
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
            let [egress, _] =
                sides.trial.hops(&sides.loaded.cluster, &Pair { from, to: End::Address(to), tuple });
            let verdict = egress.expect("the pod has a hook").verdict;
            assert_eq!(verdict == Verdict::Allow, allows, "{subject} to {to} with {block}");
        }
    }
}
