//! The kernel's witnesses of the eBPF datapath: the program on the live maps, and the wire.
//!
//! Invariant: test-run and wire are asked of two instances of one object that share the policy maps and nothing
//! else; that they are the same program on the same maps is checked, not assumed. The packet on the wire is one
//! packet, and its decisions are found among the events by its own tuple.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::os::fd::AsFd;
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use netlab_core::model::cluster::{Cluster, ObjectKey};
use netlab_core::policy::Rulesets;
use netlab_core::policy::change::{Change, Verdict};
use netlab_core::policy::evaluate;
use netlab_core::policy::frame::{Tuple, opening};
use netlab_core::policy::image::Image;
use netlab_core::policy::query::Pair;
use netlab_core::policy::trial::HopVerdict;
use netlab_ebpf::abi::{
    Address, Device, Direction, Event, PolicyValue, ServiceKey, ServiceTarget, ServiceTargets, ServiceValue,
    mapped,
};
use netlab_ebpf::reason::{FIRST_COMPILED_ENTRY, Reason};
use netlab_lab::Lab;
use netlab_lab::traffic::{Sent, Wait};
use netlab_plugin::contract::Backend;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};

use super::error::ProveError;
use super::place::{self, HookSite};
use super::predict::Prediction;
use super::proof::BackendName;
use super::read_back::Compiled;
use super::wire;
use super::witness::{Observation, hop_difference, witness};
use super::{Interference, Written};
use crate::backend::tc::TcBackend;
use crate::drop_reason::{DropReasons, Unavailable};
use crate::instance::{LoadError, LoadOptions, WitnessInstance};
use crate::maps::MapSizes;

/// How long a packet may take that nothing drops.
const ARRIVAL: Duration = Duration::from_millis(900);
/// How long to look for a packet that the program said it dropped.
const AFTER_DROP: Duration = Duration::from_millis(3);

/// A lab with the eBPF datapath on every node that has a pod in it.
pub(super) struct TcPlace {
    lab: Lab,
    nodes: BTreeMap<String, Enforced>,
    reasons: Result<DropReasons, Unavailable>,
}

/// A node's enforcement.
struct Enforced {
    backend: TcBackend,
    image: Image,
    /// The record of each pod, but for the number of its namespace.
    devices: BTreeMap<ObjectKey, Device>,
    /// One program for each direction that some pair passes here.
    witnesses: BTreeMap<Direction, WitnessInstance>,
}

/// An event and where it was seen: interfaces of two nodes may have the same number.
struct Seen {
    node: String,
    event: Event,
}

impl Drop for TcPlace {
    /// Taking a program off its hook waits for the kernel, so the nodes are done side by side.
    fn drop(&mut self) {
        thread::scope(|scope| {
            for enforced in std::mem::take(&mut self.nodes).into_values() {
                scope.spawn(move || drop(enforced));
            }
        });
    }
}

impl TcPlace {
    /// Builds the namespaces, loads and attaches the program, writes the tables.
    pub(super) fn build(
        cluster: &Cluster,
        rulesets: &Rulesets,
        pairs: &[Pair],
        interfere: Interference<'_>,
    ) -> Result<Self, ProveError> {
        let lab = place::build(cluster, pairs)?;
        let mut asked: BTreeMap<String, BTreeSet<Direction>> = BTreeMap::new();
        for pair in pairs {
            for site in place::hooks(cluster, &lab, pair)?.into_iter().flatten() {
                asked.entry(site.node).or_default().insert(site.direction);
            }
        }
        // Attaching waits for the kernel, so the nodes are done side by side.
        let enforced: Vec<(String, Result<Enforced, ProveError>)> = thread::scope(|scope| {
            let threads: Vec<_> = place::interfaces(&lab)
                .into_iter()
                .map(|(node, interfaces)| {
                    let (lab, asked) = (&lab, asked.remove(&node).unwrap_or_default());
                    scope.spawn(move || {
                        let enforced = enforce(cluster, lab, &node, rulesets, &interfaces, &asked);
                        (node, enforced)
                    })
                })
                .collect();
            let join = |thread: ScopedJoinHandle<'_, _>| {
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            threads.into_iter().map(join).collect()
        });
        let mut nodes = BTreeMap::new();
        for (node, enforced) in enforced {
            let mut enforced = enforced?;
            interfere(Written::Tc(&mut enforced.backend));
            nodes.insert(node, enforced);
        }
        Ok(Self { lab, nodes, reasons: DropReasons::open() })
    }

    /// The namespaces.
    pub(super) fn lab(&self) -> &Lab {
        &self.lab
    }

    /// Asks both witnesses about a pair.
    pub(super) fn observe(
        &mut self,
        cluster: &Cluster,
        pair: &Pair,
        prediction: &Prediction,
    ) -> Result<Observation, ProveError> {
        let sites = place::hooks(cluster, &self.lab, pair)?;
        let mut observation = Observation {
            backend: BackendName::Tc,
            witnesses: Vec::new(),
            hops: [None, None],
            rows: [None, None],
            differences: Vec::new(),
            observed: None,
            drop_reason: None,
            counters: Vec::new(),
            not_examined: Vec::new(),
        };
        self.test_run(pair, &sites, prediction, &mut observation)?;
        let before = self.counters(&sites)?;
        let sent = self.wire((cluster, pair, prediction), &sites, &mut observation)?;
        let after = self.counters(&sites)?;
        observation.counters = wire::moved(&before, &after);
        self.read_back(&sites, prediction, &mut observation)?;
        self.read_service(pair, &sites, &mut observation.differences)?;
        let said = wire::verdict(&sent, pair, dropped(&sites, &observation));
        observation.observed = said.verdict.and_then(evaluate::Outcome::settled);
        if said.verdict.is_some() {
            let silent = silent_hooks(&sites, &observation);
            observation.differences.extend(silent);
        }
        observation.witnesses.push(said);
        Ok(observation)
    }

    /// Witness 3: the program, as a new connection, on the live policy maps.
    fn test_run(
        &mut self,
        pair: &Pair,
        sites: &[Option<HookSite>; 2],
        prediction: &Prediction,
        observation: &mut Observation,
    ) -> Result<(), ProveError> {
        let (Some(sent), Some(arriving)) = (opening(&pair.sent()), opening(&prediction.arriving)) else {
            return Ok(());
        };
        let mut verdicts = Vec::new();
        let mut words = Vec::new();
        for (site, predicted) in sites.iter().zip(&prediction.hops) {
            let Some(site) = site else { continue };
            let Some(enforced) = self.nodes.get_mut(&site.node) else { continue };
            let live = enforced.backend.datapath();
            let Some(witness) = enforced.witnesses.get_mut(&site.direction) else { continue };
            let identity = live.identity().map_err(ProveError::kernel("cannot identify the program"))?;
            if !witness.judges_like(&identity).map_err(ProveError::kernel("cannot identify the program"))? {
                observation.differences.push(format!(
                    "{}: the attached program and the one that was test-run are not the same",
                    site.node
                ));
            }
            let deferred = predicted.is_some_and(|hop| hop.deferred);
            let frame = if site.direction == Direction::Egress { &sent } else { &arriving };
            let netns = self.lab.node(&site.node)?;
            let mut run = netns
                .run(|| witness.test_run(frame, site.ifindex, site.ingress_ifindex))
                .map_err(ProveError::kernel("cannot enter the node"))?
                .map_err(ProveError::kernel("the test run failed"))?;
            if deferred {
                if run.event.is_none_or(|event| event.reason != Reason::Deferred as u8) {
                    observation.differences.push(format!(
                        "test-run at {}'s veth: the verdict was to be deferred, and was not",
                        site.pod
                    ));
                }
                run = netns
                    .run(|| witness.test_run_deferred(&arriving, site.deferred_ifindex, site.ifindex))
                    .map_err(ProveError::kernel("cannot enter the node"))?
                    .map_err(ProveError::kernel("the test run failed"))?;
            }
            verdicts.push(if run.allow { Verdict::Allow } else { Verdict::Deny });
            let Some(event) = run.event else {
                words.push("no event".to_owned());
                continue;
            };
            words.push(format!("entry {}", event.entry));
            if let Some(difference) = predicted.and_then(|hop| hop_difference(&hop, &decided(&event))) {
                observation.differences.push(format!("test-run at {}'s veth: {difference}", site.pod));
            }
        }
        let verdict = verdicts.into_iter().max();
        observation.witnesses.push(match verdict {
            Some(verdict) => witness("test-run", Some(verdict), words.join(", ")),
            None => witness("test-run", None, "no pod on the way has a hook"),
        });
        Ok(())
    }

    /// Witness 4: one packet. What each hook decided goes into the observation.
    fn wire(
        &mut self,
        (cluster, pair, prediction): (&Cluster, &Pair, &Prediction),
        sites: &[Option<HookSite>; 2],
        observation: &mut Observation,
    ) -> Result<Sent, ProveError> {
        for enforced in self.nodes.values_mut() {
            enforced.backend.datapath_mut().events().drain();
        }
        let any_event = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)
            .map_err(ProveError::kernel("cannot wait for events"))?;
        for enforced in self.nodes.values_mut() {
            let events = enforced.backend.datapath_mut().events();
            any_event
                .add(events.as_fd(), EpollEvent::new(EpollFlags::EPOLLIN, 0))
                .map_err(ProveError::kernel("cannot wait for events"))?;
        }
        if let Ok(reasons) = &mut self.reasons {
            // Packets that were freed earlier may have had the address that ours will get.
            reasons.read();
        }
        let mut flow = wire::open(&self.lab, cluster, pair, prediction.arriving)?;
        flow.send()?;
        let end = Instant::now() + ARRIVAL;
        let mut seen: Vec<Seen> = Vec::new();
        let sent = loop {
            let left = end.saturating_duration_since(Instant::now());
            let sent = flow.wait(&Wait::for_at_most(left).or_until_readable(any_event.0.as_fd()))?;
            self.collect((pair, prediction), &mut seen);
            if seen.iter().any(|seen| seen.event.verdict == PolicyValue::DENY) {
                break flow.wait(&Wait::for_at_most(AFTER_DROP))?;
            }
            if sent.is_final() || !sent.woken || left.is_zero() {
                break sent;
            }
        };
        self.collect((pair, prediction), &mut seen);
        for ((slot, site), predicted) in observation.hops.iter_mut().zip(sites).zip(&prediction.hops) {
            let Some(site) = site else { continue };
            let deferred = predicted.is_some_and(|hop| hop.deferred);
            *slot = seen
                .iter()
                .find(|seen| is_of(seen, site, deferred))
                .map(|seen| HopVerdict { deferred, ..decided(&seen.event) });
        }
        observation.drop_reason = self.drop_reason(&seen, &mut observation.not_examined);
        Ok(sent)
    }

    /// Keeps the events of the pair's own packet.
    fn collect(&mut self, (pair, prediction): (&Pair, &Prediction), seen: &mut Vec<Seen>) {
        for (node, enforced) in &mut self.nodes {
            let events = enforced.backend.datapath_mut().events().drain();
            let carrying = events.into_iter().filter(|event| carries(event, pair, prediction.arriving));
            seen.extend(carrying.map(|event| Seen { node: node.clone(), event }));
        }
    }

    /// The kernel's own reason for the drop, joined by the packet's address. Supporting evidence only.
    fn drop_reason(&mut self, seen: &[Seen], not_examined: &mut Vec<String>) -> Option<String> {
        let denied = seen.iter().map(|seen| &seen.event).find(|event| event.verdict == PolicyValue::DENY)?;
        let reasons = match &mut self.reasons {
            Ok(reasons) => reasons,
            Err(unavailable) => {
                not_examined.push(unavailable.to_string());
                return None;
            }
        };
        match reasons.wait_for(denied.skb, AFTER_DROP) {
            Ok(Some(freed)) => Some(freed.reason),
            Ok(None) => {
                not_examined.push("the kernel's drop reason: no record of this packet".to_owned());
                None
            }
            Err(error) => {
                not_examined.push(format!("the kernel's drop reason: {error}"));
                None
            }
        }
    }

    fn counters(&self, sites: &[Option<HookSite>; 2]) -> Result<BTreeMap<u32, u64>, ProveError> {
        let nodes: BTreeSet<&str> = sites.iter().flatten().map(|site| site.node.as_str()).collect();
        let mut sum: BTreeMap<u32, u64> = BTreeMap::new();
        for node in nodes {
            let Some(enforced) = self.nodes.get(node) else { continue };
            let entries: BTreeSet<u32> = enforced.image.policy.values().map(|value| value.entry).collect();
            let counters = &enforced.backend.datapath().state().counters;
            let read = counters.read(entries).map_err(ProveError::kernel("cannot read the counters"))?;
            for (entry, count) in read {
                *sum.entry(entry).or_default() += count;
            }
        }
        Ok(sum)
    }

    /// Reads the predicted rows back, and compares them with what was compiled.
    fn read_back(
        &self,
        sites: &[Option<HookSite>; 2],
        prediction: &Prediction,
        observation: &mut Observation,
    ) -> Result<(), ProveError> {
        for ((site, hop), row) in sites.iter().zip(&prediction.hops).zip(&mut observation.rows) {
            let (Some(site), Some(hop)) = (site, hop) else { continue };
            let Some(enforced) = self.nodes.get(&site.node) else { continue };
            let Some(device) = enforced.devices.get(&site.pod) else { continue };
            let maps = enforced.backend.datapath().policy();
            let compiled = Compiled { image: &enforced.image, device };
            *row = Some(compiled.read_back(maps, site, hop, &mut observation.differences)?);
        }
        Ok(())
    }
}

impl TcPlace {
    /// Reads the row of the Service back by which the packet is sent, and compares it with what was compiled.
    fn read_service(
        &self,
        pair: &Pair,
        sites: &[Option<HookSite>; 2],
        differences: &mut Vec<String>,
    ) -> Result<(), ProveError> {
        let (Some(via), Some(site)) = (&pair.via, &sites[0]) else { return Ok(()) };
        let Some(enforced) = self.nodes.get(&site.node) else { return Ok(()) };
        let key = ServiceKey {
            address: stored(via.address),
            port: via.port,
            protocol: pair.tuple.protocol,
            zero: 0,
        };
        let map = &enforced.backend.datapath().policy().services;
        let found = map.get(&key).map_err(ProveError::kernel("cannot read SERVICES"))?;
        let compiled = enforced.image.services.get(&key).copied();
        if found != compiled {
            let words =
                |value: Option<ServiceValue>| value.map_or_else(|| "no row".to_owned(), service_words);
            differences.push(format!(
                "SERVICES id {} {}:{}: compiled {}, the kernel holds {}",
                map.id(),
                via.address,
                via.port,
                words(compiled),
                words(found)
            ));
        }
        Ok(())
    }
}

/// All that a row says: what differs must be among it.
fn service_words(value: ServiceValue) -> String {
    let ServiceValue { targets, former, since, echo } = value;
    let mut words = targets_words(targets);
    if since != 0 || former != ServiceTargets::default() {
        let _ = write!(words, ", from generation {since} on, formerly {}", targets_words(former));
    }
    let _ = write!(words, ", echo {echo:#x}");
    words
}

fn targets_words(targets: ServiceTargets) -> String {
    let ServiceTargets { list, count, flags, .. } = targets;
    let list: Vec<String> = list
        .into_iter()
        .filter(|target| *target != ServiceTarget::default())
        .map(|target| format!("class {} port {}", target.peer_class, target.port))
        .collect();
    let list = if list.is_empty() { "no endpoint".to_owned() } else { list.join(", ") };
    format!("{list} (count {count}, flags {flags})")
}

fn enforce(
    cluster: &Cluster,
    lab: &Lab,
    node: &str,
    rulesets: &Rulesets,
    interfaces: &BTreeMap<ObjectKey, String>,
    asked: &BTreeSet<Direction>,
) -> Result<Enforced, ProveError> {
    let change = place::change(cluster, lab, rulesets, node, interfaces);
    let image = Image::from_change(&change)?;
    let netns = lab.node(node)?.try_clone().map_err(ProveError::kernel("cannot hold the node"))?;
    let failed = |source| ProveError::Backend { backend: "tc", source };
    let mut backend = TcBackend::load(netns, &options(rulesets, &change, &image)).map_err(failed)?;
    backend.apply(&change).map_err(failed)?;
    let witnesses = asked
        .iter()
        .map(|direction| Ok((*direction, backend.datapath().witness(*direction)?)))
        .collect::<Result<_, LoadError>>()
        .map_err(ProveError::kernel("cannot load the program a second time"))?;
    let devices = change.pods.iter().map(|pod| {
        let key = ObjectKey::new(&pod.namespace, &pod.name);
        (key, image.device(pod, Compiled::NO_NAMESPACE))
    });
    Ok(Enforced { devices: devices.collect(), backend, image, witnesses })
}

/// A lab's sizes, larger where the change needs it, with no more counters than there are entries: each is made once per CPU and instance. Arrays that hold
/// every number of the change, so that the kernel's numbers are the change's and rows can be compared by them.
fn options(rulesets: &Rulesets, change: &Change, image: &Image) -> LoadOptions {
    let counters = rulesets.numbers.entry_limit().max(FIRST_COMPILED_ENTRY).next_power_of_two();
    let last = change.rulesets.last().map_or(0, |ruleset| ruleset.id);
    let rulesets = MapSizes::LAB.rulesets.max(last.saturating_add(1));
    let sizes = MapSizes::LAB.holding(image, 1);
    LoadOptions { sizes: MapSizes { rulesets, counters, ..sizes }, ..LoadOptions::LAB }
}

fn stored(address: std::net::IpAddr) -> Address {
    match address {
        std::net::IpAddr::V4(address) => mapped(address.octets()),
        std::net::IpAddr::V6(address) => address.octets(),
    }
}

/// True for the event of the pair's own packet. A pod that is open both ways is judged without reading the packet,
/// so its events bear no addresses.
fn carries(event: &Event, pair: &Pair, arriving: Tuple) -> bool {
    if event.protocol == 0 && event.source == [0; 16] {
        return true;
    }
    // Before the node's translation, after that of its destination, and after that of its source.
    [pair.sent(), pair.tuple, arriving].iter().any(|tuple| {
        event.source == stored(tuple.source)
            && event.destination == stored(tuple.destination)
            && event.protocol == tuple.protocol
            && (event.source_port == tuple.source_port
                || matches!(event.protocol, 1 | 58)
                || event.source_port == 0
                || tuple.source != pair.tuple.source)
    })
}

fn is_of(Seen { node, event }: &Seen, site: &HookSite, deferred: bool) -> bool {
    // That it was deferred is not what was decided.
    let decided = !deferred || event.entry != Reason::Deferred.entry();
    *node == site.node && event.ifindex == site.ifindex && event.direction == site.direction as u8 && decided
}

fn decided(event: &Event) -> HopVerdict {
    HopVerdict {
        direction: if event.direction == Direction::Ingress as u8 {
            Direction::Ingress
        } else {
            Direction::Egress
        },
        verdict: if event.verdict == PolicyValue::ALLOW { Verdict::Allow } else { Verdict::Deny },
        entry: event.entry,
        reason: Reason::from_u8(event.reason).unwrap_or(Reason::Row),
        peer_class: event.peer_class,
        port_class: event.port_class,
        deferred: false,
    }
}

/// Hooks on the packet's way that told of no decision: no program is there, or another saw the packet first.
fn silent_hooks(sites: &[Option<HookSite>; 2], observation: &Observation) -> Vec<String> {
    let mut silent = Vec::new();
    for (site, hop) in sites.iter().zip(&observation.hops) {
        match (site, hop) {
            (Some(site), None) => {
                silent.push(format!("the packet was not judged at {}'s veth, which it passed", site.pod));
            }
            // What egress denies does not come to ingress.
            (_, Some(hop)) if hop.verdict == Verdict::Deny => break,
            _ => {}
        }
    }
    silent
}

/// Where the program said that it dropped the packet.
fn dropped(sites: &[Option<HookSite>; 2], observation: &Observation) -> Option<String> {
    let hop = observation.hops.iter().flatten().find(|hop| hop.verdict == Verdict::Deny)?;
    let site = sites.iter().flatten().find(|site| site.direction == hop.direction)?;
    let reason = observation.drop_reason.as_ref().map(|reason| format!(", {reason}")).unwrap_or_default();
    Some(format!("{reason} at {}'s veth", site.pod))
}
