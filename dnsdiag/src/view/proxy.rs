//! What the node's proxy does with packets to a Service: its dump read, followed and compared by `netlab_core::service`.
//!
//! Invariant: nothing of a proxy is modelled here. Without a dump, Services or slices there is no answer; a dump that cannot be
//! read counts as not recorded.

use std::collections::BTreeSet;
use std::net::IpAddr;

use netlab_core::model::cluster::ObjectKey;
use netlab_core::model::service::AddressType;
use netlab_core::service::expected::expected;
use netlab_core::service::fault::Fault;
use netlab_core::service::trace::{PortTrace, Rules, ServiceTrace, Status, trace};
use netlab_core::service::{iptables, nftables};
use netlab_plugin::evidence::Transport;

use super::View;
use crate::bundle::layout;

/// The proxy's rules of one family, compared with what they should be.
#[derive(Clone, Debug)]
pub struct Proxy {
    /// The file that they are from.
    pub file: &'static str,
    /// What was found, all Services.
    pub trace: ServiceTrace,
    /// The Services that somebody stands behind, as `namespace/name`.
    with_endpoints: BTreeSet<String>,
}

impl Proxy {
    /// What was found about one port of a Service.
    #[must_use]
    pub fn port(&self, service: &ObjectKey, transport: Transport, port: u16) -> Option<&PortTrace> {
        let (service, protocol) = (service.to_string(), transport.to_string());
        let number = format!(":{port}");
        self.trace.ports.iter().find(|found| {
            found.service == service && found.protocol == protocol && found.address.ends_with(&number)
        })
    }

    /// True when some port of another Service is in order: the proxy works at all.
    #[must_use]
    pub fn serves_others(&self, than: &ObjectKey) -> bool {
        let than = than.to_string();
        self.trace.ports.iter().any(|port| port.service != than && self.serves(port))
    }

    /// True when the rules for a port do what they are for, if not in every case. Where nobody stands behind a Service no
    /// connection can fail that should not: then its rules are there only when nothing of them is missing.
    #[must_use]
    pub fn serves(&self, port: &PortTrace) -> bool {
        let empty = !self.with_endpoints.contains(&port.service);
        if empty { port.status == Status::Ok } else { port.symptom.failing() < 1.0 }
    }
}

/// `nat KUBE-SERVICES: the rule for 10.96.0.10 … is missing (node/iptables-save:12)`.
#[must_use]
pub fn cite(file: &str, fault: &Fault) -> String {
    let line = fault.place.line.map_or(String::new(), |line| format!(":{line}"));
    let place = format!("{} {}", fault.place.table, fault.place.chain);
    format!("{place}: {}: {} ({file}{line})", fault.object, fault.detail)
}

impl View<'_> {
    /// The rules of the pod's node in the family of an address.
    #[must_use]
    pub fn proxy(&self, address: IpAddr) -> Option<&Proxy> {
        let family = AddressType::of(address);
        let [v4, v6] = &self.proxies;
        let cell = if family == AddressType::Ipv4 { v4 } else { v6 };
        cell.get_or_init(|| self.compare_proxy(family)).as_ref()
    }

    fn compare_proxy(&self, family: AddressType) -> Option<Proxy> {
        if !self.missing(&[layout::SERVICES, layout::SLICES, layout::NODES]).is_empty() {
            return None;
        }
        let node = self.subject()?.node()?;
        let (file, rules) = self.proxy_rules(family)?;
        let ports = expected(&self.loaded.cluster, node, family);
        let with_endpoints = self
            .loaded
            .cluster
            .endpoint_slices
            .iter()
            .filter(|(_, slice)| slice.endpoints.iter().any(|one| one.ready))
            .filter_map(|(key, slice)| Some(format!("{}/{}", key.namespace, slice.service.as_deref()?)))
            .collect();
        Some(Proxy { file, trace: trace(&rules, &ports, node), with_endpoints })
    }

    fn proxy_rules(&self, family: AddressType) -> Option<(&'static str, Rules)> {
        if family == AddressType::Ipv6
            && let Some(text) = self.text(layout::NODE_IP6TABLES)
            && let Ok(mut dump) = iptables::dump::parse(text)
        {
            dump.of_family(family);
            return Some((layout::NODE_IP6TABLES, Rules::Iptables(dump)));
        }
        if let Some(text) = self.text(layout::NODE_IPTABLES)
            && let Ok(dump) = iptables::dump::parse(text)
        {
            let rules = Rules::Iptables(dump);
            return (rules.family() == family).then_some((layout::NODE_IPTABLES, rules));
        }
        let word = if family == AddressType::Ipv6 { "ip6" } else { "ip" };
        let dump = nftables::dump::parse_family(self.text(layout::NODE_NFT)?, word).ok()?;
        let rules = Rules::Nftables(dump);
        (rules.family() == family).then_some((layout::NODE_NFT, rules))
    }
}
