//! Where a fault is made: who asks, who answers, and what is between them.
//!
//! Invariant: told of the lab without faults, so that a second fault is made as if it were the first.

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::place::Place;

/// A pod or a server, its addresses and its node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its place.
    pub place: Place,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
    /// The node on which it is.
    pub node: String,
}

/// A Service that the client may ask for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// Its name, `api`.
    pub name: String,
    /// Its whole name, `api.shop.svc.cluster.local.`.
    pub fqdn: String,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
    /// The addresses of its endpoints.
    pub endpoints: Vec<IpAddr>,
}

/// A scene.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scene {
    /// The pod that asks.
    pub client: Member,
    /// Namespace and name of the pod.
    pub client_key: (String, String),
    /// A Service of its namespace.
    pub target: Target,
    /// Namespace and name of the DNS Service.
    pub service: (String, String),
    /// The addresses of the DNS Service.
    pub addresses: Vec<IpAddr>,
    /// The pods behind it.
    pub servers: Vec<Member>,
    /// Labels by which policies select those.
    pub server_labels: BTreeMap<String, String>,
    /// The network policies of the DNS pods' namespace.
    pub server_policies: Vec<String>,
    /// Those of the client's namespace that act on egress.
    pub client_policies: Vec<String>,
    /// The world's servers, which the cluster's ask.
    pub above: Vec<IpAddr>,
    /// Another server of the world, which nobody asks.
    pub public: Vec<IpAddr>,
    /// By node, its link in the fabric.
    pub links: BTreeMap<String, String>,
    /// The cluster's zone, `cluster.local`.
    pub domain: String,
    /// Addresses that nobody has: of a Service, and of a pod.
    pub nobody: (IpAddr, IpAddr),
}

impl Scene {
    /// The client's node.
    pub(super) fn node(&self) -> Place {
        Place::Node(self.client.node.clone())
    }

    /// The DNS Service as `namespace/name`.
    pub(super) fn service_name(&self) -> String {
        format!("{}/{}", self.service.0, self.service.1)
    }

    /// The cluster's zone as questions have it.
    pub(super) fn zone(&self) -> String {
        format!("{}.", self.domain)
    }
}

/// Matches of nftables on addresses, one for each family that has any: `ip saddr { … }`.
pub(super) fn matching(side: &str, addresses: &[IpAddr]) -> Vec<String> {
    let family = |ipv4: bool, word: &str| {
        let of: Vec<String> =
            addresses.iter().filter(|address| address.is_ipv4() == ipv4).map(ToString::to_string).collect();
        (!of.is_empty()).then(|| format!("{word} {side} {{ {} }}", of.join(", ")))
    };
    [family(true, "ip"), family(false, "ip6")].into_iter().flatten().collect()
}

/// A base chain with these rules.
pub(super) fn chain(name: &str, kind: &str, hook: &str, priority: &str, rules: &[String]) -> String {
    format!(
        "  chain {name} {{\n    type {kind} hook {hook} priority {priority}; policy accept;\n    {}\n  }}\n",
        rules.join("\n    ")
    )
}

/// A chain that a node's forwarded packets go through.
pub(super) fn forward(rules: &[String]) -> String {
    chain("forward", "filter", "forward", "filter - 10", rules)
}
