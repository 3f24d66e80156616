//! Frames to judge: the smallest valid Ethernet frame of a new connection.
//!
//! Invariant: what is built here parses back to exactly the addresses, protocol and ports asked for, with
//! correct checksums, so the kernel's stack would accept it too. No options, no fragments, no VLAN.

use std::net::IpAddr;

/// What the frame carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tuple {
    /// Source address.
    pub source: IpAddr,
    /// Destination address, of the same family.
    pub destination: IpAddr,
    /// IP protocol number; 1 and 58 mean echo request.
    pub protocol: u8,
    /// Source port; echo id for ICMP.
    pub source_port: u16,
    /// Destination port; ignored for ICMP.
    pub destination_port: u16,
}

/// The first frame of a connection: a bare SYN, an INIT, a datagram, an echo request. `None` when the families
/// differ.
pub fn opening(tuple: &Tuple) -> Option<Vec<u8>> {
    let transport = transport(tuple);
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    match (tuple.source, tuple.destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let total = u16::try_from(20 + transport.len()).ok()?;
            frame.extend([0x08, 0x00]);
            let mut header = vec![0x45, 0];
            header.extend(total.to_be_bytes());
            header.extend([0, 1, 0x40, 0, 64, tuple.protocol, 0, 0]);
            header.extend(source.octets());
            header.extend(destination.octets());
            let sum = checksum(&[&header]);
            header[10..12].copy_from_slice(&sum.to_be_bytes());
            frame.extend(header);
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
            frame.extend(u16::try_from(transport.len()).ok()?.to_be_bytes());
            frame.extend([tuple.protocol, 64]);
            frame.extend(source.octets());
            frame.extend(destination.octets());
        }
        _ => return None,
    }
    frame.extend(transport);
    Some(frame)
}

fn transport(tuple: &Tuple) -> Vec<u8> {
    let (source, destination) = (tuple.source_port.to_be_bytes(), tuple.destination_port.to_be_bytes());
    let mut bytes = Vec::with_capacity(32);
    match tuple.protocol {
        6 => {
            bytes.extend(source);
            bytes.extend(destination);
            bytes.extend([0, 0, 0, 1, 0, 0, 0, 0, 0x50, 0x02, 0xfa, 0xf0, 0, 0, 0, 0]);
            seal(&mut bytes, 16, tuple);
        }
        17 => {
            bytes.extend(source);
            bytes.extend(destination);
            bytes.extend([0, 8, 0, 0]);
            seal(&mut bytes, 6, tuple);
        }
        132 => {
            // RFC 4960 3.3.2: an INIT chunk of 20 bytes, verification tag 0.
            bytes.extend(source);
            bytes.extend(destination);
            bytes.extend([0, 0, 0, 0, 0, 0, 0, 0]);
            bytes.extend([1, 0, 0, 20, 0, 0, 0, 1, 0, 1, 0, 0, 0, 1, 0, 1, 0, 0, 0, 1]);
            let sum = crc32c(&bytes);
            bytes[8..12].copy_from_slice(&sum.to_le_bytes());
        }
        1 | 58 => {
            bytes.extend([if tuple.protocol == 1 { 8 } else { 128 }, 0, 0, 0]);
            bytes.extend(source);
            bytes.extend([0, 1]);
            if tuple.protocol == 1 {
                let sum = checksum(&[&bytes]);
                bytes[2..4].copy_from_slice(&sum.to_be_bytes());
            } else {
                seal(&mut bytes, 2, tuple);
            }
        }
        _ => bytes.extend([0; 8]),
    }
    bytes
}

/// Writes the checksum over pseudo-header and payload at `at`.
fn seal(bytes: &mut [u8], at: usize, tuple: &Tuple) {
    let length = u32::try_from(bytes.len()).unwrap_or(0).to_be_bytes();
    let (source, destination) = match (tuple.source, tuple.destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            (source.octets().to_vec(), destination.octets().to_vec())
        }
        (source, destination) => (octets(source), octets(destination)),
    };
    let sum = checksum(&[&source, &destination, &length, &[0, 0, 0, tuple.protocol], bytes]);
    // RFC 768: an all-zero checksum would mean that there is none.
    let sum = if sum == 0 { 0xffff } else { sum };
    bytes[at..at + 2].copy_from_slice(&sum.to_be_bytes());
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

/// RFC 1071. Every part but the last must have an even length.
fn checksum(parts: &[&[u8]]) -> u16 {
    let mut sum = 0u32;
    for part in parts {
        for pair in part.chunks(2) {
            sum += u32::from(u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]));
        }
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !u16::try_from(sum).unwrap_or(0)
}

/// RFC 4960 appendix B, bit by bit: frames are short.
fn crc32c(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0x82f6_3b78 } else { crc >> 1 };
        }
    }
    !crc
}

#[cfg(test)]
mod tests {
    use netlab_ebpf::packet::{Frame, Packet, parse};

    use super::*;

    #[test]
    fn every_opening_parses_back_to_its_tuple() {
        let addresses = [("10.0.0.1", "10.0.0.2"), ("fd00::1", "fd00::2")];
        for (source, destination) in addresses {
            let (source, destination): (IpAddr, IpAddr) =
                (source.parse().expect("address"), destination.parse().expect("address"));
            let icmp = if source.is_ipv4() { 1 } else { 58 };
            for protocol in [6, 17, 132, icmp, 47] {
                let tuple =
                    Tuple { source, destination, protocol, source_port: 40_000, destination_port: 5432 };
                let frame = opening(&tuple).expect("same family");
                let mut packet = Packet::default();
                assert_eq!(parse(&frame.as_slice(), &mut packet), Frame::Ip, "{tuple:?}");
                assert_eq!(packet.protocol, protocol);
                let ports = match protocol {
                    6 | 17 | 132 => (40_000, 5432),
                    1 | 58 => (40_000, 40_000),
                    _ => (0, 0),
                };
                assert_eq!((packet.source_port, packet.destination_port), ports);
            }
        }
    }

    #[test]
    fn mixed_families_have_no_frame() {
        let tuple = Tuple {
            source: "10.0.0.1".parse().expect("address"),
            destination: "fd00::2".parse().expect("address"),
            protocol: 6,
            source_port: 1,
            destination_port: 2,
        };
        assert_eq!(opening(&tuple), None);
    }

    #[test]
    fn crc32c_matches_the_check_value_of_rfc_3720() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    }
}
