//! The maps, and the values that the loader sets before the program is verified.
//!
//! Invariant: names, types and flags are what `enforcer::maps` opens; the sizes are the production defaults
//! and the loader may set others. Policy maps are written by the host alone, the rest by the program.

use aya_ebpf::Global;
use aya_ebpf::bindings::{BPF_F_MMAPABLE, BPF_F_RDONLY_PROG};
use aya_ebpf::btf_maps::{Array, HashMap, LpmTrie, LruHashMap, PerCpuArray, RingBuf};
use aya_ebpf::macros::btf_map;
use netlab_ebpf::abi::{
    Address, Device, Flow, Flow4Key, FlowKey, FragmentKey, FragmentValue, LastDrop, PeerValue, PolicyKey,
    PolicyValue, PortPage, RulesetPorts, ServiceKey, ServiceValue,
};
use netlab_ebpf::judge::Scratch;

const READ_ONLY: usize = BPF_F_RDONLY_PROG as usize;
/// Mapped by the host, so that a pod's word is switched by one store. Such a map cannot be read-only.
const MAPPED: usize = BPF_F_MMAPABLE as usize;

#[btf_map]
pub(crate) static DEVICES: Array<Device, 65_536, MAPPED> = Array::new();
#[btf_map]
pub(crate) static PEERS: HashMap<Address, PeerValue, 262_144, READ_ONLY> = HashMap::new();
#[btf_map]
pub(crate) static CIDRS: LpmTrie<Address, PeerValue, 65_536> = LpmTrie::new();
#[btf_map]
pub(crate) static RULESETS: Array<RulesetPorts, 4_096, READ_ONLY> = Array::new();
#[btf_map]
pub(crate) static PORT_PAGES: Array<u32, 786_432, READ_ONLY> = Array::new();
#[btf_map]
pub(crate) static PORT_CLASSES: Array<PortPage, 4_096, READ_ONLY> = Array::new();
#[btf_map]
pub(crate) static POLICY: HashMap<PolicyKey, PolicyValue, 262_144, READ_ONLY> = HashMap::new();
#[btf_map]
pub(crate) static SERVICES: HashMap<ServiceKey, ServiceValue, 65_536, READ_ONLY> = HashMap::new();

#[btf_map]
pub(crate) static CONNTRACK4: LruHashMap<Flow4Key, Flow, 262_144> = LruHashMap::new();
#[btf_map]
pub(crate) static CONNTRACK6: LruHashMap<FlowKey, Flow, 131_072> = LruHashMap::new();
#[btf_map]
pub(crate) static FRAGMENTS: LruHashMap<FragmentKey, FragmentValue, 8_192> = LruHashMap::new();
#[btf_map]
pub(crate) static COUNTERS: PerCpuArray<u64, 262_144> = PerCpuArray::new();
/// Records of [`netlab_ebpf::abi::Event`]. The type is not part of the definition: a ring has values of size 0, and
/// other loaders than ours refuse one that says both.
#[btf_map]
pub(crate) static EVENTS: RingBuf<(), 1_048_576> = RingBuf::new();
#[btf_map]
pub(crate) static SCRATCH: PerCpuArray<Scratch, 1> = PerCpuArray::new();
/// The last packet dropped at each hook, by [`netlab_ebpf::abi::last_drop_index`].
#[btf_map]
pub(crate) static LAST_DROP: PerCpuArray<LastDrop, 1_024> = PerCpuArray::new();
/// What `EVENTS` did not get: [`LOST_FULL`] and [`LOST_SAMPLED`].
#[btf_map]
pub(crate) static LOST: PerCpuArray<u64, 2> = PerCpuArray::new();

/// Index in [`LOST`]: the ring was full.
pub(crate) const LOST_FULL: u32 = 0;
/// Index in [`LOST`]: an allowed new flow that was not the n-th, or a denied packet beyond its hook's budget.
pub(crate) const LOST_SAMPLED: u32 = 1;

/// The version of every layout: [`netlab_ebpf::abi::ABI_VERSION`], for the loader to compare.
#[unsafe(no_mangle)]
pub(crate) static ABI: Global<u32> = Global::new(netlab_ebpf::abi::ABI_VERSION);
/// 2^32 divided by the kernel's jiffies per second.
#[unsafe(no_mangle)]
pub(crate) static SECONDS_PER_JIFFY: Global<u64> = Global::new((1 << 32) / 250);
/// 1 in a lab: events carry the packet's kernel address, and every decision but a flow's is reported.
#[unsafe(no_mangle)]
pub(crate) static LAB: Global<u32> = Global::new(0);
/// Report one in so many allowed new flows; 0 for none. Denied packets are reported within each hook's budget.
#[unsafe(no_mangle)]
pub(crate) static ALLOWED_EVENTS: Global<u32> = Global::new(0);
/// The bit of a packet's mark by which its deferred verdict is remembered on its way through the node; 0 for none.
#[unsafe(no_mangle)]
pub(crate) static DEFER_MARK: Global<u32> = Global::new(netlab_ebpf::abi::DEFER_MARK);
