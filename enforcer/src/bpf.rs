//! The bpf(2) calls that this crate needs, as safe functions over file descriptors and byte slices.
//!
//! Invariant: what the kernel reads or writes through a pointer here is a slice or a value that outlives the call
//! and is as long as the kernel was told. A bad argument is the kernel's to refuse. Knows no layout, no name and
//! no order of calls. Structures are those of `include/uapi/linux/bpf.h`.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use aya_obj::generated::bpf_insn;

use crate::functions::FunctionInfo;

const MAP_CREATE: libc::c_int = 0;
const MAP_LOOKUP: libc::c_int = 1;
const MAP_UPDATE: libc::c_int = 2;
const MAP_DELETE: libc::c_int = 3;
const MAP_NEXT_KEY: libc::c_int = 4;
const PROG_LOAD: libc::c_int = 5;
const OBJ_PIN: libc::c_int = 6;
const OBJ_GET: libc::c_int = 7;
const PROG_TEST_RUN: libc::c_int = 10;
const PROG_FD_BY_ID: libc::c_int = 13;
const INFO_BY_FD: libc::c_int = 15;
const PROG_QUERY: libc::c_int = 16;
const BTF_LOAD: libc::c_int = 18;
const MAP_FREEZE: libc::c_int = 22;
const MAP_LOOKUP_BATCH: libc::c_int = 24;
const MAP_UPDATE_BATCH: libc::c_int = 26;
const LINK_CREATE: libc::c_int = 28;
const LINK_UPDATE: libc::c_int = 29;
const LINK_DETACH: libc::c_int = 34;

/// `BPF_PROG_TYPE_SCHED_CLS`.
const SCHED_CLS: u32 = 3;

/// `MEMBARRIER_CMD_GLOBAL` of `include/uapi/linux/membarrier.h`: `synchronize_rcu`, so every program that was
/// running when it was called has ended when it returns.
const MEMBARRIER_GLOBAL: libc::c_int = 1;

/// Waits until no program runs any more that was running when this was called.
pub(crate) fn wait_for_readers() -> io::Result<()> {
    // SAFETY: membarrier(2) takes three numbers and touches no memory of ours.
    let result = unsafe { libc::syscall(libc::SYS_membarrier, MEMBARRIER_GLOBAL, 0, 0) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// One command, with the attributes that it reads and writes.
fn call<T>(command: libc::c_int, attributes: &mut T) -> io::Result<libc::c_int> {
    // SAFETY: `attributes` is one of the structures below, as long as the size says; the pointers in it come
    // from slices borrowed for the whole of the calling function.
    let result =
        unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_mut(attributes), size_of::<T>()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(libc::c_int::try_from(result).unwrap_or(0)) }
}

fn call_for_fd<T>(command: libc::c_int, attributes: &mut T) -> io::Result<OwnedFd> {
    let fd = call(command, attributes)?;
    // SAFETY: these commands return a new file descriptor that nobody else knows (close-on-exec by the kernel).
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn raw(fd: BorrowedFd<'_>) -> u32 {
    // File descriptors are never negative.
    fd.as_raw_fd().unsigned_abs()
}

fn address<T>(slice: &[T]) -> u64 {
    slice.as_ptr() as u64
}

fn address_mut<T>(slice: &mut [T]) -> u64 {
    slice.as_mut_ptr() as u64
}

fn length<T>(slice: &[T]) -> u32 {
    u32::try_from(size_of_val(slice)).unwrap_or(u32::MAX)
}

/// Names of maps and programs have at most 15 bytes; the rest is cut.
fn short_name(name: &str) -> [u8; 16] {
    let mut short = [0; 16];
    for (to, from) in short.iter_mut().take(15).zip(name.bytes()) {
        *to = from;
    }
    short
}

/// What a map is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MapShape {
    /// `enum bpf_map_type`.
    pub(crate) kind: u32,
    pub(crate) key_size: u32,
    pub(crate) value_size: u32,
    pub(crate) max_entries: u32,
    pub(crate) flags: u32,
}

#[repr(C)]
#[derive(Default)]
struct MapCreate {
    map_type: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    map_flags: u32,
    inner_map_fd: u32,
    numa_node: u32,
    name: [u8; 16],
}

pub(crate) fn create_map(name: &str, shape: MapShape) -> io::Result<OwnedFd> {
    let MapShape { kind, key_size, value_size, max_entries, flags } = shape;
    let mut attributes = MapCreate {
        map_type: kind,
        key_size,
        value_size,
        max_entries,
        map_flags: flags,
        name: short_name(name),
        ..MapCreate::default()
    };
    call_for_fd(MAP_CREATE, &mut attributes)
}

#[repr(C)]
#[derive(Default)]
struct Element {
    map_fd: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

/// Reads an element into `value`, which is as long as the map's values (times the CPUs). False when there is none.
pub(crate) fn lookup(map: BorrowedFd<'_>, key: &[u8], value: &mut [u8]) -> io::Result<bool> {
    let mut attributes =
        Element { map_fd: raw(map), key: address(key), value: address_mut(value), ..Element::default() };
    present(call(MAP_LOOKUP, &mut attributes))
}

pub(crate) fn update(map: BorrowedFd<'_>, key: &[u8], value: &[u8]) -> io::Result<()> {
    let mut attributes =
        Element { map_fd: raw(map), key: address(key), value: address(value), ..Element::default() };
    call(MAP_UPDATE, &mut attributes).map(drop)
}

/// Removes an element. False when there was none.
pub(crate) fn delete(map: BorrowedFd<'_>, key: &[u8]) -> io::Result<bool> {
    let mut attributes = Element { map_fd: raw(map), key: address(key), ..Element::default() };
    present(call(MAP_DELETE, &mut attributes))
}

/// Writes the key that follows `key` (or the first one) into `next`. False at the end.
pub(crate) fn next_key(map: BorrowedFd<'_>, key: Option<&[u8]>, next: &mut [u8]) -> io::Result<bool> {
    let mut attributes = Element {
        map_fd: raw(map),
        key: key.map_or(0, address),
        value: address_mut(next),
        ..Element::default()
    };
    present(call(MAP_NEXT_KEY, &mut attributes))
}

fn present(result: io::Result<libc::c_int>) -> io::Result<bool> {
    match result {
        Ok(_) => Ok(true),
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(false),
        Err(error) => Err(error),
    }
}

#[repr(C)]
#[derive(Default)]
#[expect(clippy::struct_field_names, reason = "the kernel's names")]
struct Batch {
    in_batch: u64,
    out_batch: u64,
    keys: u64,
    values: u64,
    count: u32,
    map_fd: u32,
    elem_flags: u64,
    flags: u64,
}

/// Writes `count` elements at once; `keys` and `values` hold that many. Returns how many were written when it
/// stopped, beside the error.
pub(crate) fn update_batch(
    map: BorrowedFd<'_>,
    keys: &[u8],
    values: &[u8],
    count: u32,
) -> Result<(), (u32, io::Error)> {
    let mut attributes =
        Batch { keys: address(keys), values: address(values), count, map_fd: raw(map), ..Batch::default() };
    call(MAP_UPDATE_BATCH, &mut attributes).map(drop).map_err(|error| (attributes.count, error))
}

/// Reads up to `count` elements from the position `from` (the beginning, when none) on into `keys` and `values`, which
/// have room for as many, and puts the next position into `next`. Positions are as long as keys, and at least four
/// bytes. Returns how many were read and whether there may be more.
pub(crate) fn lookup_batch(
    map: BorrowedFd<'_>,
    from: Option<&[u8]>,
    next: &mut [u8],
    keys: &mut [u8],
    values: &mut [u8],
    count: u32,
) -> io::Result<(u32, bool)> {
    let mut attributes = Batch {
        in_batch: from.map_or(0, address),
        out_batch: address_mut(next),
        keys: address_mut(keys),
        values: address_mut(values),
        count,
        map_fd: raw(map),
        ..Batch::default()
    };
    match call(MAP_LOOKUP_BATCH, &mut attributes) {
        Ok(_) => Ok((attributes.count, true)),
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok((attributes.count, false)),
        Err(error) => Err(error),
    }
}

#[repr(C)]
#[derive(Default)]
struct OneFd {
    fd: u32,
}

/// Makes a map unwritable for the host, so that the verifier may take its content for constant.
pub(crate) fn freeze(map: BorrowedFd<'_>) -> io::Result<()> {
    call(MAP_FREEZE, &mut OneFd { fd: raw(map) }).map(drop)
}

#[repr(C)]
#[derive(Default)]
struct ProgLoad {
    prog_type: u32,
    insn_cnt: u32,
    insns: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log_buf: u64,
    kern_version: u32,
    prog_flags: u32,
    name: [u8; 16],
    prog_ifindex: u32,
    expected_attach_type: u32,
    prog_btf_fd: u32,
    func_info_rec_size: u32,
    func_info: u64,
    func_info_cnt: u32,
    padding: u32,
}

#[repr(C)]
#[derive(Default)]
struct BtfLoad {
    btf: u64,
    log_buf: u64,
    size: u32,
    log_size: u32,
    log_level: u32,
    padding: u32,
}

/// Gives type information to the kernel.
pub(crate) fn load_types(types: &[u8]) -> io::Result<OwnedFd> {
    let mut attributes = BtfLoad { btf: address(types), size: length(types), ..BtfLoad::default() };
    call_for_fd(BTF_LOAD, &mut attributes)
}

/// Loads a tc program, of whose functions `types` tells. `log` is empty or takes the verifier's words.
pub(crate) fn load_classifier(
    name: &str,
    instructions: &[bpf_insn],
    license: &CStr,
    functions: &[FunctionInfo],
    types: Option<BorrowedFd<'_>>,
    log: &mut [u8],
) -> io::Result<OwnedFd> {
    let mut attributes = ProgLoad {
        prog_type: SCHED_CLS,
        insn_cnt: u32::try_from(instructions.len()).unwrap_or(u32::MAX),
        insns: address(instructions),
        license: license.as_ptr() as u64,
        log_level: u32::from(!log.is_empty()),
        log_size: length(log),
        log_buf: if log.is_empty() { 0 } else { address_mut(log) },
        name: short_name(name),
        prog_btf_fd: types.map_or(0, raw),
        func_info_rec_size: u32::try_from(size_of::<FunctionInfo>()).unwrap_or(0),
        func_info: address(functions),
        func_info_cnt: u32::try_from(functions.len()).unwrap_or(0),
        ..ProgLoad::default()
    };
    unbroken(libc::EAGAIN, || call_for_fd(PROG_LOAD, &mut attributes))
}

/// So often is a call made that signals break off.
const CALLS: usize = 8;

/// Makes a call again that says no more than that a signal came: the verifier gives up with EAGAIN while one waits for
/// the thread, and a test run with EINTR (`kernel/bpf/verifier.c`, `net/bpf/test_run.c`); neither is about the program.
fn unbroken<T>(broken_off: i32, mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    for _ in 1..CALLS {
        match call() {
            Err(error) if error.raw_os_error() == Some(broken_off) => {}
            answer => return answer,
        }
    }
    call()
}

#[repr(C)]
#[derive(Default)]
struct LinkCreate {
    prog_fd: u32,
    target_ifindex: u32,
    attach_type: u32,
    flags: u32,
    relative_fd: u32,
    padding: u32,
    expected_revision: u64,
}

/// Attaches a program to an interface of this thread's network namespace, before all others on its hook
/// (`BPF_F_BEFORE` without a relative). The link holds it as long as its descriptor is open.
pub(crate) fn attach_first(program: BorrowedFd<'_>, ifindex: u32, attach_type: u32) -> io::Result<OwnedFd> {
    const BEFORE: u32 = 1 << 3;
    let mut attributes = LinkCreate {
        prog_fd: raw(program),
        target_ifindex: ifindex,
        attach_type,
        flags: BEFORE,
        ..LinkCreate::default()
    };
    call_for_fd(LINK_CREATE, &mut attributes)
}

#[repr(C)]
#[derive(Default)]
struct LinkDetach {
    link_fd: u32,
}

/// Takes a link's program off its hook now, whoever else still holds the link.
pub(crate) fn detach(link: BorrowedFd<'_>) -> io::Result<()> {
    call(LINK_DETACH, &mut LinkDetach { link_fd: raw(link) }).map(drop)
}

#[repr(C)]
#[derive(Default)]
struct LinkUpdate {
    link_fd: u32,
    new_prog_fd: u32,
    flags: u32,
    old_prog_fd: u32,
}

/// Puts another program into a link's place, between one packet and the next.
pub(crate) fn update_link(link: BorrowedFd<'_>, program: BorrowedFd<'_>) -> io::Result<()> {
    let mut attributes =
        LinkUpdate { link_fd: raw(link), new_prog_fd: raw(program), ..LinkUpdate::default() };
    call(LINK_UPDATE, &mut attributes).map(drop)
}

#[repr(C)]
#[derive(Default)]
struct Object {
    path: u64,
    fd: u32,
    file_flags: u32,
}

/// Gives a map, program or link a name in a BPF file system.
pub(crate) fn pin(fd: BorrowedFd<'_>, path: &Path) -> io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    call(OBJ_PIN, &mut Object { path: path.as_ptr() as u64, fd: raw(fd), file_flags: 0 }).map(drop)
}

/// Opens what a name in a BPF file system stands for.
pub(crate) fn open_pin(path: &Path) -> io::Result<OwnedFd> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    call_for_fd(OBJ_GET, &mut Object { path: path.as_ptr() as u64, ..Object::default() })
}

#[repr(C)]
#[derive(Default)]
struct ProgQuery {
    target_ifindex: u32,
    attach_type: u32,
    query_flags: u32,
    attach_flags: u32,
    prog_ids: u64,
    count: u32,
    padding: u32,
    prog_attach_flags: u64,
    link_ids: u64,
    link_attach_flags: u64,
    revision: u64,
}

/// The ids of the programs on a hook, in the order in which they run.
pub(crate) fn query(ifindex: u32, attach_type: u32) -> io::Result<Vec<u32>> {
    let mut ids = vec![0_u32; 64];
    loop {
        let mut attributes = ProgQuery {
            target_ifindex: ifindex,
            attach_type,
            prog_ids: address_mut(&mut ids),
            count: u32::try_from(ids.len()).unwrap_or(u32::MAX),
            ..ProgQuery::default()
        };
        match call(PROG_QUERY, &mut attributes) {
            Ok(_) => {
                ids.truncate(usize::try_from(attributes.count).unwrap_or(0));
                return Ok(ids);
            }
            Err(error) if error.raw_os_error() == Some(libc::ENOSPC) && ids.len() < 4096 => {
                ids.resize(ids.len() * 4, 0);
            }
            Err(error) => return Err(error),
        }
    }
}

#[repr(C)]
#[derive(Default)]
struct ById {
    id: u32,
    next_id: u32,
    open_flags: u32,
}

pub(crate) fn program_by_id(id: u32) -> io::Result<OwnedFd> {
    call_for_fd(PROG_FD_BY_ID, &mut ById { id, ..ById::default() })
}

#[repr(C)]
#[derive(Default)]
struct InfoByFd {
    fd: u32,
    info_len: u32,
    info: u64,
}

/// The beginning of `struct bpf_prog_info`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ProgramInfo {
    pub(crate) kind: u32,
    pub(crate) id: u32,
    pub(crate) tag: [u8; 8],
    pub(crate) jited_length: u32,
    pub(crate) translated_length: u32,
    jited: u64,
    translated: u64,
    load_time: u64,
    created_by: u32,
    map_count: u32,
    map_ids: u64,
    pub(crate) name: [u8; 16],
    /// From `ifindex` to `recursion_misses`.
    rest: [u64; 17],
    /// How many instructions the verifier followed.
    pub(crate) verified: u32,
    padding: u32,
}

/// The ids of the maps that a program uses.
pub(crate) fn program_maps(program: BorrowedFd<'_>) -> io::Result<Vec<u32>> {
    // As many as one program may use (`MAX_USED_MAPS`).
    let mut ids = vec![0_u32; 64];
    let mut info = ProgramInfo { map_count: 64, map_ids: address_mut(&mut ids), ..ProgramInfo::default() };
    information(program, &mut info)?;
    ids.truncate(usize::try_from(info.map_count).unwrap_or(0));
    Ok(ids)
}

/// The beginning of `struct bpf_map_info`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MapInfo {
    pub(crate) kind: u32,
    pub(crate) id: u32,
    pub(crate) key_size: u32,
    pub(crate) value_size: u32,
    pub(crate) max_entries: u32,
    pub(crate) flags: u32,
    pub(crate) name: [u8; 16],
}

/// The beginning of `struct bpf_link_info`, for a link of tcx.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LinkInfo {
    pub(crate) kind: u32,
    pub(crate) id: u32,
    pub(crate) program: u32,
    padding: u32,
    /// 0 once the interface is gone or somebody took the program off.
    pub(crate) ifindex: u32,
    pub(crate) attach_type: u32,
}

pub(crate) fn link_info(link: BorrowedFd<'_>) -> io::Result<LinkInfo> {
    let mut info = LinkInfo::default();
    information(link, &mut info)?;
    Ok(info)
}

pub(crate) fn program_info(program: BorrowedFd<'_>) -> io::Result<ProgramInfo> {
    let mut info = ProgramInfo::default();
    information(program, &mut info)?;
    Ok(info)
}

pub(crate) fn map_info(map: BorrowedFd<'_>) -> io::Result<MapInfo> {
    let mut info = MapInfo::default();
    information(map, &mut info)?;
    Ok(info)
}

fn information<T>(fd: BorrowedFd<'_>, info: &mut T) -> io::Result<()> {
    let mut attributes = InfoByFd {
        fd: raw(fd),
        info_len: u32::try_from(size_of::<T>()).unwrap_or(0),
        info: std::ptr::from_mut(info) as u64,
    };
    call(INFO_BY_FD, &mut attributes).map(drop)
}

#[repr(C)]
#[derive(Default)]
struct TestRun {
    prog_fd: u32,
    retval: u32,
    data_size_in: u32,
    data_size_out: u32,
    data_in: u64,
    data_out: u64,
    repeat: u32,
    duration: u32,
    ctx_size_in: u32,
    ctx_size_out: u32,
    ctx_in: u64,
    ctx_out: u64,
    flags: u32,
    cpu: u32,
    batch_size: u32,
    padding: u32,
}

/// Runs a program on a frame. `context` is a `struct __sk_buff`, or empty. Returns what the program returned, and the mean
/// time of a run in nanoseconds.
pub(crate) fn test_run(
    program: BorrowedFd<'_>,
    frame: &[u8],
    context: &[u8],
    repeat: u32,
) -> io::Result<(i32, u32)> {
    let mut attributes = TestRun {
        prog_fd: raw(program),
        data_size_in: length(frame),
        data_in: address(frame),
        repeat,
        ctx_size_in: length(context),
        ctx_in: if context.is_empty() { 0 } else { address(context) },
        ..TestRun::default()
    };
    unbroken(libc::EINTR, || call(PROG_TEST_RUN, &mut attributes))?;
    Ok((attributes.retval.cast_signed(), attributes.duration))
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::{CALLS, unbroken};

    #[test]
    fn a_call_that_a_signal_broke_off_is_made_again_and_no_other() {
        let calls = |answers: &[i32]| {
            let mut made = 0;
            let answer = unbroken(libc::EAGAIN, || {
                made += 1;
                match answers.get(made - 1).or(answers.last()) {
                    Some(0) | None => Ok(()),
                    Some(error) => Err(io::Error::from_raw_os_error(*error)),
                }
            });
            (made, answer.err().and_then(|error| error.raw_os_error()))
        };
        assert_eq!(calls(&[0]), (1, None));
        assert_eq!(calls(&[libc::EAGAIN, libc::EAGAIN, 0]), (3, None));
        assert_eq!(calls(&[libc::EINVAL]), (1, Some(libc::EINVAL)), "what is said of the program stands");
        assert_eq!(calls(&[libc::EAGAIN]), (CALLS, Some(libc::EAGAIN)), "and it ends");
    }
}
