//! Whether an object would load here: does it depend on the kernel's own types, and does this kernel have them?
//!
//! An object that reads kernel structures carries CO-RE relocations, each of which a loader resolves against the
//! kernel's type information (BTF). netlab's own has none. This counts them by program, tries each against a kernel's
//! BTF and says which have no target. Invariant: nothing is loaded and nothing is changed; files of any content give
//! an answer or an error.

mod btf;
mod resolve;

use std::collections::BTreeMap;

use object::{Object as _, ObjectSection as _, ObjectSymbol as _, SymbolKind};

use btf::{Btf, Reader, header, part};
use resolve::{KINDS, Wanted, resolve};

/// What was found of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lockstep {
    /// Its version of the map layouts, if it is one of netlab's.
    pub abi: Option<u32>,
    /// CO-RE relocations of each program and function, those without any included.
    pub programs: BTreeMap<String, u32>,
    /// Those without a target, in their order.
    pub failures: Vec<Failure>,
}

impl Lockstep {
    /// All relocations.
    pub fn relocations(&self) -> u32 {
        self.programs.values().sum()
    }
}

/// A relocation without a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The program or function.
    pub program: String,
    /// Which instruction of its section, from 0.
    pub instruction: u32,
    /// What is asked: `byte offset`, `size`, …
    pub asks: &'static str,
    /// Of what: `struct task_struct.pid`.
    pub subject: String,
    /// Why it has none.
    pub why: String,
}

/// Why a file cannot be understood.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LockstepError {
    /// No object file.
    #[error("it is no ELF file of a BPF program: {0}")]
    NotElf(String),
    /// An object of another machine.
    #[error("it is an ELF file, but not of BPF")]
    NotBpf,
    /// Type information that contradicts itself.
    #[error("{what} cannot be understood: {why}")]
    Malformed {
        /// Which part.
        what: &'static str,
        /// What is wrong.
        why: String,
    },
    /// Relocations, and nothing to try them against.
    #[error("the file has no type information (no .BTF section)")]
    NoBtf,
}

/// A kernel's type information, as `/sys/kernel/btf/vmlinux` or an ELF file has it.
#[derive(Clone, Debug)]
pub struct KernelTypes(Btf);

impl KernelTypes {
    /// Reads them from a file's bytes.
    ///
    /// # Errors
    /// [`LockstepError`] when it is neither BTF nor an ELF file with a `.BTF` section.
    pub fn parse(bytes: &[u8]) -> Result<Self, LockstepError> {
        if bytes.starts_with(b"\x7fELF") {
            let file =
                object::File::parse(bytes).map_err(|error| LockstepError::NotElf(error.to_string()))?;
            let section = section(&file, ".BTF")?.ok_or(LockstepError::NoBtf)?;
            return Btf::parse(section).map(Self);
        }
        Btf::parse(bytes).map(Self)
    }
}

/// Looks at an object. `kernel` is asked for only when there is a relocation to try.
///
/// # Errors
/// [`LockstepError`] when the object cannot be understood; what `kernel` gives.
pub fn check<E: From<LockstepError>>(
    object: &[u8],
    kernel: impl FnOnce() -> Result<KernelTypes, E>,
) -> Result<Lockstep, E> {
    let file = object::File::parse(object).map_err(|error| LockstepError::NotElf(error.to_string()))?;
    if file.architecture() != object::Architecture::Bpf || !file.is_little_endian() {
        return Err(LockstepError::NotBpf.into());
    }
    let functions = functions(&file);
    let mut found = Lockstep { abi: abi(&file), ..Lockstep::default() };
    // What is in `.text` is called by programs, and is none.
    let programs = functions.iter().filter(|function| function.section != ".text");
    found.programs.extend(programs.map(|function| (function.name.clone(), 0)));
    let (Some(types), Some(ext)) = (section(&file, ".BTF")?, section(&file, ".BTF.ext")?) else {
        return Ok(found);
    };
    let local = Btf::parse(types)?;
    let relocations = relocations(ext, &local)?;
    if relocations.is_empty() {
        return Ok(found);
    }
    let KernelTypes(target) = kernel()?;
    for relocation in relocations {
        let Relocation { section, offset, type_id, access, kind } = &relocation;
        let within = |function: &&Function| {
            function.section == *section && (function.start..function.end).contains(&u64::from(*offset))
        };
        let program = functions.iter().find(within).map_or(section, |function| &function.name).clone();
        *found.programs.entry(program.clone()).or_default() += 1;
        let (subject, why) = resolve(&local, &target, &Wanted { kind: *kind, type_id: *type_id, access })?;
        if let Some(why) = why {
            let asks =
                usize::try_from(*kind).ok().and_then(|kind| KINDS.get(kind)).copied().unwrap_or_default();
            found.failures.push(Failure { program, instruction: offset / 8, asks, subject, why });
        }
    }
    Ok(found)
}

fn section<'a>(file: &object::File<'a>, name: &str) -> Result<Option<&'a [u8]>, LockstepError> {
    let Some(section) = file.section_by_name(name) else { return Ok(None) };
    section.data().map(Some).map_err(|error| LockstepError::NotElf(error.to_string()))
}

/// The layout version that an object of netlab bears.
fn abi(file: &object::File<'_>) -> Option<u32> {
    let symbol = file.symbols().find(|symbol| symbol.name() == Ok("ABI"))?;
    let section = file.section_by_index(symbol.section_index()?).ok()?;
    let start = usize::try_from(symbol.address().checked_sub(section.address())?).ok()?;
    section.data().ok()?.get(start..)?.first_chunk::<4>().map(|bytes| u32::from_le_bytes(*bytes))
}

struct Function {
    name: String,
    section: String,
    start: u64,
    end: u64,
}

fn functions(file: &object::File<'_>) -> Vec<Function> {
    let symbols = file.symbols().filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.size() > 0);
    let function = |symbol: object::Symbol<'_, '_>| {
        let section = file.section_by_index(symbol.section_index()?).ok()?;
        Some(Function {
            name: symbol.name().ok()?.to_owned(),
            section: section.name().ok()?.to_owned(),
            start: symbol.address(),
            end: symbol.address().saturating_add(symbol.size()),
        })
    };
    symbols.filter_map(function).collect()
}

struct Relocation {
    section: String,
    /// In bytes, from the section's start.
    offset: u32,
    type_id: u32,
    access: String,
    kind: u32,
}

/// `struct btf_ext_header` and the records of its CO-RE part.
fn relocations(ext: &[u8], local: &Btf) -> Result<Vec<Relocation>, LockstepError> {
    const WHAT: &str = ".BTF.ext";
    let length = header(ext, WHAT)?;
    // Older headers end before this part.
    if length < 32 {
        return Ok(Vec::new());
    }
    let mut reader = Reader::new(ext, WHAT);
    reader.take(24)?;
    let (offset, size) = (reader.u32()?, reader.u32()?);
    if size == 0 {
        return Ok(Vec::new());
    }
    let start = length.saturating_add(usize::try_from(offset).unwrap_or(usize::MAX));
    let mut reader = Reader::new(part(ext, start, size, WHAT)?, WHAT);
    let record = reader.u32()?;
    let rest = record.checked_sub(16).and_then(|rest| usize::try_from(rest).ok());
    let rest = rest.ok_or_else(|| LockstepError::Malformed {
        what: WHAT,
        why: format!("its relocations have {record} bytes each, fewer than there are in one"),
    })?;
    let mut all = Vec::new();
    while !reader.is_empty() {
        let (section, count) = (local.string(reader.u32()?)?, reader.u32()?);
        for _ in 0..count {
            let (offset, type_id, access, kind) =
                (reader.u32()?, reader.u32()?, reader.u32()?, reader.u32()?);
            reader.take(rest)?;
            all.push(Relocation {
                section: section.clone(),
                offset,
                type_id,
                access: local.string(access)?,
                kind,
            });
        }
    }
    Ok(all)
}
