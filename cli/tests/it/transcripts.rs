//! What README.md and docs print was printed by the command.
//!
//! Every line `$ netlab …` in a block marked `console` is run, and what stands below it must be what it prints,
//! standard output first. Numbers that differ from run to run (map ids, times) are compared as equal. With
//! `NETLAB_BLESS=1` the documents are written anew instead.

use std::path::{Path, PathBuf};

use crate::run::{Run, is_root, required, root, shell};

/// One command of a document and what is printed below it.
struct Step {
    line: usize,
    command: String,
    printed: Vec<String>,
}

/// A part of a document: text as it is, or the steps of one console block.
enum Part {
    Text(String),
    Console(Vec<Step>),
}

fn parse(text: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut prose = String::new();
    let mut steps: Option<Vec<Step>> = None;
    for (index, line) in text.lines().enumerate() {
        match &mut steps {
            None => {
                prose.push_str(line);
                prose.push('\n');
                if line == "```console" {
                    parts.push(Part::Text(std::mem::take(&mut prose)));
                    steps = Some(Vec::new());
                }
            }
            Some(_) if line == "```" => {
                parts.push(Part::Console(steps.take().unwrap_or_default()));
                prose.push_str("```\n");
            }
            Some(steps) => match (line.strip_prefix("$ "), steps.last_mut()) {
                (Some(command), _) => {
                    steps.push(Step { line: index + 1, command: command.to_owned(), printed: Vec::new() });
                }
                // A command goes on in the next line after a backslash.
                (None, Some(step)) if step.command.ends_with('\\') && step.printed.is_empty() => {
                    step.command.push('\n');
                    step.command.push_str(line);
                }
                (None, Some(step)) => step.printed.push(line.to_owned()),
                (None, None) => panic!("line {}: a console block begins with `$ `", index + 1),
            },
        }
    }
    parts.push(Part::Text(prose));
    parts
}

/// Commands that are shown but not run here: they build or test the project itself, or need the network.
fn is_shown_only(command: &str) -> bool {
    ["cargo ", "git ", "rustup ", "sudo ", "kubectl ", "bpftool ", "cd "]
        .iter()
        .any(|start| command.starts_with(start))
        && !command.starts_with("cargo run --release -- ")
}

/// The command as it is run here: `cargo run` would build what the tests have built already.
fn as_run(command: &str) -> String {
    command.replacen("cargo run --release -- ", "netlab ", 1)
}

/// Times, ids and the like, which differ from run to run, replaced by `#`.
fn normal(line: &str) -> String {
    let mut text = String::new();
    let mut number = false;
    for c in line.chars() {
        if c.is_ascii_digit() {
            if !number {
                text.push('#');
            }
            number = true;
        } else if !(number && c == '.') {
            number = false;
            text.push(c);
        }
    }
    for unit in ["# ms", "# us", "# s"] {
        text = text.replace(unit, "# time");
    }
    text
}

/// A line with its run-dependent parts taken out; all other digits stay.
fn comparable(line: &str) -> String {
    let varies = [" id ", " ms", " us", "key hex", "kernel", "pid "];
    let hex = line
        .trim()
        .split(' ')
        .all(|word| word == "=" || (word.len() == 2 && u8::from_str_radix(word, 16).is_ok()));
    if hex && !line.trim().is_empty() {
        return "(bytes)".to_owned();
    }
    if varies.iter().any(|word| line.contains(word)) { normal(line) } else { line.trim_end().to_owned() }
}

fn lines(run: &Run) -> Vec<String> {
    run.stdout.lines().chain(run.stderr.lines()).map(|line| line.trim_end().to_owned()).collect()
}

fn documents() -> Vec<PathBuf> {
    let mut paths = vec![root().join("README.md")];
    let mut waiting = vec![root().join("docs")];
    while let Some(directory) = waiting.pop() {
        for entry in std::fs::read_dir(&directory).expect("docs") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                waiting.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                paths.push(path);
            }
        }
    }
    paths.sort();
    paths
}

fn check(path: &Path, bless: bool) -> usize {
    let text = std::fs::read_to_string(path).expect("a document");
    let (mut blessed, mut ran) = (String::new(), 0);
    for part in parse(&text) {
        let steps = match part {
            Part::Text(text) => {
                blessed.push_str(&text);
                continue;
            }
            Part::Console(steps) => steps,
        };
        for step in steps {
            blessed.push_str("$ ");
            blessed.push_str(&step.command);
            blessed.push('\n');
            let mut printed = step.printed.clone();
            let trailing = printed.iter().rev().take_while(|line| line.is_empty()).count();
            printed.truncate(printed.len() - trailing);
            if !is_shown_only(&step.command) {
                ran += 1;
                let found = lines(&shell(&as_run(&step.command)));
                if bless {
                    printed = found;
                } else {
                    let place = format!("{}:{}", path.display(), step.line);
                    let told =
                        |lines: &[String]| lines.iter().map(|line| comparable(line)).collect::<Vec<_>>();
                    let (expected, mut found) = (told(&printed), told(&found));
                    // Pods report their groups when they like, and a proof tells of all that was counted meanwhile.
                    for _ in 0..2 {
                        if found != expected && step.command.contains("policy prove") {
                            found = told(&lines(&shell(&as_run(&step.command))));
                        }
                    }
                    assert_eq!(found, expected, "{place}: `{}` prints something else", step.command);
                }
            }
            for line in printed {
                blessed.push_str(&line);
                blessed.push('\n');
            }
            for _ in 0..trailing {
                blessed.push('\n');
            }
        }
    }
    if bless && blessed != text {
        std::fs::write(path, blessed).expect("the document can be written");
    }
    ran
}

#[test]
#[expect(clippy::print_stderr, reason = "a skipped test says so")]
fn transcripts() {
    let bless = std::env::var("NETLAB_BLESS").is_ok_and(|value| value == "1");
    if !is_root() {
        assert!(!required("root"), "transcripts need root, and NETLAB_TEST_REQUIRE says that it is there");
        eprintln!("skipped: transcripts show proofs in the kernel and need root");
        return;
    }
    let ran: usize = documents().iter().map(|path| check(path, bless)).sum();
    assert!(ran > 0, "no document prints a command");
}

#[test]
fn blocks_are_taken_apart_and_put_together() {
    let text = "a\n```console\n$ netlab x \\\n    -y\nout\n\n$ netlab z\n```\nb\n";
    let parts = parse(text);
    let Part::Console(steps) = &parts[1] else { panic!("no console block") };
    assert_eq!(steps.len(), 2);
    assert_eq!(steps[0].command, "netlab x \\\n    -y");
    assert_eq!(steps[0].printed, ["out", ""]);
    assert_eq!(comparable("  map  POLICY id 412: ruleset 7"), comparable("  map  POLICY id 5: ruleset 7"));
    assert_ne!(comparable("policies/db.yaml:14"), comparable("policies/db.yaml:15"));
}
