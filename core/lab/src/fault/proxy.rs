//! A cluster as a proxy believes it to be that has missed something.
//!
//! Invariant: the rules that follow are those of a proxy without fault for this cluster, in every mode.

use netlab_core::model::cluster::{Cluster, ObjectKey};
use netlab_core::service::slices::{self, ENDPOINTS_PER_SLICE};

use super::ProxyEdit;

/// The cluster with what a proxy believes of it.
#[must_use]
pub fn believed(cluster: &Cluster, edits: &[ProxyEdit]) -> Cluster {
    let mut believed = cluster.clone();
    for edit in edits {
        match edit {
            ProxyEdit::NoServices => believed.services.clear(),
            ProxyEdit::NoPort { service, protocol } => {
                let key = key(service);
                if let Some(service) = key.and_then(|key| believed.services.get_mut(&key)) {
                    service.ports.retain(|port| port.protocol != *protocol);
                }
            }
            ProxyEdit::Moved { service, from, to } => {
                let Some(key) = key(service) else { continue };
                write_slices(&mut believed, &key);
                let of_it = believed.endpoint_slices.iter_mut().filter(|(slice, object)| {
                    slice.namespace == key.namespace && object.service.as_deref() == Some(&*key.name)
                });
                let endpoints = of_it.flat_map(|(_, slice)| &mut slice.endpoints);
                for address in endpoints.flat_map(|endpoint| &mut endpoint.addresses) {
                    if address == from {
                        *address = *to;
                    }
                }
            }
        }
    }
    believed
}

fn key(text: &str) -> Option<ObjectKey> {
    text.split_once('/').map(|(namespace, name)| ObjectKey::new(namespace, name))
}

/// Makes slices that are only predicted ones that are there.
fn write_slices(cluster: &mut Cluster, key: &ObjectKey) {
    let Some(service) = cluster.services.get(key) else { return };
    let found = slices::of(cluster, key, service, ENDPOINTS_PER_SLICE);
    let written: Vec<_> = found
        .slices
        .into_iter()
        .map(|(name, slice)| (ObjectKey::new(key.namespace.clone(), name), slice.into_owned()))
        .collect();
    cluster.endpoint_slices.extend(written);
}
