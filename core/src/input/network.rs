//! Objects that put pods on other networks: user-defined networks and network attachments.
//!
//! netlab judges the pod network that NetworkPolicy is about. A primary user-defined network cuts pods off from
//! it, so such an object is never passed over: a warning says that it is not modelled, and one that contradicts
//! itself is an error. The rules are those of OVN-Kubernetes' `k8s.ovn.org/v1` API.

use std::collections::BTreeMap;

use super::decode::decode;
use super::node::Node;
use super::validate::selector::selector_of_valid;
use super::wire::meta::LabelSelector;
use crate::diagnostic::{Diagnostic, ObjectRef, code};
use crate::model::cluster::Namespace;
use crate::model::source::Source;

/// One such object, as far as its contradictions need it.
#[derive(Clone, Debug)]
pub(super) struct Declared {
    object: ObjectRef,
    source: Source,
    primary: bool,
    /// `spec.namespaceSelector` of a cluster-wide network.
    selector: Option<LabelSelector>,
}

impl Declared {
    pub(super) fn read(node: &Node<'_>, mut object: ObjectRef, source: Source) -> Self {
        let cluster_wide = object.kind == "ClusterUserDefinedNetwork";
        if !cluster_wide {
            object.namespace.get_or_insert_with(|| "default".to_owned());
        }
        let spec = node.get("spec");
        let network = if cluster_wide { spec.and_then(|spec| spec.get("network")) } else { spec };
        let role = |layer: &str| network?.get(layer)?.get("role")?.as_str();
        let primary = [role("layer2"), role("layer3")].contains(&Some("Primary"));
        let selector = spec.and_then(|spec| spec.get("namespaceSelector")).and_then(|node| decode(node).ok());
        Self { object, source, primary, selector }
    }

    /// The namespaces whose primary network this is.
    fn namespaces<'c>(&self, namespaces: &'c BTreeMap<String, Namespace>) -> Vec<&'c String> {
        let selector = self.selector.as_ref().map(selector_of_valid);
        namespaces
            .iter()
            .filter(|(name, namespace)| match (&selector, &self.object.namespace) {
                (Some(selector), _) => selector.matches(&namespace.labels),
                (None, own) => own.as_ref() == Some(*name),
            })
            .map(|(name, _)| name)
            .collect()
    }
}

/// What to say about them all.
pub(super) fn judge(declared: &mut [Declared], namespaces: &BTreeMap<String, Namespace>) -> Vec<Diagnostic> {
    declared.sort_by(|a, b| (&a.object, &a.source.file).cmp(&(&b.object, &b.source.file)));
    let mut diagnostics = Vec::new();
    let mut primary: BTreeMap<&str, String> = BTreeMap::new();
    for network in declared.iter() {
        let object = &network.object;
        let about =
            |diagnostic: Diagnostic, path: &str| diagnostic.about(object).at_path(&network.source, path);
        let invalid = |message: String, path: &str, hint: &str| {
            about(Diagnostic::error(code::NETWORK_INVALID, message).with_hint(hint), path)
        };
        let before = diagnostics.len();
        if object.kind.ends_with("UserDefinedNetwork") {
            if object.name == "default" {
                diagnostics.push(invalid(
                    "a user-defined network may not be called `default`".to_owned(),
                    "metadata.name",
                    "that is the name of the pod network itself",
                ));
            }
            if let Some(reserved) = object.namespace.as_deref().filter(|name| is_reserved(name)) {
                diagnostics.push(invalid(
                    format!("namespace `{reserved}` cannot have a user-defined network"),
                    "metadata.namespace",
                    "use a namespace of your own",
                ));
            }
        }
        if network.primary {
            for namespace in network.namespaces(namespaces) {
                if let Some(first) = primary.insert(namespace, object.to_string()) {
                    diagnostics.push(invalid(
                        format!("namespace `{namespace}` has a primary network already: {first}"),
                        "",
                        "a namespace has one primary network",
                    ));
                }
            }
        }
        if diagnostics.len() == before {
            let message = format!("{} is not modelled: verdicts are those of the pod network", object.kind);
            let hint = "pods on a primary network of their own reach fewer pods than netlab says";
            diagnostics.push(about(
                Diagnostic::warning(code::NETWORK_NOT_MODELLED, message).with_hint(hint),
                "kind",
            ));
        }
    }
    diagnostics
}

fn is_reserved(namespace: &str) -> bool {
    namespace == "default" || namespace.starts_with("kube-") || namespace.starts_with("openshift-")
}
