//! `netlab dns diagnose --lab`: asked from a pod of a lab, judged, recorded and judged again.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::run::{Run, command, finish, root_or_skip};

/// A pod, a DNS server on either node, and what the pod asks for.
const WORLD: &str = "
{apiVersion: v1, kind: Namespace, metadata: {name: t}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: kube-system}}
---
{apiVersion: v1, kind: Node, metadata: {name: n1}, status: {addresses: [{type: InternalIP, address: 192.0.2.11}]}}
---
{apiVersion: v1, kind: Node, metadata: {name: n2}, status: {addresses: [{type: InternalIP, address: 192.0.2.12}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: app, namespace: t, labels: {app: a}}, spec: {nodeName: n1, containers: [{name: c}]}, status: {phase: Running, podIPs: [{ip: 10.244.1.2}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: api, namespace: t, labels: {app: api}}, spec: {nodeName: n2, containers: [{name: c}]}, status: {phase: Running, podIPs: [{ip: 10.244.2.2}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: api, namespace: t}, spec: {selector: {app: api}, ports: [{port: 80}]}}
";

/// Nothing may leave the pod, not even to its DNS servers.
const DENY: &str = "
---
{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: silence, namespace: t}, spec: {podSelector: {matchLabels: {app: a}}, policyTypes: [Egress]}}
";

struct Bed {
    directory: tempfile::TempDir,
}

impl Bed {
    fn up(manifests: &str) -> Self {
        let bed = Self { directory: tempfile::tempdir().expect("a directory") };
        std::fs::write(bed.directory.path().join("world.yaml"), manifests).expect("written");
        let file = bed.path("world.yaml");
        let run = bed.netlab(&["lab", "up", "--lab", "dns", "--dns", "-f", &file]);
        assert_eq!(run.code, Some(0), "{}{}", run.stdout, run.stderr);
        bed
    }

    fn path(&self, name: &str) -> String {
        self.directory.path().join(name).display().to_string()
    }

    fn netlab(&self, arguments: &[&str]) -> Run {
        finish(
            command(env!("CARGO_BIN_EXE_netlab"))
                .args(arguments)
                .env("NETLAB_RUN_DIR", self.directory.path().join("run")),
        )
    }

    /// Runs a line of the shell at a place of the lab.
    fn at(&self, place: &str, line: &str) {
        let run = self.netlab(&["lab", "exec", "--lab", "dns", place, "--", "sh", "-c", line]);
        assert_eq!(run.code, Some(0), "{line}: {}{}", run.stdout, run.stderr);
    }

    fn diagnose(&self, more: &[&str]) -> (Run, Value) {
        let fixed = ["dns", "diagnose", "t/app", "api", "--lab", "dns", "-o", "json"];
        let run = self.netlab(&[&fixed[..], more].concat());
        let value = serde_json::from_str(&run.stdout);
        let value = value.unwrap_or_else(|error| panic!("{error}: {}{}", run.stdout, run.stderr));
        (run, value)
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        self.netlab(&["lab", "down", "--lab", "dns"]);
    }
}

#[test]
fn a_healthy_lab_is_healthy_and_so_is_its_record() {
    if !root_or_skip("a_healthy_lab_is_healthy_and_so_is_its_record") {
        return;
    }
    let bed = Bed::up(WORLD);
    let record = bed.path("record");
    let (run, live) = bed.diagnose(&["--record", &record]);
    assert_eq!((run.code, &live["verdict"]["class"]), (Some(0), &"healthy".into()), "{live:#}");
    let again = bed.netlab(&["dns", "diagnose", "--bundle", &record, "-o", "json"]);
    let again: Value = serde_json::from_str(&again.stdout).expect("JSON");
    assert_eq!(again["verdict"], live["verdict"]);
    assert_eq!(again["steps"], live["steps"]);
    // What a program in the pod sees, by this machine's own libc.
    let seen = bed.netlab(&["lab", "exec", "--lab", "dns", "t/app", "--", "getent", "ahostsv4", "api"]);
    assert_eq!(seen.code, Some(0), "{}{}", seen.stdout, seen.stderr);
    let nowhere = bed.netlab(&["dns", "diagnose", "t/app", "--lab", "dns", "--record", "/proc/nowhere"]);
    assert_eq!((nowhere.code, nowhere.stdout.as_str()), (Some(3), ""));
    assert!(nowhere.stderr.contains("cannot write `/proc/nowhere`"), "{}", nowhere.stderr);
    for (pod, words) in [("t/appp", "did you mean `t/app`?"), ("x/nobody", "it has: kube-system/")] {
        let unknown = bed.netlab(&["dns", "diagnose", pod, "api", "--lab", "dns"]);
        assert_eq!((unknown.code, unknown.stdout.as_str()), (Some(2), ""), "{}", unknown.stderr);
        assert!(unknown.stderr.contains(words), "{}", unknown.stderr);
    }
    let full = bed.netlab(&["dns", "diagnose", "t/app", "--lab", "dns", "--record", &record]);
    assert_eq!(full.code, Some(2), "nothing is written over: {}", full.stdout);
}

#[test]
fn a_policy_that_forgets_dns_is_named_from_what_the_pod_sees() {
    if !root_or_skip("a_policy_that_forgets_dns_is_named_from_what_the_pod_sees") {
        return;
    }
    let bed = Bed::up(&format!("{WORLD}{DENY}"));
    let (run, live) = bed.diagnose(&["--expect", "F01"]);
    assert_eq!(run.code, Some(0), "{live:#}");
    let because = live["because"].to_string();
    assert!(because.contains("NetworkPolicy t/silence"), "{because}");
}

/// Lets the first packet of each UDP flow to port 53 through and no other. Forgets soon: sockets get old ports again.
const FIRST_ONLY: &str = "nft 'add table inet t; \
    add set inet t seen { type inet_service . ipv4_addr; flags dynamic,timeout; timeout 1s; }; \
    add chain inet t c { type filter hook prerouting priority mangle; }; \
    add rule inet t c udp dport 53 udp sport . ip daddr @seen drop; \
    add rule inet t c udp dport 53 add @seen { udp sport . ip daddr }'";

#[test]
fn a_loss_that_only_the_second_question_of_a_socket_meets_is_seen_and_blamed_on_no_race() {
    if !root_or_skip("a_loss_that_only_the_second_question_of_a_socket_meets_is_seen_and_blamed_on_no_race") {
        return;
    }
    let bed = Bed::up(WORLD);
    bed.at("node/n1", FIRST_ONLY);
    for libc in ["glibc:2.36", "musl:1.2.5"] {
        let (run, live) = bed.diagnose(&["--libc", libc]);
        assert_eq!((run.code, &live["verdict"]["class"]), (Some(3), &"undetermined".into()), "{live:#}");
        assert_eq!(
            live["verdict"]["summary"], "of two questions from one socket the second is lost",
            "{libc}"
        );
        let because = live["because"].to_string();
        assert!(because.contains("lost the second; alone it was answered"), "{because}");
        assert!(live["fixes"].to_string().contains("single-request-reopen"), "{:#}", live["fixes"]);
    }
    // Go asks from a socket for each: it meets nothing of it.
    let (run, live) = bed.diagnose(&["--libc", "go:1.26"]);
    assert_eq!((run.code, &live["verdict"]["class"]), (Some(0), &"healthy".into()), "{live:#}");
    // Without a name the pair is asked for, too.
    let run = bed.netlab(&["dns", "diagnose", "t/app", "--lab", "dns", "--libc", "glibc:2.36"]);
    assert_eq!(run.code, Some(3), "{}", run.stdout);
    assert!(run.stdout.contains("of two questions from one socket"), "{}", run.stdout);
}

#[test]
fn lines_that_a_library_does_not_read_are_told_with_what_it_does_instead() {
    if !root_or_skip("lines_that_a_library_does_not_read_are_told_with_what_it_does_instead") {
        return;
    }
    let bed = Bed::up(WORLD);
    let given = bed.path("resolv.conf");
    let search = "search t.svc.cluster.local svc.cluster.local cluster.local";
    for (text, libc, summary, told) in [
        (
            format!("  nameserver 10.96.0.10\n{search}\noptions ndots:5\n"),
            "glibc:2.36",
            "glibc 2.36 finds no nameserver in the pod's resolv.conf",
            "pod/resolv.conf:1: ignored: glibc wants the keyword in the first column",
        ),
        (
            format!("nameserver=10.96.0.10\n{search}\noptions ndots:5\n"),
            "musl:1.2.5",
            "musl 1.2.5 finds no nameserver in the pod's resolv.conf",
            "pod/resolv.conf:1: ignored: musl knows no",
        ),
        (
            format!("nameserver 10.96.0.10\n{search}\noptions ndots:5 use-vc\n"),
            "glibc:2.36",
            "t/app gets answers, and not all is in order",
            "`use-vc`: glibc 2.36 asks over TCP alone",
        ),
        (
            format!("nameserver 10.96.0.10\n{search}\noptions ndots:5 use-vc\n"),
            "musl:1.2.5",
            "t/app gets answers, and not all is in order",
            "`use-vc` is ignored by musl 1.2.5",
        ),
    ] {
        std::fs::write(&given, &text).expect("written");
        let (_, live) = bed.diagnose(&["--libc", libc, "--resolv-conf", &given]);
        assert_eq!(live["verdict"]["summary"], summary, "{text}: {live:#}");
        assert!(live["steps"].to_string().contains(told), "{text}: {:#}", live["steps"]);
    }
}

#[test]
fn ctrl_c_gives_what_is_known() {
    if !root_or_skip("ctrl_c_gives_what_is_known") {
        return;
    }
    let bed = Bed::up(&format!("{WORLD}{DENY}"));
    let mut diagnosis = command("env");
    diagnosis
        .args(["--default-signal=INT", env!("CARGO_BIN_EXE_netlab")])
        .args(["dns", "diagnose", "t/app", "api", "--lab", "dns", "-o", "json"])
        .env("NETLAB_RUN_DIR", bed.directory.path().join("run"))
        .stdout(std::process::Stdio::piped());
    let child = diagnosis.spawn().expect("netlab starts");
    // The first round waits 1.8 s, the second as long again: this falls into one of them.
    std::thread::sleep(std::time::Duration::from_millis(1_200));
    let pid = nix::unistd::Pid::from_raw(i32::try_from(child.id()).expect("a pid"));
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).expect("it is ours");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(130));
    let seen: Value = serde_json::from_slice(&output.stdout).expect("whole JSON");
    assert_eq!(seen["complete"], false);
    assert!(seen["notExamined"].to_string().contains("interrupted"), "{:#}", seen["notExamined"]);
    assert_ne!(seen["verdict"]["class"], "healthy");
}

#[test]
fn ctrl_c_at_once_says_that_it_was_interrupted_and_not_that_nothing_was_asked() {
    if !root_or_skip("ctrl_c_at_once_says_that_it_was_interrupted_and_not_that_nothing_was_asked") {
        return;
    }
    let bed = Bed::up(WORLD);
    // Neither a policy nor a mode of the catalogue: nothing comes, and nothing says why.
    bed.at("node/n1", "nft 'add table inet t; add chain inet t c { type filter hook prerouting priority mangle; }; add rule inet t c meta l4proto { tcp, udp } drop'");
    let mut diagnosis = command("env");
    diagnosis
        .args(["--default-signal=INT", env!("CARGO_BIN_EXE_netlab")])
        .args(["dns", "diagnose", "t/app", "api", "--lab", "dns"])
        .env("NETLAB_RUN_DIR", bed.directory.path().join("run"))
        .stdout(std::process::Stdio::piped());
    let child = diagnosis.spawn().expect("netlab starts");
    std::thread::sleep(std::time::Duration::from_millis(900));
    let pid = nix::unistd::Pid::from_raw(i32::try_from(child.id()).expect("a pid"));
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).expect("it is ours");
    let output = child.wait_with_output().expect("it ends");
    let said = String::from_utf8(output.stdout).expect("UTF-8");
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert!(said.starts_with("UNDETERMINED  interrupted before enough was known"), "{said}");
    assert!(said.contains("let it come to its end"), "{said}");
    assert!(!said.contains("not asked") && !said.contains("nothing was asked"), "{said}");
    assert!(!said.lines().any(|line| line.trim_end().ends_with("record") || line.trim() == "fix"), "{said}");
}

#[test]
fn a_lab_without_dns_is_said_to_have_none() {
    if !root_or_skip("a_lab_without_dns_is_said_to_have_none") {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let netlab = |arguments: &[&str]| {
        let mut netlab: Command = command(env!("CARGO_BIN_EXE_netlab"));
        netlab.args(arguments).env("NETLAB_RUN_DIR", directory.path());
        finish(&mut netlab)
    };
    let shop = Path::new("examples/shop").display().to_string();
    assert_eq!(netlab(&["lab", "up", "-f", &shop, "--lab", "mute"]).code, Some(0));
    let run = netlab(&["dns", "diagnose", "shop/web", "--lab", "mute"]);
    netlab(&["lab", "down", "--lab", "mute"]);
    assert_eq!(run.code, Some(2), "{}", run.stdout);
    assert!(run.stderr.contains("lab `mute` has no DNS"), "{}", run.stderr);
}
