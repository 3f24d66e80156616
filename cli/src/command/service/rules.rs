//! The rules of a node, from the files that were named.
//!
//! Invariant: a text that is not what its option says is an error that names the file, the line or row, and the command
//! that prints the right one.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use netlab_core::service::comparison::Given;
use netlab_core::service::trace::Rules;
use netlab_core::service::{cilium, iptables, nftables};

use crate::args::service::Trace;
use crate::failure::Failure;

/// All rules that were named, with where they are from: one proxy's, one entry for each family.
pub(super) fn given(args: &Trace) -> Result<Vec<Given>, Failure> {
    let mut all = Vec::new();
    if let Some(path) = &args.iptables_save {
        let parsed = iptables::dump::parse(&read(path)?);
        let rules = parsed.map_err(|error| refused(path, "iptables-save", &error))?;
        all.push(Given { rules: Rules::Iptables(rules), source: path.display().to_string() });
    }
    if let Some(path) = &args.nft {
        let parsed = nftables::dump::parse(&read(path)?);
        let rules = parsed.map_err(|error| refused(path, "nft -j list table ip kube-proxy", &error))?;
        all.push(Given { rules: Rules::Nftables(rules), source: path.display().to_string() });
    }
    if let Some(first) = args.cilium.first() {
        let source = first.display().to_string();
        all.extend(
            cilium(&args.cilium)?
                .into_iter()
                .map(|dump| Given { rules: Rules::Cilium(dump), source: source.clone() }),
        );
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
        let pin = format!(
            "{}/{}",
            cilium::PINS,
            cilium::names(netlab_core::model::service::AddressType::Ipv4).services
        );
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

pub(super) fn read(path: &Path) -> Result<String, Failure> {
    let mut bytes = Vec::new();
    let read = if path == Path::new("-") {
        std::io::stdin().lock().read_to_end(&mut bytes).map(drop)
    } else {
        std::fs::read(path).map(|read| bytes = read)
    };
    let failure = || Failure::unreadable(format!("cannot read `{}`", path.display()));
    read.map_err(|error| failure().because(&error))?;
    String::from_utf8(bytes).map_err(|error| failure().because(&error))
}
