//! Rules about everything that people read.

use std::collections::BTreeSet;

use crate::tree::{files, lines, none, root, rust};

/// Hosts that our files may name.
const HOSTS: &[&str] = &[
    "ci.debian.net",
    "crates.io",
    "datatracker.ietf.org",
    "docs.kernel.org",
    "docs.rs",
    "doc.rust-lang.org",
    "git.kernel.org",
    "github.com",
    "www.w3.org",
    "json-schema.org",
    "json.schemastore.org",
    "keepachangelog.com",
    "kubernetes.io",
    "netlab.dev",
    "network-policy-api.sigs.k8s.io",
    "rustup.rs",
    "semver.org",
    "www.apache.org",
    "www.kernel.org",
    "www.rfc-editor.org",
];

fn documents() -> Vec<(String, String)> {
    files(&["md"])
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// `[text](target)` outside code blocks, as (line number, target).
fn links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut code = false;
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            code = !code;
        }
        let mut rest = if code { "" } else { line };
        while let Some(start) = rest.find("](") {
            rest = &rest[start + 2..];
            let Some(end) = rest.find(')') else { break };
            found.push((index + 1, rest[..end].to_owned()));
            rest = &rest[end..];
        }
    }
    found
}

/// The anchors of a document's headings, as forges make them.
fn anchors(text: &str) -> BTreeSet<String> {
    text.lines()
        .filter_map(|line| line.strip_prefix('#'))
        .map(|heading| {
            heading
                .trim_start_matches('#')
                .trim()
                .to_lowercase()
                .chars()
                .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
                .map(|c| if c == ' ' { '-' } else { c })
                .collect()
        })
        .collect()
}

#[test]
fn every_link_leads_somewhere() {
    let mut offenders = Vec::new();
    for (path, text) in documents() {
        let directory = root().join(&path);
        let directory = directory.parent().expect("a file has a directory");
        for (line, link) in links(&text) {
            if link.contains("://") {
                continue;
            }
            let (file, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let target = if file.is_empty() { root().join(&path) } else { directory.join(file) };
            if !target.exists() {
                offenders.push(format!("{path}:{line}: {link}"));
            } else if !anchor.is_empty() {
                let text = std::fs::read_to_string(&target).unwrap_or_default();
                if !anchors(&text).contains(anchor) {
                    offenders.push(format!("{path}:{line}: no heading #{anchor} in {}", target.display()));
                }
            }
        }
    }
    none("links of documents resolve", &offenders);
}

#[test]
fn only_public_hosts_are_named() {
    let mut offenders = Vec::new();
    for (path, text) in files(&["rs", "md", "toml", "yaml", "run", "sh"]) {
        // Manifests speak of hosts inside their own cluster.
        if path.starts_with("examples/") || path.contains("/cases/") {
            continue;
        }
        for (index, line) in text.lines().enumerate() {
            for (start, _) in line.match_indices("://") {
                let host: String = line[start + 3..]
                    .chars()
                    .take_while(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-'))
                    .collect();
                let scheme = line[..start].ends_with("http") || line[..start].ends_with("https");
                if scheme && !host.is_empty() && !HOSTS.contains(&host.as_str()) {
                    offenders.push(format!("{path}:{}: {host}", index + 1));
                }
            }
        }
    }
    none("only hosts that everybody can reach", &offenders);
}

#[test]
fn no_path_of_one_machine() {
    let mut offenders = Vec::new();
    for (path, text) in files(&["rs", "md", "toml", "yaml", "json", "run"]) {
        let private =
            [concat!("/wo", "rk/"), concat!("/ro", "ot/."), concat!("/ho", "me/"), concat!("/fa", "rm/")];
        offenders.extend(lines(&path, &text, |line| private.iter().any(|place| line.contains(place))));
    }
    none("no path that exists on one machine only", &offenders);
}

#[test]
fn the_papers_are_there() {
    for path in [
        "README.md",
        "ARCHITECTURE.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "STYLE.md",
        "SECURITY.md",
        "LICENSE-APACHE",
        "LICENSE-MIT",
        ".ci/run",
    ] {
        assert!(!read(path).trim().is_empty(), "{path} is empty");
    }
    let version = read("Cargo.toml")
        .lines()
        .find_map(|line| line.strip_prefix("version = ").map(|v| v.trim_matches('"').to_owned()))
        .expect("the workspace has a version");
    let changelog = read("CHANGELOG.md");
    assert!(
        changelog.contains(&format!("## [{version}]")) || changelog.contains("## [Unreleased]"),
        "CHANGELOG.md has neither {version} nor Unreleased"
    );
}

#[test]
fn continuous_integration_runs_the_test_command_of_the_readme() {
    let command = "cargo test --workspace";
    assert!(
        read("README.md").lines().any(|line| line.trim_start_matches("$ ").trim() == command),
        "README.md prints no line `{command}`"
    );
    let script = read(".ci/run");
    assert!(
        script.lines().any(|line| line.contains("README.md")) && script.contains("test_command"),
        ".ci/run does not take its test command from README.md"
    );
}

#[test]
fn every_test_that_holds_an_invariant_exists() {
    let sources: String = rust().into_iter().map(|(_, text)| text).collect();
    let architecture = read("ARCHITECTURE.md");
    let mut cited = 0;
    let mut offenders = Vec::new();
    for after in architecture.split("Held by").skip(1) {
        let sentence = after.split("\n\n").next().unwrap_or(after);
        for name in sentence.split('`').skip(1).step_by(2) {
            cited += 1;
            if !sources.contains(&format!("fn {name}(")) {
                offenders.push(format!("no test `{name}`"));
            }
        }
    }
    none("tests that ARCHITECTURE.md names", &offenders);
    assert!(cited > 5, "ARCHITECTURE.md names only {cited} tests");
}

/// The names of a file's tests.
fn tests_of(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut marked = false;
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix("fn ").filter(|_| marked) {
            names.push(name.split('(').next().unwrap_or_default().to_owned());
        }
        // Other attributes may stand between.
        marked = line == "#[test]" || marked && line.starts_with("#[");
    }
    names
}

#[test]
fn every_corner_of_the_datapath_has_its_test() {
    let known: BTreeSet<String> = rust().iter().flat_map(|(_, text)| tests_of(text)).collect();
    let reasons = read("ebpf/src/reason.rs");
    let mut tests = BTreeSet::new();
    let mut offenders = Vec::new();
    for (index, line) in
        read("docs/datapath.md").lines().enumerate().filter(|(_, line)| line.starts_with("| "))
    {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let cited = |cell: &str| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>();
        let last = cells.last().copied().unwrap_or_default();
        if matches!(last, "test" | "held by") {
            continue;
        }
        let names = cited(last);
        if names.is_empty() {
            offenders.push(format!("line {}: no test", index + 1));
        }
        for name in names {
            let is_case = name.starts_with("core/tests/cases/");
            if !(if is_case { root().join(&name).is_dir() } else { known.contains(&name) }) {
                offenders.push(format!("line {}: no test `{name}`", index + 1));
            }
            tests.insert(name);
        }
        // Four columns: the third names reasons.
        if let [_, _, said, _] = cells[..] {
            offenders.extend(
                cited(said)
                    .into_iter()
                    .filter(|reason| !reasons.contains(&format!("    {reason} = ")))
                    .map(|reason| format!("line {}: no reason `{reason}`", index + 1)),
            );
        }
    }
    // And the other way: no test of a corner that the page does not tell of.
    for (path, text) in rust().into_iter().filter(|(path, _)| path.contains("/tests/it/corners_")) {
        let untold = tests_of(&text).into_iter().filter(|name| !tests.contains(name));
        offenders.extend(untold.map(|name| format!("{path}: `{name}` is not in the page")));
    }
    none("docs/datapath.md names the test of each corner", &offenders);
    assert!(tests.len() > 60, "docs/datapath.md names only {} tests", tests.len());
}
