//! Following a packet through Cilium's service maps.
//!
//! Invariant: as the programs look up: the frontend's row under its protocol, then under none; for clients inside the
//! row of their scope where the first says that there are two; a slot by chance; the slot's backend, whatever its state.
//! What is not found on the way is dropped; an address without a row is left as it is, and nobody has it. Replies are
//! written back by the number of the frontend's row; where sockets are translated (the node's own), they need not be.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::dump::{Dump, INSIDE, ServiceKey, ServiceRow};
use super::names;
use crate::model::service::AddressType;
use crate::service::RouteKind;
use crate::service::expected::{Action, ExpectedFrontend, ExpectedPort, FrontendKey};
use crate::service::fault::Place;
use crate::service::follow::{Client, Followed, Hop};

/// Follows packets of all who may ask by an address.
#[must_use]
pub fn follow(dump: &Dump, port: &ExpectedPort, to: &ExpectedFrontend) -> Vec<(Client, Followed)> {
    let keys = keys(dump, port, to.key);
    let of = |key: &ServiceKey, client: Client, action: Action| {
        let followed = Followed { action: Some(action), ..walk(dump, *key, client) };
        (client, followed)
    };
    if to.kind == RouteKind::ClusterIp {
        let both = [Client::Pod, Client::Node];
        return keys.iter().flat_map(|key| both.map(|client| of(key, client, to.action))).collect();
    }
    let mut all = Vec::new();
    for key in &keys {
        let inside = inside(port, to);
        if key.address.is_unspecified() && keys.len() > 1 {
            // Clients outside ask the node's addresses; sockets on it ask this row, too.
            all.push(of(key, Client::Node, inside.unwrap_or(to.action)));
            continue;
        }
        all.push(of(key, Client::Outside, to.action));
        all.extend(inside.map(|action| of(key, Client::Pod, action)));
    }
    all
}

/// What clients inside get by addresses for those outside; `None` when it is the same, so that there are no rows for it.
pub(super) fn inside(port: &ExpectedPort, outside: &ExpectedFrontend) -> Option<Action> {
    if outside.kind == RouteKind::ClusterIp || port.policy.external_local == port.policy.internal_local {
        return None;
    }
    let cluster_ip = port.frontends.iter().find(|frontend| frontend.kind == RouteKind::ClusterIp);
    Some(cluster_ip.unwrap_or(outside).action)
}

fn walk(dump: &Dump, to: ServiceKey, client: Client) -> Followed {
    let mut followed = Followed::default();
    let Some((key, row)) = frontend(dump, to, client, &mut followed.lookups) else {
        followed.shares.silent = 1.0;
        return followed;
    };
    let slots = if row.count == 1 { "1 slot".to_owned() } else { format!("{} slots", row.count) };
    followed.hops.push(Hop { place: at(dump, key), to: slots, choice: None, depth: 0 });
    if row.count == 0 {
        followed.shares.refused = 1.0;
        return followed;
    }
    let external =
        ServiceRow::EXTERNAL_IP | ServiceRow::NODE_PORT | ServiceRow::LOAD_BALANCER | ServiceRow::HOST_PORT;
    let is_closed = row.flags & ServiceRow::ROUTABLE == 0 && row.flags & external != 0;
    if client == Client::Outside && is_closed && !key.address.is_unspecified() {
        followed.shares.silent = 1.0;
        return followed;
    }
    followed.unanswered = client != Client::Node && !is_written_back(dump, key, row);
    let share = 1.0 / f64::from(row.count);
    // A slot and a backend, for each packet.
    followed.lookups += 1.0;
    for slot in 1..=row.count {
        let key = ServiceKey { slot, ..key };
        let Some(chosen) = dump.services.get(&key) else {
            followed.shares.silent += share;
            continue;
        };
        followed.lookups += share;
        let choice = (row.count > 1).then(|| (usize::from(slot), usize::from(row.count)));
        let backend = format!("backend {}", chosen.word);
        followed.hops.push(Hop { place: at(dump, key), to: backend, choice, depth: 1 });
        let Some(found) = dump.backends.as_ref().and_then(|backends| backends.get(&chosen.word)) else {
            followed.shares.silent += share;
            continue;
        };
        *followed.shares.to.entry(found.address).or_default() += share;
        let place = Place::within(names(dump.family).backends, &chosen.word.to_string());
        followed.hops.push(Hop { place, to: format!("DNAT {}", found.address), choice: None, depth: 2 });
    }
    followed
}

/// Whether replies get the address back that was asked; they do where that map was not given.
fn is_written_back(dump: &Dump, key: ServiceKey, row: ServiceRow) -> bool {
    let asked = SocketAddr::new(key.address, key.port);
    dump.reverse.as_ref().is_none_or(|reverse| reverse.get(&row.reverse) == Some(&asked))
}

/// The row of a frontend, and how often the map was asked for it.
pub(super) fn frontend(
    dump: &Dump,
    exact: ServiceKey,
    client: Client,
    lookups: &mut f64,
) -> Option<(ServiceKey, ServiceRow)> {
    let mut ask = |key: ServiceKey| {
        *lookups += 1.0;
        dump.services.get(&key).map(|row| (key, *row))
    };
    let (key, row) = ask(exact).or_else(|| ask(ServiceKey { protocol: 0, ..exact }))?;
    if client == Client::Outside || row.flags2 & ServiceRow::TWO_SCOPES == 0 {
        return Some((key, row));
    }
    ask(ServiceKey { scope: INSIDE, ..key })
}

/// The keys of a frontend, for clients outside. A node port has a row for each address that Cilium takes for the node's, and
/// one without an address; that a row is missing is plain when none of the addresses that the Node has is among them.
pub(super) fn keys(dump: &Dump, port: &ExpectedPort, to: FrontendKey) -> Vec<ServiceKey> {
    let exact = key(dump.family, to);
    if to.address.is_some() {
        return vec![exact];
    }
    let has = |address: &IpAddr| {
        let of = |protocol| ServiceKey { address: *address, protocol, ..exact };
        [exact.protocol, 0].into_iter().any(|protocol| dump.services.contains_key(&of(protocol)))
    };
    // Another port's rows tell the addresses that this one's should have, too.
    let mut addresses: Vec<IpAddr> = port.addresses.iter().copied().filter(|ip| has(ip)).collect();
    if addresses.is_empty() {
        addresses.extend(port.addresses.first());
    }
    addresses.extend(&dump.node_addresses);
    addresses.sort_unstable();
    addresses.dedup();
    addresses.into_iter().chain([exact.address]).map(|address| ServiceKey { address, ..exact }).collect()
}

/// The key of a frontend; node ports have a row without an address.
pub(super) fn key(family: AddressType, to: FrontendKey) -> ServiceKey {
    let any: IpAddr = match family {
        AddressType::Ipv6 => Ipv6Addr::UNSPECIFIED.into(),
        AddressType::Ipv4 | AddressType::Fqdn => Ipv4Addr::UNSPECIFIED.into(),
    };
    ServiceKey {
        address: to.address.unwrap_or(any),
        port: to.port,
        protocol: to.protocol.number(),
        scope: 0,
        slot: 0,
    }
}

/// Where a row is.
pub(super) fn at(dump: &Dump, key: ServiceKey) -> Place {
    Place::within(names(dump.family).services, &key.to_string())
}
