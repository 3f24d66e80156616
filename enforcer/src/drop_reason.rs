//! The kernel's own word on a dropped packet: the tracepoint `skb:kfree_skb`, joined to our events by the packet's
//! kernel address.
//!
//! Invariant: this is supporting evidence. Where it cannot be had ([`Unavailable`] says why) nothing else changes;
//! where records were lost it says so. Field offsets and reason names are read from the running kernel, since
//! neither is stable. Everything is held by descriptors: tracefs, if it is not there, is mounted in a mount
//! namespace that ends with the thread that reads it. Holds the calls of `perf_event_open`; knows no policy.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::mount::{MsFlags, mount};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::{CloneFlags, unshare};
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};

/// A packet that the kernel freed, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Freed {
    /// The kernel address of its `sk_buff`, as in an event of a lab. Addresses are used again: only the record
    /// that follows an event closely is that event's.
    pub skb: u64,
    /// The reason by name, without the prefix that all share: `TC_INGRESS`, `TC_EGRESS`, `NETFILTER_DROP`, …
    pub reason: String,
    /// When, on the monotonic clock, in nanoseconds.
    pub time: u64,
}

/// A reader of all packets that this machine frees, from the moment it is opened.
#[derive(Debug)]
pub struct DropReasons {
    rings: Vec<Ring>,
    format: Format,
    lost: u64,
}

/// Why the kernel's drop reasons cannot be read here.
#[derive(Debug, thiserror::Error)]
#[error("the kernel's drop reasons are unavailable: {why}")]
pub struct Unavailable {
    /// What was missing or refused.
    pub why: String,
}

fn unavailable(why: impl Into<String>) -> Unavailable {
    Unavailable { why: why.into() }
}

impl DropReasons {
    /// Starts to listen. Needs `CAP_PERFMON`, and `CAP_SYS_ADMIN` where tracefs is not mounted.
    ///
    /// # Errors
    /// [`Unavailable`] with the reason; go on without.
    pub fn open() -> Result<Self, Unavailable> {
        let (id, format) = tracepoint()?;
        let id = id.trim().parse().map_err(|_| unavailable(format!("tracepoint id {id:?}")))?;
        let format = Format::parse(&format)?;
        let cpus = online_cpus().map_err(|error| unavailable(format!("the CPUs online: {error}")))?;
        let rings = cpus
            .into_iter()
            .map(|cpu| Ring::open(id, cpu))
            .collect::<io::Result<_>>()
            .map_err(|error| unavailable(format!("perf_event_open: {error}")))?;
        Ok(Self { rings, format, lost: 0 })
    }

    /// Everything freed since the last call, in order of time.
    pub fn read(&mut self) -> Vec<Freed> {
        let mut freed = Vec::new();
        for ring in &mut self.rings {
            ring.drain(|record| match record {
                Record::Sample { time, raw } => freed.extend(self.format.read(time, raw)),
                Record::Lost(number) => self.lost += number,
            });
        }
        freed.sort_by_key(|one: &Freed| one.time);
        freed
    }

    /// Waits until a packet with this address was freed, for at most `timeout`; the others are thrown away.
    ///
    /// # Errors
    /// When waiting fails.
    pub fn wait_for(&mut self, skb: u64, timeout: Duration) -> io::Result<Option<Freed>> {
        let end = Instant::now() + timeout;
        loop {
            if let Some(found) = self.read().into_iter().find(|freed| freed.skb == skb) {
                return Ok(Some(found));
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            let milliseconds = u16::try_from(left.as_millis() + 1).unwrap_or(u16::MAX);
            let mut fds: Vec<_> =
                self.rings.iter().map(|ring| PollFd::new(ring.fd.as_fd(), PollFlags::POLLIN)).collect();
            match poll(&mut fds, PollTimeout::from(milliseconds)) {
                Ok(_) | Err(nix::Error::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Records that did not fit: a missing record proves nothing when this is not zero.
    pub fn lost(&self) -> u64 {
        self.lost
    }
}

/// Where the tracepoint's fields are, and what its numbers mean.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Format {
    skb: usize,
    reason: usize,
    names: BTreeMap<u32, String>,
}

impl Format {
    /// Reads a `format` file of tracefs: lines `field:TYPE NAME;\toffset:N;\tsize:N;…`, then a print format with
    /// `{ NUMBER, "NAME" }` for each reason.
    fn parse(text: &str) -> Result<Self, Unavailable> {
        let offset = |name: &str| {
            let line = text.lines().find(|line| {
                let field = line.trim().strip_prefix("field:").and_then(|rest| rest.split(';').next());
                field.and_then(|field| field.rsplit([' ', '*']).next()) == Some(name)
            });
            line.and_then(|line| line.split("offset:").nth(1)?.split(';').next()?.parse().ok())
                .ok_or_else(|| unavailable(format!("skb:kfree_skb has no field {name}; it needs Linux 5.17")))
        };
        let (skb, reason) = (offset("skbaddr")?, offset("reason")?);
        let mut names = BTreeMap::new();
        for pair in text.split('{').skip(1) {
            let Some((number, rest)) = pair.split_once(',') else { continue };
            let name = rest.split('"').nth(1);
            if let (Ok(number), Some(name)) = (number.trim().parse(), name) {
                names.insert(number, name.to_owned());
            }
        }
        Ok(Self { skb, reason, names })
    }

    fn read(&self, time: u64, raw: &[u8]) -> Option<Freed> {
        let skb = u64::from_ne_bytes(*raw.get(self.skb..)?.first_chunk()?);
        let number = u32::from_ne_bytes(*raw.get(self.reason..)?.first_chunk()?);
        let reason = self.names.get(&number).cloned().unwrap_or_else(|| format!("reason {number}"));
        Some(Freed { skb, reason, time })
    }
}

/// The tracepoint's `id` and `format`.
fn tracepoint() -> Result<(String, String), Unavailable> {
    const HERE: &str = "/sys/kernel/tracing";
    if let Ok(found) = read_tracepoint(Path::new(HERE)) {
        return Ok(found);
    }
    // A thread of its own, so that nobody else sees the mount.
    let reader = || -> Result<_, Unavailable> {
        let step = |what: &'static str| move |error: nix::Error| unavailable(format!("{what}: {error}"));
        unshare(CloneFlags::CLONE_FS | CloneFlags::CLONE_NEWNS).map_err(step("a mount namespace"))?;
        let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
        mount(None::<&str>, "/", None::<&str>, private, None::<&str>).map_err(step("private mounts"))?;
        let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
        mount(Some("tracefs"), HERE, Some("tracefs"), flags, None::<&str>)
            .map_err(step("mounting tracefs"))?;
        read_tracepoint(Path::new(HERE)).map_err(|error| unavailable(format!("skb:kfree_skb: {error}")))
    };
    thread::scope(|scope| scope.spawn(reader).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
}

fn read_tracepoint(tracefs: &Path) -> io::Result<(String, String)> {
    let event = tracefs.join("events/skb/kfree_skb");
    Ok((fs::read_to_string(event.join("id"))?, fs::read_to_string(event.join("format"))?))
}

/// Numbers of the CPUs that are online: `0-3,8`.
fn online_cpus() -> io::Result<Vec<i32>> {
    let text = fs::read_to_string("/sys/devices/system/cpu/online")?;
    let mut cpus = Vec::new();
    for range in text.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        if let (Ok(first), Ok(last)) = (first.parse::<i32>(), last.parse::<i32>()) {
            cpus.extend(first..=last);
        }
    }
    Ok(cpus)
}

/// `struct perf_event_attr` up to and with `clockid` (version 5 of it, 112 bytes).
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    bp_type: u32,
    config1: u64,
    config2: u64,
    branch_sample_type: u64,
    sample_regs_user: u64,
    sample_stack_user: u32,
    clockid: i32,
    sample_regs_intr: u64,
    aux_watermark: u32,
    sample_max_stack: u16,
    reserved: u16,
}

const _: () = assert!(size_of::<Attributes>() == 112);

/// One CPU's records.
#[derive(Debug)]
struct Ring {
    fd: OwnedFd,
    memory: NonNull<u8>,
    bytes: NonZeroUsize,
    page: usize,
}

// SAFETY: the mapping is this value's alone and is only read and written through `&mut self`.
unsafe impl Send for Ring {}

enum Record<'a> {
    Sample { time: u64, raw: &'a [u8] },
    Lost(u64),
}

/// Pages of records: a power of two.
const PAGES: usize = 64;

impl Ring {
    fn open(tracepoint: u64, cpu: i32) -> io::Result<Self> {
        const TRACEPOINT: u32 = 2;
        const SAMPLE_TIME: u64 = 1 << 2;
        const SAMPLE_RAW: u64 = 1 << 10;
        const USE_CLOCKID: u64 = 1 << 25;
        const CLOSE_ON_EXEC: libc::c_ulong = 1 << 3;
        let attributes = Attributes {
            kind: TRACEPOINT,
            size: 112,
            config: tracepoint,
            sample_period: 1,
            sample_type: SAMPLE_TIME | SAMPLE_RAW,
            flags: USE_CLOCKID,
            wakeup_events: 1,
            clockid: libc::CLOCK_MONOTONIC,
            ..Attributes::default()
        };
        // SAFETY: the attributes are as long as they say, and are only read; every process, one CPU, no group.
        let fd = unsafe {
            libc::syscall(
                libc::SYS_perf_event_open,
                &raw const attributes,
                -1_i32,
                cpu,
                -1_i32,
                CLOSE_ON_EXEC,
            )
        };
        let fd = libc::c_int::try_from(fd).unwrap_or(-1);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a new descriptor that nobody else knows.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let page = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE)?
            .and_then(|page| usize::try_from(page).ok())
            .unwrap_or(4096);
        let bytes = NonZeroUsize::new((PAGES + 1) * page).ok_or(io::ErrorKind::InvalidInput)?;
        let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a new mapping of the event's ring, wherever the kernel likes; nothing else uses it.
        let memory = unsafe { mmap(None, bytes, protection, MapFlags::MAP_SHARED, &fd, 0) }?;
        Ok(Self { fd, memory: memory.cast(), bytes, page })
    }

    /// A position in the header page: `data_head` or `data_tail` of `struct perf_event_mmap_page`.
    fn position(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: both offsets lie in the first page and are 8-byte aligned; the kernel writes one of them
        // meanwhile, which an atomic allows.
        unsafe { self.memory.add(offset).cast::<AtomicU64>().as_ref() }
    }

    /// Hands every record to `take` and gives its room back.
    fn drain(&mut self, mut take: impl FnMut(Record<'_>)) {
        const HEAD: usize = 1024;
        const TAIL: usize = 1032;
        let head = self.position(HEAD).load(Ordering::Acquire);
        let mut tail = self.position(TAIL).load(Ordering::Relaxed);
        let mut record = Vec::new();
        while tail < head {
            self.copy(tail, 8, &mut record);
            let Some(header) = record.first_chunk::<8>() else { break };
            let kind = u32::from_ne_bytes([header[0], header[1], header[2], header[3]]);
            let size = u16::from_ne_bytes([header[6], header[7]]);
            if size < 8 {
                break;
            }
            self.copy(tail, usize::from(size), &mut record);
            if let Some(record) = parse(kind, record.get(8..).unwrap_or_default()) {
                take(record);
            }
            tail += u64::from(size);
        }
        self.position(TAIL).store(tail, Ordering::Release);
    }

    /// Copies bytes out of the ring, around its end if need be.
    fn copy(&self, from: u64, length: usize, to: &mut Vec<u8>) {
        let size = PAGES * self.page;
        let start = usize::try_from(from % u64::try_from(size).unwrap_or(1)).unwrap_or(0);
        let first = length.min(size - start);
        to.clear();
        // SAFETY: both ranges lie within the data pages, which follow the header page; the kernel does not write
        // what lies between tail and head.
        unsafe {
            let data = self.memory.add(self.page);
            to.extend_from_slice(std::slice::from_raw_parts(data.add(start).as_ptr(), first));
            to.extend_from_slice(std::slice::from_raw_parts(data.as_ptr(), length - first));
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `open`, and nothing borrows it any more. It cannot fail for such a range.
        let _ = unsafe { munmap(self.memory.cast(), self.bytes.get()) };
    }
}

/// A record's body. A sample is its time, the length of the raw data, and the raw data.
fn parse(kind: u32, body: &[u8]) -> Option<Record<'_>> {
    const LOST: u32 = 2;
    const SAMPLE: u32 = 9;
    let word = |offset: usize| Some(u64::from_ne_bytes(*body.get(offset..)?.first_chunk()?));
    match kind {
        SAMPLE => {
            let length = u32::from_ne_bytes(*body.get(8..)?.first_chunk()?);
            let raw = body.get(12..12 + usize::try_from(length).ok()?)?;
            Some(Record::Sample { time: word(0)?, raw })
        }
        LOST => Some(Record::Lost(word(8)?)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMAT: &str = "name: kfree_skb\nID: 1234\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \n\
        \tfield:void * skbaddr;\toffset:8;\tsize:8;\tsigned:0;\n\
        \tfield:void * location;\toffset:16;\tsize:8;\tsigned:0;\n\
        \tfield:enum skb_drop_reason reason;\toffset:28;\tsize:4;\tsigned:0;\n\
        \n\
        print fmt: \"skbaddr=%p reason: %s\", REC->skbaddr, __print_symbolic(REC->reason, { 2, \"NOT_SPECIFIED\" }, \
        { 62, \"TC_EGRESS\" }, { 73, \"TC_INGRESS\" })\n";

    #[test]
    fn a_format_gives_offsets_and_names() {
        let format = Format::parse(FORMAT).expect("a format");
        let mut raw = [0_u8; 32];
        raw[8..16].copy_from_slice(&0xffff_8881_0000_1000_u64.to_ne_bytes());
        raw[28..32].copy_from_slice(&73_u32.to_ne_bytes());
        let freed = format.read(5, &raw).expect("a record");
        assert_eq!(freed, Freed { skb: 0xffff_8881_0000_1000, reason: "TC_INGRESS".to_owned(), time: 5 });
        assert_eq!(format.read(5, &raw[..30]), None, "too short");
    }

    #[test]
    fn a_kernel_without_reasons_is_told() {
        let old = FORMAT.replace("reason;", "protocol;");
        let error = Format::parse(&old).expect_err("no reasons");
        assert!(error.to_string().contains("no field reason"), "{error}");
    }
}
