//! The table of nftables mode without a kernel: listed, read back, followed, and broken in every way that a dump shows.

use netlab_core::model::service::AddressType;
use netlab_core::service::expected::ExpectedPort;
use netlab_core::service::fault::{Difference, Kind};
use netlab_core::service::follow::Symptom;
use netlab_core::service::nftables::{Layout, dump, listing};
use netlab_core::service::trace::{Rules, ServiceTrace, Status, trace};
use serde_json::{Value, json};

use crate::service_world::{HALF_BROKEN, all_kinds, options, ports};

const LAYOUTS: [Layout; 2] = [Layout::Maps, Layout::Chains];

fn listed(ports: &[ExpectedPort], layout: Layout) -> Value {
    listing(ports, AddressType::Ipv4, layout, &options())
}

fn compare(listing: &Value, ports: &[ExpectedPort]) -> ServiceTrace {
    let dump = dump::parse(&listing.to_string()).expect("well formed");
    trace(&Rules::Nftables(dump), ports, "worker")
}

#[test]
fn what_is_listed_is_read_back_without_a_fault() {
    for world in [HALF_BROKEN.to_owned(), all_kinds()] {
        for layout in LAYOUTS {
            let ports = ports(&world);
            let trace = compare(&listed(&ports, layout), &ports);
            assert_eq!(trace.layout, Some(layout.as_str()));
            assert!(trace.shared.is_empty(), "{:?}", trace.shared);
            for port in &trace.ports {
                let faults: Vec<_> = port.faults().collect();
                assert!(faults.is_empty(), "{layout:?} {}: {faults:?}", port.service);
                assert_eq!((port.status, port.symptom), (Status::Ok, Symptom::default()), "{port:?}");
            }
        }
    }
}

/// The listing without the items for which `is` says so.
fn without(listing: &Value, is: impl Fn(&Value) -> bool) -> Value {
    let items = listing["nftables"].as_array().expect("a list");
    let kept: Vec<&Value> = items.iter().filter(|item| !is(item)).collect();
    assert!(kept.len() < items.len(), "nothing is taken out");
    json!({"nftables": kept})
}

fn is_rule(item: &Value, chain: &str, word: &str) -> bool {
    item["rule"]["chain"] == chain && item["rule"].to_string().contains(word)
}

/// The listing with an element of a map or set taken out.
fn without_element(listing: &Value, map: &str, word: &str) -> Value {
    let mut listing = listing.clone();
    let mut taken = 0;
    for item in listing["nftables"].as_array_mut().expect("a list") {
        for kind in ["map", "set"] {
            if item[kind]["name"] == map {
                let elements = item[kind]["elem"].as_array_mut().expect("elements");
                let before = elements.len();
                elements.retain(|element| !element.to_string().contains(word));
                taken += before - elements.len();
            }
        }
    }
    assert!(taken > 0, "no element of {map} has {word}");
    listing
}

#[test]
fn what_all_services_share_is_compared_once() {
    let ports = ports(&all_kinds());
    let good = listed(&ports, Layout::Maps);
    for (chain, word, object, kind) in [
        ("nat-prerouting", "services", "services", Kind::Jump),
        ("nat-output", "services", "services", Kind::Jump),
        ("nat-postrouting", "masquerading", "masquerading", Kind::Masquerade),
        ("masquerading", "masquerade", "masquerade", Kind::Masquerade),
        ("services", "service-ips", "service-ips", Kind::Jump),
        ("services", "service-nodeports", "service-nodeports", Kind::Jump),
        ("filter-forward", "service-endpoints-check", "service-endpoints-check", Kind::Jump),
    ] {
        let trace = compare(&without(&good, |item| is_rule(item, chain, word)), &ports);
        let found: Vec<_> =
            trace.shared.iter().map(|shared| (shared.fault.object.as_str(), shared.fault.kind)).collect();
        // Both of what is marked and of endpoints that ask themselves.
        let count = if chain == "masquerading" { 2 } else { 1 };
        assert_eq!(found, vec![(object, kind); count], "{chain} {word}");
    }
}

#[test]
fn elements_are_compared_by_key() {
    let ports = ports(&all_kinds());
    let good = listed(&ports, Layout::Maps);
    for (map, word, service, difference, kind) in [
        ("service-ips", "10.96.0.1", "t/local", Difference::Missing, Kind::Frontend),
        ("service-nodeports", "30080", "t/outside", Difference::Missing, Kind::Frontend),
        ("no-endpoint-services", "10.96.0.4", "t/nobody", Difference::Missing, Kind::End),
        ("no-endpoint-nodeports", "30082", "t/elsewhere", Difference::Missing, Kind::End),
        ("cluster-ips", "10.96.0.3", "t/balanced", Difference::Missing, Kind::End),
        ("firewall-ips", "198.51.100.7", "t/balanced", Difference::Missing, Kind::SourceRange),
        ("hairpin-connections", "10.244.1.1", "t/local", Difference::Missing, Kind::Masquerade),
    ] {
        let trace = compare(&without_element(&good, map, word), &ports);
        let port = trace.ports.iter().find(|port| port.service == service).expect("it is there");
        assert!(
            port.faults().any(|fault| (fault.difference, fault.kind) == (difference, kind)),
            "{map} {word}: {port:?}"
        );
    }
}

/// A proxy of nftables mode empties a chain first and deletes it a second later.
#[test]
fn an_empty_chain_that_nothing_leads_to_is_no_fault() {
    let ports = ports(&all_kinds());
    let mut listing = listed(&ports, Layout::Maps);
    let chain = json!({"chain": {"family": "ip", "table": "kube-proxy", "name": "service-AAAAAAAA-t/gone/tcp/", "handle": 999}});
    listing["nftables"].as_array_mut().expect("a list").push(chain);
    let trace = compare(&listing, &ports);
    assert!(trace.ports.iter().all(|port| port.status == Status::Ok), "{trace:?}");
    assert!(trace.shared.is_empty());
}
