//! One Service under every kind of proxy, for people.
//!
//! Invariant: a column that is only predicted says so in its first row; numbers are those of the JSON.

use netlab_core::service::comparison::{Column, ComparedPort, Comparison, Cost};
use netlab_core::service::fault::Difference;
use netlab_core::service::follow::Hop;
use netlab_core::service::trace::Status;

use super::layout::{WIDTH, wrap};
use super::service_trace::{broken, headline};
use super::style::{Charset, STRONG, paint};
use super::table::Table;

/// Columns are as wide as three of them and the labels fit the terminal.
const CELL: usize = 20;

/// A table for each service port and family, then what is broken under each proxy.
pub(crate) fn render(comparison: &Comparison, charset: Charset) -> String {
    let mut text = String::new();
    let mut families: Vec<&str> = comparison.columns.iter().map(|column| column.family).collect();
    families.dedup();
    families.sort_unstable();
    families.dedup();
    for family in families {
        let columns: Vec<&Column> =
            comparison.columns.iter().filter(|column| column.family == family).collect();
        let ports = columns.iter().map(|column| column.ports.len()).max().unwrap_or_default();
        for index in 0..ports {
            let cells: Vec<(&Column, &ComparedPort)> =
                columns.iter().filter_map(|column| Some((*column, column.ports.get(index)?))).collect();
            text += &one(&cells, charset);
            text.push('\n');
        }
        for column in &columns {
            for shared in &column.shared {
                text += &broken(&shared.fault, file(column), charset);
            }
        }
    }
    for what in &comparison.assumed {
        for (index, line) in wrap(what, WIDTH - 4).into_iter().enumerate() {
            text += &format!("{}{line}\n", if index == 0 { "  - " } else { "    " });
        }
    }
    text
}

fn one(cells: &[(&Column, &ComparedPort)], charset: Charset) -> String {
    let mut text = String::new();
    if let Some((_, port)) = cells.first() {
        text += &format!("{}\n", paint(STRONG, &headline(&port.trace)));
    }
    let modes = cells.iter().map(|(column, _)| column.proxy_mode.to_uppercase());
    let modes: Vec<String> = modes.map(|mode| format!("{mode:<CELL$}")).collect();
    let mut table = Table::with_headings(std::iter::once("").chain(modes.iter().map(String::as_str)));
    let mut row = |label: &str, of: &dyn Fn(&Column, &ComparedPort) -> String| {
        let values = cells.iter().map(|(column, port)| cut(&of(column, port)));
        table.row(std::iter::once(label.to_owned()).chain(values));
    };
    row("read from", &|column, _| {
        column.source.as_ref().map_or("predicted".to_owned(), |_| file(column).to_owned())
    });
    row("found", &|column, port| match (port.trace.status, &column.source) {
        (_, None) => "-".to_owned(),
        (Status::Ok, _) => "ok".to_owned(),
        (Status::Broken, _) => "BROKEN".to_owned(),
    });
    row("entry", &|_, port| hop(port, 0));
    row("spread by", &|_, port| port.trace.hops.first().map_or("-".to_owned(), |hop| hop.to.clone()));
    row("endpoints", &|_, port| {
        let all = port.trace.hops.iter().filter(|hop| hop.to.starts_with("DNAT")).count();
        let missing = port.trace.missing.iter().filter(|fault| fault.endpoint.is_some()).count();
        let extra = port.trace.extra.iter().filter(|fault| fault.endpoint.is_some()).count();
        let mut words = format!("{all}");
        if missing > 0 {
            words += &format!(", {missing} missing");
        }
        if extra > 0 {
            words += &format!(", {extra} extra");
        }
        words
    });
    row("fails", &|column, port| match &column.source {
        Some(_) if !port.trace.symptom.is_none() => shares(port),
        Some(_) => "nothing".to_owned(),
        None => "-".to_owned(),
    });
    row("first packet", &|_, port| format!("{} rules", number(port.cost.rules)));
    row("", &|_, port| format!("{} lookups", number(port.cost.lookups)));
    row("its place", &|_, port| match &port.cost {
        Cost { position: Some(position), listed: Some(listed), .. } => {
            format!("{position} of {listed} rules")
        }
        Cost { listed: Some(listed), .. } => format!("none of {listed} rules"),
        _ => "by hash".to_owned(),
    });
    row("grows with", &|_, port| match port.cost.grows_with {
        [] => "neither".to_owned(),
        what => what.join(", "),
    });
    row("in all", &|_, port| match (port.cost.total_rules, port.cost.total_entries) {
        (rules, 0) => format!("{rules} rules"),
        (0, entries) => format!("{entries} rows"),
        (rules, entries) => format!("{rules} rules, {entries} el."),
    });
    for line in table.finish().lines() {
        text += &format!("  {line}\n").replace("<none>", "      ");
    }
    for (column, port) in cells.iter().filter(|(column, _)| column.source.is_some()) {
        let faults: Vec<_> = port.trace.faults().collect();
        if faults.is_empty() {
            continue;
        }
        let kind = |difference| faults.iter().filter(|fault| fault.difference == difference).count();
        let parts = [
            (kind(Difference::Missing), "missing"),
            (kind(Difference::Wrong), "wrong"),
            (kind(Difference::Extra), "extra"),
        ];
        let parts: Vec<String> = parts
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, what)| format!("{count} {what}"))
            .collect();
        text += &format!("  {}: {}\n", column.proxy_mode, parts.join(", "));
        for fault in faults {
            text += &broken(fault, file(column), charset);
        }
    }
    text
}

fn file(column: &Column) -> &str {
    let source = column.source.as_deref().unwrap_or_default();
    source.rsplit('/').next().unwrap_or(source)
}

/// What sends the packet on, in a few words.
fn hop(port: &ComparedPort, index: usize) -> String {
    let Some(Hop { place, .. }) = port.trace.hops.get(index) else { return "-".to_owned() };
    match place.position {
        Some(_) => place.chain.clone(),
        None if place.chain.contains('{') => place.chain.split(' ').next().unwrap_or_default().to_owned(),
        None => place.table.trim_start_matches("cilium_").to_owned(),
    }
}

fn shares(port: &ComparedPort) -> String {
    let symptom = port.trace.symptom;
    let percent = |share: f64| format!("{:.0}%", share * 100.0);
    match (symptom.timeout_share > 0.0, symptom.refused_share > 0.0) {
        (true, true) => {
            format!("{} lost, {} refused", percent(symptom.timeout_share), percent(symptom.refused_share))
        }
        (true, false) => format!("{} time out", percent(symptom.timeout_share)),
        _ => format!("{} refused", percent(symptom.refused_share)),
    }
}

fn number(count: f64) -> String {
    if count.fract() == 0.0 { format!("{count:.0}") } else { format!("{count:.2}") }
}

fn cut(text: &str) -> String {
    if text.chars().count() <= CELL {
        return text.to_owned();
    }
    text.chars().take(CELL - 1).chain(['…']).collect()
}
