//! Becoming root of a user namespace, so that a lab needs no privilege on the machine.
//!
//! Invariant: [`enter`] changes the whole process and says so; it works only while the process has one thread,
//! because the kernel refuses otherwise (`unshare(2)`, EINVAL).

use std::io;

use nix::sched::{CloneFlags, unshare};
use nix::unistd::{Gid, Uid};

use crate::NodeError;

/// Moves this process into a fresh user namespace, where it is root with every capability, and into a fresh
/// network namespace that belongs to it. On `Err` the process may be left in a user namespace without a mapping;
/// the caller should end.
pub fn enter() -> Result<(), NodeError> {
    let (uid, gid) = (Uid::effective(), Gid::effective());
    unshare(CloneFlags::CLONE_NEWUSER)
        .map_err(|errno| failed("the system forbids it, or this process has more than one thread", errno))?;
    // Required before gid_map by an unprivileged writer (user_namespaces(7)).
    write("/proc/self/setgroups", "deny", "cannot give up setgroups")?;
    write("/proc/self/uid_map", &format!("0 {uid} 1"), "cannot map the user id to root")?;
    write("/proc/self/gid_map", &format!("0 {gid} 1"), "cannot map the group id to root")?;
    // A step of its own: some systems let anybody make a user namespace, but without the capabilities in it.
    unshare(CloneFlags::CLONE_NEWNET)
        .map_err(|errno| failed("the system gives no capabilities inside of it (AppArmor?)", errno))
}

fn write(path: &str, text: &str, step: &'static str) -> Result<(), NodeError> {
    std::fs::write(path, text).map_err(|source| NodeError::UserNamespace { step, source })
}

fn failed(step: &'static str, source: impl Into<io::Error>) -> NodeError {
    NodeError::UserNamespace { step, source: source.into() }
}
