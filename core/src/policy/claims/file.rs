//! netlab's own form: `claims:` with `from`, `to`, `port`, `protocol`, `expect`, `by` and `name`.

use super::{Claim, Reader, scalar};
use crate::endpoint_ref::{DestinationRef, EndpointRef, PortRef, ProtocolRef};
use crate::input::node::{Entry, Node, Value};
use crate::policy::change::Verdict;

/// The fields of a claim.
const FIELDS: [&str; 7] = ["name", "from", "to", "port", "protocol", "expect", "by"];

impl Reader<'_> {
    /// A whole file: the list, and perhaps the envelope that other answers have.
    pub(super) fn own_file(&mut self, entries: &[Entry<'_>]) {
        for entry in entries {
            match (entry.key.as_ref(), &entry.value.value) {
                ("claims", Value::Sequence(items)) => self.list(items),
                ("claims", Value::Null) => {}
                ("apiVersion", Value::String(version)) if version == "netlab.dev/v1" => {}
                ("kind", Value::String(kind)) if kind == "Claims" => {}
                ("apiVersion" | "kind" | "claims", _) => self.refuse(
                    &entry.value,
                    format!("`{}` is {}", entry.key, entry.value.describe()),
                    "it is `apiVersion: netlab.dev/v1`, `kind: Claims` and `claims:` with a list",
                ),
                (key, _) => {
                    self.refuse(
                        &entry.value,
                        format!("a file of claims has no field `{key}`"),
                        "take it away",
                    );
                }
            }
        }
    }

    pub(super) fn own(&mut self, node: &Node<'_>) {
        let Value::Mapping(entries) = &node.value else {
            let hint = "write `from`, `to`, `port` and `expect`";
            return self.refuse(node, format!("{}, where a claim should be", node.describe()), hint);
        };
        if let Some(entry) = entries.iter().find(|entry| !FIELDS.contains(&entry.key.as_ref())) {
            let at = Node { position: entry.position, value: Value::Null };
            let hint = format!("it has {}", FIELDS.join(", "));
            return self.refuse(&at, format!("a claim has no field `{}`", entry.key), hint);
        }
        if let Err(Wrong { node: at, message, hint }) =
            self.claim(node).map(|claim| self.claims.list.push(claim))
        {
            self.refuse(&at, message, hint);
        }
    }

    fn claim<'t>(&self, node: &Node<'t>) -> Result<Claim, Wrong<'t>> {
        let end = |field: &str| required(node, field, "it is `[TYPE/][NAMESPACE/]NAME` or an address");
        let from: EndpointRef = parse(end("from")?)?;
        let destination: DestinationRef = parse(end("to")?)?;
        let port: Option<PortRef> = node.get("port").map(parse).transpose()?;
        let port = destination.port(port.as_ref()).map_err(|error| {
            let at = node.get("port").unwrap_or(node);
            Wrong::new(at, error.to_string(), "leave one of the ports out")
        })?;
        let (to, port) = (destination.endpoint.clone(), port.cloned());
        let protocol: Option<ProtocolRef> = node.get("protocol").map(parse).transpose()?;
        let expect = required(node, "expect", "it is `allow` or `deny`")?;
        let expect = match expect.as_str() {
            Some("allow") => Verdict::Allow,
            Some("deny") => Verdict::Deny,
            _ => {
                return Err(Wrong::new(
                    expect,
                    format!("`expect` is {}", expect.describe()),
                    "write `allow` or `deny`",
                ));
            }
        };
        let has_ports = !matches!(protocol, Some(ProtocolRef::Icmp | ProtocolRef::Other(_)));
        if has_ports && port.is_none() && !names_a_service(&to) {
            return Err(Wrong::new(
                node,
                "a claim without `port`",
                "as in `port: 5432`, `port: 53/udp`, or `protocol: icmp`",
            ));
        }
        Ok(Claim {
            name: node.get("name").and_then(scalar),
            from,
            to,
            port,
            protocol,
            expect,
            by: node.get("by").map(parse).transpose()?,
            file: self.file.clone(),
            line: node.position.line,
            column: node.position.column,
        })
    }
}

/// A Service with one port needs no word about it.
fn names_a_service(to: &EndpointRef) -> bool {
    matches!(to, EndpointRef::Named { kind: Some(crate::endpoint_ref::EndpointType::Service), .. })
}

/// What is wrong, and where.
struct Wrong<'t> {
    node: Node<'t>,
    message: String,
    hint: String,
}

impl<'t> Wrong<'t> {
    fn new(node: &Node<'t>, message: impl Into<String>, hint: impl Into<String>) -> Self {
        // The place is all that is wanted of it.
        let node = Node { position: node.position, value: Value::Null };
        Self { node, message: message.into(), hint: hint.into() }
    }
}

fn required<'n, 't>(node: &'n Node<'t>, field: &str, hint: &str) -> Result<&'n Node<'t>, Wrong<'t>> {
    node.get(field).ok_or_else(|| Wrong::new(node, format!("a claim without `{field}`"), hint))
}

fn parse<'t, T>(node: &Node<'t>) -> Result<T, Wrong<'t>>
where
    T: std::str::FromStr,
    T::Err: std::fmt::Display,
{
    let text = scalar(node).ok_or_else(|| {
        Wrong::new(node, format!("{}, where a name should be", node.describe()), "write it as text")
    })?;
    text.parse().map_err(|error: T::Err| {
        Wrong::new(node, error.to_string(), "`netlab explain NL0501` shows the form")
    })
}
