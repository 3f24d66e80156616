//! Names of the cluster that a pod's containers are given.
//!
//! Invariant: evidence, not suspicion. A name counts when it has `svc` in the place where only names of the cluster have
//! it, or when a URL or the value of a variable is exactly a Service that the input has.

use netlab_core::input::wire::core_v1 as wire;
use netlab_core::model::cluster::{Cluster, ObjectKey};
use serde_json::Value;

/// A name that one of a pod's containers is given.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Used {
    pub(super) name: String,
}

/// Fields of a container that tell a program whom to ask.
const TOLD: [&str; 3] = ["args", "command", "env"];

/// The names that a pod uses, each once.
pub(super) fn used(cluster: &Cluster, domain: &str, namespace: &str, pod: &wire::Pod) -> Vec<Used> {
    let mut found = Vec::new();
    let spec = pod.spec.as_ref();
    let lists = spec.map(|spec| [&spec.init_containers, &spec.containers]).into_iter().flatten();
    let told = lists.flatten().flatten().flat_map(|container| TOLD.map(|field| container.unknown.get(field)));
    for value in told.flatten() {
        strings(value, &mut |text| {
            let names = hosts(text).filter(|host| is_of_cluster(cluster, domain, namespace, host, text));
            found.extend(names.map(|name| Used { name }));
        });
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

/// The hosts of the URLs in a text (RFC 3986, 3.2): between `://` and what ends the authority, without user and port.
fn authorities(text: &str) -> impl Iterator<Item = &str> {
    text.split("://").skip(1).map(|rest| {
        let ends = |c: char| matches!(c, '/' | '?' | '#' | '"' | '\'' | ',' | ';') || c.is_whitespace();
        let authority = rest.split(ends).next().unwrap_or_default();
        let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
        host.split(':').next().unwrap_or_default().trim_end_matches('.')
    })
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
    let in_url = authorities(text).any(|name| name.eq_ignore_ascii_case(host));
    let is_service = match labels.as_slice() {
        [service] => cluster.services.contains_key(&ObjectKey::new(namespace, *service)),
        [service, other] => cluster.services.contains_key(&ObjectKey::new(*other, *service)),
        _ => false,
    };
    is_service && (in_url || with_port)
}
