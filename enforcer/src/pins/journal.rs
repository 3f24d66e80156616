//! The record of what the pinned maps hold, and of what they are about to hold.
//!
//! ```text
//! index.json                 which change is in force, and which is being made
//! change-<generation>.json   a change, its numbers in the kernel, and what its maker wants to know of it later
//! ```
//!
//! Invariant: a change and the index that says that it is being made are on disk before the first map is written, and
//! the index that says that it is in force is written after the last; each file is replaced as a whole. So after a
//! crash at any moment the maps are those of one change, or on the way between the two that the index names.

use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use netlab_core::policy::change::Change;
use netlab_core::policy::image::Image;
use netlab_ebpf::abi::RulesetPorts;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{PinError, io_error};
use crate::update::slots::{Freed, Place, Slots};
use crate::update::tables::{PortNumbers, SlotsOf, Tables};

/// The format of the files.
const FORMAT: u32 = 1;

/// The index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Index {
    format: u32,
    /// The node's network namespace.
    netns: u64,
    /// The generation of the change in force.
    in_force: Option<u32>,
    /// That of the change that is being made.
    next: Option<u32>,
}

/// A change with its numbers.
#[derive(Clone, Debug)]
pub(crate) struct Saved {
    pub(crate) change: Change,
    pub(crate) tables: Tables,
    pub(crate) note: Value,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ChangeFile<C> {
    change: C,
    rulesets: SlotsFile,
    entries: SlotsFile,
    /// By ruleset's slot: the port tables of ingress and egress.
    ports: BTreeMap<u32, [u32; 2]>,
    /// By port table: the pages, each with the index from which on it is the page.
    pages: BTreeMap<u32, Vec<[u32; 2]>>,
    note: Value,
}

/// Slots, consecutive ones as one row.
#[derive(Serialize, Deserialize)]
struct SlotsFile {
    /// Number, slot, since, how many.
    used: Vec<[u32; 4]>,
    /// Slot, number, since, until, how many.
    freed: Vec<[u32; 5]>,
}

/// The files of a set.
#[derive(Debug)]
pub(crate) struct Journal {
    directory: PathBuf,
    index: Index,
}

impl Journal {
    /// An empty record.
    pub(crate) fn create(directory: PathBuf, netns: u64) -> Result<Self, PinError> {
        match fs::remove_dir_all(&directory) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(io_error("remove", &directory)(error));
            }
            _ => {}
        }
        fs::create_dir_all(&directory).map_err(io_error("make", &directory))?;
        let index = Index { format: FORMAT, netns, in_force: None, next: None };
        let mut journal = Self { directory, index };
        journal.set_index(index)?;
        Ok(journal)
    }

    /// The record that is there; `None` when it is not, or not readable as ours.
    pub(crate) fn open(directory: &Path, netns: u64) -> Result<Option<Self>, PinError> {
        let path = directory.join("index.json");
        let Some(index) = read::<Value>(&path)? else { return Ok(None) };
        let format =
            index.get("format").and_then(Value::as_u64).and_then(|format| u32::try_from(format).ok());
        if let Some(found) = format.filter(|found| *found > FORMAT) {
            return Err(PinError::Format { path, found, expected: FORMAT });
        }
        let Ok(index) = serde_json::from_value::<Index>(index) else { return Ok(None) };
        if index.netns != netns {
            return Err(PinError::OtherNode { path: directory.to_owned() });
        }
        Ok(Some(Self { directory: directory.to_owned(), index }))
    }

    /// The change in force and the one that was being made; `None` when one of those that the index names is not
    /// there.
    pub(crate) fn read(&self) -> Result<Option<[Option<Saved>; 2]>, PinError> {
        let saved = [self.saved(self.index.in_force)?, self.saved(self.index.next)?];
        let named = [self.index.in_force, self.index.next];
        let whole = saved.iter().zip(named).all(|(saved, named)| saved.is_some() == named.is_some());
        Ok(whole.then_some(saved))
    }

    fn saved(&self, generation: Option<u32>) -> Result<Option<Saved>, PinError> {
        let Some(generation) = generation else { return Ok(None) };
        let Some(file) = read::<ChangeFile<Change>>(&self.change_path(generation))? else { return Ok(None) };
        let Ok(image) = Image::from_change(&file.change) else { return Ok(None) };
        let slots = SlotsOf { rulesets: file.rulesets.slots(), entries: file.entries.slots() };
        let ports = file.ports.into_iter();
        let ports = ports.map(|(slot, [ingress, egress])| (slot, RulesetPorts { ingress, egress }));
        let numbers = PortNumbers { tables: ports.collect(), pages: file.pages };
        let tables = Tables::placed(&image, slots, &numbers);
        Ok(Some(Saved { change: file.change, tables, note: file.note }))
    }

    /// The network namespace.
    pub(crate) const fn netns(&self) -> u64 {
        self.index.netns
    }

    /// Notes what is about to be written into the maps.
    pub(crate) fn begin(&mut self, change: &Change, tables: &Tables, note: &Value) -> Result<(), PinError> {
        let PortNumbers { tables: ports, pages } = tables.port_numbers();
        let file = ChangeFile {
            change,
            rulesets: SlotsFile::of(&tables.slots.rulesets),
            entries: SlotsFile::of(&tables.slots.entries),
            ports: ports.into_iter().map(|(slot, ports)| (slot, [ports.ingress, ports.egress])).collect(),
            pages,
            note: note.clone(),
        };
        write(&self.change_path(change.generation), &file)?;
        self.set_index(Index { next: Some(change.generation), ..self.index })
    }

    /// Notes that the change that was being made is in force.
    pub(crate) fn finish(&mut self) -> Result<(), PinError> {
        if self.index.next.is_none() {
            return Ok(());
        }
        self.set_index(Index { in_force: self.index.next, next: None, ..self.index })?;
        self.tidy()
    }

    /// Notes that the change that was being made is not.
    pub(crate) fn undo(&mut self) -> Result<(), PinError> {
        self.set_index(Index { next: None, ..self.index })?;
        self.tidy()
    }

    /// Removes the changes that the index no longer names.
    fn tidy(&self) -> Result<(), PinError> {
        let named = [self.index.in_force, self.index.next].into_iter().flatten();
        let named: Vec<PathBuf> = named.map(|generation| self.change_path(generation)).collect();
        for entry in fs::read_dir(&self.directory).map_err(io_error("list", &self.directory))? {
            let path = entry.map_err(io_error("list", &self.directory))?.path();
            if path.file_name().is_some_and(|name| name != "index.json") && !named.contains(&path) {
                fs::remove_file(&path).map_err(io_error("remove", &path))?;
            }
        }
        Ok(())
    }

    fn set_index(&mut self, index: Index) -> Result<(), PinError> {
        write(&self.directory.join("index.json"), &index)?;
        self.index = index;
        Ok(())
    }

    fn change_path(&self, generation: u32) -> PathBuf {
        self.directory.join(format!("change-{generation}.json"))
    }
}

impl SlotsFile {
    fn of(slots: &Slots) -> Self {
        let mut used: Vec<[u32; 4]> = Vec::new();
        for (number, Place { slot, since }) in slots.places() {
            match used.last_mut() {
                Some([first, start, from, count])
                    if first.checked_add(*count) == Some(*number)
                        && start.checked_add(*count) == Some(*slot)
                        && from == since =>
                {
                    *count += 1;
                }
                _ => used.push([*number, *slot, *since, 1]),
            }
        }
        let mut freed: Vec<[u32; 5]> = Vec::new();
        for Freed { slot, number, since, until } in slots.freed() {
            match freed.last_mut() {
                Some([start, first, from, to, count])
                    if start.checked_add(*count) == Some(*slot)
                        && first.checked_add(*count) == Some(*number)
                        && from == since
                        && to == until =>
                {
                    *count += 1;
                }
                _ => freed.push([*slot, *number, *since, *until, 1]),
            }
        }
        Self { used, freed }
    }

    fn slots(&self) -> Slots {
        let places = self.used.iter().flat_map(|[number, slot, since, count]| {
            (0..*count).map(move |offset| {
                (number.saturating_add(offset), Place { slot: slot.saturating_add(offset), since: *since })
            })
        });
        let freed: VecDeque<Freed> = self
            .freed
            .iter()
            .flat_map(|[slot, number, since, until, count]| {
                (0..*count).map(move |offset| Freed {
                    slot: slot.saturating_add(offset),
                    number: number.saturating_add(offset),
                    since: *since,
                    until: *until,
                })
            })
            .collect();
        Slots::from_parts(places.collect(), freed)
    }
}

/// `None` when the file is not there or is not what it should be.
fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, PinError> {
    match fs::read(path) {
        Ok(bytes) => Ok(serde_json::from_slice(&bytes).ok()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(io_error("read", path)(error)),
    }
}

/// Replaces a file as a whole, and waits until it is on disk.
fn write(path: &Path, value: &impl Serialize) -> Result<(), PinError> {
    let bytes = serde_json::to_vec(value)?;
    let next = path.with_extension("json-next");
    let written =
        File::create(&next).and_then(|mut file| file.write_all(&bytes).and_then(|()| file.sync_all()));
    written.map_err(io_error("write", &next))?;
    fs::rename(&next, path).map_err(io_error("rename", &next))?;
    let directory = path.parent().unwrap_or(path);
    File::open(directory).and_then(|directory| directory.sync_all()).map_err(io_error("sync", directory))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn slots_are_read_as_they_were_written() {
        let mut slots = Slots::default();
        for generation in 1..40_u32 {
            let numbers: BTreeSet<u32> = (generation..generation + 3).chain(500..510).collect();
            slots = slots.next(&numbers, generation, 1..40).expect("room");
        }
        assert!(!slots.freed().is_empty());
        assert_eq!(SlotsFile::of(&slots).slots(), slots);
    }
}
