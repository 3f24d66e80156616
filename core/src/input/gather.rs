//! From trees to wire structs: lists are opened, kinds told apart, types checked.
//!
//! Invariant: every object of a text ends up read, counted as skipped, or named by a diagnostic.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::de::DeserializeOwned;

use super::decode::{DecodeError, decode};
use super::kinds::{Class, Known, classify};
use super::misspelt;
use super::network;
use super::node::{Node, Value, excerpt};
use super::objects::{Objects, Sourced};
use super::yaml::Parsed;
use crate::diagnostic::{Diagnostic, ObjectRef, code};
use crate::model::source::{Position, Source};

/// What was found so far.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    pub(super) objects: Objects,
    pub(super) networks: Vec<network::Declared>,
    pub(super) diagnostics: Vec<Diagnostic>,
    pub(super) skipped: BTreeMap<String, usize>,
    misspelt: misspelt::Reader,
}

/// `apiVersion` and `kind` that a list's items have when they do not say.
#[derive(Clone, Copy)]
struct Implied<'a> {
    api_version: &'a str,
    kind: &'a str,
}

impl Gathered {
    /// Takes the objects of one document.
    pub(super) fn document(&mut self, file: &Arc<str>, parsed: &Parsed<'_>) {
        if parsed.root.value == Value::Null && parsed.faults.is_empty() {
            return;
        }
        self.object(file, &parsed.root, &parsed.faults, None);
    }

    fn object(
        &mut self,
        file: &Arc<str>,
        node: &Node<'_>,
        faults: &[Diagnostic],
        implied: Option<Implied<'_>>,
    ) {
        let text = |key: &str| node.get(key).and_then(Node::as_str).filter(|text| !text.is_empty());
        let kind = text("kind").or(implied.map(|implied| implied.kind));
        let api_version = text("apiVersion").or(implied.map(|implied| implied.api_version));
        if let Some(kind) = kind
            && let Some(item_kind) = kind.strip_suffix("List")
            && let Some(items) = node.get("items")
        {
            // Items of `kubectl get --raw` say neither; those of a plain `List` always do.
            let implied = api_version
                .filter(|_| !item_kind.is_empty())
                .map(|api_version| Implied { api_version, kind: item_kind });
            return self.list(file, items, faults, implied);
        }
        let object = ObjectRef {
            kind: kind.unwrap_or("object").to_owned(),
            namespace: metadata(node, "namespace"),
            name: metadata(node, "name").or_else(|| metadata(node, "generateName")).unwrap_or_default(),
        };
        let stays_out = |diagnostic: Diagnostic| {
            let named = !object.name.is_empty() || kind.is_some();
            let diagnostic = diagnostic.in_file(file);
            if named { diagnostic.about(&object) } else { diagnostic }
        };
        if !faults.is_empty() {
            self.diagnostics.extend(faults.iter().cloned().map(stays_out));
            return;
        }
        let (Some(kind), Some(api_version)) = (kind, api_version) else {
            let place = node.entry(if kind.is_none() { "kind" } else { "apiVersion" });
            let position = place.map_or(node.position, |entry| entry.position);
            let problem = Diagnostic::error(code::NOT_AN_OBJECT, not_an_object(node, kind));
            let hint = "every document needs `apiVersion`, `kind` and `metadata`; this one is left out";
            self.diagnostics.push(stays_out(problem.at(position).with_hint(hint)));
            return;
        };
        let at_field = |diagnostic: Diagnostic, field: &str| {
            let position = node.entry(field).map_or(node.position, |entry| entry.position);
            let mut diagnostic = stays_out(diagnostic.at(position));
            field.clone_into(&mut diagnostic.path);
            diagnostic
        };
        match classify(api_version, kind) {
            Class::Known(known) => {
                if known.is_policy()
                    && let Some(spec) = node.get("spec")
                {
                    self.diagnostics.extend(null_elements(spec).into_iter().map(stays_out));
                }
                let misspelt = self.misspelt.of(known, node);
                self.diagnostics.extend(misspelt.into_iter().map(stays_out));
                if let Err(error) = self.known(file, node, known, kind) {
                    let mut diagnostic = Diagnostic::error(code::WRONG_TYPE, error.message);
                    diagnostic.position = error.position;
                    diagnostic.path = error.path;
                    diagnostic.hint = error.hint;
                    self.diagnostics.push(stays_out(diagnostic));
                }
            }
            Class::WrongApiVersion { expected } => {
                let message = format!("{} has no {kind}", excerpt(api_version));
                let diagnostic = Diagnostic::error(code::WRONG_API_VERSION, message)
                    .with_hint(format!("write `apiVersion: {expected}`; the object is left out"));
                self.diagnostics.push(at_field(diagnostic, "apiVersion"));
            }
            Class::Misspelt { nearest } => {
                let message = format!("{} has no kind {}", excerpt(api_version), excerpt(kind));
                let diagnostic = Diagnostic::error(code::UNKNOWN_KIND, message)
                    .with_hint(format!("is it a `{nearest}`? The object is left out"));
                self.diagnostics.push(at_field(diagnostic, "kind"));
            }
            Class::NotUnderstood => {
                let message =
                    format!("{kind} is not understood by this version: the answer would leave it out");
                let diagnostic = Diagnostic::error(code::POLICY_KIND_NOT_UNDERSTOOD, message)
                    .with_hint("take it away to see what the other policies do without it");
                self.diagnostics.push(at_field(diagnostic, "kind"));
            }
            Class::VendorPolicy => {
                let message = format!("{api_version} {kind} is another enforcer's policy: it is left out");
                let diagnostic = Diagnostic::warning(code::VENDOR_POLICY, message)
                    .with_hint("where it is enforced, verdicts can differ from the ones here");
                self.diagnostics.push(at_field(diagnostic, "kind"));
            }
            Class::Network => {
                let spans = node.spans(&|_| true);
                let source =
                    Source { file: Some(Arc::clone(file)), spans: Arc::new(spans), ..Source::default() };
                self.networks.push(network::Declared::read(node, object, source));
            }
            Class::Other => *self.skipped.entry(kind.to_owned()).or_default() += 1,
        }
    }

    fn list(
        &mut self,
        file: &Arc<str>,
        items: &Node<'_>,
        faults: &[Diagnostic],
        implied: Option<Implied<'_>>,
    ) {
        let items = match &items.value {
            Value::Sequence(items) => items.as_slice(),
            Value::Null => &[],
            _ => std::slice::from_ref(items),
        };
        // A fault belongs to the item that it stands in: one bad item does not hide the others.
        let mut rest = faults;
        let before = |faults: &[Diagnostic], end: Position| {
            faults.partition_point(|fault| fault.position.is_some_and(|position| position < end))
        };
        let first = items.first().map_or(faults.len(), |item| before(faults, item.position));
        self.diagnostics.extend(faults[..first].iter().cloned().map(|fault| fault.in_file(file)));
        rest = &rest[first..];
        for (index, item) in items.iter().enumerate() {
            let end = items.get(index + 1).map_or(rest.len(), |next| before(rest, next.position));
            self.object(file, item, &rest[..end], implied);
            rest = &rest[end..];
        }
    }

    fn known(
        &mut self,
        file: &Arc<str>,
        node: &Node<'_>,
        known: Known,
        kind: &str,
    ) -> Result<(), DecodeError> {
        let source = || source(file, node, known.is_policy());
        let objects = &mut self.objects;
        match known {
            Known::Namespace => objects.namespaces.push(read(node, source)?),
            Known::Pod => objects.pods.push(read(node, source)?),
            Known::Node => objects.nodes.push(read(node, source)?),
            Known::Service => objects.services.push(read(node, source)?),
            Known::EndpointSlice => objects.endpoint_slices.push(read(node, source)?),
            Known::Endpoints => objects.endpoints.push(read(node, source)?),
            Known::CronJob => objects.cron_jobs.push(read(node, source)?),
            Known::NetworkPolicy => objects.network_policies.push(read(node, source)?),
            Known::AdminNetworkPolicy => objects.admin_network_policies.push(read(node, source)?),
            Known::BaselineAdminNetworkPolicy => {
                objects.baseline_admin_network_policies.push(read(node, source)?);
            }
            Known::ClusterNetworkPolicy => objects.cluster_network_policies.push(read(node, source)?),
            Known::Workload => {
                let mut workload: Sourced<super::wire::workload::Workload> = read(node, source)?;
                kind.clone_into(&mut workload.object.kind);
                objects.workloads.push(workload);
            }
        }
        Ok(())
    }
}

fn read<T: DeserializeOwned>(
    node: &Node<'_>,
    source: impl FnOnce() -> Source,
) -> Result<Sourced<T>, DecodeError> {
    Ok(Sourced { object: decode(node)?, source: source() })
}

fn source(file: &Arc<str>, node: &Node<'_>, whole: bool) -> Source {
    let text = |key: &str| metadata(node, key).map(Arc::from);
    let spans = if whole {
        node.spans(&|path| !path.starts_with("metadata.managedFields"))
    } else {
        node.spans(&is_read)
    };
    Source {
        file: Some(Arc::clone(file)),
        spans: Arc::new(spans),
        uid: text("uid"),
        resource_version: text("resourceVersion"),
    }
}

/// Fields of cluster objects that something can be wrong with. A dump of 10,000 pods has a million others.
fn is_read(path: &str) -> bool {
    const FIELDS: [&str; 55] = [
        "address",
        "addressType",
        "addresses",
        "apiVersion",
        "clusterIP",
        "clusterIPs",
        "conditions",
        "containerPort",
        "containers",
        "dnsConfig",
        "dnsPolicy",
        "endpoints",
        "externalName",
        "generateName",
        "hostAliases",
        "hostNetwork",
        "hostname",
        "hostnames",
        "initContainers",
        "internalTrafficPolicy",
        "ip",
        "jobTemplate",
        "kind",
        "labels",
        "metadata",
        "name",
        "nameservers",
        "namespace",
        "nodeName",
        "notReadyAddresses",
        "options",
        "ownerReferences",
        "phase",
        "podCIDR",
        "podCIDRs",
        "podIP",
        "podIPs",
        "port",
        "ports",
        "protocol",
        "ready",
        "replicas",
        "restartPolicy",
        "searches",
        "selector",
        "serving",
        "sessionAffinity",
        "spec",
        "status",
        "subdomain",
        "subsets",
        "targetPort",
        "template",
        "type",
        "value",
    ];
    if path.ends_with(']') {
        return true;
    }
    let field = path.rsplit('.').next().unwrap_or(path);
    FIELDS.binary_search(&field).is_ok() || path.starts_with("metadata.labels.")
}

/// List elements that are null: a dash with nothing behind it, which is a rule for everybody.
fn null_elements(spec: &Node<'_>) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    spec.walk("spec", &mut |path, node, in_list| {
        if in_list && node.value == Value::Null {
            let mut diagnostic = Diagnostic::warning(code::NULL_ELEMENT, "a list element with nothing in it")
                .at(node.position)
                .with_hint(
                    "it stands for every default at once, as `{}` does: write `- {}`, or take the dash away",
                );
            path.clone_into(&mut diagnostic.path);
            found.push(diagnostic);
        }
    });
    found
}

fn metadata(node: &Node<'_>, key: &str) -> Option<String> {
    node.get("metadata")?.get(key)?.as_str().map(str::to_owned)
}

fn not_an_object(node: &Node<'_>, kind: Option<&str>) -> String {
    match (&node.value, kind) {
        (Value::Mapping(_), None) => "no `kind`: not a Kubernetes object".to_owned(),
        (Value::Mapping(_), Some(kind)) => format!("a {kind} without `apiVersion`"),
        _ => format!("{}, where a Kubernetes object should be", node.describe()),
    }
}
