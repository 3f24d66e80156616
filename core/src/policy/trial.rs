//! A trial: one concrete packet past both of its hooks, on the host.
//!
//! Invariant: the hooks, and what the program is told at them, are those of the real path: the source pod's
//! `from_pod`, where a Service is not translated yet, then the destination pod's `to_pod`. Ends that are no policed pods have no hook. The answer is
//! that of a new connection.

use std::collections::BTreeMap;

use netlab_ebpf::abi::{Device, Direction, ServiceKey, ServiceValue};
use netlab_ebpf::judge::{Hook, Judgement};
use netlab_ebpf::reason::Reason;

use super::change::{Change, Verdict};
use super::engine::Engine;
use super::frame::{Tuple, opening};
use super::frontends::{Site, own_addresses, translation};
use super::image::{Image, ImageError, services};
use super::query::{End, Pair, policed_pod};
use super::ruleset::Rulesets;
use crate::model::cluster::{Cluster, ObjectKey};
use crate::model::port::Protocol;

/// Interface numbers of pods in a trial start here; smaller ones are the node's own.
const FIRST_POD_INTERFACE: u32 = 1000;
/// The interface by which everything arrives that is neither a local pod's nor the node's own.
const UPLINK: u32 = 2;

/// What one hook decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HopVerdict {
    /// Which direction of the pod.
    pub direction: Direction,
    /// Allow or deny.
    pub verdict: Verdict,
    /// The entry to cite.
    pub entry: u32,
    /// How it came about.
    pub reason: Reason,
    /// The peer class that was looked up.
    pub peer_class: u32,
    /// The port class that was looked up.
    pub port_class: u16,
    /// True when it was not decided where the pod sends, but behind the node's translation.
    pub deferred: bool,
}

/// Where a datapath judges what a pod sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Egress {
    /// Before the node translates the addresses of Services, as the eBPF programs do.
    BeforeTranslation,
    /// After it, as the rules of nftables do.
    AfterTranslation,
}

/// Tables and devices for any number of packets.
#[derive(Debug)]
pub struct Trial {
    /// The tables.
    pub change: Change,
    /// The same as the kernel's bytes.
    pub image: Image,
    interfaces: BTreeMap<ObjectKey, u32>,
    devices: BTreeMap<u32, Device>,
}

impl Trial {
    /// A trial of the compiled rulesets.
    ///
    /// # Errors
    /// [`ImageError`] when the tables cannot be encoded.
    pub fn new(rulesets: &Rulesets) -> Result<Self, ImageError> {
        let change = rulesets.change(1, |key| Some(key.to_string()));
        let image = Image::from_change(&change)?;
        let mut interfaces = BTreeMap::new();
        let mut devices = BTreeMap::new();
        for (number, pod) in (FIRST_POD_INTERFACE..).zip(&change.pods) {
            interfaces.insert(ObjectKey::new(&pod.namespace, &pod.name), number);
            devices.insert(number, image.device(pod, -1));
        }
        Ok(Self { change, image, interfaces, devices })
    }

    /// What each hook on the packet's way decides: source egress and destination ingress, `None` where there is
    /// no hook. Both are asked even when the first denies.
    pub fn hops(&self, cluster: &Cluster, pair: &Pair) -> [Option<HopVerdict>; 2] {
        self.hops_seen(cluster, pair, Egress::BeforeTranslation)
    }

    /// The same for a datapath that judges what pods send where this is.
    pub fn hops_seen(&self, cluster: &Cluster, pair: &Pair, seen: Egress) -> [Option<HopVerdict>; 2] {
        let from = policed_pod(cluster, &pair.from);
        let to = policed_pod(cluster, &pair.to);
        if from.is_some() && from == to && pair.via.is_none() {
            // Such a packet never leaves the pod.
            return [Some(itself(Direction::Egress)), Some(itself(Direction::Ingress))];
        }
        let (Some(sent), Some(frame)) = (opening(&pair.sent()), opening(&self.arriving(cluster, pair)))
        else {
            return [None, None];
        };
        let services = self.services(cluster, pair);
        let engine = Engine::new(&self.image, self.devices.clone()).with_services(&services);
        let egress = from.as_ref().and_then(|key| self.interfaces.get(key)).map(|ifindex| {
            let hook = Hook {
                direction: Direction::Egress,
                ifindex: *ifindex,
                ingress_ifindex: *ifindex,
                socket: false,
                vlan: false,
            };
            let translated_before = seen == Egress::AfterTranslation && pair.via.is_some();
            if !translated_before {
                let judgement = engine.judge(&sent, hook)?;
                if !judgement.deferred() {
                    return Some(verdict(hook.direction, &judgement));
                }
            }
            let deferred = !translated_before;
            let judgement = engine.judge_deferred(&frame, Hook { ifindex: UPLINK, ..hook });
            Some(HopVerdict { deferred, ..verdict(hook.direction, &judgement) })
        });
        let ingress =
            to.as_ref().and_then(|key| Some((key, self.interfaces.get(key)?))).map(|(key, ifindex)| {
                let own_node = node_of(cluster, &pair.from)
                    == cluster.pods.get(key).and_then(|pod| pod.node.as_deref())
                    && node_of(cluster, &pair.from).is_some();
                let arrival =
                    from.as_ref().and_then(|key| self.interfaces.get(key)).copied().unwrap_or(UPLINK);
                hop(
                    &engine,
                    &frame,
                    Hook {
                        direction: Direction::Ingress,
                        ifindex: *ifindex,
                        ingress_ifindex: if own_node { 0 } else { arrival },
                        socket: own_node,
                        vlan: false,
                    },
                )
            });
        [egress.flatten(), ingress.flatten()]
    }

    /// The packet as it comes to its destination.
    pub fn arriving(&self, cluster: &Cluster, pair: &Pair) -> Tuple {
        let Some(via) = pair.via.as_ref().filter(|via| via.masquerades) else { return pair.tuple };
        let node = cluster.nodes.get(&via.node).into_iter().flat_map(|node| &node.addresses);
        let mut same = node.copied().filter(|address| address.is_ipv4() == pair.tuple.source.is_ipv4());
        same.next().map_or(pair.tuple, |source| Tuple { source, ..pair.tuple })
    }

    /// The row of the Service by which a pair is asked, as the source's node has it in a place where every pod of the
    /// cluster has a hook.
    pub fn services(&self, cluster: &Cluster, pair: &Pair) -> BTreeMap<ServiceKey, ServiceValue> {
        let Some(via) = &pair.via else { return BTreeMap::new() };
        let protocol = Protocol::ALL.into_iter().find(|one| one.number() == pair.tuple.protocol);
        let site = Site { cluster, node: &via.node, addresses: &[], wires: &[] };
        let found = protocol.and_then(|protocol| {
            Some((translation(site, via.address, via.port, protocol)?, (via.address, via.port, protocol)))
        });
        let Some((found, key)) = found else { return BTreeMap::new() };
        let own = own_addresses(site);
        let deferrable = found.endpoints.keys().all(|endpoint| !own.contains(&endpoint.ip()));
        services(&[found.frontend(key, deferrable, |address| self.image.class_of(address))])
    }
}

/// The node that an end is, if it is one: a node itself or a host-network pod.
fn node_of<'a>(cluster: &'a Cluster, end: &'a End) -> Option<&'a str> {
    match end {
        End::Node(name) => Some(name),
        End::Pod(key) => cluster.pods.get(key).filter(|pod| pod.host_network)?.node.as_deref(),
        End::Address(address) => cluster
            .nodes
            .iter()
            .find(|(_, node)| node.addresses.contains(address))
            .map(|(name, _)| name.as_str()),
    }
}

fn hop(engine: &Engine<'_>, frame: &[u8], hook: Hook) -> Option<HopVerdict> {
    engine.judge(frame, hook).map(|judgement| verdict(hook.direction, &judgement))
}

fn verdict(direction: Direction, judgement: &Judgement) -> HopVerdict {
    let Judgement { allow, entry, reason, peer_class, port_class, .. } = *judgement;
    let verdict = if allow { Verdict::Allow } else { Verdict::Deny };
    HopVerdict { direction, verdict, entry, reason, peer_class, port_class, deferred: false }
}

fn itself(direction: Direction) -> HopVerdict {
    HopVerdict {
        direction,
        verdict: Verdict::Allow,
        entry: Reason::Itself.entry(),
        reason: Reason::Itself,
        peer_class: 0,
        port_class: 0,
        deferred: false,
    }
}
