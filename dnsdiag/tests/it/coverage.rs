//! `docs/dns-coverage.md` says of each of the 95 modes whether it is judged, and why not; `docs/dns-diagnose.md` lists every file
//! of a bundle.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::PathBuf;

use netlab_dnsdiag::bundle::layout::FILES;
use netlab_dnsdiag::rules::{RULES, rule};

const BEGIN: &str = "<!-- judged: written by the tests -->\n";
const END: &str = "<!-- end -->\n";

#[test]
fn every_mode_is_judged_or_has_its_reason() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/dns-coverage.md");
    let text = std::fs::read_to_string(&path).expect("the document is there");
    let (before, rest) = text.split_once(BEGIN).expect("the table begins");
    let (_, after) = rest.split_once(END).expect("the table ends");

    let mut table = String::from("| mode | verdict | class | what it is |\n|---|---|---|---|\n");
    let mut missing = BTreeSet::new();
    for number in 1..=95 {
        let mode = format!("F{number:02}");
        match rule(&mode) {
            Some(rule) => {
                let _ =
                    writeln!(table, "| {mode} | {} | {} | {} |", rule.id, rule.class.as_str(), rule.title);
            }
            None => drop(missing.insert(mode)),
        }
    }
    let judged = format!(
        "{} of 95 modes are judged, each with at least one bundle in `dnsdiag/tests/bundles`.\n\n",
        RULES.len()
    );
    // A row whose mode is judged by now goes away.
    let stale = |line: &str| {
        line.strip_prefix("| ")
            .and_then(|rest| rest.split_once(" |"))
            .is_some_and(|(mode, _)| rule(mode).is_some())
    };
    let after: String = after.split_inclusive('\n').filter(|line| !stale(line)).collect();
    let written = format!("{before}{BEGIN}{judged}{table}{END}{after}");
    if std::env::var_os("NETLAB_BLESS").is_some() {
        std::fs::write(&path, &written).expect("write the document");
    } else {
        assert!(text == written, "docs/dns-coverage.md is not up to date: NETLAB_BLESS=1 writes it");
    }

    let reasons: BTreeSet<String> = after
        .lines()
        .filter_map(|line| Some(line.strip_prefix("| ")?.split_once(" |")?.0.to_owned()))
        .filter(|mode| mode.len() == 3 && mode.starts_with('F'))
        .collect();
    assert_eq!(reasons, missing, "the modes without a rule and those with a reason are not the same");
}

#[test]
fn every_file_of_a_bundle_is_listed() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/dns-diagnose.md");
    let text = std::fs::read_to_string(&path).expect("the document is there");
    let begin = "<!-- files: written by the tests -->\n";
    let (before, rest) = text.split_once(begin).expect("the table begins");
    let (_, after) = rest.split_once(END).expect("the table ends");
    let mut table = String::from("| file | vital | what it holds, by hand |\n|---|---|---|\n");
    for file in FILES {
        let vital = if file.vital { "yes" } else { "" };
        let _ = writeln!(table, "| `{}` | {vital} | {} |", file.path, file.about);
    }
    let written = format!("{before}{begin}{table}{END}{after}");
    if std::env::var_os("NETLAB_BLESS").is_some() {
        std::fs::write(&path, &written).expect("write the document");
    } else {
        assert!(text == written, "docs/dns-diagnose.md is not up to date: NETLAB_BLESS=1 writes it");
    }
}
