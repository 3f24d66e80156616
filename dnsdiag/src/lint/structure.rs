//! What keeps the server from starting: text, plugins, their words, listeners that two blocks want.
//!
//! A server that runs keeps its old configuration when the new one is refused, and does not come back after its next
//! restart: such a Corefile is a fault that waits.

use std::collections::BTreeMap;

use netlab_core::diagnostic::{Diagnostic, code};
use netlab_core::model::source::Position;

use super::ground::{Ground, Server};
use crate::corefile::{Block, Known, Token, ZoneKey, arguments, known};

pub(super) fn find(ground: &Ground<'_>, found: &mut Vec<Diagnostic>) {
    for server in &ground.servers {
        for problem in &server.file.problems {
            let severity = if problem.harmless { Diagnostic::warning } else { Diagnostic::error };
            let diagnostic = severity(code::COREFILE_SYNTAX, problem.message.clone());
            found.push(server.text.place(diagnostic.with_hint(problem.hint), Some(problem.position)));
        }
        for block in &server.file.blocks {
            keys(server, block, found);
            plugins(server, block, found);
        }
        listeners(server, found);
    }
}

/// Templates of addons have names between underscores where values come later.
pub(super) fn is_filled_in_later(token: &Token) -> bool {
    token.has_variable() || token.text.contains("__PILLAR__") || token.text.contains("{{")
}

fn keys(server: &Server, block: &Block, found: &mut Vec<Diagnostic>) {
    for key in block.keys.iter().filter(|key| !is_filled_in_later(key)) {
        if let Err(fault) = ZoneKey::read(&key.text) {
            let message = format!("`{}` is no zone: {fault}", key.text);
            let hint = if key.text.ends_with('{') {
                "write a blank before `{`"
            } else {
                "a zone is a domain name or a network, with an optional scheme before and `:PORT` behind it"
            };
            let diagnostic = Diagnostic::error(code::COREFILE_SYNTAX, message).with_hint(hint);
            found.push(server.text.place(diagnostic, Some(key.position)));
        } else if key.text.ends_with('{') {
            let message = format!("`{}` takes the brace for a part of the zone", key.text);
            let diagnostic =
                Diagnostic::error(code::COREFILE_SYNTAX, message).with_hint("write a blank before `{`");
            found.push(server.text.place(diagnostic, Some(key.position)));
        }
    }
}

/// Names that are properties of plugins, for a brace that is missing.
const PROPERTIES: [&str; 8] =
    ["fallthrough", "lameduck", "max_concurrent", "match", "policy", "pods", "prefetch", "ttl"];

fn plugins(server: &Server, block: &Block, found: &mut Vec<Diagnostic>) {
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    for plugin in block.plugins.iter().filter(|plugin| !is_filled_in_later(&plugin.name)) {
        let name = plugin.name.text.as_str();
        let fault = match known(name) {
            Known::Stock => None,
            Known::Removed { instead } => Some(
                Diagnostic::error(
                    code::PLUGIN_UNKNOWN,
                    format!("the server has no plugin `{name}` any more"),
                )
                .with_hint(instead),
            ),
            Known::External => Some(
                Diagnostic::warning(
                    code::PLUGIN_UNKNOWN,
                    format!("`{name}` is not one of CoreDNS's own plugins"),
                )
                .with_hint("official images do not have it, and do not start: is the image one that has?"),
            ),
            Known::Unknown { nearest } => {
                let hint = match nearest {
                    Some(nearest) => format!("is it `{nearest}`? The server does not start with it"),
                    None if PROPERTIES.contains(&name) => {
                        "it is a property: is the brace of its plugin missing?".to_owned()
                    }
                    None => "the server does not start with it".to_owned(),
                };
                Some(
                    Diagnostic::error(code::PLUGIN_UNKNOWN, format!("no plugin is called `{name}`"))
                        .with_hint(hint),
                )
            }
        };
        found.extend(fault.map(|fault| server.text.place(fault, Some(plugin.name.position))));
        let earlier = seen.entry(name).or_default();
        for problem in arguments(plugin, *earlier) {
            let diagnostic = Diagnostic::error(code::PLUGIN_ARGUMENTS, problem.message);
            found.push(server.text.place(diagnostic.with_hint(problem.hint), Some(problem.position)));
        }
        *earlier += 1;
    }
}

/// Addresses that a block listens on; none means all.
fn bound(block: &Block) -> Vec<String> {
    block.all("bind").flat_map(|bind| bind.words().map(str::to_owned)).collect()
}

fn listeners(server: &Server, found: &mut Vec<Diagnostic>) {
    let mut zones: BTreeMap<(ZoneKey, Option<String>), Position> = BTreeMap::new();
    for (index, block) in server.file.blocks.iter().enumerate() {
        // A view decides by more than the zone, and an imported file may bind or be one.
        let decides = block.plugin("view").is_some() || server.file.imports_into(index);
        for key in block.keys.iter().filter(|key| !decides && !is_filled_in_later(key)) {
            for zone in ZoneKey::read(&key.text).unwrap_or_default() {
                let addresses = bound(block);
                let places: Vec<Option<String>> =
                    if addresses.is_empty() { vec![None] } else { addresses.into_iter().map(Some).collect() };
                for address in places {
                    let clash = zones
                        .iter()
                        .find(|((known, of), _)| {
                            *known == zone && (*of == address || of.is_none() || address.is_none())
                        })
                        .map(|(_, place)| *place);
                    if let Some(first) = clash {
                        let message = format!("`{zone}` is served twice: first in line {}", first.line);
                        let diagnostic = Diagnostic::error(code::ZONE_TAKEN, message)
                            .with_hint("the server does not start: put the plugins into one block");
                        found.push(server.text.place(diagnostic, Some(key.position)));
                        break;
                    }
                    zones.insert((zone.clone(), address), key.position);
                }
            }
        }
    }
}
