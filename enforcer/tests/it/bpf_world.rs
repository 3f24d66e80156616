//! A small policy, written once: for the host's engine as an image, for the kernel as map entries; and a node
//! with two pods' interfaces.
//!
//! Pod 1 is isolated both ways, pod 2 for ingress only, pod 3 not at all. Verdicts are a fixed pattern over peer
//! and port classes, so that most pairs of classes differ.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use netlab_core::policy::image::Image;
use netlab_ebpf::abi::{
    Address, CidrKey, Device, Direction, PeerValue, PolicyKey, PolicyValue, RulesetPorts, ServiceKey,
    ServiceTarget, ServiceTargets, ServiceValue, Transport, Word, echo_address, mapped, port_page_index,
};
use netlab_ebpf::reason::{FIRST_COMPILED_ENTRY, Reason, Tier};
use netlab_enforcer::Datapath;
use netlab_node::Netns;
use netlab_node::netlink::{Batch, Mac, Netlink, VethEnd};

pub(crate) const POD: [Ipv4Addr; 3] =
    [Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2), Ipv4Addr::new(10, 0, 0, 3)];

/// The IPv6 address of a pod, counted from 0.
pub(crate) fn pod6(index: usize) -> Ipv6Addr {
    Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, u16::try_from(index + 1).expect("few pods"))
}

pub(crate) fn stored(address: IpAddr) -> Address {
    match address {
        IpAddr::V4(address) => mapped(address.octets()),
        IpAddr::V6(address) => address.octets(),
    }
}

/// Peer classes: pods 2 and 3 have one each, so have `10.1.0.0/16`, `fd01::/16`, and the rest of each family.
const CLASSES: std::ops::RangeInclusive<u32> = 2..=7;
/// Port classes: ICMP, other protocols, then what the pages say.
const PORT_CLASSES: std::ops::RangeInclusive<u16> = 0..=7;

/// Ports of interest: their classes are 2, 3, 4 (TCP), 5 (UDP), 6 (SCTP); every other port is class 7.
pub(crate) const PORTS: [(Transport, u16, u8); 6] = [
    (Transport::Tcp, 5432, 2),
    (Transport::Tcp, 8000, 3),
    (Transport::Tcp, 8001, 3),
    (Transport::Tcp, 443, 4),
    (Transport::Udp, 53, 5),
    (Transport::Sctp, 9, 6),
];

/// Whether the pattern allows.
pub(crate) fn allows(direction: Direction, peer: u32, port: u16) -> bool {
    (peer * 7 + u32::from(port) * 3 + direction as u32) % 5 < 2
}

/// The whole policy.
pub(crate) fn image() -> Image {
    let mut image = Image::default();
    for reason in Reason::FIXED {
        for direction in [Direction::Ingress, Direction::Egress] {
            let key = PolicyKey::new(PolicyKey::FIXED, direction, reason as u16, 0);
            row(&mut image, key, reason.verdict() == PolicyValue::ALLOW, reason.entry(), Tier::Exempt);
        }
    }
    let mut entry = FIRST_COMPILED_ENTRY;
    for ruleset in 1..=3 {
        for direction in [Direction::Ingress, Direction::Egress] {
            if isolated(ruleset, direction) {
                for peer in CLASSES {
                    for port in PORT_CLASSES {
                        let key = PolicyKey::new(ruleset, direction, port, peer);
                        row(&mut image, key, allows(direction, peer, port), entry, Tier::NetworkPolicy);
                        entry += 1;
                    }
                }
            } else {
                let key = PolicyKey::not_isolated(ruleset, direction);
                row(&mut image, key, true, entry, Tier::Default);
                entry += 1;
            }
        }
        image.ruleset_ports.insert(ruleset, RulesetPorts { ingress: 1, egress: 1 });
    }
    for (class, index) in [(2, 1), (3, 2)] {
        for address in [stored(POD[index].into()), stored(pod6(index).into())] {
            image.peers.insert(address, PeerValue { class, echo: echo_address(&address) });
        }
    }
    for (class, prefix, address) in [
        (4, 112, stored(Ipv4Addr::new(10, 1, 0, 0).into())),
        (5, 16, stored(Ipv6Addr::new(0xfd01, 0, 0, 0, 0, 0, 0, 0).into())),
        (6, 96, mapped([0; 4])),
        (7, 0, [0; 16]),
    ] {
        image.cidrs.insert(CidrKey { prefix, address }, PeerValue { class, echo: echo_address(&address) });
    }
    let mut pages = BTreeMap::new();
    for transport in [Transport::Tcp, Transport::Udp, Transport::Sctp] {
        for high in 0..=255_u16 {
            let mut page = [7; 256];
            for (of, port, class) in PORTS {
                if of as u32 == transport as u32 && port >> 8 == high {
                    page[usize::from(port & 0xff)] = class;
                }
            }
            let next = u32::try_from(pages.len()).expect("few pages") + 1;
            let number = *pages.entry(page).or_insert(next);
            image.port_classes.insert(number, page);
            image.port_pages.insert(port_page_index(1, transport, high << 8), number);
        }
    }
    services(&mut image);
    image
}

/// An address of Services in each family.
pub(crate) const SERVICE: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(10, 96, 0, 1)), IpAddr::V6(Ipv6Addr::new(0xfd96, 0, 0, 0, 0, 0, 0, 1))];

/// Services of every kind: mixed with and without a hook behind the translation, of too many endpoints, of one, of
/// other endpoints since generation 2, of none since then.
fn services(image: &mut Image) {
    let targets = |list: &[(u32, u16)], deferrable: bool| {
        let mut targets = ServiceTargets {
            count: u8::try_from(list.len()).expect("few"),
            flags: if deferrable { ServiceTargets::DEFERRABLE } else { 0 },
            ..ServiceTargets::default()
        };
        for (place, (peer_class, port)) in targets.list.iter_mut().zip(list) {
            *place = ServiceTarget { peer_class: *peer_class, port: *port, zero: 0 };
        }
        targets
    };
    let mixed = [(2, 5432), (3, 5432), (4, 5432), (6, 5432)];
    let too_many = ServiceTargets { count: ServiceTargets::TOO_MANY, ..targets(&[], true) };
    let none = ServiceTargets::default();
    for address in SERVICE {
        for (protocol, port, targets, former, since) in [
            (6, 5432, targets(&mixed, true), none, 0),
            (6, 8000, targets(&mixed, false), none, 0),
            (6, 8001, too_many, none, 0),
            (6, 443, targets(&[(4, 443)], true), none, 0),
            (6, 22, targets(&[(4, 5432), (6, 5432)], true), targets(&[(2, 5432)], true), 2),
            (17, 53, none, targets(&mixed, true), 2),
            (17, 123, targets(&[(4, 53), (6, 123)], false), none, 0),
            (132, 9, targets(&[(2, 9), (4, 9)], true), none, 0),
        ] {
            let key = ServiceKey { address: stored(address), port, protocol, zero: 0 };
            image.services.insert(key, ServiceValue { targets, former, since, echo: key.echo() });
        }
    }
}

fn row(image: &mut Image, key: PolicyKey, allow: bool, entry: u32, tier: Tier) {
    let verdict = if allow { PolicyValue::ALLOW } else { PolicyValue::DENY };
    image.policy.insert(key, PolicyValue { verdict, tier: tier as u8, zero: 0, entry, echo: key.echo() });
}

fn isolated(ruleset: u32, direction: Direction) -> bool {
    match ruleset {
        1 => true,
        2 => direction == Direction::Ingress,
        _ => false,
    }
}

/// The record of a pod, counted from 0, in a generation.
pub(crate) fn device(index: usize, generation: u32, netns: i32) -> Device {
    let number = u32::try_from(index + 1).expect("few pods");
    Device {
        word: Word::new(
            number,
            isolated(number, Direction::Ingress),
            isolated(number, Direction::Egress),
            generation,
        ),
        pod: 100 + number,
        flags: 0,
        drops: 0,
        ipv4: POD[index].octets(),
        netns,
        ipv6: pod6(index).octets(),
    }
}

/// Writes everything but the devices.
pub(crate) fn write(datapath: &Datapath, image: &Image) {
    let maps = datapath.policy();
    maps.peers.set_all(image.peers.iter().map(|(k, v)| (*k, *v))).expect("peers");
    maps.cidrs.set_all(image.cidrs.iter().map(|(k, v)| (*k, *v))).expect("cidrs");
    maps.rulesets.set_all(image.ruleset_ports.iter().map(|(k, v)| (*k, *v))).expect("rulesets");
    maps.port_pages.set_all(image.port_pages.iter().map(|(k, v)| (*k, *v))).expect("pages");
    maps.port_classes.set_all(image.port_classes.iter().map(|(k, v)| (*k, *v))).expect("classes");
    maps.policy.set_all(image.policy.iter().map(|(k, v)| (*k, *v))).expect("policy");
    maps.services.set_all(image.services.iter().map(|(k, v)| (*k, *v))).expect("services");
}

/// A node's namespace with the host-side interfaces `pod0`, `pod1`, `pod2`; the pods' ends are `eth0` in
/// namespaces of their own, with a route to everything by the node.
pub(crate) struct Site {
    pub(crate) node: Netns,
    pub(crate) pods: [Netns; 3],
    pub(crate) interfaces: [u32; 3],
}

impl Site {
    pub(crate) fn new() -> Self {
        let node = Netns::create().expect("namespace");
        let pods = [0; 3].map(|_| Netns::create().expect("namespace"));
        let mut netlink = Netlink::open_in(&node).expect("netlink");
        for (index, pod) in pods.iter().enumerate() {
            let name = format!("pod{index}");
            let number = u8::try_from(index).expect("few pods");
            let mut batch = Batch::new();
            batch
                .veth(
                    VethEnd { name: &name, mac: Mac([2, 0, 0, 0, 0, number]) },
                    VethEnd { name: "eth0", mac: Mac([2, 0, 0, 0, 1, number]) },
                    pod,
                )
                .link_up(&name)
                .link_up("lo");
            netlink.apply(&batch).expect("veth");
            let mut inside = Batch::new();
            inside.link_up("lo").link_up("eth0");
            Netlink::open_in(pod).expect("netlink").apply(&inside).expect("pod links");
        }
        let interfaces = node
            .run(|| {
                [0, 1, 2].map(|index| {
                    nix::net::if_::if_nametoindex(format!("pod{index}").as_str()).expect("interface")
                })
            })
            .expect("inside the node");
        Self { node, pods, interfaces }
    }
}
