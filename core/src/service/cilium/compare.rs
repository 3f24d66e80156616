//! Comparing Cilium's service maps with what a node's proxy should have.
//!
//! Invariant: by key, row for row; a fault names the row by frontend and slot. A map that was not given is not compared.
//! What a row's bits should be: [`super::bits`].

use std::net::SocketAddr;

use super::bits;
use super::dump::{Backend, Dump, INSIDE, ServiceKey, ServiceRow};
use super::follow::{at, inside, keys};
use super::names;
use crate::model::port::Protocol;
use crate::service::RouteKind;
use crate::service::expected::{Action, ExpectedFrontend, ExpectedPort};
use crate::service::fault::{Difference, Fault, Kind, Place};

/// Compares the rows of one service port with what they should be.
#[must_use]
pub fn faults(dump: &Dump, port: &ExpectedPort) -> Vec<Fault> {
    let mut faults = Vec::new();
    for expected in &port.frontends {
        let inside = inside(port, expected);
        for key in keys(dump, port, expected.key) {
            let scopes = [Some((0, expected.action)), inside.map(|action| (INSIDE, action))];
            for (scope, action) in scopes.into_iter().flatten() {
                let row = Row { dump, port, expected, key: ServiceKey { scope, ..key }, action };
                row.compare(inside.is_some(), &mut faults);
            }
        }
    }
    of_strays(dump, port, &mut faults);
    faults.sort();
    faults.dedup();
    faults
}

/// A fault of a row, or of the endpoint that it leads to.
pub(super) fn fault(
    (difference, kind): (Difference, Kind),
    place: Place,
    endpoint: Option<SocketAddr>,
    detail: impl Into<String>,
) -> Fault {
    let object = place.chain.clone();
    Fault {
        difference,
        kind,
        object,
        place,
        endpoint: endpoint.map(|to| to.to_string()),
        detail: detail.into(),
    }
}

/// A frontend's row that should be there.
#[derive(Clone, Copy)]
struct Row<'a> {
    dump: &'a Dump,
    port: &'a ExpectedPort,
    expected: &'a ExpectedFrontend,
    key: ServiceKey,
    action: Action,
}

impl Row<'_> {
    fn compare(self, two_scopes: bool, faults: &mut Vec<Fault>) {
        let Self { dump, port, expected, key, .. } = self;
        let older = ServiceKey { protocol: 0, ..key };
        let found = [key, older].into_iter().find_map(|key| dump.services.get(&key).map(|row| (key, *row)));
        let Some((key, row)) = found else {
            let place = at(dump, key);
            let address = SocketAddr::new(key.address, key.port);
            let detail = format!(
                "no row of {} has {address} {}: its packets stay untranslated",
                place.table, expected.key.protocol
            );
            faults.push(fault((Difference::Missing, Kind::Frontend), place, None, detail));
            return;
        };
        let found = Row { key, ..self };
        found.slots(row, faults);
        found.unused(row, faults);
        bits::compare(row, port, (expected.kind, two_scopes), key, |what, detail| {
            faults.push(fault(what, at(dump, key), None, detail));
        });
        if row.affinity() != port.affinity {
            let detail = match port.affinity {
                Some(seconds) => format!("clients should stay for {seconds} s"),
                None => "the Service asks for no affinity".to_owned(),
            };
            faults.push(fault((Difference::Wrong, Kind::Affinity), at(dump, key), None, detail));
        }
        found.reverse(row, faults);
    }

    /// The slots that new connections are spread over.
    fn slots(self, row: ServiceRow, faults: &mut Vec<Fault>) {
        let Self { dump, port, key, .. } = self;
        let wanted = port.endpoints(self.action);
        let mut found: Vec<SocketAddr> = Vec::new();
        let mut holes: Vec<(Kind, Place, String)> = Vec::new();
        for slot in 1..=row.count {
            let place = at(dump, ServiceKey { slot, ..key });
            let Some(chosen) = dump.services.get(&ServiceKey { slot, ..key }) else {
                holes.push((
                    Kind::Backend,
                    place,
                    format!("{} slots are used and it is not there", row.count),
                ));
                continue;
            };
            if chosen.reverse != row.reverse {
                let detail = format!(
                    "it has the number {} for replies and its frontend {}; the frontend's counts, so clients see nothing of it",
                    chosen.reverse, row.reverse
                );
                faults.push(fault((Difference::Wrong, Kind::Masquerade), place.clone(), None, detail));
            }
            let Some(backends) = &dump.backends else { continue };
            let Some(backend) = backends.get(&chosen.word) else {
                let map = names(dump.family).backends;
                holes.push((Kind::Empty, place, format!("{map} has no backend {}", chosen.word)));
                continue;
            };
            if !wanted.contains(&backend.address) {
                let detail = "an endpoint that the Service does not have on this node";
                faults.push(fault((Difference::Extra, Kind::Stale), place, Some(backend.address), detail));
            } else if found.contains(&backend.address) {
                let detail = "an endpoint is there twice and gets twice its share";
                faults.push(fault((Difference::Wrong, Kind::Shares), place, Some(backend.address), detail));
            }
            found.push(backend.address);
            self.backend(chosen.word, *backend, faults);
        }
        let missing = wanted.iter().filter(|endpoint| dump.backends.is_some() && !found.contains(endpoint));
        let mut missing: Vec<SocketAddr> = missing.copied().collect();
        // Whose one hole is, is plain when one endpoint is not there.
        let whose = if holes.len() == 1 && missing.len() == 1 { missing.pop() } else { None };
        for (kind, place, detail) in holes {
            let detail = format!("{detail}: its share is dropped");
            faults.push(fault((Difference::Missing, kind), place, whose, detail));
        }
        for endpoint in missing {
            let detail = match self.unused_slot(row, endpoint) {
                Some((slot, backend)) => format!(
                    "its slot {slot} is behind the {} that are used, as of one that is ending or in quarantine; its state is `{}`",
                    row.count,
                    backend.state_words()
                ),
                None => format!("none of the {} slots leads to it", row.count),
            };
            faults.push(fault((Difference::Missing, Kind::Backend), at(dump, key), Some(endpoint), detail));
        }
    }

    /// What a backend says beside its address.
    fn backend(self, number: u32, backend: Backend, faults: &mut Vec<Fault>) {
        let place = || Place::within(names(self.dump.family).backends, &number.to_string());
        let mut wrong = |kind, detail: String| {
            faults.push(fault((Difference::Wrong, kind), place(), Some(backend.address), detail));
        };
        let protocol = self.expected.key.protocol;
        if backend.protocol != 0 && backend.protocol != protocol.number() {
            let known = Protocol::ALL.into_iter().find(|known| known.number() == backend.protocol);
            let is = known.map_or_else(|| backend.protocol.to_string(), |known| known.to_string());
            let detail = format!(
                "it is an endpoint of protocol {is}, and the frontend's is {protocol}; packets keep their own and arrive at its address all the same"
            );
            wrong(Kind::BackendTarget, detail);
        }
        let ending = self.port.ending.contains(&backend.address);
        if backend.state != if ending { Backend::ENDING } else { Backend::ACTIVE } {
            let detail = format!(
                "it is {} there, though {}; slots are chosen without asking for it, so new connections still go to it, but clients that stay or reopen one are sent elsewhere",
                backend.state_words(),
                if ending { "its pod is ending" } else { "a slot that counts leads to it and it is ready" }
            );
            wrong(Kind::Backend, detail);
        }
        if backend.cluster != 0 {
            let detail = format!("it is an endpoint of cluster {} and not of this one", backend.cluster);
            wrong(Kind::BackendTarget, detail);
        }
    }

    fn unused_slot(self, row: ServiceRow, endpoint: SocketAddr) -> Option<(u16, Backend)> {
        let backends = self.dump.backends.as_ref()?;
        unused_slots(row).find_map(|slot| {
            let chosen = self.dump.services.get(&ServiceKey { slot, ..self.key })?;
            let backend = backends.get(&chosen.word)?;
            (backend.address == endpoint).then_some((slot, *backend))
        })
    }

    /// Slots that are kept and not used.
    fn unused(self, row: ServiceRow, faults: &mut Vec<Fault>) {
        for slot in unused_slots(row) {
            let key = ServiceKey { slot, ..self.key };
            if !self.dump.services.contains_key(&key) {
                let detail = format!(
                    "{} slots behind those that are used are counted and it is not there; nothing is sent to it",
                    row.unused
                );
                faults.push(fault((Difference::Missing, Kind::Backend), at(self.dump, key), None, detail));
            }
        }
    }

    /// Replies must be written back to the address that was asked.
    fn reverse(self, row: ServiceRow, faults: &mut Vec<Fault>) {
        let Some(reverse) = &self.dump.reverse else { return };
        let wanted = SocketAddr::new(self.key.address, self.key.port);
        let consequence = "clients take no such answer, but those whose sockets Cilium translates (socket load balancing) see nothing of it";
        let (difference, detail) = match reverse.get(&row.reverse) {
            Some(found) if *found == wanted => return,
            None => (
                Difference::Missing,
                format!("no row has this number, so replies keep the endpoint's address; {consequence}"),
            ),
            Some(found) => (
                Difference::Wrong,
                format!("replies are written back to {found} and not to {wanted}; {consequence}"),
            ),
        };
        let place = Place::within(names(self.dump.family).reverse, &row.reverse.to_string());
        let object = format!("reverse NAT {}", row.reverse);
        faults.push(Fault { object, ..fault((difference, Kind::Masquerade), place, None, detail) });
    }
}

fn unused_slots(row: ServiceRow) -> impl Iterator<Item = u16> {
    (row.count..row.count.saturating_add(row.unused)).map(|slot| slot.saturating_add(1))
}

/// Rows at the cluster IP of ports that the Service does not have. Other addresses may be those of other Services, too.
fn of_strays(dump: &Dump, port: &ExpectedPort, faults: &mut Vec<Fault>) {
    let frontends = port.frontends.iter().filter(|frontend| frontend.kind == RouteKind::ClusterIp);
    let own = (frontends.clone().map(|frontend| frontend.key.port).next(), port.name.protocol);
    let is_first = port.siblings.first().is_some_and(|(number, protocol)| (Some(*number), *protocol) == own);
    for address in frontends.filter_map(|frontend| frontend.key.address) {
        let first = ServiceKey { address, port: 0, protocol: 0, scope: 0, slot: 0 };
        let last = ServiceKey { port: u16::MAX, protocol: u8::MAX, scope: u8::MAX, slot: u16::MAX, ..first };
        // Port 0 drops what is addressed to ports that no Service has.
        let rows = dump.services.range(first..=last).map(|(key, _)| *key);
        for key in rows.filter(|key| (key.slot, key.scope) == (0, 0) && key.port != 0) {
            let has = |protocol: u8| dump.services.contains_key(&ServiceKey { protocol, ..key });
            let mut named = port.siblings.iter().filter(|(number, _)| *number == key.port).peekable();
            let is_own = own.0 == Some(key.port);
            if if named.peek().is_some() { !is_own } else { !is_first } {
                continue;
            }
            let is_known = named.any(|(_, protocol)| {
                protocol.number() == key.protocol || key.protocol == 0 && !has(protocol.number())
            });
            if !is_known {
                let detail = "the Service has no such port; packets to it are translated all the same";
                faults.push(fault((Difference::Extra, Kind::Stale), at(dump, key), None, detail));
            }
        }
    }
}
