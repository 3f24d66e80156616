//! Bad input of each kind: one clear error, with the place, and exit 2.

use std::fs;

use crate::run::{netlab, netlab_reading};

const GOOD: &str = "\
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop, labels: {app: web}}
status: {phase: Running, podIPs: [{ip: 10.0.0.1}]}
---
apiVersion: v1
kind: Pod
metadata: {name: db, namespace: shop, labels: {app: db}}
spec: {containers: [{name: db, ports: [{name: sql, containerPort: 5432}]}]}
status: {phase: Running, podIPs: [{ip: 10.0.0.2}]}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: db, namespace: shop}
spec:
  podSelector: {matchLabels: {app: db}}
  ingress:
    - from: [{podSelector: {matchLabels: {app: api}}}]
";

const QUESTION: [&str; 8] = ["policy", "eval", "--from", "shop/web", "--to", "shop/db", "--port", "5432"];

fn ask(extra: &[&str]) -> crate::run::Run {
    netlab(QUESTION.iter().chain(extra))
}

#[test]
fn a_good_set_is_answered_from_standard_input() {
    let arguments: Vec<&str> = QUESTION.iter().copied().chain(["-f", "-"]).collect();
    let run = netlab_reading(GOOD, &arguments);
    assert_eq!(run.code, Some(1), "{}", run.stderr);
    assert!(run.stdout.starts_with("deny  shop/web -> shop/db 5432/tcp\n"), "{}", run.stdout);
    assert!(run.stdout.contains("wants app=api"), "{}", run.stdout);
}

/// What policies cannot do: a pod is never cut off from itself, by whichever address.
#[test]
fn a_loopback_address_is_the_pod_itself() {
    let isolated = format!("{GOOD}  egress: []\n  policyTypes: [Ingress, Egress]\n");
    for (to, code) in [("127.0.0.1", 0), ("127.9.9.9", 0), ("0.0.0.0", 0), ("192.0.2.1", 1)] {
        let question = ["policy", "eval", "--from", "shop/db", "--to", to, "--port", "5432/tcp", "-f", "-"];
        let run = netlab_reading(&isolated, &question);
        assert_eq!(run.code, Some(code), "{to}: {}{}", run.stdout, run.stderr);
        assert_eq!(code == 0, run.stdout.contains("the pod talks to itself"), "{}", run.stdout);
    }
}

#[test]
fn no_input_is_said_to_be_no_cluster() {
    let run = ask(&[]);
    assert_eq!(run.code, Some(2));
    assert_eq!(run.stdout, "");
    assert!(run.stderr.contains("no support for a live cluster"), "{}", run.stderr);
    assert!(run.stderr.contains("hint: "), "{}", run.stderr);
}

#[test]
fn missing_file_empty_directory_and_empty_input_are_named() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().to_str().expect("UTF-8");
    for (file, expected) in
        [("no-such-file.yaml", "cannot read `no-such-file.yaml`"), (path, "no manifest in directory")]
    {
        let run = ask(&["-f", file]);
        assert_eq!(run.code, Some(2));
        assert!(run.stderr.starts_with("error: ") && run.stderr.contains(expected), "{}", run.stderr);
        assert!(run.stderr.contains("\nhint: "), "{}", run.stderr);
    }
    let arguments: Vec<&str> = QUESTION.iter().copied().chain(["-f", "-"]).collect();
    let run = netlab_reading("\n", &arguments);
    assert_eq!(run.code, Some(2));
    assert!(run.stderr.contains("standard input is empty"), "{}", run.stderr);
}

#[test]
fn a_bad_file_among_good_ones_is_named() {
    let directory = tempfile::tempdir().expect("a directory");
    fs::write(directory.path().join("good.yaml"), GOOD).expect("written");
    for (name, text, code) in [
        ("bad-syntax.yaml", "kind: [\n", "NL01"),
        (
            "bad-field.yaml",
            "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: x, namespace: shop}\n\
             spec:\n  podSelector: {}\n  ingres: []\n",
            "NL02",
        ),
    ] {
        let bad = directory.path().join(name);
        fs::write(&bad, text).expect("written");
        let path = directory.path().to_str().expect("UTF-8");
        let run = ask(&["-f", path]);
        assert_eq!(run.code, Some(2), "{}", run.stderr);
        assert_eq!(run.stdout, "", "an answer in spite of {name}");
        assert!(run.stderr.contains(&format!("error[{code}")), "{}", run.stderr);
        assert!(run.stderr.contains(&format!("{}:", bad.display())), "{}", run.stderr);

        let run = ask(&["-f", path, "--skip-invalid", "-o", "json"]);
        assert_eq!(run.code, Some(3), "{}", run.stderr);
        let value: serde_json::Value = serde_json::from_str(&run.stdout).expect("JSON");
        assert_eq!(value["complete"], false);
        assert!(!value["notExamined"].as_array().expect("a list").is_empty());
        assert_eq!(value["verdict"], "deny");
        fs::remove_file(&bad).expect("removed");
    }
}

#[test]
fn bytes_that_are_no_text_are_named() {
    let directory = tempfile::tempdir().expect("a directory");
    fs::write(directory.path().join("a.yaml"), GOOD).expect("written");
    let bad = directory.path().join("b.yaml");
    fs::write(&bad, b"kind: \xff\xfe\n").expect("written");
    let run = ask(&["-f", directory.path().to_str().expect("UTF-8")]);
    assert_eq!(run.code, Some(2));
    assert!(run.stderr.contains("b.yaml"), "{}", run.stderr);
}

#[test]
fn an_unknown_name_is_answered_with_the_nearest() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("good.yaml");
    fs::write(&file, GOOD).expect("written");
    let file = file.to_str().expect("UTF-8");
    for (flag, value, expected) in [
        ("--to", "shop/bd", "did you mean `shop/db`?"),
        ("--from", "shpo/web", "did you mean `shop/web`?"),
        ("--port", "sqll", "did you mean `sql`?"),
    ] {
        let mut arguments: Vec<&str> = QUESTION.to_vec();
        let place = arguments.iter().position(|word| *word == flag).expect("the flag") + 1;
        arguments[place] = value;
        let run = netlab(arguments.into_iter().chain(["-f", file]));
        assert_eq!(run.code, Some(2), "{}", run.stdout);
        assert!(run.stderr.contains(expected), "{}", run.stderr);
    }
}

#[test]
fn failures_are_json_too() {
    let run = ask(&["-f", "no-such-file.yaml", "-o", "json"]);
    assert_eq!(run.code, Some(2));
    let value: serde_json::Value = serde_json::from_str(&run.stdout).expect("JSON");
    assert_eq!(value["kind"], "Failure");
    assert_eq!(value["exitCode"], 2);
    assert_eq!(value["complete"], false);
    assert!(run.stderr.starts_with("error: "), "{}", run.stderr);
}

#[test]
fn exit_codes_do_not_depend_on_the_format() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("good.yaml");
    fs::write(&file, GOOD).expect("written");
    let file = file.to_str().expect("UTF-8");
    for (extra, code) in [
        (&["-f", file][..], 1),
        (&["-f", file, "--expect", "deny"][..], 0),
        (&["-f", file, "--expect", "allow"][..], 1),
        (&["-f", "missing.yaml"][..], 2),
    ] {
        for format in ["table", "wide", "json", "yaml"] {
            let run = ask(&[extra, &["-o", format]].concat());
            assert_eq!(run.code, Some(code), "{extra:?} -o {format}: {}{}", run.stdout, run.stderr);
        }
        let run = ask(&[extra, &["-q"]].concat());
        assert_eq!(run.code, Some(code), "{extra:?} -q");
        assert!(run.stdout.lines().count() <= 1, "{}", run.stdout);
    }
}
