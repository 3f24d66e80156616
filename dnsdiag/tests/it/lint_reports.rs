//! Configurations of installers have no finding, reported ones exactly theirs (`tests/data/reports.txt`).

use netlab_core::diagnostic::Severity;

use crate::lint::{Files, report};

#[test]
fn installed_ones_are_clean_and_reported_ones_are_found() {
    let text = include_str!("../data/reports.txt");
    let (mut wrong, mut installed, mut reported) = (Vec::new(), 0, 0);
    for case in text.split("\n#### ").skip(1) {
        let (title, rest) = case.split_once('\n').expect("a case has a text");
        let (wanted, files) = rest.split_once('\n').expect("a case says what is expected");
        let wanted = wanted.strip_prefix("expect:").expect("it says so on its second line").trim();
        installed += usize::from(title.starts_with("installed"));
        reported += usize::from(title.starts_with("reported"));
        let report = report(&Files::split(files));
        let found: Vec<String> = report
            .findings
            .iter()
            .map(|finding| {
                let letter = match finding.diagnostic.severity {
                    Severity::Error => 'e',
                    Severity::Warning => 'w',
                    Severity::Note => 'n',
                };
                format!("{}{letter}", finding.diagnostic.code)
            })
            .collect();
        if found.join(" ") != wanted {
            let messages: Vec<&str> =
                report.findings.iter().map(|finding| finding.diagnostic.message.as_str()).collect();
            wrong.push(format!("{title}\n  wanted {wanted}\n  found  {}\n  {messages:#?}", found.join(" ")));
        }
    }
    assert!(installed >= 12 && reported >= 20, "{installed} {reported}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
