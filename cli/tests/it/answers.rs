//! Streams, formats and exit codes.

use std::process::Stdio;

use crate::run::{command, netlab};

#[test]
fn json_is_an_envelope_and_nothing_else() {
    let run = netlab(["version", "-o", "json"]);
    assert_eq!(run.code, Some(0));
    assert_eq!(run.stderr, "");
    let value: serde_json::Value = serde_json::from_str(&run.stdout).expect("JSON");
    assert_eq!(value["apiVersion"], "netlab.dev/v1");
    assert_eq!(value["kind"], "Version");
    assert_eq!(value["complete"], true);
    assert_eq!(value["notExamined"], serde_json::json!([]));
    assert_eq!(value["version"], env!("CARGO_PKG_VERSION"));
}

#[test]
fn a_reader_that_went_away_is_no_error() {
    let mut child = command(env!("CARGO_BIN_EXE_netlab"))
        .args(["completions", "bash"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("netlab starts");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("netlab ends");
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn pipes_get_no_colour_unless_asked() {
    assert!(!netlab(["explain", "NL0202"]).stdout.contains('\u{1b}'));
    assert!(netlab(["explain", "NL0202", "--color", "always"]).stdout.contains('\u{1b}'));
}
