//! Connections for people, spreadsheets and graphs.
//!
//! Invariant: every form says the same pairs; only the table and the picture fold them. Names are as short as they can be without
//! two workloads sharing one.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::io;

use netlab_core::policy::connections::exposure::Exposure;
use netlab_core::policy::connections::{Allowed, Connection, Connections, Peer, PeerKind, Row, Side};

use super::layout::{WIDTH, counted, fit, fitted, wrap};
use super::markup::{code, quoted};
use super::style::harmless;
use super::table::{Table, fit_to, row_lines};

/// The names under which peers are shown.
pub(super) struct Names<'a> {
    peers: &'a [Peer],
    short: Vec<String>,
}

impl<'a> Names<'a> {
    pub(super) fn new(peers: &'a [Peer]) -> Self {
        let plain = |peer: &Peer| match &peer.namespace {
            Some(namespace) => format!("{namespace}/{}", peer.owner.as_ref().unwrap_or(&peer.name)),
            None if peer.kind == PeerKind::IpBlock => cut(&peer.name),
            None => peer.name.clone(),
        };
        let mut uses: BTreeMap<String, usize> = BTreeMap::new();
        for peer in peers {
            *uses.entry(plain(peer)).or_default() += 1;
        }
        let short = peers.iter().map(|peer| {
            let plain = plain(peer);
            if uses.get(&plain) == Some(&1) { plain } else { peer.id.clone() }
        });
        Self { peers, short: short.collect() }
    }

    pub(super) fn side(&self, side: &Side) -> String {
        match side {
            Side::All => "*".to_owned(),
            Side::Namespace(namespace) => format!("{namespace}/*"),
            Side::Peer(position) => self.short[*position].clone(),
        }
    }

    /// The name of a peer.
    pub(super) fn peer(&self, position: usize) -> &str {
        &self.short[position]
    }

    /// Gives blocks whose rows are the same one name, if that is short, and returns those that need no rows then.
    fn join_twins(&mut self, connections: &Connections, rows: &[Row<'_>]) -> BTreeSet<usize> {
        let mut rows_of: BTreeMap<usize, BTreeSet<(bool, &Side, &Allowed)>> = BTreeMap::new();
        for row in rows {
            for (opens, side, other) in [(true, row.from, row.to), (false, row.to, row.from)] {
                if let Side::Peer(position) = side
                    && self.peers[*position].kind == PeerKind::IpBlock
                {
                    let allowed = connections.allowed_by(row);
                    rows_of.entry(*position).or_default().insert((opens, other, allowed));
                }
            }
        }
        let mut first_with: BTreeMap<BTreeSet<(bool, &Side, &Allowed)>, usize> = BTreeMap::new();
        let mut twins = BTreeSet::new();
        for (position, rows) in rows_of {
            let first = *first_with.entry(rows).or_insert(position);
            let joined = format!("{} + {}", self.short[first], self.short[position]);
            if first != position && joined.chars().count() <= MOST {
                self.short[first] = joined;
                twins.insert(position);
            }
        }
        twins
    }

    /// Workloads by name before addresses, which keep their order.
    pub(super) fn rank(&self, side: &Side) -> (bool, usize, String) {
        match side {
            Side::Peer(position) if self.peers[*position].namespace.is_none() => {
                (true, *position, String::new())
            }
            _ => (false, 0, self.side(side)),
        }
    }
}

/// Most characters of a block's name that the table shows.
const MOST: usize = 36;

/// A block's name, cut between its prefixes.
fn cut(name: &str) -> String {
    if name.chars().count() <= MOST {
        return name.to_owned();
    }
    let mut text = String::new();
    let mut words = name.split_inclusive([',', '+']).peekable();
    while let Some(word) =
        words.next_if(|word| text.is_empty() || text.chars().count() + word.chars().count() <= MOST)
    {
        text += word;
    }
    format!("{} … +{}", text.trim_end_matches([',', '+', ' ']), words.count())
}

/// The list in few rows: from, to, what is allowed.
pub(super) fn folded(connections: &Connections) -> Vec<[String; 3]> {
    let mut names = Names::new(&connections.peers);
    let folded = connections.fold();
    let mut rows: Vec<_> = folded.rows().collect();
    let twins = names.join_twins(connections, &rows);
    let is_twin = |side: &Side| matches!(side, Side::Peer(position) if twins.contains(position));
    rows.retain(|row| !is_twin(row.from) && !is_twin(row.to));
    rows.sort_by_cached_key(|row| {
        (names.rank(row.from), names.rank(row.to), connections.allowed_by(row).clone())
    });
    rows.iter()
        .map(|row| [names.side(row.from), names.side(row.to), connections.allowed_by(row).to_string()])
        .collect()
}

/// The folded table and the summary.
pub(crate) fn table(connections: &Connections) -> String {
    let rows = folded(connections);
    let mut table = Table::new(["FROM", "TO", "ALLOWED"]);
    let empty = rows.is_empty();
    for row in rows {
        table.row(row);
    }
    with_summary(&table, empty, connections)
}

/// Every pair, with the kinds of both ends, and the summary.
pub(crate) fn wide(connections: &Connections, out: &mut dyn io::Write) -> io::Result<()> {
    const HEADINGS: [&str; 3] = ["FROM", "TO", "ALLOWED"];
    let cells = Cells::new(connections, harmless);
    if !connections.list.is_empty() {
        let longest = |width: &dyn Fn(&Connection) -> usize| connections.list.iter().map(width).max();
        let widths = [
            longest(&|pair| cells.width(pair.from())),
            longest(&|pair| cells.width(pair.to())),
            longest(&|pair| cells.sets[pair.set()].chars().count()),
        ];
        let mut widths: Vec<usize> = widths
            .into_iter()
            .zip(HEADINGS)
            .map(|(longest, heading)| longest.unwrap_or_default().max(heading.len()))
            .collect();
        if let Some(most) = fit() {
            fit_to(&mut widths, most);
            let mut row = |row: [&str; 3]| {
                let mut lines = row_lines(row.into_iter(), &widths).into_iter();
                lines.try_for_each(|line| writeln!(out, "{line}"))
            };
            row(HEADINGS)?;
            cells.each(connections, row)?;
        } else {
            let (from_width, to_width) = (widths[0], widths[1]);
            let mut row = |[from, to, allowed]: [&str; 3]| {
                writeln!(out, "{from:<from_width$}  {to:<to_width$}  {allowed}")
            };
            row(HEADINGS)?;
            cells.each(connections, row)?;
        }
    }
    writeln!(out, "{}", fitted(summary(connections).trim_end()))
}

/// The texts of peers and of sets of ports, each made once.
struct Cells {
    peers: Vec<String>,
    sets: Vec<String>,
}

impl Cells {
    fn new(connections: &Connections, shape: impl Fn(&str) -> String) -> Self {
        Self { peers: ids(connections, &shape), sets: sets(connections, &shape) }
    }

    fn width(&self, peer: usize) -> usize {
        self.peers.get(peer).map_or(0, |text| text.chars().count())
    }

    /// Each pair as three cells.
    fn each(
        &self,
        connections: &Connections,
        mut row: impl FnMut([&str; 3]) -> io::Result<()>,
    ) -> io::Result<()> {
        connections.list.iter().try_for_each(|pair| {
            row([&self.peers[pair.from()], &self.peers[pair.to()], &self.sets[pair.set()]])
        })
    }
}

fn ids(connections: &Connections, shape: impl Fn(&str) -> String) -> Vec<String> {
    connections.peers.iter().map(|peer| shape(&peer.id)).collect()
}

fn sets(connections: &Connections, shape: impl Fn(&str) -> String) -> Vec<String> {
    connections.sets().iter().map(|set| shape(&set.to_string())).collect()
}

fn with_summary(table: &Table, empty: bool, connections: &Connections) -> String {
    let rows = if empty { String::new() } else { table.finish() };
    rows + &fitted(summary(connections).trim_end()) + "\n"
}

/// How many pairs, and who is isolated, in one line.
pub(crate) fn summary(connections: &Connections) -> String {
    let summary = connections.summary();
    let (count, outside) = (summary.workloads, summary.allowed_outside);
    let mut text = format!("{} of {}", summary.allowed, counted(summary.pairs, "pair"));
    if outside > 0 {
        let _ = write!(text, ", {outside} with addresses outside");
    }
    let (ingress, egress) = (summary.isolated.ingress, summary.isolated.egress);
    let head = match ingress {
        _ if count == 0 => return text + "; there is no workload\n",
        0 => "no workload is".to_owned(),
        _ if ingress == count => "every workload is".to_owned(),
        1 => format!("1 of {count} workloads is"),
        _ => format!("{ingress} of {count} workloads are"),
    };
    let tail = match egress {
        0 if ingress == 0 => {
            let most = summary.tiers.ingress.max(summary.tiers.egress);
            let tiers = match most {
                0 => String::new(),
                _ if most == count => ", policies of tiers decide about every one".to_owned(),
                most => format!(", policies of tiers decide about {most} of {count}"),
            };
            return text + "; no workload is isolated" + &tiers + "\n";
        }
        0 => "none".to_owned(),
        _ if egress == count => "every one".to_owned(),
        _ => egress.to_string(),
    };
    let _ = writeln!(text, "; {head} isolated for ingress, {tail} for egress");
    text
}

/// The folded table or every pair of pods that do not exist yet, and who is under no policy.
pub(crate) fn exposed(exposure: &Exposure, wide: bool) -> String {
    let connections = &exposure.connections;
    let mut text = String::from("\nwith pods that do not exist yet\n");
    let name = |position: usize| connections.peers[position].id.clone();
    let every = connections
        .list
        .iter()
        .map(|pair| [name(pair.from()), name(pair.to()), connections.allowed(pair).to_string()]);
    let rows: Vec<[String; 3]> = if wide { every.collect() } else { folded(connections) };
    if rows.is_empty() {
        text.push_str("nothing is allowed\n");
    } else {
        let mut table = Table::new(["FROM", "TO", "ALLOWED"]);
        for row in rows {
            table.row(row);
        }
        text += &table.finish();
    }
    for (direction, workloads) in ["ingress", "egress"].into_iter().zip(&exposure.unprotected) {
        let names = match workloads.len() {
            0 => "none".to_owned(),
            all if all > 1 && all == connections.workloads().len() => "every workload".to_owned(),
            _ => workloads.join(", "),
        };
        for (index, line) in
            wrap(&format!("under no policy for {direction}: {names}"), WIDTH - 2).into_iter().enumerate()
        {
            let _ = writeln!(text, "{}{line}", if index == 0 { "" } else { "  " });
        }
    }
    for words in &exposure.impossible {
        let _ = writeln!(text, "no pod can ever be one of: {words}");
    }
    text
}

/// Comma-separated values, with the headings or without.
pub(crate) fn csv(connections: &Connections, headings: bool, out: &mut dyn io::Write) -> io::Result<()> {
    if headings {
        out.write_all(b"from,to,allowed\n")?;
    }
    let cells = Cells::new(connections, quoted);
    cells.each(connections, |[from, to, allowed]| writeln!(out, "{from},{to},{allowed}"))
}

/// A table for Markdown.
pub(crate) fn markdown(connections: &Connections, out: &mut dyn io::Write) -> io::Result<()> {
    out.write_all(b"| from | to | allowed |\n|---|---|---|\n")?;
    // Brackets would be read as the text of a link.
    let cells = Cells { peers: ids(connections, code), sets: sets(connections, str::to_owned) };
    cells.each(connections, |[from, to, allowed]| writeln!(out, "| {from} | {to} | {allowed} |"))?;
    write!(out, "\n{}", summary(connections))
}

/// A graph: namespaces as clusters, connections as edges.
pub(crate) fn dot(connections: &Connections, out: &mut dyn io::Write) -> io::Result<()> {
    let quoted = |text: &str| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
    let names = Names::new(&connections.peers);
    let mut by_namespace: BTreeMap<Option<&str>, Vec<usize>> = BTreeMap::new();
    for (position, peer) in connections.peers.iter().enumerate() {
        by_namespace.entry(peer.namespace.as_deref()).or_default().push(position);
    }
    let mut text = String::from("digraph connections {\n  rankdir=LR;\n  node [shape=box];\n");
    for (namespace, positions) in by_namespace {
        let indent = if let Some(namespace) = namespace {
            let _ = writeln!(text, "  subgraph {} {{", quoted(&format!("cluster_{namespace}")));
            let _ = writeln!(text, "    label={};", quoted(namespace));
            "    "
        } else {
            "  "
        };
        for position in positions {
            let peer = &connections.peers[position];
            let label = namespace
                .and_then(|namespace| names.short[position].strip_prefix(namespace)?.strip_prefix('/'))
                .unwrap_or(&names.short[position]);
            let shape = if peer.kind == PeerKind::IpBlock { ", shape=ellipse" } else { "" };
            let _ = writeln!(text, "{indent}{} [label={}{shape}];", quoted(&peer.id), quoted(label));
        }
        if namespace.is_some() {
            text.push_str("  }\n");
        }
    }
    out.write_all(text.as_bytes())?;
    let cells = Cells::new(connections, |text| quoted(text));
    cells.each(connections, |[from, to, allowed]| writeln!(out, "  {from} -> {to} [label={allowed}];"))?;
    out.write_all(b"}\n")
}
