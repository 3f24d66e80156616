//! The last drop of each hook, and what is told of floods: every denied packet is told, sampled out or lost, and
//! the three together are what was counted.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use netlab_ebpf::abi::{Device, Direction, Event, PolicyKey, PolicyValue};
use netlab_ebpf::reason::Reason;
use netlab_ebpf::sampling::{BURST, NEWS};
use netlab_enforcer::maps::MapSizes;
use netlab_enforcer::{Datapath, LoadOptions};

use super::bpf_frames::{tcp, v4};
use super::bpf_require::datapath;
use super::bpf_wire::{Wire, address_frame, flood};
use super::bpf_world::{POD, Site, device, image, write};

/// Ports to which pod 1 may not talk at pod 0, each denied by an entry of its own.
const DENIED: [u16; 2] = [8000, 443];

/// Pod 0 of a site, with a place of its own for its last drops.
struct Place {
    site: Site,
    datapath: Datapath,
}

impl Place {
    fn new(test: &str, options: &LoadOptions) -> Option<Self> {
        let datapath = datapath(test, options)?;
        let site = Site::new();
        write(&datapath, &image());
        let place = Self { site, datapath };
        for (pod, drops) in [(0, 1), (1, 2)] {
            place.claim(pod, drops);
        }
        Some(place)
    }

    fn claim(&self, pod: usize, drops: u16) {
        let device = Device { drops, ..device(pod, 1, -1) };
        self.datapath.policy().devices.set(self.site.interfaces[pod], &device).expect("device");
    }

    /// Judges a SYN of pod 1 to a port of pod 0.
    fn syn(&mut self, source: u16, port: u16) -> Option<Event> {
        let frame = syn(source, port);
        let [to, from, _] = self.site.interfaces;
        let Self { site, datapath } = self;
        let run = || datapath.test_run(Direction::Ingress, &frame, to, from).expect("run");
        site.node.run(run).expect("inside the node").event
    }

    fn flood(&self, port: u16, packets: u32) {
        let frame = syn(40_000, port);
        let [to, from, _] = self.site.interfaces;
        let run = || self.datapath.time(Direction::Ingress, &frame, to, from, packets).expect("run");
        self.site.node.run(run).expect("inside the node");
    }

    fn counted(&self) -> u64 {
        DENIED
            .map(|port| self.datapath.state().counters.get(entry(&self.datapath, port)).expect("counter"))
            .iter()
            .sum()
    }

    /// The last drop at pod 0's ingress, a tick later: drops of two CPUs in one tick have no order.
    fn last(&self) -> Option<(u16, u16, u64)> {
        thread::sleep(TICK);
        let last = self.datapath.state().last_drops.get(1, self.site.interfaces[0], Direction::Ingress);
        let last = last.expect("readable").pop()?;
        assert!(last.age() < Duration::from_secs(60), "{:?}", last.age());
        Some((last.event.source_port, last.event.destination_port, last.number))
    }
}

fn syn(source: u16, port: u16) -> Vec<u8> {
    v4(POD[1].octets(), POD[0].octets(), 6).frame(&tcp(source, port, 2))
}

/// The entry that denies pod 1 a port of pod 0.
fn entry(datapath: &Datapath, port: u16) -> u32 {
    let class = if port == DENIED[0] { 3 } else { 4 };
    let key = PolicyKey::new(1, Direction::Ingress, class, 2);
    let row = datapath.policy().policy.get(&key).expect("readable").expect("a row");
    assert_eq!(row.verdict, PolicyValue::DENY);
    row.entry
}

/// More than the kernel's clock tick, at 100 Hz.
const TICK: Duration = Duration::from_millis(12);

const NODE: LoadOptions = LoadOptions { sizes: MapSizes::LAB, ..LoadOptions::NODE };

#[test]
fn the_last_drop_is_remembered_and_only_drops_are() {
    let Some(mut place) = Place::new("bpf_drops", &NODE) else { return };
    assert_eq!(place.last(), None);
    place.syn(40_000, 5432);
    assert_eq!(place.last(), None, "an allowed packet");
    place.syn(40_001, DENIED[0]);
    assert_eq!(place.last(), Some((40_001, DENIED[0], 1)));
    place.syn(40_002, DENIED[1]);
    place.syn(40_003, 5432);
    assert_eq!(place.last(), Some((40_002, DENIED[1], 2)));
    let last_drops = &place.datapath.state().last_drops;
    let last = last_drops.get(1, place.site.interfaces[0], Direction::Ingress).expect("readable")[0];
    assert_eq!(last.event.entry, entry(&place.datapath, DENIED[1]));
    assert_eq!((last.event.skb, last.event.pod, last.event.verdict), (0, 101, PolicyValue::DENY));
    assert_eq!(last_drops.get(1, place.site.interfaces[0], Direction::Egress).expect("readable"), []);
    assert_eq!(last_drops.get(2, place.site.interfaces[1], Direction::Ingress).expect("readable"), []);
    last_drops.forget(1).expect("written");
    assert_eq!(place.last(), None, "the next owner of the place begins anew");
}

/// Interfaces that nobody claimed drop everything; what they dropped last is found at the shared place.
#[test]
fn an_interface_without_a_place_shares_one() {
    let Some(mut place) = Place::new("bpf_drops", &NODE) else { return };
    let [claimed, stranger, other] = place.site.interfaces;
    for ifindex in [stranger, other] {
        place.datapath.policy().devices.set(ifindex, &Device::default()).expect("device");
    }
    let frame = syn(1, 2);
    let Place { site, datapath } = &mut place;
    let run = |datapath: &mut Datapath, ifindex| {
        site.node
            .run(|| datapath.test_run(Direction::Ingress, &frame, ifindex, claimed).expect("run"))
            .expect("inside the node");
    };
    run(datapath, stranger);
    let get = |datapath: &Datapath, ifindex| {
        datapath.state().last_drops.get(0, ifindex, Direction::Ingress).expect("readable").pop()
    };
    let last = get(datapath, stranger).expect("dropped");
    assert_eq!((last.event.entry, last.event.pod), (Reason::NotReady.entry(), 0));
    assert_eq!(get(datapath, other), None, "not its own");
    run(datapath, other);
    let ifindex_of = |ifindex| get(datapath, ifindex).map(|last| last.event.ifindex);
    assert_eq!(ifindex_of(other), Some(other));
    // It may be gone, unless another CPU remembers it; it is never another's.
    assert!([None, Some(stranger)].contains(&ifindex_of(stranger)));
}

#[test]
fn a_flood_is_sampled_and_what_is_not_told_is_counted() {
    let Some(mut place) = Place::new("bpf_drops", &NODE) else { return };
    let first = place.syn(40_000, DENIED[0]).expect("the first packet is told");
    let mut told = vec![first];
    place.flood(DENIED[0], 100_000);
    told.extend(place.datapath.events().drain());
    let sampled = place.datapath.state().sampled_out_events().expect("counter");
    assert!(sampled > 90_000, "{sampled} of 100,001 are sampled out");
    assert!(told.len() as u64 >= BURST, "{} are told", told.len());
    // In the middle of it, another entry: told at once.
    let news = place.syn(40_000, DENIED[1]);
    let news = news.expect("the first packet that another entry denies is told");
    assert_eq!(news.entry, entry(&place.datapath, DENIED[1]));
    told.push(news);
    let state = place.datapath.state();
    let (sampled, lost) =
        (state.sampled_out_events().expect("counter"), state.lost_events().expect("counter"));
    assert_eq!(told.len() as u64 + sampled + lost, place.counted());
    assert_eq!(place.counted(), 100_002);
}

/// The budget of another pod's hook is its own.
#[test]
fn a_flood_to_one_pod_does_not_hide_anothers_drop() {
    let Some(mut place) = Place::new("bpf_drops", &NODE) else { return };
    place.flood(DENIED[0], 10_000);
    place.datapath.events().drain();
    // The same entry: the other pod is under the same ruleset.
    let twin = Device { drops: 2, pod: 102, ipv4: POD[1].octets(), ..device(0, 1, -1) };
    let [_, ifindex, from] = place.site.interfaces;
    place.datapath.policy().devices.set(ifindex, &twin).expect("device");
    let frame = syn(40_000, DENIED[0]);
    let Place { site, datapath } = &mut place;
    let event = site
        .node
        .run(|| datapath.test_run(Direction::Ingress, &frame, ifindex, from).expect("run").event)
        .expect("inside the node")
        .expect("told");
    assert_eq!(event.ifindex, ifindex);
}

#[test]
fn what_does_not_fit_into_the_ring_is_counted_as_lost() {
    for (lab, least_lost) in [(true, 9_000), (false, 1)] {
        let sizes = MapSizes { event_bytes: 4096, ..MapSizes::LAB };
        let Some(mut place) = Place::new("bpf_drops", &LoadOptions { lab, sizes, ..LoadOptions::NODE })
        else {
            return;
        };
        for _ in 0..100 {
            for port in DENIED {
                place.flood(port, 50);
            }
        }
        let told = place.datapath.events().drain().len() as u64;
        let state = place.datapath.state();
        let (sampled, lost) =
            (state.sampled_out_events().expect("counter"), state.lost_events().expect("counter"));
        assert_eq!(told + sampled + lost, 10_000, "told {told}, sampled {sampled}, lost {lost}");
        assert_eq!(place.counted(), 10_000);
        if lab {
            assert_eq!(sampled, 0, "in a lab nothing is sampled out");
            assert!(lost > least_lost, "{lost}");
        } else {
            assert!(told >= NEWS, "{told}");
        }
    }
}

/// Packets from two pods on all CPUs, through the hook, while a reader drains the ring.
#[test]
fn a_flood_on_the_wire_is_accounted_for_exactly() {
    const PACKETS: usize = 20_000;
    for options in
        [NODE, LoadOptions { sizes: MapSizes { event_bytes: 4096, ..MapSizes::LAB }, ..LoadOptions::LAB }]
    {
        let Some(mut wire) = Wire::with("bpf_drops", &options) else { return };
        let attached = wire.attach();
        let counters = wire.datapath.state().clone();
        let count = |entries: &BTreeSet<u32>| -> u64 {
            entries.iter().map(|entry| counters.counters.get(*entry).expect("counter")).sum()
        };
        // What is accounted for: in a lab every decision but a flow's, elsewhere the denied.
        let of_interest = |verdict| options.lab || verdict == PolicyValue::DENY;
        let entries: BTreeSet<u32> = {
            let rows = wire.datapath.policy().policy.entries().expect("rows");
            let rows = rows.iter().filter(|(_, value)| of_interest(value.verdict));
            rows.map(|(_, value)| value.entry).filter(|entry| *entry != Reason::Flow.entry()).collect()
        };
        let done = AtomicBool::new(false);
        let mut told = 0_u64;
        thread::scope(|scope| {
            let senders: Vec<_> = [1, 2]
                .map(|pod| {
                    let pods = &wire.site.pods;
                    scope.spawn(move || {
                        let frame = |port| {
                            let segment = tcp(40_000, port, 2);
                            let mut frame = v4(POD[pod].octets(), POD[0].octets(), 6).frame(&segment);
                            address_frame(&mut frame, pod);
                            frame
                        };
                        // Of pod 2 the first is allowed.
                        let frames = DENIED.map(frame);
                        let send = || flood("eth0", &frames, PACKETS).expect("sent");
                        pods[pod].run(send).expect("inside the pod");
                    })
                })
                .into_iter()
                .collect();
            let done = &done;
            scope.spawn(move || {
                for sender in senders {
                    sender.join().expect("sent");
                }
                // What was sent may still be on its way through the node.
                thread::sleep(Duration::from_millis(200));
                done.store(true, Ordering::Release);
            });
            let events = wire.datapath.events();
            while !done.load(Ordering::Acquire) {
                let read = events.drain();
                told += read.iter().filter(|event| of_interest(event.verdict)).count() as u64;
                thread::sleep(Duration::from_millis(1));
            }
            let read = events.drain();
            told += read.iter().filter(|event| of_interest(event.verdict)).count() as u64;
        });
        drop(attached);
        let (sampled, lost) =
            (counters.sampled_out_events().expect("counter"), counters.lost_events().expect("counter"));
        let counted = count(&entries);
        assert!(counted > PACKETS as u64, "{counted}");
        assert_eq!(told + sampled + lost, counted, "told {told}, sampled {sampled}, lost {lost}");
        let last = counters.last_drops.get(0, wire.site.interfaces[0], Direction::Ingress).expect("readable");
        assert!(last[0].number > PACKETS as u64);
    }
}

/// Keeps this thread where it is.
fn stay_on_this_cpu() {
    // SAFETY: all zero is an empty set, and the calls read and write nothing but it.
    let result = unsafe {
        let cpu = usize::try_from(libc::sched_getcpu()).expect("a CPU");
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of_val(&set), &raw const set)
    };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
}

/// A reader in the middle of a flood gets records as they were written, never two halves.
#[test]
fn a_record_is_never_read_in_halves() {
    let Some(place) = Place::new("bpf_drops", &NODE) else { return };
    let last_drops = place.datapath.state().last_drops.clone();
    let done = AtomicBool::new(false);
    let kinds = [(40_000, DENIED[0]), (40_001, DENIED[1])];
    let entries = DENIED.map(|port| entry(&place.datapath, port));
    let [to, from, _] = place.site.interfaces;
    let (mut seen, mut torn) = ([0; 2], Vec::new());
    thread::scope(|scope| {
        let (place, done) = (&place, &done);
        scope.spawn(move || {
            let frames = kinds.map(|(source, port)| syn(source, port));
            let flood = || {
                stay_on_this_cpu();
                while !done.load(Ordering::Acquire) {
                    for frame in &frames {
                        place.datapath.time(Direction::Ingress, frame, to, from, 1).expect("run");
                    }
                }
            };
            place.site.node.run(flood).expect("inside the node");
        });
        let end = Instant::now() + Duration::from_millis(500);
        while seen.contains(&0) || Instant::now() < end {
            for last in last_drops.get(1, to, Direction::Ingress).expect("readable") {
                // One CPU drops them in turn, and counts.
                let kind = usize::from(last.number % 2 == 0);
                let event = last.event;
                let whole = (event.source_port, event.destination_port) == kinds[kind]
                    && event.entry == entries[kind];
                torn.extend((!whole).then_some(last));
                seen[kind] += 1;
            }
        }
        done.store(true, Ordering::Release);
    });
    assert!(torn.is_empty(), "{} of {seen:?} are none of the two, such as {:?}", torn.len(), torn[0]);
}
