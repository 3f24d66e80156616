//! Input that is no manifest, on every policy command: exit 2, the file with line and column, nothing half answered; and
//! forms of a good one that mean the same.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::run::{Run, netlab};

const POLICY: &str = "apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: p, namespace: shop}
spec:
  podSelector: {matchLabels: {app: db}}
  ingress:
  - from: [{podSelector: {matchLabels: {app: web}}}]
    ports: [{port: 5432}]
";

/// Every policy command with a question that the shop answers.
pub(crate) const COMMANDS: [&[&str]; 9] = [
    &["connections"],
    &["lint"],
    &["describe", "shop/db"],
    &["test", "examples/claims/shop.yaml"],
    &["test", "--record", "--external", "off"],
    &["eval", "--from", "shop/web", "--to", "shop/db", "--port", "5432"],
    &[
        "prove",
        "--backend",
        "none",
        "--allow-simulated",
        "--from",
        "shop/web",
        "--to",
        "shop/db",
        "--port",
        "5432",
    ],
    &["compile"],
    &["diff"],
];

/// A command on the shop and a file more.
fn ask(command: &[&str], file: &Path, more: &[&str]) -> Run {
    let file = file.to_str().expect("UTF-8");
    let how = if command.first() == Some(&"diff") { "--with" } else { "-f" };
    netlab([&["policy"], command, &["-f", "examples/shop", how, file], more].concat())
}

/// Texts by name, each with what is wrong in it and on which line and column.
fn hostile() -> Vec<(&'static str, Vec<u8>, &'static str, &'static str)> {
    let bytes = |text: &str| text.as_bytes().to_vec();
    let mut bomb = String::from("a: &a [x,x,x,x,x,x,x,x,x]\n");
    for (name, before) in ["b", "c", "d", "e", "f", "g"].iter().zip(["a", "b", "c", "d", "e", "f"]) {
        let _ =
            writeln!(bomb, "{name}: &{name} [*{before},*{before},*{before},*{before},*{before},*{before}]");
    }
    let bad_end = [POLICY.as_bytes(), b"# caf\xe9\n"].concat();
    let utf16: Vec<u8> = [0xfe, 0xff].into_iter().chain(POLICY.bytes().flat_map(|byte| [0, byte])).collect();
    vec![
        ("binary", (0..=255).rev().cycle().take(4096).collect(), "not UTF-8", "1:1"),
        ("cut", bytes("kind: Pod\nmetadata: {name: a, labels: {a: b\n"), "unclosed", "2:29"),
        ("bomb", bytes(&bomb), "anchors and aliases copy more", "6:23"),
        ("cycle", bytes("kind: &a [*a]\n"), "contains itself", "1:11"),
        ("deep", bytes(&format!("a: {}{}\n", "[".repeat(5000), "]".repeat(5000))), "100 deep", "1:104"),
        ("nul", bytes(&POLICY.replace("web", "we\0b")), "control character 0x00", "7:48"),
        ("tab", bytes(&POLICY.replace("  ingress", "\tingress")), "tab", "6:1"),
        ("latin1", bad_end, "not UTF-8", "9:6"),
        ("utf16", utf16, "not UTF-8", "1:1"),
        (
            "kind",
            bytes(&POLICY.replace("NetworkPolicy", "NetworkPolicies")),
            "no kind `NetworkPolicies`",
            "2:1",
        ),
        (
            "api",
            bytes(&POLICY.replace("networking.k8s.io/v1", "extensions/v1beta1")),
            "has no NetworkPolicy",
            "1:1",
        ),
        (
            "twice",
            bytes(&format!("{POLICY}---\n{}", POLICY.replace("5432", "80"))),
            "is written twice",
            "10:1",
        ),
        ("doubled", bytes(&format!("{POLICY}  ingress: []\n")), "stands here twice", "9:3"),
        ("list", bytes("- a\n- b\n"), "where a Kubernetes object should be", "1:1"),
        ("json", bytes("{\"apiVersion\": \"v1\", \"kind\": \"Pod\","), "unclosed", "1:1"),
        ("between", bytes(&format!("{POLICY}---\nfoo: [\n---\n{POLICY}")), "unclosed", "10:6"),
        ("typo", bytes(&POLICY.replace("ingress:", "ingres:")), "unknown field `ingres`", "6:3"),
    ]
}

struct Directory(tempfile::TempDir);

impl Directory {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a directory"))
    }

    fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.path().join(format!("{name}.yaml"));
        fs::write(&path, bytes).expect("written");
        path
    }
}

#[test]
fn no_command_answers_on_what_it_could_not_read() {
    let directory = Directory::new();
    let mut unnamed = Vec::new();
    for (name, bytes, wrong, place) in hostile() {
        let path = directory.write(name, &bytes);
        let place = format!("{}:{place}", path.display());
        for command in COMMANDS {
            let run = ask(command, &path, &["-o", "json"]);
            let said = format!("{name} {command:?}: {}\n{}", run.stdout, run.stderr);
            assert_eq!(run.code, Some(2), "{said}");
            let json: Value = serde_json::from_str(&run.stdout).expect("JSON");
            let kind = if command == ["lint"] { "Findings" } else { "Failure" };
            assert_eq!((&json["kind"], &json["complete"]), (&kind.into(), &false.into()), "{said}");
            let findings = json["findings"].as_array().expect("a list");
            let found = findings.iter().any(|finding| {
                let at = format!(
                    "{}:{}:{}",
                    finding["file"].as_str().unwrap_or_default(),
                    finding["line"],
                    finding["column"]
                );
                finding["severity"] == "error"
                    && at == place
                    && finding["message"].as_str().is_some_and(|text| text.contains(wrong))
            });
            if !found {
                unnamed.push(format!("{place} {wrong}: {said}"));
            }
        }
    }
    assert!(unnamed.is_empty(), "{}", unnamed.join("\n"));
}

#[test]
fn what_is_not_there_is_named() {
    for command in COMMANDS {
        let run = ask(command, Path::new("/nowhere/at/all.yaml"), &[]);
        assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""), "{command:?}");
        assert!(run.stderr.contains("cannot read `/nowhere/at/all.yaml`"), "{}", run.stderr);
    }
}

#[test]
fn the_same_manifest_in_other_clothes_means_the_same() {
    let directory = Directory::new();
    let plain = directory.write("plain", POLICY.as_bytes());
    let forms = [
        ("crlf", POLICY.replace('\n', "\r\n").into_bytes()),
        ("mark", [b"\xef\xbb\xbf", POLICY.as_bytes()].concat()),
        ("empty-documents", format!("---\n---\n{POLICY}---\n# nothing\n---\n").into_bytes()),
        ("anchors", POLICY.replace("[{podSelector", "&who [{podSelector").into_bytes()),
        ("no-newline", POLICY.trim_end().as_bytes().to_vec()),
    ];
    // Where it is written differs by form; what follows from it does not.
    let answers = |path: &Path| -> Vec<(Option<i32>, String)> {
        let list = ask(&["connections"], path, &["-o", "csv"]);
        let eval = ask(COMMANDS[5], path, &["-q"]);
        [list, eval].map(|run| (run.code, run.stdout)).into()
    };
    let expected = answers(&plain);
    assert!(expected[1].1.starts_with("allow"), "{expected:?}");
    for (name, bytes) in forms {
        assert_eq!(answers(&directory.write(name, &bytes)), expected, "{name}");
    }
}

#[test]
fn a_word_without_end_does_not_flood_the_screen() {
    let directory = Directory::new();
    let endless = "q".repeat(1_000_000);
    for (name, what) in [
        ("name", "name: p"),
        ("port", "5432"),
        ("value", "web"),
        ("field", "ingress:"),
        ("kind", "NetworkPolicy"),
    ] {
        let with = if what.ends_with(':') { format!("{endless}:") } else { endless.clone() };
        let with = if name == "name" { format!("name: {endless}") } else { with };
        let path = directory.write(name, POLICY.replacen(what, &with, 1).as_bytes());
        let run = ask(&["connections"], &path, &[]);
        assert!(
            run.stderr.len() < 3_000 && run.stderr.contains("[NL0"),
            "{name}: {} bytes",
            run.stderr.len()
        );
    }
}
