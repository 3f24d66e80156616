//! State files: which labs are up, and whose they are.
//!
//! Invariant: see [`super`]. A file is written whole before its lab is announced, and removed by its supervisor
//! or, when that was killed, by the next command that comes across it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::check_name;
use super::files::Files;
use crate::error::LabError;
use crate::place::Place;

/// How often, and how far apart, to look again at a file that somebody is writing or removing.
const ATTEMPTS: usize = 50;
const PAUSE: Duration = Duration::from_millis(2);

/// What belongs to a lab besides its state file.
const ENDINGS: [&str; 3] = [".sock", ".log", ".files"];

/// The directory of state files and sockets, private to one user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunDir {
    path: PathBuf,
}

/// What is known of a lab that is up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// The lab's name.
    pub name: String,
    /// Its supervisor.
    pub pid: u32,
    /// When the supervisor started, in clock ticks since boot (`/proc/PID/stat`): tells it from a later process
    /// of the same number.
    pub started: u64,
    /// When the lab was made, in seconds since 1970.
    pub created: u64,
    /// Whether it lives in a user namespace.
    pub rootless: bool,
    /// The inode of every namespace.
    pub namespaces: BTreeMap<Place, u64>,
    /// The node of every pod, those on their node's network included.
    #[serde(default)]
    pub nodes: BTreeMap<Place, String>,
}

/// A process that lives in a lab.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// Its name (`/proc/PID/comm`).
    pub command: String,
    /// Where it lives.
    pub place: Place,
}

impl RunDir {
    /// `/run/netlab` for root, else `netlab` in `XDG_RUNTIME_DIR`, else `/tmp/netlab-UID`.
    pub fn for_user() -> Self {
        let user = nix::unistd::geteuid();
        if user.is_root() {
            return Self::at("/run/netlab");
        }
        match std::env::var_os("XDG_RUNTIME_DIR") {
            Some(directory) if !directory.is_empty() => Self::at(Path::new(&directory).join("netlab")),
            _ => Self::at(format!("/tmp/netlab-{user}")),
        }
    }

    /// This directory.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes the directory, for this user alone, or checks that it is his.
    pub(super) fn prepare(&self) -> Result<(), LabError> {
        let fail = |action, source| LabError::State { action, path: self.path.clone(), source };
        match DirBuilder::new().recursive(true).mode(0o700).create(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(fail("make the directory", error));
            }
            _ => {}
        }
        let metadata = self.path.symlink_metadata().map_err(|error| fail("look at", error))?;
        if !metadata.is_dir() || metadata.uid() != nix::unistd::geteuid().as_raw() {
            let stranger = io::Error::new(io::ErrorKind::PermissionDenied, "it is not a directory of yours");
            return Err(fail("use", stranger));
        }
        Ok(())
    }

    /// The socket of a lab.
    pub(super) fn socket(&self, name: &str) -> PathBuf {
        self.path.join(format!("{name}.sock"))
    }

    /// Where a supervisor's complaints go once nobody watches it.
    pub(super) fn log(&self, name: &str) -> PathBuf {
        self.path.join(format!("{name}.log"))
    }

    /// The files of a place of a lab: its directory is there as long as the lab is, and empty unless the lab has DNS.
    pub fn files(&self, name: &str, place: &Place) -> Files {
        Files::at(&self.directory(name), place)
    }

    /// Where a lab keeps the files of its places.
    fn directory(&self, name: &str) -> PathBuf {
        self.path.join(format!("{name}.files"))
    }

    fn state(&self, name: &str) -> PathBuf {
        self.path.join(format!("{name}.json"))
    }

    /// The state of a lab. What a dead supervisor left is removed.
    pub fn find(&self, name: &str) -> Result<State, LabError> {
        check_name(name)?;
        // A file that is locked but not yet written, or being removed by somebody else, is so for an instant.
        for _ in 1..ATTEMPTS {
            match self.look(name) {
                Err(LabError::State { action: "read", .. }) => std::thread::sleep(PAUSE),
                outcome => return outcome,
            }
        }
        self.look(name)
    }

    fn look(&self, name: &str) -> Result<State, LabError> {
        let not_up = || LabError::NotUp { name: name.to_owned() };
        let path = self.state(name);
        let fail = |action, source| LabError::State { action, path: path.clone(), source };
        let mut file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(not_up()),
            Err(error) => return Err(fail("open", error)),
        };
        match file.try_lock() {
            Ok(()) => {
                self.remove(name, &file);
                Err(not_up())
            }
            Err(TryLockError::WouldBlock) => {
                let mut text = String::new();
                file.read_to_string(&mut text).map_err(|error| fail("read", error))?;
                serde_json::from_str(&text).map_err(|error| fail("read", error.into()))
            }
            Err(TryLockError::Error(error)) => Err(fail("lock", error)),
        }
    }

    /// Every lab that is up, by name. What dead supervisors left is removed.
    pub fn list(&self) -> Result<Vec<State>, LabError> {
        let entries = match std::fs::read_dir(&self.path) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => return Err(LabError::State { action: "list", path: self.path.clone(), source }),
        };
        let mut names: Vec<String> = entries
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.strip_suffix(".json").map(str::to_owned))
            .filter(|name| check_name(name).is_ok())
            .collect();
        names.sort();
        let mut states = Vec::new();
        for name in names {
            match self.find(&name) {
                Ok(state) => states.push(state),
                Err(LabError::NotUp { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        self.sweep();
        Ok(states)
    }

    /// Takes the name of a lab that is about to be built: nobody else builds one of that name, and nobody takes its files for
    /// those of a dead one, as long as the claim is held.
    pub(super) fn claim(&self, name: &str) -> Result<Claim, LabError> {
        check_name(name)?;
        for _ in 0..ATTEMPTS {
            if let Some(claim) = self.try_claim(name)? {
                return Ok(claim);
            }
            if let Ok(other) = self.find(name) {
                return Err(LabError::AlreadyUp { name: other.name, pid: other.pid });
            }
            std::thread::sleep(PAUSE);
        }
        let reason = "another `lab up` of that name is under way".to_owned();
        Err(LabError::Supervisor { name: name.to_owned(), reason })
    }

    /// The same, at once; `None` when somebody has it.
    fn try_claim(&self, name: &str) -> Result<Option<Claim>, LabError> {
        let path = self.directory(name);
        let fail = |action, source| LabError::State { action, path: path.clone(), source };
        match DirBuilder::new().mode(0o755).create(&path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(fail("make", error)),
            _ => {}
        }
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(fail("open", error)),
        };
        match file.try_lock() {
            // Somebody may have removed it before we had the lock.
            Ok(()) => Ok(is_at(&file, &path).then_some(Claim { file, path })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(fail("lock", error)),
        }
    }

    /// Removes what labs left that were killed before they had a state file, or while they went. Whoever builds a lab has
    /// claimed its name before anything of it is there.
    fn sweep(&self) {
        let Ok(entries) = std::fs::read_dir(&self.path) else { return };
        let left: BTreeSet<String> = entries
            .flatten()
            .filter_map(|entry| {
                let name = entry.file_name().to_str()?.to_owned();
                ENDINGS.iter().find_map(|ending| name.strip_suffix(ending).map(str::to_owned))
            })
            .filter(|name| check_name(name).is_ok() && !self.state(name).exists())
            .collect();
        for name in left {
            let Ok(Some(_claim)) = self.try_claim(&name) else { continue };
            if !self.state(&name).exists() {
                for path in [self.socket(&name), self.log(&name)] {
                    let _ = std::fs::remove_file(path);
                }
            }
        }
    }

    /// Writes a state file and keeps it locked for as long as the file stays open.
    pub(super) fn publish(&self, state: &State) -> Result<File, LabError> {
        let path = self.state(&state.name);
        let fail = |action, source| LabError::State { action, path: path.clone(), source };
        for _ in 0..ATTEMPTS {
            let mut file = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o600)
                .open(&path)
                .map_err(|error| fail("make", error))?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    if let Ok(other) = self.find(&state.name) {
                        return Err(LabError::AlreadyUp { name: other.name, pid: other.pid });
                    }
                    // Somebody held the lock to remove a stale file.
                    std::thread::sleep(PAUSE);
                    continue;
                }
                Err(TryLockError::Error(error)) => return Err(fail("lock", error)),
            }
            // Somebody may have found the file stale and removed it before we had the lock.
            if !is_at(&file, &path) {
                continue;
            }
            let write = |file: &mut File| {
                file.set_len(0)?;
                file.write_all(serde_json::to_string_pretty(state)?.as_bytes())
            };
            write(&mut file).map_err(|error| fail("write", error))?;
            return Ok(file);
        }
        Err(fail("make", io::Error::other("others keep removing it")))
    }

    /// Removes what belongs to a lab. `file` is its locked state file.
    pub(super) fn remove(&self, name: &str, file: &File) {
        if is_at(file, &self.state(name)) {
            // The state file goes last: while it is there, nobody else makes a socket of this name.
            let _ = std::fs::remove_dir_all(self.directory(name));
            for path in [self.socket(name), self.log(name), self.state(name)] {
                let _ = std::fs::remove_file(path);
            }
        }
    }
}

/// A lab's name, taken: its directory, locked. The directory goes with it.
#[derive(Debug)]
pub(super) struct Claim {
    file: File,
    path: PathBuf,
}

impl Drop for Claim {
    fn drop(&mut self) {
        if is_at(&self.file, &self.path) {
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

fn is_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), path.symlink_metadata()) {
        (Ok(open), Ok(named)) => (open.dev(), open.ino()) == (named.dev(), named.ino()),
        _ => false,
    }
}

impl State {
    /// The processes that live in the lab, its supervisor aside.
    pub fn processes(&self) -> Vec<Process> {
        let places: BTreeMap<u64, &Place> =
            self.namespaces.iter().map(|(place, inode)| (*inode, place)).collect();
        let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
        let mut found: Vec<Process> = entries
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
            .filter(|pid| *pid != self.pid)
            .filter_map(|pid| {
                let inode = std::fs::metadata(format!("/proc/{pid}/ns/net")).ok()?.ino();
                let place = (*places.get(&inode)?).clone();
                let command = std::fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
                Some(Process { pid, command: command.trim_end().to_owned(), place })
            })
            .collect();
        found.sort_by_key(|process| process.pid);
        found
    }
}

/// When a process started, in clock ticks since boot (field 22 of `/proc/PID/stat`).
pub(super) fn start_time(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The command's name may hold spaces and parentheses; fields are counted after its last one.
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}
