//! Cilium's service maps: written, read back, followed, and broken in every way that a dump shows.

use netlab_core::model::service::AddressType;
use netlab_core::service::cilium::dump::{DumpError, assemble, read_map};
use netlab_core::service::cilium::{emit, names};
use netlab_core::service::expected::{ExpectedPort, expected};
use netlab_core::service::fault::{Difference, Kind};
use netlab_core::service::follow::Symptom;
use netlab_core::service::trace::{Rules, ServiceTrace, Status, trace};
use serde_json::{Value, json};

use crate::service_world::{HALF_BROKEN, all_kinds, cluster, ports};

/// Rows of services, backends and reverse NAT.
type Maps = [Vec<Value>; 3];

fn maps(ports: &[ExpectedPort], family: AddressType) -> Maps {
    let written = emit(ports, family);
    let names = names(family);
    [names.services, names.backends, names.reverse]
        .map(|name| written[name].as_array().expect("a list").clone())
}

fn compare(maps: &Maps, ports: &[ExpectedPort]) -> ServiceTrace {
    let read = maps.iter().map(|rows| read_map("", &json!(rows).to_string()).expect("a map"));
    let mut dumps = assemble(&read.flatten().collect::<Vec<_>>()).expect("services");
    trace(&Rules::Cilium(dumps.pop().expect("one family")), ports, "worker")
}

#[test]
fn what_is_written_is_read_back_without_a_fault() {
    for world in [HALF_BROKEN.to_owned(), all_kinds()] {
        let ports = ports(&world);
        let trace = compare(&maps(&ports, AddressType::Ipv4), &ports);
        assert_eq!(trace.ports.len(), ports.len());
        for port in &trace.ports {
            let faults: Vec<_> = port.faults().collect();
            assert!(faults.is_empty(), "{}: {faults:?}", port.service);
            assert_eq!((port.status, port.symptom), (Status::Ok, Symptom::default()), "{port:?}");
        }
    }
}

#[test]
fn ipv6_has_maps_of_its_own() {
    let world = "apiVersion: v1\nkind: Node\nmetadata: {name: worker}\n---\napiVersion: v1\nkind: Service\nmetadata: {name: s, namespace: t}\nspec: {clusterIPs: ['fd00:96::1'], ports: [{port: 80}]}\n---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: s-1, namespace: t, labels: {kubernetes.io/service-name: s}}\naddressType: IPv6\nports: [{name: '', port: 8080}]\nendpoints: [{addresses: ['fd00::1']}, {addresses: ['fd00::2']}]\n";
    let ports = expected(&cluster(world), "worker", AddressType::Ipv6);
    let maps = maps(&ports, AddressType::Ipv6);
    let trace = compare(&maps, &ports);
    assert_eq!(
        (trace.ports[0].status, trace.ports[0].addresses[0].shares.len()),
        (Status::Ok, 2),
        "{trace:?}"
    );
    assert_eq!(trace.ports[0].address, "[fd00:96::1]:80");
}

/// The row of a map whose key starts with these bytes.
fn position(rows: &[Value], field: &str, start: &[u8]) -> usize {
    let start: Vec<String> = start.iter().map(|byte| format!("{byte:#04x}")).collect();
    let is = |row: &Value| {
        row[field].as_array().is_some_and(|bytes| bytes.iter().zip(&start).all(|(a, b)| a == b))
    };
    rows.iter().position(is).expect("the row")
}

/// 10.96.0.50:80 with its slot.
fn http(slot: u8) -> [u8; 8] {
    [10, 96, 0, 50, 0, 80, slot, 0]
}

/// A name, what is done to the maps, and what is told of it: the fault, its endpoint, what clients see.
type Corruption = (&'static str, fn(&mut Maps), Difference, Kind, Option<&'static str>, Symptom);

#[test]
fn each_corruption_is_named_with_what_clients_see() {
    let ports = ports(HALF_BROKEN);
    let good = maps(&ports, AddressType::Ipv4);
    let second = [10, 244, 1, 21, 0x1f, 0x90];
    let half = Symptom { timeout_share: 0.5, refused_share: 0.0 };
    let all = Symptom { timeout_share: 1.0, refused_share: 0.0 };
    let none = Symptom::default();
    let cases: [Corruption; 7] = [
        (
            "no frontend",
            |[services, ..]| drop(services.remove(position(services, "key", &http(0)))),
            Difference::Missing,
            Kind::Frontend,
            None,
            all,
        ),
        (
            "a hole among the slots",
            |[services, ..]| drop(services.remove(position(services, "key", &http(2)))),
            Difference::Missing,
            Kind::Backend,
            Some("10.244.1.21:8080"),
            half,
        ),
        (
            "a backend that is not there",
            |[_, backends, _]| {
                let at = position(backends, "value", &[10, 244, 1, 21, 0x1f, 0x90]);
                drop(backends.remove(at));
            },
            Difference::Missing,
            Kind::Empty,
            Some("10.244.1.21:8080"),
            half,
        ),
        (
            "a backend of another address",
            |[_, backends, _]| {
                let at = position(backends, "value", &[10, 244, 1, 21, 0x1f, 0x90]);
                backends[at]["value"][3] = json!("0x63");
            },
            Difference::Extra,
            Kind::Stale,
            Some("10.244.1.99:8080"),
            half,
        ),
        (
            "a slot too few",
            |[services, ..]| {
                let at = position(services, "key", &http(0));
                services[at]["value"][4] = json!("0x01");
            },
            Difference::Missing,
            Kind::Backend,
            Some("10.244.1.21:8080"),
            none,
        ),
        (
            "no number to write replies back by",
            |[_, _, reverse]| {
                let at = position(reverse, "value", &[10, 96, 0, 50, 0, 80]);
                drop(reverse.remove(at));
            },
            Difference::Missing,
            Kind::Masquerade,
            None,
            all,
        ),
        (
            "replies from another address",
            |[_, _, reverse]| {
                let at = position(reverse, "value", &[10, 96, 0, 50, 0, 80]);
                reverse[at]["value"][3] = json!("0x33");
            },
            Difference::Wrong,
            Kind::Masquerade,
            None,
            all,
        ),
    ];
    assert!(position(&good[1], "value", &second) < good[1].len());
    for (name, corrupt, difference, kind, endpoint, symptom) in cases {
        let mut maps = good.clone();
        corrupt(&mut maps);
        let trace = compare(&maps, &ports);
        let [http, metrics] = &trace.ports[..] else { panic!("two ports") };
        let told = http.faults().any(|fault| {
            (fault.difference, fault.kind, fault.endpoint.as_deref()) == (difference, kind, endpoint)
        });
        assert!(told, "{name}: {:?}", http.faults().collect::<Vec<_>>());
        assert_eq!((http.symptom, http.status), (symptom, Status::Broken), "{name}");
        assert_eq!(metrics.status, Status::Ok, "{name}: the other port is whole");
    }
}

#[test]
fn clients_inside_have_rows_of_their_own_where_the_policies_differ() {
    let ports = ports(&all_kinds());
    let trace = compare(&maps(&ports, AddressType::Ipv4), &ports);
    let outside = trace.ports.iter().find(|port| port.service == "t/outside").expect("it is there");
    let shares: Vec<usize> = outside.addresses.iter().map(|address| address.shares.len()).collect();
    assert_eq!(
        shares,
        [3, 3, 1, 3],
        "all by the cluster IP, for pods and the node; the node's own from outside, all for pods by the same node port"
    );
}

/// Rows of versions that kept no protocol.
#[test]
fn a_frontend_without_a_protocol_is_found_too() {
    let ports = ports(HALF_BROKEN);
    let mut maps = maps(&ports, AddressType::Ipv4);
    for row in &mut maps[0] {
        row["key"][8] = json!("0x00");
    }
    let trace = compare(&maps, &ports);
    assert!(trace.ports.iter().all(|port| port.status == Status::Ok), "{trace:?}");
    assert!(trace.ports[0].hops[0].place.chain.contains("/ANY"), "{:?}", trace.ports[0].hops);
}

#[test]
fn other_texts_are_refused_with_their_place() {
    for (text, said) in [
        ("hello", "line 1, column 1"),
        ("[\n{\"key\": [\"0x01\"]}\n]", "row 1 has no list of bytes as `value`"),
        ("{\"cilium_lb4_services_v2\": 3}", "`cilium_lb4_services_v2` is no list"),
        ("[{\"key\": [\"0x01\"], \"value\": [\"0x01\"]}]", "row 1: a key of 1 and a value of 1 bytes"),
        ("[{\"key\": [\"01\"], \"value\": [\"0x01\"]}]", "row 1 has no list of bytes as `key`"),
        ("[\n", "line 2"),
    ] {
        let error = read_map("x.json", text).expect_err(text).to_string();
        assert!(error.contains(said), "{text}: {error}");
    }
    let two = json!([
        {"key": ["0x00", "0x01"], "value": ["0x0a", "0x60", "0x00", "0x01", "0x00", "0x50"]},
        {"key": ["0x00"], "value": []},
    ]);
    let error = read_map("", &two.to_string()).expect_err("sizes differ").to_string();
    assert!(error.contains("row 2") && error.contains("the first row has 2 and 6"), "{error}");
    let reverse = read_map("", &json!([two[0]]).to_string()).expect("a map");
    assert_eq!(assemble(&reverse), Err(DumpError::NoServices));
    let empty = read_map("cilium_lb4_services_v2.json", "[]").expect("an empty map");
    assert_eq!(assemble(&empty).expect("services").len(), 1);
}
