//! A node's rules in whichever mode they are: the one place that knows how each mode is read, followed and compared.
//!
//! Invariant: what is asked of all modes is a method here, so that an answer never asks which mode it is about. What a
//! mode has to read once for all ports is read with [`Rules::read`].

use std::net::IpAddr;

use super::expected::{ExpectedFrontend, ExpectedPort};
use super::fault::{Fault, Place};
use super::follow::{Client, Followed};
use super::{RouteKind, cilium, iptables, nftables};
use crate::model::service::AddressType;

/// The rules of a node, as they were read.
#[derive(Clone, Debug)]
pub enum Rules {
    /// Of iptables mode.
    Iptables(iptables::dump::Dump),
    /// Of nftables mode.
    Nftables(nftables::dump::Dump),
    /// Of Cilium's eBPF programs.
    Cilium(cilium::dump::Dump),
}

impl Rules {
    /// The family that they are of.
    #[must_use]
    pub fn family(&self) -> AddressType {
        match self {
            Self::Iptables(dump) => dump.family(),
            Self::Nftables(dump) => dump.family,
            Self::Cilium(dump) => dump.family,
        }
    }

    /// iptables, nftables or cilium.
    #[must_use]
    pub const fn mode(&self) -> &'static str {
        match self {
            Self::Iptables(_) => "iptables",
            Self::Nftables(_) => "nftables",
            Self::Cilium(_) => "cilium",
        }
    }

    /// The version of the rules' shape in words, where there are several.
    #[must_use]
    pub fn layout(&self) -> Option<&'static str> {
        match self {
            Self::Iptables(_) | Self::Cilium(_) => None,
            Self::Nftables(dump) => nftables::layout(dump).map(nftables::Layout::as_str),
        }
    }

    /// Reads what is asked again for each port.
    pub(super) fn read(&self) -> Read<'_> {
        match self {
            Self::Iptables(dump) => Read::Iptables(iptables::Written::of(dump)),
            Self::Nftables(dump) => Read::Nftables(dump),
            Self::Cilium(dump) => Read::Cilium(dump),
        }
    }

    /// Whether Services without endpoints and those without local ones end alike.
    pub(super) const fn refuses_all(&self) -> bool {
        matches!(self, Self::Cilium(_))
    }

    /// What of them no answer tells, in words.
    pub(super) fn not_examined(&self) -> Vec<String> {
        let Self::Nftables(dump) = self else { return Vec::new() };
        let unread = |(table, chain): &(String, String)| {
            format!("table {table}, chain {chain}: rules of iptables (xt), which only `iptables-save` shows")
        };
        let iptables = dump.others.of_iptables.iter().map(unread);
        dump.others.elsewhere().chain(iptables).collect()
    }

    /// The addresses of the node that alone take node ports; empty where all do, or none is named.
    pub(super) fn node_port_addresses(&self) -> Vec<IpAddr> {
        match self {
            Self::Iptables(dump) => iptables::node_port_addresses(dump),
            Self::Nftables(dump) => nftables::node_port_addresses(dump),
            Self::Cilium(_) => Vec::new(),
        }
    }

    /// Whether a proxy never writes in a place: it mends its own chains alone.
    fn is_of_others(&self, place: &Place) -> bool {
        match self {
            _ if place.chain.is_empty() => false,
            Self::Iptables(_) => !place.chain.starts_with("KUBE-") || place.chain == "KUBE-FIREWALL",
            Self::Nftables(_) => place.table != nftables::TABLE,
            Self::Cilium(_) => false,
        }
    }

    /// When the proxy mends faults by itself.
    pub(super) fn heals(&self, faults: &[Fault]) -> &'static str {
        // Chains that each sync writes anew: all of its own that are not one Service's.
        let at_once = |fault: &Fault| {
            let of_services = ["KUBE-SVC-", "KUBE-SVL-", "KUBE-EXT-", "KUBE-FW-", "KUBE-SEP-"];
            !of_services.iter().any(|start| fault.place.chain.starts_with(start))
        };
        match self {
            _ if faults.iter().any(|fault| self.is_of_others(&fault.place)) => {
                "not by itself: the proxy leaves rules and policies of others alone"
            }
            Self::Iptables(_) if faults.iter().all(at_once) => {
                "at the proxy's next sync, when any Service or endpoint changes"
            }
            Self::Iptables(_) => {
                "when this Service next changes, or within 1 h (full sync; never with over 1000 endpoints)"
            }
            Self::Cilium(_) => "when Cilium next writes this Service, or starts anew",
            // Elements are kept in memory and not looked at again; chains are written when the Service changes.
            Self::Nftables(_) => {
                "within 1 h (full sync); a chain's rules also when this Service next changes"
            }
        }
    }
}

/// Rules, read for all ports.
pub(super) enum Read<'a> {
    Iptables(iptables::Written<'a>),
    Nftables(&'a nftables::dump::Dump),
    Cilium(&'a cilium::dump::Dump),
}

impl Read<'_> {
    /// Compares what all Services share.
    pub(super) fn shared_faults(&self) -> Vec<Fault> {
        match self {
            Self::Iptables(written) => iptables::shared_faults(written),
            Self::Nftables(dump) => nftables::shared_faults(dump),
            Self::Cilium(_) => Vec::new(),
        }
    }

    /// Compares what one port has with what it should.
    pub(super) fn faults(&self, port: &ExpectedPort) -> Vec<Fault> {
        match self {
            Self::Iptables(written) => iptables::faults(written, port),
            Self::Nftables(dump) => nftables::faults(dump, port),
            Self::Cilium(dump) => cilium::faults(dump, port),
        }
    }

    /// The walk of packets to one address: of who asks for it usually, and to a cluster IP of the node itself, too.
    pub(super) fn follow(&self, frontend: &ExpectedFrontend, port: &ExpectedPort) -> Vec<(Client, Followed)> {
        let key = frontend.key;
        match (self, frontend.kind) {
            (Self::Iptables(written), RouteKind::ClusterIp) => {
                let (mut pods, node) = iptables::follow_inside(written.dump, key, port);
                iptables::worse(written, key, port, &mut pods);
                vec![(Client::Pod, pods), (Client::Node, node)]
            }
            (Self::Iptables(written), _) => {
                vec![(Client::Outside, iptables::follow(written.dump, key, Client::Outside, port))]
            }
            (Self::Nftables(dump), kind) => {
                let clients: &[Client] = match kind {
                    RouteKind::ClusterIp => &[Client::Pod, Client::Node],
                    _ => &[Client::Outside],
                };
                let of = |client: &Client| (*client, nftables::follow(dump, key, *client, port));
                clients.iter().map(of).collect()
            }
            (Self::Cilium(dump), _) => cilium::follow(dump, port, frontend),
        }
    }
}
