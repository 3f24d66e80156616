//! Counters that each CPU keeps for itself.
//!
//! Invariant: a read is the sum over all CPUs that the kernel could have. It is no snapshot: CPUs count on while
//! it is taken, and a sum may be behind, never ahead.
#![expect(clippy::missing_errors_doc, reason = "each error type says when it occurs")]

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use super::MapError;
use super::pod::from_bytes;
use crate::bpf;

/// A per-CPU array of numbers.
#[derive(Clone, Debug)]
pub struct Counters {
    name: &'static str,
    fd: Arc<OwnedFd>,
    id: u32,
    length: u32,
    cpus: usize,
}

impl Counters {
    pub(crate) fn new(name: &'static str, fd: Arc<OwnedFd>) -> Result<Self, MapError> {
        let info = bpf::map_info(fd.as_fd()).map_err(|error| MapError::call("describe", name, error))?;
        if (info.key_size, info.value_size) != (4, 8) {
            return Err(MapError::Layout {
                map: name,
                key_size: info.key_size,
                value_size: info.value_size,
                expected_key_size: 4,
                expected_value_size: 8,
            });
        }
        let cpus = possible_cpus().map_err(|error| MapError::call("size", name, error))?;
        Ok(Self { name, fd, id: info.id, length: info.max_entries, cpus })
    }

    /// The kernel's id of the map.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// How many counters there are. An entry beyond them is not counted.
    pub fn len(&self) -> u32 {
        self.length
    }

    /// True when there are none.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// A counter's sum over all CPUs; 0 for one that there is not.
    pub fn get(&self, index: u32) -> Result<u64, MapError> {
        let mut values = vec![0; self.cpus * 8];
        let found = bpf::lookup(self.fd.as_fd(), &index.to_ne_bytes(), &mut values)
            .map_err(|error| MapError::call("read", self.name, error))?;
        if !found {
            return Ok(0);
        }
        Ok(values.chunks_exact(8).filter_map(from_bytes::<u64>).fold(0, u64::wrapping_add))
    }

    /// Sets some counters to zero, on every CPU. What is counted meanwhile may be lost.
    pub fn forget(&self, indices: impl IntoIterator<Item = u32>) -> Result<(), MapError> {
        let zero = vec![0; self.cpus * 8];
        for index in indices.into_iter().filter(|index| *index < self.length) {
            bpf::update(self.fd.as_fd(), &index.to_ne_bytes(), &zero)
                .map_err(|error| MapError::call("write", self.name, error))?;
        }
        Ok(())
    }

    /// The sums of some counters, those that are not zero.
    pub fn read(&self, indices: impl IntoIterator<Item = u32>) -> Result<BTreeMap<u32, u64>, MapError> {
        let mut counted = BTreeMap::new();
        for index in indices {
            let count = self.get(index)?;
            if count != 0 {
                counted.insert(index, count);
            }
        }
        Ok(counted)
    }
}

/// CPUs that the kernel keeps a value for: those that could ever be there.
pub(super) fn possible_cpus() -> std::io::Result<usize> {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/possible")?;
    let last = text.trim().rsplit(['-', ',']).next().and_then(|last| last.parse::<usize>().ok());
    last.map(|last| last + 1).ok_or_else(|| std::io::Error::other(format!("no CPU numbers in {text:?}")))
}
