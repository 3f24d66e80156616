//! The pod's own `resolv.conf`, as its libc reads it, and what each nameserver in it is.
//!
//! Invariant: nothing is read for a pod whose file was not recorded. Where the libc is not known the file is read as glibc does,
//! which differs from others only in limits and options.

use std::net::IpAddr;

use netlab_core::model::cluster::ObjectKey;

use super::View;
use crate::bundle::layout;
use crate::resolv_conf::{Dialect, ResolvConf, read};
use crate::version::Version;

/// The address that a node's own DNS cache takes by default.
pub const NODE_LOCAL: &str = "169.254.20.10";

/// What a nameserver of the pod is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Server {
    /// The cluster's DNS Service.
    ClusterDns(ObjectKey),
    /// Another Service of the cluster.
    OtherService(ObjectKey),
    /// A DNS pod itself.
    DnsPod(ObjectKey),
    /// Another pod.
    OtherPod(ObjectKey),
    /// A link-local address: a cache on the node.
    LinkLocal,
    /// The pod's own loopback.
    Loopback,
    /// A node of the cluster.
    Node(String),
    /// One of the node's own nameservers.
    OfNode,
    /// An address that nothing recorded owns.
    Unowned,
}

impl View<'_> {
    /// The libc, with its version: `(musl, 1.2.5)`; `None` when it is not known.
    #[must_use]
    pub fn libc(&self) -> Option<(&str, Option<Version>)> {
        let libc = self.target.libc.as_deref()?;
        Some(match libc.split_once(':') {
            Some((family, version)) => (family, version.parse().ok()),
            None => (libc, None),
        })
    }

    /// True when the libc is musl, false when it is another, `None` when it is not known.
    #[must_use]
    pub fn is_musl(&self) -> Option<bool> {
        self.libc().map(|(family, _)| family == "musl")
    }

    /// How the pod's libc reads `resolv.conf`.
    #[must_use]
    pub fn dialect(&self) -> Dialect {
        match self.libc() {
            Some(("musl", version)) => Dialect::Musl(version.unwrap_or(Version::new(1, 2, 5))),
            Some(("go", version)) => Dialect::Go(version.unwrap_or(Version::new(1, 22, 0))),
            Some((_, version)) => Dialect::Glibc(version.unwrap_or(Version::new(2, 36, 0))),
            None => Dialect::Glibc(Version::new(2, 36, 0)),
        }
    }

    /// The pod's `resolv.conf` as its libc reads it.
    #[must_use]
    pub fn conf(&self) -> Option<ResolvConf> {
        Some(read(self.text(layout::POD_RESOLV_CONF)?.as_bytes(), self.dialect()))
    }

    /// The pod's nameservers, in order; empty when the file was not recorded.
    #[must_use]
    pub fn nameservers(&self) -> Vec<IpAddr> {
        let conf = self.conf();
        let all = conf.map(|conf| conf.nameservers).unwrap_or_default();
        all.iter().filter_map(|server| server.address).filter(|address| self.is_about(*address)).collect()
    }

    /// What an address is, as far as recorded objects tell; `None` when Services or pods were not recorded.
    #[must_use]
    pub fn server(&self, address: IpAddr) -> Option<Server> {
        if address.is_loopback() {
            return Some(Server::Loopback);
        }
        if !self.knows(layout::SERVICES) || !self.knows(layout::PODS) {
            return None;
        }
        let dns = self.dns_service();
        if let Some((key, _)) = self.service_at(address) {
            let is_dns = dns.is_some_and(|dns| dns.key == *key) || key.name == "kube-dns-upstream";
            return Some(if is_dns {
                Server::ClusterDns(key.clone())
            } else {
                Server::OtherService(key.clone())
            });
        }
        if let IpAddr::V4(v4) = address
            && v4.is_link_local()
        {
            return Some(Server::LinkLocal);
        }
        let owner = self
            .loaded
            .cluster
            .pods
            .iter()
            .find(|(_, pod)| !pod.host_network && pod.addresses.contains(&address));
        if let Some((key, _)) = owner {
            let is_dns = self.dns_pods().iter().any(|(dns, _)| *dns == key);
            return Some(if is_dns { Server::DnsPod(key.clone()) } else { Server::OtherPod(key.clone()) });
        }
        let node = self.loaded.cluster.nodes.iter().find(|(_, node)| node.addresses.contains(&address));
        if let Some((name, _)) = node {
            return Some(Server::Node(name.clone()));
        }
        let of_node = self.text(layout::NODE_RESOLV_CONF).is_some_and(|text| {
            let conf = read(text.as_bytes(), Dialect::Glibc(Version::new(2, 36, 0)));
            conf.nameservers.iter().any(|server| server.address == Some(address))
        });
        Some(if of_node { Server::OfNode } else { Server::Unowned })
    }

    /// The line of `pod/resolv.conf` that holds a word, from 1.
    #[must_use]
    pub fn conf_line(&self, word: &str) -> Option<usize> {
        let text = self.text(layout::POD_RESOLV_CONF)?;
        let place = text.lines().position(|line| line.split_ascii_whitespace().any(|part| part == word));
        place.map(|line| line + 1)
    }
}
