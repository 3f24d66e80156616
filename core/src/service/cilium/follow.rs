//! Following a packet through Cilium's service maps.
//!
//! Invariant: as the programs look up: the frontend's row under its protocol, then under none; for clients inside the
//! row of their scope where the first says that there are two; a slot by chance; the slot's backend. What is not found
//! on the way is dropped; an address without a row is left as it is, and nobody has it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::dump::{Dump, INSIDE, ServiceKey, ServiceRow};
use super::names;
use crate::model::service::AddressType;
use crate::service::expected::FrontendKey;
use crate::service::fault::Place;
use crate::service::follow::{Client, Followed, Hop};

/// Follows packets.
#[must_use]
pub fn follow(dump: &Dump, to: FrontendKey, client: Client) -> Followed {
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

/// The row of a frontend, and how often the map was asked for it.
pub(super) fn frontend(
    dump: &Dump,
    to: FrontendKey,
    client: Client,
    lookups: &mut f64,
) -> Option<(ServiceKey, ServiceRow)> {
    let mut ask = |key: ServiceKey| {
        *lookups += 1.0;
        dump.services.get(&key).map(|row| (key, *row))
    };
    let exact = key(dump.family, to);
    let (key, row) = ask(exact).or_else(|| ask(ServiceKey { protocol: 0, ..exact }))?;
    if client == Client::Outside || row.flags2 & ServiceRow::TWO_SCOPES == 0 {
        return Some((key, row));
    }
    ask(ServiceKey { scope: INSIDE, ..key })
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
