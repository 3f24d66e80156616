//! The `DEVICES` map: which pod is behind which interface, and under which ruleset.
//!
//! Invariant: a pod's [`Word`] is written by one aligned store into the map's memory, so every packet sees the old
//! one or the new one; the rest of a record is written only while its word lets nothing pass.
#![expect(clippy::missing_errors_doc, reason = "each error type says when it occurs")]

use std::num::NonZeroUsize;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use netlab_ebpf::abi::{Device, Word};
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};

use super::MapError;
use super::table::Table;

/// The map, and its memory.
#[derive(Clone, Debug)]
pub struct Devices {
    table: Table<u32, Device>,
    memory: Arc<Memory>,
}

impl Devices {
    pub(crate) fn new(fd: Arc<OwnedFd>) -> Result<Self, MapError> {
        let table: Table<u32, Device> = Table::new("DEVICES", fd)?;
        let memory = Memory::map(&table).map_err(|error| MapError::call("map", "DEVICES", error.into()))?;
        Ok(Self { table, memory: Arc::new(memory) })
    }

    /// The map as such, for reading and citing.
    pub fn table(&self) -> &Table<u32, Device> {
        &self.table
    }

    /// The record of an interface; all zero when nothing was written.
    pub fn get(&self, ifindex: u32) -> Result<Option<Device>, MapError> {
        self.table.get(&ifindex)
    }

    /// Writes a record: first everything with a word that lets nothing pass, then the word.
    pub fn set(&self, ifindex: u32, device: &Device) -> Result<(), MapError> {
        self.set_word(ifindex, Word::default())?;
        self.table.set(&ifindex, &Device { word: Word::default(), ..*device })?;
        self.set_word(ifindex, device.word)
    }

    /// Switches a pod to another ruleset or generation, at once.
    pub fn set_word(&self, ifindex: u32, word: Word) -> Result<(), MapError> {
        self.memory
            .word(ifindex)
            .ok_or(MapError::Interface { ifindex, limit: self.table.max_entries() })?
            .store(
                word.0,
                // What the word names is written before it.
                Ordering::Release,
            );
        Ok(())
    }

    /// The word of an interface.
    pub fn word(&self, ifindex: u32) -> Result<Word, MapError> {
        let word = self.memory.word(ifindex);
        let word = word.ok_or(MapError::Interface { ifindex, limit: self.table.max_entries() })?;
        Ok(Word(word.load(Ordering::Acquire)))
    }
}

/// The memory of the map: elements one after the other, each a multiple of eight bytes.
#[derive(Debug)]
struct Memory {
    start: NonNull<AtomicU64>,
    bytes: NonZeroUsize,
    elements: usize,
}

// SAFETY: the memory is only accessed through atomics and lives as long as the value.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

const WORDS_PER_DEVICE: usize = size_of::<Device>() / size_of::<u64>();
const _: () = assert!(size_of::<Device>().is_multiple_of(size_of::<u64>()));

impl Memory {
    fn map(table: &Table<u32, Device>) -> nix::Result<Self> {
        let elements = usize::try_from(table.max_entries()).map_err(|_| nix::Error::EINVAL)?;
        let bytes = elements.checked_mul(size_of::<Device>()).and_then(NonZeroUsize::new);
        let bytes = bytes.ok_or(nix::Error::EINVAL)?;
        let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a new mapping of a BPF_F_MMAPABLE array, wherever the kernel likes; nothing else uses it.
        let start = unsafe { mmap(None, bytes, protection, MapFlags::MAP_SHARED, table.fd().as_fd(), 0) }?;
        Ok(Self { start: start.cast(), bytes, elements })
    }

    fn word(&self, ifindex: u32) -> Option<&AtomicU64> {
        let index = usize::try_from(ifindex).ok().filter(|index| *index < self.elements)?;
        // SAFETY: the element is within the mapping, page-aligned at its start and eight bytes a word; the first
        // word of a `Device` is its `Word`.
        Some(unsafe { self.start.add(index * WORDS_PER_DEVICE).as_ref() })
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `map`, and nothing borrows it any more. It cannot fail for such a range.
        let _ = unsafe { munmap(self.start.cast(), self.bytes.get()) };
    }
}
