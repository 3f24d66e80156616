//! Cilium's maps with one scalar of one row changed, one row taken out, or one row there again under another key: none of
//! it is ok, but what no packet can meet, which is listed with the reason.

use std::collections::{BTreeMap, BTreeSet};

use netlab_core::model::service::AddressType;
use netlab_core::service::cilium::dump::{assemble, read_map};
use netlab_core::service::cilium::emit;
use netlab_core::service::expected::{ExpectedPort, expected};
use netlab_core::service::fault::{Difference, Kind};
use netlab_core::service::follow::Symptom;
use netlab_core::service::trace::{Rules, ServiceTrace, Status, trace};

use crate::service_world::{HALF_BROKEN, all_kinds, cluster};

type Row = (Vec<u8>, Vec<u8>);

/// Rows by map.
type Maps = BTreeMap<&'static str, Vec<Row>>;

/// A scalar: its name, its offset and its bytes, in the key (true) or the value.
type Scalar = (&'static str, bool, usize, usize);

fn scalars(map: &str) -> Vec<Scalar> {
    let ip = if map.contains("lb6") { 16 } else { 4 };
    match map {
        _ if map.contains("services") => vec![
            ("address", true, 0, ip),
            ("port", true, ip, 2),
            ("slot", true, ip + 2, 2),
            ("protocol", true, ip + 4, 1),
            ("scope", true, ip + 5, 1),
            ("padding", true, ip + 6, 2),
            ("word", false, 0, 3),
            ("algorithm", false, 3, 1),
            ("count", false, 4, 2),
            ("reverse", false, 6, 2),
            ("flags", false, 8, 1),
            ("flags2", false, 9, 1),
            ("unused", false, 10, 2),
        ],
        _ if map.contains("backends") => vec![
            ("number", true, 0, 4),
            ("address", false, 0, ip),
            ("port", false, ip, 2),
            ("protocol", false, ip + 2, 1),
            ("state", false, ip + 3, 1),
            ("cluster", false, ip + 4, 2),
            ("zone", false, ip + 6, 1),
            ("padding", false, ip + 7, 1),
        ],
        _ => vec![("number", true, 0, 2), ("address", false, 0, ip), ("port", false, ip, 2)],
    }
}

const DUAL: &str = "
apiVersion: v1
kind: Node
metadata: {name: worker}
status: {addresses: [{type: InternalIP, address: 'fd00::a1'}]}
---
apiVersion: v1
kind: Service
metadata: {name: s, namespace: t}
spec: {type: LoadBalancer, externalTrafficPolicy: Local, clusterIPs: ['fd00:96::1'], externalIPs: ['2001:db8::9'], loadBalancerSourceRanges: ['2001:db8:1::/48'], ports: [{port: 80, nodePort: 30080}]}
status: {loadBalancer: {ingress: [{ip: '2001:db8::7'}]}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: s-1, namespace: t, labels: {kubernetes.io/service-name: s}}
addressType: IPv6
ports: [{name: '', port: 8080}]
endpoints: [{addresses: ['fd00::1'], nodeName: worker}, {addresses: ['fd00::2'], nodeName: other}]
";

/// All of a Service's endpoints are ending, and answer still.
const ENDING: &str = "
apiVersion: v1
kind: Node
metadata: {name: worker}
---
apiVersion: v1
kind: Service
metadata: {name: s, namespace: t}
spec: {clusterIP: 10.96.0.1, ports: [{port: 80}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: s-1, namespace: t, labels: {kubernetes.io/service-name: s}}
addressType: IPv4
ports: [{name: '', port: 8080}]
endpoints: [{addresses: [10.244.1.1], conditions: {ready: false, serving: true, terminating: true}}]
";

/// The worlds, with the number of the family.
fn worlds() -> Vec<(Vec<ExpectedPort>, AddressType)> {
    let with_address = all_kinds().replacen(
        "metadata: {name: worker}",
        "metadata: {name: worker}\nstatus: {addresses: [{type: InternalIP, address: 192.0.2.1}]}",
        1,
    );
    let v4 = [HALF_BROKEN.to_owned(), with_address, ENDING.to_owned()];
    let mut worlds: Vec<_> = v4.iter().map(|world| (world.as_str(), AddressType::Ipv4)).collect();
    worlds.push((DUAL, AddressType::Ipv6));
    worlds.into_iter().map(|(world, family)| (expected(&cluster(world), "worker", family), family)).collect()
}

fn maps(ports: &[ExpectedPort], family: AddressType) -> Maps {
    let bytes = |bytes: &serde_json::Value| -> Vec<u8> {
        let bytes = bytes.as_array().expect("a list").iter().map(|byte| byte.as_str().expect("a byte"));
        bytes
            .map(|byte| u8::from_str_radix(byte.trim_start_matches("0x"), 16).expect("hexadecimal"))
            .collect()
    };
    let rows = |rows: serde_json::Value| -> Vec<Row> {
        rows.as_array().expect("rows").iter().map(|row| (bytes(&row["key"]), bytes(&row["value"]))).collect()
    };
    emit(ports, family).into_iter().map(|(name, found)| (name, rows(found))).collect()
}

fn follow(maps: &Maps, ports: &[ExpectedPort]) -> ServiceTrace {
    let hex =
        |bytes: &[u8]| bytes.iter().map(|byte| format!("\"{byte:#04x}\"")).collect::<Vec<_>>().join(",");
    let text = |rows: &[Row]| {
        let rows =
            rows.iter().map(|(key, value)| format!("{{\"key\":[{}],\"value\":[{}]}}", hex(key), hex(value)));
        format!("[{}]", rows.collect::<Vec<_>>().join(","))
    };
    let read = maps.iter().flat_map(|(name, rows)| read_map(name, &text(rows)).expect("a map"));
    let mut dumps = assemble(&read.collect::<Vec<_>>()).expect("services");
    trace(&Rules::Cilium(dumps.pop().expect("one family")), ports, "worker")
}

fn is_ok(trace: &ServiceTrace) -> bool {
    trace.ports.iter().all(|port| port.status == Status::Ok)
}

/// What a changed row is, for the list of what may be changed unseen.
struct Changed<'a> {
    map: &'a str,
    row: &'a Row,
    scalar: &'a str,
    /// The bits that were turned, where it is one byte.
    turned: u8,
    /// Whether its Service has source ranges.
    ranges: bool,
}

impl Changed<'_> {
    fn ip(&self) -> usize {
        if self.map.contains("lb6") { 16 } else { 4 }
    }

    fn is_slot(&self) -> bool {
        self.map.contains("services") && self.row.0[self.ip() + 2..self.ip() + 4] != [0, 0]
    }

    /// By its bits.
    fn is_cluster_ip(&self) -> bool {
        self.row.1[8] & 0b0010_1011 == 0
    }

    fn is_without_address(&self) -> bool {
        self.row.0[..self.ip()].iter().all(|byte| *byte == 0)
    }

    /// Why no packet meets what was changed.
    fn why_equal(&self) -> Option<&'static str> {
        Some(match (self.map.contains("services"), self.scalar) {
            (_, "padding") => "padding is zero in every key that is written, and no program reads it",
            (false, "zone") => {
                "the agent's own choice of endpoints is done when it writes slots; programs ask for no zone"
            }
            (true, "algorithm") if !self.is_slot() => "which algorithm spreads: all of them spread evenly",
            (true, "count" | "unused" | "flags" | "flags2") if self.is_slot() => {
                "of a slot only the backend's number is read by programs"
            }
            (true, "word") if self.row.1[8] & 16 == 0 && !self.is_slot() => {
                "seconds are read where the bit of affinity is set"
            }
            (true, "flags2") if self.turned & 0b1000_0000 != 0 => "answers past the node are a setting (DSR)",
            (true, "flags") if self.turned == 64 && self.is_cluster_ip() => {
                "that a cluster IP may be asked from outside is a setting"
            }
            (true, "flags") if self.turned == 128 && self.ranges && self.row.1[8] & 32 == 0 => {
                "that source ranges are for all addresses is a setting"
            }
            (true, "flags") if self.turned == 4 && self.is_cluster_ip() => {
                "externalTrafficPolicy is not for the cluster IP"
            }
            (true, "flags") if self.turned == 64 && self.is_without_address() => {
                "sockets do not ask whether clients outside may come"
            }
            _ => return None,
        })
    }
}

#[test]
fn no_scalar_of_any_row_can_be_changed_unnoticed() {
    let mut reasons = BTreeSet::new();
    let mut noticed = 0;
    for (ports, family) in worlds() {
        let good = maps(&ports, family);
        assert!(is_ok(&follow(&good, &ports)), "{:#?}", follow(&good, &ports));
        for (map, rows) in &good {
            for (index, row) in rows.iter().enumerate() {
                for (scalar, in_key, at, bytes) in scalars(map) {
                    for byte in at..at + bytes {
                        // Each bit of bit fields, else something else in each byte.
                        let turns = if scalar.starts_with("flags") {
                            (0..8).map(|bit| 1 << bit).collect()
                        } else {
                            vec![1_u8, 0x80]
                        };
                        for turned in turns {
                            let mut maps = good.clone();
                            let changed = &mut maps.get_mut(map).expect("it is there")[index];
                            let part = if in_key { &mut changed.0 } else { &mut changed.1 };
                            part[byte] ^= turned;
                            let number = row
                                .0
                                .get(row.0.len().saturating_sub(8)..)
                                .and_then(|tail| tail.get(..2))
                                .unwrap_or_default();
                            let ranges = map.contains("services")
                                && ports.iter().any(|port| {
                                    let mut own = port.frontends.iter().map(|frontend| frontend.key.port);
                                    !port.source_ranges.is_empty()
                                        && own.any(|own| own.to_be_bytes() == *number)
                                });
                            let what = Changed { map, row, scalar, turned, ranges };
                            // A map has each key once: what was there before is overwritten.
                            let is_twice = in_key && rows.iter().any(|(key, _)| *key == maps[map][index].0);
                            if is_twice {
                                continue;
                            }
                            let found = follow(&maps, &ports);
                            if let Some(why) = what.why_equal() {
                                reasons.insert(why);
                                assert!(
                                    is_ok(&found),
                                    "{map} row {index} {row:x?}: {scalar} byte {byte} ^ {turned:#x} is told, though {why}"
                                );
                                continue;
                            }
                            noticed += 1;
                            assert!(
                                !is_ok(&found),
                                "{map} row {index} {row:x?}: {scalar} byte {byte} ^ {turned:#x} is ok"
                            );
                        }
                    }
                }
            }
        }
    }
    assert!(noticed > 1_500, "{noticed}");
    assert!(reasons.len() <= 11, "{reasons:#?}");
}

#[test]
fn no_row_can_be_taken_out_unnoticed() {
    for (ports, family) in worlds() {
        let good = maps(&ports, family);
        for (map, rows) in &good {
            for index in 0..rows.len() {
                let mut maps = good.clone();
                let gone = maps.get_mut(map).expect("it is there").remove(index);
                if rows.len() == 1 {
                    continue;
                }
                assert!(!is_ok(&follow(&maps, &ports)), "{map} without {gone:x?} is ok");
            }
        }
    }
}

/// A row again under another key leads packets elsewhere only where they look for that key.
#[test]
fn a_row_again_under_another_key_is_noticed_where_packets_meet_it() {
    let mut noticed = 0;
    for (ports, family) in worlds() {
        let good = maps(&ports, family);
        for (map, rows) in good.iter().filter(|(map, _)| map.contains("services")) {
            let ip = if map.contains("lb6") { 16 } else { 4 };
            for row in rows {
                let is_frontend = row.0[ip + 2..ip + 4] == [0, 0];
                let is_cluster_ip = row.1[8] & 0b0010_1011 == 0;
                for (scalar, byte) in [("port", ip + 1), ("protocol", ip + 4)] {
                    let mut maps = good.clone();
                    let mut again = row.clone();
                    again.0[byte] ^= if scalar == "protocol" { 0b1000_0010 } else { 2 };
                    if rows.iter().any(|(key, _)| *key == again.0) {
                        continue;
                    }
                    maps.get_mut(map).expect("it is there").push(again);
                    // Slots without a frontend are not looked for; other addresses may be those of Services that are not given.
                    if is_frontend && is_cluster_ip {
                        noticed += 1;
                        assert!(!is_ok(&follow(&maps, &ports)), "{row:x?} again with another {scalar} is ok");
                    } else {
                        assert!(is_ok(&follow(&maps, &ports)), "{row:x?} again with another {scalar}");
                    }
                }
            }
        }
    }
    assert!(noticed >= 10, "{noticed}");
}

/// The byte of the value of the row whose key and value start so.
fn set(maps: &mut Maps, map: &str, (key, value): (&[u8], &[u8]), at: usize, byte: u8) {
    let rows = maps.get_mut(map).expect("it is there");
    let row = rows.iter_mut().find(|row| row.0.starts_with(key) && row.1.starts_with(value));
    row.expect("the row").1[at] = byte;
}

/// A fault, and what clients see.
type Told = (Difference, Kind, &'static str, Symptom);

/// The map, the beginnings of the row's key and value, the byte that is set, and what is told.
type Case<'a> = (&'a str, (&'a [u8], &'a [u8]), usize, u8, Told);

#[test]
fn what_clients_see_is_told_with_each() {
    let ports = crate::service_world::ports(HALF_BROKEN);
    let good = maps(&ports, AddressType::Ipv4);
    let none = Symptom::default();
    let all = Symptom { timeout_share: 1.0, refused_share: 0.0 };
    let (services, backends) = ("cilium_lb4_services_v2", "cilium_lb4_backends_v3");
    let http: &[u8] = &[10, 96, 0, 50, 0, 80];
    let second: &[u8] = &[10, 244, 1, 21, 0x1f, 0x90];
    let any: &[u8] = &[];
    let slot = [http, &[2, 0]].concat();
    let cases: [Case<'_>; 7] = [
        (backends, (any, second), 7, 2, (Difference::Wrong, Kind::Backend, "in quarantine", none)),
        (backends, (any, second), 7, 3, (Difference::Wrong, Kind::Backend, "under maintenance", none)),
        (backends, (any, second), 7, 1, (Difference::Wrong, Kind::Backend, "it is ending there", none)),
        (backends, (any, second), 6, 17, (Difference::Wrong, Kind::BackendTarget, "of protocol UDP", none)),
        (
            services,
            (&slot, any),
            7,
            9,
            (Difference::Wrong, Kind::Masquerade, "clients see nothing of it", none),
        ),
        (services, (http, any), 7, 9, (Difference::Missing, Kind::Masquerade, "socket load balancing", all)),
        (services, (http, any), 9, 4, (Difference::Extra, Kind::Foreign, "a proxy on the node", none)),
    ];
    for (map, row, at, byte, (difference, kind, words, symptom)) in cases {
        let mut maps = good.clone();
        set(&mut maps, map, row, at, byte);
        let trace = follow(&maps, &ports);
        let port = trace.ports.iter().find(|port| port.port == "http").expect("it is there");
        let told = port.faults().any(|fault| {
            (fault.difference, fault.kind) == (difference, kind) && fault.detail.contains(words)
        });
        assert!(told, "{words}: {:#?}", port.faults().collect::<Vec<_>>());
        assert_eq!((port.symptom, port.status), (symptom, Status::Broken), "{words}");
    }
}

/// What is behind the slots that count is in quarantine by Cilium's own checks: the endpoint is missed with that reason.
#[test]
fn slots_behind_those_that_count_are_in_quarantine() {
    let ports = crate::service_world::ports(HALF_BROKEN);
    let mut maps = maps(&ports, AddressType::Ipv4);
    let http: &[u8] = &[10, 96, 0, 50, 0, 80, 0, 0];
    set(&mut maps, "cilium_lb4_services_v2", (http, &[]), 4, 1);
    set(&mut maps, "cilium_lb4_services_v2", (http, &[]), 10, 1);
    let trace = follow(&maps, &ports);
    let port = trace.ports.iter().find(|port| port.port == "http").expect("it is there");
    let faults: Vec<_> = port.faults().collect();
    let [fault] = &faults[..] else { panic!("{faults:#?}") };
    assert_eq!(fault.endpoint.as_deref(), Some("10.244.1.21:8080"));
    assert!(fault.detail.contains("its slot 2 is behind the 1 that are used"), "{}", fault.detail);
    assert_eq!(port.symptom, Symptom::default());
}
