//! What backend tests stand on.
//!
//! Invariant: everything is in namespaces that die with the test; a missing privilege skips a test unless
//! `NETLAB_TEST_REQUIRE` names it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::process::Command;

use netlab_core::model::cluster::{Cluster, Namespace, Node, ObjectKey, Pod};
use netlab_core::model::port::Protocol;
use netlab_core::policy::change::{
    Cell, Change, DirectionTable, Frontend, FrontendTarget, PeerPrefix, PeerRow, PodDevice, PortClass,
    ProtocolRange, RulesetTable, Verdict,
};
use netlab_enforcer::instance::LoadError;
use netlab_enforcer::{Datapath, LoadOptions};
use netlab_lab::{Lab, Plan, Selection};
use netlab_node::Netns;

/// True when this machine has all of `needed` (`netns`, `nft`, `bpf`, `userns`). Says what is missing.
///
/// # Panics
/// When something missing is required by `NETLAB_TEST_REQUIRE`.
pub(crate) fn has(needed: &[&str]) -> bool {
    let required = std::env::var("NETLAB_TEST_REQUIRE").unwrap_or_default();
    for need in needed {
        let there = match *need {
            "netns" => Netns::create().is_ok(),
            "nft" => {
                Command::new("nft").arg("--version").output().is_ok_and(|output| output.status.success())
            }
            "userns" => Command::new("unshare")
                .args(["--user", "--map-root-user", "true"])
                .output()
                .is_ok_and(|output| output.status.success()),
            "bpf" => !matches!(Datapath::load(&LoadOptions::LAB), Err(LoadError::NotAllowed)),
            other => panic!("unknown requirement {other}"),
        };
        if !there {
            assert!(!required.split(',').any(|name| name == *need), "{need} is required and not there");
            eprintln!("skipped: {need} is not available");
            return false;
        }
    }
    true
}

/// The pods of a [`Site`].
pub(crate) const WEB: [&str; 2] = ["10.1.0.2", "fd00:1::2"];
pub(crate) const DB: [&str; 2] = ["10.1.0.3", "fd00:1::3"];
/// The node, and an address beyond it.
pub(crate) const NODE: [&str; 2] = ["172.18.0.2", "fc00:f853:ccd:e793::2"];
pub(crate) const OUTSIDE: [&str; 2] = ["198.51.100.7", "2001:db8:51::7"];

/// Peer classes of [`Site::change`].
pub(crate) const CLASS_WORLD: u32 = 1;
pub(crate) const CLASS_WEB: u32 = 2;
pub(crate) const CLASS_DB: u32 = 3;

/// A node `n1` with the pods `shop/web` and `shop/db`, and the world outside.
pub(crate) struct Site {
    pub(crate) lab: Lab,
}

impl Site {
    pub(crate) fn new() -> Self {
        let addresses = |list: [&str; 2]| list.map(|address| address.parse().expect("address")).to_vec();
        let mut cluster = Cluster::default();
        cluster.nodes.insert("n1".to_owned(), Node { addresses: addresses(NODE), ..Node::default() });
        cluster.namespaces.insert("shop".to_owned(), Namespace::default());
        for (name, list) in [("web", WEB), ("db", DB)] {
            let pod = Pod { addresses: addresses(list), node: Some("n1".to_owned()), ..Pod::default() };
            cluster.pods.insert(ObjectKey::new("shop", name), pod);
        }
        let mut selection = Selection::everything();
        for address in addresses(OUTSIDE) {
            selection = selection.and_external(address);
        }
        let plan = Plan::new(&cluster, &selection).expect("a plan");
        Self { lab: Lab::build(&plan).expect("a lab") }
    }

    pub(crate) fn node(&self) -> &Netns {
        self.lab.node("n1").expect("the node")
    }

    pub(crate) fn pod(&self, name: &str) -> &Netns {
        self.lab.pod(&ObjectKey::new("shop", name)).expect("a pod")
    }

    /// A change with these rulesets; `web` and `db` name the pods'.
    pub(crate) fn change(&self, generation: u32, rulesets: Vec<RulesetTable>, web: u32, db: u32) -> Change {
        let prefix = |address: &str, class| {
            let address: IpAddr = address.parse().expect("address");
            PeerPrefix { address, length: if address.is_ipv4() { 32 } else { 128 }, class }
        };
        let mut peers = vec![
            PeerPrefix { address: Ipv4Addr::UNSPECIFIED.into(), length: 0, class: CLASS_WORLD },
            PeerPrefix { address: Ipv6Addr::UNSPECIFIED.into(), length: 0, class: CLASS_WORLD },
        ];
        for family in 0..2 {
            peers.push(prefix(WEB[family], CLASS_WEB));
            peers.push(prefix(DB[family], CLASS_DB));
        }
        peers.sort_unstable();
        let pod = |name: &str, id, ruleset, addresses: [&str; 2]| PodDevice {
            namespace: "shop".to_owned(),
            name: name.to_owned(),
            id,
            interface: self.lab.host_interface(&ObjectKey::new("shop", name)).expect("link").name.clone(),
            addresses: addresses.map(|address| address.parse().expect("address")).to_vec(),
            ruleset,
            any_source: false,
        };
        Change {
            generation,
            rulesets,
            peers,
            pods: vec![pod("db", 2, db, DB), pod("web", 1, web, WEB)],
            ..Change::default()
        }
    }
}

/// A table over the classes world, web and db. `entries` gives the cells of each class: ICMP, other protocols,
/// all ports but `port`, `port` of `protocol`. Even entries allow, odd ones deny.
pub(crate) fn table(protocol: Protocol, port: u16, entries: [[u32; 4]; 3]) -> DirectionTable {
    let range = |protocol, start, end| ProtocolRange { protocol, start, end };
    let mut rest: Vec<ProtocolRange> = Protocol::ALL
        .into_iter()
        .filter(|other| *other != protocol)
        .map(|other| range(other, 0, u16::MAX))
        .collect();
    if port > 0 {
        rest.push(range(protocol, 0, port - 1));
    }
    if port < u16::MAX {
        rest.push(range(protocol, port + 1, u16::MAX));
    }
    let cell =
        |entry| Cell { verdict: if entry % 2 == 0 { Verdict::Allow } else { Verdict::Deny }, tier: 2, entry };
    DirectionTable {
        port_classes: vec![
            PortClass { class: 0, ranges: vec![] },
            PortClass { class: 1, ranges: vec![] },
            PortClass { class: 2, ranges: rest },
            PortClass { class: 3, ranges: vec![range(protocol, port, port)] },
        ],
        rows: [CLASS_WORLD, CLASS_WEB, CLASS_DB]
            .into_iter()
            .zip(entries)
            .map(|(class, entries)| PeerRow { peer_classes: vec![class], cells: entries.map(cell).to_vec() })
            .collect(),
    }
}

/// A ruleset that isolates nothing.
pub(crate) fn open(id: u32) -> RulesetTable {
    RulesetTable { id, ingress: None, egress: None }
}

/// TCP of a Service that leads to db.
pub(crate) fn service(port: u16, target: u16) -> Frontend {
    Frontend {
        address: Ipv4Addr::new(10, 96, 0, 1).into(),
        port,
        protocol: Protocol::Tcp,
        service: "shop/db:sql".to_owned(),
        targets: vec![FrontendTarget {
            peer_class: CLASS_DB,
            port: target,
            endpoints: vec![DB[0].parse().expect("an address")],
        }],
        deferrable: true,
    }
}
