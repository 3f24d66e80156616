//! The cases under `tests/cases`: what the oracle must answer, with reasons. `NETLAB_BLESS=1` writes the
//! expectations anew, to be read before they are committed.

use std::path::{Path, PathBuf};

use netlab_core::testing::case::Case;
use serde_json::Value;

/// Every case folder, by name.
pub(crate) fn folders() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let entries = std::fs::read_dir(&root).expect("the cases are there");
    let mut folders: Vec<_> = entries.map(|entry| entry.expect("they can be listed").path()).collect();
    folders.retain(|path| path.is_dir());
    folders.sort();
    folders
}

/// The case of a folder.
pub(crate) fn read(folder: &Path) -> Case {
    let text = |name: &str| {
        let path = folder.join(name);
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    };
    Case::read(&text("cluster.yaml"), &text("policies.yaml"), &text("queries.yaml"))
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
}

#[test]
fn every_case_is_answered_as_expected() {
    let bless = std::env::var_os("NETLAB_BLESS").is_some();
    let mut wrong = Vec::new();
    let folders = folders();
    for folder in &folders {
        let answers = read(folder).answers();
        let path = folder.join("expected.json");
        if bless {
            std::fs::write(&path, format!("{answers:#}\n")).expect("the expectation can be written");
        }
        let expected = std::fs::read_to_string(&path).unwrap_or_default();
        let expected: Value = serde_json::from_str(&expected).unwrap_or_default();
        if expected != answers {
            wrong.push(format!("{}: expected\n{expected:#}\ngot\n{answers:#}", folder.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(folders.len() > 20, "the cases were found");
}
