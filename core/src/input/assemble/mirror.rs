//! Endpoint slices that the `EndpointSliceMirroring` controller writes from Endpoints objects of Services without a
//! selector.
//!
//! Invariant: mirrored only where that controller would (`pkg/controller/endpointslicemirroring`: the Service is there
//! and has no selector, the object has neither the label `skip-mirror` nor the annotation of a leader election), and
//! only where the input has none of its slices already: a dump of a cluster has them. The Endpoints of Services with a
//! selector are another controller's copy of what slices say, and are not read.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use serde_json::Value;

use super::service::{Bad, HEADLESS, PROXY_NAME, bad, not_a_port, number};
use crate::diagnostic::{Diagnostic, ObjectRef, code};
use crate::input::objects::Sourced;
use crate::input::wire::endpoints as wire;
use crate::model::cluster::ObjectKey;
use crate::model::service::{AddressType, Endpoint, EndpointPort, EndpointSlice, Service};

/// The label that keeps an object from being mirrored.
const SKIP: &str = "endpointslice.kubernetes.io/skip-mirror";
/// The annotation of objects that leaders are elected by.
const LEADER: &str = "control-plane.alpha.kubernetes.io/leader";
/// The controller's name in its slices' label.
const CONTROLLER: &str = "endpointslicemirroring-controller.k8s.io";
/// `--mirroring-max-endpoints-per-subset` when not given.
const MOST: usize = 1000;

/// Adds them.
pub(super) fn mirror(
    found: BTreeMap<ObjectKey, Sourced<wire::Endpoints>>,
    services: &BTreeMap<ObjectKey, Service>,
    slices: &mut BTreeMap<ObjectKey, EndpointSlice>,
    diagnostics: &mut Vec<Diagnostic>,
) {
    let mirrored: BTreeSet<(String, Option<String>)> = slices
        .iter()
        .filter(|(_, slice)| slice.managed_by.as_deref() == Some(CONTROLLER))
        .map(|(key, slice)| (key.namespace.clone(), slice.service.clone()))
        .collect();
    for (key, Sourced { object, source }) in found {
        let is_mirrored = services.get(&key).is_some_and(|service| service.selector.is_none())
            && !is_skipped(&object)
            && !mirrored.contains(&(key.namespace.clone(), Some(key.name.clone())));
        if !is_mirrored {
            continue;
        }
        match read(&key, &object) {
            Ok(written) => {
                for slice in written {
                    let mut names = (1..).map(|count| format!("{}-mirrored-{count}", key.name));
                    let free = |name: &String| !slices.contains_key(&ObjectKey::new(&key.namespace, name));
                    if let Some(name) = names.find(free) {
                        let slice = EndpointSlice { source: source.clone(), ..slice };
                        slices.insert(ObjectKey::new(&key.namespace, &name), slice);
                    }
                }
            }
            Err(Bad { message, path }) => {
                let object = ObjectRef {
                    kind: "Endpoints".to_owned(),
                    namespace: Some(key.namespace),
                    name: key.name,
                };
                let diagnostic = Diagnostic::error(code::INVALID_ADDRESS, message)
                    .with_hint("the Endpoints is left out")
                    .about(&object)
                    .at_path(&source, path);
                diagnostics.push(diagnostic);
            }
        }
    }
}

fn is_skipped(object: &wire::Endpoints) -> bool {
    let labels = object.metadata.labels.as_ref();
    let annotations = object.metadata.unknown.get("annotations");
    labels.and_then(|labels| labels.get(SKIP)).is_some_and(|skip| skip == "true")
        || annotations.and_then(Value::as_object).is_some_and(|all| all.contains_key(LEADER))
}

/// A slice for each family of each subset; those with the same ports are one.
fn read(key: &ObjectKey, object: &wire::Endpoints) -> Result<Vec<EndpointSlice>, Bad> {
    let label = |label: &str| object.metadata.labels.as_ref().and_then(|labels| labels.get(label)).cloned();
    let mut groups: BTreeMap<(AddressType, Vec<EndpointPort>), BTreeMap<IpAddr, Endpoint>> = BTreeMap::new();
    for (index, subset) in object.subsets.iter().flatten().enumerate() {
        let ports = ports(index, subset)?;
        let mut taken = 0;
        for (field, addresses, ready) in [
            ("addresses", &subset.addresses, true),
            ("notReadyAddresses", &subset.not_ready_addresses, false),
        ] {
            for (position, address) in addresses.iter().flatten().enumerate() {
                let ip: IpAddr = address.ip.parse().map_err(|_| {
                    let path = format!("subsets[{index}].{field}[{position}].ip");
                    bad(format!("`{}` is no IP address", address.ip), path)
                })?;
                if taken == MOST {
                    break;
                }
                taken += 1;
                let group = groups.entry((AddressType::of(ip), ports.clone())).or_default();
                // What is said to be ready in one place is ready.
                group.entry(ip).or_insert_with(|| Endpoint { ready, ..endpoint(ip, address) });
            }
        }
    }
    let slice = |((address_type, ports), endpoints): (
        (AddressType, Vec<EndpointPort>),
        BTreeMap<IpAddr, Endpoint>,
    )| {
        EndpointSlice {
            service: Some(key.name.clone()),
            address_type,
            managed_by: Some(CONTROLLER.to_owned()),
            // The controller copies the object's labels.
            headless: label(HEADLESS).is_some(),
            proxy_name: label(PROXY_NAME),
            mirrored: true,
            ports,
            endpoints: endpoints.into_values().collect(),
            ..EndpointSlice::default()
        }
    };
    Ok(groups.into_iter().map(slice).collect())
}

fn ports(subset: usize, object: &wire::EndpointSubset) -> Result<Vec<EndpointPort>, Bad> {
    let mut ports = Vec::new();
    for (index, port) in object.ports.iter().flatten().enumerate() {
        let path = |field: &str| format!("subsets[{subset}].ports[{index}].{field}");
        ports.push(EndpointPort {
            name: port.name.clone().filter(|name| !name.is_empty()),
            protocol: super::pod::protocol(port.protocol.as_deref())
                .ok_or_else(|| bad("no protocol of a Service".to_owned(), path("protocol")))?,
            port: match port.port {
                None => None,
                Some(written) => Some(number(written).ok_or_else(|| not_a_port(written, path("port")))?),
            },
        });
    }
    ports.sort_unstable();
    Ok(ports)
}

/// The controller sets no condition but `ready`: whoever reads it takes the endpoint for serving.
fn endpoint(ip: IpAddr, address: &wire::EndpointAddress) -> Endpoint {
    Endpoint {
        addresses: vec![ip],
        serving: true,
        hostname: address.hostname.clone().filter(|name| !name.is_empty()),
        node: address.node_name.clone(),
        pod: address.target_ref.as_ref().filter(|target| target.kind == "Pod").map(|pod| pod.name.clone()),
        ..Endpoint::default()
    }
}
