//! What only the tc backend does: maps that are read back byte for byte, programs that are put back.

use netlab_ebpf::abi::{Direction, PolicyKey, PolicyValue};
use netlab_enforcer::LoadOptions;
use netlab_enforcer::backend::tc::TcBackend;
use netlab_enforcer::maps::MapSizes;
use netlab_plugin::contract::Backend;

use crate::backend_site::{CLASS_WEB, DB, open};
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
