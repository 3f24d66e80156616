//! kube-proxy's iptables mode: its rules written, read back and followed.

mod beyond;
mod compare;
pub mod dump;
mod emit;
mod follow;
mod foreign;
mod form;
mod lists;
mod masquerade;
mod shared;
mod wanted;
mod worse;

pub use beyond::{decides_at_input, tables_of_others};
pub use compare::faults;
pub use emit::{ProxyOptions, WRITTEN_BY, emit};
pub use follow::{follow, follow_inside};
pub use lists::{Written, node_port_addresses};
pub use shared::shared_faults;
pub use worse::worse;

/// Names of a service port's chains.
pub(crate) mod chain {
    use std::net::SocketAddr;

    use crate::service::{ServicePortName, names};

    /// Spreads over the endpoints of the cluster.
    pub(crate) fn cluster(port: &ServicePortName) -> String {
        format!("KUBE-SVC-{}", names::iptables(port))
    }

    /// Spreads over the endpoints of the node.
    pub(crate) fn local(port: &ServicePortName) -> String {
        format!("KUBE-SVL-{}", names::iptables(port))
    }

    /// Takes what comes from outside.
    pub(crate) fn external(port: &ServicePortName) -> String {
        format!("KUBE-EXT-{}", names::iptables(port))
    }

    /// Lets only source ranges go on.
    pub(crate) fn firewall(port: &ServicePortName) -> String {
        format!("KUBE-FW-{}", names::iptables(port))
    }

    /// Translates to one endpoint.
    pub(crate) fn endpoint(port: &ServicePortName, endpoint: SocketAddr) -> String {
        format!("KUBE-SEP-{}", names::iptables_endpoint(port, endpoint))
    }
}
