//! Random worlds on the wire: what the compiled tables say, real packets through each kernel datapath must count.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use netlab_core::input::{Budget, Document, WireObjects, load};
use netlab_core::model::cluster::{Cluster, ObjectKey};
use netlab_core::policy::change::Verdict;
use netlab_core::policy::frame::Tuple;
use netlab_core::policy::oracle::{self, IpProtocol, Oracle, Question};
use netlab_core::policy::query::{End, Pair};
use netlab_core::policy::trial::Trial;
use netlab_core::policy::{Limits, Numbers, Scope, compile, compile_with};
use netlab_core::testing::generate::coverage::Coverage;
use netlab_core::testing::generate::{questions::questions, world};
use netlab_core::testing::manifest;
use netlab_core::testing::upstream::tables;
use netlab_enforcer::LoadOptions;
use netlab_enforcer::backend::agreement::{SourcePorts, disagreements, opens_for_good, shot};
use netlab_enforcer::backend::nft::NftBackend;
use netlab_enforcer::backend::tc::TcBackend;
use netlab_lab::{Lab, Plan, Selection};
use netlab_node::Netns;

use crate::backend_site::has;
use crate::backend_traffic::Counting;
use crate::seeds::Seeds;

const QUESTIONS: usize = 80;

#[test]
fn random_worlds_are_counted_by_nft_as_the_tables_say() {
    if has(&["netns", "nft"]) {
        agree(Seeds::new(1, 8), NftBackend::inside);
    }
}

#[test]
fn random_worlds_are_counted_by_tc_as_the_tables_say() {
    if has(&["netns", "bpf"]) {
        agree(Seeds::new(2, 5), |node| TcBackend::load(node, &LoadOptions::LAB).expect("loaded"));
    }
}

/// Oracle, engine and the packets that are really sent.
fn agree<B: Counting>(Seeds { list: seeds, worlds, asked_for }: Seeds, make: impl Fn(Netns) -> B) {
    let mut coverage = Coverage::default();
    let mut decided = 0;
    let each = seeds.into_iter().flat_map(|seed| {
        let mut rng = fastrand::Rng::with_seed(seed);
        (1..=worlds).map(move |number| {
            let objects = world(&mut rng);
            let text = manifest::write(&objects);
            let document = Document { name: "world.yaml".into(), text: text.as_str().into() };
            let loaded = load([document], &Budget::default());
            let questions = questions(&loaded.wire, QUESTIONS, &mut rng);
            (format!("NETLAB_SEED={seed} NETLAB_WORLDS={number}"), text, loaded, questions)
        })
    });
    for (seed, text, loaded, questions) in each {
        let compiled = compile(&loaded.cluster, &loaded.policies, &Scope::Cluster);
        let trial = Trial::new(&compiled.rulesets).expect("an image");

        let plan = Plan::new(&loaded.cluster, &Selection::everything()).expect("a plan");
        let lab = Lab::build(&plan).expect("a lab");
        let mut backends = Vec::new();
        for node in nodes(&lab) {
            let interface = |key: &ObjectKey| {
                lab.host_interface(key).ok().filter(|link| link.node == node).map(|link| link.name.clone())
            };
            let mut backend = make(lab.node(&node).expect("node").try_clone().expect("handle"));
            backend
                .apply(&compiled.rulesets.change(1, interface))
                .unwrap_or_else(|error| panic!("{seed}: {error}\n{text}"));
            backends.push(backend);
        }
        let mut shots = Vec::new();
        let mut opened = BTreeSet::new();
        for question in &questions {
            let Some(pair) = pair(&loaded.cluster, question) else { continue };
            let Tuple { source, destination, protocol, .. } = pair.tuple;
            let ends = (source.min(destination), source.max(destination), protocol);
            if opens_for_good(protocol) && !opened.insert(ends) {
                continue;
            }
            let Some(shot) = shot(&lab, &loaded.cluster, &trial, &pair) else { continue };
            let answer = Oracle::new(&loaded.wire).judge(question);
            let hops = trial.hops(&loaded.cluster, &pair);
            let allowed = hops.iter().flatten().all(|hop| hop.verdict == Verdict::Allow);
            assert_eq!(
                answer.verdict == oracle::Verdict::Allow,
                allowed,
                "{seed}: {question:?}: the spec says {answer:?}, the tables {hops:?}\n{text}"
            );
            coverage.count(&loaded.wire, question, &answer);
            shots.push(shot);
        }
        let mut counters = || {
            let mut sum: BTreeMap<u32, u64> = BTreeMap::new();
            for backend in &backends {
                for (entry, packets) in backend.counted() {
                    *sum.entry(entry).or_default() += packets;
                }
            }
            Ok(sum)
        };
        let mut ports = SourcePorts::default();
        let found = disagreements(&lab, &mut counters, &shots, &mut ports).expect("sent and counted");
        let words: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert!(found.is_empty(), "{seed}:\n{}\n{text}", words.join("\n"));
        decided += shots.iter().filter(|shot| shot.entries.iter().any(|entry| *entry >= 64)).count();
        for backend in &mut backends {
            assert_eq!(backend.observe().expect("observation").drift, Vec::<String>::new(), "{seed}");
        }
    }
    let sent = coverage.questions();
    eprintln!("{coverage}\n{sent} packets, {decided} of them decided by a compiled entry");
    if !asked_for {
        assert!(sent >= 500 && decided >= 200, "{sent} packets, {decided} by compiled entries prove little");
    }
}

pub(crate) fn nodes(lab: &Lab) -> Vec<String> {
    let mut nodes: Vec<String> = lab.host_interfaces().values().map(|link| link.node.clone()).collect();
    nodes.sort();
    nodes.dedup();
    nodes
}

/// The packet of a question; `None` where it is about an address translated on the way.
pub(crate) fn pair(cluster: &Cluster, question: &Question) -> Option<Pair> {
    let end = |end: &oracle::End| match end {
        oracle::End::Pod { namespace, name, address } => {
            let key = ObjectKey::new(namespace, name);
            cluster.pods.get(&key)?.addresses.contains(address).then_some(End::Pod(key))
        }
        oracle::End::Node { name, .. } => Some(End::Node(name.clone())),
        oracle::End::External(address) => Some(End::Address(*address)),
    };
    let (source, destination) = (question.source.address(), question.destination.address());
    let protocol = match question.protocol {
        IpProtocol::Tcp => 6,
        IpProtocol::Udp => 17,
        IpProtocol::Sctp => 132,
        IpProtocol::Icmp if source.is_ipv4() => 1,
        IpProtocol::Icmp => 58,
        IpProtocol::Other(number) => number,
    };
    let tuple = Tuple { source, destination, protocol, source_port: 0, destination_port: question.port };
    Some(Pair::direct(end(&question.source)?, end(&question.destination)?, tuple))
}

/// The upstream suite on the wire: one lab and one backend, changed from step to step as a cluster would be.
fn upstream<B: Counting>(make: impl Fn(Netns) -> B) {
    let named = std::env::var_os("NETLAB_CASES").map(PathBuf::from);
    let must_exist = named.is_some();
    let folder = named.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/cases"));
    let path = folder.join("policy/e2e/cases.yaml");
    let Ok(text) = std::fs::read_to_string(&path) else {
        assert!(!must_exist, "NETLAB_CASES is set, but {} is not there", path.display());
        eprintln!("skipped: {} is not there", path.display());
        return;
    };
    let tables = tables(&text).expect("the transcription can be read");
    let read = |objects: &WireObjects| {
        let text = manifest::write(objects);
        load([Document { name: "suite.yaml".into(), text: text.as_str().into() }], &Budget::default())
    };
    let first = read(&tables[0].objects);
    let lab =
        Lab::build(&Plan::new(&first.cluster, &Selection::everything()).expect("a plan")).expect("a lab");
    let [node] = nodes(&lab).try_into().expect("one node");
    let mut backend = make(lab.node(&node).expect("node").try_clone().expect("handle"));
    let mut numbers = Numbers::default();
    let mut ports = SourcePorts::default();
    let (mut pairs, mut wrong) = (0, Vec::new());
    for (generation, table) in (1..).zip(&tables) {
        let loaded = read(&table.objects);
        assert!(loaded.is_complete(), "{}: {:?}", table.name, loaded.diagnostics);
        let compiled =
            compile_with(&loaded.cluster, &loaded.policies, &Scope::Cluster, &numbers, &Limits::default());
        numbers = compiled.rulesets.numbers.clone();
        let interface = |key: &ObjectKey| lab.host_interface(key).ok().map(|link| link.name.clone());
        backend
            .apply(&compiled.rulesets.change(generation, interface))
            .unwrap_or_else(|error| panic!("{}: {error}", table.name));
        let trial = Trial::new(&compiled.rulesets).expect("an image");
        let mut shots = Vec::new();
        for asked in &table.pairs {
            let pair = pair(&loaded.cluster, &table.question(asked)).expect("own addresses");
            let denied =
                trial.hops(&loaded.cluster, &pair).iter().flatten().any(|hop| hop.verdict == Verdict::Deny);
            if denied == asked.allowed {
                wrong.push(format!("{}: {asked:?}", table.name));
            }
            shots.push(shot(&lab, &loaded.cluster, &trial, &pair).expect("two pods"));
        }
        pairs += shots.len();
        let mut counters = || Ok(backend.counted());
        let found = disagreements(&lab, &mut counters, &shots, &mut ports).expect("sent and counted");
        wrong.extend(found.iter().map(|disagreement| format!("{}: {disagreement}", table.name)));
        let drift = backend.observe().expect("observation").drift;
        assert_eq!(drift, Vec::<String>::new(), "{}", table.name);
    }
    assert_eq!(wrong, Vec::<String>::new());
    assert_eq!((tables.len(), pairs), (68, 4896));
}

#[test]
fn the_upstream_suite_is_right_on_the_wire_under_nft() {
    if has(&["netns", "nft"]) {
        upstream(NftBackend::inside);
    }
}

#[test]
fn the_upstream_suite_is_right_on_the_wire_under_tc() {
    if has(&["netns", "bpf"]) {
        upstream(|node| TcBackend::load(node, &LoadOptions::LAB).expect("loaded"));
    }
}
