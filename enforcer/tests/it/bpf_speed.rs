//! What a packet costs in the program: numbers to read, not a test that can fail on a busy machine.
//!
//! `cargo test -p netlab-enforcer --test it bpf_speed -- --ignored --nocapture`

use std::time::Instant;

use netlab_ebpf::abi::{Direction, PolicyKey, PolicyValue};
use netlab_enforcer::maps::MapSizes;
use netlab_enforcer::{Datapath, LoadOptions};

use super::bpf_frames::{ethernet, tcp, udp, v4, v6_packet};
use super::bpf_require::datapath;
use super::bpf_world::{POD, Site, device, image, pod6, write};

/// Median of seven, with the least and the most.
fn seven(mut measure: impl FnMut() -> u32) -> [u32; 3] {
    let mut all: Vec<u32> = (0..7).map(|_| measure()).collect();
    all.sort_unstable();
    [all[3], all[0], all[6]]
}

#[test]
#[ignore = "prints measurements"]
fn nanoseconds_per_packet() {
    let options = LoadOptions {
        sizes: MapSizes { conntrack4: 131_072, conntrack6: 131_072, event_bytes: 1 << 22, ..MapSizes::LAB },
        ..LoadOptions::NODE
    };
    let site = Site::new();
    site.node
        .run(|| {
            for what in ["load", "load again"] {
                let start = Instant::now();
                let Some(_datapath) = datapath("bpf_speed", &LoadOptions::LAB) else { return };
                eprintln!("{what}: {:?}", start.elapsed());
            }
            let Some(mut kernel) = datapath("bpf_speed", &options) else { return };
            let image = image();
            write(&kernel, &image);
            // What this test calls allowed is allowed, the rest denied.
            for port in [2, 3] {
                let key = PolicyKey::new(1, Direction::Ingress, port, 2);
                let verdict = if port == 2 { PolicyValue::ALLOW } else { PolicyValue::DENY };
                let value = kernel.policy().policy.get(&key).expect("readable").expect("a row");
                kernel.policy().policy.set(&key, &PolicyValue { verdict, ..value }).expect("written");
            }
            let interfaces = site.interfaces;
            for (index, ifindex) in interfaces.into_iter().enumerate() {
                kernel.policy().devices.set(ifindex, &device(index, 1, -1)).expect("device");
            }
            let (one, other) = (POD[0].octets(), POD[1].octets());
            let four = |payload: &[u8], protocol| v4(other, one, protocol).frame(payload);
            let six = |payload: &[u8], protocol| {
                ethernet(0x86dd, &v6_packet(pod6(1).octets(), pod6(0).octets(), protocol, 64, payload))
            };
            let nothing = seven(|| Datapath::time_nothing(&four(&tcp(1, 2, 2), 6), 200_000).expect("run"));
            eprintln!("an empty classifier: {nothing:?} ns");
            let show = |what: &str, times: [u32; 3]| {
                let [median, least, most] = times.map(|time| time.saturating_sub(nothing[0]));
                eprintln!("{what}: {median} ns ({least}..{most})");
            };
            let ingress = interfaces[1];
            let to_open = v4(other, POD[2].octets(), 6).frame(&tcp(40_000, 80, 2));
            let from_open = v4(POD[2].octets(), other, 6).frame(&tcp(40_000, 80, 2));
            let time = |kernel: &Datapath, direction, frame: &[u8], ifindex, repeat| {
                kernel.time(direction, frame, ifindex, ingress, repeat).expect("run")
            };
            for (what, direction, frame) in [
                ("to a pod without policies", Direction::Ingress, &to_open),
                ("from a pod without policies", Direction::Egress, &from_open),
            ] {
                show(what, seven(|| time(&kernel, direction, frame, interfaces[2], 200_000)));
            }
            for (what, open, packet) in [
                ("flow hit, IPv4 TCP", four(&tcp(40_000, 5432, 2), 6), four(&tcp(40_000, 5432, 0x10), 6)),
                ("flow hit, IPv6 TCP", six(&tcp(40_000, 5432, 2), 6), six(&tcp(40_000, 5432, 0x10), 6)),
                ("flow hit, IPv4 UDP", four(&udp(40_000, 123), 17), four(&udp(40_000, 123), 17)),
            ] {
                let run = kernel.test_run(Direction::Ingress, &open, interfaces[0], ingress).expect("run");
                assert!(run.allow, "{what}");
                show(what, seven(|| time(&kernel, Direction::Ingress, &packet, interfaces[0], 200_000)));
            }
            // In a lab every denied packet is told; outside, a flood is told of now and then.
            let lab = LoadOptions { lab: true, ..options };
            let Some(mut lab) = datapath("bpf_speed", &lab) else { return };
            write(&lab, &image);
            lab.policy().devices.set(interfaces[0], &device(0, 1, -1)).expect("device");
            for (what, kernel) in [("with event", &mut lab), ("sampled", &mut kernel)] {
                for (family, packet) in
                    [("IPv4", four(&tcp(40_000, 8000, 2), 6)), ("IPv6", six(&tcp(40_000, 8000, 2), 6))]
                {
                    let run =
                        kernel.test_run(Direction::Ingress, &packet, interfaces[0], ingress).expect("run");
                    assert!(!run.allow);
                    let times = seven(|| {
                        kernel.events().drain();
                        time(kernel, Direction::Ingress, &packet, interfaces[0], 40_000)
                    });
                    show(&format!("denied new flow {what}, {family}"), times);
                    assert_eq!(kernel.state().lost_events().expect("counter"), 0);
                }
            }
            // What a pod opens itself is looked for among the Services, and then denied by a row of its peer's class, or of
            // the four classes behind a Service.
            let own = POD[0].octets();
            for (what, destination, port) in [
                ("denied new flow of the pod sampled, no Service", POD[1].octets(), 5432),
                ("denied new flow of the pod sampled, a Service", [10, 96, 0, 1], 8000),
            ] {
                let packet = v4(own, destination, 6).frame(&tcp(40_000, port, 2));
                let run = kernel.test_run(Direction::Egress, &packet, interfaces[0], ingress).expect("run");
                let verdict = if run.allow { "allowed" } else { "denied" };
                let times = seven(|| time(&kernel, Direction::Egress, &packet, interfaces[0], 40_000));
                show(&format!("{what} ({verdict})"), times);
            }
            let again = four(&tcp(40_000, 5432, 2), 6);
            show(
                "allowed SYN of a known tuple, IPv4",
                seven(|| time(&kernel, Direction::Ingress, &again, interfaces[0], 200_000)),
            );
            // New tuples, one run each: the timer's own cost is that of an empty classifier run once.
            let median = |mut times: Vec<u32>| {
                times.sort_unstable();
                times[times.len() / 2]
            };
            let once = median(
                (0..2_000).map(|_| Datapath::time_nothing(&again, 1).expect("run")).collect::<Vec<_>>(),
            );
            for (what, ipv6) in [("allowed new flow, IPv4", false), ("allowed new flow, IPv6", true)] {
                let mut port = 1_024;
                let times = seven(|| {
                    let all = (0..2_000).map(|_| {
                        port += 1;
                        let segment = tcp(port, 5432, 2);
                        let frame = if ipv6 { six(&segment, 6) } else { four(&segment, 6) };
                        time(&kernel, Direction::Ingress, &frame, interfaces[0], 1)
                    });
                    median(all.collect()).saturating_sub(once)
                });
                eprintln!("{what}: {} ns ({}..{})", times[0], times[1], times[2]);
            }
        })
        .expect("inside the node");
}
