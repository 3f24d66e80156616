//! What stands before a server block: a zone, perhaps with scheme and port.
//!
//! Source: `SplitHostPort` and `Transport` of `CoreDNS` (`plugin/normalize.go`, `plugin/pkg/parse/transport.go`). Invariant:
//! zones are compared in lower case with their final dot.

use std::fmt;
use std::net::IpAddr;

/// How the server is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Transport {
    /// UDP and TCP.
    Dns,
    /// DNS over TLS.
    Tls,
    /// DNS over QUIC.
    Quic,
    /// DNS over gRPC.
    Grpc,
    /// DNS over HTTPS.
    Https,
    /// DNS over HTTP/3.
    Https3,
}

impl Transport {
    const ALL: [(Self, &'static str, u16); 6] = [
        (Self::Dns, "dns", 53),
        (Self::Tls, "tls", 853),
        (Self::Quic, "quic", 853),
        (Self::Grpc, "grpc", 443),
        (Self::Https3, "https3", 443),
        (Self::Https, "https", 443),
    ];

    /// The scheme of a text, and the rest.
    fn of(text: &str) -> (Self, u16, &str) {
        for (transport, scheme, port) in Self::ALL {
            if let Some(rest) = text.strip_prefix(scheme).and_then(|rest| rest.strip_prefix("://")) {
                return (transport, port, rest);
            }
        }
        (Self::Dns, 53, text)
    }

    /// Its scheme.
    #[must_use]
    pub fn scheme(self) -> &'static str {
        Self::ALL.iter().find(|(transport, ..)| *transport == self).map_or("dns", |(_, scheme, _)| scheme)
    }
}

/// A zone that a block serves.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ZoneKey {
    /// The zone, in lower case, with its final dot.
    pub zone: String,
    /// The port.
    pub port: u16,
    /// The transport.
    pub transport: Transport,
}

impl fmt::Display for ZoneKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}:{}", self.transport.scheme(), self.zone, self.port)
    }
}

impl ZoneKey {
    /// Reads a key. A network that ends inside a label stands for several zones.
    ///
    /// # Errors
    /// Says what the server says.
    pub fn read(text: &str) -> Result<Vec<Self>, String> {
        let (transport, default_port, rest) = Transport::of(text);
        let (zone, port) = split_port(rest)?;
        let port = port.unwrap_or(default_port);
        let zones = match networks(zone)? {
            Some(zones) => zones,
            None => vec![normal(zone)],
        };
        Ok(zones.into_iter().map(|zone| Self { zone, port, transport }).collect())
    }
}

/// The port is what follows the last colon, if that is a number.
fn split_port(text: &str) -> Result<(&str, Option<u16>), String> {
    match text.rsplit_once(':') {
        Some((_, "")) => Err("a colon with nothing behind it".to_owned()),
        Some((zone, port)) if port.parse::<i64>().is_ok() => {
            let port = port.parse().map_err(|_| format!("`{port}` is no port"))?;
            check(zone)?;
            Ok((zone, Some(port)))
        }
        _ => {
            check(text)?;
            Ok((text, None))
        }
    }
}

fn check(zone: &str) -> Result<(), String> {
    if zone.len() > 255 {
        return Err(format!("a zone of {} bytes; 255 is the most", zone.len()));
    }
    let bare = zone.strip_suffix('.').unwrap_or(zone);
    let empty = bare.is_empty() && zone.len() > 1;
    let labels = || bare.split('.');
    if zone != "." && !bare.is_empty() && (empty || labels().any(str::is_empty)) {
        return Err(format!("`{zone}` has an empty label"));
    }
    match labels().find(|label| label.len() > 63) {
        Some(label) => Err(format!("a label of {} bytes; 63 is the most", label.len())),
        None => Ok(()),
    }
}

/// The reverse zones of a network in CIDR notation.
fn networks(text: &str) -> Result<Option<Vec<String>>, String> {
    let Some((address, length)) = text.split_once('/') else { return Ok(None) };
    let (Ok(address), Ok(length)) = (address.parse::<IpAddr>(), length.parse::<u8>()) else {
        return Ok(None);
    };
    if text.starts_with(':') || (text.starts_with('0') && text.contains(':')) {
        return Err(format!("`{text}` is no network that the server takes"));
    }
    let (digits, bits, suffix): (Vec<u8>, u8, &str) = match address {
        IpAddr::V4(address) => (address.octets().to_vec(), 8, "in-addr.arpa."),
        IpAddr::V6(address) => {
            (address.octets().iter().flat_map(|octet| [octet >> 4, octet & 15]).collect(), 4, "ip6.arpa.")
        }
    };
    let most = bits.saturating_mul(u8::try_from(digits.len()).unwrap_or(u8::MAX));
    if length > most {
        return Ok(None);
    }
    let whole = usize::from(length / bits);
    let rest = length % bits;
    let name = |digits: &[u8]| {
        let labels: Vec<String> = digits
            .iter()
            .rev()
            .map(|digit| if bits == 8 { digit.to_string() } else { format!("{digit:x}") })
            .collect();
        if labels.is_empty() { suffix.to_owned() } else { format!("{}.{suffix}", labels.join(".")) }
    };
    let start = digits.get(..whole).unwrap_or_default();
    if rest == 0 {
        return Ok(Some(vec![name(start)]));
    }
    let last = digits.get(whole).copied().unwrap_or_default() & (u8::MAX << (bits - rest));
    let zones = (0..1_u8 << (bits - rest)).map(|more| name(&[start, &[last | more]].concat()));
    Ok(Some(zones.collect()))
}

/// A zone in the form in which zones are compared.
#[must_use]
pub fn normal(zone: &str) -> String {
    let zone = zone.to_lowercase();
    if zone.ends_with('.') { zone } else { format!("{zone}.") }
}

/// True when names of the one zone are names of the other too. Both in normal form.
#[must_use]
pub fn covers(zone: &str, other: &str) -> bool {
    zone == "." || zone == other || other.strip_suffix(zone).is_some_and(|before| before.ends_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_the_server_s() {
        for (text, wanted) in [
            (".", "dns://.:53"),
            (".:53", "dns://.:53"),
            (":53", "dns://.:53"),
            ("Cluster.Local", "dns://cluster.local.:53"),
            ("cluster.local.:1053", "dns://cluster.local.:1053"),
            ("tls://example.org", "tls://example.org.:853"),
            ("grpc://.", "grpc://.:443"),
            ("10.0.0.0/24", "dns://0.0.10.in-addr.arpa.:53"),
            ("10.0.0.0/8:5300", "dns://10.in-addr.arpa.:5300"),
            ("10.244.2.0/23", "dns://2.244.10.in-addr.arpa.:53 dns://3.244.10.in-addr.arpa.:53"),
            ("fd00::/8", "dns://d.f.ip6.arpa.:53"),
            ("in-addr.arpa", "dns://in-addr.arpa.:53"),
            ("example.org:port", "dns://example.org:port.:53"),
        ] {
            let keys: Vec<String> =
                ZoneKey::read(text).expect("a key").iter().map(ToString::to_string).collect();
            assert_eq!(keys.join(" "), wanted, "{text}");
        }
        for text in [".:", "a..b", "a.org:", &"a".repeat(64), &"a.".repeat(130)] {
            assert!(ZoneKey::read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_zone_covers_what_is_below_it() {
        for (zone, other, wanted) in [
            (".", "cluster.local.", true),
            ("local.", "cluster.local.", true),
            ("cluster.local.", "cluster.local.", true),
            ("cluster.local.", "local.", false),
            ("luster.local.", "cluster.local.", false),
        ] {
            assert_eq!(covers(zone, other), wanted, "{zone} {other}");
        }
    }
}
