//! Frames that nobody thought of: mutations of every kind of frame, judged by the program in the kernel and by the same
//! function on the host. They must agree on verdict, reason, entry and headers, and neither may fall over.

use std::collections::BTreeMap;

use netlab_ebpf::abi::{Device, Direction};
use netlab_ebpf::reason::Reason;

use super::bpf_agreement::{OPTIONS, Pair};
use super::bpf_frames::{corpus, extension, fragment_header};
use super::bpf_require::datapath;
use super::bpf_world::{Site, image, write};

/// Frames that are judged; each tenth of them without what the others left behind.
const FRAMES: usize = 20_000;

/// Bytes that decide what a frame is: its type, versions and lengths, fragments, protocols, hop limits, flags.
const TELLING: [usize; 22] =
    [12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 26, 30, 33, 34, 38, 47, 54, 56, 61, 67];
/// Values that mean something there.
const MEANINGS: [u8; 26] = [
    0, 1, 2, 4, 6, 8, 17, 20, 32, 40, 43, 44, 51, 58, 60, 64, 0x45, 0x46, 0x60, 0x81, 0x86, 0xdd, 132, 134,
    136, 255,
];

fn mutate(random: &mut fastrand::Rng, frame: &mut Vec<u8>, other: &[u8]) {
    match random.u8(..9) {
        0 => {
            let index = random.usize(..frame.len());
            frame[index] = random.u8(..);
        }
        1 => {
            let index = random.usize(..frame.len());
            frame[index] ^= 1 << random.u8(..8);
        }
        2 | 3 => {
            let index = TELLING[random.usize(..TELLING.len())].min(frame.len() - 1);
            frame[index] = MEANINGS[random.usize(..MEANINGS.len())];
        }
        4 => frame.truncate(random.usize(14..=frame.len())),
        5 => frame.extend((0..random.usize(..64)).map(|index| u8::try_from(index).unwrap_or(0))),
        6 => {
            // The head of one and the tail of another.
            let cut = random.usize(14..=frame.len());
            frame.truncate(cut);
            frame.extend(other.get(cut.min(other.len())..).unwrap_or_default());
        }
        7 => {
            // A header pushed between IPv6 and what it holds (in IPv4: bytes pushed in).
            let at = if frame[12] == 0x86 { 54 } else { 34 }.min(frame.len());
            let next = frame.get(20).copied().unwrap_or(0);
            let header = match random.u8(..4) {
                0 => fragment_header(next, random.u16(..200) * u16::from(random.bool()), random.bool(), 900),
                1 => extension(next, [0, random.u8(..2), 0, 0, 0, 0]),
                _ => extension(next, [1, 4, 0, 0, 0, 0]),
            };
            let kind = [0, 43, 44, 51, 60][random.usize(..5)];
            frame.splice(at..at, header);
            frame[20] = kind;
            lengthen(frame);
        }
        _ => {
            // Some bytes once more.
            let start = random.usize(14..=frame.len());
            let end = random.usize(start..=frame.len());
            let piece = frame[start..end].to_vec();
            frame.splice(start..start, piece);
            lengthen(frame);
        }
    }
}

/// Sets the length that an IP header tells to that of the frame.
fn lengthen(frame: &mut [u8]) {
    let (at, header) = if frame[12] == 0x86 { (18, 54) } else { (16, 14) };
    let length = u16::try_from(frame.len().saturating_sub(header)).unwrap_or(u16::MAX);
    if let Some(field) = frame.get_mut(at..at + 2) {
        field.copy_from_slice(&length.to_be_bytes());
    }
}

#[test]
fn frames_with_random_bytes_are_judged_alike() {
    let site = Site::new();
    let done = site.node.run(|| {
        let mut kernel = datapath("corners_fuzz", &OPTIONS)?;
        let image = image();
        write(&kernel, &image);
        let interfaces = site.interfaces;
        let mut random = fastrand::Rng::with_seed(7);
        let corpora = [0, 1, 2].map(corpus);
        let mut refused = 0;
        let mut reasons = BTreeMap::new();
        for _ in 0..10 {
            let mut pair = Pair::new(&mut kernel, &image, interfaces);
            let (mut pod, mut place, mut direction, mut ingress) = (0, 0, Direction::Ingress, 0);
            for number in 0..FRAMES / 10 {
                // Mostly the next frame of its kind at the same hook, so that first fragments, openings and what follows
                // them do meet.
                if number % 32 == 0 {
                    pod = [0, 0, 0, 1, 1, 2][random.usize(..6)];
                    place = random.usize(..corpora[pod].len());
                    direction = if random.bool() { Direction::Egress } else { Direction::Ingress };
                    ingress = *random.choice(&[interfaces[0], interfaces[1], 0]).expect("interfaces");
                }
                place = (place + 1) % corpora[pod].len();
                let mut frame = corpora[pod][place].clone();
                let other = random.choice(&corpora[pod]).expect("frames");
                for _ in 0..random.usize(..6).saturating_sub(2) {
                    mutate(&mut random, &mut frame, other);
                }
                if random.u8(..) < 2 {
                    let flags = if random.u8(..4) == 0 { Device::ANY_SOURCE } else { 0 };
                    pair.change(pod, random.u32(1..4), flags);
                }
                pair.compare(pod, direction, ingress, &frame);
            }
            refused += pair.refused;
            for (said, count) in pair.reasons {
                *reasons.entry(said).or_insert(0) += count;
            }
        }
        Some((refused, reasons))
    });
    let Some((refused, reasons)) = done.expect("inside the node") else { return };
    let refused = usize::try_from(refused).expect("few");
    assert!(refused < FRAMES / 10, "{refused} of {FRAMES} frames were not taken by the kernel");
    for reason in [
        Reason::Row,
        Reason::Flow,
        Reason::Related,
        Reason::Node,
        Reason::Itself,
        Reason::Neighbour,
        Reason::MulticastControl,
        Reason::Fragment,
        Reason::Spoof,
        Reason::Martian,
        Reason::Malformed,
        Reason::Frame,
        Reason::Router,
        Reason::FragmentUnknown,
        Reason::Unrelated,
    ] {
        let count: u64 =
            reasons.iter().filter(|((said, _), _)| *said == reason).map(|(_, count)| count).sum();
        assert!(count >= 10, "only {count} frames were {reason:?}: {reasons:?}");
    }
}
