//! A Service followed through a node's rules, for people.
//!
//! Invariant: the first line begins with `BROKEN` when anything is, `ok` otherwise; every fault of the JSON is a
//! line here.

use netlab_core::service::fault::{Difference, Fault, Kind, Place};
use netlab_core::service::follow::{Client, Hop, Worse};
use netlab_core::service::trace::{AddressTrace, PortTrace, ServiceTrace, Status};
use netlab_core::service::{RouteKind, nftables};

use super::layout::{WIDTH, wrap};
use super::style::{BAD, Charset, GOOD, Mark, QUIET, STRONG, paint};

/// The answer: a line for each port, broken ones first, then the walk of each broken one, or of all when none is.
pub(crate) fn render(trace: &ServiceTrace, source: &str, charset: Charset) -> String {
    let mut ports: Vec<&PortTrace> = trace.ports.iter().collect();
    ports.sort_by_key(|port| port.status == Status::Ok);
    let mut text = String::new();
    for port in &ports {
        let (word, style) = if port.status == Status::Ok { ("ok", GOOD) } else { ("BROKEN", BAD) };
        let (head, symptom) = blamed(port);
        let gap = if symptom.is_empty() { "" } else { "  " };
        let word = paint(style, &format!("{word:<6}"));
        text += &format!("{word}  {}{gap}{symptom}\n", paint(STRONG, &head));
        for line in beside(port) {
            text += &format!("        {line}\n");
        }
    }
    for shared in &trace.shared {
        text.push('\n');
        text += &broken(&shared.fault, source, charset);
    }
    let any = ports.iter().any(|port| port.status == Status::Broken && port.faults().next().is_some());
    for port in ports {
        if any && port.faults().next().is_none() {
            continue;
        }
        text.push('\n');
        if trace.ports.len() > 1 {
            text += &format!("  {}\n", paint(QUIET, &headline(port)));
        }
        for hop in &port.hops {
            text += &walked(hop, source, charset);
        }
        for fault in port.faults() {
            text += &broken(fault, source, charset);
        }
        if let Some(heals) = port.heals {
            for (index, line) in wrap(heals, WIDTH - 9).into_iter().enumerate() {
                let label = if index == 0 { "heals" } else { "" };
                text += &format!("  {}  {line}\n", paint(QUIET, &format!("{label:<5}")));
            }
        }
    }
    text
}

pub(super) fn headline(port: &PortTrace) -> String {
    format!("{} {}", name(port), port.address)
}

fn name(port: &PortTrace) -> String {
    let name =
        if port.port.is_empty() { port.service.clone() } else { format!("{}:{}", port.service, port.port) };
    format!("{name} {}", port.protocol)
}

/// The port with the address that fails, and how; a cluster IP that is well is not blamed for another address.
fn blamed(port: &PortTrace) -> (String, String) {
    if port.status == Status::Ok {
        return (headline(port), String::new());
    }
    let fails = |address: &&AddressTrace| !address.symptom.is_none();
    match worst(port).filter(fails) {
        Some(worst) => (format!("{} {}", name(port), whose(port, worst)), worst.symptom.to_string()),
        // Where most fare well, of those who do not.
        None => match few(port).next() {
            Some((address, worse)) => {
                let head = format!("{} {} from {}", name(port), address.address, worse.clients);
                (head, worse.symptom.to_string())
            }
            None => (headline(port), port.symptom.to_string()),
        },
    }
}

/// Clients that fare worse than most, the worst first.
fn few(port: &PortTrace) -> impl Iterator<Item = (&AddressTrace, &Worse)> {
    let mut all: Vec<(&AddressTrace, &Worse)> = Vec::new();
    for address in &port.addresses {
        all.extend(address.worse.iter().map(|worse| (address, worse)));
    }
    all.sort_by(|(_, a), (_, b)| b.symptom.failing().total_cmp(&a.symptom.failing()));
    all.into_iter()
}

fn worst(port: &PortTrace) -> Option<&AddressTrace> {
    // Of equals the first.
    port.addresses.iter().rev().max_by(|a, b| a.symptom.failing().total_cmp(&b.symptom.failing()))
}

/// An address with its kind, where the text does not say it, and with the client where one fares better than another.
fn whose(port: &PortTrace, address: &AddressTrace) -> String {
    let kind = match address.to {
        RouteKind::LoadBalancer | RouteKind::ExternalIp => format!("{} ", address.to.as_str()),
        RouteKind::ClusterIp | RouteKind::NodePort | RouteKind::FromThisNode => String::new(),
    };
    let differs = twin(port, address).is_some_and(|twin| twin.symptom != address.symptom);
    let from = match address.from {
        Client::Node if differs => " from the node itself",
        Client::Pod if differs => " from pods",
        _ => "",
    };
    format!("{kind}{}{from}", address.address)
}

/// The same address, asked by the other client inside.
fn twin<'a>(port: &'a PortTrace, address: &AddressTrace) -> Option<&'a AddressTrace> {
    port.addresses.iter().find(|other| other.address == address.address && other.from != address.from)
}

/// What is to be said of the other addresses, a line each: what fails there, what fails as it should; then those that
/// are well where one is not. The node's own packets are worth a word where they fare otherwise than pods'.
fn beside(port: &PortTrace) -> Vec<String> {
    let blamed = worst(port).filter(|worst| !worst.symptom.is_none());
    let is_told = |address: &AddressTrace| {
        let same = address.from == Client::Node
            && twin(port, address).is_some_and(|twin| twin.symptom == address.symptom);
        same || blamed.is_some_and(|blamed| std::ptr::eq(blamed, address))
    };
    let mut lines = Vec::new();
    let mut well = Vec::new();
    for address in port.addresses.iter().filter(|address| !is_told(address)) {
        let whose = whose(port, address);
        if let Some(ranges) = &address.source_ranges {
            let only = format!("{whose}: only for {} (loadBalancerSourceRanges)", ranges.join(", "));
            lines.extend(wrap(&only, WIDTH - 8));
        }
        if !address.symptom.is_none() {
            lines.push(format!("{whose}: {}", address.symptom));
        } else if let Some(why) = &address.by_design {
            lines.extend(wrap(&format!("{whose}: {why}"), WIDTH - 8));
        } else if address.worse.is_empty() {
            well.push(whose);
        }
    }
    // The first of them is in the headline where nothing else fails.
    for (address, worse) in few(port).skip(usize::from(blamed.is_none())) {
        let line = format!("{} from {}: {}", address.address, worse.clients, worse.symptom);
        lines.extend(wrap(&line, WIDTH - 8));
    }
    if blamed.is_some() && !well.is_empty() {
        let is = if well.len() == 1 { "is" } else { "are" };
        lines.extend(wrap(&format!("{} {is} well", well.join(", ")), WIDTH - 8));
    }
    lines
}

fn at(place: &Place, source: &str) -> String {
    let file = source.rsplit('/').next().unwrap_or(source);
    match (place.line, place.handle) {
        (Some(line), _) => format!("{file}:{line}"),
        (None, Some(handle)) => format!("handle {handle}"),
        (None, None) => String::new(),
    }
}

fn walked(hop: &Hop, source: &str, charset: Charset) -> String {
    let from = match hop.choice {
        _ if hop.to.starts_with("DNAT") => String::new(),
        Some((this, all)) => format!("{} {this}/{all} -> ", hop.place.chain),
        // Names of chains tell their table in nftables mode.
        None if hop.depth == 0 && hop.place.table != nftables::TABLE => {
            format!("{} {} -> ", hop.place.table, hop.place.chain)
        }
        None => format!("{} -> ", hop.place.chain),
    };
    let indent = if hop.to.starts_with("DNAT") { "  " } else { "" };
    let what = format!("{indent}{from}{}", hop.to);
    line(Mark::Good, &what, &at(&hop.place, source), charset)
}

pub(super) fn broken(fault: &Fault, source: &str, charset: Charset) -> String {
    let Place { table, chain, .. } = &fault.place;
    let what = match fault.kind {
        _ if table.starts_with("cilium_") => format!("{table} {chain}"),
        Kind::Backend | Kind::Stale | Kind::Shares => format!("{chain} -> {}", fault.object),
        Kind::Frontend | Kind::FrontendTarget | Kind::Jump => format!("{table} {chain} -> {}", fault.object),
        _ if *chain == fault.object => format!("{table} {chain}"),
        _ => format!("{table} {chain} {}", fault.object),
    };
    let state = match fault.difference {
        Difference::Missing => "missing".to_owned(),
        Difference::Extra => format!("extra  {}", at(&fault.place, source)),
        Difference::Wrong => format!("wrong  {}", at(&fault.place, source)),
    };
    let mut text = line(Mark::Bad, what.trim(), state.trim(), charset);
    let about = match &fault.endpoint {
        Some(endpoint) if !fault.detail.contains(endpoint.as_str()) => {
            format!("{endpoint}; {}", fault.detail)
        }
        _ => fault.detail.clone(),
    };
    for part in wrap(&about, WIDTH - 6) {
        text += &format!("      {part}\n");
    }
    text
}

/// What is said in one column and where in another, when both fit.
fn line(mark: Mark, what: &str, place: &str, charset: Charset) -> String {
    const PLACE: usize = 60;
    let gap = PLACE.saturating_sub(what.chars().count()).max(2);
    let text = format!("  {} {what}{}{place}", charset.mark(mark), " ".repeat(gap));
    text.trim_end().to_owned() + "\n"
}
