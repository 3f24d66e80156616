//! The kernel's witness of the nftables datapath: the wire.
//!
//! Invariant: the same rulesets, another kernel implementation, and no privilege on the machine: it works as root
//! of a user namespace. There is no test-run of nftables, so that witness is not heard and the proof says so;
//! which entry decided is read from the entries' own counters.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use netlab_core::model::cluster::Cluster;
use netlab_core::policy::Rulesets;
use netlab_core::policy::change::Verdict;
use netlab_core::policy::evaluate;
use netlab_core::policy::frame::Tuple;
use netlab_core::policy::query::Pair;
use netlab_lab::Lab;
use netlab_lab::traffic::{Outcome, Sent, Wait};
use netlab_plugin::contract::Backend;

use super::error::ProveError;
use super::place::{self, HookSite};
use super::predict::Prediction;
use super::proof::{BackendName, EntryRef};
use super::wire;
use super::witness::Observation;
use super::{Interference, Written};
use crate::backend::nft::{DEFAULT_TABLE, NftBackend};

/// How long a packet may take that no rule drops.
const ARRIVAL: Duration = Duration::from_millis(900);
/// How often the counters are looked at meanwhile: nftables tells nobody that it dropped a packet.
const LOOK: Duration = Duration::from_millis(10);

/// A lab with the nftables datapath on every node that has a pod in it.
pub(super) struct NftPlace {
    lab: Lab,
    nodes: BTreeMap<String, NftBackend>,
}

impl NftPlace {
    /// Builds the namespaces and loads the rules.
    pub(super) fn build(
        cluster: &Cluster,
        rulesets: &Rulesets,
        pairs: &[Pair],
        interfere: Interference<'_>,
    ) -> Result<Self, ProveError> {
        let lab = place::build(cluster, pairs)?;
        let mut nodes = BTreeMap::new();
        for (node, interfaces) in place::interfaces(&lab) {
            let netns = lab.node(&node)?.try_clone().map_err(ProveError::kernel("cannot hold the node"))?;
            let mut backend = NftBackend::inside(netns);
            backend
                .apply(&place::change(cluster, &lab, rulesets, &node, &interfaces))
                .map_err(|source| ProveError::Backend { backend: "nft", source })?;
            interfere(Written::Nft(&mut backend, lab.node(&node)?));
            nodes.insert(node, backend);
        }
        Ok(Self { lab, nodes })
    }

    /// The namespaces.
    pub(super) fn lab(&self) -> &Lab {
        &self.lab
    }

    /// Sends the packet of a pair.
    pub(super) fn observe(
        &mut self,
        cluster: &Cluster,
        pair: &Pair,
        prediction: &Prediction,
    ) -> Result<Observation, ProveError> {
        let sites = place::hooks(cluster, &self.lab, pair)?;
        let before = self.counters(&sites)?;
        let denying = prediction.hops.iter().flatten().find(|hop| hop.verdict == Verdict::Deny);
        let (sent, after) =
            self.send((cluster, pair, prediction.arriving), &sites, &before, denying.map(|hop| hop.entry))?;
        let counters = wire::moved(&before, &after);
        let counted = |entry: u32| counters.iter().any(|delta| delta.entry == entry);
        let mut differences = Vec::new();
        let stopped =
            prediction.hops.iter().position(|hop| hop.is_some_and(|hop| hop.verdict == Verdict::Deny));
        for (index, hop) in prediction.hops.iter().enumerate() {
            let Some(hop) = hop else { continue };
            if stopped.is_none_or(|stopped| index <= stopped) && sites[index].is_some() && !counted(hop.entry)
            {
                differences.push(format!(
                    "entry {} was predicted to decide, but its counter did not move",
                    hop.entry
                ));
            }
        }
        let hops = prediction.hops.iter().zip(&sites);
        let mut counting = hops.filter(|(_, site)| site.is_some()).filter_map(|(hop, _)| hop.as_ref());
        // In a lab nothing else can lose it: what counts as allowed and does not arrive was dropped all the same.
        if let (None, Some(last)) = (denying, counting.next_back())
            && differences.is_empty()
            && !sent.reached
            && matches!(sent.outcome, Outcome::Silent)
        {
            differences.push(format!(
                "entry {} counted the packet and should have let it pass, but it did not arrive",
                last.entry
            ));
        }
        let dropped = denying.filter(|hop| !sent.reached && counted(hop.entry)).map(|hop| {
            let site = sites.iter().flatten().find(|site| site.direction == hop.direction);
            site.map(|site| format!(" by nftables at {}'s veth", site.pod)).unwrap_or_default()
        });
        let said = wire::verdict(&sent, pair, dropped);
        let rows = [0, 1].map(|index| {
            sites[index].as_ref().and(prediction.hops[index].as_ref()).map(|hop| cited(hop.entry))
        });
        Ok(Observation {
            backend: BackendName::Nft,
            observed: said.verdict.and_then(evaluate::Outcome::settled),
            witnesses: vec![said],
            hops: [None, None],
            rows,
            differences,
            drop_reason: None,
            counters,
            not_examined: vec!["the eBPF program: nftables enforced in its place".to_owned()],
        })
    }

    /// One packet, and the counters when its fate is known.
    fn send(
        &self,
        (cluster, pair, arriving): (&Cluster, &Pair, Tuple),
        sites: &[Option<HookSite>; 2],
        before: &BTreeMap<u32, u64>,
        denying: Option<u32>,
    ) -> Result<(Sent, BTreeMap<u32, u64>), ProveError> {
        let mut flow = wire::open(&self.lab, cluster, pair, arriving)?;
        flow.send()?;
        let end = Instant::now() + ARRIVAL;
        loop {
            let sent = flow.wait(&Wait::for_at_most(LOOK))?;
            let after = self.counters(sites)?;
            let dropped = denying.is_some_and(|entry| after.get(&entry) != before.get(&entry));
            if sent.is_final() || dropped || Instant::now() >= end {
                return Ok((sent, after));
            }
        }
    }

    fn counters(&self, sites: &[Option<HookSite>; 2]) -> Result<BTreeMap<u32, u64>, ProveError> {
        let mut sum: BTreeMap<u32, u64> = BTreeMap::new();
        for (node, backend) in &self.nodes {
            if sites.iter().flatten().any(|site| site.node == *node) {
                for (entry, count) in
                    backend.counters().map_err(ProveError::kernel("cannot read the counters"))?
                {
                    *sum.entry(entry).or_default() += count;
                }
            }
        }
        Ok(sum)
    }
}

/// An entry as nftables has it: a named counter beside the verdict.
fn cited(entry: u32) -> EntryRef {
    EntryRef {
        id: entry,
        map: "nftables".to_owned(),
        key_text: format!("counter entry_{entry} in table inet {DEFAULT_TABLE}"),
        bpftool: Some(format!("nft list counter inet {DEFAULT_TABLE} entry_{entry}")),
        ..EntryRef::default()
    }
}
