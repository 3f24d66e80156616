//! The Service that a command names.

use netlab_core::endpoint_ref::{EndpointRef, EndpointType};
use netlab_core::model::cluster::{Cluster, ObjectKey};

use crate::args::globals::Globals;
use crate::ends;
use crate::failure::Failure;

/// The Service that is meant; a name without a type is a Service's here.
pub(super) fn service(
    reference: &EndpointRef,
    globals: &Globals,
    cluster: &Cluster,
) -> Result<ObjectKey, Failure> {
    let EndpointRef::Named { kind: None | Some(EndpointType::Service), namespace, name } = reference else {
        return Err(Failure::unreadable(format!("`{reference}` is no Service"))
            .hint("write `[svc/][NAMESPACE/]NAME`"));
    };
    let namespace = namespace.as_deref().or(globals.namespace.as_deref()).unwrap_or("default");
    let key = ObjectKey::new(namespace, name);
    if cluster.services.contains_key(&key) {
        return Ok(key);
    }
    let failure = Failure::unreadable(format!("no Service `{key}` in the input"));
    let known: Vec<String> = cluster.services.keys().map(ToString::to_string).collect();
    Err(match ends::nearest(&key.to_string(), known.iter().map(String::as_str)) {
        Some(nearest) => failure.hint(format!("did you mean `{nearest}`?")),
        None if known.is_empty() => failure.hint("there is no Service in the input"),
        None => failure.hint("without a namespace `-n` or `default` is meant"),
    })
}
