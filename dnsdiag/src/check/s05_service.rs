//! S5: the DNS Service: ports, endpoints, pods.

use std::collections::BTreeSet;

use netlab_core::model::port::Protocol;
use netlab_plugin::check::CheckOutcome;

use super::Step;
use crate::bundle::layout;
use crate::view::{DnsEndpoint, View};

pub(super) const STEP: Step = Step {
    id: "S5",
    name: "service",
    summary: "the DNS Service: UDP and TCP, target ports, ready endpoints, selector, traffic policy",
    needs: &[layout::SERVICES, layout::SLICES, layout::PODS],
    costs: "API reads; no query",
    examine,
};

#[expect(clippy::unnecessary_wraps, reason = "the signature of every step")]
fn examine(view: &View<'_>) -> Option<CheckOutcome> {
    let missing = view.missing(STEP.needs);
    if !missing.is_empty() {
        return Some(CheckOutcome::not_examined(format!("{} not recorded", missing.join(", "))));
    }
    let Some(dns) = view.dns_service() else {
        return Some(CheckOutcome::fault("there is no DNS Service").citing([layout::SERVICES]));
    };
    let mut ports: Vec<String> = dns
        .service
        .ports
        .iter()
        .filter(|port| port.port == 53)
        .map(|port| format!("{} {}", port.protocol.as_str(), port.port))
        .collect();
    ports.sort_unstable_by(|a, b| b.cmp(a));
    // A pod of both families has an address in two slices, and is one.
    let who = |one: &DnsEndpoint| one.pod.clone().unwrap_or_else(|| one.address.to_string());
    let endpoints = view.dns_endpoints();
    let all: BTreeSet<String> = endpoints.iter().map(who).collect();
    let ready: BTreeSet<String> =
        endpoints.iter().filter(|one| one.ready && one.protocol == Protocol::Udp).map(who).collect();
    let endpoints = match (all.len(), ready.len()) {
        (0, _) => "no endpoints".to_owned(),
        (1, 1) => "1 endpoint, ready".to_owned(),
        (2, 2) => "2 endpoints, both ready".to_owned(),
        (all, ready) if all == ready => format!("{all} endpoints, all ready"),
        (all, ready) => format!("{ready} of {all} endpoints ready"),
    };
    let line = format!("{} {}; {endpoints}", dns.key, ports.join(", "));
    let has = |protocol| dns.service.ports.iter().any(|port| port.port == 53 && port.protocol == protocol);
    let outcome = if ready.is_empty() || !has(Protocol::Udp) {
        CheckOutcome::fault(line)
    } else if !has(Protocol::Tcp) {
        CheckOutcome::fault(format!("{line}; no TCP 53"))
    } else if ready.len() < all.len() {
        CheckOutcome::warning(line)
    } else {
        CheckOutcome::ok(line)
    };
    Some(outcome.citing([layout::SERVICES, layout::SLICES]))
}
