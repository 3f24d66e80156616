//! Reads directories of manifests as the command line does.

use std::path::{Path, PathBuf};

use netlab_core::diagnostic::Diagnostic;
use netlab_core::input::{Budget, Document, Loaded, load};

/// Where the shared cases are, if this checkout has them beside it. `NETLAB_CASES` names another place, which must
/// then be there.
#[expect(clippy::print_stderr, reason = "a test that is skipped says so")]
pub(crate) fn cases() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("NETLAB_CASES").map(PathBuf::from) {
        assert!(named.is_dir(), "NETLAB_CASES is set, but {} is not there", named.display());
        return Some(named);
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let found = ["shared/cases", "../shared/cases"]
        .into_iter()
        .map(|path| root.join(path))
        .find(|path| path.is_dir());
    if found.is_none() {
        eprintln!("skipped: no ../shared/cases beside this checkout");
    }
    found
}

/// Every manifest under a directory, by name.
pub(crate) fn documents(directory: &Path) -> Vec<Document> {
    let mut files = Vec::new();
    let mut directories = vec![directory.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(&directory).expect("a readable directory") {
            let path = entry.expect("a readable entry").path();
            if path.is_dir() {
                directories.push(path);
            } else if path
                .extension()
                .is_some_and(|end| ["yaml", "yml", "json"].iter().any(|known| end == *known))
            {
                files.push(path);
            }
        }
    }
    files.sort();
    let read = |path: PathBuf| {
        let name = path.strip_prefix(directory).expect("a file below").to_string_lossy().into_owned();
        Document::from_bytes(name, std::fs::read(&path).expect("a readable file")).expect("UTF-8")
    };
    files.into_iter().map(read).collect()
}

/// Loads a directory.
pub(crate) fn load_directory(directory: &Path) -> Loaded {
    load(documents(directory), &Budget::default())
}

/// Loads one of the project's examples.
pub(crate) fn example(name: &str) -> Loaded {
    load_directory(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples").join(name))
}

/// Loads one text under the name `a.yaml`.
pub(crate) fn load_text(text: &str) -> Loaded {
    load([Document { name: "a.yaml".into(), text: text.into() }], &Budget::default())
}

/// `file:line:column code severity: message (path)`.
pub(crate) fn line(diagnostic: &Diagnostic) -> String {
    let file = diagnostic.file.as_deref().unwrap_or("-");
    let place = diagnostic.position.map_or_else(|| "-".to_owned(), |at| format!("{}:{}", at.line, at.column));
    let (code, severity) = (diagnostic.code, diagnostic.severity);
    format!("{file}:{place} {code} {severity:?}: {} ({})", diagnostic.message, diagnostic.path)
}
