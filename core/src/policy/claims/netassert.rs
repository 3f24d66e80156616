//! Test files of `netassert`: the first form (hosts, and Deployments by name) and the second (a list of tests).
//!
//! Sources: the README of controlplaneio/netassert, versions 1 and 2. What a test of theirs opens is what a claim
//! asks; times and numbers of attempts mean nothing here. Invariant: a test that a static answer cannot be given to
//! (from a machine by SSH, to a name of the world) is a diagnostic, never a guess.

use std::net::IpAddr;

use super::{Claim, Reader, scalar};
use crate::endpoint_ref::{EndpointRef, EndpointType, PortName, PortRef};
use crate::input::node::{Entry, Node, Value};
use crate::model::cluster::{Cluster, ObjectKey};
use crate::model::port::Protocol;
use crate::policy::change::Verdict;

const FIELDS_2: [&str; 9] =
    ["name", "type", "protocol", "targetPort", "timeoutSeconds", "attempts", "exitCode", "src", "dst"];

/// A protocol and port that is to be open, or not.
struct Probe {
    expect: Verdict,
    port: PortRef,
}

impl Reader<'_> {
    /// One test of the second form.
    pub(super) fn netassert_2(&mut self, node: &Node<'_>) {
        let Value::Mapping(entries) = &node.value else { return self.own(node) };
        if let Some(entry) = entries.iter().find(|entry| !FIELDS_2.contains(&entry.key.as_ref())) {
            let at = Node { position: entry.position, value: Value::Null };
            return self.refuse(
                &at,
                format!("a netassert test has no field `{}`", entry.key),
                "take it away",
            );
        }
        let missing =
            ["src", "dst", "targetPort", "exitCode"].into_iter().find(|key| node.get(key).is_none());
        if let Some(field) = missing {
            return self.refuse(node, format!("a netassert test without `{field}`"), "add it");
        }
        if let Some(other) = node.get("type").filter(|kind| kind.as_str() != Some("k8s")) {
            return self.unsupported(
                other,
                format!("a test whose `type` is {}", other.describe()),
                "only `k8s` is known",
            );
        }
        let protocol = match node.get("protocol").map(|node| (node, node.as_str().unwrap_or_default())) {
            None | Some((_, "tcp")) => Protocol::Tcp,
            Some((_, "udp")) => Protocol::Udp,
            Some((at, _)) => {
                return self.refuse(
                    at,
                    format!("`protocol` is {}", at.describe()),
                    "netassert has `tcp` and `udp`",
                );
            }
        };
        let number = |field: &str| match node.get(field).map(|node| (node, &node.value)) {
            Some((_, Value::Int { value, .. })) => Ok(*value),
            Some((at, _)) => Err(at),
            None => Err(node),
        };
        let port = match number("targetPort").map(u16::try_from) {
            Ok(Ok(port)) if port != 0 => port,
            _ => {
                let at = node.get("targetPort").unwrap_or(node);
                return self.refuse(at, "`targetPort` is no port", "it is a number from 1 to 65535");
            }
        };
        let expect = match number("exitCode") {
            Ok(0) => Verdict::Allow,
            Ok(_) => Verdict::Deny,
            Err(at) => {
                return self.refuse(at, "`exitCode` is no number", "0 means that the connection is to open");
            }
        };
        let (Some(from), Some(to)) = (self.end_2(node, "src"), self.end_2(node, "dst")) else { return };
        let port = PortRef { port: PortName::Number(port), protocol: Some(protocol) };
        let name = node.get("name").and_then(scalar);
        self.push(node, name, from, to, Probe { expect, port });
    }

    /// `src` or `dst`; what is wrong with it is said here.
    fn end_2(&mut self, test: &Node<'_>, side: &str) -> Option<EndpointRef> {
        let node = test.get(side)?;
        let (object, host) = (node.get("k8sResource"), node.get("host"));
        match (object, host) {
            (Some(object), None) => self.object_2(object),
            (None, Some(host)) if side == "dst" => {
                let name = host.get("name").and_then(scalar).unwrap_or_default();
                self.host(host.get("name").unwrap_or(host), &name)
            }
            (None, Some(host)) => {
                self.unsupported(host, "a test from a host", "policies are about what pods open: name a pod");
                None
            }
            _ => {
                self.refuse(
                    node,
                    format!("`{side}` is not one of `k8sResource` and `host`"),
                    "name one of the two",
                );
                None
            }
        }
    }

    fn object_2(&mut self, object: &Node<'_>) -> Option<EndpointRef> {
        let text = |field: &str| object.get(field).and_then(scalar).filter(|text| !text.is_empty());
        let kind = match text("kind").unwrap_or_default().as_str() {
            "deployment" => EndpointType::Deployment,
            "statefulset" => EndpointType::StatefulSet,
            "daemonset" => EndpointType::DaemonSet,
            "pod" => EndpointType::Pod,
            other => {
                let message = format!("`{other}` is no kind of a netassert test");
                self.refuse(
                    object.get("kind").unwrap_or(object),
                    message,
                    "it has deployment, statefulset, daemonset and pod",
                );
                return None;
            }
        };
        if let (Some(name), Some(namespace)) = (text("name"), text("namespace")) {
            return Some(EndpointRef::Named { kind: Some(kind), namespace: Some(namespace), name });
        }
        self.refuse(object, "a `k8sResource` without `name` or `namespace`", "add it");
        None
    }

    /// A file of the first form.
    pub(super) fn netassert_1(&mut self, root: &Node<'_>) {
        let Value::Mapping(sections) = &root.value else { return };
        for section in sections {
            match (section.key.as_ref(), &section.value.value) {
                ("k8s", Value::Mapping(kinds)) => kinds.iter().for_each(|kind| self.kind_1(kind)),
                ("k8s" | "host", Value::Null) => {}
                ("host", Value::Mapping(hosts)) => {
                    for host in hosts {
                        let at = Node { position: host.position, value: Value::Null };
                        let message = format!("tests from the host `{}`", host.key);
                        self.unsupported(
                            &at,
                            message,
                            "policies are about what pods open: name a Deployment under `k8s`",
                        );
                    }
                }
                (key, _) => {
                    let at = Node { position: section.position, value: Value::Null };
                    self.refuse(
                        &at,
                        format!("`{key}` is no section of a netassert file"),
                        "it has `host` and `k8s`",
                    );
                }
            }
        }
    }

    fn kind_1(&mut self, kind: &Entry<'_>) {
        let at = |entry: &Entry<'_>| Node { position: entry.position, value: Value::Null };
        let (known, Value::Mapping(sources)) = (kind.key == "deployment", &kind.value.value) else {
            return self.refuse(
                &kind.value,
                format!("`{}` holds no tests", kind.key),
                "write sources below it",
            );
        };
        if !known {
            return self.unsupported(
                &at(kind),
                format!("tests from a `{}`", kind.key),
                "this form knows `deployment` alone",
            );
        }
        for source in sources {
            let (namespace, name) = source.key.split_once(':').unwrap_or(("default", &source.key));
            let from = EndpointRef::Named {
                kind: Some(EndpointType::Deployment),
                namespace: Some(namespace.to_owned()),
                name: name.to_owned(),
            };
            let Value::Mapping(destinations) = &source.value.value else {
                self.refuse(
                    &source.value,
                    format!("`{}` has no destinations", source.key),
                    "write them below it",
                );
                continue;
            };
            for destination in destinations {
                let Some(to) = self.destination_1(&at(destination), &destination.key, namespace) else {
                    continue;
                };
                for (node, probe) in self.probes(&destination.value) {
                    self.push(&node, None, from.clone(), to.clone(), probe);
                }
            }
        }
    }

    /// `8.8.8.8`, `other-namespace:name`, or a DNS name as a pod of the namespace would ask for it.
    fn destination_1(&mut self, at: &Node<'_>, text: &str, namespace: &str) -> Option<EndpointRef> {
        if let Some((namespace, name)) = text.split_once(':')
            && text.parse::<IpAddr>().is_err()
        {
            return Some(named_thing(self.cluster, namespace, name));
        }
        let parts: Vec<&str> = text.trim_end_matches('.').split('.').collect();
        match parts.as_slice() {
            [name] => Some(named_thing(self.cluster, namespace, name)),
            [name, namespace, "svc", ..] => Some(named_thing(self.cluster, namespace, name)),
            [name, namespace] if self.cluster.namespaces.contains_key(*namespace) => {
                Some(named_thing(self.cluster, namespace, name))
            }
            _ => self.host(at, text),
        }
    }

    /// An address; a name of the world is not resolved.
    fn host(&mut self, at: &Node<'_>, text: &str) -> Option<EndpointRef> {
        match text.parse::<IpAddr>() {
            Ok(address) if address.is_unspecified() || address.is_loopback() => {
                self.unsupported(at, format!("`{text}` is nobody's address on a network"), "give a real one");
                None
            }
            Ok(address) => Some(EndpointRef::Address(address)),
            Err(_) => {
                let message = format!("the name `{text}`, which only DNS could resolve");
                self.unsupported(at, message, "give its address: policies see no names");
                None
            }
        }
    }

    /// `80`, `-80`, `UDP:53`, several of them with commas or blanks between, or a list.
    fn probes<'t>(&mut self, node: &Node<'t>) -> Vec<(Node<'t>, Probe)> {
        let mut probes = Vec::new();
        let items = match &node.value {
            Value::Sequence(items) => items.as_slice(),
            _ => std::slice::from_ref(node),
        };
        for item in items {
            let text = scalar(item).unwrap_or_default();
            let mut words = text.split([',', ' ']).filter(|word| !word.is_empty()).peekable();
            if words.peek().is_none() {
                self.refuse(
                    item,
                    format!("{}, where a port should be", item.describe()),
                    "as in `80` or `-UDP:53`",
                );
            }
            for word in words {
                match probe(word) {
                    Some(probe) => probes.push((Node { position: item.position, value: Value::Null }, probe)),
                    None => self.unsupported(
                        item,
                        format!("the port `{word}`"),
                        "it is a number, perhaps after `TCP:` or `UDP:`",
                    ),
                }
            }
        }
        probes
    }

    fn push(
        &mut self,
        node: &Node<'_>,
        name: Option<String>,
        from: EndpointRef,
        to: EndpointRef,
        probe: Probe,
    ) {
        self.claims.list.push(Claim {
            name,
            from,
            to,
            port: Some(probe.port),
            protocol: None,
            expect: probe.expect,
            by: None,
            file: self.file.clone(),
            line: node.position.line,
            column: node.position.column,
        });
    }
}

/// A Service of that name, as DNS would have it, else the workload.
fn named_thing(cluster: &Cluster, namespace: &str, name: &str) -> EndpointRef {
    let service = cluster.services.contains_key(&ObjectKey::new(namespace, name));
    EndpointRef::Named {
        kind: service.then_some(EndpointType::Service),
        namespace: Some(namespace.to_owned()),
        name: name.to_owned(),
    }
}

fn probe(word: &str) -> Option<Probe> {
    let (expect, word) = match word.strip_prefix('-') {
        Some(rest) => (Verdict::Deny, rest),
        None => (Verdict::Allow, word),
    };
    let (protocol, number) = match word.split_once(':') {
        Some((protocol, number)) => (protocol, number),
        None => ("TCP", word),
    };
    let protocol = match protocol.to_ascii_uppercase().as_str() {
        // What is spoken over a connection is nothing to policies.
        "TCP" | "HTTP" => Protocol::Tcp,
        "UDP" => Protocol::Udp,
        _ => return None,
    };
    let port = number.parse().ok().filter(|port| *port != 0)?;
    Some(Probe { expect, port: PortRef { port: PortName::Number(port), protocol: Some(protocol) } })
}
