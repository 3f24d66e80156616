//! The pages of the lint's codes tell the truth: the bad example yields its code, the good one nothing at all.

use std::collections::BTreeSet;

use netlab_core::diagnostic::catalog;

use crate::lint::{Files, report};

#[test]
fn examples_show_what_they_say() {
    let mut wrong = Vec::new();
    let mut tried = 0;
    for page in catalog::all().filter(|page| page.code.starts_with("NL07")) {
        tried += 1;
        for (text, is_bad) in [(page.bad, true), (page.good, false)] {
            let report = report(&Files::split(text));
            let lines: Vec<String> = report
                .findings
                .iter()
                .map(|finding| format!("{} {}", finding.diagnostic.code, finding.diagnostic.message))
                .collect();
            let codes: BTreeSet<&str> =
                report.findings.iter().map(|finding| finding.diagnostic.code).collect();
            if is_bad != codes.contains(page.code) || (!is_bad && !codes.is_empty()) {
                wrong.push(format!("{} (bad: {is_bad}) gives {lines:#?}\n{text}", page.code));
            }
        }
    }
    assert!(tried >= 30, "{tried}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}
