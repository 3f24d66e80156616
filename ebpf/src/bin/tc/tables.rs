//! The kernel's maps as the judgement's tables.
//!
//! Invariant: values are copied out of a map at once, since elements may be recycled while they are looked at;
//! their echo is the judgement's to check. Knows nothing of what the values mean.

use aya_ebpf::bindings::BPF_ANY;
use aya_ebpf::btf_maps::lpm_trie::Key;
use aya_ebpf::helpers::generated::bpf_jiffies64;
use netlab_ebpf::abi::{
    Address, CidrKey, Device, Flow, FlowKey, FragmentKey, FragmentValue, PeerValue, PolicyKey, PolicyValue,
    RulesetPorts, ServiceKey, ServiceValue, Word,
};
use netlab_ebpf::judge::{Apart, Scratch, Socket, Tables, Walked};
use netlab_ebpf::packet::Bytes;

use crate::maps::{
    CIDRS, CONNTRACK4, CONNTRACK6, DEVICES, FRAGMENTS, PEERS, POLICY, PORT_CLASSES, PORT_PAGES, RULESETS,
    SCRATCH, SECONDS_PER_JIFFY, SERVICES,
};
use crate::skb::Skb;
use crate::{parts, socket};

/// The record of an interface, and its word by itself.
#[inline(always)]
pub(crate) fn device(ifindex: u32) -> Option<(&'static Device, Word)> {
    let device = DEVICES.get_ptr(ifindex)?;
    // SAFETY: array elements live as long as the program. The word is one aligned load, so that a packet sees it
    // whole and only once; the rest is written before the word that lets it be used. Elements of arrays are 8-byte
    // aligned; saying so lets addresses be read as words.
    unsafe {
        core::hint::assert_unchecked(device as usize & 7 == 0);
        Some((&*device, Word(core::ptr::read_volatile(&raw const (*device).word.0))))
    }
}

/// This CPU's memory for one judgement.
#[inline(always)]
pub(crate) fn scratch() -> Option<&'static mut Scratch> {
    let scratch = SCRATCH.get_ptr_mut(0)?;
    // SAFETY: tc programs are not preempted by each other, so nothing else uses this CPU's element. As for
    // alignment, see `device`.
    unsafe {
        core::hint::assert_unchecked(scratch as usize & 7 == 0);
        Some(&mut *scratch)
    }
}

/// Hides from the compiler what it knows of the memory behind a reference. The detour by the stack costs a packet
/// some nanoseconds, and saves the verifier a third of its work: less is left in registers.
#[inline(always)]
pub(crate) fn opaque(scratch: &mut Scratch) -> &mut Scratch {
    core::hint::black_box(scratch)
}

/// The maps, on behalf of one packet.
pub(crate) struct Maps(pub(crate) Skb);

impl Tables for Maps {
    #[inline(always)]
    fn device(&self, ifindex: u32) -> Option<Device> {
        device(ifindex).map(|(device, word)| Device { word, ..*device })
    }

    #[inline(always)]
    fn peer(&self, address: &Address) -> Option<PeerValue> {
        // SAFETY: copied at once; a recycled element is told by its echo.
        unsafe { PEERS.get(address).copied() }
    }

    #[inline(always)]
    fn cidr(&self, key: &CidrKey) -> Option<PeerValue> {
        CIDRS.get(&Key::new(key.prefix, key.address)).copied()
    }

    #[inline(always)]
    fn ruleset_ports(&self, ruleset: u32) -> Option<RulesetPorts> {
        RULESETS.get(ruleset).copied()
    }

    #[inline(always)]
    fn port_page(&self, index: u32) -> Option<u32> {
        PORT_PAGES.get(index).copied()
    }

    #[inline(always)]
    fn port_class(&self, page: u32, low: u8) -> Option<u8> {
        PORT_CLASSES.get(page).map(|page| page[low as usize])
    }

    #[inline(always)]
    fn policy(&self, key: &PolicyKey) -> Option<PolicyValue> {
        // SAFETY: as in `peer`.
        unsafe { POLICY.get(key).copied() }
    }

    #[inline(always)]
    fn service(&self, key: &ServiceKey, into: &mut ServiceValue) -> bool {
        // SAFETY: as in `peer`.
        match unsafe { SERVICES.get(key) } {
            Some(value) => {
                *into = *value;
                true
            }
            None => false,
        }
    }

    #[inline(always)]
    fn flow(&self, key: &FlowKey) -> Option<Flow> {
        // SAFETY: as in `peer`.
        unsafe {
            if key.is_ipv4() { CONNTRACK4.get(key.narrow()).copied() } else { CONNTRACK6.get(key).copied() }
        }
    }

    #[inline(always)]
    fn insert_flow(&self, key: &FlowKey, flow: &Flow) {
        // A table that takes no more costs the replies their flow, never a verdict of this packet.
        let _ = if key.is_ipv4() {
            CONNTRACK4.insert(key.narrow(), flow, BPF_ANY.into())
        } else {
            CONNTRACK6.insert(key, flow, BPF_ANY.into())
        };
    }

    #[inline(always)]
    fn update_flow(&self, key: &FlowKey, flow: &Flow) {
        self.insert_flow(key, flow);
    }

    #[inline(always)]
    fn fragment(&self, key: &FragmentKey) -> Option<FragmentValue> {
        // SAFETY: as in `peer`.
        unsafe { FRAGMENTS.get(key).copied() }
    }

    #[inline(always)]
    fn insert_fragment(&self, key: &FragmentKey, value: &FragmentValue) {
        // As in `insert_flow`: the rest of the datagram is then unknown and dropped.
        let _ = FRAGMENTS.insert(key, value, BPF_ANY.into());
    }

    #[inline(always)]
    fn socket(&self, netns: i32, key: &FlowKey) -> Socket {
        socket::find(self.0, netns, key)
    }

    #[inline(always)]
    fn apart<'scratch>(&self, part: Apart, scratch: &'scratch mut Scratch) -> &'scratch mut Scratch {
        parts::apart(self.0.context(), part, scratch)
    }

    #[inline(always)]
    fn walked<'scratch, B: Bytes>(
        &self,
        part: Walked,
        _: &B,
        _: &Device,
        scratch: &'scratch mut Scratch,
    ) -> &'scratch mut Scratch {
        parts::walked(self.0.context(), part, scratch)
    }

    #[inline(always)]
    fn opaque<'scratch>(&self, scratch: &'scratch mut Scratch) -> &'scratch mut Scratch {
        opaque(scratch)
    }

    #[inline(always)]
    fn now(&self) -> u32 {
        // A multiplication in place of a division, and it wraps as seconds should.
        // SAFETY: the helper takes nothing and cannot fail.
        (unsafe { bpf_jiffies64() }.wrapping_mul(SECONDS_PER_JIFFY.load()) >> 32) as u32
    }
}
