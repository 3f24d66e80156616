//! The Service that a command names.

use netlab_core::endpoint_ref::{EndpointRef, EndpointType};
use netlab_core::model::cluster::{Cluster, ObjectKey};

use crate::args::globals::Globals;
use crate::failure::Failure;

/// So many of the Services that there are get named when none is like the one asked for.
const MOST: usize = 4;

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
    let default = globals.namespace.as_deref().unwrap_or("default");
    let meant = EndpointRef::Named {
        kind: Some(EndpointType::Service),
        namespace: namespace.clone(),
        name: name.clone(),
    };
    let key = ObjectKey::new(namespace.as_deref().unwrap_or(default), name);
    meant.resolve(cluster, default).map(|_| key.clone()).map_err(|error| {
        let failure = Failure::unreadable(format!("no Service `{key}` in the input"));
        match error.nearest.as_slice() {
            [] if cluster.services.is_empty() => failure.hint("there is no Service in the input"),
            [] => {
                let some: Vec<String> =
                    cluster.services.keys().take(MOST).map(|key| format!("`{key}`")).collect();
                let more = cluster.services.len().saturating_sub(MOST);
                let more = if more > 0 { format!(" and {more} more") } else { String::new() };
                failure.hint(format!("there are {}{more}", some.join(", ")))
            }
            nearest => failure.hint(format!("did you mean `{}`?", nearest.join("`, `"))),
        }
    })
}
