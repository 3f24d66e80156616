//! What the kernel is told of a program's functions, so that it verifies parts of it by themselves.
//!
//! A function of which nothing is said is verified once for each state in which it is called. One that is said to be
//! global is verified once, for any caller. Invariant: every function of a program is listed, in order, and a part's
//! signature is the one that is given here, whatever the compiler's own type information says. Makes no system call.

use std::collections::BTreeSet;

use aya_obj::btf::{Btf, BtfKind};
use aya_obj::generated::{bpf_func_info, bpf_insn};

/// The parts of the programs that are verified by themselves, by their names in the object, and what they take.
const PARTS: [(&str, u32); 7] = [
    ("netlab_endpoint", WITH_NUMBER),
    ("netlab_service", PLAIN),
    ("netlab_target", WITH_NUMBER),
    ("netlab_icmp_error", PLAIN),
    ("netlab_new_flow", PLAIN),
    ("netlab_middle_of_flow", PLAIN),
    ("netlab_extension_headers", WITH_NUMBER),
];

/// `struct bpf_func_info`: where a function begins, in instructions, and its type.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FunctionInfo {
    instruction: u32,
    kind: u32,
}

#[cfg(test)]
impl FunctionInfo {
    pub(crate) const fn is_part(self) -> bool {
        self.kind >= FIRST_PART
    }
}

/// The functions of a program, given what the object says of them: the program itself, parts and others.
pub(crate) fn functions(
    types: Option<&Btf>,
    instructions: &[bpf_insn],
    said: &[bpf_func_info],
) -> Vec<FunctionInfo> {
    let part = |start: usize| {
        PARTS.iter().position(|(name, _)| {
            let kind = types.and_then(|types| types.id_by_type_name_kind(name, BtfKind::Func).ok());
            said.iter().any(|info| usize::try_from(info.insn_off) == Ok(start) && Some(info.type_id) == kind)
        })
    };
    let number = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    let kind = |start: usize| match part(start) {
        _ if start == 0 => PROGRAM,
        Some(index) => FIRST_PART + number(index),
        None => INNER,
    };
    starts(instructions)
        .into_iter()
        .map(|start| FunctionInfo { instruction: number(start), kind: kind(start) })
        .collect()
}

/// Where functions begin: at the first instruction and wherever a call leads.
fn starts(instructions: &[bpf_insn]) -> BTreeSet<usize> {
    // BPF_JMP | BPF_CALL, BPF_PSEUDO_CALL of include/uapi/linux/bpf.h.
    const CALL: u8 = 0x85;
    const PSEUDO_CALL: u8 = 1;
    let called = instructions.iter().enumerate().filter_map(|(index, instruction)| {
        let call = instruction.code == CALL && instruction.src_reg() == PSEUDO_CALL;
        let start = (index + 1).checked_add_signed(isize::try_from(instruction.imm).ok()?)?;
        call.then_some(start)
    });
    std::iter::once(0).chain(called).collect()
}

// The types, by number: see `types`.
const INT: u32 = 1;
const CONTEXT: u32 = 2;
const CONTEXT_POINTER: u32 = 3;
/// `(context) -> number`.
const PLAIN: u32 = 4;
/// `(context, number) -> number`.
const WITH_NUMBER: u32 = 5;
const PROGRAM: u32 = 6;
const INNER: u32 = 7;
const FIRST_PART: u32 = 8;

/// The types to which [`FunctionInfo`] refers, as `include/uapi/linux/btf.h` lays them out.
pub(crate) fn types() -> Vec<u8> {
    // Kinds of that header, and `enum btf_func_linkage`.
    const KIND_INT: u32 = 1;
    const KIND_PTR: u32 = 2;
    const KIND_STRUCT: u32 = 4;
    const KIND_FUNC: u32 = 12;
    const KIND_FUNC_PROTO: u32 = 13;
    const STATIC: u32 = 0;
    const GLOBAL: u32 = 1;
    const SIGNED_32: u32 = 1 << 24 | 32;

    let mut strings = vec![0_u8];
    let mut string = |text: &str| {
        let offset = u32::try_from(strings.len()).unwrap_or(0);
        strings.extend_from_slice(text.as_bytes());
        strings.push(0);
        offset
    };
    let (context, number) = (string("context"), string("number"));
    // Name, kind with how many follow, size or type; then what the kind adds.
    let mut words = vec![string("int"), KIND_INT << 24, 4, SIGNED_32];
    // The kernel knows its own context by this name, and asks for no more.
    words.extend([string("__sk_buff"), KIND_STRUCT << 24, 4]);
    words.extend([0, KIND_PTR << 24, CONTEXT]);
    words.extend([0, KIND_FUNC_PROTO << 24 | 1, INT, context, CONTEXT_POINTER]);
    words.extend([0, KIND_FUNC_PROTO << 24 | 2, INT, context, CONTEXT_POINTER, number, INT]);
    words.extend([string("program"), KIND_FUNC << 24 | GLOBAL, PLAIN]);
    words.extend([string("inner"), KIND_FUNC << 24 | STATIC, PLAIN]);
    for (part, signature) in PARTS {
        words.extend([string(part), KIND_FUNC << 24 | GLOBAL, signature]);
    }

    let types: Vec<u8> = words.into_iter().flat_map(u32::to_ne_bytes).collect();
    let length = |bytes: &[u8]| u32::try_from(bytes.len()).unwrap_or(0).to_ne_bytes();
    let mut all = [0xeb9f_u16.to_ne_bytes(), [1, 0]].concat();
    // The header's length, then where types and strings begin behind it and how long they are.
    for word in [24_u32.to_ne_bytes(), [0; 4], length(&types), length(&types), length(&strings)] {
        all.extend(word);
    }
    all.extend(types);
    all.extend(strings);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(kind: u8, imm: i32) -> bpf_insn {
        bpf_insn {
            code: 0x85,
            _bitfield_align_1: [],
            _bitfield_1: bpf_insn::new_bitfield_1(0, kind),
            off: 0,
            imm,
        }
    }

    #[test]
    fn functions_begin_where_calls_lead() {
        let helper = call(0, 1);
        assert_eq!(starts(&[call(1, 1), helper, call(1, -3), helper]), BTreeSet::from([0, 2]));
        assert_eq!(starts(&[]), BTreeSet::from([0]));
    }
}
