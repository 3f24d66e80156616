//! Whether a CO-RE relocation has a target: the rules of libbpf's `relo_core.c`, told in words where one has none.
//!
//! Invariant: a relocation that only asks whether something exists never fails. Where several types of the target have
//! the name, they must agree, as a loader insists. What cannot be understood is malformed, never taken for a match.

use super::LockstepError;
use super::btf::{ARRAY, Btf, ENUM, ENUM64, FWD, Member, PTR, STRUCT, Type, UNION};

/// Deepest nesting of anonymous members and of accesses.
const DEPTH: usize = 64;

/// What is asked, and of what.
pub(super) struct Wanted<'a> {
    pub(super) kind: u32,
    pub(super) type_id: u32,
    pub(super) access: &'a str,
}

/// The kinds, as people call them.
pub(super) const KINDS: [&str; 13] = [
    "byte offset",
    "byte size",
    "existence",
    "signedness",
    "left shift",
    "right shift",
    "own type id",
    "type id",
    "existence",
    "size",
    "existence",
    "value",
    "likeness",
];

/// A step of an access.
enum Step {
    Member(Member),
    /// The first one is an index into an array of the root.
    Index(u32),
}

/// What the relocation is about, in words, and why it has no target; `None` when it has one or needs none.
pub(super) fn resolve(
    local: &Btf,
    target: &Btf,
    wanted: &Wanted<'_>,
) -> Result<(String, Option<String>), LockstepError> {
    let (_, root) = local.behind(wanted.type_id)?;
    let named = local.get(wanted.type_id)?;
    let name = if named.name.is_empty() { &root.name } else { &named.name };
    let subject = format!("{}{name}", word(if named.name.is_empty() { root.kind } else { named.kind }));
    match wanted.kind {
        0..=5 => {
            let steps = steps(local, wanted)?;
            let path = path(&steps);
            let subject = format!("{subject}{path}");
            let why = field(local, target, (named, root), &steps)?;
            Ok((subject, why.filter(|_| wanted.kind != 2)))
        }
        6 => Ok((subject, None)),
        7..=9 | 12 => {
            let why = kind_of(target, named, root)?.is_empty().then(|| no_type(&subject));
            Ok((subject, why.filter(|_| !matches!(wanted.kind, 8 | 12))))
        }
        10 | 11 => {
            let index = wanted.access.parse::<usize>().ok().and_then(|index| root.members.get(index));
            let value = index.ok_or_else(|| bad_access(wanted.access))?;
            let candidates = kind_of(target, named, root)?;
            let has = |id: &u32| {
                let members = &target.behind(*id)?.1.members;
                Ok::<_, LockstepError>(members.iter().any(|member| plain(&member.name) == plain(&value.name)))
            };
            let mut why = candidates.is_empty().then(|| no_type(&subject));
            if why.is_none() && !candidates.iter().map(has).collect::<Result<Vec<_>, _>>()?.contains(&true) {
                why = Some(format!("{subject} has no value {}", value.name));
            }
            Ok((format!("{subject}::{}", value.name), why.filter(|_| wanted.kind != 10)))
        }
        other => Err(LockstepError::Malformed {
            what: ".BTF.ext",
            why: format!("it has a relocation of kind {other}"),
        }),
    }
}

fn no_type(subject: &str) -> String {
    format!("there is no {subject}")
}

fn bad_access(access: &str) -> LockstepError {
    LockstepError::Malformed { what: ".BTF.ext", why: format!("the access {access:?} does not fit its type") }
}

const fn word(kind: u32) -> &'static str {
    match kind {
        STRUCT => "struct ",
        UNION => "union ",
        ENUM | ENUM64 => "enum ",
        _ => "",
    }
}

/// A name without its flavour: `task_struct___old` stands for `task_struct`.
fn plain(name: &str) -> &str {
    name.split_once("___").map_or(name, |(name, _)| name)
}

/// The target's types of the same name and kind.
fn kind_of(target: &Btf, named: &Type, root: &Type) -> Result<Vec<u32>, LockstepError> {
    let mut found = Vec::new();
    for (id, candidate) in target.types() {
        if plain(&candidate.name) != plain(&named.name)
            || !alike(named.kind, candidate.kind)
            || named.name.is_empty()
        {
            continue;
        }
        if alike(target.behind(id)?.1.kind, root.kind) {
            found.push(id);
        }
    }
    Ok(found)
}

const fn alike(one: u32, other: u32) -> bool {
    one == other || matches!((one, other), (ENUM, ENUM64) | (ENUM64, ENUM))
}

/// `0:1:2` as members and indices.
fn steps(local: &Btf, wanted: &Wanted<'_>) -> Result<Vec<Step>, LockstepError> {
    let bad = || bad_access(wanted.access);
    let numbers: Vec<u32> =
        wanted.access.split(':').map(str::parse).collect::<Result<_, _>>().map_err(|_| bad())?;
    let (first, rest) = numbers.split_first().filter(|(_, rest)| rest.len() <= DEPTH).ok_or_else(bad)?;
    let mut steps = vec![Step::Index(*first)];
    let mut id = wanted.type_id;
    for number in rest {
        let (_, container) = local.behind(id)?;
        match container.kind {
            STRUCT | UNION => {
                let index = usize::try_from(*number).map_err(|_| bad())?;
                let member = container.members.get(index).ok_or_else(bad)?;
                id = member.type_id;
                // What has no name is found by what is in it.
                if !member.name.is_empty() {
                    steps.push(Step::Member(member.clone()));
                }
            }
            ARRAY => {
                id = container.array.0;
                steps.push(Step::Index(*number));
            }
            _ => return Err(bad()),
        }
    }
    Ok(steps)
}

fn path(steps: &[Step]) -> String {
    let mut path = String::new();
    for (place, step) in steps.iter().enumerate() {
        match step {
            Step::Member(member) => path.push_str(&format!(".{}", member.name)),
            Step::Index(0) if place == 0 => {}
            Step::Index(index) => path.push_str(&format!("[{index}]")),
        }
    }
    path
}

/// Why the target has no such field.
fn field(
    local: &Btf,
    target: &Btf,
    (named, root): (&Type, &Type),
    steps: &[Step],
) -> Result<Option<String>, LockstepError> {
    let subject = format!("{}{}", word(named.kind), named.name);
    let candidates = kind_of(target, named, root)?;
    let mut places = Vec::new();
    let mut why = no_type(&subject);
    for candidate in candidates {
        match follow(local, target, candidate, steps)? {
            Ok(place) => places.push(place),
            Err(reason) => why = reason,
        }
    }
    places.dedup();
    Ok(match places.as_slice() {
        [] => Some(why),
        [_] => None,
        _ => Some(format!("there are several {subject} that differ in it")),
    })
}

/// The field's offset in bits and its size, or why it is not there.
fn follow(
    local: &Btf,
    target: &Btf,
    candidate: u32,
    steps: &[Step],
) -> Result<Result<(u64, u64), String>, LockstepError> {
    let (mut id, mut offset) = (candidate, 0_u64);
    let mut bits = 0;
    for (place, step) in steps.iter().enumerate() {
        let (_, container) = target.behind(id)?;
        match step {
            Step::Index(index) if place == 0 => {
                offset = offset.saturating_add(target.size(id)?.saturating_mul(u64::from(*index) * 8));
            }
            Step::Index(index) => {
                let (element, length) = container.array;
                if container.kind != ARRAY {
                    return Ok(Err(format!("{}{} is no array", word(container.kind), container.name)));
                }
                // An array of no elements is one whose end is open.
                if length != 0 && *index >= length {
                    return Ok(Err(format!("the array has {length} elements")));
                }
                offset = offset.saturating_add(target.size(element)?.saturating_mul(u64::from(*index) * 8));
                id = element;
            }
            Step::Member(member) => match find(target, container, &member.name, 0)? {
                Some(found) if fits(local, target, member.type_id, found.type_id, 0)? => {
                    offset = offset.saturating_add(found.bit_offset.into());
                    (id, bits) = (found.type_id, found.bits);
                }
                Some(_) => return Ok(Err(format!("its member {} has a type of another kind", member.name))),
                None => {
                    return Ok(Err(format!(
                        "{}{} has no member {}",
                        word(container.kind),
                        container.name,
                        member.name
                    )));
                }
            },
        }
    }
    let size = if bits == 0 { target.size(id)?.saturating_mul(8) } else { bits.into() };
    Ok(Ok((offset, size)))
}

/// The member of this name, also within members without a name; its offset is within `container`.
fn find(target: &Btf, container: &Type, name: &str, depth: usize) -> Result<Option<Member>, LockstepError> {
    if depth > DEPTH || !matches!(container.kind, STRUCT | UNION) {
        return Ok(None);
    }
    for member in &container.members {
        if member.name == name {
            return Ok(Some(member.clone()));
        }
        if member.name.is_empty() {
            let (_, inner) = target.behind(member.type_id)?;
            if let Some(found) = find(target, inner, name, depth + 1)? {
                return Ok(Some(Member {
                    bit_offset: found.bit_offset.saturating_add(member.bit_offset),
                    ..found
                }));
            }
        }
    }
    Ok(None)
}

/// Whether a field of the one type can be read as the other: `bpf_core_fields_are_compat`.
fn fits(local: &Btf, target: &Btf, ours: u32, theirs: u32, depth: usize) -> Result<bool, LockstepError> {
    let ((_, ours), (_, theirs)) = (local.behind(ours)?, target.behind(theirs)?);
    let composite = |kind| matches!(kind, STRUCT | UNION);
    if composite(ours.kind) && composite(theirs.kind) {
        return Ok(true);
    }
    if !alike(ours.kind, theirs.kind) {
        return Ok(false);
    }
    Ok(match ours.kind {
        PTR | super::btf::INT | super::btf::FLOAT => true,
        FWD | ENUM | ENUM64 => {
            ours.name.is_empty() || theirs.name.is_empty() || plain(&ours.name) == plain(&theirs.name)
        }
        ARRAY => depth < DEPTH && fits(local, target, ours.array.0, theirs.array.0, depth + 1)?,
        _ => false,
    })
}
