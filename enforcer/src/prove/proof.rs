//! A proof, as data: what was predicted, what was seen, and the one entry that decided.
//!
//! Invariant: the outcome is [`ProofOutcome::Proved`] only when every witness that was heard agrees and a kernel
//! was asked; a witness that could not be heard is listed with the reason, never left out. Field names are part
//! of the JSON that scripts rely on.

use std::net::IpAddr;

use netlab_core::policy::change::Verdict;
use netlab_core::policy::evaluate::{Outcome, Side, TierName, ViaRef};
use netlab_core::policy::near_miss::NearMiss;
use netlab_core::policy::provenance::{PolicyRef, RuleRef};
use serde::Serialize;

/// What a proof came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ProofOutcome {
    /// The kernel did what was predicted.
    Proved,
    /// Two witnesses disagree.
    Contradicted,
    /// No kernel was asked, or what it did could not be seen, or the API defines no verdict that it could prove.
    Inconclusive,
}

/// How the kernel was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// A real packet met real tables.
    Kernel,
    /// Nothing was sent.
    Simulated,
}

/// Which datapath enforced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum BackendName {
    /// The eBPF program.
    Tc,
    /// nftables.
    Nft,
}

/// The proof of one packet.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Proof {
    /// What it came to.
    pub outcome: ProofOutcome,
    /// The packet.
    pub query: ProvenQuery,
    /// By which address of a Service it was sent, if its node translates that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub via: Option<ViaRef>,
    /// What the specification says. The compiled tables agree, or the outcome is contradicted; where it is undefined
    /// they deny.
    pub predicted: Outcome,
    /// Why the API does not define the verdict, if it does not: `tie between AdminNetworkPolicy a and …`.
    pub undefined: Option<String>,
    /// What the kernel did, if it was asked and could be seen.
    pub observed: Option<Verdict>,
    /// Whether a kernel was asked.
    pub mode: Mode,
    /// The datapath.
    pub backend: Option<BackendName>,
    /// The packet's hooks, in order.
    pub hops: Vec<Hop>,
    /// The entry that decided: the denying hop's, or for allow the destination's.
    pub entry: Option<EntryRef>,
    /// The rule behind it.
    pub rule: Option<RuleRef>,
    /// The policies that isolate the deciding side.
    pub isolated_by: Vec<PolicyRef>,
    /// For a default deny: the rules that came closest.
    pub near_misses: Vec<NearMiss>,
    /// The `Pass` rules that led there.
    pub passed: Vec<RuleRef>,
    /// Other rules that matched too.
    pub losers: Vec<RuleRef>,
    /// The policies whose order the API leaves open, so that the verdict is netlab's own: it denies.
    pub tied: Vec<PolicyRef>,
    /// Everybody who was asked.
    pub witnesses: Vec<Witness>,
    /// The kernel's own name for the drop, `TC_EGRESS` for instance.
    pub drop_reason: Option<String>,
    /// Every counter of an entry that moved while the packet was under way.
    pub counters: Vec<CounterDelta>,
    /// What differs, when the outcome is contradicted.
    pub differences: Vec<String>,
    /// What was not examined.
    #[serde(skip)]
    pub not_examined: Vec<String>,
}

/// The packet of a proof.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ProvenQuery {
    /// Who opens.
    pub from: String,
    /// To whom.
    pub to: String,
    /// `TCP`, `UDP`, `SCTP`, `ICMP` or a number.
    pub protocol: String,
    /// Destination port; 0 where the protocol has none.
    pub port: u16,
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
}

/// One hook on the packet's way.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Hop {
    /// `from_pod` or `to_pod`.
    pub hook: &'static str,
    /// `egress` or `ingress`, seen from the pod.
    pub direction: &'static str,
    /// The pod.
    pub pod: String,
    /// What the tables say here.
    pub verdict: Verdict,
    /// The tier that decided.
    pub tier: TierName,
    /// The deciding entry.
    pub entry: EntryRef,
    /// The rule behind it.
    pub rule: Option<RuleRef>,
    /// In words, when no rule decided.
    pub reason: String,
    /// True when the packet got as far as this hook.
    pub reached: bool,
    /// All that is known of this side.
    pub side: Side,
}

/// A row of a kernel map, so that anybody can read it again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EntryRef {
    /// The entry id.
    pub id: u32,
    /// `POLICY`, or `DEVICES` for a pod that no policy isolates at all; for nftables the counter's name.
    pub map: String,
    /// The map's id in the kernel.
    pub map_id: Option<u32>,
    /// The key, in hex with spaces.
    pub key_hex: String,
    /// The value as read back from the kernel, or as compiled when nothing was loaded.
    pub value_hex: String,
    /// The key's parts in words.
    pub key_text: String,
    /// The command that shows it, while the place is there.
    pub bpftool: Option<String>,
}

/// Somebody who was asked for the verdict.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Witness {
    /// `spec`, `tables`, `test-run` or `wire`.
    pub name: &'static str,
    /// What it says; `None` when it was not heard. Only the specification can say `undefined`.
    pub verdict: Option<Outcome>,
    /// How it knows, or why it was not heard.
    pub detail: String,
}

/// A counter that moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CounterDelta {
    /// The entry.
    pub entry: u32,
    /// Packets before.
    pub before: u64,
    /// Packets after.
    pub after: u64,
    /// What a built-in entry stands for, in words; `None` for entries of policies.
    pub reason: Option<&'static str>,
}
