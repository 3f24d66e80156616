//! What the kernel of a node holds, as text: a proxy's rules, conntrack entries, counters.
//!
//! Invariant: read only, inside the namespace that is given: its rules and `/proc/thread-self/net`, never those of the caller
//! (`/proc/net` is that of the process's main thread). Loading no module: a tool that is missing is told, not replaced.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::process::{Command, Stdio};

use netlab_core::model::service::AddressType;

use crate::{Netns, NodeError};

/// The rules of iptables of one family, as `iptables-save` or `ip6tables-save` prints them.
///
/// # Errors
/// When the tool is missing or fails, with what it said.
pub fn iptables_save(netns: &Netns, family: AddressType) -> Result<String, NodeError> {
    let tool = if family == AddressType::Ipv6 { "ip6tables-save" } else { "iptables-save" };
    run(netns, &[tool])
}

/// Every table of nftables, as `nft -j list ruleset` prints them.
///
/// # Errors
/// When the tool is missing or fails, with what it said.
pub fn nft_ruleset(netns: &Netns) -> Result<String, NodeError> {
    run(netns, &["nft", "-j", "list", "ruleset"])
}

/// The same for people, as `nft list ruleset` prints them.
///
/// # Errors
/// When the tool is missing or fails, with what it said.
pub fn nft_text(netns: &Netns) -> Result<String, NodeError> {
    run(netns, &["nft", "list", "ruleset"])
}

/// One table of nftables, as `nft -j list table` prints it; `None` when there is none of that name.
///
/// # Errors
/// When the tool is missing or fails, with what it said.
pub fn nft_table(netns: &Netns, family: AddressType, name: &str) -> Result<Option<String>, NodeError> {
    let family = if family == AddressType::Ipv6 { "ip6" } else { "ip" };
    let tables = run(netns, &["nft", "list", "tables", family])?;
    if !tables.lines().any(|line| line.trim() == format!("table {family} {name}")) {
        return Ok(None);
    }
    run(netns, &["nft", "-j", "list", "table", family, name]).map(Some)
}

/// Addresses, routes and UDP listeners, as `ip` and `ss` print them.
///
/// # Errors
/// When a tool is missing or fails, with what it said.
pub fn addresses(netns: &Netns) -> Result<String, NodeError> {
    let mut text = String::new();
    for words in [&["ip", "address"][..], &["ip", "route"], &["ip", "-6", "route"], &["ss", "-lnu"]] {
        text += &format!("# {}\n{}", words.join(" "), run(netns, words)?);
    }
    Ok(text)
}

/// Conntrack entries, in the words of `conntrack -L -o extended` (`/proc/net/nf_conntrack`).
///
/// # Errors
/// When the kernel does not show them.
pub fn conntrack(netns: &Netns) -> Result<String, NodeError> {
    file(netns, "/proc/thread-self/net/nf_conntrack")
}

/// UDP sockets, as `/proc/net/udp` and `/proc/net/udp6` tell them.
///
/// # Errors
/// When the kernel does not show them.
pub fn udp_sockets(netns: &Netns) -> Result<String, NodeError> {
    let mut text = file(netns, "/proc/thread-self/net/udp")?;
    // A kernel without IPv6 has no such file, and no such sockets.
    text += &file(netns, "/proc/thread-self/net/udp6").unwrap_or_default();
    Ok(text)
}

/// Counters of conntrack, summed over processors, with `count` and `max`: `insert_failed`, `drop`, `early_drop`. Empty where the
/// kernel has none.
///
/// # Errors
/// When the namespace cannot be entered.
pub fn conntrack_counters(netns: &Netns) -> Result<BTreeMap<String, u64>, NodeError> {
    let mut counters = BTreeMap::new();
    if let Ok(text) = file(netns, "/proc/thread-self/net/stat/nf_conntrack") {
        let mut lines = text.lines();
        let names: Vec<&str> = lines.next().unwrap_or_default().split_ascii_whitespace().collect();
        for line in lines {
            // One line for each processor, in hexadecimal; `entries` is that of the namespace on each.
            for (name, value) in names.iter().zip(line.split_ascii_whitespace()) {
                let value = u64::from_str_radix(value, 16).unwrap_or(0);
                let sum = counters.entry((*name).to_owned()).or_insert(0u64);
                *sum = if *name == "entries" { value } else { sum.saturating_add(value) };
            }
        }
    }
    for (name, path) in [
        ("count", "/proc/sys/net/netfilter/nf_conntrack_count"),
        ("max", "/proc/sys/net/netfilter/nf_conntrack_max"),
    ] {
        if let Some(value) = file(netns, path).ok().and_then(|text| text.trim().parse().ok()) {
            counters.insert(name.to_owned(), value);
        }
    }
    Ok(counters)
}

/// Counters of IP, UDP, TCP and ICMP, by protocol and name: `Udp.InErrors`, `Udp.RcvbufErrors`, `Udp.NoPorts`
/// (`/proc/net/snmp`).
///
/// # Errors
/// When the kernel does not show them.
pub fn protocol_counters(netns: &Netns) -> Result<BTreeMap<String, i64>, NodeError> {
    Ok(pairs_of_lines(&file(netns, "/proc/thread-self/net/snmp")?))
}

/// The same of what Linux counts besides: `TcpExt.IPReversePathFilter` (`/proc/net/netstat`).
///
/// # Errors
/// When the kernel does not show them.
pub fn extended_counters(netns: &Netns) -> Result<BTreeMap<String, i64>, NodeError> {
    Ok(pairs_of_lines(&file(netns, "/proc/thread-self/net/netstat")?))
}

/// Values of `/proc/sys`, by their dotted names; a name that this kernel or namespace does not have is left out, and a part `*`
/// stands for each interface.
///
/// # Errors
/// When the namespace cannot be entered.
pub fn sysctls(netns: &Netns, names: &[&str]) -> Result<BTreeMap<String, i64>, NodeError> {
    netns.run(|| {
        let mut found = BTreeMap::new();
        let mut read = |name: String| {
            let path = format!("/proc/sys/{}", name.replace('.', "/"));
            if let Some(value) = std::fs::read_to_string(path).ok().and_then(|text| text.trim().parse().ok())
            {
                found.insert(name, value);
            }
        };
        for name in names {
            match name.split_once(".*.") {
                None => read((*name).to_owned()),
                Some((before, after)) => {
                    let directory = format!("/proc/sys/{}", before.replace('.', "/"));
                    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
                    for entry in entries.filter_map(|entry| entry.file_name().into_string().ok()) {
                        // A dot in an interface's name cannot be told from those between the parts.
                        if !entry.contains('.') {
                            read(format!("{before}.{entry}.{after}"));
                        }
                    }
                }
            }
        }
        found
    })
}

/// `Udp: A B` and `Udp: 1 2`, one below the other.
fn pairs_of_lines(text: &str) -> BTreeMap<String, i64> {
    let lines: Vec<&str> = text.lines().collect();
    let mut counters = BTreeMap::new();
    for pair in lines.chunks(2) {
        let [names, values] = pair else { continue };
        let (Some((protocol, names)), Some((_, values))) = (names.split_once(':'), values.split_once(':'))
        else {
            continue;
        };
        for (name, value) in names.split_ascii_whitespace().zip(values.split_ascii_whitespace()) {
            if let Ok(value) = value.parse() {
                counters.insert(format!("{protocol}.{name}"), value);
            }
        }
    }
    counters
}

fn file(netns: &Netns, path: &str) -> Result<String, NodeError> {
    netns.run(|| std::fs::read_to_string(path))?.map_err(|source| NodeError::Dump {
        what: path.to_owned(),
        said: String::new(),
        source,
    })
}

fn run(netns: &Netns, words: &[&str]) -> Result<String, NodeError> {
    let what = words.join(" ");
    let failed = |said: &[u8], source: io::Error| NodeError::Dump {
        what: what.clone(),
        said: String::from_utf8_lossy(said).trim().to_owned(),
        source,
    };
    let Some((tool, arguments)) = words.split_first() else {
        return Err(failed(b"", ErrorKind::InvalidInput.into()));
    };
    let output = netns
        .run(|| Command::new(tool).args(arguments).stdin(Stdio::null()).output())?
        .map_err(|error| failed(b"", error))?;
    if !output.status.success() {
        return Err(failed(&output.stderr, io::Error::other(output.status.to_string())));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
