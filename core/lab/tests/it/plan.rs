//! Plans are pure, deterministic, and refuse what cannot be built.

use std::collections::BTreeSet;

use netlab_core::model::cluster::{Cluster, Pod};
use netlab_lab::{Place, Plan, PlanError, Selection};

use crate::cluster::{Families, cluster, ip, key, node, plan, pod};

#[test]
fn the_same_cluster_gives_the_same_plan_and_it_survives_serialisation() {
    let one = plan(Families::Both);
    assert_eq!(one, plan(Families::Both));
    let text = serde_json::to_string(&one).expect("json");
    assert_eq!(serde_json::from_str::<Plan>(&text).expect("plan"), one);
}

#[test]
fn link_names_are_short_and_unique() {
    let mut cluster = cluster(Families::V4);
    for number in 0..2000_u32 {
        let addresses = vec![std::net::IpAddr::from((0x0a80_0000 + number).to_be_bytes())];
        let pod = Pod { addresses, node: Some("node-1".to_owned()), ..Pod::default() };
        cluster.pods.insert(key(&format!("pod-{number}")), pod);
    }
    let plan = Plan::new(&cluster, &Selection::everything()).expect("plan");
    let names: BTreeSet<&str> = plan.veths.iter().map(|veth| veth.here.name.as_str()).collect();
    assert_eq!(names.len(), plan.veths.len());
    assert!(names.iter().all(|name| name.len() <= 15 && name.starts_with("nl")));
    let macs: BTreeSet<_> = plan.veths.iter().flat_map(|veth| [veth.here.mac, veth.there.mac]).collect();
    assert_eq!(macs.len(), 2 * plan.veths.len());
    assert!(macs.iter().all(|mac| mac.0[0] & 3 == 2), "unicast and locally administered");
}

#[test]
fn selected_pods_bring_their_nodes_and_no_others() {
    let selection = Selection::pods([key("web")]).and_external(ip("10.244.1.6"));
    let plan = Plan::new(&cluster(Families::V4), &selection).expect("plan");
    let places: Vec<Place> = plan.namespaces.iter().map(|namespace| namespace.place.clone()).collect();
    assert_eq!(places, [Place::Fabric, node("node-1"), pod("web")]);
    // A pod that does not take part is outside: the fabric bears its address.
    assert_eq!(plan.place_of(ip("10.244.1.6")), Some(&Place::Fabric));
}

#[test]
fn a_host_network_pod_is_its_node() {
    let plan = plan(Families::V4);
    assert_eq!(plan.home(&pod("agent")), &node("node-2"));
    assert_eq!(plan.node_of(&pod("agent")), Some("node-2"));
    assert_eq!(plan.node_of(&pod("web")), Some("node-1"));
    assert_eq!(plan.place_of(ip("172.18.0.3")), Some(&node("node-2")));
    assert!(plan.namespaces.iter().all(|namespace| namespace.place != pod("agent")));
}

#[test]
fn pods_without_nodes_get_one() {
    let mut cluster = Cluster::default();
    let web = Pod { addresses: vec![ip("10.0.0.1"), ip("fd00::1")], ..Pod::default() };
    cluster.pods.insert(key("web"), web);
    let elsewhere =
        Pod { addresses: vec![ip("172.18.0.2")], node: Some("gone".to_owned()), ..Pod::default() };
    cluster.pods.insert(key("elsewhere"), elsewhere);
    let plan = Plan::new(&cluster, &Selection::everything()).expect("plan");
    assert_eq!(plan.node_of(&pod("web")), Some("node-1"));
    assert_eq!(plan.node_of(&pod("elsewhere")), Some("gone"));
    let all: Vec<_> = plan.addresses.iter().flat_map(|(_, addresses)| addresses).collect();
    let distinct: BTreeSet<_> = all.iter().collect();
    assert_eq!(all.len(), distinct.len(), "an invented node takes nobody's address: {all:?}");
}

#[test]
fn what_cannot_be_built_is_refused_by_name() {
    let with = |name: &str, pod: Pod| {
        let mut cluster = cluster(Families::V4);
        cluster.pods.insert(key(name), pod);
        Plan::new(&cluster, &Selection::everything()).expect_err("refused").to_string()
    };
    let at = |address: &str| Pod { addresses: vec![ip(address)], ..Pod::default() };
    assert_eq!(
        with("twin", at("10.244.1.5")),
        "10.244.1.5 belongs to both pod/shop/twin and pod/shop/web; give one of them another address"
    );
    assert_eq!(
        with("loop", at("127.0.0.1")),
        "pod/shop/loop cannot have the address 127.0.0.1: it is a loopback address"
    );
    assert_eq!(
        with("mapped", at("::ffff:10.0.0.1")),
        "pod/shop/mapped cannot have the address ::ffff:10.0.0.1: it is an IPv4-mapped address"
    );
    let unknown = Selection::pods([key("nobody")]);
    assert_eq!(
        Plan::new(&cluster(Families::V4), &unknown),
        Err(PlanError::UnknownPod { pod: key("nobody") })
    );
    let nowhere = Selection::pods([]).and_node("nowhere");
    assert_eq!(
        Plan::new(&cluster(Families::V4), &nowhere),
        Err(PlanError::UnknownNode { node: "nowhere".to_owned() })
    );
}

#[test]
fn finished_pods_take_no_part() {
    let mut cluster = cluster(Families::V4);
    // Its address has been given to another pod since.
    let done = Pod { addresses: vec![ip("10.244.1.5")], terminal: true, ..Pod::default() };
    cluster.pods.insert(key("done"), done);
    let plan = Plan::new(&cluster, &Selection::everything()).expect("plan");
    assert_eq!(plan.place_of(ip("10.244.1.5")), Some(&pod("web")));
    let error = Plan::new(&cluster, &Selection::pods([key("done")])).expect_err("named");
    assert_eq!(error.to_string(), "pod shop/done cannot take part: it has run to its end (status.phase)");
}

#[test]
fn a_place_reads_back() {
    for place in [Place::Fabric, node("node-1"), pod("web")] {
        assert_eq!(place.to_string().parse::<Place>(), Ok(place));
    }
    let error = "pod/web".parse::<Place>().expect_err("no namespace");
    assert_eq!(
        error.to_string(),
        "`pod/web` is no place in a lab; write pod/NAMESPACE/NAME, node/NAME or fabric"
    );
}
