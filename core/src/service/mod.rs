//! Services as the nodes' proxies see them: which endpoints a node uses, and why.
//!
//! Invariant: the model is kube-proxy's and says so; it is asked per service port, node and address family, the unit
//! in which a Service can be broken. What the proxy should have follows from that ([`expected`]), is written as its rules
//! ([`iptables`], [`nftables`]) and compared with rules that were found ([`fault`]). Knows no policy.

mod backends;
pub mod beside;
pub mod cilium;
pub mod comparison;
pub mod conntrack;
mod endpoints;
pub mod expected;
mod families;
pub mod fault;
pub mod follow;
pub mod iptables;
pub mod names;
pub mod nftables;
mod passage;
mod port_name;
mod rules;
pub mod select;
pub mod slices;
pub mod trace;

pub use backends::backends;
pub use endpoints::{
    Asked, NodeEndpoints, PortEndpoints, Route, RouteKind, ServiceEndpoints, endpoints, left_out,
    not_proxied, unknown_hints, unknown_slices,
};
pub use families::families;
pub use port_name::ServicePortName;
