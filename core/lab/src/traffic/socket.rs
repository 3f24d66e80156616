//! Sockets with any protocol number, and what their error queues hold.
//!
//! Invariant: every socket is non-blocking and close-on-exec. The only `unsafe` of the traffic code is here: no
//! safe wrapper at hand opens a raw socket of an arbitrary protocol.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg};

/// `SO_EE_ORIGIN_ICMP` and `SO_EE_ORIGIN_ICMP6` (`linux/errqueue.h`).
const ORIGIN_ICMP: u8 = 2;
const ORIGIN_ICMP6: u8 = 3;

/// `sizeof(int)`, as `setsockopt` wants it.
const INT_LENGTH: libc::socklen_t = 4;

/// An ICMP error that came back for a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IcmpError {
    /// ICMP or ICMPv6 type.
    pub kind: u8,
    /// Its code.
    pub code: u8,
    /// Who sent it.
    pub from: Option<IpAddr>,
}

impl std::fmt::Display for IcmpError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ICMP type {} code {}", self.kind, self.code)?;
        match self.from {
            Some(from) => write!(f, " from {from}"),
            None => Ok(()),
        }
    }
}

/// Opens a socket of the address's family. `kind` is `SOCK_STREAM`, `SOCK_DGRAM` or `SOCK_RAW`.
pub(super) fn open(family_of: IpAddr, kind: libc::c_int, protocol: u8) -> io::Result<OwnedFd> {
    let domain = if family_of.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    let kind = kind | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: socket(2) takes three integers and touches no memory of ours.
    let descriptor = unsafe { libc::socket(domain, kind, protocol.into()) };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just returned this descriptor to us, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// Sets an option whose value is a C `int`.
pub(super) fn set(
    socket: &OwnedFd,
    level: libc::c_int,
    name: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    // SAFETY: the pointer and the length describe `value`, which lives until the call returns.
    let outcome =
        unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, (&raw const value).cast(), INT_LENGTH) };
    if outcome < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Asks for ICMP errors on the socket's error queue.
pub(super) fn report_errors(socket: &OwnedFd, family_of: IpAddr) -> io::Result<()> {
    match family_of {
        IpAddr::V4(_) => set(socket, libc::IPPROTO_IP, libc::IP_RECVERR, 1),
        IpAddr::V6(_) => set(socket, libc::IPPROTO_IPV6, libc::IPV6_RECVERR, 1),
    }
}

/// Binds to an address. One that is not the namespace's own is borrowed (`IP_TRANSPARENT`): that is how a pod
/// that forges its source does it, short of building the frame itself.
pub(super) fn bind_source(socket: &OwnedFd, address: SocketAddr) -> io::Result<()> {
    match bind(socket, address) {
        Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable => {
            match address {
                SocketAddr::V4(_) => set(socket, libc::IPPROTO_IP, libc::IP_TRANSPARENT, 1)?,
                SocketAddr::V6(_) => set(socket, libc::IPPROTO_IPV6, libc::IPV6_TRANSPARENT, 1)?,
            }
            bind(socket, address)
        }
        outcome => outcome,
    }
}

/// Binds to an address, or to any address where the namespace does not bear it (it is translated on its way).
pub(super) fn bind_destination(socket: &OwnedFd, address: SocketAddr) -> io::Result<()> {
    match bind(socket, address) {
        Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable => {
            let any = match address {
                SocketAddr::V4(_) => IpAddr::from([0_u8; 4]),
                SocketAddr::V6(_) => IpAddr::from([0_u8; 16]),
            };
            bind(socket, SocketAddr::new(any, address.port()))
        }
        outcome => outcome,
    }
}

fn bind(socket: &OwnedFd, address: SocketAddr) -> io::Result<()> {
    Ok(nix::sys::socket::bind(socket.as_raw_fd(), &SockaddrStorage::from(address))?)
}

/// The port that the kernel chose.
pub(super) fn local_port(socket: &OwnedFd) -> io::Result<u16> {
    let address: SockaddrStorage = nix::sys::socket::getsockname(socket.as_raw_fd())?;
    Ok(to_std(&address).map_or(0, |address| address.port()))
}

pub(super) fn to_std(address: &SockaddrStorage) -> Option<SocketAddr> {
    if let Some(v4) = address.as_sockaddr_in() {
        return Some(SocketAddr::new(v4.ip().into(), v4.port()));
    }
    address.as_sockaddr_in6().map(|v6| SocketAddr::new(v6.ip().into(), v6.port()))
}

/// Receives without waiting; `None` when nothing is there. Pending errors are skipped: the error queue tells
/// more about them.
pub(super) fn receive(socket: &OwnedFd, buffer: &mut [u8]) -> Option<(usize, Option<SocketAddr>)> {
    // An error that is pending is reported once, before data.
    for _ in 0..4 {
        match nix::sys::socket::recvfrom::<SockaddrStorage>(socket.as_raw_fd(), buffer) {
            Ok((length, from)) => return Some((length, from.as_ref().and_then(to_std))),
            Err(Errno::EAGAIN) => return None,
            Err(_) => {}
        }
    }
    None
}

/// Takes the next ICMP error off the queue, and the errno that it stands for.
pub(super) fn next_error(socket: BorrowedFd<'_>) -> Option<(IcmpError, io::Error)> {
    let mut space = nix::cmsg_space!([u8; 128]);
    loop {
        let mut none = [];
        let message = recvmsg::<SockaddrStorage>(
            socket.as_raw_fd(),
            &mut none,
            Some(&mut space),
            MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT,
        )
        .ok()?;
        for control in message.cmsgs().ok()? {
            let (error, from) = match control {
                ControlMessageOwned::Ipv4RecvErr(error, from) => {
                    (error, from.map(|from| IpAddr::from(u32::from_be(from.sin_addr.s_addr).to_be_bytes())))
                }
                ControlMessageOwned::Ipv6RecvErr(error, from) => {
                    (error, from.map(|from| IpAddr::from(from.sin6_addr.s6_addr)))
                }
                _ => continue,
            };
            if matches!(error.ee_origin, ORIGIN_ICMP | ORIGIN_ICMP6) {
                let icmp = IcmpError { kind: error.ee_type, code: error.ee_code, from };
                return Some((icmp, io::Error::from_raw_os_error(error.ee_errno.cast_signed())));
            }
        }
    }
}
