//! Records: each name of the cluster with what the record model says of it, and a small world outside.
//!
//! Invariant: which names there are is told here, what they resolve to by [`netlab_dnsdiag::records`] alone.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use netlab_core::model::cluster::{Cluster, ObjectKey};
use netlab_core::service::slices::{self, ENDPOINTS_PER_SLICE};
use netlab_dnsdiag::records::{RecordType, Truth, World, truth};
use netlab_lab::dns::{Zone, canonical};

/// Seconds for which the kubernetes plugin's records may be kept, as kubeadm sets it.
const TTL: u32 = 30;
/// Names of the world outside (RFC 2606), with their addresses (RFC 5737, RFC 3849).
const OUTSIDE: [(&str, &str, &str); 4] = [
    ("example.com.", "198.51.100.80", "2001:db8:64::80"),
    ("www.example.com.", "198.51.100.81", "2001:db8:64::81"),
    ("example.org.", "198.51.100.82", "2001:db8:64::82"),
    ("registry.example.com.", "198.51.100.83", "2001:db8:64::83"),
];
/// A name with more addresses than 512 bytes hold.
const LARGE: (&str, u8) = ("large.example.com.", 60);

/// The zones of the cluster's servers: its own, and those of addresses.
pub(crate) fn cluster_zones(cluster: &Cluster, domain: &str, dns: &ObjectKey) -> Vec<Zone> {
    let world = World::new(cluster, domain);
    let origin = canonical(domain);
    let mut own = Zone {
        origin: origin.clone(),
        ttl: TTL,
        negative_ttl: TTL,
        pods: cluster.namespaces.keys().map(ToString::to_string).collect(),
        kubernetes: true,
        ..Zone::default()
    };
    let mut reverse = ["in-addr.arpa.", "ip6.arpa."].map(|origin| Zone {
        origin: origin.to_owned(),
        ttl: TTL,
        negative_ttl: TTL,
        falls_through: true,
        kubernetes: true,
        ..Zone::default()
    });
    add(&mut own, &truth(world, &format!("dns-version.{origin}")));
    if let Some(service) = cluster.services.get(dns) {
        add_name_server(&mut own, dns, &service.cluster_ips);
    }
    for namespace in cluster.namespaces.keys() {
        own.names.entry(format!("{namespace}.svc.{origin}")).or_default();
    }
    let mut addresses: BTreeSet<IpAddr> = BTreeSet::new();
    for (key, service) in &cluster.services {
        let name = format!("{}.{}.svc.{origin}", key.name, key.namespace);
        add(&mut own, &truth(world, &name));
        for port in &service.ports {
            if let Some(port_name) = &port.name {
                add(&mut own, &truth(world, &format!("_{port_name}._{}.{name}", port.protocol.lower())));
            }
        }
        addresses.extend(&service.cluster_ips);
        let slices = slices::of(cluster, key, service, ENDPOINTS_PER_SLICE);
        addresses.extend(
            slices
                .slices
                .values()
                .flat_map(|slice| &slice.endpoints)
                .flat_map(|endpoint| &endpoint.addresses),
        );
    }
    for address in addresses {
        let told = truth(world, &reverse_name(address));
        for name in told.records.get(&RecordType::Ptr).into_iter().flatten() {
            add(&mut own, &truth(world, name));
        }
        let [v4, v6] = &mut reverse;
        add(if address.is_ipv4() { v4 } else { v6 }, &told);
    }
    let [v4, v6] = reverse;
    vec![own, v4, v6]
}

/// `ns.dns`, of which the SOA speaks, and the zone's NS (`plugin/kubernetes/ns.go`).
fn add_name_server(zone: &mut Zone, dns: &ObjectKey, addresses: &[IpAddr]) {
    let origin = zone.origin.clone();
    for address in addresses {
        let kind = if address.is_ipv4() { "A" } else { "AAAA" };
        let records = zone.names.entry(format!("ns.dns.{origin}")).or_default();
        records.entry(kind.to_owned()).or_default().push(address.to_string());
    }
    if !addresses.is_empty() {
        let name = format!("{}.{}.svc.{origin}", dns.name, dns.namespace);
        zone.names.entry(origin).or_default().insert("NS".to_owned(), vec![name]);
    }
}

fn add(zone: &mut Zone, truth: &Truth) {
    if truth.exists() != Some(true) || truth.records.is_empty() {
        return;
    }
    let kind = |kind: RecordType| match kind {
        RecordType::A => "A",
        RecordType::Aaaa => "AAAA",
        RecordType::Cname => "CNAME",
        RecordType::Ptr => "PTR",
        RecordType::Srv => "SRV",
        RecordType::Txt => "TXT",
    };
    let records =
        truth.records.iter().map(|(of, texts)| (kind(*of).to_owned(), texts.iter().cloned().collect()));
    zone.names.insert(truth.name.clone(), records.collect());
}

/// RFC 1035 section 3.5, RFC 3596 section 2.5.
fn reverse_name(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => {
            let [a, b, c, d] = address.octets();
            format!("{d}.{c}.{b}.{a}.in-addr.arpa.")
        }
        IpAddr::V6(address) => {
            let digits =
                address.octets().into_iter().rev().map(|byte| format!("{:x}.{:x}.", byte & 15, byte >> 4));
            format!("{}ip6.arpa.", digits.collect::<String>())
        }
    }
}

/// The zone of the world's servers: everything.
pub(crate) fn outside_zone(cluster: &Cluster, domain: &str) -> Zone {
    let mut zone = Zone { origin: ".".to_owned(), ttl: 300, negative_ttl: 300, ..Zone::default() };
    let mut put = |name: &str, v4: Vec<String>, v6: Vec<String>| {
        zone.names.insert(name.to_owned(), BTreeMap::from([("A".to_owned(), v4), ("AAAA".to_owned(), v6)]));
    };
    for (name, v4, v6) in OUTSIDE {
        put(name, vec![v4.to_owned()], vec![v6.to_owned()]);
    }
    let (large, count) = LARGE;
    let numbered = |text: &dyn Fn(u8) -> String| (1..=count).map(text).collect();
    put(
        large,
        numbered(&|number| format!("198.51.100.{}", number + 100)),
        numbered(&|number| format!("2001:db8:64::1:{number:x}")),
    );
    // What Services of the cluster stand for.
    let own = canonical(domain);
    for target in cluster.services.values().filter_map(|service| service.external_name.as_deref()) {
        let name = canonical(target);
        // There is never a name below `invalid` (RFC 6761 section 6.4).
        if target.parse::<IpAddr>().is_err()
            && !name.ends_with(".invalid.")
            && name != own
            && !name.ends_with(&format!(".{own}"))
        {
            put(&name, vec!["198.51.100.90".to_owned()], vec!["2001:db8:64::90".to_owned()]);
        }
    }
    zone
}
