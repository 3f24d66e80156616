//! The cases under `tests/lint`: manifests that end with a comment for each finding, exactly those and in this order.
//! Names that start with `fine` are of objects that come near a mistake and are none. `NETLAB_BLESS=1` writes the comments
//! anew: read what changed.

use std::path::{Path, PathBuf};

use netlab_core::diagnostic::{catalog, code};
use netlab_core::input::{Budget, Document, Loaded, load};
use netlab_core::policy::lint::{Finding, lint};

const HEAD: &str = "\n# Findings:\n";

/// The cases: path and text.
pub(crate) fn cases() -> Vec<(PathBuf, String)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lint");
    let entries = std::fs::read_dir(directory).expect("cases");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    paths.into_iter().map(|path| (path.clone(), std::fs::read_to_string(path).expect("text"))).collect()
}

/// The case without its expectations, read.
pub(crate) fn read(text: &str) -> (String, Loaded) {
    let manifests = text.split(HEAD).next().unwrap_or_default().trim_end().to_owned() + "\n";
    let document = Document { name: "case.yaml".into(), text: manifests.clone().into() };
    (manifests, load([document], &Budget::default()))
}

fn line(finding: &Finding) -> String {
    let one = &finding.diagnostic;
    let place = one.position.map(|place| format!("{}:{}", place.line, place.column)).unwrap_or_default();
    let object = one.object.as_ref().map(ToString::to_string).unwrap_or_default();
    let count = finding.count.map(|count| format!(" [{} {}]", count.number, count.of)).unwrap_or_default();
    let severity = format!("{:?}", one.severity).to_lowercase();
    format!("# {place} {severity} {} {object} {}{count}\n#   {}\n", one.code, one.path, one.message)
}

fn findings(loaded: Loaded) -> Vec<Finding> {
    lint(&loaded.cluster, &loaded.policies, loaded.diagnostics).findings
}

#[test]
fn each_case_has_exactly_its_findings() {
    let bless = std::env::var_os("NETLAB_BLESS").is_some();
    let mut wrong = Vec::new();
    for (path, text) in cases() {
        let (manifests, loaded) = read(&text);
        let found: String = findings(loaded).iter().map(line).collect();
        let now = format!("{manifests}{HEAD}{found}");
        if bless {
            std::fs::write(&path, &now).expect("written");
        } else if now != text {
            let expected = text.split(HEAD).nth(1).unwrap_or_default();
            wrong.push(format!("{}\nexpected\n{expected}found\n{found}", path.display()));
        }
        if found.contains("/fine") || found.contains(" fine") {
            wrong.push(format!("{}: a finding about what is fine\n{found}", path.display()));
        }
    }
    assert!(
        wrong.is_empty(),
        "{}\nif the change is wanted: NETLAB_BLESS=1 cargo test -p netlab-core --test it lint_cases",
        wrong.join("\n\n")
    );
}

#[test]
fn every_lint_has_a_case_and_a_place() {
    let mut all: Vec<Finding> = Vec::new();
    for (_, text) in cases() {
        all.extend(findings(read(&text).1));
    }
    let missing: Vec<&str> = catalog::all()
        .map(|page| page.code)
        .filter(|code| code.starts_with("NL03") && *code != code::TOO_LONG_FOR_V1ALPHA2)
        .filter(|code| !all.iter().any(|finding| finding.diagnostic.code == *code))
        .collect();
    assert!(missing.is_empty(), "no case yields {missing:?}");
    for finding in all.iter().filter(|finding| finding.diagnostic.code.starts_with("NL03")) {
        let one = &finding.diagnostic;
        assert!(one.position.is_some() && one.object.is_some() && one.hint.is_some(), "{one:?}");
        let source = one.message.trim();
        assert!(!source.ends_with('.') && !source.contains('\n'), "{source}");
    }
}

#[test]
fn lists_too_long_for_the_newer_api_are_noted() {
    let peers = "{namespaces: {}}, ".repeat(26);
    let text = format!(
        "apiVersion: policy.networking.k8s.io/v1alpha1\nkind: AdminNetworkPolicy\nmetadata: {{name: a}}\nspec:\n\
         \x20 priority: 1\n  subject: {{namespaces: {{}}}}\n  ingress:\n  - action: Deny\n    from: [{peers}]\n"
    );
    let codes = |text: &str| -> Vec<&str> {
        findings(read(text).1).iter().map(|finding| finding.diagnostic.code).collect()
    };
    assert!(codes(&text).contains(&code::TOO_LONG_FOR_V1ALPHA2));
    assert!(!codes(&text.replacen("{namespaces: {}}, ", "", 1)).contains(&code::TOO_LONG_FOR_V1ALPHA2));
}
