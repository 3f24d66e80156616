//! What outlives the process: programs, maps and links under names in a BPF file system, and beside them the record
//! of what they hold.
//!
//! ```text
//! <bpffs>/v<ABI>/maps/POLICY …          every map of the object
//! <bpffs>/v<ABI>/programs/from_pod …    the programs that the links run
//! <bpffs>/v<ABI>/links/<ifindex>-from_pod … also -to_wire, of a device by which packets leave the node
//! <state>/v<ABI>/…                      the journal
//! ```
//!
//! Invariants: a set `v<ABI>` is complete, since it is built under another name and renamed, and its journal is there
//! before it; there is one writer, who holds a lock on `<bpffs>`. Sets of other versions are never written: their links
//! are taken over one by one and what is left of them then goes. Knows no order of changes.

pub(crate) mod journal;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use netlab_ebpf::abi::{ABI_VERSION, Direction};
use nix::fcntl::{Flock, FlockArg};
use nix::sys::statfs::{BPF_FS_MAGIC, statfs};

use crate::attach::{Link, hook};
use crate::bpf;
use crate::events::{EventError, Events};
use crate::instance::{Datapath, Program};
use crate::maps::{self, MapError, PolicyMaps, StateMaps};
use crate::object::{CONSTANTS, PROGRAMS};

/// Where a node's enforcement is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PinPlace {
    /// A directory in a BPF file system; it is made when it is not there.
    pub bpffs: PathBuf,
    /// A directory in any other file system. It need not survive a reboot, which the pins do not either.
    pub state: PathBuf,
}

/// Why pins cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PinError {
    /// Not a BPF file system.
    #[error("{path} is not in a BPF file system: mount one there, with `mount -t bpf bpf {path}`", path = path.display())]
    NotBpffs {
        /// The directory.
        path: PathBuf,
    },
    /// Another process writes.
    #[error("{path} is in use: another netlab enforces there, stop it first", path = path.display())]
    InUse {
        /// The directory.
        path: PathBuf,
    },
    /// The pins are of another network namespace.
    #[error(
        "the pins in {path} belong to another network namespace: take them down from there, or use another directory \
         for this one", path = path.display()
    )]
    OtherNode {
        /// The directory.
        path: PathBuf,
    },
    /// The record is of a later netlab.
    #[error(
        "{path} has format {found}, but this netlab reads {expected}: use the netlab that wrote it, or move the file \
         away, then what is in force stays so until the next change", path = path.display()
    )]
    Format {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: u32,
        /// Ours.
        expected: u32,
    },
    /// The state cannot be written as text.
    #[error("cannot write the state as JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// A map cannot be read.
    #[error(transparent)]
    Map(#[from] MapError),
    /// The events cannot be read.
    #[error(transparent)]
    Events(#[from] EventError),
    /// A file or a pin cannot be made, read or removed.
    #[error("cannot {action} {path}: {source}", path = path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// With what.
        path: PathBuf,
        /// How it failed.
        source: io::Error,
    },
}

pub(crate) fn io_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> PinError {
    let path = path.to_owned();
    move |source| PinError::Io { action, path, source }
}

/// Links by interface and direction.
pub(crate) type Links = BTreeMap<(u32, Direction), Link>;

/// The pins of one writer.
#[derive(Debug)]
pub(crate) struct Pins {
    place: PinPlace,
    _lock: Flock<File>,
}

impl Pins {
    /// Takes the lock and removes what an earlier writer left half made.
    pub(crate) fn lock(place: &PinPlace) -> Result<Self, PinError> {
        fs::create_dir_all(&place.bpffs).map_err(io_error("make", &place.bpffs))?;
        let kind = statfs(&place.bpffs).map_err(|error| io_error("look at", &place.bpffs)(error.into()))?;
        if kind.filesystem_type() != BPF_FS_MAGIC {
            return Err(PinError::NotBpffs { path: place.bpffs.clone() });
        }
        let directory = File::open(&place.bpffs).map_err(io_error("open", &place.bpffs))?;
        let lock =
            Flock::lock(directory, FlockArg::LockExclusiveNonblock).map_err(|(_, error)| match error {
                nix::Error::EWOULDBLOCK => PinError::InUse { path: place.bpffs.clone() },
                error => io_error("lock", &place.bpffs)(error.into()),
            })?;
        let pins = Self { place: place.clone(), _lock: lock };
        remove_set(&pins.half_made())?;
        Ok(pins)
    }

    pub(crate) fn set(&self) -> PathBuf {
        self.place.set()
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.place.state.join(version())
    }

    fn half_made(&self) -> PathBuf {
        self.place.bpffs.join(format!("{}-half", version()))
    }

    /// The pinned maps of our set by name; `None` when there is no set.
    pub(crate) fn maps(&self) -> Result<Option<BTreeMap<String, Arc<OwnedFd>>>, PinError> {
        self.place.maps()
    }

    /// Names everything that is loaded, as a new set.
    pub(crate) fn make_set(&self, datapath: &Datapath) -> Result<(), PinError> {
        let half = self.half_made();
        remove_set(&half)?;
        for part in ["maps", "programs", "links"] {
            let path = half.join(part);
            fs::create_dir_all(&path).map_err(io_error("make", &path))?;
        }
        Self::pin_maps(&half, datapath)?;
        for (name, program) in named(datapath) {
            let path = half.join("programs").join(name);
            bpf::pin(program.fd(), &path).map_err(io_error("pin", &path))?;
        }
        fs::rename(&half, self.set()).map_err(io_error("rename", &half))
    }

    /// Puts the programs of `datapath` in the place of those that were pinned before, and pins what maps it has beyond.
    pub(crate) fn replace_programs(&self, datapath: &Datapath) -> Result<(), PinError> {
        let set = self.set();
        Self::pin_maps(&set, datapath)?;
        for (name, program) in named(datapath) {
            replace(program.fd(), &set.join("programs").join(name))?;
        }
        Ok(())
    }

    fn pin_maps(set: &Path, datapath: &Datapath) -> Result<(), PinError> {
        for (name, fd) in datapath.all_maps() {
            let path = set.join("maps").join(pin_name(name));
            if name == CONSTANTS {
                replace(fd.as_fd(), &path)?;
            } else if !path.exists() {
                bpf::pin(fd.as_fd(), &path).map_err(io_error("pin", &path))?;
            }
        }
        Ok(())
    }

    /// Where a link of ours has its pin.
    pub(crate) fn link_path(&self, ifindex: u32, direction: Direction) -> PathBuf {
        self.set().join("links").join(format!("{ifindex}-{}", program_name(direction)))
    }

    /// The same for a device by which packets leave the node.
    pub(crate) fn wire_path(&self, ifindex: u32) -> PathBuf {
        self.set().join("links").join(format!("{ifindex}-{}", PROGRAMS[2]))
    }

    /// The links of our set. Pins of links that are off their hooks go.
    pub(crate) fn links(&self) -> Result<Links, PinError> {
        read_links(&self.set(), false)
    }

    /// The links of other sets, with the programs that they run.
    pub(crate) fn inherited(&self) -> Result<Links, PinError> {
        let mut links = Links::new();
        for set in self.other_sets()? {
            links.extend(read_links(&set, true)?);
        }
        Ok(links)
    }

    fn other_sets(&self) -> Result<Vec<PathBuf>, PinError> {
        let (bpffs, ours) = (&self.place.bpffs, self.set());
        let mut sets = Vec::new();
        for entry in fs::read_dir(bpffs).map_err(io_error("list", bpffs))? {
            let path = entry.map_err(io_error("list", bpffs))?.path();
            if path.is_dir() && path != ours {
                sets.push(path);
            }
        }
        sets.sort_unstable();
        Ok(sets)
    }

    /// Moves our set out of the way, links and all: what it enforces stays in force, but nobody knows what that is.
    pub(crate) fn set_aside(&self) -> Result<(), PinError> {
        let set = self.set();
        let free = |number: &u32| !self.place.bpffs.join(format!("aside-{number}")).exists();
        let number = (1..u32::MAX).find(free).unwrap_or(0);
        let aside = self.place.bpffs.join(format!("aside-{number}"));
        fs::rename(&set, &aside).map_err(io_error("rename", &set))
    }

    /// Removes the other sets, and takes those of their links off that nobody took over.
    pub(crate) fn remove_other_sets(&self, spare: &mut Links) -> Result<(), PinError> {
        let inherited: Vec<_> =
            spare.iter().filter(|(_, link)| link.is_inherited()).map(|(key, _)| *key).collect();
        for key in inherited {
            if let Some(link) = spare.remove(&key) {
                link.release();
            }
        }
        self.other_sets()?.iter().try_for_each(|set| remove_set(set))
    }

    /// Removes our set, which must have no links any more, and its record.
    pub(crate) fn remove(&self) -> Result<(), PinError> {
        remove_set(&self.set())?;
        let state = self.state();
        match fs::remove_dir_all(&state) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(io_error("remove", &state)(error)),
            _ => Ok(()),
        }
    }
}

impl PinPlace {
    fn set(&self) -> PathBuf {
        self.bpffs.join(version())
    }

    fn maps(&self) -> Result<Option<BTreeMap<String, Arc<OwnedFd>>>, PinError> {
        let path = self.set().join("maps");
        let list = match fs::read_dir(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            list => list.map_err(io_error("list", &path))?,
        };
        let mut maps = BTreeMap::new();
        for entry in list {
            let path = entry.map_err(io_error("list", &path))?.path();
            let fd = bpf::open_pin(&path).map_err(io_error("open", &path))?;
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
            maps.insert(name.unwrap_or_default(), Arc::new(fd));
        }
        Ok(Some(maps))
    }
}

/// The maps of a set, for somebody who only looks. Events are consumed by whoever reads them.
#[derive(Debug)]
pub struct Pinned {
    /// What is in force.
    pub policy: PolicyMaps,
    /// What was seen.
    pub state: StateMaps,
    /// Decisions, as far as nobody else reads them.
    pub events: Events,
}

impl Pinned {
    /// Opens the set of this version; `None` when there is none. Takes no lock.
    ///
    /// # Errors
    /// [`PinError`] when it cannot be read.
    pub fn open(place: &PinPlace) -> Result<Option<Self>, PinError> {
        let Some(mut maps) = place.maps()? else { return Ok(None) };
        let events = Events::new(&*maps::fd(&mut maps, "EVENTS")?)?;
        Ok(Some(Self { policy: PolicyMaps::take(&mut maps)?, state: StateMaps::take(&mut maps)?, events }))
    }
}

fn version() -> String {
    format!("v{ABI_VERSION}")
}

/// Dots are not allowed in a BPF file system.
fn pin_name(map: &str) -> &str {
    map.trim_start_matches('.')
}

fn named(datapath: &Datapath) -> [(&'static str, &Program); 3] {
    let [from_pod, to_pod, to_wire] = PROGRAMS;
    let of = |direction| datapath.program(direction);
    [(from_pod, of(Direction::Egress)), (to_pod, of(Direction::Ingress)), (to_wire, datapath.to_wire())]
}

pub(crate) fn program_name(direction: Direction) -> &'static str {
    match direction {
        Direction::Egress => PROGRAMS[0],
        Direction::Ingress => PROGRAMS[1],
    }
}

/// Gives a name to something else, at once.
fn replace(fd: std::os::fd::BorrowedFd<'_>, path: &Path) -> Result<(), PinError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let next = path.with_file_name(format!("{name}-next"));
    remove_file(&next)?;
    bpf::pin(fd, &next).map_err(io_error("pin", &next))?;
    fs::rename(&next, path).map_err(io_error("rename", &next))
}

fn read_links(set: &Path, inherited: bool) -> Result<Links, PinError> {
    let path = set.join("links");
    let mut links = Links::new();
    let list = match fs::read_dir(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(links),
        list => list.map_err(io_error("list", &path))?,
    };
    for entry in list {
        let path = entry.map_err(io_error("list", &path))?.path();
        let fd = bpf::open_pin(&path).map_err(io_error("open", &path))?;
        let info = bpf::link_info(fd.as_fd()).map_err(io_error("ask about", &path))?;
        let direction = [Direction::Egress, Direction::Ingress]
            .into_iter()
            .find(|direction| hook(*direction) == info.attach_type);
        match direction.filter(|_| info.ifindex != 0) {
            Some(direction) => {
                let runs = if inherited {
                    Some(bpf::program_by_id(info.program).map_err(io_error("ask about", &path))?)
                } else {
                    None
                };
                links.insert((info.ifindex, direction), Link::pinned(fd, path, runs));
            }
            // The interface is gone, or somebody took the program off.
            None => remove_file(&path)?,
        }
    }
    Ok(links)
}

fn remove_file(path: &Path) -> Result<(), PinError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(io_error("remove", path)(error)),
        _ => Ok(()),
    }
}

/// Removes a set: names only, nothing is taken off.
fn remove_set(set: &Path) -> Result<(), PinError> {
    match fs::remove_dir_all(set) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(io_error("remove", set)(error)),
        _ => Ok(()),
    }
}
