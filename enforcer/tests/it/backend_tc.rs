//! What only the tc backend does: maps that are read back byte for byte, programs that are put back.

use netlab_core::model::cluster::ObjectKey;
use netlab_core::policy::change::Change;
use netlab_ebpf::abi::{Direction, PeerValue, PolicyKey, PolicyValue, mapped};
use netlab_enforcer::LoadOptions;
use netlab_enforcer::backend::tc::TcBackend;
use netlab_enforcer::maps::pod::{Pod, bytes_of, from_bytes};
use netlab_enforcer::maps::{MapSizes, Table};
use netlab_plugin::contract::Backend;

use crate::backend_site::{CLASS_WEB, DB, open, service};
use crate::backend_traffic::{Counting, Enforced, assert_silent, connect, db_isolated, listen};

#[test]
fn a_row_that_lies_is_drift_and_asking_again_mends_it() {
    let Some(mut place) = Enforced::tc() else { return };
    let change = place.apply(1, vec![open(1), db_isolated(2)], 1, 2);
    let _listener = listen(place.site.pod("db"), DB[0], 5432);
    let maps = place.backend.datapath().policy().clone();
    let key = PolicyKey::new(2, Direction::Ingress, 3, CLASS_WEB);
    let row = maps.policy.get(&key).expect("readable").expect("there");
    assert_eq!(row.verdict, PolicyValue::ALLOW);
    maps.policy.set(&key, &PolicyValue { verdict: PolicyValue::DENY, ..row }).expect("written");
    assert_silent(connect(place.site.pod("web"), DB[0], 5432));
    let drift = place.backend.observe().expect("observation").drift;
    assert_eq!(drift.len(), 1, "{drift:?}");
    assert!(drift[0].contains("ruleset 2 ingress, peer class 2, port class 3"), "{drift:?}");

    let stray = PolicyKey::new(9, Direction::Ingress, 0, 1);
    maps.policy.set(&stray, &row).expect("written");
    assert_eq!(place.backend.observe().expect("observation").drift.len(), 2);
    place.backend.apply(&change).expect("applied again");
    assert_eq!(place.backend.observe().expect("observation").drift, Vec::<String>::new());
    connect(place.site.pod("web"), DB[0], 5432).expect("allowed again");
}

#[test]
fn a_change_that_does_not_fit_is_refused_and_nothing_is_written() {
    let Some(mut place) = Enforced::tc() else { return };
    let small = LoadOptions { sizes: MapSizes { policy: 70, ..MapSizes::LAB }, ..LoadOptions::LAB };
    place.backend =
        TcBackend::load(place.site.node().try_clone().expect("a second handle"), &small).expect("loaded");
    place.apply(1, vec![open(1), open(2)], 1, 2);
    let change = place.site.change(2, vec![open(1), db_isolated(3), db_isolated(4)], 1, 3);
    let error = place.backend.apply(&change).expect_err("too large");
    assert!(error.message.contains("POLICY") && error.message.contains("70"), "{error}");
    let observation = place.backend.observe().expect("observation");
    assert_eq!((observation.generation, observation.drift), (1, vec![]));
}

#[test]
fn a_pod_whose_interface_is_missing_undoes_the_whole_change() {
    let Some(mut place) = Enforced::tc() else { return };
    place.apply(1, vec![open(1), db_isolated(2)], 1, 2);
    let mut change = place.site.change(2, vec![open(1), db_isolated(2)], 1, 2);
    change.pods[1].interface = String::from("nowhere");
    let error = place.backend.apply(&change).expect_err("no such interface");
    assert!(error.message.contains("shop/web") && error.message.contains("nowhere"), "{error}");
    assert!(error.retry);
    let observation = place.backend.observe().expect("observation");
    assert_eq!((observation.generation, observation.drift), (1, vec![]));
    let _listener = listen(place.site.pod("db"), DB[0], 81);
    assert_silent(connect(place.site.pod("web"), DB[0], 81));
}

#[test]
fn a_pod_that_leaves_is_open_and_nothing_else_changes() {
    let Some(mut place) = Enforced::tc() else { return };
    place.apply(1, vec![open(1), db_isolated(2)], 1, 2);
    let _listener = listen(place.site.pod("db"), DB[1], 81);
    assert_silent(connect(place.site.pod("web"), DB[1], 81));
    let mut change = place.site.change(2, vec![open(1)], 1, 2);
    change.pods.retain(|pod| pod.name == "web");
    place.backend.apply(&change).expect("applied");
    assert_eq!(place.backend.attached().count(), 1);
    let before = place.backend.counted();
    connect(place.site.pod("web"), DB[1], 81).expect("nobody claims db any more");
    assert!(place.backend.counted().get(&65) <= before.get(&65));
    assert_eq!(place.backend.observe().expect("observation").drift, Vec::<String>::new());
}

#[test]
fn numbers_that_are_never_reused_do_not_exhaust_the_kernels_arrays() {
    let Some(mut place) = Enforced::tc() else { return };
    // Room for two changes at once and no more: two rulesets each, and four entries.
    let sizes = MapSizes { rulesets: 5, counters: 64 + 8, ..MapSizes::LAB };
    let options = LoadOptions { sizes, ..LoadOptions::LAB };
    place.backend =
        TcBackend::load(place.site.node().try_clone().expect("a second handle"), &options).expect("loaded");
    let _listener = listen(place.site.pod("db"), DB[0], 5432);
    let mut last = 0;
    for generation in 1..=100 {
        // Every change has numbers of its own, far beyond the arrays' ends.
        let (web, db, entry) = (2 * generation, 2 * generation + 1, 1000 * generation);
        let mut isolated = db_isolated(db);
        let cells = isolated.ingress.iter_mut().flat_map(|table| &mut table.rows);
        for cell in cells.flat_map(|row| &mut row.cells) {
            cell.entry += entry;
        }
        place.apply(generation, vec![open(web), isolated], web, db);
        if generation % 20 == 0 {
            connect(place.site.pod("web"), DB[0], 5432).expect("allowed");
            let counted = place.backend.counted();
            let ours: Vec<_> = counted.iter().filter(|(number, _)| **number >= 64).collect();
            assert_eq!(ours, [(&(entry + 64), &1)], "counted since the number was given, under its own name");
            let events = place.backend.datapath_mut().events().drain();
            let event = events.into_iter().rfind(|event| event.entry >= 64).expect("an event");
            assert_eq!(event.word.generation(), generation);
            assert_eq!(place.backend.entry(event.entry, generation), Some(entry + 64));
            last = event.entry;
        }
        assert_eq!(place.backend.observe().expect("observation").drift, Vec::<String>::new());
    }
    assert!(last < 72, "the kernel's numbers are within its arrays");
    // Three rulesets are too many beside the two in force.
    let change = place.site.change(101, vec![open(901), open(902), db_isolated(903)], 901, 903);
    let error = place.backend.apply(&change).expect_err("no room");
    assert!(error.message.contains("RULESETS"), "{error}");
}

/// What a pod's hook dropped last outlives a change of policy, and goes with the pod.
#[test]
fn the_last_drop_of_a_pod_outlives_changes_and_not_the_pod() {
    let Some(mut place) = Enforced::tc() else { return };
    place.apply(1, vec![open(1), db_isolated(2)], 1, 2);
    let _listener = listen(place.site.pod("db"), DB[0], 81);
    assert_silent(connect(place.site.pod("web"), DB[0], 81));
    let interface = place.site.lab.host_interface(&ObjectKey::new("shop", "db")).expect("link").index;
    let last = |place: &Enforced<TcBackend>| {
        let datapath = place.backend.datapath();
        let device = datapath.policy().devices.get(interface).expect("readable").expect("an element");
        assert_ne!(device.drops, 0, "a place of its own");
        let last = datapath.state().last_drops.get(device.drops, interface, Direction::Ingress);
        last.expect("readable")
            .first()
            .map(|last| (last.event.destination_port, last.event.word.generation()))
    };
    assert_eq!(last(&place), Some((81, 1)));
    place.apply(2, vec![open(1), db_isolated(2)], 1, 2);
    assert_eq!(last(&place), Some((81, 1)));
    let all = place.site.change(3, vec![open(1), db_isolated(2)], 1, 2);
    let mut without = all.clone();
    without.pods.retain(|pod| pod.name == "web");
    place.backend.apply(&without).expect("applied");
    place.backend.apply(&Change { generation: 4, ..all }).expect("applied");
    assert_eq!(last(&place), None);
}

/// Changes one byte of the first element that has a value.
#[track_caller]
fn lie<K: Pod, V: Pod>(map: &Table<K, V>) {
    let (key, value) = map
        .entries()
        .expect("readable")
        .into_iter()
        .find(|(_, value)| bytes_of(value).iter().any(|byte| *byte != 0))
        .expect("something is in it");
    let mut bytes = bytes_of(&value).to_owned();
    *bytes.last_mut().expect("not empty") ^= 0x40;
    map.set(&key, &from_bytes(&bytes).expect("as long")).expect("written");
}

#[test]
fn the_audit_sees_one_byte_in_any_map_and_names_it() {
    let Some(mut place) = Enforced::tc() else { return };
    let mut change = place.site.change(1, vec![open(1), db_isolated(2)], 1, 2);
    change.services = vec![service(80, 5432)];
    change.wires = vec!["eth0".to_owned()];
    place.backend.apply(&change).expect("applied");
    let audit = place.backend.audit().expect("audit");
    assert_eq!(audit.differences, vec![]);
    let compared: Vec<(&str, u64)> =
        audit.compared.iter().map(|compared| (compared.object.as_str(), compared.rows)).collect();
    let of = |name: &str| compared.iter().find(|(object, _)| *object == name).map_or(0, |(_, rows)| *rows);
    assert_eq!((of("DEVICES"), of("PEERS"), of("CIDRS"), of("RULESETS"), of("hooks")), (2, 4, 2, 2, 5));
    assert_eq!(of("POLICY"), place.backend.tables().expect("in force").policy.len() as u64);
    assert!(of("PORT_PAGES") >= 768 && of("PORT_CLASSES") > 1, "{compared:?}");
    assert_eq!((of("from_pod"), of("to_pod"), of("to_wire"), of("constants")), (1, 1, 1, 1));
    assert_eq!(of("SERVICES"), 1);
    assert!(audit.compared.iter().all(|compared| compared.bytes > 0 || compared.object == "hooks"));

    let maps = place.backend.datapath().policy().clone();
    let lies: [(&str, &str, &dyn Fn()); 8] = [
        ("POLICY", "ruleset", &|| {
            let key = PolicyKey::new(2, Direction::Ingress, 3, CLASS_WEB);
            let row = maps.policy.get(&key).expect("readable").expect("there");
            maps.policy.set(&key, &PolicyValue { tier: row.tier + 1, ..row }).expect("written");
        }),
        ("PEERS", "10.1.0.", &|| {
            let key = mapped([10, 1, 0, 2]);
            let value = maps.peers.get(&key).expect("readable").expect("there");
            maps.peers.set(&key, &PeerValue { echo: value.echo ^ 1, ..value }).expect("written");
        }),
        ("CIDRS", "/0", &|| lie(&maps.cidrs)),
        ("SERVICES", "10.96.0.1 port 80 protocol 6", &|| lie(&maps.services)),
        ("RULESETS", "ruleset", &|| lie(&maps.rulesets)),
        // One that nothing refers to.
        ("PORT_PAGES", "page 5 of port table 60", &|| {
            maps.port_pages.set(&(60 * 768 + 5), &1).expect("written");
        }),
        ("PORT_CLASSES", "page", &|| lie(&maps.port_classes)),
        ("DEVICES", "interface", &|| lie(maps.devices.table())),
    ];
    for (map, words, lie) in lies {
        lie();
        let audit = place.backend.audit().expect("audit");
        let [difference] = audit.differences.as_slice() else { panic!("{map}: {:?}", audit.differences) };
        assert_eq!(difference.object, map);
        assert!(difference.element.contains(words), "{difference}");
        assert_ne!(difference.expected, difference.found);
        assert_eq!(difference.entry, (map == "POLICY").then_some(64), "{difference}");
        place.backend.apply(&change).expect("mended");
        assert_eq!(place.backend.audit().expect("audit").differences, vec![], "{map}");
    }
    // Rows that nobody asked for, and rows that are gone.
    let key = PolicyKey::new(2, Direction::Ingress, 3, CLASS_WEB);
    maps.policy.remove(&key).expect("removed");
    maps.peers.set(&mapped([192, 0, 2, 9]), &PeerValue { class: 1, echo: 0 }).expect("written");
    let audit = place.backend.audit().expect("audit");
    let lines = audit.lines();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[0].contains("peer class 2, port class 3 is missing"), "{lines:?}");
    assert!(lines[1].contains("192.0.2.9 is there, though nothing asked for it"), "{lines:?}");
}
