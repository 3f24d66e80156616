//! Who may talk to whom: for each source and destination the ports that both sides' policies allow.
//!
//! Computed on the rows of compiled tables, never packet by packet. Pods are grouped by the controller that their
//! `ownerReferences` name; a pair lists what some pod of the one may open to some pod of the other. Addresses
//! outside the cluster are peers too, as the few blocks that the policies leave different.
//!
//! Invariant: only pairs with something allowed are listed, in order of (source, destination); never a workload
//! with itself, never two address blocks. It knows TCP, UDP and SCTP ports; ICMP, Services and nodes as peers are
//! not in it. A node's address is in the block around it, although its own pods always hear it; that exemption
//! shows in the rows of host-network workloads.

mod allowed;
mod data;
pub mod diff;
pub mod exposure;
mod external;
mod fold;
mod matrix;
mod open_blocks;
mod running;
mod ties;
mod workloads;

use std::collections::{BTreeMap, BTreeSet};

use ipnet::IpNet;
use netlab_ebpf::abi::Direction;

pub use allowed::Allowed;
pub use data::Summary;
pub use fold::{Folded, Row, Side};
pub use open_blocks::OpenBlock;
pub use running::{
    Finished, HostNetwork, alone, as_if_running, finished, leave_out_finished, on_host_network,
};
pub use workloads::workload_of;

use self::allowed::Sets;
use self::matrix::Matrix;
use self::ties::Ties;
use self::workloads::Workloads;
use super::classes::ClassIndex;
use super::groups::number;
use super::provenance::{PolicyRef, policy_ref};
use super::query::{End, addresses};
use super::ruleset::{Rulesets, Table};
use crate::model::cluster::{Cluster, ObjectKey};

/// One end of connections.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Peer {
    /// `namespace/name[Kind]`, or a block's name; `block-1` and so on where that is very long.
    pub id: String,
    /// What it is.
    pub kind: PeerKind,
    /// The controller's kind, or `Pod`; `None` for a block.
    pub workload_kind: Option<String>,
    /// `None` for a block.
    pub namespace: Option<String>,
    /// Of the controller, of a pod that has none, or of a block.
    pub name: String,
    /// What a block covers; empty for workloads.
    pub cidrs: Vec<IpNet>,
    /// The top-most controller's name, if its pods agree: a Deployment's, where the controller is its ReplicaSet.
    pub owner: Option<String>,
}

/// What a peer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub enum PeerKind {
    /// A pod without a controller.
    Pod,
    /// The pods of a controller.
    Workload,
    /// Addresses outside the cluster.
    #[serde(rename = "IPBlock")]
    IpBlock,
    /// Pods that do not exist yet; see [`exposure`].
    Representative,
}

/// A pair with something allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connection {
    // Millions of these are what a long list weighs.
    from: u32,
    to: u32,
    allowed: u32,
}

impl Connection {
    /// Who opens: a position among the peers.
    pub fn from(&self) -> usize {
        self.from as usize
    }

    /// To whom: a position among the peers.
    pub fn to(&self) -> usize {
        self.to as usize
    }

    /// Which of [`Connections::sets`] it allows: many pairs share one.
    pub fn set(&self) -> usize {
        self.allowed as usize
    }
}

/// Which pairs to list.
#[derive(Clone, Debug, Default)]
pub struct Focus {
    /// Leave addresses outside the cluster out.
    pub workloads_only: bool,
    /// Only pairs opened by one of these.
    pub from: Option<Vec<End>>,
    /// Only pairs opened to one of these.
    pub to: Option<Vec<End>>,
    /// Only pairs with an end that has one of these pods.
    pub about: Option<BTreeSet<ObjectKey>>,
    /// Only what is allowed of these ports.
    pub ports: Option<Allowed>,
    /// Of these destinations only these ports: a Service leads to another port of each, maybe.
    pub ports_of: BTreeMap<End, Allowed>,
    /// Of these sources only pairs with these destinations: a node's proxy leads its pods to some endpoints of a Service.
    pub led: BTreeMap<ObjectKey, BTreeSet<End>>,
    /// Of sources outside the cluster only those addresses: a balancer's `loadBalancerSourceRanges`, or the family of the
    /// address that is asked.
    pub admitted: Option<Vec<IpNet>>,
}

/// All connections.
#[derive(Debug)]
pub struct Connections {
    /// Workloads by name, then blocks by address; also those without connections, but no block without.
    pub peers: Vec<Peer>,
    /// Sorted by source and destination.
    pub list: Vec<Connection>,
    /// How many ordered pairs of workloads were looked at.
    pub workload_pairs: usize,
    /// How many workloads have all of their pods isolated by `NetworkPolicy`, for ingress and for egress.
    pub isolated: [usize; 2],
    /// How many workloads have all of their pods under policies of the Admin or Baseline tier, for ingress and for
    /// egress.
    pub tiers: [usize; 2],
    /// Policies that the API does not order, each time that this decides what a pair may do: the list then has what
    /// netlab's tables do, which deny.
    pub ties: Vec<Vec<PolicyRef>>,
    /// Blocks of addresses that may hold workloads whose addresses are not known, where that would make another list.
    pub open_blocks: Vec<OpenBlock>,
    sets: Vec<Allowed>,
    chosen: Chosen,
    /// The ports that were asked about, if not all.
    asked: Option<Allowed>,
}

impl Connections {
    /// True when the pair was looked at: it is then listed, or nothing is allowed.
    pub fn covers(&self, from: usize, to: usize) -> bool {
        let is_block =
            |position: usize| self.peers.get(position).is_none_or(|peer| peer.kind == PeerKind::IpBlock);
        from != to && !(is_block(from) && is_block(to)) && self.chosen.has(from, to)
    }

    /// True when the workload is an end of some pair that was looked at.
    pub fn is_about(&self, position: usize) -> bool {
        (0..self.workloads().len()).any(|other| self.covers(position, other) || self.covers(other, position))
    }

    /// Whether anything is listed from addresses outside the cluster.
    pub fn has_source_outside(&self) -> bool {
        let workloads = self.workloads().len();
        self.list.iter().any(|connection| connection.from() >= workloads)
    }

    /// What a connection allows.
    pub fn allowed(&self, connection: &Connection) -> &Allowed {
        &self.sets[connection.allowed as usize]
    }

    /// Every set of ports that some pair may have; see [`Connection::set`].
    pub fn sets(&self) -> &[Allowed] {
        &self.sets
    }

    /// The workloads among the peers.
    pub fn workloads(&self) -> &[Peer] {
        let count = self.peers.iter().take_while(|peer| peer.namespace.is_some()).count();
        &self.peers[..count]
    }
}

/// Lists the connections of a cluster whose every pod is in the compilation's scope.
///
/// To have also those workloads judged whose pods are not running, compile what [`as_if_running`] gives, and hand
/// the same here.
pub fn connections(cluster: &Cluster, rulesets: &Rulesets, focus: &Focus) -> Connections {
    let workloads = Workloads::new(cluster, rulesets);
    let mut matrix = Matrix::new(rulesets, workloads.profiles.len());
    let areas = if focus.workloads_only { Vec::new() } else { external::areas(&rulesets.classes.prefixes) };
    let mut blocks = blocks(&workloads, rulesets, &areas, &mut matrix);
    if let Some(admitted) = &focus.admitted {
        blocks.retain_mut(|block| external::narrow(&mut block.peer, admitted));
        blocks.sort_by(|a, b| a.peer.cidrs.cmp(&b.peer.cidrs));
        external::number_long_names(blocks.iter_mut().map(|block| &mut block.peer));
    }
    let mut peers: Vec<Peer> = workloads.list.iter().map(|workload| workload.peer.clone()).collect();
    peers.extend(blocks.iter().map(|block| block.peer.clone()));
    let chosen = Chosen::new(cluster, rulesets, &workloads, &peers, focus);

    let count = workloads.list.len();
    let (mut list, mut workload_pairs) = (Vec::new(), 0);
    let ports = focus.ports.clone().map_or(Sets::EVERYTHING, |ports| matrix.sets.intern(ports));
    let of_end = chosen.ports.iter().map(|(to, ports)| (*to, matrix.sets.intern(ports.clone())));
    let of_end: BTreeMap<usize, u32> = of_end.collect();
    let mut add = |matrix: &mut Matrix<'_>, from: usize, to: usize, allowed: u32| {
        let mut allowed = matrix.sets.and(allowed, ports);
        if let Some(ports) = of_end.get(&to) {
            allowed = matrix.sets.and(allowed, *ports);
        }
        if allowed != Sets::NOTHING {
            list.push(Connection { from: number(from), to: number(to), allowed });
        }
    };
    for (from, source) in workloads.list.iter().enumerate() {
        for (to, destination) in workloads.list.iter().enumerate() {
            if from != to && chosen.has(from, to) {
                workload_pairs += 1;
                let allowed = matrix.workloads(&workloads, source, destination);
                add(&mut matrix, from, to, allowed);
            }
        }
        for (index, block) in blocks.iter().enumerate().filter(|(index, _)| chosen.has(from, count + index)) {
            add(&mut matrix, from, count + index, block.sides[from].1);
        }
    }
    for (index, block) in blocks.iter().enumerate() {
        for (to, (ingress, _)) in block.sides.iter().enumerate() {
            if chosen.has(count + index, to) {
                add(&mut matrix, count + index, to, *ingress);
            }
        }
    }
    let under = |is: fn(&Table) -> bool| {
        [Direction::Ingress, Direction::Egress].map(|direction| {
            let is = |profile: &u32| {
                let ruleset = workloads.profiles[*profile as usize].ruleset;
                ruleset.and_then(|index| rulesets.list[index as usize].table(direction)).is_some_and(is)
            };
            workloads.list.iter().filter(|workload| workload.profiles.iter().all(is)).count()
        })
    };
    let isolated = under(|table| !table.isolated_by.is_empty());
    let tiers = under(|table| table.acting.len() > table.isolated_by.len());
    let open_blocks = open_blocks::find(cluster, rulesets, &workloads, &chosen, &mut matrix);
    let policies = &rulesets.policies.list;
    let block_of = (count..).zip(&blocks);
    let block_of =
        block_of.flat_map(|(position, block)| block.classes.iter().map(move |class| (*class, position)));
    let block_of: BTreeMap<ClassIndex, usize> = block_of.collect();
    let ties = Ties {
        workloads: &workloads,
        chosen: &chosen,
        matrix: &mut matrix,
        ports,
        of_end: &of_end,
        found: BTreeSet::new(),
    };
    let ties = ties.find(&areas, &block_of);
    let ties =
        ties.iter().map(|tie| tie.iter().map(|index| policy_ref(&policies[*index as usize])).collect());
    let ties = ties.collect();
    Connections {
        peers,
        list,
        workload_pairs,
        isolated,
        tiers,
        ties,
        open_blocks,
        sets: matrix.sets.list,
        chosen,
        asked: focus.ports.clone(),
    }
}

/// The same as [`Connections::open_blocks`], without the list; the focus's ends are not looked at.
pub fn open_blocks(cluster: &Cluster, rulesets: &Rulesets, focus: &Focus) -> Vec<OpenBlock> {
    let workloads = Workloads::new(cluster, rulesets);
    let mut matrix = Matrix::new(rulesets, workloads.profiles.len());
    let peers: Vec<Peer> = workloads.list.iter().map(|workload| workload.peer.clone()).collect();
    let about = Focus { about: focus.about.clone(), ..Focus::default() };
    let chosen = Chosen::new(cluster, rulesets, &workloads, &peers, &about);
    open_blocks::find(cluster, rulesets, &workloads, &chosen, &mut matrix)
}

/// Ingress and egress sets, by workload.
type Sides = Vec<(u32, u32)>;

/// Addresses outside, and what each workload allows from and to them.
struct Block {
    peer: Peer,
    classes: Vec<ClassIndex>,
    sides: Sides,
}

/// The areas of address space, those joined that no workload tells apart.
fn blocks(
    workloads: &Workloads,
    rulesets: &Rulesets,
    areas: &[external::Area],
    matrix: &mut Matrix<'_>,
) -> Vec<Block> {
    if areas.is_empty() {
        return Vec::new();
    }
    let sides_of = matrix.externals(workloads, areas);
    let mut alike: BTreeMap<(bool, Sides), Vec<&external::Area>> = BTreeMap::new();
    for (index, area) in areas.iter().enumerate() {
        let sides: Sides = sides_of.iter().map(|[ingress, egress]| (ingress[index], egress[index])).collect();
        if sides.iter().any(|sides| *sides != (Sets::NOTHING, Sets::NOTHING)) {
            alike.entry((area.ipv4, sides)).or_default().push(area);
        }
    }
    let mut blocks: Vec<Block> = alike
        .into_iter()
        .filter_map(|((_, sides), areas)| {
            let classes = areas.iter().map(|area| area.class).collect();
            Some(Block { peer: external::block(&rulesets.classes.prefixes, &areas)?, classes, sides })
        })
        .collect();
    blocks.sort_by(|a, b| a.peer.cidrs.cmp(&b.peer.cidrs));
    external::number_long_names(blocks.iter_mut().map(|block| &mut block.peer));
    blocks
}

/// The positions that a focus leaves.
#[derive(Debug)]
struct Chosen {
    from: Option<BTreeSet<usize>>,
    to: Option<BTreeSet<usize>>,
    about: Option<BTreeSet<usize>>,
    /// By destination.
    ports: BTreeMap<usize, Allowed>,
    /// By source: where it is led, if not everywhere.
    led: BTreeMap<usize, BTreeSet<usize>>,
}

impl Chosen {
    fn new(
        cluster: &Cluster,
        rulesets: &Rulesets,
        workloads: &Workloads,
        peers: &[Peer],
        focus: &Focus,
    ) -> Self {
        let of_pod = |key: &ObjectKey| workloads.of_pod.get(key).map(|index| *index as usize);
        let pod_at = |address| {
            let mut pods = rulesets.pods.iter().filter(|(_, pod)| pod.addresses.contains(&address));
            pods.next().and_then(|(key, _)| of_pod(key))
        };
        let around = |address| {
            let block =
                || peers.iter().position(|peer| peer.cidrs.iter().any(|cidr| cidr.contains(&address)));
            pod_at(address).or_else(block)
        };
        let of_end = |end: &End| match end {
            End::Pod(key) => of_pod(key).into_iter().collect::<Vec<_>>(),
            End::Address(address) => around(*address).into_iter().collect(),
            End::Node(_) => addresses(cluster, end).into_iter().filter_map(around).collect(),
        };
        let positions = |ends: &Vec<End>| -> BTreeSet<usize> { ends.iter().flat_map(of_end).collect() };
        let mut ports: BTreeMap<usize, Allowed> = BTreeMap::new();
        for (end, allowed) in &focus.ports_of {
            for position in of_end(end) {
                let known = ports.remove(&position);
                ports.insert(position, known.map_or_else(|| allowed.clone(), |known| known.or(allowed)));
            }
        }
        let mut led: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
        for (from, ends) in &focus.led {
            if let Some(position) = of_pod(from) {
                led.entry(position).or_default().extend(ends.iter().flat_map(of_end));
            }
        }
        Self {
            led,
            from: focus.from.as_ref().map(positions),
            to: focus.to.as_ref().map(positions),
            about: focus.about.as_ref().map(|pods| pods.iter().filter_map(of_pod).collect()),
            ports,
        }
    }

    /// The same for a workload and addresses that may be in no block; then they count as what was asked for, if that is
    /// none of the peers.
    fn has_area(&self, workload: usize, block: Option<usize>, direction: Direction) -> bool {
        let (here, there) = match direction {
            Direction::Egress => (&self.from, &self.to),
            Direction::Ingress => (&self.to, &self.from),
        };
        let within = |set: &Option<BTreeSet<usize>>| {
            set.as_ref().is_none_or(|set| block.map_or(set.is_empty(), |block| set.contains(&block)))
        };
        here.as_ref().is_none_or(|set| set.contains(&workload))
            && within(there)
            && self.about.as_ref().is_none_or(|set| set.contains(&workload))
    }

    fn has(&self, from: usize, to: usize) -> bool {
        let within =
            |set: &Option<BTreeSet<usize>>, position| set.as_ref().is_none_or(|set| set.contains(position));
        within(&self.from, &from)
            && within(&self.to, &to)
            && self.led.get(&from).is_none_or(|led| led.contains(&to))
            && (within(&self.about, &from) || within(&self.about, &to))
    }
}
