//! Pods: those that were given, and one for each workload that has none.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::owner::Workloads;
use crate::diagnostic::{Diagnostic, ObjectRef, code};
use crate::input::objects::Sourced;
use crate::input::wire::core_v1 as wire;
use crate::input::wire::meta::{ObjectMeta, OwnerReference};
use crate::model::cluster::{ContainerPort, ObjectKey, Pod, WorkloadRef};
use crate::model::pod_dns::{DnsConfig, PodDns};
use crate::model::port::Protocol;
use crate::model::source::Source;

/// A pod in both forms.
#[derive(Debug)]
pub(super) struct Both {
    pub(super) model: Pod,
    pub(super) wire: wire::Pod,
    /// `status.phase` says that the pod is not running, so a missing address means that it has none.
    pub(super) unstarted: bool,
}

/// By key.
pub(super) type Pods = BTreeMap<ObjectKey, Both>;

/// Reads the pods that were given.
pub(super) fn read(
    pods: BTreeMap<ObjectKey, Sourced<wire::Pod>>,
    workloads: &Workloads,
    diagnostics: &mut Vec<Diagnostic>,
) -> Pods {
    let mut read = Pods::new();
    for (key, Sourced { object, source }) in pods {
        let mut problem = |message: String, path: &str, hint: &str| {
            let object = ObjectRef {
                kind: "Pod".to_owned(),
                namespace: Some(key.namespace.clone()),
                name: key.name.clone(),
            };
            let diagnostic = Diagnostic::error(code::INVALID_ADDRESS, message)
                .with_hint(format!("{hint}; the pod is left out"))
                .about(&object)
                .at_path(&source, path);
            diagnostics.push(diagnostic);
        };
        let addresses = match addresses(object.status.as_ref()) {
            Ok(addresses) => addresses,
            Err((written, path)) => {
                problem(format!("`{written}` is no IP address"), &path, "write an IPv4 or IPv6 address");
                continue;
            }
        };
        let (mut model, bad_ports) = model(&object, source.clone());
        if let Some(BadPort { written, path, hint }) = bad_ports.into_iter().next() {
            problem(format!("`{written}` is no container port"), &path, hint);
            continue;
        }
        model.addresses = addresses;
        let mut chain = workloads.chain(&object.metadata);
        model.owner = chain.pop();
        model.controller = chain.into_iter().next().or_else(|| model.owner.clone());
        let phase = object.status.as_ref().and_then(|status| status.phase.as_deref());
        model.terminal = matches!(phase, Some("Succeeded" | "Failed"));
        let conditions = object.status.iter().flat_map(|status| status.conditions.iter().flatten());
        model.ready = conditions
            .filter(|condition| condition.condition_type == "Ready")
            .map(|condition| condition.status == "True")
            .next_back();
        model.terminating = object.metadata.unknown.get("deletionTimestamp").is_some_and(|at| !at.is_null());
        let unstarted = matches!(phase, Some("Succeeded" | "Failed" | "Pending"));
        read.insert(key, Both { model, wire: object, unstarted });
    }
    read
}

/// Adds a pod for each workload that no pod belongs to.
pub(super) fn stamp(pods: &mut Pods, workloads: &Workloads, diagnostics: &mut Vec<Diagnostic>) {
    let staffed: BTreeSet<(String, WorkloadRef)> = pods
        .iter()
        .flat_map(|(key, pod)| {
            workloads.chain(&pod.wire.metadata).into_iter().map(|workload| (key.namespace.clone(), workload))
        })
        .collect();
    for (key, kind, known) in workloads.roots() {
        let workload = WorkloadRef { kind: kind.to_owned(), name: key.name.clone() };
        if staffed.contains(&(key.namespace.clone(), workload.clone())) {
            continue;
        }
        let name = free_name(pods, key, kind);
        let owner = OwnerReference {
            kind: kind.to_owned(),
            name: key.name.clone(),
            controller: Some(true),
            ..OwnerReference::default()
        };
        let object = wire::Pod {
            metadata: ObjectMeta {
                name: Some(name.clone()),
                namespace: Some(key.namespace.clone()),
                labels: known.template.metadata.labels.clone(),
                owner_references: Some(vec![owner]),
                ..ObjectMeta::default()
            },
            spec: known.template.spec.clone(),
            ..wire::Pod::default()
        };
        // A template's port that cannot be read costs the port, not the workload.
        let (mut model, bad_ports) = model(&object, known.source.clone());
        for BadPort { written, path, hint } in bad_ports {
            let object = ObjectRef {
                kind: kind.to_owned(),
                namespace: Some(key.namespace.clone()),
                name: key.name.clone(),
            };
            let message = format!("`{written}` is no container port");
            let diagnostic = Diagnostic::warning(code::INVALID_ADDRESS, message)
                .with_hint(format!("{hint}; the port is left out"))
                .about(&object)
                .at_path(&known.source, format!("spec.template.{path}"));
            diagnostics.push(diagnostic);
        }
        model.owner = Some(workload.clone());
        model.controller = Some(workload);
        pods.insert(ObjectKey::new(&key.namespace, name), Both { model, wire: object, unstarted: false });
    }
}

/// The workload's name, or with its kind where a pod or another workload has that name.
fn free_name(pods: &Pods, key: &ObjectKey, kind: &str) -> String {
    let with_kind = format!("{}-{}", key.name, kind.to_lowercase());
    let numbered = (2..).map(|number| format!("{with_kind}-{number}"));
    [key.name.clone(), with_kind.clone()]
        .into_iter()
        .chain(numbered)
        .find(|name| !pods.contains_key(&ObjectKey::new(&key.namespace, name)))
        .unwrap_or(with_kind)
}

/// `status.podIPs`, else `status.podIP`; at most one per family.
fn addresses(status: Option<&wire::PodStatus>) -> Result<Vec<IpAddr>, (String, String)> {
    let Some(status) = status else { return Ok(Vec::new()) };
    let listed = status.pod_ips.iter().flatten().enumerate();
    let mut written: Vec<(String, &str)> =
        listed.map(|(index, ip)| (format!("status.podIPs[{index}]"), ip.ip.as_str())).collect();
    if written.is_empty() {
        written.extend(status.pod_ip.as_deref().map(|ip| ("status.podIP".to_owned(), ip)));
    }
    let mut addresses: Vec<IpAddr> = Vec::new();
    for (path, text) in written {
        if text.is_empty() {
            continue;
        }
        let address: IpAddr = text.parse().map_err(|_| (text.to_owned(), path))?;
        if !addresses.iter().any(|known| known.is_ipv4() == address.is_ipv4()) {
            addresses.push(address);
        }
    }
    Ok(addresses)
}

struct BadPort {
    written: String,
    path: String,
    hint: &'static str,
}

/// The containers whose ports count, with their paths: those that run as long as the pod does, sidecars after the others.
/// Services look names up in that order (`pkg/api/v1/pod/util.go` `FindPort`, 1.32 and later), and networks that enforce
/// policies know the ports of both (Calico since 3.29, Kube-OVN since 1.14).
fn port_holders(spec: &wire::PodSpec) -> impl Iterator<Item = (String, &wire::Container)> {
    let of = |field: &'static str, index: usize| format!("spec.{field}[{index}]");
    let main = spec.containers.iter().flatten().enumerate();
    let init = spec.init_containers.iter().flatten().enumerate();
    let sidecars = init.filter(|(_, container)| container.is_sidecar());
    main.map(move |(index, container)| (of("containers", index), container))
        .chain(sidecars.map(move |(index, container)| (of("initContainers", index), container)))
}

/// Everything of the model that stands in `metadata` and `spec`, and the container ports that cannot be read.
fn model(object: &wire::Pod, source: Source) -> (Pod, Vec<BadPort>) {
    let spec = object.spec.as_ref();
    let (mut ports, mut bad) = (Vec::new(), Vec::new());
    for (holder, container) in spec.into_iter().flat_map(port_holders) {
        for (number, port) in container.ports.iter().flatten().enumerate() {
            let path = |field: &str| format!("{holder}.ports[{number}].{field}");
            let Some(protocol) = protocol(port.protocol.as_deref()) else {
                let written = port.protocol.clone().unwrap_or_default();
                bad.push(BadPort { written, path: path("protocol"), hint: "write TCP, UDP or SCTP" });
                continue;
            };
            let Some(container_port) = u16::try_from(port.container_port).ok().filter(|port| *port != 0)
            else {
                let written = port.container_port.to_string();
                bad.push(BadPort { written, path: path("containerPort"), hint: "ports are 1 to 65535" });
                continue;
            };
            let name = port.name.as_deref().filter(|name| !name.is_empty()).map(Into::into);
            ports.push(ContainerPort { name, protocol, number: container_port });
        }
    }
    let pod = Pod {
        labels: object.metadata.labels.clone().unwrap_or_default(),
        node: spec.and_then(|spec| spec.node_name.clone()).filter(|name| !name.is_empty()),
        host_network: spec.and_then(|spec| spec.host_network).unwrap_or(false),
        ports,
        dns: spec.and_then(dns).map(Box::new),
        source,
        ..Pod::default()
    };
    (pod, bad)
}

fn dns(spec: &wire::PodSpec) -> Option<PodDns> {
    let written = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    let config = spec.dns_config.as_ref().map(|config| DnsConfig {
        nameservers: config.nameservers.clone().unwrap_or_default(),
        searches: config.searches.clone().unwrap_or_default(),
        options: config
            .options
            .iter()
            .flatten()
            .map(|option| (option.name.clone(), option.value.clone()))
            .collect(),
    });
    let alias = |alias: &wire::HostAlias| (alias.ip.clone(), alias.hostnames.clone().unwrap_or_default());
    let dns = PodDns {
        policy: written(&spec.dns_policy),
        config,
        host_aliases: spec.host_aliases.iter().flatten().map(alias).collect(),
        hostname: written(&spec.hostname),
        subdomain: written(&spec.subdomain),
    };
    (dns != PodDns::default()).then_some(dns)
}

/// TCP when absent.
pub(super) fn protocol(written: Option<&str>) -> Option<Protocol> {
    match written {
        None | Some("") => Some(Protocol::Tcp),
        Some(written) => Protocol::ALL.into_iter().find(|protocol| protocol.as_str() == written),
    }
}
