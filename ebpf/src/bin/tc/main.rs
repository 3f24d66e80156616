//! The tc programs: `from_pod` and `to_pod`, the two hooks of a pod's host-side interface.
//!
//! Each gives [`netlab_ebpf::judge::judge`] the packet and the maps, counts, reports and returns the verdict.
//! Invariant: an allowed packet goes on to the next program (`TCX_NEXT`, never `TCX_PASS`, which would silence
//! the programs of others), and no failure to count or to report changes a verdict. Knows no policy. On any
//! target but BPF this is an empty program, so that host builds need no BPF toolchain.
#![cfg_attr(target_arch = "bpf", no_std, no_main, feature(asm_experimental_arch))]

#[cfg(target_arch = "bpf")]
mod maps;
#[cfg(target_arch = "bpf")]
mod report;
#[cfg(target_arch = "bpf")]
mod skb;
#[cfg(target_arch = "bpf")]
mod socket;
#[cfg(target_arch = "bpf")]
mod tables;

#[cfg(target_arch = "bpf")]
mod programs {
    use aya_ebpf::bindings::tcx_action_base::{TCX_DROP, TCX_NEXT};
    use aya_ebpf::macros::classifier;
    use aya_ebpf::programs::TcContext;
    use netlab_ebpf::abi::Direction;
    use netlab_ebpf::judge::{Hook, decide};
    use netlab_ebpf::reason::Reason;

    use crate::report::{Report, count};
    use crate::skb::Skb;
    use crate::tables::{Maps, device, opaque, scratch};

    /// What the pod sends: tc ingress of its host-side interface.
    #[classifier]
    fn from_pod(context: TcContext) -> i32 {
        verdict(Skb::new(context.skb.skb), Direction::Egress)
    }

    /// What is sent to the pod: tc egress of its host-side interface.
    #[classifier]
    fn to_pod(context: TcContext) -> i32 {
        verdict(Skb::new(context.skb.skb), Direction::Ingress)
    }

    #[inline(always)]
    fn verdict(skb: Skb, direction: Direction) -> i32 {
        let hook = Hook {
            direction,
            ifindex: skb.ifindex(),
            ingress_ifindex: skb.ingress_ifindex(),
            socket: skb.has_socket(),
            vlan: skb.has_vlan(),
        };
        let (Some((device, word)), Some(scratch)) = (device(hook.ifindex), scratch()) else {
            // An interface that the table cannot hold is never attached to; if it is, it is claimed but unknown.
            count(Reason::NotReady.entry());
            return TCX_DROP;
        };
        decide(&skb, hook, device, word, &Maps(skb), scratch);
        let scratch = opaque(scratch);
        let first = count(scratch.decision.counted());
        Report { skb, direction, word, pod: device.pod, drops: device.drops, scratch, first }.tell();
        if scratch.decision.allow { TCX_NEXT } else { TCX_DROP }
    }

    /// Never reached: nothing that the programs call can panic, and the verifier would refuse the loop.
    #[panic_handler]
    fn panic(_info: &core::panic::PanicInfo<'_>) -> ! {
        loop {}
    }

    /// None of the helpers used is reserved to the GPL.
    #[unsafe(link_section = "license")]
    #[unsafe(no_mangle)]
    static LICENSE: [u8; 18] = *b"Apache-2.0 OR MIT\0";
}

#[cfg(not(target_arch = "bpf"))]
fn main() {}
