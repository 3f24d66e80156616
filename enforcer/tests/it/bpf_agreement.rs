//! The kernel program and the host's engine judge every frame alike: the same verdict, entry, reason, classes and
//! headers, whatever happened before.

use std::collections::BTreeMap;

use netlab_core::policy::engine::Engine;
use netlab_core::policy::image::Image;
use netlab_ebpf::abi::{Device, Direction, PolicyValue};
use netlab_ebpf::judge::{Hook, Judgement};
use netlab_ebpf::reason::Reason;
use netlab_enforcer::instance::TestRun;
use netlab_enforcer::maps::MapSizes;
use netlab_enforcer::{Datapath, LoadOptions};

use super::bpf_frames::corpus;
use super::bpf_require::datapath;
use super::bpf_world::{Site, device, image, write};

/// An interface that is no pod's.
const LOOPBACK: u32 = 1;

/// Flows must not be evicted here: the engine never does.
pub(crate) const OPTIONS: LoadOptions = LoadOptions {
    sizes: MapSizes { conntrack4: 65_536, conntrack6: 65_536, fragments: 16_384, ..MapSizes::LAB },
    ..LoadOptions::LAB
};

/// The two that must agree.
pub(crate) struct Pair<'a> {
    kernel: &'a mut Datapath,
    host: Engine<'a>,
    interfaces: [u32; 3],
    /// How often each was said.
    pub(crate) reasons: BTreeMap<(Reason, bool), u64>,
    /// Frames that the kernel's own test harness does not take.
    pub(crate) refused: u64,
}

impl<'a> Pair<'a> {
    pub(crate) fn new(kernel: &'a mut Datapath, image: &'a Image, interfaces: [u32; 3]) -> Self {
        kernel.state().forget_flows().expect("forget");
        let mut host = Engine::new(image, BTreeMap::new());
        for (index, ifindex) in interfaces.into_iter().enumerate() {
            let record = device(index, 1, -1);
            kernel.policy().devices.set(ifindex, &record).expect("device");
            host.set_device(ifindex, record);
        }
        Self { kernel, host, interfaces, reasons: BTreeMap::new(), refused: 0 }
    }

    /// Another generation and other flags for a pod, on both sides.
    pub(crate) fn change(&mut self, pod: usize, generation: u32, flags: u16) {
        let record = Device { flags, ..device(pod, generation, -1) };
        self.kernel.policy().devices.set(self.interfaces[pod], &record).expect("device");
        self.host.set_device(self.interfaces[pod], record);
    }

    pub(crate) fn compare(&mut self, pod: usize, direction: Direction, ingress_ifindex: u32, frame: &[u8]) {
        let ifindex = self.interfaces[pod];
        let Ok(kernel) = self.kernel.test_run(direction, frame, ifindex, ingress_ifindex) else {
            // The kernel's own test harness takes no such frame (too short for its kind).
            self.refused += 1;
            return;
        };
        let hook = Hook { direction, ifindex, ingress_ifindex, socket: true, vlan: false };
        let host = self.host.judge(frame, hook).expect("a device");
        self.same(&kernel, &host, &format!("pod {pod} {direction:?} from {ingress_ifindex}: {frame:02x?}"));
        let Some(event) = kernel.event else { return };
        assert_eq!((event.direction, event.ifindex), (direction as u8, ifindex));
    }

    /// The same where a verdict was deferred: the frame came in by a pod's interface, or by one that is nobody's.
    pub(crate) fn compare_deferred(&mut self, ingress_ifindex: u32, frame: &[u8]) {
        let ifindex = self.interfaces[0];
        let Ok(kernel) = self.kernel.test_run_deferred(frame, ifindex, ingress_ifindex) else {
            self.refused += 1;
            return;
        };
        let hook = Hook { direction: Direction::Egress, ifindex, ingress_ifindex, socket: true, vlan: false };
        let host = self.host.judge_deferred(frame, hook);
        self.same(&kernel, &host, &format!("deferred from {ingress_ifindex}: {frame:02x?}"));
        let event = kernel.event.expect("each is told");
        assert_eq!((event.direction, event.ifindex), (Direction::Egress as u8, ingress_ifindex));
    }

    fn same(&mut self, kernel: &TestRun, host: &Judgement, what: &str) {
        let what = format!("{what}\nhost {host:?}");
        assert_eq!(kernel.allow, host.allow, "{what}\nkernel {kernel:?}");
        *self.reasons.entry((host.reason, host.allow)).or_default() += 1;
        let Some(event) = kernel.event else {
            assert_eq!((host.reason, host.allow), (Reason::Flow, true), "no event: {what}");
            return;
        };
        let packet = host.packet;
        assert_eq!(
            (event.entry, event.reason, event.peer_class, event.port_class, event.word, event.pod),
            (host.entry, host.reason as u8, host.peer_class, host.port_class, host.word, host.pod),
            "{what}\nkernel {event:?}"
        );
        assert_eq!(
            (event.source, event.destination, event.source_port, event.destination_port),
            (packet.source, packet.destination, packet.source_port, packet.destination_port),
            "{what}\nkernel {event:?}"
        );
        assert_eq!((event.protocol, event.tcp_flags), (packet.protocol, packet.flags), "{what}");
        assert_eq!(event.verdict == PolicyValue::ALLOW, host.allow);
        assert_ne!(event.skb, 0, "a lab's events bear the packet's address");
    }
}

#[test]
fn every_kind_of_frame_is_judged_alike() {
    let site = Site::new();
    let reasons = site.node.run(|| {
        let mut kernel = datapath("bpf_agreement", &OPTIONS)?;
        let image = image();
        write(&kernel, &image);
        let interfaces = site.interfaces;
        let mut pair = Pair::new(&mut kernel, &image, interfaces);
        for pod in 0..3 {
            let frames = corpus(pod);
            for direction in [Direction::Egress, Direction::Ingress] {
                for ingress in [interfaces[(pod + 1) % 3], interfaces[pod], 0] {
                    for frame in &frames {
                        pair.compare(pod, direction, ingress, frame);
                    }
                }
            }
            // The same again: flows and fragments are known now. Then under another generation.
            for generation in [1, 2] {
                pair.change(pod, generation, 0);
                for frame in &frames {
                    pair.compare_deferred(interfaces[pod], frame);
                    pair.compare(pod, Direction::Ingress, interfaces[(pod + 1) % 3], frame);
                    pair.compare(pod, Direction::Egress, interfaces[pod], frame);
                }
            }
        }
        for frame in corpus(0).iter().take(20) {
            pair.compare_deferred(LOOPBACK, frame);
        }
        Some(pair.reasons)
    });
    let Some(reasons) = reasons.expect("inside the node") else { return };
    for reason in Reason::FIXED {
        // Tables are complete, every device has a ruleset, and nobody holds a socket.
        if !matches!(reason, Reason::NoEntry | Reason::NotReady | Reason::Midflow) {
            assert!(reasons.keys().any(|(seen, _)| *seen == reason), "no frame was {reason:?}: {reasons:?}");
        }
    }
    assert!(reasons.contains_key(&(Reason::Row, true)) && reasons.contains_key(&(Reason::Row, false)));
}

#[test]
fn what_the_tables_lack_is_dropped_and_said() {
    let site = Site::new();
    site.node
        .run(|| {
            let mut kernel = datapath("bpf_agreement", &OPTIONS)?;
            let image = image();
            let frame = &corpus(0)[0];
            let run = |kernel: &mut Datapath| {
                let run = kernel.test_run(Direction::Egress, frame, site.interfaces[0], site.interfaces[0]);
                let run = run.expect("a valid frame");
                let event = run.event.expect("an event");
                (run.allow, Reason::from_u8(event.reason).expect("a reason"))
            };
            assert_eq!(run(&mut kernel), (false, Reason::NotReady), "claimed, nothing written");
            kernel.policy().devices.set(site.interfaces[0], &device(0, 1, -1)).expect("device");
            assert_eq!(run(&mut kernel), (false, Reason::NoEntry), "a ruleset without rows");
            write(&kernel, &image);
            assert_ne!(run(&mut kernel).1, Reason::NoEntry);
            let counters = &kernel.state().counters;
            assert_eq!(counters.get(Reason::NotReady.entry()).expect("counter"), 1);
            assert_eq!(counters.get(Reason::NoEntry.entry()).expect("counter"), 1);
            Some(())
        })
        .expect("inside the node");
}
