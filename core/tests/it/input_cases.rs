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
            .map(line)
            .collect();
        assert!(unexpected.is_empty(), "{}:\n{}", input.display(), unexpected.join("\n"));
        assert!(!loaded.cluster.pods.is_empty(), "{}: no pods", input.display());
    }
    assert!(loaded_cases >= 30, "only {loaded_cases} cases");
}

/// What a case says beside its severity, by the reason for which it was made. Two are warnings here and fatal for the
/// peer: equal priorities have an answer (`undefined`), and pods are judged one by one, whoever owns them.
const REASONS: [(&str, &str); 23] = [
    ("anp_and_banp_using_networks_and_nodes_test", code::NODES_UNMATCHED),
    ("anp_and_banp_using_networks_with_ipv6_test", code::CIDR_HOST_BITS),
    ("anp_bad_path_test_1", code::TIED_POLICIES),
    ("anp_bad_path_test_2", code::INVALID_PRIORITY),
    ("anp_bad_path_test_3", code::DUPLICATE_OBJECT),
    ("anp_bad_path_test_8", code::PORT_NOT_ONE),
    ("anp_bad_path_test_9", code::INVALID_ACTION),
    ("anp_bad_path_test_14", code::WRONG_LENGTH),
    ("anp_bad_path_test_15", code::WRONG_LENGTH),
    ("anp_bad_path_test_17", code::PORT_NOT_ONE),
    ("anp_bad_path_test_18", code::INVALID_ACTION),
    ("anp_bad_path_test_19", code::INVALID_CIDR),
    ("anp_banp_test_multiple_warnings", code::NODES_UNMATCHED),
    ("anp_banp_test_multiple_warnings", code::PORT_NAME_UNMATCHED),
    ("anp_banp_test_with_named_port_unmatched", code::PORT_NAME_UNMATCHED),
    ("banp_bad_path_test_1", code::DUPLICATE_OBJECT),
    ("banp_bad_path_test_3", code::SUBJECT_NOT_ONE),
    ("banp_bad_path_test_4", code::SUBJECT_NOT_ONE),
    ("banp_bad_path_test_6", code::WRONG_LENGTH),
    ("banp_bad_path_test_8", code::INVALID_ACTION),
    ("banp_bad_path_test_11", code::WRONG_LENGTH),
    ("banp_bad_path_test_12", code::PEER_MIXED),
    ("example_w_err_pods_w_same_owner_and_labels_gap_anp", code::OWNER_SPLIT),
];
const ONLY_WARNED: [&str; 2] = ["anp_bad_path_test_1", "example_w_err_pods_w_same_owner_and_labels_gap_anp"];

#[test]
fn bad_manifests_are_named() {
    let Some(cases) = cases() else { return };
    let directory = cases.join("policy/bad-input");
    let index = std::fs::read_to_string(directory.join("index.tsv")).expect("the index");
    let (mut seen, mut reasons, mut wrong) = (0, 0, Vec::new());
    for row in index.lines().skip(1).filter(|row| !row.is_empty()) {
        let (case, severity) = row.split_once('\t').expect("two columns");
        let loaded = load_directory(&directory.join(case));
        let all: Vec<String> = loaded.diagnostics.iter().map(line).collect();
        let fatal = severity == "fatal" && !ONLY_WARNED.contains(&case);
        let wanted = if fatal { Severity::Error } else { Severity::Warning };
        let placed = |diagnostic: &&Diagnostic| diagnostic.file.is_some() && diagnostic.position.is_some();
        let worst = loaded.diagnostics.iter().filter(placed).map(|diagnostic| diagnostic.severity).min();
        if worst != Some(wanted) {
            wrong.push(format!("{case}: wanted {wanted:?}, found {worst:?} in\n{}", all.join("\n")));
        }
        for (_, code) in REASONS.iter().filter(|(name, _)| *name == case) {
            reasons += 1;
            if !loaded.diagnostics.iter().filter(placed).any(|diagnostic| diagnostic.code == *code) {
                wrong.push(format!("{case}: no {code} in\n{}", all.join("\n")));
            }
        }
        seen += 1;
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    assert!(seen >= 30 && reasons == REASONS.len(), "only {seen} rows, {reasons} reasons");
}
