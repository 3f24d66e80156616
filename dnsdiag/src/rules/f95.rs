//! F95: the name resolves as it should, and the connection after it fails: it was not DNS.

use std::net::SocketAddr;

use netlab_core::model::cluster::ObjectKey;
use netlab_core::model::service::Service;
use netlab_plugin::evidence::{Outcome, Probe, Transport};

use super::{Class, Effect, Hit, Rule, command};
use crate::bundle::layout;
use crate::records::Hint;
use crate::view::{PolicyVerdict, View, row_ids};

pub(super) const RULE: Rule = Rule {
    mode: "F95",
    id: "AFTER-DNS",
    class: Class::NotDns,
    title: "the name resolves as it should, and connections to its address fail",
    needs: &[
        layout::POD_RESOLV_CONF,
        layout::SERVICES,
        layout::SLICES,
        layout::NAMESPACES,
        layout::PODS,
        layout::PROBES,
    ],
    latent: false,
    explains: &[Effect::Connect],
    test,
};

fn test(view: &View<'_>) -> Option<Hit> {
    // That says why.
    if super::f57::test(view).is_some() {
        return None;
    }
    let connects = view.connects();
    for wanted in view.wanted() {
        let right = wanted.addresses();
        let told: Vec<_> = view
            .questions(&wanted.full)
            .into_iter()
            .filter(|(_, probe)| probe.result == Outcome::Noerror && !probe.addresses().is_empty())
            .collect();
        let given: Vec<_> = told.iter().flat_map(|(_, probe)| probe.addresses()).collect();
        let as_should = wanted.truth.exists() != Some(true) || given.iter().all(|one| right.contains(one));
        let failed: Vec<_> = connects
            .iter()
            .copied()
            .filter(|(_, probe)| given.contains(&probe.server) && probe.result != Outcome::Noerror)
            .collect();
        let Some((_, first)) = failed.first().copied() else { continue };
        // Some connections to the same address and port went through: then it is the backends, not the way.
        let through: Vec<_> = connects
            .iter()
            .copied()
            .filter(|(_, probe)| {
                probe.server == first.server && probe.port == first.port && probe.result == Outcome::Noerror
            })
            .collect();
        if !as_should {
            continue;
        }
        let to = SocketAddr::new(first.server, first.port);
        let mut hit = Hit::high(format!("{} resolves; connecting to {to} fails", wanted.name))
            .because(format!("DNS gives {} for {}, as it should", first.server, wanted.full))
            .because(format!("TCP {to}: {}", first.result.as_str()))
            .citing(row_ids(&told))
            .citing(row_ids(&failed));
        if !through.is_empty() {
            hit = hit
                .despite(row_ids(&through))
                .because("some connections to it are made: not every endpoint takes them");
        }
        let service = view.service_at(first.server).map(|(key, service)| (key.clone(), service));
        let no_endpoints = wanted.truth.hints.iter().any(|hint| matches!(hint, Hint::NoEndpoints { .. }));
        return Some(match service {
            Some((key, _)) if no_endpoints => hit
                .because(format!("{key} has no ready endpoint"))
                .citing([layout::SLICES])
                .fix(format!("make a pod that {key} selects ready"))
                .verify(format!("netlab service endpoints {key} -f cluster/")),
            Some((key, service)) => of_service(view, hit, &key, service, first),
            None => of_address(view, hit, first),
        });
    }
    None
}

fn of_service(view: &View<'_>, hit: Hit, key: &ObjectKey, service: &Service, probe: &Probe) -> Hit {
    let ports: Vec<String> =
        service.ports.iter().map(|port| format!("{}/{}", port.port, port.protocol.as_str())).collect();
    if !service.ports.iter().any(|port| port.port == probe.port) {
        return hit
            .because(format!("{key} has no port {}: it has {}", probe.port, ports.join(", ")))
            .citing([layout::SERVICES])
            .fix(format!("connect to a port that {key} has, or add port {} to it", probe.port))
            .verify(format!("netlab service endpoints {key} -f cluster/"));
    }
    let name = service.ports.iter().find(|port| port.port == probe.port).and_then(|port| port.name.clone());
    for (_, slice) in view.slices_of(key) {
        let number = slice
            .ports
            .iter()
            .find(|port| port.name.as_deref().unwrap_or_default() == name.as_deref().unwrap_or_default());
        let Some(number) = number.and_then(|port| port.port) else { continue };
        for address in slice.endpoints.iter().filter(|one| one.ready).flat_map(|one| &one.addresses) {
            let answer = view.policy(Transport::Tcp, *address, number);
            if matches!(answer.verdict, PolicyVerdict::DenyEgress | PolicyVerdict::DenyIngress) {
                return denied(
                    view,
                    hit,
                    &answer.cite(),
                    &answer.isolated_by(),
                    &format!("svc/{key}"),
                    probe.port,
                );
            }
        }
    }
    if let Some(proxy) = view.proxy(probe.server)
        && let Some(port) = proxy.port(key, Transport::Tcp, probe.port)
        && let Some(fault) = port.missing.iter().chain(&port.wrong).next()
    {
        return hit
            .because(crate::view::cite(proxy.file, fault))
            .citing([proxy.file])
            .fix("restart kube-proxy on the node, and read its log")
            .verify(command::trace(proxy.file, key));
    }
    hit.because("policies and the proxy's rules let it through, as far as they were recorded")
        .fix(format!("look at the pods behind {key}: do they listen, on all addresses, at the target port?"))
        .verify(format!(
            "netlab policy prove --from {} --to svc/{key} --port {}/tcp",
            view.target, probe.port
        ))
}

fn of_address(view: &View<'_>, hit: Hit, probe: &Probe) -> Hit {
    let answer = view.policy(Transport::Tcp, probe.server, probe.port);
    if matches!(answer.verdict, PolicyVerdict::DenyEgress | PolicyVerdict::DenyIngress) {
        return denied(
            view,
            hit,
            &answer.cite(),
            &answer.isolated_by(),
            &probe.server.to_string(),
            probe.port,
        );
    }
    hit.fix(format!("look at the way from {} to {}, and at what listens there", view.target, probe.server))
        .verify(format!(
            "netlab policy prove --from {} --to {} --port {}/tcp",
            view.target, probe.server, probe.port
        ))
}

fn denied(view: &View<'_>, hit: Hit, cite: &str, isolating: &[String], to: &str, port: u16) -> Hit {
    let why = if isolating.is_empty() {
        cite.to_owned()
    } else {
        format!("{} isolates, and no rule admits it ({cite})", isolating.join(", "))
    };
    hit.because(why)
        .citing([layout::POLICIES])
        .fix(format!("admit TCP {port} from {} to {to} in that policy", view.target))
        .verify(format!("netlab policy prove --from {} --to {to} --port {port}/tcp", view.target))
}
