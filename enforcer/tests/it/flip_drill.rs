//! Flip under load: policies, labels, prefixes and pods change while packets flow, and the writer is killed.
//!
//! Held here, for every packet: a flow that the old and the new change allow never loses one, a flow that both deny at
//! some hook never delivers one, and every event's entry is what the engine says for the event's generation. The writer
//! is a process of its own with pinned maps; it is killed after its steps, one after the other, while it recovers too,
//! and at moments that nobody chose. `NETLAB_FLIP_CHANGES` sets the number of changes (200), `NETLAB_SEED` the seed.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use netlab_core::policy::change::Change;
use netlab_core::policy::frame::Tuple;
use netlab_ebpf::abi::{Direction, Event, ipv4_of, is_ipv4};
use netlab_enforcer::backend::tc::TcBackend;
use netlab_enforcer::backend::wire::Sender;
use netlab_enforcer::events::Events;
use netlab_enforcer::pins::{PinPlace, Pinned};
use netlab_node::Netns;
use netlab_plugin::contract::Backend as _;

use crate::backend_pins::PinSite;
use crate::backend_site::has;
use crate::drill_writer::WRITER;
use crate::flip_world::{Generation, KEPT, OPTIONS, PODS, PORTS, Probe, World, address, key, probes};

/// The writer's process.
struct Writer {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Writer {
    /// Starts it; `None` when it was killed before it had taken over.
    fn start(place: &PinPlace, netns: &Netns, kill: usize) -> Option<(Self, u32)> {
        let path = format!("/proc/{}/fd/{}", std::process::id(), netns.as_fd().as_raw_fd());
        let order =
            [path, place.bpffs.display().to_string(), place.state.display().to_string(), kill.to_string()];
        let mut child = Command::new(std::env::current_exe().expect("this binary"))
            .args(["--exact", "drill_writer::the_writer", "--ignored", "--nocapture", "--test-threads=1"])
            .env(WRITER, serde_json::to_string(&order).expect("JSON"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the writer");
        let orders = child.stdin.take().expect("stdin");
        let answers = BufReader::new(child.stdout.take().expect("stdout"));
        let mut writer = Self { child, orders, answers };
        if let Some(generation) = writer.answer() {
            return Some((writer, generation));
        }
        writer.bury();
        None
    }

    fn order(&mut self, change: &Change, kill: usize) {
        let line = serde_json::to_string(&(kill, change)).expect("JSON");
        // A writer that is dead already does not hear it.
        let _ = writeln!(self.orders, "{line}").and_then(|()| self.orders.flush());
    }

    /// The generation that it says is in force; `None` when it is dead.
    fn answer(&mut self) -> Option<u32> {
        loop {
            let mut line = String::new();
            if self.answers.read_line(&mut line).expect("readable") == 0 {
                return None;
            }
            if let Some(generation) = line.trim().strip_prefix("in force ") {
                return Some(generation.parse().expect("a generation"));
            }
        }
    }

    /// Waits for its end, which must have been SIGKILL's.
    fn bury(&mut self) {
        use std::os::unix::process::ExitStatusExt as _;
        let status = self.child.wait().expect("an end");
        assert_eq!(status.signal(), Some(9), "the writer ended by itself: {status}");
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What everybody knows.
struct Shared {
    generations: Mutex<BTreeMap<u32, Arc<Generation>>>,
    /// The lowest and the highest generation that may be in force now.
    in_force: AtomicU64,
    over: AtomicBool,
    rounds: AtomicU32,
}

impl Shared {
    fn now(&self) -> (u32, u32) {
        let both = self.in_force.load(Ordering::SeqCst);
        (u32::try_from(both >> 32).expect("half"), u32::try_from(both & 0xffff_ffff).expect("half"))
    }

    fn set(&self, low: u32, high: u32) {
        self.in_force.store(u64::from(low) << 32 | u64::from(high), Ordering::SeqCst);
    }

    fn between(&self, low: u32, high: u32) -> Vec<Arc<Generation>> {
        let generations = self.generations.lock().expect("generations");
        generations.range(low..=high).map(|(_, generation)| Arc::clone(generation)).collect()
    }
}

/// Everybody sends to everybody: always a new flow, and always an old one.
struct Traffic {
    senders: Vec<Sender>,
    receivers: Vec<(usize, u16, UdpSocket)>,
}

/// Where held flows have their source ports.
const HELD: u16 = 10_000;

impl Traffic {
    fn run(&self, shared: &Shared) -> (u64, u64) {
        let probes = probes();
        let (mut delivered, mut kept_out) = (0, 0);
        let mut port = 20_000_u16;
        let mut former_low = 0;
        while !shared.over.load(Ordering::SeqCst) {
            let (low, _) = shared.now();
            let mut sent: BTreeMap<(usize, usize, u16, u16), Probe> = BTreeMap::new();
            for (number, probe) in (0..).zip(&probes) {
                port = if port == 60_000 { 20_000 } else { port + 1 };
                for source_port in [port, HELD + number] {
                    let (from, to, destination_port) = *probe;
                    let tuple = Tuple {
                        source: address(from),
                        destination: address(to),
                        protocol: 17,
                        source_port,
                        destination_port,
                    };
                    self.senders[from].send(&tuple).expect("sent");
                    sent.insert((from, to, destination_port, source_port), *probe);
                }
            }
            let mut missing = sent.clone();
            let mut arrived = Vec::new();
            let began = Instant::now();
            loop {
                for (to, port, from, source_port) in self.received() {
                    missing.remove(&(from, to, port, source_port));
                    arrived.push((from, to, port, source_port));
                }
                let (_, high) = shared.now();
                let generations = shared.between(low, high);
                let wanted = missing
                    .values()
                    .find(|probe| generations.iter().all(|g| g.allows(**probe, 0) && g.allows(**probe, 1)));
                match wanted {
                    None if began.elapsed() > Duration::from_millis(2) => break,
                    Some(probe) if began.elapsed() > Duration::from_secs(5) => {
                        panic!("{probe:?} is allowed in every generation from {low} to {high}, and was lost")
                    }
                    _ => std::thread::sleep(Duration::from_micros(300)),
                }
            }
            // What comes late was sent a round ago at most.
            let (_, high) = shared.now();
            let generations = shared.between(former_low.min(low), high);
            for (from, to, port, source_port) in arrived {
                let denied = |hook| generations.iter().all(|g| !g.allows((from, to, port), hook));
                assert!(
                    !denied(0) && !denied(1),
                    "{from} to {to} port {port} from {source_port} is denied in every generation from {former_low} to \
                     {high}, and arrived"
                );
                delivered += 1;
            }
            kept_out += missing.len() as u64;
            former_low = low;
            shared.rounds.fetch_add(1, Ordering::SeqCst);
        }
        (delivered, kept_out)
    }

    /// (to, port, from, source port) of everything that came.
    fn received(&self) -> Vec<(usize, u16, usize, u16)> {
        let mut received = Vec::new();
        let mut buffer = [0; 64];
        for (to, port, socket) in &self.receivers {
            while let Ok((_, from)) = socket.recv_from(&mut buffer) {
                let Some(pod) = (0..PODS.len()).find(|pod| address(*pod) == from.ip()) else { continue };
                received.push((*to, *port, pod, from.port()));
            }
        }
        received
    }
}

/// What was seen of the events.
#[derive(Debug, Default)]
struct Judged {
    /// As the engine says for the event's generation.
    exact: u64,
    /// As it says for the next one: the peer had its next class already, and the ruleset is in both.
    early: u64,
    generations: std::collections::BTreeSet<u32>,
}

fn judge_events(events: &mut Events, shared: &Shared) -> Judged {
    let mut judged = Judged::default();
    loop {
        let over = shared.over.load(Ordering::SeqCst);
        while let Some(event) = events.wait(Duration::from_millis(20)).expect("events") {
            judge(&event, shared, &mut judged);
        }
        if over {
            return judged;
        }
    }
}

fn judge(event: &Event, shared: &Shared, judged: &mut Judged) {
    let pod = |address: &[u8; 16]| {
        let ip = is_ipv4(address).then(|| IpAddr::V4(Ipv4Addr::from(ipv4_of(address))))?;
        (0..PODS.len()).find(|pod| self::address(*pod) == ip)
    };
    let (Some(from), Some(to)) = (pod(&event.source), pod(&event.destination)) else { return };
    if event.protocol != 17 || !PORTS.contains(&event.destination_port) {
        return;
    }
    let number = event.word.generation();
    let hook = usize::from(event.direction == Direction::Ingress as u8);
    let of = |number: u32| shared.generations.lock().expect("generations").get(&number).cloned();
    let generation = of(number).expect("a generation that was asked for");
    let entry = generation.tables.slots.entry(event.entry, number).expect("its own generation's");
    let probe = (from, to, event.destination_port);
    let said = generation.says[&probe][hook].map(|(_, entry)| entry);
    if said == Some(entry) {
        judged.exact += 1;
    } else {
        let next = of(number + 1)
            .unwrap_or_else(|| panic!("generation {number}: {probe:?} {event:?}, said {said:?}"));
        let subject = [from, to][hook];
        let stays = generation.rulesets.get(&subject) == next.rulesets.get(&subject);
        let early = next.says[&probe][hook].map(|(_, entry)| entry) == Some(entry);
        assert!(
            stays && early,
            "generation {number}: entry {entry} at hook {hook} of {probe:?}, but the engine says {said:?} ({event:?})"
        );
        judged.early += 1;
    }
    judged.generations.insert(number);
}

/// One connection that policy always allows, from before the first change to after the last.
fn keep_talking(client: &Netns, server: &Netns, shared: &Shared) -> u64 {
    let to = SocketAddr::new(address(1), KEPT);
    let listener = server.run(|| TcpListener::bind(to)).expect("namespace").expect("listening");
    let mut near = client.run(|| TcpStream::connect(to)).expect("namespace").expect("allowed");
    let (mut far, _) = listener.accept().expect("accepted");
    for stream in [&near, &far] {
        stream.set_nodelay(true).expect("no delay");
        stream.set_read_timeout(Some(Duration::from_secs(10))).expect("timeout");
    }
    let mut said = 0;
    let mut byte = [0];
    while !shared.over.load(Ordering::SeqCst) {
        near.write_all(&[7]).expect("sent");
        far.read_exact(&mut byte).expect("an old flow that is always allowed");
        far.write_all(&byte).expect("answered");
        near.read_exact(&mut byte).expect("an answer");
        said += 1;
        std::thread::sleep(Duration::from_millis(1));
    }
    said
}

fn number(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

#[test]
fn packets_meet_the_old_or_the_new_change_while_the_writer_is_killed() {
    if !has(&["netns", "bpf"]) {
        return;
    }
    let (changes, seed) = (number("NETLAB_FLIP_CHANGES", 200), number("NETLAB_SEED", 7));
    eprintln!("NETLAB_FLIP_CHANGES={changes} NETLAB_SEED={seed}");
    let pins = PinSite::new();
    let mut world = World::new(seed);
    let lab = world.lab();
    let node = lab.node("n1").expect("the node");
    let pod = |name: &str| lab.pod(&key(name)).expect("a pod");

    let first = Arc::new(world.generation(1, &lab, None));
    let (mut writer, _) = Writer::start(&pins.place(), node, usize::MAX).expect("alive");
    writer.order(&first.change, usize::MAX);
    assert_eq!(writer.answer(), Some(1));
    let mut events = Pinned::open(&pins.place()).expect("readable").expect("there").events;
    let mut former = Arc::clone(&first);
    let shared = Shared {
        generations: Mutex::new(BTreeMap::from([(1, first)])),
        in_force: AtomicU64::new(0),
        over: AtomicBool::new(false),
        rounds: AtomicU32::new(0),
    };
    shared.set(1, 1);
    let mut receivers = Vec::new();
    for (number, name) in PODS.iter().enumerate() {
        for port in PORTS {
            let bound = pod(name).run(|| UdpSocket::bind((address(number), port)));
            let socket = bound.expect("namespace").expect("bound");
            socket.set_nonblocking(true).expect("non-blocking");
            receivers.push((number, port, socket));
        }
    }
    let senders = PODS.map(|name| Sender::open(pod(name)).expect("a sender")).into();
    let traffic = Traffic { senders, receivers };

    let mut rng = fastrand::Rng::with_seed(seed);
    let mut killed = 0_u64;
    let shared = &shared;
    let (sent, judged, said) = std::thread::scope(|scope| {
        /// Ends the others when the drill fails.
        struct Over<'a>(&'a AtomicBool);
        impl Drop for Over<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::SeqCst);
            }
        }
        let over = Over(&shared.over);
        let traffic = scope.spawn(|| traffic.run(shared));
        let events = scope.spawn(|| judge_events(&mut events, shared));
        let talk = scope.spawn(|| keep_talking(pod("web"), pod("db"), shared));
        let mut step = 0;
        for number in 2..=u32::try_from(changes + 1).expect("few") {
            world.step();
            let next = Arc::new(world.generation(number, &lab, Some(&former)));
            shared.generations.lock().expect("generations").insert(number, Arc::clone(&next));
            shared.set(number - 1, number);
            // Every fifth change the writer dies after one of its steps, or at some moment.
            let kill = if number % 5 == 0 { step } else { usize::MAX };
            let at_random = number % 15 == 0;
            writer.order(&next.change, if at_random { usize::MAX } else { kill });
            if at_random {
                std::thread::sleep(Duration::from_millis(rng.u64(0..60)));
                writer.child.kill().expect("killed");
            }
            let mut in_force = writer.answer();
            if number % 5 == 0 {
                // Small changes have fewer steps and end before.
                step = (step + 1) % 60;
            }
            while in_force != Some(number) {
                if in_force.is_none() {
                    writer.bury();
                    killed += 1;
                    // Sometimes its successor dies too, while it takes over.
                    let again = if killed.is_multiple_of(3) { rng.usize(0..12) } else { usize::MAX };
                    let started = Writer::start(&pins.place(), node, again)
                        .or_else(|| Writer::start(&pins.place(), node, usize::MAX))
                        .expect("alive");
                    let (successor, generation) = started;
                    writer = successor;
                    assert!((number - 1..=number).contains(&generation), "{generation} after {number}");
                    in_force = Some(generation);
                } else {
                    assert_eq!(in_force, Some(number - 1));
                    writer.order(&next.change, usize::MAX);
                    in_force = writer.answer();
                }
            }
            // Older generations can still be in packets on their way, and in events that wait.
            shared.set(number, number);
            former = next;
            let rounds = shared.rounds.load(Ordering::SeqCst);
            let began = Instant::now();
            while shared.rounds.load(Ordering::SeqCst) == rounds && began.elapsed() < Duration::from_secs(10)
            {
                if traffic.is_finished() || events.is_finished() || talk.is_finished() {
                    break;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            if traffic.is_finished() || events.is_finished() || talk.is_finished() {
                break;
            }
        }
        drop(over);
        let sent = traffic.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let judged = events.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        (sent, judged, talk.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    });
    let (delivered, kept_out) = sent;
    eprintln!(
        "{changes} changes, {killed} kills, {} rounds: {delivered} packets delivered, {kept_out} kept out; {} events as the \
         engine says, {} of them early, in {} generations; {said} words over the old connection",
        shared.rounds.load(Ordering::SeqCst),
        judged.exact + judged.early,
        judged.early,
        judged.generations.len()
    );
    assert!(killed >= changes / 12, "{killed} kills");
    assert!(
        delivered > changes * 20 && kept_out > changes * 20,
        "{delivered} delivered, {kept_out} kept out"
    );
    assert!(judged.exact > changes * 20, "{judged:?}");
    assert!(judged.generations.len() as u64 > changes / 2, "{judged:?}");
    assert!(judged.early * 20 < judged.exact, "{judged:?}");
    assert!(said > changes);
    drop(writer);
    let netns = node.try_clone().expect("a second handle");
    let mut backend = TcBackend::open(netns, &pins.place(), &OPTIONS).expect("taken over");
    assert_eq!(backend.change().map(|change| change.generation), u32::try_from(changes + 1).ok());
    assert_eq!(backend.audit().expect("audit").differences, vec![]);
    assert_eq!(backend.teardown(), []);
}
