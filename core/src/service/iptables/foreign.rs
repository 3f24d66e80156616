//! Rules of others that take packets to Services before the proxy's are asked.
//!
//! Invariant: only a rule that names the address, is understood as a whole and ends the packet's way there is told; what
//! depends on more (interfaces, states, sets) is nobody's fault here. Looks into the chains of the kernel's own hook, in
//! the order in which the tables are asked (`include/uapi/linux/netfilter_ipv4.h`): raw, mangle, nat.

use super::compare::kernel_chain_ends_before;
use super::dump::{Dump, Rule};
use super::follow::place;
use crate::service::expected::{ExpectedPort, FrontendKey};
use crate::service::fault::{Difference, Fault, Kind};

/// The first such rule, with its table.
pub(super) fn first(dump: &Dump, to: FrontendKey) -> Option<(&'static str, &Rule)> {
    ["raw", "mangle", "nat"].into_iter().find_map(|table| {
        let rules = dump.rules(table, "PREROUTING");
        let before =
            if table == "nat" { kernel_chain_ends_before(rules, "KUBE-SERVICES") } else { rules.len() };
        rules.iter().take(before).find(|rule| takes(rule, to, table)).map(|rule| (table, rule))
    })
}

fn takes(rule: &Rule, to: FrontendKey, table: &str) -> bool {
    let ends = match rule.target.as_deref() {
        Some("DROP") => true,
        // Elsewhere these only leave the table.
        Some("DNAT" | "ACCEPT" | "RETURN" | "REDIRECT") => table == "nat",
        _ => false,
    };
    let named = match (&rule.destination, to.address) {
        (Some(net), Some(address)) => !net.negated && net.value.contains(&address),
        _ => false,
    };
    ends && named
        && rule.protocol.is_none_or(|protocol| protocol == to.protocol)
        && rule.destination_port.is_none_or(|port| port == to.port)
        && (rule.other.is_empty() || rule.target.as_deref() == Some("REDIRECT"))
        && rule.source.is_none()
        && rule.states.is_none()
        && rule.mark.is_none()
        && rule.probability.is_none()
}

/// Tells it for each address.
pub(super) fn faults(dump: &Dump, port: &ExpectedPort, faults: &mut Vec<Fault>) {
    for frontend in &port.frontends {
        if let Some((table, rule)) = first(dump, frontend.key) {
            let target = rule.target.clone().unwrap_or_default();
            faults.push(Fault {
                difference: Difference::Extra,
                kind: Kind::Foreign,
                detail: format!(
                    "a rule that is not the proxy's takes packets to {} first, and ends their way with {target}",
                    frontend.key
                ),
                object: target,
                place: place(table, "PREROUTING", rule),
                endpoint: rule.to_destination.map(|to| to.to_string()),
            });
        }
    }
}
