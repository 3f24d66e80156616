//! The enforcer inside a lab's supervisor: policies in, verdicts and maps out.
//!
//! Invariant: a change is in force on all nodes of the lab or the command that asked for it is told which node
//! failed; the numbers of classes, entries and pods live as long as the supervisor, so an entry keeps its
//! meaning from one change to the next. Knows nothing of arguments and output.

mod cause;
mod decision;
mod inside;
mod last;
mod rows;
mod trace;

use netlab_core::policy::Posture;
use netlab_lab::named::RunDir;
use netlab_lab::proxy::ProxyMode;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

use crate::lab::names::Naming;

pub(crate) use cause::Cause;
pub(crate) use decision::Decision;
pub(crate) use inside::{Enforcer, chain};

/// The operations that a supervisor with an enforcer knows.
pub(crate) mod operation {
    /// Put policies into force: [`super::Policies`] in, [`super::InForce`] out.
    pub(crate) const ATTACH: &str = "enforce.attach";
    /// Take the programs off; [`super::InForce`] out.
    pub(crate) const DETACH: &str = "enforce.detach";
    /// `true` in for an audit, [`super::InForce`] out.
    pub(crate) const STATUS: &str = "enforce.status";
    /// A map's name in, [`super::MapDump`] out.
    pub(crate) const MAP: &str = "enforce.map";
    /// [`super::Told`] until nobody listens.
    pub(crate) const TRACE: &str = "enforce.trace";
    /// A pod as namespace/name in, [`super::LastDrops`] out.
    pub(crate) const LAST: &str = "enforce.last";
}

/// Texts of policies and of the cluster around them.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Policies {
    /// (name, text) of each.
    pub(crate) documents: Vec<(String, String)>,
}

/// What a lab's supervisor is to make of the lab before it serves.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Order {
    /// What the lab is made of.
    pub(crate) policies: Policies,
    /// True when nothing is to be enforced yet.
    pub(crate) open: bool,
    /// How nodes are to lead from Services to their endpoints, if at all.
    pub(crate) proxy: Option<ProxyMode>,
    /// The lab's name, and where its files go.
    pub(crate) name: String,
    /// Where the lab is registered.
    pub(crate) run_dir: RunDir,
    /// Objects that were put to the manifests for names to work.
    pub(crate) added: Vec<(String, String)>,
    /// How names are made, if at all.
    pub(crate) naming: Option<Naming>,
}

/// What is in force in a lab.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct InForce {
    /// 0 when nothing is.
    pub(crate) generation: u32,
    /// The supervisor.
    pub(crate) pid: u32,
    /// By node.
    pub(crate) nodes: Vec<NodeInForce>,
}

/// What is in force on a node.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NodeInForce {
    /// The node.
    pub(crate) node: String,
    /// The descriptor of its network namespace in the supervisor.
    pub(crate) netns_fd: i32,
    /// Program ids by name.
    pub(crate) programs: BTreeMap<String, u32>,
    /// Map ids by name.
    pub(crate) maps: BTreeMap<String, u32>,
    /// Policy-map rows.
    pub(crate) rows: u64,
    /// Its pods.
    pub(crate) pods: Vec<PodInForce>,
    /// Differences between what should be in the maps and what is.
    pub(crate) drift: Vec<String>,
    /// Packets by entry, as far as any was seen.
    pub(crate) counters: BTreeMap<u32, u64>,
    /// Decisions that did not fit into the ring: nobody read it, or not fast enough.
    pub(crate) lost_events: u64,
    /// Decisions of floods beyond what is told of them.
    pub(crate) sampled_events: u64,
    /// Everything compared, when that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) audit: Option<NodeAudit>,
}

/// What of a node was compared with what it should be.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NodeAudit {
    /// Each thing that was.
    pub(crate) compared: Vec<Compared>,
    /// Each difference.
    pub(crate) differences: Vec<Difference>,
}

/// Something that was compared.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Compared {
    /// A map's name, a program's, `constants` or `hooks`.
    pub(crate) object: String,
    /// The kernel's id of it.
    pub(crate) id: Option<u32>,
    /// How many rows it should have.
    pub(crate) rows: u64,
    /// How many bytes of the kernel's were compared.
    pub(crate) bytes: u64,
}

/// Something that is not as it should be.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Difference {
    /// As in [`Compared`].
    pub(crate) object: String,
    /// The kernel's id of it.
    pub(crate) id: Option<u32>,
    /// Which row or hook, in words.
    pub(crate) element: String,
    /// What is wrong with it.
    pub(crate) what: String,
    /// The row's key, as `bpftool` takes it.
    pub(crate) key_hex: String,
    /// What it should hold; none when it should not be.
    pub(crate) expected_hex: Option<String>,
    /// What the kernel holds; none when it is not there.
    pub(crate) found_hex: Option<String>,
    /// The entry that the row is to cite.
    pub(crate) entry: Option<u32>,
    /// The rule that put that entry there.
    pub(crate) because: String,
}

/// A pod of a lab.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PodInForce {
    /// namespace/name.
    pub(crate) pod: String,
    /// The node's end of its link.
    pub(crate) interface: String,
    /// The number of that.
    pub(crate) ifindex: u32,
    /// Whether our programs are on it.
    pub(crate) claimed: bool,
    /// Its ruleset; 0 when it has none.
    pub(crate) ruleset: u32,
    /// How policies stand to what comes in.
    pub(crate) ingress: Posture,
    /// How policies stand to what goes out.
    pub(crate) egress: Posture,
    /// Whether a NetworkPolicy isolates it for ingress.
    pub(crate) ingress_isolated: bool,
    /// Whether a NetworkPolicy isolates it for egress.
    pub(crate) egress_isolated: bool,
    /// Programs of others that see its packets first.
    pub(crate) before_us: Vec<String>,
}

/// What a trace is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Told {
    /// A decision.
    Decision(Box<Decision>),
    /// Decisions that are not among these.
    NotShown(NotShown),
}

/// How many decisions of a node were not told since it was last said.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NotShown {
    /// The node.
    pub(crate) node: String,
    /// Of a flood, beyond what is told of it.
    pub(crate) sampled: u64,
    /// The ring was full.
    pub(crate) lost: u64,
}

/// What was dropped last, of a pod.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LastDrops {
    /// namespace/name.
    pub(crate) pod: String,
    /// The generation in force; 0 when nothing is.
    pub(crate) generation: u32,
    /// The newest first.
    pub(crate) drops: Vec<LastDrop>,
}

/// A hook's last drop.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LastDrop {
    /// How long ago, to the kernel's tick; time for which the machine slept does not count.
    pub(crate) seconds_ago: f64,
    /// How many packets the hook has dropped, with this one.
    pub(crate) number: u64,
    /// The generation that was in force.
    pub(crate) generation: u32,
    /// Who sent it, if that can be told.
    pub(crate) from: Option<String>,
    /// To whom.
    pub(crate) to: Option<String>,
    /// The decision.
    #[serde(flatten)]
    pub(crate) decision: Decision,
    /// The kernel's id of the map.
    pub(crate) map_id: u32,
    /// The key, as `bpftool` takes it.
    pub(crate) key_hex: String,
}

/// A map as the kernel holds it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MapDump {
    /// By node.
    pub(crate) nodes: Vec<NodeMap>,
}

/// A map of a node.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NodeMap {
    /// The node.
    pub(crate) node: String,
    /// The map's name in the object.
    pub(crate) map: String,
    /// Its id in the kernel.
    pub(crate) map_id: u32,
    /// Its rows.
    pub(crate) rows: Vec<MapRow>,
}

/// A row of a map.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MapRow {
    /// The key, as `bpftool` takes it.
    pub(crate) key_hex: String,
    /// The value, as `bpftool` prints it.
    pub(crate) value_hex: String,
    /// The pods that it is about; empty when it is about none in particular.
    pub(crate) pods: Vec<String>,
    /// Its meaning, a word per column.
    pub(crate) words: Vec<String>,
}

/// Bytes as `bpftool` takes and prints them.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ")
}
