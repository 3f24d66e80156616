//! What nobody should type or feed, and what is answered all the same: in a line, with the way out, and exit 2.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::run::{Run, command, finish, is_root, netlab, shell};

/// One pod that is open, one that `policy` isolates, one that has finished, one that has no address yet, a
/// Service, and a workload whose two pods differ in a label that the policy asks for.
const ODD: &str = r#"
apiVersion: v1
kind: Pod
metadata: {name: a, namespace: t, labels: {app: a}}
spec: {nodeName: one, containers: [{name: c}]}
status: {phase: Running, podIPs: [{ip: 10.1.0.5}]}
---
apiVersion: v1
kind: Pod
metadata: {name: b, namespace: t, labels: {app: b}}
spec: {nodeName: two, containers: [{name: c, ports: [{name: web, containerPort: 80}, {name: dns, containerPort: 53, protocol: UDP}]}]}
status: {phase: Running, podIPs: [{ip: 10.1.1.5}]}
---
apiVersion: v1
kind: Pod
metadata: {name: done, namespace: t, labels: {app: b}}
spec: {nodeName: one, containers: [{name: c}]}
status: {phase: Succeeded, podIPs: [{ip: 10.1.0.9}]}
---
apiVersion: v1
kind: Pod
metadata: {name: new, namespace: t, labels: {app: b}}
spec: {containers: [{name: c}]}
status: {phase: Pending}
---
apiVersion: v1
kind: Service
metadata: {name: s, namespace: t}
spec: {selector: {app: b}, ports: [{port: 80}]}
---
apiVersion: v1
kind: Pod
metadata: {name: mix-0, namespace: t, labels: {ok: "yes"}, ownerReferences: [{apiVersion: apps/v1, kind: StatefulSet, name: mix, uid: u, controller: true}]}
spec: {nodeName: one, containers: [{name: c}]}
status: {phase: Running, podIPs: [{ip: 10.1.0.20}]}
---
apiVersion: v1
kind: Pod
metadata: {name: mix-1, namespace: t, ownerReferences: [{apiVersion: apps/v1, kind: StatefulSet, name: mix, uid: u, controller: true}]}
spec: {nodeName: two, containers: [{name: c}]}
status: {phase: Running, podIPs: [{ip: 10.1.1.20}]}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: b, namespace: t}
spec:
  podSelector: {matchLabels: {app: b}}
  ingress:
  - from: [{podSelector: {matchLabels: {ok: "yes"}}}]
"#;

/// A directory with the odd cluster in it.
fn odd() -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    fs::write(directory.path().join("odd.yaml"), ODD).expect("written");
    directory
}

fn ask(verb: &str, path: &Path, from: &str, to: &str, extra: &[&str]) -> Run {
    let path = path.to_str().expect("UTF-8");
    let question = ["policy", verb, "-q", "-f", path, "--from", from, "--to", to];
    netlab(question.iter().chain(extra))
}

#[test]
fn what_cannot_be_asked_says_why() {
    let directory = odd();
    let path = directory.path();
    for (from, to, port, expected) in [
        ("t/a", "t/s", "--port=80", "did you mean `svc/t/s`"),
        ("t/a", "t/done", "--port=80", "t/done has finished: nothing is sent or received there"),
        ("t/new", "t/b", "--port=80", "t/new has no IP address in the input"),
        ("node/x", "t/b", "--port=80", "no Node `x` in the cluster"),
        ("t/a", "t/b", "--port=dns/tcp", "did you mean `dns/udp`?"),
        ("t/a", "t/b", "--port=wep/tcp", "did you mean `web`?"),
        ("t/a", "t/b", "--port=0", "`0` is no port"),
        ("t/a", "t/b", "--port=65536", "`65536` is no port"),
        ("t/a", "t/b", "--port=80/foo", "`foo` is no protocol"),
    ] {
        let run = ask("prove", path, from, to, &[port, "--backend=none"]);
        assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""), "{from} {to} {port}: {}", run.stderr);
        let said = run.stderr.replace("\n  ", " ");
        assert!(said.contains(expected), "{from} {to} {port}: {}", run.stderr);
    }
}

#[test]
fn pods_of_a_workload_are_told_apart() {
    let directory = odd();
    let path = directory.path();
    let question = ["policy", "prove", "-f", path.to_str().expect("UTF-8"), "--from", "t/mix", "--to", "t/b"];
    let run = netlab(question.iter().chain(&["--port=80", "--backend=none", "--allow-simulated"]));
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert!(run.stdout.starts_with("SIMULATED mixed  t/mix -> t/b 80/tcp"), "{}", run.stdout);
    assert!(run.stdout.contains("  ingress    deny "), "what is denied is shown first: {}", run.stdout);
    assert!(
        run.stdout.contains("also       allow  t/mix-0 -> t/b (10.1.0.20 -> 10.1.1.5)"),
        "{}",
        run.stdout
    );
    for verdict in ["allow", "deny"] {
        let extra = ["--port=80", "--backend=none", "--allow-simulated", "--expect", verdict];
        assert_eq!(ask("prove", path, "t/mix", "t/b", &extra).code, Some(1), "not all of them {verdict}");
    }
}

#[test]
fn an_input_without_pods_is_said_to_have_none() {
    let run = ask("eval", Path::new("/dev/null"), "t/a", "t/b", &["--port=80"]);
    assert_eq!(run.code, Some(2));
    assert!(run.stderr.contains("there is no Pod and no workload in the input"), "{}", run.stderr);
}

#[test]
fn a_pipe_in_a_directory_is_not_waited_for() {
    let directory = odd();
    let pipe = directory.path().join("pipe.yaml");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).expect("a pipe can be made");
    let run = ask("eval", directory.path(), "t/a", "t/b", &["--port=80", "--timeout=10s"]);
    assert_eq!(run.code, Some(2), "{}", run.stderr);
    assert!(run.stderr.contains("pipe.yaml") && run.stderr.contains("no regular file"), "{}", run.stderr);
    let run = ask("eval", directory.path(), "t/a", "t/b", &["--port=80", "--skip-invalid"]);
    assert_eq!((run.code, run.stdout.as_str()), (Some(3), "deny  t/a -> t/b 80/tcp\n"), "{}", run.stderr);
}

#[test]
fn a_named_pipe_is_read() {
    let directory = odd();
    let (file, pipe) = (directory.path().join("odd.yaml"), directory.path().join("pipe"));
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).expect("a pipe can be made");
    let line = format!(
        "cat {} > {} & netlab policy eval -q -f {1} --from t/a --to t/b --port 80 --timeout 10s",
        file.display(),
        pipe.display()
    );
    assert_eq!(shell(&line).stdout, "deny  t/a -> t/b 80/tcp\n");
}

#[test]
fn a_pipe_is_both_sides_of_a_comparison() {
    let run = finish(Command::new("bash").current_dir(crate::run::root()).args([
        "-c",
        &format!(
            "{} policy diff -q -f <(for file in examples/shop/*.yaml examples/shop/policies/*.yaml; do cat $file; echo ---; done) --without NetworkPolicy/shop/db",
            env!("CARGO_BIN_EXE_netlab")
        ),
    ]));
    assert_eq!((run.code, run.stdout.as_str()), (Some(1), "1 pair differs: 1 removed\n"), "{}", run.stderr);
}

#[test]
fn a_file_that_may_not_be_read_is_named() {
    use std::os::unix::fs::PermissionsExt;
    let directory = odd();
    let locked = directory.path().join("locked.yaml");
    fs::write(&locked, ODD).expect("written");
    let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("ours");
    mode(&locked, 0o000);
    mode(directory.path(), 0o755);
    // Root may read everything, so for root somebody else asks, with a copy of the binary where all may run it.
    let copy = directory.path().join("netlab");
    fs::copy(env!("CARGO_BIN_EXE_netlab"), &copy).expect("copied");
    mode(&copy, 0o755);
    let mut netlab = if is_root() {
        let mut other = command("setpriv");
        other.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&copy);
        other
    } else {
        command(&copy)
    };
    let path = directory.path().to_str().expect("UTF-8");
    let question = ["policy", "eval", "-f", path, "--from", "t/a", "--to", "t/b", "--port=80"];
    let run = finish(netlab.args(question));
    assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""), "{}", run.stderr);
    assert!(run.stderr.contains(&format!("cannot read `{}`", locked.display())), "{}", run.stderr);
    assert!(run.stderr.contains("Permission denied"), "{}", run.stderr);
}

#[test]
fn a_manifest_cannot_write_to_the_terminal() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("a.yaml");
    let text = "apiVersion: v1\nkind: Pod\nmetadata: {name: \"a\\e]0;title\\a\\e[2K\", namespace: t}\n";
    fs::write(&file, text).expect("written");
    let run = ask("eval", &file, "t/a", "t/b", &["--port=80", "--color=always"]);
    assert_eq!(run.code, Some(2));
    assert!(run.stderr.contains(r"t/a\u{1b}]0;title\u{7}\u{1b}[2K"), "{:?}", run.stderr);
    assert!(!run.stderr.contains("\u{1b}]") && !run.stderr.contains("\u{1b}[2K"), "{:?}", run.stderr);
}

#[test]
fn a_command_line_that_is_wrong_is_json_too() {
    for line in [
        &["policy", "prov", "-o", "json"][..],
        &["policy", "eval", "--output=json", "--bogus"],
        &["policy", "eval", "-ojson", "--from", "t/a", "--to", "t/b", "--port", "0"],
        &["-o", "json"],
    ] {
        let run = netlab(line);
        assert_eq!(run.code, Some(2), "{line:?}");
        let value: serde_json::Value = serde_json::from_str(&run.stdout).expect("JSON and nothing else");
        assert_eq!((&value["kind"], &value["exitCode"]), (&"Failure".into(), &2.into()), "{line:?}");
        assert!(value["message"].as_str().is_some_and(|message| !message.is_empty()), "{line:?}");
        assert!(!run.stderr.is_empty(), "people are told on standard error");
    }
    let run = netlab(["policy", "prov"]);
    assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""));
    let helped = netlab(["policy", "prove", "--help", "-o", "json"]);
    assert!(helped.code == Some(0) && helped.stdout.starts_with("Prove "), "help stays help");
}

#[test]
fn a_reader_of_one_line_is_enough() {
    let line = "netlab policy compile -f examples/shop -o json | head -1";
    // `pipefail` is no POSIX, so the shell is asked for by name.
    let run = finish(Command::new("bash").current_dir(crate::run::root()).args([
        "-c",
        &format!(
            "set -o pipefail; PATH={}:$PATH; {line}",
            Path::new(env!("CARGO_BIN_EXE_netlab")).parent().expect("a directory").display()
        ),
    ]));
    assert_eq!((run.code, run.stdout.as_str(), run.stderr.as_str()), (Some(0), "{\n", ""));
}
