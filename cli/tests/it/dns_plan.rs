//! `netlab dns plan`, as users ask it.

use std::fs;

use serde_json::Value;

use crate::run::{Run, netlab, netlab_reading};

const POD: &str = "examples/dns/pod.conf";

fn plan(name: &str, more: &[&str]) -> Run {
    netlab(["dns", "plan", name, "--resolv-conf", POD].iter().chain(more))
}

fn json(run: &Run) -> Value {
    serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {}{}", run.stdout, run.stderr))
}

#[test]
fn the_cost_of_ndots_is_named() {
    let run = plan("www.example.com", &[]);
    assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""));
    let first = run.stdout.lines().next().expect("a line");
    assert_eq!(
        first,
        "RESOLVES  www.example.com by glibc 2.36: ok in 0 s; 8 queries, 6 of them for names nobody meant"
    );
    let dotted = plan("www.example.com.", &[]);
    assert!(dotted.stdout.starts_with("RESOLVES  www.example.com. by glibc 2.36: ok in 0 s; 2 queries\n"));
    assert!(run.stdout.contains("assumed"), "what is assumed is said: {}", run.stdout);
}

#[test]
fn json_has_the_fields_that_scripts_rely_on() {
    let run = plan("api", &["--libc", "musl:1.2.3", "-o", "json"]);
    let value = json(&run);
    assert_eq!(
        (run.code, &value["kind"], &value["libc"]),
        (Some(0), &"QueryPlan".into(), &"musl:1.2.3".into())
    );
    let query = &value["queries"][1];
    assert_eq!(
        [&query["nameserver"], &query["transport"], &query["qname"], &query["qtype"]],
        ["10.96.0.10", "udp", "api.shop.svc.cluster.local.", "AAAA"]
    );
    assert_eq!((&query["n"], &query["at"]), (&2.into(), &0.0.into()));
    assert_eq!(value["candidates"][3], "api.");
    assert_eq!(value["predicted"]["outcomes"][0]["rc"], 0);
    assert_eq!(value["predicted"]["outcomes"].as_array().map(Vec::len), Some(1));
}

#[test]
fn side_by_side_says_why() {
    let script = ["--server", "examples/dns/aaaa.json", "--compare"];
    let run = plan("api", &script);
    assert_eq!(run.code, Some(1), "musl fails");
    let first = run.stdout.lines().next().expect("a line");
    assert_eq!(first, "DIFFER  api: resolves with glibc 2.36, Go 1.26; fails with musl 1.2.5");
    assert!(run.stdout.contains("AAAA REFUSED"), "{}", run.stdout);
    assert!(!run.stdout.contains("assumed"), "nothing is assumed of a script: {}", run.stdout);
    let value = json(&netlab(
        ["dns", "plan", "api", "--resolv-conf", POD].iter().chain(&script).chain(&["-o", "json"]),
    ));
    assert_eq!((&value["kind"], &value["same"]), (&"QueryPlans".into(), &false.into()));
    assert_eq!(value["plans"][1]["predicted"]["outcomes"][0]["seconds"], 5.0);
    let same = plan("api", &["--compare"]);
    assert_eq!((same.code, same.stdout.starts_with("SAME  api: ")), (Some(0), true), "{}", same.stdout);
}

#[test]
fn a_race_cannot_be_told() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("resolv.conf");
    fs::write(&file, "nameserver 10.0.0.1\nnameserver 10.0.0.2\n").expect("written");
    let script = r#"{"10.0.0.1": [["*", "*", "nx"]], "10.0.0.2": [["*", "*", "ok"]]}"#;
    let file = file.to_str().expect("UTF-8");
    let run = netlab_reading(
        script,
        &["dns", "plan", "a", "--resolv-conf", file, "--server", "-", "--libc", "musl"],
    );
    assert_eq!(run.code, Some(3), "{}", run.stderr);
    assert!(run.stdout.starts_with("DEPENDS  a by musl 1.2.5: 2 outcomes"), "{}", run.stdout);
    assert!(run.stdout.contains("10.0.0.1 is the first to answer"), "{}", run.stdout);
}

#[test]
fn a_bad_script_is_told_with_line_and_field() {
    let script = "{\n  \"10.0.0.1\": [[\"a\", \"*\", \"ok\"],\n    [\"b\", \"TXT\", \"ok\"]]\n}";
    let run = netlab_reading(script, &["dns", "plan", "a", "--resolv-conf", POD, "--server", "-"]);
    assert_eq!(run.code, Some(2));
    for part in ["line 3", r#"["10.0.0.1"][1][1]"#, "`TXT`", "hint:"] {
        assert!(run.stderr.contains(part), "{part}: {}", run.stderr);
    }
    for (libc, word) in
        [("bionic", "none of glibc, musl and go"), ("musl:1.0", "are not modelled"), ("go:x", "no version")]
    {
        let run = plan("a", &["--libc", libc]);
        assert_eq!(run.code, Some(2));
        assert!(run.stderr.contains(word), "{libc}: {}", run.stderr);
    }
}
