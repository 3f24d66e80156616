//! Compiled tables in words: who is in a peer class, what is in a port class, who put an entry there.
//!
//! Invariant: a class is named by its members, shortest first; a list that is cut says how much it leaves out.

use std::collections::BTreeMap;
use std::net::IpAddr;

use netlab_core::model::cluster::{Cluster, ObjectKey};
use netlab_core::policy::Rulesets;
use netlab_core::policy::change::{Change, DirectionTable, PortClass, Verdict};
use serde::Serialize;

use super::evaluation::rule_name;

/// Most members that are listed.
const MOST: usize = 3;

/// The names of a change's classes.
#[derive(Debug)]
pub(crate) struct ClassNames {
    members: BTreeMap<u32, Vec<String>>,
}

/// One policy-map entry in words.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EntryLine {
    /// Its number.
    pub(crate) entry: u32,
    /// `ingress` or `egress`.
    pub(crate) direction: &'static str,
    /// What it says.
    pub(crate) verdict: Verdict,
    /// Who is meant.
    pub(crate) peers: String,
    /// Which ports.
    pub(crate) ports: String,
    /// The rule or the isolating policies that put it there.
    pub(crate) because: String,
    /// How many rows of the map say it.
    pub(crate) rows: usize,
}

impl ClassNames {
    /// Names for the classes of a change.
    pub(crate) fn new(cluster: &Cluster, change: &Change) -> Self {
        let owners: BTreeMap<IpAddr, &ObjectKey> = cluster
            .pods
            .iter()
            .filter(|(_, pod)| pod.is_policed())
            .flat_map(|(key, pod)| pod.addresses.iter().map(move |address| (*address, key)))
            .collect();
        let mut members: BTreeMap<u32, Vec<String>> = BTreeMap::new();
        for peer in &change.peers {
            let whole = peer.length == if peer.address.is_ipv4() { 32 } else { 128 };
            let name = match owners.get(&peer.address).filter(|_| whole) {
                Some(key) => key.to_string(),
                None if whole => peer.address.to_string(),
                None if peer.length == 0 => "elsewhere".to_owned(),
                None => format!("{}/{}", peer.address, peer.length),
            };
            let names = members.entry(peer.class).or_default();
            if !names.contains(&name) {
                names.push(name);
            }
        }
        for names in members.values_mut() {
            names.sort();
        }
        Self { members }
    }

    /// The members of some classes, cut after a few.
    pub(crate) fn peers(&self, classes: &[u32]) -> String {
        let mut all: Vec<&str> = classes
            .iter()
            .filter_map(|class| self.members.get(class))
            .flatten()
            .map(String::as_str)
            .collect();
        all.sort_unstable();
        all.dedup();
        cut(&all)
    }
}

fn cut(all: &[&str]) -> String {
    let shown = all.iter().take(MOST).copied().collect::<Vec<_>>().join(", ");
    match all.len().saturating_sub(MOST) {
        0 => shown,
        more => format!("{shown} +{more}"),
    }
}

/// A port class in words.
pub(crate) fn ports(class: &PortClass) -> String {
    match class.class {
        0 => return "ICMP".to_owned(),
        1 => return "other protocols".to_owned(),
        _ => {}
    }
    let covered: u32 = class.ranges.iter().map(|range| u32::from(range.end - range.start) + 1).sum();
    // Three protocols have 196,608 ports: who has more than half of them has "the rest".
    if covered > 98_304 {
        return "other ports".to_owned();
    }
    let all: Vec<String> = class
        .ranges
        .iter()
        .map(|range| {
            if range.start == range.end {
                format!("{} {}", range.protocol, range.start)
            } else {
                format!("{} {}-{}", range.protocol, range.start, range.end)
            }
        })
        .collect();
    cut(&all.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Every distinct entry of one direction, in order of number.
pub(crate) fn entries(
    direction: &'static str,
    table: &DirectionTable,
    class_names: &ClassNames,
    rulesets: &Rulesets,
) -> Vec<EntryLine> {
    let mut lines = Vec::new();
    for row in &table.rows {
        for (class, cell) in table.port_classes.iter().zip(&row.cells) {
            let because = match rulesets.cite(cell.entry) {
                Some(citation) => match citation.rule.as_ref().filter(|_| citation.tied.is_empty()) {
                    Some(rule) => rule_name(rule),
                    None => citation.because(),
                },
                None => String::new(),
            };
            lines.push(EntryLine {
                entry: cell.entry,
                direction,
                verdict: cell.verdict,
                peers: class_names.peers(&row.peer_classes),
                ports: ports(class),
                because,
                rows: row.peer_classes.len(),
            });
        }
    }
    lines.sort_by_key(|line| line.entry);
    lines
}
