//! One packet at a time through the program in the kernel, with what it says about each: verdict, reason, entry.
//!
//! Every judgement also asserts that exactly one counter moved, by one, and that it is the one of the reason that
//! the event tells; so a test that names the reason has named the counter.

use netlab_ebpf::abi::{Device, Direction, Event, PolicyKey, PolicyValue};
use netlab_ebpf::reason::{FIRST_COMPILED_ENTRY, Reason};
use netlab_enforcer::{Datapath, LoadOptions};

use super::bpf_frames::{ethernet, v4, v6_packet};
use super::bpf_require::datapath;
use super::bpf_world::{POD, Site, device, image, pod6, write};

/// The pod under test, whose rows deny all but what [`Rig::run`] allows: 10.0.0.1 and `fd00::1`.
pub(crate) const OWN: usize = 0;
/// Another pod, of a class of its own; itself isolated for ingress only: 10.0.0.2 and `fd00::2`.
pub(crate) const FRIEND: usize = 1;
/// A pod that no policy selects: 10.0.0.3 and `fd00::3`.
pub(crate) const OPEN: usize = 2;
/// The class of [`FRIEND`].
pub(crate) const FRIENDS: u32 = 2;
/// An address outside, of the class of the rest of IPv4.
pub(crate) const STRANGER: [u8; 4] = [192, 0, 2, 9];
/// The class of [`STRANGER`].
pub(crate) const STRANGERS: u32 = 6;
/// An address outside, of the class of the rest of IPv6.
pub(crate) const STRANGER6: [u8; 16] = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
/// The class of [`STRANGER6`].
pub(crate) const STRANGERS6: u32 = 7;

/// The port classes of `bpf_world`.
pub(crate) mod port {
    pub(crate) const ICMP: u16 = 0;
    pub(crate) const OTHER: u16 = 1;
    pub(crate) const TCP_5432: u16 = 2;
    pub(crate) const TCP_443: u16 = 4;
    pub(crate) const UDP_53: u16 = 5;
    pub(crate) const SCTP_9: u16 = 6;
    pub(crate) const REST: u16 = 7;
}

/// What the program did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) allow: bool,
    pub(crate) reason: Reason,
    /// The entry that is cited; for a packet of a flow the event is not sent, and this is the reason's.
    pub(crate) entry: u32,
}

/// A built-in reason with the verdict that it has.
pub(crate) fn built_in(reason: Reason) -> Said {
    Said { allow: reason.verdict() == PolicyValue::ALLOW, reason, entry: reason.entry() }
}

/// The program over real maps, inside the node's namespace of a site with three pods.
pub(crate) struct Rig {
    kernel: Datapath,
    pub(crate) interfaces: [u32; 3],
    records: [Device; 3],
}

impl Rig {
    /// Runs a test on a rig where the friend may reach the pod under test on 5432/tcp, 53/udp and 9/sctp, and the
    /// pod may reach the friend on 443/tcp, 53/udp and 9/sctp; nothing else is allowed.
    pub(crate) fn run(test: &str, body: impl FnOnce(&mut Rig) + Send) {
        let site = Site::new();
        site.node
            .run(|| {
                let Some(kernel) = datapath(test, &LoadOptions::LAB) else { return };
                let mut image = image();
                for (key, value) in &mut image.policy {
                    if key.ruleset != PolicyKey::FIXED && key.peer_class != 0 {
                        value.verdict = PolicyValue::DENY;
                    }
                }
                write(&kernel, &image);
                let records = [0, 1, 2].map(|pod| device(pod, 1, -1));
                for (ifindex, record) in site.interfaces.iter().zip(&records) {
                    kernel.policy().devices.set(*ifindex, record).expect("device");
                }
                let mut rig = Rig { kernel, interfaces: site.interfaces, records };
                for port in [port::TCP_5432, port::UDP_53, port::SCTP_9] {
                    rig.set(Direction::Ingress, FRIENDS, port, true);
                }
                for port in [port::TCP_443, port::UDP_53, port::SCTP_9] {
                    rig.set(Direction::Egress, FRIENDS, port, true);
                }
                body(&mut rig);
            })
            .expect("inside the node");
    }

    /// The maps.
    pub(crate) fn kernel(&self) -> &Datapath {
        &self.kernel
    }

    /// Writes the verdict of a row of the pod under test.
    pub(crate) fn set(&mut self, direction: Direction, peer: u32, port: u16, allow: bool) {
        let key = PolicyKey::new(1, direction, port, peer);
        let policy = &self.kernel.policy().policy;
        let value = policy.get(&key).expect("readable").expect("a row");
        let verdict = if allow { PolicyValue::ALLOW } else { PolicyValue::DENY };
        policy.set(&key, &PolicyValue { verdict, ..value }).expect("written");
    }

    /// A row of the pod under test, as it stands in the map.
    pub(crate) fn row(&self, direction: Direction, peer: u32, port: u16) -> Said {
        let key = PolicyKey::new(1, direction, port, peer);
        let value = self.kernel.policy().policy.get(&key).expect("readable").expect("a row");
        Said { allow: value.verdict == PolicyValue::ALLOW, reason: Reason::Row, entry: value.entry }
    }

    /// The row of a pod's direction that no policy isolates.
    pub(crate) fn not_isolated(&self, pod: usize, direction: Direction) -> Said {
        let key = PolicyKey::not_isolated(self.records[pod].word.ruleset(), direction);
        let value = self.kernel.policy().policy.get(&key).expect("readable").expect("a row");
        Said { allow: value.verdict == PolicyValue::ALLOW, reason: Reason::Row, entry: value.entry }
    }

    /// Switches a pod to another generation, as a change of policy does.
    pub(crate) fn flip(&mut self, pod: usize, generation: u32) {
        self.records[pod].word = device(pod, generation, -1).word;
        let (ifindex, word) = (self.interfaces[pod], self.records[pod].word);
        self.kernel.policy().devices.set_word(ifindex, word).expect("word");
    }

    /// Puts another pod in the place of one.
    pub(crate) fn replace(&mut self, pod: usize) {
        self.records[pod].pod += 100;
        self.kernel.policy().devices.set(self.interfaces[pod], &self.records[pod]).expect("device");
    }

    /// Lets a pod send from any address.
    pub(crate) fn any_source(&mut self, pod: usize) {
        self.records[pod].flags = Device::ANY_SOURCE;
        self.kernel.policy().devices.set(self.interfaces[pod], &self.records[pod]).expect("device");
    }

    /// The pod under test sends a frame.
    pub(crate) fn sends(&mut self, frame: &[u8]) -> Said {
        self.judge(OWN, Direction::Egress, self.interfaces[OWN], frame)
    }

    /// The pod under test is sent a frame, which came by the friend's interface.
    pub(crate) fn gets(&mut self, frame: &[u8]) -> Said {
        self.judge(OWN, Direction::Ingress, self.interfaces[FRIEND], frame)
    }

    /// The pod under test is sent a frame by the node itself. (A test run always has a socket.)
    pub(crate) fn gets_from_node(&mut self, frame: &[u8]) -> Said {
        self.judge(OWN, Direction::Ingress, 0, frame)
    }

    /// Judges a frame at a hook of a pod.
    pub(crate) fn judge(
        &mut self,
        pod: usize,
        direction: Direction,
        ingress_ifindex: u32,
        frame: &[u8],
    ) -> Said {
        self.judge_with_event(pod, direction, ingress_ifindex, frame).0
    }

    pub(crate) fn judge_with_event(
        &mut self,
        pod: usize,
        direction: Direction,
        ingress_ifindex: u32,
        frame: &[u8],
    ) -> (Said, Option<Event>) {
        let before = self.counters();
        let run = self.kernel.test_run(direction, frame, self.interfaces[pod], ingress_ifindex);
        let run = run.unwrap_or_else(|error| panic!("{error}: {frame:02x?}"));
        let mut moved = Vec::new();
        for (entry, (before, after)) in before.iter().zip(self.counters()).enumerate() {
            moved.extend(std::iter::repeat_n(entry, usize::try_from(after - before).expect("few")));
        }
        let [counted] = moved[..] else { panic!("counters {moved:?} moved for one packet: {frame:02x?}") };
        let counted = u32::try_from(counted).expect("a small number");
        let said = match run.event {
            Some(event) => Said {
                allow: run.allow,
                reason: Reason::from_u8(event.reason).expect("a reason"),
                entry: event.entry,
            },
            None => Said { allow: run.allow, reason: Reason::Flow, entry: Reason::Flow.entry() },
        };
        let expected = if said.reason == Reason::Row { said.entry } else { said.reason.entry() };
        assert_eq!(counted, expected, "another counter than the event's: {said:?}");
        if let Some(event) = run.event {
            assert_eq!(event.verdict == PolicyValue::ALLOW, run.allow, "{event:?}");
        }
        (said, run.event)
    }

    /// Every counter that there is an entry for: the policy of `bpf_world` has fewer rows than this.
    fn counters(&self) -> Vec<u64> {
        let counters = &self.kernel.state().counters;
        (0..FIRST_COMPILED_ENTRY + 160).map(|entry| counters.get(entry).expect("counter")).collect()
    }
}

/// An IPv4 frame from the pod under test to the friend.
pub(crate) fn to_friend(protocol: u8, payload: &[u8]) -> Vec<u8> {
    v4(POD[OWN].octets(), POD[FRIEND].octets(), protocol).frame(payload)
}

/// An IPv4 frame from the friend to the pod under test.
pub(crate) fn from_friend(protocol: u8, payload: &[u8]) -> Vec<u8> {
    v4(POD[FRIEND].octets(), POD[OWN].octets(), protocol).frame(payload)
}

/// An IPv6 frame from the pod under test to the friend.
pub(crate) fn to_friend6(next: u8, payload: &[u8]) -> Vec<u8> {
    v6(pod6(OWN).octets(), pod6(FRIEND).octets(), next, 64, payload)
}

/// An IPv6 frame from the friend to the pod under test.
pub(crate) fn from_friend6(next: u8, payload: &[u8]) -> Vec<u8> {
    v6(pod6(FRIEND).octets(), pod6(OWN).octets(), next, 64, payload)
}

/// An IPv6 frame.
pub(crate) fn v6(source: [u8; 16], destination: [u8; 16], next: u8, hops: u8, payload: &[u8]) -> Vec<u8> {
    ethernet(0x86dd, &v6_packet(source, destination, next, hops, payload))
}
