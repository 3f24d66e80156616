//! Connection lists of a peer tool, met exactly: per pair, protocol and port, and per external address.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};

use netlab_core::diagnostic::Severity;
use netlab_core::model::port::{PortRange, Protocol};
use netlab_core::policy::connections::{
    Allowed, Connections, Focus, HostNetwork, PeerKind, as_if_running, connections,
};
use netlab_core::policy::{Limits, Numbers, Scope, compile_with};

use crate::input_files::{cases, line, load_directory};

/// Where the peer tool names the controller of Ingress objects, which is no pod of the cluster.
const INGRESS_CONTROLLER: &str = "{ingress-controller}";

/// An end as the peer tool writes it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Side {
    Workload(String),
    /// First and last address.
    External(IpAddr, IpAddr),
}

impl Side {
    fn read(text: &str) -> Self {
        let Some(range) = text.strip_suffix("[External]") else { return Self::Workload(text.to_owned()) };
        let (first, last) = range.split_once('-').expect("a range");
        let address = |text: &str| text.parse::<IpAddr>().expect("an address");
        Self::External(address(first), address(last))
    }
}

pub(crate) type Rows = Vec<(Side, Side, Allowed)>;

/// `All Connections`, or ranges of which one without a protocol continues the one before.
fn allowed(text: &str) -> Allowed {
    if text == "All Connections" {
        return Allowed::everything();
    }
    let mut protocol = None;
    let ranges = text.split(',').map(|item| {
        let item = item.trim();
        let range = match item.split_once(' ') {
            Some((name, range)) => {
                protocol = Protocol::ALL.into_iter().find(|known| known.as_str() == name);
                range
            }
            None => item,
        };
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let port = |text: &str| text.parse().unwrap_or_else(|_| panic!("`{text}` in `{item}`"));
        (protocol.expect("a protocol"), PortRange { start: port(first), end: port(last) })
    });
    Allowed::from_ranges(ranges.collect::<Vec<_>>())
}

pub(crate) fn expected(case: &Path) -> Rows {
    let file = ["txt", "json", "csv", "md"]
        .map(|format| case.join(format!("expected.{format}")))
        .into_iter()
        .find(|path| path.is_file())
        .expect("an expected list");
    let text = std::fs::read_to_string(&file).expect("a readable list");
    let cells: Vec<[String; 3]> = match file.extension().and_then(|end| end.to_str()) {
        Some("json") => {
            let rows: Vec<BTreeMap<String, String>> = serde_json::from_str(&text).expect("JSON");
            rows.iter().map(|row| ["src", "dst", "conn"].map(|key| row[key].clone())).collect()
        }
        Some("csv") => text.lines().skip(1).filter(|line| !line.is_empty()).map(csv_row).collect(),
        Some("md") => text
            .lines()
            .skip(2)
            .filter(|line| line.starts_with('|'))
            .map(|line| columns(line.trim_matches('|').splitn(3, '|')))
            .collect(),
        _ => text
            .lines()
            .filter(|line| line.contains(" => "))
            .map(|line| {
                let (ends, conn) = line.split_once(" : ").expect("a connection");
                let (from, to) = ends.split_once(" => ").expect("two ends");
                [from, to, conn].map(|cell| cell.trim().to_owned())
            })
            .collect(),
    };
    cells
        .into_iter()
        .filter(|[from, ..]| from != INGRESS_CONTROLLER)
        .map(|[from, to, conn]| (Side::read(&from), Side::read(&to), allowed(&conn)))
        .collect()
}

fn csv_row(line: &str) -> [String; 3] {
    let mut row = columns(line.splitn(3, ','));
    row[2] = row[2].replace('"', "");
    row
}

fn columns<'a>(cells: impl Iterator<Item = &'a str>) -> [String; 3] {
    let cells: Vec<String> = cells.map(|cell| cell.trim().to_owned()).collect();
    cells.try_into().expect("three columns")
}

fn found(case: &Path) -> Connections {
    let loaded = load_directory(&case.join("input"));
    let refused: Vec<String> = loaded
        .diagnostics
        .iter()
        .filter(|diagnostic| diagnostic.severity == Severity::Error)
        .map(line)
        .collect();
    assert!(refused.is_empty(), "{}:\n{}", case.display(), refused.join("\n"));
    let cluster = as_if_running(&loaded.cluster, &loaded.policies, HostNetwork::AsPods);
    let limits = Limits::layout_only();
    let compiled = compile_with(&cluster, &loaded.policies, &Scope::Cluster, &Numbers::default(), &limits);
    assert!(compiled.diagnostics.is_empty());
    connections(&cluster, &compiled.rulesets, &Focus::default())
}

/// What is allowed between workloads, and with single addresses outside.
type Points = BTreeMap<(String, String), Allowed>;

fn add(points: &mut Points, from: String, to: String, allowed: &Allowed) {
    let known = points.entry((from, to)).or_default();
    *known = known.or(allowed);
}

/// The expected rows at each of these addresses.
fn expected_points(rows: &Rows, addresses: &BTreeSet<IpAddr>) -> Points {
    let names = |side: &Side| match side {
        Side::Workload(name) => vec![name.clone()],
        Side::External(first, last) => addresses.range(first..=last).map(ToString::to_string).collect(),
    };
    let mut points = Points::new();
    for (from, to, allowed) in rows {
        for from in names(from) {
            for to in names(to) {
                add(&mut points, from.clone(), to, allowed);
            }
        }
    }
    points
}

fn found_points(found: &Connections, addresses: &BTreeSet<IpAddr>) -> Points {
    let names = |position: usize| {
        let peer = &found.peers[position];
        if peer.kind != PeerKind::IpBlock {
            return vec![peer.id.clone()];
        }
        let inside = |address: &&IpAddr| peer.cidrs.iter().any(|cidr| cidr.contains(*address));
        addresses.iter().filter(inside).map(ToString::to_string).collect()
    };
    let mut points = Points::new();
    for connection in &found.list {
        for from in names(connection.from()) {
            for to in names(connection.to()) {
                add(&mut points, from.clone(), to, found.allowed(connection));
            }
        }
    }
    points
}

/// One address of each piece between the edges of both sides' ranges; of IPv6 only where the expected list has some.
fn addresses(rows: &Rows, found: &Connections) -> BTreeSet<IpAddr> {
    let after = |address: IpAddr| match address {
        IpAddr::V4(address) => {
            address.to_bits().checked_add(1).map(|bits| IpAddr::V4(Ipv4Addr::from_bits(bits)))
        }
        IpAddr::V6(address) => {
            address.to_bits().checked_add(1).map(|bits| IpAddr::V6(Ipv6Addr::from_bits(bits)))
        }
    };
    let mut starts = BTreeSet::from([IpAddr::V4(Ipv4Addr::UNSPECIFIED)]);
    for side in rows.iter().flat_map(|(from, to, _)| [from, to]) {
        if let Side::External(first, last) = side {
            starts.insert(*first);
            starts.extend(after(*last));
        }
    }
    if starts.iter().any(IpAddr::is_ipv6) {
        starts.insert(IpAddr::V6(Ipv6Addr::UNSPECIFIED));
    }
    let families = |address: &IpAddr| address.is_ipv4() || starts.iter().any(IpAddr::is_ipv6);
    let mut edges: Vec<IpAddr> = Vec::new();
    for cidr in found.peers.iter().flat_map(|peer| &peer.cidrs) {
        edges.push(cidr.network());
        edges.extend(after(cidr.broadcast()));
    }
    edges.retain(families);
    starts.extend(edges);
    starts
}

fn folders(cases: &Path) -> Vec<(String, PathBuf)> {
    let mut folders: Vec<(String, PathBuf)> = std::fs::read_dir(cases.join("policy/netpol-analyzer"))
        .expect("the cases")
        .map(|entry| entry.expect("a case").path())
        .filter(|path| path.join("input").is_dir())
        .map(|path| (path.file_name().expect("a name").to_string_lossy().into_owned(), path))
        .collect();
    folders.sort();
    folders
}

/// The pairs and addresses at which a case differs, and how many were compared.
fn differing(case: &Path) -> (Vec<String>, usize) {
    let rows = expected(case);
    let found = found(case);
    let addresses = addresses(&rows, &found);
    let (wanted, found) = (expected_points(&rows, &addresses), found_points(&found, &addresses));
    let keys: BTreeSet<_> = wanted.keys().chain(found.keys()).collect();
    let none = Allowed::default();
    let differing = keys
        .into_iter()
        .map(|key| (key, wanted.get(key).unwrap_or(&none), found.get(key).unwrap_or(&none)))
        .filter(|(_, wanted, found)| wanted != found)
        .map(|((from, to), wanted, found)| format!("  {from} => {to}: expected {wanted}, found {found}"))
        .collect();
    (differing, wanted.len())
}

#[test]
fn lists_that_were_worked_out_by_hand_are_met_exactly() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/reading");
    let (mut points, mut wrong) = (0, Vec::new());
    let mut cases: Vec<PathBuf> =
        std::fs::read_dir(directory).expect("the cases").map(|entry| entry.expect("a case").path()).collect();
    cases.sort();
    for case in &cases {
        let (differing, compared) = differing(case);
        points += compared;
        if !differing.is_empty() {
            wrong.push(format!("{}:\n{}", case.display(), differing.join("\n")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(cases.len() >= 10 && points > 150, "{} cases, {points} points", cases.len());
}

#[test]
fn lists_of_a_peer_tool_are_met_exactly() {
    let Some(cases) = cases() else { return };
    let (mut met, mut points, mut wrong) = (0, 0, Vec::new());
    for (name, case) in folders(&cases) {
        let (differing, compared) = differing(&case);
        points += compared;
        if differing.is_empty() {
            met += 1;
        } else {
            let shown = differing.iter().take(5).cloned().collect::<Vec<_>>().join("\n");
            wrong.push(format!("{name}: {} pairs differ\n{shown}", differing.len()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(met >= 37, "only {met} cases");
    assert!(points > 2_500, "only {points} points");
}
