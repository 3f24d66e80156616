//! Cilium's service maps: what a node's eBPF programs look Services up in, read back, followed and compared.
//!
//! Invariant: the layout is that of `pkg/loadbalancer/maps/types.go` and `bpf/lib/common.h` (`cilium_lb4_services_v2`,
//! `cilium_lb4_backends_v3`, `cilium_lb4_reverse_nat` and their `lb6` twins); which endpoints should be there is
//! kube-proxy's model, and whoever shows a comparison says so. Does not know source ranges, Maglev tables and affinity
//! entries, nodes that are big-endian, nor what `service-no-backend-response` says: refusing is assumed, the default.

mod bits;
mod compare;
pub mod dump;
mod emit;
mod follow;

pub use compare::faults;
pub use emit::emit;
pub use follow::follow;

use crate::model::service::AddressType;

/// Where Cilium pins its maps.
pub const PINS: &str = "/sys/fs/bpf/tc/globals";

/// The maps of one family, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Names {
    /// Frontends and their slots.
    pub services: &'static str,
    /// Endpoints by number.
    pub backends: &'static str,
    /// What replies are written back to.
    pub reverse: &'static str,
}

/// The names of a family's maps.
#[must_use]
pub const fn names(family: AddressType) -> Names {
    match family {
        AddressType::Ipv6 => Names {
            services: "cilium_lb6_services_v2",
            backends: "cilium_lb6_backends_v3",
            reverse: "cilium_lb6_reverse_nat",
        },
        AddressType::Ipv4 | AddressType::Fqdn => Names {
            services: "cilium_lb4_services_v2",
            backends: "cilium_lb4_backends_v3",
            reverse: "cilium_lb4_reverse_nat",
        },
    }
}
