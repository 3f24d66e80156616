//! Connections to a Service that lead to no endpoint, for people.
//!
//! Invariant: every stale entry of the JSON is a row; a port without one says how many were looked at.

use netlab_core::service::conntrack::{PortConntrack, ServiceConntrack, Why};

use super::layout::{WIDTH, wrap};
use super::style::{BAD, GOOD, QUIET, STRONG, paint};
use super::table::Table;

/// A line for each port, stale ones first, then what is stale.
pub(crate) fn render(conntrack: &ServiceConntrack) -> String {
    let mut ports: Vec<&PortConntrack> = conntrack.ports.iter().collect();
    ports.sort_by_key(|port| port.stale.is_empty());
    let mut text = String::new();
    for port in &ports {
        let name = if port.port.is_empty() {
            port.service.clone()
        } else {
            format!("{}:{}", port.service, port.port)
        };
        let head = format!("{name} {} {}", port.protocol, port.address);
        let connections = if port.entries == 1 { "connection" } else { "connections" };
        let (word, style, told) = match port.stale.len() {
            0 if port.protocol == "UDP" => {
                ("ok", GOOD, format!("{} {connections}, none stale", port.entries))
            }
            0 => ("ok", GOOD, format!("{} {connections}, not of UDP", port.entries)),
            stale => ("STALE", BAD, format!("{stale} of {} lead to no endpoint", port.entries)),
        };
        text += &format!("{}  {}  {told}\n", paint(style, &format!("{word:<6}")), paint(STRONG, &head));
    }
    let file = conntrack.source.rsplit('/').next().unwrap_or(&conntrack.source);
    for port in ports.iter().filter(|port| !port.stale.is_empty()) {
        let mut table = Table::new(["CLIENT", "SENT TO", "LEADS TO", "LEFT", "LINE"]);
        for stale in &port.stale {
            let left = stale.expires_in.map_or("-".to_owned(), |seconds| format!("{seconds} s"));
            table.row([
                stale.client.clone(),
                stale.to.clone(),
                stale.leads_to.clone(),
                left,
                format!("{file}:{}", stale.line),
            ]);
        }
        text.push('\n');
        for line in table.finish().lines() {
            text += &format!("  {line}\n");
        }
        for why in [Why::NoEndpoint, Why::Untranslated] {
            if port.stale.iter().any(|stale| stale.why == why) {
                text += &labelled("why", why.as_str());
            }
        }
        for stale in &port.stale {
            text += &format!("  {}  {}\n", paint(QUIET, "mend "), stale.mend);
        }
    }
    text
}

fn labelled(label: &str, text: &str) -> String {
    let mut lines = String::new();
    for (index, line) in wrap(text, WIDTH - 9).into_iter().enumerate() {
        let label = if index == 0 { label } else { "" };
        lines += &format!("  {}  {line}\n", paint(QUIET, &format!("{label:<5}")));
    }
    lines
}
