//! `netlab enforce map`: a map as the kernel holds it, in words.

use netlab_core::envelope::Envelope;
use serde_json::json;

use super::{ask, twin};
use crate::args::enforce::{Map, MapName};
use crate::args::globals::{Format, Globals};
use crate::enforcement::{MapDump, MapRow, NodeMap, operation};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::layout::counted;
use crate::output::table::Table;
use crate::output::terminal::Terminal;

/// Asks and prints.
pub(crate) fn run(args: &Map, globals: &Globals, terminal: &Terminal) -> Result<Exit, Failure> {
    if globals.selector.is_some() {
        return Err(Failure::unreadable("`-l` has no meaning here: maps know pods by name, not by label")
            .hint("`-n` shows the rows of one namespace's pods"));
    }
    let name = match args.map {
        MapName::Policy => "policy",
        MapName::Devices => "devices",
        MapName::Peers => "peers",
        MapName::Cidrs => "cidrs",
        MapName::Services => "services",
        MapName::Counters => "counters",
        MapName::Conntrack => "conntrack",
    };
    let mut dump: MapDump = ask(&args.lab.lab, operation::MAP, json!(name))?;
    if let Some(namespace) = globals.listed_namespace() {
        let prefix = format!("{namespace}/");
        for node in &mut dump.nodes {
            node.rows.retain(|row| row.pods.iter().any(|pod| pod.starts_with(&prefix)));
        }
    }
    terminal.answer(&Envelope::new("MapDump", &dump, Vec::new()), |terminal| {
        render(&dump, args.map, terminal.format == Format::Wide)
    })?;
    Ok(Exit::Yes)
}

fn render(dump: &MapDump, map: MapName, wide: bool) -> String {
    let mut text = String::new();
    if dump.nodes.is_empty() {
        return "nothing is in force\n".to_owned();
    }
    for node in &dump.nodes {
        text += &format!(
            "{} id {} on {}: {}\n",
            node.map,
            node.map_id,
            node.node,
            counted(node.rows.len(), "row")
        );
        text += &table(node, map, wide);
        text += &twin(&format!("bpftool map dump id {}", node.map_id));
        text.push('\n');
    }
    text.truncate(text.trim_end().len());
    text + "\n"
}

fn table(node: &NodeMap, map: MapName, wide: bool) -> String {
    let headings: &[&str] = match map {
        MapName::Policy => &["RULESET", "DIRECTION", "PORTS", "PEERS", "VERDICT", "ENTRY", "BECAUSE"],
        MapName::Devices => &["POD", "INTERFACE", "RULESET", "GENERATION", "INGRESS", "EGRESS"],
        MapName::Peers => &["ADDRESS", "CLASS"],
        MapName::Cidrs => &["PREFIX", "CLASS"],
        MapName::Services => &["ADDRESS", "PROTOCOL", "PEERS:PORT", "DIFFERENT VERDICTS"],
        MapName::Counters => &["ENTRY", "PACKETS", "BECAUSE"],
        MapName::Conntrack => &["PROTOCOL", "POD", "PEER", "OPENED BY", "ENTRY"],
    };
    let mut table = if wide {
        Table::with_headings(headings.iter().copied().chain(["KEY", "VALUE"]))
    } else {
        Table::with_headings(headings.iter().copied())
    };
    for MapRow { key_hex, value_hex, words, .. } in &node.rows {
        let raw = [key_hex, value_hex].into_iter().filter(|_| wide);
        table.row(words.iter().chain(raw).cloned());
    }
    table.finish()
}
