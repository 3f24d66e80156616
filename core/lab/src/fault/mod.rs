//! What can be broken in a lab on purpose, as data.
//!
//! A [`Fault`] has a name, the words that teach it, and the [`Change`]s that make it in a [`Scene`]. Invariant: a fault changes
//! nothing by itself. Whoever holds the lab derives its state from what it is made of and from the faults that are in, so a
//! fault that is taken out leaves nothing behind. Sources: the failure modes F01 to F95 of the diagnosis, whose numbers
//! [`Fault::mode`] gives.

mod files;
mod links;
mod node_local;
mod path;
mod policy;
mod proxy;
mod rules;
mod scene;
mod server;
mod service;
mod stuck;

use std::net::{IpAddr, SocketAddr};

use netlab_core::model::port::Protocol;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use links::Links;
pub use proxy::believed;
pub use rules::Tables;
pub use scene::{Member, Scene, Target};
pub use stuck::{Stuck, StuckFlow};

use crate::dns::{Role, Rule, Server};
use crate::named::File;
use crate::place::Place;

/// Where a fault is made: what of the way from a name to an answer it spoils.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Layer {
    /// Network policy.
    Policy,
    /// A Service: its object, its endpoints.
    Service,
    /// The rules that lead from a Service to its endpoints.
    Proxy,
    /// What the kernel remembers of flows.
    Conntrack,
    /// The network between.
    Path,
    /// The cluster's DNS servers.
    Server,
    /// The servers that those ask.
    Upstream,
    /// What the pod's spec or its node's kubelet says about DNS.
    Spec,
    /// A file in the pod.
    File,
}

impl std::fmt::Display for Layer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Policy => "policy",
            Self::Service => "service",
            Self::Proxy => "proxy",
            Self::Conntrack => "conntrack",
            Self::Path => "path",
            Self::Server => "server",
            Self::Upstream => "upstream",
            Self::Spec => "spec",
            Self::File => "file",
        })
    }
}

/// A way to break a lab.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// How it is called on the command line.
    pub name: &'static str,
    /// The failure mode that a diagnosis should find, `F01`; empty when it is none of them.
    pub mode: &'static str,
    /// Where it is made.
    pub layer: Layer,
    /// What is done.
    pub breaks: &'static str,
    /// What somebody sees who does not know it.
    pub seen: &'static str,
    changes: fn(&Scene) -> Vec<Change>,
}

impl Fault {
    /// What has to change for it. Empty when the scene has not what it takes.
    #[must_use]
    pub fn changes(&self, scene: &Scene) -> Vec<Change> {
        (self.changes)(scene)
    }

    /// True when it cannot be made in a lab without policies in force.
    #[must_use]
    pub fn needs_policies(&self, scene: &Scene) -> bool {
        let is_policy =
            |change: &Change| matches!(change, Change::Put(object) if object["kind"] == "NetworkPolicy");
        self.changes(scene).iter().any(is_policy)
    }
}

/// Every fault, by layer.
pub fn catalogue() -> impl Iterator<Item = &'static Fault> {
    let mut all: Vec<&'static Fault> = [
        policy::FAULTS,
        service::FAULTS,
        service::PROXY,
        path::CONNTRACK,
        path::FAULTS,
        server::FAULTS,
        server::UPSTREAM,
        node_local::FAULTS,
        files::SPEC,
        files::FAULTS,
    ]
    .into_iter()
    .flatten()
    .collect();
    all.sort_by_key(|fault| fault.layer);
    all.into_iter()
}

/// The fault of a name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Fault> {
    catalogue().find(|fault| fault.name == name)
}

/// A fault that is in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Broken {
    /// Its name.
    pub name: String,
    /// The pod that it is about.
    pub pod: String,
    /// The name that it is about, where it is about one.
    pub target: String,
    /// What it changes.
    pub changes: Vec<Change>,
}

/// One change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Change {
    /// An object is put to the manifests, or takes the place of one of its kind and name.
    Put(Value),
    /// An object is taken from the manifests.
    Remove {
        /// Its kind.
        kind: String,
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// Fields of an object are changed (RFC 7396), and the slices that follow from it.
    Patch {
        /// Its kind.
        kind: String,
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// The fields.
        patch: Value,
    },
    /// What kubelets are told.
    Kubelet(Kubelet),
    /// A file of a place.
    File {
        /// Where.
        at: Place,
        /// Which.
        file: File,
        /// What it says instead.
        text: String,
    },
    /// A server does something else than answer; asked before earlier ones.
    Answer {
        /// Whose servers.
        role: Role,
        /// The rule.
        rule: Rule,
    },
    /// Whom the cluster's servers ask.
    Above(Vec<IpAddr>),
    /// What the DNS servers' configuration has besides.
    Corefile(Corefile),
    /// What the DNS servers wrote when they did not start, or did not get what they need: lines of their log.
    Wrote(Vec<String>),
    /// A server listens on other ports, or not at all.
    Listen {
        /// Whose.
        at: Place,
        /// The port; as it is when absent.
        port: Option<u16>,
        /// On UDP.
        udp: bool,
        /// On TCP.
        tcp: bool,
    },
    /// The rules of proxies, as if the cluster were another.
    Proxy(ProxyEdit),
    /// Rules of nftables: the chains of a table that the fault has for itself.
    Rules {
        /// Where.
        at: Place,
        /// The chains.
        chains: String,
    },
    /// An interface that only this place is on, with addresses that only it has.
    Link {
        /// Where.
        at: Place,
        /// How it is called.
        name: String,
        /// What it has.
        addresses: Vec<IpAddr>,
    },
    /// A further server.
    Serve(Server),
    /// Somebody keeps sending from one port, and the kernel remembers where that led once.
    Stuck(StuckFlow),
}

/// What kubelets are told, where it is something else.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Kubelet {
    /// `clusterDNS`.
    pub cluster_dns: Option<Vec<IpAddr>>,
    /// `clusterDomain`.
    pub cluster_domain: Option<String>,
    /// The nodes' own `resolv.conf`.
    pub host_file: Option<String>,
    /// When its configuration was changed, RFC 3339.
    #[serde(default)]
    pub changed: Option<String>,
}

/// What a Corefile has besides, each text whole lines.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Corefile {
    /// Plugins of the block of all names.
    pub plugins: String,
    /// What stands in the body of its `forward`.
    pub forward: String,
    /// Further server blocks.
    pub blocks: String,
}

/// What a proxy believes of a Service that is not so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ProxyEdit {
    /// It has heard of no Service.
    NoServices,
    /// A Service has no port of a protocol.
    NoPort {
        /// `namespace/name`.
        service: String,
        /// The protocol.
        protocol: Protocol,
    },
    /// An endpoint is somewhere else.
    Moved {
        /// `namespace/name`.
        service: String,
        /// The endpoint.
        from: IpAddr,
        /// Where it is believed to be.
        to: IpAddr,
    },
}

impl Change {
    fn patch(kind: &str, namespace: &str, name: &str, patch: Value) -> Self {
        Self::Patch { kind: kind.to_owned(), namespace: namespace.to_owned(), name: name.to_owned(), patch }
    }

    fn answer(rule: Rule) -> Self {
        Self::Answer { role: Role::Cluster, rule }
    }

    fn outside(rule: Rule) -> Self {
        Self::Answer { role: Role::Outside, rule }
    }

    fn wrote(line: &str) -> Self {
        Self::Wrote(vec![line.to_owned()])
    }

    fn rules(at: &Place, chains: impl Into<String>) -> Self {
        Self::Rules { at: at.clone(), chains: chains.into() }
    }
}

/// A flow that leads somewhere else than it should.
fn stuck(at: &Place, node: &Place, port: u16, to: SocketAddr, leads_to: SocketAddr) -> Change {
    Change::Stuck(StuckFlow { at: at.clone(), node: node.clone(), port, to, leads_to })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::catalogue;

    #[test]
    fn faults_of_one_layer_stand_together_and_no_name_is_two() {
        let layers: Vec<_> = catalogue().map(|fault| fault.layer).collect();
        assert!(layers.is_sorted(), "{layers:?}");
        let names: BTreeSet<&str> = catalogue().map(|fault| fault.name).collect();
        assert_eq!(names.len(), layers.len());
    }
}
