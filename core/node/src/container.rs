//! A container on this node, seen from outside: its processes, its network namespace, its files, its libc.
//!
//! Invariant: a file is looked up within the container's root. A link in it, absolute or not, never leads to a file of the
//! node's (`openat2(2)`, `RESOLVE_IN_ROOT`). Everything is of the one process that was named: its directory in `/proc` is held,
//! so that another process that gets its number is not taken for it, and so is its mount namespace, without which a file that
//! was mounted over another (`/etc/resolv.conf`) would uncover that when the process ends. Nothing in the container is run.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use nix::fcntl::{OFlag, OpenHow, ResolveFlag, open, openat, openat2};
use nix::sys::stat::Mode;

use crate::{Netns, NodeError};

/// Configuration files are small; what is larger than this is cut off.
const LARGEST_TEXT: u64 = 1 << 20;
/// How much of a program or a library is searched.
const LARGEST_PROGRAM: u64 = 64 << 20;

/// A process in a container.
#[derive(Debug)]
pub struct Container {
    pid: u32,
    /// `/proc/PID`: of this process for good, whoever gets its number later.
    process: OwnedFd,
    /// Held so that what is mounted in the container stays mounted when its last process ends.
    _mounts: OwnedFd,
    root: OwnedFd,
}

impl Container {
    /// The container that a process runs in.
    ///
    /// # Errors
    /// When there is no such process, or it is not ours to look at (`PTRACE_MODE_READ`).
    pub fn of_process(pid: u32) -> Result<Self, NodeError> {
        let path = PathBuf::from(format!("/proc/{pid}"));
        let failed = |path: PathBuf| {
            move |errno: nix::Error| NodeError::OpenContainer { pid, path, source: errno.into() }
        };
        let directory = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        // A process that is not there is told by what was to be read of it.
        let process = open(&path, directory, Mode::empty()).map_err(failed(path.join("root")))?;
        // The mounts first: from then on the root, too, is as the process has it.
        let mounts = openat(&process, "ns/mnt", OFlag::O_RDONLY | OFlag::O_CLOEXEC, Mode::empty())
            .map_err(failed(path.join("ns/mnt")))?;
        let root = openat(&process, "root", directory, Mode::empty()).map_err(failed(path.join("root")))?;
        Ok(Self { pid, process, _mounts: mounts, root })
    }

    /// The process.
    #[must_use]
    pub const fn pid(&self) -> u32 {
        self.pid
    }

    /// True when the process has ended since: then its pod may have, too, and what its network does is no fault of it.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        let Some(stat) = self.of_itself("stat", LARGEST_TEXT) else { return true };
        // proc_pid_stat(5): the state follows the command, which is in parentheses and may hold any of these.
        let end = stat.iter().rposition(|byte| *byte == b')');
        let state = end.and_then(|end| stat.get(end + 2));
        matches!(state, None | Some(b'Z' | b'X' | b'x'))
    }

    /// Its network namespace.
    ///
    /// # Errors
    /// As for [`Netns::from_pid`], and when the process has ended.
    pub fn netns(&self) -> Result<Netns, NodeError> {
        let open = || -> io::Result<Netns> {
            let flags = OFlag::O_RDONLY | OFlag::O_CLOEXEC;
            Netns::from_fd(openat(&self.process, "ns/net", flags, Mode::empty())?)
        };
        open().map_err(|source| NodeError::OpenNamespace {
            path: format!("/proc/{}/ns/net", self.pid).into(),
            source,
        })
    }

    /// The text of a file; `None` when the container has none. Bytes that are no UTF-8 become replacement characters.
    ///
    /// # Errors
    /// When it is there and cannot be read.
    pub fn text(&self, path: &str) -> Result<Option<String>, NodeError> {
        match self.bytes(Path::new(path)) {
            Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(NodeError::OpenContainer { pid: self.pid, path: path.into(), source }),
        }
    }

    /// The resolver that the process uses, `glibc:2.36`, `musl:1.2.5` or `go`; `None` when it cannot be told. Which it is
    /// follows from what the process has mapped, not from what the image has.
    #[must_use]
    pub fn libc(&self) -> Option<String> {
        let maps = String::from_utf8_lossy(&self.of_itself("maps", LARGEST_PROGRAM)?).into_owned();
        // The mapped file itself: its path is written as our own root would have it, and may not exist there.
        let mapped = |start: &str| -> Option<String> {
            let mut lines = maps.lines().map(|line| line.split_ascii_whitespace());
            lines.find_map(|mut line| {
                let (range, path) = (line.next()?, line.nth(4)?);
                let is_it = path.rsplit('/').next().is_some_and(|name| name.starts_with(start));
                is_it.then(|| format!("map_files/{}", trimmed(range)))
            })
        };
        let version =
            |path: &str, find: fn(&[u8]) -> Option<String>| find(&self.of_itself(path, LARGEST_PROGRAM)?);
        if let Some(path) = mapped("ld-musl-").or_else(|| mapped("libc.musl-")) {
            return Some(versioned("musl", version(&path, musl_version)));
        }
        if let Some(path) = mapped("libc.so.6").or_else(|| mapped("libc-2.")) {
            return Some(versioned("glibc", version(&path, glibc_version)));
        }
        let program = self.of_itself("exe", LARGEST_PROGRAM)?;
        contains(&program, b"\xff Go buildinf:").then(|| "go".to_owned())
    }

    /// A file of the process's directory in `/proc`; nothing once it has ended.
    fn of_itself(&self, path: &str, limit: u64) -> Option<Vec<u8>> {
        let flags = OFlag::O_RDONLY | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK;
        let file = File::from(openat(&self.process, path, flags, Mode::empty()).ok()?);
        let mut bytes = Vec::new();
        file.take(limit).read_to_end(&mut bytes).ok()?;
        Some(bytes)
    }

    fn bytes(&self, path: &Path) -> io::Result<Vec<u8>> {
        let how = OpenHow::new()
            .flags(OFlag::O_RDONLY | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK)
            .resolve(ResolveFlag::RESOLVE_IN_ROOT | ResolveFlag::RESOLVE_NO_MAGICLINKS);
        let file = File::from(openat2(&self.root, path, how)?);
        if !file.metadata()?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"));
        }
        let mut bytes = Vec::new();
        file.take(LARGEST_TEXT).read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

/// The processes of a pod on this node, by the pod's UID in their control groups (`kubepods…/pod<UID>/…`, with `-` or `_`
/// as the driver has it), lowest number first; the sandbox's own process comes first where it has the lowest.
#[must_use]
pub fn processes_of_pod(uid: &str) -> Vec<u32> {
    let names = [format!("pod{uid}"), format!("pod{}", uid.replace('-', "_"))];
    let of_pod = |pid: &u32| {
        let groups = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        groups.split(['/', '\n']).any(|part| names.iter().any(|name| is_named(part, name)))
    };
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut pids: Vec<u32> =
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(of_pod).collect();
    pids.sort_unstable();
    pids
}

/// Addresses as `map_files` writes them: without leading zeros, which `maps` has.
fn trimmed(range: &str) -> String {
    let part = |text: &str| {
        let digits = text.trim_start_matches('0');
        if digits.is_empty() { "0".to_owned() } else { digits.to_owned() }
    };
    range
        .split_once('-')
        .map_or_else(|| range.to_owned(), |(start, end)| format!("{}-{}", part(start), part(end)))
}

/// `pod<UID>` (cgroupfs) or `kubepods-burstable-pod<UID>.slice` (systemd).
fn is_named(part: &str, name: &str) -> bool {
    let part = part.strip_suffix(".slice").unwrap_or(part);
    part == name || part.strip_suffix(name).is_some_and(|rest| rest.ends_with('-'))
}

fn versioned(family: &str, version: Option<String>) -> String {
    version.map_or_else(|| family.to_owned(), |version| format!("{family}:{version}"))
}

/// `… stable release version 2.36.`, as the library prints when it is run.
fn glibc_version(library: &[u8]) -> Option<String> {
    let marker = b" release version ";
    let start = library.windows(marker.len()).position(|window| window == marker)? + marker.len();
    number(library.get(start..)?)
}

/// `__libc_version` of `src/internal/version.c`: a string of its own.
fn musl_version(library: &[u8]) -> Option<String> {
    let strings = library.split(|byte| *byte == 0);
    let mut versions = strings.filter(|text| text.len() <= 12 && text.contains(&b'.')).filter_map(|text| {
        let version = number(text)?;
        (version.len() == text.len() && version.split('.').count() == 3).then_some(version)
    });
    versions.next()
}

/// Digits and dots at the start, without a last dot.
fn number(text: &[u8]) -> Option<String> {
    let end = text.iter().position(|byte| !byte.is_ascii_digit() && *byte != b'.').unwrap_or(text.len());
    let text = std::str::from_utf8(text.get(..end)?).ok()?.trim_end_matches('.');
    (text.contains('.') && !text.starts_with('.')).then(|| text.to_owned())
}

fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    haystack.windows(needle.len()).any(|window| window == needle)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_found_in_libraries() {
        let glibc = b"\0GNU C Library (Debian GLIBC 2.36-9+deb12u13) stable release version 2.36.\nCopyright";
        assert_eq!(glibc_version(glibc).as_deref(), Some("2.36"));
        assert_eq!(
            musl_version(b"\0LD_PRELOAD\x001.2.5\0musl libc (x86_64)\nVersion %s\n").as_deref(),
            Some("1.2.5")
        );
        assert_eq!(musl_version(b"\x001.2\0 1.2.5\0a1.2.5\0"), None);
        assert_eq!(glibc_version(b"no version here"), None);
    }

    #[test]
    fn control_groups_of_both_drivers_name_the_pod() {
        let uid = "5d1b1c8e-1b7d-4d1e-9a54-0d2d3f5b6c7d";
        let flat = uid.replace('-', "_");
        assert!(is_named(&format!("pod{uid}"), &format!("pod{uid}")));
        assert!(is_named(&format!("kubepods-besteffort-pod{flat}.slice"), &format!("pod{flat}")));
        assert!(!is_named(&format!("xpod{uid}"), &format!("pod{uid}")));
        assert!(!is_named(&format!("pod{uid}-other"), &format!("pod{uid}")));
    }
}
