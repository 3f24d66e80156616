//! Rules of a service port that no packet comes to, as another of the proxy's own stands before them.
//!
//! Invariant: only rules that end the walk for all packets of the later one are taken to shadow it; rules that are not the
//! proxy's are told where packets are followed. Source: the order in which `pkg/proxy/nftables/proxier.go`
//! `syncProxyRules` writes each chain.

use super::chain;
use super::dump::{Act, Dump, Rule, Verdict};
use super::follow::in_chain;
use super::masquerade::marks;
use crate::service::expected::ExpectedPort;
use crate::service::fault::{Difference, Fault, Kind};

/// Compares the order within the chains of a port.
pub(super) fn faults(dump: &Dump, port: &ExpectedPort, faults: &mut Vec<Fault>) {
    let name = &port.name;
    let own = [chain::external(name), chain::cluster(name), chain::local(name)];
    let mut endpoints: Vec<_> = port.cluster.iter().chain(&port.local).collect();
    endpoints.sort_unstable();
    endpoints.dedup();
    let ends = endpoints.into_iter().map(|endpoint| (chain::endpoint(name, *endpoint), Some(endpoint)));
    for (chain, endpoint) in own.into_iter().map(|chain| (chain, None)).chain(ends) {
        let rules = dump.chains.get(&chain).map_or(&[][..], Vec::as_slice);
        // Of affinity there may be a rule for each endpoint.
        let ending: Vec<(usize, &Rule)> =
            rules.iter().enumerate().filter(|(_, rule)| ends_walk(rule)).collect();
        for (index, rule) in rules.iter().enumerate() {
            let before =
                ending.iter().take_while(|(at, _)| *at < index).find(|(_, taker)| covers(taker, rule));
            let (Some((taker, _)), Some((kind, object, effect))) = (before, effect(rule)) else { continue };
            faults.push(Fault {
                difference: Difference::Wrong,
                kind,
                object,
                place: in_chain(&chain, index + 1, rule),
                endpoint: endpoint.map(ToString::to_string),
                detail: format!(
                    "no packet comes to this rule, as rule {} before it takes all: {effect}",
                    taker + 1
                ),
            });
        }
    }
}

/// What is lost with a rule.
fn effect(rule: &Rule) -> Option<(Kind, String, &'static str)> {
    if marks(rule) {
        return Some((
            Kind::Masquerade,
            "mark".to_owned(),
            "packets keep their source, and replies find no way back",
        ));
    }
    match (&rule.act, &rule.known_client) {
        (Act::Remember(set), _) | (_, Some(set)) => {
            Some((Kind::Affinity, set.clone(), "clients do not stay with their endpoint"))
        }
        (Act::Verdict(Verdict::Goto(to)), _) => Some((
            Kind::Backend,
            to.clone(),
            "packets of the node, or of its pods, reach only endpoints of the node",
        )),
        _ => None,
    }
}

/// One of the proxy's own that lets no packet go on.
const fn ends_walk(rule: &Rule) -> bool {
    matches!(rule.act, Act::Verdict(Verdict::Goto(_)) | Act::Translate(_) | Act::Spread(..) | Act::Choose(..))
}

/// Whether all packets of a rule are those of another, too. Chains of a port hold packets of one protocol.
fn covers(taker: &Rule, rule: &Rule) -> bool {
    fn holds<T: PartialEq>(taker: Option<&T>, rule: Option<&T>) -> bool {
        taker.is_none() || taker == rule
    }
    !taker.is_other
        && (taker.not_from.is_empty() || taker.not_from == rule.not_from)
        && (!taker.from_node || rule.from_node)
        && (!taker.to_node || rule.to_node)
        && (!taker.not_new || rule.not_new)
        && (!taker.translated || rule.translated)
        && holds(taker.source.as_ref(), rule.source.as_ref())
        && holds(taker.interface.as_ref(), rule.interface.as_ref())
        && holds(taker.destination.as_ref(), rule.destination.as_ref())
        && holds(taker.to_set.as_ref(), rule.to_set.as_ref())
        && holds(taker.port.as_ref(), rule.port.as_ref())
        && holds(taker.mark.as_ref(), rule.mark.as_ref())
        && holds(taker.flow_in.as_ref(), rule.flow_in.as_ref())
        && holds(taker.known_client.as_ref(), rule.known_client.as_ref())
}
