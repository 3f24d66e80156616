//! Every code has a page, and the pages tell the truth.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use netlab_core::diagnostic::{catalog, code};
use netlab_core::input::{Budget, Document, load};
use netlab_core::policy::lint::lint;

use crate::input_files::line;

/// The codes that a text yields under the budget that the page is about.
fn codes(code: &str, text: &str, bad: bool) -> (BTreeSet<&'static str>, String) {
    let mut budget = Budget::default();
    match code {
        code::TEXT_TOO_LARGE => budget.text_bytes = 45,
        code::TOO_MANY_VALUES => budget.values = 9,
        code::NOT_UTF8 if bad => {
            let problem = Document::from_bytes("a.yaml", b"caf\xe9".to_vec()).expect_err("Latin-1");
            return (BTreeSet::from([problem.code]), line(&problem));
        }
        _ => {}
    }
    let loaded = load([Document { name: "a.yaml".into(), text: text.into() }], &budget);
    let mut diagnostics = loaded.diagnostics;
    if code.starts_with("NL03") {
        let report = lint(&loaded.cluster, &loaded.policies, diagnostics);
        diagnostics = report.findings.into_iter().map(|finding| finding.diagnostic).collect();
    }
    let lines: Vec<String> = diagnostics.iter().map(line).collect();
    (diagnostics.iter().map(|diagnostic| diagnostic.code).collect(), lines.join("\n"))
}

#[test]
fn examples_show_what_they_say() {
    let mut wrong = Vec::new();
    // The DNS lint tries its own: they are Corefiles and other files that are no objects.
    let ours = |code: &str| !code.starts_with("NL07");
    for page in catalog::all().filter(|page| !page.bad.is_empty() && ours(page.code)) {
        let (found, lines) = codes(page.code, page.bad, true);
        if !found.contains(page.code) {
            wrong.push(format!("{}: the bad example gives\n{lines}\n{}", page.code, page.bad));
        }
        let (found, lines) = codes(page.code, page.good, false);
        if found.contains(page.code) || (page.code != code::NETWORK_INVALID && !found.is_empty()) {
            wrong.push(format!("{}: the good example gives\n{lines}\n{}", page.code, page.good));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn every_code_of_the_sources_has_one_page_in_order() {
    let codes: Vec<&str> = catalog::all().map(|page| page.code).collect();
    let mut sorted = codes.clone();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(codes, sorted, "pages stand in order, each code once");

    let mut directories = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    let mut used = BTreeSet::new();
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).expect("sources") {
            let path: PathBuf = entry.expect("an entry").path();
            if path.is_dir() {
                directories.push(path);
            } else {
                let text = std::fs::read_to_string(path).expect("text");
                used.extend(text.split("\"NL").skip(1).filter_map(|rest| rest.get(..4)).map(str::to_owned));
            }
        }
    }
    let missing: Vec<&String> =
        used.iter().filter(|number| catalog::page(&format!("NL{number}")).is_none()).collect();
    assert!(used.len() > 30, "the sources name their codes: {used:?}");
    assert!(missing.is_empty(), "codes without a page: {missing:?}");
    assert_eq!(catalog::page("nl0101").map(|page| page.code), Some(code::SYNTAX));
    assert_eq!(catalog::page("NL9999"), None);
}
