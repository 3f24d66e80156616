//! Names of the chains that kube-proxy makes: hashes of a service port, and of one of its endpoints.
//!
//! Invariant: a name depends on the key alone, so what a rule belongs to can be told both ways: from the API to the
//! name, and from a name, by hashing every known service port, to the API.
//! Source: `pkg/proxy/iptables/proxier.go` `portProtoHash` and `servicePortEndpointChainName`,
//! `pkg/proxy/nftables/proxier.go` `hashAndTruncate`.

use std::net::{IpAddr, SocketAddr};

use sha2::{Digest, Sha256};

use super::port_name::ServicePortName;

/// RFC 4648 base32, upper case.
const ALPHABET: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
/// Longest name that nftables mode makes, without its prefix.
const LONGEST: usize = 240;

/// The first `length` characters of a text's SHA-256 in base32; at most 16 of the digest's bytes are looked at.
fn hash(text: &str, length: usize) -> String {
    let digest = Sha256::digest(text.as_bytes());
    let bits = |index: usize| {
        let (byte, shift) = (index * 5 / 8, index * 5 % 8);
        let pair = digest.iter().skip(byte).take(2).fold(0_u16, |pair, byte| pair << 8 | u16::from(*byte));
        usize::from(pair >> (11 - shift) & 31)
    };
    (0..length).filter_map(|index| ALPHABET.get(bits(index))).map(|letter| char::from(*letter)).collect()
}

/// The 16 characters after `KUBE-SVC-`, `KUBE-SVL-`, `KUBE-EXT-` and `KUBE-FW-`.
#[must_use]
pub fn iptables(port: &ServicePortName) -> String {
    hash(&format!("{port}{}", port.protocol.as_str().to_lowercase()), 16)
}

/// The 16 characters after `KUBE-SEP-`.
#[must_use]
pub fn iptables_endpoint(port: &ServicePortName, endpoint: SocketAddr) -> String {
    hash(&format!("{port}{}{endpoint}", port.protocol.as_str().to_lowercase()), 16)
}

/// What follows `service-`, `local-`, `external-` and `firewall-`.
#[must_use]
pub fn nftables(port: &ServicePortName) -> String {
    with_hash(&nftables_text(port))
}

/// What follows `endpoint-` and `affinity-`.
#[must_use]
pub fn nftables_endpoint(port: &ServicePortName, endpoint: SocketAddr) -> String {
    let address = match endpoint.ip() {
        IpAddr::V4(ip) => ip.to_string(),
        // Colons are no characters of a chain's name, and are replaced before hashing.
        IpAddr::V6(ip) => ip.to_string().replace(':', "."),
    };
    with_hash(&format!("{}__{address}/{}", nftables_text(port), endpoint.port()))
}

fn nftables_text(port: &ServicePortName) -> String {
    let protocol = port.protocol.as_str().to_lowercase();
    format!("{}/{protocol}/{}", port.service, port.port)
}

fn with_hash(text: &str) -> String {
    let name = format!("{}-{text}", hash(text, 8));
    match name.get(..LONGEST - 3) {
        Some(start) if name.len() > LONGEST => format!("{start}..."),
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::cluster::ObjectKey;
    use crate::model::port::Protocol;

    fn port(namespace: &str, name: &str, port: &str, protocol: Protocol) -> ServicePortName {
        ServicePortName { service: ObjectKey::new(namespace, name), port: port.to_owned(), protocol }
    }

    /// Vectors that were computed apart from this code.
    #[test]
    fn names_of_iptables_mode_reproduce() {
        for (key, expected) in [
            (port("default", "kubernetes", "https", Protocol::Tcp), "NPX46M4PTMTKRN6Y"),
            (port("kube-system", "kube-dns", "dns", Protocol::Udp), "TCOU7JCQXEZGVUNU"),
            (port("kube-system", "kube-dns", "dns-tcp", Protocol::Tcp), "ERIFXISQEP7F7OF4"),
            (port("ns1", "svc1", "p80", Protocol::Tcp), "XPGD46QRK7WJZT7O"),
            (port("default", "web", "", Protocol::Tcp), "LOLE4ISW44XBNF3G"),
            (port("mynet", "web", "http", Protocol::Tcp), "GT4NHM5PDAGWYSIU"),
            (port("mynet", "web", "metrics", Protocol::Tcp), "WSTCUAL7BPWJAA7Q"),
        ] {
            assert_eq!(iptables(&key), expected, "{key}");
        }
        for (key, endpoint, expected) in [
            (port("ns1", "svc1", "p80", Protocol::Tcp), "10.180.0.1:80", "SXIVWICOYRO3J4NJ"),
            (port("default", "web", "", Protocol::Tcp), "10.1.2.3:80", "ZDNCBP7PUI7UJJQY"),
            (port("mynet", "web", "http", Protocol::Tcp), "10.244.0.11:8080", "XMVLLEELEAGPVCH3"),
            (port("mynet", "web", "http", Protocol::Tcp), "10.244.1.21:8080", "442MEYXHNLSPQS4C"),
            (port("mynet", "web", "http", Protocol::Tcp), "[fd00:10:244::5]:8080", "NIG25BOCWER7NOFR"),
        ] {
            let endpoint = endpoint.parse().expect("an endpoint");
            assert_eq!(iptables_endpoint(&key, endpoint), expected, "{key} {endpoint}");
        }
    }

    #[test]
    fn names_of_nftables_mode_reproduce() {
        for (key, expected) in [
            (port("ns1", "svc1", "p80", Protocol::Tcp), "ULMVA6XW-ns1/svc1/tcp/p80"),
            (port("default", "web", "", Protocol::Tcp), "PFISGYVC-default/web/tcp/"),
            (port("mynet", "web", "http", Protocol::Tcp), "QH55M7ML-mynet/web/tcp/http"),
        ] {
            assert_eq!(nftables(&key), expected, "{key}");
        }
        let web = port("mynet", "web", "http", Protocol::Tcp);
        for (key, endpoint, expected) in [
            (
                &port("ns1", "svc1", "p80", Protocol::Tcp),
                "10.180.0.1:80",
                "5OJB2KTY-ns1/svc1/tcp/p80__10.180.0.1/80",
            ),
            (&web, "10.244.0.11:8080", "RSVOQPG3-mynet/web/tcp/http__10.244.0.11/8080"),
            (&web, "[fd00:10:244::5]:8080", "KSPIRIP2-mynet/web/tcp/http__fd00.10.244..5/8080"),
        ] {
            let endpoint = endpoint.parse().expect("an endpoint");
            assert_eq!(nftables_endpoint(key, endpoint), expected);
        }
    }

    #[test]
    fn a_long_name_is_cut_and_stays_its_own() {
        let long = |end: &str| {
            port(&"n".repeat(63), &"s".repeat(63), &format!("{}{end}", "p".repeat(200)), Protocol::Tcp)
        };
        let (a, b) = (nftables(&long("a")), nftables(&long("b")));
        assert_eq!((a.len(), a.ends_with("...")), (240, true));
        assert_ne!(a, b);
    }
}
