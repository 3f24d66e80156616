//! What a zone holds, and what follows from that for a question.
//!
//! A zone is either one of the world (RFC 1034 section 4.3.2, without delegations and wildcards; a name above one that is
//! there exists, RFC 8020), or answers as CoreDNS's plugin `kubernetes` does (`plugin/kubernetes/kubernetes.go`,
//! `plugin/backend_lookup.go`; a real 1.15.0 was asked). Invariant: names are in lower case with a final dot.

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
    /// It answers as the plugin `kubernetes`, from its own knowledge; otherwise as a server that asks others.
    pub kubernetes: bool,
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
        if self.kubernetes { self.find_of_kubernetes(name, kind, 0) } else { self.find_of_world(name, kind) }
    }

    fn find_of_kubernetes(&self, name: &str, kind: &str, aliases: usize) -> Found {
        if name == self.origin && kind == "SOA" {
            return Found::Records(vec![self.authority()]);
        }
        let Some(records) = self.records(name) else { return Found::NoName };
        if let Some(values) = records.get(kind) {
            let texts = values.iter().map(|data| self.text(name, kind, data)).collect();
            return Found::Records(if kind == "SRV" { self.weighed(texts) } else { texts });
        }
        // Only addresses are looked for behind an alias, and one that leads nowhere in the zone is left out.
        if let ("A" | "AAAA", Some(target)) = (kind, records.get("CNAME").and_then(|values| values.first())) {
            let alias = self.text(name, "CNAME", target);
            if !self.holds(target) {
                return Found::Records(vec![alias]);
            }
            if aliases >= MOST_ALIASES {
                return Found::NoData;
            }
            return match self.find_of_kubernetes(&canonical(target), kind, aliases + 1) {
                Found::Records(rest) => Found::Records([vec![alias], rest].concat()),
                Found::NoData | Found::NoName => Found::NoData,
            };
        }
        // `dns-version` and addresses' names are there for their own type alone; where nothing is, no text is.
        let own_type_alone = records.keys().all(|kind| matches!(kind.as_str(), "TXT" | "PTR"));
        let is_below = |tree: &str| name.ends_with(&format!(".{tree}.{}", self.origin));
        let is_there = if kind == "TXT" {
            !records.is_empty() && (is_below("svc") || is_below("pod"))
        } else {
            records.is_empty() || !own_type_alone
        };
        if is_there { Found::NoData } else { Found::NoName }
    }

    /// SRV records with their weights: 100, divided by the addresses that the targets have together.
    fn weighed(&self, mut texts: Vec<Text>) -> Vec<Text> {
        let target = |text: &Text| text.data.rsplit(' ').next().map(canonical).unwrap_or_default();
        let count: usize = texts.iter().map(|text| self.addresses(&target(text)).len().max(1)).sum();
        let weight = (100 / count.max(1)).max(1);
        for text in &mut texts {
            if text.data.split(' ').count() == 2 {
                text.data = format!("0 {weight} {}", text.data);
            }
        }
        texts
    }

    /// The addresses of what records lead to, which the plugin adds.
    pub(super) fn additional(&self, records: &[Text]) -> Vec<Text> {
        if !self.kubernetes {
            return Vec::new();
        }
        let leading = records.iter().filter(|text| matches!(text.kind.as_str(), "SRV" | "NS"));
        let targets: BTreeSet<String> =
            leading.filter_map(|text| text.data.rsplit(' ').next().map(canonical)).collect();
        targets.iter().flat_map(|target| self.addresses(target)).collect()
    }

    fn addresses(&self, name: &str) -> Vec<Text> {
        let records = self.names.get(name);
        let of = |kind: &str| {
            let values = records.and_then(|records| records.get(kind)).map(Vec::as_slice).unwrap_or_default();
            values.iter().map(|data| self.text(name, kind, data)).collect::<Vec<_>>()
        };
        [of("A"), of("AAAA")].concat()
    }

    fn find_of_world(&self, name: &str, kind: &str) -> Found {
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
        if let Some(records) = self.port(name) {
            return Some(records.clone());
        }
        if let Some(address) = self.pod(name) {
            let kind = if address.is_ipv4() { "A" } else { "AAAA" };
            return Some(BTreeMap::from([(kind.to_owned(), vec![address.to_string()])]));
        }
        let below = format!(".{name}");
        let is_above_names = || self.names.keys().any(|known| known.ends_with(&below));
        let is_there = name == self.origin
            || self.is_above_pods(name)
            || if self.kubernetes { name == format!("svc.{}", self.origin) } else { is_above_names() };
        is_there.then(BTreeMap::new)
    }

    /// A Service's port: underscores before it and its protocol may be left out (`stripUnderscore` in `parse.go`).
    fn port(&self, name: &str) -> Option<&BTreeMap<String, Vec<String>>> {
        let (port, rest) = name.split_once('.').filter(|_| self.kubernetes)?;
        let (protocol, service) = rest.split_once('.')?;
        let bare = |label: &str| label.strip_prefix('_').unwrap_or(label).to_owned();
        self.names.get(&format!("_{}._{}.{service}", bare(port), bare(protocol)))
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
        let labels: Vec<&str> = name.strip_suffix(&format!(".pod.{}", self.origin))?.rsplit('.').collect();
        // The plugin reads up to two labels more, and does not look at them.
        let ([namespace, dashed] | [namespace, dashed, _] | [namespace, dashed, _, _]) = *labels.as_slice()
        else {
            return None;
        };
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
            kubernetes: true,
            ..Zone::default()
        };
        zone.names.entry("shop.svc.c.l.".to_owned()).or_default();
        for (name, kind, data) in [
            ("api.shop.svc.c.l.", "A", "10.96.0.1"),
            ("out.shop.svc.c.l.", "CNAME", "example.com."),
            ("in.shop.svc.c.l.", "CNAME", "api.shop.svc.c.l."),
            ("dangling.shop.svc.c.l.", "CNAME", "none.shop.svc.c.l."),
            ("_http._tcp.api.shop.svc.c.l.", "SRV", "80 api.shop.svc.c.l."),
            ("dns-version.c.l.", "TXT", "1.1.0"),
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
            ("dangling.shop.svc.c.l.", "A", "nodata"),
            ("dangling.shop.svc.c.l.", "CNAME", "CNAME none.shop.svc.c.l."),
            ("out.shop.svc.c.l.", "SRV", "nodata"),
            ("_http._tcp.api.shop.svc.c.l.", "SRV", "SRV 0 100 80 api.shop.svc.c.l."),
            ("http.tcp.api.shop.svc.c.l.", "SRV", "SRV 0 100 80 api.shop.svc.c.l."),
            ("_tcp.api.shop.svc.c.l.", "A", "nxdomain"),
            ("dns-version.c.l.", "TXT", "TXT 1.1.0"),
            ("dns-version.c.l.", "A", "nxdomain"),
            ("shop.svc.c.l.", "TXT", "nxdomain"),
            ("10-0-0-1.a.pod.c.l.", "A", "A 10.0.0.1"),
            ("10-0-0-1.a.pod.c.l.", "AAAA", "nodata"),
            ("fd00--1.a.pod.c.l.", "AAAA", "AAAA fd00::1"),
            ("10-0-0-1.b.pod.c.l.", "A", "nxdomain"),
            ("a.pod.c.l.", "A", "nodata"),
            ("x.a.pod.c.l.", "A", "nxdomain"),
            ("x.10-0-0-1.a.pod.c.l.", "A", "A 10.0.0.1"),
            ("x.y.z.10-0-0-1.a.pod.c.l.", "A", "nxdomain"),
        ] {
            assert_eq!(said(name, kind), expected, "{name} {kind}");
        }
    }
}
