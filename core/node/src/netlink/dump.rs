//! What a namespace holds: links, addresses, routes and neighbours.
//!
//! Invariant: lists are sorted by interface and address; routes are those of the main table.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use netlink_packet_core::NLM_F_DUMP;
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::link::{LinkAttribute, LinkExtentMask, LinkFlags, LinkMessage};
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourMessage, NeighbourState,
};
use netlink_packet_route::route::{RouteAddress, RouteAttribute, RouteHeader, RouteMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use super::Netlink;
use super::request::{Mac, is_link_local};
use crate::NodeError;

/// A link.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Link {
    /// `ifindex`.
    pub index: u32,
    /// Name.
    pub name: String,
    /// Hardware address, if it is an Ethernet one.
    pub mac: Option<Mac>,
    /// Administratively up.
    pub up: bool,
    /// Has carrier and may send (`IFF_RUNNING`).
    pub running: bool,
    /// `IFLA_LINK`: the other end of a veth, by its index in *its* namespace.
    pub peer_index: Option<u32>,
    /// `IFLA_LINK_NETNSID`: the id of the other end's namespace, when it is another one.
    pub peer_netns_id: Option<i32>,
}

/// An address on a link.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Address {
    /// `ifindex`.
    pub interface: u32,
    /// Address and prefix length.
    pub address: IpNet,
}

impl Address {
    /// True for `fe80::/10`, which the kernel adds by itself.
    pub fn is_link_local(&self) -> bool {
        matches!(self.address.addr(), IpAddr::V6(address) if is_link_local(address))
    }
}

/// A route of the main table.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Route {
    /// Outgoing interface.
    pub interface: Option<u32>,
    /// Destination.
    pub destination: IpNet,
    /// Next hop.
    pub via: Option<IpAddr>,
    /// Preferred source.
    pub source: Option<IpAddr>,
}

/// A permanent neighbour.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Neighbour {
    /// `ifindex`.
    pub interface: u32,
    /// Its address.
    pub address: IpAddr,
    /// Its hardware address.
    pub mac: Mac,
}

impl Netlink {
    /// Every link.
    pub fn links(&mut self) -> Result<Vec<Link>, NodeError> {
        let mut message = LinkMessage::default();
        message.attributes.push(LinkAttribute::ExtMask(vec![LinkExtentMask::SkipStats]));
        let answers = self.ask(RouteNetlinkMessage::GetLink(message), NLM_F_DUMP, "ip link show")?;
        let mut links: Vec<Link> = answers.iter().filter_map(read_link).collect();
        links.sort();
        Ok(links)
    }

    /// One link by name; `None` when there is none.
    pub fn link(&mut self, name: &str) -> Result<Option<Link>, NodeError> {
        let mut message = LinkMessage::default();
        message.attributes.push(LinkAttribute::IfName(name.to_owned()));
        message.attributes.push(LinkAttribute::ExtMask(vec![LinkExtentMask::SkipStats]));
        let action = format!("ip link show dev {name}");
        match self.ask(RouteNetlinkMessage::GetLink(message), 0, &action) {
            Ok(answers) => Ok(answers.iter().find_map(read_link)),
            Err(NodeError::Refused { source, .. }) if source.raw_os_error() == Some(libc::ENODEV) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Every address of both families.
    pub fn addresses(&mut self) -> Result<Vec<Address>, NodeError> {
        let message = RouteNetlinkMessage::GetAddress(AddressMessage::default());
        let answers = self.ask(message, NLM_F_DUMP, "ip addr show")?;
        let mut addresses: Vec<Address> = answers.iter().filter_map(read_address).collect();
        addresses.sort();
        Ok(addresses)
    }

    /// Every route of the main table, both families.
    pub fn routes(&mut self) -> Result<Vec<Route>, NodeError> {
        let mut routes = Vec::new();
        for family in [AddressFamily::Inet, AddressFamily::Inet6] {
            let mut message = RouteMessage::default();
            message.header.address_family = family;
            let answers = self.ask(RouteNetlinkMessage::GetRoute(message), NLM_F_DUMP, "ip route show")?;
            routes.extend(answers.iter().filter_map(read_route));
        }
        routes.sort();
        Ok(routes)
    }

    /// Every permanent neighbour, both families.
    pub fn neighbours(&mut self) -> Result<Vec<Neighbour>, NodeError> {
        let message = RouteNetlinkMessage::GetNeighbour(NeighbourMessage::default());
        let answers = self.ask(message, NLM_F_DUMP, "ip neigh show")?;
        let mut neighbours: Vec<Neighbour> = answers.iter().filter_map(read_neighbour).collect();
        neighbours.sort();
        Ok(neighbours)
    }
}

fn read_link(answer: &RouteNetlinkMessage) -> Option<Link> {
    let RouteNetlinkMessage::NewLink(message) = answer else { return None };
    let mut link = Link {
        index: message.header.index,
        name: String::new(),
        mac: None,
        up: message.header.flags.contains(LinkFlags::Up),
        running: message.header.flags.contains(LinkFlags::Running),
        peer_index: None,
        peer_netns_id: None,
    };
    for attribute in &message.attributes {
        match attribute {
            LinkAttribute::IfName(name) => link.name.clone_from(name),
            LinkAttribute::Address(bytes) => link.mac = read_mac(bytes),
            LinkAttribute::Link(index) => link.peer_index = Some(*index),
            LinkAttribute::LinkNetNsId(id) => link.peer_netns_id = Some(*id),
            _ => {}
        }
    }
    Some(link)
}

fn read_address(answer: &RouteNetlinkMessage) -> Option<Address> {
    let RouteNetlinkMessage::NewAddress(message) = answer else { return None };
    // IFA_ADDRESS is the peer on point-to-point links; IFA_LOCAL, where present, is the address itself.
    let local = message.attributes.iter().find_map(|attribute| match attribute {
        AddressAttribute::Local(address) => Some(*address),
        _ => None,
    });
    let any = message.attributes.iter().find_map(|attribute| match attribute {
        AddressAttribute::Address(address) => Some(*address),
        _ => None,
    });
    let address = IpNet::new(local.or(any)?, message.header.prefix_len).ok()?;
    Some(Address { interface: message.header.index, address })
}

fn read_route(answer: &RouteNetlinkMessage) -> Option<Route> {
    let RouteNetlinkMessage::NewRoute(message) = answer else { return None };
    if message.header.table != RouteHeader::RT_TABLE_MAIN {
        return None;
    }
    let unspecified = match message.header.address_family {
        AddressFamily::Inet => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        AddressFamily::Inet6 => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        _ => return None,
    };
    let (mut destination, mut interface, mut via, mut source) = (unspecified, None, None, None);
    for attribute in &message.attributes {
        match attribute {
            RouteAttribute::Destination(address) => destination = read_route_address(address)?,
            RouteAttribute::Gateway(address) => via = read_route_address(address),
            RouteAttribute::PrefSource(address) => source = read_route_address(address),
            RouteAttribute::Oif(index) => interface = Some(*index),
            _ => {}
        }
    }
    let destination = IpNet::new(destination, message.header.destination_prefix_length).ok()?;
    Some(Route { interface, destination, via, source })
}

fn read_neighbour(answer: &RouteNetlinkMessage) -> Option<Neighbour> {
    let RouteNetlinkMessage::NewNeighbour(message) = answer else { return None };
    if message.header.state != NeighbourState::Permanent {
        return None;
    }
    let (mut address, mut mac) = (None, None);
    for attribute in &message.attributes {
        match attribute {
            NeighbourAttribute::Destination(NeighbourAddress::Inet(inet)) => {
                address = Some(IpAddr::V4(*inet));
            }
            NeighbourAttribute::Destination(NeighbourAddress::Inet6(inet6)) => {
                address = Some(IpAddr::V6(*inet6));
            }
            NeighbourAttribute::LinkLayerAddress(bytes) => mac = read_mac(bytes),
            _ => {}
        }
    }
    Some(Neighbour { interface: message.header.ifindex, address: address?, mac: mac? })
}

fn read_route_address(address: &RouteAddress) -> Option<IpAddr> {
    match address {
        RouteAddress::Inet(address) => Some(IpAddr::V4(*address)),
        RouteAddress::Inet6(address) => Some(IpAddr::V6(*address)),
        _ => None,
    }
}

fn read_mac(bytes: &[u8]) -> Option<Mac> {
    bytes.try_into().ok().map(Mac)
}
