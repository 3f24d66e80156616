//! Manifests from wire structs and back: block YAML as people write it, one document per object.
//!
//! Invariant: [`read`] of what [`write()`] gives is the same objects. Every string that a YAML reader could take for
//! something else is quoted. The reader here is a small one for test data, apart from the product's.

use serde::Serialize;
use serde_json::{Map, Value};

use super::UnreadableCase;
use crate::input::WireObjects;

const V1ALPHA1: &str = "policy.networking.k8s.io/v1alpha1";
const V1ALPHA2: &str = "policy.networking.k8s.io/v1alpha2";

/// The objects as YAML, namespaces and nodes first, policies last.
pub fn write(objects: &WireObjects) -> String {
    let mut text = write_cluster(objects);
    let policies = write_policies(objects);
    if !text.is_empty() && !policies.is_empty() {
        text.push_str("---\n");
    }
    text + &policies
}

/// Namespaces, nodes and pods as YAML.
pub fn write_cluster(objects: &WireObjects) -> String {
    let namespaces = objects.namespaces.iter().map(|object| document("v1", "Namespace", object));
    let nodes = objects.nodes.iter().map(|object| document("v1", "Node", object));
    let pods = objects.pods.iter().map(|object| document("v1", "Pod", object));
    join(namespaces.chain(nodes).chain(pods))
}

/// Policies as YAML.
pub fn write_policies(objects: &WireObjects) -> String {
    let admin = objects.admin_network_policies.iter();
    let baseline = objects.baseline_admin_network_policies.iter();
    let cluster = objects.cluster_network_policies.iter();
    let network = objects.network_policies.iter();
    join(
        admin
            .map(|object| document(V1ALPHA1, "AdminNetworkPolicy", object))
            .chain(baseline.map(|object| document(V1ALPHA1, "BaselineAdminNetworkPolicy", object)))
            .chain(cluster.map(|object| document(V1ALPHA2, "ClusterNetworkPolicy", object)))
            .chain(network.map(|object| document("networking.k8s.io/v1", "NetworkPolicy", object))),
    )
}

/// The objects of a text of one or more documents.
///
/// # Errors
/// When a document is not one of the kinds that [`WireObjects`] holds.
pub fn read(text: &str) -> Result<WireObjects, UnreadableCase> {
    let documents: Vec<Value> =
        serde_saphyr::from_multiple(text).map_err(|error| UnreadableCase::new("manifest", error))?;
    let mut objects = WireObjects::default();
    for (index, mut document) in documents.into_iter().enumerate() {
        let place = format!("document {}", index + 1);
        let kind = document.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
        if kind != "NetworkPolicy"
            && let Some(fields) = document.as_object_mut()
        {
            fields.remove("apiVersion");
            fields.remove("kind");
        }
        let unreadable = |error: serde_json::Error| UnreadableCase::new(&place, error);
        match kind.as_str() {
            "Namespace" => objects.namespaces.push(serde_json::from_value(document).map_err(unreadable)?),
            "Pod" => objects.pods.push(serde_json::from_value(document).map_err(unreadable)?),
            "Node" => objects.nodes.push(serde_json::from_value(document).map_err(unreadable)?),
            "NetworkPolicy" => {
                objects.network_policies.push(serde_json::from_value(document).map_err(unreadable)?);
            }
            "AdminNetworkPolicy" => {
                objects.admin_network_policies.push(serde_json::from_value(document).map_err(unreadable)?);
            }
            "BaselineAdminNetworkPolicy" => {
                let policies = &mut objects.baseline_admin_network_policies;
                policies.push(serde_json::from_value(document).map_err(unreadable)?);
            }
            "ClusterNetworkPolicy" => {
                objects.cluster_network_policies.push(serde_json::from_value(document).map_err(unreadable)?);
            }
            _ => return Err(UnreadableCase::new(place, format!("the kind {kind:?} is not known here"))),
        }
    }
    Ok(objects)
}

fn join(documents: impl Iterator<Item = String>) -> String {
    documents.collect::<Vec<_>>().join("---\n")
}

fn document(api_version: &str, kind: &str, object: &impl Serialize) -> String {
    let mut text = format!("apiVersion: {api_version}\nkind: {kind}\n");
    if let Ok(Value::Object(mut fields)) = serde_json::to_value(object) {
        fields.remove("apiVersion");
        fields.remove("kind");
        drop_nulls(&mut fields);
        write_fields(&mut text, &fields, 0);
    }
    text
}

/// Optional fields without a value are left out, as people do.
fn drop_nulls(fields: &mut Map<String, Value>) {
    fields.retain(|_, value| !value.is_null());
    for value in fields.values_mut() {
        drop_nulls_inside(value);
    }
}

fn drop_nulls_inside(value: &mut Value) {
    match value {
        Value::Object(fields) => drop_nulls(fields),
        Value::Array(elements) => elements.iter_mut().for_each(drop_nulls_inside),
        _ => {}
    }
}

fn write_fields(text: &mut String, fields: &Map<String, Value>, indent: usize) {
    for (key, value) in fields {
        text.push_str(&" ".repeat(indent));
        write_field(text, key, value, indent);
    }
}

fn write_field(text: &mut String, key: &str, value: &Value, indent: usize) {
    text.push_str(&quoted(key));
    text.push(':');
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            text.push('\n');
            write_fields(text, fields, indent + 2);
        }
        Value::Array(elements) if !elements.is_empty() => {
            text.push('\n');
            write_elements(text, elements, indent);
        }
        scalar => {
            text.push(' ');
            text.push_str(&inline(scalar));
            text.push('\n');
        }
    }
}

fn write_elements(text: &mut String, elements: &[Value], indent: usize) {
    for element in elements {
        text.push_str(&" ".repeat(indent));
        text.push_str("- ");
        match element {
            Value::Object(fields) if !fields.is_empty() => {
                for (index, (key, value)) in fields.iter().enumerate() {
                    if index > 0 {
                        text.push_str(&" ".repeat(indent + 2));
                    }
                    write_field(text, key, value, indent + 2);
                }
            }
            other => {
                text.push_str(&inline(other));
                text.push('\n');
            }
        }
    }
}

/// A scalar, or something empty.
fn inline(value: &Value) -> String {
    match value {
        Value::String(string) => quoted(string),
        other => other.to_string(),
    }
}

/// Plain where no reader can take it for anything but this string, else in double quotes as JSON has them.
fn quoted(string: &str) -> String {
    let plain = string.len() > 3
        && string.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte))
        && string.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic())
        && !["true", "false", "null", "yes", "off"].contains(&string.to_ascii_lowercase().as_str());
    let short = string.len() <= 3
        && !string.is_empty()
        && string.bytes().all(|byte| byte.is_ascii_lowercase())
        && !["y", "n", "yes", "no", "on", "off"].contains(&string);
    if plain || short { string.to_owned() } else { Value::from(string).to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back_the_same() {
        let text = r#"
apiVersion: v1
kind: Namespace
metadata: {name: "true", labels: {"y": "no", n: "1", empty: "", a.b/c: "0x1f", d: "~", e: "1e3"}}
---
apiVersion: v1
kind: Pod
metadata: {name: p, namespace: "true"}
spec: {nodeName: n1, hostNetwork: false, containers: [{name: c, ports: [{name: web, containerPort: 80}]}]}
status: {phase: Running, podIP: "fd00::1", podIPs: [{ip: "fd00::1"}, {ip: 10.0.0.1}]}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: q, namespace: "true"}
spec:
  podSelector: {}
  policyTypes: []
  ingress:
  - {}
  - from: []
    ports: [{port: "80"}, {port: 80, endPort: 90}, {protocol: UDP}]
  - from: [{podSelector: {matchExpressions: [{key: a, operator: Exists}]}, namespaceSelector: {}}]
"#;
        let objects = read(text).expect("the text is good");
        let again = read(&write(&objects)).expect("what was written can be read");
        assert_eq!(objects.namespaces, again.namespaces);
        assert_eq!(objects.pods, again.pods);
        assert_eq!(objects.network_policies, again.network_policies);
        let labels = objects.namespaces[0].metadata.labels.as_ref().expect("the namespace has labels");
        assert_eq!(labels.len(), 6);
    }
}
