//! The supervisor's side: backends on every node of the lab, and answers about them.
//!
//! Invariant: one lock guards everything, so an answer never mixes two changes; it is not held while a client is
//! written to.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use netlab_core::diagnostic::{Diagnostic, Severity};
use netlab_core::input::Loaded;
use netlab_core::model::cluster::{Cluster, ObjectKey};
use netlab_core::policy::frontends::Site;
use netlab_core::policy::image::Image;
use netlab_core::policy::{Limits, Numbers, Posture, Rulesets, Scope, compile_with};
use netlab_ebpf::abi::Direction;
use netlab_enforcer::LoadOptions;
use netlab_enforcer::attach::Attached;
use netlab_enforcer::backend::tc::TcBackend;
use netlab_enforcer::maps::MapSizes;
use netlab_lab::named::{Handler, Reply};
use netlab_lab::proxy::{self, ProxyMode};
use netlab_lab::{Lab, Place};
use netlab_plugin::contract::Backend;
use serde_json::Value;

use super::rows::{self, Words, posture};
use super::{InForce, MapDump, NodeInForce, NodeMap, PodInForce, operation};

/// How many changes back a decision can be cited.
const REMEMBERED_CHANGES: usize = 16;
/// How many times as large as the first set a later one may be, with the one before it still in the maps.
const HEADROOM: u32 = 4;

/// The enforcer of a lab.
#[derive(Default)]
pub(crate) struct Enforcer {
    state: Mutex<State>,
    /// Whose rules the nodes have, if they have any.
    proxy: Option<ProxyMode>,
    pub(super) tracing: Mutex<()>,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) nodes: BTreeMap<String, TcBackend>,
    pub(super) history: History,
    numbers: Numbers,
    generation: u32,
}

/// What is in force, and what was.
#[derive(Default)]
pub(super) struct History {
    /// By generation; the last is in force, if anything is.
    changes: BTreeMap<u32, Compiled>,
    in_force: bool,
}

/// What a generation was compiled from and to.
pub(super) struct Compiled {
    pub(super) cluster: Cluster,
    pub(super) rulesets: Rulesets,
}

impl History {
    fn record(&mut self, generation: u32, compiled: Compiled) {
        self.in_force = true;
        self.changes.insert(generation, compiled);
        while self.changes.len() > REMEMBERED_CHANGES {
            self.changes.pop_first();
        }
    }

    /// What is in force.
    fn rulesets(&self) -> Option<&Rulesets> {
        self.changes.last_key_value().filter(|_| self.in_force).map(|(_, compiled)| &compiled.rulesets)
    }

    /// The generation in force; 0 when nothing is.
    pub(super) fn generation(&self) -> u32 {
        self.changes.last_key_value().filter(|_| self.in_force).map_or(0, |(generation, _)| *generation)
    }

    /// What was in force when a decision of this generation fell.
    pub(super) fn compiled(&self, generation: u32) -> Option<&Compiled> {
        self.changes.range(..=generation).next_back().map(|(_, compiled)| compiled)
    }
}

impl Handler for Enforcer {
    fn handle(
        &self,
        lab: &Lab,
        operation: &str,
        parameters: &Value,
        reply: &mut Reply<'_>,
    ) -> Result<Value, String> {
        let json = |error: serde_json::Error| error.to_string();
        match operation {
            operation::DETACH => {
                self.detach()?;
                serde_json::to_value(self.in_force(lab, false)?).map_err(json)
            }
            operation::STATUS => {
                let audit = parameters.as_bool().unwrap_or(false);
                serde_json::to_value(self.in_force(lab, audit)?).map_err(json)
            }
            operation::MAP => {
                let map = parameters.as_str().unwrap_or_default();
                serde_json::to_value(self.map(lab, map)?).map_err(json)
            }
            operation::TRACE => self.trace(lab, reply).map(|()| Value::Null),
            operation::LAST => {
                let pod = parameters.as_str().unwrap_or_default();
                serde_json::to_value(self.last_drops(lab, pod)?).map_err(json)
            }
            _ => Err(format!("this lab does not know `{operation}`")),
        }
    }
}

impl Enforcer {
    /// Nothing in force yet.
    pub(crate) fn new(proxy: Option<ProxyMode>) -> Self {
        Self { proxy, ..Self::default() }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whose rules the nodes have, if they have any.
    pub(crate) const fn proxy(&self) -> Option<ProxyMode> {
        self.proxy
    }

    /// Does something with what is in force, which does not change meanwhile.
    pub(crate) fn with_rulesets<T>(&self, work: impl FnOnce(Option<&Rulesets>) -> T) -> T {
        work(self.state().history.rulesets())
    }

    /// True when policies are in force.
    pub(crate) fn is_on(&self) -> bool {
        self.state().history.in_force
    }

    /// Puts the policies of these manifests into force.
    pub(crate) fn attach(&self, lab: &Lab, loaded: Loaded) -> Result<(), String> {
        // A pod that the manifests do not have would be let go, and be open: `detach` is for that.
        let unknown = |key: &&ObjectKey| !loaded.cluster.pods.contains_key(*key);
        let mut unknown = lab.host_interfaces().keys().filter(unknown);
        if let Some(pod) = unknown.next() {
            let more = match unknown.count() {
                0 => "is".to_owned(),
                more => format!("and {more} more are"),
            };
            return Err(format!(
                "pod {pod} of the lab {more} not in these manifests and would be left open; name with `-f` all that the lab was made of"
            ));
        }
        let mut state = self.state();
        let pods: BTreeSet<ObjectKey> = lab.host_interfaces().keys().cloned().collect();
        let compiled = compile_with(
            &loaded.cluster,
            &loaded.policies,
            &Scope::Pods(pods),
            &state.numbers,
            &Limits::default(),
        );
        if let Some(refused) = compiled.diagnostics.iter().find(|found| found.severity == Severity::Error) {
            return Err(sentence(refused));
        }
        state.numbers = compiled.rulesets.numbers.clone();
        let generation = state.generation + 1;
        let change_on = |node: &String| {
            let change = compiled.rulesets.change(generation, |key| {
                lab.host_interfaces().get(key).filter(|at| at.node == *node).map(|at| at.name.clone())
            });
            let addresses = lab.plan().own_addresses(&Place::Node(node.clone()));
            let wires = lab.plan().wires(node);
            change.serving(Site { cluster: &loaded.cluster, node, addresses: &addresses, wires: &wires })
        };
        let nodes: BTreeSet<&String> =
            lab.host_interfaces().values().map(|interface| &interface.node).collect();
        for node in nodes {
            if !state.nodes.contains_key(node) {
                let netns = lab.node(node).and_then(|netns| {
                    netns.try_clone().map_err(|source| netlab_lab::LabError::Build {
                        place: Place::Node(node.clone()),
                        source,
                    })
                });
                // The maps cannot grow later without a gap, so they have room for sets of some times this size.
                let image = Image::from_change(&change_on(node)).map_err(|error| chain(&error))?;
                let sizes = MapSizes::LAB.holding(&image, HEADROOM);
                let options = LoadOptions { sizes, ..LoadOptions::LAB };
                let backend = TcBackend::load(netns.map_err(|error| chain(&error))?, &options)
                    .map_err(|error| format!("node {node}: {}", chain(&error)))?;
                state.nodes.insert(node.clone(), backend);
            }
            let change = change_on(node);
            let Some(backend) = state.nodes.get_mut(node) else { continue };
            backend.apply(&change).map_err(|error| {
                let hint = error.hint.as_ref().map(|hint| format!(" ({hint})")).unwrap_or_default();
                format!("node {node}: {}{hint}", chain(&error))
            })?;
        }
        state.generation = generation;
        let compiled = Compiled { cluster: loaded.cluster, rulesets: compiled.rulesets };
        state.history.record(generation, compiled);
        Ok(())
    }

    /// Gives every node the proxy's rules for these Services, if the lab has a proxy.
    pub(crate) fn write_proxy(&self, lab: &Lab, cluster: &Cluster) -> Result<(), String> {
        let Some(mode) = self.proxy else { return Ok(()) };
        proxy::program(lab, cluster, mode).map_err(|error| chain(&error))
    }

    fn detach(&self) -> Result<(), String> {
        let mut state = self.state();
        let left: Vec<String> = state
            .nodes
            .values_mut()
            .flat_map(TcBackend::teardown)
            .map(|leftover| format!("{}: {}", leftover.what, leftover.why))
            .collect();
        state.nodes.clear();
        state.history.in_force = false;
        if left.is_empty() { Ok(()) } else { Err(left.join("; ")) }
    }

    fn in_force(&self, lab: &Lab, audit: bool) -> Result<InForce, String> {
        let mut state = self.state();
        let State { nodes: backends, history, .. } = &mut *state;
        let rulesets = history.rulesets();
        let generation = history.generation();
        let names: BTreeSet<&String> = lab.host_interfaces().values().map(|at| &at.node).collect();
        let mut nodes = Vec::new();
        for name in names {
            let netns_fd = lab.node(name).map_or(-1, |netns| netns.as_fd().as_raw_fd());
            let mut node = NodeInForce { node: name.clone(), netns_fd, ..NodeInForce::default() };
            let mut pods = BTreeMap::new();
            for (key, at) in lab.host_interfaces().iter().filter(|(_, at)| at.node == *name) {
                let pod = PodInForce {
                    pod: key.to_string(),
                    interface: at.name.clone(),
                    ifindex: at.index,
                    ..PodInForce::default()
                };
                pods.insert(at.index, pod);
            }
            if let Some(backend) = backends.get_mut(name) {
                let observed = backend.observe().map_err(|error| chain(&error))?;
                node.drift = observed.drift;
                node.counters = observed.counters.into_iter().filter(|(_, packets)| *packets > 0).collect();
                describe(backend, lab, name, &mut node, &mut pods)?;
                for (key, at) in lab.host_interfaces().iter().filter(|(_, at)| at.node == *name) {
                    let device = backend.datapath().policy().devices.get(at.index);
                    let (Some(pod), Ok(Some(device))) = (pods.get_mut(&at.index), device) else { continue };
                    if pod.claimed {
                        let of = |direction| posture(rulesets, key, device.word, direction);
                        (pod.ingress, pod.egress) = (of(Direction::Ingress), of(Direction::Egress));
                        pod.ingress_isolated = pod.ingress == Posture::Isolated;
                        pod.egress_isolated = pod.egress == Posture::Isolated;
                    }
                }
                if audit {
                    let audit = backend.audit().map_err(|error| format!("node {name}: {}", chain(&error)))?;
                    node.audit = Some(rows::audit(audit, rulesets));
                }
            }
            node.pods = pods.into_values().collect();
            node.pods.sort_by(|a, b| a.pod.cmp(&b.pod));
            nodes.push(node);
        }
        Ok(InForce { generation, pid: std::process::id(), nodes })
    }

    fn map(&self, lab: &Lab, map: &str) -> Result<MapDump, String> {
        let state = self.state();
        let mut dump = MapDump::default();
        for (name, backend) in &state.nodes {
            let slots = backend.tables().map(|tables| &tables.slots);
            let mut words = Words {
                rulesets: state.history.rulesets(),
                slots,
                pods: BTreeMap::new(),
                by_ruleset: BTreeMap::new(),
            };
            for (key, at) in lab.host_interfaces().iter().filter(|(_, at)| at.node == *name) {
                words.pods.insert(at.index, key.clone());
                let device = backend.datapath().policy().devices.get(at.index);
                if let Ok(Some(device)) = device {
                    words.by_ruleset.entry(device.word.ruleset()).or_default().push(key.to_string());
                }
            }
            let counted = backend.counters().map_err(|error| chain(&error))?;
            let slot = |entry: u32| slots.and_then(|slots| slots.entries.slot(entry)).unwrap_or(entry);
            let entries: Vec<u32> = counted.into_keys().map(slot).collect();
            let read =
                rows::read(map, backend.datapath(), &entries, &words).map_err(|error| chain(&error))?;
            for (map, map_id, rows) in read {
                dump.nodes.push(NodeMap { node: name.clone(), map: map.to_owned(), map_id, rows });
            }
        }
        Ok(dump)
    }
}

/// Programs, maps and claims of a node.
fn describe(
    backend: &TcBackend,
    lab: &Lab,
    name: &str,
    node: &mut NodeInForce,
    pods: &mut BTreeMap<u32, PodInForce>,
) -> Result<(), String> {
    let datapath = backend.datapath();
    for (program, direction) in [("from_pod", Direction::Egress), ("to_pod", Direction::Ingress)] {
        node.programs.insert(program.to_owned(), datapath.program(direction).id());
    }
    node.programs.insert("to_wire".to_owned(), datapath.to_wire().id());
    node.maps = datapath.policy().ids().into_iter().map(|(map, id)| (map.to_owned(), id)).collect();
    let state = datapath.state();
    node.maps.insert("CONNTRACK4".to_owned(), state.conntrack4.id());
    node.maps.insert("CONNTRACK6".to_owned(), state.conntrack6.id());
    node.maps.insert("COUNTERS".to_owned(), state.counters.id());
    node.maps.insert("LAST_DROP".to_owned(), state.last_drops.id());
    node.lost_events = state.lost_events().map_err(|error| chain(&error))?;
    node.sampled_events = state.sampled_out_events().map_err(|error| chain(&error))?;
    node.rows = datapath.policy().policy.keys().map_err(|error| chain(&error))?.len() as u64;
    for attached in backend.attached() {
        let Some(pod) = pods.get_mut(&attached.ifindex()) else { continue };
        pod.claimed = true;
        let device = datapath.policy().devices.get(attached.ifindex()).map_err(|error| chain(&error))?;
        if let Some(device) = device {
            pod.ruleset = device.word.ruleset();
        }
        match before_us(attached, lab, name) {
            Ok(others) => pod.before_us = others,
            Err(error) => {
                pod.claimed = false;
                node.drift.push(format!("{}: {error}", pod.pod));
            }
        }
    }
    Ok(())
}

fn before_us(attached: &Attached, lab: &Lab, node: &str) -> Result<Vec<String>, String> {
    let netns = lab.node(node).map_err(|error| chain(&error))?;
    let asked = netns.run(|| {
        let mut names = Vec::new();
        for direction in [Direction::Egress, Direction::Ingress] {
            let others = attached.before_us(direction).map_err(|error| chain(&error))?;
            names.extend(others.into_iter().map(|other| format!("{} (id {})", other.name, other.id)));
        }
        Ok(names)
    });
    asked.map_err(|error| chain(&error))?
}

/// A finding on one line.
fn sentence(finding: &Diagnostic) -> String {
    let object = finding.object.as_ref().map(|object| format!("{object}: ")).unwrap_or_default();
    format!("{object}{} [{}]", finding.message, finding.code)
}

/// An error and its causes on one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
