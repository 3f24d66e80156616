//! Dumps are those of the namespace that is named.

use std::net::UdpSocket;
use std::process::Command;

use netlab_core::model::service::AddressType;
use netlab_node::netlink::Batch;
use netlab_node::{Netlink, Netns, dump};

use crate::require;

fn run(netns: &Netns, words: &[&str]) {
    let status =
        netns.run(|| Command::new(words[0]).args(&words[1..]).status()).expect("entered").expect("started");
    assert!(status.success(), "{words:?}");
}

#[test]
fn rules_and_entries_are_those_of_the_namespace() {
    if !require::netns() {
        return;
    }
    let (one, other) = (Netns::create().expect("create"), Netns::create().expect("create"));
    let mut batch = Batch::new();
    batch.link_up("lo");
    Netlink::open_in(&one).and_then(|mut netlink| netlink.apply(&batch)).expect("lo comes up");
    run(
        &one,
        &[
            "nft",
            "add table ip kube-proxy { chain c { type filter hook output priority 0; ct state new accept; }; }",
        ],
    );
    run(&one, &["iptables", "-t", "nat", "-N", "KUBE-SERVICES"]);
    let sent = one.run(|| UdpSocket::bind("127.0.0.1:0")?.send_to(b"?", "127.0.0.1:53"));
    sent.expect("entered").expect("sent");

    let rules = dump::iptables_save(&one, AddressType::Ipv4).expect("readable");
    assert!(rules.contains(":KUBE-SERVICES"), "{rules}");
    assert!(!dump::iptables_save(&other, AddressType::Ipv4).expect("readable").contains("KUBE-SERVICES"));
    let table = |netns, name| dump::nft_table(netns, AddressType::Ipv4, name).expect("readable");
    assert!(table(&one, "kube-proxy").is_some_and(|text| text.contains(r#""name": "kube-proxy""#)));
    assert_eq!((table(&one, "kube"), table(&other, "kube-proxy")), (None, None));
    let entries = dump::conntrack(&one).expect("readable");
    assert!(entries.lines().any(|line| line.contains("udp") && line.contains("dport=53")), "{entries}");
    assert_eq!(dump::conntrack(&other).expect("readable"), "");
    let counters = dump::conntrack_counters(&one).expect("readable");
    assert!(
        counters["count"] >= 1 && counters["max"] > 0 && counters.contains_key("insert_failed"),
        "{counters:?}"
    );
    let snmp = |netns| dump::protocol_counters(netns).expect("readable")["Udp.OutDatagrams"];
    assert_eq!((snmp(&one), snmp(&other)), (1, 0));
}
