//! ICMP errors of a UDP socket, with the address of who sent them (`IP_RECVERR`, ip(7)).
//!
//! Invariant: what is in the queue is read to its end. Routers send few errors to one destination each second
//! (`icmp_ratelimit`), so that an empty queue proves nothing.

use std::io::IoSliceMut;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::os::fd::AsRawFd;

use nix::libc;
use nix::sys::socket::sockopt::{Ipv4RecvErr, Ipv6RecvErr};
use nix::sys::socket::{ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, setsockopt};
use serde::{Deserialize, Serialize};

/// An ICMP error that came for a probe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Refusal {
    /// The error that the kernel makes of it.
    pub errno: String,
    /// The ICMP or ICMPv6 type.
    pub icmp_type: u8,
    /// Its code.
    pub icmp_code: u8,
    /// Who sent it, where the kernel knows: the hop that refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offender: Option<IpAddr>,
}

/// Has the kernel keep the errors of a socket.
pub(super) fn keep(socket: &UdpSocket, ipv4: bool) -> nix::Result<()> {
    if ipv4 { setsockopt(socket, Ipv4RecvErr, &true) } else { setsockopt(socket, Ipv6RecvErr, &true) }
}

/// Takes what has come, each with the number of the message that it is about, where enough of that came back (RFC 1812 section
/// 4.3.2.3: the kernel gives what follows the UDP header).
pub(super) fn take(socket: &UdpSocket) -> Vec<(Refusal, Option<u16>)> {
    let mut refusals = Vec::new();
    loop {
        let mut payload = [0u8; 512];
        let mut parts = [IoSliceMut::new(&mut payload)];
        let mut control = [0u8; 512];
        let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
        let Ok(message) =
            recvmsg::<SockaddrStorage>(socket.as_raw_fd(), &mut parts, Some(&mut control), flags)
        else {
            return refusals;
        };
        let length = message.bytes;
        let Ok(messages) = message.cmsgs() else { continue };
        let messages: Vec<ControlMessageOwned> = messages.collect();
        let id =
            payload.get(..length).and_then(|bytes| bytes.first_chunk()).map(|id| u16::from_be_bytes(*id));
        let told = messages.into_iter().filter_map(|message| match message {
            ControlMessageOwned::Ipv4RecvErr(error, offender) => {
                let offender = offender.map(|address| Ipv4Addr::from(u32::from_be(address.sin_addr.s_addr)));
                refusal(&error, offender.map(IpAddr::V4))
            }
            ControlMessageOwned::Ipv6RecvErr(error, offender) => {
                let offender = offender.map(|address| Ipv6Addr::from(address.sin6_addr.s6_addr));
                refusal(&error, offender.map(IpAddr::V6))
            }
            _ => None,
        });
        refusals.extend(told.map(|refusal| (refusal, id)));
    }
}

/// Only what came from the network: the kernel's own errors are told by the call that met them.
fn refusal(error: &libc::sock_extended_err, offender: Option<IpAddr>) -> Option<Refusal> {
    if !matches!(error.ee_origin, libc::SO_EE_ORIGIN_ICMP | libc::SO_EE_ORIGIN_ICMP6) {
        return None;
    }
    let number = i32::try_from(error.ee_errno).ok()?;
    Some(Refusal {
        errno: super::errno(&std::io::Error::from_raw_os_error(number)),
        icmp_type: error.ee_type,
        icmp_code: error.ee_code,
        offender: offender.filter(|address| !address.is_unspecified()),
    })
}
