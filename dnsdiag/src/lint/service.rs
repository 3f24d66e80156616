//! The DNS Service: both protocols, a port where somebody listens, pods that it selects, and clients that all reach it.

use std::collections::BTreeSet;

use netlab_core::diagnostic::{Diagnostic, code};
use netlab_core::model::cluster::ObjectKey;
use netlab_core::model::port::Protocol;
use netlab_core::model::service::{Service, ServicePort, ServiceType, TargetPort};

use super::ground::{Ground, object};
use super::structure::is_filled_in_later;
use crate::corefile::Transport;

const DNS: u16 = 53;

pub(super) fn find(ground: &Ground<'_>, found: &mut Vec<Diagnostic>) {
    let Some((key, service)) = ground.dns else { return };
    ports(key, service, found);
    targets(ground, key, service, found);
    selector(ground, key, service, found);
    traffic(ground, key, service, found);
}

fn say(
    key: &ObjectKey,
    service: &Service,
    diagnostic: Diagnostic,
    path: &str,
    hint: &str,
    found: &mut Vec<Diagnostic>,
) {
    found.push(diagnostic.with_hint(hint).about(&object("Service", key)).at_path(&service.source, path));
}

fn of(service: &Service, protocol: Protocol) -> Option<(usize, &ServicePort)> {
    service.ports.iter().enumerate().find(|(_, port)| port.port == DNS && port.protocol == protocol)
}

fn ports(key: &ObjectKey, service: &Service, found: &mut Vec<Diagnostic>) {
    if service.service_type == ServiceType::ExternalName {
        return;
    }
    if of(service, Protocol::Udp).is_none() {
        let message = "no UDP port 53: every resolver asks over UDP first";
        let hint = "add `{name: dns, port: 53, protocol: UDP}`; without `protocol` a port is TCP";
        say(key, service, Diagnostic::error(code::DNS_SERVICE_PORTS, message), "spec.ports", hint, found);
    }
    if of(service, Protocol::Tcp).is_none() {
        let message = "no TCP port 53: answers that do not fit into a datagram never arrive";
        let hint = "add `{name: dns-tcp, port: 53, protocol: TCP}`";
        say(key, service, Diagnostic::warning(code::DNS_SERVICE_PORTS, message), "spec.ports", hint, found);
    }
}

/// Ports on which the server's plain DNS blocks listen; `None` where that cannot be told.
fn listening(ground: &Ground<'_>) -> Option<BTreeSet<u16>> {
    let servers: Vec<_> = ground.servers.iter().filter(|server| !server.node_local).collect();
    let [server] = servers.as_slice() else { return None };
    let keys = || server.file.blocks.iter().flat_map(|block| &block.keys);
    if server.file.blocks.is_empty() || !server.file.imports.is_empty() || keys().any(is_filled_in_later) {
        return None;
    }
    let zones = server.file.blocks.iter().flat_map(crate::corefile::Block::zones);
    Some(zones.filter(|key| key.transport == Transport::Dns).map(|key| key.port).collect())
}

fn targets(ground: &Ground<'_>, key: &ObjectKey, service: &Service, found: &mut Vec<Diagnostic>) {
    for protocol in [Protocol::Udp, Protocol::Tcp] {
        let Some((index, port)) = of(service, protocol) else { continue };
        let path = format!("spec.ports[{index}].targetPort");
        let mut refuse = |message: String, hint: &str| {
            say(key, service, Diagnostic::error(code::DNS_SERVICE_TARGET, message), &path, hint, found);
        };
        let numbers: BTreeSet<u16> = match &port.target {
            TargetPort::Number(number) => BTreeSet::from([*number]),
            TargetPort::Name(name) => {
                let named = |of: Protocol| -> BTreeSet<u16> {
                    let ports = ground.dns_pods.iter().flat_map(|(_, pod)| &pod.ports);
                    let ports =
                        ports.filter(|port| port.name.as_deref() == Some(name) && port.protocol == of);
                    ports.map(|port| port.number).collect()
                };
                let numbers = named(protocol);
                if numbers.is_empty() && !ground.dns_pods.is_empty() {
                    let other = if protocol == Protocol::Udp { Protocol::Tcp } else { Protocol::Udp };
                    let word = protocol.as_str();
                    if named(other).is_empty() {
                        let message = format!("no container of its pods has a port called `{name}`");
                        refuse(message, "name a port that they have: the Service has no endpoint for it");
                    } else {
                        let message = format!(
                            "the port `{name}` of its pods is {}, and this one is {word}",
                            other.as_str()
                        );
                        refuse(message, "name the port of that protocol: the Service has no endpoint for it");
                    }
                }
                numbers
            }
        };
        let Some(listening) = listening(ground) else { continue };
        let deaf = numbers.iter().find(|number| !listening.contains(number));
        if let Some(number) = deaf {
            let ports: Vec<String> = listening.iter().map(ToString::to_string).collect();
            let message =
                format!("it leads to port {number}, and the Corefile listens on {}", ports.join(", "));
            refuse(message, "clients are refused: write the same port in both");
        }
    }
}

fn selector(ground: &Ground<'_>, key: &ObjectKey, service: &Service, found: &mut Vec<Diagnostic>) {
    let Some(cluster) = ground.cluster() else { return };
    if service.service_type == ServiceType::ExternalName {
        let message = "it is an alias: pods need an address to ask";
        let hint = "give it the type ClusterIP";
        say(key, service, Diagnostic::error(code::DNS_SERVICE_SELECTOR, message), "spec.type", hint, found);
        return;
    }
    if service.headless {
        let message = "it is headless: pods need an address that stays, for their resolv.conf";
        let hint = "give it a cluster IP, the one in the kubelets' `clusterDNS`";
        say(
            key,
            service,
            Diagnostic::error(code::DNS_SERVICE_SELECTOR, message),
            "spec.clusterIP",
            hint,
            found,
        );
    }
    let slices = cluster.endpoint_slices.iter().any(|(slice, object)| {
        slice.namespace == key.namespace && object.service.as_deref() == Some(&*key.name)
    });
    // Of pods that are not in the input nothing is known: only DNS pods that stand there and are missed count.
    let pods_known = cluster.pods.iter().any(|(pod, object)| {
        let name = object.owner.as_ref().map_or(pod.name.as_str(), |owner| owner.name.as_str());
        pod.namespace == key.namespace && name.contains("dns") && !name.contains("local")
    });
    if service.selector.is_some() && ground.dns_pods.is_empty() && pods_known {
        let message = "its selector meets no pod of the namespace: nobody answers";
        let hint = "compare it with the labels of the DNS pods";
        say(
            key,
            service,
            Diagnostic::error(code::DNS_SERVICE_SELECTOR, message),
            "spec.selector",
            hint,
            found,
        );
    } else if service.selector.is_none() && !slices && pods_known {
        let message = "no selector, and no endpoint slice: nobody answers";
        let hint = "select the DNS pods, `k8s-app: kube-dns` mostly";
        say(
            key,
            service,
            Diagnostic::error(code::DNS_SERVICE_SELECTOR, message),
            "spec.selector",
            hint,
            found,
        );
    }
}

fn traffic(ground: &Ground<'_>, key: &ObjectKey, service: &Service, found: &mut Vec<Diagnostic>) {
    if service.affinity.is_some() {
        let message = "`sessionAffinity: ClientIP` keeps each client with one server, a sick one too";
        let hint = "take it away: DNS has no sessions";
        say(
            key,
            service,
            Diagnostic::warning(code::DNS_SERVICE_TRAFFIC, message),
            "spec.sessionAffinity",
            hint,
            found,
        );
    }
    let everywhere = !ground.dns_pods.is_empty()
        && ground
            .dns_pods
            .iter()
            .all(|(_, pod)| pod.owner.as_ref().is_some_and(|owner| owner.kind == "DaemonSet"));
    if service.internal_local && !everywhere {
        let message =
            "`internalTrafficPolicy: Local`: on nodes without a DNS pod queries vanish without an error";
        let hint = "write Cluster, or run the DNS pods as a DaemonSet";
        let path = "spec.internalTrafficPolicy";
        say(key, service, Diagnostic::warning(code::DNS_SERVICE_TRAFFIC, message), path, hint, found);
    }
}
