//! From an endpoint's name to the ends that it means in a cluster.
//!
//! Invariant: a name without a type is a pod of that name, or else the workloads of that name; a name that is
//! not there is an error that suggests the nearest.

use std::collections::BTreeSet;
use std::net::IpAddr;

use netlab_core::model::cluster::{Cluster, ObjectKey};
use netlab_core::policy::query::End;

use crate::args::globals::Globals;
use crate::failure::Failure;

/// Names further away than this are no typos.
const MOST_EDITS: usize = 3;

/// The types that may be written before a name, with the kind that each means.
const TYPES: &[(&str, &str)] = &[
    ("pod", "Pod"),
    ("pods", "Pod"),
    ("po", "Pod"),
    ("node", "Node"),
    ("nodes", "Node"),
    ("no", "Node"),
    ("deploy", "Deployment"),
    ("deployment", "Deployment"),
    ("deployments", "Deployment"),
    ("sts", "StatefulSet"),
    ("statefulset", "StatefulSet"),
    ("ds", "DaemonSet"),
    ("daemonset", "DaemonSet"),
    ("rs", "ReplicaSet"),
    ("replicaset", "ReplicaSet"),
    ("rc", "ReplicationController"),
    ("replicationcontroller", "ReplicationController"),
    ("job", "Job"),
    ("cj", "CronJob"),
    ("cronjob", "CronJob"),
    ("svc", "Service"),
    ("service", "Service"),
];

/// What was written, taken apart.
struct Reference<'a> {
    kind: Option<&'static str>,
    namespace: &'a str,
    name: &'a str,
}

/// The ends that a text means, and the text as answers repeat it.
pub(crate) fn resolve(
    flag: &str,
    text: &str,
    globals: &Globals,
    cluster: &Cluster,
) -> Result<(String, Vec<End>), Failure> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Ok((address.to_string(), vec![End::Address(address)]));
    }
    let default = globals.namespace.as_deref().unwrap_or("default");
    let reference = parse(flag, text, default)?;
    let Reference { kind, namespace, name } = reference;
    match kind {
        Some("Node") => {
            if cluster.nodes.contains_key(name) {
                return Ok((format!("node/{name}"), vec![End::Node(name.to_owned())]));
            }
            let near =
                nearest(name, cluster.nodes.keys().map(String::as_str)).map(|near| format!("node/{near}"));
            Err(unknown(flag, &format!("node `{name}`"), near))
        }
        Some("Service") => Err(Failure::unreadable(format!(
            "`{flag} {text}`: this version answers for pods, nodes and addresses, not for Services"
        ))
        .hint("name the pod behind it, with the port that the pod listens on")),
        _ => {
            let pods = members(cluster, &reference);
            if pods.is_empty() {
                return Err(unknown(
                    flag,
                    &format!("{} `{namespace}/{name}`", kind.unwrap_or("pod or workload").to_lowercase()),
                    nearest_pod(cluster, &reference),
                ));
            }
            let asked = match kind {
                Some(kind) if kind != "Pod" => format!("{}/{namespace}/{name}", kind.to_lowercase()),
                _ => format!("{namespace}/{name}"),
            };
            Ok((asked, pods.into_iter().map(End::Pod).collect()))
        }
    }
}

fn parse<'a>(flag: &str, text: &'a str, default: &'a str) -> Result<Reference<'a>, Failure> {
    let parts: Vec<&str> = text.split('/').collect();
    let kind = |word: &str| {
        let word = word.to_ascii_lowercase();
        TYPES.iter().find(|(name, _)| *name == word).map(|(_, kind)| *kind)
    };
    let reference = match *parts.as_slice() {
        [name] => Reference { kind: None, namespace: default, name },
        // `pod/web` names a type, unless a namespace is called so: then all three parts have to be written.
        [first, name] => match kind(first) {
            Some(kind) => Reference { kind: Some(kind), namespace: default, name },
            None => Reference { kind: None, namespace: first, name },
        },
        [first, namespace, name] => match kind(first) {
            Some(kind) => Reference { kind: Some(kind), namespace, name },
            None => {
                return Err(Failure::unreadable(format!("`{flag} {text}`: `{first}` is no type"))
                    .hint("types are pod, deploy, sts, ds, rs, job, cronjob and node"));
            }
        },
        _ => Reference { kind: None, namespace: "", name: "" },
    };
    if reference.namespace.is_empty() || reference.name.is_empty() {
        return Err(Failure::unreadable(format!("`{flag} {text}` is no endpoint"))
            .hint("write `[TYPE/][NAMESPACE/]NAME`, as in `shop/web` or `deploy/shop/web`, or an address"));
    }
    Ok(reference)
}

/// The pods that a reference means.
fn members(cluster: &Cluster, reference: &Reference<'_>) -> Vec<ObjectKey> {
    let key = ObjectKey::new(reference.namespace, reference.name);
    if matches!(reference.kind, None | Some("Pod")) && cluster.pods.contains_key(&key) {
        return vec![key];
    }
    if reference.kind == Some("Pod") {
        return Vec::new();
    }
    cluster
        .pods
        .iter()
        .filter(|(key, pod)| {
            let wanted = |workload: &netlab_core::model::cluster::WorkloadRef| {
                workload.name == reference.name && reference.kind.is_none_or(|kind| workload.kind == kind)
            };
            key.namespace == reference.namespace
                && (pod.owner.as_ref().is_some_and(wanted) || pod.controller.as_ref().is_some_and(wanted))
        })
        .map(|(key, _)| key.clone())
        .collect()
}

fn nearest_pod(cluster: &Cluster, reference: &Reference<'_>) -> Option<String> {
    let known: BTreeSet<String> = cluster
        .pods
        .iter()
        .flat_map(|(key, pod)| {
            let owner = pod.owner.as_ref().map(|owner| format!("{}/{}", key.namespace, owner.name));
            [Some(key.to_string()), owner]
        })
        .flatten()
        .collect();
    let wanted = format!("{}/{}", reference.namespace, reference.name);
    nearest(&wanted, known.iter().map(String::as_str)).map(str::to_owned).or_else(|| {
        // The right name in a namespace that was not written.
        known.iter().find(|known| known.split('/').nth(1) == Some(reference.name)).cloned()
    })
}

fn unknown(flag: &str, what: &str, near: Option<String>) -> Failure {
    let failure = Failure::unreadable(format!("`{flag}`: there is no {what} in the input"));
    match near {
        Some(near) => failure.hint(format!("did you mean `{near}`?")),
        None => failure
            .hint("names are `[TYPE/][NAMESPACE/]NAME`; without a namespace `-n` or `default` is meant"),
    }
}

/// The candidate that is most like `text`, if one is.
pub(crate) fn nearest<'a>(text: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let (edits, candidate) =
        candidates.map(|candidate| (strsim::damerau_levenshtein(text, candidate), candidate)).min()?;
    (edits <= MOST_EDITS && edits < text.chars().count().max(2)).then_some(candidate)
}
