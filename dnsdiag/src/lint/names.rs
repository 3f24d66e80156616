//! Names of the cluster that a pod's containers are given.
//!
//! Invariant: evidence, not suspicion. A name counts when it has `svc` in the place where only names of the cluster have
//! it, or when a URL or the value of a variable is exactly a Service that the input has.

use netlab_core::input::wire::core_v1 as wire;
use netlab_core::model::cluster::{Cluster, ObjectKey};
use serde_json::Value;

/// A name, and the container that is given it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Used {
    pub(super) name: String,
    pub(super) container: usize,
}

/// The names that a pod uses, each once.
pub(super) fn used(cluster: &Cluster, domain: &str, namespace: &str, pod: &wire::Pod) -> Vec<Used> {
    let mut found = Vec::new();
    let containers = pod.spec.as_ref().and_then(|spec| spec.containers.as_ref()).into_iter().flatten();
    for (container, spec) in containers.enumerate() {
        for field in ["args", "command", "env"] {
            let Some(value) = spec.unknown.get(field) else { continue };
            strings(value, &mut |text| {
                for host in hosts(text) {
                    if is_of_cluster(cluster, domain, namespace, &host, text) {
                        found.push(Used { name: host, container });
                    }
                }
            });
        }
    }
    found.sort();
    found.dedup();
    found
}

fn strings(value: &Value, each: &mut dyn FnMut(&str)) {
    match value {
        Value::String(text) => each(text),
        Value::Array(items) => items.iter().for_each(|item| strings(item, each)),
        // Of a variable only its value: `valueFrom` names keys of other objects.
        Value::Object(fields) => fields.get("value").into_iter().for_each(|value| strings(value, each)),
        _ => {}
    }
}

/// What in a text could be host names: words of letters, digits, dots and dashes.
fn hosts(text: &str) -> impl Iterator<Item = String> + '_ {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '.' || c == '-'))
        .map(|word| word.trim_matches(['.', '-']).to_ascii_lowercase())
        .filter(|word| !word.is_empty())
}

fn is_of_cluster(cluster: &Cluster, domain: &str, namespace: &str, host: &str, text: &str) -> bool {
    let labels: Vec<&str> = host.split('.').collect();
    let below = |zone: &str| host.strip_suffix(zone).is_some_and(|rest| rest.ends_with(".svc."));
    if below(domain) || (labels.len() >= 3 && labels.last() == Some(&"svc")) {
        return true;
    }
    // A short name counts in a URL, or with a port as the whole value.
    let with_port = text.split_once(':').is_some_and(|(bare, port)| {
        let port = port.split('/').next().unwrap_or_default();
        bare.eq_ignore_ascii_case(host) && !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit())
    });
    let in_url = text.to_ascii_lowercase().contains(&format!("://{host}"));
    let is_service = match labels.as_slice() {
        [service] => cluster.services.contains_key(&ObjectKey::new(namespace, *service)),
        [service, other] => cluster.services.contains_key(&ObjectKey::new(*other, *service)),
        _ => false,
    };
    is_service && (in_url || with_port)
}
