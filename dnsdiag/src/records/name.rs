//! The forms that names of a cluster have, and which one a short name was meant as.
//!
//! Source: `parseRequest` in `plugin/kubernetes/parse.go`. Invariant: every text has a form; names are compared in lower
//! case and without their final dot.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use netlab_core::model::cluster::{Cluster, ObjectKey};

/// A name and its form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    /// In lower case, with its final dot.
    pub(super) name: String,
    pub(super) form: Form,
}

/// What a name asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// The zone itself.
    Apex,
    /// `svc` or `pod` right below it.
    Tree,
    /// `dns-version`.
    Version,
    /// `ns.dns`, of which the SOA speaks (`defaultNSName` in `plugin/kubernetes/ns.go`).
    NameServer,
    /// A namespace below `svc` or `pod`.
    Namespace(String),
    /// A pod's address below its namespace; `None` when it is none.
    Pod { namespace: String, address: Option<IpAddr> },
    /// A Service.
    Service { key: ObjectKey },
    /// An endpoint below its Service.
    Endpoint { key: ObjectKey, hostname: String },
    /// `_port._protocol` below a Service; without the underscores.
    Port { key: ObjectKey, port: String, protocol: String },
    /// A whole address below `in-addr.arpa` or `ip6.arpa`.
    Reverse(IpAddr),
    /// In the zone, and no name of the schema.
    Other,
    /// Not in the zone.
    Outside,
}

impl Asked {
    pub(super) fn parse(name: &str, domain: &str) -> Self {
        let bare = name.strip_suffix('.').unwrap_or(name).to_lowercase();
        let domain = domain.trim_matches('.').to_lowercase();
        let form = match below(&bare, &domain) {
            Some("") => Form::Apex,
            Some(rest) => in_zone(rest),
            None => reverse(&bare).map_or(Form::Outside, Form::Reverse),
        };
        Self { name: format!("{bare}."), form }
    }
}

/// What stands before a zone; empty for the zone itself.
fn below<'n>(name: &'n str, zone: &str) -> Option<&'n str> {
    if name == zone {
        return Some("");
    }
    name.strip_suffix(zone)?.strip_suffix('.').filter(|rest| !rest.is_empty())
}

fn in_zone(rest: &str) -> Form {
    let labels: Vec<&str> = rest.rsplit('.').collect();
    let key = |namespace: &str, name: &str| ObjectKey::new(namespace, name);
    match labels.as_slice() {
        ["dns-version"] => Form::Version,
        ["dns", "ns"] => Form::NameServer,
        ["svc" | "pod"] => Form::Tree,
        ["svc" | "pod", namespace] => Form::Namespace((*namespace).to_owned()),
        ["svc", namespace, service] => Form::Service { key: key(namespace, service) },
        ["svc", namespace, service, hostname] => {
            Form::Endpoint { key: key(namespace, service), hostname: (*hostname).to_owned() }
        }
        ["svc", namespace, service, protocol, port] => {
            // `stripUnderscore`: they may be left out.
            let bare = |label: &str| label.strip_prefix('_').unwrap_or(label).to_owned();
            Form::Port { key: key(namespace, service), port: bare(port), protocol: bare(protocol) }
        }
        // Up to two labels more are read as they would be below a Service, and then not looked at.
        ["pod", namespace, address] | ["pod", namespace, address, _] | ["pod", namespace, address, _, _] => {
            Form::Pod { namespace: (*namespace).to_owned(), address: dashed(address) }
        }
        _ => Form::Other,
    }
}

/// `10-244-0-5`, `fd00--5`.
fn dashed(label: &str) -> Option<IpAddr> {
    if label.matches('-').count() == 3 && !label.contains("--") {
        return label.replace('-', ".").parse::<Ipv4Addr>().ok().map(IpAddr::V4);
    }
    label.replace('-', ":").parse::<Ipv6Addr>().ok().map(IpAddr::V6)
}

fn reverse(name: &str) -> Option<IpAddr> {
    if let Some(rest) = name.strip_suffix(".in-addr.arpa") {
        let labels: Vec<&str> = rest.rsplit('.').collect();
        return labels.join(".").parse::<Ipv4Addr>().ok().map(IpAddr::V4);
    }
    let digits: Vec<&str> = name.strip_suffix(".ip6.arpa")?.rsplit('.').collect();
    if digits.len() != 32 || digits.iter().any(|digit| digit.len() != 1) {
        return None;
    }
    let number = u128::from_str_radix(&digits.concat(), 16).ok()?;
    Some(IpAddr::V6(Ipv6Addr::from(number)))
}

/// The full name that an application in a namespace most likely means by a short one: a Service of its namespace, one of
/// another namespace that exists, a name with `svc`; anything else is taken as it is.
#[must_use]
pub fn intended(cluster: &Cluster, domain: &str, namespace: &str, name: &str) -> String {
    let bare = name.to_lowercase();
    if let Some(full) = bare.strip_suffix('.') {
        return format!("{full}.");
    }
    let domain = domain.trim_matches('.').to_lowercase();
    if below(&bare, &domain).is_some() {
        return format!("{bare}.");
    }
    let labels: Vec<&str> = bare.split('.').collect();
    match labels.as_slice() {
        [_] => format!("{bare}.{namespace}.svc.{domain}."),
        [.., "svc"] => format!("{bare}.{domain}."),
        [_, other] if cluster.namespaces.contains_key(*other) => format!("{bare}.svc.{domain}."),
        // An endpoint of a Service of the own namespace, or of another.
        [_, service] if cluster.services.contains_key(&ObjectKey::new(namespace, *service)) => {
            format!("{bare}.{namespace}.svc.{domain}.")
        }
        [_, service, other] if cluster.services.contains_key(&ObjectKey::new(*other, *service)) => {
            format!("{bare}.svc.{domain}.")
        }
        _ => format!("{bare}."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(name: &str) -> Form {
        Asked::parse(name, "cluster.local").form
    }

    #[test]
    fn every_text_has_a_form() {
        let key = ObjectKey::new("shop", "api");
        let pod = |address: &str| Form::Pod { namespace: "shop".to_owned(), address: address.parse().ok() };
        for (name, wanted) in [
            ("cluster.local.", Form::Apex),
            ("Cluster.Local", Form::Apex),
            ("svc.cluster.local", Form::Tree),
            ("shop.svc.cluster.local", Form::Namespace("shop".to_owned())),
            ("API.shop.svc.cluster.local.", Form::Service { key: key.clone() }),
            ("x.api.shop.svc.cluster.local", Form::Endpoint { key: key.clone(), hostname: "x".to_owned() }),
            (
                "_http._tcp.api.shop.svc.cluster.local",
                Form::Port { key: key.clone(), port: "http".to_owned(), protocol: "tcp".to_owned() },
            ),
            (
                "http.tcp.api.shop.svc.cluster.local",
                Form::Port { key: key.clone(), port: "http".to_owned(), protocol: "tcp".to_owned() },
            ),
            ("a.b.c.api.shop.svc.cluster.local", Form::Other),
            ("x.10-244-0-5.shop.pod.cluster.local", pod("10.244.0.5")),
            ("x.y.z.10-244-0-5.shop.pod.cluster.local", Form::Other),
            ("ns.dns.cluster.local", Form::NameServer),
            ("10-244-0-5.shop.pod.cluster.local", pod("10.244.0.5")),
            ("fd00--5.shop.pod.cluster.local", pod("fd00::5")),
            ("fd00-0-0-0-0-0-0-5.shop.pod.cluster.local", pod("fd00::5")),
            ("web.shop.pod.cluster.local", pod("")),
            ("api.shop.cluster.local", Form::Other),
            ("foo.cluster.local", Form::Other),
            ("dns-version.cluster.local", Form::Version),
            ("notcluster.local", Form::Outside),
            (".cluster.local", Form::Outside),
            ("example.com", Form::Outside),
            ("", Form::Outside),
            (".", Form::Outside),
            ("10.0.96.10.in-addr.arpa", Form::Reverse("10.96.0.10".parse().expect("an address"))),
            ("96.10.in-addr.arpa", Form::Outside),
            (
                "a.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.d.f.ip6.arpa",
                Form::Reverse("fd00::a".parse().expect("an address")),
            ),
            ("a.ip6.arpa", Form::Outside),
        ] {
            assert_eq!(form(name), wanted, "{name}");
        }
    }
}
