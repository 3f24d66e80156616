//! `cargo xtask bench service`: dumps of a big node's proxy, read and compared with what should be there.
//!
//! The dumps are those that follow from the model, of 10,000 Services with ten endpoints each: as big as a real
//! proxy's, in the same form. The model is in memory; a time is that of parsing and of comparing every service port.

use std::net::{IpAddr, Ipv4Addr};

use anyhow::Context as _;
use netlab_core::model::cluster::{Cluster, Node, ObjectKey};
use netlab_core::model::port::Protocol;
use netlab_core::model::service::{
    AddressType, Endpoint, EndpointPort, EndpointSlice, Service, ServicePort, TargetPort,
};
use netlab_core::service::cilium;
use netlab_core::service::expected::{ExpectedPort, expected};
use netlab_core::service::iptables::{self, ProxyOptions};
use netlab_core::service::nftables::{self, Layout};
use netlab_core::service::trace::{Rules, trace};

use super::figure::{Figure, processor_milliseconds};

const SERVICES: u32 = 10_000;
const ENDPOINTS: u32 = 10;
/// What each kind of dump may take, in milliseconds.
const MOST: f64 = 3_000.0;
const NODE: &str = "node";

/// The model, then each kind of dump.
pub(crate) fn all() -> anyhow::Result<Vec<Figure>> {
    let part = format!("service {SERVICES} Services x {ENDPOINTS} endpoints");
    let cluster = cluster();
    let times = processor_milliseconds(3, || expected(&cluster, NODE, AddressType::Ipv4))?;
    let mut figures = vec![Figure::median(&part, "what should be there", times, "ms")];
    let ports = expected(&cluster, NODE, AddressType::Ipv4);
    let options = ProxyOptions::of(&cluster, AddressType::Ipv4);
    let save = iptables::emit(&ports, &options);
    figures.extend(measure(&part, "iptables-save", save.len(), &ports, || {
        Ok(Rules::Iptables(iptables::dump::parse(&save)?))
    })?);
    for (layout, name) in [(Layout::Maps, "nft, maps"), (Layout::Chains, "nft, endpoint chains")] {
        let listing = nftables::listing(&ports, AddressType::Ipv4, layout, &options).to_string();
        figures.extend(measure(&part, name, listing.len(), &ports, || {
            Ok(Rules::Nftables(nftables::dump::parse(&listing)?))
        })?);
    }
    let maps: Vec<(&str, String)> = cilium::emit(&ports, AddressType::Ipv4)
        .into_iter()
        .map(|(name, rows)| (name, rows.to_string()))
        .collect();
    let bytes = maps.iter().map(|(_, text)| text.len()).sum();
    figures.extend(measure(&part, "bpftool, Cilium", bytes, &ports, || {
        let mut raw = Vec::new();
        for (name, text) in &maps {
            raw.extend(cilium::dump::read_map(name, text)?);
        }
        Ok(Rules::Cilium(cilium::dump::assemble(&raw)?.pop().context("a family")?))
    })?);
    Ok(figures)
}

fn measure(
    part: &str,
    name: &str,
    bytes: usize,
    ports: &[ExpectedPort],
    read: impl Fn() -> anyhow::Result<Rules>,
) -> anyhow::Result<Vec<Figure>> {
    // A dump that has faults would be another measurement.
    anyhow::ensure!(trace(&read()?, ports, NODE).faults() == 0, "{name}: what the model says has faults");
    let parse = processor_milliseconds(3, &read)?;
    let both = processor_milliseconds(3, || read().map(|rules| trace(&rules, ports, NODE).faults()))?;
    #[expect(clippy::cast_precision_loss, reason = "megabytes, to three digits")]
    let size = Figure::count(part, format!("{name}: size"), bytes as f64 / 1e6, "MB");
    Ok(vec![
        size,
        Figure::median(part, format!("{name}: read"), parse, "ms"),
        Figure::median(part, format!("{name}: read and compared"), both, "ms").at_most(MOST),
    ])
}

fn cluster() -> Cluster {
    let mut cluster = Cluster::default();
    let pods = "10.128.0.0/9".parse().into_iter().collect();
    cluster.nodes.insert(NODE.to_owned(), Node { pod_cidrs: pods, ..Node::default() });
    let address =
        |base: [u8; 4], number: u32| IpAddr::from(Ipv4Addr::from(u32::from_be_bytes(base) + number));
    for number in 0..SERVICES {
        let key = ObjectKey::new("shop", format!("service-{number:05}"));
        let service = Service {
            cluster_ips: vec![address([10, 96, 0, 1], number)],
            ports: vec![ServicePort {
                name: None,
                protocol: Protocol::Tcp,
                port: 80,
                target: TargetPort::Number(8080),
                node_port: None,
            }],
            ..Service::default()
        };
        let endpoint = |index: u32| Endpoint {
            addresses: vec![address([10, 128, 0, 1], number * ENDPOINTS + index)],
            ready: true,
            serving: true,
            node: Some("other".to_owned()),
            ..Endpoint::default()
        };
        let slice = EndpointSlice {
            service: Some(key.name.clone()),
            address_type: AddressType::Ipv4,
            ports: vec![EndpointPort {
                name: Some(String::new()),
                protocol: Protocol::Tcp,
                port: Some(8080),
            }],
            endpoints: (0..ENDPOINTS).map(endpoint).collect(),
            ..EndpointSlice::default()
        };
        cluster.endpoint_slices.insert(ObjectKey::new("shop", format!("{}-1", key.name)), slice);
        cluster.services.insert(key, service);
    }
    cluster
}
