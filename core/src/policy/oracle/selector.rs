//! Label selectors, as `meta/v1 LabelSelector` says them.

use std::collections::BTreeMap;

use super::Oracle;
use super::ends::{name_of, namespace_of};
use crate::input::wire::core_v1::Pod;
use crate::input::wire::meta::{LabelSelector, LabelSelectorRequirement};

/// `LabelSelector`: every entry of `matchLabels` and every requirement of `matchExpressions` must hold, so an
/// empty selector selects everything.
pub(super) fn selects(selector: &LabelSelector, labels: &BTreeMap<String, String>) -> bool {
    if !selector.unknown.is_empty() {
        return false;
    }
    for (key, value) in selector.match_labels.iter().flatten() {
        if labels.get(key) != Some(value) {
            return false;
        }
    }
    for requirement in selector.match_expressions.iter().flatten() {
        if !holds(requirement, labels) {
            return false;
        }
    }
    true
}

/// `LabelSelectorRequirement.operator`: one of `In`, `NotIn`, `Exists`, `DoesNotExist`. An object without the key
/// satisfies `NotIn` (concept page "Labels and Selectors").
fn holds(requirement: &LabelSelectorRequirement, labels: &BTreeMap<String, String>) -> bool {
    if !requirement.unknown.is_empty() {
        return false;
    }
    let value = labels.get(&requirement.key);
    let values = requirement.values.as_deref().unwrap_or_default();
    match requirement.operator.as_str() {
        "In" => value.is_some_and(|value| values.contains(value)),
        "NotIn" => value.is_none_or(|value| !values.contains(value)),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        _ => false,
    }
}

/// `ObjectMeta.labels` of a pod.
pub(super) fn pod_labels(pod: &Pod) -> BTreeMap<String, String> {
    pod.metadata.labels.clone().unwrap_or_default()
}

impl Oracle<'_> {
    /// `ObjectMeta.labels` of a namespace, and `kubernetes.io/metadata.name`, which the API server sets on every
    /// namespace to its name; a namespace that was not given has that label alone.
    pub(super) fn namespace_labels(&self, name: &str) -> BTreeMap<String, String> {
        let object = self
            .objects
            .namespaces
            .iter()
            .find(|namespace| name_of(namespace.metadata.name.as_ref()) == name);
        let mut labels = object.and_then(|object| object.metadata.labels.clone()).unwrap_or_default();
        labels.insert("kubernetes.io/metadata.name".to_owned(), name.to_owned());
        labels
    }

    /// The labels of a pod's namespace.
    pub(super) fn labels_of_namespace_of(&self, pod: &Pod) -> BTreeMap<String, String> {
        self.namespace_labels(namespace_of(pod.metadata.namespace.as_ref()))
    }
}
