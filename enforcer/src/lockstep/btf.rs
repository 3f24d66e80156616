//! Type information as it lies in a `.BTF` section: `include/uapi/linux/btf.h`.
//!
//! Invariant: every offset and index is compared with what there is, and every chain of types that refer to one another
//! is followed for a bounded number of steps, so no input makes this panic or go on for ever. Little endian only.

use super::LockstepError;

pub(super) const INT: u32 = 1;
pub(super) const PTR: u32 = 2;
pub(super) const ARRAY: u32 = 3;
pub(super) const STRUCT: u32 = 4;
pub(super) const UNION: u32 = 5;
pub(super) const ENUM: u32 = 6;
pub(super) const FWD: u32 = 7;
pub(super) const TYPEDEF: u32 = 8;
const VOLATILE: u32 = 9;
const CONST: u32 = 10;
const RESTRICT: u32 = 11;
const FUNC: u32 = 12;
const FUNC_PROTO: u32 = 13;
const VAR: u32 = 14;
const DATASEC: u32 = 15;
pub(super) const FLOAT: u32 = 16;
const DECL_TAG: u32 = 17;
const TYPE_TAG: u32 = 18;
pub(super) const ENUM64: u32 = 19;

/// `BTF_MAGIC`.
const MAGIC: u16 = 0xeb9f;
/// Longest chain of typedefs and qualifiers that is followed.
const DEPTH: usize = 64;

/// A type.
#[derive(Clone, Debug, Default)]
pub(super) struct Type {
    pub(super) name: String,
    pub(super) kind: u32,
    /// The type that it refers to; the size in bytes of what refers to none.
    pub(super) refers: u32,
    /// Members of structures and unions; values of enumerations, which have a name only.
    pub(super) members: Vec<Member>,
    /// Element type and number of elements of an array.
    pub(super) array: (u32, u32),
}

/// A member.
#[derive(Clone, Debug, Default)]
pub(super) struct Member {
    pub(super) name: String,
    pub(super) type_id: u32,
    pub(super) bit_offset: u32,
    /// Not 0 for a bit field.
    pub(super) bits: u32,
}

/// Types by number; 0 is `void`.
#[derive(Clone, Debug)]
pub(super) struct Btf {
    types: Vec<Type>,
    strings: Vec<u8>,
}

/// Reads numbers one after the other.
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    what: &'static str,
}

impl<'a> Reader<'a> {
    pub(super) const fn new(bytes: &'a [u8], what: &'static str) -> Self {
        Self { bytes, what }
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(super) fn take(&mut self, count: usize) -> Result<&'a [u8], LockstepError> {
        let short = || LockstepError::Malformed { what: self.what, why: "it ends in the middle".to_owned() };
        let (taken, rest) = self.bytes.split_at_checked(count).ok_or_else(short)?;
        self.bytes = rest;
        Ok(taken)
    }

    pub(super) fn u32(&mut self) -> Result<u32, LockstepError> {
        let bytes = self.take(4)?;
        Ok(bytes.first_chunk::<4>().map_or(0, |bytes| u32::from_le_bytes(*bytes)))
    }
}

/// Part of a section, by offset and length.
pub(super) fn part<'a>(
    bytes: &'a [u8],
    start: usize,
    length: u32,
    what: &'static str,
) -> Result<&'a [u8], LockstepError> {
    let end = usize::try_from(length).ok().and_then(|length| start.checked_add(length));
    end.and_then(|end| bytes.get(start..end))
        .ok_or_else(|| LockstepError::Malformed { what, why: "its header points beyond its end".to_owned() })
}

/// The header that both sections begin with: its length.
pub(super) fn header(bytes: &[u8], what: &'static str) -> Result<usize, LockstepError> {
    let malformed = |why: &str| LockstepError::Malformed { what, why: why.to_owned() };
    let magic = bytes.first_chunk::<2>().map(|bytes| u16::from_le_bytes(*bytes));
    match magic {
        Some(MAGIC) => {}
        Some(magic) if magic.swap_bytes() == MAGIC => {
            return Err(malformed("it is of a big-endian machine"));
        }
        _ => return Err(malformed("it does not begin with BTF's magic number")),
    }
    let mut reader = Reader::new(bytes, what);
    reader.take(4)?;
    usize::try_from(reader.u32()?).map_err(|_| malformed("its header is too long"))
}

impl Btf {
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, LockstepError> {
        const WHAT: &str = "BTF";
        let length = header(bytes, WHAT)?;
        let mut reader = Reader::new(bytes, WHAT);
        reader.take(8)?;
        let (type_offset, type_length) = (reader.u32()?, reader.u32()?);
        let (string_offset, string_length) = (reader.u32()?, reader.u32()?);
        let at = |offset: u32| length.saturating_add(usize::try_from(offset).unwrap_or(usize::MAX));
        let types = part(bytes, at(type_offset), type_length, WHAT)?;
        let strings = part(bytes, at(string_offset), string_length, WHAT)?.to_vec();
        let mut btf = Self { types: vec![Type::default()], strings };
        let mut reader = Reader::new(types, WHAT);
        while !reader.is_empty() {
            let next = btf.read(&mut reader)?;
            btf.types.push(next);
        }
        Ok(btf)
    }

    fn read(&self, reader: &mut Reader<'_>) -> Result<Type, LockstepError> {
        let (name, info, refers) = (reader.u32()?, reader.u32()?, reader.u32()?);
        let (count, kind, flag) = (info & 0xffff, info >> 24 & 0x1f, info >> 31 == 1);
        let mut read = Type { name: self.string(name)?, kind, refers, ..Type::default() };
        match kind {
            INT | VAR | DECL_TAG => drop(reader.take(4)?),
            ARRAY => {
                let (element, _index, length) = (reader.u32()?, reader.u32()?, reader.u32()?);
                read.array = (element, length);
            }
            STRUCT | UNION => {
                for _ in 0..count {
                    let (name, type_id, offset) = (reader.u32()?, reader.u32()?, reader.u32()?);
                    let (bit_offset, bits) =
                        if flag { (offset & 0x00ff_ffff, offset >> 24) } else { (offset, 0) };
                    read.members.push(Member { name: self.string(name)?, type_id, bit_offset, bits });
                }
            }
            ENUM | ENUM64 => {
                for _ in 0..count {
                    let name = self.string(reader.u32()?)?;
                    reader.take(if kind == ENUM { 4 } else { 8 })?;
                    read.members.push(Member { name, ..Member::default() });
                }
            }
            FUNC_PROTO => {
                for _ in 0..count {
                    reader.take(8)?;
                }
            }
            DATASEC => {
                for _ in 0..count {
                    reader.take(12)?;
                }
            }
            PTR | FWD | TYPEDEF | VOLATILE | CONST | RESTRICT | FUNC | FLOAT | TYPE_TAG => {}
            other => {
                return Err(LockstepError::Malformed {
                    what: "BTF",
                    why: format!("it has a type of kind {other}"),
                });
            }
        }
        Ok(read)
    }

    /// A name by its offset.
    pub(super) fn string(&self, offset: u32) -> Result<String, LockstepError> {
        let rest = usize::try_from(offset).ok().and_then(|offset| self.strings.get(offset..));
        let name = rest.and_then(|rest| rest.split(|byte| *byte == 0).next());
        let name = name.or(if offset == 0 { Some(&[]) } else { None });
        name.map(|name| String::from_utf8_lossy(name).into_owned()).ok_or_else(|| LockstepError::Malformed {
            what: "BTF",
            why: format!("a name is at {offset}, beyond the names"),
        })
    }

    pub(super) fn get(&self, id: u32) -> Result<&Type, LockstepError> {
        usize::try_from(id).ok().and_then(|id| self.types.get(id)).ok_or_else(|| LockstepError::Malformed {
            what: "BTF",
            why: format!("it refers to type {id}, which it does not have"),
        })
    }

    /// The type behind qualifiers, tags and typedefs, with its number.
    pub(super) fn behind(&self, mut id: u32) -> Result<(u32, &Type), LockstepError> {
        for _ in 0..DEPTH {
            let found = self.get(id)?;
            match found.kind {
                TYPEDEF | VOLATILE | CONST | RESTRICT | TYPE_TAG => id = found.refers,
                _ => return Ok((id, found)),
            }
        }
        Err(LockstepError::Malformed { what: "BTF", why: format!("type {id} refers to itself") })
    }

    /// Size in bytes; 0 for what has none.
    pub(super) fn size(&self, id: u32) -> Result<u64, LockstepError> {
        let (mut factor, mut id) = (1_u64, id);
        for _ in 0..DEPTH {
            let (_, found) = self.behind(id)?;
            match found.kind {
                ARRAY => {
                    factor = factor.saturating_mul(found.array.1.into());
                    id = found.array.0;
                }
                PTR => return Ok(factor.saturating_mul(8)),
                INT | STRUCT | UNION | ENUM | ENUM64 | FLOAT => {
                    return Ok(factor.saturating_mul(found.refers.into()));
                }
                _ => return Ok(0),
            }
        }
        Ok(0)
    }

    /// Every type with its number.
    pub(super) fn types(&self) -> impl Iterator<Item = (u32, &Type)> {
        (0..).zip(&self.types)
    }
}
