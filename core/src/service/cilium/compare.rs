//! Comparing Cilium's service maps with what a node's proxy should have.
//!
//! Invariant: by key, row for row; a fault names the row by frontend and slot. A map that was not given is not compared.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use super::dump::{Dump, ServiceKey, ServiceRow};
use super::follow::{at, frontend, key};
use super::names;
use crate::service::RouteKind;
use crate::service::expected::{ExpectedFrontend, ExpectedPort};
use crate::service::fault::{Difference, Fault, Kind, Place};
use crate::service::follow::Client;

/// Compares the rows of one service port with what they should be.
#[must_use]
pub fn faults(dump: &Dump, port: &ExpectedPort) -> Vec<Fault> {
    let mut faults = Vec::new();
    for expected in &port.frontends {
        of_frontend(dump, port, expected, &mut faults);
    }
    faults.sort();
    faults.dedup();
    faults
}

fn of_frontend(dump: &Dump, port: &ExpectedPort, expected: &ExpectedFrontend, faults: &mut Vec<Fault>) {
    let client = if expected.kind == RouteKind::ClusterIp { Client::Pod } else { Client::Outside };
    let to = expected.key;
    let wanted = port.endpoints(expected.action);
    let mut fault = |difference, kind, place: Place, endpoint: Option<SocketAddr>, detail: String| {
        let object = place.chain.clone();
        let endpoint = endpoint.map(|endpoint| endpoint.to_string());
        faults.push(Fault { difference, kind, object, place, endpoint, detail });
    };
    let Some((key, row)) = frontend(dump, to, client, &mut 0.0) else {
        let place = at(dump, key(dump.family, to));
        let detail =
            format!("no row of {} has {to} {}: its packets stay untranslated", place.table, to.protocol);
        fault(Difference::Missing, Kind::Frontend, place, None, detail);
        return;
    };
    let mut found: Vec<SocketAddr> = Vec::new();
    let mut holes: Vec<(Kind, Place, String)> = Vec::new();
    for slot in 1..=row.count {
        let place = at(dump, ServiceKey { slot, ..key });
        let Some(chosen) = dump.services.get(&ServiceKey { slot, ..key }) else {
            holes.push((Kind::Backend, place, format!("{} slots are used and it is not there", row.count)));
            continue;
        };
        let Some(backends) = &dump.backends else { continue };
        let Some(backend) = backends.get(&chosen.word) else {
            let map = names(dump.family).backends;
            holes.push((Kind::Empty, place, format!("{map} has no backend {}", chosen.word)));
            continue;
        };
        if !wanted.contains(&backend.address) {
            let detail = "an endpoint that the Service does not have on this node".to_owned();
            fault(Difference::Extra, Kind::Stale, place, Some(backend.address), detail);
        } else if found.contains(&backend.address) {
            let detail = "an endpoint is there twice and gets twice its share".to_owned();
            fault(Difference::Wrong, Kind::Shares, place, Some(backend.address), detail);
        }
        found.push(backend.address);
    }
    let missing = wanted.iter().filter(|endpoint| dump.backends.is_some() && !found.contains(endpoint));
    let mut missing: Vec<SocketAddr> = missing.copied().collect();
    // Whose one hole is, is plain when one endpoint is not there.
    let whose = if holes.len() == 1 && missing.len() == 1 { missing.pop() } else { None };
    for (kind, place, detail) in holes {
        fault(Difference::Missing, kind, place, whose, format!("{detail}: its share is dropped"));
    }
    for endpoint in missing {
        let detail = format!("none of the {} slots leads to it", row.count);
        fault(Difference::Missing, Kind::Backend, at(dump, key), Some(endpoint), detail);
    }
    if expected.kind == RouteKind::LoadBalancer
        && (row.flags & ServiceRow::SOURCE_RANGE == 0) != port.source_ranges.is_empty()
    {
        let (difference, detail) = if port.source_ranges.is_empty() {
            (Difference::Extra, "source ranges are asked for that the Service does not have")
        } else {
            (Difference::Missing, "everybody may come to the balancer's address")
        };
        fault(difference, Kind::SourceRange, at(dump, key), None, detail.to_owned());
    }
    if row.affinity() != port.affinity && row.count > 0 {
        let detail = match port.affinity {
            Some(seconds) => format!("clients should stay for {seconds} s"),
            None => "the Service asks for no affinity".to_owned(),
        };
        fault(Difference::Wrong, Kind::Affinity, at(dump, key), None, detail);
    }
    of_reverse(dump, expected, key, row, faults);
}

/// Replies must be written back to the address that was asked.
fn of_reverse(
    dump: &Dump,
    expected: &ExpectedFrontend,
    key: ServiceKey,
    row: ServiceRow,
    faults: &mut Vec<Fault>,
) {
    let Some(reverse) = &dump.reverse else { return };
    let slots: BTreeSet<u16> = (1..=row.count)
        .filter_map(|slot| dump.services.get(&ServiceKey { slot, ..key }))
        .map(|row| row.reverse)
        .chain([row.reverse])
        .collect();
    let wanted = expected.key.address.map(|address| SocketAddr::new(address, expected.key.port));
    for number in slots {
        let (difference, detail) = match (reverse.get(&number), wanted) {
            (None, _) => (
                Difference::Missing,
                "no row has this number, so replies keep the endpoint's address".to_owned(),
            ),
            (Some(found), Some(wanted)) if *found != wanted => {
                (Difference::Wrong, format!("replies are written back to {found} and not to {wanted}"))
            }
            _ => continue,
        };
        faults.push(Fault {
            difference,
            kind: Kind::Masquerade,
            object: format!("reverse NAT {number}"),
            place: Place::within(names(dump.family).reverse, &number.to_string()),
            endpoint: None,
            detail,
        });
    }
}
