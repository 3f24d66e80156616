//! The BPF object that is built into netlab.
//!
//! Invariant: what is loaded is byte for byte what was committed (its hash is recorded beside it), of the layout
//! version that this netlab was compiled with, and without relocations that would depend on the kernel's own
//! types. Makes no system call; how to build the object is `cargo xtask bpf`'s knowledge.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::CString;
use std::fmt::Write as _;
use std::os::fd::RawFd;

use aya_obj::generated::bpf_insn;
use aya_obj::{EbpfSectionKind, Map};
use netlab_ebpf::abi::ABI_VERSION;
use netlab_ebpf::reason::Reason;
use sha2::{Digest, Sha256};

use crate::bpf::MapShape;
use crate::functions::{self, FunctionInfo};

/// ELF headers are read in place, so the bytes must be aligned for them.
#[repr(C, align(8))]
struct Aligned<T: ?Sized>(T);

static OBJECT: &Aligned<[u8]> = &Aligned(*include_bytes!("../bpf/netlab-tc.o"));
static RECORD: &str = include_str!("../bpf/netlab-tc.o.sha256");

/// The object's bytes.
pub fn bytes() -> &'static [u8] {
    &OBJECT.0
}

/// SHA-256 of [`bytes`], in hexadecimal.
pub fn hash() -> String {
    Sha256::digest(bytes()).iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The hash that was recorded when the object was built.
pub fn recorded_hash() -> Option<&'static str> {
    RECORD.lines().find_map(|line| line.strip_prefix("object "))
}

/// The programs, by their names in the object.
pub const PROGRAMS: [&str; 3] = ["from_pod", "to_pod", "to_wire"];

/// What is set in the object before the verifier sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Globals {
    pub(crate) seconds_per_jiffy: u64,
    pub(crate) lab: u32,
    pub(crate) allowed_events: u32,
    pub(crate) defer_mark: u32,
}

/// A map as the object defines it.
pub(crate) struct MapDefinition {
    pub(crate) shape: MapShape,
    /// The content of a map of constants; empty for others.
    pub(crate) data: Vec<u8>,
}

/// A program ready to load.
pub(crate) struct Code {
    pub(crate) name: &'static str,
    pub(crate) license: CString,
    pub(crate) instructions: Vec<bpf_insn>,
    pub(crate) functions: Vec<FunctionInfo>,
}

/// The object, read.
pub(crate) struct Object {
    object: aya_obj::Object,
    maps: HashMap<String, Map>,
}

/// The name of the map that holds the constants.
pub(crate) const CONSTANTS: &str = ".rodata";

impl Object {
    /// Reads the embedded object and sets its globals.
    pub(crate) fn read(globals: Globals) -> Result<Self, ObjectError> {
        let mut object =
            aya_obj::Object::parse(bytes()).map_err(|error| ObjectError::Unreadable(error.to_string()))?;
        if object.has_btf_relocations() {
            return Err(ObjectError::KernelTypes);
        }
        check_abi(&mut object)?;
        let Globals { seconds_per_jiffy, lab, allowed_events, defer_mark } = globals;
        let (seconds_per_jiffy, lab, allowed_events) =
            (seconds_per_jiffy.to_ne_bytes(), lab.to_ne_bytes(), allowed_events.to_ne_bytes());
        patch(
            &mut object,
            [
                ("ABI", &ABI_VERSION.to_ne_bytes()),
                ("SECONDS_PER_JIFFY", &seconds_per_jiffy),
                ("LAB", &lab),
                ("ALLOWED_EVENTS", &allowed_events),
                ("DEFER_MARK", &defer_mark.to_ne_bytes()),
            ],
        )?;
        let maps = std::mem::take(&mut object.maps);
        Ok(Self { object, maps })
    }

    /// The maps to make, by name.
    pub(crate) fn maps(&self) -> BTreeMap<String, MapDefinition> {
        let definition = |map: &Map| MapDefinition {
            shape: MapShape {
                kind: map.map_type(),
                key_size: map.key_size(),
                value_size: map.value_size(),
                max_entries: map.max_entries(),
                flags: map.map_flags(),
            },
            data: if map.section_kind() == EbpfSectionKind::Rodata {
                map.data().to_vec()
            } else {
                Vec::new()
            },
        };
        self.maps.iter().map(|(name, map)| (name.clone(), definition(map))).collect()
    }

    /// Puts the maps' descriptors into the code and joins functions.
    pub(crate) fn link(mut self, fds: &BTreeMap<String, RawFd>) -> Result<[Code; 3], ObjectError> {
        let error =
            |error: aya_obj::relocation::EbpfRelocationError| ObjectError::Unreadable(error.to_string());
        let sections: HashSet<usize> = self.object.functions.keys().map(|(section, _)| *section).collect();
        let maps = self.maps.iter().filter_map(|(name, map)| Some((name.as_str(), *fds.get(name)?, map)));
        self.object.relocate_maps(maps, &sections).map_err(error)?;
        self.object.relocate_calls(&sections).map_err(error)?;
        Ok([self.code(PROGRAMS[0])?, self.code(PROGRAMS[1])?, self.code(PROGRAMS[2])?])
    }

    fn code(&self, name: &'static str) -> Result<Code, ObjectError> {
        let program = self.object.programs.get(name).ok_or(ObjectError::NoProgram { name })?;
        let function = self.object.functions.get(&program.function_key());
        let function = function.ok_or(ObjectError::NoProgram { name })?;
        let instructions = function.instructions.clone();
        let said = &function.func_info.func_info;
        let functions = functions::functions(self.object.btf.as_ref(), &instructions, said);
        Ok(Code { name, license: program.license.clone(), instructions, functions })
    }
}

fn patch<const N: usize>(
    object: &mut aya_obj::Object,
    globals: [(&'static str, &[u8]); N],
) -> Result<(), ObjectError> {
    let globals = globals.into_iter().map(|(name, bytes)| (name, (bytes, true))).collect();
    object.patch_map_data(globals).map_err(|error| ObjectError::Unreadable(error.to_string()))
}

/// Compares the object's `ABI` with ours. The reader of objects can only write a global, so its place is found by
/// what a write changes.
fn check_abi(object: &mut aya_obj::Object) -> Result<(), ObjectError> {
    let constants = |object: &aya_obj::Object| object.maps.get(CONSTANTS).map(|map| map.data().to_vec());
    let before = constants(object).unwrap_or_default();
    patch(object, [("ABI", &[0; 4])])?;
    let low = constants(object).unwrap_or_default();
    patch(object, [("ABI", &[0xff; 4])])?;
    let high = constants(object).unwrap_or_default();
    let place = low.iter().zip(&high).position(|(low, high)| low != high);
    let found = place
        .and_then(|place| before.get(place..)?.first_chunk::<4>())
        .map_or(0, |bytes| u32::from_ne_bytes(*bytes));
    if found == ABI_VERSION { Ok(()) } else { Err(ObjectError::Abi { found }) }
}

/// What can be wrong with the object.
#[derive(Debug, thiserror::Error)]
pub enum ObjectError {
    /// Not an object that can be read.
    #[error("the built-in BPF object cannot be read ({0}): rebuild it with `cargo xtask bpf`")]
    Unreadable(String),
    /// It needs relocations that depend on the running kernel.
    #[error("the built-in BPF object depends on the kernel's own types, which netlab's must not")]
    KernelTypes,
    /// Other layouts than ours.
    #[error(
        "the built-in BPF object has layout version {found}, but this netlab uses {ABI_VERSION}: rebuild it with \
         `cargo xtask bpf`"
    )]
    Abi {
        /// The object's.
        found: u32,
    },
    /// A program is missing.
    #[error("the built-in BPF object has no program {name}: rebuild it with `cargo xtask bpf`")]
    NoProgram {
        /// The program.
        name: &'static str,
    },
}

/// The entry ids that packets may be counted under without any compiled row.
pub fn built_in_entries() -> impl Iterator<Item = u32> {
    Reason::FIXED.into_iter().map(Reason::entry)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GLOBALS: Globals = Globals { seconds_per_jiffy: 1, lab: 0, allowed_events: 0, defer_mark: 0 };

    #[test]
    fn the_embedded_object_is_the_recorded_one() {
        assert_eq!(recorded_hash(), Some(hash().as_str()));
    }

    #[test]
    fn every_map_of_the_layout_is_there_with_its_size() {
        let maps = Object::read(GLOBALS).expect("readable").maps();
        for (name, key_size, value_size) in [
            ("DEVICES", 4, 40),
            ("PEERS", 16, 8),
            ("CIDRS", 20, 8),
            ("RULESETS", 4, 8),
            ("PORT_PAGES", 4, 4),
            ("PORT_CLASSES", 4, 256),
            ("POLICY", 12, 12),
            ("CONNTRACK4", 20, 24),
            ("CONNTRACK6", 44, 24),
            ("FRAGMENTS", 44, 16),
            ("COUNTERS", 4, 8),
            ("LAST_DROP", 4, 112),
            ("LOST", 4, 8),
        ] {
            let shape = maps.get(name).expect(name).shape;
            assert_eq!((shape.key_size, shape.value_size), (key_size, value_size), "{name}");
        }
        assert!(maps.contains_key("EVENTS"));
    }

    #[test]
    fn globals_reach_the_constants() {
        let constants = |globals| Object::read(globals).expect("readable").maps()[CONSTANTS].data.clone();
        assert_ne!(constants(GLOBALS), constants(Globals { lab: 1, ..GLOBALS }));
        assert_eq!(constants(GLOBALS), constants(GLOBALS));
    }

    #[test]
    fn every_part_is_told_to_the_kernel() {
        let object = Object::read(GLOBALS).expect("readable");
        let fds = object.maps().into_keys().map(|name| (name, 3)).collect();
        let [from_pod, to_pod, to_wire] = object.link(&fds).expect("linked");
        for (code, parts) in [(&from_pod, 7), (&to_pod, 7), (&to_wire, 2)] {
            let told = code.functions.iter().filter(|function| function.is_part()).count();
            assert_eq!(told, parts, "{}", code.name);
        }
    }
}
