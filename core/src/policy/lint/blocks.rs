//! Blocks of addresses that hold pods, or Services, of the cluster; and those that hold nothing.
//!
//! Source: `IPBlock` is meant for addresses outside, and conforming plugins match pods' addresses with it too; a
//! Service's address is gone by the time a policy looks. Invariant: a pod counts as held only where that is certain: by
//! its own address, or where the whole range that its address will come from is inside. Pods that other rules admit on
//! the same ports anyway do not count.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use netlab_ebpf::abi::Direction;

use super::finding::{Finding, count};
use super::ground::{DIRECTIONS, Ground, is_written, names, rules};
use super::service_ports::{pods_of, targets};
use super::tables::verdict;
use crate::diagnostic::{Diagnostic, code};
use crate::model::address::AddressBlock;
use crate::model::cluster::{ObjectKey, Pod};
use crate::model::policy::{Peer, PeerMatch, Policy, PolicyKind};
use crate::policy::change::Verdict;
use crate::policy::ruleset::Table;

/// The widest blocks that are ranges of Services: kubeadm's 10.96.0.0/12, and what Kubernetes takes of IPv6.
const SHORTEST_IPV4: u8 = 12;
const SHORTEST_IPV6: u8 = 64;

pub(super) fn find(ground: &Ground<'_>, findings: &mut Vec<Finding>) {
    for (index, policy) in (0..).zip(&ground.policies.list) {
        for (direction, ..) in DIRECTIONS {
            for (number, rule) in (0..).zip(rules(policy, direction)) {
                for (position, peer) in (0..).zip(rule.peers.iter().flatten()) {
                    let PeerMatch::Block(block) = &peer.matches else { continue };
                    let place =
                        Place { ground, policy, direction, peer, block, at: (index, number, position) };
                    findings.extend(place.empty().or_else(|| place.pods()).or_else(|| place.services()));
                }
            }
        }
    }
}

struct Place<'g, 'a> {
    ground: &'g Ground<'a>,
    policy: &'g Policy,
    direction: Direction,
    peer: &'g Peer,
    block: &'g AddressBlock,
    /// Policy, rule and peer.
    at: (u32, u32, u32),
}

impl Place<'_, '_> {
    /// The exceptions together are the block.
    fn empty(&self) -> Option<Finding> {
        let except = IpNet::aggregate(&self.block.except);
        if !except.iter().any(|except| except.contains(&self.block.cidr)) {
            return None;
        }
        let message = format!("the exceptions leave nothing of {}: this peer is nobody", self.block.cidr);
        let hint = "take out the exception that is not meant, or the peer";
        let diagnostic = Diagnostic::warning(code::BLOCK_IS_EMPTY, message).with_hint(hint);
        let path = format!("{}.ipBlock.except", self.peer.path);
        let path = if is_written(self.policy, &path) { path } else { self.path() };
        Some(Finding::at(self.policy, &path, diagnostic))
    }

    /// The block holds pods.
    fn pods(&self) -> Option<Finding> {
        let everything = self.block.cidr.prefix_len() == 0;
        // "From anywhere" means pods too; "to anywhere" is how people write "to the internet".
        if everything && (self.direction == Direction::Ingress || self.policy.id.kind.is_ordered()) {
            return None;
        }
        let inside: Vec<(&ObjectKey, &Pod)> = self
            .ground
            .cluster
            .pods
            .iter()
            .filter(|(_, pod)| !pod.host_network && !pod.terminal && self.holds(pod))
            .collect();
        if inside.is_empty() {
            return None;
        }
        if self.is_of_pods() {
            let message = format!(
                "a block that stands for pods: it holds {} ({})",
                count(inside.len(), "pod"),
                names(inside.iter().copied())
            );
            let hint = "Cilium matches no pod by its address; selectors work everywhere, and follow the pods";
            let diagnostic = Diagnostic::note(code::BLOCK_FOR_PODS, message).with_hint(hint);
            return Some(Finding::at(self.policy, &self.path(), diagnostic).pods(inside.len()));
        }
        if self.policy.id.kind != PolicyKind::NetworkPolicy {
            return None;
        }
        let subject = self.ground.only_subject(self.policy);
        let mut known = BTreeMap::new();
        let only: Vec<(&ObjectKey, &Pod)> = inside
            .into_iter()
            .filter(|(key, _)| subject != Some(*key) && self.is_only_way(key, &mut known))
            .collect();
        if only.is_empty() {
            return None;
        }
        let message = format!(
            "the block holds pods of the cluster too: {} that no other rule admits ({})",
            count(only.len(), "pod"),
            names(only.iter().copied())
        );
        let hint = "if only addresses outside are meant, write the pods' range as `except`";
        let diagnostic = Diagnostic::warning(code::BLOCK_HOLDS_PODS, message).with_hint(hint);
        Some(Finding::at(self.policy, &self.path(), diagnostic).pods(only.len()))
    }

    /// The block holds addresses of Services, whose pods are not admitted.
    fn services(&self) -> Option<Finding> {
        // A block that is wide, or holds pods, was not written for Services, though some are in it.
        let shortest = if self.block.cidr.addr().is_ipv4() { SHORTEST_IPV4 } else { SHORTEST_IPV6 };
        if self.direction == Direction::Ingress
            || self.policy.id.kind != PolicyKind::NetworkPolicy
            || self.block.cidr.prefix_len() < shortest
            || self.ground.cluster.pods.values().any(|pod| !pod.host_network && self.holds(pod))
        {
            return None;
        }
        let mut shut: Vec<&ObjectKey> = Vec::new();
        for (key, service) in &self.ground.cluster.services {
            let held = service.cluster_ips.iter().any(|address| self.block.contains(*address));
            if held && self.is_shut(key, service) {
                shut.push(key);
            }
        }
        let first = shut.first()?;
        let more = match shut.len() - 1 {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let message = format!(
            "a block of Service addresses ({first}{more}): policies see the pods behind, and those are not admitted"
        );
        let hint = "admit the pods with selectors; a few plugins that judge earlier need the block as well";
        let diagnostic = Diagnostic::warning(code::BLOCK_OF_SERVICES, message).with_hint(hint);
        let mut finding = Finding::at(self.policy, &self.path(), diagnostic);
        finding.count = Some(super::Count { number: shut.len(), of: "services" });
        Some(finding)
    }

    fn path(&self) -> String {
        let path = format!("{}.ipBlock.cidr", self.peer.path);
        if is_written(self.policy, &path) { path } else { self.peer.path.to_string() }
    }

    /// True when the pod's address is certainly in the block.
    fn holds(&self, pod: &Pod) -> bool {
        let whole = |range: &IpNet| {
            let apart = |except: &IpNet| !except.contains(range) && !range.contains(except);
            self.block.cidr.contains(range) && self.block.except.iter().all(apart)
        };
        if !pod.synthetic_addresses && !pod.addresses.is_empty() {
            return pod.addresses.iter().any(|address| self.block.contains(*address));
        }
        let nodes = &self.ground.cluster.nodes;
        let node = pod.node.as_ref().and_then(|name| nodes.get(name));
        let of_node = node.map_or(&[][..], |node| &node.pod_cidrs);
        let everywhere = || {
            // Wherever it will run, one of the nodes' ranges gives it its address.
            let family = |range: &&IpNet| range.addr().is_ipv4() == self.block.cidr.addr().is_ipv4();
            let mut ranges = nodes.values().flat_map(|node| &node.pod_cidrs).filter(family).peekable();
            ranges.peek().is_some() && ranges.all(whole)
        };
        let all = if self.block.cidr.addr().is_ipv4() {
            IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::UNSPECIFIED, 0))
        } else {
            IpNet::V6(Ipv6Net::new_assert(Ipv6Addr::UNSPECIFIED, 0))
        };
        let has_family =
            pod.addresses.iter().any(|address| address.is_ipv4() == self.block.cidr.addr().is_ipv4());
        of_node.iter().any(whole) || (of_node.is_empty() && everywhere()) || (has_family && whole(&all))
    }

    /// True when the block lies inside the nodes' ranges for pods, or is one pod's address.
    fn is_of_pods(&self) -> bool {
        let cidr = self.block.cidr;
        let mut ranges = self.ground.cluster.nodes.values().flat_map(|node| &node.pod_cidrs);
        let is_one = cidr.prefix_len() == IpNet::from(cidr.addr()).prefix_len();
        is_one || ranges.any(|range| range.contains(&cidr))
    }

    /// The tables of the policy's subjects.
    fn tables(&self) -> impl Iterator<Item = &Table> {
        let tables = self.ground.tables(self.direction).map(|(table, _)| table);
        tables.filter(|table| table.acting.contains(&self.at.0))
    }

    /// True when some subject reaches the pod by this block and by nothing else; `known` has what was found of a row.
    fn is_only_way(&self, key: &ObjectKey, known: &mut BTreeMap<(usize, u32), bool>) -> bool {
        let Some(address) = self.address_in_block(key) else { return false };
        let class = self.ground.rulesets.classes.of_address(address);
        let of_this = |table: &Table, rule: u32, peer: Option<u32>| {
            let rule = &table.rules[rule as usize];
            (rule.policy, rule.rule, peer) == (self.at.0, self.at.1, Some(self.at.2))
        };
        self.tables().enumerate().any(|(position, table)| {
            let row = table.row(class);
            *known.entry((position, row)).or_insert_with(|| {
                (0..table.ports.list.len()).any(|index| {
                    let mut matched = table.matched(&table.rows[row as usize], index).peekable();
                    matched.peek().is_some() && matched.all(|one| of_this(table, one.rule, one.peer))
                })
            })
        })
    }

    /// An address of a pod that the block holds, as it was compiled; one outside if its own is not known.
    fn address_in_block(&self, key: &ObjectKey) -> Option<IpAddr> {
        let pod = self.ground.rulesets.pods.get(key)?;
        pod.addresses.iter().copied().find(|address| self.block.contains(*address))
    }

    /// True when no subject reaches any pod behind the Service on any of its ports.
    fn is_shut(&self, key: &ObjectKey, service: &crate::model::service::Service) -> bool {
        let groups = pods_of(self.ground, key, service);
        let pods: Vec<(&ObjectKey, &Pod)> = self.ground.subjects(&groups).collect();
        if pods.is_empty() || service.ports.is_empty() {
            return false;
        }
        let mut any = false;
        for table in self.tables() {
            any = true;
            for port in &service.ports {
                let numbers = targets(&port.target, port.protocol, pods.iter().map(|(_, pod)| *pod));
                for (key, _) in &pods {
                    let Some(compiled) = self.ground.rulesets.pods.get(*key) else { return false };
                    for address in &compiled.addresses {
                        let class = self.ground.rulesets.classes.of_address(*address);
                        let open =
                            |number: &u16| verdict(table, class, port.protocol, *number) == Verdict::Allow;
                        if numbers.iter().any(open) {
                            return false;
                        }
                    }
                }
            }
        }
        any
    }
}
