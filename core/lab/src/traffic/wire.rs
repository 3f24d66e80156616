//! The few bytes that are built and read by hand: an SCTP INIT, an ICMP echo, a payload for other protocols.
//!
//! Invariant: builders give complete transport payloads, checksums included; readers take any bytes and never
//! panic. Sources: RFC 9260 §3.1 and §3.3.2 (SCTP), RFC 3309 (its checksum), RFC 792, RFC 4443 §4.

/// What an echo carries, and what other protocols carry on their way out.
pub(super) const PING: &[u8; 12] = b"netlab ping ";
/// What other protocols carry on their way back.
pub(super) const PONG: &[u8; 12] = b"netlab pong ";

const SCTP_INIT: u8 = 1;
const SCTP_INIT_ACK: u8 = 2;

/// Ports, chunk type and initiate tag of an SCTP packet that starts with INIT or INIT ACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sctp {
    pub(super) source: u16,
    pub(super) destination: u16,
    pub(super) is_init: bool,
    pub(super) initiate_tag: u32,
}

/// An INIT, or the INIT ACK that answers one (its verification tag is the initiate tag of the INIT).
pub(super) fn sctp(source: u16, destination: u16, initiate_tag: u32, answers: Option<u32>) -> Vec<u8> {
    // State cookie parameter: mandatory in INIT ACK.
    let cookie: &[u8] = if answers.is_some() { b"\x00\x07\x00\x08nlab" } else { b"" };
    let mut bytes = Vec::with_capacity(40);
    bytes.extend(source.to_be_bytes());
    bytes.extend(destination.to_be_bytes());
    bytes.extend(answers.unwrap_or_default().to_be_bytes());
    bytes.extend([0; 4]); // checksum
    bytes.extend([if answers.is_some() { SCTP_INIT_ACK } else { SCTP_INIT }, 0]);
    bytes.extend(u16::try_from(20 + cookie.len()).unwrap_or(20).to_be_bytes());
    bytes.extend(initiate_tag.to_be_bytes());
    bytes.extend(65_536_u32.to_be_bytes()); // receiver window
    bytes.extend(1_u16.to_be_bytes()); // outbound streams
    bytes.extend(1_u16.to_be_bytes()); // inbound streams
    bytes.extend(initiate_tag.to_be_bytes()); // initial TSN
    bytes.extend(cookie);
    let checksum = crc32c(&bytes).to_le_bytes();
    if let Some(space) = bytes.get_mut(8..12) {
        space.copy_from_slice(&checksum);
    }
    bytes
}

pub(super) fn read_sctp(bytes: &[u8]) -> Option<Sctp> {
    let [s0, s1, d0, d1, _, _, _, _, _, _, _, _, kind, _, _, _, t0, t1, t2, t3, ..] = *bytes else {
        return None;
    };
    let is_init = match kind {
        SCTP_INIT => true,
        SCTP_INIT_ACK => false,
        _ => return None,
    };
    Some(Sctp {
        source: u16::from_be_bytes([s0, s1]),
        destination: u16::from_be_bytes([d0, d1]),
        is_init,
        initiate_tag: u32::from_be_bytes([t0, t1, t2, t3]),
    })
}

/// An echo request of ICMP (type 8) or ICMPv6 (type 128). The kernel fills the checksum of ICMPv6 in.
pub(super) fn echo_request(ipv6: bool, identifier: u16) -> Vec<u8> {
    let mut bytes = vec![if ipv6 { 128 } else { 8 }, 0, 0, 0];
    bytes.extend(identifier.to_be_bytes());
    bytes.extend(1_u16.to_be_bytes());
    bytes.extend(PING);
    if !ipv6 {
        let checksum = internet_checksum(&bytes).to_be_bytes();
        if let Some(space) = bytes.get_mut(2..4) {
            space.copy_from_slice(&checksum);
        }
    }
    bytes
}

/// Identifier of an echo request (`true`) or reply (`false`).
pub(super) fn read_echo(ipv6: bool, bytes: &[u8]) -> Option<(bool, u16)> {
    let [kind, _, _, _, i0, i1, ..] = *bytes else { return None };
    let request = match (ipv6, kind) {
        (false, 8) | (true, 128) => true,
        (false, 0) | (true, 129) => false,
        _ => return None,
    };
    Some((request, u16::from_be_bytes([i0, i1])))
}

/// Ports of a TCP segment or UDP datagram, and whether it is a bare SYN.
pub(super) fn read_ports(bytes: &[u8]) -> Option<(u16, u16)> {
    let [s0, s1, d0, d1, ..] = *bytes else { return None };
    Some((u16::from_be_bytes([s0, s1]), u16::from_be_bytes([d0, d1])))
}

/// SYN without ACK.
pub(super) fn is_bare_syn(segment: &[u8]) -> bool {
    segment.get(13).is_some_and(|flags| flags & 0x12 == 0x02)
}

/// The payload of an IPv4 packet as a raw socket delivers it.
pub(super) fn ipv4_payload(packet: &[u8]) -> Option<&[u8]> {
    let header = usize::from(packet.first()? & 0x0f) * 4;
    packet.get(header..)
}

/// RFC 1071.
fn internet_checksum(bytes: &[u8]) -> u16 {
    let mut sum = 0_u32;
    for pair in bytes.chunks(2) {
        let word = u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or_default()]);
        sum += u32::from(word);
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !u16::try_from(sum).unwrap_or_default()
}

/// The Castagnoli CRC, bit by bit: a packet is 40 bytes long.
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
    use super::*;

    #[test]
    fn crc32c_has_its_check_value() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    }

    #[test]
    fn an_init_reads_back() {
        let bytes = sctp(1000, 2000, 7, None);
        let read = Sctp { source: 1000, destination: 2000, is_init: true, initiate_tag: 7 };
        assert_eq!(read_sctp(&bytes), Some(read));
        assert!(!read_sctp(&sctp(2000, 1000, 9, Some(7))).expect("INIT ACK").is_init);
        assert_eq!(read_sctp(bytes.get(..19).expect("long enough")), None);
    }

    #[test]
    fn an_echo_has_a_sum_of_zero_and_reads_back() {
        let bytes = echo_request(false, 77);
        assert_eq!(internet_checksum(&bytes), 0);
        assert_eq!(read_echo(false, &bytes), Some((true, 77)));
        assert_eq!(read_echo(true, &bytes), None);
    }
}
