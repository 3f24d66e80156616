//! The rules and connections of a node, from the files or the namespace that were named.
//!
//! Invariant: a text that is not what its option says is an error that names the file, the line or row, and the command
//! that prints the right one. A namespace is only read; lacking the privilege for it is exit 4.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use netlab_core::model::service::AddressType;
use netlab_core::service::comparison::Given;
use netlab_core::service::conntrack::dump::Entry;
use netlab_core::service::trace::Rules;
use netlab_core::service::{beside, cilium, conntrack, iptables, nftables};
use netlab_node::proxy_rules::{self, Listing, ProxyRules};
use netlab_node::{Netns, NodeError};

use crate::args::service::Trace;
use crate::exit::Exit;
use crate::failure::Failure;

/// What is known of a node.
#[derive(Default)]
pub(super) struct Evidence {
    /// Rules, with where they are from: an entry for each proxy and family.
    pub(super) rules: Vec<Given>,
    /// Connections, and where they are from.
    pub(super) connections: Option<(String, Vec<Entry>)>,
}

/// All that was named.
pub(super) fn evidence(args: &Trace) -> Result<Evidence, Failure> {
    let mut evidence = Evidence { rules: given(args)?, connections: None };
    if let Some(place) = &args.node_netns {
        let netns = netns(place.as_deref())?;
        evidence.rules.extend(listed(&netns)?);
        let listing = proxy_rules::connections(&netns).map_err(|error| unlisted(&error))?;
        let entries = conntrack::dump::parse(&listing.text);
        let entries =
            entries.map_err(|error| refused(Path::new(&listing.command), "conntrack -L", &error))?;
        evidence.connections = Some((listing.command, entries));
    }
    if let Some(path) = &args.conntrack {
        let entries = conntrack::dump::parse(&read(path)?);
        let entries = entries.map_err(|error| refused(path, "conntrack -L -o extended", &error))?;
        evidence.connections = Some((path.display().to_string(), entries));
    }
    Ok(evidence)
}

/// The namespace that is meant: this process's own, a process's, or a file's.
fn netns(place: Option<&str>) -> Result<Netns, Failure> {
    let opened = match place {
        None => Netns::current(),
        Some(place) => match place.parse() {
            Ok(pid) => Netns::from_pid(pid),
            Err(_) => Netns::from_path(place),
        },
    };
    opened.map_err(|error| {
        let what = format!("`--node-netns {}` cannot be opened", place.unwrap_or_default());
        let exit = if error.is_permission() { Exit::NotAllowed } else { Exit::CannotRead };
        Failure::new(exit, what.replace(" `", "`")).because(&error).hint(
            "name a process on the node (1 is often one), or a file like /proc/1/ns/net or /run/netns/NAME",
        )
    })
}

fn listed(netns: &Netns) -> Result<Vec<Given>, Failure> {
    let listed = proxy_rules::read(netns).map_err(|error| unlisted(&error))?;
    let mut given = Vec::new();
    for (family, listing) in &listed.nftables {
        let parsed = nftables::dump::parse_family(&listing.text, family);
        let mut rules =
            parsed.map_err(|error| refused(Path::new(&listing.command), &listing.command, &error))?;
        // They are read with the command that they were written with.
        rules.has_iptables_mode &= listed.iptables.is_empty();
        rules.others.of_iptables.retain(|_| listed.iptables.is_empty());
        let beside = of_iptables(&listed, &[&listed.legacy_of_others], rules.family)?;
        let source = listing.command.clone();
        given.push(Given { rules: Rules::Nftables(rules), source, beside });
    }
    for listing in &listed.iptables {
        let rules = read_iptables(listing)?;
        let mut beside = of_nftables(&listed, rules.family())?;
        let others: [&[Listing]; 2] = [&listed.iptables_of_others, &listed.legacy_of_others];
        beside.extend(of_iptables(&listed, &others, rules.family())?);
        given.push(Given { rules: Rules::Iptables(rules), source: listing.command.clone(), beside });
    }
    if !given.is_empty() {
        return Ok(given);
    }
    if listed.not_found.is_empty() {
        return Err(Failure::unreadable(format!("{} has no rules of kube-proxy", netns.identity()))
            .caused_by("no table `kube-proxy` of nftables, no chain KUBE-SERVICES of iptables")
            .hint("is it the node's namespace? Cilium keeps Services in eBPF maps: `--cilium`"));
    }
    Err(Failure::not_allowed(format!("the rules of {} cannot be listed", netns.identity()))
        .caused_by(format!("not found on this machine: {}", listed.not_found.join(", "))))
}

fn read_iptables(listing: &Listing) -> Result<iptables::dump::Dump, Failure> {
    let parsed = iptables::dump::parse(&listing.text);
    let mut rules = parsed.map_err(|error| refused(Path::new(&listing.command), &listing.command, &error))?;
    // A table without any address is not known by what is in it.
    let is_v6 = listing.command.starts_with("ip6");
    rules.of_family(if is_v6 { AddressType::Ipv6 } else { AddressType::Ipv4 });
    Ok(rules)
}

/// Tables of iptables that a family's packets meet beside the proxy's rules.
fn of_iptables(
    listed: &ProxyRules,
    listings: &[&[Listing]],
    family: AddressType,
) -> Result<Vec<String>, Failure> {
    let mut tables = Vec::new();
    for listing in listings.iter().copied().flatten() {
        let rules = read_iptables(listing)?;
        if rules.family() == family {
            tables.extend(beside::tables_of_iptables(&rules, &listing.command));
        }
    }
    let of = if family == AddressType::Ipv6 { "ip6tables" } else { "iptables" };
    let unknown = listed.legacy_unknown.iter().filter(|(command, _)| *command == of);
    tables.extend(unknown.map(|(command, table)| {
        format!("table {table} of {command}-legacy: `{command}-legacy-save` is not on this machine")
    }));
    Ok(tables)
}

/// Tables of nftables that a family's packets meet beside rules of iptables mode.
fn of_nftables(listed: &ProxyRules, family: AddressType) -> Result<Vec<String>, Failure> {
    if let Some(why) = &listed.ruleset_unknown {
        return Ok(vec![format!("rules of nftables beside those of iptables mode: {why}")]);
    }
    let Some(ruleset) = &listed.ruleset else { return Ok(Vec::new()) };
    let printed = listed.iptables.iter().chain(&listed.iptables_of_others);
    let printed = printed.filter(|listing| !listing.command.contains("-legacy-"));
    let printed = printed.map(read_iptables).collect::<Result<Vec<_>, _>>()?;
    let printed: Vec<_> = printed.iter().filter(|rules| rules.family() == family).collect();
    let tables = beside::tables_of_nftables(&ruleset.text, family, &printed);
    tables.map_err(|error| refused(Path::new(&ruleset.command), &ruleset.command, &error))
}

fn unlisted(error: &NodeError) -> Failure {
    let failure = Failure::not_allowed("the node's rules cannot be listed").because(error);
    if error.is_permission() { failure.hint("run it as root on the node") } else { failure }
}

/// The rules of the files that were named.
fn given(args: &Trace) -> Result<Vec<Given>, Failure> {
    let mut all = Vec::new();
    if let Some(path) = &args.iptables_save {
        let parsed = iptables::dump::parse(&read(path)?);
        let rules = parsed.map_err(|error| refused(path, "iptables-save", &error))?;
        if !rules.is_of_proxy() {
            // Nothing is missing where nothing belongs.
            return Err(Failure::unreadable(format!("`{}` has no chain of kube-proxy", path.display()))
                .hint("its proxy is in another mode (`--nft`, `--cilium`), is another one, or never wrote"));
        }
        let source = path.display().to_string();
        all.push(Given { rules: Rules::Iptables(rules), source, beside: Vec::new() });
    }
    if let Some(path) = &args.nft {
        let text = read(path)?;
        let read = |family| nftables::dump::parse_family(&text, family);
        // A list of the whole ruleset may have both families.
        let tables: Vec<nftables::dump::Dump> =
            ["ip", "ip6"].into_iter().filter_map(|of| read(of).ok()).collect();
        if tables.is_empty() {
            nftables::dump::parse(&text)
                .map_err(|error| refused(path, "nft -j list table ip kube-proxy", &error))?;
        }
        let source = path.display().to_string();
        all.extend(tables.into_iter().map(|rules| Given {
            rules: Rules::Nftables(rules),
            source: source.clone(),
            beside: Vec::new(),
        }));
    }
    if let Some(first) = args.cilium.first() {
        let source = first.display().to_string();
        all.extend(cilium(&args.cilium)?.into_iter().map(|dump| Given {
            rules: Rules::Cilium(dump),
            source: source.clone(),
            beside: Vec::new(),
        }));
    }
    Ok(all)
}

fn cilium(paths: &[PathBuf]) -> Result<Vec<cilium::dump::Dump>, Failure> {
    const COMMAND: &str = "bpftool -j map dump";
    let mut maps = Vec::new();
    for path in paths {
        for file in files(path)? {
            let name = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            let read = cilium::dump::read_map(&name, &read(&file)?);
            maps.extend(read.map_err(|error| refused(&file, COMMAND, &error))?);
        }
    }
    cilium::dump::assemble(&maps).map_err(|error| {
        let pin = format!("{}/{}", cilium::PINS, cilium::names(AddressType::Ipv4).services);
        Failure::unreadable("no Services of Cilium were given")
            .because(&error)
            .hint(format!("`{COMMAND} pinned {pin}`, run as root on the node, prints them"))
    })
}

/// A file, or the files of a directory in the order of their names.
fn files(path: &Path) -> Result<Vec<PathBuf>, Failure> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let failure = |error: &std::io::Error| {
        Failure::unreadable(format!("cannot read `{}`", path.display())).because(error)
    };
    let mut files = Vec::new();
    for entry in std::fs::read_dir(path).map_err(|error| failure(&error))? {
        let file = entry.map_err(|error| failure(&error))?.path();
        if file.is_file() {
            files.push(file);
        }
    }
    files.sort();
    Ok(files)
}

fn refused(path: &Path, command: &str, error: &dyn std::error::Error) -> Failure {
    Failure::unreadable(format!("`{}` is not what `{command}` prints", path.display()))
        .because(error)
        .hint(format!("give the whole text of `{command}`, run as root on the node"))
}

/// The text of a file. Names and comments of other programs may hold any bytes; a proxy's own are ASCII.
fn read(path: &Path) -> Result<String, Failure> {
    let mut bytes = Vec::new();
    let read = if path == Path::new("-") {
        std::io::stdin().lock().read_to_end(&mut bytes).map(drop)
    } else {
        std::fs::read(path).map(|read| bytes = read)
    };
    let failure = || Failure::unreadable(format!("cannot read `{}`", path.display()));
    read.map_err(|error| failure().because(&error))?;
    Ok(String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}
