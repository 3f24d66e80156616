//! How names are made in a lab: from its manifests to servers, zones and files.
//!
//! Invariant: [`Naming`] says what a kubelet's configuration and a node's file would say, and [`files()`] is kubelet's model
//! applied to it; [`zones`] are the answers of the record model, name by name. Nothing is decided twice.

mod complete;
mod files;
mod zones;

use std::net::IpAddr;

use netlab_core::model::cluster::ObjectKey;
use netlab_lab::dns::{Book, Books, Server};
use netlab_lab::fault::Corefile;
use serde::{Deserialize, Serialize};

pub(crate) use complete::{complete, servers};
pub(crate) use files::{File, files};
pub(crate) use zones::{cluster_zones, outside_zone};

/// The cluster's zone.
pub(crate) const DOMAIN: &str = "cluster.local";

/// How names are made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Naming {
    /// Namespace and name of the Service of the cluster's servers.
    pub(crate) service: (String, String),
    /// Kubelet's `clusterDNS`.
    pub(crate) cluster_dns: Vec<IpAddr>,
    /// Kubelet's `clusterDomain`.
    pub(crate) cluster_domain: String,
    /// The nodes' own `resolv.conf`.
    pub(crate) host_file: String,
    /// When kubelet's configuration was changed, RFC 3339; nobody knows when absent.
    pub(crate) changed: Option<String>,
    /// What the servers' configuration has besides.
    pub(crate) corefile: Corefile,
    /// What the servers wrote before they served.
    pub(crate) wrote: Vec<String>,
    /// The servers of the cluster and of the world.
    pub(crate) servers: Vec<Server>,
    /// Addresses of the world's servers, which the cluster's ask.
    pub(crate) above: Vec<IpAddr>,
    /// Addresses of the world's servers, which nobody asks.
    pub(crate) public: Vec<IpAddr>,
}

impl Naming {
    /// The addresses that the fabric has to bear.
    pub(crate) fn outside(&self) -> Vec<IpAddr> {
        self.above.iter().chain(&self.public).copied().collect()
    }

    /// The Service of the cluster's servers.
    pub(crate) fn service(&self) -> ObjectKey {
        ObjectKey::new(self.service.0.clone(), self.service.1.clone())
    }

    /// The kubelet's configuration as a file.
    pub(crate) fn kubelet_config(&self) -> String {
        let addresses: Vec<String> =
            self.cluster_dns.iter().map(|address| format!("- \"{address}\"\n")).collect();
        let dns =
            if addresses.is_empty() { String::new() } else { format!("clusterDNS:\n{}", addresses.concat()) };
        let changed = self.changed.as_ref().map(|time| format!("# changed: {time}\n")).unwrap_or_default();
        format!(
            "{changed}apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n{dns}clusterDomain: {}\n",
            self.cluster_domain
        )
    }

    /// A configuration by which `CoreDNS` would answer as the lab's servers do.
    pub(crate) fn corefile(&self) -> String {
        let Corefile { plugins, forward, blocks } = &self.corefile;
        let above: Vec<String> = self.above.iter().map(ToString::to_string).collect();
        let of_node: Vec<&str> =
            self.host_file.lines().filter_map(|line| line.strip_prefix("nameserver ")).collect();
        // As kubeadm has it, where the node's file says whom they ask.
        let to = if above == of_node { "/etc/resolv.conf".to_owned() } else { above.join(" ") };
        let forward = if forward.is_empty() {
            format!("    forward . {to}\n")
        } else {
            format!("    forward . {to} {{\n{forward}    }}\n")
        };
        format!(
            ".:53 {{\n    errors\n    log\n    health\n    ready\n{plugins}    kubernetes {DOMAIN} in-addr.arpa ip6.arpa {{\n        \
             pods insecure\n        fallthrough in-addr.arpa ip6.arpa\n        ttl 30\n    }}\n{forward}    loop\n    \
             reload\n    loadbalance\n}}\n{blocks}"
        )
    }

    /// What the servers say about a cluster.
    pub(crate) fn books(&self, cluster: &netlab_core::model::cluster::Cluster) -> Books {
        let above = self.above.iter().map(|address| (*address, 53).into()).collect();
        Books {
            cluster: Book::new(cluster_zones(cluster, DOMAIN, &self.service()), above),
            outside: Book::new(vec![outside_zone(cluster, DOMAIN)], Vec::new()),
        }
    }
}
