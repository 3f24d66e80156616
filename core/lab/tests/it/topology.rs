//! What stands is what the plan says, and nothing of it touches the host.

use netlab_lab::{Lab, Place};
use netlab_node::{Netlink, Netns};

use crate::cluster::{Families, key, lab, node, plan, pod};
use crate::require;

fn names(netns: &Netns) -> Vec<String> {
    let links = Netlink::open_in(netns).expect("netlink").links().expect("links");
    links.into_iter().map(|link| link.name).collect()
}

#[test]
fn every_place_has_its_links_and_the_host_gains_none() {
    if !require::netns() {
        return;
    }
    let host = Netns::create().expect("host");
    let lab = host.run(|| lab(Families::Both)).expect("run");
    assert_eq!(names(&host), ["lo"]);
    assert_eq!(names(lab.pod(&key("web")).expect("web")), ["lo", "eth0"]);
    assert_eq!(names(lab.node("node-1").expect("node-1")).len(), 4, "lo, two pods, the fabric");
    assert_eq!(names(lab.fabric().expect("fabric")).len(), 3, "lo and two nodes");
    assert_eq!(
        lab.netns(&pod("agent")).expect("agent").identity(),
        lab.node("node-2").expect("node-2").identity()
    );
}

#[test]
fn a_host_interface_is_the_other_end_of_the_pods_link() {
    if !require::netns() {
        return;
    }
    let lab = lab(Families::V4);
    for (pod, interface) in lab.host_interfaces() {
        let mut in_node = Netlink::open_in(lab.node(&interface.node).expect("node")).expect("netlink");
        let mut in_pod = Netlink::open_in(lab.pod(pod).expect("pod")).expect("netlink");
        let near = in_node.link(&interface.name).expect("link").expect("host interface");
        let far = in_pod.link("eth0").expect("link").expect("eth0");
        assert_eq!(near.index, interface.index);
        assert_eq!(near.peer_index, Some(far.index));
        assert_eq!(near.peer_netns_id, Some(interface.netns_id));
    }
    assert_eq!(lab.host_interfaces().len(), 4);
    let error = lab.host_interface(&key("agent")).expect_err("hostNetwork");
    assert_eq!(error.to_string(), "this lab has no pod/shop/agent");
}

#[test]
fn addresses_are_usable_at_once() {
    if !require::netns() {
        return;
    }
    let lab = lab(Families::Both);
    let dad: Vec<String> = lab
        .pod(&key("web"))
        .expect("web")
        .run(|| std::fs::read_to_string("/proc/thread-self/net/if_inet6").expect("if_inet6"))
        .expect("run")
        .lines()
        // The kernel's own link-local address may still be on its way; nobody uses it.
        .filter(|line| !line.starts_with("fe80"))
        // Flags in the fifth column; IFA_F_TENTATIVE is 0x40.
        .filter(|line| {
            let flags = line.split_whitespace().nth(4).expect("flags");
            u8::from_str_radix(flags, 16).expect("hex") & 0x40 != 0
        })
        .map(str::to_owned)
        .collect();
    assert!(dad.is_empty(), "{dad:?}");
}

#[test]
fn two_labs_of_the_same_cluster_stand_side_by_side() {
    if !require::netns() {
        return;
    }
    let plan = plan(Families::Both);
    let (one, other) = (Lab::build(&plan).expect("one"), Lab::build(&plan).expect("other"));
    for place in [Place::Fabric, node("node-1"), pod("web")] {
        assert_ne!(
            one.netns(&place).expect("one").identity(),
            other.netns(&place).expect("other").identity()
        );
    }
}
