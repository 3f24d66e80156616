//! `/proc/sys/net`, as the calling thread's network namespace shows it.
//!
//! Invariant: these functions act on the namespace of the *thread* that calls them (the kernel resolves
//! `/proc/sys/net` through `current`), so they are called from [`crate::Netns::run`] or
//! [`crate::Netns::create_with`]. Knows no policy of which value is right.

use std::io::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::NodeError;

/// One assignment below `net`, in slashes: `ipv4/ip_forward`. (Dots are ambiguous: interface names hold them.)
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Sysctl {
    /// Path below `/proc/sys/net`.
    pub name: String,
    /// What to write.
    pub value: String,
}

impl Sysctl {
    /// An assignment.
    pub fn new(name: impl Into<String>, value: impl Into<String>) -> Self {
        Self { name: name.into(), value: value.into() }
    }
}

/// Writes one value.
pub fn write(sysctl: &Sysctl) -> Result<(), NodeError> {
    let attempt = || {
        // One write, no truncation: a sysctl takes its value from a single write at offset 0.
        let mut file = std::fs::OpenOptions::new().write(true).open(path(&sysctl.name))?;
        file.write_all(sysctl.value.as_bytes())
    };
    attempt().map_err(|source| NodeError::Sysctl {
        name: format!("net/{}", sysctl.name),
        value: sysctl.value.clone(),
        source,
    })
}

/// Reads one value, without its line end. `None` when this kernel has no such sysctl.
pub fn read(name: &str) -> Option<String> {
    std::fs::read_to_string(path(name)).ok().map(|text| text.trim_end().to_owned())
}

/// True when the kernel (and this namespace) speaks IPv6: without it there is no `net/ipv6` at all.
pub fn has_ipv6() -> bool {
    path("ipv6/conf/all/forwarding").exists()
}

fn path(name: &str) -> PathBuf {
    Path::new("/proc/sys/net").join(name)
}
