//! Real manifests: those that must load, and those that must be refused.

use netlab_core::diagnostic::{Diagnostic, Severity, code};

use crate::input_files::{cases, line, load_directory};

#[test]
fn manifests_of_a_peer_tool_load() {
    let Some(cases) = cases() else { return };
    let mut loaded_cases = 0;
    for entry in std::fs::read_dir(cases.join("policy/netpol-analyzer")).expect("the cases") {
        let input = entry.expect("a case").path().join("input");
        if !input.is_dir() {
            continue;
        }
        loaded_cases += 1;
        let loaded = load_directory(&input);
        let unexpected: Vec<String> = loaded
            .diagnostics
            .iter()
            .filter(|diagnostic| diagnostic.severity == Severity::Error)
            .filter(|diagnostic| diagnostic.code != code::POLICY_KIND_NOT_UNDERSTOOD)
            .map(line)
            .collect();
        assert!(unexpected.is_empty(), "{}:\n{}", input.display(), unexpected.join("\n"));
        assert!(!loaded.cluster.pods.is_empty(), "{}: no pods", input.display());
    }
    assert!(loaded_cases >= 30, "only {loaded_cases} cases");
}

#[test]
fn bad_manifests_are_named() {
    let Some(cases) = cases() else { return };
    let directory = cases.join("policy/bad-input");
    let index = std::fs::read_to_string(directory.join("index.tsv")).expect("the index");
    let mut seen = 0;
    for row in index.lines().skip(1).filter(|row| !row.is_empty()) {
        let (case, severity) = row.split_once('\t').expect("two columns");
        let loaded = load_directory(&directory.join(case));
        let wanted = if severity == "fatal" { Severity::Error } else { Severity::Warning };
        let placed = |diagnostic: &&Diagnostic| diagnostic.file.is_some() && diagnostic.position.is_some();
        let named = loaded.diagnostics.iter().filter(|diagnostic| diagnostic.severity <= wanted).find(placed);
        let all: Vec<String> = loaded.diagnostics.iter().map(line).collect();
        assert!(named.is_some(), "{case}: nothing of severity {severity} in\n{}", all.join("\n"));
        seen += 1;
    }
    assert!(seen >= 30, "only {seen} rows");
}
