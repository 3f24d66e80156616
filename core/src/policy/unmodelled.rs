//! What policies say that the tables cannot hold: peers by domain name.
//!
//! Invariant: it is told only where it could change an answer: the source is denied to go out, its policies have rules
//! with domain names, and the destination is none of the cluster's own, which is what such rules are for.

use netlab_ebpf::abi::Direction;

use super::change::Verdict;
use super::query::{End, Pair, owner, policed_pod};
use super::ruleset::Rulesets;
use crate::model::cluster::Cluster;
use crate::model::policy::PeerMatch;

impl Rulesets {
    /// The rules that might accept a packet by its destination's name, which its source's side denies; one line each.
    pub fn by_domain_name(&self, cluster: &Cluster, pair: &Pair, egress: Verdict) -> Vec<String> {
        let End::Address(address) = owner(cluster, pair.tuple.destination) else { return Vec::new() };
        let table = policed_pod(cluster, &pair.from)
            .filter(|_| egress == Verdict::Deny)
            .and_then(|pod| self.ruleset_of(&pod)?.table(Direction::Egress));
        let acting = table.iter().flat_map(|table| &table.acting);
        let policies = acting.map(|index| &self.policies.list[*index as usize]);
        let mut found = Vec::new();
        for policy in policies {
            for peer in policy.egress.iter().flatten().flat_map(|rule| rule.peers.iter().flatten()) {
                if let PeerMatch::DomainNames(names) = &peer.matches {
                    let (id, path, names) = (&policy.id, &peer.path, names.join(", "));
                    found.push(format!(
                        "{id} {path}: whether {address} is an address of {names}, since domain names are not modelled"
                    ));
                }
            }
        }
        found
    }
}
