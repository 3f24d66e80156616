//! The endpoints of a service port: the union of its slices.
//!
//! Invariant: as `pkg/proxy/endpointslicecache.go` has it: only the first address of an endpoint counts; a slice's
//! port belongs to a service port when name and protocol are the same, whatever its number, if it has one; an address and port that
//! is there twice is there once, and one that is ending never replaces one that is not.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use super::select::Backend;
use super::slices::Slices;
use crate::model::service::{AddressType, ServicePort};

/// The endpoints of a service port in one family, by address, and those that two slices tell differently about.
#[must_use]
pub fn backends(
    slices: &Slices<'_>,
    port: &ServicePort,
    family: AddressType,
) -> (Vec<Backend>, Vec<SocketAddr>) {
    let mut found: BTreeMap<SocketAddr, Backend> = BTreeMap::new();
    let mut disputed = Vec::new();
    for slice in slices.slices.values().filter(|slice| slice.address_type == family) {
        let numbers = slice
            .ports
            .iter()
            .filter(|found| {
                found.name.as_deref().unwrap_or_default() == port.name.as_deref().unwrap_or_default()
            })
            .filter(|found| found.protocol == port.protocol)
            .filter_map(|found| found.port.filter(|number| *number != 0));
        for number in numbers {
            for endpoint in &slice.endpoints {
                let Some(address) = endpoint.addresses.first() else { continue };
                let backend = Backend {
                    address: SocketAddr::new(*address, number),
                    ready: endpoint.ready,
                    serving: endpoint.serving,
                    terminating: endpoint.terminating,
                    node: endpoint.node.clone(),
                    zone_hints: endpoint.zone_hints.clone(),
                    node_hints: endpoint.node_hints.clone(),
                    pod: endpoint.pod.clone(),
                };
                match found.get(&backend.address) {
                    Some(known) if backend.terminating || *known == backend => {}
                    Some(known) => {
                        // Which of two that are not ending counts is chance there; here it is the last by name.
                        if !known.terminating {
                            disputed.push(backend.address);
                        }
                        found.insert(backend.address, backend);
                    }
                    None => {
                        found.insert(backend.address, backend);
                    }
                }
            }
        }
    }
    (found.into_values().collect(), disputed)
}
