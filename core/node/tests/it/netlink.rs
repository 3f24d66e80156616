//! The netlink client makes what `ip` would, and says in `ip`'s words what the kernel refused.

use std::net::IpAddr;

use netlab_node::netlink::{AddressSpec, Batch, Mac, RouteSpec, Scope, VethEnd};
use netlab_node::{Netlink, Netns};

use crate::require;

const HERE: Mac = Mac([2, 0, 0, 0, 0, 1]);
const THERE: Mac = Mac([2, 0, 0, 0, 0, 2]);

struct Pair {
    node: Netns,
    pod: Netns,
    node_link: Netlink,
    pod_link: Netlink,
}

fn pair() -> Pair {
    let node = Netns::create().expect("node");
    let pod = Netns::create().expect("pod");
    let mut node_link = Netlink::open_in(&node).expect("netlink");
    let mut pod_link = Netlink::open_in(&pod).expect("netlink");
    let mut batch = Batch::new();
    batch.link_up("lo").veth(
        VethEnd { name: "nlhost", mac: HERE },
        VethEnd { name: "eth0", mac: THERE },
        &pod,
    );
    batch.link_up("nlhost");
    node_link.apply(&batch).expect("veth");
    let mut batch = Batch::new();
    batch.link_up("eth0");
    pod_link.apply(&batch).expect("up");
    Pair { node, pod, node_link, pod_link }
}

fn ip(text: &str) -> IpAddr {
    text.parse().expect("address")
}

#[test]
fn a_veth_pair_spans_two_namespaces() {
    if !require::netns() {
        return;
    }
    let mut pair = pair();
    let here = pair.node_link.link("nlhost").expect("link").expect("nlhost");
    let there = pair.pod_link.link("eth0").expect("link").expect("eth0");
    assert_eq!((here.mac, here.up), (Some(HERE), true));
    assert_eq!((there.mac, there.up), (Some(THERE), true));
    assert_eq!(here.peer_index, Some(there.index));
    assert_eq!(there.peer_index, Some(here.index));
    assert_eq!(pair.pod_link.link("nlhost").expect("link"), None);
    let id = pair.node_link.netns_id(&pair.pod).expect("id");
    assert_eq!(here.peer_netns_id, Some(id));
    assert_eq!(pair.node_link.netns_id(&pair.pod).expect("id"), id);
}

#[test]
fn an_id_is_assigned_where_no_link_gave_one() {
    if !require::netns() {
        return;
    }
    let (one, other) = (Netns::create().expect("one"), Netns::create().expect("other"));
    let mut link = Netlink::open_in(&one).expect("netlink");
    assert_eq!(link.known_netns_id(&other).expect("known"), None);
    let id = link.netns_id(&other).expect("assign");
    assert_eq!(link.known_netns_id(&other).expect("known"), Some(id));
}

#[test]
fn addresses_routes_and_neighbours_read_back_as_written() {
    if !require::netns() {
        return;
    }
    let mut pair = pair();
    let index = pair.pod_link.link("eth0").expect("link").expect("eth0").index;
    let mut batch = Batch::new();
    for address in ["10.1.0.5/32", "fd00::5/128"] {
        let address = address.parse().expect("address");
        batch.address(index, AddressSpec { address, scope: Scope::Global });
    }
    batch.neighbour(index, ip("169.254.1.1"), HERE).neighbour(index, ip("fe80::1"), HERE);
    for (destination, via, source) in
        [("0.0.0.0/0", "169.254.1.1", "10.1.0.5"), ("::/0", "fe80::1", "fd00::5")]
    {
        batch.route(&RouteSpec {
            destination: destination.parse().expect("net"),
            via: Some(ip(via)),
            interface: index,
            onlink: true,
            source: Some(ip(source)),
        });
    }
    pair.pod_link.apply(&batch).expect("apply");

    let addresses: Vec<_> = pair
        .pod_link
        .addresses()
        .expect("addresses")
        .into_iter()
        .filter(|address| address.interface == index && !address.is_link_local())
        .map(|address| address.address.to_string())
        .collect();
    assert_eq!(addresses, ["10.1.0.5/32", "fd00::5/128"]);
    let routes = pair.pod_link.routes().expect("routes");
    for (destination, via, source) in
        [("0.0.0.0/0", "169.254.1.1", "10.1.0.5"), ("::/0", "fe80::1", "fd00::5")]
    {
        let route = routes
            .iter()
            .find(|route| route.destination.to_string() == destination)
            .unwrap_or_else(|| panic!("no {destination} in {routes:?}"));
        assert_eq!(
            (route.interface, route.via, route.source),
            (Some(index), Some(ip(via)), Some(ip(source)))
        );
    }
    let neighbours: Vec<_> =
        pair.pod_link.neighbours().expect("neighbours").into_iter().map(|n| (n.address, n.mac)).collect();
    assert!(neighbours.contains(&(ip("169.254.1.1"), HERE)), "{neighbours:?}");
    assert!(neighbours.contains(&(ip("fe80::1"), HERE)), "{neighbours:?}");
}

#[test]
fn a_refusal_names_the_request_among_many() {
    if !require::netns() {
        return;
    }
    let mut pair = pair();
    let index = pair.node_link.link("nlhost").expect("link").expect("nlhost").index;
    let mut batch = Batch::new();
    for number in 0..300_u32 {
        let address = IpAddr::from((0x0a00_0000 + number).to_be_bytes());
        batch.address(index, AddressSpec { address: address.into(), scope: Scope::Global });
    }
    batch.address(index, AddressSpec { address: ip("10.0.0.7").into(), scope: Scope::Global });
    let error = pair.node_link.apply(&batch).expect_err("twice");
    let text = error.to_string();
    assert!(text.starts_with(&format!("netlink: cannot ip addr add 10.0.0.7/32 dev {index}")), "{text}");
    // The connection is still in step: the next question gets its own answer.
    assert_eq!(
        pair.node_link
            .addresses()
            .expect("addresses")
            .iter()
            .filter(|a| !a.is_link_local())
            .filter(|a| a.interface == index)
            .count(),
        300
    );
}

#[test]
fn a_pair_dies_with_one_of_its_namespaces() {
    if !require::netns() {
        return;
    }
    let mut pair = pair();
    drop((pair.pod, pair.pod_link));
    // The kernel takes namespaces down in the background.
    for _ in 0..200 {
        if pair.node_link.link("nlhost").expect("link").is_none() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    panic!("nlhost outlives the pod in {}", pair.node.identity());
}
