//! `LAST_DROP`: the last packet that was dropped at each hook, as each CPU remembers it.
//!
//! Invariant: what is given out was written as a whole. A CPU writes its own record only, at any time; a copy taken
//! meanwhile does not bear its seal and is taken again. Times are of the kernel's tick (1 to 10 ms): which of two CPUs
//! dropped last within one cannot be told, so both are. Does not know what a decision means.
#![expect(clippy::missing_errors_doc, reason = "each error type says when it occurs")]

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use netlab_ebpf::abi::{Direction, Event, LastDrop, SEALED_WORDS, last_drop_index, seal};
use nix::time::{ClockId, clock_gettime};

use super::MapError;
use super::counters::possible_cpus;
use super::pod::from_bytes;
use crate::bpf;

const NAME: &str = "LAST_DROP";
/// How often a record that is being written is read again: a writer takes nanoseconds, a read a microsecond.
const TRIES: usize = 1_000;

/// The map.
#[derive(Clone, Debug)]
pub struct LastDrops {
    fd: Arc<OwnedFd>,
    id: u32,
    length: u32,
    cpus: usize,
}

/// The last packet that was dropped at a hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dropped {
    /// The decision.
    pub event: Event,
    /// When, on `CLOCK_MONOTONIC_COARSE`.
    pub time: Duration,
    /// How many packets the hook has dropped since it was claimed, with this one.
    pub number: u64,
}

impl Dropped {
    /// How long ago. Time for which the machine was suspended does not count.
    pub fn age(&self) -> Duration {
        let now = clock_gettime(ClockId::CLOCK_MONOTONIC_COARSE).map_or(Duration::ZERO, Duration::from);
        now.saturating_sub(self.time)
    }
}

impl LastDrops {
    pub(crate) fn new(fd: Arc<OwnedFd>) -> Result<Self, MapError> {
        let info = bpf::map_info(fd.as_fd()).map_err(|error| MapError::call("describe", NAME, error))?;
        if (info.key_size, usize::try_from(info.value_size)) != (4, Ok(size_of::<LastDrop>())) {
            return Err(MapError::Layout {
                map: NAME,
                key_size: info.key_size,
                value_size: info.value_size,
                expected_key_size: 4,
                expected_value_size: size_of::<LastDrop>(),
            });
        }
        let cpus = possible_cpus().map_err(|error| MapError::call("size", NAME, error))?;
        Ok(Self { fd, id: info.id, length: info.max_entries, cpus })
    }

    /// The kernel's id of the map.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// The places that a pod can be given ([`netlab_ebpf::abi::Device::drops`]): 0 is nobody's own.
    pub fn places(&self) -> std::ops::Range<u16> {
        1..u16::try_from(self.length / 2).unwrap_or(u16::MAX)
    }

    /// The last drop at a hook of an interface whose pod has this place. None when it has dropped nothing, or when
    /// another interface that shares the place did since; several when as many CPUs dropped one in the same tick.
    pub fn get(&self, place: u16, ifindex: u32, direction: Direction) -> Result<Vec<Dropped>, MapError> {
        let index = last_drop_index(place, direction);
        let mut bytes = vec![0; self.cpus * size_of::<LastDrop>()];
        let mut whole = BTreeMap::new();
        for _ in 0..TRIES {
            bpf::lookup(self.fd.as_fd(), &index.to_ne_bytes(), &mut bytes)
                .map_err(|error| MapError::call("read", NAME, error))?;
            let mut torn = false;
            for (cpu, record) in bytes.chunks_exact(size_of::<LastDrop>()).enumerate() {
                match open(record) {
                    Read::Whole(record) => drop(whole.insert(cpu, record)),
                    Read::Nothing => {}
                    Read::Torn => torn |= !whole.contains_key(&cpu),
                }
            }
            if !torn {
                break;
            }
        }
        whole
            .retain(|_, record| (record.event.ifindex, record.event.direction) == (ifindex, direction as u8));
        let number = whole.values().map(|record| record.number).fold(0, u64::wrapping_add);
        let newest = whole.values().map(|record| record.time).max();
        let last = whole.into_values().filter(|record| Some(record.time) == newest);
        let told = |LastDrop { event, time, .. }| Dropped { event, time: Duration::from_nanos(time), number };
        Ok(last.map(told).collect())
    }

    /// Forgets what was dropped at a place, for its next owner. Packets are not to meet the hook meanwhile.
    pub fn forget(&self, place: u16) -> Result<(), MapError> {
        let nothing = vec![0; self.cpus * size_of::<LastDrop>()];
        for direction in [Direction::Ingress, Direction::Egress] {
            bpf::update(self.fd.as_fd(), &last_drop_index(place, direction).to_ne_bytes(), &nothing)
                .map_err(|error| MapError::call("write", NAME, error))?;
        }
        Ok(())
    }
}

/// A copy of a CPU's record.
enum Read {
    Whole(LastDrop),
    Nothing,
    Torn,
}

fn open(bytes: &[u8]) -> Read {
    let Some(record) = from_bytes::<LastDrop>(bytes).filter(|record| record.number > 0) else {
        return Read::Nothing;
    };
    if record.seal == seal(&words(bytes)) { Read::Whole(record) } else { Read::Torn }
}

/// The sealed words of a record's bytes.
fn words(bytes: &[u8]) -> [u64; SEALED_WORDS] {
    let mut words = [0; SEALED_WORDS];
    for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
        *word = from_bytes(bytes).unwrap_or_default();
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::maps::pod::bytes_of;

    fn record(number: u64, source_port: u16, address: u8) -> LastDrop {
        let event = Event { entry: 70, source_port, source: [address; 16], ..Event::default() };
        let record = LastDrop { event, number, time: 1_000 + number, ..LastDrop::default() };
        LastDrop { seal: seal(&words(bytes_of(&record))), ..record }
    }

    #[test]
    fn a_record_is_read_as_written() {
        let written = record(3, 40_000, 1);
        assert!(matches!(open(bytes_of(&written)), Read::Whole(read) if read == written));
        assert!(matches!(open(bytes_of(&LastDrop::default())), Read::Nothing));
    }

    /// Whichever words are of the one and whichever of the other, a mixture is not taken for a record.
    #[test]
    fn a_mixture_of_two_records_is_torn() {
        let records = [record(3, 40_000, 1), record(4, 40_001, 2)];
        let [old, new] = records.each_ref().map(bytes_of);
        let mixed_words = SEALED_WORDS + 1;
        let mut torn = 0;
        for mask in 0..1_u32 << mixed_words {
            let mut mixed = old.to_vec();
            for word in (0..mixed_words).filter(|word| mask >> word & 1 == 1) {
                mixed[word * 8..][..8].copy_from_slice(&new[word * 8..][..8]);
            }
            match open(&mixed) {
                Read::Whole(read) => assert!(records.contains(&read), "{mask:b}: {read:?}"),
                Read::Torn => torn += 1,
                Read::Nothing => panic!("{mask:b}: nothing"),
            }
        }
        assert!(torn > 1 << (mixed_words - 1), "most mixtures differ from both");
    }
}
