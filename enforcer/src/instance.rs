//! A loaded instance of the object: its programs, its maps, what it does with a frame.
//!
//! Invariant: everything is held by file descriptors of this process and by nothing else; when the process ends,
//! by whatever signal, programs, links and maps are gone. Two instances of the same object that share policy maps
//! judge alike: they differ in what they have seen, not in code, constants or policy. Knows no order of writes
//! (`update` does) and no Kubernetes.
#![expect(clippy::missing_errors_doc, reason = "each error type says when it occurs")]

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::thread;

use aya_obj::generated::bpf_insn;
use netlab_ebpf::abi::{DEFER_MARK, Direction, Event};
use nix::time::{ClockId, clock_getres};

use crate::attach::{AttachError, Attached};
use crate::audit::Audit;
use crate::bpf::{self, MapShape};
use crate::events::{EventError, Events};
use crate::functions;
use crate::maps::{self, MapError, MapSizes, PolicyMaps, StateMaps};
use crate::object::{self, CONSTANTS, Code, Globals, Object, ObjectError};

/// How to load the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadOptions {
    /// Report every decision that is not a known flow's, with the packet's kernel address.
    pub lab: bool,
    /// Outside a lab: report one in so many allowed new flows; 0 for none. Denied packets are always reported.
    pub allowed_events: u32,
    /// The bit of packets' marks that stands for a verdict that is deferred until a Service's endpoint is known: one that
    /// nothing else on the node uses.
    pub defer_mark: u32,
    /// How much the maps hold.
    pub sizes: MapSizes,
}

impl LoadOptions {
    /// For a node.
    pub const NODE: Self =
        Self { lab: false, allowed_events: 0, defer_mark: DEFER_MARK, sizes: MapSizes::NODE };
    /// For a lab.
    pub const LAB: Self = Self { lab: true, allowed_events: 0, defer_mark: DEFER_MARK, sizes: MapSizes::LAB };
}

/// The tc datapath, loaded into the kernel.
///
/// ```no_run
/// use netlab_enforcer::{Datapath, LoadOptions};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let datapath = Datapath::load(&LoadOptions::LAB)?; // needs CAP_BPF and CAP_NET_ADMIN; leaves nothing behind
/// let maps = datapath.policy(); // write policy here: maps.policy.set_all(…), maps.devices.set(ifindex, …)
/// // On a thread inside the node's network namespace:
/// let attached = datapath.attach("veth-web")?; // both directions, first on their hooks; dropping it detaches
/// // A second instance on the same policy, to ask without disturbing:
/// let mut witness = datapath.second_instance()?;
/// assert_eq!(witness.identity()?, datapath.identity()?);
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Datapath {
    options: LoadOptions,
    from_pod: Program,
    to_pod: Program,
    to_wire: Program,
    policy: PolicyMaps,
    state: StateMaps,
    events: Events,
    constants: Arc<OwnedFd>,
    constants_size: usize,
    /// What the constants were set to.
    constants_set: Vec<u8>,
    maps: BTreeMap<String, Arc<OwnedFd>>,
}

/// A program in the kernel.
#[derive(Debug)]
pub struct Program {
    fd: OwnedFd,
    id: u32,
    tag: [u8; 8],
    verified: u32,
}

impl Program {
    /// The kernel's id, as `bpftool prog show id` takes it.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// The kernel's hash over the instructions.
    pub fn tag(&self) -> [u8; 8] {
        self.tag
    }

    /// How many instructions the kernel's verifier followed: what most of the time of a load goes into.
    pub fn verified_instructions(&self) -> u32 {
        self.verified
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// What makes two instances judge alike. Equal for an instance and its second.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// SHA-256 of the object.
    pub object: String,
    /// Tags of the programs that are loaded. A tag does not cover constants, hence the next field.
    pub tags: BTreeMap<Direction, [u8; 8]>,
    /// The constants, as read back from the kernel.
    pub constants: Vec<u8>,
    /// The kernel's ids of the policy maps, by name.
    pub policy_maps: BTreeMap<&'static str, u32>,
}

/// What a program did with a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TestRun {
    /// Whether the frame would pass.
    pub allow: bool,
    /// The decision's record; `None` for a packet of a known flow, and outside a lab for most that pass.
    pub event: Option<Event>,
}

impl Datapath {
    /// Loads the object with maps of its own.
    pub fn load(options: &LoadOptions) -> Result<Self, LoadError> {
        Self::load_with(options, &BTreeMap::new())
    }

    /// Loads the same object again, on the same policy maps but with flows, fragments, counters and events of its
    /// own: what it is asked changes nothing for live packets.
    pub fn second_instance(&self) -> Result<Self, LoadError> {
        Self::load_with(&self.options, &self.shared())
    }

    /// Loads the object on maps that are there already, as far as they are. Their sizes stay what they are.
    pub(crate) fn load_on(
        options: &LoadOptions,
        maps: &BTreeMap<String, Arc<OwnedFd>>,
    ) -> Result<Self, LoadError> {
        Self::load_with(options, maps)
    }

    fn shared(&self) -> BTreeMap<String, Arc<OwnedFd>> {
        self.policy.handles().into_iter().map(|(name, fd)| (name.to_owned(), fd)).collect()
    }

    /// Every map of the object, by its name there.
    pub(crate) fn all_maps(&self) -> impl Iterator<Item = (&str, &Arc<OwnedFd>)> {
        self.maps.iter().map(|(name, fd)| (name.as_str(), fd))
    }

    /// The same object once more, with one program only: all that a test-run of that direction needs, at half the
    /// verifier's time.
    pub fn witness(&self, direction: Direction) -> Result<WitnessInstance, LoadError> {
        let Prepared { codes: [from_pod, to_pod, to_wire], mut fds, constants_size, .. } =
            prepare(&self.options, &self.shared())?;
        let code = match direction {
            Direction::Egress => from_pod,
            Direction::Ingress => to_pod,
        };
        Ok(WitnessInstance {
            direction,
            defer_mark: self.options.defer_mark,
            program: load_program(&code)?,
            to_wire: load_program(&to_wire)?,
            policy: PolicyMaps::take(&mut fds)?,
            state: StateMaps::take(&mut fds)?,
            events: Events::new(&*maps::fd(&mut fds, "EVENTS")?)?,
            constants: maps::fd(&mut fds, CONSTANTS)?,
            constants_size,
        })
    }

    fn load_with(options: &LoadOptions, shared: &BTreeMap<String, Arc<OwnedFd>>) -> Result<Self, LoadError> {
        let Prepared { codes: [from_pod, to_pod, to_wire], mut fds, constants_size, constants_set } =
            prepare(options, shared)?;
        // The verifier takes most of the time of a load, and works on several at once.
        let (from_pod, to_pod, to_wire) = thread::scope(|scope| {
            let from_pod = scope.spawn(|| (load_program(&from_pod), load_program(&to_wire)));
            let to_pod = load_program(&to_pod);
            let (from_pod, to_wire) =
                from_pod.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            (from_pod, to_pod, to_wire)
        });
        Ok(Self {
            options: *options,
            constants_set,
            maps: fds.clone(),
            from_pod: from_pod?,
            to_pod: to_pod?,
            to_wire: to_wire?,
            policy: PolicyMaps::take(&mut fds)?,
            state: StateMaps::take(&mut fds)?,
            events: Events::new(&*maps::fd(&mut fds, "EVENTS")?)?,
            constants: maps::fd(&mut fds, CONSTANTS)?,
            constants_size,
        })
    }

    /// The maps that hold policy; shared with second instances.
    pub fn policy(&self) -> &PolicyMaps {
        &self.policy
    }

    /// What this instance saw: flows, fragments, counters.
    pub fn state(&self) -> &StateMaps {
        &self.state
    }

    /// The decisions that this instance reports.
    pub fn events(&mut self) -> &mut Events {
        &mut self.events
    }

    /// The program of a direction, seen from the pod.
    pub fn program(&self, direction: Direction) -> &Program {
        match direction {
            Direction::Egress => &self.from_pod,
            Direction::Ingress => &self.to_pod,
        }
    }

    /// The program of devices by which packets leave the node.
    pub fn to_wire(&self) -> &Program {
        &self.to_wire
    }

    /// How it was loaded.
    pub fn options(&self) -> &LoadOptions {
        &self.options
    }

    /// Attaches both programs to a pod's host-side interface, before all others on their hooks. Call it on a
    /// thread in the network namespace of that interface. Until its record is written to `DEVICES`, every packet
    /// of the interface is dropped as not ready.
    pub fn attach(&self, interface: &str) -> Result<Attached, AttachError> {
        Attached::new(interface, self)
    }

    /// Compares the programs and their constants with the object: each program must have the tag that the object gets
    /// when it is loaded anew, and read our policy maps.
    pub(crate) fn audit_programs(&self, audit: &mut Audit) -> Result<(), LoadError> {
        let cannot =
            |program: &'static str| move |source| LoadError::Verifier { program, source, log: String::new() };
        let again = self.second_instance()?;
        for (name, program, again) in [
            (object::PROGRAMS[0], &self.from_pod, &again.from_pod),
            (object::PROGRAMS[1], &self.to_pod, &again.to_pod),
            (object::PROGRAMS[2], &self.to_wire, &again.to_wire),
        ] {
            let info = bpf::program_info(program.fd()).map_err(cannot(name))?;
            audit.compared(name, Some(program.id), 1, info.tag.len());
            audit.bytes(name, "the tag", &again.tag, &info.tag);
            let maps = bpf::program_maps(program.fd()).map_err(cannot(name))?;
            for (map, id) in self.policy.ids() {
                // What was judged before the translation needs no Services after it.
                let not_needed = name == object::PROGRAMS[2] && map == "SERVICES";
                if !maps.contains(&id) && !not_needed {
                    audit.differs(name, format!("map {map} id {id}"), "is not among the maps that it reads");
                }
            }
        }
        let constants = constants(&self.constants, self.constants_size)?;
        audit.compared("constants", None, 1, constants.len());
        audit.bytes("constants", "the whole", &self.constants_set, &constants);
        Ok(())
    }

    /// What must be equal for two instances to judge alike.
    pub fn identity(&self) -> Result<Identity, MapError> {
        Ok(Identity {
            object: object::hash(),
            tags: BTreeMap::from([
                (Direction::Egress, self.from_pod.tag),
                (Direction::Ingress, self.to_pod.tag),
            ]),
            constants: constants(&self.constants, self.constants_size)?,
            policy_maps: self.policy.ids(),
        })
    }

    /// Runs the program of a direction on an Ethernet frame, as if it met the hook of `ifindex` having entered the
    /// node by `ingress_ifindex`. Both must be numbers of interfaces in this thread's network namespace. Flows
    /// are kept from one run to the next ([`StateMaps::forget_flows`]). The kernel takes frames of 14 to some 3,500
    /// bytes, and at least 34 for IPv4 and 54 for IPv6; it gives every such packet a socket, so with
    /// `ingress_ifindex` 0 it counts as the node's own.
    pub fn test_run(
        &mut self,
        direction: Direction,
        frame: &[u8],
        ifindex: u32,
        ingress_ifindex: u32,
    ) -> Result<TestRun, RunError> {
        let Self { from_pod, to_pod, events, .. } = self;
        let program = match direction {
            Direction::Egress => from_pod,
            Direction::Ingress => to_pod,
        };
        run_once(program, events, frame, ifindex, ingress_ifindex)
    }

    /// The same for `to_wire` on a frame with the mark of a deferred verdict.
    pub fn test_run_deferred(
        &mut self,
        frame: &[u8],
        ifindex: u32,
        ingress_ifindex: u32,
    ) -> Result<TestRun, RunError> {
        let Self { to_wire, events, options, .. } = self;
        run_deferred(to_wire, events, options.defer_mark, frame, (ifindex, ingress_ifindex))
    }

    /// Mean nanoseconds of a run, for benchmarks: the frame is judged `repeat` times.
    pub fn time(
        &self,
        direction: Direction,
        frame: &[u8],
        ifindex: u32,
        ingress_ifindex: u32,
        repeat: u32,
    ) -> Result<u32, RunError> {
        run(self.program(direction), frame, ifindex, ingress_ifindex, repeat)
            .map(|(_, nanoseconds)| nanoseconds)
    }

    /// Mean nanoseconds of a run of the smallest program there is: what a test run itself costs, to subtract.
    pub fn time_nothing(frame: &[u8], repeat: u32) -> Result<u32, RunError> {
        // r0 = -1; exit
        let instruction = |code, imm| bpf_insn { code, imm, ..no_operation() };
        let instructions = [instruction(0xb7, NEXT), instruction(0x95, 0)];
        let refused = |source| RunError::Refused { bytes: frame.len(), ifindex: 0, source };
        let program =
            bpf::load_classifier("nothing", &instructions, c"Apache-2.0 OR MIT", &[], None, &mut []);
        let program = program.map_err(refused)?;
        bpf::test_run(program.as_fd(), frame, &[], repeat)
            .map(|(_, nanoseconds)| nanoseconds)
            .map_err(refused)
    }
}

/// One program of the object on another instance's policy maps, to ask without disturbing.
#[derive(Debug)]
pub struct WitnessInstance {
    direction: Direction,
    defer_mark: u32,
    program: Program,
    to_wire: Program,
    policy: PolicyMaps,
    state: StateMaps,
    events: Events,
    constants: Arc<OwnedFd>,
    constants_size: usize,
}

impl WitnessInstance {
    /// See [`Datapath::test_run`]. The frame is judged as the first of its flow.
    pub fn test_run(
        &mut self,
        frame: &[u8],
        ifindex: u32,
        ingress_ifindex: u32,
    ) -> Result<TestRun, RunError> {
        self.state.forget_flows()?;
        run_once(&self.program, &mut self.events, frame, ifindex, ingress_ifindex)
    }

    /// The same for the program of a device by which a packet leaves the node, with the mark of a deferred verdict.
    pub fn test_run_deferred(
        &mut self,
        frame: &[u8],
        ifindex: u32,
        ingress_ifindex: u32,
    ) -> Result<TestRun, RunError> {
        self.state.forget_flows()?;
        let interfaces = (ifindex, ingress_ifindex);
        run_deferred(&self.to_wire, &mut self.events, self.defer_mark, frame, interfaces)
    }

    /// True when the other instance runs the same program of this direction, with the same constants, on the same
    /// policy maps.
    pub fn judges_like(&self, other: &Identity) -> Result<bool, MapError> {
        Ok(other.tags.get(&self.direction) == Some(&self.program.tag)
            && other.object == object::hash()
            && other.constants == constants(&self.constants, self.constants_size)?
            && other.policy_maps == self.policy.ids())
    }
}

/// The object with its maps, before the verifier sees it.
struct Prepared {
    /// `from_pod`, `to_pod`, `to_wire`.
    codes: [Code; 3],
    fds: BTreeMap<String, Arc<OwnedFd>>,
    constants_size: usize,
    constants_set: Vec<u8>,
}

fn prepare(options: &LoadOptions, shared: &BTreeMap<String, Arc<OwnedFd>>) -> Result<Prepared, LoadError> {
    let object = Object::read(Globals {
        seconds_per_jiffy: seconds_per_jiffy()?,
        lab: u32::from(options.lab),
        allowed_events: options.allowed_events,
        defer_mark: options.defer_mark,
    })?;
    let mut fds = BTreeMap::new();
    let mut constants_set = Vec::new();
    for (name, definition) in object.maps() {
        let fd = match shared.get(&name) {
            Some(fd) => {
                check_layout(&name, fd, definition.shape, options)?;
                Arc::clone(fd)
            }
            None => Arc::new(create(&name, definition.shape, options)?),
        };
        if !definition.data.is_empty() {
            constants_set.clone_from(&definition.data);
            bpf::update(fd.as_fd(), &0_u32.to_ne_bytes(), &definition.data)
                .and_then(|()| bpf::freeze(fd.as_fd()))
                .map_err(|source| LoadError::Map { map: name.clone(), source })?;
        }
        fds.insert(name, fd);
    }
    let numbers = fds.iter().map(|(name, fd)| (name.clone(), fd.as_raw_fd())).collect();
    let constants_size = constants_set.len();
    Ok(Prepared { codes: object.link(&numbers)?, fds, constants_size, constants_set })
}

fn constants(map: &OwnedFd, size: usize) -> Result<Vec<u8>, MapError> {
    let mut constants = vec![0; size];
    bpf::lookup(map.as_fd(), &0_u32.to_ne_bytes(), &mut constants).map_err(|source| MapError::Kernel {
        action: "read",
        map: CONSTANTS,
        source,
    })?;
    Ok(constants)
}

fn run_once(
    program: &Program,
    events: &mut Events,
    frame: &[u8],
    ifindex: u32,
    ingress_ifindex: u32,
) -> Result<TestRun, RunError> {
    events.drain();
    let (returned, _) = run(program, frame, ifindex, ingress_ifindex, 1)?;
    outcome(returned, events.drain().pop())
}

fn run_deferred(
    program: &Program,
    events: &mut Events,
    mark: u32,
    frame: &[u8],
    (ifindex, ingress_ifindex): (u32, u32),
) -> Result<TestRun, RunError> {
    events.drain();
    let (returned, _) = run_in(program, frame, ifindex, &context(ifindex, ingress_ifindex, mark), 1)?;
    outcome(returned, events.drain().pop())
}

fn outcome(returned: i32, event: Option<Event>) -> Result<TestRun, RunError> {
    match returned {
        NEXT => Ok(TestRun { allow: true, event }),
        DROP => Ok(TestRun { allow: false, event }),
        other => Err(RunError::Returned { returned: other }),
    }
}

fn run(
    program: &Program,
    frame: &[u8],
    ifindex: u32,
    ingress_ifindex: u32,
    repeat: u32,
) -> Result<(i32, u32), RunError> {
    run_in(program, frame, ifindex, &context(ifindex, ingress_ifindex, 0), repeat)
}

/// `struct __sk_buff`: only these fields are given.
fn context(ifindex: u32, ingress_ifindex: u32, mark: u32) -> [u8; 192] {
    let mut context = [0_u8; 192];
    for (offset, value) in [(8, mark), (36, ingress_ifindex), (40, ifindex)] {
        if let Some(field) = context.get_mut(offset..offset + 4) {
            field.copy_from_slice(&value.to_ne_bytes());
        }
    }
    context
}

fn run_in(
    program: &Program,
    frame: &[u8],
    ifindex: u32,
    context: &[u8],
    repeat: u32,
) -> Result<(i32, u32), RunError> {
    bpf::test_run(program.fd(), frame, context, repeat).map_err(|source| RunError::Refused {
        bytes: frame.len(),
        ifindex,
        source,
    })
}

/// An instruction with all fields zero.
fn no_operation() -> bpf_insn {
    bpf_insn { code: 0, _bitfield_align_1: [], _bitfield_1: bpf_insn::new_bitfield_1(0, 0), off: 0, imm: 0 }
}

/// `TCX_NEXT`.
const NEXT: i32 = -1;
/// `TCX_DROP`.
const DROP: i32 = 2;

fn create(name: &str, shape: MapShape, options: &LoadOptions) -> Result<OwnedFd, LoadError> {
    let max_entries = options.sizes.of(name).unwrap_or(shape.max_entries);
    let shape = match shape.kind {
        RING_BUFFER => MapShape { key_size: 0, value_size: 0, max_entries, ..shape },
        _ => MapShape { max_entries, ..shape },
    };
    bpf::create_map(name, shape).map_err(|source| match source.raw_os_error() {
        Some(libc::EPERM) => LoadError::NotAllowed,
        _ => LoadError::Map { map: name.to_owned(), source },
    })
}

/// Refuses a map that is not what the object's code takes it for.
fn check_layout(name: &str, fd: &OwnedFd, shape: MapShape, options: &LoadOptions) -> Result<(), LoadError> {
    let info = bpf::map_info(fd.as_fd()).map_err(|source| LoadError::Map { map: name.to_owned(), source })?;
    // Where sizes can be chosen, those of the map stay.
    let max_entries = options.sizes.of(name).map_or(shape.max_entries, |_| info.max_entries);
    let sizes = if shape.kind == RING_BUFFER { (0, 0) } else { (shape.key_size, shape.value_size) };
    let expected = MapShape { key_size: sizes.0, value_size: sizes.1, max_entries, ..shape };
    let found = MapShape {
        kind: info.kind,
        key_size: info.key_size,
        value_size: info.value_size,
        max_entries: info.max_entries,
        flags: info.flags,
    };
    if found == expected {
        return Ok(());
    }
    let words = |MapShape { kind, key_size, value_size, max_entries, flags }| {
        format!(
            "type {kind}, keys of {key_size} and values of {value_size} bytes, {max_entries} elements, flags {flags:#x}"
        )
    };
    Err(LoadError::OtherLayout { map: name.to_owned(), found: words(found), expected: words(expected) })
}

/// `BPF_MAP_TYPE_RINGBUF`: has neither keys nor values, though its definition names the records' type.
const RING_BUFFER: u32 = 27;

fn load_program(code: &Code) -> Result<Program, LoadError> {
    let refused = |source| LoadError::Verifier { program: code.name, source, log: String::new() };
    let types = bpf::load_types(&functions::types()).map_err(refused)?;
    let Code { name, license, instructions, functions } = code;
    let load = |log: &mut [u8]| {
        bpf::load_classifier(name, instructions, license, functions, Some(types.as_fd()), log)
    };
    let fd = match load(&mut []) {
        Ok(fd) => fd,
        Err(source) if source.raw_os_error() == Some(libc::EPERM) => return Err(LoadError::NotAllowed),
        Err(_) => {
            // Once more, for the verifier's words.
            let mut log = vec![0; 1 << 24];
            load(&mut log).map_err(|source| {
                let end = log.iter().position(|byte| *byte == 0).unwrap_or(log.len());
                let text = String::from_utf8_lossy(log.get(..end).unwrap_or_default()).into_owned();
                LoadError::Verifier { program: code.name, source, log: last_lines(&text) }
            })?
        }
    };
    let info = bpf::program_info(fd.as_fd()).map_err(|source| LoadError::Verifier {
        program: code.name,
        source,
        log: String::new(),
    })?;
    Ok(Program { fd, id: info.id, tag: info.tag, verified: info.verified })
}

/// The end of the verifier's log, which says why.
fn last_lines(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines.get(lines.len().saturating_sub(40)..).unwrap_or_default().join("\n")
}

/// 2^32 divided by the kernel's ticks per second, which is the resolution of its coarse clock.
fn seconds_per_jiffy() -> Result<u64, LoadError> {
    let resolution = clock_getres(ClockId::CLOCK_MONOTONIC_COARSE).map_err(LoadError::Clock)?;
    let nanoseconds = u64::try_from(resolution.tv_nsec()).unwrap_or(0);
    Ok((nanoseconds << 32) / 1_000_000_000)
}

/// Why the object could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The object itself.
    #[error(transparent)]
    Object(#[from] ObjectError),
    /// A map, once made.
    #[error(transparent)]
    Maps(#[from] MapError),
    /// The event ring.
    #[error(transparent)]
    Events(#[from] EventError),
    /// Missing privileges.
    #[error("loading BPF is not allowed: run as root, or with CAP_BPF and CAP_NET_ADMIN")]
    NotAllowed,
    /// The coarse clock cannot be asked.
    #[error("the kernel does not tell its tick: {0}")]
    Clock(nix::Error),
    /// A map could not be made.
    #[error("cannot make map {map}: {source}")]
    Map {
        /// The map.
        map: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A pinned map is of another netlab.
    #[error(
        "pinned map {map} has {found}, but this netlab uses {expected}: it was made by another netlab of the same \
         layout version; take it down with that one, or rename its directory, then what is in force stays so until \
         the next change"
    )]
    OtherLayout {
        /// The map.
        map: String,
        /// Its layout.
        found: String,
        /// Ours.
        expected: String,
    },
    /// The verifier refused.
    #[error("the kernel refuses program {program}: {source}\n{log}")]
    Verifier {
        /// The program.
        program: &'static str,
        /// The kernel's answer.
        source: io::Error,
        /// The end of the verifier's log.
        log: String,
    },
}

/// Why a test run has no result.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The flows of earlier runs could not be forgotten.
    #[error(transparent)]
    Flows(#[from] MapError),
    /// The kernel does not run it.
    #[error("the kernel does not test-run a frame of {bytes} bytes on interface {ifindex}: {source}")]
    Refused {
        /// The frame's length.
        bytes: usize,
        /// The interface.
        ifindex: u32,
        /// The kernel's answer.
        source: io::Error,
    },
    /// Neither of the two verdicts.
    #[error("the program returned {returned}, which is no verdict of ours")]
    Returned {
        /// What it returned.
        returned: i32,
    },
}
