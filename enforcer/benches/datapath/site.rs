//! A node with two pods: `web`, which nothing isolates, and `db`, whose ingress admits port 5432 from each of so many
//! peers. Of the peers only `web` is really there.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use netlab_core::model::cluster::{Cluster, Namespace, Node, ObjectKey, Pod};
use netlab_core::model::port::Protocol;
use netlab_core::policy::change::{
    Cell, Change, DirectionTable, PeerPrefix, PeerRow, PodDevice, PortClass, ProtocolRange, RulesetTable,
    Verdict,
};
use netlab_ebpf::reason::{FIRST_COMPILED_ENTRY, Tier};
use netlab_enforcer::LoadOptions;
use netlab_enforcer::maps::MapSizes;
use netlab_lab::{Lab, Plan, Selection};
use netlab_node::Netns;

use crate::figure::Failure;

/// The port that is open.
pub(crate) const OPEN: u16 = 5432;
/// A port that is not.
pub(crate) const CLOSED: u16 = 8000;

pub(crate) const WEB: (Ipv4Addr, Ipv6Addr) =
    (Ipv4Addr::new(10, 1, 0, 2), Ipv6Addr::new(0xfd00, 1, 0, 0, 0, 0, 0, 2));
pub(crate) const DB: (Ipv4Addr, Ipv6Addr) =
    (Ipv4Addr::new(10, 1, 0, 3), Ipv6Addr::new(0xfd00, 1, 0, 0, 0, 0, 0, 3));

const WORLD_CLASS: u32 = 1;
const DB_CLASS: u32 = 2;
const FIRST_PEER_CLASS: u32 = 3;

/// As on a node, with room for the largest set of peers.
pub(crate) const OPTIONS: LoadOptions = LoadOptions {
    sizes: MapSizes { policy: 1 << 19, event_bytes: 1 << 22, ..MapSizes::NODE },
    ..LoadOptions::NODE
};

/// The addresses of a peer, counted from 0: the first is `web`.
pub(crate) fn peer(index: u32) -> (Ipv4Addr, Ipv6Addr) {
    if index == 0 {
        return WEB;
    }
    let [_, high, middle, low] = index.to_be_bytes();
    let six = Ipv6Addr::new(0xfd00, 0x64, 0, 0, 0, 0, high.into(), u16::from_be_bytes([middle, low]));
    (Ipv4Addr::new(10, 64 + high, middle, low), six)
}

/// The namespaces.
pub(crate) struct Site {
    lab: Lab,
}

impl Site {
    pub(crate) fn new() -> Result<Self, Failure> {
        let mut cluster = Cluster::default();
        let node = [IpAddr::from([172, 18, 0, 2]), Ipv6Addr::new(0xfc00, 0xf853, 0, 0, 0, 0, 0, 2).into()];
        cluster.nodes.insert("n1".to_owned(), Node { addresses: node.to_vec(), ..Node::default() });
        cluster.namespaces.insert("shop".to_owned(), Namespace::default());
        for (name, (ipv4, ipv6)) in [("web", WEB), ("db", DB)] {
            let pod = Pod {
                addresses: vec![ipv4.into(), ipv6.into()],
                node: Some("n1".to_owned()),
                ..Pod::default()
            };
            cluster.pods.insert(ObjectKey::new("shop", name), pod);
        }
        Ok(Self { lab: Lab::build(&Plan::new(&cluster, &Selection::everything())?)? })
    }

    pub(crate) fn node(&self) -> Result<&Netns, Failure> {
        Ok(self.lab.node("n1")?)
    }

    pub(crate) fn pod(&self, name: &str) -> Result<&Netns, Failure> {
        Ok(self.lab.pod(&ObjectKey::new("shop", name))?)
    }

    /// The number of a pod's interface on the node.
    pub(crate) fn interface(&self, name: &str) -> Result<u32, Failure> {
        Ok(self.lab.host_interface(&ObjectKey::new("shop", name))?.index)
    }

    /// The tables for so many peers, each in a class of its own: the most rows that they can take.
    pub(crate) fn change(&self, peers: u32) -> Result<Change, Failure> {
        let mut prefixes = vec![
            PeerPrefix { address: Ipv4Addr::UNSPECIFIED.into(), length: 0, class: WORLD_CLASS },
            PeerPrefix { address: Ipv6Addr::UNSPECIFIED.into(), length: 0, class: WORLD_CLASS },
        ];
        let mut both = |(ipv4, ipv6): (Ipv4Addr, Ipv6Addr), class| {
            prefixes.push(PeerPrefix { address: ipv4.into(), length: 32, class });
            prefixes.push(PeerPrefix { address: ipv6.into(), length: 128, class });
        };
        both(DB, DB_CLASS);
        for index in 0..peers {
            both(peer(index), FIRST_PEER_CLASS + index);
        }
        prefixes.sort_unstable();
        let entry = |number: u32| FIRST_COMPILED_ENTRY + number;
        let cells = |allowed: Verdict, first: u32| {
            let verdicts = (0..).zip([Verdict::Deny, Verdict::Deny, Verdict::Deny, allowed]);
            verdicts
                .map(|(index, verdict)| Cell {
                    verdict,
                    tier: Tier::NetworkPolicy as u8,
                    entry: entry(first + index),
                })
                .collect()
        };
        let ingress = DirectionTable {
            port_classes: port_classes(),
            rows: vec![
                PeerRow { peer_classes: vec![WORLD_CLASS, DB_CLASS], cells: cells(Verdict::Deny, 0) },
                PeerRow {
                    peer_classes: (0..peers).map(|index| FIRST_PEER_CLASS + index).collect(),
                    cells: cells(Verdict::Allow, 4),
                },
            ],
        };
        let pod = |name: &str, id, (ipv4, ipv6): (Ipv4Addr, Ipv6Addr)| -> Result<PodDevice, Failure> {
            Ok(PodDevice {
                namespace: "shop".to_owned(),
                name: name.to_owned(),
                id,
                interface: self.lab.host_interface(&ObjectKey::new("shop", name))?.name.clone(),
                addresses: vec![ipv4.into(), ipv6.into()],
                ruleset: id,
                any_source: false,
            })
        };
        Ok(Change {
            generation: 1,
            rulesets: vec![
                RulesetTable { id: 1, ingress: Some(ingress), egress: None },
                RulesetTable { id: 2, ingress: None, egress: None },
            ],
            peers: prefixes,
            pods: vec![pod("db", 1, DB)?, pod("web", 2, WEB)?],
            ..Change::default()
        })
    }
}

/// ICMP, other protocols, every port but the open one of TCP and UDP, and that.
fn port_classes() -> Vec<PortClass> {
    let mut rest = vec![ProtocolRange { protocol: Protocol::Sctp, start: 0, end: u16::MAX }];
    let mut open = Vec::new();
    for protocol in [Protocol::Tcp, Protocol::Udp] {
        rest.push(ProtocolRange { protocol, start: 0, end: OPEN - 1 });
        rest.push(ProtocolRange { protocol, start: OPEN + 1, end: u16::MAX });
        open.push(ProtocolRange { protocol, start: OPEN, end: OPEN });
    }
    let ranges = [Vec::new(), Vec::new(), rest, open];
    (0..).zip(ranges).map(|(class, ranges)| PortClass { class, ranges }).collect()
}
