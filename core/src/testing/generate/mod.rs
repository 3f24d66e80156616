//! Random clusters, policies and questions, small enough to meet often and odd enough to hurt.
//!
//! Invariant: everything here comes from the random numbers passed in; the same seed gives the same world.
//! Objects are valid API objects, and addresses are ones that a packet may bear: no loopback, multicast or
//! IPv4-mapped ones.
//!
//! What it aims at, because these were found to break enforcers: same labels with different named ports, names
//! repeated with several numbers, slices of the pods' ranges and exceptions on single pods, both families' "everything"
//! together, CIDRs with host bits, ranges that end where a named port begins, and every way to leave a list out.

pub mod cluster;
pub mod coverage;
pub mod policies;
pub mod questions;
mod rule_view;
pub mod tiers;

use fastrand::Rng;

use crate::input::WireObjects;

/// Names that container ports and rules use.
pub(crate) const PORT_NAMES: [&str; 4] = ["web", "metrics", "dns", "admin"];

/// Numbers that container ports and rules use.
pub(crate) const PORT_NUMBERS: [u16; 8] = [1, 53, 80, 81, 443, 8080, 8081, 65535];

/// Values of labels, by key; each key may also be missing.
pub(crate) const POD_LABELS: [(&str, [&str; 3]); 3] =
    [("app", ["web", "api", "db"]), ("tier", ["front", "back", "front"]), ("canary", ["1", "0", "1"])];

/// The same for namespaces.
pub(crate) const NAMESPACE_LABELS: [(&str, [&str; 3]); 2] =
    [("team", ["red", "blue", "green"]), ("env", ["prod", "dev", "prod"])];

/// The same for nodes.
pub(crate) const NODE_LABELS: [(&str, [&str; 3]); 2] =
    [("zone", ["a", "b", "a"]), ("role", ["edge", "work", "work"])];

/// A cluster, 0 to 8 network policies and 0 to 5 of the other tiers over it.
pub fn world(rng: &mut Rng) -> WireObjects {
    let mut objects = cluster::cluster(rng);
    policies::add_policies(&mut objects, rng);
    tiers::add_tier_policies(&mut objects, rng);
    objects
}

/// True in so many of a hundred cases.
pub(crate) fn chance(rng: &mut Rng, percent: u8) -> bool {
    rng.u8(0..100) < percent
}

/// One of several; the default where there is none.
pub(crate) fn pick<T: Clone + Default>(rng: &mut Rng, choices: &[T]) -> T {
    rng.choice(choices).cloned().unwrap_or_default()
}

/// The metadata of an object.
pub(crate) fn metadata(namespace: Option<&str>, name: &str) -> crate::input::wire::meta::ObjectMeta {
    crate::input::wire::meta::ObjectMeta {
        name: Some(name.to_owned()),
        namespace: namespace.map(str::to_owned),
        ..Default::default()
    }
}
