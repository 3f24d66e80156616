//! The line that says on a terminal what takes longer than a second: it comes, it goes, and no pipe ever has it.
//!
//! The input is a pipe that the test holds back, so the wait is as long as the test wants; standard error is a terminal of
//! the test's own.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use nix::fcntl::OFlag;
use nix::pty::{grantpt, posix_openpt, ptsname_r, unlockpt};
use nix::sys::stat::Mode;

use crate::run::{command, root};

/// Long enough for the busiest machine.
const DEADLINE: Duration = Duration::from_secs(60);

/// What comes out of a stream, as it comes.
fn follow(mut stream: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut buffer = [0; 1024];
        // A terminal whose other side is closed gives an error, not an end.
        while let Ok(number @ 1..) = stream.read(&mut buffer) {
            if sender.send(buffer[..number].to_vec()).is_err() {
                break;
            }
        }
    });
    receiver
}

/// Everything until `wanted` is there, or to the end.
fn read_until(receiver: &Receiver<Vec<u8>>, wanted: Option<&str>, seen: &mut String) {
    let since = Instant::now();
    while wanted.is_none_or(|wanted| !seen.contains(wanted)) {
        match receiver.recv_timeout(DEADLINE.saturating_sub(since.elapsed())) {
            Ok(bytes) => seen.push_str(&String::from_utf8_lossy(&bytes)),
            Err(_) => break,
        }
    }
}

struct Held {
    child: Child,
    pipe: File,
    shop: String,
}

/// Starts a command whose input does not come yet.
fn start(arguments: &[&str], directory: &Path, stderr: Stdio) -> Held {
    let pipe = directory.join("held");
    let _ = std::fs::remove_file(&pipe);
    nix::unistd::mkfifo(&pipe, Mode::S_IRWXU).expect("a pipe can be made");
    let child = command(env!("CARGO_BIN_EXE_netlab"))
        .args(["policy"])
        .args(arguments)
        .args(["-f", pipe.to_str().expect("UTF-8")])
        .stdout(Stdio::piped())
        .stderr(stderr)
        .spawn()
        .expect("netlab starts");
    let pipe = OpenOptions::new().write(true).open(&pipe).expect("netlab reads it");
    let files = ["namespaces", "nodes", "web", "api", "db", "cache", "monitoring"];
    let texts = files.map(|name| {
        let path = root().join("examples/shop").join(name).with_extension("yaml");
        std::fs::read_to_string(path).expect("a manifest")
    });
    Held { child, pipe, shop: texts.join("\n---\n") }
}

impl Held {
    /// Lets the input come, and gives the rest.
    fn go_on(self) -> (Option<i32>, String) {
        let Self { child, mut pipe, shop } = self;
        pipe.write_all(shop.as_bytes()).expect("written");
        drop(pipe);
        let output = child.wait_with_output().expect("netlab ends");
        (output.status.code(), String::from_utf8(output.stdout).expect("UTF-8"))
    }
}

/// A terminal: our side of it, and the command's.
fn terminal() -> (File, File) {
    let master = posix_openpt(OFlag::O_RDWR | OFlag::O_NOCTTY).expect("a terminal can be made");
    grantpt(&master).expect("granted");
    unlockpt(&master).expect("unlocked");
    let name = ptsname_r(&master).expect("a name");
    let slave = OpenOptions::new().read(true).write(true).open(name).expect("the other side");
    (File::from(std::os::fd::OwnedFd::from(master)), slave)
}

const WAITING: [(&str, &[&str]); 8] = [
    ("listing connections", &["connections"]),
    ("reading policies", &["lint", "--fail-on", "error"]),
    ("reading manifests", &["compile"]),
    ("reading manifests", &["describe", "shop/db"]),
    (
        "reading manifests",
        &["eval", "--from", "shop/web", "--to", "shop/api", "--port", "http", "--expect", "allow"],
    ),
    ("reading manifests", &["test", "--record", "--external", "off"]),
    ("reading manifests", &["diff", "--without", "StatefulSet/shop/db"]),
    (
        "reading manifests",
        &[
            "prove",
            "--backend",
            "none",
            "--allow-simulated",
            "--from",
            "shop/web",
            "--to",
            "shop/api",
            "--port",
            "http",
        ],
    ),
];

#[test]
fn a_terminal_is_told_what_takes_longer_than_a_second_and_then_has_nothing_of_it() {
    let directory = tempfile::tempdir().expect("a directory");
    for (what, arguments) in WAITING {
        let (master, slave) = terminal();
        let held = start(arguments, directory.path(), Stdio::from(slave));
        let screen = follow(master);
        let (since, mut seen) = (Instant::now(), String::new());
        read_until(&screen, Some(&format!("{what}: 1 s")), &mut seen);
        assert!(seen.contains(&format!("\r{what}: 1 s\u{1b}[K")), "{arguments:?}: {seen:?}");
        assert!(since.elapsed() >= Duration::from_millis(900), "nobody wants to be told at once");
        let (code, stdout) = held.go_on();
        read_until(&screen, None, &mut seen);
        assert!(matches!(code, Some(0 | 1)), "{arguments:?}: {seen}");
        assert!(!stdout.is_empty() && !stdout.contains(what) && !stdout.contains('\u{1b}'), "{stdout:?}");
        // The last that is written of it takes it away.
        let after = seen.rsplit(what).next().unwrap_or_default();
        assert!(after.contains("\r\u{1b}[K"), "{arguments:?}: {seen:?}");
    }
}

#[test]
fn neither_a_pipe_nor_somebody_who_wants_quiet_is_told() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut held = start(&["connections"], directory.path(), Stdio::piped());
    let errors = follow(held.child.stderr.take().expect("a pipe"));
    std::thread::sleep(Duration::from_millis(2500));
    let (code, _) = held.go_on();
    let mut seen = String::new();
    read_until(&errors, None, &mut seen);
    assert!(code == Some(0) && !seen.contains("listing") && !seen.contains('\r'), "{seen:?}");

    let (master, slave) = terminal();
    let held = start(&["connections", "-q"], directory.path(), Stdio::from(slave));
    let screen = follow(master);
    std::thread::sleep(Duration::from_millis(2500));
    let (code, _) = held.go_on();
    let mut seen = String::new();
    read_until(&screen, None, &mut seen);
    assert_eq!((code, seen.as_str()), (Some(0), ""));
}
