//! The rules by which a node's proxy leads packets to Services, and its connections, as the node's own tools print them.
//!
//! Invariant: only listing commands are run, inside the namespace; nothing is changed. Texts that a proxy wrote some of
//! (iptables rules with the chain `KUBE-SERVICES`, an nftables table `kube-proxy`) are told from those of others. Which of
//! several proxies' rules are in use is not decided here.

use std::io;
use std::process::{Command, Stdio};

use crate::capability::find_tool;
use crate::{Netns, NodeError};

/// What a node has of a proxy's rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProxyRules {
    /// Texts of `iptables-save` and its like with a proxy's rules, both families and both variants.
    pub iptables: Vec<Listing>,
    /// Those without, of the kernel's newer interface, which the ruleset of nftables has, too.
    pub iptables_of_others: Vec<Listing>,
    /// Those without, of the older interface.
    pub legacy_of_others: Vec<Listing>,
    /// Texts of `nft -j list ruleset`, by the family in which it has the proxy's table: `ip`, `ip6`. What tables of others
    /// do to packets is in it, too.
    pub nftables: Vec<(&'static str, Listing)>,
    /// The whole ruleset of nftables, whether a proxy has a table in it or not; `None` when there is no table at all.
    pub ruleset: Option<Listing>,
    /// Why the ruleset of nftables is not known, where it is not.
    pub ruleset_unknown: Option<String>,
    /// Tables of the older interface that no command was there to print, after `iptables` or `ip6tables`.
    pub legacy_unknown: Vec<(&'static str, String)>,
    /// Commands that are not there, so that what they would have printed is not known.
    pub not_found: Vec<&'static str>,
}

/// What a command printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// The command with its arguments.
    pub command: String,
    /// Its output.
    pub text: String,
}

/// The name of the table of nftables mode.
const TABLE: &str = "kube-proxy";
/// The chain that iptables mode always has.
const CHAIN: &str = ":KUBE-SERVICES ";

/// Reads them.
pub fn read(netns: &Netns) -> Result<ProxyRules, NodeError> {
    let mut rules = ProxyRules::default();
    // A kernel without nftables has no such rules; lacking the privilege is another matter.
    let tables = match find_tool("nft", &["--version"]).map(|_| run(netns, "nft", &["list", "tables"])) {
        Some(Err(error)) if error.is_permission() => return Err(error),
        Some(Ok(tables)) => Some(tables),
        Some(Err(_)) | None => None,
    };
    if let Some(tables) = tables {
        let has = |family: &&str| {
            let line = format!("table {family} {TABLE}");
            tables.text.lines().any(|table| table.trim() == line)
        };
        let families: Vec<&str> = ["ip", "ip6"].into_iter().filter(has).collect();
        let listing = (!tables.text.trim().is_empty())
            .then(|| run(netns, "nft", &["-j", "-a", "list", "ruleset"]))
            .transpose();
        match listing {
            Ok(listing) => {
                let of = |family| Some((family, listing.clone()?));
                rules.nftables.extend(families.into_iter().filter_map(of));
                rules.ruleset = listing;
            }
            // One that was built without JSON lists no proxy's table, which others may do without.
            Err(error) if families.is_empty() => rules.ruleset_unknown = Some(error.to_string()),
            Err(error) => return Err(error),
        }
    } else {
        rules.not_found.push("nft");
        if find_tool("nft", &["--version"]).is_none() {
            rules.ruleset_unknown = Some("`nft` is not on this machine".to_owned());
        }
    }
    // Rules of the older kernel interface are in neither the newer command's listing nor that of `nft`.
    let variants =
        ["iptables-nft-save", "iptables-legacy-save", "ip6tables-nft-save", "ip6tables-legacy-save"];
    let is_there = |command: &&str| find_tool(command, &["--version"]).is_some();
    let mut found: Vec<&str> = variants.into_iter().filter(is_there).collect();
    let mut is_legacy_known = found.iter().any(|command| is_legacy(command));
    if found.is_empty() {
        found.extend(["iptables-save", "ip6tables-save"].into_iter().filter(is_there));
        let newer = |command: &&str| {
            run(netns, command, &["--version"]).is_ok_and(|said| said.text.contains("nf_tables"))
        };
        is_legacy_known = !found.is_empty() && !found.iter().any(newer);
    }
    for command in &found {
        let listing = run(netns, command, &[])?;
        // One of before there were two knows the older alone.
        let is_older = is_legacy(command) || is_legacy_known && !command.contains("-nft-");
        let of = match (is_proxy_s(&listing), is_older) {
            (true, _) => &mut rules.iptables,
            (false, true) => &mut rules.legacy_of_others,
            (false, false) => &mut rules.iptables_of_others,
        };
        of.push(listing);
    }
    if !is_legacy_known {
        rules.legacy_unknown = legacy_tables(netns)?;
    }
    if found.is_empty() {
        rules.not_found.push("iptables-save");
    }
    Ok(rules)
}

fn is_legacy(command: &str) -> bool {
    command.contains("-legacy-")
}

fn is_proxy_s(listing: &Listing) -> bool {
    listing.text.lines().any(|line| line.starts_with(CHAIN))
}

/// The tables of iptables' older kernel interface; a kernel without it has no such file.
fn legacy_tables(netns: &Netns) -> Result<Vec<(&'static str, String)>, NodeError> {
    let mut tables = Vec::new();
    for (file, command) in [("ip_tables_names", "iptables"), ("ip6_tables_names", "ip6tables")] {
        let read = netns.run(|| std::fs::read_to_string(format!("/proc/thread-self/net/{file}")))?;
        tables.extend(read.unwrap_or_default().lines().map(|table| (command, table.to_owned())));
    }
    Ok(tables)
}

/// The connections that the kernel keeps for the namespace: `/proc/net/nf_conntrack`, or what `conntrack -L` prints
/// where a kernel has no such file.
pub fn connections(netns: &Netns) -> Result<Listing, NodeError> {
    const FILE: &str = "/proc/thread-self/net/nf_conntrack";
    match netns.run(|| std::fs::read_to_string(FILE))? {
        Ok(text) => Ok(Listing { command: "/proc/net/nf_conntrack".to_owned(), text }),
        // Not there: connections were never tracked, or the kernel shows them only by netlink.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            run(netns, "conntrack", &["-L", "-o", "extended"])
        }
        Err(source) => Err(NodeError::Command {
            command: "/proc/net/nf_conntrack".to_owned(),
            said: "it cannot be read".to_owned(),
            source,
        }),
    }
}

fn run(netns: &Netns, command: &str, arguments: &[&str]) -> Result<Listing, NodeError> {
    let whole = std::iter::once(command).chain(arguments.iter().copied()).collect::<Vec<_>>().join(" ");
    let failed =
        |said: String, source: io::Error| NodeError::Command { command: whole.clone(), said, source };
    // Where administrators' tools are when `PATH` leaves them out.
    let program = find_tool(command, &["--version"]).map_or_else(|| command.into(), |tool| tool.path);
    let output = netns
        .run(|| Command::new(program).args(arguments).stdin(Stdio::null()).env("LC_ALL", "C").output())?
        .map_err(|source| failed("it cannot be run".to_owned(), source))?;
    if output.status.success() {
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        return Ok(Listing { command: whole, text });
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default().to_owned();
    let denied = ["Operation not permitted", "Permission denied"].iter().any(|words| said.contains(words));
    let errno = if denied { libc::EPERM } else { libc::EIO };
    Err(failed(said, io::Error::from_raw_os_error(errno)))
}
