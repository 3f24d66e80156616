//! What a zone holds, and what follows from that for a question (RFC 1034 section 4.3.2, without delegations and wildcards).
//!
//! Invariant: names are in lower case with a final dot. A name above one that is there exists, without records (RFC 8020);
//! any other is not there, and then a SOA says how long that may be believed.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde::{Deserialize, Serialize};

/// A zone: plain data, computed by whoever knows what should be in it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Zone {
    /// Its name, `cluster.local.`.
    pub origin: String,
    /// Seconds for which its records may be kept.
    pub ttl: u32,
    /// Seconds for which it may be believed that a name is not there.
    pub negative_ttl: u32,
    /// Texts of records by name and type.
    pub names: BTreeMap<String, BTreeMap<String, Vec<String>>>,
    /// Namespaces of pods: `10-244-0-2.NAMESPACE.pod.ORIGIN` has the address that it says.
    pub pods: BTreeSet<String>,
    /// Names that are not there are asked of the servers above.
    pub falls_through: bool,
}

/// A record as text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Text {
    /// Whose it is.
    pub name: String,
    /// `A`, `AAAA`, `CNAME`, `PTR`, `SRV`, `TXT` or `SOA`.
    pub kind: String,
    /// Seconds that it may be kept.
    pub ttl: u32,
    /// Its value.
    pub data: String,
}

/// What a zone says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// These records; with an alias whose target is elsewhere, that alone.
    Records(Vec<Text>),
    /// The name is there, with other types.
    NoData,
    /// The name is not there.
    NoName,
}

/// Longest chain of aliases that is followed.
const MOST_ALIASES: usize = 8;

impl Zone {
    /// True when the name is the zone's or below it.
    pub fn holds(&self, name: &str) -> bool {
        self.origin == "." || name == self.origin || name.ends_with(&format!(".{}", self.origin))
    }

    pub(super) fn find(&self, name: &str, kind: &str) -> Found {
        let mut chain: Vec<Text> = Vec::new();
        let mut name = name.to_owned();
        for _ in 0..MOST_ALIASES {
            let Some(records) = self.records(&name) else {
                return if chain.is_empty() { Found::NoName } else { Found::Records(chain) };
            };
            if let Some(values) = records.get(kind) {
                chain.extend(values.iter().map(|data| self.text(&name, kind, data)));
                return Found::Records(chain);
            }
            match records.get("CNAME").and_then(|values| values.first()) {
                Some(target) => {
                    chain.push(self.text(&name, "CNAME", target));
                    if !self.holds(target) {
                        return Found::Records(chain);
                    }
                    name.clone_from(target);
                }
                None if chain.is_empty() => return Found::NoData,
                None => return Found::Records(chain),
            }
        }
        Found::Records(chain)
    }

    fn text(&self, name: &str, kind: &str, data: &str) -> Text {
        Text { name: name.to_owned(), kind: kind.to_owned(), ttl: self.ttl, data: data.to_owned() }
    }

    /// The records of a name; `None` when it is not there.
    fn records(&self, name: &str) -> Option<BTreeMap<String, Vec<String>>> {
        if let Some(records) = self.names.get(name) {
            return Some(records.clone());
        }
        if let Some(address) = self.pod(name) {
            let kind = if address.is_ipv4() { "A" } else { "AAAA" };
            return Some(BTreeMap::from([(kind.to_owned(), vec![address.to_string()])]));
        }
        let below = format!(".{name}");
        let has_names_below = name == self.origin
            || self.names.keys().any(|known| known.ends_with(&below))
            || self.is_above_pods(name);
        has_names_below.then(BTreeMap::new)
    }

    fn is_above_pods(&self, name: &str) -> bool {
        let pods = format!("pod.{}", self.origin);
        !self.pods.is_empty()
            && (name == pods
                || name
                    .strip_suffix(&format!(".{pods}"))
                    .is_some_and(|namespace| self.pods.contains(namespace)))
    }

    fn pod(&self, name: &str) -> Option<IpAddr> {
        let (dashed, namespace) = name.strip_suffix(&format!(".pod.{}", self.origin))?.split_once('.')?;
        if !self.pods.contains(namespace) {
            return None;
        }
        let v4 = dashed.replace('-', ".").parse::<Ipv4Addr>().map(IpAddr::from);
        v4.or_else(|_| dashed.replace('-', ":").parse::<Ipv6Addr>().map(IpAddr::from)).ok()
    }

    /// Who is in charge, with the time for which "no" may be believed (RFC 2308 section 5).
    pub(super) fn authority(&self) -> Text {
        let origin = self.origin.trim_start_matches('.');
        let data = format!("ns.dns.{origin} hostmaster.{origin} 1 7200 1800 86400 {}", self.negative_ttl);
        Text { name: self.origin.clone(), kind: "SOA".to_owned(), ttl: self.negative_ttl, data }
    }
}

/// A name as questions have it: in lower case, with its final dot.
pub fn canonical(name: &str) -> String {
    format!("{}.", name.trim_end_matches('.').to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zone() -> Zone {
        let mut zone = Zone {
            origin: "c.l.".to_owned(),
            ttl: 5,
            negative_ttl: 5,
            pods: ["a".to_owned()].into(),
            ..Zone::default()
        };
        for (name, kind, data) in [
            ("api.shop.svc.c.l.", "A", "10.96.0.1"),
            ("out.shop.svc.c.l.", "CNAME", "example.com."),
            ("in.shop.svc.c.l.", "CNAME", "api.shop.svc.c.l."),
            ("dangling.shop.svc.c.l.", "CNAME", "none.shop.svc.c.l."),
        ] {
            zone.names.entry(name.to_owned()).or_default().insert(kind.to_owned(), vec![data.to_owned()]);
        }
        zone
    }

    fn said(name: &str, kind: &str) -> String {
        match zone().find(name, kind) {
            Found::Records(records) => {
                let records = records.iter().map(|text| format!("{} {}", text.kind, text.data));
                records.collect::<Vec<_>>().join(", ")
            }
            Found::NoData => "nodata".to_owned(),
            Found::NoName => "nxdomain".to_owned(),
        }
    }

    #[test]
    fn a_name_is_there_with_its_type_with_others_above_others_or_not_at_all() {
        for (name, kind, expected) in [
            ("api.shop.svc.c.l.", "A", "A 10.96.0.1"),
            ("api.shop.svc.c.l.", "AAAA", "nodata"),
            ("shop.svc.c.l.", "A", "nodata"),
            ("c.l.", "A", "nodata"),
            ("hop.svc.c.l.", "A", "nxdomain"),
            ("other.svc.c.l.", "A", "nxdomain"),
            ("out.shop.svc.c.l.", "A", "CNAME example.com."),
            ("in.shop.svc.c.l.", "A", "CNAME api.shop.svc.c.l., A 10.96.0.1"),
            ("dangling.shop.svc.c.l.", "A", "CNAME none.shop.svc.c.l."),
            ("10-0-0-1.a.pod.c.l.", "A", "A 10.0.0.1"),
            ("10-0-0-1.a.pod.c.l.", "AAAA", "nodata"),
            ("fd00--1.a.pod.c.l.", "AAAA", "AAAA fd00::1"),
            ("10-0-0-1.b.pod.c.l.", "A", "nxdomain"),
            ("a.pod.c.l.", "A", "nodata"),
            ("x.a.pod.c.l.", "A", "nxdomain"),
        ] {
            assert_eq!(said(name, kind), expected, "{name} {kind}");
        }
    }
}
