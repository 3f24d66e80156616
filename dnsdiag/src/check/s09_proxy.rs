//! S9, first half: what the node's proxy does with packets to the DNS Service.

use netlab_plugin::check::CheckOutcome;
use netlab_plugin::evidence::Transport;

use super::Step;
use crate::bundle::layout;
use crate::view::{View, cite};

pub(super) const STEP: Step = Step {
    id: "S9.proxy",
    name: "proxy",
    summary: "the node's iptables or nftables rules for the DNS Service, against what they should be",
    needs: &[layout::NODE_IPTABLES, layout::SERVICES, layout::SLICES, layout::NODES, layout::PODS],
    costs: "iptables-save (or nft -j list ruleset) on the pod's node; root there",
    examine,
};

fn examine(view: &View<'_>) -> Option<CheckOutcome> {
    let dns = view.dns_service()?;
    let vip = *view.vips().first()?;
    let Some(proxy) = view.proxy(vip) else {
        let dump = layout::PROXY_DUMPS.iter().find(|dump| view.knows(dump));
        return Some(match dump {
            Some(dump) if **dump == *layout::NODE_IPVS => {
                CheckOutcome::not_examined("IPVS tables are not compared with the Services")
            }
            Some(dump) => CheckOutcome::not_examined(format!("{dump} cannot be read for {vip}")),
            None => CheckOutcome::not_examined("no dump of the node's rules was recorded"),
        });
    };
    let mut faults = Vec::new();
    let mut parts = Vec::new();
    for transport in [Transport::Udp, Transport::Tcp] {
        let Some(port) = proxy.port(&dns.key, transport, 53) else { continue };
        match port.faults().next() {
            Some(fault) => faults.push(format!("{transport}: {}", cite(proxy.file, fault))),
            None if port.symptom.is_none() => parts.push(transport.to_string()),
            None => faults.push(format!("{transport}: {}", port.symptom)),
        }
    }
    if parts.is_empty() && faults.is_empty() {
        return Some(CheckOutcome::not_examined(format!(
            "no port 53 of {} is expected in its rules",
            dns.key
        )));
    }
    let outcome = match faults.as_slice() {
        [] => CheckOutcome::ok(format!(
            "{}: {vip}:53 {} to the endpoints",
            proxy.trace.proxy_mode,
            parts.join(" and ")
        )),
        faults => CheckOutcome::fault(faults.join("; ")),
    };
    Some(outcome.citing([proxy.file]))
}
