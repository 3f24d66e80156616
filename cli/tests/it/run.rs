//! Running the command.
//!
//! Invariant: the environment of whoever runs the tests changes nothing: locale, colours and `NETLAB_*` are set
//! here; the current directory is the root of the repository.

use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What a run gave.
#[derive(Debug)]
pub(crate) struct Run {
    /// The exit code; `None` when a signal ended it.
    pub(crate) code: Option<i32>,
    /// Standard output.
    pub(crate) stdout: String,
    /// Standard error.
    pub(crate) stderr: String,
}

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("cli lies in the workspace").to_owned()
}

/// A command with a known environment.
pub(crate) fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.current_dir(root()).env("LC_ALL", "C.UTF-8").stdin(Stdio::null());
    for name in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "NETLAB_NAMESPACE", "NETLAB_OUTPUT", "COLUMNS"] {
        command.env_remove(name);
    }
    command
}

/// Runs a prepared command to its end.
pub(crate) fn finish(command: &mut Command) -> Run {
    let output = command.output().expect("the command starts");
    Run {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).expect("standard output is UTF-8"),
        stderr: String::from_utf8(output.stderr).expect("standard error is UTF-8"),
    }
}

/// Runs `netlab` with these arguments.
pub(crate) fn netlab<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Run {
    finish(command(env!("CARGO_BIN_EXE_netlab")).args(arguments))
}

/// Runs `netlab` with a text on standard input.
pub(crate) fn netlab_reading(text: &str, arguments: &[&str]) -> Run {
    let mut child = command(env!("CARGO_BIN_EXE_netlab"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("netlab starts");
    // A command that refuses its arguments never reads: a closed pipe is then no failure of the test.
    let _ = child.stdin.take().expect("a pipe").write_all(text.as_bytes());
    let output = child.wait_with_output().expect("netlab ends");
    Run {
        code: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Runs a line as a shell would, with our `netlab` first on the path.
pub(crate) fn shell(line: &str) -> Run {
    let binary = Path::new(env!("CARGO_BIN_EXE_netlab"));
    let directory = binary.parent().expect("a directory").to_string_lossy().into_owned();
    let path = std::env::var("PATH").unwrap_or_default();
    finish(command("sh").args(["-c", line]).env("PATH", format!("{directory}:{path}")))
}

/// True when the tests run as root.
pub(crate) fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// True when `need` (one of root, bpf, netns, nft, userns) has to be there.
pub(crate) fn required(need: &str) -> bool {
    std::env::var("NETLAB_TEST_REQUIRE").is_ok_and(|list| list.split(',').any(|word| word.trim() == need))
}

/// True when a test that needs root may run; fails where root is required, says so where it is not there.
pub(crate) fn root_or_skip(test: &str) -> bool {
    let root = is_root();
    assert!(root || !required("root"), "{test} needs root, and NETLAB_TEST_REQUIRE says that it is there");
    if !root {
        // The test runner captures this; `--show-output` shows it.
        let _ = writeln!(std::io::stderr(), "skipped: {test} needs root");
    }
    root
}
