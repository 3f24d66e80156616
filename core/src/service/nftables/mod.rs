//! kube-proxy's nftables mode: its table written, read back and followed.

mod beyond;
mod compare;
pub mod dump;
mod emit;
mod follow;
pub mod foreign;
mod leaving;
mod listing;
mod printed;
mod reading;
mod rules;
mod shared;
mod text;
mod written;

use serde::{Deserialize, Serialize};

pub use compare::faults;
pub use emit::{TABLE, emit};
pub use follow::{follow, layout, node_port_addresses};
pub use listing::listing;
pub use shared::shared_faults;

/// The shape of the chains of a service port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Layout {
    /// One rule that translates through a map (1.36 and later, without session affinity).
    Maps,
    /// A chain for each endpoint (1.35 and before, and with session affinity).
    Chains,
}

impl Layout {
    /// In words.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Maps => "maps (kube-proxy 1.36 and later)",
            Self::Chains => "endpoint chains (kube-proxy 1.35 and before)",
        }
    }
}

/// Names of a service port's chains.
pub(crate) mod chain {
    use std::net::SocketAddr;

    use crate::service::{ServicePortName, names};

    /// Spreads over the endpoints of the cluster.
    pub(crate) fn cluster(port: &ServicePortName) -> String {
        format!("service-{}", names::nftables(port))
    }

    /// Spreads over the endpoints of the node.
    pub(crate) fn local(port: &ServicePortName) -> String {
        format!("local-{}", names::nftables(port))
    }

    /// Takes what comes from outside.
    pub(crate) fn external(port: &ServicePortName) -> String {
        format!("external-{}", names::nftables(port))
    }

    /// Drops all but source ranges.
    pub(crate) fn firewall(port: &ServicePortName) -> String {
        format!("firewall-{}", names::nftables(port))
    }

    /// Translates to one endpoint.
    pub(crate) fn endpoint(port: &ServicePortName, endpoint: SocketAddr) -> String {
        format!("endpoint-{}", names::nftables_endpoint(port, endpoint))
    }

    /// Remembers clients of one endpoint.
    pub(crate) fn affinity(port: &ServicePortName, endpoint: SocketAddr) -> String {
        format!("affinity-{}", names::nftables_endpoint(port, endpoint))
    }
}
