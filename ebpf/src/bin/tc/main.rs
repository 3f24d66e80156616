//! The tc programs: `from_pod` and `to_pod`, the two hooks of a pod's host-side interface, and `to_wire`, the hook of a
//! device by which packets leave the node.
//!
//! Each gives [`netlab_ebpf::judge::judge`] the packet and the maps, counts, reports and returns the verdict.
//! Invariant: an allowed packet goes on to the next program (`TCX_NEXT`, never `TCX_PASS`, which would silence
//! the programs of others), and no failure to count or to report changes a verdict. Knows no policy. On any
//! target but BPF this is an empty program, so that host builds need no BPF toolchain.
#![cfg_attr(target_arch = "bpf", no_std, no_main, feature(asm_experimental_arch))]

#[cfg(target_arch = "bpf")]
mod maps;
#[cfg(target_arch = "bpf")]
mod parts;
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
    use aya_ebpf::bindings::__sk_buff;
    use aya_ebpf::bindings::tcx_action_base::{TCX_DROP, TCX_NEXT};
    use aya_ebpf::macros::classifier;
    use aya_ebpf::programs::TcContext;
    use netlab_ebpf::abi::Direction;
    use netlab_ebpf::judge::{Hook, decide, decide_deferred};
    use netlab_ebpf::reason::Reason;

    use crate::maps::DEFER_MARK;
    use crate::report::{Report, count};
    use crate::skb::Skb;
    use crate::tables::{Maps, device, opaque, scratch};

    /// What the pod sends: tc ingress of its host-side interface.
    #[classifier]
    fn from_pod(context: TcContext) -> i32 {
        verdict(Skb::new(context.skb.skb), Direction::Egress)
    }

    /// What is sent to the pod: tc egress of its host-side interface. First for the pod that sent it, if that could not
    /// be said before.
    #[classifier]
    fn to_pod(context: TcContext) -> i32 {
        if is_deferred(context.skb.skb) && !deferred(context.skb.skb) {
            return TCX_DROP;
        }
        verdict(Skb::new(context.skb.skb), Direction::Ingress)
    }

    /// What leaves the node by a device that is no pod's: only what could not be decided before.
    #[classifier]
    fn to_wire(context: TcContext) -> i32 {
        if is_deferred(context.skb.skb) && !deferred(context.skb.skb) { TCX_DROP } else { TCX_NEXT }
    }

    /// True for a packet with the mark that came in from somewhere: what the node sends itself was never deferred.
    #[inline(always)]
    fn is_deferred(context: *mut __sk_buff) -> bool {
        // SAFETY: the kernel passes a valid context; the verifier checks field accesses.
        let (mark, from) = unsafe { ((*context).mark, (*context).ingress_ifindex) };
        mark & DEFER_MARK.load() != 0 && from != 0
    }

    #[inline(always)]
    fn hook(skb: Skb, direction: Direction) -> Hook {
        Hook {
            direction,
            ifindex: skb.ifindex(),
            ingress_ifindex: skb.ingress_ifindex(),
            socket: skb.has_socket(),
            vlan: skb.has_vlan(),
        }
    }

    /// Whether the pod that sent the packet may. The mark goes: should the packet be wrapped into another, that one is not
    /// the pod's. A function of its own, so that the verifier follows what comes after it once, not once for each way out.
    #[inline(never)]
    fn deferred(context: *mut __sk_buff) -> bool {
        let skb = Skb::new(context);
        let hook = hook(skb, Direction::Egress);
        let (Some((sender, word)), Some(scratch)) = (device(hook.ingress_ifindex), scratch()) else {
            count(Reason::DeferredUnknown.entry());
            return false;
        };
        decide_deferred(&skb, hook, sender, word, &Maps(skb), scratch);
        let scratch = opaque(scratch);
        let first = count(scratch.decision.counted());
        let direction = Direction::Egress;
        let ifindex = skb.ingress_ifindex();
        Report { skb, ifindex, direction, word, pod: sender.pod, drops: sender.drops, scratch, first }.tell();
        skb.set_mark(skb.mark() & !DEFER_MARK.load());
        opaque(scratch).decision.allow
    }

    #[inline(always)]
    fn verdict(skb: Skb, direction: Direction) -> i32 {
        let hook = hook(skb, direction);
        let (Some((device, word)), Some(scratch)) = (device(hook.ifindex), scratch()) else {
            // An interface that the table cannot hold is never attached to; if it is, it is claimed but unknown.
            count(Reason::NotReady.entry());
            return TCX_DROP;
        };
        decide(&skb, hook, device, word, &Maps(skb), scratch);
        let scratch = opaque(scratch);
        let first = count(scratch.decision.counted());
        let ifindex = skb.ifindex();
        Report { skb, ifindex, direction, word, pod: device.pod, drops: device.drops, scratch, first }.tell();
        // Packets come out of another network namespace without a mark, so none needs to be taken off.
        if direction == Direction::Egress && scratch.decision.deferred() {
            skb.set_mark(skb.mark() | DEFER_MARK.load());
        }
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
