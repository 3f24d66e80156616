//! The kubelet's configuration: whom pods ask, and which zone they search.

use std::net::IpAddr;

use netlab_core::diagnostic::{Diagnostic, code};
use netlab_core::model::source::Position;

use super::ground::{Ground, Kubelet, is_inside, is_link_local, object};
use crate::kubelet::Limits;

pub(super) fn find(ground: &Ground<'_>, found: &mut Vec<Diagnostic>) {
    for kubelet in &ground.kubelets {
        fields(kubelet, found);
        servers(ground, kubelet, found);
        domain(kubelet, found);
    }
}

fn say(
    kubelet: &Kubelet,
    diagnostic: Diagnostic,
    field: &str,
    at: Option<Position>,
    found: &mut Vec<Diagnostic>,
) {
    let at = at.or_else(|| kubelet.config.place(field));
    let mut diagnostic = kubelet.text.place(diagnostic, at);
    if diagnostic.path.is_empty() {
        diagnostic.path = kubelet.config.path(field);
    }
    found.push(diagnostic);
}

fn fields(kubelet: &Kubelet, found: &mut Vec<Diagnostic>) {
    for (written, meant) in &kubelet.config.misspelt {
        let message = format!("kubelet has no field `{written}`, and goes on without it");
        let diagnostic =
            Diagnostic::warning(code::KUBELET_FIELD, message).with_hint(format!("write `{meant}`"));
        say(kubelet, diagnostic, written, None, found);
    }
    for element in &kubelet.config.not_addresses {
        let message = format!("`{}` is no address: kubelet leaves it out", element.value);
        let diagnostic = Diagnostic::warning(code::KUBELET_FIELD, message)
            .with_hint("write the cluster IP of the DNS Service");
        say(kubelet, diagnostic, "clusterDNS", element.position, found);
    }
    if let Some(fourth) = kubelet.config.cluster_dns.get(Limits::NAMESERVERS) {
        let message = format!("`{}` is one server too many: pods get three", fourth.value);
        let diagnostic = Diagnostic::warning(code::KUBELET_FIELD, message).with_hint("take it away");
        say(kubelet, diagnostic, "clusterDNS", fourth.position, found);
    }
}

fn servers(ground: &Ground<'_>, kubelet: &Kubelet, found: &mut Vec<Diagnostic>) {
    let servers = &kubelet.config.cluster_dns;
    if servers.is_empty() {
        let message = "no `clusterDNS`: pods get the node's servers, which do not know the cluster";
        let diagnostic = Diagnostic::warning(code::CLUSTER_DNS_MISSING, message).with_hint(
            "write the cluster IP of the DNS Service; kubelet says MissingClusterDNS for each pod",
        );
        say(kubelet, diagnostic, "clusterDNS", None, found);
        return;
    }
    if let (Some(outside), true) = (
        servers.iter().find(|server| !is_inside(server.value)),
        servers.iter().any(|server| is_inside(server.value)),
    ) {
        let message = format!("{} does not know the cluster, and its answers are final too", outside.value);
        let diagnostic = Diagnostic::warning(code::NAMESERVERS_MIXED, message).with_hint(
            "musl asks all servers at once, glibc the next one after a timeout: list servers that know the same names",
        );
        say(kubelet, diagnostic, "clusterDNS", outside.position, found);
    }
    let (Some(cluster), Some((key, service))) = (ground.cluster(), ground.dns) else { return };
    if service.cluster_ips.is_empty() {
        return;
    }
    let own: Vec<String> = service.cluster_ips.iter().map(ToString::to_string).collect();
    for server in servers {
        let address: IpAddr = server.value;
        if service.cluster_ips.contains(&address) || is_link_local(address) || !is_inside(address) {
            continue;
        }
        // The server, or its cache on the node, listens there itself.
        let bound =
            ground.servers.iter().flat_map(|server| &server.file.blocks).any(|block| {
                block.all("bind").any(|bind| bind.words().any(|word| word.parse() == Ok(address)))
            });
        if bound {
            continue;
        }
        let mut others = cluster.services.iter().filter(|(_, other)| other.cluster_ips.contains(&address));
        let other = others.next();
        // Another installation of the same server, such as the one behind a cache on nodes.
        if other.is_some_and(|(_, other)| other.selector == service.selector) {
            continue;
        }
        // A pod or node that answers DNS itself is somebody's design.
        if cluster.pods.values().any(|pod| pod.addresses.contains(&address)) {
            continue;
        }
        let message = match other {
            Some((other, _)) => format!("{address} is {}, and not the DNS Service", object("Service", other)),
            None => format!("no Service has {address}"),
        };
        let hint = format!("{key} is {}: write that, and make the pods anew", own.join(", "));
        let diagnostic = Diagnostic::error(code::CLUSTER_DNS_WRONG, message).with_hint(hint);
        say(kubelet, diagnostic, "clusterDNS", server.position, found);
    }
}

fn domain(kubelet: &Kubelet, found: &mut Vec<Diagnostic>) {
    let domain = kubelet.config.cluster_domain.as_str();
    if domain.is_empty() {
        if !kubelet.config.cluster_dns.is_empty() {
            let message =
                "no `clusterDomain`: pods get no search domains of the cluster, so short names fail";
            let diagnostic = Diagnostic::warning(code::CLUSTER_DOMAIN, message)
                .with_hint("write the zone of the server's `kubernetes` plugin, cluster.local mostly");
            say(kubelet, diagnostic, "clusterDomain", None, found);
        }
        return;
    }
    let label = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && label.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    if !domain.split('.').all(label) {
        let message = format!("`{domain}` is no domain as names of pods have it");
        let diagnostic = Diagnostic::warning(code::CLUSTER_DOMAIN, message)
            .with_hint("lower-case labels between single dots, without one at the end");
        say(kubelet, diagnostic, "clusterDomain", None, found);
    }
}
