//! What an object contains, as lines of text in a fixed order: what two builds of the same sources agree in.
//!
//! Type information is described by content (each type in full, references by their own description), because
//! the numbering of types and the offsets of strings depend on the order in which debug information was met.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use anyhow::{Context, bail};
use object::read::elf::{ElfFile64, FileHeader as _};
use object::{Object as _, ObjectSection as _, ObjectSymbol as _, RelocationTarget};

/// Describes an object.
pub(super) fn describe(object: &[u8]) -> anyhow::Result<String> {
    let file = ElfFile64::<object::Endianness>::parse(object).context("not an ELF file")?;
    let mut lines = vec![format!("machine {:?}", file.elf_header().e_machine(file.endian()))];
    for section in file.sections() {
        let name = section.name()?;
        match name {
            "" | ".strtab" | ".symtab" | ".BTF" | ".BTF.ext" => {}
            _ if name.starts_with(".rel") => {}
            _ => section_lines(name, section.data()?, &mut lines),
        }
        for (offset, relocation) in section.relocations() {
            let target = match relocation.target() {
                RelocationTarget::Symbol(index) => symbol_name(&file, index)?,
                other => format!("{other:?}"),
            };
            lines.push(format!("relocation {name}+{offset:#x} {:?} {target}", relocation.flags()));
        }
    }
    let mut symbols = BTreeSet::new();
    for symbol in file.symbols() {
        let Some(section) = symbol.section_index() else { continue };
        let section = file.section_by_index(section)?;
        symbols.insert(format!(
            "symbol {} {}+{:#x} size {}",
            symbol.name()?,
            section.name()?,
            symbol.address(),
            symbol.size()
        ));
    }
    lines.extend(symbols);
    let btf = file.section_by_name(".BTF").context("no .BTF section: linked without --btf?")?;
    lines.extend(types(btf.data()?)?);
    Ok(lines.join("\n"))
}

/// A section's bytes, eight to a line: one BPF instruction each.
fn section_lines(name: &str, data: &[u8], lines: &mut Vec<String>) {
    for (index, chunk) in data.chunks(8).enumerate() {
        let bytes = chunk.iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        });
        lines.push(format!("section {name}+{:#x} {bytes}", index * 8));
    }
}

fn symbol_name(file: &ElfFile64<'_>, index: object::SymbolIndex) -> anyhow::Result<String> {
    let symbol = file.symbol_by_index(index)?;
    let name = symbol.name()?;
    if !name.is_empty() {
        return Ok(name.to_owned());
    }
    let section = symbol.section_index().context("a relocation against nothing")?;
    Ok(format!("section {}", file.section_by_index(section)?.name()?))
}

/// One type of the type information, by its encoding in `Documentation/bpf/btf.rst`.
struct Type {
    name: String,
    kind: u32,
    flag: bool,
    length: u32,
    /// Size or referenced type, as the kind says.
    value: u32,
    data: Vec<u32>,
}

/// The types by content, sorted.
fn types(btf: &[u8]) -> anyhow::Result<BTreeSet<String>> {
    let word = |offset: usize| -> anyhow::Result<u32> {
        let bytes = btf.get(offset..offset + 4).context(".BTF ends early")?;
        Ok(u32::from_le_bytes(bytes.try_into()?))
    };
    if word(0)? & 0xffff != 0xeb9f {
        bail!(".BTF does not begin as it should");
    }
    let header = word(4)? as usize;
    let (types_at, types_length) = (header + word(8)? as usize, word(12)? as usize);
    let (strings_at, strings_length) = (header + word(16)? as usize, word(20)? as usize);
    let strings = btf.get(strings_at..strings_at + strings_length).context(".BTF ends early")?;
    let string = |offset: u32| -> anyhow::Result<String> {
        let rest = strings.get(offset as usize..).context("a name beyond .BTF")?;
        let end = rest.iter().position(|byte| *byte == 0).context("a name without end")?;
        Ok(String::from_utf8_lossy(&rest[..end]).into_owned())
    };
    let mut all = vec![];
    let mut offset = types_at;
    while offset < types_at + types_length {
        let info = word(offset + 4)?;
        let (kind, length) = (info >> 24 & 0x1f, info & 0xffff);
        let words = match kind {
            1 | 14 | 17 => 1,
            3 => 3,
            4 | 5 | 15 | 19 => 3 * length,
            6 | 13 => 2 * length,
            2 | 7..=12 | 16 | 18 => 0,
            _ => bail!("a kind of type that is not known: {kind}"),
        };
        let mut data = Vec::new();
        for index in 0..words as usize {
            data.push(word(offset + 12 + index * 4)?);
        }
        all.push(Type {
            name: string(word(offset)?)?,
            kind,
            flag: info >> 31 != 0,
            length,
            value: word(offset + 8)?,
            data,
        });
        offset += 12 + words as usize * 4;
    }
    let mut described = BTreeSet::new();
    for one in &all {
        described.insert(format!("type {}", describe_type(one, &all, &string, 0)?));
    }
    Ok(described)
}

/// A type in full; what it refers to in full as well, down to pointers and named types met on the way.
fn describe_type(
    one: &Type,
    all: &[Type],
    string: &impl Fn(u32) -> anyhow::Result<String>,
    depth: u32,
) -> anyhow::Result<String> {
    let refer = |number: u32| -> anyhow::Result<String> {
        match number.checked_sub(1) {
            None => Ok("void".to_owned()),
            Some(index) => {
                let other = all.get(index as usize).context("a type that is not there")?;
                describe_type(other, all, string, depth + 1)
            }
        }
    };
    let Type { name, kind, flag, length, value, data } = one;
    let mut text = format!("{kind}/{}/{name}", u8::from(*flag));
    if depth > 0 && !name.is_empty() || depth > 6 {
        return Ok(text);
    }
    match kind {
        1 | 16 | 17 => write!(text, "[{value} {data:?}]")?,
        3 => {
            if let [element, _, number] = data[..] {
                write!(text, "[{} x {number}]", refer(element)?)?;
            }
        }
        4 | 5 => {
            write!(text, "[{value}")?;
            for member in data.chunks_exact(3) {
                write!(text, "; {}@{} {}", string(member[0])?, member[2], refer(member[1])?)?;
            }
            text.push(']');
        }
        6 => {
            write!(text, "[{value}")?;
            for member in data.chunks_exact(2) {
                write!(text, "; {}={}", string(member[0])?, member[1])?;
            }
            text.push(']');
        }
        13 => {
            write!(text, "[{}", refer(*value)?)?;
            for member in data.chunks_exact(2) {
                write!(text, "; {} {}", string(member[0])?, refer(member[1])?)?;
            }
            text.push(']');
        }
        15 => {
            let mut variables = BTreeSet::new();
            for member in data.chunks_exact(3) {
                variables.insert(format!("{} size {}", refer(member[0])?, member[2]));
            }
            write!(text, "{variables:?}")?;
        }
        7 => {}
        _ => write!(text, "[{length} {} {data:?}]", refer(*value)?)?,
    }
    Ok(text)
}
