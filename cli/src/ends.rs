//! From an endpoint's name to the ends that it means in a cluster.
//!
//! Invariant: a name that is not there is an error that suggests the nearest; what this version cannot answer
//! for is said, not approximated.

use std::collections::BTreeSet;
use std::net::IpAddr;

use netlab_core::endpoint_ref::{DestinationRef, EndpointRef, EndpointType, PortRef, ResolvedEnd};
use netlab_core::model::cluster::{Cluster, ObjectKey};
use netlab_core::model::service::Service;
use netlab_core::policy::backends::{ServiceError, backends, service, service_port};
use netlab_core::policy::headless::named_ends;
use netlab_core::policy::query::{End, owner};

use crate::args::globals::Globals;
use crate::failure::Failure;

/// Words further away than this are no typos.
const MOST_EDITS: usize = 3;

/// The ends that a reference means, and the reference as answers repeat it. A Service means the ends behind it.
pub(crate) fn resolve(
    flag: &str,
    reference: &EndpointRef,
    globals: &Globals,
    cluster: &Cluster,
) -> Result<(String, Vec<End>), Failure> {
    let default = globals.namespace.as_deref().unwrap_or("default");
    let found = reference.resolve(cluster, default).map_err(|error| {
        let failure = Failure::unreadable(format!("`{flag} {reference}`: {error}"));
        match error.nearest.as_slice() {
            [] if cluster.pods.is_empty() => failure.hint("there is no Pod and no workload in the input"),
            [] => failure
                .hint("write `[TYPE/][NAMESPACE/]NAME`; without a namespace `-n` or `default` is meant"),
            nearest => failure.hint(format!("did you mean `{}`?", nearest.join("`, `"))),
        }
    })?;
    if let Some(key) = service_at(reference, None, cluster) {
        if flag == "--from" {
            return Err(Failure::unreadable(format!(
                "`{flag} {reference}`: that is an address of svc/{key}, and nothing is sent from it"
            ))
            .hint("name a pod behind it"));
        }
        let (_, behind) = resolve(flag, &service_ref(&key), globals, cluster)?;
        return Ok((asked(reference, default), behind));
    }
    let mut ends = Vec::new();
    for end in found {
        match end {
            ResolvedEnd::Pod(key) => ends.push(End::Pod(key)),
            ResolvedEnd::Node(name) => ends.push(End::Node(name)),
            ResolvedEnd::Address(address) => ends.push(End::Address(address)),
            ResolvedEnd::Service(key) => {
                let found = service(cluster, &key).map_err(|error| unusable(flag, reference, &error))?;
                let behind = || {
                    let all = found.ports.iter().flat_map(|port| backends(cluster, &key, port));
                    all.map(|backend| backend.end).collect::<BTreeSet<End>>()
                };
                ends.extend(if found.headless { named_ends(cluster, &key, found) } else { behind() });
            }
        }
    }
    Ok((asked(reference, default), ends))
}

/// The Service that a reference names, or whose address it is, if there is one.
pub(crate) fn service_named(
    reference: &EndpointRef,
    port: Option<&PortRef>,
    globals: &Globals,
    cluster: &Cluster,
) -> Option<ObjectKey> {
    let default = globals.namespace.as_deref().unwrap_or("default");
    match reference {
        EndpointRef::Named { kind: Some(EndpointType::Service), namespace, name } => {
            Some(ObjectKey::new(namespace.as_deref().unwrap_or(default), name))
        }
        EndpointRef::Address(_) => service_at(reference, port, cluster),
        EndpointRef::Named { .. } => None,
    }
}

/// The Service that an address belongs to: every node leads its own clients from there to the endpoints, before policies of
/// the destination see anything. Of several Services with one address it is the one with the port. A pod that really has
/// the address comes first, and so does a node, but for the ports of a balancer's or external address that is the node's.
fn service_at(reference: &EndpointRef, port: Option<&PortRef>, cluster: &Cluster) -> Option<ObjectKey> {
    let EndpointRef::Address(address) = reference else { return None };
    let addresses: [fn(&Service) -> &[IpAddr]; 3] = [
        |service| &service.cluster_ips,
        |service| &service.load_balancer_ips,
        |service| &service.external_ips,
    ];
    let of = |addresses: &fn(&Service) -> &[IpAddr]| {
        let addresses = *addresses;
        let services =
            cluster.services.iter().filter(move |(_, service)| addresses(service).contains(address));
        services.map(|(key, _)| key)
    };
    let all: Vec<&ObjectKey> = addresses.iter().flat_map(of).collect();
    let has_port = |key: &&&ObjectKey| port.is_some() && service_port(cluster, key, port).is_ok();
    let with_port = all.iter().find(has_port);
    let found = match owner(cluster, *address) {
        End::Pod(_) => None,
        End::Node(_) => with_port,
        End::Address(_) => with_port.or(all.first()),
    };
    found.map(|key| (*key).clone())
}

/// What to say about Services of which one was asked for by its address.
pub(crate) fn about_address(reference: &EndpointRef, keys: &[&ObjectKey]) -> Option<String> {
    let EndpointRef::Address(address) = reference else { return None };
    let names: Vec<String> = keys.iter().map(|key| format!("svc/{key}")).collect();
    Some(format!("{address} is an address of {}: asked is what it leads to", names.join(" and ")))
}

fn service_ref(key: &ObjectKey) -> EndpointRef {
    EndpointRef::Named {
        kind: Some(EndpointType::Service),
        namespace: Some(key.namespace.clone()),
        name: key.name.clone(),
    }
}

/// The port that `--to` and `--port` mean together.
pub(crate) fn port<'a>(
    to: &'a DestinationRef,
    alone: Option<&'a PortRef>,
) -> Result<Option<&'a PortRef>, Failure> {
    to.port(alone).map_err(|error| Failure::unreadable(error.to_string()).hint("leave one of the ports out"))
}

/// A Service that cannot be asked about.
pub(crate) fn unusable(flag: &str, reference: &EndpointRef, error: &ServiceError) -> Failure {
    let failure = Failure::unreadable(format!("`{flag} {reference}`: {error}"));
    match error {
        ServiceError::NoSuchPort { leads_there: Some(port), .. } => failure.hint(format!(
            "its pods listen there; the Service's own port is {port}: `--port {port}`, or name a pod"
        )),
        ServiceError::WhichPort { .. } => failure.hint("as in `--port 80` or `--port http`"),
        _ => failure,
    }
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
