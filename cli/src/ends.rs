//! From an endpoint's name to the ends that it means in a cluster.
//!
//! Invariant: a name that is not there is an error that suggests the nearest; what this version cannot answer
//! for is said, not approximated.

use netlab_core::endpoint_ref::{EndpointRef, ResolvedEnd};
use netlab_core::model::cluster::{Cluster, ObjectKey};
use netlab_core::policy::query::End;

use crate::args::globals::Globals;
use crate::failure::Failure;

/// Words further away than this are no typos.
const MOST_EDITS: usize = 3;

/// The ends that a reference means, and the reference as answers repeat it.
pub(crate) fn resolve(
    flag: &str,
    reference: &EndpointRef,
    globals: &Globals,
    cluster: &Cluster,
) -> Result<(String, Vec<End>), Failure> {
    let default = globals.namespace.as_deref().unwrap_or("default");
    let found = reference.resolve(cluster, default).map_err(|error| {
        if let Some(key) = service_of(reference, default, cluster) {
            return of_a_service(flag, &key);
        }
        let failure = Failure::unreadable(format!("`{flag} {reference}`: {error}"));
        match error.nearest.as_slice() {
            [] if cluster.pods.is_empty() => failure.hint("there is no Pod and no workload in the input"),
            [] => failure
                .hint("write `[TYPE/][NAMESPACE/]NAME`; without a namespace `-n` or `default` is meant"),
            nearest => failure.hint(format!("did you mean `{}`?", nearest.join("`, `"))),
        }
    })?;
    let ends = found.into_iter().map(|end| match end {
        ResolvedEnd::Pod(key) => Ok(End::Pod(key)),
        ResolvedEnd::Node(name) => Ok(End::Node(name)),
        ResolvedEnd::Address(address) => Ok(End::Address(address)),
        ResolvedEnd::Service(key) => Err(of_a_service(flag, &key)),
    });
    Ok((asked(reference, default), ends.collect::<Result<_, _>>()?))
}

/// The Service that has the name, when nothing else has.
fn service_of(reference: &EndpointRef, default: &str, cluster: &Cluster) -> Option<ObjectKey> {
    let EndpointRef::Named { kind: None, namespace, name } = reference else { return None };
    let key = ObjectKey::new(namespace.as_deref().unwrap_or(default), name);
    cluster.services.contains_key(&key).then_some(key)
}

fn of_a_service(flag: &str, key: &ObjectKey) -> Failure {
    Failure::unreadable(format!(
        "`{flag} svc/{key}`: this version answers for pods, nodes and addresses, not for Services"
    ))
    .hint("name a pod behind it, and the port on which the pod listens")
}

/// The reference with its namespace.
fn asked(reference: &EndpointRef, default: &str) -> String {
    match reference {
        EndpointRef::Named { kind, namespace: None, name }
            if kind.is_none_or(|kind| kind.kind() != "Node") =>
        {
            EndpointRef::Named { kind: *kind, namespace: Some(default.to_owned()), name: name.clone() }
                .to_string()
        }
        other => other.to_string(),
    }
}

/// The candidate that is most like `text`, if one is.
pub(crate) fn nearest<'a>(text: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let (edits, candidate) =
        candidates.map(|candidate| (strsim::damerau_levenshtein(text, candidate), candidate)).min()?;
    (edits <= MOST_EDITS && edits < text.chars().count().max(2)).then_some(candidate)
}
