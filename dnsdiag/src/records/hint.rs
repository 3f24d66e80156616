//! What else an asker may have meant, or will run into though the name resolves.
//!
//! Invariant: at most a handful each, sorted; spelling is near when two edits turn one into the other and the text is
//! longer than that.

use netlab_core::model::cluster::ObjectKey;
use netlab_core::model::service::Service;
use serde::Serialize;

use super::{World, fqdn};

/// As many as are told.
const MOST: usize = 5;

/// A hint.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase", tag = "kind")]
#[non_exhaustive]
pub enum Hint {
    /// A Service of this name is in another namespace.
    OtherNamespace {
        /// Its full name.
        name: String,
    },
    /// A Service or namespace of nearly this name.
    NearMiss {
        /// Its full name, or the namespace's.
        name: String,
    },
    /// Headless, and its endpoints are there but not ready: NXDOMAIN is right, and ends when one is.
    NotReady {
        /// How many endpoints.
        endpoints: usize,
        /// True when `publishNotReadyAddresses` would name them.
        could_be_published: bool,
    },
    /// `publishNotReadyAddresses` names endpoints that do not serve.
    PublishedNotReady {
        /// How many.
        endpoints: usize,
    },
    /// The name resolves, and nobody is behind the address.
    NoEndpoints {
        /// How many endpoints are there and not ready.
        not_ready: usize,
    },
    /// The names that the Service's endpoints have.
    EndpointNames {
        /// Sorted.
        known: Vec<String>,
    },
    /// A pod of this name exists, but this is not its name in DNS: `subdomain` is not this Service's name.
    SubdomainDiffers {
        /// `namespace/name` of the pod.
        pod: String,
        /// Its `subdomain`.
        subdomain: Option<String>,
    },
    /// The ports that the Service has.
    PortNames {
        /// `name/protocol`.
        known: Vec<String>,
    },
    /// `externalName` is an address or nothing.
    ExternalNameNoName {
        /// As written.
        target: String,
    },
    /// `externalName` is a name of the cluster that does not exist.
    ExternalNameDangles {
        /// The name.
        target: String,
    },
}

pub(super) fn near(a: &str, b: &str) -> bool {
    a != b && a.len().min(b.len()) > 2 && strsim::osa_distance(a, b) <= 2
}

/// Services that may have been meant by one that is not there.
pub(super) fn service(world: World<'_>, key: &ObjectKey, hints: &mut Vec<Hint>) {
    let services = || world.cluster.services.keys();
    let elsewhere = services().filter(|found| found.name == key.name && found.namespace != key.namespace);
    hints.extend(elsewhere.take(MOST).map(|found| Hint::OtherNamespace { name: fqdn(world, found) }));
    let nearly = services().filter(|found| found.namespace == key.namespace && near(&found.name, &key.name));
    hints.extend(nearly.take(MOST).map(|found| Hint::NearMiss { name: fqdn(world, found) }));
    if !world.cluster.namespaces.contains_key(&key.namespace) {
        namespace(world, &key.namespace, hints);
    }
}

/// Namespaces that may have been meant by one that is not there.
pub(super) fn namespace(world: World<'_>, wanted: &str, hints: &mut Vec<Hint>) {
    let nearly = world.cluster.namespaces.keys().filter(|name| near(name, wanted));
    hints.extend(nearly.take(MOST).map(|name| Hint::NearMiss { name: name.clone() }));
}

pub(super) fn headless(
    service: &Service,
    ready: usize,
    not_ready: usize,
    not_serving: usize,
    hints: &mut Vec<Hint>,
) {
    if ready == 0 && not_ready > 0 {
        hints.push(Hint::NotReady { endpoints: not_ready, could_be_published: !service.publish_not_ready });
    }
    if service.publish_not_ready && not_serving > 0 {
        hints.push(Hint::PublishedNotReady { endpoints: not_serving });
    }
}

/// A pod that is called like the endpoint that is not there.
pub(super) fn stateful(world: World<'_>, key: &ObjectKey, hostname: &str, hints: &mut Vec<Hint>) {
    let Some(pod) = world.cluster.pods.get(&ObjectKey::new(&key.namespace, hostname)) else { return };
    let subdomain = pod.dns.as_ref().and_then(|dns| dns.subdomain.clone());
    if subdomain.as_deref() != Some(&*key.name) {
        hints.push(Hint::SubdomainDiffers { pod: format!("{}/{hostname}", key.namespace), subdomain });
    }
}
