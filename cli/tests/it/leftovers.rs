//! Nothing is left of a command that is killed, wherever it was.
//!
//! Each command runs in a network namespace that stands for the machine. Just before it is killed, everything that
//! it holds in the kernel is noted (namespaces, programs, maps); afterwards none of that may be there, and the
//! stand-in machine must be as empty as before.

use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use netlab_node::{Netlink, Netns};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::run::{command, is_root, required};

/// The kernel frees namespaces and programs in its own time.
const PATIENCE: Duration = Duration::from_secs(5);

/// What processes hold in the kernel.
#[derive(Debug, Default, PartialEq, Eq)]
struct Held {
    /// Names with cookies: the name alone may by now be that of a namespace of a test beside this one.
    namespaces: BTreeSet<(String, u64)>,
    /// `prog_id` and `map_id` of `/proc/PID/fdinfo`.
    bpf: BTreeSet<String>,
}

impl Held {
    fn add(&mut self, process: &Path, wanted: impl Fn(&str) -> bool) {
        let list = |name: &str| {
            std::fs::read_dir(process.join(name)).into_iter().flatten().flatten().map(|entry| entry.path())
        };
        let links = list("fd").chain(list("task").map(|task| task.join("ns/net")));
        let named = |link: PathBuf| {
            let name = std::fs::read_link(&link).ok()?.to_string_lossy().into_owned();
            let is_it = name.starts_with("net:") && wanted(&name);
            // What cannot be opened any more has just ended.
            is_it.then(|| Some((name, Netns::from_path(link).ok()?.cookie().ok()?)))?
        };
        self.namespaces.extend(links.filter_map(named));
        for info in list("fdinfo").filter_map(|path| std::fs::read_to_string(path).ok()) {
            let ids = info.lines().filter(|line| line.starts_with("prog_id:") || line.starts_with("map_id:"));
            self.bpf.extend(ids.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")));
        }
    }

    /// What these processes hold now.
    fn by(processes: &[u32], own: &BTreeSet<String>) -> Self {
        let mut held = Self::default();
        for pid in processes {
            held.add(Path::new(&format!("/proc/{pid}")), |name| !own.contains(name));
        }
        held
    }

    /// What of it some process of the machine still holds, or BPF objects that are still there.
    fn left(&self) -> Vec<String> {
        let mut now = Self::default();
        for process in std::fs::read_dir("/proc").expect("/proc").flatten() {
            now.add(&process.path(), |name| self.namespaces.iter().any(|(held, _)| held == name));
        }
        let bpf = self.bpf.iter().filter(|id| now.bpf.contains(*id) || exists(id));
        let namespaces = self.namespaces.intersection(&now.namespaces).map(|(name, _)| name);
        namespaces.chain(bpf).cloned().collect()
    }
}

/// True when bpftool finds the object. Without bpftool only descriptors are looked at.
fn exists(id: &str) -> bool {
    let Some((kind, id)) = id.split_once(": ") else { return false };
    let kind = if kind == "prog_id" { "prog" } else { "map" };
    let shown = Command::new("bpftool")
        .args([kind, "show", "id", id])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    shown.is_ok_and(|status| status.success())
}

/// The stand-in for the machine.
struct Machine {
    netns: Netns,
    own: BTreeSet<String>,
    mark: String,
    pins: BTreeSet<String>,
    /// Where its labs are registered.
    run_dir: tempfile::TempDir,
}

impl Machine {
    #[expect(clippy::print_stderr, reason = "a skipped test says so")]
    fn new(test: &str) -> Option<Self> {
        if !is_root() {
            assert!(!required("root"), "{test} needs root, and NETLAB_TEST_REQUIRE says that it is there");
            eprintln!("skipped: {test} needs root");
            return None;
        }
        let netns = Netns::create().expect("root can make a namespace");
        let here = std::fs::read_link("/proc/self/ns/net").expect("our own").to_string_lossy().into_owned();
        let own = BTreeSet::from([here, netns.identity().to_string()]);
        let mark = format!("{test}-{}", std::process::id());
        let run_dir = tempfile::tempdir().expect("a directory");
        Some(Self { netns, own, mark, pins: pins(), run_dir })
    }

    fn start(&self, arguments: &[&str]) -> Child {
        // Tests that run in the background of a shell have SIGINT ignored, and a child would inherit that.
        let mut netlab = command("env");
        netlab
            .args(["--default-signal=INT", env!("CARGO_BIN_EXE_netlab")])
            .args(arguments)
            .env("NETLAB_TEST_MARK", &self.mark)
            .env("NETLAB_RUN_DIR", self.run_dir.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        self.netns.run(|| netlab.spawn().expect("netlab starts")).expect("the namespace can be entered")
    }

    fn run(&self, arguments: &[&str]) -> i32 {
        self.start(arguments).wait().expect("netlab ends").code().unwrap_or(-1)
    }

    /// Every process that a command of this test started, by the mark in its environment.
    fn processes(&self) -> Vec<u32> {
        let marked = |pid: &u32| {
            let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            String::from_utf8_lossy(&environment).contains(&format!("NETLAB_TEST_MARK={}\0", self.mark))
        };
        let entries = std::fs::read_dir("/proc").expect("/proc").flatten();
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(marked).collect()
    }

    /// Waits until a command ends by itself, which it has to.
    fn ends(&self, child: &mut Child, when: &str) -> ExitStatus {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = child.try_wait().expect("it can be waited for") {
                return status;
            }
            if Instant::now() > end {
                child.kill().expect("it is ours to kill");
                panic!("{when}: {} goes on", self.mark);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits until nothing is left, and says what is after a while.
    fn is_clean(&self, held: &Held, when: &str) {
        let end = Instant::now() + PATIENCE;
        loop {
            let left = self.left(held);
            if left.is_empty() {
                return;
            }
            assert!(Instant::now() < end, "{when}: {left:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Programs on the machine's own links, as far as bpftool is there to tell.
    fn programs(&self) -> Vec<String> {
        let list = || Command::new("bpftool").args(["net", "show"]).output();
        let Ok(list) = self.netns.run(list).expect("a namespace") else { return Vec::new() };
        let list = String::from_utf8_lossy(&list.stdout);
        list.lines().filter(|line| line.starts_with("lo(")).map(|line| format!("program {line}")).collect()
    }

    fn left(&self, held: &Held) -> Vec<String> {
        let mut left = held.left();
        left.extend(self.processes().iter().map(|pid| format!("process {pid}")));
        left.extend(pins().difference(&self.pins).map(|pin| format!("pin {pin}")));
        let links = Netlink::open_in(&self.netns).and_then(|mut netlink| netlink.links()).expect("readable");
        left.extend(links.iter().filter(|link| link.name != "lo").map(|link| format!("link {}", link.name)));
        left.extend(self.programs());
        let rules =
            self.netns.run(|| Command::new("nft").args(["list", "ruleset"]).output()).expect("a namespace");
        if let Ok(rules) = rules {
            let rules = String::from_utf8_lossy(&rules.stdout).into_owned();
            left.extend((!rules.is_empty()).then(|| format!("rules {rules}")));
        }
        left
    }
}

/// What outlives a process by its name: pins, and network namespaces that `ip netns` lists.
fn pins() -> BTreeSet<String> {
    let entries = ["/sys/fs/bpf", "/run/netns"].map(|path| std::fs::read_dir(path).into_iter().flatten());
    entries.into_iter().flatten().flatten().map(|entry| entry.path().to_string_lossy().into_owned()).collect()
}

const PROVE: [&str; 9] =
    ["policy", "prove", "-f", "examples/shop", "--from", "shop/web", "--to", "shop/db", "--port=5432/tcp"];

#[test]
fn a_proof_that_is_killed_leaves_nothing() {
    let Some(machine) = Machine::new("prove") else { return };
    for backend in ["--backend=tc", "--backend=nft"] {
        let arguments: Vec<&str> = PROVE.into_iter().chain([backend]).collect();
        let start = Instant::now();
        assert_eq!(machine.run(&arguments), 0);
        let whole = start.elapsed();
        let mut seen = 0;
        for tenth in 0..10 {
            let mut child = machine.start(&arguments);
            std::thread::sleep(whole * tenth / 10);
            let held = Held::by(&[child.id()], &machine.own);
            child.kill().expect("it is ours to kill");
            child.wait().expect("it ends");
            seen += held.namespaces.len();
            machine.is_clean(&held, &format!("{backend}, killed after {tenth} tenths of {whole:?}"));
        }
        assert!(seen > 0, "no kill met a lab: the test shows nothing");
    }
}

#[test]
fn a_held_proof_goes_with_its_process() {
    let Some(machine) = Machine::new("hold") else { return };
    for signal in [Signal::SIGKILL, Signal::SIGINT, Signal::SIGTERM] {
        let mut child = machine.start(&PROVE.into_iter().chain(["--hold"]).collect::<Vec<_>>());
        let pid = Pid::from_raw(i32::try_from(child.id()).expect("a pid"));
        let end = Instant::now() + PATIENCE * 4;
        // Both nodes' programs and the two witnesses: then the lab is complete.
        let held = loop {
            let held = Held::by(&[child.id()], &machine.own);
            if held.bpf.iter().filter(|id| id.starts_with("prog")).count() >= 6 {
                break held;
            }
            assert!(Instant::now() < end, "the proof does not get as far as holding: {held:?}");
            std::thread::sleep(Duration::from_millis(20));
        };
        kill(pid, signal).expect("it is ours to kill");
        let status = machine.ends(&mut child, &format!("{signal}"));
        assert!(status.signal().is_some() || status.code() == Some(130), "{signal}: {status}");
        machine.is_clean(&held, &format!("held, then {signal}"));
    }
}

#[test]
fn a_lab_that_is_killed_leaves_nothing() {
    let Some(machine) = Machine::new("lab") else { return };
    let name = format!("test{}", std::process::id());
    let up = ["lab", "up", "-f", "examples/shop", "--lab", &name];
    let down = ["lab", "down", "--lab", &name];
    let start = Instant::now();
    assert_eq!(machine.run(&up), 0);
    let whole = start.elapsed();
    assert_eq!(machine.run(&down), 0);
    for tenth in 0..10 {
        let mut child = machine.start(&up);
        std::thread::sleep(whole * tenth / 10);
        let held = Held::by(&machine.processes(), &machine.own);
        child.kill().expect("it is ours to kill");
        child.wait().expect("it ends");
        // The lab outlives its maker when it was complete; then it can be taken down.
        machine.run(&down);
        machine.is_clean(&held, &format!("`lab up` killed after {tenth} tenths of {whole:?}"));
    }
    let mut met = 0;
    for tenth in 0..10 {
        let when = format!("the supervisor killed after {tenth} tenths of {whole:?}");
        let mut child = machine.start(&up);
        std::thread::sleep(whole * tenth / 10);
        let processes = machine.processes();
        let held = Held::by(&processes, &machine.own);
        for pid in processes.into_iter().filter(|pid| *pid != child.id()) {
            met += 1;
            // It may have ended by itself since it was listed.
            let _ = kill(Pid::from_raw(i32::try_from(pid).expect("a pid")), Signal::SIGKILL);
        }
        machine.ends(&mut child, &when);
        machine.run(&down);
        machine.is_clean(&held, &when);
    }
    assert!(met > 0, "no kill met a supervisor: the test shows nothing");
    assert_eq!(machine.run(&up), 0);
    let supervisors = machine.processes();
    assert!(!supervisors.is_empty(), "a lab lives in a process of its own");
    let held = Held::by(&supervisors, &machine.own);
    assert!(held.namespaces.len() >= 10, "a fabric, two nodes and seven pods: {held:?}");
    for pid in supervisors {
        kill(Pid::from_raw(i32::try_from(pid).expect("a pid")), Signal::SIGKILL).expect("it is ours to kill");
    }
    machine.is_clean(&held, "the supervisor was killed");
    assert_eq!(machine.run(&up), 0, "the stale state of a killed lab is in nobody's way");
    assert_eq!(machine.run(&down), 0);
    machine.is_clean(&Held::default(), "at the end");
    let files: Vec<_> = std::fs::read_dir(machine.run_dir.path()).expect("readable").flatten().collect();
    assert!(files.is_empty(), "the lab is still registered: {files:?}");
}
