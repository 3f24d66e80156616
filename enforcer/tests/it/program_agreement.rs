//! The program in the kernel against the specification: random worlds and the upstream suite, by test-run.
//!
//! Three ways to an answer: the oracle from the objects as written, the engine from the compiled tables, and the
//! loaded program from the bytes that were really put into its maps. The packets are new connections.

use std::path::Path;

use fastrand::Rng;
use netlab_core::input::{Budget, Document, Loaded, WireObjects, load};
use netlab_core::model::cluster::ObjectKey;
use netlab_core::policy::change::Verdict;
use netlab_core::policy::frame::{Tuple, opening};
use netlab_core::policy::oracle::{self, IpProtocol, Oracle, Question};
use netlab_core::policy::query::{End, Pair, SOURCE_PORT};
use netlab_core::policy::trial::{HopVerdict, Trial};
use netlab_core::policy::{Scope, compile};
use netlab_core::testing::generate::coverage::Coverage;
use netlab_core::testing::generate::questions::questions;
use netlab_core::testing::generate::world;
use netlab_core::testing::minimise::minimise;
use netlab_core::testing::{case, manifest, upstream};
use netlab_ebpf::abi::Direction;
use netlab_enforcer::maps::MapSizes;
use netlab_enforcer::update::restore;
use netlab_enforcer::update::tables::{Room, Tables};
use netlab_enforcer::{Datapath, LoadOptions};
use netlab_node::Netns;
use netlab_node::netlink::{Batch, Mac, Netlink, VethEnd};

use crate::bpf_require::datapath;
use crate::conformance::conformance_stages;
use crate::seeds::Seeds;

/// Worlds with policies of every tier have larger tables than a lab.
const OPTIONS: LoadOptions = LoadOptions {
    sizes: MapSizes {
        policy: 131_072,
        counters: 65_536,
        port_tables: 256,
        port_classes: 1_024,
        ..MapSizes::LAB
    },
    ..LoadOptions::LAB
};

/// `lo`: every pod is behind it, one at a time.
const POD: u32 = 1;

/// A namespace with an interface by which packets arrive, and the program.
struct Machine {
    netns: Netns,
    arrival: u32,
    datapath: Datapath,
}

impl Machine {
    fn new(test: &str) -> Option<Self> {
        let datapath = datapath(test, &OPTIONS)?;
        let netns = Netns::create().expect("root can make a namespace");
        let mut netlink = Netlink::open_in(&netns).expect("a socket inside");
        let mut batch = Batch::new();
        let end = |name, last| VethEnd { name, mac: Mac([2, 0, 0, 0, 0, last]) };
        batch.veth(end("in", 1), end("out", 2), &netns);
        netlink.apply(&batch).expect("a veth pair");
        let arrival = netlink.link("in").expect("readable").expect("just made").index;
        Some(Self { netns, arrival, datapath })
    }

    /// What the program does with the first packet of a question at each hook, beside what the engine says.
    fn ask(&mut self, world: &World, question: &Question) -> Result<Verdict, String> {
        let pair = pair(question);
        let frame = opening(&pair.tuple).ok_or("no frame")?;
        let mut verdict = Verdict::Allow;
        for hop in world.trial.hops(&world.loaded.cluster, &pair).into_iter().flatten() {
            let Some(key) = subject(&pair, hop.direction) else { continue };
            let Some(pod) =
                world.trial.change.pods.iter().find(|pod| key == ObjectKey::new(&pod.namespace, &pod.name))
            else {
                continue;
            };
            if pair.from == pair.to {
                continue;
            }
            let device = world.trial.image.device(pod, -1);
            let from_node = hop.direction == Direction::Ingress && own_node(&world.loaded, &pair.from, &key);
            let run = self.run(&device, &frame, hop.direction, if from_node { 0 } else { self.arrival })?;
            verdict = verdict.max(run.0);
            if run != (hop.verdict, hop.entry) {
                return Err(format!(
                    "{:?}: the engine says {:?}, the program {run:?}",
                    hop.direction,
                    engine(hop)
                ));
            }
        }
        Ok(verdict)
    }

    fn run(
        &mut self,
        device: &netlab_ebpf::abi::Device,
        frame: &[u8],
        direction: Direction,
        arrival: u32,
    ) -> Result<(Verdict, u32), String> {
        let Self { netns, datapath, .. } = self;
        datapath.policy().devices.set(POD, device).map_err(|error| error.to_string())?;
        datapath.state().forget_flows().map_err(|error| error.to_string())?;
        let run = netns
            .run(|| datapath.test_run(direction, frame, POD, arrival))
            .map_err(|error| error.to_string())?;
        let run = run.map_err(|error| error.to_string())?;
        let event = run.event.ok_or("a lab reports every decision, but not this one")?;
        Ok((if run.allow { Verdict::Allow } else { Verdict::Deny }, event.entry))
    }
}

const fn engine(hop: HopVerdict) -> (Verdict, u32) {
    (hop.verdict, hop.entry)
}

/// Objects, read and compiled.
struct World {
    loaded: Loaded,
    trial: Trial,
}

impl World {
    fn new(objects: &WireObjects) -> Result<Self, String> {
        let document = Document { name: "world.yaml".into(), text: manifest::write(objects).into() };
        let loaded = load([document], &Budget::default());
        if !loaded.is_complete() {
            return Err(format!("{:#?}", loaded.diagnostics));
        }
        let compiled = compile(&loaded.cluster, &loaded.policies, &Scope::Cluster);
        let trial = Trial::new(&compiled.rulesets).map_err(|error| error.to_string())?;
        Ok(Self { loaded, trial })
    }

    /// Puts the tables into the maps.
    fn program(&self, machine: &Machine) -> Result<(), String> {
        let maps = machine.datapath.policy();
        let room = Room::of(maps, machine.datapath.state());
        let tables = Tables::place(&self.trial.image, None, room).map_err(|error| error.to_string())?;
        restore(maps, &tables).map_err(|error| error.to_string())
    }

    /// Oracle, engine and program; an error says who differs.
    fn agree(&self, machine: &mut Machine, question: &Question) -> Result<(), String> {
        let spec = Oracle::new(&self.loaded.wire).judge(question).verdict;
        let program = machine.ask(self, question)?;
        if (spec == oracle::Verdict::Allow) == (program == Verdict::Allow) {
            Ok(())
        } else {
            Err(format!("the spec says {spec:?}, the program {program}"))
        }
    }
}

fn pair(question: &Question) -> Pair {
    let end = |end: &oracle::End| match end {
        oracle::End::Pod { namespace, name, .. } => End::Pod(ObjectKey::new(namespace, name)),
        oracle::End::Node { name, .. } => End::Node(name.clone()),
        oracle::End::External(address) => End::Address(*address),
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
    let tuple =
        Tuple { source, destination, protocol, source_port: SOURCE_PORT, destination_port: question.port };
    Pair::direct(end(&question.source), end(&question.destination), tuple)
}

fn subject(pair: &Pair, direction: Direction) -> Option<ObjectKey> {
    match (direction, &pair.from, &pair.to) {
        (Direction::Egress, End::Pod(key), _) | (Direction::Ingress, _, End::Pod(key)) => Some(key.clone()),
        _ => None,
    }
}

/// True when the source is the node on which the pod runs, or a pod in that node's network.
fn own_node(loaded: &Loaded, source: &End, pod: &ObjectKey) -> bool {
    let node = loaded.cluster.pods.get(pod).and_then(|pod| pod.node.as_ref());
    match source {
        End::Node(name) => node == Some(name),
        End::Pod(key) => loaded
            .cluster
            .pods
            .get(key)
            .is_some_and(|source| source.host_network && source.node.as_ref() == node),
        End::Address(_) => false,
    }
}

/// The case folder of a disagreement, made small.
fn describe(machine: &mut Machine, objects: &WireObjects, question: &Question) -> String {
    let mut fails = |objects: &WireObjects| {
        World::new(objects)
            .is_ok_and(|world| world.program(machine).is_ok() && world.agree(machine, question).is_err())
    };
    let small = minimise(objects, &mut fails);
    let files = case::write(&small, question);
    let files: Vec<String> = files.iter().map(|(file, content)| format!("##### {file}\n{content}")).collect();
    files.join("\n")
}

/// Random worlds of one seed.
struct Run {
    seed: u64,
    rng: Rng,
    worlds: usize,
    coverage: Coverage,
}

impl Run {
    fn new(seed: u64) -> Self {
        Self { seed, rng: Rng::with_seed(seed), worlds: 0, coverage: Coverage::default() }
    }

    /// One more world; panics where somebody disagrees.
    fn world(&mut self, machine: &mut Machine) {
        let Self { seed, rng, worlds: index, coverage } = self;
        let objects = world(rng);
        let world =
            World::new(&objects).unwrap_or_else(|error| panic!("seed {seed}, world {index}: {error}"));
        world.program(machine).unwrap_or_else(|error| panic!("seed {seed}, world {index}: {error}"));
        for question in questions(&world.loaded.wire, QUESTIONS, rng) {
            if let Err(difference) = world.agree(machine, &question) {
                let small = describe(machine, &objects, &question);
                panic!(
                    "NETLAB_SEED={seed} NETLAB_WORLDS={}, world {index}: {question:?}\n{difference}\n\nmade small:\n{small}",
                    *index + 1
                );
            }
            coverage.count(&world.loaded.wire, &question, &Oracle::new(&world.loaded.wire).judge(&question));
        }
        *index += 1;
    }
}

/// Questions for each world; making the world costs as much as some fifty of them.
const QUESTIONS: usize = 50;
/// Worlds of each seed.
const WORLDS: usize = 210;
/// Most worlds that are made beyond those because something was met too rarely.
const MORE_WORLDS: usize = 200;

#[test]
fn the_program_agrees_with_the_oracle_and_the_engine_on_random_worlds() {
    let Some(first) = Machine::new("random worlds by test-run") else { return };
    let Seeds { list: seeds, worlds, asked_for } = Seeds::new(11, WORLDS);
    let mut machines = vec![first];
    machines.extend(seeds.iter().skip(1).filter_map(|_| Machine::new("random worlds by test-run")));
    let mut runs: Vec<(Machine, Run)> = machines.into_iter().zip(seeds.into_iter().map(Run::new)).collect();
    std::thread::scope(|scope| {
        for (machine, run) in &mut runs {
            scope.spawn(move || (0..worlds).for_each(|_| run.world(machine)));
        }
    });
    let coverage = |runs: &[(Machine, Run)]| {
        let mut coverage = Coverage::default();
        for (_, run) in runs {
            coverage.add(&run.coverage);
        }
        coverage
    };
    if !asked_for {
        for _ in 0..MORE_WORLDS {
            if coverage(&runs).missing().is_empty() {
                break;
            }
            let (machine, run) = runs.last_mut().expect("a run");
            run.world(machine);
        }
    }
    let coverage = coverage(&runs);
    eprintln!("{coverage}");
    if !asked_for {
        assert!(coverage.questions() >= 20_000, "{} questions", coverage.questions());
        assert_eq!(coverage.missing(), Vec::<String>::new());
    }
}

#[test]
fn the_program_is_right_about_every_upstream_pair() {
    let Some(mut machine) = Machine::new("the upstream suite by test-run") else { return };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let file = std::env::var_os("NETLAB_CASES")
        .map_or_else(|| root.join("../shared/cases"), Into::into)
        .join("policy/e2e/cases.yaml");
    let Ok(text) = std::fs::read_to_string(&file) else {
        eprintln!("skipped: {} is not there", file.display());
        return;
    };
    let mut checks = 0;
    for table in upstream::tables(&text).expect("readable cases") {
        let world = World::new(&table.objects).unwrap_or_else(|error| panic!("{}: {error}", table.name));
        world.program(&machine).unwrap_or_else(|error| panic!("{}: {error}", table.name));
        for pair in &table.pairs {
            let question = table.question(pair);
            let verdict =
                machine.ask(&world, &question).unwrap_or_else(|error| panic!("{}: {error}", table.name));
            assert_eq!(verdict == Verdict::Allow, pair.allowed, "{}: {question:?}", table.name);
            checks += 1;
        }
    }
    assert_eq!(checks, 4_896);
}

#[test]
fn the_program_is_right_about_every_conformance_poke() {
    let Some(mut machine) = Machine::new("the conformance suite by test-run") else { return };
    let mut checks = 0;
    for stage in conformance_stages() {
        let name = &stage.name;
        let world = World::new(&stage.objects).unwrap_or_else(|error| panic!("{name}: {error}"));
        world.program(&machine).unwrap_or_else(|error| panic!("{name}: {error}"));
        for poke in &stage.pokes {
            for question in &poke.questions {
                let verdict = machine
                    .ask(&world, question)
                    .unwrap_or_else(|error| panic!("{name}: {question:?}: {error}"));
                assert_eq!(verdict == Verdict::Allow, poke.allowed, "{name}: {question:?}");
                checks += 1;
            }
        }
    }
    assert!(checks >= 2 * 230, "{checks} pokes");
}
