//! A name server's address as the readers accept it.
//!
//! Invariant: an address that was accepted is what the reader would send to; the text is kept as written.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde::{Serialize, Serializer};

/// One `nameserver`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nameserver {
    /// As written, without what stands after it.
    pub text: String,
    /// The address; `None` only with kubelet, which does not look.
    pub address: Option<IpAddr>,
    /// The zone of a link-local address, as written.
    pub zone: Option<String>,
}

impl Nameserver {
    /// The server at an address.
    pub fn at(address: IpAddr) -> Self {
        Self { text: address.to_string(), address: Some(address), zone: None }
    }
}

impl fmt::Display for Nameserver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.address, &self.zone) {
            (Some(address), Some(zone)) => write!(f, "{address}%{zone}"),
            (Some(address), None) => write!(f, "{address}"),
            (None, _) => f.write_str(&self.text),
        }
    }
}

impl Serialize for Nameserver {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// IPv4 as `inet_aton` reads it: one to four parts, decimal, octal or hexadecimal, the last filling what is left.
pub(super) fn inet_aton(text: &str) -> Option<Ipv4Addr> {
    let parts: Vec<u64> = text.split('.').map(number).collect::<Option<_>>()?;
    let (last, whole) = parts.split_last()?;
    let room = 4_u32.checked_sub(u32::try_from(whole.len()).ok()?)?;
    if room == 0 || whole.iter().any(|part| *part > 255) || last.checked_shr(8 * room) != Some(0) {
        return None;
    }
    let mut value = 0;
    for part in whole {
        value = value << 8 | part;
    }
    u32::try_from(value << (8 * room) | last).ok().map(Ipv4Addr::from)
}

/// A C number: `0x` hexadecimal, `0` octal, else decimal; it begins with a digit and nothing follows it.
fn number(text: &str) -> Option<u64> {
    if !text.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let hexadecimal = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    match hexadecimal {
        Some(digits) if digits.bytes().all(|b| b.is_ascii_hexdigit()) => u64::from_str_radix(digits, 16).ok(),
        Some(_) => None,
        None if text.len() > 1 && text.starts_with('0') => u64::from_str_radix(text, 8).ok(),
        None => text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok()).flatten(),
    }
}

/// IPv6, perhaps with `%zone`; the zone's name is not looked up.
pub(super) fn inet6(text: &str) -> Option<(Ipv6Addr, Option<String>)> {
    let (address, zone) = match text.split_once('%') {
        Some((address, zone)) => (address, Some(zone.to_owned())),
        None => (text, None),
    };
    Some((address.parse().ok()?, zone))
}

/// Whether only an address within one link can have this zone by name.
pub(super) fn is_link_local(address: Ipv6Addr) -> bool {
    let first = address.segments().first().copied().unwrap_or(0);
    first & 0xffc0 == 0xfe80 || first & 0xff0f == 0xff02
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inet_aton_takes_short_octal_and_hexadecimal_forms() {
        let read = |text: &str| inet_aton(text).map(|address| address.to_string());
        assert_eq!(read("10.0.0.1").as_deref(), Some("10.0.0.1"));
        assert_eq!(read("10.1").as_deref(), Some("10.0.0.1"));
        assert_eq!(read("010.0.0.1").as_deref(), Some("8.0.0.1"));
        assert_eq!(read("0x7f.1").as_deref(), Some("127.0.0.1"));
        assert_eq!(read("2130706433").as_deref(), Some("127.0.0.1"));
        for text in
            ["", "10.0.0.1.", "10.0.0.256", "1.2.3.4.5", "08.1", "256.1", "-1", "10.0.0.1:53", "4294967296"]
        {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
