//! The files of the repository, as the other tests read them.
//!
//! Invariant: build output and version control are never read; paths are relative to the root and sorted.

use std::path::{Path, PathBuf};

/// The repository's root.
pub(crate) fn root() -> PathBuf {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().expect("xtask lies in the workspace").to_owned()
}

/// Every text file with one of these extensions, as (path from the root, text).
pub(crate) fn files(extensions: &[&str]) -> Vec<(String, String)> {
    let root = root();
    let mut found = Vec::new();
    walk(&root, &root, extensions, &mut found);
    found.sort();
    assert!(!found.is_empty(), "no file with extension {extensions:?} under {}", root.display());
    found
}

fn walk(root: &Path, directory: &Path, extensions: &[&str], found: &mut Vec<(String, String)>) {
    for entry in std::fs::read_dir(directory).expect("a directory of the repository") {
        let path = entry.expect("an entry of the repository").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() {
            let skipped = name == "target" || (name.starts_with('.') && name != ".ci");
            if !skipped && !path.is_symlink() {
                walk(root, &path, extensions, found);
            }
            continue;
        }
        let extension = path.extension().unwrap_or_default().to_string_lossy().into_owned();
        if extensions.contains(&extension.as_str()) {
            let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{name}: {error}"));
            let path = path.strip_prefix(root).expect("below the root");
            found.push((path.to_string_lossy().into_owned(), text));
        }
    }
}

/// Every Rust file.
pub(crate) fn rust() -> Vec<(String, String)> {
    files(&["rs"])
}

/// The part of a Rust file before its tests: what ships.
pub(crate) fn shipped<'a>(path: &str, text: &'a str) -> &'a str {
    if path.contains("/tests/") || path.ends_with("/tests.rs") || path.contains("/benches/") {
        return "";
    }
    text.split("#[cfg(test)]\nmod ").next().unwrap_or(text)
}

/// Fails with every offender, one a line.
pub(crate) fn none(rule: &str, offenders: &[String]) {
    assert!(offenders.is_empty(), "{rule}:\n  {}", offenders.join("\n  "));
}

/// `path:line: text` of every line for which `wrong` holds.
pub(crate) fn lines(path: &str, text: &str, wrong: impl Fn(&str) -> bool) -> Vec<String> {
    text.lines()
        .enumerate()
        .filter(|(_, line)| wrong(line))
        .map(|(index, line)| format!("{path}:{}: {}", index + 1, line.trim()))
        .collect()
}

/// True for a line that is only a comment.
pub(crate) fn is_comment(line: &str) -> bool {
    line.trim_start().starts_with("//")
}
