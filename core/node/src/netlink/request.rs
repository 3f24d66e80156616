//! Requests, built up as a batch and worded as `ip` would be told.
//!
//! Invariant: building does no IO. A request that names another namespace borrows its descriptor's number, so the
//! namespace has to live until the batch is applied.

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv6Addr};
use std::os::fd::{AsFd, AsRawFd};

use ipnet::IpNet;
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE};
use netlink_packet_route::address::{
    AddressAttribute, AddressFlags, AddressHeaderFlags, AddressMessage, AddressScope,
};
use netlink_packet_route::link::{
    InfoData, InfoKind, InfoVeth, LinkAttribute, LinkFlags, LinkInfo, LinkMessage,
};
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourMessage, NeighbourState,
};
use netlink_packet_route::nsid::{NsidAttribute, NsidMessage};
use netlink_packet_route::route::{
    RouteAttribute, RouteFlags, RouteHeader, RouteMessage, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use serde::{Deserialize, Serialize};

/// A hardware address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Mac(pub [u8; 6]);

impl std::fmt::Display for Mac {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (index, byte) in self.0.iter().enumerate() {
            write!(f, "{}{byte:02x}", if index == 0 { "" } else { ":" })?;
        }
        Ok(())
    }
}

/// One end of a veth pair.
#[derive(Clone, Copy, Debug)]
pub struct VethEnd<'a> {
    /// Name, at most 15 bytes.
    pub name: &'a str,
    /// Hardware address.
    pub mac: Mac,
}

/// Where an address or a route is valid (`enum rt_scope_t`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Scope {
    /// Everywhere.
    #[default]
    Global,
    /// On this link.
    Link,
}

/// An address to add.
#[derive(Clone, Copy, Debug)]
pub struct AddressSpec {
    /// The address and its prefix length.
    pub address: IpNet,
    /// Its scope; IPv6 derives it from the address instead.
    pub scope: Scope,
}

/// A route to add to the main table.
#[derive(Clone, Copy, Debug)]
pub struct RouteSpec {
    /// The destination; a prefix length of 0 is the default route.
    pub destination: IpNet,
    /// The next hop; absent means that the destination is on the link.
    pub via: Option<IpAddr>,
    /// The outgoing interface.
    pub interface: u32,
    /// The next hop is on this link even if no route says so (`onlink`).
    pub onlink: bool,
    /// The preferred source of packets from here.
    pub source: Option<IpAddr>,
}

/// Requests to be sent together.
#[derive(Debug, Default)]
pub struct Batch {
    pub(super) requests: Vec<Request>,
}

#[derive(Debug)]
pub(super) struct Request {
    pub(super) message: RouteNetlinkMessage,
    pub(super) flags: u16,
    pub(super) action: String,
    pub(super) may_exist: bool,
}

impl Batch {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many requests.
    pub fn len(&self) -> usize {
        self.requests.len()
    }

    /// True when there is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// `ip link add HERE address … type veth peer name THERE address … netns PEER`. Both ends are down: the kernel
    /// refuses to create a veth end that is up (`veth_open` wants its peer, ENOTCONN).
    pub fn veth(&mut self, here: VethEnd<'_>, there: VethEnd<'_>, peer: &impl AsFd) -> &mut Self {
        let end = |end: VethEnd<'_>| {
            let mut message = LinkMessage::default();
            message.attributes.push(LinkAttribute::IfName(end.name.to_owned()));
            message.attributes.push(LinkAttribute::Address(end.mac.0.to_vec()));
            message
        };
        let mut far = end(there);
        far.attributes.push(LinkAttribute::NetNsFd(peer.as_fd().as_raw_fd()));
        let mut message = end(here);
        message.attributes.push(LinkAttribute::LinkInfo(vec![
            LinkInfo::Kind(InfoKind::Veth),
            LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(far))),
        ]));
        let action = format!("ip link add {} type veth peer name {}", here.name, there.name);
        self.push(RouteNetlinkMessage::NewLink(message), NLM_F_CREATE | NLM_F_EXCL, action)
    }

    /// `ip link set … up`.
    pub fn link_up(&mut self, name: &str) -> &mut Self {
        self.link_state(name, LinkFlags::Up, "up")
    }

    /// `ip link set … down`.
    pub fn link_down(&mut self, name: &str) -> &mut Self {
        self.link_state(name, LinkFlags::empty(), "down")
    }

    fn link_state(&mut self, name: &str, flags: LinkFlags, word: &str) -> &mut Self {
        let mut message = LinkMessage::default();
        message.header.flags = flags;
        message.header.change_mask = LinkFlags::Up;
        message.attributes.push(LinkAttribute::IfName(name.to_owned()));
        self.push(RouteNetlinkMessage::SetLink(message), 0, format!("ip link set dev {name} {word}"))
    }

    /// `ip link set … mtu …`.
    pub fn link_mtu(&mut self, interface: u32, mtu: u32) -> &mut Self {
        let mut message = LinkMessage::default();
        message.header.index = interface;
        message.attributes.push(LinkAttribute::Mtu(mtu));
        self.push(RouteNetlinkMessage::SetLink(message), 0, format!("ip link set dev {interface} mtu {mtu}"))
    }

    /// `ip link del …`.
    pub fn link_delete(&mut self, interface: u32) -> &mut Self {
        let mut message = LinkMessage::default();
        message.header.index = interface;
        self.push(RouteNetlinkMessage::DelLink(message), 0, format!("ip link del dev {interface}"))
    }

    /// `ip addr add … dev …`; IPv6 without duplicate address detection, which would make it unusable for a
    /// second or two.
    pub fn address(&mut self, interface: u32, spec: AddressSpec) -> &mut Self {
        let address = spec.address.addr();
        let mut message = AddressMessage::default();
        message.header.family = family(address);
        message.header.prefix_len = spec.address.prefix_len();
        message.header.index = interface;
        message.header.scope = match (address, spec.scope) {
            (IpAddr::V4(_), Scope::Link) => AddressScope::Link,
            _ => AddressScope::Universe,
        };
        message.attributes.push(AddressAttribute::Local(address));
        message.attributes.push(AddressAttribute::Address(address));
        let mut nodad = "";
        if address.is_ipv6() {
            message.header.flags = AddressHeaderFlags::Nodad;
            message.attributes.push(AddressAttribute::Flags(AddressFlags::Nodad));
            nodad = " nodad";
        }
        let action = format!("ip addr add {} dev {interface}{nodad}", spec.address);
        self.push(RouteNetlinkMessage::NewAddress(message), NLM_F_CREATE | NLM_F_EXCL, action)
    }

    /// `ip route add …`.
    pub fn route(&mut self, spec: &RouteSpec) -> &mut Self {
        let destination = spec.destination.trunc();
        let mut message = RouteMessage::default();
        let onlink = if spec.onlink { " onlink" } else { "" };
        let mut action = format!("ip route add {destination} dev {}{onlink}", spec.interface);
        message.header.address_family = family(destination.addr());
        message.header.destination_prefix_length = destination.prefix_len();
        message.header.table = RouteHeader::RT_TABLE_MAIN;
        message.header.protocol = RouteProtocol::Boot;
        message.header.kind = RouteType::Unicast;
        message.header.scope = if spec.via.is_none() && destination.addr().is_ipv4() {
            RouteScope::Link
        } else {
            RouteScope::Universe
        };
        if spec.onlink {
            message.header.flags = RouteFlags::Onlink;
        }
        if destination.prefix_len() > 0 {
            message.attributes.push(RouteAttribute::Destination(destination.addr().into()));
        }
        if let Some(via) = spec.via {
            message.attributes.push(RouteAttribute::Gateway(via.into()));
            let _ = write!(action, " via {via}");
        }
        if let Some(source) = spec.source {
            message.attributes.push(RouteAttribute::PrefSource(source.into()));
            let _ = write!(action, " src {source}");
        }
        message.attributes.push(RouteAttribute::Oif(spec.interface));
        self.push(RouteNetlinkMessage::NewRoute(message), NLM_F_CREATE | NLM_F_EXCL, action)
    }

    /// `ip neigh replace … lladdr … dev … nud permanent`.
    pub fn neighbour(&mut self, interface: u32, address: IpAddr, mac: Mac) -> &mut Self {
        let mut message = NeighbourMessage::default();
        message.header.family = family(address);
        message.header.ifindex = interface;
        message.header.state = NeighbourState::Permanent;
        message.header.kind = RouteType::Unicast;
        message.attributes.push(NeighbourAttribute::Destination(NeighbourAddress::from(address)));
        message.attributes.push(NeighbourAttribute::LinkLayerAddress(mac.0.to_vec()));
        let action = format!("ip neigh replace {address} lladdr {mac} dev {interface} nud permanent");
        self.push(RouteNetlinkMessage::NewNeighbour(message), NLM_F_CREATE | NLM_F_REPLACE, action)
    }

    /// `ip netns set … auto`. An id that is already there is kept.
    pub fn assign_netns_id(&mut self, netns: &impl AsFd) -> &mut Self {
        let mut message = NsidMessage::default();
        message.attributes.push(NsidAttribute::Fd(raw(netns)));
        message.attributes.push(NsidAttribute::Id(-1));
        self.push(RouteNetlinkMessage::NewNsId(message), 0, "ip netns set … auto".to_owned());
        if let Some(request) = self.requests.last_mut() {
            request.may_exist = true;
        }
        self
    }

    fn push(&mut self, message: RouteNetlinkMessage, flags: u16, action: String) -> &mut Self {
        self.requests.push(Request { message, flags, action, may_exist: false });
        self
    }
}

pub(super) fn raw(netns: &impl AsFd) -> u32 {
    netns.as_fd().as_raw_fd().cast_unsigned()
}

pub(super) const fn family(address: IpAddr) -> AddressFamily {
    match address {
        IpAddr::V4(_) => AddressFamily::Inet,
        IpAddr::V6(_) => AddressFamily::Inet6,
    }
}

/// `fe80::/10`.
pub(super) const fn is_link_local(address: Ipv6Addr) -> bool {
    address.segments()[0] & 0xffc0 == 0xfe80
}
