//! Named labs live as long as their supervisors, and leave nothing.

use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use netlab_lab::named::{self, Client, Down, RunDir, Spec, State};
use netlab_lab::{LabError, Place};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::cluster::{Families, node, plan, pod};
use crate::process::lab_process;
use crate::require;

/// A run directory of its own for each test; whatever is up in it goes down with it.
struct Bench {
    path: PathBuf,
    run_dir: RunDir,
}

impl Bench {
    fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("netlab-test-{}-{test}", std::process::id()));
        Self { run_dir: RunDir::at(&path), path }
    }

    fn spec(&self, name: &str) -> Spec {
        Spec {
            name: name.to_owned(),
            run_dir: self.run_dir.clone(),
            plan: plan(Families::Both),
            rootless: false,
            payload: json!({}),
        }
    }

    fn up(&self, name: &str) -> State {
        named::up(&self.spec(name), supervisor()).expect("up")
    }

    fn files(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.path).into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.map(|entry| entry.file_name().into_string().expect("UTF-8")).collect();
        names.sort();
        names
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        for state in self.run_dir.list().unwrap_or_default() {
            let _ = named::down(&self.run_dir, &state.name);
        }
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

fn supervisor() -> Command {
    let mut command = lab_process();
    command.arg("supervise");
    command
}

fn pid(state: &State) -> Pid {
    Pid::from_raw(i32::try_from(state.pid).expect("pid"))
}

/// True when no process lives in the lab any more, and its supervisor holds no descriptor. (It may be a zombie
/// whose parent takes its time.)
fn is_gone(state: &State) -> bool {
    let descriptors = std::fs::read_dir(format!("/proc/{}/fd", state.pid));
    state.processes().is_empty() && descriptors.into_iter().flatten().count() == 0
}

fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(10), "not within 10 s: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn exec(bench: &Bench, name: &str, place: &Place, command: &[&str]) -> String {
    let output = lab_process()
        .arg("exec")
        .arg(&bench.path)
        .args([name, &place.to_string()])
        .args(command)
        .output()
        .expect("exec");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

#[test]
fn a_lab_outlives_its_maker_and_goes_down_without_a_trace() {
    if !require::netns() {
        return;
    }
    let bench = Bench::new("outlives");
    // The maker is a process that has ended by the time anybody looks.
    let mut maker =
        lab_process().arg("up").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("maker");
    let spec = serde_json::to_vec(&bench.spec("demo")).expect("json");
    maker.stdin.take().expect("stdin").write_all(&spec).expect("spec");
    let output = maker.wait_with_output().expect("maker");
    assert!(output.status.success());
    let state: State = serde_json::from_slice(&output.stdout).expect("state");

    assert_eq!(bench.run_dir.find("demo").expect("find"), state);
    assert_eq!(bench.run_dir.list().expect("list"), std::slice::from_ref(&state));
    assert_eq!(bench.files(), ["demo.files", "demo.json", "demo.log", "demo.sock"]);
    assert_eq!(std::fs::metadata(&bench.path).expect("directory").mode() & 0o777, 0o700);
    assert_eq!(state.namespaces.len(), 7);

    assert_eq!(named::down(&bench.run_dir, "demo").expect("down"), Down::default());
    assert!(is_gone(&state));
    assert_eq!(bench.files(), [""; 0]);
    let error = named::down(&bench.run_dir, "demo").expect_err("twice");
    assert_eq!(error.to_string(), "no lab `demo` is up");
}

#[test]
fn commands_run_inside_places() {
    if !require::netns() {
        return;
    }
    let bench = Bench::new("exec");
    let state = bench.up("demo");
    for (place, home) in
        [(pod("web"), pod("web")), (pod("agent"), node("node-2")), (Place::Fabric, Place::Fabric)]
    {
        let inside = exec(&bench, "demo", &place, &["readlink", "/proc/self/ns/net"]);
        assert_eq!(inside.trim(), format!("net:[{}]", state.namespaces[&home]));
    }
    let mut client = Client::connect(&bench.run_dir, "demo").expect("connect");
    let error = client.entry(&pod("nobody")).expect_err("nobody");
    assert_eq!(error.to_string(), "lab `demo`: this lab has no pod/shop/nobody");
    // The connection is still good.
    client.entry(&pod("web")).expect("web");
}

#[test]
fn what_still_runs_in_a_lab_that_goes_down_is_told() {
    if !require::netns() {
        return;
    }
    let bench = Bench::new("left");
    bench.up("demo");
    let mut sleeper = lab_process()
        .arg("exec")
        .arg(&bench.path)
        .args(["demo", "pod/shop/web", "sleep", "60"])
        .spawn()
        .expect("sleeper");
    let comm = format!("/proc/{}/comm", sleeper.id());
    eventually("sleep runs", || std::fs::read_to_string(&comm).is_ok_and(|name| name == "sleep\n"));
    let down = named::down(&bench.run_dir, "demo").expect("down");
    sleeper.kill().expect("kill");
    sleeper.wait().expect("wait");
    let left: Vec<_> = down
        .left
        .iter()
        .map(|process| (process.pid, process.command.as_str(), process.place.clone()))
        .collect();
    assert_eq!(left, [(sleeper.id(), "sleep", pod("web"))]);
}

#[test]
fn labs_of_one_cluster_stand_side_by_side_but_names_are_unique() {
    if !require::netns() {
        return;
    }
    let bench = Bench::new("two");
    let (one, other) = (bench.up("one"), bench.up("other"));
    for (place, inode) in &one.namespaces {
        assert_ne!(Some(inode), other.namespaces.get(place), "{place}");
    }
    let names: Vec<String> =
        bench.run_dir.list().expect("list").into_iter().map(|state| state.name).collect();
    assert_eq!(names, ["one", "other"]);
    let error = named::up(&bench.spec("one"), supervisor()).expect_err("taken");
    assert!(matches!(error, LabError::AlreadyUp { pid, .. } if pid == one.pid), "{error}");
    // Two at the same instant: one wins, the other leaves nothing.
    let outcomes: Vec<bool> = std::thread::scope(|scope| {
        let racers: Vec<_> =
            (0..4).map(|_| scope.spawn(|| named::up(&bench.spec("race"), supervisor()).is_ok())).collect();
        racers.into_iter().map(|racer| racer.join().expect("racer")).collect()
    });
    assert_eq!(outcomes.iter().filter(|won| **won).count(), 1, "{outcomes:?}");
    named::down(&bench.run_dir, "other").expect("down");
    named::down(&bench.run_dir, "race").expect("down");
    assert_eq!(bench.run_dir.list().expect("list"), [one]);
}

#[test]
fn a_killed_supervisor_leaves_only_files_which_the_next_command_removes() {
    if !require::netns() {
        return;
    }
    let bench = Bench::new("killed");
    let state = bench.up("demo");
    kill(pid(&state), Signal::SIGKILL).expect("kill");
    eventually("the namespaces are gone", || is_gone(&state));
    assert_eq!(bench.run_dir.list().expect("list"), []);
    assert_eq!(bench.files(), [""; 0]);

    let state = bench.up("demo");
    kill(pid(&state), Signal::SIGKILL).expect("kill");
    eventually("the namespaces are gone", || is_gone(&state));
    let again = bench.up("demo");
    assert_ne!(again.pid, state.pid);
}

#[test]
fn what_killed_labs_left_goes_when_another_goes_up_or_down() {
    if !require::netns() {
        return;
    }
    let bench = Bench::new("swept");
    let killed = bench.up("first");
    kill(pid(&killed), Signal::SIGKILL).expect("kill");
    eventually("the namespaces are gone", || is_gone(&killed));
    // One that was killed while it wrote its files, and one that was killed while it went: neither has a state file.
    let leave = || {
        std::fs::create_dir_all(bench.path.join("second.files/pod")).expect("a directory");
        std::fs::write(bench.path.join("second.files/pod/resolv.conf"), "nameserver 192.0.2.1\n")
            .expect("written");
        for name in ["third.sock", "third.log"] {
            std::fs::write(bench.path.join(name), "").expect("written");
        }
    };
    leave();
    // What no lab has written stays.
    std::fs::write(bench.path.join("notes.txt"), "mine").expect("written");
    bench.up("other");
    let of_other = ["notes.txt", "other.files", "other.json", "other.log", "other.sock"];
    assert_eq!(bench.files(), of_other);
    leave();
    named::down(&bench.run_dir, "other").expect("down");
    assert_eq!(bench.files(), ["notes.txt"]);
}

#[test]
fn a_lab_on_its_way_up_keeps_its_name_and_its_files() {
    if !require::netns() {
        return;
    }
    let bench = Bench::new("claimed");
    let mut slow = bench.spec("demo");
    slow.payload = json!({ "sleep": 1500 });
    let building = std::thread::spawn(move || named::up(&slow, supervisor()).map(|state| state.name));
    eventually("it has begun", || bench.files().contains(&"demo.files".to_owned()));
    // Others come and go meanwhile, and the name is not to be had.
    assert_eq!(bench.run_dir.list().expect("list"), []);
    assert!(bench.files().contains(&"demo.files".to_owned()), "{:?}", bench.files());
    let second = named::up(&bench.spec("demo"), supervisor()).expect_err("it is taken");
    assert!(second.to_string().contains("another `lab up` of that name is under way"), "{second}");
    assert_eq!(building.join().expect("no panic").expect("up"), "demo");
}

#[test]
fn a_kill_at_any_moment_of_up_leaves_nothing() {
    if !require::netns() {
        return;
    }
    let bench = Bench::new("moments");
    let mut spec = bench.spec("demo");
    spec.payload = json!({ "sleep": 20 });
    let spec = serde_json::to_vec(&spec).expect("json");
    let mut kinds = std::collections::BTreeSet::new();
    for moment in 0..10 {
        let mut maker = lab_process()
            .arg("up")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("maker");
        maker.stdin.take().expect("stdin").write_all(&spec).expect("spec");
        let children = format!("/proc/{0}/task/{0}/children", maker.id());
        let mut child = String::new();
        eventually("the supervisor runs", || {
            child = std::fs::read_to_string(&children).unwrap_or_default().trim().to_owned();
            !child.is_empty()
        });
        std::thread::sleep(Duration::from_millis(moment * 5));
        kinds.insert(bench.files().contains(&"demo.json".to_owned()));
        kill(Pid::from_raw(child.parse().expect("pid")), Signal::SIGKILL).expect("kill");
        maker.wait().expect("wait");
        eventually("the supervisor is gone", || {
            std::fs::read_dir(format!("/proc/{child}/fd")).into_iter().flatten().count() == 0
        });
        assert_eq!(bench.run_dir.list().expect("list"), []);
        assert_eq!(bench.files(), [""; 0]);
    }
    assert!(kinds.contains(&false), "no kill came before the lab was announced: {kinds:?}");
    bench.up("demo");
}

#[test]
fn signals_end_a_lab_in_order() {
    if !require::netns() {
        return;
    }
    let bench = Bench::new("signals");
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        let state = bench.up("demo");
        kill(pid(&state), signal).expect("kill");
        eventually("the supervisor is gone", || is_gone(&state));
        assert_eq!(bench.files(), [""; 0], "{signal}");
    }
}

#[test]
fn an_interrupted_up_leaves_nothing() {
    if !require::netns() {
        return;
    }
    let bench = Bench::new("interrupted");
    // The channel closes while the supervisor is at work.
    let mut spec = bench.spec("demo");
    spec.payload = json!({ "sleep": 300 });
    let (ours, theirs) = UnixStream::pair().expect("pair");
    let mut child =
        supervisor().stdin(Stdio::from(std::os::fd::OwnedFd::from(theirs))).spawn().expect("child");
    serde_json::to_writer(&ours, &spec).expect("spec");
    (&ours).write_all(b"\n").expect("spec");
    std::thread::sleep(Duration::from_millis(150));
    drop(ours);
    child.wait().expect("wait");
    assert_eq!(bench.files(), [""; 0]);

    // The command is killed as Ctrl-C kills it: it, and nobody else.
    spec.payload = json!({ "sleep": 1000 });
    // Whoever runs tests in the background of a script has SIGINT ignored, and children inherit that.
    let mut maker = Command::new("env")
        .arg("--default-signal=INT")
        .arg(lab_process().get_program())
        .arg("up")
        .stdin(Stdio::piped())
        .spawn()
        .expect("maker");
    maker.stdin.take().expect("stdin").write_all(&serde_json::to_vec(&spec).expect("json")).expect("spec");
    let children = format!("/proc/{}/task/{}/children", maker.id(), maker.id());
    let mut supervisor = String::new();
    eventually("the supervisor runs", || {
        supervisor = std::fs::read_to_string(&children).unwrap_or_default().trim().to_owned();
        !supervisor.is_empty()
    });
    std::thread::sleep(Duration::from_millis(150));
    kill(Pid::from_raw(i32::try_from(maker.id()).expect("pid")), Signal::SIGINT).expect("kill");
    maker.wait().expect("wait");
    // It may be a zombie whose new parent takes its time.
    let descriptors = format!("/proc/{supervisor}/fd");
    let is_gone = || std::fs::read_dir(&descriptors).into_iter().flatten().count() == 0;
    eventually("the supervisor is gone", is_gone);
    assert_eq!(bench.files(), [""; 0]);
}

#[test]
fn a_lab_that_cannot_be_furnished_says_why_and_is_gone() {
    if !require::netns() {
        return;
    }
    let bench = Bench::new("fails");
    let mut spec = bench.spec("demo");
    spec.payload = json!({ "fail": "no enforcer" });
    let error = named::up(&spec, supervisor()).expect_err("fails");
    assert!(error.to_string().contains("told to fail: \"no enforcer\""), "{error}");
    assert_eq!(bench.files(), [""; 0]);

    let error = named::up(&bench.spec("demo"), Command::new("false")).expect_err("dies");
    assert!(error.to_string().contains("the supervisor ended before the lab stood"), "{error}");
    for name in ["", "Demo", "a/b", "../x", "-x", &"x".repeat(41)] {
        let error = named::up(&bench.spec(name), supervisor()).expect_err(name);
        assert!(matches!(error, LabError::BadName { .. }), "{name}: {error}");
    }
}

#[test]
fn the_supervisors_own_code_answers_over_the_socket() {
    if !require::netns() {
        return;
    }
    let bench = Bench::new("handler");
    let mut spec = bench.spec("demo");
    spec.payload = json!({ "policies": ["a", "b"] });
    let state = named::up(&spec, supervisor()).expect("up");
    let connect = || Client::connect(&bench.run_dir, "demo").expect("connect");
    let mut client = connect();
    assert_eq!(client.ask("payload", Value::Null).expect("payload"), spec.payload);
    assert_eq!(client.ask("count", Value::Null).expect("count"), json!(4));
    assert_eq!(client.ask("status", Value::Null).expect("status"), json!(state));
    let error = client.ask("dance", Value::Null).expect_err("unknown");
    assert_eq!(error.to_string(), "lab `demo`: no such operation: dance");

    let mut numbers = Vec::new();
    let mut follower = connect();
    follower
        .follow("trace", json!("x"), |event| {
            assert_eq!(event["of"], "x");
            numbers.push(event["number"].as_u64().expect("number"));
            numbers.len() < 3
        })
        .expect("trace");
    assert_eq!(numbers, [0, 1, 2]);
    // Neither one that streams nor one that hangs keeps the lab up.
    let hanging = std::thread::spawn({
        let mut client = connect();
        move || client.ask("hang", Value::Null).is_err()
    });
    std::thread::sleep(Duration::from_millis(50));
    let down = named::down(&bench.run_dir, "demo").expect("down");
    assert!(!down.killed);
    assert!(hanging.join().expect("hanging"), "the hanging request ends with the lab");
    assert!(is_gone(&state));
}

#[test]
fn a_rootless_lab_stands_in_a_user_namespace_and_can_be_entered() {
    let usable = netlab_node::capability::try_user_namespace().map_err(|error| error.to_string());
    if !require::met("userns", usable) {
        return;
    }
    let bench = Bench::new("rootless");
    let mut spec = bench.spec("demo");
    spec.rootless = true;
    let state = named::up(&spec, supervisor()).expect("up");
    assert!(state.rootless);
    let user = |path: &str| std::fs::read_link(path).expect("link").to_str().expect("UTF-8").to_owned();
    let theirs = user(&format!("/proc/{}/ns/user", state.pid));
    assert_ne!(theirs, user("/proc/self/ns/user"));
    let inside =
        exec(&bench, "demo", &pod("web"), &["sh", "-c", "readlink /proc/self/ns/user /proc/self/ns/net"]);
    let expected = format!("{theirs}\nnet:[{}]\n", state.namespaces[&pod("web")]);
    assert_eq!(inside, expected);
    named::down(&bench.run_dir, "demo").expect("down");
    assert!(is_gone(&state));
    assert_eq!(bench.files(), [""; 0]);
}
