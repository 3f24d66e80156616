//! What this machine can do for netlab: the rows of `netlab check` that concern the machine.
//!
//! Invariant: looking changes nothing that lasts (what has to be tried is tried in a child that ends). Knows no
//! cluster and no BPF object; whoever prints adds those rows.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::sched::{CloneFlags, unshare};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, fork};
use serde::{Deserialize, Serialize};

use crate::{Netns, sysctl};

/// How a row stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// There, and good enough.
    Ok,
    /// There, but something will be missing.
    Warn,
    /// Not there, and needed.
    Fail,
    /// Not there, and optional.
    Absent,
}

/// One row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Item {
    /// A stable name: `kernel`, `privilege`, `rootless`, …
    pub id: String,
    /// How it stands.
    pub status: Status,
    /// What was found, in one line.
    pub text: String,
    /// What to do about it.
    pub hint: Option<String>,
}

/// All rows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// In the order in which they are shown.
    pub items: Vec<Item>,
}

impl Report {
    /// Looks at this machine.
    pub fn gather() -> Self {
        let items = vec![
            kernel(),
            privilege(),
            namespaces(),
            rootless(),
            ipv6(),
            file_system(
                "bpffs",
                "bpf",
                "/sys/fs/bpf",
                "only `enforce` needs it: mount -t bpf bpf /sys/fs/bpf",
            ),
            file_system(
                "tracefs",
                "tracefs",
                "/sys/kernel/tracing",
                "drop reasons need it: mount -t tracefs tracefs /sys/kernel/tracing",
            ),
            tool("nft", &["--version"], "the nft backend needs it: install nftables"),
            tool("bpftool", &["version"], "only for reading maps by hand: install bpftool"),
            tool("ip", &["-V"], "only for `lab up --print`: install iproute2"),
        ];
        Self { items }
    }

    /// A row by its name.
    pub fn item(&self, id: &str) -> Option<&Item> {
        self.items.iter().find(|item| item.id == id)
    }

    /// True when the row is there and good.
    pub fn is_ok(&self, id: &str) -> bool {
        self.item(id).is_some_and(|item| item.status == Status::Ok)
    }
}

/// The release of the running kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelRelease {
    /// As `uname -r` prints it.
    pub text: String,
    /// Its first two numbers.
    pub version: (u32, u32),
}

impl KernelRelease {
    /// The running kernel's.
    pub fn running() -> Option<Self> {
        let text = std::fs::read_to_string("/proc/sys/kernel/osrelease").ok()?;
        Self::parse(text.trim())
    }

    fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.split(|c: char| !c.is_ascii_digit()).map(str::parse);
        let version = (numbers.next()?.ok()?, numbers.next()?.ok()?);
        Some(Self { text: text.to_owned(), version })
    }

    /// tcx links (`BPF_TCX_INGRESS`) came with 6.6.
    pub const fn has_tcx(&self) -> bool {
        self.version.0 > 6 || (self.version.0 == 6 && self.version.1 >= 6)
    }
}

/// The capabilities that netlab uses, with their numbers (`linux/capability.h`) and what for.
const CAPABILITIES: [(&str, u8); 5] =
    [("CAP_NET_ADMIN", 12), ("CAP_NET_RAW", 13), ("CAP_SYS_ADMIN", 21), ("CAP_PERFMON", 38), ("CAP_BPF", 39)];

/// The names of the capabilities that this process lacks (`CapEff` of `/proc/self/status`).
pub fn missing_capabilities() -> Vec<&'static str> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok())
        .unwrap_or_default();
    CAPABILITIES.iter().filter(|(_, bit)| effective >> bit & 1 == 0).map(|(name, _)| *name).collect()
}

/// Tries to become root of a user namespace with a network namespace in it, in a child that ends at once.
pub fn try_user_namespace() -> io::Result<()> {
    // SAFETY: the child makes only the system calls below, which take no lock and allocate nothing, and leaves
    // through `_exit`; so it does not matter which locks other threads held.
    match unsafe { fork() }? {
        ForkResult::Child => {
            // Two steps, as in `userns::enter`: the second needs a capability inside the first's namespace.
            let outcome = unshare(CloneFlags::CLONE_NEWUSER).and_then(|()| unshare(CloneFlags::CLONE_NEWNET));
            let code = outcome.map_or_else(|errno| errno as i32, |()| 0);
            // SAFETY: `_exit` runs no handlers and flushes nothing that the parent still owns.
            unsafe { libc::_exit(code) }
        }
        ForkResult::Parent { child } => match waitpid(child, None)? {
            WaitStatus::Exited(_, 0) => Ok(()),
            WaitStatus::Exited(_, errno) => Err(io::Error::from_raw_os_error(errno)),
            _ => Err(io::Error::other("the trial was killed")),
        },
    }
}

/// A program on `PATH`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tool {
    /// Where it is.
    pub path: PathBuf,
    /// Its version, as it prints it.
    pub version: Option<String>,
}

/// Finds a program on `PATH` (and where administrators' tools are when `PATH` leaves them out).
pub fn find_tool(name: &str, version_arguments: &[&str]) -> Option<Tool> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::split_paths(&path)
        .chain(["/usr/sbin", "/sbin"].map(PathBuf::from))
        .map(|directory| directory.join(name))
        .find(|candidate| is_executable(candidate))?;
    let output =
        Command::new(&path).args(version_arguments).stdin(Stdio::null()).stderr(Stdio::null()).output().ok();
    let version = output.and_then(|output| {
        let text = String::from_utf8_lossy(&output.stdout);
        text.split([' ', ',', '\n']).find_map(version_word).map(str::to_owned)
    });
    Some(Tool { path, version })
}

/// `v1.0.6`, `7.1.0` and `iproute2-6.1.0` name versions.
fn version_word(word: &str) -> Option<&str> {
    let word = word.rsplit('-').next()?.trim_start_matches('v');
    (word.starts_with(|c: char| c.is_ascii_digit()) && word.contains('.')).then_some(word)
}

fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

fn item(id: &str, status: Status, text: impl Into<String>, hint: Option<&str>) -> Item {
    Item { id: id.to_owned(), status, text: text.into(), hint: hint.map(str::to_owned) }
}

fn kernel() -> Item {
    let Some(release) = KernelRelease::running() else {
        return item("kernel", Status::Fail, "no Linux kernel release in /proc", None);
    };
    let has_btf = Path::new("/sys/kernel/btf/vmlinux").exists();
    let btf = if has_btf { "BTF" } else { "no BTF" };
    let tcx = if release.has_tcx() { "tcx" } else { "no tcx" };
    let status = if release.has_tcx() { Status::Ok } else { Status::Fail };
    let hint = (!release.has_tcx()).then_some("the tc backend needs kernel 6.6; the nft backend does not");
    item("kernel", status, format!("{}; {btf}, {tcx} (needs 6.6)", release.text), hint)
}

fn privilege() -> Item {
    let missing = missing_capabilities();
    if missing.is_empty() {
        let names: Vec<&str> = CAPABILITIES.iter().map(|(name, _)| *name).collect();
        return item("privilege", Status::Ok, names.join(", "), None);
    }
    let hint = "sudo, or setcap cap_bpf,cap_net_admin,cap_net_raw,cap_sys_admin,cap_perfmon+ep";
    item("privilege", Status::Fail, format!("{} missing", missing.join(", ")), Some(hint))
}

fn namespaces() -> Item {
    match Netns::create() {
        Ok(_) => item("namespaces", Status::Ok, "network namespaces can be made", None),
        Err(error) => {
            let reason =
                std::error::Error::source(&error).map_or_else(String::new, |source| format!(": {source}"));
            let hint = "a lab needs them: sudo, or user namespaces (see rootless)";
            item("namespaces", Status::Fail, format!("{error}{reason}"), Some(hint))
        }
    }
}

fn rootless() -> Item {
    match try_user_namespace() {
        Ok(()) => item("rootless", Status::Ok, "user namespaces work without privilege", None),
        Err(error) => {
            let hint = "sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone, \
                        kernel.apparmor_restrict_unprivileged_userns";
            item("rootless", Status::Absent, format!("user namespaces do not work: {error}"), Some(hint))
        }
    }
}

fn ipv6() -> Item {
    if sysctl::has_ipv6() {
        item("ipv6", Status::Ok, "the kernel speaks IPv6", None)
    } else {
        let hint = "pods with IPv6 addresses need it: boot without ipv6.disable=1";
        item("ipv6", Status::Warn, "the kernel has no IPv6", Some(hint))
    }
}

fn file_system(id: &str, kind: &str, usual: &str, hint: &str) -> Item {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    // proc(5): the type follows a lone dash; the mount point is the fifth field.
    let found = mounts.lines().find_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        (after.split(' ').next() == Some(kind)).then(|| before.split(' ').nth(4))?
    });
    match found {
        Some(place) => item(id, Status::Ok, format!("mounted on {place}"), None),
        None => item(id, Status::Absent, format!("not mounted on {usual}"), Some(hint)),
    }
}

fn tool(name: &str, version_arguments: &[&str], hint: &str) -> Item {
    match find_tool(name, version_arguments) {
        Some(tool) => {
            let version = tool.version.map_or_else(String::new, |version| format!(" {version}"));
            item(name, Status::Ok, format!("{}{version}", tool.path.display()), None)
        }
        None => item(name, Status::Absent, "not found", Some(hint)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tcx_begins_with_6_6() {
        for (text, expected) in [
            ("6.6.0", true),
            ("6.18.44-rc1", true),
            ("7.0", true),
            ("6.5.13-generic", false),
            ("5.15.0-91-generic", false),
        ] {
            assert_eq!(KernelRelease::parse(text).expect(text).has_tcx(), expected, "{text}");
        }
        assert_eq!(KernelRelease::parse("unknown"), None);
    }

    #[test]
    fn versions_are_found_in_what_tools_print() {
        for (text, expected) in [
            ("nftables v1.0.6 (Lester Gooch #5)", "1.0.6"),
            ("bpftool v7.1.0\nusing libbpf v1.1", "7.1.0"),
            ("ip utility, iproute2-6.1.0, libbpf 1.1.0", "6.1.0"),
        ] {
            assert_eq!(text.split([' ', ',', '\n']).find_map(version_word), Some(expected));
        }
    }
}
