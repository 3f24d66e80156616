//! The example program that the tests run as a process of its own.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

static PATH: OnceLock<PathBuf> = OnceLock::new();

/// The `lab_process` example beside the tests.
pub(crate) fn lab_process() -> Command {
    Command::new(PATH.get_or_init(find))
}

fn find() -> PathBuf {
    let mut directory = std::env::current_exe().expect("own path");
    directory.pop();
    directory.pop();
    let path = directory.join("examples/lab_process");
    // `cargo test` builds examples, but `cargo test FILTER` does not, and would leave an old one in place.
    if let Some(cargo) = std::env::var_os("CARGO") {
        let profile = match directory.file_name().and_then(|name| name.to_str()) {
            Some("debug") | None => "dev",
            Some(profile) => profile,
        };
        let status = Command::new(cargo)
            .args(["build", "--quiet", "--package", "netlab-lab", "--example", "lab_process"])
            .args(["--profile", profile])
            .status()
            .expect("cargo");
        assert!(status.success(), "cannot build lab_process");
    }
    assert!(path.exists(), "{} is missing: run `cargo build -p netlab-lab --examples`", path.display());
    path
}
